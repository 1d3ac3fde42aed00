"""Lengths of time as people write them."""

from __future__ import annotations

import datetime as dt

import pytest

from engine.errors import InvalidInput
from engine.model.durations import duration_in_words, microseconds_of_duration


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("7 days", 604_800),
        ("1 hour 30 minutes", 5_400),
        ("1h30min", 5_400),
        ("1 week, 1 Day", 691_200),
        ("0.5 seconds ", 0.5),
        ("2 d", 172_800),
    ],
)
def test_durations(written: str, seconds: float) -> None:
    assert microseconds_of_duration(written) == seconds * 1_000_000


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (604_800_000_000, "7 days"),
        (5_400_000_000, "1 hour 30 minutes"),
        (1, "0.000001 seconds"),
        (86_401_000_000, "1 day 1 second"),
        (10_500_000, "10.5 seconds"),
        (0, "0 seconds"),
    ],
)
def test_durations_are_written_as_they_are_read(microseconds: int, text: str) -> None:
    assert duration_in_words(microseconds) == text
    assert microseconds_of_duration(text) == microseconds


def test_a_timedelta() -> None:
    assert microseconds_of_duration(dt.timedelta(days=1, microseconds=3)) == 86_400_000_003


@pytest.mark.parametrize(
    "written",
    [
        "",
        "  ",
        "days",
        "7",
        "7 months",
        "7 days and",
        "-1 day",
        "9999999999999 weeks",
        "999999999 days 999999999 days",
        7,
    ],
)
def test_what_is_no_duration(written: object) -> None:
    with pytest.raises(InvalidInput, match="time"):
        microseconds_of_duration(written)  # type: ignore[arg-type]  # as a script without types may
