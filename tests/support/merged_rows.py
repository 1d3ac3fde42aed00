"""Merge stores recomputed in plain Python: what every fold has to equal."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from engine.model.kinds import Function, MergedColumn

Partial = dict[str, Any]
"""A partial row without its key: values by column."""


def fold_rows(columns: Sequence[MergedColumn], rows: Sequence[Partial], schema: pa.Schema) -> Partial:
    """One partial row of several, folded from the first to the last.

    Args:
        columns: The merged columns; none of them sketches.
        rows: Partial rows in commit order.
        schema: Row schema, for the limits of sums.
    """
    result: Partial = {}
    for column in columns:
        names = column.partials
        values = [[row[name] for name in names] for row in rows]
        result |= dict(
            zip(names, _fold_column(column, values, [schema.field(name).type for name in names]), strict=True)
        )
    return result


def visible_row(columns: Sequence[MergedColumn], partial: Partial) -> dict[str, Any]:
    """What SQL sees of a partial row."""
    return {
        column.name: _average(partial, column) if column.function is Function.AVG else partial[column.name]
        for column in columns
    }


def _average(partial: Partial, column: MergedColumn) -> float | None:
    total, count = (partial[name] for name in column.partials)
    if total is None or not count:
        return None
    scale = -int(total.as_tuple().exponent) if isinstance(total, Decimal) else 0
    dividend: float = (
        float(int(total.scaleb(scale))) / 10.0**scale if isinstance(total, Decimal) else float(total)
    )
    return dividend / int(count)


def _fold_column(column: MergedColumn, rows: list[list[Any]], arrow_types: list[pa.DataType]) -> list[Any]:
    first = [row[0] for row in rows if row[0] is not None]
    match column.function:
        case Function.SUM:
            return [_sum(first, arrow_types[0])]
        case Function.COUNT:
            return [_sum(first, arrow_types[0]) or 0]
        case Function.AVG:
            return [
                _sum(first, arrow_types[0]),
                _sum([row[1] for row in rows if row[1] is not None], arrow_types[1]) or 0,
            ]
        case Function.MIN:
            return [_drop_negative_zero(min(first, key=_order, default=None))]
        case Function.MAX:
            return [_drop_negative_zero(max(first, key=_order, default=None))]
        case Function.FIRST:
            timed = [row for row in rows if row[1] is not None]
            return min(timed, key=lambda row: _order(row[1]), default=[None, None])
        case Function.LAST:
            timed = [row for row in rows if row[1] is not None]
            return max(reversed(timed), key=lambda row: _order(row[1]), default=[None, None])
    raise AssertionError(column.function)


def _sum(values: Sequence[Any], arrow_type: pa.DataType) -> Any:
    bounded: Callable[[Any], Any] = lambda total: total  # noqa: E731
    if pa.types.is_integer(arrow_type):
        low, high = (
            (-(2 ** (arrow_type.bit_width - 1)), 2 ** (arrow_type.bit_width - 1) - 1)
            if pa.types.is_signed_integer(arrow_type)
            else (0, 2**arrow_type.bit_width - 1)
        )
        bounded = lambda total: min(high, max(low, total))  # noqa: E731
    elif pa.types.is_decimal(arrow_type):
        limit = Decimal(10**arrow_type.precision - 1).scaleb(-arrow_type.scale)
        bounded = lambda total: min(limit, max(-limit, total))  # noqa: E731
    total: Any = None
    for value in values:
        total = value if total is None else bounded(total + value)
    return total


def _order(value: Any) -> Any:
    """Sorts floats as DuckDB does, and texts by their bytes."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def _drop_negative_zero(value: Any) -> Any:
    return 0.0 if isinstance(value, float) and value == 0 else value


def is_same(left: Any, right: Any) -> bool:
    """Whether two values are one, bit for bit, but that one NaN is as good as another."""
    if isinstance(left, float) and isinstance(right, float):
        return (math.isnan(left) and math.isnan(right)) or (
            left == right and math.copysign(1, left) == math.copysign(1, right)
        )
    if isinstance(left, dt.datetime) and isinstance(right, dt.datetime):
        return left == right
    return bool(left == right)
