"""Random values of every type of a store's columns: small ones that meet each other in joins, and the
strangest of each type.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from engine.model.sql_types import sql_type
from tests.oracle.kinds import text_literal

INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
WORDS = (
    "",
    "a",
    "A",
    "b",
    "ab",
    "abc",
    "aé",
    "ä",
    "zebra",
    "Zebra",
    "it's",
    "100%",
    "a_b",
    "日本",
    "😀",
    " a",
    "a ",
    "x\ny",
    "NULL",
    "-1",
    "0",
    "7",
    "true",
)
BLOBS = (b"", b"\x00", b"a", b"a\x00", b"\xff", b"\xff\xfe", b"abc")
FLOATS = (float("nan"), float("inf"), float("-inf"), -0.0, 0.0)
WILD_FLOATS = (
    *FLOATS,
    1e300,
    -1e300,
    5e-324,
    0.1,
    1 / 3,
    1.7976931348623157e308,
    -1.7976931348623157e308,
    16777217.0,
)
WILD_SMALL_FLOATS = (*FLOATS, 3.0e38, -3.0e38, 1e-45, 0.1, 16777216.0)
DAY_ZERO = dt.date(1970, 1, 1)
TAME_DAYS = (-1, 0, 1, 58, 59, 60, 364, 365, 366, 19722, 19723, 19782, 19783)
WILD_DAYS = (-719162, -719161, 2932896, 2932895, -25509, 10957)
DAY_MICROSECONDS = 86_400_000_000
WILD_MICROSECONDS = (
    -62135596800000000,
    253402300799999999,
    -1,
    0,
    1,
    999999,
    951782400000000 - 1,
    951782400000000,
    1711846800000000,
)


def tame_value(kind: pa.DataType, random: Random) -> Any:
    """A value among few, so that rows of several stores meet, small enough for any arithmetic."""
    if pa.types.is_integer(kind):
        return (
            random.randrange(0, 13)
            if pa.types.is_unsigned_integer(kind) or random.random() < 0.8
            else random.randrange(-12, 0)
        )
    if pa.types.is_floating(kind):
        return random.choice(FLOATS) if random.random() < 0.15 else random.randrange(-80, 81) / 8
    if pa.types.is_decimal(kind):
        digits = min(kind.precision, 5)
        return _decimal(
            random.randrange(-(10**digits) + 1, 10**digits)
            if random.random() < 0.5
            else random.randrange(10),
            kind.scale,
        )
    return _value(kind, random, tame_value, TAME_DAYS)


def wild_value(kind: pa.DataType, random: Random) -> Any:
    """A value of the whole range, its ends above all."""
    if pa.types.is_integer(kind):
        low, high = bounds(kind)
        return random.choice((low, low + 1, high - 1, high, 0, 1, random.randint(low, high)))
    if pa.types.is_floating(kind):
        return random.choice(WILD_FLOATS if pa.types.is_float64(kind) else WILD_SMALL_FLOATS)
    if pa.types.is_decimal(kind):
        most = 10**kind.precision - 1
        return _decimal(random.choice((-most, most, 0, 1, -1, random.randint(-most, most))), kind.scale)
    return _value(kind, random, wild_value, TAME_DAYS + WILD_DAYS)


def _decimal(unscaled: int, scale: int) -> Decimal:
    # Made of text: arithmetic would round to 28 digits.
    return Decimal(f"{unscaled}E-{scale}")


def bounds(kind: pa.DataType) -> tuple[int, int]:
    """The least and greatest value of an integer type."""
    bits = kind.bit_width
    return (
        (0, 2**bits - 1) if pa.types.is_unsigned_integer(kind) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    )


def _value(
    kind: pa.DataType, random: Random, inner: Callable[[pa.DataType, Random], Any], days: tuple[int, ...]
) -> Any:
    if pa.types.is_string(kind):
        return (
            random.choice(WORDS)
            if random.random() < 0.8
            else "".join(random.choice(WORDS) for _ in range(random.randrange(6)))
        )
    if pa.types.is_binary(kind):
        return random.choice(BLOBS)
    if pa.types.is_boolean(kind):
        return random.random() < 0.5
    if pa.types.is_date(kind):
        return random.choice(days)
    if pa.types.is_timestamp(kind):
        if days is not TAME_DAYS and random.random() < 0.4:
            return random.choice(WILD_MICROSECONDS)
        return random.choice(TAME_DAYS) * DAY_MICROSECONDS + random.choice(
            (0, 0, 3_600_000_000, 1, 86_399_999_999, 43_200_000_000, 1_500_000)
        )
    return _nested_value(kind, random, inner)


def _nested_value(kind: pa.DataType, random: Random, inner: Callable[[pa.DataType, Random], Any]) -> Any:
    def element(of: pa.DataType) -> Any:
        return None if random.random() < 0.2 else inner(of, random)

    if pa.types.is_list(kind):
        return [element(kind.value_type) for _ in range(random.choice((0, 1, 1, 2, 3)))]
    if pa.types.is_struct(kind):
        return {field.name: element(field.type) for field in kind}
    keys = {inner(kind.key_type, random): None for _ in range(random.choice((0, 1, 2)))}
    return [(key, element(kind.item_type)) for key in keys]


def literal(value: Any, kind: pa.DataType) -> str:
    """A value that `tame_value` or `wild_value` made, as an SQL literal of its type."""
    if value is None:
        return "NULL"
    if pa.types.is_integer(kind):
        return str(value)
    if pa.types.is_floating(kind):
        return f"CAST('{value!r}' AS {sql_type(kind)})"
    if pa.types.is_decimal(kind):
        return f"{value:f}"
    if pa.types.is_string(kind):
        return text_literal(value)
    if pa.types.is_binary(kind):
        return "CAST('" + "".join(f"\\x{byte:02X}" for byte in value) + "' AS BLOB)"
    if pa.types.is_boolean(kind):
        return "TRUE" if value else "FALSE"
    return _nested_literal(value, kind) if pa.types.is_nested(kind) else _time_literal(value, kind)


def _nested_literal(value: Any, kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        inner = "[" + ", ".join(literal(item, kind.value_type) for item in value) + "]"
    elif pa.types.is_struct(kind):
        parts = (f"{text_literal(field.name)}: {literal(value[field.name], field.type)}" for field in kind)
        inner = "{" + ", ".join(parts) + "}"
    else:
        pairs = (f"{literal(key, kind.key_type)}: {literal(item, kind.item_type)}" for key, item in value)
        inner = "MAP {" + ", ".join(pairs) + "}"
    return f"CAST({inner} AS {sql_type(kind)})"


def _time_literal(value: int, kind: pa.DataType) -> str:
    if pa.types.is_date(kind):
        return f"DATE '{(DAY_ZERO + dt.timedelta(days=value)).isoformat()}'"
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=value)  # noqa: DTZ001  the type says whether it is UTC
    text = f"{moment.year:04d}" + moment.isoformat(" ")[4:]
    return f"TIMESTAMPTZ '{text}+00'" if kind.tz else f"TIMESTAMP '{text}'"
