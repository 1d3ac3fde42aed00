"""Which tables of a FROM clause to send to every host, so that the rest can stay where it is.

Any table of inner joins may be everywhere, as long as one is spread; of LEFT, SEMI and ANTI joins the right
side. A side whose rows come out without a partner must stay spread, or every host would put them out.
`engine.plan.split.joins` proves each choice; this module proposes.

A small store is sent as a whole, and what conditions leave of it is left by each host: of rows that were left
out before, a host's engine does not know, and takes those that came for all that there can be. So it joins
them late, though they leave little of the others. For the same reason stores of one partition are sent one by
one, though their host could join them: sent joined, TPC-H's query 5 took eight times as long.

What stays is what has most bytes. Sending the others pays where they are little: by themselves, since every
host holds them in memory; and beside what stays, since gathering all of it sends each row once, and not to
every host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from engine.plan.logical.selects import where_of
from engine.plan.logical.trees import free_aliases
from engine.plan.split.correlated import Frame
from engine.plan.split.joins import (
    Item,
    are_on_one_host,
    components,
    connecting_equalities,
    connections,
    is_inner_only,
    known_types,
    place_joins,
)
from engine.plan.split.pieces import Piece, cut, cut_table, move_conditions_into_where, whole_table
from engine.plan.split.placement import Everywhere, Relation, Spread
from engine.plan.split.planner import Planner, SelectRule

RULE = "broadcast"

_TIMES = 2
"""How many times the bytes that are sent those that stay must be: the least number of other hosts where it
matters.
"""
_WHOLE = 1 / 16
"""Share of the limit up to which a store is sent as a whole."""
_WORTHWHILE = 1 / 64
"""Share of the limit up to which everything is gathered: a stage less, and nothing to speak of to send."""


def broadcast(planner: Planner, select: exp.Select, frames: Sequence[Frame]) -> None:
    """Send tables of a FROM clause to every host, if the others can stay where they are then.

    Args:
        planner: The planner.
        select: The SELECT; changed in place.
        frames: The SELECTs around it.
    """
    items = planner.placer.items(select, frames)
    if sum(item.is_spread for item in items) < 2 or place_joins(items, where_of(select)) is not None:
        return
    inner = is_inner_only(items)
    where = [*where_of(select), *(condition for item in items for condition in item.on if inner)]
    chosen = tables_to_broadcast(planner, select, items, where)
    if chosen and inner:
        move_conditions_into_where(select, items)
    for group in chosen:
        planner.put_piece(select, _piece(planner, select, items, group, where), RULE)


def _piece(
    planner: Planner,
    select: exp.Select,
    items: Sequence[Item],
    group: Sequence[Item],
    where: Sequence[exp.Expr],
) -> Piece:
    """What is sent of a group of tables."""
    if not is_inner_only(items):
        return cut_table(select, items, group[0], planner.placer)
    if len(group) == 1 and _is_small_store(planner, group[0]):
        return whole_table(select, group[0])
    return cut(select, group, planner.placer, connections(group, where, known_types(items)))


def _is_small_store(planner: Planner, item: Item) -> bool:
    nbytes = planner.estimator.store_bytes(item.node)
    return nbytes is not None and nbytes <= planner.sizes.limit_bytes * _WHOLE


def tables_to_broadcast(
    planner: Planner, select: exp.Select, items: Sequence[Item], where: Sequence[exp.Expr]
) -> list[list[Item]]:
    """Choose tables to send to every host.

    Args:
        planner: The planner.
        select: The SELECT.
        items: The tables of its FROM clause, which hosts cannot join as it is.
        where: The conjuncts of WHERE; those of inner joins too, if there are no others.

    Returns:
        Groups of tables, each to be sent as one; none if no choice is good.
    """
    if any(item.relation.placement is None for item in items):
        return []
    if not is_inner_only(items):
        return _tables_beside_other_joins(planner, select, items, where)
    about = [(condition, free_aliases(condition)) for condition in where]
    estimator, limit_bytes = planner.estimator, planner.sizes.limit_bytes
    # Each group of the inner lists is sent as one; all of an inner list may stay together.
    found = [
        [[item] for item in component] if are_on_one_host(component) else [component]
        for component in components(items, connecting_equalities(items, where))
    ]
    if len(found) < 2:
        return []
    estimates = [sum(estimator.bytes_of(select, group, about) for group in groups) for groups in found]
    kept = max(range(len(estimates)), key=lambda index: estimates[index])
    if not _is_worthwhile(sum(estimates) - estimates[kept], estimates[kept], limit_bytes):
        return []
    return [group for index, groups in enumerate(found) if index != kept for group in groups]


def _is_worthwhile(sent: float, kept: float, limit_bytes: int) -> bool:
    return sent <= limit_bytes and kept >= _TIMES * sent and kept + sent > limit_bytes * _WORTHWHILE


def _tables_beside_other_joins(
    planner: Planner, select: exp.Select, items: Sequence[Item], where: Sequence[exp.Expr]
) -> list[list[Item]]:
    limit_bytes = planner.sizes.limit_bytes
    estimates = {
        item.alias: planner.estimator.bytes_of(select, [item], ()) for item in items if item.is_spread
    }
    candidates = [item for item in items if estimates.get(item.alias, limit_bytes + 1) <= limit_bytes]
    may_lack_partners = [item for item in candidates if item.join.side != "" or item.join.variant]
    smaller = sorted(candidates, key=lambda item: estimates[item.alias])[: len(estimates) - 1]
    for chosen in (smaller, may_lack_partners):
        sent = {item.alias for item in chosen}
        kept = max((size for alias, size in estimates.items() if alias not in sent), default=0.0)
        tried = [
            replace(item, relation=Relation(Everywhere(), item.relation.types))
            if item.alias in sent
            else item
            for item in items
        ]
        pays = _is_worthwhile(sum(estimates[alias] for alias in sent), kept, limit_bytes)
        if chosen and pays and isinstance(place_joins(tried, where), Spread):
            return [[item] for item in items if item.alias in sent]
    return []


BROADCAST = SelectRule(RULE, broadcast)
