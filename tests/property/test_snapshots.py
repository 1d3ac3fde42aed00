"""Epochs, snapshots, drops, restarts, lost disks, deaths and failures in any order: hosts have the rows that
a dict has.

Hosts move only when the test says so, one step at a time. They die between any two changes of the changelog,
and stumble at any call of the changelog or of RocksDB, in any way. Whatever they show meanwhile is a whole
epoch: none from before their start, and none older than before.
"""

from __future__ import annotations

import copy
import itertools
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, cast
from unittest import mock

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.changelog import Changelog, SnapshotRetention, Writer
from engine.changelog.objects import Objects, open_objects
from engine.changelog.rows import partition_rows
from engine.changelog.snapshot import EPOCH_WEIGHT
from engine.model.kinds import Behaviour, Function, Merge, MergedColumn
from engine.model.schema import Epoch, GroupName, PartitionId, StoreDefinition, define_store
from engine.replica.catch_up import SECONDS_BETWEEN_DOUBTS
from engine.replica.commit_queue import LARGE_EPOCH_BYTES
from engine.replica.group import FollowedGroup
from engine.replica.group_setup import GroupSetup
from engine.replica.group_views import EpochRetention, GroupView
from engine.replica.snapshot_options import SnapshotOptions
from engine.replica.snapshot_schedule import DueSnapshot
from engine.replica.snapshotter import SnapshotMaker
from engine.state.cache import ColumnCache
from engine.state.live_rows import live_rows as stored_rows
from engine.state.partition import PartitionStore
from engine.state.rocks import Rocks, shared_options
from engine.state.state_options import StateOptions
from tests.support.failing import FAILURES, Failing, Faults
from tests.support.following import live_rows
from tests.support.quick_directory import quick_directory
from tests.support.stopping_objects import Stopped, StoppingObjects

GROUP = GroupName("g")
AMOUNTS = define_store(
    "amounts", pa.schema([("key", pa.int64()), ("amount", pa.int64())]), ["key"], partitions=2, group=GROUP
)
RATINGS = define_store(
    "ratings",
    pa.schema([("key", pa.int64()), ("__rating_sum", pa.float64()), ("__rating_count", pa.int64())]),
    ["key"],
    partitions=2,
    group=GROUP,
    behaviour=Behaviour(Merge((MergedColumn("rating", Function.AVG, "rating"),))),
)
ELSEWHERE = define_store("elsewhere", AMOUNTS.schema, ["key"], partitions=1, group=GROUP)
"""Not in every changelog; no host holds it."""
STATE = StateOptions(block_rows=4, fan_out=2)
SNAPSHOT_AFTER = 4 * EPOCH_WEIGHT
HELD: Mapping[str, Sequence[int]] = {"first": [0], "second": [0, 1]}
"""The first host is preferred for the partition that both have."""
UNTIL_DEAD = 12
UNTIL_STUMBLE = 60
LATER = 4_000_000_000_000_000
LONG = 1000.0

Action = tuple[Any, ...]
KEYS = st.integers(0, 5)
ACTIONS = st.one_of(
    st.tuples(
        st.just("append"), st.dictionaries(KEYS, st.none() | st.integers(0, 99), max_size=3), st.booleans()
    ),
    st.tuples(st.just("append many"), st.integers(1, 9)),
    st.tuples(st.just("repeat")),
    st.tuples(st.just("new writer")),
    st.tuples(st.just("follow"), st.sampled_from(sorted(HELD))),
    st.tuples(st.just("snapshot"), st.sampled_from(sorted(HELD)), st.sampled_from([0.0, LONG])),
    st.tuples(st.just("restart"), st.sampled_from(sorted(HELD))),
    st.tuples(st.just("lose disk"), st.sampled_from(sorted(HELD))),
    st.tuples(
        st.just("lose partition"),
        st.sampled_from(sorted(HELD)),
        st.sampled_from(["amounts/0", "amounts/1", "ratings/0"]),
    ),
    st.tuples(st.just("die"), st.sampled_from(sorted(HELD)), st.integers(0, UNTIL_DEAD)),
    st.tuples(
        st.just("stumble"),
        st.sampled_from(sorted(HELD)),
        st.integers(0, UNTIL_STUMBLE),
        st.sampled_from(FAILURES),
    ),
    st.tuples(st.just("drop"), st.integers(1, 2), st.integers(0, UNTIL_DEAD)),
)


