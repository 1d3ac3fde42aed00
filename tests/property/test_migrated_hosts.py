"""Migrations, snapshots, drops, restarts, lost disks, deaths and failures between epochs: hosts have the rows
and the shapes of a plain model.

Writers write in the newest shape or in older ones, stores are created when others have been migrated already,
and views of before stay as they were.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.changelog import Changelog, SnapshotRetention, Writer
from engine.changelog.objects import Objects, open_objects
from engine.changelog.rows import partition_rows
from engine.model.kinds import Behaviour
from engine.model.migration import AddColumn, Change, DropColumn, RenameColumn, WidenColumn
from engine.model.schema import PartitionId, StoreDefinition, define_store
from engine.replica.commit_queue import LARGE_EPOCH_BYTES
from engine.replica.group_views import GroupView
from engine.state.state_view import StateView
from tests.property.test_migrated_partitions import migrated_row
from tests.property.test_snapshots import GROUP, HELD, LATER, LONG, UNTIL_DEAD, UNTIL_STUMBLE, Host
from tests.support.failing import FAILURES
from tests.support.following import live_rows
from tests.support.quick_directory import quick_directory
from tests.support.stopping_objects import Stopped, StoppingObjects

Row = dict[str, Any]

CREATED = pa.schema([("key", pa.int64()), ("amount", pa.int32())])
STORES = ["amounts", "ratings", "late"]
"""The last one is created only when rows come for it."""
IN_MEMORY = "ratings"
KEYS = st.integers(0, 5)
WIDER: Mapping[pa.DataType, pa.DataType] = {pa.int32(): pa.int64(), pa.int64(): pa.decimal128(20, 0)}

Action = tuple[Any, ...]
HOSTS = st.sampled_from(sorted(HELD))
PARTS = st.sampled_from(["amounts/0", "amounts/1", "late/0"])
ACTIONS = st.one_of(
    st.tuples(
        st.just("append"),
        st.sampled_from(STORES),
        st.dictionaries(KEYS, st.none() | st.integers(0, 99), max_size=3),
        st.integers(0, 3),
    ),
    st.tuples(
        st.just("replace"),
        st.sampled_from(STORES),
        st.dictionaries(KEYS, st.integers(0, 99), max_size=3),
        st.integers(0, 3),
    ),
    st.tuples(st.just("append many"), st.integers(1, 9)),
    st.tuples(
        st.just("migrate"), st.sampled_from(STORES[:2]), st.sampled_from(["add", "drop", "rename", "widen"])
    ),
    st.tuples(
        st.just("migrate"), st.sampled_from(STORES), st.sampled_from(["add", "drop", "rename", "widen"])
    ),
    st.tuples(st.just("new writer")),
    st.tuples(st.just("follow"), HOSTS),
    st.tuples(st.just("look"), HOSTS),
    st.tuples(st.just("compact"), HOSTS),
    st.tuples(st.just("pin"), HOSTS),
    st.tuples(st.just("snapshot"), HOSTS, st.sampled_from([0.0, LONG])),
    st.tuples(st.just("restart"), HOSTS),
    st.tuples(st.just("lose disk"), HOSTS),
    st.tuples(st.just("lose partition"), HOSTS, PARTS),
    st.tuples(st.just("save partition"), HOSTS, PARTS),
    st.tuples(st.just("put back partition"), HOSTS, PARTS),
    st.tuples(st.just("die"), HOSTS, st.integers(0, UNTIL_DEAD)),
    st.tuples(st.just("stumble"), HOSTS, st.integers(0, UNTIL_STUMBLE), st.sampled_from(FAILURES)),
    st.tuples(st.just("drop"), st.integers(1, 2), st.integers(0, UNTIL_DEAD)),
)


@dataclass
class Store:
    """A store as it must be.

    Attributes:
        shapes: What it was and is, oldest first.
        changes: What led from each shape to the next.
        rows: Its rows in the newest shape.
    """

    shapes: list[StoreDefinition]
    changes: list[Sequence[Change]] = field(default_factory=list)
    rows: dict[int, Row] = field(default_factory=dict)

    def migrate(self, after: StoreDefinition, changes: Sequence[Change]) -> None:
        self.shapes.append(after)
        self.changes.append(changes)
        self.rows = {key: migrated_row(row, changes) for key, row in self.rows.items()}

    def take(self, key: int, row: Row | None, place: int) -> None:
        """An upsert in one of the shapes, or a tombstone."""
        self.rows.pop(key, None)
        if row is not None:
            for changes in self.changes[place:]:
                row = migrated_row(row, changes)
            self.rows[key] = row

    def rows_of(self, partitions: Sequence[int]) -> list[Row]:
        definition = self.shapes[-1]
        table = pa.Table.from_pylist(list(self.rows.values()), schema=definition.row_schema)
        placed = partition_rows(definition, table)
        return sort_rows(
            [
                row
                for number in partitions
                if number in placed
                for row in placed[PartitionId(number)].to_pylist()
            ],
            definition,
        )


@dataclass
class Pinned:
    """A view that is kept, and what it showed."""

    view: StateView
    rows: list[Row]


class MigratedHost(Host):
    """A host that keeps views."""

    def __init__(self, objects: Objects, directory: Path, name: str) -> None:
        super().__init__(objects, directory, name)
        self.all_objects = objects
        self.pinned: list[Pinned] = []

    def compact(self) -> None:
        for store in self.start().partitions:
            while store.compact():
                pass
            assert store.is_in_shape
        self.start().refresh()

    def look(self) -> None:
        self.start().add_stores(self._changelog.definitions().values())

    def pin(self) -> None:
        view = self.start().view
        if view is not None:
            self.check_generation(view)
            self.pinned += [Pinned(store, sorted_rows_of(store)) for store in view.stores.values()]

    def check_generation(self, view: GroupView) -> None:
        commit = Changelog("memory://", {}, self.all_objects).read_commit(GROUP, view.epoch)
        if commit is not None:
            assert view.generation == commit.generation

    def save(self, part: str) -> None:
        """Keep a copy of a partition."""
        self.stop(cleanly=True)
        if (self.directory / GROUP / part).is_dir():
            shutil.copytree(self.directory / GROUP / part, self._saved_path(part), dirs_exist_ok=True)

    def put_back(self, part: str) -> None:
        """Have one partition at an older epoch than the others, as a death between two of them leaves it."""
        self.lose_disk(part)
        if self._saved_path(part).is_dir():
            shutil.move(self._saved_path(part), self.directory / GROUP / part)

    def _saved_path(self, part: str) -> Path:
        return self.directory.with_name(f"{self.directory.name} saved") / part

    def lose_disk(self, part: str = "") -> None:
        super().lose_disk(part)
        if not part:
            shutil.rmtree(self._saved_path(""), ignore_errors=True)

    def stop(self, *, cleanly: bool) -> None:
        self.check_pinned()
        self.pinned.clear()
        super().stop(cleanly=cleanly)

    def check_pinned(self) -> None:
        for pinned in self.pinned:
            assert sorted_rows_of(pinned.view) == pinned.rows

    def check(self, stores: Mapping[str, Store]) -> None:
        self.follow()
        self.look()
        assert self.state is not None
        view = self.state.view
        assert view is not None
        assert view.epoch == self._changelog.newest_epoch(GROUP)
        self.check_generation(view)
        for name, store in stores.items():
            found = view.stores[store.shapes[0].name]
            assert found.definition == store.shapes[-1], name
            assert sorted_rows_of(found) == store.rows_of(self._held)
        self.check_pinned()


@dataclass
class World:
    """A changelog, its writer and hosts, beside what they must contain."""

    directory: Path
    objects: Objects
    writer: Writer
    hosts: Mapping[str, MigratedHost]
    stores: dict[str, Store] = field(default_factory=dict)
    names: Iterator[int] = field(default_factory=count)

    @property
    def changelog(self) -> Changelog:
        return Changelog("memory://", {}, self.objects)

    def store(self, name: str) -> Store:
        if name not in self.stores:
            definition = define_store(
                name,
                CREATED,
                ["key"],
                partitions=2,
                group=GROUP,
                behaviour=Behaviour(in_memory=name == IN_MEMORY),
            )
            self.stores[name] = Store([self.changelog.create_store(definition)])
        return self.stores[name]

    def append(
        self, name: str, changes: Mapping[int, int | None], age: int, *, replaces: bool = False
    ) -> None:
        store = self.store(name)
        place = max(0, len(store.shapes) - 1 - age)
        shape = store.shapes[place]
        if replaces:
            store.rows.clear()
        rows = []
        for key, value in changes.items():
            row = {column: key if column in shape.key else value for column in shape.schema.names}
            store.take(key, None if value is None else row, place)
            rows.append({**row, "gone": value is None})
        table = pa.Table.from_pylist(rows, schema=pa.schema([*shape.row_schema, ("gone", pa.bool_())]))
        placed = partition_rows(shape, table, tombstone_column="gone")
        self.writer.append({shape.name: placed}, replaced=[shape.name] if replaces else [])

    def migrate(self, name: str, what: str) -> None:
        store = self.store(name)
        change = self._change(store.shapes[-1], what)
        if change is not None:
            store.migrate(self.changelog.migrate_store(store.shapes[-1].name, [change]).after, [change])

    def _change(self, shape: StoreDefinition, what: str) -> Change | None:
        new = f"c{next(self.names)}"
        columns = list(shape.row_schema)
        others = [column for column in columns if column.name not in shape.key]
        wide = [WidenColumn(column.name, WIDER[column.type]) for column in others if column.type in WIDER]
        match what:
            case "add":
                return AddColumn(new, pa.int32(), "7")
            case "rename":
                return RenameColumn(columns[len(new) % len(columns)].name, new)
            case "drop":
                return DropColumn(others[0].name) if others else None
        return wide[0] if wide else None

    def run(self, action: Action) -> None:
        what, *given = action
        match what:
            case "append":
                self.append(*given)
            case "replace":
                self.append(*given, replaces=True)
            case "append many":
                for number in range(given[0]):
                    self.append("amounts", {number % 6: number}, number % 3)
            case "migrate":
                self.migrate(*given)
            case "new writer":
                self.writer = self.changelog.writer(GROUP, "w")
            case "drop":
                self.drop(*given)
            case _:
                self.tell(self.hosts[given[0]], what, given[1:])

    def tell(self, host: MigratedHost, what: str, given: Sequence[Any]) -> None:
        match what:
            case "snapshot":
                host.snapshot(*given)
            case "restart":
                host.stop(cleanly=True)
            case "lose disk" | "lose partition":
                host.lose_disk(*given)
            case "save partition":
                host.save(*given)
            case "put back partition":
                host.put_back(*given)
            case "die":
                host.die_after(*given)
            case "stumble":
                host.stumble(*given)
            case _:
                getattr(host, what)()

    def drop(self, kept: int, changes: int) -> None:
        with suppress(Stopped):
            Changelog("memory://", {}, StoppingObjects(self.objects, changes)).drop(
                GROUP, SnapshotRetention(kept=kept, tail_seconds=0), LATER
            )

    def check(self) -> None:
        self.writer.append({})  # takes up the migrations that no commit has taken up yet
        everything = MigratedHost(self.objects, self.directory / "new", "second")
        try:
            for host in (everything, *self.hosts.values()):
                host.check(self.stores)
        finally:
            everything.close()


def sorted_rows_of(view: StateView) -> list[Row]:
    return sort_rows(live_rows(view).to_pylist(), view.definition)


def sort_rows(rows: list[Row], definition: StoreDefinition) -> list[Row]:
    return sorted(rows, key=lambda row: row[definition.key[0]])


@contextmanager
def world() -> Iterator[World]:
    objects = open_objects("memory://", {})
    with quick_directory() as directory:
        hosts = {host: MigratedHost(objects, directory / host, host) for host in HELD}
        try:
            there = World(directory, objects, Changelog("memory://", {}, objects).writer(GROUP, "w"), hosts)
            for name in STORES[:2]:
                there.store(name)
            yield there
        finally:
            for host in hosts.values():
                host.close()


LOST_AFTER_A_STOP: Sequence[Sequence[Action]] = (
    [("append", "ratings", {0: 0, 2: None}, 0), ("follow", "second"), ("restart", "second")],
    *(
        [
            ("append", "amounts", {0: 1, 2: 3}, 0),
            ("follow", "second"),
            ("restart", "second"),
            ("lose partition", "second", f"amounts/{partition}"),
        ]
        for partition in range(2)
    ),
)
"""What a partition has lost was as many epochs as others had noted at the stop."""


@settings(max_examples=60)
@example(LOST_AFTER_A_STOP[0], LARGE_EPOCH_BYTES)
@example(LOST_AFTER_A_STOP[1], LARGE_EPOCH_BYTES)
@example(LOST_AFTER_A_STOP[2], LARGE_EPOCH_BYTES)
@given(st.lists(ACTIONS, max_size=25), st.sampled_from([1, 300, LARGE_EPOCH_BYTES]))
def test_whatever_happens_the_rows_and_shapes_are_those_of_the_model(
    actions: Sequence[Action], large_bytes: int
) -> None:
    """Also where epochs, or some of them, count as large and are read while they are applied."""
    with world() as there, mock.patch("engine.replica.commit_queue.LARGE_EPOCH_BYTES", large_bytes):
        for action in actions:
            there.run(action)
        there.check()


def test_snapshots_of_migrated_stores_come_about_and_let_epochs_go() -> None:
    """What the property relies on: its actions reach what it is about."""
    with world() as there:
        for number in range(30):
            there.append("amounts", {number % 6: number}, number % 2)
            if number % 5 == 4:
                there.migrate("amounts", ["add", "widen", "rename"][number // 5 % 3])
                there.migrate("ratings", "add")
            for host in there.hosts.values():
                host.follow()
                host.snapshot(0.0)
        there.hosts["first"].snapshot(0.0)
        snapshot = there.changelog.snapshots(GROUP).newest_snapshot()
        assert snapshot is not None
        assert snapshot.generation == 10
        assert not there.changelog.holds(GROUP, snapshot.epoch - 1)  # type: ignore[arg-type]
        there.check()
