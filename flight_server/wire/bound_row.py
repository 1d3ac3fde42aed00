"""The row of values that a client binds to a prepared statement: checked as it comes, and brought into the
types that handles carry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from pyarrow import flight

from engine.errors import InvalidInput
from engine.sql.literals import MAX_PARAMETERS
from flight_server.wire.ipc_bytes import MAX_NESTING
from flight_server.wire.tickets import MAX_PARAMETER_BYTES, MAX_PARAMETER_VALUES

_DAMAGED = "The parameters are no Arrow stream: their bytes are damaged or cut off."
_ONE_ROW = "Bind one row of parameters: a query runs once. For many keys, use IN or join a VALUES list."
_VIEW_BYTES = 16
_WITHOUT_ARRAYS = frozenset({pa.lib.Type_INTERVAL_MONTHS, pa.lib.Type_INTERVAL_DAY_TIME})
"""Types that pyarrow knows by name only."""
_TOO_LARGE = f"The parameters take more than {MAX_PARAMETER_BYTES:,} bytes."


def bound_row(reader: flight.MetadataRecordBatchReader, check: Callable[[], None]) -> pa.RecordBatch | None:
    """Read the values of a DoPut.

    Flight makes rows of what comes before this is asked for them, compressed or not. What it has made is
    counted before anything else is made of it.

    Args:
        reader: The values: one column a parameter, one row.
        check: Called with each message; raises when there is no more time.

    Returns:
        The row, of types that `flight_server.wire.ipc_bytes` reads; None for no columns.

    Raises:
        InvalidInput: There is not one row, it is too large, has a type that cannot be bound, or is damaged.
    """
    try:
        _check_schema(reader.schema)
        found = _one_row(reader, check)
        if not len(reader.schema):
            return None
        if found is None:
            # Without it a statement would run with the values that were bound before.
            raise InvalidInput(f"There is no row of parameters. {_ONE_ROW}")
        found.validate()
        if any(sum(_view_bytes(column)) > MAX_PARAMETER_BYTES for column in found.columns):
            # Before each view is looked at: many can show the same.
            raise InvalidInput(_TOO_LARGE)
        if sum(map(_untyped_nulls, found.columns)) > MAX_PARAMETER_VALUES:
            # Before they become texts: until then they take no bytes.
            raise InvalidInput(f"The parameters have more than {MAX_PARAMETER_VALUES:,} values.")
        found.validate(full=True)
        return pa.RecordBatch.from_arrays(
            [_plain_column(column) for column in found.columns], found.schema.names
        )
    except MemoryError as error:
        raise InvalidInput(_TOO_LARGE) from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InvalidInput(_DAMAGED) from error


def _check_schema(schema: pa.Schema) -> None:
    if len(schema) > MAX_PARAMETERS:
        raise InvalidInput(
            f"A statement has at most {MAX_PARAMETERS} parameters: pass a list to = ANY(?) instead."
        )
    for place, field in enumerate(schema, start=1):
        if not _can_be_bound(field.type):
            raise InvalidInput(
                f"Parameter {place} has the Arrow type {field.type}, which cannot be bound: cast it to "
                "another one."
            )


def _can_be_bound(arrow_type: pa.DataType) -> bool:
    """Whether values of a type have bytes of their own, or one row of them does;
    `flight_server.wire.ipc_bytes` says why.
    """
    if pa.types.is_dictionary(arrow_type):
        return _has_own_bytes(arrow_type.value_type)
    return _has_own_bytes(_with_typed_nulls(arrow_type))


def _with_typed_nulls(arrow_type: pa.DataType) -> pa.DataType:
    """A type in which NULLs of no type, as drivers make them of a list that is empty, are texts."""
    if pa.types.is_list(arrow_type):
        return pa.list_(arrow_type.value_field.with_type(_with_typed_nulls(arrow_type.value_type)))
    if pa.types.is_struct(arrow_type):
        return pa.struct([field.with_type(_with_typed_nulls(field.type)) for field in arrow_type])
    return pa.string() if pa.types.is_null(arrow_type) else arrow_type


def _untyped_nulls(array: pa.Array) -> int:
    """How many values of no type there are within others."""
    if pa.types.is_null(array.type):
        return len(array)
    if pa.types.is_list(array.type):
        return _untyped_nulls(array.values)
    if pa.types.is_struct(array.type):
        return sum(_untyped_nulls(array.field(place)) for place in range(array.type.num_fields))
    return 0


def _has_own_bytes(arrow_type: pa.DataType, depth: int = 0) -> bool:
    if depth > MAX_NESTING or isinstance(arrow_type, pa.BaseExtensionType):
        return False
    if pa.types.is_null(arrow_type) or pa.types.is_dictionary(arrow_type):
        return False
    if (
        arrow_type.id in _WITHOUT_ARRAYS
        or pa.types.is_run_end_encoded(arrow_type)
        or pa.types.is_union(arrow_type)
        or pa.types.is_list_view(arrow_type)
        or pa.types.is_large_list_view(arrow_type)
    ):
        return False
    if pa.types.is_fixed_size_list(arrow_type) and not arrow_type.list_size:
        return False
    if pa.types.is_fixed_size_binary(arrow_type):
        return bool(arrow_type.byte_width)
    if pa.types.is_struct(arrow_type) and not arrow_type.num_fields:
        return False
    return all(
        _has_own_bytes(arrow_type.field(place).type, depth + 1) for place in range(arrow_type.num_fields)
    )


def _one_row(reader: flight.MetadataRecordBatchReader, check: Callable[[], None]) -> pa.RecordBatch | None:
    rows, found = 0, None
    for chunk in reader:
        check()
        if chunk.data is None:
            continue
        rows += chunk.data.num_rows
        if rows > 1:
            raise InvalidInput(_ONE_ROW)
        if sum(map(_buffer_bytes, chunk.data.columns)) > MAX_PARAMETER_BYTES:
            raise InvalidInput(_TOO_LARGE)
        found = chunk.data if chunk.data.num_rows else found
    return found


def _buffer_bytes(column: pa.Array) -> int:
    """Bytes of all buffers of a column, those that it has twice twice."""
    own = sum(int(buffer.size) for buffer in column.buffers() if buffer is not None)
    return own + (_buffer_bytes(column.dictionary) if pa.types.is_dictionary(column.type) else 0)


def _plain_column(column: pa.Array) -> pa.Array:
    """A column of one row as a handle carries it."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):
        return column
    arrow_type = _plain_type(_with_typed_nulls(column.type))
    if arrow_type == column.type:
        return column
    return column.cast(arrow_type)


