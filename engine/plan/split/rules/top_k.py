"""ORDER BY and LIMIT without aggregates: every host sends its first rows, the merge takes the
first of these.
"""

from __future__ import annotations

from sqlglot import exp

from engine.plan.logical.trees import drop_clauses, used_arguments
from engine.plan.split.nodes import SelectSplit
from engine.plan.split.partial_outputs import PartialOutputs, reads_rows_only
from engine.plan.split.partials import NotSplitError
from engine.plan.split.place_selects import makes_rows_of_many
from engine.plan.split.placement import Spread
from engine.plan.split.planner import AnswerRule, Planner, SplitAnswer
from engine.plan.split.select_forms import check_clauses, partial_limit

RULE = "top-k"
LAST_CLAUSES = ("order", "limit", "offset")
"""Clauses that see all rows of a query, whatever makes them."""


def top_k(select: exp.Select, part: str) -> SelectSplit | None:
    """Split a SELECT with ORDER BY or LIMIT that neither aggregates nor has windows.

    Every host evaluates the outputs and the sort keys of its rows; keys that are no outputs travel as columns
    of their own, which the merge leaves out. With a LIMIT it sends its first LIMIT + OFFSET rows in the
    order. The merge orders all of these and applies LIMIT and OFFSET once.

    Why that is right: a row that is among the first n of all rows has fewer than n rows before it, so fewer
    than n on its own host, and is among the first n there. Where sort keys tie, any order is right on one
    machine too. Both phases compare the same values in the same direction, with NULLs at the same end.
    Without ORDER BY any n rows are right, so any n of each host hold n to choose from. Without LIMIT hosts
    send all rows and only the merge orders. Duplicate rows stay: every row is on one host, and none is put
    together with another. Hosts without rows send none. Types are the outputs' own.

    A LIMIT of NULL is none, and so is then the hosts'; an OFFSET of NULL is 0, and hosts then send all rows.
    LIMIT n PERCENT and WITH TIES depend on all rows and are not split.

    Args:
        select: A qualified SELECT, whose FROM and WHERE give rows that are spread over hosts without
            repetition. It is not changed.
        part: Name of the table that holds all hosts' partial rows.

    Returns:
        The two phases; None if there is no order or limit, or it is not known to be right in parts.
    """
    if used_arguments(select).isdisjoint(LAST_CLAUSES) or not reads_rows_only(select):
        return None
    try:
        check_clauses(select, LAST_CLAUSES)
        outputs = PartialOutputs(select, part)
        order = outputs.order(select.args.get("order"))
        limit = partial_limit(select)
    except NotSplitError:
        return None
    partial = outputs.partial_select()
    if limit is not None:
        partial.set("limit", exp.Limit(expression=limit))
        if order is not None:
            partial.set("order", order.partial)
    return SelectSplit(partial, outputs.merge(None if order is None else order.merge), RULE)


def answer_top_k(planner: Planner, query: exp.Query) -> SplitAnswer | None:
    """Let every host send the first rows of a SELECT, each of whose rows is made of one row of a host.

    Args:
        planner: The planner.
        query: A prepared query.

    Returns:
        The answer; None for other queries.
    """
    if (
        not isinstance(query, exp.Select)
        or used_arguments(query).isdisjoint(LAST_CLAUSES)
        or makes_rows_of_many(query)
    ):
        return None
    if not isinstance(planner.placer.relation(drop_clauses(query, LAST_CLAUSES)).placement, Spread):
        return None
    return planner.split_select(top_k(query, planner.next_name()))


TOP_K = AnswerRule(RULE, answer_top_k)
