"""Splits a bound statement over hosts."""

from __future__ import annotations

from collections.abc import Collection

from engine.plan.split.gather import gather
from engine.plan.split.nodes import SplitPlan
from engine.plan.split.planner import NotPlannedError, Planner
from engine.plan.split.resolve import resolve
from engine.schema import StoreName
from engine.sql.bind import BoundStatement

MAX_REFERENCES = 64
"""Statements that read stores in more places are gathered: planning takes more than linear time."""


def split(bound: BoundStatement, small: Collection[StoreName] = frozenset()) -> SplitPlan:
    """How several hosts answer a statement together.

    Args:
        bound: A statement with a tree. It is not changed.
        small: Stores cheap enough to be sent to every host.

    Returns:
        The best plan that is proved right; there always is one.
    """
    if len(bound.references) <= MAX_REFERENCES:
        try:
            resolved = resolve(bound)
            if resolved is not None:
                return Planner(resolved, small).plan()
        except (NotPlannedError, RecursionError):
            pass
    return gather(bound)
