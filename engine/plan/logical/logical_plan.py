"""From a bound statement to its logical plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from engine.plan.logical.column_types import ColumnTypes
from engine.plan.logical.plan import LogicalPlan
from engine.plan.logical.resolve import resolve
from engine.plan.logical.rewrite import Draft, PlanRewrite, Rewrite, SelectRewrite
from engine.plan.logical.rewrites import REWRITES
from engine.sql.bind import BoundStatement

MAX_REFERENCES = 64
"""Statements that read stores in more places have no plan: to make one takes more than linear time."""


def logical_plan(bound: BoundStatement, rewrites: Sequence[Rewrite] = REWRITES) -> LogicalPlan | None:
    """The logical plan of a statement.

    Args:
        bound: The statement; it is not changed.
        rewrites: What betters the plan, in this order.

    Returns:
        The plan; None where a name of the statement is uncertain, or where it is too large or too deep.
    """
    if len(bound.references) > MAX_REFERENCES:
        return None
    try:
        return _make_plan(bound, rewrites)
    except RecursionError:
        return None


def _make_plan(bound: BoundStatement, rewrites: Sequence[Rewrite]) -> LogicalPlan | None:
    plan = resolve(bound)
    if plan is None:
        return None
    draft = Draft(plan, ColumnTypes(plan))
    of_selects = [rewrite for rewrite in rewrites if isinstance(rewrite, SelectRewrite)]
    for query in plan.queries:
        for select in _selects(query):
            for rewrite in of_selects:
                rewrite.apply(draft, select)
    for whole in rewrites:
        if isinstance(whole, PlanRewrite):
            whole.apply(draft)
    return plan


def _selects(query: exp.Query) -> Iterator[exp.Select]:
    """The SELECTs of a query, each before those inside of it."""
    return iter(list(query.find_all(exp.Select, bfs=True)))
