"""Constants of a statement as values of a column's type: exactly, or not at all.

A comparison of a column with a constant may be moved to the store only if the store compares the same values
that the engine would. Where the engine would cast the column, round the constant or raise an error, the
answer here is `UNKNOWN` and the comparison stays with the engine alone.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from math import isfinite
from typing import Any, Final

import pyarrow as pa
from sqlglot import exp

from engine.model.sql_types import canonical_type

_EXACT_DOUBLE = 2**53
_EXACT_FLOAT = 2**24
"""Integers below are different values of the type."""
_DOUBLE_DIGITS = 15
_FLOAT_DIGITS = 6
"""Decimals of so many digits are different values of the type."""
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4}-\d{2}-\d{2})[ T](\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?)(Z|\+00(?::00)?)?", re.ASCII
)


class Unknown(Enum):
    """The one value of `UNKNOWN`."""

    UNKNOWN = "unknown"


UNKNOWN: Final = Unknown.UNKNOWN


@dataclass(frozen=True)
class Constant:
    """A constant of a statement.

    Attributes:
        value: None, bool, int, Decimal, float (finite), str, bytes, date, or datetime (naive: TIMESTAMP; UTC:
            TIMESTAMP WITH TIME ZONE).
        literal: A bare literal, whose type follows what it is compared with; a cast or a parameter has its
            own.
    """

    value: Any
    literal: bool


@dataclass(frozen=True)
class Parameter:
    """A parameter of a statement.

    Attributes:
        index: Its number less one.
    """

    index: int


@dataclass(frozen=True)
class Computed:
    """An expression without columns: one value for an execution, which the engine computes.

    Attributes:
        text: The expression in DuckDB's dialect, by which its value is known.
        node: The expression.
    """

    text: str
    node: exp.Expr = field(compare=False, repr=False)

    @property
    def is_moved_time(self) -> bool:
        """Whether it is a parameter, or the statement's time, by so many days or hours earlier or later: then
        it cannot fail.
        """
        node: exp.Expr | None = self.node
        while isinstance(node, exp.Paren | exp.Add | exp.Sub):
            if not isinstance(node, exp.Paren):
                step = node.expression
                if not isinstance(step, exp.Interval) or not isinstance(step.this, exp.Literal):
                    return False
            node = node.this
        return isinstance(node, exp.Placeholder)


Operand = Constant | Parameter | Computed


@dataclass(frozen=True)
class Arguments:
    """What a plan is used with: everything that differs between statements that share it.

    Attributes:
        parameters: Values of the parameters in the order of their numbers, of canonical types; then the
            statement's time, if it reads that.
        lists: Long literal lists by name.
        computed: Values of expressions without columns by their texts, of canonical types and never NULL;
            without those that the engine alone can judge.
    """

    parameters: tuple[pa.Scalar, ...] = ()
    lists: Mapping[str, pa.RecordBatch] = field(default_factory=dict)
    computed: Mapping[str, pa.Scalar] = field(default_factory=dict)

    def value_of(self, operand: Parameter | Computed) -> pa.Scalar | None:
        """The value of an operand that is no constant; None where it is not known."""
        if isinstance(operand, Parameter):
            return self.parameters[operand.index]
        return self.computed.get(operand.text)


def constant_of(value: pa.Scalar) -> Constant | Unknown:
    """The constant that a parameter's value is.

    Args:
        value: A scalar of a canonical type.

    Returns:
        The constant; UNKNOWN for values that are not compared exactly here (NaN, infinity, FLOAT, nested
        types).
    """
    arrow_type = value.type
    # The engine compares numbers with a FLOAT in few bits.
    if pa.types.is_nested(arrow_type) or pa.types.is_null(arrow_type) or pa.types.is_float32(arrow_type):
        return UNKNOWN if value.is_valid else Constant(None, literal=False)
    try:
        constant = Constant(value.as_py(), literal=False)
    except (ValueError, OverflowError):
        # Dates and timestamps beyond the years that Python knows.
        return UNKNOWN
    return UNKNOWN if isinstance(constant.value, float) and not isfinite(constant.value) else constant


def exact_value(constant: Constant, arrow_type: pa.DataType) -> pa.Scalar | Unknown | None:
    """A constant as a value of a column's type.

    Args:
        constant: What the column is compared with.
        arrow_type: Canonical type of the column.

    Returns:
        The scalar; None for NULL, which no comparison matches; UNKNOWN where an exact value is not certain.
    """
    value = constant.value
    if value is None:
        return None
    converted = _python_value(value, constant.literal, arrow_type)
    if converted is UNKNOWN:
        return UNKNOWN
    try:
        return pa.scalar(converted, arrow_type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError):
        # The value is outside the range of the column's type: the engine compares in a wider type. Or it is
        # no text, as the parser says.
        return UNKNOWN


def exact_integers(literals: Sequence[int | str], arrow_type: pa.DataType) -> Sequence[pa.Scalar] | None:
    """Literals as values of an integer type: `exact_value` for many, in one call of Arrow.

    Args:
        literals: The literals.
        arrow_type: The type.

    Returns:
        The values; None where one of them is no whole number, or not of the type's range.
    """
    if any(isinstance(literal, str) for literal in literals):
        return None
    try:
        values: list[pa.Scalar] = list(pa.array(literals, arrow_type))
    except (pa.ArrowInvalid, OverflowError):
        return None
    return values


def stays_apart(value: pa.Scalar, arrow_type: pa.DataType) -> bool:
    """Whether a number, compared as a floating point type, differs from all other values of its own type.

    Args:
        value: A value that `exact_value` gave.
        arrow_type: float64 or float32.
    """
    is_double = pa.types.is_float64(arrow_type)
    if pa.types.is_integer(value.type):
        return bool(abs(value.as_py()) < (_EXACT_DOUBLE if is_double else _EXACT_FLOAT))
    return bool(
        not pa.types.is_decimal(value.type)
        or value.type.precision <= (_DOUBLE_DIGITS if is_double else _FLOAT_DIGITS)
    )


def _python_value(value: Any, literal: bool, arrow_type: pa.DataType) -> Any:
    if pa.types.is_boolean(arrow_type):
        return value if isinstance(value, bool) else UNKNOWN
    if isinstance(value, bool):
        return UNKNOWN
    if pa.types.is_string(arrow_type):
        return value if isinstance(value, str) else UNKNOWN
    if pa.types.is_binary(arrow_type):
        return value if isinstance(value, bytes) else UNKNOWN
    if pa.types.is_date(arrow_type):
        return _date(value, literal)
    if pa.types.is_timestamp(arrow_type):
        return _timestamp(value, literal, zoned=arrow_type.tz is not None)
    return _number(value, arrow_type)


def _number(value: Any, arrow_type: pa.DataType) -> Any:
    if isinstance(value, float):
        return _value_of_float(value, arrow_type)
    if pa.types.is_integer(arrow_type):
        whole = isinstance(value, int) or (
            isinstance(value, Decimal) and value.is_finite() and value == int(value)
        )
        return int(value) if whole else UNKNOWN
    if pa.types.is_decimal(arrow_type):
        return _decimal(value, arrow_type)
    return _float(value, arrow_type) if pa.types.is_floating(arrow_type) else UNKNOWN


def _value_of_float(value: float, arrow_type: pa.DataType) -> Any:
    """A DOUBLE, with which the engine compares numbers as DOUBLE.

    It is a value of the column's type where that, read as DOUBLE, is this value and no other one of the
    column is.
    """
    if pa.types.is_integer(arrow_type):
        return int(value) if value.is_integer() and abs(value) < _EXACT_DOUBLE else UNKNOWN
    if pa.types.is_decimal(arrow_type):
        if arrow_type.precision > _DOUBLE_DIGITS or abs(value) >= 10**arrow_type.precision:
            return UNKNOWN
        rounded = round(Decimal(value), arrow_type.scale)
        return _decimal(rounded, arrow_type) if float(rounded) == value else UNKNOWN
    return (
        value
        if pa.types.is_floating(arrow_type) and pa.scalar(value, arrow_type).as_py() == value
        else UNKNOWN
    )


def _decimal(value: Any, arrow_type: pa.DataType) -> Any:
    if not isinstance(value, int | Decimal):
        return UNKNOWN
    number = Decimal(value)
    digits = number.as_tuple()
    if not isinstance(digits.exponent, int):
        return UNKNOWN
    scale = max(-digits.exponent, 0)
    whole = len(digits.digits) + digits.exponent
    # A constant that fits into the column's type is cast to it; a wider one would widen the comparison.
    if scale > arrow_type.scale or whole > arrow_type.precision - arrow_type.scale:
        return UNKNOWN
    return number


def _float(value: Any, arrow_type: pa.DataType) -> Any:
    if not isinstance(value, int | Decimal):
        return UNKNOWN
    number = Decimal(value)
    if not number.is_finite() or abs(number) > (
        _EXACT_DOUBLE if pa.types.is_float64(arrow_type) else _EXACT_FLOAT
    ):
        return UNKNOWN
    nearest = float(number)
    stored = pa.scalar(nearest, arrow_type).as_py()
    return nearest if Decimal(stored) == number else UNKNOWN


def _date(value: Any, literal: bool) -> Any:
    if isinstance(value, str) and literal and _DATE.fullmatch(value):
        return _parse_or_unknown(dt.date.fromisoformat, value)
    if isinstance(value, dt.datetime):
        moment = _in_utc(value)
        return moment.date() if moment.time() == dt.time() else UNKNOWN
    return value if isinstance(value, dt.date) else UNKNOWN


def _in_utc(moment: dt.datetime) -> dt.datetime:
    """A moment without its zone: the engine's session time zone is always UTC, so it compares dates and
    timestamps without zone with moments as if they were of UTC.
    """
    return moment if moment.tzinfo is None else moment.astimezone(dt.UTC).replace(tzinfo=None)


def _timestamp(value: Any, literal: bool, *, zoned: bool) -> Any:
    zone = dt.UTC if zoned else None
    if isinstance(value, str) and literal:
        return parse_timestamp(value, zoned=zoned)
    if isinstance(value, dt.datetime):
        return _in_utc(value).replace(tzinfo=zone)
    if isinstance(value, dt.date):
        return dt.datetime.combine(value, dt.time(), zone)
    return UNKNOWN


def parse_timestamp(text: str, *, zoned: bool) -> dt.datetime | Unknown:
    """A timestamp from the plain forms `2024-01-31` and `2024-01-31 12:30:00[.123456][Z]`.

    Args:
        text: The literal.
        zoned: For a TIMESTAMP WITH TIME ZONE. Only then may the text name a zone, and only UTC.

    Returns:
        The timestamp, in UTC if `zoned`; UNKNOWN for any other form.
    """
    zone = dt.UTC if zoned else None
    if _DATE.fullmatch(text):
        day = _parse_or_unknown(dt.date.fromisoformat, text)
        return dt.datetime.combine(day, dt.time(), zone) if isinstance(day, dt.date) else UNKNOWN
    found = _TIMESTAMP.fullmatch(text)
    if not found or (found[3] and not zoned):
        return UNKNOWN
    time, _, fraction = found[2].partition(".")
    moment = _parse_or_unknown(dt.datetime.fromisoformat, f"{found[1]} {time}.{fraction.ljust(6, '0')}")
    return moment.replace(tzinfo=zone) if isinstance(moment, dt.datetime) else UNKNOWN


def parse_date(text: str) -> dt.date | Unknown:
    """A date from the plain form `2024-01-31`.

    Args:
        text: The literal.

    Returns:
        The date; UNKNOWN for any other form.
    """
    found: dt.date | Unknown = (
        _parse_or_unknown(dt.date.fromisoformat, text) if _DATE.fullmatch(text) else UNKNOWN
    )
    return found


def _parse_or_unknown(parse: Any, text: str) -> Any:
    try:
        return parse(text)
    except ValueError:
        return UNKNOWN


def coerce_constants(values: pa.Array, arrow_type: pa.DataType) -> pa.Array | Unknown:
    """Many constants at once as values of a column's type.

    Args:
        values: Integers or strings as `engine.sql.literals` lifts them, or a list parameter's items.
        arrow_type: Canonical type of the column.

    Returns:
        The values without NULLs, which match nothing; UNKNOWN where exact values are not certain.
    """
    source = values.type
    same = source == arrow_type or (pa.types.is_integer(source) and pa.types.is_integer(arrow_type))
    if (
        not same
        or pa.types.is_floating(arrow_type)
        or pa.types.is_nested(arrow_type)
        or canonical_type(source) != source
    ):
        return UNKNOWN
    try:
        return values.drop_null().cast(arrow_type)
    except pa.ArrowInvalid:
        # Some are outside the range of the column's type.
        return UNKNOWN
