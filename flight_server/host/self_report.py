"""What a host says of itself to `livestate doctor`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from engine.replica.follower import Follower
from flight_server.host.machine_facts import (
    directory_facts,
    memory_bytes,
    memory_limit_bytes,
    open_files,
    package_versions,
)
from flight_server.peers.peers import FlightPeers
from flight_server.wire.diagnosis_messages import HostDiagnosis, PeerFacts


class SelfReport:
    """Looks at one host.

    Args:
        name: Its name; empty where it belongs to no deployment.
        data: Its data directory.
        memory_budget_bytes: What its options let queries and caches take.
        follower: Its stores.
        peers: The other hosts; None: there are none.
    """

    def __init__(
        self,
        name: str,
        data: Path,
        memory_budget_bytes: int,
        follower: Follower,
        peers: FlightPeers | None,
    ) -> None:
        self._name = name
        self._data = data
        self._memory_budget_bytes = memory_budget_bytes
        self._follower = follower
        self._peers = peers

    def diagnosis(self) -> HostDiagnosis:
        """How the host stands now; its disk and the other hosts are tried."""
        peers: Mapping[str, PeerFacts] = {} if self._peers is None else self._peers.probe_all()
        opened, limit = open_files()
        groups, stores = self._follower.report()
        return HostDiagnosis(
            host=self._name,
            versions=package_versions(),
            ready=self._follower.has_caught_up,
            partitions=sum(len(store.partitions) + len(store.rebuilding) for store in stores.values()),
            open_files=opened,
            open_files_limit=limit,
            needed_files=self._follower.file_need.files,
            memory_bytes=memory_bytes(),
            memory_limit_bytes=memory_limit_bytes(),
            memory_budget_bytes=self._memory_budget_bytes,
            data=directory_facts(self._data),
            peers=peers,
            problems={name: group.problem for name, group in groups.items() if group.problem},
            # What comes before takes time.
            clock=time.time_ns() // 1000,
        )
