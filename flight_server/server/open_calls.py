"""Calls that are under way, by who makes them. Each takes a thread of the host from its headers on, also one
of which no message ever follows: no handler is told of it, nor whatever else has a limit.
"""

from __future__ import annotations

import threading
from collections import Counter

from engine.errors import LimitExceeded
from flight_server.server.limits import count_down, has_room


class OpenCalls:
    """Counts calls. Where as many are under way as may be, whoever has less than its share of them may make
    another one all the same. Safe for threads.

    Args:
        limit: How many there may be.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._count = 0
        self._by_owner: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._count

    def begin(self, owner: str) -> None:
        """Count a call that begins.

        Args:
            owner: Who makes it.

        Raises:
            LimitExceeded: It has as many as may be.
        """
        with self._lock:
            if self._count >= self._limit and not has_room(self._by_owner, owner, self._limit):
                raise LimitExceeded(
                    f"{self._count} calls are under way on this host, {self._by_owner[owner]} of them of "
                    f"{owner}, and no more have room (max_calls): let some end, or ask another host."
                )
            self._by_owner[owner] += 1
            self._count += 1

    def end(self, owner: str) -> None:
        """Count a call no more."""
        with self._lock:
            count_down(self._by_owner, owner)
            self._count -= 1
