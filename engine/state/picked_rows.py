"""Rows picked out of segments: copied once, into one array a column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.state.cache import WHOLE, BlockTable, TablePlace, has_fixed_width
from engine.state.keys import Rows
from engine.state.segment import Segment, find_tables

SPARSE_ROWS = 3
"""Up to so many rows a segment, on average, slices of single rows are joined: some 1.6 µs a row, whereas to
take rows of a column costs 0.5 to 9 µs a segment, however few they are.
"""


class Pick(NamedTuple):
    """Some rows of a segment.

    Attributes:
        segment: The segment.
        rows: Row numbers in ascending order, at least one.
    """

    segment: Segment
    rows: Rows


class Run(NamedTuple):
    """Rows of a segment that follow each other: `start` to before `stop`, at least one."""

    segment: Segment
    start: int
    stop: int


class _Part(NamedTuple):
    """Rows that are picked out of the same arrays.

    Attributes:
        table: The arrays.
        rows: Places of the rows in them.
    """

    table: BlockTable
    rows: Rows


def gather(picks: Sequence[Pick], columns: Sequence[int], schema: pa.Schema) -> pa.Table:
    """Columns of picked rows.

    Blocks are read one after the other, so that no more of them than one is held on account of this.

    Args:
        picks: The rows.
        columns: Places of the columns in the store.
        schema: Schema of the result, a field a column.

    Returns:
        The rows in the order of the picks, in one chunk a column.
    """
    total = sum(len(pick.rows) for pick in picks)
    if not total:
        return schema.empty_table()
    if not columns:
        return pa.Table.from_batches(
            [pa.RecordBatch.from_struct_array(pa.array([{}] * total, pa.struct([])))]
        )
    if total <= SPARSE_ROWS * len(picks):
        runs = [Run(segment, row, row + 1) for segment, rows in picks for row in rows.tolist()]
        return gather_runs(runs, columns, schema)
    copies = [_copy_of(field.type, total) for field in schema]
    for part in _parts(picks, columns, schema):
        for place, copy in enumerate(copies):
            copy.add(part, place)
    return pa.Table.from_arrays([copy.finish() for copy in copies], schema=schema).combine_chunks()


def gather_runs(runs: Sequence[Run], columns: Sequence[int], schema: pa.Schema) -> pa.Table:
    """Columns of rows that follow each other; otherwise as `gather`.

    Args:
        runs: The rows.
        columns: Places of the columns in the store; at least one.
        schema: Schema of the result, a field a column.
    """
    batches: list[pa.RecordBatch] = []
    tables = _whole_tables(
        [run.segment for run in runs], [run.stop - run.start for run in runs], columns, schema
    )
    for run, table in zip(runs, tables, strict=True):
        if table is not None:
            batches.append(table.batch.slice(run.start, run.stop - run.start))
            continue
        block_rows = run.segment.record.block_rows
        for block in range(run.start // block_rows, (run.stop - 1) // block_rows + 1):
            first, behind = run.segment.block_span(block)
            start, stop = max(run.start, first), min(run.stop, behind)
            found = run.segment.table(columns, block, schema).batch
            batches.append(found.slice(start - first, stop - start))
    table = pa.Table.from_batches(batches, schema)
    return table if len(batches) <= 1 else table.combine_chunks()


def _whole_tables(
    segments: Sequence[Segment], rows: Sequence[int], columns: Sequence[int], schema: pa.Schema
) -> list[BlockTable | None]:
    """For each segment, of which some rows are wanted, all of its blocks as a table if they are in memory."""
    place = TablePlace(WHOLE, tuple(columns))
    return [
        segment.whole_table(columns, schema) if table is None else table
        for segment, table in zip(segments, find_tables(segments, place, schema, rows), strict=True)
    ]


def _parts(picks: Sequence[Pick], columns: Sequence[int], schema: pa.Schema) -> Iterator[_Part]:
    """Picked rows block by block, or segment by segment where the columns are in memory as a whole."""
    tables = _whole_tables(
        [pick.segment for pick in picks], [len(pick.rows) for pick in picks], columns, schema
    )
    for (segment, rows), table in zip(picks, tables, strict=True):
        if table is not None:
            yield _Part(table, rows)
            continue
        block_rows = segment.record.block_rows
        bounds = np.searchsorted(rows, np.arange(segment.blocks + 1) * block_rows).tolist()
        for block, (start, stop) in enumerate(pairwise(bounds)):
            if start < stop:
                yield _Part(segment.table(columns, block, schema), rows[start:stop] - block * block_rows)


class _Copy(Protocol):
    """A column of the result, filled part by part."""

    def add(self, part: _Part, place: int) -> None:
        """Append some rows of a column.

        Args:
            part: The rows.
            place: Place of the column in the part's table.
        """

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
        self._values = np.frombuffer(self._data, np.dtype(f"V{arrow_type.byte_width}"))
        self._valid: npt.NDArray[np.bool_] | None = None

    def add(self, part: _Part, place: int) -> None:
        rows, (values, validity) = part.rows, part.table.fixed_values(place)
        start, stop = self._added, self._added + len(rows)
        # Rows are within the block, so nothing is clipped; without a mode numpy copies the target back and
        # forth to spare it from a bad row.
        values.take(rows, out=self._values[start:stop], mode="clip")
        if validity is not None:
            if self._valid is None:
                self._valid = np.ones(self._rows, np.bool_)
            bits = rows + part.table.batch.column(place).offset
            self._valid[start:stop] = (validity[bits >> 3] >> (bits & 7)) & 1
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

    def add(self, part: _Part, place: int) -> None:
        self._parts.append(part.table.batch.column(place).take(pa.array(part.rows)))

    def finish(self) -> pa.ChunkedArray:
        return pa.chunked_array(self._parts, self._arrow_type)


def _copy_of(arrow_type: pa.DataType, rows: int) -> _Copy:
    return _FixedWidthCopy(arrow_type, rows) if has_fixed_width(arrow_type) else _TakenCopy(arrow_type)
