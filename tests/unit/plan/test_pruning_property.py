"""Pruning never changes an answer: random conditions, joins and literals against plain DuckDB over the live
rows.

The source drops every row that `RowFilter` allows it to drop, so one bound too tight is one row too few.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from engine.errors import LivestateError
from engine.exec import engine_query
from engine.model.schema import define_store
from engine.service import QueryService
from tests.support.memory_source import MemorySource, memory_view
from tests.support.oracle import plain_database, plain_rows, sorted_rows
from tests.support.statement_time import statement_clock, with_statement_time

ROWS = pa.schema(
    [
        ("a", pa.int64()),
        ("b", pa.string()),
        ("i", pa.int32()),
        ("u", pa.uint8()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("d", pa.decimal128(6, 2)),
        ("s", pa.string()),
        ("t", pa.timestamp("us")),
        ("z", pa.timestamp("us", "UTC")),
        ("y", pa.date32()),
        ("o", pa.bool_()),
        ("x", pa.binary()),
    ]
)
MOMENTS = [
    None,
    *map(
        dt.datetime.fromisoformat,
        ["2024-01-01", "2024-01-01T12:00:00", "2024-01-02", "2024-01-02T00:00:00.000001"],
    ),
]
DAYS = [dt.date(2024, 1, day) for day in (1, 2, 3)]


def _row(place: int) -> tuple[object, ...]:
    """Rows that meet at the edges: NULLs, NaN, both zeros, extremes, prefixes of each other."""

    def pick(values: Sequence[object]) -> object:
        return values[(place * 7 if place % 2 else place) % len(values)]

    moment = pick(MOMENTS)
    return (
        place // 4 - 2,
        ["", "a", "ab", "b"][place % 4],
        pick([None, -1, 0, 1, 5, 2**31 - 1]),
        pick([None, 0, 1, 5, 255]),
        pick([None, float("nan"), -0.0, 0.0, 1.5, -2.0, float("inf"), 0.1, 5.0]),
        pick([None, float("nan"), -0.0, 0.0, 1.5, 5.0, 16777216.0]),
        pick([None, Decimal("0.00"), Decimal("1.50"), Decimal("5.00"), Decimal("-1.25"), Decimal("9999.99")]),
        pick([None, "", "a", "A", "ab", "abc", "b", "é", "5", "\U0010ffff", "a%", "a_c"]),
        moment,
        moment.replace(tzinfo=dt.UTC) if isinstance(moment, dt.datetime) else None,
        pick([None, *DAYS]),
        pick([None, True, False]),
        pick([None, b"", b"a", b"ab"]),
    )


LIVE = pa.Table.from_arrays(
    [
        pa.array(list(column), field.type)
        for column, field in zip(zip(*map(_row, range(48)), strict=True), ROWS, strict=True)
    ],
    schema=ROWS,
)
DEAD = LIVE.slice(5, 17)
OTHER = pa.table(
    {
        "a": pa.array([-2, -1, 0, 1, 5], pa.int64()),
        "v": pa.array(["a", "b", None, "ab", ""], pa.string()),
        "w": pa.array([0, 1, None, 5, 2], pa.int32()),
    }
)
TABLES = {"rows": LIVE, "other": OTHER}


@pytest.fixture(scope="module", autouse=True)
def pruned_joins() -> Iterator[None]:
    """Small stores of joins are pruned, as large ones are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_query, "FEW_JOINED_ROWS", 0)
        yield


@pytest.fixture(scope="module")
def service() -> Iterator[QueryService]:
    rows = define_store("rows", ROWS, ["a", "b"], partition_by=["a"])
    other = define_store("other", OTHER.schema, ["a"])
    found = QueryService(
        MemorySource([memory_view(rows, LIVE, DEAD), memory_view(other, OTHER)]), clock=statement_clock
    )
    yield found
    found.close()


@pytest.fixture(scope="module")
def whole() -> Iterator[duckdb.DuckDBPyConnection]:
    """All rows in an engine of its own."""
    with plain_database(TABLES) as connection:
        yield connection


