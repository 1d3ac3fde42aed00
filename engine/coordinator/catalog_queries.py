"""The tables of SHOW and DESCRIBE, from what is known of all hosts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import pyarrow as pa

from engine.catalog.host_statuses import HOSTS_SCHEMA, hosts_table, store_statuses
from engine.catalog.show import (
    ALL_TABLES_SCHEMA,
    COLUMNS_SCHEMA,
    DATABASES_SCHEMA,
    PLAN_SCHEMA,
    SCHEMAS_SCHEMA,
    SIZE_COLUMNS,
    STORES_SCHEMA,
    SUCCESS_SCHEMA,
    TABLES_SCHEMA,
    blank_columns,
    describe_schema,
    describe_store,
    show_all_tables,
    show_databases,
    show_schemas,
    show_stores,
    show_tables,
)
from engine.coordinator.deployment_hosts import DeploymentHosts
from engine.model.schema import StoreDefinition
from engine.scan import StoreSource, StoreStatus
from engine.sql.bind import BoundStatement
from engine.sql.catalog_tables import CatalogTable
from engine.sql.parsed_statement import StatementClass

CATALOG_SCHEMAS: Mapping[StatementClass, pa.Schema] = {
    StatementClass.SHOW_TABLES: TABLES_SCHEMA,
    StatementClass.SHOW_STORES: STORES_SCHEMA,
    StatementClass.SHOW_HOSTS: HOSTS_SCHEMA,
    StatementClass.SHOW_SCHEMAS: SCHEMAS_SCHEMA,
    StatementClass.SHOW_DATABASES: DATABASES_SCHEMA,
    StatementClass.SHOW_ALL_TABLES: ALL_TABLES_SCHEMA,
    StatementClass.USE: SUCCESS_SCHEMA,
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
        hides_sizes: Whether it does not tell how much stores hold.
    """

    def __init__(self, source: StoreSource, cluster: DeploymentHosts, *, hides_sizes: bool = False) -> None:
        self._source = source
        self._cluster = cluster
        self._hides_sizes = hides_sizes

    def table(self, bound: BoundStatement) -> pa.Table | None:
        """The result of a statement.

        Args:
            bound: The statement.

        Returns:
            Its table; None if it is about a query, and not about stores or hosts.

        Raises:
            NotFound: It is about a schema that there is not.
            Unavailable: There is nothing that could have stores; the message says what is missing.
        """
        match bound.statement_class:
            case StatementClass.SHOW_TABLES:
                return show_tables(self._source.tables(), bound.shown_schema)
            case StatementClass.SHOW_SCHEMAS:
                return show_schemas(self._source.tables())
            case StatementClass.SHOW_DATABASES:
                return show_databases()
            case StatementClass.SHOW_ALL_TABLES:
                return show_all_tables(self._source.tables())
            case StatementClass.USE:
                return SUCCESS_SCHEMA.empty_table()
            case StatementClass.SHOW_STORES:
                stores = show_stores(
                    self._store_statuses(), self._source.definitions(), self._source.tables()
                )
                return blank_columns(stores, SIZE_COLUMNS) if self._hides_sizes else stores
            case StatementClass.SHOW_HOSTS:
                statuses = self._cluster.peers.host_statuses()
                return hosts_table(self._cluster.uris, statuses, self._source.definitions(), _microseconds())
            case StatementClass.DESCRIBE:
                return _description(bound.described)
            case _:
                return None

    def _store_statuses(self) -> Sequence[StoreStatus]:
        """How the stores stand; where others hold parts of them, over all hosts."""
        here = self._source.status()
        if not self._cluster.has_peers:
            return here
        return store_statuses(
            self._cluster.peers.reports(), self._source.definitions(), here, _microseconds()
        )


def _description(described: StoreDefinition | CatalogTable | None) -> pa.Table | None:
    """DESCRIBE; None where it is about a query."""
    match described:
        case None:
            return None
        case CatalogTable():
            return describe_schema(described.schema)
        case StoreDefinition():
            return describe_store(described)


def _microseconds() -> int:
    """The time, microseconds since 1970 UTC."""
    return time.time_ns() // 1000
