"""When what failed is tried again, and what is said of it."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import Corrupt, Unavailable
from engine.replica.failures import SECONDS_BETWEEN_COMPLAINTS, Failures, pause_seconds, problem_of


@given(st.integers(1, 10**6), st.floats(0.001, 10.0), st.floats(0.001, 1000.0))
def test_pauses_grow_up_to_the_longest(failures: int, first: float, longest: float) -> None:
    pause, following = (pause_seconds(count, first, longest) for count in (failures, failures + 1))
    assert first <= pause <= following <= max(first, longest)
    assert pause_seconds(1, first, longest) == first
    if following < longest:
        assert following == 2 * pause


def test_what_fails_is_tried_again_ever_more_seldom() -> None:
    failures, clock, pauses = Failures[str](1.0, 10.0), 100.0, []
    assert failures.is_due("a", clock)
    for _ in range(6):
        failures.note("a", RuntimeError("x"), clock)
        pauses.append(failures.seconds_left("a", clock))
        assert not failures.is_due("a", clock)
        assert failures.is_due("b", clock), "another task waits for this one"
        clock += pauses[-1]
        assert failures.is_due("a", clock)
    assert pauses == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    failures.clear("a")
    failures.note("a", RuntimeError("x"), clock)
    assert failures.seconds_left("a", clock) == 1.0


def test_what_is_not_there_now_may_be_there_any_moment() -> None:
    failures = Failures[str](1.0, 10.0)
    for _ in range(6):
        failures.note("a", Unavailable("The changelog cannot be reached."), 0.0)
    assert failures.seconds_left("a", 0.0) == 1.0


def test_a_failure_is_logged_when_it_changes() -> None:
    failures, clock = Failures[str](1.0), itertools.count(0.0, 0.1)
    errors = [
        RuntimeError("x"),
        RuntimeError("x"),
        RuntimeError("y"),
        KeyError("y"),
        KeyError("y"),
        Corrupt("z"),
        Corrupt("z"),
    ]
    assert [failures.note("a", error, next(clock)) for error in errors] == [
        True,
        False,
        True,
        True,
        False,
        True,
        False,
    ]
    assert failures.note("b", Corrupt("z"), next(clock))


def test_what_fails_and_goes_on_in_turns_is_logged_now_and_then() -> None:
    failures, error = Failures[str](1.0), Unavailable("It does not answer.")
    logged = []
    for second in range(100):
        logged.append(failures.note("a", error, float(second)))
        failures.clear("a")
    assert [second for second, is_logged in enumerate(logged) if is_logged] == [
        *range(0, 100, int(SECONDS_BETWEEN_COMPLAINTS))
    ]


@pytest.mark.parametrize("error", [RuntimeError("/a/path"), KeyError("secret"), MemoryError()])
def test_what_nobody_expected_is_told_without_its_text(error: Exception) -> None:
    failures = Failures[str](1.0)
    failures.note("Rebuilding", error, 0.0)
    said = (
        f"Rebuilding failed in a way that nobody expected ({type(error).__name__}): it is tried again, "
        "and the host's log has the details."
    )
    assert failures.problem("Rebuilding") == problem_of("Rebuilding", error) == said
    assert failures.problems() == {"Rebuilding": said}
    assert failures.problem("another") == ""
    assert problem_of("Rebuilding", Corrupt("An epoch is damaged.")) == "An epoch is damaged."
