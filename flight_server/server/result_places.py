"""How many large results are on their way to clients at once.

Each takes a thread, some megabytes of the engine's memory and its first rows, until its client has read it: a
thread that sends to a client which reads nothing cannot be woken.
"""

from __future__ import annotations

import threading
from collections import Counter

from engine.deadline import Deadline
from engine.errors import LimitExceeded
from flight_server.server.limits import count_down, has_room

TABLE_PLACES = 4
"""Times as many smaller results may be on their way, which have no more than their rows."""
_LOOK_SECONDS = 0.2


class ResultPlace:
    """One place, which is taken.

    Args:
        places: Those that it is one of.
        owner: Who gets the result.
    """

    def __init__(self, places: ResultPlaces, owner: str) -> None:
        self._places = places
        self._owner = owner
        self._is_taken = True

    def give(self) -> None:
        """Give it back. May be called again."""
        if self._is_taken:
            self._is_taken = False
            self._places.give(self._owner)


class ResultPlaces:
    """Places for results that are sent batch by batch. Where all are taken, whoever has less than its share
    of them gets one all the same. Safe for threads.

    Args:
        limit: How many there are.
        size: How large the results are, for messages.
    """

    def __init__(self, limit: int, size: str = "more than 4 MiB") -> None:
        self._limit = limit
        self._size = size
        # Its lock is taken again where the garbage collector drops what has a place, in any thread.
        self._changed = threading.Condition()
        self._taken: Counter[str] = Counter()

    def take(self, owner: str) -> ResultPlace:
        """Take one.

        Args:
            owner: Who gets the result.

        Raises:
            LimitExceeded: There is none.
        """
        with self._changed:
            if has_room(self._taken, owner, self._limit):
                self._taken[owner] += 1
                return ResultPlace(self, owner)
            raise LimitExceeded(
                f"{self._taken.total()} results of {self._size} are on their way from this host, "
                f"{self._taken[owner]} of them to you, and no more have room: read those, or ask for less, "
                "later, or another host."
            )

    def wait(self, owner: str, deadline: Deadline) -> ResultPlace:
        """Take one as soon as there is one.

        Args:
            owner: Who gets the result.
            deadline: How long it is waited for.

        Raises:
            LivestateError: There was none until then, or it is wanted no more.
        """
        with self._changed:
            while not has_room(self._taken, owner, self._limit):
                deadline.check()
                self._changed.wait(_LOOK_SECONDS)
            self._taken[owner] += 1
        return ResultPlace(self, owner)

    def give(self, owner: str) -> None:
        """Give one back.

        Args:
            owner: Whose it was.
        """
        with self._changed:
            count_down(self._taken, owner)
            self._changed.notify_all()
