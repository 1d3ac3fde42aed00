"""Numbers that stand for values of a column, in its order, by which shares of a column are worked out.

They may be off a little, unlike those of `engine.scan.number_of`: nothing but a plan depends on them.
"""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa


def has_numbers(arrow_type: pa.DataType) -> bool:
    """Whether numbers can stand for the values of a type."""
    return bool(
        pa.types.is_integer(arrow_type)
        or pa.types.is_floating(arrow_type)
        or pa.types.is_decimal(arrow_type)
        or pa.types.is_date32(arrow_type)
        or pa.types.is_timestamp(arrow_type)
    )


def column_number(value: pa.Scalar) -> float | None:
    """The number that stands for a value.

    Args:
        value: Of a type that `has_numbers`.

    Returns:
        Numbers themselves; days or ticks since 1970 of dates and timestamps; None for NULL, NaN and what is
        without end.
    """
    if not value.is_valid:
        return None
    is_time = pa.types.is_date32(value.type) or pa.types.is_timestamp(value.type)
    found: int | float | Decimal = value.value if is_time else value.as_py()
    number = float(found)
    return number if math.isfinite(number) else None
