"""A caller's parameters as a statement takes them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import InvalidInput
from engine.sql.literals import Shape
from engine.sql.parameters import ParameterSlot
from engine.sql_types import canonical_type, sql_type

DEFAULT_TYPE = pa.string()
"""Type of a parameter whose place in the statement suggests none."""


def parameter_schema(slots: Sequence[ParameterSlot]) -> pa.Schema:
    """The types that a statement asks of its parameters.

    Args:
        slots: The parameters.

    Returns:
        One field a parameter, in the order of the numbers.
    """
    return pa.schema([pa.field(slot.name, slot.type or DEFAULT_TYPE) for slot in slots])


def suggested_types(slots: Sequence[ParameterSlot]) -> tuple[pa.DataType, ...]:
    """The same types without names."""
    return tuple(slot.type or DEFAULT_TYPE for slot in slots)


def parameter_values(slots: Sequence[ParameterSlot], given: pa.RecordBatch | None) -> tuple[pa.Scalar, ...]:
    """Check and convert the values given for a statement's parameters.

    Args:
        slots: The parameters.
        given: One row; columns by name if all parameters are named and found so, by place otherwise.

    Returns:
        A scalar of a canonical type for each parameter.

    Raises:
        InvalidInput: There are too few, too many, or one of the wrong type; the message names it.
    """
    count = 0 if given is None else given.num_columns
    if count != len(slots):
        raise InvalidInput(f"The statement has {len(slots)} parameters, and {count} values were given.")
    if given is None or not slots:
        return ()
    if given.num_rows != 1:
        raise InvalidInput(f"Parameters must be one row of values, not {given.num_rows}.")
    by_name = not slots[0].name.isdigit() and len(set(given.schema.names)) == count and set(given.schema.names) == {slot.name for slot in slots}
    return tuple(_value(slot, given.column(slot.name if by_name else place)[0]) for place, slot in enumerate(slots))


def _value(slot: ParameterSlot, value: pa.Scalar) -> pa.Scalar:
    if value.type == slot.type:
        return value
    if not value.is_valid:
        return pa.scalar(None, slot.type or (DEFAULT_TYPE if pa.types.is_null(value.type) else _canonical(slot, value).type))
    value = _canonical(slot, value)
    if slot.type is None or value.type == slot.type:
        return value
    if _family(value.type) != _family(slot.type):
        if slot.is_cast:
            return value
        raise InvalidInput(f"Parameter {slot.name} must be {sql_type(slot.type)}, not {sql_type(value.type)}.")
    try:
        return pc.cast(value, slot.type)
    except pa.ArrowException as error:
        if _family(value.type) == "number":
            # A number that the column's type does not hold is compared as it is: `id > 5.5` has an answer.
            return value
        raise InvalidInput(
            f"Parameter {slot.name} must be {sql_type(slot.type)}: its value of type {sql_type(value.type)} cannot be converted."
        ) from error


def _canonical(slot: ParameterSlot, value: pa.Scalar) -> pa.Scalar:
    try:
        kind = canonical_type(value.type)
        return value if value.type == kind else pc.cast(value, kind)
    except InvalidInput as error:
        raise InvalidInput(f"Parameter {slot.name}: {error.message}") from error
    except pa.ArrowException as error:
        raise InvalidInput(f"Parameter {slot.name} of type {value.type} cannot be converted to a type that stores use.") from error


def _family(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return "time"
    if pa.types.is_list(kind):
        return f"list of {_family(kind.value_type)}"
    return str(kind)


def shape_values(slots: Sequence[ParameterSlot], shape: Shape) -> tuple[pa.Scalar, ...] | None:
    """The literals of a short statement as values of the parameters of its shape.

    Args:
        slots: Parameters of the shape; all have types.
        shape: The statement's shape.

    Returns:
        The values; None where a literal is not plainly one of its parameter's type, so that the engine would convert it.
    """
    values = []
    for slot, value in zip(slots, shape.values, strict=True):
        kind = slot.type
        if not (pa.types.is_integer(kind) if isinstance(value, int) else pa.types.is_string(kind)):
            return None
        try:
            values.append(pa.scalar(value, kind))
        except (OverflowError, pa.ArrowInvalid):
            return None
    return tuple(values)
