"""Rows picked out of segments: copied once, into one array a column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.state.block_table import BlockTable, Validity, has_fixed_width
from engine.state.cache_places import WHOLE, TablePlace
from engine.state.column_reader import find_tables
from engine.state.few_values import FEW_VALUES, values_at
from engine.state.keys import Rows
from engine.state.segment import Segment

SPARSE_ROWS = 3
"""Up to so many rows a segment, on average, slices of single rows are joined: some 1.6 µs a row, whereas to
take rows of a column costs 0.5 to 9 µs a segment, however few they are.
"""
FEW_TEXTS = 24
"""Up to so many texts a segment, on average, are copied one by one, at 0.3 µs each; of more Arrow's `take` is
faster, which costs 9 µs a segment.
"""
MOST_TEXT_BYTES = (1 << 31) - 1
"""As many as the offsets of one array can count."""


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

    Blocks that are not in memory are read one after the other, so that no more of them than one is held on
    account of this.

    Args:
        picks: The rows.
        columns: Places of the columns in the store.
        schema: Schema of the result, a field a column.

    Returns:
        The rows in the order of the picks, in one chunk a column where that can hold them.
    """
    total = sum([len(pick.rows) for pick in picks])
    if not total:
        return schema.empty_table()
    if not columns:
        return pa.Table.from_batches([rows_without_columns(total)])
    if total <= SPARSE_ROWS * len(picks):
        runs = [Run(segment, row, row + 1) for segment, rows in picks for row in rows.tolist()]
        return gather_runs(runs, columns, schema)
    has_few_texts = total <= FEW_TEXTS * len(picks)
    copies = [_copy_of(field.type, total, has_few_texts=has_few_texts) for field in schema]
    for parts in _parts(picks, columns, schema):
        for place, copy in enumerate(copies):
            copy.add(parts, place)
    columns_of_arrays = [copy.finish() for copy in copies]
    if all(len(arrays) == 1 for arrays in columns_of_arrays):
        batch = pa.RecordBatch.from_arrays([array for (array,) in columns_of_arrays], schema=schema)
        return pa.Table.from_batches([batch])
    chunked = [
        pa.chunked_array(arrays, field.type) for arrays, field in zip(columns_of_arrays, schema, strict=True)
    ]
    return pa.Table.from_arrays(chunked, schema=schema).combine_chunks()


def rows_without_columns(count: int) -> pa.RecordBatch:
    """So many rows that have no columns."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), count, [None]))


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
            first, behind = run.segment.record.block_span(block)
            start, stop = max(run.start, first), min(run.stop, behind)
            found = run.segment.reader.table(columns, block, schema).batch
            batches.append(found.slice(start - first, stop - start))
    return join(batches, schema)


def join(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Batches as one table, in one chunk a column where that can hold them.

    Args:
        batches: The batches.
        schema: Their schema.
    """
    if len(batches) <= 1:
        return pa.Table.from_batches(batches, schema)
    try:
        # Takes half the time of a table's own way.
        return pa.Table.from_batches([pa.concat_batches(batches)], schema)
    except pa.ArrowInvalid:
        return pa.Table.from_batches(batches, schema).combine_chunks()  # texts of more than 2 GB


def _whole_tables(
    segments: Sequence[Segment], rows: Sequence[int], columns: Sequence[int], schema: pa.Schema
) -> list[BlockTable | None]:
    """For each segment, of which some rows are wanted, all of its blocks as a table if they are in memory."""
    place = TablePlace(WHOLE, tuple(columns))
    readers = [segment.reader for segment in segments]
    return [
        reader.whole_table(columns, schema) if table is None else table
        for reader, table in zip(readers, find_tables(readers, place, schema, rows), strict=True)
    ]


def _parts(picks: Sequence[Pick], columns: Sequence[int], schema: pa.Schema) -> Iterator[Sequence[_Part]]:
    """Picked rows: those of segments whose columns are in memory as a whole together, of others each block
    alone.
    """
    tables = _whole_tables(
        [pick.segment for pick in picks], [len(pick.rows) for pick in picks], columns, schema
    )
    whole: list[_Part] = []
    for (segment, rows), table in zip(picks, tables, strict=True):
        if table is not None:
            whole.append(_Part(table, rows))
            continue
        yield whole
        whole = []
        block_rows = segment.record.block_rows
        bounds = np.searchsorted(rows, np.arange(segment.blocks + 1) * block_rows).tolist()
        for block, (start, stop) in enumerate(pairwise(bounds)):
            if start < stop:
                inside = rows[start:stop] - block * block_rows
                yield [_Part(segment.reader.table(columns, block, schema), inside)]
    yield whole


