"""Joins that every host can do on its own: of sides spread alike on equal keys, and with sides that are
everywhere.

What a FROM clause gives is spread if, for every row that can come out of WHERE, all rows that took part in it
are on one host:

- Inner joins (and commas): the spread tables must be connected by equalities of their keys, in WHERE or in
  the conditions of inner and semi joins; in a row that meets them all, the keys are equal and not NULL, so
  its parts are on one host. Rows that do not meet them are lost anyway. Tables that are everywhere may be
  joined to these at will, as long as one table is spread, so that no row comes out twice.
- LEFT, SEMI and ANTI joins: the left side must be spread, so that a row without a partner comes out once. The
  right side must be everywhere, or spread with a key that the join's condition equals to one of the left:
  then all partners of a left row are on its host. WHERE may help to tell that two columns are equal, as it
  drops every row where they are not, whatever became of it at the join. A right key is NULL in rows without a
  partner; such rows are on any host.
- RIGHT joins are the mirror image, and FULL joins need both sides spread; here WHERE does not help, because a
  row that it would drop can be a partner before, so that each join's own condition must do it, and tables
  after a comma (which binds less than a join) are left to others. Of a FULL join's two keys, `COALESCE(left,
  right)` is a key without NULLs.
- ASOF joins pick one row of the right side for each row of the left: as LEFT joins, with the key among their
  equalities. WHERE does not help.
- POSITIONAL joins pair rows by an order that no host knows alone.

Duplicates: a row of a spread table is on one host only, so each pair is formed once. Empty partitions give no
    rows on either side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from engine.plan.logical.equalities import Equalities, equal_tables
from engine.plan.logical.trees import column_named, free_aliases, used_arguments
from engine.plan.split.placement import Everywhere, Key, Placement, Relation, Spread, are_connected


@dataclass(frozen=True)
class JoinType:
    """How a join adds a table.

    Attributes:
        side: `""`, `LEFT`, `RIGHT` or `FULL`.
        variant: `""` for an inner join, `SEMI` or `ANTI`.
        method: `""`, `ASOF` or `POSITIONAL`.
        is_comma: Whether it is written as a comma.
    """

    side: str = ""
    variant: str = ""
    method: str = ""
    is_comma: bool = False

    @property
    def is_inner(self) -> bool:
        """Whether it is an inner or cross join."""
        return not (self.side or self.variant or self.method)

    @property
    def keeps_right(self) -> bool:
        """Whether rows of the right side come out without a partner."""
        return self.side in {"RIGHT", "FULL"}


@dataclass(frozen=True)
class Item:
    """One table of a FROM clause.

    Attributes:
        node: The table.
        alias: Its name.
        relation: What is known of it.
        join: How it is joined to those before it.
        on: The conditions of that join.
    """

    node: exp.Expr
    alias: str
    relation: Relation
    join: JoinType
    on: tuple[exp.Expr, ...] = ()

    @property
    def is_spread(self) -> bool:
        """Whether its rows are spread over hosts."""
        return isinstance(self.relation.placement, Spread)


def join_type(join: exp.Join) -> JoinType:
    """How a join of a resolved tree adds its table."""
    variant = str(join.args.get("kind") or "").upper()
    side, method = (str(join.args.get(part) or "").upper() for part in ("side", "method"))
    return JoinType(
        side,
        "" if variant in {"INNER", "CROSS", "OUTER"} else variant,
        method,
        is_comma=used_arguments(join) == {"this"},
    )


def is_inner_only(items: Sequence[Item]) -> bool:
    """Whether a FROM clause has inner joins alone, so that the order of its tables does not matter."""
    return all(item.join.is_inner for item in items)


def known_types(items: Sequence[Item]) -> Mapping[str, pa.DataType]:
    """Types of the columns of a FROM clause."""
    found: dict[str, pa.DataType] = {}
    for item in items:
        found.update(item.relation.types)
        if isinstance(item.relation.placement, Spread):
            for key in item.relation.placement.keys:
                found.update(
                    {
                        name: arrow_type
                        for names, arrow_type in zip(key.columns, key.layout.types, strict=True)
                        for name in names
                    }
                )
    return found


def place_joins(items: Sequence[Item], where: Sequence[exp.Expr]) -> Placement | None:
    """Where the rows of a FROM clause are, as far as WHERE lets them through.

    Args:
        items: Its tables, at least one.
        where: The conjuncts of WHERE.

    Returns:
        The placement; None where hosts cannot do the joins each on its own.
    """
    if any(item.relation.placement is None or item.join.method == "POSITIONAL" for item in items):
        return None
    if not any(item.is_spread for item in items):
        return Everywhere()
    if any(item.join.keeps_right for item in items):
        return _place_in_order(items)
    equalities = connecting_equalities(items, where)
    return _place_around_inner(items, equalities)


def connecting_equalities(items: Sequence[Item], where: Sequence[exp.Expr]) -> Equalities:
    """Equalities that hold in every row of a FROM clause without RIGHT and FULL joins that WHERE lets
    through.
    """
    held = [
        condition
        for item in items
        if item.join.is_inner or item.join.variant == "SEMI"
        for condition in item.on
        if not item.join.method
    ]
    return Equalities((*where, *held), known_types(items))


def components(items: Sequence[Item], equalities: Equalities) -> list[list[Item]]:
    """Groups of spread tables of inner joins that are connected by their keys, in the order of their first
    tables.
    """
    spread = [item for item in items if item.is_spread]
    return _groups(
        spread,
        [
            (item, other)
            for place, item in enumerate(spread)
            for other in spread[:place]
            if _are_connected(item, other, equalities)
        ],
    )


def are_on_one_host(items: Sequence[Item]) -> bool:
    """Whether all rows of some spread tables are on one host, so that they are connected though no condition
    may join them.
    """
    return all(any(key.is_of_all_rows for key in _keys(item)) for item in items)


def compared_groups(items: Sequence[Item], where: Sequence[exp.Expr]) -> list[list[Item]]:
    """Groups of tables that conditions compare with each other.

    Args:
        items: The tables.
        where: All conjuncts that hold, those of the joins too.
    """
    compared = [equal_tables([condition]) for condition in where]
    return _groups(
        items,
        [
            (item, other)
            for place, item in enumerate(items)
            for other in items[:place]
            if {item.alias, other.alias} in compared
        ],
    )


def _groups(items: Sequence[Item], pairs: Sequence[tuple[Item, Item]]) -> list[list[Item]]:
    """Tables put together by pairs of them, in their order."""
    groups = [[item] for item in items]
    for pair in pairs:
        touching = [group for group in groups if any(member is each for member in group for each in pair)]
        groups = [group for group in groups if group not in touching]
        groups.append([member for group in touching for member in group])
    order = {item.alias: index for index, item in enumerate(items)}
    found = [sorted(group, key=lambda item: order[item.alias]) for group in groups]
    return sorted(found, key=lambda group: order[group[0].alias])


def connections(
    group: Sequence[Item], where: Sequence[exp.Expr], types: Mapping[str, pa.DataType]
) -> list[exp.Expr]:
    """Equalities of the keys of connected tables that follow from conditions about others: `a = x AND x = b`
    says `a = b` without x.

    Args:
        group: Tables of inner joins that `components` found.
        where: All conjuncts that hold, those of the joins too.
        types: Types of all columns.

    Returns:
        What conditions about these tables alone do not say.
    """
    if len(group) < 2:
        return []
    aliases = {item.alias for item in group}
    known = Equalities([condition for condition in where if free_aliases(condition) <= aliases], types)
    all_known = Equalities(where, types)
    found: list[exp.Expr] = []
    for index, item in enumerate(group):
        for mine, theirs in (
            (mine, theirs) for other in group[:index] for mine in _keys(item) for theirs in _keys(other)
        ):
            if are_connected(mine, theirs, all_known) and not are_connected(mine, theirs, known):
                new = [
                    _equality(left, right, all_known)
                    for left, right in zip(theirs.columns, mine.columns, strict=True)
                ]
                known.add(new)
                found += new
    return found


def _equality(left: frozenset[str], right: frozenset[str], known: Equalities) -> exp.Expr:
    """An equality of two sets of columns that is known to hold."""
    one, other = next(
        (one, other) for one in sorted(left) for other in sorted(right) if known.are_equal(one, other)
    )
    return exp.EQ(this=column_named(one), expression=column_named(other))


def _keys(item: Item) -> tuple[Key, ...]:
    return item.relation.placement.keys if isinstance(item.relation.placement, Spread) else ()


def _are_connected(first: Item, second: Item, equalities: Equalities) -> bool:
    return any(are_connected(mine, theirs, equalities) for mine in _keys(first) for theirs in _keys(second))


def _place_around_inner(items: Sequence[Item], equalities: Equalities) -> Placement | None:
    """Inner joins among all others but RIGHT and FULL ones."""
    if len(components([item for item in items if item.join.is_inner], equalities)) > 1:
        return None
    before: list[Item] = []
    found: list[Key] = []
    for item in items:
        if item.join.is_inner:
            found += [_widen_key(key, equalities) for key in _keys(item)]
        elif not any(other.is_spread for other in before):
            return None
        elif item.is_spread:
            known = Equalities((), known_types(items)) if item.join.method else equalities.copy()
            known.add(item.on)
            if not any(_are_connected(item, other, known) for other in before):
                return None
            if not item.join.variant:
                found += [replace(key, has_nulls=True) for key in _keys(item)]
        if item.join.variant not in {"SEMI", "ANTI"}:
            before.append(item)
    return Spread(tuple(dict.fromkeys(found)))


def _widen_key(key: Key, equalities: Equalities) -> Key:
    """A key with all expressions that equal its own; one that must equal another is not NULL."""
    columns = tuple(frozenset().union(*(equalities.members(name) for name in names)) for names in key.columns)
    compared = all(any(equalities.is_compared(name) for name in names) for names in key.columns)
    return Key(key.layout, columns, key.has_nulls and not compared)


def _place_in_order(items: Sequence[Item]) -> Placement | None:
    """Joins of all kinds, one after the other, each by its own condition."""
    if any(item.join.is_comma or item.join.method for item in items):
        return None
    types = known_types(items)
    placement = items[0].relation.placement
    for item in items[1:]:
        placement = _place_join(placement, item, Equalities(item.on, types))
        if placement is None:
            return None
    return placement


def _place_join(left: Placement | None, item: Item, equalities: Equalities) -> Placement | None:
    right, join = item.relation.placement, item.join
    mine = left.keys if isinstance(left, Spread) else ()
    theirs = right.keys if isinstance(right, Spread) else ()
    pairs = [(one, other) for one in mine for other in theirs if are_connected(one, other, equalities)]
    if isinstance(left, Spread) and isinstance(right, Spread) and not pairs:
        return None
    if join.side == "FULL":
        both = isinstance(left, Spread) and isinstance(right, Spread)
        return (
            Spread(
                (*_nullable_keys(mine), *_nullable_keys(theirs), *(_coalesce_keys(*pair) for pair in pairs))
            )
            if both
            else None
        )
    if join.side == "RIGHT":
        return Spread((*_nullable_keys(mine), *theirs)) if isinstance(right, Spread) else None
    if join.is_inner:
        return Spread((*mine, *theirs)) if isinstance(left, Spread) or isinstance(right, Spread) else left
    if not isinstance(left, Spread):
        return left if isinstance(right, Everywhere) else None
    return Spread((*mine, *(() if join.variant else _nullable_keys(theirs))))


def _nullable_keys(keys: Sequence[Key]) -> tuple[Key, ...]:
    return tuple(replace(key, has_nulls=True) for key in keys)


def _coalesce_keys(left: Key, right: Key) -> Key:
    columns = tuple(
        frozenset(f"COALESCE({one}, {other})" for one in mine for other in theirs)
        for mine, theirs in zip(left.columns, right.columns, strict=True)
    )
    return Key(left.layout, columns, left.has_nulls or right.has_nulls)
