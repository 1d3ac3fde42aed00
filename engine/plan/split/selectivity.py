"""Which share of a table's rows conditions leave: by what is known of its columns, else by their form.

What a range of values leaves depends on the arguments, and plans are kept for many of them. So shares come in
steps (`column_shares`), and a plan is kept for each step: other values of about the same share have the same
plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, frexp, isfinite, ldexp, prod

from sqlglot import exp

from engine.model.column_numbers import column_number, has_numbers
from engine.plan.intervals import IntervalFinder
from engine.plan.logical.selects import where_of
from engine.plan.logical.trees import aliases_used, own_queries, unwrap
from engine.plan.predicates import Predicate
from engine.plan.values import Arguments
from engine.scan import Interval
from engine.sql.bind import StoreReference

_RANGE, _EQUAL, _PATTERN, _AGGREGATED = 0.2, 0.05, 0.1, 0.01
_LEAST_SHARE = 0.01
"""Guesses multiply, and so do their errors; to send too much is worse than to choose second best."""
_SHARE_STEP = 4.0
_LEAST_KNOWN_SHARE = _SHARE_STEP**-6
"""Values are not spread as evenly as shares of ranges are worked out."""
_BOUND_STEPS = 8
"""A column's bounds move by so much of its range before a plan takes note."""
_RANGES = (exp.LT, exp.LTE, exp.GT, exp.GTE)
_PATTERNS = (
    exp.Like,
    exp.ILike,
    exp.SimilarTo,
    exp.Glob,
    exp.RegexpLike,
    exp.StartsWith,
    exp.EndsWith,
    exp.Contains,
)


@dataclass(frozen=True)
class ColumnSize:
    """What is known of a column's values.

    Attributes:
        distinct: About how many differ; None where it is not known.
        low: The smallest one as a number (`engine.model.column_numbers`); None where it is not known.
        high: The largest one, likewise.
    """

    distinct: int | None = None
    low: float | None = None
    high: float | None = None

    def round_off(self) -> ColumnSize:
        """With the next power of two, and bounds that are a little wider: what changes seldom."""
        distinct = None if self.distinct is None else 1 << max(self.distinct - 1, 0).bit_length()
        if self.low is None or self.high is None or not isfinite(self.high - self.low):
            return ColumnSize(distinct)
        exact = ColumnSize(distinct, self.low, self.high)
        step = ldexp(1 / _BOUND_STEPS, frexp(self.high - self.low)[1])
        if self.high == self.low or not step:  # nothing is smaller than the least of all numbers
            return exact
        low, high = self.low / step, self.high / step
        if not isfinite(low) or not isfinite(high):
            return exact
        low, high = floor(low) * step, ceil(high) * step
        return ColumnSize(distinct, low, high) if isfinite(high - low) else exact


@dataclass(frozen=True)
class TableShares:
    """What is known of the columns of a table that a SELECT reads.

    Attributes:
        columns: Sizes of its columns by name, as far as they are known.
        ranges: Which share of its rows the statement's ranges of a column leave, likewise.
    """

    columns: Mapping[str, ColumnSize] = field(default_factory=dict)
    ranges: Mapping[str, float] = field(default_factory=dict)


def column_shares(
    references: Sequence[StoreReference],
    predicates: Sequence[Predicate],
    arguments: Arguments,
    sizes: Sequence[Mapping[str, ColumnSize]],
) -> tuple[tuple[str, str, float], ...]:
    """Which share of their columns' ranges a statement wants of its stores, in steps.

    Args:
        references: What the statement reads.
        predicates: For each reference, what holds for every row that can matter.
        arguments: What the statement is used with.
        sizes: For each reference, what is known of its columns.

    Returns:
        Name of a scan, column, and share; only where bounds are known.
    """
    found = []
    for reference, predicate, columns in zip(references, predicates, sizes, strict=True):
        for name, interval in IntervalFinder(reference.definition, arguments).find(predicate).items():
            share = share_of_interval(interval, columns[name]) if name in columns else None
            if share is not None:
                found.append((reference.scan, name, _in_steps(share)))
    return tuple(found)


def share_of_interval(interval: Interval, size: ColumnSize) -> float | None:
    """Which share of a column's values lies in an interval, if they are spread evenly; None where that is not
    known.

    Args:
        interval: The interval.
        size: Of the column.
    """
    if interval.low is not None and interval.low == interval.high:
        return None if size.distinct is None else 1 / max(size.distinct, 1)
    bounds = [bound for bound in (interval.low, interval.high) if bound is not None]
    if size.low is None or size.high is None or not all(has_numbers(bound.type) for bound in bounds):
        return None
    low, high = (None if bound is None else column_number(bound) for bound in (interval.low, interval.high))
    if (low is None and interval.low is not None) or (high is None and interval.high is not None):
        return None
    whole = size.high - size.low
    part = min(size.high if high is None else high, size.high) - max(
        size.low if low is None else low, size.low
    )
    return max(part, 0.0) / whole if whole else 1.0


