"""UNION, INTERSECT and EXCEPT that every host can do on its own.

UNION ALL of two spread sides is spread: each host puts its rows of one under its rows of the other. The other
set operations compare rows of both sides, so equal rows must be on one host: both sides must have a key of
one layout at the same places of their outputs, never NULL. Then equal rows, of either side, have equal keys,
and the numbers of duplicates that INTERSECT ALL and EXCEPT ALL count are complete on their host. The types of
the key's columns are equal on both sides, so that no conversion comes between; other columns may be
converted, as on one host. Where both sides are everywhere, so is the outcome, since no set operation says
more of a row than its values and their number. A spread and an everywhere side do not go
together: every host would add or compare the latter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from engine.plan.split.placement import Everywhere, Key, Relation, Spread


def place_set_operation(
    query: exp.SetOperation, left: Relation, right: Relation, names: Sequence[str], right_names: Sequence[str]
) -> Relation:
    """What is known of a set operation's rows.

    Args:
        query: The set operation; its ORDER BY and LIMIT are for the coordinator.
        left: What is known of the left side.
        right: What is known of the right side.
        names: Outputs of the left side, which are those of the whole.
        right_names: Outputs of the right side.

    Returns:
        The relation; its placement is None where hosts would have to see rows of others.
    """
    renamed = dict(zip(right_names, names, strict=True))
    types = {
        name: arrow_type
        for other, name in renamed.items()
        if (arrow_type := left.types.get(name)) is not None and right.types.get(other) == arrow_type
    }
    if any(query.args.get(part) for part in ("order", "limit", "offset")):
        return Relation(None, types)
    if isinstance(left.placement, Everywhere) and isinstance(right.placement, Everywhere):
        return Relation(Everywhere(), types)
    if not isinstance(left.placement, Spread) or not isinstance(right.placement, Spread):
        return Relation(None, types)
    pairs = ((mine, theirs) for mine in left.placement.keys for theirs in right.placement.keys)
    keys = tuple(dict.fromkeys(key for pair in pairs if (key := _common_key(*pair, renamed)) is not None))
    keeps_all = isinstance(query, exp.Union) and not query.args.get("distinct")
    if keeps_all or any(not key.has_nulls for key in keys):
        return Relation(Spread(keys), types)
    return Relation(None, types)


def _common_key(mine: Key, theirs: Key, renamed: Mapping[str, str]) -> Key | None:
    """The key that both sides have at the same places of their outputs."""
    if mine.layout != theirs.layout:
        return None
    columns = tuple(
        ours & frozenset(renamed[name] for name in others if name in renamed)
        for ours, others in zip(mine.columns, theirs.columns, strict=True)
    )
    return Key(mine.layout, columns, mine.has_nulls or theirs.has_nulls) if all(columns) else None