@dataclass
class Model:
    """What the stores must contain."""

    amounts: dict[int, int] = field(default_factory=dict)
    ratings: dict[int, tuple[float, int]] = field(default_factory=dict)

    def apply(self, changes: Mapping[int, int | None], *, replaces: bool) -> None:
        if replaces:
            self.amounts.clear()
        for key, amount in changes.items():
            if amount is None:
                self.amounts.pop(key, None)
                continue
            self.amounts[key] = amount
            total, count = self.ratings.get(key, (0.0, 0))
            self.ratings[key] = (total + amount, count + 1)


@dataclass(frozen=True)
class StumblingSetup(GroupSetup):
    """The setup of a host whose partitions' RocksDB may fail."""

    faults: Faults = field(default_factory=Faults)

    def open(
        self,
        definition: StoreDefinition,
        partition: PartitionId,
        definition_at: Callable[[int], StoreDefinition],
    ) -> PartitionStore:
        with mock.patch(
            "engine.state.partition.Rocks",
            lambda *settings, **how: Failing(Rocks(*settings, **how), self.faults),
        ):
            return super().open(definition, partition, definition_at)


class Host:
    """A host without threads of its own.

    Args:
        objects: The changelog's objects.
        directory: For its data.
        name: Which one it is.
    """

    def __init__(self, objects: Objects, directory: Path, name: str) -> None:
        self.directory = directory
        self.watch: Callable[[GroupView], None] = lambda view: None
        self._held = [PartitionId(number) for number in HELD[name]]
        self._faults = Faults()
        self._sound = Changelog("memory://", {}, objects)
        self._objects = StoppingObjects(cast("Objects", Failing(objects, self._faults)))
        self._changelog = Changelog("memory://", {}, self._objects)
        self._workers = ThreadPoolExecutor(1)
        self._clock = itertools.count(0.0, 2 * SECONDS_BETWEEN_DOUBTS)
        self._due: DueSnapshot | None = None
        self.state: FollowedGroup | None = None
        self._has_stores = False
        self._least = Epoch(0)
        options = SnapshotOptions(
            SNAPSHOT_AFTER,
            SnapshotRetention(kept=1, tail_seconds=0),
            rank=partial(self._rank, name),
            patience_seconds=LONG,
        )
        self._maker = SnapshotMaker(self._changelog, options, lambda: LATER, Event())

    @staticmethod
    def _rank(name: str, definition: StoreDefinition, partition: PartitionId) -> int:
        return 1 if name == "second" and partition == 0 else 0

    def open_group(self) -> FollowedGroup:
        setup = StumblingSetup(
            directory=self.directory,
            cache=ColumnCache(STATE.cache_bytes),
            options=STATE,
            shared_options=shared_options(STATE),
            held=lambda definition: [] if definition == ELSEWHERE else self._held,
            retention=EpochRetention(seconds=0.0, versions=2, bytes=1 << 20),
            workers=self._workers,
            request_compaction=lambda group, store: None,
            snapshot_after=SNAPSHOT_AFTER,
            now=lambda: LATER,
            clock=partial(next, self._clock),
            faults=self._faults,
        )
        self.state = FollowedGroup(GROUP, self._changelog, setup)
        self._has_stores, self._least = False, self._sound.newest_epoch(GROUP)
        return self.state

    def start(self) -> FollowedGroup:
        state = self.open_group() if self.state is None else self.state
        if not self._has_stores:
            state.add_stores(self._changelog.definitions().values())
            self._has_stores = True
        return state

    def follow(self) -> None:
        state = self.start()
        idle = 0
        while idle < 2:  # the first time it may come to doubt that nothing follows
            idle = 0 if any((state.step(), state.rebuild())) else idle + 1
            self._due = state.take_due_snapshot() or self._due
            self.look_at_view()

    def look_at_view(self) -> None:
        view = None if self.state is None else self.state.view
        if view is not None:
            assert view.epoch >= self._least, (
                "it shows what was not the newest when it started, or less than before"
            )
            self._least = view.epoch
            self.watch(view)

    def stumble(self, calls: int, failure: Callable[[], BaseException]) -> None:
        """Follow and write snapshots, fail once on the way, and go on."""
        self._faults.arm(calls, failure)
        try:
            self.follow()
            self.snapshot(LONG)
        except AssertionError:
            raise
        except BaseException:
            if self._faults.raised is None:
                raise
        finally:
            self._faults.disarm()
        self.look_at_view()

    def snapshot(self, waited: float) -> None:
        if self._due is not None and self._maker.advance(*self._due, waited):
            self._due = None

    def die_after(self, changes: int) -> None:
        """Follow and write snapshots, and be gone after some changes."""
        self._objects.changes = changes
        with suppress(Stopped):
            self.follow()
            self.snapshot(LONG)
        self._objects.changes = None
        self.stop(cleanly=False)

    def stop(self, *, cleanly: bool) -> None:
        self._due = None
        if self.state is None:
            return
        if cleanly:
            self.state.close()
        else:
            for store in self.state.partitions:
                store._storage.close()
        self.state = None

    def lose_disk(self, part: str = "") -> None:
        self.stop(cleanly=False)
        shutil.rmtree(self.directory / GROUP / part if part else self.directory, ignore_errors=True)

    def contents(self) -> tuple[dict[int, int], dict[int, tuple[float, float, int]]]:
        self.follow()
        assert self.state is not None
        view = self.state.view
        assert view is not None
        assert not self.state.is_rebuilding
        assert view.epoch == self._changelog.newest_epoch(GROUP)
        amounts = live_rows(view.store(AMOUNTS.name, self._held)).to_pylist()
        versions = view.store(RATINGS.name, self._held).versions.values()
        ratings = [
            row
            for version in versions
            for batch in stored_rows(version, 1 << 20)
            for row in batch.to_pylist()
        ]
        found = {row["key"]: (row["rating"], row["__rating_sum"], row["__rating_count"]) for row in ratings}
        return {row["key"]: row["amount"] for row in amounts}, found

    def close(self) -> None:
        self.stop(cleanly=True)
        self._workers.shutdown()


