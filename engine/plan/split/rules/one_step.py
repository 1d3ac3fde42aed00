"""Takes the coordinator's steps in a row as one.

A derived table that hosts cannot work out is a fragment of the coordinator's own: its rows are a table, and
so are those that it reads. Where the merge reads nothing but these rows, once, that fragment is a subquery of
the merge instead, as it is one of the statement. That makes one table less; and where the fragment itself
reads one table once, so does the merge then, and can read it as it comes
(`engine.plan.split.streamed_merges`).
"""

from __future__ import annotations

from sqlglot import exp

from engine.plan.split.nodes import Fragment, SplitPlan
from engine.plan.split.planner import PlanRule
from engine.plan.split.streamed_merges import is_read_once


def join_steps(plan: SplitPlan) -> SplitPlan:
    """A plan whose merge takes in the coordinator's fragments before it.

    Args:
        plan: A plan. It is not changed.

    Returns:
        The same plan, or one with fewer fragments that gives the same rows.
    """
    while (
        plan.merge is not None
        and plan.fragments
        and plan.fragments[-1].is_local
        and is_read_once(plan.merge, plan.fragments[-1].name)
    ):
        *others, last = plan.fragments
        rules = (*plan.rules[: len(others)], *plan.rules[len(others) + 1 :])
        plan = SplitPlan(rules, tuple(others), _inline_fragment(plan.merge, last))
    return plan


def _inline_fragment(merge: exp.Expr, fragment: Fragment) -> exp.Expr:
    """A merge with a fragment's query in the place of its table."""
    merge = merge.copy()
    table = merge.find(exp.Table)
    assert table is not None, "the merge reads the fragment"
    alias = exp.TableAlias(this=exp.to_identifier(table.alias_or_name, quoted=True))
    table.replace(exp.Subquery(this=fragment.tree.copy(), alias=alias))
    return merge


ONE_STEP = PlanRule("one step", join_steps)
