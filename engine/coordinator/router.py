"""Where a statement is answered, bound with what its stores are at the epochs that it reads there.

A statement is bound before its epochs are chosen, with what its stores are at the newest epoch of this host.
Where they are something else at the epochs chosen, as other hosts are not as far or the statement asks for an
older epoch, it is bound anew. Keys keep what they are through migrations, but for their names, so that this
leads to the same partitions nearly always.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.cluster.routing import NoRoute, Route
from engine.coordinator.distributed_query import DistributedQuery
from engine.coordinator.routes import Routes
from engine.errors import Unavailable
from engine.exec.requests import Requests
from engine.model.schema import StoreDefinition, StoreName
from engine.plan.placement import Kept, Partitions, all_partitions, kept_partitions, unite_partitions
from engine.scan import StoreSource
from engine.statements.shapes import Generations, Shapes

MOST_SHAPES = 8
"""How often a statement is bound anew."""


@dataclass(frozen=True)
class Routed:
    """A statement with its route.

    Attributes:
        asked: The statement, bound with what its stores are at the route's epochs.
        kept: The partitions that it can need.
        needs: The same by store.
        route: The route.
    """

    asked: DistributedQuery
    kept: Kept
    needs: Partitions
    route: Route


class Router:
    """Finds the routes of statements. Safe for threads.

    Args:
        source: Knows the stores.
        routes: Routes to partitions.
        shapes: What stores are at which epochs.
        requests: Binds statements anew, and tells their columns.
    """

    def __init__(self, source: StoreSource, routes: Routes, shapes: Shapes, requests: Requests) -> None:
        self._source = source
        self._routes = routes
        self._shapes = shapes
        self._requests = requests

    def fits(self, stores: Mapping[StoreName, StoreDefinition], route: Route) -> bool:
        """Whether stores are at a route's epochs what they are taken to be.

        Args:
            stores: What they are taken to be.
            route: The route.
        """
        return self._shapes.fit(stores, route.generations)

    def find(self, asked: DistributedQuery, *, whole: bool = False) -> Routed:
        """The route of a statement; waits for it as long as the statement may.

        Args:
            asked: The statement.
            whole: Whether it is read with all partitions of its stores, whatever it needs of them.

        Returns:
            Its route.

        Raises:
            LivestateError: There is none, and none comes in time; or the statement is wrong at the epochs
                that it asks for.
        """
        for _ in range(MOST_SHAPES):
            kept = kept_partitions(
                asked.statement.bound.references, asked.statement.predicates, asked.arguments
            )
            needs = _everything(asked) if whole else unite_partitions(asked.statement.bound.references, kept)
            route = self._routes.find(needs, asked.definitions, asked.read_point, asked.deadline)
            if self.fits(asked.statement.bound.definitions, route):
                return Routed(asked, kept, needs, route)
            asked = self.bound_anew(asked, route.generations)
        raise migrated_again_and_again()

    def along(self, routed: Routed, route: Route) -> Routed:
        """A statement on another route.

        Raises:
            LivestateError: As `find`, where its stores are something else at the epochs of that route.
        """
        if self.fits(routed.asked.statement.bound.definitions, route):
            return replace(routed, route=route)
        return self.find(self.bound_anew(routed.asked, route.generations))

    def bound_anew(self, asked: DistributedQuery, generations: Generations) -> DistributedQuery:
        """A statement whose stores are something else than it was bound with.

        Args:
            asked: The statement.
            generations: How many migrations of its groups are in effect at the epochs that it would read.

        Returns:
            The statement bound with what its stores are there. If it means nothing there, or its columns were
            told and would be others: the statement as it is, which reads only epochs at which its stores are
            what it was bound with.

        Raises:
            LivestateError: It asks for just these epochs, and means nothing there.
        """
        request = asked.request
        # Another binding is good at other generations than this one was kept to.
        free = replace(request, read_point=replace(request.read_point, generations={}))
        other = self._requests.in_shapes(free, generations)
        if other is None or (
            request.has_expected_shapes and not self._requests.has_same_columns(other, request)
        ):
            return self._only_as_bound(asked, generations)
        return DistributedQuery(other, self._source.definitions())

    def _only_as_bound(self, asked: DistributedQuery, known: Generations) -> DistributedQuery:
        """A statement that reads only epochs at which its stores are what it was bound with."""
        generations = self._shapes.generations_of(asked.statement.bound.definitions, known)
        read_point = replace(asked.read_point, generations=generations)
        return replace(asked, request=replace(asked.request, read_point=read_point))

    def check_readable(self, asked: DistributedQuery) -> None:
        """See that there may be epochs at which a statement's stores are what it was bound with.

        Raises:
            InvalidInput: They were migrated since, and no epoch of before can be read any more.
        """
        known = self.ahead(asked)
        found = None if known is None else self._now(self._only_as_bound(asked, known))
        if isinstance(found, NoRoute) and not found.may_come:
            raise found.error

    def _now(self, asked: DistributedQuery) -> Route | NoRoute:
        return self._routes.now(_everything(asked), asked.definitions, asked.read_point)

    def ahead(self, asked: DistributedQuery) -> Generations | None:
        """How many migrations are in effect at the epochs that a statement would read now, if its stores are
        something else there; None if not.
        """
        found = self._now(asked)
        return (
            found.generations
            if isinstance(found, Route) and not self.fits(asked.statement.bound.definitions, found)
            else None
        )


def migrated_again_and_again() -> Unavailable:
    """Why a statement is not bound anew any more."""
    return Unavailable("The stores of the statement are migrated again and again: try again shortly.")


def _everything(asked: DistributedQuery) -> Partitions:
    return {
        name: tuple(sorted(all_partitions(definition)))
        for name, definition in asked.statement.bound.definitions.items()
    }
