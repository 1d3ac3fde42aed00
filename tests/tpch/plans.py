"""Plans of the queries on four hosts, as they are kept in `explain/`."""

from __future__ import annotations

from pathlib import Path

from tests.support.local_cluster import Cluster

HOSTS = 4
KEPT = Path(__file__).parent / "explain"


def kept_file(name: str) -> Path:
    """Where the plan of a query is kept."""
    return KEPT / f"{name}.txt"


def plan_text(cluster: Cluster, sql: str) -> str:
    """The plan of a query that the first host is asked.

    Args:
        cluster: The hosts.
        sql: The query.

    Returns:
        The lines of EXPLAIN.
    """
    service = cluster.services[cluster.hosts[0]]
    with service.execute(f"EXPLAIN {sql}") as result:
        (lines,) = result.read_all().columns
    return "".join(f"{line}\n" for line in lines.to_pylist())
