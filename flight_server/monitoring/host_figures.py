"""All that is known of a host at a moment, for its metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.cluster.reports import GroupReport, StoreReport
from engine.model.schema import GroupName, StoreDefinition, StoreName
from engine.replica.figures import ReplicaFigures
from engine.service import ServiceFigures
from flight_server.server.server_figures import ServerFigures


@dataclass(frozen=True)
class HostFigures:
    """A host at a moment.

    Attributes:
        name: Its name in its deployment; empty where it belongs to none.
        is_ready: Whether clients may ask it.
        hosts: How many hosts its deployment has, this one among them.
        hosts_alive: How many of these it has heard of lately.
        groups: How its store groups stand.
        stores: How its stores stand.
        definitions: What these are.
        replica: What its stores have taken.
        service: What statements have taken of the engine; None while the host starts.
        server: What calls have taken; likewise.
    """

    name: str = ""
    is_ready: bool = False
    hosts: int = 1
    hosts_alive: int = 1
    groups: Mapping[GroupName, GroupReport] = field(default_factory=dict)
    stores: Mapping[StoreName, StoreReport] = field(default_factory=dict)
    definitions: Mapping[StoreName, StoreDefinition] = field(default_factory=dict)
    replica: ReplicaFigures = field(default_factory=ReplicaFigures)
    service: ServiceFigures | None = None
    server: ServerFigures | None = None
