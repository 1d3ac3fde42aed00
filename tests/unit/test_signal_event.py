"""An event that a handler sets in the middle of a wait for it wakes whoever waits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from engine.processes.signal_event import SignalEvent

_SET_EVERYWHERE = """
import signal, sys
from engine.processes.signal_event import SignalEvent

# Each line of the wait's own Python code is where a signal may come.
for line in range(1, 60):
    event = SignalEvent()
    signal.signal(signal.SIGINT, lambda *_: event.set())
    seen = 0

    def trace(frame, what, argument):
        global seen
        seen += what == "line" and frame.f_code.co_name in ("wait", "__enter__", "set")
        if seen == line:
            seen += 1
            signal.raise_signal(signal.SIGINT)
        return trace

    sys.settrace(trace)
    is_set = event.wait(0.01)
    sys.settrace(None)
    if seen < line:
        assert not is_set
        break
    assert event.is_set()
    assert event.wait(60)
else:
    raise SystemExit("the wait never ended by itself")
print("done", line)
"""


def test_a_signal_may_come_at_every_line_of_a_wait() -> None:
    found = subprocess.run(
        [sys.executable, "-c", _SET_EVERYWHERE], capture_output=True, text=True, timeout=60, check=True
    )
    assert found.stdout.startswith("done ")
    assert int(found.stdout.split()[1]) > 3


def test_a_signal_ends_a_wait_that_has_begun() -> None:
    event = SignalEvent()
    before = signal.signal(signal.SIGUSR1, lambda *_: event.set())
    sender = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        sender.start()
        assert event.wait(60)
    finally:
        sender.join()
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("waiters", [1, 3])
def test_all_who_wait_are_woken(waiters: int) -> None:
    event = SignalEvent()
    found: list[bool] = []
    threads = [threading.Thread(target=lambda: found.append(event.wait(60))) for _ in range(waiters)]
    for thread in threads:
        thread.start()
    assert not event.is_set()
    event.set()
    for thread in threads:
        thread.join(60)
    assert found == [True] * waiters


def test_a_wait_ends_in_time() -> None:
    event = SignalEvent()
    assert not event.wait(0.01)
    event.set()
    assert event.wait(0)
    assert event.wait()
