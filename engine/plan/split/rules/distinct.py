"""DISTINCT without aggregates: every host drops its own repetitions, the merge those between hosts."""

from __future__ import annotations

from sqlglot import exp

from engine.plan.logical.movable import has_columns
from engine.plan.logical.trees import column, used_arguments
from engine.plan.split.nodes import SelectSplit
from engine.plan.split.partial_outputs import PartialOrder, PartialOutputs, reads_rows_only
from engine.plan.split.partials import NotSplitError
from engine.plan.split.planner import PhaseRule
from engine.plan.split.select_forms import check_clauses, partial_limit

RULE = "distinct"


def distinct(select: exp.Select, part: str) -> SelectSplit | None:
    """Split a SELECT DISTINCT, or DISTINCT ON, that neither aggregates nor has windows.

    DISTINCT: the different rows of all hosts are the different ones among each host's different rows; both
    phases take NULL for equal to NULL and NaN to NaN. With ORDER BY and LIMIT over outputs a host sends its
    first LIMIT + OFFSET different rows: a row that is among the first n different rows of all has fewer than
    n different ones before it on any host, so each host that has it sends it. A key that is not an output has
    no single value for a row that stands for several; that is not split.

    DISTINCT ON (keys) … ORDER BY: the first row of a key by the order is the first on its host, so it is
    among the rows that hosts send, one a key; the merge takes the first of each key again. Keys and sort keys
    that are no outputs travel as columns of their own. Without ORDER BY any row of a key is right. With LIMIT
    hosts send the first LIMIT + OFFSET of their rows: before the row that is its key's first of all, every
    row of its host stands for a key whose own first row comes no later, so fewer than n do.

    Hosts without rows send none, types are the outputs' own, and where equal values look different (-0.0 and
    0.0) either may be what is left, as on one machine.

    Args:
        select: A qualified SELECT, whose FROM and WHERE give rows that are spread over hosts without
            repetition. It is not changed.
        part: Name of the table that holds all hosts' partial rows.

    Returns:
        The two phases; None if there is no DISTINCT, or it is not known to be right in parts.
    """
    clause = select.args.get("distinct")
    if not isinstance(clause, exp.Distinct) or clause.expressions or not reads_rows_only(select):
        return None
    try:
        check_clauses(select, {"distinct", "order", "limit", "offset"})
        outputs = PartialOutputs(select, part)
        on = clause.args.get("on")
        if on is None:
            return _distinct(select, outputs)
        return _distinct_on(select, outputs, on, part)
    except NotSplitError:
        return None


def _distinct(select: exp.Select, outputs: PartialOutputs) -> SelectSplit:
    order = outputs.order(select.args.get("order"))
    if order is not None and not order.is_of_outputs:
        raise NotSplitError
    return _split(select, outputs, order, exp.Distinct(), exp.Distinct())


def _distinct_on(select: exp.Select, outputs: PartialOutputs, on: exp.Expr, part: str) -> SelectSplit:
    names = [outputs.name_of(key) for key in (on.expressions if isinstance(on, exp.Tuple) else [on])]
    keys = [outputs.expression_of(name) for name in names]
    if not all(has_columns(key) for key in keys):
        raise NotSplitError
    order = outputs.order(select.args.get("order"))
    partial = exp.Distinct(on=exp.Tuple(expressions=[key.copy() for key in keys]))
    merge = exp.Distinct(on=exp.Tuple(expressions=[column(part, name) for name in names]))
    return _split(select, outputs, order, partial, merge)


def _split(
    select: exp.Select,
    outputs: PartialOutputs,
    order: PartialOrder | None,
    partial: exp.Distinct,
    merge: exp.Distinct,
) -> SelectSplit:
    """Both phases, with their DISTINCT clauses; the order of DISTINCT ON says which row is left."""
    limit = partial_limit(select)
    first = outputs.partial_select()
    first.set("distinct", partial)
    if limit is not None:
        first.set("limit", exp.Limit(expression=limit))
    if order is not None and (limit is not None or "on" in used_arguments(partial)):
        first.set("order", order.partial)
    last = outputs.merge(None if order is None else order.merge)
    last.set("distinct", merge)
    return SelectSplit(first, last, RULE)


DISTINCT = PhaseRule(RULE, distinct)
