"""What is said of one column is said of all that equal it: `t.k = u.k AND t.k = 5` means `u.k = 5`.

A condition that compares a column with constants has the same answer for every column that has the same
value, of the same type. Next to conditions that say so it changes nothing: it is true for every row that they
leave. But it says of another table which of its rows can matter.

- Equalities and conditions of WHERE and of inner and semi joins hold for every row that comes out.
- A LEFT, SEMI or ANTI join may look for partners only where the condition holds of its own table too: a row
  for which it does not hold equals none of the rows that come out in the end. Where its condition compares
  columns of a LEFT join before it, partners are looked for only of rows that met that one's, too.
- A subquery in an expression is worked out for the rows around it. Of those that come out all holds that the
  SELECT around it says; what it gives for the others does not matter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow as pa
from sqlglot import exp

from engine.plan.logical.constant_conditions import compared_column, move_condition
from engine.plan.logical.equalities import Equalities, equal_pair, equal_tables
from engine.plan.logical.rewrite import Draft, SelectRewrite
from engine.plan.logical.selects import (
    certain_conditions,
    is_hiding,
    joins_of,
    picks_by_neighbours,
    set_where,
    side_of,
    where_of,
)
from engine.plan.logical.trees import column_named, conjunction, conjuncts, text

MOST_ADDED = 64
"""Conditions that are added to one SELECT; a statement may compare hundreds of columns with each other."""

Compared = Sequence[tuple[str, exp.Expr]]
"""Conditions with the text of the column that each compares with constants."""


def add_equal_columns(draft: Draft, select: exp.Select) -> None:
    """Say of equal columns what is said of one of them."""
    inner = certain_conditions(select)
    on = [condition for join in joins_of(select) for condition in conjuncts(join.args.get("on"))]
    if not any(equal_pair(condition) for condition in (*inner, *on)):
        return
    own = draft.types.columns(select)
    types, certain = dict(own), list(inner)
    outer = _select_around(select)
    while outer is not None:
        types.update(draft.types.columns(outer))
        certain += certain_conditions(outer)
        outer = _select_around(outer)
    compared = [
        (column, condition)
        for condition in certain
        if (column := compared_column(condition, types)) is not None
    ]
    if not compared:
        return
    equal = Equalities(inner, types)
    joins = {join.this.alias: join for join in joins_of(select)}
    where: list[exp.Expr] = []
    for other, condition in _conditions_on_equals(compared, equal, own, set(map(text, certain))):
        join = joins.get(other.table)
        if join is None or not is_hiding(join):
            where.append(move_condition(condition, other))
        elif not picks_by_neighbours(select):
            _add_to_join(join, [move_condition(condition, other)])
    if where:
        set_where(select, [*where_of(select), *where])
    if not picks_by_neighbours(select):
        _add_to_joins(select, compared, equal, own)


def _met_conditions(joins: Sequence[exp.Join], conditions: Sequence[exp.Expr]) -> list[exp.Expr]:
    """The conditions of LEFT joins that are true for rows for which others are: a column of their table is
    compared there, so that it is not NULL, and the row has a partner.

    Args:
        joins: The joins that these rows have behind them.
        conditions: The others.
    """
    found: list[exp.Expr] = []
    left = [join for join in joins if side_of(join) == "LEFT" and not is_hiding(join)]
    tables = equal_tables(conditions)
    while met := [join for join in left if join.this.alias in tables]:
        left = [join for join in left if join.this.alias not in tables]
        own = [condition for join in met for condition in conjuncts(join.args.get("on"))]
        tables |= equal_tables(own)
        found += own
    return found


def _select_around(select: exp.Select) -> exp.Select | None:
    """The SELECT in one of whose expressions a SELECT stands; None for one of a FROM clause or of its own."""
    node = select.parent
    while node is not None and not isinstance(node, exp.Select):
        if isinstance(node, exp.From | exp.Join) and not _is_condition(node, select):
            return None
        node = node.parent
    return node


def _is_condition(node: exp.Expr, select: exp.Select) -> bool:
    """Whether a SELECT stands in the condition of a join, rather than in its table."""
    on = node.args.get("on")
    return on is not None and any(found is select for found in on.find_all(exp.Select))


def _conditions_on_equals(
    compared: Compared, equal: Equalities, own: Mapping[str, pa.DataType], known: Collection[str]
) -> Iterator[tuple[exp.Column, exp.Expr]]:
    """Columns of a SELECT's own tables, with conditions that hold of them and are not said yet: `known` has
    the texts of those that are.
    """
    names = {column for column, _ in compared}
    others = {column: sorted((equal.members(column) - {column}) & own.keys()) for column in names}
    said, added = set(known), 0
    for column, condition in compared:
        for other in map(column_named, others[column]):
            written = text(move_condition(condition, other))
            if written in said:
                continue
            said.add(written)
            added += 1
            yield other, condition
            if added == MOST_ADDED:
                return


def _add_to_joins(
    select: exp.Select, compared: Compared, equal: Equalities, own: Mapping[str, pa.DataType]
) -> None:
    """Say of the tables of LEFT and ANTI joins what their conditions make equal to the tables before them."""
    joins = joins_of(select)
    certain = set(map(text, certain_conditions(select)))
    for place, join in enumerate(joins):
        on = list(conjuncts(join.args.get("on")))
        if side_of(join) in {"RIGHT", "FULL"} or not any(map(equal_pair, on)):
            continue
        alias = join.this.alias
        here = equal.copy()
        here.add([*on, *_met_conditions(joins[:place], on)])
        theirs = {name: found for name, found in own.items() if column_named(name).table == alias}
        others = [(name, found) for name, found in compared if column_named(name).table != alias]
        known = certain.union(map(text, on))
        found = [
            move_condition(condition, column)
            for column, condition in _conditions_on_equals(others, here, theirs, known)
        ]
        if found:
            _add_to_join(join, found)


def _add_to_join(join: exp.Join, conditions: Sequence[exp.Expr]) -> None:
    join.set("on", conjunction([*conjuncts(join.args.get("on")), *conditions]))


EQUAL_COLUMNS = SelectRewrite("equal columns", add_equal_columns)
