"""How far a host is that builds partitions, or is behind: rates, what is logged, and words. The clock is
given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from engine.cluster.reports import GroupReport, Progress
from engine.model.durations import MICROSECONDS_PER_SECOND, duration_in_words
from engine.model.quantities import human_bytes

RATE_SECONDS = 30.0
"""The rate is that of the last so many seconds: a host that has stopped is seen to stand still."""
LEAST_RATE_SECONDS = 0.5
"""There is no rate of less time than this."""
LOG_SECONDS = 30.0
LOG_PERCENT = 10
"""A line is logged at the start, after so much time or so many percent more, and at the end."""


class Sample(NamedTuple):
    """What was done at a moment.

    Attributes:
        clock: The moment, in seconds that never go back.
        nbytes: Bytes that were done by then, since the beginning.
    """

    clock: float
    nbytes: int


def transfer_rate(samples: Sequence[Sample], nbytes: int, clock: float) -> float | None:
    """How many bytes a second are done lately.

    Args:
        samples: What was done at earlier moments, in order.
        nbytes: What is done now.
        clock: Now.

    Returns:
        Bytes a second since the newest sample that is `RATE_SECONDS` old, or else the first one; None where
        that is hardly any time.
    """
    since = None
    for sample in samples:
        if since is not None and clock - sample.clock < RATE_SECONDS:
            break
        since = sample
    if since is None or clock - since.clock < LEAST_RATE_SECONDS:
        return None
    return max(0, nbytes - since.nbytes) / (clock - since.clock)


class LoggedProgress(NamedTuple):
    """What was logged of a build or a catching-up.

    Attributes:
        clock: When, in seconds that never go back.
        percent: The percent that it said.
    """

    clock: float
    percent: int


def is_line_due(logged: LoggedProgress | None, progress: Progress, clock: float) -> bool:
    """Whether another line is to be logged.

    Args:
        logged: The line before; None where there is none.
        progress: How far it is now.
        clock: Now.
    """
    if logged is None:
        return True
    return clock - logged.clock >= LOG_SECONDS or abs(progress.percent - logged.percent) >= LOG_PERCENT


def time_in_words(seconds: float) -> str:
    """A length of time, as exactly as anybody needs it.

    Args:
        seconds: The length, not negative.
    """
    unit = 1 if seconds < 120 else 60 if seconds < 7_200 else 3_600
    return duration_in_words(round(seconds / unit) * unit * MICROSECONDS_PER_SECOND)


def progress_in_words(progress: Progress) -> str:
    """How far a host is: a sentence without its full stop, whose subject is the host.

    Args:
        progress: Of a host.
    """
    if progress.snapshot is None:
        where = f"it is at epoch {progress.epoch} of {progress.target}"
    else:
        where = f"it reads the snapshot of epoch {progress.snapshot}, on its way to epoch {progress.target}"
    if progress.snapshot is not None and progress.bytes_left is None:
        return where
    return f"{where} ({figures_in_words(progress)})"


def figures_in_words(progress: Progress) -> str:
    """Percent, rate and time left, as far as they are known.

    Args:
        progress: Of a host.
    """
    words = [f"{progress.percent} %"]
    if progress.bytes_per_second is not None:
        words.append(f"{human_bytes(progress.bytes_per_second)}/s")
    if progress.seconds_left is not None:
        words.append(f"about {time_in_words(progress.seconds_left)} left")
    return ", ".join(words)


def outlook(report: GroupReport) -> str:
    """The end of a sentence that says that partitions are being built: how far they are, and what to do.

    Args:
        report: Of the group on the host that builds them.
    """
    far = "" if report.building is None else f"; {progress_in_words(report.building)}"
    stale = f"say allow_stale to read epoch {report.past[-1].epoch}." if report.past else ""
    if report.problem:
        return " ".join(filter(None, (f"{far} and does not get on: {report.problem}", stale.capitalize())))
    return f"{far}: try again later, or {stale}" if stale else f"{far}: try again later."
