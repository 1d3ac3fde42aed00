"""Values as integers in the same order, so that one kernel finds the smallest and the largest of
every type.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.state.folds.wide_integers import narrow, unscaled_integers

Numbers = npt.NDArray[Any]
_INTEGER_OF = {np.dtype(np.float32): np.dtype(np.int32), np.dtype(np.float64): np.dtype(np.int64)}


def plain_numbers(values: pa.Array) -> Numbers | None:
    """The values in the same order as numpy's integers, from which `from_numbers` gets them back.

    Floating point numbers are ordered as DuckDB orders them: NaN is larger than all others and equals itself,
    and -0.0 equals 0.0. Their bits are in this order when those of negative numbers are flipped.

    Args:
        values: Values of any type. What stands for nulls means nothing.

    Returns:
        Shape (rows,); None for types that have no such form, as strings.
    """
    arrow_type = values.type
    if pa.types.is_decimal(arrow_type):
        return narrow(unscaled_integers(values))
    if pa.types.is_boolean(arrow_type):
        flags: Numbers = values.fill_null(False).to_numpy(zero_copy_only=False).view(np.uint8)
        return flags
    if not (
        pa.types.is_integer(arrow_type)
        or pa.types.is_temporal(arrow_type)
        or pa.types.is_floating(arrow_type)
    ):
        return None
    numbers = raw_numbers(values)
    if not pa.types.is_floating(arrow_type):
        return numbers
    numbers = numbers + numbers.dtype.type(0)  # -0.0 + 0.0 is 0.0
    numbers[np.isnan(numbers)] = np.nan
    bits = numbers.view(_INTEGER_OF[numbers.dtype])
    return _flip_sign_bit(bits)


def _flip_sign_bit(bits: Numbers) -> Numbers:
    """Bits of floating point numbers as integers of the same order, and back."""
    flipped: Numbers = bits ^ ((bits >> (bits.itemsize * 8 - 1)) & np.iinfo(bits.dtype).max)
    return flipped


def raw_numbers(values: pa.Array) -> Numbers:
    """The buffer of an integer, floating point or temporal column as numpy's numbers; what stands for nulls
    means nothing.
    """
    arrow_type = values.type
    dtype = (
        np.dtype(arrow_type.to_pandas_dtype())
        if pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type)
        else np.dtype(f"i{arrow_type.byte_width}")
    )
    if not len(values):
        return np.empty(0, dtype)  # an array without rows may have no buffer
    return np.frombuffer(values.buffers()[1], dtype)[values.offset : values.offset + len(values)]


def from_numbers(numbers: Numbers, arrow_type: pa.DataType, null: npt.NDArray[np.bool_] | None) -> pa.Array:
    """The values that `plain_numbers` made numbers of.

    Args:
        numbers: The numbers, shape (rows,).
        arrow_type: Type of the values; no decimal.
        null: Which of them are null, shape (rows,); None if none is.
    """
    if pa.types.is_boolean(arrow_type):
        return pa.array(numbers.astype(np.bool_), mask=null)
    if pa.types.is_floating(arrow_type):
        numbers = _flip_sign_bit(numbers).view(arrow_type.to_pandas_dtype())
    return to_array(numbers, arrow_type, null)


def to_array(numbers: Numbers, arrow_type: pa.DataType, null: npt.NDArray[np.bool_] | None) -> pa.Array:
    """Numbers of a type's own width as an array of that type."""
    validity = None if null is None or not null.any() else pa.py_buffer(np.packbits(~null, bitorder="little"))
    return pa.Array.from_buffers(
        arrow_type, len(numbers), [validity, pa.py_buffer(np.ascontiguousarray(numbers))]
    )


def order_numbers(values: pa.Array) -> Numbers:
    """Integers in the order of the values, equal where these are; text is ordered by its bytes.

    Args:
        values: Values of a type that is not nested. What stands for nulls means nothing.
    """
    numbers = plain_numbers(values)
    if numbers is not None:
        return numbers
    if pa.types.is_string(values.type):
        values = values.cast(pa.binary())
    ranks: Numbers = pc.rank(values, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    return ranks
