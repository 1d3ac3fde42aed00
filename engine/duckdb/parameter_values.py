"""Values of parameters as the engine takes them from Python."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def python_value(value: pa.Scalar) -> Any:
    """A value as the engine takes it; its type stands in the statement.

    Args:
        value: Of a canonical type.

    Returns:
        What Arrow makes of it; only for a map a dictionary with the lists `key` and `value`, which is how
        DuckDB knows one (https://duckdb.org/docs/stable/clients/python/conversion).

    Raises:
        ValueError: It is a date or a time beyond the years that Python knows.
        OverflowError: Likewise.
    """
    if not value.is_valid or not _holds_maps(value.type):
        return value.as_py()
    if pa.types.is_struct(value.type):
        return {field.name: python_value(value[field.name]) for field in value.type}
    if pa.types.is_list(value.type):
        return [python_value(item) for item in value.values]
    pairs = value.values
    return {part: [python_value(item) for item in pairs.field(part)] for part in ("key", "value")}


def _holds_maps(arrow_type: pa.DataType) -> bool:
    """Whether maps are among the values of a type, or in them."""
    if pa.types.is_list(arrow_type):
        return _holds_maps(arrow_type.value_type)
    return pa.types.is_map(arrow_type) or (
        pa.types.is_struct(arrow_type) and any(_holds_maps(field.type) for field in arrow_type)
    )
