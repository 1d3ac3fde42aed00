"""The turns of a host's groups, handed out to the threads that move groups on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from threading import Condition, Lock

from engine.model.schema import GroupName
from engine.replica.turns import Lane, Turn, next_due_time, next_turn

_NEVER = float("inf")


class TurnTable:
    """Hands out turns, each group to one thread at a time. Safe for threads.

    Args:
        clock: Gives the time in seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._turns: dict[GroupName, Turn] = {}
        """Of each group; of one that is moved on now, what has been asked for since."""
        self._taken: set[GroupName] = set()
        self._is_closed = False
        lock = Lock()
        self._changed = {lane: Condition(lock) for lane in Lane}
        # Until when a thread sleeps that wakes by itself: the others of its lane need not.
        self._watched = dict.fromkeys(Lane, _NEVER)

    def add(self, turn: Turn) -> None:
        """Have a group moved on from now on."""
        with self._changed[turn.lane]:
            self._turns[turn.group] = turn
            self._changed[turn.lane].notify()

    def has(self, group: GroupName) -> bool:
        """Whether a group was added."""
        return group in self._turns

    def request(self, group: GroupName, *, is_notified: bool = False) -> None:
        """Have a group moved on now, or once more where that is being done.

        Args:
            group: A group; one that was not added is passed over.
            is_notified: Whether it is known to have something new.
        """
        with self._changed[Lane.LONG]:
            self._request(group, is_notified=is_notified)

    def request_all(self, notified: GroupName | None = None) -> None:
        """Have all groups moved on now.

        Args:
            notified: One that is known to have something new.
        """
        with self._changed[Lane.LONG]:
            for group in self._turns:
                self._request(group, is_notified=group == notified)

    def _request(self, group: GroupName, *, is_notified: bool) -> None:
        turn = self._turns.get(group)
        if turn is None:
            return
        due_at = min(turn.due_at, self._clock())
        self._turns[group] = replace(turn, due_at=due_at, is_notified=turn.is_notified or is_notified)
        if group not in self._taken:
            self._changed[turn.lane].notify()

    def take(self, lane: Lane) -> GroupName | None:
        """The group that is moved on next; nobody else gets it before it is given back.

        Args:
            lane: What the thread does.

        Returns:
            The group, once one is due; None once the table is closed.
        """
        changed = self._changed[lane]
        with changed:
            while not self._is_closed:
                free = [turn for group, turn in self._turns.items() if group not in self._taken]
                clock = self._clock()
                turn = next_turn(free, lane, clock)
                if turn is not None:
                    self._taken.add(turn.group)
                    self._turns[turn.group] = Turn(turn.group, _NEVER, turn.lane)
                    if next_due_time((each for each in free if each is not turn), lane) < self._watched[lane]:
                        changed.notify()  # somebody else is to see what is due next
                    return turn.group
                self._sleep(lane, next_due_time(free, lane), clock)
        return None

    def _sleep(self, lane: Lane, until: float, clock: float) -> None:
        """Wait for a change, or a time before which no other thread of the lane wakes by itself."""
        if until >= self._watched[lane]:
            self._changed[lane].wait()
            return
        self._watched[lane] = until
        self._changed[lane].wait(until - clock)
        if self._watched[lane] == until:
            self._watched[lane] = _NEVER

    def give_back(self, turn: Turn, by: Lane | None = None) -> None:
        """Have a group moved on again.

        Args:
            turn: When, and by whom; sooner, where that was asked for meanwhile.
            by: What the thread does that gives it back, if it takes another one at once: so no other thread
                of its lane need look.
        """
        with self._changed[turn.lane]:
            asked = self._turns[turn.group]
            self._taken.discard(turn.group)
            due_at = min(turn.due_at, asked.due_at)
            self._turns[turn.group] = replace(turn, due_at=due_at, is_notified=asked.is_notified)
            if turn.lane is not by:
                self._changed[turn.lane].notify()

    def remove(self, group: GroupName) -> None:
        """Have a group, which this thread has taken, moved on no more."""
        with self._changed[Lane.LONG]:
            self._taken.discard(group)
            self._turns.pop(group, None)

    def close(self) -> None:
        """Hand out no more turns."""
        with self._changed[Lane.LONG]:
            self._is_closed = True
            for changed in self._changed.values():
                changed.notify_all()
