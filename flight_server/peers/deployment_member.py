"""A host's part in a deployment: the other hosts, and how all of them stand."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import pyarrow as pa

from engine.catalog.host_statuses import hosts_table
from engine.cluster.deployment import Deployment
from engine.cluster.reports import HostName
from engine.coordinator.deployment_hosts import DeploymentHosts
from engine.errors import LivestateError
from engine.scan import StoreSource
from flight_server.peers.host_tables import replicas_table
from flight_server.peers.peers import FlightPeers, PeerOptions


class ClusterHost:
    """One host among those of its deployment.

    Args:
        deployment: All of them.
        here: Name of this one.
        source: Its stores.
        changelog: Identity of the changelog that it follows; empty while it has none.
        options: How hosts talk to each other.

    Attributes:
        here: As the argument.
    """

    def __init__(
        self,
        deployment: Deployment,
        here: HostName,
        source: StoreSource,
        changelog: Callable[[], str],
        options: PeerOptions | None = None,
    ) -> None:
        self._deployment = deployment
        self.here = deployment.host(here).name
        self._source = source
        self.peers = FlightPeers(self.here, self.uris, source.report, changelog, options)

    @property
    def uris(self) -> Mapping[HostName, str]:
        """Where all hosts are."""
        return {entry.name: entry.uri for entry in self._deployment.hosts}

    def start(self) -> None:
        """Begin to talk to the others."""
        self.peers.start()

    def stop(self) -> None:
        """Talk to nobody any more. May be called again."""
        self.peers.stop()

    def coordinator_view(self) -> DeploymentHosts:
        """The deployment as a coordinator sees it."""
        return DeploymentHosts(self.peers, self.here, self._deployment.assignment.order, self.uris)

    def receive(self, body: bytes) -> bytes:
        """Answer a report of another host, as `FlightPeers.receive`."""
        return self.peers.receive(body)

    def ask_others(self, sql: str) -> Mapping[HostName, pa.Table | LivestateError]:
        """As `FlightPeers.ask_all`."""
        return self.peers.ask_all(sql)

    def hosts(self) -> pa.Table:
        """How the hosts stand: a table of `engine.catalog.host_statuses.HOSTS_SCHEMA`."""
        return hosts_table(
            self.uris, self.peers.host_statuses(), self._source.definitions(), time.time_ns() // 1000
        )

    def replicas(self) -> pa.Table:
        """Who holds what: a table of `flight_server.peers.host_tables.REPLICAS_SCHEMA`."""
        return replicas_table(
            self._deployment, self.peers.host_statuses(), self._source.definitions(), time.time_ns() // 1000
        )
