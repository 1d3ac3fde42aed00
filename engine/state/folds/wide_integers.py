"""Arrow's decimals as integers of 128 bits in numpy: two words a value, the low one unsigned.

Layout: https://arrow.apache.org/docs/format/Columnar.html, little-endian two's complement.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Words = npt.NDArray[np.uint64]
"""Shape (rows, 2): low and high words."""
_LIMB = np.uint64(32)
_LOW_LIMB = np.uint64(0xFFFF_FFFF)


def unscaled_integers(values: pa.Array) -> Words:
    """The unscaled integers of a decimal128 column; what stands for nulls means nothing."""
    if not len(values):
        return np.empty((0, 2), np.uint64)  # an array without rows may have no buffer
    words = np.frombuffer(values.buffers()[1], np.uint64).reshape(-1, 2)
    return words[values.offset : values.offset + len(values)]


def decimals(words: Words, arrow_type: pa.DataType, null: npt.NDArray[np.bool_] | None) -> pa.Array:
    """Decimals of unscaled integers.

    Args:
        words: The integers.
        arrow_type: Type of the decimals.
        null: Which of them are null, shape (rows,); None if none is.
    """
    validity = None if null is None or not null.any() else pa.py_buffer(np.packbits(~null, bitorder="little"))
    return pa.Array.from_buffers(
        arrow_type, len(words), [validity, pa.py_buffer(np.ascontiguousarray(words))]
    )


def narrow(words: Words) -> npt.NDArray[np.int64] | None:
    """The integers in 64 bits; None where one of them needs more."""
    low, high = words[:, 0].view(np.int64), words[:, 1].view(np.int64)
    return low.copy() if bool((high == low >> 63).all()) else None


def widen(numbers: npt.NDArray[np.int64]) -> Words:
    """Integers of 64 bits in 128."""
    return np.stack([numbers, numbers >> 63], axis=1).view(np.uint64)


def limbs(words: Words) -> Sequence[npt.NDArray[np.int64]]:
    """Four arrays of 32 bits a value, lowest first, the last one signed: many of each can be added up in 64
    bits.
    """
    low, high = words[:, 0], words[:, 1]
    parts = [low & _LOW_LIMB, low >> _LIMB, high & _LOW_LIMB]
    return [*(part.view(np.int64) for part in parts), high.view(np.int64) >> 32]


def from_limbs(parts: Sequence[npt.NDArray[np.int64]]) -> Words:
    """The integers whose limbs have been added up; carries are passed on."""
    carry = np.zeros(len(parts[0]), np.int64)
    carried = []
    for part in parts:
        total = part + carry
        carried.append((total & 0xFFFF_FFFF).view(np.uint64))
        carry = total >> 32
    return np.stack([carried[0] | carried[1] << _LIMB, carried[2] | carried[3] << _LIMB], axis=1)


def to_integers(words: Words) -> list[int]:
    """Python's integers, for the few values that need them."""
    pairs = zip(words[:, 0].tolist(), words[:, 1].view(np.int64).tolist(), strict=True)
    return [high << 64 | low for low, high in pairs]


def from_integers(numbers: Sequence[int]) -> Words:
    """Python's integers as words."""
    mask = (1 << 64) - 1
    return np.array([[number & mask, number >> 64 & mask] for number in numbers], np.uint64).reshape(-1, 2)


def to_doubles(words: Words, scale: int) -> npt.NDArray[np.float64]:
    """Decimals of a scale as floating point numbers: the nearest ones where 53 bits hold the unscaled
    integer, where Arrow's cast may be one off.
    """
    numbers = narrow(words)
    unscaled = (
        words[:, 1].view(np.int64).astype(np.float64) * 2.0**64 + words[:, 0]
        if numbers is None
        else numbers.astype(np.float64)
    )
    doubles: npt.NDArray[np.float64] = unscaled / float(10**scale)
    return doubles
