"""A new segment of the live rows of older ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from engine.state import keys as sort_keys
from engine.state.formats import SegmentId
from engine.state.keys import Keys, Rows
from engine.state.segment import PartitionContext, Segment
from engine.state.segment_builder import SegmentBuilder
from engine.state.state_options import MIB, StateOptions
from engine.state.storage import Pair
from engine.state.version import LiveSegment, SegmentChanges, Version, supersede

LARGE_COLUMN_BYTES = 128 * MIB
"""A column of a merge from which on it is gathered block by block: joined and then sorted it would be in
memory three times.
"""


def replace_inputs(version: Version, inputs: Sequence[LiveSegment], merged: LiveSegment) -> SegmentChanges:
    """Put a merged segment in the place of its inputs. What died in these while it was written dies in it.

    Args:
        version: The partition as it is now.
        inputs: The inputs, as they were when the merge began: all with rows, or all tombstone segments.
        merged: The merged segment, in the partition's shape.
    """
    now = {entry.segment.id: entry for entry in version.all_segments}
    keys = sort_keys.concatenate([_keys_that_died(entry, now.get(entry.segment.id)) for entry in inputs])
    added, died = supersede([merged], sort_keys.take(keys, sort_keys.order(keys)))
    replaced = {entry.segment.id for entry in inputs}
    kept = [entry for entry in version.all_segments if entry.segment.id not in replaced]
    if replaced.isdisjoint(entry.segment.id for entry in version.tombstone_segments):
        return SegmentChanges(kept, died, added)
    return SegmentChanges(kept, died, [], added)


def _keys_that_died(then: LiveSegment, now: LiveSegment | None) -> Keys:
    """Sort keys of the rows that were live then and are not now; a segment that is gone has none that are
    live.
    """
    alive_then = np.ones(then.segment.rows, np.uint8) if then.live is None else then.live
    if now is None:
        rows = np.flatnonzero(alive_then)
    elif now.live is None:
        rows = np.empty(0, np.intp)
    else:
        rows = np.flatnonzero(alive_then > now.live)
    return sort_keys.take(then.segment.keys(), rows)


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
    def nbytes(self) -> int:
        """Arrow bytes of the inputs, dead rows included."""
        return sum(entry.segment.record.nbytes for entry in self._inputs)

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
                chunks = [chunk for entry in self._inputs for chunk in entry.segment.column_chunks(column)]
                yield from builder.add(column, pa.concat_arrays(chunks), self._order)

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
