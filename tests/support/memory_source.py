"""Stores in memory for tests of the query side: honest to `engine.scan`, with dead rows among the live ones."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import NotFound
from engine.scan import EVERYTHING, LIVE_COLUMN, Interval, ScanStatistics, StoreStatus, Wanted
from engine.schema import Epoch, StoreDefinition, StoreName

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

    def to_table(self) -> pa.Table:
        return pa.Table.from_batches(list(self.batches()), self.schema)


@dataclass(frozen=True)
class MemoryView:
    """One store: its rows, and for each whether it is live."""

    definition: StoreDefinition
    rows: pa.Table
    live: pa.Array
    epoch: Epoch = field(default_factory=lambda: Epoch(1))
    committed_at: int = 1_700_000_000_000_000
    reads: list[tuple[str, object]] = field(default_factory=list, compare=False)

    @property
    def live_rows(self) -> int:
        return int(pc.sum(self.live).as_py() or 0)

    def scan(self, columns: Sequence[str], wanted: Wanted = EVERYTHING) -> MemoryScan:
        self.reads.append(("scan", wanted))
        keep = _may_be_needed(self.rows, wanted)
        live = self.live.filter(keep)
        kept = self.rows.filter(keep)
        table = kept.select(list(columns))
        if not all(live.to_pylist()) or not columns:
            table = table.append_column(LIVE_COLUMN, pa.chunked_array([live])) if columns else pa.table([live], names=[LIVE_COLUMN])
        statistics = ScanStatistics(1, 1, 1, 1, 1, 1, kept.num_rows, self.rows.num_rows)
        return MemoryScan(table, statistics)

    def lookup(self, columns: Sequence[str], points: pa.RecordBatch) -> pa.Table:
        self.reads.append(("lookup", points))
        keep = pc.and_(_equal_one_of(self.rows, points), pc.equal(self.live, 1))
        return self.rows.filter(keep).select(list(columns))

    def row(self, columns: tuple[str, ...], key: int | str) -> pa.RecordBatch | None:
        column = self.definition.key[0]
        points = pa.record_batch([pa.array([key], self.definition.schema.field(column).type)], [column])
        batches = self.lookup(columns, points).to_batches()
        return next((batch for batch in batches if batch.num_rows), None)


def _may_be_needed(rows: pa.Table, wanted: Wanted) -> pa.Array:
    keep = pa.array([True] * rows.num_rows, pa.bool_())
    if wanted.points is not None:
        keep = pc.and_(keep, _equal_one_of(rows, wanted.points))
    for column, interval in wanted.intervals.items():
        keep = pc.and_(keep, _inside(rows.column(column).combine_chunks(), interval))
    return pc.fill_null(keep, False)


def _inside(values: pa.Array, interval: Interval) -> pa.Array:
    keep = values.is_valid()
    if interval.low is not None:
        assert interval.low.type == values.type, (interval, values.type)
        keep = pc.and_kleene(keep, (pc.greater if interval.low_open else pc.greater_equal)(values, interval.low))
    if interval.high is not None:
        assert interval.high.type == values.type, (interval, values.type)
        keep = pc.and_kleene(keep, (pc.less if interval.high_open else pc.less_equal)(values, interval.high))
    return keep


def _equal_one_of(rows: pa.Table, points: pa.RecordBatch) -> pa.Array:
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
    """

    def __init__(self, views: Sequence[MemoryView]) -> None:
        self.views = {view.definition.name: view for view in views}
        self.pins = 0

    def definitions(self) -> Mapping[StoreName, StoreDefinition]:
        return {name: view.definition for name, view in self.views.items()}

    @contextmanager
    def snapshot(self, stores: Collection[StoreName]) -> Iterator[Mapping[StoreName, MemoryView]]:
        for name in stores:
            if name not in self.views:
                raise NotFound(f"There is no store {name}.")
        self.pins += 1
        try:
            yield {name: self.views[name] for name in stores}
        finally:
            self.pins -= 1

    def status(self) -> Sequence[StoreStatus]:
        return [
            StoreStatus(name, view.definition.group, view.epoch, view.epoch, 0.0, view.live_rows, view.rows.num_rows, view.rows.nbytes, 1, 1)
            for name, view in sorted(self.views.items())
        ]


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
    return MemoryView(definition, rows.take(pa.array(order)).combine_chunks(), pa.array([flags[place] for place in order], pa.uint8()))
