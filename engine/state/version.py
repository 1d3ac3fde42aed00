"""Versions: what a partition looks like at one epoch. Immutable, so a query holds one and never sees half an
epoch.

A store that keeps the latest row by an order column remembers of a removed key what it was removed with: a
tombstone, a row of which the key and the order column count. Tombstones lie in segments of their own, which
queries never see and folds do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from engine.model.schema import Epoch
from engine.processes.right_of_way import RIGHT_OF_WAY
from engine.state import keys as sort_keys
from engine.state.cache_places import CacheKey
from engine.state.delete_vector import DeleteVector
from engine.state.formats import SegmentId
from engine.state.keys import Keys, Needle, Rows
from engine.state.partition_context import PartitionContext
from engine.state.segment import Segment

_ALL_LIVE = pa.array(np.ones(1 << 16, np.uint8))


@dataclass(frozen=True, eq=False)
class LiveSegment:
    """A segment with its delete vector.

    Attributes:
        segment: The rows.
        dead: The delete vector; None while all rows are live.
    """

    segment: Segment
    dead: DeleteVector | None = None

    @property
    def live_rows(self) -> int:
        """How many rows are live."""
        return self.segment.rows - self.dead_rows

    @property
    def dead_rows(self) -> int:
        """How many rows are superseded or removed."""
        return 0 if self.dead is None else self.dead.dead_rows

    def live_flags(self, start: int, stop: int) -> pa.Array:
        """Which rows from one number to before another are live, as queries filter on it: a byte a row, 1
        where it is live.
        """
        if self.dead is not None:
            return self.segment.live_flags(self.dead, start, stop)
        rows = stop - start
        return _ALL_LIVE[:rows] if rows <= len(_ALL_LIVE) else pa.array(np.ones(rows, np.uint8))

    def mark_dead(self, rows: Rows) -> LiveSegment:
        """The same segment after some live rows, each named once, have died."""
        if not len(rows):
            return self
        dead = self.dead or DeleteVector(self.segment.rows, None, (), 0)
        return LiveSegment(self.segment, dead.add(rows))

    def reshape(self, context: PartitionContext) -> LiveSegment:
        """The same rows in another shape of the partition, or in the one that they have."""
        segment = self.segment.reshape(context)
        return self if segment is self.segment else LiveSegment(segment, self.dead)

    def is_all_live(self, start: int, stop: int) -> bool:
        """Whether no row from one number to before another is dead."""
        return self.dead is None or not self.dead.has_dead(start, stop)

    def is_live(self, row: int) -> bool:
        """Whether a row is live."""
        return self.dead is None or not self.dead.is_dead(row)

    def keep_live(self, rows: Rows) -> Rows:
        """Those of the rows that are live."""
        return rows if self.dead is None else rows[~self.dead.are_dead(rows)]

    def all_live_rows(self) -> Rows:
        """The numbers of all live rows."""
        return (
            np.arange(self.segment.rows) if self.dead is None else self.dead.live_rows(0, self.segment.rows)
        )

    def find_live(self, keys: Keys) -> tuple[Rows, Rows]:
        """The live rows of some keys.

        Args:
            keys: Sorted keys, each once.

        Returns:
            Places of the keys that have a live row here, and the row of each.
        """
        places, rows = self.segment.keys.find(keys)
        if self.dead is None or not len(rows):
            return places, rows
        alive = ~self.dead.are_dead(rows)
        return places[alive], rows[alive]


@dataclass(frozen=True, eq=False)
class SegmentChanges:
    """What becomes of a partition's segments.

    Attributes:
        kept: The segments of before that still count, tombstone segments among them.
        added: New segments with rows.
        added_tombstones: New segments with tombstones.
        unwritten: The blocks, by key, of those new segments that are not written yet.
    """

    kept: Sequence[LiveSegment]
    added: Sequence[LiveSegment]
    added_tombstones: Sequence[LiveSegment] = ()
    unwritten: Mapping[SegmentId, Mapping[bytes, pa.Array]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Version:
    """A partition at one epoch.

    Attributes:
        epoch: The epoch; 0 before the first.
        segments: Its rows: each key is live in at most one of them.
        tombstone_segments: The removed keys that are remembered, each in at most one of these and `segments`
            together.
    """

    epoch: Epoch
    segments: tuple[LiveSegment, ...]
    tombstone_segments: tuple[LiveSegment, ...] = ()

    @property
    def all_segments(self) -> tuple[LiveSegment, ...]:
        """All segments that epochs are applied to."""
        return (*self.segments, *self.tombstone_segments) if self.tombstone_segments else self.segments

    def change(self, epoch: Epoch, changes: SegmentChanges) -> Version:
        """The version that follows.

        Args:
            epoch: Its epoch.
            changes: What becomes of the segments.
        """
        tombstones = {entry.segment.id for entry in self.tombstone_segments}
        kept_rows = [entry for entry in changes.kept if entry.segment.id not in tombstones]
        kept_tombstones = [entry for entry in changes.kept if entry.segment.id in tombstones]
        return Version(epoch, (*kept_rows, *changes.added), (*kept_tombstones, *changes.added_tombstones))

    @cached_property
    def searched(self) -> Sequence[LiveSegment]:
        """The segments in the order to search them."""
        return sort_by_live_rows(self.segments)

    def find_one(self, needle: Needle) -> tuple[Segment, int] | None:
        """The live row of one key, and the segment that has it."""
        searched = self.searched
        if not searched:
            return None
        columns = searched[0].segment.keys.cache.find_all(self._searched_keys)
        for entry, column in zip(searched, columns, strict=True):
            row = entry.segment.keys.find_one(needle) if column is None else column.find_one(needle)
            if row is not None and entry.is_live(row):
                return entry.segment, row
        return None

    @cached_property
    def _searched_keys(self) -> Sequence[CacheKey]:
        """Where the key columns of the searched segments are in the cache."""
        return [entry.segment.keys.whole_key for entry in self.searched]

    @cached_property
    def live_rows(self) -> int:
        """How many rows the partition has."""
        return sum(entry.live_rows for entry in self.segments)

    @cached_property
    def stored_rows(self) -> int:
        """How many rows the segments have, dead ones included."""
        return sum(entry.segment.rows for entry in self.segments)

    @cached_property
    def nbytes(self) -> int:
        """Arrow bytes of the segments."""
        return sum(entry.segment.record.nbytes for entry in self.segments)


@dataclass(frozen=True, eq=False)
class Located:
    """The live rows of some keys in one segment.

    Attributes:
        entry: The segment.
        places: Places of the found keys among those that the segments before had not found.
        rows: The row of each.
    """

    entry: LiveSegment
    places: Rows
    rows: Rows


def locate(segments: Sequence[LiveSegment], keys: Keys) -> Sequence[Located]:
    """Find the live rows of some keys.

    Args:
        segments: Where they may be.
        keys: Sorted keys, each once.

    Returns:
        What was found, one for each segment, in the order of the search.
    """
    located: list[Located] = []
    for entry in sort_by_live_rows(segments):
        RIGHT_OF_WAY.give_way()
        found = Located(entry, *entry.find_live(keys))
        located.append(found)
        keys = sort_keys.remove(keys, found.places)
    return located


def mark_dead(located: Sequence[Located]) -> list[LiveSegment]:
    """Make rows dead.

    Args:
        located: The rows, for each of the segments.

    Returns:
        The segments that still have live rows.
    """
    left = [found for found in located if len(found.rows) < found.entry.live_rows]
    return [found.entry.mark_dead(found.rows) for found in left]


def supersede(segments: Sequence[LiveSegment], keys: Keys) -> list[LiveSegment]:
    """Make the rows of some keys dead.

    Args:
        segments: Where they may be.
        keys: Sorted keys, each once.

    Returns:
        As `mark_dead`.
    """
    return mark_dead(locate(segments, keys))


def find_live_ranges(
    segments: Sequence[LiveSegment], low: Keys, high: Keys, side: str = "left"
) -> Iterator[tuple[LiveSegment, Rows]]:
    """The live rows between keys.

    Args:
        segments: Where they may be.
        low: Lower bounds, which belong to the ranges.
        high: The upper bound of each; no two ranges with different lower bounds overlap, and a range may be
            there more than once.
        side: `left` where the upper bounds do not belong to the ranges, `right` where they do.

    Yields:
        A segment and rows of it in ascending order, at least one.
    """
    order = sort_keys.order_of_last(low)
    low, high = sort_keys.take(low, order), sort_keys.take(high, order)
    for entry in segments:
        starts, stops = entry.segment.keys.position(low, "left"), entry.segment.keys.position(high, side)
        lengths = np.maximum(stops - starts, 0)
        rows = entry.keep_live(
            np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
        )
        if len(rows):
            yield entry, rows


def sort_by_live_rows(segments: Sequence[LiveSegment]) -> Sequence[LiveSegment]:
    """The segments in the order to search them: a key is live in one of them only, so the largest first
    leaves least to search for.
    """
    return sorted(segments, key=lambda entry: -entry.live_rows)
