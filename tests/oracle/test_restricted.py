"""Random queries of somebody for whom a part of the stores exists alone: answers are those of plain DuckDB
without the rest, errors and metadata those of hosts without it.
"""

from __future__ import annotations

import pytest

from tests.oracle.restricted import restricted_system
from tests.oracle.run import QUERIES_A_DATASET, Plan, run

QUERIES = 20


@pytest.mark.parametrize("dataset", range(1000, 1006))
def test_what_is_hidden_changes_no_answer(dataset: int) -> None:
    stats = run(
        Plan(first=dataset * QUERIES_A_DATASET, queries=QUERIES, most_findings=1),
        restricted_system,
        lambda finding: None,
    )
    assert not stats.differences, "\n" + stats.differences[0].describe()
    assert stats.queries == QUERIES
