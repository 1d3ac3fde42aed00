"""Percent, rates, times left, and which lines are logged: from values, with the clock given."""

from __future__ import annotations

import pytest

from engine.cluster.progress import (
    LoggedProgress,
    Sample,
    figures_in_words,
    is_line_due,
    progress_in_words,
    time_in_words,
    transfer_rate,
)
from engine.cluster.reports import Progress
from engine.model.schema import Epoch

MIB = 1 << 20


def progress(
    epoch: int = 40,
    target: int = 100,
    snapshot: int | None = None,
    done: int = 0,
    left: int | None = None,
    rate: float | None = None,
) -> Progress:
    return Progress(
        Epoch(epoch), Epoch(target), None if snapshot is None else Epoch(snapshot), done, left, rate
    )


@pytest.mark.parametrize(
    ("found", "percent", "seconds"),
    [
        (progress(), 40, None),
        (progress(0, 0), 100, None),
        (progress(7, 5), 100, None),
        (progress(done=30, left=90), 25, None),
        (progress(done=30, left=90, rate=10.0), 25, 9.0),
        (progress(done=30, left=90, rate=0.0), 25, None),
        (progress(99, 100, done=10**9, left=1, rate=1.0), 99, 1.0),
        (progress(done=0, left=0, rate=5.0), 40, 0.0),
        (progress(100, 100, done=5, left=7), 100, None),
    ],
)
def test_percent_and_time_left(found: Progress, percent: int, seconds: float | None) -> None:
    assert (found.percent, found.seconds_left) == (percent, seconds)


def test_a_rate_is_that_of_the_last_half_minute() -> None:
    samples = [Sample(100.0, 0), Sample(110.0, 1000), Sample(130.0, 1000), Sample(150.0, 4000)]
    assert transfer_rate([], 5, 100.0) is None
    assert transfer_rate(samples[:1], 5, 100.4) is None
    assert transfer_rate(samples[:1], 500, 105.0) == 100.0
    assert transfer_rate(samples[:3], 1000, 130.0) == pytest.approx(1000 / 30)
    assert transfer_rate(samples, 4000, 150.0) == pytest.approx(3000 / 40)
    # A host that has stopped stands still, however fast it was.
    assert transfer_rate(samples, 4000, 179.0) == pytest.approx(3000 / 49)
    assert transfer_rate(samples, 4000, 180.0) == 0.0


def test_lines_are_logged_now_and_then() -> None:
    now = progress(done=30, left=70)
    assert is_line_due(None, now, 5.0)
    assert not is_line_due(LoggedProgress(5.0, 21), now, 34.9)
    assert is_line_due(LoggedProgress(5.0, 20), now, 6.0)
    assert is_line_due(LoggedProgress(5.0, 30), now, 35.0)
    # A target that moves on, or a build that begins anew, has it fall.
    assert is_line_due(LoggedProgress(5.0, 40), now, 6.0)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "0 seconds"),
        (59.6, "1 minute"),
        (95, "1 minute 35 seconds"),
        (600, "10 minutes"),
        (7_000, "1 hour 57 minutes"),
        (100_000, "1 day 4 hours"),
    ],
)
def test_times_are_as_exact_as_anybody_needs_them(seconds: float, words: str) -> None:
    assert time_in_words(seconds) == words


def test_progress_in_words() -> None:
    known = {"done": 12 * MIB, "left": 36 * MIB, "rate": 3.1 * MIB}
    assert figures_in_words(progress(**known)) == "25 %, 3.1 MiB/s, about 12 seconds left"  # type: ignore[arg-type]
    assert progress_in_words(progress()) == "it is at epoch 40 of 100 (40 %)"
    assert progress_in_words(progress(0, 100, 80)) == (
        "it reads the snapshot of epoch 80, on its way to epoch 100"
    )
    assert progress_in_words(progress(0, 100, 80, done=10, left=30)) == (
        "it reads the snapshot of epoch 80, on its way to epoch 100 (25 %)"
    )
