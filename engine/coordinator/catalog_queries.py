"""The tables of SHOW and DESCRIBE, from what is known of all hosts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import pyarrow as pa

from engine.catalog.host_statuses import HOSTS_SCHEMA, hosts_table, store_statuses
from engine.catalog.show import (
    COLUMNS_SCHEMA,
    PLAN_SCHEMA,
    STORES_SCHEMA,
    TABLES_SCHEMA,
    describe_store,
    show_stores,
    show_tables,
)
from engine.coordinator.deployment_hosts import DeploymentHosts
from engine.scan import StoreSource, StoreStatus
from engine.sql.bind import BoundStatement
from engine.sql.parse import StatementClass

CATALOG_SCHEMAS: Mapping[StatementClass, pa.Schema] = {
    StatementClass.SHOW_TABLES: TABLES_SCHEMA,
    StatementClass.SHOW_STORES: STORES_SCHEMA,
    StatementClass.SHOW_HOSTS: HOSTS_SCHEMA,
    StatementClass.DESCRIBE: COLUMNS_SCHEMA,
    StatementClass.EXPLAIN: PLAN_SCHEMA,
    StatementClass.EXPLAIN_ANALYZE: PLAN_SCHEMA,
}
"""The schema of the result of each kind of statement that is no query."""


class CatalogQueries:
    """Answers SHOW and DESCRIBE. Safe for threads.

    Args:
        source: The stores that are here.
        cluster: The hosts.
    """

    def __init__(self, source: StoreSource, cluster: DeploymentHosts) -> None:
        self._source = source
        self._cluster = cluster

    def table(self, bound: BoundStatement) -> pa.Table | None:
        """The result of a statement.

        Args:
            bound: The statement.

        Returns:
            Its table; None if it is about a query, and not about stores or hosts.

        Raises:
            Unavailable: There is nothing that could have stores; the message says what is missing.
        """
        match bound.statement_class:
            case StatementClass.SHOW_TABLES:
                return show_tables(self._source.tables())
            case StatementClass.SHOW_STORES:
                return show_stores(self._store_statuses(), self._source.definitions(), self._source.tables())
            case StatementClass.SHOW_HOSTS:
                statuses = self._cluster.peers.host_statuses()
                return hosts_table(self._cluster.uris, statuses, self._source.definitions(), _microseconds())
            case StatementClass.DESCRIBE if bound.described is not None:
                return describe_store(bound.described)
            case _:
                return None

    def _store_statuses(self) -> Sequence[StoreStatus]:
        """How the stores stand; where others hold parts of them, over all hosts."""
        here = self._source.status()
        if not self._cluster.has_peers:
            return here
        problems = {each.store: each.problem for each in here}
        return store_statuses(
            self._cluster.peers.reports(), self._source.definitions(), problems, _microseconds()
        )


def _microseconds() -> int:
    """The time, microseconds since 1970 UTC."""
    return time.time_ns() // 1000
