"""A new segment of the live rows of older ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.processes.right_of_way import RIGHT_OF_WAY
from engine.state import keys as sort_keys
from engine.state.formats import SegmentId
from engine.state.keys import Keys, Rows
from engine.state.partition_context import PartitionContext
from engine.state.segment import Segment
from engine.state.segment_builder import HotBlocks, Places, SegmentBuilder, block_rows_of
from engine.state.state_options import MIB, StateOptions
from engine.state.storage import Pair
from engine.state.version import LiveSegment, SegmentChanges, Version, supersede

LARGE_COLUMN_BYTES = 64 * MIB
"""A column of a merge from which on it is gathered block by block: joined and then sorted it would be in
memory three times.
"""
STRETCH_ROWS = 256 * 1024
"""Rows of the longest input that are sorted at once, with those of the other inputs that lie between the same
keys.
"""
GATHERED_BYTES = MIB // 2
"""Blocks are gathered together up to this size: to gather has a price for each block of the inputs."""
LARGE_MERGE_SHARE = 16
"""What a merge makes that is larger than this part of the cache, and than the room in it, comes there when it
counts: before, it would drive out what it is made of.
"""
RowNumbers = npt.NDArray[np.uint32]
"""Row numbers through all inputs of a merge: half the memory of numpy's own."""


def replace_inputs(version: Version, inputs: Sequence[LiveSegment], merged: LiveSegment) -> SegmentChanges:
    """Put a merged segment in the place of its inputs. What died in these while it was written dies in it.

    Args:
        version: The partition as it is now.
        inputs: The inputs, as they were when the merge began: all with rows, or all tombstone segments.
        merged: The merged segment, in the partition's shape.
    """
    now = {entry.segment.id: entry for entry in version.all_segments}
    keys = sort_keys.concatenate([_keys_that_died(entry, now.get(entry.segment.id)) for entry in inputs])
    added = supersede([merged], sort_keys.take(keys, sort_keys.order(keys)))
    replaced = {entry.segment.id for entry in inputs}
    kept = [entry for entry in version.all_segments if entry.segment.id not in replaced]
    if replaced.isdisjoint(entry.segment.id for entry in version.tombstone_segments):
        return SegmentChanges(kept, added)
    return SegmentChanges(kept, [], added)


