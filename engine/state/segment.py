"""Segments: immutable runs of rows, sorted by key and unique in it, stored column by column in blocks.

A segment stays as it was stored when its store is migrated, and is seen in another shape: columns have places
in a shape, and numbers for ever (`engine.model.columns`). What is stored and what is cached goes by number,
everything else by place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.model.columns import Column
from engine.model.distinct_sketch import Sketch
from engine.state import keys as sort_keys
from engine.state.cache import (
    ENCODED,
    WHOLE,
    BlockTable,
    CacheKey,
    ColumnCache,
    ColumnPlace,
    KeyColumn,
    LiveFlags,
    SegmentPlace,
    TablePlace,
)
from engine.state.damage import DamagedError, damage_error
from engine.state.delete_vector import DeleteVector
from engine.state.formats import (
    BESIDE_COLUMNS,
    KEY_COLUMN,
    KEY_FILTER,
    LIVE_FLAGS,
    PAGE_FENCES,
    SegmentId,
    SegmentRecord,
    block_key,
    decode_block,
)
from engine.state.key_filter import KeyFilter, decode_filter, pieces_of
from engine.state.key_pages import KeyPages
from engine.state.keys import KeyCodec, Keys, Needle, Rows
from engine.state.prefixes import PrefixIndex
from engine.state.scan_encoding import encode
from engine.state.sparse_index import SparseIndex
from engine.state.statistics import ColumnStatistics, constant_statistics, has_statistics
from engine.state.storage import Storage

_NOWHERE = -1
"""No column has this number."""
MOST_KNOWN_KEYS = 128
"""Lists of places in the cache that a segment keeps."""
MOST_SOUGHT = 8
"""So many keys are sought for each block until the key column is read as a whole: a key takes 0.2 ms to find
in pages, a block of keys 1.1 ms to read.
"""
MANY_FILTERED_KEYS = 16
"""From so many keys on a filter is asked: a few pages are read sooner."""
_INDEX_BYTES = 8
"""Bytes a row beside binary keys that find many of them at once."""
MOST_PAGES = 4096
"""Pages that are in memory at once on account of a search."""
MOST_JOINED_BYTES = 256 << 20
"""Larger columns stay in blocks."""
LARGEST_JOINED_SHARE = 16
"""Nor are columns joined that take more than this part of the cache, which drops them as a whole."""


@dataclass(frozen=True, eq=False)
class PartitionContext:
    """What all segments of an open partition share as long as it has one shape.

    Attributes:
        number: Number of the open partition store, unique in its cache.
        schema: Stored schema of the store.
        columns: Its columns.
        key: Places of the key columns in the schema, in key order.
        codec: Makes their sort keys.
        storage: Where blocks are stored.
        cache: Where decoded columns are kept.
    """

    number: int
    schema: pa.Schema
    columns: Sequence[Column]
    key: tuple[int, ...]
    codec: KeyCodec
    storage: Storage
    cache: ColumnCache

    @cached_property
    def key_column(self) -> int:
        """Place of the stored column that sort keys are read from; `KEY_COLUMN` where they are stored beside
        the columns.
        """
        return KEY_COLUMN if self.codec.is_stored else self.key[0]

    @cached_property
    def stored_columns(self) -> Sequence[int]:
        """Places of all that a segment stores in this shape, `KEY_COLUMN` among them where it does."""
        places = range(len(self.columns))
        return [*places, KEY_COLUMN] if self.codec.is_stored else places

    @cached_property
    def numbers(self) -> Mapping[int, int]:
        """Place of a stored column to its number."""
        return {KEY_COLUMN: KEY_COLUMN, **{place: column.number for place, column in enumerate(self.columns)}}

    @cached_property
    def stored_numbers(self) -> frozenset[int]:
        """The numbers of all that a segment stores in this shape."""
        return frozenset(self.numbers[column] for column in self.stored_columns)

    @cached_property
    def numbers_by_name(self) -> Mapping[str, int]:
        """Name of a stored column to its number."""
        return {name: column.number for name, column in zip(self.schema.names, self.columns, strict=True)}

    @cached_property
    def _types(self) -> Mapping[int, pa.DataType]:
        return {KEY_COLUMN: pa.binary(), **dict(enumerate(self.schema.types))}

    def column_type(self, column: int) -> pa.DataType:
        """Arrow type of a stored column."""
        return self._types[column]

    def sort_keys(self, key_column: pa.Array) -> Keys:
        """Sort keys from the stored column `key_column`."""
        return key_column if self.codec.is_stored else self.codec.encode([key_column])

    def key_column_of(self, column: pa.Array) -> KeyColumn:
        """A whole key column with its sort keys."""
        keys = self.sort_keys(column)
        return KeyColumn(
            column,
            keys,
            SparseIndex.from_numbers(keys) if isinstance(keys, np.ndarray) else PrefixIndex.from_keys(keys),
        )


class _PagePart(NamedTuple):
    """Some pages of keys.

    Attributes:
        places: Places of the keys that are looked for in them.
        pages: Numbers of the pages.
        page_of: For each of the keys, the place of its page among `pages`.
        keys: The sort keys of all of them, in ascending order.
    """

    places: Rows
    pages: Rows
    page_of: Rows
    keys: Keys


class Segment:
    """One segment: what is kept of it in memory, and access to its columns through the cache.

    Args:
        identity: Its id in the partition.
        record: What is known without reading blocks.
        context: The partition it belongs to, in the shape in which it is seen.
        stored: The same segment as it was opened or made; None for itself.

    Attributes:
        rows: How many rows there are, dead ones included.
        blocks: How many blocks there are, at least one.
        place: Where it is in the cache.
        whole_key: Where its key column is in the cache as a whole.
    """

    def __init__(
        self,
        identity: SegmentId,
        record: SegmentRecord,
        context: PartitionContext,
        stored: Segment | None = None,
    ) -> None:
        self.id = identity
        self.record = record
        self.rows = record.rows
        self.blocks = len(record.first)
        self.place = SegmentPlace(context.number, identity)
        self._context = context
        # Its bytes are removed when it is garbage, so whoever sees it in another shape keeps it.
        self._stored_rows = stored
        self.whole_key = CacheKey(context.number, identity, WHOLE, context.numbers[context.key_column])
        self._joined = {context.key_column}
        """Columns that the cache most likely has whole."""
        self._known_keys: dict[tuple[int, ...], Sequence[CacheKey]] = {}
        self._first = _fences(record.first)
        self._last = _fences(record.last)
        self._sought = 0
        """How many keys were sought since the cache has last let go of the key column, or never had it."""

    @property
    def cache(self) -> ColumnCache:
        """Where decoded columns are kept, of all segments of the host."""
        return self._context.cache

    @property
    def key_bytes(self) -> int:
        """Bytes that its key column takes in the cache as a whole, an estimate."""
        nbytes = self.record.column_bytes.get(self.whole_key.column, 0)
        return key_bytes(nbytes, self.rows, self._context)

    @property
    def is_in_shape(self) -> bool:
        """Whether it was stored in the shape in which it is seen."""
        return self.record.column_bytes.keys() == self._context.stored_numbers

    def reshape(self, context: PartitionContext) -> Segment:
        """The same segment in another shape of its partition, or in the one that it has."""
        return (
            self
            if context is self._context
            else Segment(self.id, self.record, context, self._stored_rows or self)
        )

    def column_bytes(self, column: int) -> int:
        """Arrow bytes of one column, an estimate where it is not stored as it is seen."""
        found = self.record.column_bytes.get(self._context.numbers[column])
        if found is not None:
            return found
        one: pa.Array = pa.repeat(
            self._context.columns[column].default_value(self._context.column_type(column)), 1
        )
        return int(one.nbytes) * self.rows

    def bytes_of_rows(self, columns: Sequence[int], rows: int) -> int:
        """Arrow bytes of some columns of so many rows, from the segment's averages.

        Args:
            columns: Places of the columns.
            rows: How many rows.
        """
        return sum([self.column_bytes(column) for column in columns]) * rows // self.rows

    def column_place(self, column: int) -> ColumnPlace:
        """Which column it is to the cache.

        Args:
            column: Place of the column.
        """
        return ColumnPlace(*self.place, self._context.numbers[column])

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

    def block_span(self, block: int) -> tuple[int, int]:
        """First row of a block, and the one behind its last."""
        start = block * self.record.block_rows
        return start, min(start + self.record.block_rows, self.rows)

    def column(self, column: int, block: int) -> pa.Array:
        """One column of one block, from the cache or the storage."""
        whole = self._context.cache.find(self._whole_place(column))
        if whole is not None:
            self._note_joined(column)
            start, stop = self.block_span(block)
            return _array_of(whole)[start:stop]
        self._note_parted(column)
        return self._context.cache.get(self._cache_key(column, block), lambda: self._load(column, block))

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
        first, length = block * self.record.block_rows, stop - start
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
            array = self._join(column) if entry is None else _array_of(entry)
            if array is None:
                return None
            found.append(array)
        return found

    def _join(self, column: int) -> pa.Array | None:
        """One column of all blocks, if each of them is in memory."""
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
        start, stop = self.block_span(block)
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
        joined = self._join(column) if self.blocks > 1 else None
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
            start, stop = self.block_span(block)
            return _array_of(whole)[start:stop]
        cached: pa.Array | None = self._context.cache.peek(self._cache_key(column, block))
        return self._load(column, block) if cached is None else cached

    def live_flags(self, dead: DeleteVector, start: int, stop: int) -> pa.Array:
        """Which rows from one number to before another are live, `uint8`. Those of all rows are kept beside
        the columns for the next query, for one delete vector at a time, where the cache has room for them.

        Args:
            dead: The segment's delete vector.
            start: The first row.
            stop: The one behind the last.
        """
        place = CacheKey(self._context.number, self.id, WHOLE, LIVE_FLAGS)
        known: LiveFlags | None = self._context.cache.find(place)
        if known is None or known.dead is not dead:
            if self.rows * LARGEST_JOINED_SHARE > self._context.cache.capacity:
                return pa.array(dead.live_flags(start, stop))
            known = LiveFlags(dead, pa.array(dead.live_flags(0, self.rows)))
            self._context.cache.put(place, known)
        return known.flags[start:stop]

    def kept_blocks(self, column: int) -> npt.NDArray[np.bool_]:
        """Which blocks of a column the cache has, in any layout."""
        keys = [self._cache_key(column, block) for block in range(self.blocks)]
        wholes = [self._whole_place(column), self.encoded_place(column)]
        is_whole, is_encoded, *kept = self._context.cache.has([*wholes, *keys])
        return np.array(kept) | is_whole | is_encoded

    def first_keys(self, blocks: int) -> Keys:
        """The first sort key of every so manieth block, but for the very first."""
        return self._first[blocks::blocks]

    def keys_through(self, start: int, stop: int) -> Keys:
        """The sort keys of some rows that follow each other, at least one; what has to be read for it stays
        out of the cache.
        """
        block_rows, parts = self.record.block_rows, []
        for block in range(start // block_rows, (stop - 1) // block_rows + 1):
            first, behind = self.block_span(block)
            column = self.read_through(self._context.key_column, block)
            parts.append(column[max(start, first) - first : min(stop, behind) - first])
        return self._context.sort_keys(parts[0] if len(parts) == 1 else pa.concat_arrays(parts))

    def keys_of(self, rows: Rows) -> Keys:
        """The sort keys of some rows; what has to be read for it stays out of the cache.

        Args:
            rows: Row numbers in ascending order.
        """
        context = self._context
        whole: KeyColumn | None = context.cache.peek(self.whole_key)
        if whole is not None:
            return sort_keys.take(whole.keys, rows)
        length = self.record.page_rows or self.record.block_rows
        parts, places = np.unique(rows // length, return_inverse=True)
        arrays = []
        for start in range(0, len(parts), MOST_PAGES):
            numbers = parts[start : start + MOST_PAGES].tolist()
            column = (
                self._pages.read(numbers)
                if self.record.page_rows
                else pa.concat_arrays([self.read_through(context.key_column, block) for block in numbers])
            )
            chosen = (places >= start) & (places < start + MOST_PAGES)
            inside = (places[chosen] - start) * length + rows[chosen] % length
            arrays.append(column.take(pa.array(inside)))
        if not arrays:
            arrays = [pa.array([], context.column_type(context.key_column))]
        return context.sort_keys(pa.concat_arrays(arrays))

    def _key_column(self) -> KeyColumn:
        found: KeyColumn = self._context.cache.get(
            self.whole_key, lambda: self._context.key_column_of(self.whole_column(self._context.key_column))
        )
        return found

    def position(self, needles: Keys, side: str) -> Rows:
        """Where needles belong among the segment's keys.

        Args:
            needles: Keys to look for.
            side: As in `keys.search`.

        Returns:
            A row number for each needle, 0 to `rows`.
        """
        whole = self._keys_at_hand(len(needles))
        if whole is not None:
            return sort_keys.search(whole.keys, needles, side)
        if self.record.page_rows:
            return self._position_in_pages(needles, side)
        # A row before the needle exists in the last block whose first key is before it; `left` and `right`
        # differ in what "before" means.
        blocks = np.maximum(sort_keys.search(self._first, needles, side) - 1, 0)
        positions = np.empty(len(needles), np.intp)
        for block in np.unique(blocks).tolist():
            chosen = np.flatnonzero(blocks == block)
            positions[chosen] = block * self.record.block_rows + sort_keys.search(
                self._block_keys(block), sort_keys.take(needles, chosen), side
            )
        return positions

    def span(self, low: Keys | None, high: Keys | None) -> tuple[int, int]:
        """The rows between two edges: the first, and the one behind the last.

        Args:
            low: The first key that belongs to them; None for all before `high`.
            high: The first key behind them; None for all from `low` on.
        """
        # Segments that have none of the rows are not read.
        if (low is not None and sort_keys.count_before(self._last[-1:], low)) or (
            high is not None and not sort_keys.count_before(self._first[:1], high)
        ):
            return 0, 0
        start = 0 if low is None else int(self.position(low, "left")[0])
        stop = self.rows if high is None else int(self.position(high, "left")[0])
        return start, max(start, stop)

    def keys_between(self, start: int, stop: int) -> Keys:
        """The sort keys of some rows that follow each other, at least one. For many segments:
        `find_keys_between`.
        """
        block_rows = self.record.block_rows
        parts = []
        for block in range(start // block_rows, (stop - 1) // block_rows + 1):
            first, after = self.block_span(block)
            parts.append(self._block_keys(block)[max(start, first) - first : min(stop, after) - first])
        return sort_keys.concatenate(parts)

    def find(self, needles: Keys) -> tuple[Rows, Rows]:
        """The rows whose key is one of the needles.

        Args:
            needles: Sorted keys to look for, each once.

        Returns:
            Places of the needles that are found, and the row of each.
        """
        if not len(needles) or not self._overlaps(needles):
            return np.empty(0, np.intp), np.empty(0, np.intp)
        whole = self._keys_at_hand(len(needles))
        if whole is not None:
            return whole.find(needles)
        if self.record.page_rows:
            return self._find_in_pages(needles)
        blocks = np.maximum(sort_keys.search(self._first, needles, "right") - 1, 0)
        places, rows = [], []
        for block in np.unique(blocks).tolist():
            chosen = np.flatnonzero(blocks == block)
            found, inside = sort_keys.find(self._block_keys(block), sort_keys.take(needles, chosen))
            places.append(chosen[found])
            rows.append(inside + block * self.record.block_rows)
        return np.concatenate(places), np.concatenate(rows)

    def find_one(self, needle: Needle) -> int | None:
        """The row of one key; None where there is none."""
        whole = self._keys_at_hand(1)
        if whole is not None:
            return whole.find_one(needle)
        if self.record.page_rows:
            return self._find_one_in_pages(needle)
        block = sort_keys.count_up_to(self._first, needle) - 1
        if block < 0:
            return None
        if sort_keys.count_up_to(self._last[block : block + 1], needle):
            # No block has the key, unless it is the last one of this block; nothing is read to see.
            return self.block_span(block)[1] - 1 if self._last[block] == needle else None
        inside = sort_keys.find_one(self._block_keys(block), needle)
        return None if inside is None else block * self.record.block_rows + inside

    def _keys_at_hand(self, needles: int) -> KeyColumn | None:
        """All sort keys, when they are in memory already or when about half of the blocks would be read
        anyway, and those of all segments have room in the cache; else None. Keys that are sought one by one,
        in so many calls that to read them all would have cost less, are read as well while they have room.
        """
        cache = self._context.cache
        found: KeyColumn | None = cache.find(self.whole_key)
        if found is not None:
            return found
        if self.blocks == 1 or needles * 2 >= self.blocks:
            return self._key_column() if cache.keeps_keys() or not self.record.page_rows else None
        self._sought += needles
        if self._sought < MOST_SOUGHT * self.blocks or not cache.keeps_keys():
            return None
        self._sought = 0
        return self._key_column()

    @cached_property
    def _pages(self) -> KeyPages:
        context, record = self._context, self.record
        number, arrow_type = self.whole_key.column, context.column_type(context.key_column)
        return KeyPages(context.storage, self.id, number, arrow_type, record.rows, record.page_rows)

    def _fences_of_pages(self) -> Keys:
        """The first key of each page."""
        place = self.whole_key._replace(column=PAGE_FENCES)
        with self._note_damage():
            fences: Keys = self._context.cache.get(place, self._load_fences)
        return fences

    def _load_fences(self) -> Keys:
        context = self._context
        data = context.storage.get(block_key(self.id, PAGE_FENCES, 0))
        if data is None:
            raise damage_error("block")
        return context.sort_keys(
            decode_block(data, context.column_type(context.key_column), self._pages.pages)
        )

    def _filter(self, needles: int) -> KeyFilter | None:
        """The filter of the keys, where there is one and so many keys are worth it."""
        if self.record.filter_checksum is None or needles < MANY_FILTERED_KEYS:
            return None
        place = self.whole_key._replace(column=KEY_FILTER)
        with self._note_damage():
            found: KeyFilter = self._context.cache.get(place, self._load_filter)
        return found

    def _load_filter(self) -> KeyFilter:
        keys = [block_key(self.id, KEY_FILTER, piece) for piece in range(pieces_of(self.rows))]
        checksum = self.record.filter_checksum
        assert checksum is not None
        return decode_filter(self._context.storage.get_all(keys), self.rows, checksum)

    def _find_one_in_pages(self, needle: Needle) -> int | None:
        """As `find_one`, of a segment with pages: to ask a filter would take longer than to read a page."""
        page = sort_keys.count_up_to(self._fences_of_pages(), needle) - 1
        if page < 0:
            return None
        inside = sort_keys.find_one(self._page_keys((page,)), needle)
        return None if inside is None else page * self.record.page_rows + inside

    def _find_in_pages(self, needles: Keys) -> tuple[Rows, Rows]:
        """As `find`, of a segment with pages."""
        known = self._filter(len(needles))
        wanted = np.arange(len(needles)) if known is None else np.flatnonzero(known.may_hold(needles))
        numbers = sort_keys.search(self._fences_of_pages(), sort_keys.take(needles, wanted), "right") - 1
        wanted, numbers = wanted[numbers >= 0], numbers[numbers >= 0]
        places, rows = [np.empty(0, np.intp)], [np.empty(0, np.intp)]
        for part in self._read_pages(numbers):
            chosen = wanted[part.places]
            found, inside = sort_keys.find(part.keys, sort_keys.take(needles, chosen))
            page, row = np.divmod(inside, self.record.page_rows)
            places.append(chosen[found])
            rows.append(part.pages[page] * self.record.page_rows + row)
        return np.concatenate(places), np.concatenate(rows)

    def _position_in_pages(self, needles: Keys, side: str) -> Rows:
        """As `position`, of a segment with pages."""
        numbers = np.maximum(sort_keys.search(self._fences_of_pages(), needles, side) - 1, 0)
        positions = np.empty(len(needles), np.intp)
        for part in self._read_pages(numbers):
            inside = sort_keys.search(part.keys, sort_keys.take(needles, part.places), side)
            skipped = part.pages - np.arange(len(part.pages))
            positions[part.places] = inside + skipped[part.page_of] * self.record.page_rows
        return positions

    def _page_keys(self, pages: Sequence[int]) -> Keys:
        """The sort keys of some pages, as `KeyPages.read`."""
        with self._note_damage():
            return self._context.sort_keys(self._pages.read(pages))

    def _read_pages(self, numbers: Rows) -> Iterator[_PagePart]:
        """Pages that are wanted, some at a time.

        Args:
            numbers: The page that each of some keys would be in.
        """
        pages, page_of = np.unique(numbers, return_inverse=True)
        for start in range(0, len(pages), MOST_PAGES):
            part = pages[start : start + MOST_PAGES]
            places = np.flatnonzero((page_of >= start) & (page_of < start + MOST_PAGES))
            keys = self._page_keys(part.tolist())
            yield _PagePart(places, part, page_of[places] - start, keys)

    def _block_keys(self, block: int) -> Keys:
        return self._context.sort_keys(self.column(self._context.key_column, block))

    def _overlaps(self, needles: Keys) -> bool:
        """Whether some needle lies between the first and the last key; needles are sorted."""
        if isinstance(needles, np.ndarray):
            return bool(needles[-1] >= self._first[0] and needles[0] <= self._last[-1])
        after = sort_keys.search(self._last[-1:], needles[:1], "left")[0]
        before = sort_keys.search(self._first[:1], needles[-1:], "right")[0]
        return bool(after == 0 and before == 1)

    def _whole_place(self, column: int) -> CacheKey:
        return self.whole_key if column == self._context.key_column else self._cache_key(column, WHOLE)

    def encoded_place(self, column: int) -> CacheKey:
        """Where the cache has `encoded_column`.

        Args:
            column: Place of the column.
        """
        return self._cache_key(column, ENCODED)

    def _cache_key(self, column: int, block: int) -> CacheKey:
        return CacheKey(self._context.number, self.id, block, self._context.numbers[column])

    def _load(self, column: int, block: int) -> pa.Array:
        """As `_stored_column`. What is damaged is noted with the partition: whoever reads here, a statement
        or a merge, can do nothing about it.
        """
        with self._note_damage():
            return self._stored_column(column, block)

    @contextmanager
    def _note_damage(self) -> Iterator[None]:
        try:
            yield
        except DamagedError as error:
            self._context.storage.damage = error.what
            raise

    def _stored_column(self, column: int, block: int) -> pa.Array:
        """One column of one block, from what is stored of it: the column itself, a narrower one, or none."""
        arrow_type = self._context.column_type(column)
        if column == KEY_COLUMN:
            return self._read(KEY_COLUMN, arrow_type, block)
        start, stop = self.block_span(block)
        stored = self._context.columns[column]
        return stored.read(
            self.record.column_bytes,
            arrow_type,
            stop - start,
            lambda number, arrow_type: self._read(number, arrow_type, block),
        )

    def check_block(self, block: int) -> int:
        """Read what is stored of a block, past the cache, as far as it is seen.

        Args:
            block: Which.

        Returns:
            Its Arrow bytes.

        Raises:
            DamagedError: It is missing or damaged.
            Unavailable: The disk does not answer.
        """
        storage, total = self._context.storage, 0
        for number in self.record.column_bytes.keys() - self._context.stored_numbers:
            if storage.get(block_key(self.id, number, block)) is None:
                raise damage_error("block")
        for column in self._context.stored_columns:
            values = self._stored_column(column, block)
            try:
                values.validate(full=True)
            except pa.ArrowException as error:
                raise damage_error("block") from error
            total += values.nbytes
            if column == self._context.key_column:
                self._check_keys(block, self._context.sort_keys(values))
        return total

    def _check_keys(self, block: int, keys: Keys) -> None:
        """See that the keys of a block are found by what is stored beside them."""
        if self.record.filter_checksum is not None:
            known = self._context.cache.peek(self.whole_key._replace(column=KEY_FILTER))
            if not (known or self._load_filter()).may_hold(keys).all():
                raise damage_error("key filter")
        page_rows = self.record.page_rows
        if page_rows:
            first = self.block_span(block)[0] // page_rows
            starts = np.arange(0, len(keys), page_rows)
            fences = self._load_fences()[first : first + len(starts)]
            if not sort_keys.are_same(sort_keys.take(keys, starts), fences):
                raise damage_error("block")

    def _read(self, number: int, arrow_type: pa.DataType, block: int) -> pa.Array:
        start, stop = self.block_span(block)
        page_rows = self.record.page_rows
        if page_rows and number == self.whole_key.column:
            return self._pages.read(range(start // page_rows, -(-stop // page_rows)))
        data = self._context.storage.get(block_key(self.id, number, block))
        if data is None:
            raise damage_error("block")
        return decode_block(data, arrow_type, stop - start)


def find_tables(
    segments: Sequence[Segment], place: TablePlace, schema: pa.Schema, rows: Sequence[int]
) -> list[BlockTable | None]:
    """For each segment a table that was made before; None where there is none. One look at the cache for all,
    as every query along the key asks many segments.

    Args:
        segments: Segments of one store.
        place: Which table of each.
        schema: Schema of the tables.
        rows: How many rows of each are wanted.
    """
    if not segments:
        return []
    found = segments[0].cache.find_tables([segment.place for segment in segments], place, rows)
    return [
        table if table is not None and segment.fits(table, schema) else None
        for segment, table in zip(segments, found, strict=True)
    ]


def scanned_columns(segments: Sequence[Segment], column: int) -> list[Sequence[pa.Array]]:
    """For each segment one column, as `Segment.scanned_column`; one look at the cache for all.

    Args:
        segments: Segments of one store.
        column: Place of the column.
    """
    if not segments:
        return []
    keys = [segment.scanned_place(column) for segment in segments]
    found = segments[0].cache.find_all(keys, [segment.blocks for segment in segments])
    return [
        segment.scanned_column(column) if entry is None else [_array_of(entry)]
        for segment, entry in zip(segments, found, strict=True)
    ]


def encoded_columns(
    segments: Sequence[Segment], column: int, arrow_type: pa.DataType
) -> Iterator[pa.Array | None]:
    """For each segment one column in the layout of a scan, as `Segment.encoded_column`; one look at the cache
    for all.

    Args:
        segments: Segments of one store.
        column: Place of the column.
        arrow_type: As for `Segment.encoded_column`.

    Yields:
        The columns, made one after the other where they are not kept.
    """
    if not segments:
        return
    found = segments[0].cache.find_all([segment.encoded_place(column) for segment in segments])
    for segment, entry in zip(segments, found, strict=True):
        yield segment.encoded_column(column, arrow_type) if entry is None else entry


def find_spans(segments: Sequence[Segment], low: Keys | None, high: Keys | None) -> list[tuple[int, int]]:
    """For each segment the rows between two edges, as `Segment.span`; one look at the cache for all.

    Args:
        segments: Segments of one store.
        low: As in `Segment.span`.
        high: As in `Segment.span`.
    """
    if not segments:
        return []
    edges = [edge for edge in (low, high) if edge is not None]
    needles = sort_keys.concatenate(edges) if edges else None
    spans = []
    found = segments[0].cache.find_all([segment.whole_key for segment in segments])
    for segment, column in zip(segments, found, strict=True):
        if column is None or needles is None:
            spans.append(segment.span(low, high))
            continue
        places = (
            column.keys.searchsorted(needles)
            if isinstance(needles, np.ndarray)
            else sort_keys.search(column.keys, needles, "left")
        ).tolist()
        start = 0 if low is None else places[0]
        stop = segment.rows if high is None else places[-1]
        spans.append((start, max(start, stop)))
    return spans


def find_keys_between(segments: Sequence[Segment], spans: Sequence[tuple[int, int]]) -> list[Keys]:
    """For each segment the sort keys of some rows, as `Segment.keys_between`; one look at the cache for all.

    Args:
        segments: Segments of one store, at least one.
        spans: For each its first row, and the one behind its last.
    """
    found = segments[0].cache.find_all([segment.whole_key for segment in segments])
    return [
        segment.keys_between(start, stop) if column is None else column.keys[start:stop]
        for segment, column, (start, stop) in zip(segments, found, spans, strict=True)
    ]


def key_bytes(nbytes: int, rows: int, context: PartitionContext) -> int:
    """Bytes that a key column takes in the cache as a whole, an estimate.

    Args:
        nbytes: Arrow bytes of the column.
        rows: Its rows.
        context: The partition.
    """
    return nbytes + _INDEX_BYTES * rows if context.codec.is_binary else nbytes


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


def _fences(first: pa.Array) -> Keys:
    return first if pa.types.is_binary(first.type) else first.to_numpy()
