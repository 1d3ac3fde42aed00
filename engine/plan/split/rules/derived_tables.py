"""Derived tables: a subquery of a FROM clause that hosts cannot make alone is worked out before.

Its rows do not depend on the SELECT around it, so they may be worked out first; every host then gets all of
them, as it gets a broadcast side, and the FROM clause reads them in the same place and under the same alias.
One that hosts can make alone stays where it is, and so does one that reads the tables before it (LATERAL).
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from engine.plan.logical.trees import free_aliases, table
from engine.plan.split.correlated import Frame
from engine.plan.split.planner import Planner, SelectRule


def settle_derived_tables(planner: Planner, select: exp.Select, frames: Sequence[Frame]) -> None:
    """Let a SELECT read fragments in place of those derived tables that hosts cannot make alone.

    Args:
        planner: The planner.
        select: The SELECT; changed in place.
        frames: The SELECTs around it, which a derived table does not see.
    """
    clause = select.args.get("from_")
    for holder in [*([clause] if clause is not None else []), *(select.args.get("joins") or ())]:
        node = holder.this
        if not isinstance(node, exp.Subquery) or free_aliases(node):
            continue
        planner.prepare(node.this, ())
        if planner.placer.settle(node.this).placement is None:
            holder.set("this", table(planner.materialise(node.this), node.alias))


DERIVED_TABLES = SelectRule("derived tables", settle_derived_tables)