class _Copy(Protocol):
    """A column of the result, filled part by part."""

    def add(self, parts: Sequence[_Part], place: int) -> None:
        """Append some rows of a column.

        Args:
            parts: The rows.
            place: Place of the column in the parts' tables.
        """

    def finish(self) -> Sequence[pa.Array]:
        """The rows added, one array after the other; all that were announced must have been."""


class _NullFlags:
    """Which values of a column are null; they take no memory until one is.

    Args:
        rows: How many values there will be.
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._valid: npt.NDArray[np.bool_] | None = None

    def note(self, start: int, rows: Rows, validity: Validity) -> None:
        """Take note of the values of some rows.

        Args:
            start: Place of the first of them among all values.
            rows: Their places in their column.
            validity: Of that column.
        """
        if self._valid is None:
            self._valid = np.ones(self._rows, np.bool_)
        self._valid[start : start + len(rows)] = validity.of_rows(rows)

    def finish(self) -> pa.Buffer | None:
        """Arrow's bits of all values; None where none is null."""
        return None if self._valid is None else pa.py_buffer(np.packbits(self._valid, bitorder="little"))


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
        kind = np.dtype(f"V{arrow_type.byte_width}")
        if rows <= FEW_VALUES:
            # To take memory from Arrow's pool gives the interpreter up twice.
            self._values = np.empty(rows, kind)
            self._data = pa.py_buffer(self._values)
        else:
            self._data = pa.allocate_buffer(rows * arrow_type.byte_width)
            self._values = np.frombuffer(self._data, kind)
        self._nulls = _NullFlags(rows)

    def add(self, parts: Sequence[_Part], place: int) -> None:
        copied, start = self._values, self._added
        for table, rows in parts:
            values, validity = table.fixed_values(place)
            stop = start + len(rows)
            if len(rows) <= FEW_VALUES:
                copied[start:stop] = values_at(values, rows)
            else:
                # Rows are within the block, so nothing is clipped; without a mode numpy copies the target
                # back and forth to spare it from a bad row.
                values.take(rows, out=copied[start:stop], mode="clip")
            if validity is not None:
                self._nulls.note(start, rows, validity)
            start = stop
        self._added = start

    def finish(self) -> Sequence[pa.Array]:
        buffers = [self._nulls.finish(), self._data]
        return [pa.Array.from_buffers(self._arrow_type, self._rows, buffers)]


class _TextCopy:
    """Texts or bytes, copied one by one.

    Args:
        arrow_type: Their type.
        rows: How many there will be.
    """

    def __init__(self, arrow_type: pa.DataType, rows: int) -> None:
        self._arrow_type = arrow_type
        self._rows = rows
        self._texts: list[memoryview] = []
        self._nulls = _NullFlags(rows)

    def add(self, parts: Sequence[_Part], place: int) -> None:
        texts = self._texts
        for table, rows in parts:
            offsets, data, validity = table.text_values(place)
            if validity is not None:
                self._nulls.note(len(texts), rows, validity)
            begins, ends = values_at(offsets, rows).tolist(), values_at(offsets, rows + 1).tolist()
            texts += [data[begin:end] for begin, end in zip(begins, ends, strict=True)]

    def finish(self) -> Sequence[pa.Array]:
        ends = np.fromiter(accumulate(map(len, self._texts), initial=0), np.int64, self._rows + 1)
        validity, data = self._nulls.finish(), pa.py_buffer(b"".join(self._texts))
        if ends[-1] <= MOST_TEXT_BYTES:
            buffers = [validity, pa.py_buffer(ends.astype(np.int32)), data]
            return [pa.Array.from_buffers(self._arrow_type, self._rows, buffers)]
        wide = pa.large_string() if pa.types.is_string(self._arrow_type) else pa.large_binary()
        texts = pa.Array.from_buffers(wide, self._rows, [validity, pa.py_buffer(ends), data])
        return [texts[row : row + 1].cast(self._arrow_type) for row in range(self._rows)]


class _TakenCopy:
    """Any values, taken by Arrow.

    Args:
        arrow_type: Their type.
    """

    def __init__(self, arrow_type: pa.DataType) -> None:
        self._arrow_type = arrow_type
        self._parts: list[pa.Array] = []

    def add(self, parts: Sequence[_Part], place: int) -> None:
        self._parts += [table.batch.column(place).take(pa.array(rows)) for table, rows in parts]

    def finish(self) -> Sequence[pa.Array]:
        return self._parts


def _copy_of(arrow_type: pa.DataType, rows: int, *, has_few_texts: bool) -> _Copy:
    if has_fixed_width(arrow_type):
        return _FixedWidthCopy(arrow_type, rows)
    if has_few_texts and (pa.types.is_string(arrow_type) or pa.types.is_binary(arrow_type)):
        return _TextCopy(arrow_type, rows)
    return _TakenCopy(arrow_type)
