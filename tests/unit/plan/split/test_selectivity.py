"""Which share of rows conditions leave: by statistics where there are any, else as it was guessed before."""

from __future__ import annotations

import datetime as dt
from math import isfinite
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlglot import parse_one

from engine.plan.conditions import conditions
from engine.plan.logical.logical_plan import logical_plan
from engine.plan.split.selectivity import (
    ColumnSize,
    TableShares,
    column_shares,
    share_of,
    share_of_interval,
)
from engine.plan.values import Arguments
from engine.scan import Interval
from engine.sql.engine_dialect import EngineDialect
from tests.support.split_runner import SplitRunner

KNOWN = {
    "s": TableShares(
        {"genre": ColumnSize(20), "song": ColumnSize(1000, 0, 1000), "seconds": ColumnSize(None, 0, 100)},
        {"song": 0.25, "seconds": 0.0625},
    )
}


@pytest.mark.parametrize(
    ("condition", "guess", "known"),
    [
        ("s.genre = 3", 0.05, 1 / 20),
        ("s.song = 3", 0.05, 1 / 1000),
        ("s.song = $1", 0.05, 1 / 1000),
        ("s.seconds = 3", 0.05, 0.0625),
        ("s.song IN (1, 2, 3)", 0.15, 3 / 1000),
        ("s.song > 750", 0.2, 0.25),
        ("s.song BETWEEN 1 AND $1", 0.2, 0.25),
        ("s.song > 1 AND s.song < 251", 0.04, 0.25),
        ("s.song > 1 AND s.seconds < 5", 0.04, 0.25 * 0.0625),
        ("s.genre = 1 OR s.song = 4", 0.1, 1 / 20 + 1 / 1000),
        ("s.song > 900 OR s.song < 5", 0.4, 0.4),
        ("s.title LIKE 'a%'", 0.1, 0.1),
        ("s.genre = t.genre", 1.0, 1.0),
        ("t.genre = 3", 0.05, 0.05),
        ("s.song > t.song", 1.0, 1.0),
        ("s.title = 'a' AND t.title = 'b' AND t.genre = 3", 0.01, 0.01),
    ],
)
def test_what_a_condition_leaves(condition: str, guess: float, known: float) -> None:
    node = parse_one(condition, dialect=EngineDialect)
    assert share_of([node]) == pytest.approx(guess)
    assert share_of([node], KNOWN) == pytest.approx(known)


@pytest.mark.parametrize(
    ("low", "high", "size", "share"),
    [
        (10, 20, ColumnSize(None, 0, 100), 0.1),
        (None, 20, ColumnSize(None, 0, 100), 0.2),
        (90, 500, ColumnSize(None, 0, 100), 0.1),
        (200, 500, ColumnSize(None, 0, 100), 0.0),
        (5, None, ColumnSize(None, 7, 7), 1.0),
        (5, 5, ColumnSize(50, 0, 100), 0.02),
        (5, 5, ColumnSize(None, 0, 100), None),
        (5, 9, ColumnSize(50), None),
        ("a", "b", ColumnSize(50), None),
        ("a", "a", ColumnSize(50), 0.02),
        (float("nan"), 5.0, ColumnSize(50, 0, 100), None),
        (dt.date(1970, 1, 3), dt.date(1970, 1, 5), ColumnSize(None, 0, 8), 0.25),
    ],
)
def test_what_lies_in_an_interval(low: Any, high: Any, size: ColumnSize, share: float | None) -> None:
    first, last = (None if bound is None else pa.scalar(bound) for bound in (low, high))
    interval = Interval(first, last)
    assert share_of_interval(interval, size) == (None if share is None else pytest.approx(share))


def test_sizes_of_columns_change_seldom() -> None:
    first = ColumnSize(900, 3, 1000).round_off()
    assert first == ColumnSize(1000, 60, 1010).round_off() == ColumnSize(1024, 0.0, 1024.0)
    assert ColumnSize(7, 5, 5).round_off() == ColumnSize(8, 5, 5)
    assert ColumnSize(7, None, 5).round_off() == ColumnSize(8)
    assert ColumnSize(None, -1e308, 1e308).round_off() == ColumnSize()


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=2),
    st.floats(allow_nan=False, allow_infinity=False),
)
@example([0.0, 1.7e308], 1.0)
@example([0.0, 5e-324], 1.0)
@example([1e308, 1.79e308], 1.5e308)
def test_bounds_are_rounded_whatever_they_are(bounds: list[float], asked: float) -> None:
    low, high = sorted(bounds)
    size = ColumnSize(None, low, high).round_off()
    if not isfinite(high - low):
        assert size == ColumnSize()
        return
    assert size.low is not None
    assert size.high is not None
    slack = (high - low) * 1e-9  # what is next to nothing in this range may be rounded to 0
    assert size.low <= low + slack
    assert size.high >= high - slack
    assert isfinite(size.high - size.low)
    share = share_of_interval(Interval(pa.scalar(asked), None), size)
    assert share is not None
    assert 0 <= share <= 1


def _shares(runner: SplitRunner, *parameters: int) -> list[tuple[str, float]]:
    bound = runner.bind(
        "SELECT * FROM songs s, plays p WHERE s.seconds > $1 AND s.seconds <= $2 AND p.times = s.genre"
    )
    arguments = Arguments(tuple(pa.scalar(value) for value in parameters))
    sizes = [{"seconds": ColumnSize(100, 0, 1024)}] * 2
    found = column_shares(bound.references, conditions(bound, logical_plan(bound)), arguments, sizes)
    return [(column, share) for _, column, share in found]


def test_values_of_about_the_same_share_have_the_same_plan(runner: SplitRunner) -> None:
    assert _shares(runner, 0, 50) == _shares(runner, 100, 140) == [("seconds", 1 / 16)]
    assert _shares(runner, 0, 900) == [("seconds", 1.0)]
    assert _shares(runner, 2000, 3000) == [("seconds", 4.0**-6)]
