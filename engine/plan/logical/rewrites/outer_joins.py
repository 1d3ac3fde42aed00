"""An outer join keeps no rows without a partner where nobody needs them.

If a condition that is true for every row that comes out says that a column of some table is not NULL, no row
comes out whose columns of that table an outer join has padded with NULLs. So the join need not make such
rows: a LEFT or RIGHT join becomes an inner one, a FULL join one of these. Rows that are missing then may
leave those of later joins without a partner, which are padded with NULLs in that table as well, and dropped.

Its condition then holds for every row, and says what it says of an inner join's.

A comma binds less than JOIN: in `a, b FULL JOIN c` the tables before c are b alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from engine.plan.logical.constant_conditions import compared_column
from engine.plan.logical.equalities import equal_tables
from engine.plan.logical.rewrite import Draft, SelectRewrite
from engine.plan.logical.selects import (
    certain_conditions,
    is_hiding,
    joins_of,
    kind_of,
    picks_by_neighbours,
    side_of,
)
from engine.plan.logical.trees import column_named, used_arguments

_SIDES = {(True, True): "FULL", (True, False): "LEFT", (False, True): "RIGHT", (False, False): ""}
"""Sides of joins, by whether they keep rows without a partner of the tables before, and of their own."""


def reduce_outer_joins(draft: Draft, select: exp.Select) -> None:
    """Let outer joins keep only rows that can come out."""
    outer = [each for each in _joins_with_left_sides(select) if side_of(each[0]) and not is_hiding(each[0])]
    if not outer or picks_by_neighbours(select):
        return
    # A join that became an inner one may say that columns of other tables are not NULL.
    while any(_reduce(join, before, _present_tables(draft, select)) for join, before in outer):
        pass


def _joins_with_left_sides(select: exp.Select) -> Iterator[tuple[exp.Join, set[str]]]:
    """The joins of a SELECT, each with the tables on its left side."""
    joins = joins_of(select)
    before = {select.args["from_"].this.alias} if joins else set()
    for join in joins:
        if not used_arguments(join) - {"this"}:
            before = set()
        yield join, set(before)
        before.add(join.this.alias)


def _present_tables(draft: Draft, select: exp.Select) -> set[str]:
    """The tables of which every row that comes out has a column that is not NULL."""
    certain, types = certain_conditions(select), draft.types.columns(select)
    compared = (compared_column(condition, types) for condition in certain)
    return {column_named(column).table for column in compared if column is not None} | equal_tables(certain)


def _reduce(join: exp.Join, before: set[str], present: set[str]) -> bool:
    """Whether a join is another one now."""
    side, alias = side_of(join), join.this.alias
    keeps_before = side in {"LEFT", "FULL"} and alias not in present
    keeps_own = side in {"RIGHT", "FULL"} and present.isdisjoint(before)
    reduced = _SIDES[keeps_before, keeps_own]
    if reduced == side:
        return False
    join.set("side", reduced or None)
    if not reduced and kind_of(join) == "OUTER":
        join.set("kind", None)
    return True


OUTER_JOINS = SelectRewrite("outer joins", reduce_outer_joins)
