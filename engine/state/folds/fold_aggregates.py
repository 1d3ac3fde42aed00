"""Partial aggregates: many partial rows of a group become one, and the finished values follow from it.

What may be folded in any number of steps is kept apart from what SQL sees: an average is a sum and a count
until it is asked for. Every reduction goes through the rows of a group from first to last, so that reducing
rows in parts, in their order, gives the same bits as reducing all at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from engine.model.kinds import Function, MergedColumn
from engine.state.folds.choices import extremes, first_extreme, last_largest, take_or_null
from engine.state.folds.grouping import Grouping
from engine.state.folds.order_numbers import raw_numbers
from engine.state.folds.sketches import distinct_counts, merged_distinct, merged_quantiles, quantiles
from engine.state.folds.sums import counts, sums
from engine.state.folds.wide_integers import to_doubles, unscaled_integers
from engine.state.keys import Rows

Columns = Mapping[str, pa.Array]
"""Arrays of one length by the name of their column."""


@dataclass(frozen=True)
class Aggregates:
    """The merged columns of a store.

    Attributes:
        columns: The columns.
    """

    columns: Sequence[MergedColumn]

    @property
    def partials(self) -> Sequence[str]:
        """Names of the columns of partial rows."""
        return [name for column in self.columns for name in column.partials]

    def reduce(self, partials: Columns, groups: Rows, count: int) -> dict[str, pa.Array]:
        """Make one partial row of the partial rows of each group.

        Args:
            partials: The columns of `self.partials`, shape (rows,). A null is as if the row had nothing to
                say of its column.
            groups: The number of each row's group, shape (rows,); rows of one group are in the order in which
                they were committed.
            count: How many groups there are.

        Returns:
            The same columns, shape (count,). A group without rows has nulls, and 0 where a count is.
        """
        rows = Grouping(groups, count)
        reduced: dict[str, pa.Array] = {}
        for column in self.columns:
            reduced |= _reduce_states(column, [partials[name] for name in column.partials], rows)
        return reduced

    def finish(self, partials: Columns) -> dict[str, pa.Array]:
        """The values that SQL sees.

        Args:
            partials: The columns of `self.partials`.

        Returns:
            A column for each of `self.columns`, by its name.
        """
        return {
            column.name: _final_values(column, [partials[name] for name in column.partials])
            for column in self.columns
        }


def _reduce_states(column: MergedColumn, values: Sequence[pa.Array], rows: Grouping) -> dict[str, pa.Array]:
    function, names = column.function, column.partials
    if function is Function.SUM:
        return {names[0]: sums(values[0], rows)}
    if function is Function.COUNT:
        return {names[0]: counts(values[0], rows)}
    if function is Function.AVG:
        return {names[0]: sums(values[0], rows), names[1]: counts(values[1], rows)}
    if function in (Function.MIN, Function.MAX):
        return {names[0]: extremes(values[0], rows, largest=function is Function.MAX)}
    if function is Function.COUNT_DISTINCT:
        return {names[0]: merged_distinct(values[0], rows)}
    if function is Function.QUANTILES:
        return {names[0]: merged_quantiles(values[0], rows)}
    chosen = (
        last_largest(values[1], rows)
        if function is Function.LAST
        else first_extreme(values[1], rows, largest=False)
    )
    return {name: take_or_null(value, chosen) for name, value in zip(names, values, strict=True)}


def _final_values(column: MergedColumn, values: Sequence[pa.Array]) -> pa.Array:
    if column.function is Function.AVG:
        return _average(values[0], values[1])
    if column.function is Function.COUNT_DISTINCT:
        return distinct_counts(values[0])
    if column.function is Function.QUANTILES:
        return quantiles(values[0], column.ranks)
    return values[0]


def _average(total: pa.Array, count: pa.Array) -> pa.Array:
    """NULL where there is no value, as SQL has it."""
    counted = count.to_numpy(zero_copy_only=False)
    valid = (counted > 0) & total.is_valid().to_numpy(zero_copy_only=False)
    is_decimal = pa.types.is_decimal(total.type)
    dividend = (
        to_doubles(unscaled_integers(total), total.type.scale)
        if is_decimal
        else raw_numbers(total).astype(np.float64)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        return pa.array(dividend / counted, mask=~valid)