def _in_steps(share: float) -> float:
    step = 1.0
    while step > _LEAST_KNOWN_SHARE and share * _SHARE_STEP <= step:
        step /= _SHARE_STEP
    return step


def share_of(
    conditions: Sequence[exp.Expr],
    tables: Mapping[str, TableShares] | None = None,
    guesses: Sequence[float] = (),
) -> float:
    """Which share of rows conditions may leave, if they all must hold.

    Args:
        conditions: The conditions.
        tables: What is known of tables, by alias.
        guesses: What other conditions are taken to leave.
    """
    guessed = list(guesses)
    known: dict[tuple[str, str], float] = {}
    for node in (part for condition in conditions for part in _conjuncts(condition)):
        column = _compared_column(node)
        found = None if column is None or not tables else _known_share(node, column, tables)
        if column is None or found is None:
            guessed.append(_guess(node, tables or {}))
        else:
            place = (column.table, column.name)
            known[place] = min(known.get(place, 1.0), found)
    return max(prod(guessed), _LEAST_SHARE) * prod(known.values())


def _conjuncts(condition: exp.Expr) -> Iterator[exp.Expr | None]:
    node = unwrap(condition)
    if isinstance(node, exp.And):
        yield from _conjuncts(node.this)
        yield from _conjuncts(node.expression)
    else:
        yield node


def _compared_column(node: exp.Expr | None) -> exp.Column | None:
    """The column that a condition compares with values."""
    if isinstance(node, (exp.EQ, *_RANGES)):
        sides = [unwrap(node.this), unwrap(node.expression)]
    elif isinstance(node, exp.Between):
        sides = [unwrap(node.this), node.args["low"], node.args["high"]]
    elif isinstance(node, exp.In) and node.expressions:
        sides = [unwrap(node.this), *node.expressions]
    else:
        return None
    columns = [side for side in sides if isinstance(side, exp.Column)]
    others = [side for side in sides if not isinstance(side, exp.Column)]
    if len(columns) != 1 or any(side is None or aliases_used(side) for side in others):
        return None
    return columns[0]


def _known_share(
    node: exp.Expr | None, column: exp.Column, tables: Mapping[str, TableShares]
) -> float | None:
    """The share that a condition about one column leaves, as far as the column is known."""
    about = tables.get(column.table)
    if about is None:
        return None
    size, in_range = about.columns.get(column.name), about.ranges.get(column.name)
    if isinstance(node, (exp.EQ, exp.In)) and size is not None and size.distinct:
        by_values = min((len(node.expressions) if isinstance(node, exp.In) else 1) / size.distinct, 1.0)
        return by_values if in_range is None else min(by_values, in_range)
    return in_range


def _guess(node: exp.Expr | None, tables: Mapping[str, TableShares]) -> float:
    if isinstance(node, exp.And | exp.Paren):
        return prod(_guess(part, tables) for part in _conjuncts(node))
    if isinstance(node, exp.Or):
        return min(_guess(unwrap(node.this), tables) + _guess(unwrap(node.expression), tables), 1.0)
    column = _compared_column(node)
    known = None if column is None else _known_share(node, column, tables)
    if known is not None and not isinstance(node, (exp.Between, *_RANGES)):
        # What is known of ranges is what is left by those that must hold, which this one need not.
        return known
    queries = [] if node is None else list(own_queries(node))
    if node is None or queries:
        return _share_in(queries[0]) if isinstance(node, exp.In) and len(queries) == 1 else 1.0
    if isinstance(node, exp.Between):
        return 1.0 if aliases_used(node.args["low"]) or aliases_used(node.args["high"]) else _RANGE
    if isinstance(node, exp.In):
        return min(_EQUAL * len(node.expressions), 1.0) if node.expressions else 1.0
    if not isinstance(node, (exp.EQ, *_RANGES, *_PATTERNS)) or all(
        aliases_used(side) for side in (node.this, node.args.get("expression")) if side
    ):
        return 1.0
    return _EQUAL if isinstance(node, exp.EQ) else _RANGE if isinstance(node, _RANGES) else _PATTERN


def _share_in(query: exp.Query) -> float:
    """Which share of rows has a partner among a query's: that of the rows that its conditions leave."""
    if not isinstance(query, exp.Select):
        return 1.0
    return share_of(where_of(query)) * (1.0 if query.args.get("having") is None else _AGGREGATED)
