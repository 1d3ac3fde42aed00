"""KLL sketches of doubles, merged so that every replica gets the same bytes.

A KLL sketch keeps some of the values it has seen, in levels; a value of level h stands for 2^h values. A
level that is full is sorted, and every other value of it goes up a level, from the first or from the second
on as a coin says. Apache DataSketches tosses its coins at random and cannot be told a seed from Python, so
that two replicas would answer differently. Here the coin is a hash of how many values the sketch has seen,
and merging is otherwise that of the paper; DataSketches reads what is written here, and answers from it.

Sketch: https://arxiv.org/abs/1603.05346. Format: "KLL preamble" of DataSketches,
    https://github.com/apache/datasketches-java, KllPreambleUtil.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

_HEADER = struct.Struct("<BBBBHBx")
"""Length of the preamble in words of four bytes, serial version, family, flags, k, m."""
_COUNTS = struct.Struct("<QHBx")
"""How many values were seen, the smallest k of all sketches merged, how many levels there are."""
_SHORT_PREAMBLE, _LONG_PREAMBLE = 2, 5
_VERSION, _VERSION_OF_SINGLE = 1, 2
_FAMILY = 15
_IS_EMPTY, _IS_LEVEL_ZERO_SORTED, _IS_SINGLE = 1, 2, 4
_SMALLEST_LEVEL = 8
_MOST_LEVELS = 61
"""DataSketches reads no more."""
_MOST_SEEN = 1 << 60
_GOLDEN = 0x9E37_79B9_7F4A_7C15
_MIX = 0xBF58_476D_1CE4_E5B9
_WORD = (1 << 64) - 1


@dataclass(frozen=True, eq=False)
class QuantileSketch:
    """A sketch that has seen at least one value.

    Attributes:
        k: Its size, 8 to 65535: errors of ranks are about 1.7 / k.
        smallest_k: The smallest size of all sketches that were merged into it, which says how exact it is.
        seen: How many values it has seen.
        smallest: The smallest of them.
        largest: The largest of them.
        levels: The values that are kept, each level in order.
    """

    k: int
    smallest_k: int
    seen: int
    smallest: float
    largest: float
    levels: Sequence[Values]

    @staticmethod
    def from_bytes(data: bytes) -> QuantileSketch | None:
        """Read a sketch.

        Args:
            data: As DataSketches serialises it, of doubles.

        Returns:
            The sketch; None if it has seen nothing.

        Raises:
            ValueError: The bytes are no such sketch.
        """
        try:
            return _read(data)
        except struct.error as error:
            raise ValueError("A quantile sketch ends too early.") from error

    def to_bytes(self) -> bytes:
        """The sketch as DataSketches reads it."""
        if self.seen == 1:
            header = _HEADER.pack(
                _SHORT_PREAMBLE,
                _VERSION_OF_SINGLE,
                _FAMILY,
                _IS_LEVEL_ZERO_SORTED | _IS_SINGLE,
                self.k,
                _SMALLEST_LEVEL,
            )
            return header + self.levels[0].tobytes()
        capacity = _capacity(self.k, len(self.levels))
        ends = np.cumsum([0, *(len(level) for level in self.levels)])
        starts = (capacity - ends[-1] + ends[:-1]).astype("<u4")
        header = _HEADER.pack(
            _LONG_PREAMBLE, _VERSION, _FAMILY, _IS_LEVEL_ZERO_SORTED, self.k, _SMALLEST_LEVEL
        )
        counts = _COUNTS.pack(self.seen, self.smallest_k, len(self.levels))
        values = np.concatenate([[self.smallest, self.largest], *self.levels]).astype("<f8")
        return b"".join([header, counts, starts.tobytes(), values.tobytes()])

    def merge(self, other: QuantileSketch) -> QuantileSketch:
        """A sketch that has seen what both have."""
        empty = np.empty(0)
        most = max(len(self.levels), len(other.levels))
        mine, theirs = ([*sketch.levels, *[empty] * (most - len(sketch.levels))] for sketch in (self, other))
        levels = [np.sort(np.concatenate(pair)) for pair in zip(mine, theirs, strict=True)]
        seen = self.seen + other.seen
        if seen > _MOST_SEEN:
            return self  # what nobody can have seen counts as null
        return QuantileSketch(
            self.k,
            min(self.smallest_k, other.smallest_k),
            seen,
            min(self.smallest, other.smallest),
            max(self.largest, other.largest),
            _compact_level(levels, self.k, seen),
        )


def _read(data: bytes) -> QuantileSketch | None:
    preamble, version, family, flags, k, smallest_level = _HEADER.unpack_from(data)
    if (
        family != _FAMILY
        or version not in (_VERSION, _VERSION_OF_SINGLE)
        or smallest_level != _SMALLEST_LEVEL
        or k < _SMALLEST_LEVEL
    ):
        raise ValueError("The bytes are no KLL sketch of DataSketches.")
    if flags & _IS_EMPTY:
        return None
    if flags & _IS_SINGLE:
        (value,) = struct.unpack_from("<d", data, _HEADER.size)
        return QuantileSketch(k, k, 1, value, value, [np.array([value])])
    if preamble != _LONG_PREAMBLE:
        raise ValueError("The bytes are no KLL sketch of DataSketches.")
    seen, smallest_k, count = _COUNTS.unpack_from(data, _HEADER.size)
    if not 1 <= count <= _MOST_LEVELS:
        raise ValueError("A quantile sketch has no such number of levels.")
    start = _HEADER.size + _COUNTS.size
    places = [*struct.unpack_from(f"<{count}I", data, start), _capacity(k, count)]
    smallest, largest = struct.unpack_from("<2d", data, start + 4 * count)
    sizes = [high - low for low, high in pairwise(places)]
    # A value of level h stands for 2^h of those that were seen.
    if min(sizes) < 0 or sum(size << height for height, size in enumerate(sizes)) != seen:
        raise ValueError("The levels of a quantile sketch do not make up what it has seen.")
    values = np.frombuffer(data, "<f8", sum(sizes), start + 4 * count + 16)
    bounds = [place - places[0] for place in places]
    levels = [values[low:high] for low, high in pairwise(bounds)]
    return QuantileSketch(k, smallest_k, seen, smallest, largest, [np.sort(levels[0]), *levels[1:]])


def _level_capacity(k: int, below_top: int) -> int:
    """Values that a level takes, some levels below the top: k · (2/3)^below_top rounded, and 8 at least."""
    rounded: int = ((k << below_top + 1) // 3**below_top + 1) >> 1
    return max(_SMALLEST_LEVEL, rounded)


def _capacity(k: int, levels: int) -> int:
    """Values that all levels take together."""
    return sum(_level_capacity(k, below_top) for below_top in range(levels))


def _compact_level(levels: list[Values], k: int, seen: int) -> Sequence[Values]:
    """Levels that together keep to their capacity: the lowest full one is halved until they do."""
    while sum(len(level) for level in levels) > _capacity(k, len(levels)):
        full = next(
            height
            for height, level in enumerate(levels)
            if len(level) >= _level_capacity(k, len(levels) - 1 - height)
        )
        if full == len(levels) - 1:
            levels.append(np.empty(0))
        odd = len(levels[full]) % 2
        left, halved = levels[full][:odd], levels[full][odd + _coin(seen, full) :: 2]
        levels[full], levels[full + 1] = left, np.sort(np.concatenate([levels[full + 1], halved]))
    return levels


def _coin(seen: int, height: int) -> int:
    """0 or 1: a bit of a hash, so that coins of different sizes and levels have nothing to do with each other
    (splitmix64's mixing).
    """
    mixed = (seen * _GOLDEN + (height + 1) * _MIX) & _WORD
    mixed = ((mixed ^ mixed >> 30) * _MIX) & _WORD
    return mixed >> 63
