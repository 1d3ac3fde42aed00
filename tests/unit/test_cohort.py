"""Where hosts that are behind stop, so that they meet."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.cohort import stopping_point
from engine.schema import Epoch

epochs = st.integers(1, 10_000).map(Epoch)
steps = st.lists(st.integers(1, 64), min_size=300, max_size=300)


def power(epoch: int) -> int:
    """The highest power of two that divides an epoch."""
    return epoch & -epoch


@given(epochs, st.integers(0, 200))
def test_it_is_the_epoch_of_the_highest_power(first: Epoch, more: int) -> None:
    within = range(first, first + more + 1)
    stop = stopping_point(first, Epoch(first + more))
    assert stop in within
    assert all(power(other) < power(stop) for other in within if other != stop)


@given(epochs, st.integers(0, 200), st.integers(0, 200))
def test_more_epochs_never_make_it_stop_earlier(first: Epoch, fewer: int, more: int) -> None:
    assert stopping_point(first, Epoch(first + fewer)) <= stopping_point(first, Epoch(first + fewer + more))


def stops(reaches: list[int], end: int) -> set[int]:
    """Where a host stops that sees so many epochs ahead at each step."""
    at, found = Epoch(0), set[int]()
    for reach in reaches:
        if at >= end:
            break
        at = stopping_point(Epoch(at + 1), Epoch(min(at + reach, end)))
        found.add(at)
    return found


@given(steps, steps)
def test_hosts_that_see_different_stretches_meet(one: list[int], other: list[int]) -> None:
    """Each stops at every epoch of a power as high as its longest stretch, so both stop at those of the higher power."""
    end = 256
    highest = max(1 << (max(reaches) - 1).bit_length() for reaches in (one, other))
    common = stops(one, end) & stops(other, end)
    assert common >= {epoch for epoch in range(1, end + 1) if epoch % highest == 0}


def test_one_after_the_other_skips_nothing() -> None:
    assert stops([1] * 10, 10) == set(range(1, 11))
    assert stops([10, 10, 10], 10) == {8, 10}
