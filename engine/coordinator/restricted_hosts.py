"""The hosts of a deployment as they exist for somebody: with the stores that are seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from engine.access.scope import Scope
from engine.cluster.fragments import FragmentRequest, FragmentRows, Peers
from engine.cluster.reports import HostName, HostReport, HostStatus
from engine.coordinator.deployment_hosts import DeploymentHosts
from engine.exec.restricted_source import RestrictedSource
from engine.model.schema import Epoch, GroupName


class _RestrictedPeers:
    """Implements `engine.cluster.fragments.Peers` over others.

    Args:
        peers: All of what hosts say.
        source: Knows what is seen of it.
        scope: What that is; it goes along with whatever is asked of another host.
    """

    def __init__(self, peers: Peers, source: RestrictedSource, scope: Scope) -> None:
        self._peers = peers
        self._source = source
        self._scope = scope

    def reports(self) -> Mapping[HostName, HostReport]:
        """As `Peers.reports`."""
        return {host: self._visible(report) for host, report in self._peers.reports().items()}

    def host_statuses(self) -> Mapping[HostName, HostStatus]:
        """As `Peers.host_statuses`."""
        return {
            host: status if status.report is None else replace(status, report=self._visible(status.report))
            for host, status in self._peers.host_statuses().items()
        }

    def _visible(self, report: HostReport) -> HostReport:
        groups, stores = self._source.visible_reports(report.groups, report.stores)
        return replace(report, groups=groups, stores=stores)

    def run(
        self, host: HostName, request: FragmentRequest, cancelled: Callable[[], bool] | None = None
    ) -> FragmentRows:
        """As `Peers.run`."""
        return self._peers.run(host, replace(request, scope=self._scope), cancelled)

    def hold(self, host: HostName, epochs: Mapping[GroupName, Epoch], seconds: float) -> None:
        """As `Peers.hold`."""
        self._peers.hold(host, epochs, seconds)

    def wait_for_change(self, timeout_seconds: float) -> bool:
        """As `Peers.wait_for_change`."""
        return self._peers.wait_for_change(timeout_seconds)


def restricted_hosts(cluster: DeploymentHosts, source: RestrictedSource, scope: Scope) -> DeploymentHosts:
    """A deployment as it exists for somebody.

    Args:
        cluster: All of it.
        source: Knows what is seen of it.
        scope: What that is.
    """
    return replace(cluster, peers=_RestrictedPeers(cluster.peers, source, scope))
