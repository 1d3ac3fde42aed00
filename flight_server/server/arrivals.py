"""What clients send along with a call, for as long as they may take over it.

A thread that waits for a client's next message cannot be woken: Flight's server has no call for that. So when
the time is over, what the call holds is given back at once, by another thread, and the call fails when its
client says something or goes away.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from engine.deadline import Deadline, DeadlineWatcher
from engine.errors import DeadlineExceeded


class Arrival:
    """Something that a client is sending; a context from its first byte to its last. Safe for threads.

    Args:
        watcher: Watches the time.
        timeout_seconds: How long it may take.
        release: Gives back what is held for it. Called once at the most, from another thread, when the time
            is over.
    """

    def __init__(self, watcher: DeadlineWatcher, timeout_seconds: float, release: Callable[[], None]) -> None:
        self._timeout_seconds = timeout_seconds
        self._release = release
        self._lock = threading.Lock()
        self._is_over = self._is_complete = False
        self._watch = watcher.watch(Deadline(timeout_seconds), self._end)

    def _end(self) -> None:
        with self._lock:
            if self._is_over or self._is_complete:
                return
            self._is_over = True
        self._release()

    def check(self) -> None:
        """Go on only if there is time.

        Raises:
            DeadlineExceeded: There is none.
        """
        if self._is_over or self._watch.deadline.remaining_seconds == 0.0:
            raise DeadlineExceeded(
                f"What came with the call took longer than its time-out of {self._timeout_seconds:g} s: send "
                "less, or allow more time."
            )

    def complete(self) -> None:
        """Take note that everything is there: from now on nothing is given back.

        Raises:
            DeadlineExceeded: It came too late.
        """
        self.check()
        with self._lock:
            self._is_complete = not self._is_over
        self.check()

    def __enter__(self) -> Arrival:
        self._watch.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._watch.__exit__(*raised)
