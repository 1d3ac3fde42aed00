"""A query that reads no store, or none any more: the coordinator answers it from fragments' rows.

It has all the rows of every table that the query reads, so it answers as one host would.
"""

from __future__ import annotations

from sqlglot import exp

from engine.plan.split.planner import COORDINATOR, AnswerRule, Planner, SplitAnswer


def answer_without_stores(planner: Planner, query: exp.Query) -> SplitAnswer | None:
    """Leave a query that reads no store to the coordinator.

    Args:
        planner: The planner.
        query: A prepared query.

    Returns:
        The query itself; None if it reads a store.
    """
    return None if planner.reads_stores(query) else SplitAnswer(query, None, COORDINATOR)


WITHOUT_STORES = AnswerRule("without stores", answer_without_stores)
