"""Log-ins that failed slow the next ones down."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

FREE_FAILURES = 5
"""How many failures cost nothing: people mistype."""
LONGEST_DELAY_SECONDS = 60.0
FORGET_SECONDS = 900.0
"""After how long without a failure those before are forgotten."""
MOST_REMEMBERED = 10_000
"""Of how many names and addresses failures are remembered; beyond, those of longest ago are forgotten."""


@dataclass(frozen=True)
class _Failures:
    count: int
    last: float


class FailedLogins:
    """Failures by name and by address. Usable from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures: OrderedDict[str, _Failures] = OrderedDict()

    def delay(self, subject: str, now: float) -> float:
        """How long somebody has to wait before the next log-in is looked at.

        Args:
            subject: The name or address.
            now: The time, in seconds of a clock that does not jump.

        Returns:
            Seconds; 0 for none. They double with each failure beyond those that are free.
        """
        with self._lock:
            failures = self._failures.get(subject)
        if failures is None or failures.count < FREE_FAILURES or now - failures.last > FORGET_SECONDS:
            return 0.0
        pause = min(2.0 ** min(failures.count - FREE_FAILURES, 10), LONGEST_DELAY_SECONDS)
        return max(0.0, failures.last + pause - now)

    def add(self, subject: str, now: float) -> None:
        """Take note of a failure.

        Args:
            subject: As that of `delay`.
            now: As that of `delay`.
        """
        with self._lock:
            before = self._failures.pop(subject, None)
            count = before.count if before is not None and now - before.last <= FORGET_SECONDS else 0
            self._failures[subject] = _Failures(count + 1, now)
            if len(self._failures) > MOST_REMEMBERED:
                self._failures.popitem(last=False)

    def forget(self, subject: str) -> None:
        """Take note of a log-in that did not fail.

        Args:
            subject: As that of `delay`.
        """
        with self._lock:
            self._failures.pop(subject, None)
