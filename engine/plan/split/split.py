"""Splits a bound statement over hosts."""

from __future__ import annotations

from engine.plan.split.gather import gather
from engine.plan.split.nodes import SplitPlan
from engine.plan.split.planner import NotPlannedError, Planner
from engine.plan.split.resolve import resolve
from engine.plan.split.sizes import Sizes
from engine.plan.split.steps import in_one_step
from engine.plan.split.unread import drop_unread_outputs
from engine.sql.bind import BoundStatement

MAX_REFERENCES = 64
"""Statements that read stores in more places are gathered: planning takes more than linear time."""

_UNKNOWN = Sizes()


def split(bound: BoundStatement, sizes: Sizes = _UNKNOWN) -> SplitPlan:
    """How several hosts answer a statement together.

    Args:
        bound: A statement with a tree. It is not changed.
        sizes: How big stores are: what is cheap to send.

    Returns:
        The best plan that is proved right; there always is one.
    """
    if len(bound.references) <= MAX_REFERENCES:
        try:
            resolved = resolve(bound)
            if resolved is not None:
                drop_unread_outputs(resolved)
                return in_one_step(Planner(resolved, sizes).plan())
        except (NotPlannedError, RecursionError):
            pass
    return gather(bound)
