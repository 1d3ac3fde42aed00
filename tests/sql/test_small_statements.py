"""Small statements of the whole grammar: what plain DuckDB answers over all rows, livestate answers alike,
and what DuckDB refuses, livestate refuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

from engine.duckdb.results import check_types, conversion, result_schema
from engine.errors import Defect, InvalidInput, LivestateError
from engine.model.schema import define_store
from engine.service import QueryService
from tests.sql.corner_statements import CORNER_STATEMENTS
from tests.sql.small_statements import SMALL_STATEMENTS
from tests.support.local_cluster import host_names, memory_cluster
from tests.support.oracle import sorted_rows

MOMENT = 1_704_067_200_000_000
TABLES = {
    "t": pa.table(
        {
            "a": pa.array([1, 2, 3, 4], pa.int64()),
            "b": ["x", "y", "x", None],
            "n": pa.array([10, None, 30, 40], pa.int32()),
        }
    ),
    "u": pa.table({"a": pa.array([2, 3, 5], pa.int64()), "c": ["p", "x", None]}),
    "r": pa.table(
        {
            "k": pa.array([1, 2, 3, 4, 5], pa.int64()),
            "g": ["a", "b", "a", None, "B"],
            "x": [0.5, float("nan"), -0.0, None, 1e300],
            "d": pa.array([Decimal("1.50"), Decimal("-2.25"), None, Decimal("0.00"), Decimal("99.99")]),
            "day": pa.array([19723, 19724, 19723, None, -1], pa.int32()).cast(pa.date32()),
            "ts": pa.array([MOMENT, MOMENT + 1, 0, None, -1], pa.timestamp("us")),
            "tz": pa.array([MOMENT, 0, MOMENT + 3_600_000_000, None, -1], pa.timestamp("us", "UTC")),
            "l": pa.array([[1, 2], [], [2, None], None, [3]], pa.list_(pa.int64())),
            "s": pa.array(
                [{"x": 1, "y": "a"}, {"x": 2, "y": None}, {"x": None, "y": "b"}, None, {"x": 1, "y": "a"}],
                pa.struct([("x", pa.int64()), ("y", pa.string())]),
            ),
            "m": pa.array(
                [[("p", 1)], [], [("p", None), ("q", 2)], None, [("p", 1)]], pa.map_(pa.string(), pa.int32())
            ),
        }
    ),
}
WORDS = ("order", "group", "from")
"""Words of SQL that are columns, too: what DuckDB refuses for something else must stay refused."""
WITH_WORDS = {
    name: rows.append_column(word, pa.array(range(rows.num_rows), pa.int64()))
    for (name, rows), word in zip(TABLES.items(), WORDS, strict=True)
}
SYSTEMS = {"1 host": (1, TABLES), "3 hosts, words as names": (3, WITH_WORDS)}
STATEMENTS = (*SMALL_STATEMENTS, *CORNER_STATEMENTS)
_SESSION = "what a session or the catalogue of the engine says is not told"
_UNKNOWN_FORM = "sqlglot does not know the form, and so it is refused"
_OWN_FORM = "livestate has a form of its own"
_NAME_AT_NUMBER = "a name stands behind a number without a blank"
_TOO_LARGE = "a number of 2^127 or more cannot be sent"
DIFFERENT = {
    "SELECT (1,) AS v": "a bracket, no row",
    "SELECT OPERATOR(-) 2 AS v": _UNKNOWN_FORM,
    "SELECT n FROM t ORDER BY n ASCENDING": _UNKNOWN_FORM,
    "; SELECT a FROM t": _UNKNOWN_FORM,
    "WITH x AS (SELECT 1), SELECT * FROM x": _UNKNOWN_FORM,
    "SELECT 1 AS select": _UNKNOWN_FORM,
    "FROM (DESCRIBE t)": "DESCRIBE stands alone",
    "SELECT main.abs(-1) AS v": "functions are called by their names alone",
    "SUMMARIZE 't'": "a store is named without quotation marks",
    "SELECT a FROM t AT (VERSION => 1)": "the same as AS OF EPOCH",
    "SELECT pg_sleep(0)": "no function waits",
    "SELECT [md5_number(repeat('0', 3))] AS a": _TOO_LARGE,
    "SELECT {'n': md5_number('b')} AS b, map {1: md5_number('d')} AS c": _TOO_LARGE,
    "SELECT k % 2 AS p, count(*) FROM r GROUP BY ALL HAVING mod(k, 2) > 0": "`mod` and `%` are one function",
    **dict.fromkeys(
        (
            "SUMMARIZE 'duckdb_databases'",
            "SUMMARIZE 'sqlite_master'",
            "SELECT * FROM duckdb_databases",
            "SELECT * FROM sqlite_master",
            "SELECT * FROM pg_catalog.pg_tables",
            "SELECT * FROM duckdb_tables()",
            "SELECT getvariable('v')",
            "SELECT current_setting('threads')",
            "SELECT * FROM pragma_version()",
            "SELECT * FROM query('SELECT 1')",
            "SELECT * FROM query_table('t')",
            "SELECT rowid FROM t",
            "SELECT k FROM r WHERE rowid = 0",
        ),
        _SESSION,
    ),
    **dict.fromkeys(
        ("SELECT user", "SELECT current_user", "SELECT session_user", "SELECT current_role"),
        "the client's own name",
    ),
    "SELECT * FROM information_schema.tables": "stores, of which none can be inserted into",
    "EXPLAIN (FORMAT GRAPHVIZ) SELECT k FROM r": _OWN_FORM,
    "SELECT max(n) EXPORT_STATE FROM t": "states of aggregates are not told",
}
"""Deliberate differences, and why; docs/sql.md names them."""
_TOLD_APART = ("EXPLAIN", "DESC", "SHOW")
"""Statements whose answers are livestate's own."""