@dataclass
class World:
    """A changelog, its writer and hosts, beside what they must contain."""

    directory: Path
    objects: Objects
    writer: Writer
    hosts: Mapping[str, Host]
    model: Model = field(default_factory=Model)
    batch: int = 0
    models: dict[Epoch, Model] = field(default_factory=lambda: {Epoch(0): Model()})

    def __post_init__(self) -> None:
        for host in self.hosts.values():
            host.watch = partial(self.check_view, host)

    def check_view(self, host: Host, view: GroupView) -> None:
        """See that a view shows what the model was at its epoch."""
        there = (
            [PartitionId(number) for number in sorted(view.stores[AMOUNTS.name].versions)]
            if AMOUNTS.name in view.stores
            else []
        )
        if not there:
            return
        model = self.models[max((epoch for epoch in self.models if epoch <= view.epoch), default=Epoch(0))]
        wanted = {
            key: amount for number in there for key, amount in _partition_model(model, number).amounts.items()
        }
        amounts = live_rows(view.store(AMOUNTS.name, there)).to_pylist()
        assert {row["key"]: row["amount"] for row in amounts} == wanted

    def append(self, changes: Mapping[int, int | None], *, replaces: bool) -> None:
        self.batch += 1
        placed = {AMOUNTS.name: partition_rows(AMOUNTS, _amounts(changes), tombstone_column="gone")}
        placed[RATINGS.name] = partition_rows(RATINGS, _ratings(changes))
        commit = self.writer.append(
            placed, query_id="q", batch_id=self.batch, replaced=[AMOUNTS.name] if replaces else []
        )
        self.model.apply(changes, replaces=replaces)
        self.models[commit.epoch] = copy.deepcopy(self.model)

    def repeat(self) -> None:
        if self.batch:
            rows = {AMOUNTS.name: partition_rows(AMOUNTS, _amounts({0: 1000}), tombstone_column="gone")}
            assert self.writer.append(
                rows, query_id="q", batch_id=self.batch
            ).epoch == self.writer.committed_epoch("q", self.batch)

    def run(self, action: Action) -> None:
        what, *given = action
        match what:
            case "append":
                self.append(given[0], replaces=given[1])
            case "append many":
                for number in range(given[0]):
                    self.append({number % 6: number}, replaces=False)
            case "repeat":
                self.repeat()
            case "new writer":
                self.writer = Changelog("memory://", {}, self.objects).writer(GROUP, "w")
            case "drop":
                self.drop(*given)
            case _:
                self.tell(self.hosts[given[0]], what, given[1:])

    def tell(self, host: Host, what: str, given: Sequence[Any]) -> None:
        actions: Mapping[str, Callable[[], None]] = {
            "follow": host.follow,
            "snapshot": lambda: host.snapshot(given[0]),
            "restart": lambda: host.stop(cleanly=True),
            "lose disk": host.lose_disk,
            "lose partition": lambda: host.lose_disk(given[0]),
            "die": lambda: host.die_after(given[0]),
            "stumble": lambda: host.stumble(*given),
        }
        actions[what]()

    def drop(self, kept: int, changes: int) -> None:
        objects = StoppingObjects(self.objects, changes)
        with suppress(Stopped):
            Changelog("memory://", {}, objects).drop(
                GROUP, SnapshotRetention(kept=kept, tail_seconds=0), LATER
            )

    def check(self) -> None:
        everything = Host(self.objects, self.directory / "new", "second")
        try:
            for host in (everything, *self.hosts.values()):
                amounts, ratings = host.contents()
                held = host is everything or host is self.hosts["second"]
                wanted = self.model if held else _partition_model(self.model, 0)
                assert amounts == wanted.amounts
                assert ratings == {
                    key: (total / count, total, count) for key, (total, count) in wanted.ratings.items()
                }
        finally:
            everything.close()


