"""Plans of statements over several hosts, as the coordinator makes them where nothing else is refused."""

from __future__ import annotations

from collections.abc import Sequence

from engine.plan.split.gather_stores import gather
from engine.plan.split.nodes import SplitPlan
from engine.plan.split.planner import NotPlannedError, Rule
from engine.plan.split.rules import RULES
from engine.plan.split.sizes import Sizes
from engine.plan.split.split import split
from engine.sql.bind import BoundStatement


def split_or_gather(
    bound: BoundStatement, sizes: Sizes | None = None, rules: Sequence[Rule] = RULES
) -> SplitPlan:
    """The plan of a statement, by gathering where no other is proved right."""
    try:
        return split(bound, sizes or Sizes(), rules)
    except NotPlannedError:
        return gather(bound)
