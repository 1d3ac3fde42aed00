"""A store at one epoch, as queries see it: pruned scans and exact lookups over the versions of its
partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from engine.errors import NotFound
from engine.model.partitioning import partition_of, value_partitioner
from engine.model.schema import Epoch, PartitionId, StoreDefinition
from engine.scan import EVERYTHING, LIVE_COLUMN, Interval, RowFilter, ScanStatistics
from engine.state import keys as sort_keys
from engine.state.keys import KeyCodec, Keys
from engine.state.picked_rows import Pick, gather
from engine.state.statistics import blocks_that_may_hold
from engine.state.version import LiveSegment, Version, find_live_ranges, sort_by_live_rows

NO_INTERVALS: Mapping[str, Interval] = MappingProxyType({})


class _Piece(NamedTuple):
    """Rows of one block that may be needed: `start` to before `stop`, counted in the segment. A tuple: large
    scans have thousands.
    """

    entry: LiveSegment
    block: int
    start: int
    stop: int

    def column(self, place: int) -> pa.Array:
        """The rows of one column."""
        segment = self.entry.segment
        first, after = segment.block_span(self.block)
        column = segment.column(place, self.block)
        return (
            column
            if (self.start, self.stop) == (first, after)
            else column[self.start - first : self.stop - first]
        )

    def live_flags(self) -> pa.Array:
        """Which of the rows are live, `uint8`."""
        return self.entry.live_array[self.start : self.stop]


class _Edge(NamedTuple):
    """A place among sorted keys, as `Segment.position` finds it."""

    needle: Keys
    side: str

    def find_row(self, entry: LiveSegment) -> int:
        """The row of a segment that it is before."""
        return int(entry.segment.position(self.needle, self.side)[0])


def _pieces(
    entry: LiveSegment, intervals: Mapping[str, Interval], edges: tuple[_Edge | None, _Edge | None]
) -> Sequence[_Piece]:
    """The rows of a segment that statistics and the edges of the first key column leave. A list, as every
    query asks every segment.
    """
    segment = entry.segment
    blocks = segment.blocks
    kept: Sequence[int] = range(blocks)
    if intervals:
        kept = blocks_that_may_hold(segment.statistics_of, intervals, blocks).nonzero()[0].tolist()
        if not kept:
            return ()
    low_edge, high_edge = edges
    low = 0 if low_edge is None else low_edge.find_row(entry)
    high = segment.rows if high_edge is None else high_edge.find_row(entry)
    pieces = []
    for block in kept:
        start, stop = segment.block_span(block)
        start, stop = max(start, low), min(stop, high)
        if start < stop:
            pieces.append(_Piece(entry, block, start, stop))
    return pieces


@dataclass(frozen=True, eq=False)
class StateView:
    """Implements `engine.scan.StoreView` over partition versions.

    Attributes:
        definition: What the store is.
        epoch: The epoch that all versions show.
        committed_at: When it was committed, microseconds since 1970 UTC.
        versions: The partitions of the store that are seen; of others there are no rows.
        whole: The view that this one was cut out of. It is kept because it tells which epochs are still read.
    """

    definition: StoreDefinition
    epoch: Epoch
    committed_at: int
    versions: Mapping[PartitionId, Version]
    whole: StateView | None = None

    def restrict(self, partitions: Collection[PartitionId]) -> StateView:
        """The store as if it had some of its partitions alone.

        Args:
            partitions: Numbers of partitions that are here, each once.
        """
        if len(partitions) == len(self.versions):
            return self
        return StateView(
            self.definition,
            self.epoch,
            self.committed_at,
            {number: self.versions[number] for number in partitions},
            self,
        )

    @cached_property
    def live_rows(self) -> int:
        """Exact number of rows."""
        return sum(version.live_rows for version in self.versions.values())

    @cached_property
    def _codec(self) -> KeyCodec:
        return KeyCodec([field.type for field in self.definition.key_schema])

    def scan(self, columns: Sequence[str], wanted: RowFilter = EVERYTHING) -> PieceScan | PointScan:
        """As `StoreView.scan`: with points exactly their rows, else the blocks that the intervals leave."""
        if wanted.points is not None:
            return PointScan(
                self,
                columns,
                wanted.points,
                {
                    name: wanted.intervals[name]
                    for name in wanted.intervals
                    if name not in wanted.points.schema.names
                },
            )
        edges = self._key_edges(wanted.intervals.get(self.definition.key[0]))
        pieces = [
            piece
            for version in self.versions.values()
            for entry in version.segments
            for piece in _pieces(entry, wanted.intervals, edges)
        ]
        return PieceScan(self, columns, pieces)

    def _key_edges(self, interval: Interval | None) -> tuple[_Edge | None, _Edge | None]:
        """Where an interval of the first key column begins and ends among sorted keys."""
        low = high = None
        if interval is not None and interval.low is not None:
            first, after, is_whole = self._codec.ranges([pa.array([interval.low], interval.low.type)])
            low = _Edge(after, "right" if is_whole else "left") if interval.low_open else _Edge(first, "left")
        if interval is not None and interval.high is not None:
            first, after, is_whole = self._codec.ranges([pa.array([interval.high], interval.high.type)])
            high = (
                _Edge(first, "left") if interval.high_open else _Edge(after, "right" if is_whole else "left")
            )
        return low, high

    def lookup(
        self, columns: Sequence[str], points: pa.RecordBatch, intervals: Mapping[str, Interval] = NO_INTERVALS
    ) -> pa.Table:
        """As `StoreView.lookup`; rows outside the intervals of some other columns may be left out."""
        places, schema = self._project_columns(tuple(columns))
        picks: list[Pick] = []
        for version, part in self.route_points(points):
            low, high, is_whole = self._codec.ranges(part)
            if is_whole:
                picks += _picks_of_keys(version, low)
            else:
                kept = (
                    [entry for entry in version.segments if _may_hold(entry, intervals)]
                    if intervals
                    else version.segments
                )
                picks += _picks_of_ranges(kept, *self._narrow_to_wanted(part, intervals, low, high))
        return gather(picks, places, schema)

    def _narrow_to_wanted(
        self, points: Sequence[pa.Array], intervals: Mapping[str, Interval], low: Keys, high: Keys
    ) -> tuple[Keys, Keys]:
        """The ranges of key prefixes, as far as an interval of the next key column leaves them."""
        interval = intervals.get(self.definition.key[len(points)])
        if interval is not None and interval.low is not None:
            low = self._codec.ranges([*points, pa.repeat(interval.low, len(points[0]))])[0]
        if interval is not None and interval.high is not None and len(points) + 1 < len(self.definition.key):
            high = self._codec.ranges([*points, pa.repeat(interval.high, len(points[0]))])[1]
        return low, high

    def row(self, key: int | str, places: Sequence[int], schema: pa.Schema) -> pa.Table | None:
        """As `StoreView.row`."""
        version = self.versions.get(self._partition(key))
        found = None if version is None else version.find_one(self._codec.needle(key))
        if found is None:
            return None
        segment, row = found
        block, inside = divmod(row, segment.record.block_rows)
        return segment.table(places, block, schema).table.slice(inside, 1)

    def rows_by_key(
        self, keys: pa.RecordBatch, places: Sequence[int], schema: pa.Schema
    ) -> list[pa.RecordBatch | None] | None:
        """As `StoreView.rows_by_key`."""
        columns = keys.columns
        needles = self._codec.ranges(columns)[0]
        placed = partition_of(columns[: len(self.definition.partition_by)], self.definition.partitions)
        order = sort_keys.order_of_last(needles)
        if len(order) < keys.num_rows:
            return None
        found: list[pa.RecordBatch | None] = [None] * keys.num_rows
        placed = placed[order]
        for number, version in self.versions.items():
            wanted = order[placed == number]
            for entry in version.searched:
                if not len(wanted):
                    break
                there, rows = entry.find_live(sort_keys.take(needles, wanted))
                if not len(there):
                    continue
                block_rows = entry.segment.record.block_rows
                for key, row in zip(wanted[there].tolist(), rows.tolist(), strict=True):
                    block, inside = divmod(row, block_rows)
                    found[key] = entry.segment.table(places, block, schema).batch.slice(inside, 1)
                is_left = np.ones(len(wanted), np.bool_)
                is_left[there] = False
                wanted = wanted[is_left]
        return found

    @cached_property
    def _partition(self) -> Callable[[int | str], PartitionId]:
        """The partition of a key of one column."""
        return value_partitioner(self.definition.key_schema.field(0).type, self.definition.partitions)

    def _project_columns(self, columns: tuple[str, ...]) -> tuple[Sequence[int], pa.Schema]:
        """Places of columns, and the schema that they make."""
        found = self._projections.get(columns)
        if found is None:
            places = [self.column_index(column) for column in columns]
            found = self._projections[columns] = (
                places,
                pa.schema([self.definition.schema.field(place) for place in places]),
            )
        return found

    @cached_property
    def _projections(self) -> dict[tuple[str, ...], tuple[Sequence[int], pa.Schema]]:
        return {}

    def route_points(self, points: pa.RecordBatch) -> Iterator[tuple[Version, Sequence[pa.Array]]]:
        """Each partition that some of the points can be on, with those points' columns."""
        if not points.num_rows:
            return
        columns = [points.column(place) for place in range(points.num_columns)]
        if points.num_columns < len(self.definition.partition_by):
            yield from ((version, columns) for version in self.versions.values())
            return
        placed = partition_of(columns[: len(self.definition.partition_by)], self.definition.partitions)
        if len(placed) == 1:
            only = self.versions.get(PartitionId(int(placed[0])))
            if only is not None:
                yield only, columns
            return
        order = np.argsort(placed, kind="stable")
        partitions, starts = np.unique(placed[order], return_index=True)
        for partition, rows in zip(partitions.tolist(), np.split(order, starts[1:]), strict=True):
            if partition in self.versions:
                yield (
                    self.versions[PartitionId(partition)],
                    [column.take(pa.array(rows)) for column in columns],
                )

    def column_index(self, column: str) -> int:
        """Where a column is in the store's schema.

        Raises:
            NotFound: The store has no such column.
        """
        place: int = self.definition.schema.get_field_index(column)
        if place < 0:
            raise NotFound(f"Store {self.definition.name} has no column {column}.")
        return place


