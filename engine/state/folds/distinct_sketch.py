"""Whether bytes are a HyperLogLog sketch that fits together. DataSketches trusts what it reads: of a sketch
with a single wrong bit it may read beyond its memory, or never come to an end.

Format: "HLL preamble" of DataSketches, https://github.com/apache/datasketches-java, PreambleUtil. Numbers are
little-endian. A sketch begins as a list of coupons, goes on as a hash set of them, and ends as a table of
registers. A coupon is a slot of 26 bits, and a value of 6 bits above it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import isfinite

import numpy as np
import numpy.typing as npt

_HEADER = struct.Struct("<8B")
"""Length of the preamble in words of four bytes, serial version, family, lg k, lg of the array, flags, count
of a list or smallest value, mode and type.
"""
_SCALARS = struct.Struct("<3d2I")
"""Of a table: the estimate so far, the sums of 2^-value over values below 32 and from 32 on, how many have
the smallest value, how many are exceptions.
"""
_VERSION, _FAMILY = 1, 7
_COMPACT, _REBUILD = 8, 32
"""Flags: without empty places; sums and smallest value are not kept."""
_LEAST_LG_K, _MOST_LG_K = 4, 21
_LEAST_LG_K_OF_SET = 8
_LIST_PLACES, _LEAST_LG_SET = 8, 5
_SLOT_BITS, _MOST_VALUE = 26, 63
_EXCEPTION = 15
"""Of four bits of a register: the value is among the exceptions."""
_MOST_SEEN = float(1 << 60)
_CLOSE = 1e-6

_Coupons = npt.NDArray[np.uint32]
_Registers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Header:
    lg_k: int
    lg_array: int
    is_compact: bool
    is_to_be_rebuilt: bool
    small: int
    """Count of a list, or smallest value of a table."""
    bits: int
    """Of a register: 4, 6 or 8."""


def is_distinct_sketch(data: bytes) -> bool:
    """Whether bytes are a sketch that can be read, merged and asked without harm.

    Args:
        data: Any bytes.
    """
    if len(data) < _HEADER.size:
        return False
    words, version, family, lg_k, lg_array, flags, small, kinds = _HEADER.unpack_from(data)
    bits = {0: 4, 1: 6, 2: 8}.get(kinds >> 2 & 3)
    if version != _VERSION or family != _FAMILY or bits is None or not _LEAST_LG_K <= lg_k <= _MOST_LG_K:
        return False
    header = _Header(lg_k, lg_array, bool(flags & _COMPACT), bool(flags & _REBUILD), small, bits)
    # Words of the preamble, and mode.
    match words, kinds & 3:
        case (2, 0):
            return _is_list(data, header)
        case (3, 1):
            return _is_set(data, header)
        case (10, 2):
            return _is_table(data, header)
        case _:
            return False


def _is_list(data: bytes, header: _Header) -> bool:
    if header.small > _LIST_PLACES or (not header.is_compact and 1 << header.lg_array != _LIST_PLACES):
        return False
    coupons = _coupons_at(data, 8, header.small if header.is_compact else _LIST_PLACES)
    return coupons is not None and _are_coupons(coupons[: header.small]) and not coupons[header.small :].any()


def _is_set(data: bytes, header: _Header) -> bool:
    if header.lg_k < _LEAST_LG_K_OF_SET or not _LEAST_LG_SET <= header.lg_array <= header.lg_k - 3:
        return False
    if len(data) < 12:
        return False
    (count,) = struct.unpack_from("<I", data, 8)
    if not 0 < count < 1 << header.lg_array:
        return False
    coupons = _coupons_at(data, 12, count if header.is_compact else 1 << header.lg_array)
    return coupons is not None and _are_coupons(found := coupons[coupons != 0]) and len(found) == count


def _is_table(data: bytes, header: _Header) -> bool:
    if len(data) < 40 or header.lg_array > header.lg_k:
        return False
    seen, low_sum, high_sum, at_smallest, exceptions = _SCALARS.unpack_from(data, 8)
    if not all(isfinite(each) and 0 <= each <= _MOST_SEEN for each in (seen, low_sum, high_sum)):
        return False
    registers = _registers(data, header, exceptions)
    if registers is None or len(registers) != 1 << header.lg_k or registers.max() > _MOST_VALUE:
        return False
    if header.is_to_be_rebuilt:
        return True
    counts = np.bincount(registers, minlength=_MOST_VALUE + 1)
    sums = counts * 0.5 ** np.arange(_MOST_VALUE + 1)
    return (
        counts[header.small] == at_smallest
        and not counts[: header.small].any()
        and abs(sums[:32].sum() - low_sum) <= _CLOSE * (1 << header.lg_k)
        and abs(sums[32:].sum() - high_sum) <= _CLOSE
    )


def _registers(data: bytes, header: _Header, exceptions: int) -> _Registers | None:
    """The values of a table; None where they do not fit together."""
    if header.bits == 4:
        return _short_registers(data, header, exceptions) if header.small <= _MOST_VALUE else None
    if header.small or exceptions:
        return None
    size = 1 << header.lg_k
    length = size * header.bits // 8
    packed = np.frombuffer(data[40 : 40 + length], np.uint8)
    if header.bits == 8:
        return packed.astype(np.int64)
    # A byte follows, so that registers are read two bytes at a time.
    if len(data) <= 40 + length:
        return None
    bits = np.unpackbits(packed, bitorder="little").reshape(size, 6)
    return bits.astype(np.int64) @ (1 << np.arange(6))


def _short_registers(data: bytes, header: _Header, exceptions: int) -> _Registers | None:
    """As `_registers`, of four bits each: what they say is added to the smallest value, but for exceptions,
    whose values follow as coupons.
    """
    size = 1 << header.lg_k
    packed = np.frombuffer(data[40 : 40 + size // 2], np.uint8)
    found = np.stack([packed & 15, packed >> 4], axis=1).reshape(-1).astype(np.int64)
    aside = np.flatnonzero(found == _EXCEPTION)
    if len(found) != size or len(aside) != exceptions:
        return None
    found += header.small
    if not exceptions:
        return found
    if not header.is_compact and exceptions >= 1 << header.lg_array:
        return None
    stored = _coupons_at(data, 40 + size // 2, exceptions if header.is_compact else 1 << header.lg_array)
    if stored is None or not _are_coupons(stored := stored[stored != 0]):
        return None
    slots = (stored & (size - 1)).astype(np.int64)
    if not np.array_equal(np.sort(slots), aside):
        return None
    found[slots] = stored >> _SLOT_BITS
    return None if (found[slots] < header.small + _EXCEPTION).any() else found


def _coupons_at(data: bytes, start: int, count: int) -> _Coupons | None:
    end = start + 4 * count
    return None if len(data) < end else np.frombuffer(data[start:end], "<u4")


def _are_coupons(coupons: _Coupons) -> bool:
    """Whether each has a value, and is there once."""
    return bool((coupons >> _SLOT_BITS).all()) and len(np.unique(coupons)) == len(coupons)
