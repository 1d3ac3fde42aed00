"""From a bound statement to its logical plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from engine.plan.logical.column_types import ColumnTypes
from engine.plan.logical.outer_aggregates import has_outer_aggregate
from engine.plan.logical.plan import LogicalPlan
from engine.plan.logical.resolve import resolve, resolve_query
from engine.plan.logical.rewrite import CteRewrite, Draft, PlanRewrite, Rewrite, SelectRewrite
from engine.plan.logical.rewrites import REWRITES
from engine.plan.logical.scopes import Scope, Uncertain
from engine.sql.bind import BoundStatement

MAX_REFERENCES = 64
"""Statements that read stores in more places have no plan: to make one takes more than linear time."""


def logical_plan(bound: BoundStatement, rewrites: Sequence[Rewrite] = REWRITES) -> LogicalPlan | None:
    """The logical plan of a statement.

    Args:
        bound: The statement; it is not changed.
        rewrites: What betters the plan, in this order.

    Returns:
        The plan; None where a name of the statement is uncertain, where a subquery has an aggregate of the
        SELECT around it, or where the statement is too large or too deep.
    """
    if len(bound.references) > MAX_REFERENCES:
        return None
    try:
        plan = resolve(bound)
        if plan is None or any(map(has_outer_aggregate, plan.queries)):
            return None
        return _rewrite_plan(plan, rewrites)
    except RecursionError:
        return None


def query_plan(
    bound: BoundStatement,
    query: exp.Query,
    withs: Sequence[exp.With],
    outer: Scope | None,
    rewrites: Sequence[Rewrite] = REWRITES,
) -> LogicalPlan:
    """The logical plan of one of a statement's queries.

    Args:
        bound: The statement.
        query: The query, which is not changed.
        withs: The WITH clauses around it, the outermost first.
        outer: What it sees of the SELECTs around it.
        rewrites: What betters the plan, in this order.

    Returns:
        The plan.

    Raises:
        Uncertain: A name of the query is uncertain, or means something of the SELECTs around it; or a
            subquery has an aggregate of the SELECT around it.
    """
    plan = resolve_query(bound, query, withs, outer)
    if any(map(has_outer_aggregate, plan.queries)):
        raise Uncertain
    return _rewrite_plan(plan, rewrites)


def _rewrite_plan(plan: LogicalPlan, rewrites: Sequence[Rewrite]) -> LogicalPlan:
    """Better a plan, whose trees nobody else holds."""
    draft = Draft(plan, ColumnTypes(plan))
    of_selects = [rewrite for rewrite in rewrites if isinstance(rewrite, SelectRewrite)]
    of_ctes = [rewrite for rewrite in rewrites if isinstance(rewrite, CteRewrite)]
    for name, query in reversed([*plan.ctes.items(), ("", plan.tree)]):
        if name:
            for of_cte in of_ctes:
                of_cte.apply(draft, name)
        for select in _selects(query):
            for of_select in of_selects:
                of_select.apply(draft, select)
    for whole in rewrites:
        if isinstance(whole, PlanRewrite):
            whole.apply(draft)
    return plan


def _selects(query: exp.Query) -> Iterator[exp.Select]:
    """The SELECTs of a query, each before those inside of it."""
    return iter(list(query.find_all(exp.Select, bfs=True)))