def _picks_of_keys(version: Version, needles: Keys) -> Iterator[Pick]:
    """The live rows of whole keys."""
    if len(needles) > 1:
        needles = sort_keys.take(needles, sort_keys.order_of_last(needles))
    for entry in sort_by_live_rows(version.segments):
        found, rows = entry.find_live(needles)
        if len(rows):
            yield Pick(entry.segment, rows)
        if len(found) == len(needles):
            return
        needles = sort_keys.remove(needles, found)


def _may_hold(entry: LiveSegment, intervals: Mapping[str, Interval]) -> bool:
    """Whether some row of a segment can lie in all intervals."""
    segment = entry.segment
    return bool(blocks_that_may_hold(segment.statistics_of, intervals, segment.blocks).any())


def _picks_of_ranges(segments: Sequence[LiveSegment], low: Keys, high: Keys) -> Iterator[Pick]:
    """The live rows of key prefixes: one slice a prefix and segment."""
    return (Pick(entry.segment, rows) for entry, rows in find_live_ranges(segments, low, high))


def _batch(arrays: Sequence[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))


@dataclass(frozen=True, eq=False)
class PieceScan:
    """Implements `engine.scan.Scan` over blocks.

    Attributes:
        view: The store.
        columns: Columns of the scan.
        pieces: What may be needed.
    """

    view: StateView
    columns: Sequence[str]
    pieces: Sequence[_Piece]

    @cached_property
    def _has_dead(self) -> bool:
        return any(piece.entry.dead_rows for piece in self.pieces)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns asked for, then `LIVE_COLUMN` where dead rows may be among the rows."""
        fields = [
            self.view.definition.schema.field(self.view.column_index(column)) for column in self.columns
        ]
        return pa.schema(
            [*fields, pa.field(LIVE_COLUMN, pa.uint8(), nullable=False)] if self._has_dead else fields
        )

    @property
    def nbytes(self) -> int:
        """Arrow bytes of all batches, from the segments' averages."""
        places = [self.view.column_index(column) for column in self.columns]
        total, known, row_bytes = 0.0, None, 0.0
        for piece in self.pieces:
            segment = piece.entry.segment
            if segment is not known:  # the pieces of a segment follow each other
                known, row_bytes = (
                    segment,
                    sum(segment.column_bytes(place) for place in places) / segment.rows,
                )
            total += (piece.stop - piece.start) * row_bytes
        return int(total)

    @cached_property
    def statistics(self) -> ScanStatistics:
        """What pruning left."""
        entries = [entry for version in self.view.versions.values() for entry in version.segments]
        read = {id(piece.entry) for piece in self.pieces}
        partitions = sum(
            any(id(entry) in read for entry in version.segments) for version in self.view.versions.values()
        )
        return ScanStatistics(
            partitions_read=partitions,
            partitions=len(self.view.versions),
            segments_read=len(read),
            segments=len(entries),
            blocks_read=len(self.pieces),
            blocks=sum(entry.segment.blocks for entry in entries),
            rows_read=sum(piece.stop - piece.start for piece in self.pieces),
            rows=sum(entry.segment.rows for entry in entries),
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, a batch a block; reads what is not in the cache as it goes."""
        places = [self.view.column_index(column) for column in self.columns]
        schema = self.schema
        for piece in self.pieces:
            arrays = [piece.column(place) for place in places]
            if self._has_dead:
                arrays.append(piece.live_flags())
            yield _batch(arrays, schema, piece.stop - piece.start)

    def to_table(self) -> pa.Table:
        """The rows as one table. Column by column, which takes a third of the time of joining batches."""
        if not self.schema.names:
            return pa.Table.from_batches(list(self.batches()))
        chunks = [
            [piece.column(self.view.column_index(column)) for piece in self.pieces] for column in self.columns
        ]
        if self._has_dead:
            chunks.append([piece.live_flags() for piece in self.pieces])
        arrays = [
            pa.chunked_array(parts, field.type) for parts, field in zip(chunks, self.schema, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=self.schema)


@dataclass(frozen=True, eq=False)
class PointScan:
    """Implements `engine.scan.Scan` over the rows of some keys or key prefixes: all of them live.

    Attributes:
        view: The store.
        columns: Columns of the scan.
        points: As `RowFilter.points`.
        intervals: As `RowFilter.intervals`, of other columns.
    """

    view: StateView
    columns: Sequence[str]
    points: pa.RecordBatch
    intervals: Mapping[str, Interval]

    @cached_property
    def _found(self) -> pa.Table:
        return self.view.lookup(self.columns, self.points, self.intervals)

    @property
    def schema(self) -> pa.Schema:
        """The columns asked for."""
        return self._found.schema

    @property
    def nbytes(self) -> int:
        """Arrow bytes of the rows."""
        return int(self._found.get_total_buffer_size())

    @cached_property
    def statistics(self) -> ScanStatistics:
        """What the points leave: partitions by their hash. Segments and blocks are not counted one by one;
        there are no more than pieces of rows.
        """
        everything = PieceScan(self.view, self.columns, []).statistics
        read = {id(version) for version, _ in self.view.route_points(self.points)}
        found = self._found.num_rows
        chunks = self._found.column(0).num_chunks if self.columns else 0
        segments, blocks = min(chunks, everything.segments), min(chunks, everything.blocks)
        return ScanStatistics(
            len(read),
            everything.partitions,
            segments,
            everything.segments,
            blocks,
            everything.blocks,
            found,
            everything.rows,
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows."""
        yield from self._found.to_batches()

    def to_table(self) -> pa.Table:
        """The rows as one table."""
        return self._found
