"""Row values, names beyond ASCII, bound NULLs and marks of parameters: hosts answer as DuckDB does."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from engine.access.scope import Grant, scope_of
from engine.errors import LivestateError
from engine.model.schema import define_store
from tests.support.local_cluster import Cluster, host_names, memory_cluster

DAY = datetime(2024, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    {
        "tz": pa.timestamp("us", "UTC"),
        "d": pa.decimal128(10, 2),
        "k": pa.int32(),
        "v": pa.int32(),
        "w": pa.int32(),
    }
)
ROWS = pa.table(
    {
        "tz": [DAY] * 3,
        "d": [Decimal("1.00"), Decimal("1.49"), Decimal("2.00")],
        "k": [1, 2, 3],
        "v": [5, 7, None],
        "w": [None, 3, 1],
    },
    SCHEMA,
)
ACCENTS = pa.table({"é": [1, 2, 3], "v": [3, 1, 2]}, pa.schema({"é": pa.int32(), "v": pa.int32()}))
LATE = pa.table(
    {"day": pa.array([2932896, 2932897, 2147483646], pa.date32()), "v": pa.array([1, 2, 3], pa.int32())}
)
STORES = {
    "t": (define_store("t", SCHEMA, ["tz", "k"], partitions=4, partition_by=["tz"]), ROWS),
    "u": (define_store("u", SCHEMA, ["d", "k"], partitions=4), ROWS.slice(0, 2)),
    "accents": (define_store("accents", ACCENTS.schema, ["é"], partitions=3), ACCENTS),
    "Ü": (define_store("Ü", ACCENTS.schema, ["é"], partitions=3), ACCENTS.slice(0, 1)),
    "late": (define_store("late", LATE.schema, ["day"], partitions=4), LATE),
}


@pytest.fixture(scope="module", params=[1, 3])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    rows = {name: table.cast(store.schema) for name, (store, table) in STORES.items()}
    with memory_cluster([store for store, _ in STORES.values()], rows, host_names(request.param)) as found:
        yield found


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, (_, rows) in STORES.items():
            connection.register("rows_of_store", rows)
            connection.execute(f'CREATE TABLE "{name}" AS FROM rows_of_store')
        yield connection


def answer(cluster: Cluster, sql: str, values: pa.RecordBatch | None = None) -> pa.Table:
    with cluster.services[cluster.hosts[0]].execute(sql, values) as result:
        return result.read_all()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT d FROM t WHERE (v, w) IN ((5, NULL), (7, 3)) ORDER BY d",
        "SELECT d FROM t WHERE (v, w) IN (VALUES (5, NULL), (7, 3)) ORDER BY d",
        "SELECT d FROM t WHERE (v, w) = (NULL, 1) ORDER BY d",
        "SELECT d FROM t WHERE (v, k) = (NULL, 3) AND tz = TIMESTAMPTZ '2024-01-01 00:00:00+00' ORDER BY d",
        "SELECT t.d FROM t LEFT JOIN u ON t.d = u.d WHERE (u.d, u.k) = (NULL, NULL) ORDER BY 1",
        "SELECT t.d FROM t LEFT JOIN u ON t.d = u.d WHERE (u.v, u.w) IN ((7, 3), (NULL, NULL)) ORDER BY 1",
        "SELECT d FROM t WHERE (tz, k) = ('2024-01-01', 1)",
        "SELECT d FROM t WHERE (tz, k) = (TIMESTAMPTZ '2024-01-01 00:00:00+00', 1)",
        "SELECT d FROM t WHERE (tz, k) IN ((TIMESTAMPTZ '2024-01-01 00:00:00+00', 1), (NULL, 2))",
        "SELECT d FROM u WHERE (d, k) = (1::DECIMAL(38,0), 2) ORDER BY d",
        "SELECT d FROM u WHERE (d, k) IN ((1.49, 2), (1.00, 1)) ORDER BY d",
        "SELECT d FROM u WHERE (d, k) IN ((1, 1), (170141183460469231731687303715884105727, 1)) ORDER BY d",
        "SELECT d FROM u WHERE d IN (VALUES (1::DECIMAL(38,0))) ORDER BY d",
        "SELECT d FROM u WHERE d IN (VALUES (1.49), (7)) ORDER BY d",
        'SELECT "é" AS v, v AS "É" FROM accents ORDER BY "é" LIMIT 1',
        'SELECT o."É", (SELECT count(*) FROM accents WHERE "é" = "É") AS n FROM (SELECT 2 AS "É") o',
        'WITH "ü" AS (SELECT 9 AS v) SELECT v FROM "Ü"',
        'SELECT "É" FROM accents WHERE "é" = 1',
        'SELECT v FROM accents WHERE "É" = 1',
        'SELECT v FROM "ü"',
        'SELECT V FROM ACCENTS WHERE "é" = 1',
    ],
)
def test_hosts_answer_as_duckdb_does(cluster: Cluster, plain: duckdb.DuckDBPyConnection, sql: str) -> None:
    try:
        expected: list[Any] = plain.execute(sql).fetchall()
    except duckdb.Error:
        with pytest.raises(LivestateError):
            answer(cluster, sql)
    else:
        found = answer(cluster, sql)
        assert list(zip(*(column.to_pylist() for column in found.columns), strict=True)) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k FROM t WHERE v = coalesce(?, v) ORDER BY k",
        "SELECT coalesce(v, ?) AS x FROM t ORDER BY k",
        "SELECT v FROM t UNION ALL SELECT ? ORDER BY v",
        "SELECT greatest(v, ?) AS x FROM t ORDER BY k",
        "SELECT [v, ?] AS x FROM t ORDER BY k",
        "SELECT abs(?) AS x, count(*) AS n FROM t",
        "SELECT ? AS x FROM t LIMIT 1",
        "SELECT max(?) AS x FROM t",
        "SELECT k FROM t WHERE ? IS NULL ORDER BY k LIMIT 1",
        "SELECT d FROM t WHERE (v, k) = (?, 3)",
    ],
)
def test_a_null_takes_the_type_of_its_place(
    cluster: Cluster, plain: duckdb.DuckDBPyConnection, sql: str
) -> None:
    expected = plain.sql(sql, params=[None]).to_arrow_table()
    found = answer(cluster, sql, pa.record_batch([pa.nulls(1)], ["1"]))
    assert found.to_pylist() == expected.to_pylist()
    # DuckDB's own tables have INTEGER where nothing says more.
    types = [pa.int32() if pa.types.is_null(each) else each for each in expected.schema.types]
    assert found.schema.types == types


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("SELECT v FROM t WHERE k IN ($1,$2) ORDER BY k", [1, 2]),
        ("SELECT $1+$2 AS x", [1, 2]),
        ("SELECT $2||$1||$2 AS x", ["a", "b"]),
        ("SELECT count(*) AS n FROM (VALUES ($1,$2),($2,$1)) AS r", [1, 2]),
        ("SELECT $$1,$2$$ AS x, $1 AS y", [1]),
        ("SELECT $a$,$1,$a$ AS x,$1 AS y", [1]),
    ],
)
def test_marks_of_parameters_need_no_blanks(
    cluster: Cluster, plain: duckdb.DuckDBPyConnection, sql: str, values: list[Any]
) -> None:
    given = pa.record_batch([[value] for value in values], [str(place + 1) for place in range(len(values))])
    expected = plain.sql(sql, params=values).to_arrow_table()
    assert answer(cluster, sql, given).to_pylist() == expected.to_pylist()


def test_marks_with_names_need_no_blanks(cluster: Cluster) -> None:
    given = pa.record_batch([[1], [2], [3]], ["a", "b", "c"])
    assert answer(cluster, "SELECT $a,$b,$a,$c", given).to_pylist() == [{"$a": 1, "$b": 2, "$c": 3}]


@pytest.mark.parametrize("condition", ["day BETWEEN ? AND ?", "day >= ? AND day <= ? AND v < 9"])
def test_days_beyond_the_years_of_python_are_parameters(cluster: Cluster, condition: str) -> None:
    given = pa.record_batch([pa.array([day], pa.date32()) for day in (2932890, 2932900)], ["1", "2"])
    found = answer(cluster, f"SELECT v FROM late WHERE {condition}", given)
    assert sorted(found["v"].to_pylist()) == [1, 2]


def test_a_condition_of_a_role_is_about_the_column_of_its_very_name() -> None:
    schema = pa.schema({"k": pa.int32(), "ss": pa.string(), "ß": pa.string()})
    store = define_store("pay", schema, ["k"], partitions=3)
    rows = pa.table({"k": [1, 2], "ss": ["me", "boss"], "ß": ["x", "me"]}, schema)
    scope = scope_of((Grant(("pay",), rows="ss = claim('name')"),), "ann", {"name": "me"})
    with memory_cluster([store], {"pay": rows}, host_names(1)) as cluster:
        (host,) = cluster.hosts
        with cluster.services[host].restrict(scope).execute("SELECT * FROM pay") as result:
            assert result.read_all().to_pylist() == [{"k": 1, "ss": "me", "ß": "x"}]
