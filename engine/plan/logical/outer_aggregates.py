"""Aggregates that stand in a subquery, and are of the SELECT around it.

An aggregate all of whose columns are of SELECTs around its own is theirs, as the SQL standard says of the
"aggregation query" of a column (ISO 9075-2): `SELECT (SELECT sum(u.rank)) FROM users u` has one row. Nothing
else here looks for one there.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from engine.plan.logical.function_properties import is_aggregate
from engine.plan.logical.trees import free_aliases, own_nodes


def has_outer_aggregate(query: exp.Expr) -> bool:
    """Whether a subquery of a resolved query, or the query itself, has an aggregate of a SELECT around it."""
    return any(_has_outer_aggregate(select) for select in query.find_all(exp.Select))


def _has_outer_aggregate(select: exp.Select) -> bool:
    used = [tables for call in _own_aggregates(select) if (tables := _tables(call))]
    if not used:
        return False
    around = free_aliases(select)
    return any(tables <= around for tables in used)


def _own_aggregates(select: exp.Select) -> Iterator[exp.Expr]:
    return (node for node in own_nodes(select) if is_aggregate(node))


def _tables(call: exp.Expr) -> set[str]:
    """The tables whose columns an aggregate reads, in its FILTER and its order, too."""
    while isinstance(call.parent, exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup):
        call = call.parent
    return {column.table for column in call.find_all(exp.Column)}
