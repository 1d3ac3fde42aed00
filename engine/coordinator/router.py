"""Where a statement is answered, bound with what its stores are at the epochs that it reads there.

A statement is bound before its epochs are chosen, with what its stores are at the newest epoch of this host.
Where they are something else at the epochs chosen, as other hosts are not as far or the statement asks for an
older epoch, it is bound again. Keys keep what they are through migrations, but for their names, so that this
leads to the same partitions nearly always.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from engine.cluster.reports import HostName
from engine.cluster.routing import NoRoute, Route
from engine.coordinator.distributed_query import DistributedQuery
from engine.coordinator.fragment_runs import HostFailedError
from engine.coordinator.lost_hosts import lost_host_error
from engine.coordinator.routes import Routes
from engine.errors import InvalidInput, NotFound, Unavailable
from engine.exec.requests import Requests
from engine.model.read_point import ReadPoint
from engine.model.schema import StoreDefinition, StoreName
from engine.plan.partition_pruning import Kept, Partitions, all_partitions, kept_partitions, unite_partitions
from engine.plan.split.selectivity import column_shares
from engine.plan.split.sizes import Sizes
from engine.scan import StoreSource
from engine.statements.shapes import Generations, Shapes

MOST_SHAPES = 8
"""How often a statement is bound again."""


@dataclass(frozen=True)
class RoutedQuery:
    """A statement with its route.

    Attributes:
        query: The statement, bound with what its stores are at the route's epochs.
        kept: The partitions that it can need.
        needs: The same by store.
        route: The route.
    """

    query: DistributedQuery
    kept: Kept
    needs: Partitions
    route: Route

    @property
    def readers(self) -> list[HostName]:
        """The hosts that have something to read."""
        return [host for host in self.route.hosts if any(self.route.partitions[host].values())]


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

    def find(self, query: DistributedQuery, *, whole: bool = False) -> RoutedQuery:
        """The route of a statement; waits for it as long as the statement may.

        Args:
            query: The statement.
            whole: Whether it is read with all partitions of its stores, whatever it needs of them.

        Returns:
            Its route.

        Raises:
            LivestateError: There is none, and none comes in time; or the statement is wrong at the epochs
                that it asks for; or it asks for an epoch of a group that there is not.
        """
        self._check_groups(query.read_point)
        self._check_pinned(query)
        if query.request.misfit is not None:
            query = self._fit_values(query, query.request.misfit)
        for _ in range(MOST_SHAPES):
            kept = kept_partitions(
                query.statement.bound.references, query.statement.predicates, query.arguments
            )
            needs = (
                _all_partitions(query) if whole else unite_partitions(query.statement.bound.references, kept)
            )
            route = self._routes.find(needs, query.definitions, query.read_point, query.deadline)
            if self.fits(query.statement.bound.definitions, route):
                return RoutedQuery(query, kept, needs, route)
            query = self.rebind(query, route.generations)
        raise too_many_migrations()

    def _fit_values(self, query: DistributedQuery, misfit: str) -> DistributedQuery:
        """A statement whose values are for what its stores are at the epochs that it asks for, and not for
        what they are now.

        Raises:
            InvalidInput: They are for neither.
        """
        route = self._routes.find(_all_partitions(query), query.definitions, query.read_point, query.deadline)
        if self.fits(query.statement.bound.definitions, route):
            raise InvalidInput(misfit)
        return self.rebind(query, route.generations)

    def _check_groups(self, read_point: ReadPoint) -> None:
        """See that there are the groups of which epochs are asked for: of one whose name is written wrongly,
        the newest would be read.
        """
        if not read_point.as_of:
            return
        known = {definition.group for definition in self._source.definitions().values()}
        for group in sorted(read_point.as_of.keys() - known):
            raise NotFound(
                f"There is no store group {group}, of which as_of names what to read: write its name as "
                "SHOW STORES does."
            )

    def _check_pinned(self, query: DistributedQuery) -> None:
        """See that a statement whose epochs were chosen when it was divided reads no other group by now."""
        pinned = query.read_point.pinned
        if not pinned:
            return
        for name, definition in query.statement.bound.definitions.items():
            if definition.group not in pinned:
                raise Unavailable(
                    f"The statement reads store {name} of store group {definition.group}, which it did not "
                    "when it was planned: plan it again."
                )

    def sizes(self, query: DistributedQuery) -> Sizes:
        """How big the stores of a statement are, as `Routes.sizes`, and what it wants of them; nothing is
        weighed where it reads one store once.
        """
        statement = query.statement
        references = statement.bound.references
        sizes = self._routes.sizes(statement.bound.stores, query.definitions)
        if len(references) < 2:
            return sizes
        columns = [
            size.by_column if (size := sizes.by_store.get(reference.definition.name)) is not None else {}
            for reference in references
        ]
        shares = column_shares(references, statement.predicates, query.arguments, columns)
        return replace(sizes, shares=shares) if shares else sizes

    def find_other(
        self, routed: RoutedQuery, failed: Collection[HostName], failure: HostFailedError
    ) -> RoutedQuery:
        """A route without the hosts that failed, or with them if they have got on: an epoch may have been
        given up meanwhile, or be another one since the changelog was restored.

        Args:
            routed: The statement with the route on which it failed.
            failed: All hosts that failed it.
            failure: The last failure.

        Raises:
            LivestateError: There is no other route now; or as `find`, where the host that failed is alive and
                there is none with it, or others have its partitions and none comes; or the stores are
                something else at the epochs of the other one.
        """
        # A store that was dropped meanwhile is no failure of a host.
        query, needs = DistributedQuery(routed.query.request, self._source.definitions()), routed.needs
        without = self._routes.newest_route(needs, query.definitions, query.read_point, failed)
        if isinstance(without, Route):
            return self._move(routed, without)
        found = self._routes.newest_route(needs, query.definitions, query.read_point)
        tried = routed.route
        if isinstance(found, Route) and (found.epochs, found.digests) != (tried.epochs, tried.digests):
            return self._move(routed, found)
        if isinstance(found, NoRoute) and (
            self._routes.is_alive(failure.host) or (found.is_held and found.may_come)
        ):
            # Either it has not failed: what it was asked for was given up there meanwhile, as an epoch that
            # another host is far behind with. Or others have its partitions, and are on their way to the
            # epoch. A statement that came now would wait, too.
            return self.find(query)
        raise lost_host_error(failure, routed.route) from failure

    def _move(self, routed: RoutedQuery, route: Route) -> RoutedQuery:
        """A statement on another route."""
        if self.fits(routed.query.statement.bound.definitions, route):
            return replace(routed, route=route)
        return self.find(self.rebind(routed.query, route.generations))

    def rebind(self, query: DistributedQuery, generations: Generations) -> DistributedQuery:
        """A statement whose stores are something else than it was bound with.

        Args:
            query: The statement.
            generations: How many amendments of its groups are in effect at the epochs that it would read.

        Returns:
            The statement bound with what its stores are there. If it means nothing there, or its columns were
            told and would be others: the statement as it is, which reads only epochs at which its stores are
            what it was bound with.

        Raises:
            LivestateError: It asks for just these epochs, and means nothing there.
        """
        request = query.request
        stores = request.statement.bound.definitions.values()
        if any(each.since > generations.get(each.group, 0) for each in stores):
            # There it was another store of the name, with other partitions.
            return self._keep_shapes(query, generations)
        # Another binding is good at other generations than this one was kept to.
        free = replace(request, read_point=replace(request.read_point, allowed_generations={}))
        other = self._requests.rebind(free, generations)
        if other is None or (
            request.has_expected_shapes and not self._requests.has_same_columns(other, request)
        ):
            return self._keep_shapes(query, generations)
        return DistributedQuery(other, self._source.definitions())

    def _keep_shapes(self, query: DistributedQuery, known: Generations) -> DistributedQuery:
        """A statement that reads only epochs at which its stores are what it was bound with."""
        generations = self._shapes.generations_of(query.statement.bound.definitions, known)
        read_point = replace(query.read_point, allowed_generations=generations)
        return DistributedQuery(replace(query.request, read_point=read_point), self._source.definitions())

    def check_readable(self, query: DistributedQuery) -> None:
        """See that there may be epochs at which a statement's stores are what it was bound with.

        Raises:
            InvalidInput: They were migrated since, and no epoch of before can be read any more.
        """
        known = self.other_generations(query)
        found = None if known is None else self._newest_route(self._keep_shapes(query, known))
        if isinstance(found, NoRoute) and not found.may_come:
            raise found.error

    def _newest_route(self, query: DistributedQuery) -> Route | NoRoute:
        return self._routes.newest_route(_all_partitions(query), query.definitions, query.read_point)

    def other_generations(self, query: DistributedQuery) -> Generations | None:
        """How many amendments are in effect at the epochs that a statement would read now, if its stores are
        something else there; None if not.
        """
        found = self._newest_route(query)
        return (
            found.generations
            if isinstance(found, Route) and not self.fits(query.statement.bound.definitions, found)
            else None
        )


def too_many_migrations() -> Unavailable:
    """Why a statement is not bound again any more."""
    return Unavailable("The stores of the statement are migrated again and again: try again shortly.")


def _all_partitions(query: DistributedQuery) -> Partitions:
    return {
        name: tuple(sorted(all_partitions(definition)))
        for name, definition in query.statement.bound.definitions.items()
    }
