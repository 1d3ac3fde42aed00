"""Subqueries that read other rows for each row, all of which are on that row's host.

A correlated subquery works on the rows of its FROM that its WHERE lets through for one row around it. If
WHERE equals a key of those rows to a key of the row around, all of them are on the host of that row, and
everything after WHERE (grouping, LIMIT, an EXISTS around it) sees what it would see on one host. That a key
is NULL does no harm: then WHERE lets nothing through, on any host. Rows that are everywhere need no such key.

`x IN (SELECT y …)` that is not correlated compares x with all of y. If x is a key of its row, and y a key
with the same layout, every y that equals x is on the host of x, so the answer is TRUE on that host exactly
where it is on one host. Where it is not TRUE it may be FALSE or NULL, which depends on NULLs among y and on
whether there is any y; so either neither can be NULL, or the difference must not matter: IN stands in WHERE,
HAVING or QUALIFY under nothing but AND and OR, where both drop the row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from engine.plan.logical.equalities import Equalities
from engine.plan.logical.trees import location_text, unwrap
from engine.plan.split.joins import Item, known_types
from engine.plan.split.placement import Key, Placement, Spread, are_connected


@dataclass(frozen=True)
class Frame:
    """A SELECT around a subquery.

    Attributes:
        rows: Where the rows are for which the subquery is worked out.
        types: Types of the columns of these rows.
    """

    rows: Placement
    types: Mapping[str, pa.DataType]


def is_key_correlated(
    items: Sequence[Item], rows: Spread, where: Sequence[exp.Expr], frames: Sequence[Frame]
) -> bool:
    """Whether the rows of a subquery that its WHERE lets through are on the host of the row around it.

    Args:
        items: Tables of its FROM clause.
        rows: Where the rows of the FROM clause are.
        where: Conjuncts of its WHERE.
        frames: The SELECTs around it.

    Returns:
        True if WHERE equals a key of the rows to a key of one of the SELECTs around.
    """
    types = dict(known_types(items))
    outer = [key for frame in frames if isinstance(frame.rows, Spread) for key in frame.rows.keys]
    for frame in frames:
        types.update(frame.types)
    types.update(
        {
            name: arrow_type
            for key in outer
            for names, arrow_type in zip(key.columns, key.layout.types, strict=True)
            for name in names
        }
    )
    equalities = Equalities(where, types)
    return any(are_connected(mine, theirs, equalities) for mine in rows.keys for theirs in outer)


def is_local_membership(query: exp.Query, rows: Spread, names: Sequence[str], frame: Frame) -> bool:
    """Whether `x IN (query)` is the same on the host of x as on one host with everything.

    Args:
        query: An uncorrelated subquery.
        rows: Where its rows are.
        names: Names of its outputs.
        frame: The SELECT in whose expressions it stands.

    Returns:
        True if the places of a key on both sides agree, and NULLs cannot make a difference.
    """
    holder = query.parent if isinstance(query.parent, exp.Subquery) else query
    member = holder.parent if holder is not None else None
    if (
        not isinstance(member, exp.In)
        or member.args.get("query") is not holder
        or not isinstance(frame.rows, Spread)
    ):
        return False
    left = unwrap(member.this)
    values = [location_text(each) for each in (left.expressions if isinstance(left, exp.Tuple) else [left])]
    if len(values) != len(names):
        return False
    pairs = [
        (mine, theirs)
        for mine in frame.rows.keys
        for theirs in rows.keys
        if _keys_meet(mine, theirs, values, names)
    ]
    never_null = (
        any(not mine.has_nulls and not theirs.has_nulls for mine, theirs in pairs) and len(values) == 1
    )
    return bool(pairs) and (never_null or _only_true_matters(member))


def _keys_meet(mine: Key, theirs: Key, values: Sequence[str | None], names: Sequence[str]) -> bool:
    """Whether each place of a key stands on the left of IN, and the same place of the other key at that
    position on the right.
    """
    return mine.layout == theirs.layout and all(
        any(value in ours and name in others for value, name in zip(values, names, strict=True))
        for ours, others in zip(mine.columns, theirs.columns, strict=True)
    )


def _only_true_matters(node: exp.Expr) -> bool:
    parent = node.parent
    while isinstance(parent, exp.And | exp.Or | exp.Paren):
        parent = parent.parent
    return isinstance(parent, exp.Where | exp.Having | exp.Qualify)
