"""How columns are laid out that the engine scans: as it has them itself, so that a scan need not make new
values of old ones.

The engine has decimals of up to 18 digits in eight bytes, and makes a pointer of sixteen bytes for each
string; of a dictionary it makes them once. The types that a statement sees are the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from engine.model.distinct_sketch import Sketch, distinct_values

LEAST_NARROW_DIGITS, MOST_NARROW_DIGITS = 5, 18
"""Decimals that the engine has in four or eight bytes."""
MOST_4_BYTE_DIGITS = 9
LEAST_REPEATS = 8
"""How often a value must be there, on average, to be worth a place in a dictionary."""

_DICTIONARY = pa.dictionary(pa.int32(), pa.string())


def narrow_type(arrow_type: pa.DataType) -> pa.DataType | None:
    """The type of the same decimals as the engine has them; None for other columns, and where they are as
    wide there.
    """
    if not pa.types.is_decimal128(arrow_type):
        return None
    precision, scale = arrow_type.precision, arrow_type.scale
    if not LEAST_NARROW_DIGITS <= precision <= MOST_NARROW_DIGITS:
        return None
    return (pa.decimal32 if precision <= MOST_4_BYTE_DIGITS else pa.decimal64)(precision, scale)


def can_repeat(arrow_type: pa.DataType) -> bool:
    """Whether columns of a type are worth a dictionary where their values repeat."""
    return bool(pa.types.is_string(arrow_type))


def repeats(sketches: Sequence[tuple[Sketch | None, int]]) -> bool:
    """Whether the values of a column repeat so often that each segment is worth a dictionary.

    Args:
        sketches: The sketch of each segment that has one, and the rows of all.
    """
    known = sum(rows for sketch, rows in sketches if sketch is not None)
    return 2 * known >= sum(rows for _, rows in sketches) and all(
        distinct_values(sketch) * LEAST_REPEATS <= rows for sketch, rows in sketches if sketch is not None
    )


def encoded_type(arrow_type: pa.DataType, *, is_repetitive: bool) -> pa.DataType | None:
    """How a column is laid out for a scan; None: as it is.

    Args:
        arrow_type: Its type.
        is_repetitive: Whether its values repeat.
    """
    return _DICTIONARY if is_repetitive and can_repeat(arrow_type) else narrow_type(arrow_type)


def encode(values: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """Values in another layout.

    Args:
        values: The values.
        arrow_type: What `encoded_type` says of them.

    Raises:
        ArrowException: A decimal has more digits than its type.
    """
    return values.dictionary_encode() if pa.types.is_dictionary(arrow_type) else values.cast(arrow_type)
