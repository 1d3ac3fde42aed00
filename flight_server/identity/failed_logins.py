"""Log-ins that failed slow the next ones down."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import dataclass

FREE_FAILURES = 5
"""How many failures cost nothing: people mistype."""
LONGEST_DELAY_SECONDS = 60.0
FORGET_SECONDS = 900.0
"""After how long without a failure those before are forgotten."""


@dataclass(frozen=True)
class _Failures:
    count: int
    last: float


class FailedLogins:
    """Failures by whoever is to be slowed down. Usable from several threads. None is forgotten to make room:
    the caller sees to it that there are not many subjects.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures: dict[Hashable, _Failures] = {}

    def begin(self, subject: Hashable, now: float) -> float:
        """Begin a log-in. It counts as a failure until it is known how it ends, so that many at once are no
        more than the same number one after another.

        Args:
            subject: Who logs in.
            now: The time, in seconds of a clock that does not jump.

        Returns:
            0 if it may go on; else after how many seconds to try again, and nothing has begun. They double
            with each failure beyond those that are free.
        """
        with self._lock:
            before = self._failures.get(subject)
            count = 0 if before is None or now - before.last > FORGET_SECONDS else before.count
            if before is not None and count >= FREE_FAILURES:
                pause = min(2.0 ** min(count - FREE_FAILURES, 10), LONGEST_DELAY_SECONDS)
                if now < before.last + pause:
                    return before.last + pause - now
            self._failures[subject] = _Failures(count + 1, now)
            return 0.0

    def fail(self, subject: Hashable, now: float) -> None:
        """End a log-in that failed.

        Args:
            subject: As that of `begin`.
            now: The time; what the log-in itself took is no part of the delay.
        """
        with self._lock:
            begun = self._failures.get(subject)
            self._failures[subject] = _Failures(1 if begun is None else begun.count, now)

    def take_back(self, subject: Hashable) -> None:
        """End a log-in that was not looked at: it is no failure.

        Args:
            subject: As that of `begin`.
        """
        with self._lock:
            begun = self._failures.pop(subject, None)
            if begun is not None and begun.count > 1:
                self._failures[subject] = _Failures(begun.count - 1, begun.last)

    def forget(self, subject: Hashable) -> None:
        """End a log-in that was right; those before that failed count no more.

        Args:
            subject: As that of `begin`.
        """
        with self._lock:
            self._failures.pop(subject, None)