@pytest.fixture(scope="module", params=list(SYSTEMS.values()), ids=list(SYSTEMS))
def system(request: pytest.FixtureRequest) -> tuple[int, Mapping[str, pa.Table]]:
    """How many hosts, and their rows."""
    hosts, tables = request.param
    return hosts, tables


@pytest.fixture(scope="module")
def service(system: tuple[int, Mapping[str, pa.Table]]) -> Iterator[QueryService]:
    hosts, tables = system
    definitions = [
        define_store(name, rows.schema, rows.schema.names[:1], partitions=4) for name, rows in tables.items()
    ]
    with memory_cluster(definitions, tables, host_names(hosts)) as cluster:
        yield cluster.services[cluster.hosts[0]]


@pytest.fixture(scope="module")
def plain(system: tuple[int, Mapping[str, pa.Table]]) -> Iterator[duckdb.DuckDBPyConnection]:
    options: dict[str, str | bool | int | float | list[str]] = {
        "python_enable_replacements": "false",
        "enable_external_access": "false",
    }
    with duckdb.connect(":memory:", config=options) as connection:
        for statement in ("SET TimeZone = 'UTC'", "ATTACH ':memory:' AS livestate", "USE livestate"):
            connection.execute(statement)
        for name, rows in system[1].items():
            connection.register("__rows", rows)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM __rows")
            connection.unregister("__rows")
        yield connection


def _plain_answer(connection: duckdb.DuckDBPyConnection, sql: str) -> pa.Table | None:
    """What DuckDB answers; None where it refuses, or the answer is of a type that no client can read."""
    try:
        if len(connection.extract_statements(sql)) != 1 and "PIVOT" not in sql:
            return None
        relation = connection.sql(sql)
        check_types(relation.columns, list(map(str, relation.types)))
        rows = relation.to_arrow_table()
        schema = result_schema(rows.schema)
    except (duckdb.Error, LivestateError):
        return None
    convert = conversion(rows.schema, schema)
    return pa.Table.from_batches([convert(batch) for batch in rows.to_batches()], schema)


def _answer(service: QueryService, sql: str) -> pa.Table | LivestateError:
    try:
        with service.execute(sql) as result:
            return result.read_all()
    except LivestateError as error:
        return error


def _rows(table: pa.Table) -> object:
    try:
        return sorted_rows(table)
    except OverflowError:
        # Dates that Python does not know.
        return table.to_string()


def _difference(service: QueryService, connection: duckdb.DuckDBPyConnection, sql: str) -> str | None:
    wanted, found = _plain_answer(connection, sql), _answer(service, sql)
    if isinstance(found, Defect):
        return f"a defect: {found.message}"
    if isinstance(found, LivestateError):
        return None if wanted is None else f"refused: {found.message}"
    if wanted is None:
        return "answered, though DuckDB refuses it"
    if sql.startswith(_TOLD_APART):
        return None
    if wanted.schema != found.schema:
        return f"columns {found.schema.to_string()} instead of {wanted.schema.to_string()}"
    prepared = service.prepare(sql)
    if prepared.schema != found.schema:
        return f"columns are told as {prepared.schema.to_string()} before"
    if prepared.origins and len(prepared.origins) != len(prepared.schema):
        return f"origins of {len(prepared.origins)} columns are told"
    return None if _rows(wanted) == _rows(found) else f"rows {_rows(found)} instead of {_rows(wanted)}"


