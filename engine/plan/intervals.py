"""From predicates to intervals: the bounds of single columns outside which no row is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from engine.model.schema import StoreDefinition
from engine.plan.points import (
    column_comparisons,
    exact_members,
    exact_operand,
    is_compared_alone,
    listed_values,
)
from engine.plan.predicates import (
    AllOf,
    AnyOf,
    Compare,
    CompareRow,
    Comparison,
    IsAmong,
    IsAnyOf,
    IsListed,
    Predicate,
    StartsWith,
)
from engine.plan.values import UNKNOWN, Arguments, Constant, coerce_constants
from engine.scan import Interval

MOST_ALTERNATIVES = 64
"""Of more alternatives no bounds are looked for: they take longer to compare."""
_MOMENT = pa.timestamp("us")
_LAST = 0x10FFFF
_BEFORE_SURROGATES, _AFTER_SURROGATES = 0xD7FF, 0xE000


class IntervalFinder:
    """Finds intervals of one store's columns for given arguments."""

    def __init__(self, definition: StoreDefinition, arguments: Arguments) -> None:
        self._schema = definition.schema
        self._arguments = arguments

    def find(self, predicate: Predicate) -> Mapping[str, Interval]:
        """The intervals of a predicate.

        A conjunct that compares a column with a constant is not true outside the interval, and never for
        NULL. All hold together, so bounds of one column are intersected. Of alternatives one holds: where
        each of a few bounds a column, the row is between the least and the greatest of their bounds.

        Args:
            predicate: What holds for every needed row.

        Returns:
            Column name to interval.
        """
        kept = (
            (column, _comparable_interval(interval, self._schema.field(column).type))
            for column, interval in self._intervals(predicate).items()
        )
        return {column: interval for column, interval in kept if interval is not None}

    def _intervals(self, predicate: Predicate) -> dict[str, Interval]:
        """The intervals of a predicate, floats not looked at."""
        found: dict[str, Interval] = {}
        for column, interval in self._conjuncts(predicate):
            found[column] = _intersection(found[column], interval) if column in found else interval
        return found

    def _conjuncts(self, predicate: Predicate) -> list[tuple[str, Interval]]:
        if isinstance(predicate, AllOf):
            return [each for part in predicate.parts for each in self._conjuncts(part)]
        if isinstance(predicate, AnyOf):
            return self._alternatives(predicate)
        if isinstance(predicate, Compare):
            interval = self._interval_of_comparison(predicate)
            return [] if interval is None else [(predicate.column, interval)]
        if isinstance(predicate, CompareRow):
            known = column_comparisons(predicate, self._schema, self._arguments)
            return [] if known is UNKNOWN else self._conjuncts(known)
        if isinstance(predicate, StartsWith):
            return (
                [(predicate.column, interval)]
                if (interval := self._interval_of_prefix(predicate)) is not None
                else []
            )
        return self._membership(predicate)

    def _alternatives(self, predicate: AnyOf) -> list[tuple[str, Interval]]:
        if not 0 < len(predicate.parts) <= MOST_ALTERNATIVES:
            return []
        first, *others = [self._intervals(part) for part in predicate.parts]
        return [
            (column, reduce(_union, (each[column] for each in others), interval))
            for column, interval in first.items()
            if all(column in each for each in others)
        ]

    def _interval_of_comparison(self, predicate: Compare) -> Interval | None:
        arrow_type = self._schema.field(predicate.column).type
        value = exact_operand(predicate.operand, arrow_type, self._arguments)
        if value is UNKNOWN and pa.types.is_date(arrow_type):
            return self._interval_of_days(predicate)
        if (
            value is UNKNOWN
            or value is None
            or not is_compared_alone(value, predicate.beside, self._arguments)
        ):
            return None
        match predicate.comparison:
            case Comparison.EQUAL:
                return Interval(low=value, high=value)
            case Comparison.LESS:
                return Interval(high=value, high_open=True)
            case Comparison.LESS_EQUAL:
                return Interval(high=value)
            case Comparison.GREATER:
                return Interval(low=value, low_open=True)
            case Comparison.GREATER_EQUAL:
                return Interval(low=value)

    def _interval_of_days(self, predicate: Compare) -> Interval | None:
        """The days before or after a moment within a day. Of a bare text the engine takes the day alone."""
        if isinstance(predicate.operand, Constant) and predicate.operand.literal:
            return None
        moment = exact_operand(predicate.operand, _MOMENT, self._arguments)
        if moment is UNKNOWN or moment is None:
            return None
        day = moment.cast(pa.date32(), safe=False)
        match predicate.comparison:
            case Comparison.LESS | Comparison.LESS_EQUAL:
                return Interval(high=day)
            case Comparison.GREATER | Comparison.GREATER_EQUAL:
                return Interval(low=day, low_open=True)
            case Comparison.EQUAL:
                return None

    def _interval_of_prefix(self, predicate: StartsWith) -> Interval | None:
        arrow_type = self._schema.field(predicate.column).type
        if not pa.types.is_string(arrow_type) or not predicate.prefix:
            return None
        end = successor(predicate.prefix)
        return Interval(
            low=pa.scalar(predicate.prefix, arrow_type),
            high=None if end is None else pa.scalar(end, arrow_type),
            high_open=True,
        )

    def _membership(self, predicate: Predicate) -> list[tuple[str, Interval]]:
        """Every member lies between the smallest and the greatest, column by column."""
        found: list[tuple[str, Interval]] = []
        if isinstance(predicate, IsAmong):
            for index, column in enumerate(predicate.columns):
                arrow_type = self._schema.field(column).type
                values = exact_members(predicate, index, arrow_type, self._arguments)
                if values is not UNKNOWN and _is_ordered(arrow_type):
                    found += _hull(
                        column, pa.array([value for value in values if value is not None], arrow_type)
                    )
        elif isinstance(predicate, IsListed):
            for column, array in zip(
                predicate.columns, listed_values(predicate, self._arguments).columns, strict=True
            ):
                found += self._hull_of(column, array)
        elif isinstance(predicate, IsAnyOf):
            value = self._arguments.parameters[predicate.parameter.index]
            if pa.types.is_list(value.type) and value.is_valid:
                found += self._hull_of(predicate.column, value.values)
        return found

    def _hull_of(self, column: str, values: pa.Array) -> list[tuple[str, Interval]]:
        arrow_type = self._schema.field(column).type
        members = coerce_constants(values, arrow_type)
        return [] if members is UNKNOWN or not _is_ordered(arrow_type) else _hull(column, members)


