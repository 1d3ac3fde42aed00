"""Time limits and cancellation of statements: one watcher for all, asleep while there is nothing to watch."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from types import TracebackType
from typing import Protocol

from engine.access.principal import EngineLimit, Limit
from engine.errors import Cancelled, DeadlineExceeded, LivestateError

_log = logging.getLogger(__name__)

POLL_SECONDS = 0.05
"""How often a caller is asked whether it took its request back, and how often a stubborn statement is
interrupted again.
"""
AWAKE_SECONDS = 1.0
"""How long the watcher goes on looking when there is nothing to watch: to wake it takes longer than most
lookups.
"""


class Slot(Protocol):
    """The right of a statement to be computed, of which a host has only so many."""

    @property
    def gather_limit(self) -> Limit | None:
        """What the statement may gather of other hosts' rows, bytes; None for as much as any."""

    @property
    def engine_limit(self) -> EngineLimit | None:
        """What the engine may take for it and the like; None for as much as for anybody's."""

    def idle(self, until: float | None) -> AbstractContextManager[None]:
        """Do without it for a block, and have it again behind one that does not fail.

        Args:
            until: How long to wait for it then, by the monotonic clock; None: as long as anybody.

        Raises:
            LimitExceeded: Too many do so, or there was none in time.
            Unavailable: The host is stopping.
        """

    def lend(self) -> None:
        """Let others be computed with it until `reclaim`, from any thread; nothing where it is not held."""

    def reclaim(self, until: float | None) -> None:
        """Have it again, if it is lent.

        Args:
            until: How long to wait for it, by the monotonic clock; None: as long as anybody.

        Raises:
            LimitExceeded: There was none in time.
            Unavailable: The host is stopping.
        """

    def occupy(self, until: float | None) -> AbstractContextManager[None]:
        """Have it for a block; nothing changes where it is held anyway.

        Args:
            until: How long to wait for it, by the monotonic clock; None: as long as anybody.

        Raises:
            LimitExceeded: There was none in time, or too many wait already.
            Unavailable: The host is stopping.
        """


