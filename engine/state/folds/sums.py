"""Sums by group, left to right, so that they do not depend on where the rows were cut into epochs.

Floating point addition is not associative: `numpy.add.at` adds row after row, as one epoch after the other
would, where `reduceat` and Arrow add pairwise. A sum of integers or decimals that leaves its type stays at
the type's limit: an error would stop the partition for ever, and a sum that wraps around is wrong by more
than anything else.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.state.folds.grouping import Grouping, Mask, valid_rows
from engine.state.folds.order_numbers import Numbers, raw_numbers, to_array
from engine.state.folds.wide_integers import (
    Words,
    decimals,
    from_integers,
    from_limbs,
    limbs,
    narrow,
    to_integers,
    unscaled_integers,
    widen,
)

_SURELY = 1 - 1e-9
"""Magnitudes are added up in floating point, whose errors are far smaller than this leaves room for."""


def sums(values: pa.Array, rows: Grouping) -> pa.Array:
    """Add up the values of each group.

    Args:
        values: Integers, decimals or floating point numbers, shape (rows,).
        rows: Their groups.

    Returns:
        The sums, shape (groups,), in the same type; null for a group that has no value.
    """
    valid = valid_rows(values)
    grouping = rows if valid is None else rows.keep_rows(valid)
    null = ~grouping.filled
    arrow_type = values.type
    if pa.types.is_decimal(arrow_type):
        words = unscaled_integers(values) if valid is None else unscaled_integers(values)[valid]
        return decimals(_decimal_sums(words, grouping, 10**arrow_type.precision - 1), arrow_type, null)
    numbers = raw_numbers(values) if valid is None else raw_numbers(values)[valid]
    if pa.types.is_floating(arrow_type):
        return to_array(_float_sums(numbers, grouping), arrow_type, null)
    limits = np.iinfo(numbers.dtype)
    return to_array(_integer_sums(numbers, grouping, int(limits.min), int(limits.max)), arrow_type, null)


def counts(values: pa.Array, rows: Grouping) -> pa.Array:
    """Add up counts; as `sums`, but a group without a value has 0."""
    return sums(values, rows).fill_null(0)


def _float_sums(numbers: Numbers, rows: Grouping) -> Numbers:
    totals = np.full(rows.count, -0.0, numbers.dtype)  # -0.0 is what changes no number that it is added to
    with np.errstate(over="ignore", invalid="ignore"):
        np.add.at(totals, rows.groups, numbers)
    totals[np.isnan(totals)] = np.nan  # the sign of a NaN depends on the processor
    return totals


def _integer_sums(numbers: Numbers, rows: Grouping, low: int, high: int) -> Numbers:
    totals = np.zeros(rows.count, numbers.dtype)
    np.add.at(totals, rows.groups, numbers)
    if not len(numbers):
        return totals
    largest = max(int(numbers.max()), -int(numbers.min()))
    if largest * len(numbers) <= high:
        return totals
    large = _large_groups(np.abs(numbers.astype(np.float64)), rows, high)
    for group, total in _bounded_sums(numbers.tolist(), rows, large, low, high):
        totals[group] = total
    return totals


def _decimal_sums(words: Words, rows: Grouping, limit: int) -> Words:
    numbers = narrow(words)
    if numbers is not None and len(numbers):
        largest = max(int(numbers.max()), -int(numbers.min()))
        if largest * len(numbers) <= min(limit, 2**63 - 1):
            totals = np.zeros(rows.count, np.int64)
            np.add.at(totals, rows.groups, numbers)
            return widen(totals)
    parts = []
    for part in limbs(words):
        parts.append(np.zeros(rows.count, np.int64))
        np.add.at(parts[-1], rows.groups, part)
    sum_words = from_limbs(parts)
    magnitudes = np.abs(
        words[:, 1].view(np.int64).astype(np.float64) * 2.0**64 + words[:, 0].astype(np.float64)
    )
    large = _large_groups(magnitudes, rows, limit)
    if large.any():
        for group, total in _bounded_sums(to_integers(words), rows, large, -limit, limit):
            sum_words[group] = from_integers([total])[0]
    return sum_words


def _large_groups(magnitudes: npt.NDArray[np.float64], rows: Grouping, limit: int) -> Mask:
    """The groups in which a sum may have left its limits on the way."""
    totals = np.zeros(rows.count)
    np.add.at(totals, rows.groups, magnitudes)
    large: Mask = totals > limit * _SURELY
    return large


def _bounded_sums(
    numbers: Sequence[int], rows: Grouping, large: Mask, low: int, high: int
) -> Sequence[tuple[int, int]]:
    """The sums of few groups whose numbers are near the limits, kept within them at each step."""
    totals: dict[int, int] = {}
    for row in np.flatnonzero(large[rows.groups]).tolist():
        group = int(rows.groups[row])
        totals[group] = min(high, max(low, totals.get(group, 0) + numbers[row]))
    return list(totals.items())
