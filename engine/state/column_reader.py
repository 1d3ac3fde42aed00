"""Reads columns of a segment through the cache: by block, as a whole, as tables, and in the layout of a scan.

Columns have places in a shape, and numbers for ever (`engine.model.columns`): what is cached goes by number,
everything else by place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.state.block_table import BlockTable
from engine.state.cache import ColumnCache
from engine.state.cache_places import ENCODED, WHOLE, CacheKey, ColumnPlace, SegmentPlace, TablePlace
from engine.state.formats import BESIDE_COLUMNS, SegmentId, SegmentRecord
from engine.state.key_column import KeyColumn
from engine.state.partition_context import PartitionContext
from engine.state.scan_encoding import encode
from engine.state.stored_segment import StoredSegment

MOST_KNOWN_KEYS = 128
"""Lists of places in the cache that a segment keeps."""
MOST_JOINED_BYTES = 256 << 20
"""Larger columns stay in blocks."""
LARGEST_JOINED_SHARE = 16
"""Nor are columns joined that take more than this part of the cache, which drops them as a whole."""


class ColumnReader:
    """Reads columns of one segment.

    Args:
        identity: Id of the segment in its partition.
        record: What is known of it without reading blocks.
        context: The partition it belongs to, in the shape in which it is seen.
        stored: What is stored of it.

    Attributes:
        blocks: How many blocks there are, at least one.
        place: Where the segment is in the cache.
        whole_key: Where its key column is in the cache as a whole.
    """

    def __init__(
        self, identity: SegmentId, record: SegmentRecord, context: PartitionContext, stored: StoredSegment
    ) -> None:
        self.blocks = len(record.first)
        self.place = SegmentPlace(context.number, identity)
        self.whole_key = CacheKey(context.number, identity, WHOLE, context.numbers[context.key_column])
        self._id = identity
        self._record = record
        self._context = context
        self._stored = stored
        self._joined = {context.key_column}
        """Columns that the cache most likely has whole."""
        self._known_keys: dict[tuple[int, ...], Sequence[CacheKey]] = {}

    @property
    def cache(self) -> ColumnCache:
        """Where decoded columns are kept, of all segments of the host."""
        return self._context.cache

    @property
    def key_bytes(self) -> int:
        """Bytes that the key column takes in the cache as a whole, an estimate."""
        nbytes = self._record.column_bytes.get(self.whole_key.column, 0)
        return self._context.key_bytes(nbytes, self._record.rows)

    def key_column(self) -> KeyColumn:
        """The whole key column with its sort keys."""
        found: KeyColumn = self._context.cache.get(
            self.whole_key, lambda: self._context.key_column_of(self.whole_column(self._context.key_column))
        )
        return found

    def column_bytes(self, column: int) -> int:
        """Arrow bytes of one column, an estimate where it is not stored as it is seen."""
        found = self._record.column_bytes.get(self._context.numbers[column])
        if found is not None:
            return found
        one: pa.Array = pa.repeat(
            self._context.columns[column].default_value(self._context.column_type(column)), 1
        )
        return int(one.nbytes) * self._record.rows

    def bytes_of_rows(self, columns: Sequence[int], rows: int) -> int:
        """Arrow bytes of some columns of so many rows, from the segment's averages.

        Args:
            columns: Places of the columns.
            rows: How many rows.
        """
        return sum([self.column_bytes(column) for column in columns]) * rows // self._record.rows

    def column_place(self, column: int) -> ColumnPlace:
        """Which column it is to the cache.

        Args:
            column: Place of the column.
        """
        return ColumnPlace(*self.place, self._context.numbers[column])

    def column(self, column: int, block: int) -> pa.Array:
        """One column of one block, from the cache or the storage."""
        whole = self._context.cache.find(self._whole_place(column))
        if whole is not None:
            self._note_joined(column)
            start, stop = self._record.block_span(block)
            return _array_of(whole)[start:stop]
        self._note_parted(column)
        return self._context.cache.get(
            self._cache_key(column, block), lambda: self._stored.column(column, block)
        )

    def columns(self, columns: Sequence[int], block: int) -> list[pa.Array]:
        """Several columns of one block."""
        keys = self._column_keys(columns, block)
        return self._arrays(columns, block, keys, self._context.cache.find_all(keys))

    def slices(self, columns: Sequence[int], block: int, start: int, stop: int) -> list[pa.Array]:
        """Several columns of some rows of one block.

        Args:
            columns: Places of the columns.
            block: The block.
            start: The first of the rows, counted in the segment.
            stop: The one behind the last.
        """
        first, length = block * self._record.block_rows, stop - start
        keys = self._column_keys(columns, block)
        return [
            self.column(column, block).slice(start - first, length)
            if entry is None
            else entry.slice(start - first, length)
            if key.block != WHOLE
            else _array_of(entry).slice(start, length)
            for column, key, entry in zip(columns, keys, self._context.cache.find_all(keys), strict=True)
        ]

    def whole_columns(self, columns: Sequence[int]) -> list[pa.Array] | None:
        """Several columns of all blocks, an array each, if they are in memory; blocks that are all there are
        joined for it. Rows of many blocks are picked out of one array in one step.

        Args:
            columns: Places of the columns.

        Returns:
            The columns; None where one is not in memory as a whole, or too large for that.
        """
        if self.blocks == 1:
            return self.columns(columns, 0)
        entries = self._context.cache.find_all(self._column_keys(columns, WHOLE))
        found = []
        for column, entry in zip(columns, entries, strict=True):
            array = self.join(column) if entry is None else _array_of(entry)
            if array is None:
                return None
            found.append(array)
        return found

    def is_joined(self, column: int) -> bool:
        """Whether the blocks of a column are one entry of the cache now."""
        (is_kept,) = self.cache.has([self._whole_place(column)])
        return is_kept

    def join(self, column: int) -> pa.Array | None:
        """One column of all blocks, joined, if each of them is in memory by itself."""
        context = self._context
        if not self.can_be_joined(column):
            return None
        entry = context.cache.join(
            self._whole_place(column),
            self.blocks,
            context.key_column_of if column == context.key_column else lambda array: array,
        )
        if entry is None:
            return None
        self._note_joined(column)
        return _array_of(entry)

    def can_be_joined(self, column: int) -> bool:
        """Whether a column is small enough to be one entry of the cache, which drops it as a whole."""
        nbytes = self.column_bytes(column)
        return nbytes <= MOST_JOINED_BYTES and nbytes * LARGEST_JOINED_SHARE <= self._context.cache.capacity

    def _note_joined(self, column: int) -> None:
        if column not in self._joined:
            self._joined.add(column)
            self._known_keys = {}

    def _note_parted(self, column: int) -> None:
        if column in self._joined:
            self._joined.discard(column)
            self._known_keys = {}

    def table(self, columns: Sequence[int], block: int, schema: pa.Schema) -> BlockTable:
        """Several columns of one block as a table, which is made once for lookups that come again.

        Args:
            columns: Places of the columns; at least one.
            block: The block.
            schema: Schema of the table.
        """
        # The table of the only block is that of all blocks.
        place = TablePlace(WHOLE if self.blocks == 1 else block, tuple(columns))
        (known,) = self.cache.find_tables((self.place,), place, (1,))
        if known is not None and self.fits(known, schema):
            return known
        keys = self._column_keys(columns, block)
        entries = self._context.cache.find_all(keys)
        return self._keep_table(place, schema, keys, entries, self._arrays(columns, block, keys, entries))

    def whole_table(self, columns: Sequence[int], schema: pa.Schema) -> BlockTable | None:
        """Several columns of all blocks as a table, if they are in memory.

        Args:
            columns: Places of the columns; at least one.
            schema: Schema of the table.

        Returns:
            The table; None as for `whole_columns`.
        """
        if self.blocks == 1:
            return self.table(columns, 0, schema)
        arrays = self.whole_columns(columns)
        if arrays is None:
            return None
        keys = self._column_keys(columns, WHOLE)
        entries = self._context.cache.find_all(keys)
        return self._keep_table(TablePlace(WHOLE, tuple(columns)), schema, keys, entries, arrays)

    def _keep_table(
        self,
        place: TablePlace,
        schema: pa.Schema,
        keys: Sequence[CacheKey],
        entries: Sequence[Any],
        arrays: Sequence[pa.Array],
    ) -> BlockTable:
        made = BlockTable(self._context.schema, keys, pa.Table.from_arrays(arrays, schema=schema))
        self._context.cache.put_table(self.place, place, made, entries)
        return made

    def fits(self, table: BlockTable, schema: pa.Schema) -> bool:
        """Whether a table that was made of the segment's columns has them as they are seen.

        Args:
            table: The table.
            schema: What its schema should be.
        """
        return table.stored is self._context.schema and table.has_schema(schema)

    def _column_keys(self, columns: Sequence[int], block: int) -> Sequence[CacheKey]:
        """Where columns of a block are in the cache; kept, since the same are asked for again and again."""
        # One read: what is put into a dictionary of before is never found.
        kept, asked = self._known_keys, (block, *columns)
        known = kept.get(asked)
        if known is None:
            if len(kept) >= MOST_KNOWN_KEYS:
                kept.clear()
            known = kept[asked] = [
                self._whole_place(column)
                if block == WHOLE or column in self._joined
                else self._cache_key(column, block)
                for column in columns
            ]
        return known

    def _arrays(
        self, columns: Sequence[int], block: int, keys: Sequence[CacheKey], entries: Sequence[Any]
    ) -> list[pa.Array]:
        """Several columns of one block from their cache entries, loaded where there is none."""
        start, stop = self._record.block_span(block)
        return [
            self.column(column, block)
            if entry is None
            else entry
            if key.block != WHOLE
            else _array_of(entry).slice(start, stop - start)
            for column, key, entry in zip(columns, keys, entries, strict=True)
        ]

    def whole_column(self, column: int) -> pa.Array:
        """One column of all blocks joined; what has to be read for it stays out of the cache."""
        chunks = self.column_chunks(column)
        return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)

    def column_chunks(self, column: int) -> Sequence[pa.Array]:
        """One column of all blocks, in as many arrays as it is in memory; what has to be read for it stays
        out of the cache.
        """
        whole = self._context.cache.peek(self._whole_place(column))
        if whole is not None:
            return [_array_of(whole)]
        return [self.read_through(column, block) for block in range(self.blocks)]

    def scanned_place(self, column: int) -> CacheKey:
        """Where the cache has `scanned_column`, as far as it has it in one array.

        Args:
            column: Place of the column.
        """
        is_block = self.blocks == 1 and column != self._context.key_column
        return self._cache_key(column, 0) if is_block else self._whole_place(column)

    def scanned_column(self, column: int) -> Sequence[pa.Array]:
        """One column of all blocks, in as few arrays as it can be kept; what is in memory already is joined
        for it.
        """
        cache = self._context.cache
        whole = cache.find(self._whole_place(column), self.blocks)
        if whole is not None:
            return [_array_of(whole)]
        blocks = [self.column(column, block) for block in range(self.blocks)]
        joined = self.join(column) if self.blocks > 1 else None
        return blocks if joined is None else [joined]

    def encoded_column(self, column: int, arrow_type: pa.DataType) -> pa.Array | None:
        """One column of all blocks in the layout of a scan, which is kept beside the column; what has to be
        read for it stays out of the cache.

        Args:
            column: Place of the column.
            arrow_type: What `engine.state.scan_encoding.encoded_type` says of it.

        Returns:
            The column; None where it is too large to be one array, or has values that have no such layout.
        """
        place = self.encoded_place(column)
        known: pa.Array | None = self._context.cache.find(place)
        if known is not None:
            return known
        if not self.can_be_joined(column):
            return None
        try:
            known = encode(self.whole_column(column), arrow_type)
        except pa.ArrowException:
            return None
        self._context.cache.put(place, known)
        return known

    def batch(self, block: int) -> pa.RecordBatch:
        """All columns of one block in the stored schema; what has to be read for it stays out of
        the cache.
        """
        schema = self._context.schema
        columns = [self.read_through(column, block) for column in range(len(schema))]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def read_through(self, column: int, block: int) -> pa.Array:
        """One column of one block; if it has to be read for it, it stays out of the cache."""
        whole = self._context.cache.peek(self._whole_place(column))
        if whole is not None:
            start, stop = self._record.block_span(block)
            return _array_of(whole)[start:stop]
        cached: pa.Array | None = self._context.cache.peek(self._cache_key(column, block))
        return self._stored.column(column, block) if cached is None else cached

    def kept_blocks(self, column: int) -> npt.NDArray[np.bool_]:
        """Which blocks of a column the cache has, in any layout."""
        keys = [self._cache_key(column, block) for block in range(self.blocks)]
        wholes = [self._whole_place(column), self.encoded_place(column)]
        is_whole, is_encoded, *kept = self._context.cache.has([*wholes, *keys])
        return np.array(kept) | is_whole | is_encoded

    def encoded_place(self, column: int) -> CacheKey:
        """Where the cache has `encoded_column`.

        Args:
            column: Place of the column.
        """
        return self._cache_key(column, ENCODED)

    def _whole_place(self, column: int) -> CacheKey:
        return self.whole_key if column == self._context.key_column else self._cache_key(column, WHOLE)

    def _cache_key(self, column: int, block: int) -> CacheKey:
        return CacheKey(self._context.number, self._id, block, self._context.numbers[column])


def find_tables(
    readers: Sequence[ColumnReader], place: TablePlace, schema: pa.Schema, rows: Sequence[int]
) -> list[BlockTable | None]:
    """For each segment a table that was made before; None where there is none. One look at the cache for all,
    as every query along the key asks many segments.

    Args:
        readers: Those of segments of one store.
        place: Which table of each.
        schema: Schema of the tables.
        rows: How many rows of each are wanted.
    """
    if not readers:
        return []
    found = readers[0].cache.find_tables([reader.place for reader in readers], place, rows)
    return [
        table if table is not None and reader.fits(table, schema) else None
        for reader, table in zip(readers, found, strict=True)
    ]


def scanned_columns(readers: Sequence[ColumnReader], column: int) -> list[Sequence[pa.Array]]:
    """For each segment one column, as `ColumnReader.scanned_column`; one look at the cache for all.

    Args:
        readers: Those of segments of one store.
        column: Place of the column.
    """
    if not readers:
        return []
    keys = [reader.scanned_place(column) for reader in readers]
    found = readers[0].cache.find_all(keys, [reader.blocks for reader in readers])
    return [
        reader.scanned_column(column) if entry is None else [_array_of(entry)]
        for reader, entry in zip(readers, found, strict=True)
    ]


def encoded_columns(
    readers: Sequence[ColumnReader], column: int, arrow_type: pa.DataType
) -> Iterator[pa.Array | None]:
    """For each segment one column in the layout of a scan, as `ColumnReader.encoded_column`; one look at the
    cache for all.

    Args:
        readers: Those of segments of one store.
        column: Place of the column.
        arrow_type: As for `ColumnReader.encoded_column`.

    Yields:
        The columns, made one after the other where they are not kept.
    """
    if not readers:
        return
    found = readers[0].cache.find_all([reader.encoded_place(column) for reader in readers])
    for reader, entry in zip(readers, found, strict=True):
        yield reader.encoded_column(column, arrow_type) if entry is None else entry


def _array_of(entry: pa.Array | KeyColumn) -> pa.Array:
    """The column of an entry that has all of it."""
    return entry.column if isinstance(entry, KeyColumn) else entry


def cache_keys(partition: int, segment: SegmentId, blocks: int, columns: Iterable[int]) -> list[CacheKey]:
    """Every place in the cache that a segment can have.

    Args:
        partition: Number of the open partition store.
        segment: The segment.
        blocks: How many blocks it has.
        columns: Numbers of columns.
    """
    return [
        *(
            CacheKey(partition, segment, block, column)
            for column in columns
            for block in range(ENCODED, blocks)
        ),
        *(CacheKey(partition, segment, WHOLE, column) for column in BESIDE_COLUMNS),
    ]
