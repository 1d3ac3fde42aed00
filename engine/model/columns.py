"""Columns through all shapes that a store has had: what tells them apart is a number, and it says what stored
rows hold of each.

A column has its number for ever: renaming keeps it, and none is used again. So rows that were stored under an
older shape of their store are read by
number: the column itself, else the narrower one that it was before and a cast, else its default.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import pyarrow as pa

from engine.errors import InvalidInput
from engine.model.sql_types import MAX_DECIMAL_DIGITS, canonical_type, sql_type

MAX_COLUMN_NUMBER = 0xFFFB
"""Keys of stored blocks have two bytes for a column, and the last four of their values are taken
(`engine.state.formats`).
"""

_INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
_FLOAT_BITS = {32: 24, 64: 53}
"""Bits of a whole number that a float holds exactly."""


@dataclass(frozen=True)
class Column:
    """A stored column.

    Attributes:
        number: Its number, unique among all columns that the store has ever had.
        default: Its value in rows that were written before it was added, as text; None for NULL.
        older: Numbers and types that it had before it was widened, newest first.
    """

    number: int
    default: str | None = None
    older: tuple[tuple[int, pa.DataType], ...] = ()

    def default_value(self, arrow_type: pa.DataType) -> pa.Scalar:
        """The value of rows that lack the column.

        Args:
            arrow_type: The column's type.
        """
        return value_of(self.default, arrow_type)

    def source(self, numbers: Collection[int], arrow_type: pa.DataType) -> tuple[int, pa.DataType] | None:
        """Where stored rows have the column's values.

        Args:
            numbers: The columns that they have.
            arrow_type: The column's type.

        Returns:
            Number and type of a stored column; None where they lack it, so that its value is the default.
        """
        return next((each for each in ((self.number, arrow_type), *self.older) if each[0] in numbers), None)

    def read(
        self,
        numbers: Collection[int],
        arrow_type: pa.DataType,
        rows: int,
        stored: Callable[[int, pa.DataType], pa.Array],
    ) -> pa.Array:
        """The column of stored rows.

        Args:
            numbers: The columns that they have.
            arrow_type: The column's type.
            rows: How many they are.
            stored: Gives a stored column by its number and type.
        """
        found = self.source(numbers, arrow_type)
        if found is None:
            return pa.repeat(self.default_value(arrow_type), rows)
        number, stored_kind = found
        values = stored(number, stored_kind)
        return values if stored_kind == arrow_type else cast_exactly(values, arrow_type)


def columns_as_created(count: int) -> tuple[Column, ...]:
    """The columns of a new store: their numbers are their places."""
    return tuple(Column(number) for number in range(count))


def value_of(text: str | None, arrow_type: pa.DataType) -> pa.Scalar:
    """A value that was given as text.

    Args:
        text: As SQL's casts read it; None for NULL.
        arrow_type: Its type.

    Raises:
        InvalidInput: The text is no value of the type, or values of the type have no text.
    """
    if text is None:
        return pa.scalar(None, arrow_type)
    if pa.types.is_nested(arrow_type):
        raise InvalidInput(f"A column of type {sql_type(arrow_type)} has no default other than NULL.")
    try:
        return pa.scalar(text).cast(arrow_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInput(f"{text!r} is no {sql_type(arrow_type)}.") from error


def text_of(value: pa.Scalar) -> str | None:
    """The text of which `value_of` makes the same value."""
    text: str | None = value.cast(pa.string()).as_py()
    return text


def cast_exactly(
    column: pa.ChunkedArray | pa.Array | pa.Scalar, arrow_type: pa.DataType
) -> pa.ChunkedArray | pa.Array | pa.Scalar:
    """Cast values that all are values of another type, too.

    Raises:
        pa.ArrowInvalid: One of them is none.
        pa.ArrowNotImplementedError: Arrow does not know how.
    """
    if isinstance(column, pa.ChunkedArray):
        chunks = [cast_exactly(chunk, arrow_type) for chunk in column.chunks]
        return pa.chunked_array(chunks, arrow_type)
    if isinstance(column, pa.DictionaryArray) and not pa.types.is_dictionary(arrow_type):
        # Arrow decodes neither lists and structs nor views.
        values = column.dictionary
        if pa.types.is_string_view(values.type) or pa.types.is_binary_view(values.type):
            values = values.cast(canonical_type(values.type))
        return cast_exactly(values.take(column.indices), arrow_type)
    return column.cast(_with_room(column.type, arrow_type)).cast(arrow_type)


def _with_room(source: pa.DataType, target: pa.DataType) -> pa.DataType:
    """A type to be cast to another one, whose decimals have room for all integers of a source: Arrow asks for
    room for every one of their width, and a second cast for those that are there.
    """
    types = pa.types
    if types.is_dictionary(source):
        return _with_room(source.value_type, target)
    if types.is_integer(source) and types.is_decimal(target):
        return pa.decimal128(MAX_DECIMAL_DIGITS, target.scale)
    if types.is_list(target) and hasattr(source, "value_type"):
        return pa.list_(target.value_field.with_type(_with_room(source.value_type, target.value_type)))
    if types.is_struct(target) and types.is_struct(source) and len(source) == len(target):
        pairs = zip(source, target, strict=True)
        return pa.struct([there.with_type(_with_room(here.type, there.type)) for here, there in pairs])
    if types.is_map(target) and types.is_map(source):
        key = _with_room(source.key_type, target.key_type)
        return pa.map_(key, _with_room(source.item_type, target.item_type))
    return target


def widens(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether every value of a type is a value of another one.

    Args:
        source: A canonical type.
        target: Another one.
    """
    types = pa.types
    if types.is_integer(source):
        return _widens_integer(source, target)
    if types.is_floating(source) and types.is_floating(target):
        return bool(target.bit_width > source.bit_width)
    if types.is_decimal(source) and types.is_decimal(target):
        return bool(
            target.scale >= source.scale
            and target.precision - target.scale >= source.precision - source.scale
            and target != source
        )
    return False


def _widens_integer(source: pa.DataType, target: pa.DataType) -> bool:
    types, is_signed = pa.types, pa.types.is_signed_integer(source)
    if types.is_integer(target):
        return bool(
            target.bit_width > source.bit_width and (types.is_signed_integer(target) or not is_signed)
        )
    if types.is_floating(target):
        return bool(_FLOAT_BITS[target.bit_width] >= source.bit_width)
    if types.is_decimal(target):
        digits = _INTEGER_DIGITS[source.bit_width] + (source == pa.uint64())
        return bool(target.precision - target.scale >= digits)
    return False