def _keys_that_died(then: LiveSegment, now: LiveSegment | None) -> Keys:
    """Sort keys of the rows that were live then and are not now; a segment that is gone has none that are
    live.
    """
    if now is None:
        rows = then.all_live_rows()
    elif now.dead is None or now.dead is then.dead:
        rows = np.empty(0, np.intp)
    else:
        rows = now.dead.dead_since(then.dead)
    return then.segment.keys.of_rows(rows)


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
        self._hot: HotBlocks = {}
        self._joined: Sequence[int] = ()
        """Columns that the cache has as one entry for most rows of the inputs."""
        self._starts: Rows = np.cumsum([0, *(entry.segment.rows for entry in inputs[:-1])])
        stretches = [self._order_of(spans) for spans in _stretches([entry.segment for entry in inputs])]
        self._order = np.concatenate(stretches) if len(stretches) > 1 else stretches[0]

    def _order_of(self, spans: Sequence[tuple[int, int]]) -> RowNumbers:
        """The live rows of a span of each input in key order, counted through all inputs."""
        keys, numbers = [], []
        for entry, begin, (start, stop) in zip(self._inputs, self._starts.tolist(), spans, strict=True):
            rows = np.arange(start, stop) if entry.dead is None else entry.dead.live_rows(start, stop)
            if len(rows):
                found = entry.segment.keys.read_between(start, stop)
                keys.append(found if len(rows) == stop - start else sort_keys.take(found, rows - start))
                numbers.append((rows + begin).astype(np.uint32))
        if not keys:
            return np.empty(0, np.uint32)
        RIGHT_OF_WAY.give_way()
        joined: RowNumbers = np.concatenate(numbers)[sort_keys.order(sort_keys.concatenate(keys))]
        return joined

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

    def builder(self, identity: SegmentId, options: StateOptions, *, is_sketched: bool) -> SegmentBuilder:
        """A builder for the merged segment."""
        hot = self._hot = self._find_hot_blocks(block_rows_of(self.rows, self.widest, options))
        cache = self._context.cache
        is_large = self.nbytes > max(cache.capacity // LARGE_MERGE_SHARE, cache.capacity - cache.nbytes)
        if not is_large:
            self._hot = {}
        joined_rows = {
            column: sum(each.segment.rows for each in self._inputs if each.segment.reader.is_joined(column))
            for column in hot
        }
        self._joined = [column for column, rows in joined_rows.items() if rows * 2 >= self.rows]
        return SegmentBuilder(
            identity,
            self.rows,
            self.widest,
            self._context,
            options,
            {} if is_large else hot,
            is_sketched=is_sketched,
        )

    def _find_hot_blocks(self, block_rows: int) -> HotBlocks:
        """The blocks of which the cache has what half of their rows or more come from. So a merge changes
        neither what is found there nor what has room there.
        """
        segments = [entry.segment for entry in self._inputs]
        kept = {
            column: np.concatenate([segment.reader.kept_blocks(column) for segment in segments])
            for column in self._context.stored_columns
            if column != self._context.key_column
        }
        blocks_made = -(-self.rows // block_rows)
        hot = {column: np.full(blocks_made, flags.all()) for column, flags in kept.items() if flags.any()}
        in_part = {column: kept[column] for column in hot if not kept[column].all()}
        blocks = np.array([segment.blocks for segment in segments])
        lengths = np.array([segment.record.block_rows for segment in segments])
        firsts = np.cumsum(blocks) - blocks
        for block, start in enumerate(range(0, self.rows if in_part else 0, block_rows)):
            rows = self._order[start : start + block_rows]
            owners = np.searchsorted(self._starts, rows, "right") - 1
            sources = firsts[owners] + (rows - self._starts[owners]) // lengths[owners]
            counts = np.bincount(sources, minlength=int(blocks.sum()))
            for column, flags in in_part.items():
                hot[column][block] = counts[flags].sum() * 2 >= len(rows)
        return hot

    def join_columns(self, merged: Segment) -> None:
        """Have the cache put the blocks of the merged segment together that were together for its inputs and
        are there already; for before it comes to count, as the first statement after that would do it.
        """
        for column in self._joined if merged.blocks > 1 else ():
            RIGHT_OF_WAY.give_way()
            merged.reader.join(column)

    def warm(self, merged: Segment) -> None:
        """Have the cache read the hot blocks of the merged segment that it does not have; for after it has
        come to count.
        """
        for column, flags in self._hot.items():
            for block in np.flatnonzero(flags).tolist():
                RIGHT_OF_WAY.give_way()
                merged.reader.column(column, block)
        self.join_columns(merged)

    def build(self, builder: SegmentBuilder) -> Iterator[Pair]:
        """Build the merged segment, one column in memory at a time, and of a large one a block of each input.

        Yields:
            RocksDB pairs to be written before the segment counts.
        """
        for column in self._context.stored_columns:
            if self._bytes(column) > LARGE_COLUMN_BYTES:
                gathering = _Gathering([entry.segment for entry in self._inputs], self._starts, column)
                blocks = max(1, GATHERED_BYTES * builder.blocks // self._bytes(column))
                stretches = map(gathering.rows, builder.parts(self._order, blocks))
                yield from builder.add_blocks(column, builder.cut(stretches))
            else:
                chunks = [
                    chunk for entry in self._inputs for chunk in entry.segment.reader.column_chunks(column)
                ]
                yield from builder.add(column, pa.concat_arrays(chunks), self._order)

    def _bytes(self, column: int) -> int:
        return sum(entry.segment.reader.column_bytes(column) for entry in self._inputs)


def _stretches(segments: Sequence[Segment]) -> Iterator[Sequence[tuple[int, int]]]:
    """Spans of each of some segments, so that no key of a span comes before one of the spans before."""
    longest = max(segments, key=lambda segment: segment.rows)
    cuts = longest.keys.first_of_blocks(max(1, STRETCH_ROWS // longest.record.block_rows))
    edges = [[0, *segment.keys.position(cuts, "left").tolist(), segment.rows] for segment in segments]
    yield from zip(*(pairwise(each) for each in edges), strict=True)


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

    def rows(self, wanted: Places) -> pa.Array:
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
            array = self._segments[owner].reader.read_through(self._column, block)
            self._blocks[owner] = (block, array)
        return array
