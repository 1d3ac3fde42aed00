"""As many threads as a host may have.

Flight answers each call in one, which lives until the call's client has read the answer, and each that reads
or writes messages takes memory of a pool that has a size (`flight_server.host.arrow_pool`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from engine.errors import LimitExceeded

SECONDS_BETWEEN_LOOKS = 0.05
_STATUS = Path("/proc/self/stat")
_PLACE_OF_THREADS = 17
"""Behind the command's name in brackets: field 20 of proc(5)."""


def count_threads() -> int:
    """How many threads this process has, those of libraries among them; 0 where the system does not tell."""
    try:
        return int(_STATUS.read_bytes().rpartition(b")")[2].split()[_PLACE_OF_THREADS])
    except (OSError, ValueError, IndexError):
        return 0


class ThreadLimit:
    """Refuses calls while there are too many threads. Any thread may use it.

    Args:
        most: From how many on.
        count: Tells how many there are.
        clock: A monotonic clock.
    """

    def __init__(
        self, most: int, count: Callable[[], int] = count_threads, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._count = count
        self._clock = clock
        self._looked_at = clock() - SECONDS_BETWEEN_LOOKS
        self._is_reached = False

    def check(self) -> None:
        """See that one more call may begin.

        Raises:
            LimitExceeded: There were too many threads when that was looked at last.
        """
        now = self._clock()
        if now - self._looked_at >= SECONDS_BETWEEN_LOOKS:
            self._looked_at = now
            self._is_reached = self._count() >= self._most
        if self._is_reached:
            raise LimitExceeded(
                "As many calls are under way on this host as it has threads for, most of them of clients "
                "that do not read: ask again later, or another host."
            )
