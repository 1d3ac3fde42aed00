"""Turns that threads take: a group is with one thread at a time, and nothing that is asked for is lost."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from engine.model.schema import GroupName
from engine.replica.turn_table import TurnTable
from engine.replica.turns import Lane, Turn
from tests.support.waiting import PATIENCE_SECONDS

A, B = GroupName("a"), GroupName("b")
LATER = 1e6


@pytest.fixture
def table() -> TurnTable:
    ticks = count(1)
    return TurnTable(lambda: float(next(ticks)))


def test_a_new_group_is_built_first(table: TurnTable) -> None:
    table.add(Turn(A, 0.0))
    assert table.take(Lane.LONG) == A


def test_a_group_is_with_one_thread_at_a_time(table: TurnTable) -> None:
    table.add(Turn(A, 0.0))
    table.add(Turn(B, 0.0))
    assert {table.take(Lane.LONG), table.take(Lane.LONG)} == {A, B}
    with ThreadPoolExecutor(1) as pool:
        third = pool.submit(table.take, Lane.LONG)
        table.request_all()
        table.give_back(Turn(B, LATER))
        assert third.result(PATIENCE_SECONDS) == B, "it was asked for while it was moved on"
        table.close()


def test_what_is_told_while_a_group_is_moved_on_is_not_lost(table: TurnTable) -> None:
    table.add(Turn(A, 0.0))
    assert table.take(Lane.LONG) == A
    table.request(A, is_notified=True)
    table.give_back(Turn(A, LATER, Lane.QUICK))
    assert table.take(Lane.QUICK) == A


def test_a_group_that_is_told_of_comes_first(table: TurnTable) -> None:
    for group in (A, B):
        table.add(Turn(group, 0.0))
    for _ in range(2):
        taken = table.take(Lane.LONG)
        assert taken is not None
        table.give_back(Turn(taken, LATER, Lane.QUICK))
    table.request(B, is_notified=True)
    table.request_all(B)
    assert table.take(Lane.QUICK) == B
    assert table.take(Lane.QUICK) == A


def test_one_that_is_not_known_is_passed_over(table: TurnTable) -> None:
    table.request(B)
    table.add(Turn(A, 0.0))
    assert table.take(Lane.LONG) == A


def test_all_threads_end_when_it_is_closed() -> None:
    table = TurnTable()
    table.add(Turn(A, 0.0))
    with ThreadPoolExecutor(4) as pool:
        taken = [pool.submit(table.take, Lane.LONG) for _ in range(3)]
        taken.append(pool.submit(table.take, Lane.QUICK))
        table.close()
        assert {each.result(PATIENCE_SECONDS) for each in taken} <= {A, None}
    assert table.take(Lane.LONG) is None


def test_each_due_time_wakes_a_thread() -> None:
    """However many sleep, and in whatever order the times come in."""
    table = TurnTable()
    clock = table._clock
    groups = [GroupName(f"{number}") for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for group in groups:
            table.add(Turn(group, 0.0))
            assert table.take(Lane.LONG) == group
        waiting = [pool.submit(table.take, Lane.QUICK) for _ in groups]
        for place, group in enumerate(groups):
            table.give_back(Turn(group, clock() + 0.04 - 0.01 * place, Lane.QUICK))
        assert {each.result(PATIENCE_SECONDS) for each in waiting} == set(groups)
        table.close()


def test_who_takes_another_turn_at_once_wakes_nobody() -> None:
    """A group without news costs one thread that wakes, however many there are."""
    table = TurnTable()
    changed = table._changed[Lane.QUICK]
    woken: list[Lane] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changed, "notify", lambda: woken.append(Lane.QUICK))
        table.add(Turn(A, 0.0, Lane.QUICK))
        woken.clear()
        for _ in range(3):
            assert table.take(Lane.QUICK) == A
            table.give_back(Turn(A, 0.0, Lane.QUICK), Lane.QUICK)
        assert not woken
        table.add(Turn(B, 0.0, Lane.QUICK))
        woken.clear()
        assert table.take(Lane.QUICK) is not None
        assert woken, "there is one more that is due"
        woken.clear()
        table.give_back(Turn(A, 0.0, Lane.QUICK), Lane.LONG)
        assert woken, "the thread that gives it back does not take it again"
