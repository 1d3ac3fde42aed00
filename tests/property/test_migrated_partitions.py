"""Random migrations of a partition between random epochs: its rows are those of a partition that always had
the newest shape.

Compactions, restarts, epochs that come again and rebuilds from what a snapshot has come in between, and views
of before stay as they were.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.model.columns import text_of
from engine.model.kinds import PLAIN, Behaviour, KeyValue, Retention, Versioned
from engine.model.migration import (
    AddColumn,
    Change,
    DropColumn,
    RenameColumn,
    WidenColumn,
    migrate_definition,
)
from engine.model.schema import TOMBSTONE_COLUMN, Epoch, PartitionId, StoreDefinition, define_store
from engine.replica.changes import add_commit_time
from engine.scan import LIVE_COLUMN, Interval, RowFilter
from engine.state.cache import ColumnCache
from engine.state.live_rows import live_rows
from engine.state.partition import PartitionStore
from engine.state.partition_shape import Migrated
from engine.state.state_options import StateOptions
from engine.state.state_view import StateView
from tests.support.partitions import SMALL
from tests.support.quick_directory import quick_directory

Row = dict[str, Any]

TINY_CACHE = replace(SMALL, cache_bytes=300, dead_share=0.2)
CREATED = pa.schema(
    [
        ("k", pa.int64()),
        ("o", pa.int64()),
        ("at", pa.timestamp("us")),
        ("a", pa.int16()),
        ("s", pa.string()),
        ("f", pa.float32()),
    ]
)
STORES: Mapping[str, tuple[Sequence[str], Behaviour]] = {
    "plain": (["k"], PLAIN),
    "two key columns": (["s", "k"], PLAIN),
    "latest": (["k"], Behaviour(KeyValue("o"), Retention(1, "at"))),
    "retained by commit": (["k"], Behaviour(retention=Retention(1))),
    "versioned": (["k"], Behaviour(Versioned("at"), Retention(1, "at"))),
}
WIDER: Mapping[pa.DataType, Sequence[pa.DataType]] = {
    pa.int16(): [pa.int32(), pa.float64(), pa.decimal128(9, 2)],
    pa.int32(): [pa.int64()],
    pa.int64(): [pa.decimal128(20, 0)],
    pa.float32(): [pa.float64()],
    pa.decimal128(9, 2): [pa.decimal128(12, 3)],
}
NEW_KINDS = [
    pa.int16(),
    pa.string(),
    pa.float32(),
    pa.date32(),
    pa.bool_(),
    pa.decimal128(9, 2),
    pa.list_(pa.int64()),
]
NEW_NAMES = ["a", "b", "c", "s", "f", "o", "k", "at", "k2"]
NOON = dt.datetime.fromisoformat("2026-01-01 12:00")
SMALL_NUMBERS = st.integers(-3, 9)


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_string(kind):
        return st.text("ab", max_size=2)
    if pa.types.is_timestamp(kind):
        return st.integers(0, 15).map(lambda minutes: NOON + dt.timedelta(minutes=minutes))
    if pa.types.is_date32(kind):
        return st.dates(dt.date(2026, 1, 1), dt.date(2026, 1, 9))
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_list(kind):
        return st.lists(SMALL_NUMBERS, max_size=2)
    if pa.types.is_floating(kind):
        return SMALL_NUMBERS.map(lambda number: number / 4)
    return (
        SMALL_NUMBERS.map(lambda number: Decimal(number) / 4)
        if pa.types.is_decimal(kind) and kind.scale
        else SMALL_NUMBERS
    )


@dataclass
class Written:
    """What an epoch brought, its rows under the names that their columns have now."""

    rows: list[Row]
    replaces: bool
    cutoff: int | None


@dataclass
class Pinned:
    """A view that is kept, and what it showed."""

    view: StateView
    rows: list[Row]


@dataclass
class Run:
    """A partition store beside all that was written to it."""

    directory: Path
    shapes: list[StoreDefinition]
    options: StateOptions
    generation: int = 0
    written: list[Written] = field(default_factory=list)
    pinned: list[Pinned] = field(default_factory=list)
    places: Iterator[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.store = self._open()

    @property
    def definition(self) -> StoreDefinition:
        return self.shapes[-1]

    @property
    def view(self) -> StateView:
        return view_of(self.store, self.definition)

    def _shape_at(self, generation: int) -> StoreDefinition:
        return [shape for shape in self.shapes if shape.generation <= generation][-1]

    def _open(self) -> PartitionStore:
        path = self.directory / "partition"
        return PartitionStore(
            self.shapes[0],
            PartitionId(0),
            path,
            ColumnCache(self.options.cache_bytes),
            self.options,
            definition_at=self._shape_at,
        )

    def migrate(self, changes: Sequence[Change]) -> None:
        """Have the next epoch bring a migration; of another store of the group where nothing changes."""
        self.generation += 1
        if not changes:
            return
        self.shapes.append(migrate_definition(self.definition, changes, self.generation))
        for entry in self.written:
            entry.rows = [migrated_row(row, changes) for row in entry.rows]

    def epoch(self, written: Written, *, again: bool) -> None:
        self.written.append(written)
        for _ in range(1 + again):
            take(
                self.store,
                self.definition,
                len(self.written),
                written,
                Migrated(self.definition, self.generation),
            )

    def restart(self) -> None:
        self.pinned.clear()
        self.store.close()
        self.store = self._open()

    def rebuild(self) -> None:
        """Go on in a new partition, which has all rows from a snapshot."""
        if not self.written:
            return
        rows = list(live_rows(self.store.version, 200))
        epoch, cutoff = self.store.version.epoch, self.store._manifest.cutoff
        self.restart()
        self.store.close()
        self.directory = self.directory / str(next(self.places))
        self.store = self._open()
        self.store.restore(epoch, rows, cutoff, Migrated(self.definition, self.generation))

    def pin(self) -> None:
        self.pinned.append(Pinned(self.view, scanned_rows(self.view)))

    def expected_rows(self) -> list[Row]:
        """The rows of a partition that was created in the newest shape."""
        now = self.definition
        created = define_store(
            now.name,
            now.row_schema,
            now.key,
            partition_by=now.partition_by,
            partitions=1,
            behaviour=replace(now.behaviour, in_memory=True),
        )
        with closing(
            PartitionStore(created, PartitionId(0), self.directory, ColumnCache(1 << 20), SMALL)
        ) as store:
            for epoch, written in enumerate(self.written, 1):
                take(store, created, epoch, written, None)
            return scanned_rows(view_of(store, created))

    def check(self) -> None:
        expected = self.expected_rows()
        assert scanned_rows(self.view) == expected
        assert looked_up(self.view) == expected
        for pinned in self.pinned:
            assert scanned_rows(pinned.view) == pinned.rows
            assert looked_up(pinned.view) == pinned.rows

    def check_intervals(self) -> None:
        """No row whose value lies between bounds is passed over."""
        for view in (self.view, *(pinned.view for pinned in self.pinned)):
            rows = scanned_rows(view)
            for column in view.definition.schema:
                values = [row[column.name] for row in rows if row[column.name] is not None]
                if pa.types.is_nested(column.type) or not values:
                    continue
                low, high = (pa.scalar(bound, column.type) for bound in (min(values), max(values)))
                for interval in (
                    Interval(low=low, high=low),
                    Interval(low=high),
                    Interval(low=low, high=high),
                ):
                    found = scanned_rows(view, RowFilter(intervals={column.name: interval}))
                    assert all(row in found for row in rows if lies_in(row[column.name], interval))


def take(
    store: PartitionStore, definition: StoreDefinition, epoch: int, written: Written, change: Migrated | None
) -> None:
    batch = add_commit_time(batch_of(definition, written.rows), definition, epoch) if written.rows else None
    store.apply(Epoch(epoch), batch, replaces=written.replaces, cutoff=written.cutoff, migrated=change)


def batch_of(definition: StoreDefinition, rows: Sequence[Row]) -> pa.RecordBatch:
    columns = [pa.array([row[column.name] for row in rows], column.type) for column in definition.row_schema]
    batch = pa.RecordBatch.from_arrays(columns, schema=definition.row_schema)
    gone = [row[TOMBSTONE_COLUMN] for row in rows]
    return (
        batch.append_column(pa.field(TOMBSTONE_COLUMN, pa.bool_(), nullable=False), pa.array(gone))
        if any(gone)
        else batch
    )


def migrated_row(row: Row, changes: Sequence[Change]) -> Row:
    for change in changes:
        match change:
            case AddColumn(name, kind, default):
                row = {**row, name: None if default is None else pa.scalar(default).cast(kind).as_py()}
            case DropColumn(name):
                row = {each: value for each, value in row.items() if each != name}
            case RenameColumn(name, to):
                row = {to if each == name else each: value for each, value in row.items()}
    return row


def view_of(store: PartitionStore, definition: StoreDefinition) -> StateView:
    return StateView(definition, store.version.epoch, 0, {PartitionId(0): store.version})


def scanned_rows(view: StateView, wanted: RowFilter | None = None) -> list[Row]:
    scan = view.scan(view.definition.schema.names, wanted or RowFilter())
    assert scan.nbytes >= 0
    found = visible_rows(view, [row for row in scan.to_table().to_pylist() if row.pop(LIVE_COLUMN, 1)])
    assert found == visible_rows(
        view, [row for batch in scan.batches() for row in batch.to_pylist() if row.pop(LIVE_COLUMN, 1)]
    )
    return found


def looked_up(view: StateView) -> list[Row]:
    """All rows, found by their keys."""
    keys = view.scan(view.definition.key).to_table()
    batch = pa.RecordBatch.from_arrays(
        [column.combine_chunks() for column in keys.select(list(view.definition.key)).columns],
        view.definition.key,
    )
    found = view.lookup(view.definition.schema.names, batch).to_pylist()
    if len(view.definition.key) == 1:
        schema = view.definition.schema
        rows = [
            view.row(key, range(len(schema)), schema)
            for key in {row[view.definition.key[0]] for row in found}
        ]
        assert visible_rows(
            view, [each for row in rows if row is not None for each in row.to_pylist()]
        ) == visible_rows(view, found)
    return visible_rows(view, found)


def visible_rows(view: StateView, rows: list[Row]) -> list[Row]:
    """Rows as SQL shows them, in an order of their own."""
    kind = view.definition.behaviour.kind
    if isinstance(kind, Versioned):
        rows = [row for row in rows if row[kind.valid_to] != row[kind.valid_from]]
    return sorted(rows, key=lambda row: repr([row[name] for name in view.definition.key]))


def lies_in(value: Any, interval: Interval) -> bool:
    low, high = interval.low, interval.high
    return (
        value is not None
        and (low is None or value >= low.as_py())
        and (high is None or value <= high.as_py())
    )


# ---- what happens


def draw_changes(data: st.DataObject, definition: StoreDefinition) -> list[Change]:
    changes: list[Change] = []
    for _ in range(data.draw(st.integers(0, 3), "changes")):
        change = draw_change(data, definition)
        if change is not None:
            definition = migrate_definition(definition, [change], definition.generation + 1)
            changes.append(change)
    return changes


def draw_change(data: st.DataObject, definition: StoreDefinition) -> Change | None:
    behaviour, rows = definition.behaviour, definition.row_schema
    used = {*definition.key, behaviour.retention.column if behaviour.retention else ""}
    used |= {behaviour.kind.order_by} if isinstance(behaviour.kind, KeyValue) else set()
    what = data.draw(st.sampled_from(["add", "drop", "rename", "widen"]), "change")
    free = [name for name in NEW_NAMES if name not in definition.stored_schema.names]
    if what == "rename" and free:
        return RenameColumn(
            data.draw(st.sampled_from(rows.names), "renamed"), data.draw(st.sampled_from(free), "to")
        )
    if what == "add" and free:
        kind = data.draw(st.sampled_from(NEW_KINDS), "kind")
        default = None if pa.types.is_nested(kind) else data.draw(st.none() | values_of(kind), "default")
        return AddColumn(
            data.draw(st.sampled_from(free), "added"),
            kind,
            None if default is None else text_of(pa.scalar(default, kind)),
        )
    others = [column for column in rows if column.name not in used]
    if what == "drop" and others:
        return DropColumn(data.draw(st.sampled_from(others), "dropped").name)
    wide = [WidenColumn(column.name, kind) for column in others for kind in WIDER.get(column.type, ())]
    return data.draw(st.sampled_from(wide), "widened") if what == "widen" and wide else None


def draw_epoch(data: st.DataObject, definition: StoreDefinition) -> Written:
    rows = []
    for _ in range(data.draw(st.integers(0, 6), "rows")):
        row = {}
        for column in definition.row_schema:
            values = values_of(column.type)
            must = column.name in definition.key or pa.types.is_timestamp(column.type)
            row[column.name] = data.draw(values if must else st.none() | values, column.name)
        row[TOMBSTONE_COLUMN] = data.draw(st.sampled_from([False, False, True]), "gone")
        rows.append(row)
    cutoff = data.draw(st.none() | st.integers(0, 10), "cutoff") if definition.behaviour.retention else None
    if cutoff is not None and definition.behaviour.retention and definition.behaviour.retention.column:
        cutoff = pa.scalar(NOON + dt.timedelta(minutes=cutoff), pa.timestamp("us")).value
    return Written(rows, data.draw(st.sampled_from([False] * 9 + [True]), "replaces"), cutoff)


@contextmanager
def run_of(store: str, options: StateOptions) -> Iterator[Run]:
    key, behaviour = STORES[store]
    with quick_directory() as directory:
        run = Run(
            directory, [define_store("store", CREATED, key, partitions=1, behaviour=behaviour)], options
        )
        try:
            yield run
        finally:
            run.store.close()


STEPS = (
    ["epoch"] * 5
    + ["migrate"] * 3
    + ["compact", "compact", "compact fully", "restart", "rebuild", "pin", "unpin"]
)


def do(run: Run, step: str, data: st.DataObject) -> None:
    match step:
        case "epoch" | "migrate":
            if step == "migrate":
                run.migrate(draw_changes(data, run.definition))
            run.epoch(draw_epoch(data, run.definition), again=data.draw(st.booleans(), "again"))
        case "compact":
            while run.store.compact():
                pass
            assert run.store.is_in_shape
        case "compact fully":
            run.store.compact_fully()
        case "restart":
            run.restart()
        case "rebuild":
            run.rebuild()
        case "pin":
            run.pin()
        case "unpin":
            run.pinned.clear()


@pytest.mark.parametrize("options", [SMALL, TINY_CACHE], ids=["small", "tiny cache"])
@pytest.mark.parametrize("store", STORES)
@settings(max_examples=25)
@given(data=st.data())
def test_rows_are_those_of_a_store_that_always_had_the_newest_shape(
    store: str, options: StateOptions, data: st.DataObject
) -> None:
    with run_of(store, options) as run:
        for step in data.draw(st.lists(st.sampled_from(STEPS), max_size=12), "steps"):
            do(run, step, data)
        run.check()
        run.check_intervals()