@pytest.mark.parametrize("sql", [each for each in STATEMENTS if each not in DIFFERENT])
def test_both_answer_the_same_or_refuse(
    service: QueryService, plain: duckdb.DuckDBPyConnection, sql: str
) -> None:
    for _ in range(2):
        # Kept texts are not judged again.
        difference = _difference(service, plain, sql)
        assert difference is None, f"{sql}: {difference}"


@pytest.mark.parametrize("sql", DIFFERENT)
def test_deliberate_differences_are_differences(
    service: QueryService, plain: duckdb.DuckDBPyConnection, sql: str
) -> None:
    """Else a line in `DIFFERENT`, and in the docs, is not true any more."""
    assert sql in STATEMENTS
    assert _difference(service, plain, sql) is not None


UNQUOTED = {
    "SELECT order, a FROM t ORDER BY order DESC": 'SELECT "order", a FROM t ORDER BY "order" DESC',
    "SELECT max(ORDER), t.order + 1 AS v FROM t GROUP BY order HAVING min(order) > 1 ORDER BY order": (
        'SELECT max("ORDER"), t.order + 1 AS v FROM t GROUP BY "order" HAVING min("order") > 1 ORDER BY '
        '"order"'
    ),
    "SELECT t.a FROM t JOIN (SELECT a AS order FROM u) AS x USING (order)": (
        'SELECT t.a FROM t JOIN (SELECT a AS "order" FROM u) AS x USING ("order")'
    ),
    "SELECT * EXCLUDE (order) FROM t": 'SELECT * EXCLUDE ("order") FROM t',
    "SELECT * REPLACE (order * 2 AS order) FROM t": 'SELECT * REPLACE ("order" * 2 AS "order") FROM t',
    "WITH c AS (SELECT order, b FROM t) SELECT b, sum(order) FROM c GROUP BY b": (
        'WITH c AS (SELECT "order", b FROM t) SELECT b, sum("order") FROM c GROUP BY b'
    ),
    "SELECT group::VARCHAR || c FROM u WHERE group IN (0, 1)": (
        'SELECT "group"::VARCHAR || c FROM u WHERE "group" IN (0, 1)'
    ),
}


@pytest.mark.parametrize("sql", UNQUOTED)
@pytest.mark.parametrize("system", [SYSTEMS["3 hosts, words as names"]], indirect=True, ids=["3 hosts"])
def test_columns_that_are_words_need_no_quotation_marks(
    service: QueryService, plain: duckdb.DuckDBPyConnection, sql: str
) -> None:
    wanted, found = _plain_answer(plain, UNQUOTED[sql]), _answer(service, sql)
    assert wanted is not None
    assert isinstance(found, pa.Table), found
    assert wanted.schema == found.schema
    assert _rows(wanted) == _rows(found)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT order, max(order) AS m FROM t WHERE b > 'a' ? GROUP BY order",
        "SELECT a FROM t WHERE b > 'a' ? ORDER BY order",
        "SELECT order FROM t ORDER BY order LIMIT 1 ? 2",
    ],
)
@pytest.mark.parametrize("system", [SYSTEMS["3 hosts, words as names"]], indirect=True, ids=["3 hosts"])
def test_what_is_refused_beside_them_has_its_place(service: QueryService, sql: str) -> None:
    place = sql.index("?")
    found = _answer(service, sql.replace("?", "'b'" if "'a'" in sql else ","))
    assert isinstance(found, InvalidInput)
    assert found.position is not None
    assert (found.position.line, found.position.column) == (1, place + 1)


def test_every_type_of_the_engine_begins_literals(
    service: QueryService, plain: duckdb.DuckDBPyConnection
) -> None:
    names = [name for (name,) in plain.execute("SELECT DISTINCT type_name FROM duckdb_types()").fetchall()]
    values = ("5", "true", "2024-01-01", "10:00:00", "5f8a1c62-93d3-4e0f-8a3e-7d1b0c1d2e3f", "POINT (1 2)")
    begun = set()
    for name in names:
        for value in values:
            statement = f"SELECT {name} '{value}'::VARCHAR AS v, [{name} '{value}'] IS NULL AS n"
            try:
                expected = plain.execute(statement).fetchall()
            except duckdb.Error:
                continue
            (row,) = service.execute(statement).read_all().to_pylist()
            assert [tuple(row.values())] == expected, statement
            begun.add(name)
    assert {"uint8", "timestamptz_ns", "oid", "varchar"} <= begun
