"""Segments: immutable runs of rows, sorted by key and unique in it, stored column by column in blocks.

A segment stays as it was stored when its store is migrated, and is seen in another shape: columns have places
in a shape, and numbers for ever (`engine.model.columns`).
"""

from __future__ import annotations

from functools import cached_property

import pyarrow as pa

from engine.model.distinct_sketch import Sketch
from engine.state.cache_places import WHOLE, CacheKey
from engine.state.column_reader import LARGEST_JOINED_SHARE, ColumnReader
from engine.state.delete_vector import DeleteVector, LiveFlags
from engine.state.formats import LIVE_FLAGS, SegmentId, SegmentRecord
from engine.state.partition_context import PartitionContext
from engine.state.segment_keys import SegmentKeys
from engine.state.statistics import ColumnStatistics, constant_statistics, has_statistics
from engine.state.stored_segment import StoredSegment

FEW_FLAGS = 8192
"""Up to so many flags are worked out each time: some 13 µs, whereas those of a million rows take 160."""
_NOWHERE = -1
"""No column has this number."""


class Segment:
    """One segment of a partition.

    Args:
        identity: Its id in the partition.
        record: What is known without reading blocks.
        context: The partition it belongs to, in the shape in which it is seen.
        stored: What is stored of it; by default it has yet to be read.

    Attributes:
        stored: What is stored of it.
        rows: How many rows there are, dead ones included.
        blocks: How many blocks there are, at least one.
        reader: Reads its columns.
        keys: Finds its keys.
    """

    def __init__(
        self,
        identity: SegmentId,
        record: SegmentRecord,
        context: PartitionContext,
        stored: StoredSegment | None = None,
    ) -> None:
        self.id = identity
        self.record = record
        self.rows = record.rows
        self.blocks = len(record.first)
        self._context = context
        self.stored = stored or StoredSegment(identity, record, context)
        self.reader = ColumnReader(identity, record, context, self.stored)
        self.keys = SegmentKeys(record, context, self.stored, self.reader)

    @property
    def is_in_shape(self) -> bool:
        """Whether it was stored in the shape in which it is seen."""
        return self.record.column_bytes.keys() == self._context.stored_numbers

    def reshape(self, context: PartitionContext) -> Segment:
        """The same segment in another shape of its partition, or in the one that it has."""
        if context is self._context:
            return self
        return Segment(self.id, self.record, context, self.stored.reshape(context))

    def statistics_of(self, name: str) -> ColumnStatistics | None:
        """The smallest and largest values of a column, block by block; None where they are not known.

        Args:
            name: Its name in the shape in which the segment is seen.
        """
        found = self.record.statistics.get(self._context.numbers_by_name.get(name, _NOWHERE))
        return self._derived_statistics(name) if found is None else found

    def _derived_statistics(self, name: str) -> ColumnStatistics | None:
        """The statistics of a column that is not stored as it is seen."""
        column = self._context.schema.get_field_index(name)
        if column < 0 or self._context.numbers[column] in self.record.column_bytes:
            return None
        if column not in self._derived:
            arrow_type = self._context.column_type(column)
            source = self._context.columns[column].source(self.record.column_bytes, arrow_type)
            if source is not None:
                narrow = self.record.statistics.get(source[0])
                self._derived[column] = None if narrow is None else narrow.cast(arrow_type)
            else:
                value = self._context.columns[column].default_value(arrow_type)
                self._derived[column] = (
                    constant_statistics(value, self.blocks) if has_statistics(arrow_type) else None
                )
        return self._derived[column]

    def sketch_of(self, name: str) -> Sketch | None:
        """The sketch of a column's values, dead ones included; None where it is not known.

        Args:
            name: Its name in the shape in which the segment is seen.
        """
        place = self._context.schema.get_field_index(name)
        if place < 0:
            return None
        number = self._context.numbers[place]
        if number not in self.record.column_bytes:
            source = self._context.columns[place].source(
                self.record.column_bytes, self._context.column_type(place)
            )
            if source is None:
                return None
            number = source[0]
        return self.record.sketches.get(number)

    @cached_property
    def _derived(self) -> dict[int, ColumnStatistics | None]:
        return {}

    def live_flags(self, dead: DeleteVector, start: int, stop: int) -> pa.Array:
        """Which rows from one number to before another are live, `uint8`. Where many are asked for, those of
        all rows are kept beside the columns for the next query, for one delete vector at a time, if the cache
        has room for them.

        Args:
            dead: The segment's delete vector.
            start: The first row.
            stop: The one behind the last.
        """
        if stop - start <= FEW_FLAGS:
            return pa.array(dead.live_flags(start, stop))
        place = CacheKey(self._context.number, self.id, WHOLE, LIVE_FLAGS)
        known: LiveFlags | None = self._context.cache.find(place)
        if known is None or known.dead is not dead:
            if self.rows * LARGEST_JOINED_SHARE > self._context.cache.capacity:
                return pa.array(dead.live_flags(start, stop))
            known = LiveFlags(dead, pa.array(dead.live_flags(0, self.rows)))
            self._context.cache.put(place, known)
        return known.flags[start:stop]
