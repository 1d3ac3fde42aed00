"""Rows picked out of blocks: many are copied into one array a column, few are slices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.state.keys import Rows
from engine.state.segment import Segment

SPARSE_ROWS = 8
"""Up to so many rows a block, on average, slices of single rows are copied together: some 2 µs a row, whereas
to take rows of a column costs 3 to 9 µs a block, however few they are.
"""
FEW_ROWS = 8
"""Up to so many rows are not copied: a batch for each costs less than making arrays for all."""


class Pick(NamedTuple):
    """Some rows of a segment.

    Attributes:
        segment: The segment.
        rows: Row numbers in ascending order, at least one.
    """

    segment: Segment
    rows: Rows

    def split_by_block(self) -> Iterator[tuple[int, Rows]]:
        """Each block that has some of the rows, with their places in it."""
        block_rows = self.segment.record.block_rows
        if len(self.rows) == 1:
            yield int(self.rows[0]) // block_rows, self.rows % block_rows
            return
        bounds = np.searchsorted(self.rows, np.arange(self.segment.blocks + 1) * block_rows).tolist()
        inside = self.rows % block_rows
        for block, (start, stop) in enumerate(pairwise(bounds)):
            if start < stop:
                yield block, inside[start:stop]


def gather(picks: Sequence[Pick], columns: Sequence[int], schema: pa.Schema) -> pa.Table:
    """Columns of picked rows.

    Blocks are read one after the other, so that no more of them than one is held on account of this.

    Args:
        picks: The rows.
        columns: Places of the columns in the store.
        schema: Schema of the result, a field a column.

    Returns:
        The rows in the order of the picks, in one batch unless they are few.
    """
    total = sum(len(pick.rows) for pick in picks)
    if not total:
        return schema.empty_table()
    if not columns:
        return pa.Table.from_batches(
            [pa.RecordBatch.from_struct_array(pa.array([{}] * total, pa.struct([])))]
        )
    if total <= FEW_ROWS:
        return pa.Table.from_batches(_one_by_one(picks, columns, schema), schema)
    blocks = [(pick.segment, block, inside) for pick in picks for block, inside in pick.split_by_block()]
    if total <= SPARSE_ROWS * len(blocks):
        return _joined_slices(blocks, columns, schema)
    copies = [_copy_of(field.type, total) for field in schema]
    for segment, block, inside in blocks:
        indices = pa.array(inside)
        for copy, column in zip(copies, segment.columns(columns, block), strict=True):
            copy.add(column, inside, indices)
    return pa.Table.from_arrays([copy.finish() for copy in copies], schema=schema).combine_chunks()


def _joined_slices(
    blocks: Sequence[tuple[Segment, int, Rows]], columns: Sequence[int], schema: pa.Schema
) -> pa.Table:
    """Few rows of each block: slices of one row, copied together."""
    slices = []
    for segment, block, inside in blocks:
        batch = pa.RecordBatch.from_arrays(segment.columns(columns, block), schema=schema)
        slices += [batch.slice(row, 1) for row in inside.tolist()]
    return pa.Table.from_batches([pa.concat_batches(slices)], schema)


def _one_by_one(picks: Sequence[Pick], columns: Sequence[int], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Each row as a batch, not copied."""
    for segment, rows in picks:
        for row in rows.tolist():
            block, inside = divmod(row, segment.record.block_rows)
            yield pa.RecordBatch.from_arrays(segment.columns(columns, block), schema=schema).slice(inside, 1)


class _Copy(Protocol):
    """A column of the result, filled block by block."""

    def add(self, column: pa.Array, rows: Rows, indices: pa.Array) -> None:
        """Append some rows of a block, whose numbers are given in both forms."""

    def finish(self) -> pa.ChunkedArray:
        """The rows added; all that were announced must have been."""


class _FixedWidthCopy:
    """Values of a whole number of bytes, copied with numpy: Arrow's `take` costs some 5 µs a call, as much as
    copying a thousand values.

    Args:
        arrow_type: Their type.
        rows: How many there will be.
    """

    def __init__(self, arrow_type: pa.DataType, rows: int) -> None:
        self._arrow_type = arrow_type
        self._rows = rows
        self._added = 0
        self._data = pa.allocate_buffer(rows * arrow_type.byte_width)
        self._dtype = np.dtype(f"V{arrow_type.byte_width}")
        self._values = np.frombuffer(self._data, self._dtype)
        self._valid: npt.NDArray[np.bool_] | None = None

    def add(self, column: pa.Array, rows: Rows, indices: pa.Array) -> None:
        start, stop = self._added, self._added + len(rows)
        validity, data = column.buffers()
        values = np.frombuffer(data, self._dtype)
        # Rows are within the block, so nothing is clipped; without a mode numpy copies the target back and
        # forth to spare it from a bad row.
        values[column.offset :].take(rows, out=self._values[start:stop], mode="clip")
        if column.null_count:
            if self._valid is None:
                self._valid = np.ones(self._rows, np.bool_)
            bits = rows + column.offset
            self._valid[start:stop] = (np.frombuffer(validity, np.uint8)[bits >> 3] >> (bits & 7)) & 1
        self._added = stop

    def finish(self) -> pa.ChunkedArray:
        validity = None if self._valid is None else pa.py_buffer(np.packbits(self._valid, bitorder="little"))
        return pa.chunked_array([pa.Array.from_buffers(self._arrow_type, self._rows, [validity, self._data])])


class _TakenCopy:
    """Any values, taken by Arrow.

    Args:
        arrow_type: Their type.
    """

    def __init__(self, arrow_type: pa.DataType) -> None:
        self._arrow_type = arrow_type
        self._parts: list[pa.Array] = []

    def add(self, column: pa.Array, rows: Rows, indices: pa.Array) -> None:
        self._parts.append(column.take(indices))

    def finish(self) -> pa.ChunkedArray:
        return pa.chunked_array(self._parts, self._arrow_type)


def _copy_of(arrow_type: pa.DataType, rows: int) -> _Copy:
    has_bytes = (
        pa.types.is_integer(arrow_type)
        or pa.types.is_floating(arrow_type)
        or pa.types.is_temporal(arrow_type)
        or pa.types.is_decimal(arrow_type)
    )
    return _FixedWidthCopy(arrow_type, rows) if has_bytes else _TakenCopy(arrow_type)
