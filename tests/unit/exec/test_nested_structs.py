"""Structs within structs, of which the engine is given slices: parts of blocks are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from engine.changelog import Changelog, open_appender
from engine.model.schema import define_store
from tests.support.local_cluster import Cluster, following_cluster, host_names

ROWS = 20_000
NESTED = pa.struct({"a": pa.int32(), "b": pa.struct({"c": pa.int32()})})
TABLE = pa.table(
    {"k": range(ROWS), "n": pa.array([{"a": i, "b": {"c": i % 5}} for i in range(ROWS)], NESTED)}
)
WAIT_SECONDS = 60


@pytest.fixture(scope="module", params=[1, 2])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory: Path = tmp_path_factory.mktemp("nested")
    changelog = Changelog.open(str(directory / "changelog"))
    store = define_store("t", TABLE.schema, ["k"], partitions=request.param)
    appender = open_appender(changelog, [store])
    appender.append({"t": TABLE})
    with following_cluster(changelog, directory, host_names(request.param)) as found:
        found.wait_for({store.group: appender.epoch}, WAIT_SECONDS)
        yield found


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT n.b.c AS c, count(*) AS rows FROM t WHERE k > 9000 GROUP BY ALL ORDER BY ALL",
        "SELECT max(n) AS x FROM t WHERE k >= 9000",
        "SELECT sum(n.a) AS x FROM t WHERE k BETWEEN 5000 AND 15000",
        "SELECT k, n FROM t WHERE k > 9000 ORDER BY n DESC LIMIT 1",
        "SELECT count(DISTINCT n) AS x FROM t WHERE k > 100",
        "SELECT k, n FROM t WHERE k BETWEEN 777 AND 780 ORDER BY k",
    ],
)
def test_parts_of_blocks_are_read(cluster: Cluster, sql: str) -> None:
    with duckdb.connect(":memory:") as plain:
        plain.register("t", TABLE)
        expected = plain.sql(sql).to_arrow_table().to_pylist()
    with cluster.services[cluster.hosts[0]].execute(sql) as result:
        assert result.read_all().to_pylist() == expected
