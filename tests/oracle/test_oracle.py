"""Random queries with fixed seeds: a cluster answers as plain DuckDB does. `python -m tests.oracle` asks
more, with new seeds.
"""

from __future__ import annotations

import pytest

from tests.oracle.run import QUERIES_A_DATASET, Plan, run
from tests.oracle.systems import cluster_system
from tests.oracle.wire import wire_system

QUERIES = 50
"""Of each dataset: 20 datasets make 1,000 queries."""
RELATED = 3
"""One query of so many is asked in another way, too."""


@pytest.mark.parametrize("dataset", range(20))
def test_a_cluster_answers_as_one_duckdb(dataset: int) -> None:
    stats = run(
        Plan(
            first=dataset * QUERIES_A_DATASET, queries=QUERIES, most_findings=1, relations=1, related=RELATED
        ),
        cluster_system,
        lambda finding: None,
    )
    assert not stats.differences, "\n" + stats.differences[0].describe()
    assert stats.queries == QUERIES


@pytest.mark.parametrize("dataset", [61, 62, 63])
def test_a_cluster_answers_so_over_the_network(dataset: int) -> None:
    stats = run(
        Plan(first=dataset * QUERIES_A_DATASET, queries=20, most_findings=1),
        wire_system,
        lambda finding: None,
    )
    assert not stats.differences, "\n" + stats.differences[0].describe()
    assert stats.queries == 20
