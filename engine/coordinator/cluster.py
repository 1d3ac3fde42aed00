"""The hosts of a deployment as a coordinator needs them."""

from __future__ import annotations

from dataclasses import dataclass

from engine.cluster.fragments import Peers
from engine.cluster.reports import HostName
from engine.cluster.routing import Order


@dataclass(frozen=True)
class Cluster:
    """All hosts, and which of them this is.

    Attributes:
        peers: How the others are asked.
        here: Name of this host.
        order: Who should answer for a partition: `engine.cluster.assignment.Assignment.order`.
    """

    peers: Peers
    here: HostName
    order: Order
