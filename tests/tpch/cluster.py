"""Hosts in this process that hold the stores of TPC-H at scale factor 0.01."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.changelog import Changelog
from engine.model.schema import Epoch
from engine.replica.follower import Follower
from engine.service import QueryOptions
from tests.support.local_cluster import Cluster, following_cluster, host_names
from tests.tpch.stores import GROUP, generate, load

SCALE_FACTOR = 0.01
EPOCHS = 5
WAIT_SECONDS = 60.0
OPTIONS = QueryOptions(
    memory_limit_bytes=512 << 20,
    threads=1,
    broadcast_limit_bytes=round(QueryOptions().broadcast_limit_bytes * SCALE_FACTOR),
)
"""What counts as small shrinks with the tables, so that plans are those of scale factor 1."""


@dataclass(frozen=True)
class Loaded:
    """The tables, and a changelog that has them.

    Attributes:
        tables: Directory of the Parquet files.
        changelog: The changelog.
        epoch: Its newest epoch.
    """

    tables: Path
    changelog: Changelog
    epoch: Epoch


def load_tables(directory: Path) -> Loaded:
    """Make the tables, and load them.

    Args:
        directory: An empty directory.
    """
    tables = directory / "tables"
    tables.mkdir()
    generate(tables, SCALE_FACTOR)
    changelog = Changelog.open(str(directory / "changelog"))
    return Loaded(tables, changelog, load(changelog, tables, EPOCHS))


@contextmanager
def tpch_cluster(source: Loaded, directory: Path, hosts: int) -> Iterator[Cluster]:
    """Hosts that have applied all of it.

    Args:
        source: What they follow.
        directory: An empty directory for their data.
        hosts: How many.

    Yields:
        The hosts, `a`, `b` and so on.
    """
    with following_cluster(source.changelog, directory, host_names(hosts), options=OPTIONS) as cluster:
        for follower in cluster.sources.values():
            assert isinstance(follower, Follower)
            assert follower.wait_for(GROUP, source.epoch, WAIT_SECONDS)
        yield cluster
