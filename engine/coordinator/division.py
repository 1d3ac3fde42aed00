"""Answers in pieces: a statement whose rows a client reads partition by partition, from whichever host it
likes of those that can give them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from engine.cluster.fragments import FragmentRequest
from engine.cluster.readable import past_reports
from engine.cluster.replicas import readers
from engine.cluster.reports import HostName
from engine.cluster.routing import Route
from engine.coordinator.deployment_hosts import DeploymentHosts
from engine.coordinator.distributed_query import DistributedQuery
from engine.coordinator.endpoints import Endpoints, endpoints_of, plain_fragment
from engine.coordinator.fragment_context import FragmentContext
from engine.coordinator.plan_cache import PlanCache
from engine.coordinator.router import RoutedQuery, Router
from engine.exec.read_metadata import stale_seconds
from engine.model.schema import Epoch, GroupName, PartitionId, StoreDefinition, StoreDefinitions
from engine.model.table_shapes import ExpectedShapes
from engine.plan.partition_pruning import Partitions, kept_partitions, unite_partitions


@dataclass(frozen=True)
class Piece:
    """Rows of an answer that one host can give.

    Attributes:
        request: What to ask it.
        hosts: The hosts that can, best first.
    """

    request: FragmentRequest
    hosts: tuple[HostName, ...]


@dataclass(frozen=True)
class Division:
    """An answer in pieces, all at the same epochs.

    Attributes:
        epochs: The epoch of each store group that is read.
        schema: Columns of the answer; None where only its rows tell them.
        pieces: A piece for each partition number that is read; their rows together, in any order, are the
            answer. None where something has to be done with the rows of several partitions, so that the
            statement has to be asked as a whole.
        digests: As `QueryMetadata.digests`.
        stale_seconds: As `QueryMetadata.stale_seconds`.
        shapes: What the names of the statement mean at these epochs, as `BoundStatement.shapes`.
    """

    epochs: Mapping[GroupName, Epoch]
    schema: pa.Schema | None
    pieces: tuple[Piece, ...] | None
    digests: Mapping[GroupName, str] = field(default_factory=dict)
    stale_seconds: float | None = None
    shapes: ExpectedShapes | None = None


class Divider:
    """Divides answers by partition. Safe for threads.

    Args:
        cluster: The hosts.
        router: Finds epochs that can be read.
        plans: Plans of statements.
    """

    def __init__(self, cluster: DeploymentHosts, router: Router, plans: PlanCache) -> None:
        self._cluster = cluster
        self._router = router
        self._plans = plans

    def endpoints(self, query: DistributedQuery) -> Endpoints | None:
        """The fragments whose rows together are the answer of a statement.

        Args:
            query: The statement.

        Returns:
            A fragment for each of at least two hosts; None where the answer has to come from here.

        Raises:
            LivestateError: It cannot be answered, as kind and message say.
        """
        if len(self._cluster.peers.reports()) < 2:
            return None
        routed = self._router.find(query)
        if len(routed.readers) < 2:
            return None
        query = routed.query
        plan = self._plans.plan(query.request, self._router.sizes(query))
        return endpoints_of(query, plan, routed.route, self._cluster.here)

    def divide(self, query: DistributedQuery, timeout_seconds: float | None) -> Division:
        """Divide the answer of a statement.

        Every piece is a fragment over one partition number of all stores: what is right for any placement of
        partitions on hosts is right for one on which every number has a host of its own.

        Args:
            query: The statement.
            timeout_seconds: How long a piece may take, once somebody asks for it; None for no limit.

        Returns:
            Its pieces, good as long as their epochs can be read.

        Raises:
            LivestateError: It cannot be answered, as kind and message say.
        """
        routed = self._router.find(query)
        query, kept, route = routed.query, routed.kept, routed.route
        plan = self._plans.plan(query.request, self._router.sizes(query))
        fragment = plain_fragment(query, plan)
        if fragment is None:
            return _division(routed, plan.schema, None)
        if plan.runs is not query.statement:
            kept = kept_partitions(plan.runs.bound.references, plan.runs.predicates, query.arguments)
        needs = unite_partitions(fragment.fragment.references, kept)
        context = FragmentContext(query.arguments, route, self._cluster.here, query.deadline)
        shares = _shares({name: needs[name] for name in fragment.text.stores}, route, query.definitions)
        pieces = tuple(
            Piece(
                replace(context.request(fragment.text, share, {}), timeout_seconds=timeout_seconds),
                self._readers(share, route, query),
            )
            for share in shares
        )
        # A host may have gone since the route was found; whoever answers the whole statement finds another
        # one.
        return _division(routed, plan.schema, pieces if all(piece.hosts for piece in pieces) else None)

    def _readers(self, share: Partitions, route: Route, query: DistributedQuery) -> tuple[HostName, ...]:
        reports = self._cluster.peers.reports()
        if query.read_point.allow_stale:
            reports = past_reports(reports, query.definitions)
        return readers(share, route.epochs, query.definitions, reports, self._cluster.order)


def _division(routed: RoutedQuery, schema: pa.Schema | None, pieces: tuple[Piece, ...] | None) -> Division:
    route, shapes = routed.route, routed.query.statement.bound.shapes
    return Division(route.epochs, schema, pieces, route.digests, stale_seconds(route.complete_until), shapes)


def _shares(needs: Partitions, route: Route, definitions: StoreDefinitions) -> Sequence[Partitions]:
    """What each piece reads.

    That is one partition number of all stores with equally many partitions, as these are together on a host,
    and beside it all that is needed of global stores, which every host has. Global stores alone are one
    piece.
    """
    spread = {store: numbers for store, numbers in needs.items() if store not in route.everywhere}
    beside = {store: numbers for store, numbers in needs.items() if store in route.everywhere}
    if not any(spread.values()):
        return [needs] if any(beside.values()) else []
    places = sorted(
        {(definitions[store].partitions, number) for store, numbers in spread.items() for number in numbers}
    )
    return [
        {
            **beside,
            **{store: _partition_at(place, definitions[store], numbers) for store, numbers in spread.items()},
        }
        for place in places
    ]


def _partition_at(
    place: tuple[int, PartitionId], definition: StoreDefinition, numbers: tuple[PartitionId, ...]
) -> tuple[PartitionId, ...]:
    """A store's partition at a place, if it is one of some."""
    count, number = place
    return (number,) if definition.partitions == count and number in numbers else ()