TIMES = [
    "now()",
    "now() - INTERVAL 58 DAY",
    "now() - (now() - TIMESTAMPTZ '2024-01-01 12:00:00+00')",
    "current_localtimestamp() - (current_localtimestamp() - TIMESTAMP '2024-01-02')",
    "current_date - 59",
    "current_date - INTERVAL 59 DAY",
    "TIMESTAMP '2024-01-01' + INTERVAL 12 HOUR",
    "TIMESTAMPTZ '2024-01-01 00:00:00+00' + INTERVAL 1 DAY",
]
"""The statement's time is of February 29th."""
LITERALS = {
    "a": [
        "-2",
        "0",
        "1",
        "5",
        "3000000000",
        "99999999999999999999",
        "NULL",
        "1.0",
        "1.5",
        "'1'",
        "1e0",
        "TRUE",
        "2 - 1",
        "CAST(1 AS BIGINT)",
        "length('a')",
        "0.5 + 0.5",
        "3 / 3",
        "CAST(1 AS HUGEINT)",
        "CAST(NULL AS BIGINT)",
    ],
    "b": [
        "''",
        "'a'",
        "'ab'",
        "'b'",
        "NULL",
        "'a' COLLATE NOCASE",
        "'A'",
        "'a' || 'b'",
        "lower('A')",
        "lower('A') COLLATE NOCASE",
    ],
    "i": [
        "0",
        "5",
        "-1",
        "2147483647",
        "2147483648",
        "5.0",
        "4.5",
        "NULL",
        "'5'",
        "2 + 3",
        "CAST(5 AS SMALLINT)",
        "2147483647::BIGINT + 1",
        "least(5, 7)",
    ],
    "u": ["0", "5", "255", "256", "-1", "NULL", "250 + 5", "250 + 6", "5::UTINYINT"],
    "f": [
        "0",
        "-0.0",
        "1.5",
        "0.1",
        "5",
        "-2",
        "'nan'::DOUBLE",
        "'inf'::DOUBLE",
        "1e308",
        "NULL",
        "9007199254740993",
        "1 + 0.5",
        "1.5::FLOAT",
        "3 / 2",
        "0.1 + 0",
    ],
    "g": ["0", "1.5", "5", "16777217", "0.1", "NULL", "'nan'::FLOAT", "0.1::DOUBLE", "0.1::FLOAT", "3 / 2"],
    "d": [
        "0",
        "1.5",
        "1.50",
        "5",
        "-1.25",
        "1.505",
        "9999.99",
        "10000",
        "1000000",
        "NULL",
        "1.5e0",
        "1 + 0.5",
        "1.005 + 0.5",
        "3 / 2",
        "10 * 0.15",
    ],
    "s": [
        "''",
        "'a'",
        "'ab'",
        "'A'",
        "'é'",
        "'5'",
        "NULL",
        "'\U0010ffff'",
        "'a%'",
        "'a' || 'b'",
        "upper('a')",
    ],
    "t": [
        "'2024-01-01'",
        "'2024-01-01 12:00:00'",
        "TIMESTAMP '2024-01-02 00:00:00.000001'",
        "DATE '2024-01-02'",
        "TIMESTAMPTZ '2024-01-01 12:00:00+00'",
        "'2024-01-01T12:00:00Z'",
        "'2024-01-02 00:00:00.0000015'",
        "NULL",
        *TIMES,
    ],
    "z": [
        "'2024-01-01'",
        "'2024-01-01 12:00:00+01'",
        "TIMESTAMP '2024-01-02 00:00:00'",
        "DATE '2024-01-02'",
        "'2024-01-01 12:00:00Z'",
        "NULL",
        *TIMES,
    ],
    "y": [
        "'2024-01-01'",
        "DATE '2024-01-02'",
        "TIMESTAMP '2024-01-01 12:00:00'",
        "TIMESTAMP '2024-01-02 00:00:00'",
        "'2024-1-3'",
        "NULL",
        *TIMES,
        "DATE '2024-01-01' + 1",
    ],
    "o": ["TRUE", "FALSE", "NULL", "'true'"],
    "x": ["'a'::BLOB", "''::BLOB", "NULL"],
}
COLUMNS = sorted(LITERALS)
NAMES = ["{}", "{}", "r.{}", "R.{}", "({})"]


