"""New segments: from the rows of an epoch, and from the live rows of older segments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from engine.state import keys as sort_keys
from engine.state.formats import KEY_COLUMN, SegmentId
from engine.state.keys import Keys, Rows
from engine.state.segment import PartitionContext, Segment, SegmentBuilder
from engine.state.state_options import MIB, StateOptions
from engine.state.storage import Pair
from engine.state.version import LiveSegment

LARGE_COLUMN_BYTES = 128 * MIB
"""A column of a merge from which on it is gathered block by block: joined and then sorted it would be in
memory three times.
"""


def segment_of_rows(
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


class Merge:
    """The live rows of several segments, in key order. The merged segment has the columns of the partition's
    shape and no others.

    Args:
        inputs: The segments; a key is live in at most one of them.
        context: Their partition, in their shape.
    """

    def __init__(self, inputs: Sequence[LiveSegment], context: PartitionContext) -> None:
        self._inputs = inputs
        self._context = context
        live = [
            np.arange(entry.segment.rows) if entry.live is None else np.flatnonzero(entry.live)
            for entry in inputs
        ]
        keys = sort_keys.concatenate(
            [sort_keys.take(entry.segment.keys(), rows) for entry, rows in zip(inputs, live, strict=True)]
        )
        self._starts: Rows = np.cumsum([0, *(entry.segment.rows for entry in inputs[:-1])])
        joined = np.concatenate([rows + start for rows, start in zip(live, self._starts, strict=True)])
        self._order: Rows = joined[sort_keys.order(keys)]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self._order)

    @property
    def widest(self) -> int:
        """Bytes of the widest column, dead rows included."""
        return max(self._bytes(column) for column in self._context.stored_columns)

    def builder(self, identity: SegmentId, options: StateOptions) -> SegmentBuilder:
        """A builder for the merged segment."""
        return SegmentBuilder(identity, self.rows, self.widest, self._context, options)

    def build(self, builder: SegmentBuilder) -> Iterator[Pair]:
        """Build the merged segment, one column in memory at a time, and of a large one a block of each input.

        Yields:
            RocksDB pairs to be written before the segment counts.
        """
        for column in self._context.stored_columns:
            if column != self._context.key_column and self._bytes(column) > LARGE_COLUMN_BYTES:
                gathering = _Gathering([entry.segment for entry in self._inputs], self._starts, column)
                yield from builder.add_blocks(column, map(gathering.rows, builder.parts(self._order)))
            else:
                values = pa.concat_arrays([entry.segment.whole_column(column) for entry in self._inputs])
                yield from builder.add(column, values, self._order)

    def _bytes(self, column: int) -> int:
        return sum(entry.segment.column_bytes(column) for entry in self._inputs)


class _Gathering:
    """Rows of one column of several segments, of each of which one block at a time is in memory.

    Args:
        segments: The segments.
        starts: The number of each one's first row, counted through all of them.
        column: Place of the column.
    """

    def __init__(self, segments: Sequence[Segment], starts: Rows, column: int) -> None:
        self._segments = segments
        self._starts = starts
        self._column = column
        self._blocks: list[tuple[int, pa.Array]] = [(-1, None)] * len(segments)

    def rows(self, wanted: Rows) -> pa.Array:
        """Some rows.

        Args:
            wanted: Their numbers. Those of one segment ascend, from one call to the next as well, so that
                each block is read once.
        """
        owners = np.searchsorted(self._starts, wanted, "right") - 1
        pieces, places = [], []
        for owner in np.unique(owners).tolist():
            mine = np.flatnonzero(owners == owner)
            blocks, inside = np.divmod(
                wanted[mine] - self._starts[owner], self._segments[owner].record.block_rows
            )
            for block in np.unique(blocks).tolist():
                chosen = blocks == block
                pieces.append(self._block(owner, block).take(pa.array(inside[chosen])))
                places.append(mine[chosen])
        return pa.concat_arrays(pieces).take(pa.array(np.argsort(np.concatenate(places))))

    def _block(self, owner: int, block: int) -> pa.Array:
        known, array = self._blocks[owner]
        if known != block:
            array = self._segments[owner].read_through(self._column, block)
            self._blocks[owner] = (block, array)
        return array
