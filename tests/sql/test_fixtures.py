"""Each SQL fixture lives many lives, with one golden answer.

On one host: in memory, straight, after compaction, after a restart, and rebuilt. With other numbers of
partitions, on one host and on three.

Golden answers come from plain DuckDB (`tests.sql.regenerate`), so nothing of livestate has a part in them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, StoreAppender, open_appender
from engine.model.schema import Epoch, GroupName
from engine.replica.follower import Follower
from engine.replica.follower_options import FollowerOptions
from engine.scan import StoreSource
from engine.service import QueryService
from engine.state.state_options import StateOptions
from tests.sql.fixture_files import answer_of, read_all
from tests.sql.stores import (
    DEFINITIONS,
    EPOCHS,
    REMOVED,
    dead_tables,
    definitions_with,
    epoch_tables,
    live_tables,
)
from tests.support.local_cluster import following_cluster, host_names
from tests.support.memory_source import MemorySource, memory_view

FIXTURES = read_all()
WAIT_SECONDS = 60.0
POLL_SECONDS = 1.0
"""Nothing comes once a life is there, and thousands of statements are asked: hosts need not look for more.
"""
UNCOMPACTED = StateOptions(block_rows=16, fan_out=1000, dead_share=2.0)
COMPACTED = StateOptions(block_rows=16, fan_out=2, dead_share=0.01)


@contextmanager
def _follow(
    changelog: Changelog, directory: Path, newest: dict[GroupName, Epoch], state: StateOptions
) -> Iterator[Follower]:
    follower = Follower(changelog, directory, FollowerOptions(poll_seconds=POLL_SECONDS, state=state))
    follower.start()
    try:
        for group, epoch in newest.items():
            assert follower.wait_for(group, epoch, WAIT_SECONDS)
        yield follower
    finally:
        follower.stop()


class _Producer:
    """Appends the epochs of the fixtures to a changelog; every store has so many partitions, or its own
    number of them.
    """

    def __init__(self, directory: Path, partitions: int | None = None) -> None:
        self.changelog = Changelog.open(str(directory))
        definitions = definitions_with(partitions)
        groups = sorted({definition.group for definition in definitions})
        stores = {group: [each for each in definitions if each.group == group] for group in groups}
        self._appenders: dict[str, StoreAppender] = {
            group: open_appender(self.changelog, stores[group]) for group in groups
        }
        self._groups = {definition.name: definition.group for definition in definitions}

    def append(self, first: int, last: int) -> dict[GroupName, Epoch]:
        """Append epochs `first` to `last` - 1, and tell the newest epoch of every group."""
        for epoch in EPOCHS[first:last]:
            by_group: dict[str, dict[str, pa.Table]] = {}
            for name, rows in epoch_tables(epoch).items():
                by_group.setdefault(
                    next(group for store, group in self._groups.items() if store == name), {}
                )[name] = rows
            for group, tables in by_group.items():
                self._appenders[group].append(tables, tombstone_column=REMOVED)
        return {GroupName(group): appender.epoch for group, appender in self._appenders.items()}


@contextmanager
def _in_memory(directory: Path) -> Iterator[StoreSource]:
    live, dead = live_tables(), dead_tables()
    yield MemorySource(
        [memory_view(definition, live[definition.name], dead[definition.name]) for definition in DEFINITIONS]
    )


@contextmanager
def _straight(directory: Path) -> Iterator[StoreSource]:
    producer = _Producer(directory / "changelog")
    with _follow(
        producer.changelog, directory / "data", producer.append(0, len(EPOCHS)), UNCOMPACTED
    ) as follower:
        yield follower


@contextmanager
def _after_compaction(directory: Path) -> Iterator[StoreSource]:
    producer = _Producer(directory / "changelog")
    with _follow(
        producer.changelog, directory / "data", producer.append(0, len(EPOCHS)), COMPACTED
    ) as follower:
        assert follower.wait_until_compact(WAIT_SECONDS)
        yield follower


@contextmanager
def _after_restart(directory: Path) -> Iterator[StoreSource]:
    producer = _Producer(directory / "changelog")
    half = len(EPOCHS) // 2
    with _follow(producer.changelog, directory / "data", producer.append(0, half), UNCOMPACTED):
        pass
    with _follow(producer.changelog, directory / "data", producer.append(half, len(EPOCHS)), COMPACTED):
        pass
    with _follow(producer.changelog, directory / "data", {}, UNCOMPACTED) as follower:
        for group, epoch in producer.append(0, 0).items():
            assert follower.wait_for(group, epoch, WAIT_SECONDS)
        yield follower


@contextmanager
def _after_rebuild(directory: Path) -> Iterator[StoreSource]:
    producer = _Producer(directory / "changelog")
    newest = producer.append(0, len(EPOCHS))
    with _follow(producer.changelog, directory / "data", newest, COMPACTED):
        pass
    shutil.rmtree(directory / "data")
    with _follow(producer.changelog, directory / "data", newest, UNCOMPACTED) as follower:
        yield follower


@contextmanager
def _with_partitions(directory: Path, partitions: int) -> Iterator[StoreSource]:
    producer = _Producer(directory / "changelog", partitions)
    with _follow(
        producer.changelog, directory / "data", producer.append(0, len(EPOCHS)), UNCOMPACTED
    ) as follower:
        yield follower


ONE_HOST: dict[str, Callable[[Path], AbstractContextManager[StoreSource]]] = {
    "in memory": _in_memory,
    "straight": _straight,
    "compacted": _after_compaction,
    "restarted": _after_restart,
    "rebuilt": _after_rebuild,
    "8 partitions": partial(_with_partitions, partitions=8),
    "64 partitions": partial(_with_partitions, partitions=64),
}

Services = tuple[QueryService, ...]


@contextmanager
def _one(
    directory: Path, source_of: Callable[[Path], AbstractContextManager[StoreSource]]
) -> Iterator[Services]:
    with source_of(directory) as source:
        service = QueryService(source)
        yield (service,)
        service.close()


@contextmanager
def _three(directory: Path, partitions: int | None) -> Iterator[Services]:
    producer = _Producer(directory / "changelog", partitions)
    newest = producer.append(0, len(EPOCHS))
    hosts = host_names(3)
    with following_cluster(
        producer.changelog,
        directory / "data",
        hosts,
        FollowerOptions(poll_seconds=POLL_SECONDS, state=UNCOMPACTED),
    ) as cluster:
        cluster.wait_for(newest, WAIT_SECONDS)
        yield tuple(cluster.services[host] for host in hosts)


LIVES: dict[str, Callable[[Path], AbstractContextManager[Services]]] = {
    **{name: partial(_one, source_of=source_of) for name, source_of in ONE_HOST.items()},
    "3 hosts": partial(_three, partitions=None),
    **{
        f"3 hosts, {partitions} partitions": partial(_three, partitions=partitions)
        for partitions in (1, 8, 64)
    },
}


@pytest.fixture(scope="module", params=LIVES)
def services(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    with LIVES[request.param](tmp_path_factory.mktemp("life")) as found:
        yield found


@pytest.mark.parametrize(
    "number", range(len(FIXTURES)), ids=lambda number: f"{FIXTURES[number].file}: {FIXTURES[number].title}"
)
def test_the_answer_is_golden(services: Services, number: int) -> None:
    """Whichever host is asked: they take turns."""
    fixture = FIXTURES[number]
    service = services[number % len(services)]
    with service.execute(fixture.sql) as result:
        found = result.read_all()
    assert answer_of(found, is_ordered=fixture.is_ordered) == fixture.answer
    assert service.prepare(fixture.sql).schema == result.schema


def test_fixtures_are_there() -> None:
    assert len(FIXTURES) >= 60
    assert len({(fixture.file, fixture.title) for fixture in FIXTURES}) == len(FIXTURES)
    assert all(fixture.answer for fixture in FIXTURES)
