"""Splits a statement over hosts."""

from __future__ import annotations

from collections.abc import Sequence

from engine.plan.logical.plan import LogicalPlan
from engine.plan.split.nodes import SplitPlan
from engine.plan.split.planner import NotPlannedError, Planner, Rule
from engine.plan.split.rules import RULES
from engine.plan.split.sizes import Sizes

_UNKNOWN = Sizes()


def split(logical: LogicalPlan | None, sizes: Sizes = _UNKNOWN, rules: Sequence[Rule] = RULES) -> SplitPlan:
    """How several hosts answer a statement together.

    Args:
        logical: The statement's logical plan; it is not changed. None where it has none.
        sizes: How big stores are: what is cheap to send.
        rules: What is tried, in this order.

    Returns:
        The best plan that is proved right.

    Raises:
        NotPlannedError: There is none. `engine.plan.split.gather_stores` is right for every statement.
    """
    if logical is None:
        raise NotPlannedError("Some of its names are not certain, or it is too large to be planned.")
    try:
        return Planner(logical.copy(), sizes, rules).plan()
    except RecursionError as error:
        raise NotPlannedError("It nests too deeply.") from error
