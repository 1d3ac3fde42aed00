"""The executions that run now on this host, so that each can be cancelled and a stop can wait for them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from engine.errors import Cancelled, Unavailable


class Call:
    """One execution, from its plan to the last byte of its result.

    Args:
        context: The RPC's `flight.ServerCallContext`, which must not be touched once the RPC is over.
        ended: Called once, when the execution is over.
    """

    def __init__(self, context: Any, ended: Callable[[Call], None]) -> None:
        self._lock = threading.Lock()
        self._context: Any = context
        self._ended = ended
        self._cancelled = False

    def is_cancelled(self) -> bool:
        """Whether nobody wants the result any more: the client is gone, ran out of time, or said so. From any
        thread.
        """
        with self._lock:
            return self._cancelled or (self._context is not None and bool(self._context.is_cancelled()))

    def check(self) -> None:
        """Go on only if the result is still wanted.

        Raises:
            Cancelled: It is not.
        """
        if self.is_cancelled():
            raise Cancelled("The query was cancelled.")

    def cancel(self) -> None:
        """Say that the result is not wanted any more. From any thread."""
        self._cancelled = True

    def end(self) -> None:
        """Let go of the RPC. May be called again."""
        with self._lock:
            if self._context is None:
                return
            self._context = None
        self._ended(self)


class Calls:
    """All executions that run now."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._running: dict[Call, bytes] = {}
        self._closed = False

    def check_open(self) -> None:
        """Begin only what a stop need not wait for.

        Raises:
            Unavailable: The host is stopping.
        """
        if self._closed:
            raise _stopping_error()

    def begin(self, call_id: bytes, context: Any) -> Call:
        """Take note of an execution.

        Args:
            call_id: What a client may cancel it by; may be empty.
            context: The RPC's `flight.ServerCallContext`.

        Returns:
            The call; its `end` must be called.

        Raises:
            Unavailable: The host is stopping.
        """
        call = Call(context, self._forget)
        with self._lock:
            if self._closed:
                raise _stopping_error()
            self._running[call] = call_id
        return call

    def _forget(self, call: Call) -> None:
        with self._lock:
            self._running.pop(call, None)
            if self._closed and not self._running:
                self._idle.notify_all()

    def cancel(self, call_id: bytes) -> bool:
        """Cancel what runs under an id.

        Args:
            call_id: As given to `begin`.

        Returns:
            Whether anything did.
        """
        with self._lock:
            found = [call for call, running in self._running.items() if call_id and running == call_id]
        for call in found:
            call.cancel()
        return bool(found)

    def __len__(self) -> int:
        return len(self._running)

    def close(self, grace_seconds: float) -> bool:
        """Begin nothing more, and wait for what runs; cancel what runs on.

        Args:
            grace_seconds: How long it may run on, before it is cancelled and, once more, after.

        Returns:
            Whether all executions ended.
        """
        with self._lock:
            self._closed = True
        if self._wait_until_idle(grace_seconds):
            return True
        with self._lock:
            remaining = list(self._running)
        for call in remaining:
            call.cancel()
        return self._wait_until_idle(grace_seconds)

    def _wait_until_idle(self, seconds: float) -> bool:
        with self._lock:
            return self._idle.wait_for(lambda: not self._running, seconds)


def _stopping_error() -> Unavailable:
    return Unavailable("The host is stopping; ask again later, or another host.")
