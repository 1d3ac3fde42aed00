"""Subqueries in expressions: those that hosts cannot work out on their own rows are worked out before.

Only where a subquery reads nothing of the SELECTs around it, so that it has one answer; the expression reads
its rows from then on. IN does not count, so that different rows are enough for it, and EXISTS asks for one
row. What depends on the row around it, and is not on that row's host, stays for the coordinator
(`engine.plan.split.rules.gather_pieces`).
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from engine.plan.logical.selects import where_of
from engine.plan.logical.trees import (
    column,
    expressions_of,
    free_aliases,
    named_output,
    output_names,
    own_queries,
    select_from,
    table,
    used_arguments,
)
from engine.plan.split.correlated import Frame
from engine.plan.split.joins import known_types, place_joins
from engine.plan.split.place_selects import makes_rows_of_many
from engine.plan.split.placement import Everywhere
from engine.plan.split.planner import Planner, SelectRule


def settle_subqueries(planner: Planner, select: exp.Select, frames: Sequence[Frame]) -> None:
    """Work out before a SELECT those of its subqueries that its hosts cannot, and that do not depend on it.

    Args:
        planner: The planner.
        select: The SELECT; changed in place.
        frames: The SELECTs around it.
    """
    joins = (join.args["on"] for join in select.args.get("joins") or () if join.args.get("on") is not None)
    queries = [query for part in (*expressions_of(select), *joins) for query in own_queries(part)]
    if not queries:
        return
    items = planner.placer.items(select)
    placement = place_joins(items, where_of(select)) if items else Everywhere()
    inside = (*frames, Frame(placement or Everywhere(), known_types(items)))
    for query in queries:
        planner.prepare(query, inside)
        if not free_aliases(query) and not planner.placer.is_local(query, inside):
            _replace_subquery(planner, query)


def _replace_subquery(planner: Planner, query: exp.Query) -> None:
    """Let an expression read the rows of its uncorrelated subquery, which are worked out once."""
    ask_for_less(query, query)
    names = output_names(query)
    parent, key, index = query.parent, query.arg_key, query.index
    part = planner.materialise(query)
    alias = planner.new_alias(part)
    stand_in = select_from([named_output(column(alias, name), name) for name in names], table(part, alias))
    assert parent is not None and key is not None
    parent.set(key, stand_in, index)


def holder_of(query: exp.Query) -> exp.Expr | None:
    """The node that a query stands in, without brackets around the query."""
    return query.parent.parent if isinstance(query.parent, exp.Subquery) else query.parent


def ask_for_less(query: exp.Query, written: exp.Query) -> None:
    """Leave out rows of an uncorrelated subquery that make no difference to what it stands in.

    Args:
        query: The subquery; changed in place.
        written: The same where it stands in the statement.
    """
    holder = holder_of(written)
    if (
        not isinstance(query, exp.Select)
        or used_arguments(query) - {"expressions", "from_", "joins", "where"}
        or makes_rows_of_many(query)
    ):
        return
    members = holder.args.get("query") if isinstance(holder, exp.In) else None
    if members is not None and (members is written or members is written.parent):
        # Membership does not count; a query that is a value must have one row all the same.
        query.set("distinct", exp.Distinct())
    elif isinstance(holder, exp.Exists):
        query.set("limit", exp.Limit(expression=exp.Literal.number(1)))


SUBQUERIES = SelectRule("subqueries", settle_subqueries)
