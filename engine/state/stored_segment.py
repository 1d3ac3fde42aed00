"""What is stored of a segment, read past the cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property

import numpy as np
import pyarrow as pa

from engine.state import keys as sort_keys
from engine.state.cache_places import WHOLE, CacheKey
from engine.state.damage import DamagedError, damage_error
from engine.state.formats import (
    KEY_COLUMN,
    KEY_FILTER,
    PAGE_FENCES,
    SegmentId,
    SegmentRecord,
    block_key,
    decode_block,
)
from engine.state.key_filter import KeyFilter, decode_filter, pieces_of
from engine.state.key_pages import KeyPages
from engine.state.keys import Keys
from engine.state.partition_context import PartitionContext


class StoredSegment:
    """A segment as the storage has it, seen in a shape of its partition.

    What is damaged is noted with the partition by all methods but `check_block`: whoever reads here, a
    statement or a merge, can do nothing about it.

    Its bytes are removed when it is garbage, so whoever sees it in another shape keeps it.

    Args:
        identity: Its id in the partition.
        record: What is known without reading blocks.
        context: The partition it belongs to, in the shape in which it is seen.
        origin: The same segment as it was opened or made; None for itself.
    """

    def __init__(
        self,
        identity: SegmentId,
        record: SegmentRecord,
        context: PartitionContext,
        origin: StoredSegment | None = None,
    ) -> None:
        self._id = identity
        self._record = record
        self._context = context
        self._origin = origin

    def reshape(self, context: PartitionContext) -> StoredSegment:
        """The same segment in another shape of its partition."""
        return StoredSegment(self._id, self._record, context, self._origin or self)

    def column(self, column: int, block: int) -> pa.Array:
        """One column of one block.

        Args:
            column: Place of the column.
            block: The block.

        Raises:
            DamagedError: It is missing or damaged.
            Unavailable: The disk does not answer.
        """
        with self._note_damage():
            return self._column(column, block)

    def key_pages(self, pages: Sequence[int]) -> pa.Array:
        """The key column of some pages, as `KeyPages.read`.

        Raises:
            DamagedError: One is missing or damaged.
            Unavailable: The disk does not answer.
        """
        with self._note_damage():
            return self._pages.read(pages)

    def page_fences(self) -> Keys:
        """The first key of each page.

        Raises:
            DamagedError: They are missing or damaged.
            Unavailable: The disk does not answer.
        """
        with self._note_damage():
            return self._page_fences()

    def key_filter(self) -> KeyFilter:
        """The filter of the keys, where there is one.

        Raises:
            DamagedError: It is missing or damaged.
            Unavailable: The disk does not answer.
        """
        with self._note_damage():
            return self._key_filter()

    def check_block(self, block: int) -> int:
        """Read what is stored of a block, as far as it is seen.

        Args:
            block: Which.

        Returns:
            Its Arrow bytes.

        Raises:
            DamagedError: It is missing or damaged.
            Unavailable: The disk does not answer.
        """
        storage, total = self._context.storage, 0
        for number in self._record.column_bytes.keys() - self._context.stored_numbers:
            if storage.get(block_key(self._id, number, block)) is None:
                raise damage_error("block")
        for column in self._context.stored_columns:
            values = self._column(column, block)
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
        if self._record.filter_checksum is not None:
            place = CacheKey(self._context.number, self._id, WHOLE, KEY_FILTER)
            known = self._context.cache.peek(place) or self._key_filter()
            if not known.may_hold(keys).all():
                raise damage_error("key filter")
        page_rows = self._record.page_rows
        if page_rows:
            first = self._record.block_span(block)[0] // page_rows
            starts = np.arange(0, len(keys), page_rows)
            fences = self._page_fences()[first : first + len(starts)]
            if not sort_keys.are_same(sort_keys.take(keys, starts), fences):
                raise damage_error("block")

    def _column(self, column: int, block: int) -> pa.Array:
        """One column of one block, from what is stored of it: the column itself, a narrower one, or none."""
        arrow_type = self._context.column_type(column)
        if column == KEY_COLUMN:
            return self._read(KEY_COLUMN, arrow_type, block)
        start, stop = self._record.block_span(block)
        return self._context.columns[column].read(
            self._record.column_bytes,
            arrow_type,
            stop - start,
            lambda number, arrow_type: self._read(number, arrow_type, block),
        )

    def _read(self, number: int, arrow_type: pa.DataType, block: int) -> pa.Array:
        start, stop = self._record.block_span(block)
        page_rows = self._record.page_rows
        if page_rows and number == self._key_number:
            return self._pages.read(range(start // page_rows, -(-stop // page_rows)))
        data = self._context.storage.get(block_key(self._id, number, block))
        if data is None:
            raise damage_error("block")
        return decode_block(data, arrow_type, stop - start)

    def _page_fences(self) -> Keys:
        context = self._context
        data = context.storage.get(block_key(self._id, PAGE_FENCES, 0))
        if data is None:
            raise damage_error("block")
        return context.sort_keys(
            decode_block(data, context.column_type(context.key_column), self._pages.pages)
        )

    def _key_filter(self) -> KeyFilter:
        rows, checksum = self._record.rows, self._record.filter_checksum
        assert checksum is not None
        keys = [block_key(self._id, KEY_FILTER, piece) for piece in range(pieces_of(rows))]
        return decode_filter(self._context.storage.get_all(keys), rows, checksum)

    @property
    def _key_number(self) -> int:
        return self._context.numbers[self._context.key_column]

    @cached_property
    def _pages(self) -> KeyPages:
        context, record = self._context, self._record
        arrow_type = context.column_type(context.key_column)
        return KeyPages(
            context.storage, self._id, self._key_number, arrow_type, record.rows, record.page_rows
        )

    @contextmanager
    def _note_damage(self) -> Iterator[None]:
        try:
            yield
        except DamagedError as error:
            self._context.storage.damage = error.what
            raise
