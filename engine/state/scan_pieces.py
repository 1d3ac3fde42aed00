"""The blocks that a scan may need, and what is worked out of them once for all statements that scan the same:
a store with many segments has thousands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from operator import attrgetter
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from engine.model.schema import StoreDefinition
from engine.scan import Interval
from engine.state.cache_places import ColumnPlace
from engine.state.column_reader import encoded_columns, scanned_columns
from engine.state.scan_encoding import can_repeat, encode, encoded_type, repeats
from engine.state.segment import Segment
from engine.state.sorted_rows import LiveRun
from engine.state.statistics import blocks_that_may_hold
from engine.state.version import LiveSegment

LEAST_ENCODED_ROWS = 10_000
"""Scans of fewer rows reach the engine as they are stored."""
MOST_SCANS = 16
"""Scans whose blocks are remembered, of the same segments."""
MOST_REMEMBERED_PIECES = 4096
"""Blocks of a scan that is remembered, at the most: half a megabyte."""

_Asked: TypeAlias = tuple[tuple[str, Interval], ...]


class ScanPiece(NamedTuple):
    """Rows of one block that may be needed: `start` to before `stop`, counted in the segment. A tuple: large
    scans have thousands.
    """

    entry: LiveSegment
    block: int
    start: int
    stop: int

    def columns(self, places: Sequence[int]) -> list[pa.Array]:
        """The rows of some columns."""
        return self.entry.segment.reader.slices(places, self.block, self.start, self.stop)

    def live_flags(self) -> pa.Array:
        """Which of the rows are live, `uint8`."""
        return self.entry.live_flags(self.start, self.stop)


def pieces_of(run: LiveRun, intervals: Mapping[str, Interval]) -> Sequence[ScanPiece]:
    """The blocks of a run that statistics leave.

    Args:
        run: Rows of a segment, at least one.
        intervals: Outside which rows are not needed, by column.
    """
    entry, start, stop = run
    segment = entry.segment
    block_rows = segment.record.block_rows
    first, last = start // block_rows, (stop - 1) // block_rows
    kept: Sequence[int] = range(first, last + 1)
    if intervals:
        may_hold = blocks_that_may_hold(segment.statistics_of, intervals, segment.blocks)
        kept = [block for block in kept if may_hold[block]]
    elif first == last:
        return (ScanPiece(entry, first, start, stop),)
    return [
        ScanPiece(entry, block, max(block * block_rows, start), min((block + 1) * block_rows, stop))
        for block in kept
    ]


class Stretch(NamedTuple):
    """Pieces of a segment that follow each other without a gap.

    Attributes:
        entry: The segment.
        start: First row, counted in the segment.
        stop: The one behind the last.
        pieces: The pieces.
        is_of_whole: Whether the segment's columns are read as a whole, since most of its rows are needed.
    """

    entry: LiveSegment
    start: int
    stop: int
    pieces: Sequence[ScanPiece]
    is_of_whole: bool

    @property
    def rows_of_whole(self) -> int:
        """How many rows are cut out of whole columns."""
        return self.stop - self.start if self.is_of_whole else 0

    def cut(self, column: Sequence[pa.Array]) -> Sequence[pa.Array]:
        """The rows, out of a column of the whole segment."""
        rows = self.stop - self.start
        if rows == self.entry.segment.rows:
            return column
        if len(column) == 1:
            return [column[0].slice(self.start, rows)]
        chunks: Sequence[pa.Array] = pa.chunked_array(column).slice(self.start, rows).chunks
        return chunks

    def chunks(self, place: int) -> Sequence[pa.Array]:
        """The rows of one column as they are stored, a block at a time."""
        return [chunk for piece in self.pieces for chunk in piece.columns((place,))]


def _stretches(pieces: Sequence[ScanPiece]) -> Sequence[Stretch]:
    """Pieces put together; those of a segment follow each other, in the order of its rows."""
    found: list[Stretch] = []
    for entry, group in groupby(pieces, attrgetter("entry")):
        of_segment = list(group)
        needed = sum([piece.stop - piece.start for piece in of_segment])
        is_of_whole = 2 * needed >= entry.segment.rows
        gaps = [
            place
            for place, (before, after) in enumerate(pairwise(of_segment), 1)
            if before.stop != after.start
        ]
        for first, behind in pairwise([0, *gaps, len(of_segment)]):
            joined = of_segment[first:behind]
            found.append(Stretch(entry, joined[0].start, joined[-1].stop, joined, is_of_whole))
    return found


@dataclass(frozen=True, eq=False)
class ScanPieces:
    """Blocks that a scan may need.

    Attributes:
        pieces: The blocks; those of a segment follow each other, in the order of its rows.
        definition: What the store is.
    """

    pieces: Sequence[ScanPiece]
    definition: StoreDefinition

    @cached_property
    def rows(self) -> int:
        """How many rows there are, dead ones included."""
        return sum([piece.stop - piece.start for piece in self.pieces])

    @cached_property
    def has_dead(self) -> bool:
        """Whether some segment has dead rows."""
        return any(piece.entry.dead_rows for piece in self.pieces)

    @cached_property
    def segments(self) -> int:
        """How many segments they are of."""
        return len({piece.entry.segment.reader.place for piece in self.pieces})

    @cached_property
    def partitions(self) -> int:
        """How many partitions they are of."""
        return len({piece.entry.segment.reader.place.partition for piece in self.pieces})

    @cached_property
    def stretches(self) -> Sequence[Stretch]:
        """The pieces put together."""
        return _stretches(self.pieces)

    def column_bytes(self, place: int) -> float:
        """Arrow bytes of one column, from the segments' averages.

        Args:
            place: Place of the column in the store.
        """
        found = self._column_bytes.get(place)
        if found is None:
            found = self._column_bytes[place] = sum(
                segment.reader.column_bytes(place) / segment.rows * rows
                for segment, rows in self._rows_of_segments
            )
        return found

    def held_columns(self, places: Sequence[int]) -> Mapping[ColumnPlace, int]:
        """What whoever reads some columns as a whole holds of the cache: bytes of each segment's columns.

        Args:
            places: Places of the columns in the store.
        """
        found: dict[ColumnPlace, int] = {}
        for place in places:
            held = self._held_columns.get(place)
            if held is None:
                held = self._held_columns[place] = {
                    segment.reader.column_place(place): segment.reader.bytes_of_rows((place,), rows)
                    for segment, rows in self._rows_of_segments
                }
            found |= held
        return found

    def column(self, place: int) -> pa.ChunkedArray:
        """One column, in as few arrays as it can be kept, encoded for the engine if that can be kept.

        Args:
            place: As for `column_bytes`.
        """
        encoded = self._encoded_type(place)
        chunks = None if encoded is None else self._encoded_chunks(place, encoded)
        if chunks is not None:
            return pa.chunked_array(chunks, encoded)
        whole = iter(scanned_columns([each.entry.segment.reader for each in self._whole_stretches], place))
        return pa.chunked_array(
            [
                chunk
                for each in self.stretches
                for chunk in (each.cut(next(whole)) if each.is_of_whole else each.chunks(place))
            ],
            self.definition.schema.field(place).type,
        )

    @cached_property
    def _held_columns(self) -> dict[int, Mapping[ColumnPlace, int]]:
        return {}

    @cached_property
    def _rows_of_segments(self) -> Sequence[tuple[Segment, int]]:
        """How many rows there are of each segment."""
        found: dict[Segment, int] = {}
        for each in self.stretches:
            segment = each.entry.segment
            found[segment] = found.get(segment, 0) + each.stop - each.start
        return list(found.items())

    @cached_property
    def _column_bytes(self) -> dict[int, float]:
        return {}

    @cached_property
    def _encoded_types(self) -> dict[int, pa.DataType | None]:
        return {}

    @cached_property
    def _whole_stretches(self) -> Sequence[Stretch]:
        return [each for each in self.stretches if each.is_of_whole]

    def _encoded_type(self, place: int) -> pa.DataType | None:
        """How a column is encoded for the engine; None: not at all. A few rows are not worth it, nor are
        few rows of large segments.
        """
        if place not in self._encoded_types:
            self._encoded_types[place] = self._choose_encoded_type(place, self.definition.schema.field(place))
        return self._encoded_types[place]

    def _choose_encoded_type(self, place: int, field: pa.Field) -> pa.DataType | None:
        rows_of_whole = sum([each.rows_of_whole for each in self._whole_stretches])
        if self.rows < LEAST_ENCODED_ROWS or 2 * rows_of_whole < self.rows:
            return None
        whole = [each.entry.segment for each in self._whole_stretches]
        if not all(segment.reader.can_be_joined(place) for segment in whole):
            # All arrays have one type, so what the others have encoded would be for nothing.
            return None
        segments = {each.entry.segment.reader.place: each.entry.segment for each in self.stretches}.values()
        return encoded_type(
            field.type,
            is_repetitive=can_repeat(field.type)
            and repeats([(segment.sketch_of(field.name), segment.rows) for segment in segments]),
        )

    def _encoded_chunks(self, place: int, arrow_type: pa.DataType) -> Sequence[pa.Array] | None:
        """One column in another layout; None where a stretch has none, as all chunks have one type."""
        chunks: list[pa.Array] = []
        whole = iter(
            encoded_columns([each.entry.segment.reader for each in self._whole_stretches], place, arrow_type)
        )
        try:
            for stretch in self.stretches:
                if not stretch.is_of_whole:
                    chunks += [encode(chunk, arrow_type) for chunk in stretch.chunks(place)]
                elif (found := next(whole)) is not None:
                    chunks += stretch.cut([found])
                else:
                    return None
        except pa.ArrowException:
            return None
        return chunks


class ScannedSegments:
    """The segments of some partitions at one epoch, with the blocks of scans that come again. It refers to no
    view: views may go while others keep their segments.

    Args:
        entries: The segments.
        definition: What the store is.

    Attributes:
        entries: As the argument.
    """

    def __init__(self, entries: Sequence[LiveSegment], definition: StoreDefinition) -> None:
        self.entries = entries
        self._definition = definition
        self._scans: dict[_Asked, ScanPieces] = {}

    @cached_property
    def blocks(self) -> int:
        """How many blocks there are."""
        return sum(entry.segment.blocks for entry in self.entries)

    @cached_property
    def rows(self) -> int:
        """How many rows there are, dead ones included."""
        return sum(entry.segment.rows for entry in self.entries)

    def pieces(self, intervals: Mapping[str, Interval]) -> ScanPieces:
        """The blocks that statistics leave of all rows. Safe for threads: two may make the same at once.

        Args:
            intervals: Outside which rows are not needed, by column.
        """
        asked = tuple(sorted(intervals.items(), key=lambda item: item[0]))
        found = self._scans.get(asked)
        if found is None:
            runs = [LiveRun(entry, 0, entry.segment.rows) for entry in self.entries if entry.segment.rows]
            found = self.pieces_of_runs(runs, intervals)
            if len(found.pieces) <= MOST_REMEMBERED_PIECES:
                # A new dictionary each time: another thread may be reading the one of before.
                kept = list(self._scans.items())[1 - MOST_SCANS :]
                self._scans = {**dict(kept), asked: found}
        return found

    def pieces_of_runs(self, runs: Sequence[LiveRun], intervals: Mapping[str, Interval]) -> ScanPieces:
        """The blocks that statistics leave of some rows.

        Args:
            runs: The rows.
            intervals: As for `pieces`.
        """
        return ScanPieces([piece for run in runs for piece in pieces_of(run, intervals)], self._definition)
