"""Who has called lately, and from where: each connection of each principal.

Flight does not say when a connection ends: one that was silent for `KEPT_SECONDS` is forgotten, and does not
count against a limit when it was silent for `COUNTED_SECONDS`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.access.principal import LimitName, Principal
from engine.errors import LimitExceeded

KEPT_SECONDS = 900.0
COUNTED_SECONDS = 60.0
MOST_KEPT = 10_000
"""Of more connections those that were silent for longest are forgotten."""


@dataclass(eq=False)
class CallerConnection:
    """A connection by which a principal calls.

    Attributes:
        principal: Who.
        peer: Where from, as gRPC has it.
        since: When it called first, seconds since 1970.
        latest: When it called last, by a clock that nobody sets.
        calls: How often it has called; calls at the same moment may count once.
    """

    principal: Principal
    peer: str
    since: float
    latest: float
    calls: int = 1


class Connections:
    """The connections of all principals. Safe for threads.

    Args:
        clock: A monotonic clock, seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, dict[str, CallerConnection]] = {}
        self._count = 0

    def note_call(self, principal: Principal, peer: str) -> None:
        """Take note of a call.

        Args:
            principal: Who calls.
            peer: Where from.

        Raises:
            LimitExceeded: By one connection more than its roles allow.
        """
        found = self._known.get(principal.name, {}).get(peer)
        now = self._clock()
        if found is not None and now - found.latest < COUNTED_SECONDS:
            found.principal, found.latest = principal, now
            found.calls += 1
            return
        with self._lock:
            self._admit(principal, peer, now)

    def _admit(self, principal: Principal, peer: str, now: float) -> None:
        own = self._known.get(principal.name, {})
        limit = principal.limits.get(LimitName.CONNECTIONS)
        if limit is not None:
            busy = sum(now - each.latest < COUNTED_SECONDS for each in own.values())
            if busy >= limit.most:
                raise LimitExceeded(
                    f"{principal.name} calls by {busy} connections, as many as the role {limit.role} may "
                    f"have ({LimitName.CONNECTIONS.value}): use one of them, or wait until one was silent "
                    f"for {COUNTED_SECONDS:g} s."
                )
        known = own.get(peer)
        if known is not None:
            known.principal, known.latest = principal, now
            known.calls += 1
            return
        if self._count >= MOST_KEPT:
            self._forget_oldest(now)
        self._known.setdefault(principal.name, {})[peer] = CallerConnection(principal, peer, time.time(), now)
        self._count += 1

    def _forget_oldest(self, now: float) -> None:
        """Forget what was silent for too long, and the tenth that was silent for longest."""
        found = sorted(self._all(), key=lambda each: each.latest)
        for place, each in enumerate(found):
            if place <= MOST_KEPT // 10 or now - each.latest > KEPT_SECONDS:
                own = self._known[each.principal.name]
                del own[each.peer]
                self._count -= 1
                if not own:
                    del self._known[each.principal.name]

    def _all(self) -> list[CallerConnection]:
        return [each for own in self._known.values() for each in own.values()]

    def idle_seconds(self, connection: CallerConnection) -> float:
        """How long a connection has been silent."""
        return max(0.0, self._clock() - connection.latest)

    def recent(self) -> Sequence[CallerConnection]:
        """Those that called within the last `KEPT_SECONDS`, the oldest first."""
        since = self._clock() - KEPT_SECONDS
        with self._lock:
            return sorted((each for each in self._all() if each.latest >= since), key=lambda each: each.since)
