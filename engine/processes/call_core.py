"""On which processor short calls are answered: all of a host's on one, while they are many.

Their threads share one interpreter, so one of them works at a time, wherever it is. On several processors
each hand-over wakes one that sleeps, which takes 50 µs on a virtual machine, and what a thread needs is in
the cache of another: eight clients got as many answers as one. On one processor a hand-over is a switch of
threads, of some microseconds.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Collection, Sequence

from engine.processes.right_of_way import RIGHT_OF_WAY, RightOfWay


class CallCore:
    """The processor on which short calls are answered. Safe for threads.

    Where a thread works holds until its next call, and for the threads and processes that it starts: what is
    not short leaves before it begins.

    Args:
        cores: The processors that this process may use.
        chosen: One of them; None: short calls are answered on any.
        calls: Knows whether they are many.
    """

    def __init__(self, cores: Collection[int], chosen: int | None, calls: RightOfWay) -> None:
        self._all = frozenset(cores)
        self._chosen = None if chosen is None or len(self._all) < 2 else frozenset([chosen])
        self._calls = calls

    def stay(self) -> None:
        """Have this thread work on the processor for short calls while these are many. One alone is answered
        sooner where there is a free one.
        """
        if self._chosen is not None:
            _set_affinity(self._chosen if self._calls.is_crowded() else self._all)

    def leave(self) -> None:
        """Have this thread work on any processor."""
        if self._chosen is not None:
            _set_affinity(self._all)


def _set_affinity(cores: Collection[int]) -> None:
    # Where the system refuses it, or has taken a processor away, only time is lost.
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, cores)


def _usable_cores() -> Sequence[int]:
    return sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else ()


def call_core_of(process: int, cores: Sequence[int], calls: RightOfWay) -> CallCore:
    """The processor for the short calls of a process.

    Args:
        process: Its number, by which hosts on one machine take different ones.
        cores: The processors that it may use.
        calls: Knows whether short calls are many.
    """
    return CallCore(cores, cores[process % len(cores)] if cores else None, calls)


CALL_CORE = call_core_of(os.getpid(), _usable_cores(), RIGHT_OF_WAY)
"""Of this process, as the interpreter is."""
