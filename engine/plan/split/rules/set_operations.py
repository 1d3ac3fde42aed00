"""A set operation that hosts cannot do alone: each side is answered by itself, and the coordinator compares.

The coordinator has all rows of both sides then, each as often as one host with everything would have it, and
does the same set operation with the same ORDER BY and LIMIT. A side with clauses of its own gets brackets, so
that they stay the side's.
"""

from __future__ import annotations

from sqlglot import exp

from engine.plan.logical.trees import used_arguments
from engine.plan.split.planner import COORDINATOR, AnswerRule, Planner, SplitAnswer


def split_set_operation(planner: Planner, query: exp.Query) -> SplitAnswer | None:
    """Answer the sides of a set operation each on its own.

    Args:
        planner: The planner.
        query: A prepared query.

    Returns:
        The answer; None for other queries.
    """
    if not isinstance(query, exp.SetOperation):
        return None
    for side in ("this", "expression"):
        answer = planner.answer(query.args[side])
        needs_brackets = not isinstance(answer.tree, exp.Select) or bool(
            used_arguments(answer.tree) & {"order", "limit", "offset"}
        )
        query.set(side, exp.Subquery(this=answer.tree) if needs_brackets else answer.tree)
    return SplitAnswer(query, None, COORDINATOR)


SET_OPERATIONS = AnswerRule("set operations", split_set_operation)
