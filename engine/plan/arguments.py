"""A caller's parameters as a statement takes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import InvalidInput
from engine.model.quantities import quantity
from engine.model.sql_types import canonical_type, check_names_within, sql_type
from engine.sql.bind import BoundStatement
from engine.sql.parameters import ParameterSlot

DEFAULT_TYPE = pa.string()
"""Type of a parameter whose place in the statement suggests none."""
TIME_TYPE = pa.timestamp("us", "UTC")
"""Type of a statement's time."""
UNSIGNED_TYPE = pa.decimal128(20, 0)
"""Suggested for UBIGINT: it has negative numbers as well as those above BIGINT."""

_FINER_THAN_MICROSECONDS = re.compile(r"\.\d{7}")


def parameter_schema(slots: Sequence[ParameterSlot]) -> pa.Schema:
    """The types that a statement suggests for its parameters.

    A driver may convert what its user gives to the type that it is told, and wrap or round it on the way. So
    each type is wide enough that a number does not change: BIGINT in the place of narrower integers, DOUBLE
    in that of FLOAT.

    Args:
        slots: The parameters.

    Returns:
        One field a parameter, in the order of the numbers.
    """
    return pa.schema([pa.field(slot.name, _suggested_type(slot.type)) for slot in slots])


def suggested_types(slots: Sequence[ParameterSlot]) -> tuple[pa.DataType, ...]:
    """The types that a statement is bound with before there are values."""
    return tuple(slot.type if slot.takes_integer else _suggested_type(slot.type) for slot in slots)


def argument_types(bound: BoundStatement) -> tuple[pa.DataType, ...]:
    """Types of what a statement is used with: those suggested for its parameters, and that of its time."""
    types = suggested_types(bound.parameters)
    return (*types, TIME_TYPE) if bound.reads_time else types


def _suggested_type(arrow_type: pa.DataType | None) -> pa.DataType:
    if arrow_type is None:
        return DEFAULT_TYPE
    if pa.types.is_list(arrow_type):
        return pa.list_(pa.field("item", _suggested_type(arrow_type.value_type)))
    if pa.types.is_uint64(arrow_type):
        return UNSIGNED_TYPE
    if pa.types.is_integer(arrow_type):
        return pa.int64()
    return pa.float64() if pa.types.is_floating(arrow_type) else arrow_type


Given: TypeAlias = pa.RecordBatch | tuple[pa.Scalar, ...] | None
"""Values for parameters: one row with a column each, or the values in the order of the parameters; None for
nothing.
"""


def parameter_values(slots: Sequence[ParameterSlot], given: Given) -> tuple[pa.Scalar, ...]:
    """Check and convert the values given for a statement's parameters.

    Args:
        slots: The parameters.
        given: The values; columns by name if all parameters are named and found so, by place otherwise.

    Returns:
        A scalar of a canonical type for each parameter.

    Raises:
        InvalidInput: There are too few, too many, or one of the wrong type; the message names it.
    """
    count = 0 if given is None else len(given) if isinstance(given, tuple) else given.num_columns
    if count != len(slots):
        raise InvalidInput(
            f"The statement has {quantity(len(slots), 'parameter')}, and values were given for {count}."
        )
    if given is None or not slots:
        return ()
    if isinstance(given, tuple):
        return tuple(_value(slot, value) for slot, value in zip(slots, given, strict=True))
    if given.num_rows != 1:
        raise InvalidInput(f"Parameters must be one row of values, not {given.num_rows}.")
    by_name = (
        not slots[0].name.isdigit()
        and len(set(given.schema.names)) == count
        and set(given.schema.names) == {slot.name for slot in slots}
    )
    return tuple(
        _value(slot, given.column(slot.name if by_name else index)[0]) for index, slot in enumerate(slots)
    )


def _value(slot: ParameterSlot, value: pa.Scalar) -> pa.Scalar:
    if value.type == slot.type:
        return value
    if pa.types.is_null(value.type):
        # What takes an INTEGER is told a NULL from one that has a type.
        return value if slot.takes_integer else pa.scalar(None, slot.type or value.type)
    value = _canonical_value(slot, _with_types_of_place(slot, value))
    if slot.takes_integer:
        # The engine may take something else there, such as a list of names.
        return _integer(value) if pa.types.is_integer(value.type) else value
    if slot.type is None or slot.is_cast or _family(value.type) == _family(slot.type):
        # A value keeps its own type: converted to the one of its place it could be rounded.
        return value
    if not value.is_valid:
        return pa.scalar(None, slot.type)
    are_lists = pa.types.is_list(value.type) and pa.types.is_list(slot.type)
    if are_lists and value.values.null_count == len(value.values):
        # Of nothing but NULLs, or empty: a client need not know of what.
        return pa.scalar([None] * len(value.values), slot.type)
    if value.type == _announced_text(slot.type):
        return pa.scalar(_instants(slot, value.as_py()), slot.type)
    raise InvalidInput(f"Parameter {slot.name} must be {sql_type(slot.type)}, not {sql_type(value.type)}.")


