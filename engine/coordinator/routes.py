"""Finds a route for a statement: waits for what may come, and knows which stores are small."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from engine.cluster.reports import HostName, HostReport
from engine.cluster.routing import NotYet, Route, route
from engine.cluster.wishes import EpochWish
from engine.coordinator.cluster import Cluster
from engine.exec.deadline import POLL_SECONDS, Deadline
from engine.plan.placement import Partitions
from engine.schema import StoreDefinition, StoreName

LONGEST_WAIT_SECONDS = 1.0
"""How long a report is waited for before everything is looked at again."""

Reports = Mapping[HostName, HostReport]
Definitions = Mapping[StoreName, StoreDefinition]


@dataclass(frozen=True)
class _Sizes:
    """The small stores, as some reports have it."""

    reports: Reports
    definitions: Definitions
    small: frozenset[StoreName]


class Routes:
    """Routes of a host's statements. Safe for threads.

    Args:
        cluster: The hosts.
        broadcast_limit_bytes: Arrow bytes up to which a store is small.
    """

    def __init__(self, cluster: Cluster, broadcast_limit_bytes: int) -> None:
        self._cluster = cluster
        self._broadcast_limit_bytes = broadcast_limit_bytes
        self._sizes = _Sizes({}, {}, frozenset())

    def now(self, needs: Partitions, definitions: Definitions, wish: EpochWish, without: Collection[HostName] = ()) -> Route | NotYet:
        """The route that newest reports give.

        Args:
            needs: The partitions that a statement needs.
            definitions: All stores.
            wish: Which epochs will do.
            without: Hosts that are not to take part.

        Returns:
            The route; or why there is none.
        """
        reports = self._cluster.peers.reports()
        if without:
            reports = {host: report for host, report in reports.items() if host not in without}
        return route(needs, definitions, reports, self._cluster.here, self._cluster.order, wish, time.time_ns() // 1000)

    def find(self, needs: Partitions, definitions: Definitions, wish: EpochWish, deadline: Deadline) -> Route:
        """The route of a statement; waits for it as long as the statement may.

        Args:
            needs: The partitions that the statement needs.
            definitions: All stores.
            wish: Which epochs will do.
            deadline: When the statement must end.

        Returns:
            The route.

        Raises:
            LivestateError: There is none, and none comes in time; or the statement was cancelled.
        """
        while True:
            found = self.now(needs, definitions, wish)
            if isinstance(found, Route):
                return found
            remaining = deadline.remaining_seconds
            if not found.may_come or remaining == 0.0:
                raise found.error
            deadline.check()
            longest = POLL_SECONDS if deadline.needs_polling else LONGEST_WAIT_SECONDS
            self._cluster.peers.wait_for_change(longest if remaining is None else min(longest, remaining))

    def small_stores(self, definitions: Definitions) -> frozenset[StoreName]:
        """Stores that are cheap to send to every host."""
        reports, known = self._cluster.peers.reports(), self._sizes
        if known.reports is reports and known.definitions is definitions:
            return known.small
        small = frozenset(name for name in definitions if _bytes_of(definitions[name], reports) <= self._broadcast_limit_bytes)
        self._sizes = _Sizes(reports, definitions, small)
        return small


def _bytes_of(definition: StoreDefinition, reports: Reports) -> float:
    """Bytes of a whole store, from what hosts say of their parts of it; replicas count once."""
    held = [report.stores[definition.name] for report in reports.values() if definition.name in report.stores]
    copies = sum(len(each.partitions) for each in held) / definition.partitions
    return sum(each.bytes for each in held) / copies if copies else 0.0