@st.composite
def row_conditions(draw: st.DrawFn) -> str:
    """Rows of columns, compared with rows of literals."""
    if draw(st.booleans()):
        members = st.tuples(st.sampled_from(LITERALS["a"][:4]), st.sampled_from(LITERALS["b"][:5]))
        rows = draw(st.lists(members, min_size=1, max_size=3))
        return f"(r.a, r.b) IN ({', '.join(f'({one}, {other})' for one, other in rows)})"
    columns = draw(st.sampled_from(["(r.a, r.b)", "(R.B, a)", "(a, r.b, s)", "(a, i)", "(r.a, r.a)"]))
    names = [name.split(".")[-1].lower() for name in columns.strip("()").split(", ")]
    row = ", ".join(draw(st.sampled_from(LITERALS[name])) for name in names)
    sides = [columns, f"({row})"]
    if draw(st.booleans()):
        sides.reverse()
    return f" {draw(st.sampled_from(['=', '<', '<=', '>', '>=']))} ".join(sides)


@st.composite
def comparisons(draw: st.DrawFn) -> str:
    column = draw(st.sampled_from(["a", "a", "b", "b", *COLUMNS]))
    name = draw(st.sampled_from(NAMES)).format(column.upper() if draw(st.booleans()) else column)
    literal = st.sampled_from(LITERALS[column])
    match draw(st.integers(0, 12)):
        case 0 | 1 | 2:
            return (
                f"{name} "
                f"{draw(st.sampled_from(['=', '==', '<', '<=', '>', '>=', '<>', 'IS NOT DISTINCT FROM']))} "
                f"{draw(literal)}"
            )
        case 3:
            return f"{draw(literal)} {draw(st.sampled_from(['=', '<', '<=', '>', '>=']))} {name}"
        case 4:
            return f"{name} {draw(st.sampled_from(['', 'NOT ']))}BETWEEN {draw(literal)} AND {draw(literal)}"
        case 5 | 6:
            return (
                f"{name} {draw(st.sampled_from(['', 'NOT ']))}IN "
                f"({', '.join(draw(st.lists(literal, min_size=1, max_size=4)))})"
            )
        case 7 | 11:
            return draw(row_conditions())
        case 8:
            pattern = draw(
                st.sampled_from(["a%", "ab%", "%b", "a_c", "", "\U0010ffff%", "é%", "a", "a$%%' ESCAPE '$"])
            )
            return (
                f"{draw(st.sampled_from(['s', 'r.b']))} "
                f"{draw(st.sampled_from(['LIKE', 'NOT LIKE', 'ILIKE']))} '{pattern}'"
            )
        case 9:
            return f"starts_with(s, {draw(st.sampled_from(LITERALS['s'][:5]))})"
        case 10:
            return f"{name} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
        case _:
            return draw(
                st.sampled_from(
                    [
                        "o",
                        "NOT o",
                        "a + 1 = 2",
                        "abs(a) = 1",
                        "a = i",
                        "r.a IN (SELECT a FROM other)",
                        "TRUE",
                        "b = 'a' OR b = 'b'",
                    ]
                )
            )


CONDITIONS = st.recursive(
    comparisons(),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda both: f"({both[0]} AND {both[1]})"),
        st.tuples(inner, inner).map(lambda both: f"{both[0]} AND {both[1]}"),
        st.tuples(inner, inner).map(lambda both: f"({both[0]} OR {both[1]})"),
        inner.map(lambda one: f"NOT ({one})"),
    ),
    max_leaves=6,
)
JOIN_CONDITIONS = [
    "r.a = q.a",
    "r.a = q.a AND q.w = 1",
    "r.a = q.a AND r.i = 0",
    "q.a = r.a AND r.b = q.v",
    "r.b = q.v",
    "q.w = 5",
]
VALUES = [
    "(VALUES (0), (1), (NULL)) q(a)",
    "(VALUES (1, 'a'), (0, 'b'), (7, NULL)) q(a, v)",
    "(VALUES ('a'), ('ab')) q(v)",
]