def _amounts(changes: Mapping[int, int | None]) -> pa.Table:
    gone = pa.array([amount is None for amount in changes.values()], pa.bool_())
    return pa.table(
        {"key": pa.array(changes, pa.int64()), "amount": pa.array(changes.values(), pa.int64()), "gone": gone}
    )


def _ratings(changes: Mapping[int, int | None]) -> pa.Table:
    rated = {key: amount for key, amount in changes.items() if amount is not None}
    sums = pa.array([float(amount) for amount in rated.values()], pa.float64())
    return pa.table(
        {
            "key": pa.array(rated, pa.int64()),
            "__rating_sum": sums,
            "__rating_count": pa.array([1] * len(rated), pa.int64()),
        }
    )


def _partition_model(model: Model, number: int) -> Model:
    placed = partition_rows(AMOUNTS, _amounts(dict.fromkeys(range(6), 0)), tombstone_column="gone")
    keys = set(placed[PartitionId(number)].column("key").to_pylist()) if number in placed else set()
    return Model(
        {key: value for key, value in model.amounts.items() if key in keys},
        {key: value for key, value in model.ratings.items() if key in keys},
    )


@contextmanager
def world() -> Iterator[World]:
    objects = open_objects("memory://", {})
    changelog = Changelog("memory://", {}, objects)
    for definition in (AMOUNTS, RATINGS):
        changelog.create_store(definition)
    with quick_directory() as directory:
        hosts = {host: Host(objects, directory / host, host) for host in HELD}
        try:
            yield World(directory, objects, changelog.writer(GROUP, "w"), hosts)
        finally:
            for host in hosts.values():
                host.close()


@settings(max_examples=60)
@given(st.lists(ACTIONS, max_size=25), st.sampled_from([1, 300, LARGE_EPOCH_BYTES]))
def test_whatever_happens_the_rows_are_those_of_a_dict(actions: list[Action], large_bytes: int) -> None:
    """Also where epochs, or some of them, count as large and are read while they are applied."""
    with world() as there, mock.patch("engine.replica.commit_queue.LARGE_EPOCH_BYTES", large_bytes):
        for action in actions:
            there.run(action)
        there.check()


def test_snapshots_come_about_and_let_epochs_go() -> None:
    """What the property relies on: its actions reach what it is about."""
    with world() as there:
        changelog = Changelog("memory://", {}, there.objects)
        for number in range(30):
            there.append({number % 6: number}, replaces=False)
            for host in there.hosts.values():
                host.follow()
                host.snapshot(0.0)
        there.hosts["first"].snapshot(0.0)
        assert changelog.snapshots(GROUP).epochs() == [28]
        snapshot = changelog.snapshots(GROUP).newest_snapshot()
        assert snapshot is not None
        assert len(snapshot.parts) == 2
        assert [epoch for epoch in range(1, 32) if changelog.holds(GROUP, epoch)] == [28, 29, 30, 31]  # type: ignore[arg-type]
        there.check()


def test_partitions_that_are_found_with_a_snapshot_are_brought_to_one_as_well() -> None:
    """Where the others are late, those of a store that only the snapshot names are so, too."""
    with world() as there:
        changelog = Changelog("memory://", {}, there.objects)
        for number in range(30):
            there.append({number % 6: number}, replaces=False)
            there.hosts["second"].follow()
            there.hosts["second"].snapshot(LONG)
        assert changelog.snapshots(GROUP).epochs()
        assert not changelog.holds(GROUP, Epoch(1))
        changelog.create_store(ELSEWHERE)
        host = Host(there.objects, there.directory / "late", "second")
        try:
            state = host.open_group()
            for known in (ELSEWHERE, AMOUNTS):
                state.add_stores([known])
            assert state.rebuild(), "nothing is late"
            while state.rebuild():
                pass
            assert not state.is_rebuilding
            assert host.contents()[0] == there.model.amounts
        finally:
            host.close()