def _hull(column: str, members: pa.Array) -> list[tuple[str, Interval]]:
    if not len(members):
        return []
    bounds = pc.min_max(members)
    return [(column, Interval(low=bounds["min"], high=bounds["max"]))]


def _is_ordered(arrow_type: pa.DataType) -> bool:
    return not (
        pa.types.is_boolean(arrow_type) or pa.types.is_nested(arrow_type) or pa.types.is_floating(arrow_type)
    )


def _intersection(one: Interval, other: Interval) -> Interval:
    low, low_open = one.low, one.low_open
    if other.low is not None and (low is None or _is_above(other.low, low)):
        low, low_open = other.low, other.low_open
    elif other.low is not None and other.low == low:
        low_open = low_open or other.low_open
    high, high_open = one.high, one.high_open
    if other.high is not None and (high is None or _is_above(high, other.high)):
        high, high_open = other.high, other.high_open
    elif other.high is not None and other.high == high:
        high_open = high_open or other.high_open
    return Interval(low, high, low_open, high_open)


def _union(one: Interval, other: Interval) -> Interval:
    """The interval that has both, and what lies between them."""
    low, low_open = one.low, one.low_open
    if other.low is None or low is None:
        low = None
    elif _is_above(low, other.low):
        low, low_open = other.low, other.low_open
    elif not _is_above(other.low, low):
        low_open = low_open and other.low_open
    high, high_open = one.high, one.high_open
    if other.high is None or high is None:
        high = None
    elif _is_above(other.high, high):
        high, high_open = other.high, other.high_open
    elif not _is_above(high, other.high):
        high_open = high_open and other.high_open
    return Interval(low, high, low_open, high_open)


def _is_above(one: pa.Scalar, other: pa.Scalar) -> bool:
    return bool(pc.greater(one, other).as_py())


def _comparable_interval(interval: Interval, arrow_type: pa.DataType) -> Interval | None:
    """An interval that means the same whichever way floats are ordered.

    The engine sorts NaN above all numbers, IEEE 754 and Arrow compare it with nothing. NaN meets no upper
    bound in either order, but does meet a lower bound alone in the engine's, so such an interval is dropped.
    And -0.0 equals 0.0 in the engine, so a bound of zero is widened to take both in.
    """
    if not pa.types.is_floating(arrow_type):
        return interval
    low, high = interval.low, interval.high
    if high is None:
        return None
    if low is not None and low.as_py() == 0:
        low = pa.scalar(-0.0, arrow_type)
    return replace(interval, low=low, high=pa.scalar(0.0, arrow_type) if high.as_py() == 0 else high)


def successor(prefix: str) -> str | None:
    """The least string above all strings that start with a prefix.

    Strings are ordered by their UTF-8 bytes, which is the order of code points.

    Args:
        prefix: Any text.

    Returns:
        The prefix with its last code point raised by one, where those that cannot be raised are cut off; None
        if none can.
    """
    while prefix:
        last = ord(prefix[-1])
        if last < _LAST:
            return prefix[:-1] + chr(_AFTER_SURROGATES if last == _BEFORE_SURROGATES else last + 1)
        prefix = prefix[:-1]
    return None
