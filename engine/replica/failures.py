"""What fails for a while: what there is to say of it, and when it is tried again. No threads, and no clock of
its own.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from engine.errors import LivestateError, Unavailable

LONGEST_PAUSE_SECONDS = 30.0
"""However often something has failed, it is tried again after this time."""
SECONDS_BETWEEN_COMPLAINTS = 30.0
"""What fails, goes on and fails again in the same way is logged this often."""

Task = TypeVar("Task")


def pause_seconds(failures: int, first: float, longest: float) -> float:
    """How long to wait before something is tried again: twice as long after each failure.

    Args:
        failures: How often it has failed in a row, at least 1.
        first: The pause after the first failure, in seconds.
        longest: No pause is longer, unless the first one is.

    Returns:
        Seconds.
    """
    # Beyond 64 doublings every pause is the longest one, and a float would overflow in the end.
    return max(first, min(longest, first * 2.0 ** min(failures - 1, 64)))


def problem_of(what: object, error: BaseException) -> str:
    """What there is to say of a failure to anybody: the text of an error that nobody expected can have paths
    and secrets in it.

    Args:
        what: What failed, for the beginning of a sentence.
        error: How.

    Returns:
        A sentence.
    """
    if isinstance(error, LivestateError):
        return error.message
    return (
        f"{what} failed in a way that nobody expected ({type(error).__name__}): it is tried again, and "
        "the host's log has the details."
    )


def log_failure(log: logging.Logger, what: object, error: BaseException) -> None:
    """Say in the log what failed; with its traceback, where nobody expected it.

    Args:
        log: The log.
        what: What failed, for the beginning of a sentence.
        error: How.
    """
    # What fails is tried again and again; that it fails in the same way is told once in a while.
    repeats = {"repeats": f"{what}: {type(error).__name__} {error}"}
    if isinstance(error, LivestateError):
        log.warning("%s is not getting on: %s", what, error.message, extra=repeats)
    else:
        log.error(
            "%s failed in a way that nobody expected; it is tried again.", what, exc_info=error, extra=repeats
        )


@dataclass(frozen=True)
class _Failure:
    """What fails now.

    Attributes:
        problem: What there is to say of it.
        text: What tells it from another failure.
        count: How often it has failed in a row.
        retry_at: When it is tried again, by the clock.
    """

    problem: str
    text: str
    count: int
    retry_at: float


class Failures(Generic[Task]):
    """What fails now, of several tasks. Each task belongs to one thread at a time; `problem` is for any.

    Args:
        first_pause: Seconds until something is tried again that has failed once, or that something is not
            there for.
        longest_pause: Seconds after which everything is tried again.
    """

    def __init__(self, first_pause: float, longest_pause: float = LONGEST_PAUSE_SECONDS) -> None:
        self._first_pause = first_pause
        self._longest_pause = longest_pause
        self._failures: dict[Task, _Failure] = {}
        self._logged: dict[Task, tuple[str, float]] = {}

    def note(self, task: Task, error: BaseException, clock: float) -> bool:
        """Take note of a failure.

        What is not there now (`Unavailable`) may be there any moment, and is tried after the same pause each
        time; the pauses of everything else grow.

        Args:
            task: What failed; as a text it begins a sentence.
            error: How.
            clock: The time, in seconds that never go back.

        Returns:
            Whether it is to be logged: it has not failed in this way before, or has gone on since.
        """
        known = self._failures.get(task)
        text, count = f"{type(error).__name__}: {error}", 1 if known is None else known.count + 1
        is_passing = isinstance(error, Unavailable)
        pause = (
            self._first_pause if is_passing else pause_seconds(count, self._first_pause, self._longest_pause)
        )
        self._failures[task] = _Failure(problem_of(task, error), text, count, clock + pause)
        if known is not None and known.text == text:
            return False
        logged, at = self._logged.get(task, ("", clock))
        if logged == text and clock - at < SECONDS_BETWEEN_COMPLAINTS:
            return False
        self._logged[task] = text, clock
        return True

    def clear(self, task: Task) -> None:
        """Take note that a task has gone on."""
        self._failures.pop(task, None)

    def is_due(self, task: Task, clock: float) -> bool:
        """Whether a task may be tried: it has not failed, or long enough ago."""
        return not self.seconds_left(task, clock)

    def seconds_left(self, task: Task, clock: float) -> float:
        """How long until a task may be tried again."""
        known = self._failures.get(task)
        return 0.0 if known is None else max(0.0, known.retry_at - clock)

    def problem(self, task: Task) -> str:
        """What there is to say of a task; empty if it does not fail."""
        known = self._failures.get(task)
        return "" if known is None else known.problem

    def problems(self) -> Mapping[Task, str]:
        """What there is to say of all tasks that fail."""
        return {task: failure.problem for task, failure in self._failures.copy().items()}
