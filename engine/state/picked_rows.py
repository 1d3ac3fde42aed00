"""Rows picked out of blocks, or out of whole columns: many are copied into one array a column, few are
slices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.state.cache import has_fixed_width
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

    def parts(self, columns: Sequence[int]) -> Iterator[_Part]:
        """The rows block by block, or in one part where the columns are in memory as a whole."""
        whole = self.segment.whole_columns(columns)
        if whole is not None:
            yield _Part(self.segment, 0, self.rows, whole)
            return
        block_rows = self.segment.record.block_rows
        inside = self.rows % block_rows
        if len(self.rows) == 1:
            yield _Part(self.segment, int(self.rows[0]) // block_rows, inside, None)
            return
        bounds = np.searchsorted(self.rows, np.arange(self.segment.blocks + 1) * block_rows).tolist()
        for block, (start, stop) in enumerate(pairwise(bounds)):
            if start < stop:
                yield _Part(self.segment, block, inside[start:stop], None)


class _Part(NamedTuple):
    """Rows that are picked out of the same arrays.

    Attributes:
        segment: The segment.
        block: The block.
        rows: Places of the rows in the arrays.
        whole: The arrays of the whole segment; None where those of the block are still to be read.
    """

    segment: Segment
    block: int
    rows: Rows
    whole: Sequence[pa.Array] | None

    def arrays(self, columns: Sequence[int]) -> Sequence[pa.Array]:
        """The arrays of some columns, those that the part was made for."""
        return self.segment.columns(columns, self.block) if self.whole is None else self.whole


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
    parts = [part for pick in picks for part in pick.parts(columns)]
    if total <= FEW_ROWS:
        return pa.Table.from_batches(_rows_of(parts, columns, schema), schema)
    if total <= SPARSE_ROWS * len(parts):
        return pa.Table.from_batches([pa.concat_batches(list(_rows_of(parts, columns, schema)))], schema)
    copies = [_copy_of(field.type, total) for field in schema]
    for part in parts:
        indices = pa.array(part.rows)
        for copy, column in zip(copies, part.arrays(columns), strict=True):
            copy.add(column, part.rows, indices)
    return pa.Table.from_arrays([copy.finish() for copy in copies], schema=schema).combine_chunks()


def _rows_of(parts: Sequence[_Part], columns: Sequence[int], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Each row as a batch, not copied."""
    for part in parts:
        batch = pa.RecordBatch.from_arrays(part.arrays(columns), schema=schema)
        for row in part.rows.tolist():
            yield batch.slice(row, 1)


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
    return _FixedWidthCopy(arrow_type, rows) if has_fixed_width(arrow_type) else _TakenCopy(arrow_type)
