"""One host is a cluster of one: a host that belongs to no deployment, as the hosts of one see each other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from engine.cluster.fragments import FragmentRequest, FragmentRows
from engine.cluster.reports import LONE_HOST, HostName, HostReport, HostStatus
from engine.coordinator.deployment_hosts import DeploymentHosts
from engine.errors import Defect
from engine.model.schema import Epoch, GroupName
from engine.scan import StoreSource

HERE = LONE_HOST
SECONDS_BETWEEN_LOOKS = 0.02


class _NoPeers:
    """Implements `engine.cluster.fragments.Peers` for a host that has none.

    Args:
        source: Its stores.
    """

    def __init__(self, source: StoreSource) -> None:
        self._source = source
        self._never = threading.Event()

    def reports(self) -> Mapping[HostName, HostReport]:
        """What this host has."""
        return {HERE: HostReport(HERE, *self._source.report())}

    def host_statuses(self) -> Mapping[HostName, HostStatus]:
        """How this host stands."""
        return {host: HostStatus(alive=True, report=report) for host, report in self.reports().items()}

    def run(
        self, host: HostName, request: FragmentRequest, cancelled: Callable[[], bool] | None = None
    ) -> FragmentRows:
        """There is nobody to ask."""
        raise Defect(f"There is no host {host}.")

    def hold(self, host: HostName, epochs: Mapping[GroupName, Epoch], seconds: float) -> None:
        """There is nobody to ask."""
        raise Defect(f"There is no host {host}.")

    def wait_for_change(self, timeout_seconds: float) -> bool:
        """As `Peers.wait_for_change`. A source says nothing by itself, so it is looked at now and then."""
        before, until = self._source.report(), time.monotonic() + timeout_seconds
        while (left := until - time.monotonic()) > 0:
            self._never.wait(min(left, SECONDS_BETWEEN_LOOKS))
            if self._source.report() != before:
                return True
        return False


def cluster_of_one(source: StoreSource) -> DeploymentHosts:
    """The deployment of one host.

    Args:
        source: Its stores.
    """
    return DeploymentHosts(_NoPeers(source), HERE, lambda partitions: [(HERE,)] * partitions, has_peers=False)
