"""The hosts of a deployment as a coordinator needs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.cluster.fragments import Peers
from engine.cluster.reports import HostName
from engine.cluster.routing import Order


@dataclass(frozen=True)
class DeploymentHosts:
    """All hosts, and which of them this is.

    Attributes:
        peers: How the others are asked.
        here: Name of this host.
        order: Who should answer for a partition: `engine.cluster.assignment.Assignment.order`.
        uris: Where the hosts are, as far as that is known.
        has_peers: Whether there can be other hosts; without any this one has everything.
    """

    peers: Peers
    here: HostName
    order: Order
    uris: Mapping[HostName, str] = field(default_factory=dict)
    has_peers: bool = True
