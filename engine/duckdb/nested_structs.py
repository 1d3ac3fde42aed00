"""Structs within structs, as the engine takes them: DuckDB 2.0.0 refuses a slice of a column of such, as it
would read the rows of another one.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa


def whole_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch whose columns of structs within structs are no slices.

    Args:
        batch: Any batch.

    Returns:
        The batch itself where it has no such column.
    """
    if not any(map(_has_nested_struct, batch.schema.types)):
        return batch
    return pa.RecordBatch.from_arrays(list(map(_whole, batch.columns)), schema=batch.schema)


def whole_table(table: pa.Table) -> pa.Table:
    """As `whole_batch`, of a table."""
    if not any(map(_has_nested_struct, table.schema.types)):
        return table
    columns: Iterable[pa.ChunkedArray] = (
        pa.chunked_array(list(map(_whole, column.chunks)), column.type) for column in table.columns
    )
    return pa.Table.from_arrays(list(columns), schema=table.schema)


def _whole(column: pa.Array) -> pa.Array:
    is_slice = column.offset != 0 and _has_nested_struct(column.type)
    # Arrow gives what it puts together no offset, also if that is one array.
    return pa.concat_arrays([column]) if is_slice else column


def _has_nested_struct(arrow_type: pa.DataType) -> bool:
    return pa.types.is_struct(arrow_type) and any(pa.types.is_struct(field.type) for field in arrow_type)
