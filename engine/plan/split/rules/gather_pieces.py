"""A SELECT that hosts cannot answer alone: they work out pieces of its FROM clause, the coordinator the rest.

Why the pieces together are the FROM clause `engine.plan.split.pieces` says. Tables of inner joins that hosts
can join are one piece. A piece that conditions make small comes first, and others send only rows that may
have a partner in it (`engine.plan.split.semi_join`). Correlated subqueries that are left read pieces, too. It
is the last rule: it knows every SELECT.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from engine.plan.logical.selects import where_of
from engine.plan.logical.trees import expressions_of, free_aliases, own_queries
from engine.plan.split.gather_stores import RULE as GATHER
from engine.plan.split.joins import (
    Item,
    are_on_one_host,
    components,
    connecting_equalities,
    is_inner_only,
    known_types,
    place_joins,
)
from engine.plan.split.pieces import cut, cut_table, move_conditions_into_where
from engine.plan.split.placement import Spread
from engine.plan.split.planner import AnswerRule, Planner, SplitAnswer
from engine.plan.split.semi_join import Donor, reductions

_TIMES = 2
"""How many times the bytes of known rows those of a table must be to send the known rows to it."""
_REDUCED_BY = 4
"""What part of a table may have a partner among known rows."""


def gather_pieces(planner: Planner, query: exp.Query) -> SplitAnswer | None:
    """Let the coordinator answer a SELECT over pieces of its FROM clause, which hosts work out.

    Args:
        planner: The planner.
        query: A prepared query.

    Returns:
        The answer; None if it is no SELECT.
    """
    if not isinstance(query, exp.Select):
        return None
    _read_pieces(planner, query, ())
    return SplitAnswer(query, None, GATHER)


def _read_pieces(planner: Planner, select: exp.Select, donors: Sequence[Donor]) -> None:
    """Put fragments in the places of a SELECT's tables, and of those of its subqueries."""
    items = planner.placer.items(select)
    made = list(donors)
    if is_inner_only(items):
        made += _cut_groups(planner, select, items, _groups_to_gather(planner, select, items), made)
    else:
        for item in items:
            if item.is_spread:
                planner.put_piece(select, cut_table(select, items, item, planner.placer), GATHER)
    for part in [
        *expressions_of(select),
        *(
            holder
            for holder in (select.args.get("from_"), *(select.args.get("joins") or ()))
            if holder is not None
        ),
    ]:
        for query in list(own_queries(part)):
            _read_pieces_below(planner, query, made)


def _groups_to_gather(planner: Planner, select: exp.Select, items: Sequence[Item]) -> list[list[Item]]:
    """The tables of a FROM clause of inner joins, in groups that hosts join."""
    is_local = isinstance(place_joins(items, where_of(select)), Spread)
    spread = [item for item in items if item.is_spread]
    if is_local and not are_on_one_host(spread):
        return [list(items)]
    where = [*where_of(select), *(condition for item in items for condition in item.on)]
    about = [(condition, free_aliases(condition)) for condition in where]
    groups = [
        group
        for component in components(items, connecting_equalities(items, where_of(select)))
        for joined in planner.estimator.groups_to_send(select, component, about)
        for group in _groups_joined(select, items, joined)
    ]
    return [list(items)] if is_local and len(groups) == 1 else groups


def _groups_joined(select: exp.Select, items: Sequence[Item], group: list[Item]) -> list[list[Item]]:
    """A group of tables, together if conditions about them alone connect them."""
    aliases = {item.alias for item in group}
    conditions = [*where_of(select), *(condition for item in items for condition in item.on)]
    about = [condition for condition in conditions if free_aliases(condition) <= aliases]
    return [group] if isinstance(place_joins(group, about), Spread) else [[item] for item in group]


def _cut_groups(
    planner: Planner,
    select: exp.Select,
    items: Sequence[Item],
    groups: list[list[Item]],
    donors: Sequence[Donor],
) -> list[Donor]:
    move_conditions_into_where(select, items)
    where = where_of(select)
    about = [(condition, free_aliases(condition)) for condition in where]
    estimates = {id(group): planner.estimator.bytes_of(select, group, about) for group in groups}
    reduced = {id(group): planner.estimator.is_reduced(group, where) for group in groups}
    made: list[Donor] = []
    for group in sorted(groups, key=lambda group: (not reduced[id(group)], estimates[id(group)])):
        aliases = {item.alias for item in group}
        known = {
            **known_types(items),
            **{name: arrow_type for donor in donors for name, arrow_type in donor.types.items()},
        }
        worthwhile = [donor for donor in (*donors, *made) if donor.bytes * _TIMES <= estimates[id(group)]]
        more = reductions(where_of(select), aliases, worthwhile, known)
        piece = cut(select, group, planner.placer, more)
        part = planner.put_piece(select, piece, GATHER)
        if reduced[id(group)] or more:
            size = estimates[id(group)] / (_REDUCED_BY if more else 1)
            made.append(
                Donor(
                    part,
                    piece.names,
                    next(iter(aliases)) if len(aliases) == 1 else part,
                    known_types(items),
                    size,
                )
            )
    return [donor for donor in made if donor.bytes <= planner.sizes.limit_bytes]


def _read_pieces_below(planner: Planner, query: exp.Query, donors: Sequence[Donor]) -> None:
    """Let a correlated subquery read fragments' rows; it stays with the coordinator."""
    if not planner.reads_stores(query):
        return
    if isinstance(query, exp.Select):
        _read_pieces(planner, query, donors)
        return
    for branch in (query.this, query.args["expression"]):
        _read_pieces_below(planner, branch.this if isinstance(branch, exp.Subquery) else branch, donors)


GATHER_PIECES = AnswerRule(GATHER, gather_pieces)
