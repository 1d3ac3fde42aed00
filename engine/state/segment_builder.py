"""A new segment: sorted rows, cut into blocks column by column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.model.distinct_sketch import NO_HASHES, Sketch, has_sketch, sketch_of
from engine.processes.right_of_way import RIGHT_OF_WAY
from engine.state import keys as sort_keys
from engine.state.cache_places import WHOLE, CacheKey
from engine.state.formats import (
    KEY_COLUMN,
    KEY_FILTER,
    PAGE_FENCES,
    SegmentId,
    SegmentRecord,
    block_key,
    encode_block,
)
from engine.state.key_column import KeyColumn
from engine.state.key_filter import KeyFilter
from engine.state.key_pages import encode_pages, page_rows_of
from engine.state.keys import Keys, Rows
from engine.state.partition_context import PartitionContext
from engine.state.segment import Segment
from engine.state.state_options import StateOptions
from engine.state.statistics import (
    ColumnStatistics,
    StatisticsBuilder,
    StatisticsOfBlocks,
    has_statistics,
)
from engine.state.storage import Pair

Places = npt.NDArray[np.integer[Any]]
"""Places of values, in any type of numbers."""
HotBlocks = Mapping[int, npt.NDArray[np.bool_]]
"""Place of a column to which of its blocks are read now and again."""
LARGE_SEGMENT_ROWS = 3 << 19
"""From so many rows on, blocks and pages are smaller."""
LARGE_BLOCK_SHARE, LARGE_PAGE_SHARE = 8, 4
"""Blocks then have at most this part of the rows that they have else, and pages of the bytes."""
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
    stored = rows.select(range(len(context.schema)))
    for block, part in enumerate(builder.parts(order)):
        places = pa.array(part)
        for column, values in enumerate(stored.take(places).columns):
            yield from builder.add_block(column, block, values)
        if context.codec.is_stored:
            yield from builder.add_block(KEY_COLUMN, block, keys.take(places))
        RIGHT_OF_WAY.give_way()
    yield from builder.finish_keys()


def build_buffered_segment(
    identity: SegmentId,
    context: PartitionContext,
    rows: pa.RecordBatch,
    keys: Keys,
    order: Rows,
    block_rows: int,
    *,
    is_sketched: bool,
) -> tuple[Segment, Mapping[bytes, pa.Array]]:
    """Make a segment of one block, without pages of keys, that is not written: nothing is encoded, and its
    statistics are made when somebody asks for them. For many it is merged before.

    Args:
        identity: The new segment's id.
        context: The partition.
        rows: A batch whose first columns are those of the store's schema.
        keys: Sort key of each row of the batch.
        order: The rows to keep, in key order; at least one.
        block_rows: Rows of a block, at least as many.
        is_sketched: Whether columns get sketches.

    Returns:
        The segment, and its blocks by their RocksDB keys.
    """
    places = pa.array(order)
    columns = dict(enumerate(rows.select(range(len(context.schema))).take(places).columns))
    if context.codec.is_stored:
        columns[KEY_COLUMN] = keys.take(places)
    numbers = context.numbers
    entries: dict[CacheKey, pa.Array | KeyColumn] = {
        CacheKey(context.number, identity, 0, numbers[place]): values
        for place, values in columns.items()
        if place != context.key_column
    }
    whole = CacheKey(context.number, identity, WHOLE, numbers[context.key_column])
    entries[whole] = context.key_column_of(columns[context.key_column])
    context.cache.put_all(entries)
    ends = sort_keys.take(keys, order[[0, -1]])
    sketched = columns if is_sketched and len(order) >= LEAST_SKETCHED_ROWS else {}
    record = SegmentRecord(
        len(order),
        block_rows,
        {numbers[place]: values.nbytes for place, values in columns.items()},
        _encode_fences(ends[:1]),
        _encode_fences(ends[1:]),
        StatisticsOfBlocks(
            {
                numbers[place]: values
                for place, values in columns.items()
                if place != KEY_COLUMN and has_statistics(values.type)
            }
        ),
        {
            numbers[place]: sketch_of(values, NO_HASHES)
            for place, values in sketched.items()
            if place != KEY_COLUMN and has_sketch(values.type)
        },
    )
    blocks = {block_key(identity, numbers[place], 0): values for place, values in columns.items()}
    return Segment(identity, record, context), blocks


class SegmentBuilder:
    """Cuts sorted rows into blocks, column by column.

    Args:
        identity: The new segment's id; an attribute, too.
        rows: How many rows there will be; at least one.
        widest: Bytes of the widest column over all rows, an estimate.
        context: The partition that it is for.
        options: Sizes of blocks.
        hot: Which blocks of each column, by its place, the cache is to have from now on; None for all.
        is_sketched: Whether columns get sketches.
    """

    def __init__(
        self,
        identity: SegmentId,
        rows: int,
        widest: int,
        context: PartitionContext,
        options: StateOptions,
        hot: HotBlocks | None = None,
        *,
        is_sketched: bool = True,
    ) -> None:
        self.identity = identity
        self._rows = rows
        self._context = context
        self._block_rows = block_rows_of(rows, widest, options)
        self._hot = hot
        self._columns: dict[int, _ColumnBuilder] = {}
        self._is_sketched = is_sketched and rows >= LEAST_SKETCHED_ROWS
        self._keys = _KeyBuilder(rows, self._block_rows, context, options)

    def add(self, column: int, values: pa.Array, order: Places) -> Iterator[Pair]:
        """Take one column; all `PartitionContext.stored_columns` must be added.

        Args:
            column: Its place in the schema, or `KEY_COLUMN`.
            values: Source values.
            order: For each row of the segment, the place of its value.

        Yields:
            RocksDB pairs to be written before the segment counts.
        """
        yield from self.add_blocks(column, (values.take(pa.array(part)) for part in self.parts(order)))

    @property
    def blocks(self) -> int:
        """How many blocks there will be."""
        return -(-self._rows // self._block_rows)

    @property
    def nbytes(self) -> int:
        """Arrow bytes of what was added so far."""
        return sum(column.nbytes for column in self._columns.values())

    def parts(self, order: Places, blocks: int = 1) -> Iterator[Places]:
        """What there is for each row, for so many blocks at a time."""
        step = blocks * self._block_rows
        for start in range(0, self._rows, step):
            yield order[start : start + step]

    def add_blocks(self, column: int, blocks: Iterable[pa.Array]) -> Iterator[Pair]:
        """Take one column; only one block of it is in memory at a time, unless the cache keeps it.

        Args:
            column: As for `add`.
            blocks: Its values, cut as `parts` cuts.

        Yields:
            As `add`.
        """
        for block, array in enumerate(blocks):
            RIGHT_OF_WAY.give_way()
            yield from self.add_block(column, block, array)
        if column == self._context.key_column:
            yield from self.finish_keys()

    def add_block(self, column: int, block: int, array: pa.Array) -> Iterator[Pair]:
        """Take the next block of a column.

        Args:
            column: As for `add`.
            block: Its number.
            array: Its values.

        Yields:
            As `add`.
        """
        context, hot = self._context, self._hot
        number = context.numbers[column]
        if number not in self._columns:
            self._columns[number] = _ColumnBuilder(column, context, is_sketched=self._is_sketched)
        self._columns[number].add(array)
        if column == context.key_column:
            self._keys.add(array)
        elif hot is None or (column in hot and hot[column][block]):
            context.cache.put(CacheKey(context.number, self.identity, block, number), array)
        yield from self._encode_block(column, block, array)

    def finish_keys(self) -> Iterator[Pair]:
        """Take note that all blocks of the column were added that sort keys are read from.

        Yields:
            As `add`.
        """
        context, keys = self._context, self._keys
        if keys.page_rows:
            yield block_key(self.identity, PAGE_FENCES, 0), encode_block(pa.concat_arrays(keys.page_fences))
        if keys.filter is not None:
            for piece, data in enumerate(keys.filter.encode()):
                yield block_key(self.identity, KEY_FILTER, piece), data
        if keys.columns:
            place = CacheKey(context.number, self.identity, WHOLE, context.numbers[context.key_column])
            whole = keys.columns[0] if len(keys.columns) == 1 else pa.concat_arrays(keys.columns)
            context.cache.put(place, context.key_column_of(whole))

    def _encode_block(self, column: int, block: int, array: pa.Array) -> Iterator[Pair]:
        number, page_rows = self._context.numbers[column], self._keys.page_rows
        if column != self._context.key_column or not page_rows:
            yield block_key(self.identity, number, block), encode_block(array)
            return
        first = block * (self._block_rows // page_rows)
        for page, data in enumerate(encode_pages(array, page_rows), first):
            yield block_key(self.identity, number, page), data

    def cut(self, stretches: Iterable[pa.Array]) -> Iterator[pa.Array]:
        """Blocks of a column.

        Args:
            stretches: Its values, each some whole blocks but the last.
        """
        for stretch in stretches:
            for start in range(0, len(stretch), self._block_rows):
                yield stretch[start : start + self._block_rows]

    def finish(self) -> Segment:
        """The segment, when all columns are added."""
        keys, columns = self._keys, self._columns
        made = {number: (column.statistics, column.sketch) for number, column in columns.items()}
        return Segment(
            self.identity,
            SegmentRecord(
                self._rows,
                self._block_rows,
                {number: column.nbytes for number, column in columns.items()},
                _encode_fences(sort_keys.concatenate(keys.first)),
                _encode_fences(sort_keys.concatenate(keys.last)),
                {number: statistics for number, (statistics, _) in made.items() if statistics is not None},
                {number: sketch for number, (_, sketch) in made.items() if sketch is not None},
                keys.page_rows,
                None if keys.filter is None else keys.filter.checksum,
            ),
            self._context,
        )


class _ColumnBuilder:
    """What is made of a column beside its blocks, from one block after the other.

    Args:
        column: As for `SegmentBuilder.add`.
        context: The partition.
        is_sketched: Whether it gets a sketch, if its type has any.

    Attributes:
        nbytes: Arrow bytes of the blocks so far.
        sketch: The sketch of the blocks so far; None where there is none.
    """

    def __init__(self, column: int, context: PartitionContext, *, is_sketched: bool) -> None:
        arrow_type = context.column_type(column)
        self.nbytes = 0
        self._statistics = (
            StatisticsBuilder(arrow_type) if column != KEY_COLUMN and has_statistics(arrow_type) else None
        )
        self.sketch: Sketch | None = (
            NO_HASHES if is_sketched and column != KEY_COLUMN and has_sketch(arrow_type) else None
        )

    def add(self, block: pa.Array) -> None:
        """Take the next block."""
        self.nbytes += block.nbytes
        if self._statistics is not None:
            self._statistics.add(block)
        if self.sketch is not None:
            self.sketch = sketch_of(block, self.sketch)

    @property
    def statistics(self) -> ColumnStatistics | None:
        """The statistics; None where the column has none."""
        return None if self._statistics is None else self._statistics.finish()


class _KeyBuilder:
    """What is made of a key column beside its blocks, from one block after the other.

    Args:
        rows: How many rows there will be.
        block_rows: Rows of a block.
        context: The partition.
        options: Sizes of pages.

    Attributes:
        page_rows: Rows of a page, known from the first block on; 0 where the column is stored in blocks.
        first: Sort key of the first row of each block.
        last: Sort key of the last row of each block.
        page_fences: The column's value in the first row of each page.
        columns: The blocks, where the cache is to have the column as a whole.
        filter: The filter; None where the cache has all keys.
    """

    def __init__(self, rows: int, block_rows: int, context: PartitionContext, options: StateOptions) -> None:
        self._rows = rows
        self._block_rows = block_rows
        self._context = context
        self._options = options
        self.page_rows = 0
        self.first: list[Keys] = []
        self.last: list[Keys] = []
        self.page_fences: list[pa.Array] = []
        self.columns: list[pa.Array] = []
        self.filter: KeyFilter | None = None
        self._is_whole = True

    def _begin(self, block: pa.Array) -> None:
        """Decide what is made, by the first block."""
        if self._rows < self._options.paged_rows:
            return
        self.page_rows = page_rows_of(block, self._block_rows, page_bytes_of(self._rows, self._options))
        nbytes = self._context.key_bytes(block.nbytes, len(block)) * self._rows // len(block)
        self._is_whole = not self.page_rows or self._context.cache.keeps_keys(nbytes)
        if not self._is_whole:
            self.filter = KeyFilter.make_empty(self._rows)

    def add(self, block: pa.Array) -> None:
        """Take the next block."""
        if not self.first:
            self._begin(block)
        keys = self._context.sort_keys(block)
        # A slice would keep all keys of the block in memory.
        ends = sort_keys.take(keys, np.array([0, len(keys) - 1]))
        self.first.append(ends[:1])
        self.last.append(ends[1:])
        if self.page_rows:
            self.page_fences.append(block.take(pa.array(np.arange(0, len(block), self.page_rows))))
        if self.filter is not None:
            self.filter.add(keys)
        if self._is_whole:
            self.columns.append(block)


def _encode_fences(keys: Keys) -> pa.Array:
    return pa.array(keys) if isinstance(keys, np.ndarray) else keys


def page_bytes_of(rows: int, options: StateOptions) -> int:
    """Bytes of a page to aim at. Of a large segment they are fewer: an epoch reads many of its pages, and
    their bytes come from far behind the processor's cache.

    Args:
        rows: Rows of the segment.
        options: Sizes of pages.
    """
    return options.page_bytes if rows < LARGE_SEGMENT_ROWS else options.page_bytes // LARGE_PAGE_SHARE


def block_rows_of(rows: int, widest: int, options: StateOptions) -> int:
    """Rows of a block: a power of two, so that a block of the widest column has about `block_bytes`. Of a
    large segment they are fewer: few of its blocks are in the cache, and a row is read with its whole blocks.

    Args:
        rows: Rows of the segment.
        widest: Bytes of the widest column over all rows, an estimate.
        options: Sizes of blocks.
    """
    fitting = max(1, options.block_bytes * rows // max(widest, 1))
    most = options.block_rows if rows < LARGE_SEGMENT_ROWS else options.block_rows // LARGE_BLOCK_SHARE
    return max(1, min(most, 1 << (fitting.bit_length() - 1)))
