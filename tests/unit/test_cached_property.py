"""Properties that are worked out once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.cached_property import cached_property
from tests.support.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]


class _Worker:
    """Works its value out when it may."""

    def __init__(self, may_end: threading.Event, barrier: threading.Barrier | None = None) -> None:
        self.begun = threading.Event()
        self._may_end = may_end
        self._barrier = barrier
        self.times = 0

    @cached_property
    def value(self) -> list[int]:
        """An object of its own each time that it is worked out."""
        self.times += 1
        self.begun.set()
        assert self._may_end.wait(PATIENCE_SECONDS)
        if self._barrier is not None:
            self._barrier.wait(PATIENCE_SECONDS)
        return [1]


def _event(is_set: bool) -> threading.Event:
    event = threading.Event()
    if is_set:
        event.set()
    return event


def test_one_instance_does_not_wait_for_another() -> None:
    slow, quick = _Worker(_event(False)), _Worker(_event(True))
    with ThreadPoolExecutor(1) as others:
        waiting = others.submit(lambda: slow.value)
        assert slow.begun.wait(PATIENCE_SECONDS)
        assert quick.value == [1]
        assert not waiting.done()
        slow._may_end.set()
        assert waiting.result(PATIENCE_SECONDS) == [1]


def test_a_value_is_worked_out_once_and_is_the_same_for_all() -> None:
    worker = _Worker(_event(True))
    assert worker.value is worker.value
    assert worker.times == 1
    assert _Worker.value.__doc__ == "An object of its own each time that it is worked out."

    together = _Worker(_event(True), threading.Barrier(2))
    with ThreadPoolExecutor(2) as others:
        first, second = (others.submit(lambda: together.value) for _ in range(2))
        assert first.result(PATIENCE_SECONDS) is second.result(PATIENCE_SECONDS) is together.value
    assert together.times == 2


@pytest.mark.parametrize("room", ["access", "coordinator", "exec", "plan", "sql", "statements"])
def test_statements_do_not_wait_for_each_other(room: str) -> None:
    for path in (ROOT / "engine" / room).rglob("*.py"):
        assert "functools import cached_property" not in path.read_text(), path