def _plain_type(arrow_type: pa.DataType) -> pa.DataType:
    """The type without views."""
    if pa.types.is_string_view(arrow_type):
        return pa.string()
    if pa.types.is_binary_view(arrow_type):
        return pa.binary()
    if pa.types.is_map(arrow_type):
        return pa.map_(_plain_type(arrow_type.key_type), _plain_type(arrow_type.item_type))
    if pa.types.is_struct(arrow_type):
        return pa.struct([field.with_type(_plain_type(field.type)) for field in arrow_type])
    if pa.types.is_list(arrow_type):
        return pa.list_(arrow_type.value_field.with_type(_plain_type(arrow_type.value_type)))
    if pa.types.is_large_list(arrow_type):
        return pa.large_list(arrow_type.value_field.with_type(_plain_type(arrow_type.value_type)))
    if pa.types.is_fixed_size_list(arrow_type):
        return pa.list_(
            arrow_type.value_field.with_type(_plain_type(arrow_type.value_type)), arrow_type.list_size
        )
    return arrow_type


def _view_bytes(array: pa.Array) -> Iterator[int]:
    """What the views in an array become, each with all of what it shows."""
    arrow_type = array.type
    if not len(array):
        return
    if pa.types.is_string_view(arrow_type) or pa.types.is_binary_view(arrow_type):
        # A view is 16 bytes, of which the first four are the length of what it shows. Arrow has no function
        # for it.
        sizes = np.frombuffer(array.buffers()[1], np.uint32)[:: _VIEW_BYTES // 4][
            array.offset : array.offset + len(array)
        ]
        yield int(sizes[array.is_valid().to_numpy(zero_copy_only=False)].sum(dtype=np.int64))
    elif pa.types.is_dictionary(arrow_type):
        yield from _view_bytes(array.dictionary)
    elif pa.types.is_struct(arrow_type):
        for place in range(arrow_type.num_fields):
            yield from _view_bytes(array.field(place))
    elif pa.types.is_map(arrow_type):
        yield from _view_bytes(array.keys)
        yield from _view_bytes(array.items)
    elif arrow_type.num_fields:
        yield from _view_bytes(array.values)
