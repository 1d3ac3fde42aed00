"""The plan of every query of TPC-H on four hosts is the one that is kept, so that one that gets worse is
seen.

A plan that is meant to change is written anew by `python -m tests.tpch.regenerate`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.local_cluster import Cluster
from tests.tpch.cluster import Loaded, tpch_cluster
from tests.tpch.plans import HOSTS, kept_file, plan_text
from tests.tpch.stores import queries

QUERIES = queries()


@pytest.fixture(scope="module")
def cluster(tpch: Loaded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with tpch_cluster(tpch, tmp_path_factory.mktemp("hosts"), HOSTS) as hosts:
        yield hosts


@pytest.mark.parametrize("name", QUERIES)
def test_the_plan_is_the_kept_one(cluster: Cluster, name: str) -> None:
    assert plan_text(cluster, QUERIES[name]) == kept_file(name).read_text()
