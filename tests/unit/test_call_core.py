"""Short calls stay on one processor while they are many, and nothing else does."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from engine.processes import right_of_way
from engine.processes.call_core import CallCore, call_core_of
from engine.processes.right_of_way import RightOfWay

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads have processors on Linux alone")
USABLE = sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else []
two_cores = pytest.mark.skipif(len(USABLE) < 2, reason="there is one processor only")


def crowd(calls: RightOfWay) -> None:
    """Have two calls answered at once."""
    both = Barrier(2)

    def call() -> None:
        with calls:
            both.wait()

    with ThreadPoolExecutor(2) as threads:
        for call_made in [threads.submit(call) for _ in range(2)]:
            call_made.result()


def cores_after(*steps: Callable[[], None]) -> list[set[int]]:
    """Where a thread may work after each step."""

    def take_steps() -> list[set[int]]:
        found = []
        for step in steps:
            step()
            found.append(os.sched_getaffinity(0))
        return found

    with ThreadPoolExecutor(1) as threads:
        return threads.submit(take_steps).result()


@two_cores
def test_calls_stay_while_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(right_of_way, "CROWDED_SECONDS", 3600.0)
    calls = RightOfWay()
    core = CallCore(USABLE, USABLE[1], calls)
    assert cores_after(core.stay) == [set(USABLE)]
    with calls:
        pass
    assert cores_after(core.stay) == [set(USABLE)]
    crowd(calls)
    assert cores_after(core.stay, core.stay, core.leave) == [{USABLE[1]}, {USABLE[1]}, set(USABLE)]


@two_cores
def test_calls_go_where_they_like_when_they_are_few_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(right_of_way, "CROWDED_SECONDS", 0.0)
    calls = RightOfWay()
    crowd(calls)
    assert cores_after(CallCore(USABLE, USABLE[0], calls).stay) == [set(USABLE)]


def test_a_processor_that_is_not_to_be_had_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(right_of_way, "CROWDED_SECONDS", 3600.0)
    calls = RightOfWay()
    crowd(calls)
    gone = CallCore([*USABLE, 4095], 4095, calls)
    assert cores_after(gone.stay, gone.leave) == [set(USABLE), set(USABLE)]


@pytest.mark.parametrize("cores", [(), (3,)])
def test_there_is_nothing_to_choose_on_one_processor(cores: tuple[int, ...]) -> None:
    core = call_core_of(5, cores, RightOfWay())
    assert cores_after(core.stay, core.leave) == [set(USABLE), set(USABLE)]


def test_hosts_on_one_machine_take_different_processors() -> None:
    chosen = [call_core_of(process, range(10, 13), RightOfWay())._chosen for process in range(4)]
    assert chosen == [frozenset([core]) for core in (10, 11, 12, 10)]
