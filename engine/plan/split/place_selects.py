"""A SELECT that every host can do on its own, as the rows that belong together are on one host.

Its FROM and WHERE give spread rows. What comes then looks at several rows at once:

- GROUP BY: with a key among the grouping expressions (in every grouping set), all rows of a group are on one
  host, which makes the whole of it. The key is never NULL; the other expressions may be, and NULLs group
  together. A host without rows makes no group, which would be wrong only without grouping expressions: that
  is an aggregate over everything, and not done here, even where all rows are on one host. HAVING sees whole
  groups.
- Window functions: with a key in PARTITION BY of each of them, all rows of a window's partition are on one
  host. QUALIFY sees each row alone.
- DISTINCT: with a key among the outputs, equal rows are on one host. DISTINCT ON: with a key among its
  expressions.

Every aggregate and window function will do, as it is given all its rows. Types are those of the same
expressions over the same columns. Rows that are everywhere may only be filtered and computed one by one: what
looks at several of them may come out differently on two hosts (ties, sums of floating point numbers), so that
is worked out once, elsewhere.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from engine.plan.logical.selects import is_aggregating, windows_of
from engine.plan.logical.trees import place_texts, used_arguments
from engine.plan.split.placement import Everywhere, Key, Placement, Spread

_ROW_BY_ROW = frozenset({"expressions", "from_", "joins", "where"})


def place_select(select: exp.Select, rows: Placement) -> Placement | None:
    """Where the rows of a SELECT are, by texts of the expressions of its SELECT list.

    Args:
        select: A resolved SELECT; its ORDER BY, LIMIT and OFFSET are left to others.
        rows: Where the rows are that its FROM and WHERE give.

    Returns:
        The placement; None where a host would have to see rows of others.
    """
    aggregates, windows = is_aggregating(select), windows_of(select)
    if isinstance(rows, Everywhere):
        plain = used_arguments(select) <= _ROW_BY_ROW and not aggregates and not windows
        return rows if plain else None
    if aggregates:
        grouped = _plain_groups(select)
        if not grouped or not rows.has_key_in(grouped):
            return None
        rows = Spread(tuple(found for key in rows.keys if (found := _restrict_key(key, grouped)) is not None))
    if not all(rows.has_key_in(place_texts(window.args.get("partition_by") or ())) for window in windows):
        return None
    distinct = select.args.get("distinct")
    if distinct is not None:
        on = distinct.args.get("on")
        members = (
            [output.this for output in select.expressions]
            if on is None
            else on.expressions
            if isinstance(on, exp.Tuple)
            else [on]
        )
        if not rows.has_key_in(place_texts(members)):
            return None
    return rows


def makes_rows_of_many(query: exp.Query) -> bool:
    """Whether a query makes its rows of several rows of its FROM clause."""
    if not isinstance(query, exp.Select):
        return True
    return is_aggregating(query) or bool(windows_of(query)) or query.args.get("distinct") is not None


def _plain_groups(select: exp.Select) -> set[str]:
    """Texts of the expressions by which every grouping set groups."""
    group = select.args.get("group")
    plain = (
        [each for each in group.expressions if not isinstance(each, exp.GroupingSets | exp.Rollup | exp.Cube)]
        if group is not None
        else []
    )
    return place_texts(plain)


def _restrict_key(key: Key, grouped: set[str]) -> Key | None:
    """A key with those expressions alone that still mean the same after grouping."""
    columns = tuple(names & grouped for names in key.columns)
    return replace(key, columns=columns) if all(columns) else None
