"""What the system is told of threads, and of processes that it starts."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.processes.scheduling import (
    LONG_TURN_SECONDS,
    NICENESS,
    lower_priority,
    take_long_turns,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is told")


def scheduling_of(thread: int, process: int | None = None) -> tuple[int, int, float | None]:
    """Policy, niceness and length of turns of a thread; the last is None where the system does not tell."""
    facts = Path(f"/proc/{process or os.getpid()}/task/{thread}/sched")
    told = facts.read_text().splitlines() if facts.exists() else []
    turns = [float(line.split()[-1]) / 1e9 for line in told if line.startswith("se.slice")]
    niceness = os.getpriority(os.PRIO_PROCESS, thread)
    return os.sched_getscheduler(thread), niceness, turns[0] if turns else None


def scheduling_after(*steps: Callable[[], None]) -> tuple[int, int, float | None]:
    """The same of a thread that has taken some steps, and of one that it has started."""

    def take_steps() -> tuple[int, int, float | None]:
        for step in steps:
            step()
        with ThreadPoolExecutor(1) as other:
            started = other.submit(lambda: scheduling_of(threading.get_native_id())).result()
        own = scheduling_of(threading.get_native_id())
        assert started == own
        return own

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(take_steps).result()


@pytest.mark.parametrize(
    ("steps", "policy", "niceness", "turns"),
    [
        ([take_long_turns], os.SCHED_BATCH, 0, LONG_TURN_SECONDS),
        ([lower_priority], os.SCHED_BATCH, NICENESS, LONG_TURN_SECONDS),
        ([lower_priority, take_long_turns], os.SCHED_BATCH, NICENESS, LONG_TURN_SECONDS),
    ],
)
def test_who_goes_first(steps: list[Callable[[], None]], policy: int, niceness: int, turns: float) -> None:
    before = scheduling_of(threading.get_native_id())
    found = scheduling_after(*steps)
    assert found[:2] == (policy, max(niceness, before[1]))
    # Systems before Linux 6.12 have turns of one length.
    assert found[2] in (None, before[2], turns)
    assert scheduling_of(threading.get_native_id()) == before


def test_a_process_that_is_started_lets_others_go_first() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        lower_priority(process.pid, 19)
        assert scheduling_of(process.pid, process.pid)[:2] == (os.SCHED_BATCH, 19)
    # It has ended, and nothing happens.
    lower_priority(process.pid)
