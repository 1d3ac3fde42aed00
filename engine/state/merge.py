"""New segments: from the rows of an epoch, and from the live rows of older segments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from engine.state import keys as sort_keys
from engine.state.formats import KEY_COLUMN, SegmentId
from engine.state.keys import Keys, Rows
from engine.state.options import StateOptions
from engine.state.segment import PartitionContext, SegmentBuilder
from engine.state.storage import Pair
from engine.state.version import LiveSegment


def segment_of_rows(builder: SegmentBuilder, context: PartitionContext, rows: pa.RecordBatch, keys: Keys, order: Rows) -> Iterator[Pair]:
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
    for column in range(len(context.schema)):
        yield from builder.add(column, rows.column(column), order)
    if context.codec.is_stored:
        yield from builder.add(KEY_COLUMN, keys, order)


class Merge:
    """The live rows of several segments, in key order.

    Args:
        inputs: The segments; a key is live in at most one of them.
        context: Their partition.
    """

    def __init__(self, inputs: Sequence[LiveSegment], context: PartitionContext) -> None:
        self._inputs = inputs
        self._context = context
        live = [np.arange(entry.segment.rows) if entry.live is None else np.flatnonzero(entry.live) for entry in inputs]
        keys = sort_keys.concatenate([sort_keys.take(entry.segment.keys(), rows) for entry, rows in zip(inputs, live, strict=True)])
        starts = np.cumsum([0, *(entry.segment.rows for entry in inputs[:-1])])
        joined = np.concatenate([rows + start for rows, start in zip(live, starts, strict=True)])
        self._order: Rows = joined[sort_keys.order(keys)]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self._order)

    @property
    def widest(self) -> int:
        """Bytes of the widest column, dead rows included."""
        columns = self._inputs[0].segment.record.column_bytes
        return max(sum(entry.segment.record.column_bytes[column] for entry in self._inputs) for column in columns)

    def builder(self, identity: SegmentId, options: StateOptions) -> SegmentBuilder:
        """A builder for the merged segment."""
        return SegmentBuilder(identity, self.rows, self.widest, self._context, options)

    def build(self, builder: SegmentBuilder) -> Iterator[Pair]:
        """Build the merged segment, one column in memory at a time.

        Yields:
            RocksDB pairs to be written before the segment counts.
        """
        for column in self._inputs[0].segment.record.column_bytes:
            values = pa.concat_arrays([entry.segment.whole_column(column) for entry in self._inputs])
            yield from builder.add(column, values, self._order)
