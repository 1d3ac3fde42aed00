"""Which group is moved on next, and that no group waits for another one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from engine.model.schema import GroupName
from engine.replica.turns import HEAD_START_SECONDS, Lane, Turn, next_due_time, next_turn

A, B, C = GroupName("a"), GroupName("b"), GroupName("c")


def quick(group: GroupName, due_at: float, *, is_notified: bool = False) -> Turn:
    return Turn(group, due_at, Lane.QUICK, is_notified)


def test_who_has_waited_longest_is_next() -> None:
    turns = [quick(A, 3.0), quick(B, 1.0), quick(C, 2.0)]
    assert next_turn(turns, Lane.QUICK, 5.0) == turns[1]


def test_nobody_is_next_before_the_time() -> None:
    turns = [quick(A, 3.0), quick(B, 2.0)]
    assert next_turn(turns, Lane.QUICK, 1.0) is None
    assert next_due_time(turns, Lane.QUICK) == 2.0
    assert next_due_time(turns, Lane.LONG) == float("inf")


def test_each_thread_takes_turns_of_its_lane() -> None:
    long = Turn(A, 0.0, Lane.LONG)
    assert next_turn([long, quick(B, 1.0)], Lane.QUICK, 5.0) == quick(B, 1.0)
    assert next_turn([long, quick(B, 1.0)], Lane.LONG, 5.0) == long


def test_of_those_that_are_built_the_one_that_can_be_read_soonest_is_next() -> None:
    turns = [Turn(A, 1.0, epochs_missing=900), Turn(B, 1.0, epochs_missing=3), Turn(C, 1.0, epochs_missing=0)]
    assert next_turn(turns, Lane.LONG, 1.0) == turns[2]


def test_a_group_that_somebody_told_of_comes_before_others() -> None:
    told = quick(C, 5.0, is_notified=True)
    turns = [*(quick(GroupName(f"{number}"), 4.9) for number in range(100)), told]
    assert next_turn(turns, Lane.QUICK, 5.0) == told


def test_a_group_with_news_all_the_time_does_not_keep_others_waiting() -> None:
    """One thread; a turn takes 10 ms. Somebody tells of one group as soon as it was moved on."""
    clock, taken = 0.0, Counter[GroupName]()
    turns = {A: quick(A, 0.0, is_notified=True), B: quick(B, 0.0), C: quick(C, 0.0)}
    waited = 0.0
    for _ in range(1000):
        turn = next_turn(turns.values(), Lane.QUICK, clock)
        assert turn is not None
        taken[turn.group] += 1
        waited = max(waited, clock - turn.due_at)
        clock += 0.01
        turns[turn.group] = replace(turn, due_at=clock, is_notified=turn.group == A)
    assert waited <= HEAD_START_SECONDS + 2 * 0.01
    assert min(taken.values()) >= 1000 * 0.01 / (HEAD_START_SECONDS + 2 * 0.01) - 1


@given(st.lists(st.floats(0.001, 0.3), min_size=2, max_size=8))
def test_nobody_waits_for_longer_than_the_head_start_and_a_turn_of_each(costs: list[float]) -> None:
    """All have news all the time, and their turns take times of their own; half of them are told of."""
    clock = 0.0
    turns = {
        GroupName(f"{number}"): quick(GroupName(f"{number}"), 0.0, is_notified=number % 2 == 0)
        for number in range(len(costs))
    }
    for _ in range(60 * len(costs)):
        turn = next_turn(turns.values(), Lane.QUICK, clock)
        assert turn is not None
        assert clock - turn.due_at <= HEAD_START_SECONDS + 2 * sum(costs) + 1e-9
        clock += costs[int(turn.group)]
        turns[turn.group] = replace(turn, due_at=clock)
