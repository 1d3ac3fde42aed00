"""Requests that are made at once, and what they find."""

from __future__ import annotations

from threading import Barrier

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.changelog.requests import ask_each, last_before, last_number
from engine.errors import Unavailable


def test_requests_are_made_at_once() -> None:
    together = Barrier(4)
    assert ask_each(lambda number: together.wait(60) * 0 + number, [1, 2, 3, 4], 4) == [1, 2, 3, 4]


def test_what_the_first_raises_is_raised_when_all_have_ended() -> None:
    ended = []

    def fail(number: int) -> None:
        ended.append(number)
        if number:
            raise Unavailable(f"{number}")

    with pytest.raises(Unavailable, match="1"):
        ask_each(fail, [0, 1, 2, 3], 4)
    assert sorted(ended) == [0, 1, 2, 3]


@given(st.integers(0, 5000), st.integers(0, 5000), st.sampled_from([1, 2, 3, 16]))
def test_the_last_number_is_found(low: int, more: int, at_once: int) -> None:
    asked = []

    def is_there(number: int) -> bool:
        asked.append(number)
        return number <= low + more

    assert last_number(is_there, low, at_once) == low + more
    if not more:
        assert asked == [low + 1]


@given(st.integers(0, 5000), st.integers(1, 5000), st.sampled_from([1, 2, 3, 16]))
def test_the_last_before_others_is_found(last: int, more: int, at_once: int) -> None:
    assert last_before(lambda number: number <= last, 0, last + more, at_once) == last