@st.composite
def queries(draw: st.DrawFn) -> str:
    where = draw(CONDITIONS)
    kind = draw(st.integers(0, 7))
    if kind <= 2:
        columns = draw(
            st.sampled_from(
                [
                    *("*", "a, b", "b, count(*) AS n", "a AS k, f, s", "r.a, r.*", "sum(i) AS n, min(s)"),
                    "count(*), count(s), sum(i) AS n, sum(d), sum(u), min(y), max(t) AS t_, max(s)",
                    # Which of the two zeros is the larger one depends on the order of rows.
                    "max(f) + 0 AS f_, min(d), max(z), count(x), max(i), sum(a)",
                ]
            )
        )
        group = " GROUP BY b" if columns.startswith("b, count") else ""
        return f"SELECT {columns} FROM rows r WHERE {where}{group}"
    if kind == 3:
        return (
            f"WITH r AS (SELECT * FROM rows r WHERE {where}) SELECT r.a, o.v FROM r LEFT JOIN other o ON "
            "r.a = o.a AND o.w > 0"
        )
    if kind == 4:
        return f"SELECT r.a, r.b FROM rows r WHERE {where} UNION ALL SELECT a, v FROM other WHERE a = 1"
    join = draw(st.sampled_from(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"]))
    if kind == 5:
        values = draw(st.sampled_from(VALUES))
        on = "r.a = q.a" if "(a" in values.split(" q")[1] else "r.b = q.v"
        on += " AND r.b = q.v" if "(a, v)" in values and draw(st.booleans()) else ""
        tables = (f"rows r {join} {values}", f"{values} {join} rows r")[
            draw(st.integers(0, 1)) if "SEMI" not in join and "ANTI" not in join else 0
        ]
        return (
            f"SELECT r.* FROM {tables} ON {on} WHERE {where}"
            if draw(st.booleans())
            else f"SELECT r.a, r.b, r.s FROM {tables} ON {on}"
        )
    if kind == 6:
        on = draw(st.sampled_from(JOIN_CONDITIONS))
        swapped = draw(st.booleans()) and join not in {"SEMI JOIN", "ANTI JOIN"}
        tables = f"other q {join} rows r" if swapped else f"rows r {join} other q"
        return f"SELECT count(*) AS n, count(r.a), count(r.s) FROM {tables} ON {on} WHERE {where}"
    using = draw(st.sampled_from(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]))
    condition = draw(st.sampled_from(["a = 1", "a >= 0 AND r.i = 0", "q.w IN (0, 1)", where]))
    return f"SELECT a, r.b, q.v FROM rows r {using} other q USING (a) WHERE {condition}"


SOURCES = [
    "rows r",
    "rows r",
    "(SELECT * FROM rows) r",
    "(SELECT * FROM rows WHERE i >= 0 OR s IS NULL) AS r",
    "(SELECT o, q.i, t, s, z, a, q.b AS b, f, g, d, u, y, x FROM rows q WHERE q.b <> 'a' AND a < 5) r",
    "(SELECT b, a, a AS i, u, f, g, d, s, t, z, y, o, x FROM rows) r",
]
"""What queries may read in place of `rows r`."""

TRICKY = (
    "SELECT a, b, f FROM rows WHERE f > 1",
    "SELECT a, b, g FROM rows WHERE g >= 16777216",
    "SELECT a, b, f FROM rows WHERE f BETWEEN 0 AND 0",
    "SELECT r.a, r.i, q.w FROM other q RIGHT JOIN rows r ON r.a = q.a AND r.i = 0",
    "SELECT r.a, r.i, q.w FROM other q FULL JOIN rows r ON r.a = q.a AND r.i = 0",
    "SELECT r.a, r.i, q.w FROM rows r LEFT JOIN other q ON r.a = q.a AND r.i = 0",
    "SELECT r.a, r.i FROM rows r ANTI JOIN other q ON r.a = q.a AND r.i = 0",
    "SELECT r.a, r.i FROM rows r ANTI JOIN other q ON r.a = q.a AND q.w = 0",
    "SELECT q.a, r.b FROM (VALUES (0), (1)) q(a) RIGHT JOIN rows r ON r.a = q.a",
    "SELECT q.a, r.b FROM rows r LEFT JOIN (VALUES (0), (1)) q(a) ON r.a = q.a",
    "SELECT q.a, r.b FROM rows r LEFT JOIN (VALUES (0), (1)) q(a) USING (a)",
    "SELECT q.a, r.b FROM rows r FULL JOIN (VALUES (0), (1)) q(a) USING (a) WHERE r.b = 'a' OR q.a = 0",
    "SELECT a FROM rows r RIGHT JOIN other q USING (a) WHERE a = 5",
    "SELECT a FROM rows r FULL JOIN other q USING (a) WHERE a = 5",
    "SELECT q.a FROM other q ASOF JOIN (SELECT * FROM rows WHERE b = 'a') r ON q.a >= r.a",
    "SELECT q.a, r.a, r.b FROM other q ASOF JOIN rows r ON q.a >= r.a AND r.b = q.v WHERE r.a = 0",
    "SELECT a + 1 AS a FROM rows WHERE a = 1",
    "SELECT a, b FROM (SELECT b AS a, a AS b FROM rows) WHERE b = 1",
    "SELECT a FROM (SELECT a + 1 AS a FROM rows) WHERE a = 1",
    "SELECT a FROM (SELECT a FROM rows LIMIT 100) WHERE a = 1",
    "SELECT n FROM (SELECT a, row_number() OVER (ORDER BY a, b) AS n FROM rows) WHERE a = 1",
    "SELECT count(*) FROM (SELECT DISTINCT i FROM rows) WHERE i = 0",
    "SELECT y, x FROM (SELECT a, b FROM rows) AS r(x, y) WHERE x = 1",
    "SELECT b AS a, a AS b FROM rows WHERE a = 1",
    "SELECT i AS a FROM rows WHERE a = 1",
    "SELECT a FROM rows WHERE a = 1 OR b = 'a'",
    "SELECT a, b FROM rows WHERE (a = 1 AND b = 'a') OR a = 2",
    "SELECT a, b FROM rows WHERE (a, b) IN ((1, 'a'), (2, NULL), (NULL, 'b'))",
    "SELECT a, b FROM rows WHERE (b, a) IN ((VALUES ('a', 1), ('b', 2)))",
    "SELECT a, b FROM rows WHERE (a, b) > (1, 'a')",
    "SELECT a, b FROM rows WHERE (2, 'a') >= (a, b)",
    "SELECT a, b FROM rows WHERE (a, b) < (1, NULL)",
    "SELECT a, b FROM rows WHERE (a, b) < (NULL, 'a')",
    "SELECT a, b FROM rows WHERE (a, b) > (1.5, 'a')",
    "SELECT a, b, i FROM rows WHERE (i, a) > (0, 1)",
    "SELECT a, b FROM rows WHERE (a, b) > (1, 'a') AND (a, b) <> (2, 'b') AND a < 3",
    "SELECT q.a, r.a, r.b FROM other q LEFT JOIN rows r ON r.a = q.a WHERE (r.a, r.b) > (0, 'a')",
    "SELECT q.a, r.a, r.b FROM other q LEFT JOIN rows r ON r.a = q.a AND (r.a, r.b) > (0, 'a')",
    "SELECT a, b FROM rows WHERE a > 1 OR (a = 1 AND b > 'a')",
    "SELECT a, b, f FROM rows WHERE f > 0.0 OR f = -0.0 OR f BETWEEN 1 AND 1.5",
    "SELECT a, b, f FROM rows WHERE (f > 0.0 AND f < 1) OR (f >= -0.0 AND f < 0.5)",
    "SELECT a, b, f FROM rows WHERE f < 0 OR f IS NULL",
    "SELECT a FROM rows WHERE a IN (VALUES (1), (2))",
    "SELECT a, b FROM rows WHERE a = 1 AND a IN (0, 1)",
    "SELECT a, b FROM rows WHERE a = 1 AND a = 2",
    "SELECT count(*) FROM rows WHERE d = 1.505 OR d = 10000",
    "SELECT a, d FROM rows WHERE d < 10000 AND d > -1.2501",
    "SELECT a, s FROM rows WHERE s LIKE 'a_%' AND s NOT LIKE 'ab%'",
    "SELECT a, s FROM rows WHERE s LIKE 'a$%' ESCAPE '$'",
    "SELECT (SELECT count(*) FROM rows i WHERE i.a = o.a AND i.b = 'a') AS n FROM rows o WHERE o.a = 1",
    "SELECT x.a FROM (SELECT a, row_number() OVER (ORDER BY a, b) AS n FROM rows) x WHERE x.n = 3",
    "SELECT a FROM rows GROUP BY a HAVING a = 1",
    "SELECT sum(i) OVER (ORDER BY a, b) AS total FROM rows QUALIFY a = 1",
    (
        "WITH RECURSIVE c(a) AS (SELECT 0 UNION ALL SELECT r.a + 1 FROM c JOIN rows r ON r.a = c.a WHERE "
        "r.b = 'a') SELECT * FROM c"
    ),
    "SELECT * FROM (rows r JOIN other q ON r.a = q.a) LEFT JOIN rows z ON z.a = q.w WHERE r.b = 'a'",
)


@pytest.mark.parametrize("sql", TRICKY)
def test_tricky_answers_equal_those_over_all_rows(
    service: QueryService, whole: duckdb.DuckDBPyConnection, sql: str
) -> None:
    with service.execute(sql) as result:
        assert sorted_rows(result.read_all()) == sorted_rows(whole.sql(sql).to_arrow_table())


@given(sql=st.builds(lambda sql, source: sql.replace("rows r", source), queries(), st.sampled_from(SOURCES)))
@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_answers_equal_those_over_all_rows(
    service: QueryService, whole: duckdb.DuckDBPyConnection, sql: str
) -> None:
    try:
        wanted = whole.sql(with_statement_time(sql)).to_arrow_table()
    except duckdb.Error:
        event("the engine refuses")
        return
    try:
        with service.execute(sql) as result:
            found = result.read_all()
    except LivestateError as error:
        raise AssertionError(f"{sql}\n{type(error).__name__}: {error.message}") from error
    event(result.metadata.plan)
    assert found.schema.names == wanted.schema.names
    assert sorted_rows(found) == sorted_rows(wanted), sql


@st.composite
def pages(draw: st.DrawFn) -> str:
    """Queries whose rows have one order: along the key, or a part of it behind values that are given."""
    conditions = draw(st.lists(comparisons(), max_size=3))
    columns = draw(st.sampled_from(["*", "a, b, f", "s, b AS c, a", "a AS k, b, x"]))
    direction = draw(st.sampled_from(["", " ASC", " DESC", " DESC NULLS FIRST", " NULLS LAST"]))
    first = "k" if " AS k" in columns and draw(st.booleans()) else "a"
    second = "c" if " AS c" in columns and draw(st.booleans()) else "r.b"
    order = f"{first}{direction}, {second}{direction}"
    if draw(st.booleans()):
        conditions.append(f"a = {draw(st.sampled_from(LITERALS['a'][:4]))}")
        order = draw(st.sampled_from([f"{second}{direction}", order]))
    together = " AND ".join(f"({each})" if " OR " in each else each for each in conditions)
    where = f" WHERE {together}" if conditions else ""
    limit = draw(st.sampled_from(["", " LIMIT 0", " LIMIT 1", " LIMIT 5", " LIMIT 100"]))
    offset = draw(st.sampled_from(["", "", " OFFSET 0", " OFFSET 3", " OFFSET 60"]))
    return f"SELECT {columns} FROM rows r{where} ORDER BY {order}{limit}{offset}"


@given(sql=pages())
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_pages_equal_those_over_all_rows(
    service: QueryService, whole: duckdb.DuckDBPyConnection, sql: str
) -> None:
    try:
        wanted = whole.sql(with_statement_time(sql)).to_arrow_table()
    except duckdb.Error:
        event("the engine refuses")
        return
    with service.execute(sql) as result:
        found = result.read_all()
    event(result.metadata.plan)
    assert found.schema.names == wanted.schema.names
    assert plain_rows(found) == plain_rows(wanted), sql
