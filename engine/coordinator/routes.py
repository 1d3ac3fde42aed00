"""Finds a route for a statement: waits for what may come, and knows how big stores are."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import TypeVar

from engine.cluster.reports import HostName, HostReport, StoreReport
from engine.cluster.routing import NoRoute, Route, route
from engine.coordinator.deployment_hosts import DeploymentHosts
from engine.coordinator.lag_limit import LagLimit
from engine.deadline import POLL_SECONDS, Deadline
from engine.model.distinct_sketch import distinct_values, unite_sketches
from engine.model.read_point import ReadPoint
from engine.model.schema import GroupName, PartitionId, StoreDefinition, StoreDefinitions, StoreName
from engine.plan.partition_pruning import Partitions
from engine.plan.split.selectivity import ColumnSize
from engine.plan.split.sizes import Sizes, StoreSize

LONGEST_WAIT_SECONDS = 1.0
"""How long a report is waited for before everything is looked at again."""
STUCK_SECONDS = 30.0
"""How long a statement waits where nobody gets on: what has failed is tried again within this time."""
MOST_ROUTES = 4096
"""Routes that are kept: one row of a store has one for each of its partitions."""

K = TypeVar("K")
V = TypeVar("V")
Reports = Mapping[HostName, HostReport]


@dataclass(frozen=True, eq=False)
class _KnownReports:
    """What was found out from some reports, good until one of them is replaced; filled as it is asked for.

    Attributes:
        reports: The reports.
        definitions: The stores.
        routes: Routes to the newest epochs, by whether stale ones will do, and by their needs.
    """

    reports: Reports
    definitions: StoreDefinitions
    routes: dict[tuple[bool, tuple[tuple[StoreName, tuple[PartitionId, ...]], ...]], Route] = field(
        default_factory=dict
    )

    def holds(self, reports: Reports, definitions: StoreDefinitions) -> bool:
        """Whether it is true of these, too."""
        return definitions is self.definitions and _hold_same_objects(reports, self.reports, _is_same_report)


@dataclass(frozen=True, eq=False)
class _KnownSize:
    """The size of a store, good until a host says something else of it.

    Attributes:
        definition: The store.
        held: What hosts say that they hold of it.
        size: Its size, rounded; None if no host says anything.
    """

    definition: StoreDefinition
    held: Sequence[StoreReport]
    size: StoreSize | None

    def holds(self, definition: StoreDefinition, held: Sequence[StoreReport]) -> bool:
        """Whether it is true of these, too. Reports come each second; their columns are the same objects
        until something is new.
        """
        return (
            definition is self.definition
            and len(held) == len(self.held)
            and all(
                one == other and one.columns is other.columns
                for one, other in zip(held, self.held, strict=True)
            )
        )


def _is_same_report(one: HostReport, other: HostReport) -> bool:
    """Whether two reports are made of the same objects: equal ones may differ in when the host
    last looked.
    """
    return one is other or (
        one.is_draining == other.is_draining
        and _hold_same_objects(one.groups, other.groups, is_)
        and _hold_same_objects(one.stores, other.stores, is_)
    )


def _hold_same_objects(one: Mapping[K, V], other: Mapping[K, V], same: Callable[[V, V], bool]) -> bool:
    return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())


class Routes:
    """Routes of a host's statements. Safe for threads.

    Args:
        cluster: The hosts.
        broadcast_limit_bytes: Arrow bytes that may be sent to every host.
        lag_limit: How far behind what is read may be.
    """

    def __init__(self, cluster: DeploymentHosts, broadcast_limit_bytes: int, lag_limit: LagLimit) -> None:
        self._cluster = cluster
        self._lag_limit = lag_limit
        self._broadcast_limit_bytes = broadcast_limit_bytes
        self._known = _KnownReports({}, {})
        self._sizes: dict[StoreName, _KnownSize] = {}

    def newest_route(
        self,
        needs: Partitions,
        definitions: StoreDefinitions,
        read_point: ReadPoint,
        without: Collection[HostName] = (),
        began: int | None = None,
    ) -> Route | NoRoute:
        """The route that newest reports give.

        Args:
            needs: The partitions that a statement needs.
            definitions: All stores.
            read_point: Which epochs will do.
            without: Hosts that are not to take part.
            began: When the statement began, as for `route`.

        Returns:
            The route; or why there is none.
        """
        if without or not read_point.is_newest:
            reports = self._cluster.peers.reports()
            return self._route(
                needs,
                definitions,
                {host: report for host, report in reports.items() if host not in without},
                read_point,
                began,
            )
        known, key = self._known_reports(definitions), (read_point.allow_stale, tuple(needs.items()))
        found = known.routes.get(key)
        if found is not None and self._lag_limit.allows(found.complete_until, read_point):
            return found
        made = self._route(needs, definitions, known.reports, read_point)
        if isinstance(made, Route):
            if len(known.routes) >= MOST_ROUTES:
                known.routes.clear()
            known.routes[key] = made
        return made

    def is_alive(self, host: HostName) -> bool:
        """Whether a host of a deployment is alive, by its newest report."""
        return self._cluster.has_peers and host in self._cluster.peers.reports()

    def _known_reports(self, definitions: StoreDefinitions) -> _KnownReports:
        """What is known from the newest reports."""
        reports, known = self._cluster.peers.reports(), self._known
        if not known.holds(reports, definitions):
            # Threads that come here at once replace each other's, which loses a few routes and nothing else.
            self._known = known = _KnownReports(reports, definitions)
        return known

    def _route(
        self,
        needs: Partitions,
        definitions: StoreDefinitions,
        reports: Reports,
        read_point: ReadPoint,
        began: int | None = None,
    ) -> Route | NoRoute:
        return route(
            needs,
            definitions,
            reports,
            self._cluster.here,
            self._cluster.order,
            read_point,
            time.time_ns() // 1000,
            self._lag_limit.max_lag_seconds,
            began,
        )

    def find(
        self, needs: Partitions, definitions: StoreDefinitions, read_point: ReadPoint, deadline: Deadline
    ) -> Route:
        """The route of a statement; waits for it as long as the statement may, and holds no slot meanwhile.

        Args:
            needs: The partitions that the statement needs.
            definitions: All stores.
            read_point: Which epochs will do.
            deadline: When the statement must end.

        Returns:
            The route.

        Raises:
            LivestateError: There is none, and none comes in time, or nothing gets on; or the statement was
                cancelled.
        """
        began = time.time_ns() // 1000
        found = self.newest_route(needs, definitions, read_point)
        if isinstance(found, Route):
            return found
        got_on_at = time.monotonic()
        with deadline.idle():
            while isinstance(found, NoRoute):
                remaining = deadline.remaining_seconds
                if not found.is_stuck:
                    got_on_at = time.monotonic()
                is_hopeless = time.monotonic() - got_on_at > STUCK_SECONDS
                if not found.may_come or remaining == 0.0 or is_hopeless:
                    raise found.error
                deadline.check()
                longest = POLL_SECONDS if deadline.needs_polling else LONGEST_WAIT_SECONDS
                self._cluster.peers.wait_for_change(longest if remaining is None else min(longest, remaining))
                found = self.newest_route(needs, definitions, read_point, began=began)
        return found

    def have_mixed_generations(self, groups: Collection[GroupName]) -> bool:
        """Whether the newest epochs of some of these store groups have other generations on some hosts than
        on others.
        """
        if not self._cluster.has_peers:
            return False
        reports = self._cluster.peers.reports().values()
        readable = [
            [report.groups[group].readable for report in reports if group in report.groups]
            for group in groups
        ]
        return any(len({epochs[-1].generation for epochs in found if epochs}) > 1 for found in readable)

    def sizes(self, stores: Collection[StoreName], definitions: StoreDefinitions) -> Sizes:
        """How big stores are, rounded, so that what depends on it changes seldom.

        Args:
            stores: The stores.
            definitions: All stores.
        """
        reports = self._cluster.peers.reports()
        found = [(name, self._size(definitions[name], reports)) for name in sorted(stores)]
        if len(self._sizes) > len(definitions):
            # Some were dropped. Threads that come here at once lose a few of the others, and nothing else.
            self._sizes = {name: known for name, known in list(self._sizes.items()) if name in definitions}
        return Sizes(
            tuple((name, size) for name, size in found if size is not None), self._broadcast_limit_bytes
        )

    def _size(self, definition: StoreDefinition, reports: Reports) -> StoreSize | None:
        name = definition.name
        held = [report.stores[name] for report in reports.values() if name in report.stores]
        known = self._sizes.get(name)
        if known is None or not known.holds(definition, held):
            self._sizes[name] = known = _KnownSize(definition, held, _size_of(definition, held))
        return known.size


def _column_sizes(
    definition: StoreDefinition, held: Sequence[StoreReport], rows: int
) -> Iterator[tuple[str, ColumnSize]]:
    """What hosts together say of a store's columns, as far as all of them that have rows say it."""
    told = [report.columns for report in held if report.rows]
    if not told:
        return
    for name in definition.schema.names:
        found = [columns[name] for columns in told if columns is not None and name in columns]
        if len(found) == len(told):
            lows = [each.low for each in found if each.low is not None]
            highs = [each.high for each in found if each.high is not None]
            sketches = [each.sketch for each in found if each.sketch is not None]
            is_key = definition.key == (name,)
            distinct = distinct_values(unite_sketches(sketches)) if len(sketches) == len(found) else None
            yield (
                name,
                ColumnSize(
                    rows if is_key else distinct,
                    min(lows) if len(lows) == len(found) else None,
                    max(highs) if len(highs) == len(found) else None,
                ),
            )


def _size_of(definition: StoreDefinition, held: Sequence[StoreReport]) -> StoreSize | None:
    """Size of a whole store, from what hosts say of their parts of it; replicas count once. None if no host
    says anything.
    """
    copies = sum(len(each.partitions) for each in held) / definition.partitions
    if not copies:
        return None
    rows = round(sum(each.rows for each in held) / copies)
    size = round(sum(each.bytes for each in held) / copies)
    return StoreSize(rows, size, tuple(_column_sizes(definition, held, rows))).round_up()
