"""Conditions on what a query gives are conditions on what it reads.

A SELECT that asks for rows of a derived table, of a common table expression, or of the query of an IN with
some value in a column, needs no others of them. So the condition may stand in that query, too, next to the
one outside, which stays: then the query gives fewer rows, all those that matter among them.

- Rows are picked one by one by a SELECT that neither groups nor limits them: a condition on an output that is
  a column of its tables is one on that column. DISTINCT keeps one of equal rows, which all meet it or do not.
- With GROUP BY, the rows of a group agree in the columns by which it groups: the condition leaves whole
  groups.
- A row of a set operation comes from rows of its sides that are equal to it, where the sides' columns have
  one type.
- Windows, LIMIT, DISTINCT ON, QUALIFY and samples look at rows beside the row, so that nothing is moved past
  them; nor past grouping sets, whose groups are NULL in columns by which they do not group.

What one reader of a common table expression does not need, another may: those that are read twice are the
matter of `shared_conditions`.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from engine.plan.logical.column_types import tables_of_from
from engine.plan.logical.constant_conditions import compared_column, move_condition
from engine.plan.logical.plan import LogicalPlan
from engine.plan.logical.rewrite import Draft, SelectRewrite
from engine.plan.logical.selects import (
    certain_conditions,
    conditions_on_table,
    is_aggregating,
    picks_by_neighbours,
    plain_groups,
    set_where,
    where_of,
    windows_of,
)
from engine.plan.logical.trees import column_named, output_names, tables_of, text, unwrap, used_arguments

_SET_PARTS = frozenset({"this", "expression", "distinct", "order"})
_BLOCKING_PARTS = frozenset({"limit", "offset", "qualify"})


def push_conditions(draft: Draft, select: exp.Select) -> None:
    """Say in the queries that a SELECT reads which of their rows it needs."""
    if not picks_by_neighbours(select):
        for place, node in enumerate(tables_of_from(select)):
            query = _query_of(draft.plan, node)
            if query is None:
                continue
            for output, condition in needed_rows(draft, select, place, query):
                push_condition(draft, query, output, condition)
    _push_into_memberships(draft, select)


def needed_rows(
    draft: Draft, select: exp.Select, place: int, query: exp.Query
) -> Iterator[tuple[int, exp.Expr]]:
    """Which rows of a query that a SELECT reads matter to it: places of outputs, and conditions that compare
    them with constants.

    Args:
        draft: The plan.
        select: A SELECT whose joins do not pick by neighbours.
        place: Where the query stands in its FROM clause.
        query: The query.
    """
    alias = list(tables_of_from(select))[place].alias
    types = draft.types.columns(select)
    for condition in list(conditions_on_table(select, place)):
        column = compared_column(condition, types)
        if column is not None and column_named(column).table == alias:
            yield output_names(query).index(column_named(column).name), condition


def _query_of(plan: LogicalPlan, node: exp.Expr) -> exp.Query | None:
    """The query of a table that only this SELECT reads."""
    if isinstance(node, exp.Subquery):
        assert isinstance(node.this, exp.Query)
        return node.this
    if not isinstance(node, exp.Table) or node.name not in plan.ctes:
        return None
    readers = sum(found.name == node.name for query in plan.queries for found in tables_of(query))
    return plan.ctes[node.name] if readers == 1 else None


def _push_into_memberships(draft: Draft, select: exp.Select) -> None:
    """`x IN (query)`: rows of the query that x cannot equal do not matter."""
    certain = certain_conditions(select)
    memberships = list(_memberships(certain))
    if not memberships:
        return
    types = draft.types.columns(select)
    compared = [(compared_column(condition, types), condition) for condition in certain]
    for member, query in memberships:
        for column, condition in compared:
            if (
                column == text(member)
                and draft.types.outputs(query).get(output_names(query)[0]) == types[column]
            ):
                push_condition(draft, query, 0, condition)


def _memberships(conditions: list[exp.Expr]) -> Iterator[tuple[exp.Column, exp.Query]]:
    for condition in conditions:
        if not isinstance(condition, exp.In) or used_arguments(condition) != {"this", "query"}:
            continue
        member, query = unwrap(condition.this), condition.args["query"]
        while isinstance(query, exp.Subquery):
            query = query.this
        if isinstance(member, exp.Column) and isinstance(query, exp.Query):
            yield member, query


def push_condition(draft: Draft, query: exp.Expr, output: int, condition: exp.Expr) -> None:
    """Add a condition on an output of a query to its WHERE, or to those of the sides of a set operation, as
    far as it can stand there.

    Args:
        draft: The plan.
        query: The query, only such rows of which matter.
        output: Place of the output.
        condition: Compares one column, which stands for the output, with constants.
    """
    if isinstance(query, exp.Subquery) and used_arguments(query) == {"this"}:
        push_condition(draft, query.this, output, condition)
    elif isinstance(query, exp.SetOperation):
        if used_arguments(query) <= _SET_PARTS and output_names(query)[output] in draft.types.outputs(query):
            push_condition(draft, query.this, output, condition)
            push_condition(draft, query.args["expression"], output, condition)
    elif isinstance(query, exp.Select) and _picks_single_rows(query, output):
        column = query.expressions[output].this
        where = where_of(query)
        moved = move_condition(condition, column)
        if text(moved) not in {text(each) for each in where}:
            set_where(query, [*where, moved])


def _picks_single_rows(select: exp.Select, output: int) -> bool:
    """Whether what a SELECT gives with some value in an output comes from rows with that value alone."""
    value = select.expressions[output].this
    distinct = select.args.get("distinct")
    if (
        not isinstance(value, exp.Column)
        or not value.table
        or used_arguments(select) & _BLOCKING_PARTS
        or (distinct is not None and distinct.args.get("on") is not None)
        or windows_of(select)
    ):
        return False
    return not is_aggregating(select) or text(value) in plain_groups(select)


PUSHED_CONDITIONS = SelectRewrite("pushed conditions", push_conditions)
