"""Values of JSON tickets as Arrow values, none of them as another one: Arrow itself cuts fractions off, takes
numbers for dates, passes over fields that a struct has not got, and ends the process where an entry of a map
is null.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from engine.errors import InvalidInput

_LARGEST_INT64 = 2**63 - 1
_LARGEST_UINT64 = 2**64 - 1


def json_array(name: str, value: object, wanted: pa.DataType | None) -> pa.Array:
    """A value of a JSON ticket as a column of one row.

    Args:
        name: The parameter's name.
        value: Its value. A text stands for values of all types that JSON has no form for: dates, decimals and
            the like.
        wanted: Type that the statement wants; None where that is not known.

    Returns:
        A text of the type that is wanted, or a text for a moment with a zone; a list or an object of it; a
        number, a truth value or null of a type of its own. The service converts what can be converted.

    Raises:
        InvalidInput: The value is not of the type.
    """
    try:
        if isinstance(value, str):
            return _text_array(value, wanted)
        if isinstance(value, list | dict):
            return pa.array([_nested_value(value, wanted) if wanted is not None else value], wanted)
        return _plain_array(value)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        wants = f": the statement wants {wanted}" if wanted is not None else ""
        # What nests deeply is shown a few levels deep.
        shown = value if isinstance(value, str) else reprlib.repr(value)
        raise InvalidInput(f"Parameter {name} cannot be the JSON value {shown[:100]!r}{wants}.") from error


def _text_array(text: str, wanted: pa.DataType | None) -> pa.Array:
    array = pa.array([text], pa.string())
    is_moment = wanted is not None and pa.types.is_timestamp(wanted) and wanted.tz is not None
    return array if wanted is None or is_moment else array.cast(wanted)


def _plain_array(value: object) -> pa.Array:
    if isinstance(value, int) and not -_LARGEST_INT64 <= value <= _LARGEST_UINT64:
        return pa.array([Decimal(value)])
    is_large = isinstance(value, int) and value > _LARGEST_INT64
    return pa.array([value], pa.uint64() if is_large else None)


def _nested_value(value: object, wanted: pa.DataType) -> Any:
    """A value as Python's that Arrow makes just this value of the type of.

    Raises:
        ValueError: It is none of the type.
    """
    if value is None:
        return None
    if pa.types.is_list(wanted) and isinstance(value, list):
        return [_nested_value(item, wanted.value_type) for item in value]
    if pa.types.is_struct(wanted) and isinstance(value, dict):
        names = [field.name for field in wanted]
        if sorted(names) != sorted(value):
            raise ValueError(f"its fields are {', '.join(names)}")
        return {field.name: _nested_value(value[field.name], field.type) for field in wanted}
    if pa.types.is_map(wanted) and isinstance(value, list | dict):
        return [_map_entry(key, item, wanted) for key, item in _pairs(value)]
    return _leaf(value, wanted)


def _pairs(value: list[Any] | Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        yield from value.items()
        return
    for pair in value:
        if not isinstance(pair, list) or len(pair) != 2:
            raise ValueError("an entry of a map is a list of a key and a value")
        yield pair[0], pair[1]


def _map_entry(key: object, value: object, wanted: pa.MapType) -> tuple[Any, Any]:
    if key is None:
        raise ValueError("a key of a map is not null")
    return _nested_value(key, wanted.key_type), _nested_value(value, wanted.item_type)


def _leaf(value: object, wanted: pa.DataType) -> Any:
    if isinstance(value, str):
        return value if pa.types.is_string(wanted) else pa.scalar(value).cast(wanted).as_py()
    if isinstance(value, bool):
        if pa.types.is_boolean(wanted):
            return value
    elif isinstance(value, int):
        if pa.types.is_integer(wanted) or pa.types.is_floating(wanted) or pa.types.is_decimal(wanted):
            return Decimal(value) if pa.types.is_decimal(wanted) else value
    elif isinstance(value, float):
        if pa.types.is_floating(wanted):
            return value
        if pa.types.is_decimal(wanted):
            return _decimal(value)
    raise ValueError(f"it is no {wanted}")


def _decimal(value: float) -> Decimal:
    try:
        return Decimal(repr(value))
    except InvalidOperation as error:
        raise ValueError("it is no decimal") from error
