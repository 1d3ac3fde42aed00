"""A query that every host answers alone, from rows of its own, but for ORDER BY and LIMIT.

Why the hosts' answers together are the statement's: `engine.plan.split.placement` says what that means, and
`place_selects`, `joins`, `correlated` and `place_set_operations` beside it prove it for each clause. An ORDER
BY or LIMIT of such a query sees the rows of all hosts: the query is a derived table then, and the SELECT
around it is split as top-k.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from engine.plan.logical.trees import (
    column,
    drop_clauses,
    named_output,
    output_names,
    select_from,
    table,
    unique_name,
)
from engine.plan.split.placement import Spread
from engine.plan.split.planner import AnswerRule, Planner, SplitAnswer
from engine.plan.split.rules.top_k import LAST_CLAUSES, top_k

RULE = "co-partitioned"


def co_partitioned(planner: Planner, query: exp.Query) -> SplitAnswer | None:
    """Let every host answer a query over its own rows.

    Args:
        planner: The planner.
        query: A prepared query.

    Returns:
        The answer; None if its rows are not known to be the hosts' rows together.
    """
    present = [part for part in LAST_CLAUSES if query.args.get(part) is not None]
    if "order" in present and _is_distinct_on(query):
        # The order also says which row of a key is left.
        return None
    relation = planner.placer.relation(drop_clauses(query, present) if present else query)
    if not isinstance(relation.placement, Spread):
        return None
    if not present:
        names = output_names(query)
        part = planner.add_fragment(query, RULE, relation.types)
        return SplitAnswer(_rows_of(part, names), part, RULE)
    plain = query.copy()
    clauses = {part: plain.args[part] for part in present}
    for part in present:
        plain.set(part, None)
    outer = _select_around(planner, plain, clauses)
    return None if outer is None else planner.split_select(top_k(outer, planner.next_name()), f"{RULE}, ")


def _select_around(planner: Planner, plain: exp.Query, clauses: Mapping[str, exp.Expr]) -> exp.Select | None:
    """A SELECT of a query's rows with its ORDER BY and LIMIT; sort keys that are no outputs become
    outputs of the query.
    """
    names = output_names(plain)
    alias = planner.new_alias("rows")
    order = clauses.get("order")
    for number, each in enumerate(order.expressions if order is not None else ()):
        key = each.this
        if isinstance(key, exp.Column) and not key.table:
            each.set("this", column(alias, next(name for name in names if name == key.name)))
            continue
        if not isinstance(plain, exp.Select) or plain.args.get("distinct") is not None:
            return None
        name = unique_name(f"__key_{number}", names)
        plain.append("expressions", named_output(key.copy(), name))
        each.set("this", column(alias, name))
    source = exp.Subquery(this=plain, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    outer = select_from([named_output(column(alias, name), name) for name in names], source)
    for part, clause in clauses.items():
        outer.set(part, clause)
    return outer


def _is_distinct_on(query: exp.Expr) -> bool:
    distinct = query.args.get("distinct")
    return isinstance(distinct, exp.Distinct) and distinct.args.get("on") is not None


def _rows_of(part: str, names: Sequence[str]) -> exp.Select:
    return select_from([named_output(column(part, name), name) for name in names], table(part, part))


CO_PARTITIONED = AnswerRule(RULE, co_partitioned)
