"""Splits a bound statement over hosts."""

from __future__ import annotations

from collections.abc import Sequence

from engine.plan.split.nodes import SplitPlan
from engine.plan.split.planner import NotPlannedError, Planner, Rule
from engine.plan.split.resolve import resolve
from engine.plan.split.rules import RULES
from engine.plan.split.sizes import Sizes
from engine.sql.bind import BoundStatement

MAX_REFERENCES = 64
"""Statements that read stores in more places are gathered: planning takes more than linear time."""

_UNKNOWN = Sizes()


def split(bound: BoundStatement, sizes: Sizes = _UNKNOWN, rules: Sequence[Rule] = RULES) -> SplitPlan:
    """How several hosts answer a statement together.

    Args:
        bound: A statement with a tree. It is not changed.
        sizes: How big stores are: what is cheap to send.
        rules: What is tried, in this order.

    Returns:
        The best plan that is proved right.

    Raises:
        NotPlannedError: There is none. `engine.plan.split.gather_stores` is right for every statement.
    """
    if len(bound.references) > MAX_REFERENCES:
        raise NotPlannedError(f"It reads stores in more than {MAX_REFERENCES} places.")
    try:
        resolved = resolve(bound)
        if resolved is None:
            raise NotPlannedError("Some of its names are not certain.")
        return Planner(resolved, sizes, rules).plan()
    except RecursionError as error:
        raise NotPlannedError("It nests too deeply.") from error
