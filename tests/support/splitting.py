"""Plans of statements over several hosts, as the coordinator makes them where nothing else is refused."""

from __future__ import annotations

from collections.abc import Sequence

from engine.plan.conditions import conditions
from engine.plan.logical.logical_plan import logical_plan
from engine.plan.logical.rewrite import Rewrite
from engine.plan.logical.rewrites import REWRITES
from engine.plan.split.gather_stores import gather
from engine.plan.split.gather_subtrees import gather_subtrees
from engine.plan.split.nodes import SplitPlan
from engine.plan.split.planner import NotPlannedError, Rule
from engine.plan.split.rules import RULES
from engine.plan.split.sizes import Sizes
from engine.plan.split.split import split
from engine.sql.bind import BoundStatement


def split_or_gather(
    bound: BoundStatement,
    sizes: Sizes | None = None,
    rules: Sequence[Rule] = RULES,
    rewrites: Sequence[Rewrite] = REWRITES,
) -> SplitPlan:
    """The plan of a statement, by gathering where no other is proved right."""
    logical = logical_plan(bound, rewrites)
    try:
        return split(logical, sizes or Sizes(), rules)
    except NotPlannedError:
        return gather_plan(bound) if logical is not None else _subtrees_plan(bound, sizes or Sizes(), rules)


def _subtrees_plan(bound: BoundStatement, sizes: Sizes, rules: Sequence[Rule]) -> SplitPlan:
    try:
        return gather_subtrees(bound, conditions(bound, None), sizes, rules)
    except NotPlannedError:
        return gather_plan(bound)


def gather_plan(bound: BoundStatement) -> SplitPlan:
    """The plan by which rows are gathered."""
    return gather(bound, conditions(bound, logical_plan(bound)))
