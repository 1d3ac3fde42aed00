"""What hosts answer about a changelog, and what plain DuckDB answers about the events behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa

from engine.changelog import Changelog
from engine.cluster.reports import HostName
from engine.model.schema import Epoch
from engine.replica.follower_options import FollowerOptions
from tests.support.local_cluster import Cluster, following_cluster, host_names
from tests.support.waiting import PATIENCE_SECONDS


@contextmanager
def hosts_of(uri: str, directory: Path, count: int = 2) -> Iterator[Cluster]:
    """Hosts that share the stores of a changelog, as far as it goes now.

    Args:
        uri: The changelog.
        directory: For their data.
        count: How many hosts.
    """
    changelog = Changelog.open(uri)
    groups = {definition.group for definition in changelog.definitions().values()}
    # It is whole: they need not look for more.
    options = FollowerOptions(poll_seconds=1.0)
    with following_cluster(changelog, directory, host_names(count), options) as cluster:
        cluster.wait_for({group: Epoch(changelog.newest_epoch(group)) for group in groups}, PATIENCE_SECONDS)
        yield cluster


def rows_of(cluster: Cluster, sql: str) -> list[dict[str, object]]:
    """The rows of an answer, which has to be the same whichever host is asked."""
    answers = [_read(cluster, host, sql) for host in cluster.hosts]
    assert all(answer == answers[0] for answer in answers), sql
    return answers[0]


def _read(cluster: Cluster, host: HostName, sql: str) -> list[dict[str, object]]:
    with cluster.services[host].execute(sql) as result:
        rows: list[dict[str, object]] = pa.Table.from_batches(list(result), result.schema).to_pylist()
    return rows


def plain_rows(tables: Mapping[str, pa.Table], sql: str) -> list[dict[str, object]]:
    """The rows of an answer over plain tables.

    Args:
        tables: Every event, by name of its topic, and reference tables.
        sql: The query, in DuckDB's SQL.
    """
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        for name, table in tables.items():
            connection.register(name, table)
        rows: list[dict[str, object]] = connection.sql(sql).to_arrow_table().to_pylist()
    return rows