class Deadline:
    """The time a statement has, whether its caller still wants it, and what it may take meanwhile.

    Args:
        timeout_seconds: Time from now; None for no limit.
        cancelled: Tells, from any thread, whether the caller took the statement back; None if it cannot.
        slot: What the statement holds while it is computed, now or later; None for nothing.
        engine_limit: As `Slot.engine_limit`, of what holds no slot.

    Attributes:
        at: When it is over, by the monotonic clock; None: never.
        engine_limit: As `Slot.engine_limit`.
    """

    def __init__(
        self,
        timeout_seconds: float | None,
        cancelled: Callable[[], bool] | None = None,
        slot: Slot | None = None,
        engine_limit: EngineLimit | None = None,
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._cancelled = cancelled
        self._slot = slot
        self.engine_limit = engine_limit if slot is None else slot.engine_limit
        self.at = None if timeout_seconds is None else time.monotonic() + timeout_seconds

    @property
    def remaining_seconds(self) -> float | None:
        """Time that is left, 0 when it is over; None for no limit."""
        return None if self.at is None else max(0.0, self.at - time.monotonic())

    @property
    def gather_limit(self) -> Limit | None:
        """As `Slot.gather_limit`."""
        return None if self._slot is None else self._slot.gather_limit

    @property
    def needs_polling(self) -> bool:
        """Whether the caller must be asked now and then."""
        return self._cancelled is not None

    def idle(self) -> AbstractContextManager[None]:
        """For a block in which the statement waits for what is to come: it holds no slot then, so that others
        can be computed that need not wait.

        Raises:
            LivestateError: As `Slot.idle`.
        """
        return nullcontext() if self._slot is None else self._slot.idle(self.at)

    def lend_slot(self) -> None:
        """Let others be computed while the statement only waits."""
        if self._slot is not None:
            self._slot.lend()

    def reclaim_slot(self) -> None:
        """Hold the slot again, if it is lent.

        Raises:
            LivestateError: As `Slot.reclaim`.
        """
        if self._slot is not None:
            self._slot.reclaim(self.at)

    def occupy_slot(self) -> AbstractContextManager[None]:
        """For a block that reads rows for a statement which is only planned, and holds no slot otherwise.

        Raises:
            LivestateError: As `Slot.occupy`.
        """
        return nullcontext() if self._slot is None else self._slot.occupy(self.at)

    def error(self) -> LivestateError | None:
        """Why the statement must end now.

        Returns:
            The error to raise; None if it may go on.
        """
        if self._cancelled is not None and self._cancelled():
            return Cancelled("The statement was cancelled.")
        if self.at is not None and time.monotonic() >= self.at:
            return self.time_error()
        return None

    def time_error(self) -> DeadlineExceeded:
        """Why a statement ends whose time is over, in a deadline that is no endless one."""
        return DeadlineExceeded(
            f"The statement ran longer than its time-out of {self._timeout_seconds:g} s: ask for less, "
            "or allow more time."
        )

    def check(self) -> None:
        """Raise why the statement must end now, if it must.

        Raises:
            Cancelled: The caller took it back.
            DeadlineExceeded: Its time ran out.
        """
        error = self.error()
        try:
            if error is not None:
                raise error
        finally:
            # Its traceback holds this variable.
            del error


NO_DEADLINE = Deadline(None)
"""For what is never taken back."""


@contextmanager
def hold_lock(lock: Lock, deadline: Deadline) -> Iterator[None]:
    """Hold a lock that others may hold for long.

    Args:
        lock: The lock.
        deadline: Of whoever waits for it.

    Raises:
        LivestateError: The statement must end before it has it, as `Deadline.check`.
    """
    while not lock.acquire(timeout=POLL_SECONDS):
        deadline.check()
    try:
        yield
    finally:
        lock.release()


class Watch:
    """One statement under watch; use as a context around the work that can be interrupted."""

    def __init__(
        self,
        watcher: DeadlineWatcher,
        deadline: Deadline,
        interrupt: Callable[[], None],
        look: Callable[[], None],
    ) -> None:
        self._watcher = watcher
        self.deadline = deadline
        self.interrupt = interrupt
        self.look = look
        self.error: LivestateError | None = None
        self.has_failed = False

    def __enter__(self) -> Watch:
        self._watcher.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watcher.remove(self)
        # It may refer to this watch, and would keep all that it would have ended.
        self.interrupt = self.look = _do_nothing


def _do_nothing() -> None:
    """Interrupts, or looks after, a statement that has ended."""


class DeadlineWatcher:
    """Interrupts watched statements whose time is over. Its thread starts with the first statement."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._watches: set[Watch] = set()
        self._wakes_at = 0.0
        self._thread: threading.Thread | None = None
        self._stopped = False

    def watch(
        self, deadline: Deadline, interrupt: Callable[[], None], look: Callable[[], None] = _do_nothing
    ) -> Watch:
        """Prepare to watch a statement.

        Args:
            deadline: When it must end.
            interrupt: Ends it, from any thread; called repeatedly until the watch ends, and never afterwards.
            look: Called each time the statement is looked at that need not end; waits for nothing.

        Returns:
            A context; its `error` says why the statement was interrupted, if it was.
        """
        return Watch(self, deadline, interrupt, look)

    def add(self, watch: Watch) -> None:
        """Begin to watch."""
        if watch.deadline.at is None and not watch.deadline.needs_polling:
            return
        with self._changed:
            self._watches.add(watch)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="livestate-deadlines", daemon=True)
                self._thread.start()
            elif self._next_check(watch) < self._wakes_at:
                self._changed.notify()

    def remove(self, watch: Watch) -> None:
        """End a watch; no interrupt is under way or comes later once this returns."""
        with self._changed:
            self._watches.discard(watch)

    def close(self) -> None:
        """Stop watching."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _next_check(self, watch: Watch) -> float:
        soon = time.monotonic() + POLL_SECONDS
        if (
            watch.has_failed
            or watch.deadline.needs_polling
            or watch.error is not None
            or watch.deadline.at is None
        ):
            return soon
        return watch.deadline.at

    def _check(self) -> None:
        """Interrupt what must end. (A variable of `_run` would keep the last statement while the thread
        sleeps.)

        What cannot be asked or interrupted is tried again at the next look, and every other statement is
        looked after meanwhile.
        """
        for watch in self._watches:
            try:
                watch.error = watch.error or watch.deadline.error()
                if watch.error is not None:
                    watch.interrupt()
                else:
                    watch.look()
            except BaseException:  # noqa: BLE001 - the top of the thread that looks after all statements
                # Each failure once: there is a look every 50 milliseconds.
                if not watch.has_failed:
                    _log.exception("A statement could not be asked whether it must end, or not be ended.")
                watch.has_failed = True

    def _run(self) -> None:
        rests_at = 0.0
        with self._changed:
            while not self._stopped:
                self._check()
                now = time.monotonic()
                rests_at = now + AWAKE_SECONDS if self._watches else rests_at
                idle = now + POLL_SECONDS if now < rests_at else float("inf")
                self._wakes_at = min((self._next_check(watch) for watch in self._watches), default=idle)
                wait = self._wakes_at - now
                self._changed.wait(None if self._wakes_at == float("inf") else max(wait, 0.001))
