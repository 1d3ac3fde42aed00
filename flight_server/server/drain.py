"""A host that is about to stop: it sends clients to other hosts, and goes on with what runs."""

from __future__ import annotations

import logging

from engine.errors import Unavailable
from flight_server.peers.deployment_member import ClusterHost
from flight_server.server.running_calls import Calls

_log = logging.getLogger(__name__)


class Drain:
    """Whether a host takes no new statements. Safe for threads.

    A host that drains runs what it has begun to its end, and fragments of other hosts. These hear of it, and
    ask it for fragments only where no other host has the rows.

    Args:
        calls: Knows what runs.
        cluster: The deployment that the host belongs to; None: none.
    """

    def __init__(self, calls: Calls, cluster: ClusterHost | None) -> None:
        self._calls = calls
        self._cluster = cluster
        self._is_final = False

    @property
    def is_on(self) -> bool:
        """Whether it drains."""
        return self._calls.is_draining

    def begin(self, *, is_final: bool = False) -> None:
        """Take no new statements from now on.

        Args:
            is_final: The host stops, so that this cannot be taken back.
        """
        self._is_final = self._is_final or is_final
        self._change(is_on=True)

    def end(self) -> None:
        """Take statements again.

        Raises:
            Unavailable: The host is stopping.
        """
        if self._is_final:
            raise Unavailable("The host is stopping by now: start it again.")
        self._change(is_on=False)

    def _change(self, *, is_on: bool) -> None:
        if is_on == self._calls.is_draining:
            return
        self._calls.drain(is_draining=is_on)
        _log.info("The host %s.", "drains: it takes no new statements" if is_on else "takes statements again")
        if self._cluster is not None:
            self._cluster.peers.note_drain(is_draining=is_on)

    def wait_until_told(self, timeout_seconds: float) -> bool:
        """Wait until all hosts that are alive know of it.

        Args:
            timeout_seconds: How long at most.

        Returns:
            Whether they do.
        """
        return self._cluster is None or self._cluster.peers.wait_until_told(timeout_seconds)
