"""Which tables of a FROM clause to send to every host, so that the rest can stay where it is.

Any table of inner joins may be everywhere, as long as one is spread; of LEFT, SEMI and ANTI joins the right side. A side whose rows come out without
a partner must stay spread, or every host would put them out. `engine.plan.split.joins` proves each choice; this module proposes.

It pays where what is sent is little: stores that are small, or tables of which constants in WHERE leave few rows. What stays is what is big: not
small, not reduced by constants, of most stores. Where two big sides remain, nothing is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from sqlglot import exp

from engine.plan.split.joins import Item, components, connecting, is_inner_only, place_joins
from engine.plan.split.placement import Everywhere, Relation, Spread
from engine.plan.split.trees import free_aliases, own_queries
from engine.schema import StoreName

StoresOf = Callable[[Item], Collection[StoreName]]


def to_broadcast(items: Sequence[Item], where: Sequence[exp.Expr], small: Collection[StoreName], stores_of: StoresOf) -> list[list[Item]]:
    """Choose tables to send to every host.

    Args:
        items: The tables of a FROM clause that hosts cannot join as it is.
        where: The conjuncts of WHERE.
        small: Stores cheap enough to be sent.
        stores_of: The stores that a table reads.

    Returns:
        Groups of tables, each to be sent as one; none if no choice is good.
    """
    if any(item.relation.placement is None for item in items):
        return []
    if not is_inner_only(items):
        return _beside_other_joins(items, where, small, stores_of)
    groups = components(items, connecting(items, where))
    if len(groups) < 2:
        return []

    def is_small(group: Sequence[Item]) -> bool:
        return all(set(stores_of(item)) <= set(small) for item in group)

    def size(group: Sequence[Item]) -> tuple[bool, bool, int]:
        return not is_small(group), not is_reduced(group, where), sum(len(stores_of(item)) for item in group)

    kept = max(groups, key=size)
    sent = [group for group in groups if group is not kept]
    return sent if not is_small(kept) and all(is_small(group) or is_reduced(group, where) for group in sent) else []


def is_reduced(group: Sequence[Item], where: Sequence[exp.Expr]) -> bool:
    """Whether constants, parameters or subqueries in WHERE leave only some rows of tables."""
    aliases = {item.alias for item in group}
    conditions = (condition for condition in where if free_aliases(condition) and free_aliases(condition) <= aliases)
    return any(condition.find(exp.Literal, exp.Placeholder) is not None or any(True for _ in own_queries(condition)) for condition in conditions)


def _beside_other_joins(items: Sequence[Item], where: Sequence[exp.Expr], small: Collection[StoreName], stores_of: StoresOf) -> list[list[Item]]:
    candidates = [item for item in items if item.is_spread and set(stores_of(item)) <= set(small)]
    if len(candidates) == sum(item.is_spread for item in items):
        return []
    for chosen in (candidates, [item for item in candidates if item.join.side != "" or item.join.kind]):
        sent = {item.alias for item in chosen}
        tried = [replace(item, relation=Relation(Everywhere(), item.relation.types)) if item.alias in sent else item for item in items]
        if chosen and isinstance(place_joins(tried, where), Spread):
            return [[item] for item in chosen]
    return []
