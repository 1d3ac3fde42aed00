"""The smallest, largest, first and last value of each group."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.state.folds.grouping import Grouping, valid_rows
from engine.state.folds.order_numbers import Numbers, from_numbers, order_numbers, plain_numbers
from engine.state.keys import Rows

_FEW_ROWS = 8
"""Texts of groups up to this size are compared in rounds, one row of every group at a time; those of larger
ones are ranked.
"""


def extremes(values: pa.Array, rows: Grouping, *, largest: bool) -> pa.Array:
    """The smallest or largest value of each group, nulls aside.

    Args:
        values: Values of a type that is not nested, shape (rows,).
        rows: Their groups.
        largest: Whether the largest is wanted.

    Returns:
        Shape (groups,), in the same type; null for a group that has no value.
    """
    arrow_type = values.type
    if not pa.types.is_decimal(arrow_type):
        numbers = plain_numbers(values)
        if numbers is not None:
            valid = valid_rows(values)
            grouping = rows if valid is None else rows.keep_rows(valid)
            found = _extreme_numbers(numbers if valid is None else numbers[valid], grouping, largest=largest)
            return from_numbers(found, arrow_type, ~grouping.filled)
    return take_or_null(values, first_extreme(values, rows, largest=largest))


def first_extreme(values: pa.Array, rows: Grouping, *, largest: bool) -> Rows:
    """The first row of each group that has its smallest or largest value, -1 where all are null."""
    if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        valid = valid_rows(values)
        sizes = rows.sizes if valid is None else rows.keep_rows(valid).sizes
        if int(sizes.max(initial=0)) <= _FEW_ROWS:
            return _first_extreme_text(values, rows, largest=largest)
    return rows.first_rows(_rows_of_extremes(values, rows, largest=largest))


def last_largest(values: pa.Array, rows: Grouping) -> Rows:
    """The last row of each group that has its largest value, -1 where all are null."""
    return rows.last_rows(_rows_of_extremes(values, rows, largest=True))


def take_or_null(values: pa.Array, chosen: Rows) -> pa.Array:
    """The values of some rows, null for -1."""
    return values.take(pa.array(chosen, mask=chosen < 0))


def _extreme_numbers(numbers: Numbers, rows: Grouping, *, largest: bool) -> Numbers:
    limits = np.iinfo(numbers.dtype)
    found = np.full(rows.count, limits.min if largest else limits.max, numbers.dtype)
    (np.maximum if largest else np.minimum).at(found, rows.groups, numbers)
    return found


def _rows_of_extremes(values: pa.Array, rows: Grouping, *, largest: bool) -> Rows:
    """The rows that have the smallest or largest value of their group, in ascending order."""
    valid = valid_rows(values)
    numbers = order_numbers(values)
    kept: Rows = np.arange(len(values)) if valid is None else np.flatnonzero(valid)
    if valid is not None:
        numbers, rows = numbers[valid], rows.keep_rows(valid)
    extreme = _extreme_numbers(numbers, rows, largest=largest)
    chosen: Rows = kept[numbers == extreme[rows.groups]]
    return chosen


def _first_extreme_text(values: pa.Array, rows: Grouping, *, largest: bool) -> Rows:
    """`first_extreme` for texts of small groups: the next row of every group is compared with the best so
    far.
    """
    texts = values.cast(pa.binary())
    is_better = pc.greater if largest else pc.less
    left: Rows = np.flatnonzero(texts.is_valid().to_numpy(zero_copy_only=False))
    best = rows.first_rows(left)
    while len(left := left[best[rows.groups[left]] < left]):
        following = rows.first_rows(left)
        groups = np.flatnonzero(following >= 0)
        challengers = following[groups]
        better = is_better(texts.take(pa.array(challengers)), texts.take(pa.array(best[groups]))).to_numpy(
            zero_copy_only=False
        )
        best[groups[better]] = challengers[better]
        left = left[following[rows.groups[left]] != left]
    return best
