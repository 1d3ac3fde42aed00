"""A thread that looks often for the next epoch of groups that had one lately."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, Lock, Thread

from engine.changelog import Changelog
from engine.model.schema import Epoch, GroupName
from engine.replica.turn_table import TurnTable

LOOKS_A_POLL = 10
"""How many times as often it looks as a host polls that is not told."""
LEAST_PAUSE_SECONDS = 0.005
WATCHED_SECONDS = 30.0
"""How long a group is watched that gets nothing: so many seconds behind its last epoch the next poll does."""
BUSY_SHARE = 0.025
"""The part of a processor that looks and the sleep between them may take: with many groups, pauses are
longer.
"""


@dataclass(frozen=True)
class _Expected:
    """An epoch that may come soon.

    Attributes:
        epoch: The epoch.
        until: When it is not expected any more, by the clock.
    """

    epoch: Epoch
    until: float


class NewsWatch:
    """Watches groups for their next epoch: the turn of a group begins as soon as it is there.

    A turn asks for an epoch, too, and does a dozen other things; here a look is one request. Only for a
    changelog that answers at once, as a local directory does: others are asked for nothing but what is
    needed.

    Args:
        changelog: Where epochs come.
        turns: Gets a request for each group that has something new.
        poll_seconds: How often a group is moved on of which nobody tells.
        clock: Gives the time in seconds that never go back.
    """

    def __init__(
        self,
        changelog: Changelog,
        turns: TurnTable,
        poll_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._changelog = changelog
        self._turns = turns
        self._pause = max(LEAST_PAUSE_SECONDS, poll_seconds / LOOKS_A_POLL)
        self._clock = clock
        self._expected: dict[GroupName, _Expected] = {}
        self._changing = Lock()
        # Set while anything is expected, and for good once the thread is to end.
        self._is_awake = Event()
        self._is_stopped = False
        # Held until the thread is to end: to wait for a lock takes two thirds of the time that an event
        # takes, and is done 200 times a second.
        self._until_stop = Lock()
        self._until_stop.acquire()
        self._thread = Thread(target=self._run, name="news", daemon=True)

    def start(self) -> None:
        """Begin to watch, where looks cost next to nothing."""
        if self._changelog.answers_at_once:
            self._thread.start()

    def stop(self) -> None:
        """Watch no longer."""
        with self._changing:
            if not self._is_stopped:
                self._is_stopped = True
                self._until_stop.release()
            self._is_awake.set()
        if self._thread.is_alive():
            self._thread.join()

    def expect(self, group: GroupName, epoch: Epoch) -> None:
        """Look for an epoch from now on, in the place of an earlier one of the group."""
        with self._changing:
            self._expected[group] = _Expected(epoch, self._clock() + WATCHED_SECONDS)
            self._is_awake.set()

    def _run(self) -> None:
        pause, used = self._pause, time.thread_time()
        while True:
            if not self._is_awake.is_set():
                self._is_awake.wait()
            if self._until_stop.acquire(timeout=pause):
                return
            self.look()
            before, used = used, time.thread_time()
            pause = max(self._pause, (used - before) / BUSY_SHARE)

    def look(self) -> None:
        """Look for all epochs that are expected, once."""
        for group, expected in list(self._expected.items()):
            try:
                is_there = self._changelog.is_committed(group, expected.epoch)
            except Exception:  # noqa: BLE001 - the group's turns find out what it is, and say so
                self._forget(group, expected)
                continue
            if is_there:
                self._turns.request(group, is_notified=True)
            if is_there or self._clock() >= expected.until:
                self._forget(group, expected)

    def _forget(self, group: GroupName, expected: _Expected) -> None:
        """Expect an epoch no longer, unless another one is expected by now."""
        with self._changing:
            if self._expected.get(group) is expected:
                del self._expected[group]
            if not self._expected and not self._is_stopped:
                self._is_awake.clear()
