"""A thread that has changes of how a host stands in the log, each once."""

from __future__ import annotations

import logging
import time
from threading import Event, Thread

from engine.replica.follower import Follower
from flight_server.host.decision_audit import DecisionAudit
from flight_server.host.host_events import HostEvents, HostLook
from flight_server.peers.peers import FlightPeers

LOOK_SECONDS = 1.0

_log = logging.getLogger(__name__)


class EventWatch:
    """Watches a host.

    Args:
        follower: Its stores.
        peers: The other hosts; None: there are none.
        events: Tells changes from what goes on.
        decisions: Writes down what operators decide; None: nobody does.
    """

    def __init__(
        self,
        follower: Follower,
        peers: FlightPeers | None,
        events: HostEvents,
        decisions: DecisionAudit | None = None,
    ) -> None:
        self._follower = follower
        self._peers = peers
        self._events = events
        self._decisions = decisions
        self._is_ending = False
        self._begun = time.monotonic()
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="events", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def note_end(self) -> None:
        """Take note that the host was told to end."""
        self._is_ending = True

    def stop(self) -> None:
        """Watch no longer. May be called again."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while True:
            try:
                self.look()
            except Exception:  # noqa: BLE001 - the top of all that this thread does
                _log.exception("How the host stands cannot be told", extra={"repeats": "event watch"})
            if self._stopping.wait(LOOK_SECONDS):
                return

    def look(self) -> None:
        """Look at the host, and log what has changed."""
        groups, _ = self._follower.report()
        others = {} if self._peers is None else self._peers.others_alive()
        look = HostLook(
            time.time_ns() // 1000,
            self._follower.has_caught_up,
            groups,
            others,
            self._is_ending,
            time.monotonic() - self._begun,
        )
        for event in self._events.observe(look):
            _log.log(event.level, "%s", event.message)
        if self._decisions is not None:
            self._decisions.note(self._follower.decisions())
