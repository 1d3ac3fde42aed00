"""One row by its key, wherever it is: in one hop, and without any where it is here."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from engine.cluster.fragments import FragmentRequest
from engine.cluster.reports import HostName
from engine.cluster.routing import Route
from engine.coordinator.deployment_hosts import DeploymentHosts
from engine.coordinator.plan_cache import PlanCache
from engine.coordinator.result_metadata import WHOLE_RULE, age_seconds
from engine.coordinator.router import Router
from engine.coordinator.routes import Routes
from engine.deadline import Deadline
from engine.errors import NotFound, Unavailable
from engine.exec.local_executor import LocalExecutor
from engine.exec.query_result import QueryMetadata, QueryResult
from engine.exec.read_metadata import stale_seconds
from engine.model.read_point import NEWEST, ReadPoint
from engine.model.schema import StoreDefinitions
from engine.plan.key_lookup import KeyLookup
from engine.plan.partition_pruning import Partitions
from engine.plan.statement import ReadyStatement
from engine.plan.values import Arguments
from engine.statements.pin import Pin
from engine.statements.request import Request
from engine.statements.statement_cache import ReadyText


@dataclass(frozen=True)
class KeyQuery:
    """A lookup of one row by its key.

    Attributes:
        statement: The statement.
        lookup: What it looks up.
        key: A value of the key's type.
        definitions: All stores.
        timeout_seconds: Time that it may take; None for no limit.
        started: When it came, by `time.perf_counter`.
        cancelled: Tells, from any thread, whether the client took it back; None if it cannot.
        read_point: Of the newest epochs, how old they may be.
    """

    statement: ReadyStatement
    lookup: KeyLookup
    key: int | str
    definitions: StoreDefinitions
    timeout_seconds: float | None
    started: float
    cancelled: Callable[[], bool] | None = None
    read_point: ReadPoint = NEWEST


class KeyRows:
    """Looks up rows on the hosts that have them. Safe for threads.

    Args:
        cluster: The hosts.
        routes: Finds who can answer.
        router: Knows what stores are at the epochs of a route.
        plans: Knows statements as text.
        local: Answers from this host's stores.
    """

    def __init__(
        self, cluster: DeploymentHosts, routes: Routes, router: Router, plans: PlanCache, local: LocalExecutor
    ) -> None:
        self._cluster = cluster
        self._routes = routes
        self._router = router
        self._plans = plans
        self._local = local

    def row(self, query: KeyQuery) -> QueryResult | None:
        """Answer a lookup.

        Args:
            query: The lookup.

        Returns:
            The result, all of it there already; None where nobody can answer it right now.

        Raises:
            LivestateError: What the host said that has the row.
        """
        name = query.lookup.definition.name
        found = query.definitions.get(name)
        if found is None or found.since != query.lookup.definition.since:
            return None  # it was dropped just now
        share = {name: (query.lookup.partition(query.key),)}
        route = self._routes.newest_route(share, query.definitions, query.read_point)
        if not isinstance(route, Route) or not self._router.fits(query.lookup.definitions, route):
            return None
        (host,) = route.partitions
        try:
            if host != self._cluster.here:
                return self._row_from_peer(query, route, host, share)
            pin = Pin(route.epochs, share, route.digests)
            result = self._local.row(query.lookup, query.key, pin, query.started, route.complete_until)
        except (Unavailable, NotFound):
            return None
        result.metadata = replace(
            result.metadata, partitions_read=1, partitions=query.lookup.definition.partitions, hosts=(host,)
        )
        return result

    def _row_from_peer(
        self, query: KeyQuery, route: Route, host: HostName, share: Partitions
    ) -> QueryResult | None:
        lookup, key = query.lookup, pa.array([query.key], query.lookup.key_type)
        whole = self._plans.whole_text(
            Request(
                "duckdb",
                ReadyText(query.statement.sql, query.statement, {}),
                Arguments((key[0],)),
                Deadline(query.timeout_seconds, query.cancelled),
                query.started,
            )
        )
        if whole.text is None:
            return None
        parameters = pa.record_batch([key], ["1"])
        request = FragmentRequest(
            whole.text.sql,
            route.epochs,
            share,
            parameters,
            {},
            query.timeout_seconds,
            route.migrated,
            route.digests,
            route.complete_until,
        )
        rows = self._cluster.peers.run(host, request, query.cancelled)
        table = pa.Table.from_batches(list(rows), lookup.schema)
        metadata = QueryMetadata(
            "lookup",
            route.epochs,
            age_seconds(route),
            partitions_read=1,
            partitions=lookup.definition.partitions,
            rows_read=table.num_rows,
            seconds={"total": time.perf_counter() - query.started},
            hosts=(host,),
            fragments=1,
            rules=(WHOLE_RULE,),
            bytes_moved=table.nbytes,
            digests=route.digests,
            stale_seconds=stale_seconds(route.complete_until),
        )
        return QueryResult(lookup.schema, metadata, table)
