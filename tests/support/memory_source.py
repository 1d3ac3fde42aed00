"""Stores in memory for tests of the query side: honest to `engine.scan`, with dead rows among the
live ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from engine.cluster.reports import GroupReport, ReadableEpoch, StoreReport
from engine.errors import NotFound, Unavailable
from engine.model.partitioning import partition_of
from engine.model.schema import Epoch, GroupName, PartitionId, StoreDefinition, StoreName
from engine.scan import (
    EVERYTHING,
    FOUND_COLUMN,
    LIVE_COLUMN,
    NOTHING_HELD,
    Hold,
    Interval,
    KeyedRows,
    KeyRange,
    RowFilter,
    ScanStatistics,
    StoreStatus,
)

BLOCK_ROWS = 7


@dataclass(frozen=True)
class MemoryScan:
    """Blocks of a table; the last column is `LIVE_COLUMN` if rows of it are dead."""

    table: pa.Table
    statistics: ScanStatistics

    @property
    def schema(self) -> pa.Schema:
        return self.table.schema

    @property
    def nbytes(self) -> int:
        return int(self.table.nbytes)

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from self.table.to_batches(max_chunksize=BLOCK_ROWS)

    def hold(self, *, is_copied: bool = False) -> Hold | None:
        return NOTHING_HELD

    def to_table(self) -> pa.Table:
        return pa.Table.from_batches(list(self.batches()), self.schema)

    def live_rows(self) -> pa.Table:
        if LIVE_COLUMN not in self.schema.names:
            return self.table.combine_chunks()
        live = pc.equal(self.table.column(LIVE_COLUMN), 1)
        return self.table.filter(live).drop_columns([LIVE_COLUMN]).combine_chunks()


@dataclass(frozen=True)
class MemorySortedRows:
    """Live rows in the order of the key, a few at a time."""

    table: pa.Table
    stored_rows: int

    @property
    def schema(self) -> pa.Schema:
        return self.table.schema

    def stretches(self, wanted: int | None, *, descending: bool = False) -> Iterator[pa.Table]:
        rows = self.table.num_rows
        table = self.table.take(pa.array(range(rows - 1, -1, -1), pa.int64())) if descending else self.table
        for start in range(0, rows, BLOCK_ROWS):
            yield table.slice(start, BLOCK_ROWS)


@dataclass(frozen=True)
class MemoryView:
    """One store: its rows, and for each whether it is live."""

    definition: StoreDefinition
    rows: pa.Table
    live: pa.Array
    epoch: Epoch = field(default_factory=lambda: Epoch(1))
    committed_at: int = 1_700_000_000_000_000
    digest: str = ""
    reads: list[tuple[str, object]] = field(default_factory=list, compare=False)

    @property
    def live_rows(self) -> int:
        return int(pc.sum(self.live).as_py() or 0)

    def scan(self, columns: Sequence[str], wanted: RowFilter = EVERYTHING) -> MemoryScan:
        self.reads.append(("scan", wanted))
        keep = _may_be_needed(self.rows, wanted)
        if wanted.points is not None:
            keep = pc.and_(keep, pc.equal(self.live, 1))
        live = self.live.filter(keep)
        kept = self.rows.filter(keep)
        table = kept.select(list(columns))
        if not all(live.to_pylist()) or not columns:
            table = (
                table.append_column(LIVE_COLUMN, pa.chunked_array([live]))
                if columns
                else pa.table([live], names=[LIVE_COLUMN])
            )
        statistics = ScanStatistics(1, 1, 1, 1, 1, 1, kept.num_rows, self.rows.num_rows)
        return MemoryScan(table, statistics)

    def lookup(self, columns: Sequence[str], points: pa.RecordBatch) -> pa.Table:
        self.reads.append(("lookup", points))
        keep = pc.and_(_is_one_of(self.rows, points), pc.equal(self.live, 1))
        return self.rows.filter(keep).select(list(columns))

    def sorted_rows(self, columns: Sequence[str], key_range: KeyRange) -> MemorySortedRows:
        self.reads.append(("sorted rows", key_range))
        key = self.definition.key
        keep = pa.array([True] * self.rows.num_rows, pa.bool_())
        for name, value in zip(key, key_range.prefix, strict=False):
            keep = pc.and_(keep, pc.equal(self.rows.column(name).combine_chunks(), value))
        if key_range.interval is not None:
            column = self.rows.column(key[len(key_range.prefix)]).combine_chunks()
            keep = pc.and_(keep, _is_inside(column, key_range.interval))
        live = self.rows.filter(pc.and_(keep, pc.equal(self.live, 1)))
        in_order = live.sort_by([(name, "ascending") for name in key]).select(list(columns))
        return MemorySortedRows(in_order, int(pc.sum(keep).as_py() or 0))

    def found_row(self, key: int | str, places: Sequence[int], schema: pa.Schema) -> pa.RecordBatch | None:
        found = self.row(key, places, schema)
        if found is None:
            return None
        flag = pa.field(FOUND_COLUMN, pa.bool_(), nullable=False)
        return found.add_column(0, flag, [pa.array([True])]).combine_chunks().to_batches()[0]

    def keyed_rows(self, keys: pa.RecordBatch, places: Sequence[int], schema: pa.Schema) -> KeyedRows:
        names = self.definition.schema.names
        found = self.lookup(names, keys).combine_chunks()
        rows = pa.Table.from_arrays([found.column(place) for place in places], schema=schema)
        by_key = {
            tuple(key.values()): place
            for place, key in enumerate(found.select(self.definition.key).to_pylist())
        }
        wanted = [by_key.get(tuple(key.values())) for key in keys.to_pylist()]
        (batch,) = rows.to_batches() or schema.empty_table().to_batches()
        return KeyedRows(batch, pa.array(wanted, pa.int64()))

    def row(self, key: int | str, places: Sequence[int], schema: pa.Schema) -> pa.Table | None:
        column = self.definition.key[0]
        points = pa.record_batch([pa.array([key], self.definition.schema.field(column).type)], [column])
        found = self.lookup(self.definition.schema.names, points)
        return (
            pa.Table.from_arrays([found.column(place) for place in places], schema=schema)
            if found.num_rows
            else None
        )


def _may_be_needed(rows: pa.Table, wanted: RowFilter) -> pa.Array:
    keep = pa.array([True] * rows.num_rows, pa.bool_())
    if wanted.points is not None:
        keep = pc.and_(keep, _is_one_of(rows, wanted.points))
    for column, interval in wanted.intervals.items():
        keep = pc.and_(keep, _is_inside(rows.column(column).combine_chunks(), interval))
    return pc.fill_null(keep, False)


def _is_inside(values: pa.Array, interval: Interval) -> pa.Array:
    keep = values.is_valid()
    if interval.low is not None:
        assert interval.low.type == values.type, (interval, values.type)
        keep = pc.and_kleene(
            keep, (pc.greater if interval.low_open else pc.greater_equal)(values, interval.low)
        )
    if interval.high is not None:
        assert interval.high.type == values.type, (interval, values.type)
        keep = pc.and_kleene(keep, (pc.less if interval.high_open else pc.less_equal)(values, interval.high))
    return keep


def _is_one_of(rows: pa.Table, points: pa.RecordBatch) -> pa.Array:
    names = points.schema.names
    for name in names:
        assert points.schema.field(name).type == rows.schema.field(name).type, (points.schema, rows.schema)
        assert points.column(name).null_count == 0
    wanted = {tuple(row.values()) for row in points.to_pylist()}
    return pa.array([tuple(row.values()) in wanted for row in rows.select(names).to_pylist()], pa.bool_())


class MemorySource:
    """A `StoreSource` of tables.

    Args:
        views: The stores.

    Attributes:
        views: The stores.
        pins: How many snapshots are open.
        switches: Names that mean another store.
        damaged: Names that mean nothing, as what says so is damaged, each with a sentence.
    """

    def __init__(self, views: Sequence[MemoryView]) -> None:
        self.views = {view.definition.name: view for view in views}
        self.pins = 0
        self.switches: dict[StoreName, StoreName] = {}
        self.damaged: dict[StoreName, str] = {}

    def definitions(self) -> Mapping[StoreName, StoreDefinition]:
        return {name: view.definition for name, view in self.views.items()}

    def definitions_of(self, generations: Mapping[GroupName, int]) -> Mapping[StoreName, StoreDefinition]:
        return self.definitions()

    def damaged_names(self) -> Mapping[StoreName, str]:
        return self.damaged

    def tables(self) -> Mapping[StoreName, StoreDefinition]:
        definitions = self.definitions()
        return (
            {**definitions, **{name: definitions[store] for name, store in self.switches.items()}}
            if self.switches
            else definitions
        )

    @contextmanager
    def pin_views(
        self,
        stores: Collection[StoreName],
        epochs: Mapping[GroupName, Epoch] | None = None,
        partitions: Mapping[StoreName, Collection[PartitionId]] | None = None,
        shapes: Mapping[StoreName, StoreDefinition] | None = None,
        digests: Mapping[GroupName, str] | None = None,
    ) -> Iterator[Mapping[StoreName, MemoryView]]:
        views: dict[StoreName, MemoryView] = {}
        for name in stores:
            if name not in self.views:
                raise NotFound(f"There is no store {name}.")
            view = views[name] = self.views[name]
            wanted = (epochs or {}).get(view.definition.group, view.epoch)
            if wanted != view.epoch:
                raise Unavailable(f"Store {name} is at epoch {view.epoch}, not {wanted}.")
            if partitions is not None and name in partitions:
                views[name] = _restrict(view, partitions[name])
        self.pins += 1
        try:
            yield views
        finally:
            self.pins -= 1

    def hold(self, epochs: Mapping[GroupName, Epoch], seconds: float) -> None:
        """Its epoch never goes."""

    def report(self) -> tuple[Mapping[GroupName, GroupReport], Mapping[StoreName, StoreReport]]:
        groups = {
            view.definition.group: GroupReport(
                (ReadableEpoch(view.epoch, view.committed_at),), view.epoch, looked_at=view.committed_at
            )
            for view in self.views.values()
        }
        stores = {
            name: StoreReport(
                tuple(_partitions(view.definition)), view.live_rows, view.rows.nbytes, 1, view.rows.num_rows
            )
            for name, view in self.views.items()
        }
        return groups, stores

    def complete_until(self, stores: Collection[StoreName]) -> int:
        groups, _ = self.report()
        return min(group.complete_until for group in groups.values())

    def status(self) -> Sequence[StoreStatus]:
        return [
            StoreStatus(
                name,
                view.definition.group,
                view.epoch,
                view.epoch,
                0.0,
                view.live_rows,
                view.rows.num_rows,
                view.rows.nbytes,
                1,
                1,
            )
            for name, view in sorted(self.views.items())
        ]


def _partitions(definition: StoreDefinition) -> Iterator[PartitionId]:
    return (PartitionId(number) for number in range(definition.partitions))


def _restrict(view: MemoryView, partitions: Collection[PartitionId]) -> MemoryView:
    """The rows on some partitions; those on no others are there."""
    if set(partitions) == set(_partitions(view.definition)):
        return view
    placed = partition_of(
        [view.rows.column(name) for name in view.definition.partition_by], view.definition.partitions
    )
    keep = pa.array([number in partitions for number in placed.tolist()], pa.bool_())
    return MemoryView(
        view.definition,
        view.rows.filter(keep),
        view.live.filter(keep),
        view.epoch,
        view.committed_at,
        view.digest,
        view.reads,
    )


def memory_view(definition: StoreDefinition, live: pa.Table, dead: pa.Table | None = None) -> MemoryView:
    """A store of live rows, with dead ones strewn among them.

    Args:
        definition: The store.
        live: Its rows.
        dead: Rows that were superseded or removed.

    Returns:
        The view; with dead rows, live and dead ones alternate.
    """
    live = live.cast(definition.schema)
    if dead is None or not dead.num_rows:
        return MemoryView(definition, live.combine_chunks(), pa.array([1] * live.num_rows, pa.uint8()))
    dead = dead.cast(definition.schema)
    rows = pa.concat_tables([live, dead])
    flags = [1] * live.num_rows + [0] * dead.num_rows
    order = sorted(range(rows.num_rows), key=lambda place: (place * 7919) % rows.num_rows)
    return MemoryView(
        definition,
        rows.take(pa.array(order)).combine_chunks(),
        pa.array([flags[place] for place in order], pa.uint8()),
    )