def _with_types_of_place(slot: ParameterSlot, value: pa.Scalar) -> pa.Scalar:
    """A value whose parts without a type, such as those of an empty list, have the types of its place.

    Raises:
        InvalidInput: The place has none.
    """
    try:
        arrow_type = _with_known_parts(value.type, slot.type)
    except LookupError:
        raise InvalidInput(
            f"Parameter {slot.name} is {value.type} by its values, and its place does not say what it has "
            f"within: say so by a cast, such as ${slot.name}::VARCHAR[]."
        ) from None
    return value if arrow_type == value.type else pa.scalar(value.as_py(), arrow_type)


def _with_known_parts(given: pa.DataType, wanted: pa.DataType | None) -> pa.DataType:
    """A type in which what is NULL alone has the type that its place has.

    Raises:
        LookupError: The place has none.
    """
    if pa.types.is_null(given):
        if wanted is None:
            raise LookupError(given)
        return wanted
    within: dict[str, pa.DataType] = {}
    if wanted is not None and pa.types.is_list(wanted):
        within = {"item": wanted.value_type}
    elif wanted is not None and pa.types.is_map(wanted):
        within = {"key": wanted.key_type, "item": wanted.item_type}
    elif wanted is not None and pa.types.is_struct(wanted):
        within = {field.name: field.type for field in wanted}
    if pa.types.is_list(given) or pa.types.is_large_list(given) or pa.types.is_fixed_size_list(given):
        item = _with_known_parts(given.value_type, within.get("item"))
        return given if item == given.value_type else pa.list_(item)
    if pa.types.is_map(given):
        key = _with_known_parts(given.key_type, within.get("key"))
        return pa.map_(key, _with_known_parts(given.item_type, within.get("item")))
    if pa.types.is_struct(given):
        return pa.struct(
            [field.with_type(_with_known_parts(field.type, within.get(field.name))) for field in given]
        )
    return given


def _integer(value: pa.Scalar) -> pa.Scalar:
    """A whole number as INTEGER, as its literal would be; one that does not fit stays, which the engine
    refuses.
    """
    try:
        return pc.cast(value, pa.int32())
    except pa.ArrowInvalid:
        return value


def _announced_text(arrow_type: pa.DataType) -> pa.DataType | None:
    """The type of the texts that may stand for moments, as drivers must write them that do not say which zone
    theirs are of.
    """
    if pa.types.is_list(arrow_type):
        item = _announced_text(arrow_type.value_type)
        return None if item is None else pa.list_(pa.field("item", item))
    return pa.string() if pa.types.is_timestamp(arrow_type) and arrow_type.tz is not None else None


def _instants(slot: ParameterSlot, value: Any) -> Any:
    """Moments, or a list of them, that are given as text."""
    if value is None:
        return None
    if isinstance(value, list):
        return [_instants(slot, each) for each in value]
    try:
        if not _FINER_THAN_MICROSECONDS.search(value):
            moment = datetime.fromisoformat(value.strip())
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise InvalidInput(
        f"Parameter {slot.name} must be a TIMESTAMP WITH TIME ZONE such as 2026-01-31 12:00:00.123456+01:00 "
        "(without an offset: UTC)."
    )


def _canonical_value(slot: ParameterSlot, value: pa.Scalar) -> pa.Scalar:
    try:
        arrow_type = canonical_type(value.type)
        check_names_within(arrow_type)
        return value if value.type == arrow_type else pc.cast(value, arrow_type)
    except InvalidInput as error:
        raise InvalidInput(f"Parameter {slot.name}: {error.message}") from error
    except pa.ArrowException as error:
        raise InvalidInput(
            f"Parameter {slot.name} of type {value.type} cannot be converted to a type that stores use."
        ) from error


def _family(arrow_type: pa.DataType) -> str:
    if pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type) or pa.types.is_decimal(arrow_type):
        return "number"
    if pa.types.is_date(arrow_type) or pa.types.is_timestamp(arrow_type):
        return "time"
    if pa.types.is_list(arrow_type):
        return f"list of {_family(arrow_type.value_type)}"
    if pa.types.is_struct(arrow_type):
        return f"struct of {[(field.name, _family(field.type)) for field in arrow_type]}"
    if pa.types.is_map(arrow_type):
        return f"map from {_family(arrow_type.key_type)} to {_family(arrow_type.item_type)}"
    return str(arrow_type)
