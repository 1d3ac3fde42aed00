"""Whether rows that came from elsewhere are what Arrow says that they are, before anything reads them."""

from __future__ import annotations

import pyarrow as pa


def check_rows(rows: pa.RecordBatch | pa.Table) -> None:
    """See that rows can be read: offsets within their values, text in UTF-8, and so on, as Arrow's full
    validation. But some values may be beyond what their types say: DuckDB's HUGEINT is a DECIMAL(38, 0) in
    Arrow and has up to 39 digits, and its TIME knows 24:00:00.

    Args:
        rows: The rows; they are not changed.

    Raises:
        ArrowInvalid: They are damaged.
    """
    rows.validate()
    for column in rows.columns:
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        shape = _plain_type(column.type)
        for chunk in chunks:
            (chunk if shape == chunk.type else chunk.view(shape)).validate(full=True)


def _plain_type(shape: pa.DataType) -> pa.DataType:
    """A type of the same layout whose decimals are as many bytes, and times numbers."""
    if pa.types.is_decimal(shape):
        return pa.binary(shape.bit_width // 8)
    if pa.types.is_time(shape):
        return pa.int32() if shape.bit_width == 32 else pa.int64()
    if pa.types.is_struct(shape):
        return pa.struct([_plain_field(field) for field in shape])
    if pa.types.is_map(shape):
        return pa.map_(_plain_type(shape.key_type), _plain_field(shape.item_field))
    if pa.types.is_list(shape):
        return pa.list_(_plain_field(shape.value_field))
    if pa.types.is_large_list(shape):
        return pa.large_list(_plain_field(shape.value_field))
    if pa.types.is_fixed_size_list(shape):
        return pa.list_(_plain_field(shape.value_field), shape.list_size)
    return shape


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(_plain_type(field.type))
