"""Lengths of time as people write them."""

from __future__ import annotations

import datetime as dt

import pytest

from engine.durations import microseconds_of_duration
from engine.errors import InvalidInput


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("7 days", 604_800), ("1 hour 30 minutes", 5_400), ("1h30min", 5_400), ("1 week, 1 Day", 691_200), ("0.5 seconds ", 0.5), ("2 d", 172_800)],
)
def test_durations(written: str, seconds: float) -> None:
    assert microseconds_of_duration(written) == seconds * 1_000_000


def test_a_timedelta() -> None:
    assert microseconds_of_duration(dt.timedelta(days=1, microseconds=3)) == 86_400_000_003


@pytest.mark.parametrize("written", ["", "  ", "days", "7", "7 months", "7 days and", "-1 day", "9999999999999 weeks"])
def test_what_is_no_duration(written: str) -> None:
    with pytest.raises(InvalidInput, match="time"):
        microseconds_of_duration(written)
