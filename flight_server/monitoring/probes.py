"""The pages of a host: whether it lives, whether it is ready, and its metrics."""

from __future__ import annotations

from http import HTTPStatus
from typing import Protocol

from flight_server.monitoring.http_port import Page
from flight_server.monitoring.metrics import MetricsPage


class ProbedHost(Protocol):
    """What probes ask; as `flight_server.host.host.Host` is."""

    def unready_reason(self) -> str:
        """Why clients are to ask other hosts, in a sentence; empty where they may ask this one."""


class Probes:
    """Implements `flight_server.monitoring.http_port.Pages` for a host.

    Args:
        host: The host.
        metrics: Its metrics.
    """

    def __init__(self, host: ProbedHost, metrics: MetricsPage) -> None:
        self._host = host
        self._metrics = metrics

    def page(self, path: str) -> Page | None:
        """As `Pages.page`."""
        match path:
            case "/livez":
                return Page(HTTPStatus.OK, b"The host lives.\n")
            case "/readyz":
                return self._ready_page()
            case "/metrics":
                return self._metrics.page()
            case _:
                return None

    def _ready_page(self) -> Page:
        reason = self._host.unready_reason()
        status = HTTPStatus.SERVICE_UNAVAILABLE if reason else HTTPStatus.OK
        return Page(status, f"{reason or 'The host is ready.'}\n".encode())
