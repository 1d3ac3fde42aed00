"""What a resolved SELECT says and does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from engine.plan.logical.scopes import has_aggregate
from engine.plan.logical.trees import conjunction, conjuncts, expressions_of, own_nodes, text, used_arguments

DROPPING_SIDES = ("", "LEFT")
"""Sides of joins that drop a row of their right table that matches nothing."""
FILTERING_KINDS = ("", "INNER", "CROSS", "SEMI")
"""Kinds of joins that drop rows of the tables before them that match nothing."""
_HIDING_KINDS = ("SEMI", "ANTI")


def where_of(select: exp.Select) -> list[exp.Expr]:
    """The conjuncts of a SELECT's WHERE."""
    where = select.args.get("where")
    return list(conjuncts(where.this)) if where is not None else []


def set_where(select: exp.Select, conditions: Sequence[exp.Expr]) -> None:
    """Give a SELECT the conjuncts of its WHERE."""
    condition = conjunction(conditions)
    select.set("where", None if condition is None else exp.Where(this=condition))


def is_aggregating(select: exp.Select) -> bool:
    """Whether a SELECT makes groups."""
    if select.args.get("group") is not None or select.args.get("having") is not None:
        return True
    clauses = (select.args.get(name) for name in ("qualify", "order"))
    return any(has_aggregate(part) for part in (*select.expressions, *clauses) if part is not None)


def plain_groups(select: exp.Select) -> frozenset[str]:
    """The texts of what all groups of a SELECT group by: of its GROUP BY, where that has no sets."""
    group = select.args.get("group")
    if (
        group is None
        or used_arguments(group) != {"expressions"}
        or any(isinstance(each, exp.GroupingSets | exp.Rollup | exp.Cube) for each in group.expressions)
    ):
        return frozenset()
    return frozenset(map(text, group.expressions))


def windows_of(select: exp.Select) -> list[exp.Window]:
    """The window functions of a SELECT itself."""
    if select.find(exp.Window) is None:
        return []
    return [
        node for part in expressions_of(select) for node in own_nodes(part) if isinstance(node, exp.Window)
    ]


def joins_of(select: exp.Select) -> list[exp.Join]:
    """The joins of a FROM clause, in their order."""
    return list(select.args.get("joins") or ())


def sources_of(select: exp.Select) -> list[exp.Expr]:
    """The tables of a SELECT's FROM clause, in their order."""
    clause = select.args.get("from_")
    return [*([] if clause is None else [clause.this]), *(join.this for join in joins_of(select))]


def side_of(join: exp.Join) -> str:
    """`LEFT`, `RIGHT`, `FULL`, or empty."""
    return str(join.args.get("side") or "").upper()


def kind_of(join: exp.Join) -> str:
    """`INNER`, `CROSS`, `SEMI`, `ANTI`, or empty for an inner join."""
    return str(join.args.get("kind") or "").upper()


def picks_by_neighbours(select: exp.Select) -> bool:
    """Whether a join (ASOF, POSITIONAL, NATURAL) looks at more than its condition: other rows come out of it
    when some are missing.
    """
    return any(join.args.get("method") for join in joins_of(select))


def is_hiding(join: exp.Join) -> bool:
    """Whether only the join's own condition sees its table."""
    return kind_of(join) in _HIDING_KINDS


def conditions_on_table(select: exp.Select, place: int) -> Iterator[exp.Expr]:
    """Conditions that rows of a table must meet to matter to a SELECT.

    Args:
        select: A SELECT whose joins do not pick by neighbours.
        place: The table's place in the FROM clause.

    Returns:
        Conjuncts; each holds for every row of the table that can matter, if it is about this table alone and
        never true for NULLs (`engine.plan.conditions` argues why).
    """
    joins = joins_of(select)
    hidden = place > 0 and is_hiding(joins[place - 1])
    if not hidden:
        yield from where_of(select)
    for order, join in enumerate(joins, 1):
        is_right = order == place and side_of(join) in DROPPING_SIDES
        is_left = order > place and not side_of(join) and kind_of(join) in FILTERING_KINDS and not hidden
        if is_right or is_left:
            yield from conjuncts(join.args.get("on"))


def certain_conditions(select: exp.Select) -> list[exp.Expr]:
    """Conjuncts that are true for every row that comes out of a SELECT's WHERE: those of WHERE, and of inner
    and semi joins, where no later join makes rows of NULLs.
    """
    found = where_of(select)
    if picks_by_neighbours(select) or any(side_of(join) in {"RIGHT", "FULL"} for join in joins_of(select)):
        return found
    for join in joins_of(select):
        if not side_of(join) and kind_of(join) in FILTERING_KINDS:
            found += conjuncts(join.args.get("on"))
    return found
