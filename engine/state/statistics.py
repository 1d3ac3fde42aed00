"""Smallest and largest value of each column in each block, so that ranges skip blocks without reading them.

Unknown keeps the block: a column whose type has no order here, a float block with a NaN (SQL orders NaN above
all numbers, Arrow's kernel passes over it), and strings too long to be kept in memory are unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.model.columns import cast_exactly
from engine.scan import Interval

MAX_TEXT_BYTES = 64

_Bound: TypeAlias = Any
"""The smallest or the largest value of a block: a number of numpy's where the block is numbers and has no
NULL, else a scalar of Arrow's; None where it cannot be relied on.
"""


def has_statistics(arrow_type: pa.DataType) -> bool:
    """Whether columns of a type have smallest and largest values."""
    return not pa.types.is_nested(arrow_type)


@dataclass(frozen=True)
class ColumnStatistics:
    """One column's bounds, one entry a block.

    Attributes:
        low: Smallest values; null where the block has no value but NULL.
        high: Largest values, likewise.
        known: Whether the entry can be relied on.
    """

    low: pa.Array
    high: pa.Array
    known: npt.NDArray[np.bool_]

    def may_hold(self, interval: Interval) -> npt.NDArray[np.bool_]:
        """Which blocks can have a value in an interval.

        Args:
            interval: Bounds of the column's own type.

        Returns:
            One entry a block; False only where no row of the block is in the interval.
        """
        numbers = interval.numbers
        if numbers is not None and self._numbers is not None:
            return _may_hold_numbers(self._numbers, numbers, interval)
        holds = self.low.is_valid()
        if interval.low is not None:
            above = pc.greater if interval.low_open else pc.greater_equal
            holds = pc.and_(holds, pc.fill_null(above(self.high, interval.low), False))
        if interval.high is not None:
            below = pc.less if interval.high_open else pc.less_equal
            holds = pc.and_(holds, pc.fill_null(below(self.low, interval.high), False))
        can: npt.NDArray[np.bool_] = holds.to_numpy(zero_copy_only=False) | ~self.known
        return can

    @cached_property
    def bounds(self) -> tuple[pa.Scalar, pa.Scalar] | None:
        """The smallest and the largest value of all blocks, both null where there is no value but NULL; None
        where some block is unknown.
        """
        if not self.known.all():
            return None
        return pc.min_max(self.low)["min"], pc.min_max(self.high)["max"]

    def cast(self, arrow_type: pa.DataType) -> ColumnStatistics:
        """The statistics of the same values in a wider type of numbers, in which they have the same order."""
        return ColumnStatistics(
            cast_exactly(self.low, arrow_type), cast_exactly(self.high, arrow_type), self.known
        )

    @cached_property
    def _numbers(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]] | None:
        """The bounds as numbers, where all are known: a query asks every segment, and numpy takes a tenth of
        the time of Arrow's kernels.
        """
        arrow_type = self.low.type
        if self.low.null_count or self.high.null_count or not self.known.all():
            return None
        if pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type):
            return self.low.to_numpy(), self.high.to_numpy()
        if pa.types.is_date32(arrow_type):
            return self.low.view(pa.int32()).to_numpy(), self.high.view(pa.int32()).to_numpy()
        if pa.types.is_timestamp(arrow_type):
            return self.low.view(pa.int64()).to_numpy(), self.high.view(pa.int64()).to_numpy()
        return None


def _may_hold_numbers(
    bounds: tuple[npt.NDArray[Any], npt.NDArray[Any]],
    numbers: tuple[float | None, float | None],
    interval: Interval,
) -> npt.NDArray[np.bool_]:
    (lows, highs), (low, high) = bounds, numbers
    can: npt.NDArray[np.bool_] = (
        np.ones(len(lows), np.bool_) if low is None else highs > low if interval.low_open else highs >= low
    )
    if high is not None:
        can = can & (lows < high if interval.high_open else lows <= high)
    return can


class StatisticsBuilder:
    """Makes the statistics of one column, block by block.

    Args:
        arrow_type: A type with statistics.
    """

    def __init__(self, arrow_type: pa.DataType) -> None:
        self._arrow_type = arrow_type
        self._is_numeric = pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type)
        self._lows: list[_Bound] = []
        self._highs: list[_Bound] = []
        self._known: list[bool] = []

    def add(self, block: pa.Array) -> None:
        """Take the next block."""
        if self._is_numeric and len(block) and not block.null_count:
            values = block.to_numpy()  # numpy is faster on small blocks, and a NaN comes through as the bound
            low, high = np.minimum.reduce(values), np.maximum.reduce(values)
        else:
            low, high = _bounds(block)
        is_known = _is_reliable(low, high)
        self._known.append(is_known)
        self._lows.append(low if is_known else None)
        self._highs.append(high if is_known else None)

    def finish(self) -> ColumnStatistics:
        """The statistics, with an entry for each block."""
        return ColumnStatistics(
            self._array(self._lows), self._array(self._highs), np.array(self._known, np.bool_)
        )

    def _array(self, bounds: list[_Bound]) -> pa.Array:
        if bounds and all(isinstance(bound, np.generic) for bound in bounds):
            return pa.array(np.array(bounds), self._arrow_type)
        return pa.array(
            [bound.item() if isinstance(bound, np.generic) else bound for bound in bounds], self._arrow_type
        )


def measure(blocks: Iterable[pa.Array], arrow_type: pa.DataType) -> ColumnStatistics:
    """The statistics of one column.

    Args:
        blocks: The column, an array a block.
        arrow_type: A type with statistics.

    Returns:
        An entry for each block.
    """
    statistics = StatisticsBuilder(arrow_type)
    for block in blocks:
        statistics.add(block)
    return statistics.finish()


class StatisticsOfBlocks(Mapping[int, ColumnStatistics]):
    """Statistics of columns of one block each, by number, made when they are first asked for. For any thread:
    those that ask at once make the same.

    Args:
        blocks: The columns, of types with statistics.
    """

    def __init__(self, blocks: dict[int, pa.Array]) -> None:
        self._numbers = tuple(blocks)
        self._blocks = blocks
        """Those of which nobody has asked for statistics yet."""
        self._made: dict[int, ColumnStatistics] = {}

    def __getitem__(self, number: int) -> ColumnStatistics:
        block = self._blocks.get(number)
        if block is not None:
            self._made.setdefault(number, measure([block], block.type))
            self._blocks.pop(number, None)
        return self._made[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


def constant_statistics(value: pa.Scalar, blocks: int) -> ColumnStatistics:
    """The statistics of a column that has one value in all rows.

    Args:
        value: Of a type with statistics; may be null.
        blocks: How many blocks there are.
    """
    one = measure([pa.repeat(value, 1)], value.type)
    return ColumnStatistics(
        pa.repeat(one.low[0], blocks), pa.repeat(one.high[0], blocks), np.repeat(one.known, blocks)
    )


def _bounds(block: pa.Array) -> tuple[_Bound, _Bound]:
    if pa.types.is_floating(block.type) and pc.any(pc.is_nan(block)).as_py():
        return math.nan, math.nan
    bounds = pc.min_max(block)
    return bounds["min"], bounds["max"]


def _is_reliable(low: _Bound, high: _Bound) -> bool:
    if not isinstance(low, pa.Scalar):
        return bool(low == low)  # noqa: PLR0124 - only a NaN differs from itself
    if low.is_valid and (pa.types.is_string(low.type) or pa.types.is_binary(low.type)):
        return bool(max(low.as_buffer().size, high.as_buffer().size) <= MAX_TEXT_BYTES)
    return True


def blocks_that_may_hold(
    statistics_of: Callable[[str], ColumnStatistics | None], intervals: Mapping[str, Interval], blocks: int
) -> npt.NDArray[np.bool_]:
    """Which blocks can have a row that lies in all intervals.

    Args:
        statistics_of: Gives those of a column; None where they are unknown.
        intervals: Per column.
        blocks: How many blocks there are.

    Returns:
        One entry a block.
    """
    keep = None
    for name, interval in intervals.items():
        statistics = statistics_of(name)
        if statistics is not None:
            can = statistics.may_hold(interval)
            keep = can if keep is None else keep & can
    return np.ones(blocks, np.bool_) if keep is None else keep
