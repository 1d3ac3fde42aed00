"""A store at one epoch, as queries see it: pruned scans and exact lookups over the versions of its
partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from engine.errors import NotFound
from engine.model.partitioning import partition_of, value_partitioner
from engine.model.schema import Epoch, PartitionId, StoreDefinition
from engine.scan import (
    EVERYTHING,
    LIVE_COLUMN,
    NOTHING_HELD,
    SMALL_SCAN_BYTES,
    Hold,
    Interval,
    KeyedRows,
    KeyRange,
    RowFilter,
    ScanStatistics,
)
from engine.state.keyed_rows import NO_ROW, find_keyed_rows
from engine.state.keys import KeyCodec, Keys
from engine.state.picked_rows import Pick, Run, gather, gather_runs, rows_without_columns
from engine.state.scan_pieces import ScannedSegments, ScanPieces
from engine.state.segment import Segment
from engine.state.sorted_rows import MergedRuns, find_runs, range_edges
from engine.state.statistics import blocks_that_may_hold
from engine.state.version import LiveSegment, Version, find_live_ranges

NO_INTERVALS: Mapping[str, Interval] = MappingProxyType({})
POINTS_A_BATCH = 64 * 1024
"""Rows of points that are picked out at once where they are read block by block."""
MOST_PROJECTIONS = 64
"""So many lists of columns are remembered of a view: a client could think of any number of them."""
MOST_SHARES = 8
"""Sets of partitions for each of which a view remembers scans."""


class _FoundRows(NamedTuple):
    """The live rows of some points.

    Attributes:
        picks: The rows, each once.
        partitions: How many partitions were asked.
    """

    picks: Sequence[Pick]
    partitions: int


@dataclass(frozen=True, eq=False)
class StateView:
    """Implements `engine.scan.StoreView` over partition versions.

    Attributes:
        definition: What the store is.
        epoch: The epoch that all versions show.
        committed_at: When it was committed, microseconds since 1970 UTC.
        versions: The partitions of the store that are seen; of others there are no rows.
        whole: The view that this one was cut out of. It is kept because it tells which epochs are still read.
        digest: Digest of the epoch's commit; empty where it is not known.
    """

    definition: StoreDefinition
    epoch: Epoch
    committed_at: int
    versions: Mapping[PartitionId, Version]
    whole: StateView | None = None
    digest: str = ""

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
            self.digest,
        )

    @cached_property
    def live_rows(self) -> int:
        """Exact number of rows."""
        return sum(version.live_rows for version in self.versions.values())

    @cached_property
    def _scanned(self) -> ScannedSegments:
        """The segments of all partitions."""
        if self.whole is not None:
            return self.whole.scanned_segments(tuple(self.versions))
        entries = [entry for version in self.versions.values() for entry in version.segments]
        return ScannedSegments(entries, self.definition)

    def scanned_segments(self, partitions: tuple[PartitionId, ...]) -> ScannedSegments:
        """The segments of some partitions. They are remembered, with the scans over them: fragments ask for
        the same partitions again and again, each with a view of its own.

        Args:
            partitions: As for `restrict`.
        """
        found = self._shares.get(partitions)
        if found is None:
            entries = [entry for number in partitions for entry in self.versions[number].segments]
            found = ScannedSegments(entries, self.definition)
            if len(self._shares) < MOST_SHARES:
                self._shares[partitions] = found
        return found

    @cached_property
    def _shares(self) -> dict[tuple[PartitionId, ...], ScannedSegments]:
        """The segments of some partitions, which were asked for."""
        return {}

    @property
    def _segments(self) -> Sequence[LiveSegment]:
        """The segments of all partitions."""
        return self._scanned.entries

    @property
    def stored_blocks(self) -> int:
        """How many blocks there are."""
        return self._scanned.blocks

    def statistics(self, partitions: int, segments: int, blocks: int, rows: int) -> ScanStatistics:
        """How many of its partitions, segments, blocks and rows were read, and how many there are."""
        return ScanStatistics(
            partitions,
            len(self.versions),
            segments,
            len(self._segments),
            blocks,
            self.stored_blocks,
            rows,
            self._scanned.rows,
        )

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
        leading = self.definition.key[0]
        if leading not in wanted.intervals:
            return PieceScan(self, columns, self._scanned.pieces(wanted.intervals))
        low, high = range_edges(self._codec, KeyRange((), wanted.intervals[leading]))
        # The edges are exact; statistics of the leading column have nothing to add.
        others = {name: interval for name, interval in wanted.intervals.items() if name != leading}
        runs = find_runs(self._segments, low, high)
        return PieceScan(self, columns, self._scanned.pieces_of_runs(runs, others))

    def sorted_rows(self, columns: Sequence[str], key_range: KeyRange) -> MergedRuns:
        """As `StoreView.sorted_rows`."""
        places, schema = self.project_columns(tuple(columns))
        low, high = range_edges(self._codec, key_range)
        return MergedRuns(find_runs(self._segments_of(key_range), low, high), places, schema)

    def _segments_of(self, key_range: KeyRange) -> Sequence[LiveSegment]:
        """The segments of the partitions that can have rows of a range."""
        placing = len(self.definition.partition_by)
        if len(key_range.prefix) < placing:
            return self._segments
        values = [pa.array([value], value.type) for value in key_range.prefix[:placing]]
        number = PartitionId(int(partition_of(values, self.definition.partitions)[0]))
        return self.versions[number].segments if number in self.versions else ()

    def lookup(self, columns: Sequence[str], points: pa.RecordBatch) -> pa.Table:
        """As `StoreView.lookup`."""
        return self._gather(columns, self.find_rows(points, NO_INTERVALS).picks)

    def _gather(self, columns: Sequence[str], picks: Sequence[Pick]) -> pa.Table:
        return gather(picks, *self.project_columns(tuple(columns)))

    def find_rows(self, points: pa.RecordBatch, intervals: Mapping[str, Interval]) -> _FoundRows:
        """The live rows of points; those outside the intervals of some other columns may be left out."""
        if not points.num_rows:
            return _FoundRows((), 0)
        if points.num_columns == len(self.definition.key):
            columns, partitions = points.columns, self.definition.partitions
            placed = partition_of(columns[: len(self.definition.partition_by)], partitions)
            found = find_keyed_rows(self.versions, self._codec.encode(columns), placed, partitions)
            return _FoundRows(found.picks, found.partitions)
        picks: list[Pick] = []
        parts = list(self._route_points(points))
        for version, part in parts:
            low, high, _ = self._codec.ranges(part)
            kept = (
                [entry for entry in version.segments if _may_hold(entry, intervals)]
                if intervals
                else version.segments
            )
            picks += _picks_of_ranges(kept, *self._narrow_to_wanted(part, intervals, low, high))
        return _FoundRows(picks, len(parts))

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
        found = self._find_one(key)
        if found is None:
            return None
        segment, row = found
        block, inside = divmod(row, segment.record.block_rows)
        return segment.reader.table(places, block, schema).table.slice(inside, 1)

    def found_row(self, key: int | str, places: Sequence[int], schema: pa.Schema) -> pa.RecordBatch | None:
        """As `StoreView.found_row`."""
        found = self._find_one(key)
        if found is None:
            return None
        segment, row = found
        block, inside = divmod(row, segment.record.block_rows)
        return segment.reader.table(places, block, schema).found.slice(inside, 1)

    def _find_one(self, key: int | str) -> tuple[Segment, int] | None:
        """The live row of one key, and the segment that has it."""
        version = self.versions.get(self._partition(key))
        return None if version is None else version.find_one(self._codec.needle(key))

    def keyed_rows(self, keys: pa.RecordBatch, places: Sequence[int], schema: pa.Schema) -> KeyedRows:
        """As `StoreView.keyed_rows`."""
        columns, partitions = keys.columns, self.definition.partitions
        placed = partition_of(columns[: len(self.definition.partition_by)], partitions)
        found = find_keyed_rows(self.versions, self._codec.encode(columns), placed, partitions)
        batches = gather(found.picks, places, schema).to_batches() or [pa.RecordBatch.from_pylist([], schema)]
        rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        return KeyedRows(rows, pa.array(found.places, mask=found.places == NO_ROW))

    @cached_property
    def _partition(self) -> Callable[[int | str], PartitionId]:
        """The partition of a key of one column."""
        return value_partitioner(self.definition.key_schema.field(0).type, self.definition.partitions)

    def project_columns(self, columns: tuple[str, ...]) -> tuple[tuple[int, ...], pa.Schema]:
        """Places of columns, and the schema that they make."""
        found = self._projections.get(columns)
        if found is None:
            if len(self._projections) >= MOST_PROJECTIONS:
                self._projections.clear()
            places = tuple(self.column_index(column) for column in columns)
            found = self._projections[columns] = (
                places,
                pa.schema([self.definition.schema.field(place) for place in places]),
            )
        return found

    @cached_property
    def _projections(self) -> dict[tuple[str, ...], tuple[tuple[int, ...], pa.Schema]]:
        return {}

    def _route_points(self, points: pa.RecordBatch) -> Iterator[tuple[Version, Sequence[pa.Array]]]:
        """Each partition that some of the points can be on, with those points' columns."""
        if points.num_columns < len(self.definition.partition_by):
            yield from ((version, points.columns) for version in self.versions.values())
            return
        columns = [points.column(place) for place in range(len(self.definition.partition_by))]
        placed = partition_of(columns, self.definition.partitions)
        if len(placed) == 1:
            only = self.versions.get(PartitionId(int(placed[0])))
            if only is not None:
                yield only, points.columns
            return
        order = np.argsort(placed, kind="stable")
        bounds = np.searchsorted(placed[order], np.arange(self.definition.partitions + 1)).tolist()
        for partition, (start, stop) in enumerate(pairwise(bounds)):
            if start < stop and partition in self.versions:
                rows = pa.array(order[start:stop])
                yield self.versions[PartitionId(partition)], [column.take(rows) for column in points.columns]

    def column_index(self, column: str) -> int:
        """Where a column is in the store's schema.

        Raises:
            NotFound: The store has no such column.
        """
        place: int = self.definition.schema.get_field_index(column)
        if place < 0:
            raise NotFound(f"Store {self.definition.name} has no column {column}.")
        return place


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
    return rows_without_columns(rows)


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
    pieces: ScanPieces

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns asked for, then `LIVE_COLUMN` where dead rows may be among the rows."""
        fields = [
            self.view.definition.schema.field(self.view.column_index(column)) for column in self.columns
        ]
        return pa.schema(
            [*fields, pa.field(LIVE_COLUMN, pa.uint8(), nullable=False)] if self.pieces.has_dead else fields
        )

    @cached_property
    def _places(self) -> tuple[int, ...]:
        return tuple([self.view.column_index(column) for column in self.columns])

    @property
    def nbytes(self) -> int:
        """Arrow bytes of all batches, from the segments' averages."""
        flags = self.pieces.rows if self.pieces.has_dead else 0
        return flags + int(sum([self.pieces.column_bytes(place) for place in self._places]))

    def hold(self, *, is_copied: bool = False) -> Hold | None:
        """As `Scan.hold`."""
        pieces = self.pieces.pieces
        if not pieces:
            return NOTHING_HELD
        cache = pieces[0].entry.segment.reader.cache
        if is_copied or self.nbytes <= SMALL_SCAN_BYTES:
            return cache.hold({}, self.nbytes)
        return cache.hold(
            self.pieces.held_columns(self._places), self.pieces.rows if self.pieces.has_dead else 0
        )

    @cached_property
    def statistics(self) -> ScanStatistics:
        """What pruning left."""
        pieces = self.pieces
        return self.view.statistics(pieces.partitions, pieces.segments, len(pieces.pieces), pieces.rows)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, a batch a block; reads what is not in the cache as it goes."""
        schema = self.schema
        for piece in self.pieces.pieces:
            arrays = piece.columns(self._places)
            if self.pieces.has_dead:
                arrays.append(piece.live_flags())
            yield _batch(arrays, schema, piece.stop - piece.start)

    def to_table(self) -> pa.Table:
        """The rows as one table. Column by column, which takes a third of the time of joining batches, and of
        segments that are mostly needed the whole column: the engine spends some time on each array.
        """
        if not self.schema.names:
            return pa.Table.from_batches(list(self.batches()))
        columns = [self.pieces.column(place) for place in self._places]
        if self.pieces.has_dead:
            flags = [each.entry.live_flags(each.start, each.stop) for each in self.pieces.stretches]
            columns.append(pa.chunked_array(flags, pa.uint8()))
        fields = [field.with_type(column.type) for field, column in zip(self.schema, columns, strict=True)]
        return pa.Table.from_arrays(columns, schema=pa.schema(fields))

    def live_rows(self) -> pa.Table:
        """As `Scan.live_rows`."""
        places, schema = self.view.project_columns(tuple(self.columns))
        if all(piece.entry.is_all_live(piece.start, piece.stop) for piece in self.pieces.pieces):
            runs = [Run(piece.entry.segment, piece.start, piece.stop) for piece in self.pieces.pieces]
            return gather_runs(runs, places, schema)
        picks = [
            Pick(piece.entry.segment, piece.entry.keep_live(np.arange(piece.start, piece.stop)))
            for piece in self.pieces.pieces
        ]
        return gather([pick for pick in picks if len(pick.rows)], places, schema)


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
    def _found(self) -> _FoundRows:
        return self.view.find_rows(self.points, self.intervals)

    @property
    def schema(self) -> pa.Schema:
        """The columns asked for."""
        return self.view.project_columns(tuple(self.columns))[1]

    @property
    def nbytes(self) -> int:
        """Arrow bytes of the rows, from the segments' averages."""
        places, _ = self.view.project_columns(tuple(self.columns))
        return sum([pick.segment.reader.bytes_of_rows(places, len(pick.rows)) for pick in self._found.picks])

    def hold(self, *, is_copied: bool = False) -> Hold | None:
        """As `Scan.hold`: the rows are copies in any case."""
        picks = self._found.picks
        return picks[0].segment.reader.cache.hold({}, self.nbytes) if picks else NOTHING_HELD

    @cached_property
    def statistics(self) -> ScanStatistics:
        """What the points leave: partitions by their hash. Blocks are not counted one by one; there are no
        more than rows.
        """
        found, view = self._found, self.view
        rows = sum([len(pick.rows) for pick in found.picks])
        segments = {pick.segment.reader.place for pick in found.picks}
        return view.statistics(found.partitions, len(segments), min(rows, view.stored_blocks), rows)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, some of a segment at a time."""
        projection = self.view.project_columns(tuple(self.columns))
        for pick in self._found.picks:
            for start in range(0, len(pick.rows), POINTS_A_BATCH):
                rows = Pick(pick.segment, pick.rows[start : start + POINTS_A_BATCH])
                yield from gather([rows], *projection).to_batches()

    def to_table(self) -> pa.Table:
        """The rows as one table."""
        return gather(self._found.picks, *self.view.project_columns(tuple(self.columns)))

    def live_rows(self) -> pa.Table:
        """As `Scan.live_rows`."""
        return self.to_table()
