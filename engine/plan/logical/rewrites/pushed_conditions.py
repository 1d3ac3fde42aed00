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

from collections.abc import Iterator, Sequence

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
            if query is not None:
                push_into_query(draft, query, list(needed_rows(draft, select, place, query)))
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
    names = output_names(query)
    for condition in list(conditions_on_table(select, place)):
        first = condition.find(exp.Column)
        # A SELECT may have many tables, each with many conditions: those of others are left out first.
        if first is None or first.table != alias:
            continue
        column = compared_column(condition, types)
        if column is not None:
            yield names.index(column_named(column).name), condition


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
        column = text(member)
        needed = [(0, condition) for name, condition in compared if name == column]
        if needed and draft.types.outputs(query).get(output_names(query)[0]) == types[column]:
            push_into_query(draft, query, needed)


def _memberships(conditions: list[exp.Expr]) -> Iterator[tuple[exp.Column, exp.Query]]:
    for condition in conditions:
        if not isinstance(condition, exp.In) or used_arguments(condition) != {"this", "query"}:
            continue
        member, query = unwrap(condition.this), condition.args["query"]
        while isinstance(query, exp.Subquery):
            query = query.this
        if isinstance(member, exp.Column) and isinstance(query, exp.Query):
            yield member, query


def push_into_query(draft: Draft, query: exp.Expr, needed: Sequence[tuple[int, exp.Expr]]) -> None:
    """Add conditions on outputs of a query to its WHERE, or to those of the sides of a set operation, as far
    as they can stand there.

    Args:
        draft: The plan.
        query: The query, only such rows of which matter.
        needed: Places of outputs, each with a condition that compares one column, which stands for the
            output, with constants.
    """
    if not needed:
        return
    if isinstance(query, exp.Subquery) and used_arguments(query) == {"this"}:
        push_into_query(draft, query.this, needed)
    elif isinstance(query, exp.SetOperation):
        if used_arguments(query) <= _SET_PARTS:
            names, types = output_names(query), draft.types.outputs(query)
            typed = [(output, condition) for output, condition in needed if names[output] in types]
            push_into_query(draft, query.this, typed)
            push_into_query(draft, query.args["expression"], typed)
    elif isinstance(query, exp.Select):
        places = {output for output, _ in needed}
        values = {
            output: query.expressions[output].this for output in places if _picks_single_rows(query, output)
        }
        where = where_of(query)
        known = set(map(text, where))
        moved = {
            text(said): said
            for output, condition in needed
            if output in values and text(said := move_condition(condition, values[output])) not in known
        }
        if moved:
            set_where(query, [*where, *moved.values()])


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
