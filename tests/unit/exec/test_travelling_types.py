"""Types that Arrow does not have: statements with them give the same on one host and on three."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import duckdb
import pyarrow as pa
import pytest

from engine.duckdb.results import check_travelling_types, check_types
from engine.errors import InvalidInput, Unsupported
from engine.model.schema import define_store
from tests.support.local_cluster import Cluster, host_names, memory_cluster

SCHEMA = pa.schema({"k": pa.int64(), "g": pa.string(), "f": pa.float64()})
ROWS = pa.table({"k": range(6), "g": list("abcabc"), "f": [1.5] * 6}, SCHEMA)
STATEMENTS = (
    "SELECT max((k, g))::VARCHAR AS x FROM t",
    "SELECT to_json(max((k, g))) AS x FROM t",
    "SELECT typeof(max([(k, g)])) AS x FROM t",
    "SELECT length(first(k::INT::BIT ORDER BY k)) AS x FROM t",
    "SELECT x::VARCHAR AS x FROM (SELECT [k::INT::BIT] x FROM t ORDER BY k LIMIT 1)",
    "SELECT first(k::VARIANT ORDER BY k)::VARCHAR AS x FROM t",
    "SELECT x::VARCHAR AS x FROM (SELECT {'a': '12:00:00+02'::TIMETZ} x FROM t ORDER BY k LIMIT 1)",
    "SELECT max({'h': 300000000000000000000000000000000000000::UHUGEINT})::VARCHAR AS x FROM t",
    "SELECT max(300000000000000000000000000000000000000::UHUGEINT + k::UHUGEINT)::VARCHAR AS x FROM t",
    "SELECT max('infinity'::TIMESTAMP_MS)::VARCHAR AS x FROM t",
    "SELECT max('-infinity'::TIMESTAMP_S)::VARCHAR AS x FROM t",
    "SELECT count(DISTINCT (g, {'a': k::HUGEINT})) AS x FROM t",
    "SELECT max(([NULL], k)) IS NULL AS x FROM t",
    "SELECT max((k, current_date, [g::ENUM('a','b','c')])) IS NULL AS x FROM t",
    "SELECT max(INTERVAL 3 HOUR * k)::VARCHAR AS x FROM t",
)


@pytest.fixture(scope="module", params=[1, 3])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    store = define_store("t", SCHEMA, ["k"], partitions=5)
    with memory_cluster([store], {"t": ROWS}, host_names(request.param)) as found:
        yield found


@pytest.mark.parametrize("sql", STATEMENTS)
def test_hosts_answer_as_duckdb_does(cluster: Cluster, sql: str) -> None:
    with duckdb.connect(":memory:") as plain:
        plain.register("t", ROWS)
        expected = [row[0] for row in plain.execute(sql).fetchall()]
    with cluster.services[cluster.hosts[0]].execute(sql) as result:
        assert result.read_all()["x"].to_pylist() == expected


@pytest.mark.parametrize("value", [(1 << 127) - 1, 1 << 127, (1 << 128) - 1])
@pytest.mark.parametrize(
    "within",
    [
        *("x", "[x]", "[[NULL], [x, 2]]", "[x, 1]::UHUGEINT[2]", "(-1, x)", "{'a': -1, 'b': {'c': [x]}}"),
        *("MAP {x: -1}", "MAP {-1: {'a': x}}", "[MAP {1: [x]}]", "[{'a': -1::DECIMAL(38, 0), 'b': x}]"),
    ],
)
def test_a_number_that_arrow_has_as_another_one_is_refused(cluster: Cluster, value: int, within: str) -> None:
    numbers = f"CASE WHEN k = 5 THEN {value}::UHUGEINT ELSE k::UHUGEINT END"
    sql = f"SELECT k, {within} AS y FROM (SELECT k, {numbers} AS x FROM t) ORDER BY k"
    if value < 1 << 127:
        with cluster.services[cluster.hosts[0]].execute(sql) as result:
            found = result.read_all()["y"]
        assert str(value) in str(found[5].as_py())
    else:
        with (
            pytest.raises(Unsupported, match="2\\^127 or more, which cannot be sent: cast it"),
            cluster.services[cluster.hosts[0]].execute(sql) as result,
        ):
            result.read_all()


@pytest.mark.parametrize("unit", ["S", "MS"])
def test_infinity_has_no_unit(cluster: Cluster, unit: str) -> None:
    moments = ", ".join(f"{text}::TIMESTAMP_{unit}" for text in ("'infinity'", "'-infinity'", "NULL"))
    sql = f"SELECT {moments}"
    with cluster.services[cluster.hosts[0]].execute(sql) as result:
        found = result.read_all()
    assert set(found.schema.types) == {pa.timestamp("us")}
    assert [column[0].value for column in found.columns] == [(1 << 63) - 1, 1 - (1 << 63), None]


def test_a_parameter_of_a_type_that_does_not_fit_is_the_clients(cluster: Cluster) -> None:
    values = pa.record_batch([pa.array([["a"]], pa.list_(pa.string()))], ["1"])
    with pytest.raises(InvalidInput, match="Cannot deduce template type"):
        cluster.services[cluster.hosts[0]].execute(
            "SELECT k FROM t WHERE list_contains($1, f)", values
        ).read_all()


@pytest.mark.parametrize(
    ("type_name", "is_sent", "travels"),
    [
        ("INTEGER", True, True),
        ("BIT", False, False),
        ("STRUCT(v BIT, w INTEGER)", False, False),
        ("VARIANT[]", False, False),
        ("MAP(VARCHAR, TIME WITH TIME ZONE)", False, False),
        ("TIMESTAMP WITH TIME ZONE[]", True, True),
        ("ENUM('BIT', 'a (TUPLE')", True, True),
        ('STRUCT("BIT" INTEGER, "x BIT" VARCHAR)', True, True),
        ("STRUCT(BIT INTEGER)", True, True),
        ("TUPLE(INTEGER, VARCHAR)[]", True, True),
        ("TUPLE(INTEGER, UHUGEINT)[]", True, False),
        ("STRUCT(h UHUGEINT)", True, False),
        ("INTERVAL[3]", True, True),
        ("DECIMAL(38,0)", True, True),
    ],
)
def test_types_within_types(type_name: str, is_sent: bool, travels: bool) -> None:
    with nullcontext() if is_sent else pytest.raises(Unsupported):
        check_types(["x"], [type_name])
    with nullcontext() if travels else pytest.raises(Unsupported):
        check_travelling_types([type_name])
