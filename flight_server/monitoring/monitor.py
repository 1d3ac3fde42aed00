"""What others watch a host by: its port of probes and metrics."""

from __future__ import annotations

from typing import Protocol

from flight_server.monitoring.http_port import HttpPort
from flight_server.monitoring.metrics import MeasuredHost, MetricsPage
from flight_server.monitoring.probes import ProbedHost, Probes
from flight_server.monitoring.scheduling_lag import SchedulingLag


class WatchedHost(MeasuredHost, ProbedHost, Protocol):
    """What is watched; as `flight_server.host.host.Host` is."""


class Monitor:
    """Answers probes and metrics of a host. It listens as soon as it exists.

    Args:
        host: The host, which need not be started.
        address: Name or number of the interface.
        port: Where; 0 takes a free port.

    Attributes:
        uri: Where it is.

    Raises:
        InvalidInput: It cannot listen there.
    """

    def __init__(self, host: WatchedHost, address: str, port: int) -> None:
        self._lag = SchedulingLag()
        self._port = HttpPort(address, port, Probes(host, MetricsPage(host, self._lag)))
        self.uri = self._port.uri

    def start(self) -> None:
        """Answer from now on."""
        self._lag.start()
        self._port.start()

    def stop(self) -> None:
        """Answer no more, and give the port back. May be called again."""
        self._port.stop()
        self._lag.stop()
