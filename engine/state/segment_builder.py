"""A new segment: sorted rows, cut into blocks column by column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from engine.model.distinct_sketch import Sketch, has_sketch, sketch_of, unite_sketches
from engine.state import keys as sort_keys
from engine.state.cache import WHOLE, CacheKey
from engine.state.formats import KEY_COLUMN, SegmentId, SegmentRecord, block_key, encode_block
from engine.state.keys import Keys, Rows
from engine.state.segment import PartitionContext, Segment
from engine.state.state_options import StateOptions
from engine.state.statistics import ColumnStatistics, StatisticsBuilder, has_statistics
from engine.state.storage import Pair

LEAST_SKETCHED_ROWS = 256
"""Sketches of smaller segments would take longer to make than the segments; most of them are merged soon."""


def build_segment(
    builder: SegmentBuilder, context: PartitionContext, rows: pa.RecordBatch, keys: Keys, order: Rows
) -> Iterator[Pair]:
    """Build a segment from a batch.

    Args:
        builder: For `len(order)` rows.
        context: The partition.
        rows: The batch; its first columns are those of the store's schema.
        keys: Sort key of each row of the batch.
        order: The rows to keep, in key order.

    Yields:
        RocksDB pairs to be written before the segment counts.
    """
    for place in range(len(context.schema)):
        yield from builder.add(place, rows.column(place), order)
    if context.codec.is_stored:
        yield from builder.add(KEY_COLUMN, keys, order)


class SegmentBuilder:
    """Cuts sorted rows into blocks, column by column.

    Args:
        identity: The new segment's id.
        rows: How many rows there will be; at least one.
        widest: Bytes of the widest column over all rows, an estimate.
        context: The partition that it is for.
        options: Sizes of blocks.
    """

    def __init__(
        self, identity: SegmentId, rows: int, widest: int, context: PartitionContext, options: StateOptions
    ) -> None:
        self._id = identity
        self._rows = rows
        self._context = context
        self._block_rows = _block_rows(rows, widest, options)
        self._statistics: dict[int, ColumnStatistics] = {}
        self._sketches: dict[int, Sketch] = {}
        self._column_bytes: dict[int, int] = {}
        self._fences: tuple[pa.Array, pa.Array] | None = None

    def add(self, column: int, values: pa.Array, order: Rows) -> Iterator[Pair]:
        """Take one column; all `PartitionContext.stored_columns` must be added.

        Args:
            column: Its place in the schema, or `KEY_COLUMN`.
            values: Source values.
            order: For each row of the segment, the place of its value.

        Yields:
            RocksDB pairs to be written before the segment counts.
        """
        if column == self._context.key_column:
            yield from self._encode_column(
                column, self._cache_key_column(self._context.numbers[column], values.take(pa.array(order)))
            )
        else:
            yield from self.add_blocks(column, (values.take(pa.array(part)) for part in self.parts(order)))

    def parts(self, order: Rows) -> Iterator[Rows]:
        """What there is for each row, for each block."""
        for start in range(0, self._rows, self._block_rows):
            yield order[start : start + self._block_rows]

    def add_blocks(self, column: int, blocks: Iterable[pa.Array]) -> Iterator[Pair]:
        """Take one column that sort keys are not read from; only one block of it is in memory at a time.

        Args:
            column: As for `add`.
            blocks: Its values, cut as `parts` cuts.

        Yields:
            As `add`.
        """
        yield from self._encode_column(column, self._cache_blocks(self._context.numbers[column], blocks))

    def _encode_column(self, column: int, blocks: Iterable[pa.Array]) -> Iterator[Pair]:
        number, arrow_type = self._context.numbers[column], self._context.column_type(column)
        statistics = (
            StatisticsBuilder(arrow_type) if column != KEY_COLUMN and has_statistics(arrow_type) else None
        )
        is_sketched = self._rows >= LEAST_SKETCHED_ROWS and column != KEY_COLUMN and has_sketch(arrow_type)
        sketches: list[Sketch] = []
        nbytes = 0
        for block, array in enumerate(blocks):
            if statistics is not None:
                statistics.add(array)
            if is_sketched:
                sketches.append(sketch_of(array))
            nbytes += array.nbytes
            yield block_key(self._id, number, block), encode_block(array)
        if statistics is not None:
            self._statistics[number] = statistics.finish()
        if is_sketched:
            self._sketches[number] = unite_sketches(sketches)
        self._column_bytes[number] = nbytes

    def _cache_blocks(self, number: int, blocks: Iterable[pa.Array]) -> Iterator[pa.Array]:
        """The same blocks, which the cache has from now on."""
        for block, array in enumerate(blocks):
            self._context.cache.put(CacheKey(self._context.number, self._id, block, number), array)
            yield array

    def _cache_key_column(self, number: int, ordered: pa.Array) -> Sequence[pa.Array]:
        entry = self._context.key_column_of(ordered)
        self._context.cache.put(CacheKey(self._context.number, self._id, WHOLE, number), entry)
        starts = np.arange(0, self._rows, self._block_rows)
        stops = np.minimum(starts + self._block_rows, self._rows) - 1
        self._fences = (
            _encode_fences(sort_keys.take(entry.keys, starts)),
            _encode_fences(sort_keys.take(entry.keys, stops)),
        )
        return [ordered[start : start + self._block_rows] for start in starts.tolist()]

    def finish(self) -> Segment:
        """The segment, when all columns are added."""
        assert self._fences is not None
        first, last = self._fences
        return Segment(
            self._id,
            SegmentRecord(
                self._rows,
                self._block_rows,
                self._column_bytes,
                first,
                last,
                self._statistics,
                self._sketches,
            ),
            self._context,
        )


def _encode_fences(keys: Keys) -> pa.Array:
    return pa.array(keys) if isinstance(keys, np.ndarray) else keys


def _block_rows(rows: int, widest: int, options: StateOptions) -> int:
    """A power of two, so that a block of the widest column has about `block_bytes`."""
    fitting = max(1, options.block_bytes * rows // max(widest, 1))
    return min(options.block_rows, 1 << (fitting.bit_length() - 1))
