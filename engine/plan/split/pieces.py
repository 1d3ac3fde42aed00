"""A FROM clause that hosts cannot do alone, taken to pieces that they can.

A piece is some tables of the clause with the conjuncts of WHERE that are about them alone, worked out by
hosts and put in the place of these tables:

- In a clause of inner joins a piece may be any tables together, in any order, with all conjuncts about them
  alone; the others stay in WHERE, where those of the joins go too. A row of the clause is a choice of one row
  from each piece that meets the rest.
- With other joins a piece is one table, and stays in its place. A conjunct of WHERE goes into the piece of a
  table that no join pads with NULLs, so that the row of the table is the same before and after all joins. A
  conjunct of a join's own condition goes into the piece of its right side unless the join keeps right rows
  without a partner: a row that fails it is nobody's partner. Joins that pick rows by their neighbours (ASOF,
  POSITIONAL) could pick others when some are missing; in a clause with one of these no condition moves.

Only the columns that the SELECT, with its subqueries, still reads are sent. NULLs, duplicates and types are
those of the tables. What is volatile, or has a subquery that is not local, is no condition of a piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from engine.plan.logical.function_properties import is_volatile
from engine.plan.logical.selects import set_where, where_of
from engine.plan.logical.trees import (
    UniqueNames,
    column,
    conjunction,
    conjuncts,
    free_aliases,
    named_output,
    own_nodes,
    own_queries,
    select_from,
    table,
)
from engine.plan.split.correlated import Frame
from engine.plan.split.joins import Item, is_inner_only, known_types, place_joins
from engine.plan.split.place import Placer
from engine.plan.split.placement import Spread


@dataclass(frozen=True)
class Piece:
    """Tables of a FROM clause that hosts work out.

    Attributes:
        aliases: Their aliases.
        query: What hosts run; its outputs are the columns that the rest of the statement reads.
        names: For each of these columns, by alias and name, the output that has it.
    """

    aliases: frozenset[str]
    query: exp.Select
    names: dict[tuple[str, str], str]


def cut(select: exp.Select, chosen: Sequence[Item], placer: Placer, more: Sequence[exp.Expr] = ()) -> Piece:
    """Make a piece of some tables of a FROM clause of inner joins; conjuncts about them alone leave the
    SELECT.

    Args:
        select: The SELECT, whose conditions all stand in WHERE (see `move_conditions_into_where`).
        chosen: Tables of its FROM clause, in the order of the clause.
        placer: Places its rows.
        more: Conditions that the rest of the SELECT asks for anyway.

    Returns:
        The piece. The SELECT still reads the tables themselves.
    """
    aliases = frozenset(item.alias for item in chosen)
    where = where_of(select)
    frame = Frame(place_joins(chosen, where) or Spread(), known_types(chosen))
    inside = [condition for condition in where if _is_about(condition, aliases, placer, frame)]
    set_where(select, [condition for condition in where if not any(condition is each for each in inside)])
    return _piece(select, chosen, [*inside, *more])


def whole_table(select: exp.Select, item: Item) -> Piece:
    """Make a piece of one table of any FROM clause; all conditions stay in the SELECT.

    Args:
        select: The SELECT.
        item: The table.
    """
    return _piece(select, [item], ())


def cut_table(select: exp.Select, items: Sequence[Item], item: Item, placer: Placer) -> Piece:
    """Make a piece of one table of any FROM clause; conditions about it leave the SELECT.

    Args:
        select: The SELECT; what the piece takes over leaves its conditions.
        items: All tables of its FROM clause.
        item: The table.
        placer: Places its rows.

    Returns:
        The piece.
    """
    assert item.relation.placement is not None
    index = next(number for number, each in enumerate(items) if each is item)
    frame, aliases = Frame(item.relation.placement, item.relation.types), frozenset({item.alias})
    padded = item.join.side in {"LEFT", "FULL"} or any(each.join.keeps_right for each in items[index + 1 :])
    moves = all(not each.join.method for each in items)

    def movable_conditions(conditions: Sequence[exp.Expr]) -> list[exp.Expr]:
        return [
            each
            for each in conditions
            if _is_about(each, aliases, placer, frame) and not list(own_queries(each))
        ]

    where, on = where_of(select), list(item.on)
    from_where = movable_conditions(where) if moves and not padded and not item.join.variant else []
    from_on = movable_conditions(on) if moves and not item.join.keeps_right else []
    set_where(select, [each for each in where if not any(each is gone for gone in from_where)])
    if from_on:
        kept = conjunction([each for each in on if not any(each is gone for gone in from_on)])
        item.node.parent.set("on", kept or exp.true())  # type: ignore[union-attr]
    return _piece(select, [item], [*from_where, *from_on])


def _is_about(condition: exp.Expr, aliases: frozenset[str], placer: Placer, frame: Frame) -> bool:
    """Whether a condition is about some tables alone, and hosts know for their rows whether it holds."""
    read = free_aliases(condition)
    return (
        bool(read)
        and read <= aliases
        and not any(is_volatile(node) for node in own_nodes(condition))
        and all(placer.is_local(query, (frame,)) for query in own_queries(condition))
    )


def _piece(select: exp.Select, chosen: Sequence[Item], conditions: Sequence[exp.Expr]) -> Piece:
    aliases = frozenset(item.alias for item in chosen)
    moved = {id(condition) for condition in conditions}
    in_tables = {id(item.node) for item in chosen}
    read = dict.fromkeys(
        (found.table, found.name) for found in _columns(select, moved | in_tables) if found.table in aliases
    )
    unique = UniqueNames()
    names = {(alias, name): unique.add(name) for alias, name in read}
    outputs: list[exp.Expr] = [named_output(column(*source), name) for source, name in names.items()]
    query = select_from(outputs or [named_output(exp.Literal.number(1), "one")], chosen[0].node.copy())
    query.set("joins", [_rejoin(item) for item in chosen[1:]])
    set_where(query, [condition.copy() for condition in conditions])
    return Piece(aliases, query, names)


def _columns(node: exp.Expr, without: set[int]) -> list[exp.Column]:
    """Columns of a tree, but for those below some nodes."""
    found: list[exp.Column] = []
    pending = [node]
    while pending:
        each = pending.pop()
        if id(each) in without:
            continue
        if isinstance(each, exp.Column):
            found.append(each)
        else:
            pending.extend(reversed(list(each.iter_expressions())))
    return found


def _rejoin(item: Item) -> exp.Join:
    """A table of a piece, joined as before, or by a comma if its condition stands in WHERE."""
    join = item.node.parent
    copied = join.copy() if isinstance(join, exp.Join) else exp.Join(this=item.node.copy())
    copied.set(
        "kind", "CROSS" if item.join.is_inner and not copied.args.get("on") else copied.args.get("kind")
    )
    assert isinstance(copied, exp.Join)
    return copied


def move_conditions_into_where(select: exp.Select, items: Sequence[Item]) -> None:
    """Move the conditions of a FROM clause's inner joins to WHERE, where they mean the same."""
    assert is_inner_only(items)
    where = where_of(select)
    for join in select.args.get("joins") or ():
        where += conjuncts(join.args.get("on"))
        for part in ("on", "kind", "side"):
            join.set(part, None)
    set_where(select, where)


def put_in_place(select: exp.Select, piece: Piece, part: str) -> exp.Table:
    """Let a SELECT read a piece's rows in place of its tables.

    Args:
        select: The SELECT; changed in place.
        piece: A piece of its FROM clause.
        part: Name of the table with the piece's rows.

    Returns:
        The table that stands for the piece.
    """
    alias = next(iter(piece.aliases)) if len(piece.aliases) == 1 else part
    stand_in = table(part, alias)
    clause = select.args["from_"]
    joins = list(select.args.get("joins") or ())
    places = [holder for holder in (clause, *joins) if holder.this.alias in piece.aliases]
    places[0].set("this", stand_in)
    gone = {id(holder) for holder in places[1:]}
    select.set("joins", [join for join in joins if id(join) not in gone])
    if len(piece.aliases) > 1:
        for found in list(select.find_all(exp.Column)):
            name = piece.names.get((found.table, found.name))
            if name is not None:
                found.set("this", exp.to_identifier(name, quoted=True))
                found.set("table", exp.to_identifier(alias, quoted=True))
    return stand_in
