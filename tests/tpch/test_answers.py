"""All queries of TPC-H on one host, two and four: the answers are those of plain DuckDB."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from tests.support.local_cluster import Cluster
from tests.tpch.answers import fetch, wrong
from tests.tpch.cluster import Loaded, tpch_cluster
from tests.tpch.stores import queries

QUERIES = queries()


@pytest.fixture(scope="module", params=[1, 2, 4], ids=lambda hosts: f"{hosts} hosts")
def cluster(
    request: pytest.FixtureRequest, tpch: Loaded, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    with tpch_cluster(tpch, tmp_path_factory.mktemp("hosts"), request.param) as hosts:
        yield hosts


@pytest.mark.parametrize("name", QUERIES)
def test_the_answer_is_that_of_duckdb(
    cluster: Cluster, plain_duckdb: duckdb.DuckDBPyConnection, name: str
) -> None:
    sql = QUERIES[name]
    asked = cluster.hosts[int(name[1:]) % len(cluster.hosts)]
    with cluster.services[asked].execute(sql) as result:
        found = result.read_all()
    expected = fetch(plain_duckdb, sql)
    assert wrong(sql, found, expected) is None
    assert cluster.services[asked].prepare(sql).schema == found.schema


def test_all_queries_are_there_and_have_answers(plain_duckdb: duckdb.DuckDBPyConnection) -> None:
    assert list(QUERIES) == [f"q{number:02}" for number in range(1, 23)]
    empty = {name for name, sql in QUERIES.items() if fetch(plain_duckdb, sql).num_rows == 0}
    assert empty <= {"q18"}
