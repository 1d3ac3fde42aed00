"""Who goes first in this process: calls that somebody waits for, before work that can wait.

Threads share one interpreter and a few processors. A small statement gives the interpreter up at each of its
hundred calls of Arrow and numpy, and stands in line for it, and for a processor, behind every thread that
applies epochs, merges segments or writes a snapshot: three milliseconds become ten, and now and then sixty.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType

SHORT_SECONDS = 0.02
"""A call that takes longer is in no hurry any more, and most of the time it does not need the interpreter."""
CROWDED_SECONDS = 0.05
"""How long calls count as many after two were answered at once."""
PIECE_SECONDS = 0.002
"""Processor time of a piece of work; after less it goes on."""
PAUSE_SHARE = 4.0
"""How much longer than a piece of work, in processor time, the pause behind it may be."""
LONGEST_PAUSE_SECONDS = 0.01


class RightOfWay:
    """Lets work that can wait pause while short calls are answered. Safe for threads.

    Threads pause one after the other. So, however many calls there are, they get some work done together; and
    when there are none, all go on at once.

    As a context, it is held by a call while one thread answers it.

    Args:
        short_seconds: For how long a call is a short one.
        pause_share: How much longer than a piece of work the pause behind it may be.
        longest_pause_seconds: How long a pause is at most.
    """

    def __init__(
        self,
        short_seconds: float = SHORT_SECONDS,
        pause_share: float = PAUSE_SHARE,
        longest_pause_seconds: float = LONGEST_PAUSE_SECONDS,
    ) -> None:
        self._short_seconds = short_seconds
        self._pause_share = pause_share
        self._longest_pause_seconds = longest_pause_seconds
        self._began: dict[int, float] = {}
        """When each thread began the call that it answers, by the monotonic clock."""
        self._crowded_until = 0.0
        """Until when calls count as many, by the monotonic clock."""
        self._pausing = threading.Lock()
        self._is_clear = threading.Event()
        self._is_clear.set()
        self._piece = threading.local()
        """When the piece of work began that a thread is at, by its processor time; None while no short call
        was answered: it begins with the next step.
        """

    def __enter__(self) -> None:
        self._began[threading.get_ident()] = now = time.monotonic()
        if len(self._began) > 1:
            self._crowded_until = now + CROWDED_SECONDS

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._began.pop(threading.get_ident(), None)
        if not self._began and not self._is_clear.is_set():
            self._is_clear.set()

    def has_short_calls(self) -> bool:
        """Whether calls are answered that began a moment ago."""
        if not self._began:
            return False
        since = time.monotonic() - self._short_seconds
        return any(began >= since for began in list(self._began.values()))

    def is_crowded(self) -> bool:
        """Whether several calls were answered at once, now or a moment ago."""
        return time.monotonic() < self._crowded_until

    def give_way(self) -> None:
        """Pause while short calls are answered, if this thread has done a piece of work since it last did.
        For threads whose work can wait, between its steps.
        """
        if not self.has_short_calls():
            self._piece.began = None
            return
        # A call of the system: a small epoch asks a hundred times.
        used = time.thread_time()
        began = getattr(self._piece, "began", 0.0)
        if began is not None and used - began < PIECE_SECONDS:
            return
        self._piece.began = used
        if began is None:
            return
        worked = used - began
        with self._pausing:
            # A call that ends between these lines costs no more than a pause.
            self._is_clear.clear()
            if self.has_short_calls():
                self._is_clear.wait(min(self._pause_share * worked, self._longest_pause_seconds))


RIGHT_OF_WAY = RightOfWay()
"""Of this process, as the interpreter is: hosts that are in one process share both."""
