"""The key column of a large segment, in pages of a few hundred rows: a key is found by reading one page,
where a block of another column has tens of thousands of rows.

    page of values of a fixed width    the values, little-endian
    page of strings or bytes           the length of each, uint32; then all of them

A checksum ends each: as it ends other values, or, of full pages of a fixed width, the sum of their words. All
pages of a segment but the last have the same number of rows. The first key of each page, its fence, is stored
beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
import pyarrow as pa

from engine.state.damage import damage_error
from engine.state.formats import (
    SegmentId,
    add_checksum,
    add_checksums,
    block_key,
    copy_to_pool,
    remove_checksum,
    remove_checksums,
)
from engine.state.keys import Rows
from engine.state.storage import Storage

LEAST_PAGE_ROWS = 64
"""Fences of smaller pages would take a large part of the memory that whole keys take."""
_LENGTH = np.dtype("<u4")


def page_rows_of(block: pa.Array, block_rows: int, page_bytes: int) -> int:
    """How many rows a page has; 0 where columns of a type have no pages.

    Args:
        block: The first rows of the column, at least one.
        block_rows: Rows of a block: a whole number of pages.
        page_bytes: Bytes of a page to aim at.
    """
    if not (_has_lengths(block.type) or _width(block.type)):
        return 0
    fitting = max(LEAST_PAGE_ROWS, page_bytes * len(block) // max(block.nbytes, 1))
    page_rows = min(1 << (fitting.bit_length() - 1), block_rows)
    return block_rows if block_rows % page_rows else page_rows


def encode_pages(column: pa.Array, page_rows: int) -> Iterator[bytes]:
    """The stored form of rows that begin with a page.

    Args:
        column: The rows, without nulls.
        page_rows: Rows of a page.
    """
    if not _has_lengths(column.type):
        width = _width(column.type)
        data = memoryview(column.buffers()[1])[column.offset * width : (column.offset + len(column)) * width]
        yield from add_checksums(data, page_rows * width)
        return
    _, offset_buffer, data_buffer = column.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[column.offset : column.offset + len(column) + 1]
    lengths = np.diff(offsets).astype(_LENGTH)
    data = memoryview(data_buffer if data_buffer is not None else b"")
    for start in range(0, len(column), page_rows):
        stop = min(start + page_rows, len(column))
        yield add_checksum(lengths[start:stop].tobytes() + bytes(data[offsets[start] : offsets[stop]]))


def decode_pages(pages: Sequence[bytes], arrow_type: pa.DataType, page_rows: int, rows: int) -> pa.Array:
    """Read pages that follow each other, or do not; all but the last are full.

    Args:
        pages: Their stored form, at least one.
        arrow_type: Type of the column.
        page_rows: Rows of a full page.
        rows: How many rows they have together.

    Raises:
        DamagedError: They are not what was written, or not of so many rows.
    """
    if len(pages) != -(-rows // page_rows):
        raise damage_error("block")
    if _has_lengths(arrow_type):
        values = [remove_checksum(page, "block", is_optional=False) for page in pages]
        return _decode_with_lengths(values, arrow_type, page_rows, rows)
    width, full = _width(arrow_type), rows // page_rows
    found = remove_checksums(b"".join(pages[:full]), page_rows * width, "block")
    if len(found) != full:
        raise damage_error("block")
    data = pa.allocate_buffer(rows * width)
    np.frombuffer(data, np.uint8, found.size).reshape(found.shape)[:] = found
    if len(pages) > full:
        last = remove_checksum(pages[-1], "block", is_optional=False)
        if len(last) != len(data) - found.nbytes:
            raise damage_error("block")
        memoryview(data).cast("B")[found.nbytes :] = last
    return pa.Array.from_buffers(arrow_type, rows, [None, data])


def _decode_with_lengths(
    pages: Sequence[memoryview], arrow_type: pa.DataType, page_rows: int, rows: int
) -> pa.Array:
    """Read pages of strings or bytes, without their checksums."""
    header = page_rows * _LENGTH.itemsize
    last = (rows - (len(pages) - 1) * page_rows) * _LENGTH.itemsize
    heads = b"".join([*(page[:header] for page in pages[:-1]), pages[-1][:last]])
    data = b"".join([*(page[header:] for page in pages[:-1]), pages[-1][last:]])
    if len(heads) != rows * _LENGTH.itemsize:
        raise damage_error("block")
    offsets = np.zeros(rows + 1, np.int64)
    np.cumsum(np.frombuffer(heads, _LENGTH), out=offsets[1:])
    if offsets[-1] != len(data) or not _are_aligned(pages, offsets, page_rows, header, last):
        raise damage_error("block")
    buffers = [None, copy_to_pool(offsets.astype(np.int32).data.cast("B")), copy_to_pool(data)]
    return pa.Array.from_buffers(arrow_type, rows, buffers)


def _are_aligned(pages: Sequence[memoryview], offsets: Rows, page_rows: int, header: int, last: int) -> bool:
    """Whether each page has as many bytes as its lengths say."""
    sizes = np.fromiter(map(len, pages), np.int64, len(pages)) - header
    sizes[-1] += header - last
    bounds = np.append(np.arange(len(pages)) * page_rows, len(offsets) - 1)
    return bool((np.diff(offsets[bounds]) == sizes).all())


def _has_lengths(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow_type) or pa.types.is_binary(arrow_type))


def _width(arrow_type: pa.DataType) -> int:
    """Bytes of a value; 0 where they have no fixed number of whole bytes."""
    if pa.types.is_integer(arrow_type) or pa.types.is_temporal(arrow_type):
        return int(arrow_type.bit_width) // 8
    return 0


class KeyPages:
    """The stored key column of a segment.

    Args:
        storage: Where it is.
        segment: The segment.
        number: The column's number.
        arrow_type: Its type.
        rows: Rows of the segment.
        page_rows: Rows of a page.
    """

    def __init__(
        self,
        storage: Storage,
        segment: SegmentId,
        number: int,
        arrow_type: pa.DataType,
        rows: int,
        page_rows: int,
    ) -> None:
        self.page_rows = page_rows
        self.pages = -(-rows // page_rows)
        self._storage = storage
        self._rows = rows
        self._arrow_type = arrow_type
        self._prefix = block_key(segment, number, 0)[:-4]

    def read(self, pages: Sequence[int]) -> pa.Array:
        """The rows of some pages.

        Args:
            pages: Their numbers in ascending order, at least one.

        Raises:
            DamagedError: One is missing or damaged.
            Unavailable: The disk does not answer.
        """
        prefix = self._prefix
        found = self._storage.get_all([prefix + page.to_bytes(4, "big") for page in pages])
        if None in found:
            raise damage_error("block")
        is_last = pages[-1] == self.pages - 1
        rows = len(pages) * self.page_rows
        if is_last:
            rows -= self.pages * self.page_rows - self._rows
        return decode_pages(cast("list[bytes]", found), self._arrow_type, self.page_rows, rows)
