"""The executions that run now on this host, so that each can be cancelled and a stop can wait for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from engine.access.principal import Permission, Principal
from engine.errors import Cancelled, LivestateError, Unavailable
from engine.telemetry.statement_ids import statement_id
from flight_server.server.audit import AuditedCall
from flight_server.server.statement_meter import StatementMeter
from flight_server.wire.call_headers import statement_of_call_id


class CallState(Enum):
    """How far an execution is."""

    PLANNING = "planning"
    WAITING = "waiting"
    RUNNING = "running"
    STREAMING = "streaming"


SECONDS_BETWEEN_QUESTIONS = 0.2
"""How often gRPC is asked at most whether a client is gone. It takes 0.1 ms to say so, and up to 35 ms on a
busy host: it waits for what other calls send and receive, and no other thread runs Python meanwhile.
"""
CANCEL_SECONDS = 2.0
"""How long what is cancelled may take to end."""


class Call:
    """One execution, from its plan to the last byte of its result.

    Args:
        context: The RPC's `flight.ServerCallContext`, which must not be touched once the RPC is over.
        ended: Called once, when the execution is over.
        audited: What is told of it; None: nothing.
        call_id: What its client knows it by; may be empty.

    Attributes:
        audited: As the argument.
        id: What logs and SHOW STATEMENTS have it by: the id of its statement.
        state: How far it is.
    """

    def __init__(
        self,
        context: Any,
        ended: Callable[[Call], None],
        audited: AuditedCall | None = None,
        call_id: bytes = b"",
    ) -> None:
        self.audited = audited
        self.id = statement_id() or statement_of_call_id(call_id)
        self.state = CallState.WAITING
        self._lock = threading.Lock()
        self._context: Any = context
        self._ended = ended
        self._cancelled = False
        self._is_client_gone = False
        self._asked_at = time.monotonic()
        self._reason: LivestateError | None = None

    def is_cancelled(self) -> bool:
        """Whether nobody wants the result any more: the client is gone, ran out of time, or said so. From any
        thread. That it is gone is known `SECONDS_BETWEEN_QUESTIONS` later.
        """
        with self._lock:
            if self._cancelled or self._context is None:
                return self._cancelled
            now = time.monotonic()
            if now - self._asked_at >= SECONDS_BETWEEN_QUESTIONS:
                self._asked_at, self._is_client_gone = now, bool(self._context.is_cancelled())
            return self._is_client_gone

    def is_for(self, principal: Principal) -> bool:
        """Whether somebody may know of it, and cancel it: who asked, and who sees all calls. What nothing is
        told of is known to whoever has its id.
        """
        return (
            self.audited is None or self.audited.principal.name == principal.name or sees_all_calls(principal)
        )

    def check(self) -> None:
        """Go on only if the result is still wanted.

        Raises:
            Cancelled: It is not.
        """
        if self.is_cancelled():
            raise Cancelled("The query was cancelled.")

    def cancel(self, reason: LivestateError | None = None) -> None:
        """Say that the result is not wanted any more. From any thread.

        Args:
            reason: What whoever waits for it is told; None: that it was cancelled.
        """
        self._reason = reason
        self._cancelled = True

    def told_error(self, error: Exception) -> Exception:
        """What whoever waits is told: of what was cancelled for a reason, the reason.

        Args:
            error: How the execution has failed.
        """
        return error if self._reason is None or not isinstance(error, Cancelled) else self._reason

    def end(self) -> None:
        """Let go of the RPC. May be called again."""
        with self._lock:
            if self._context is None:
                return
            self._context = None
        try:
            if self.audited is not None:
                self.audited.end()
        finally:
            self._ended(self)


class Calls:
    """All executions that run now.

    Attributes:
        meter: Counts what has ended.
    """

    def __init__(self) -> None:
        self.meter = StatementMeter()
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._running: dict[Call, bytes] = {}
        self._is_draining = False
        self._closed = False

    @property
    def is_draining(self) -> bool:
        """Whether clients are sent to other hosts."""
        return self._is_draining

    def drain(self, *, is_draining: bool) -> None:
        """Send clients to other hosts from now on, or no more. What runs goes on, and other hosts' fragments
        are run.
        """
        self._is_draining = is_draining

    @property
    def is_open(self) -> bool:
        """Whether something new may begin for clients."""
        return not (self._is_draining or self._closed)

    def check_open(self) -> None:
        """Begin something for a client.

        Raises:
            Unavailable: The host is about to stop.
        """
        if not self.is_open:
            raise stopping_error()

    def begin(self, call_id: bytes, context: Any, audited: AuditedCall | None = None) -> Call:
        """Take note of an execution.

        Args:
            call_id: What a client may cancel it by; may be empty.
            context: The RPC's `flight.ServerCallContext`.
            audited: What is told of it; None: nothing.

        Returns:
            The call; its `end` must be called.

        Raises:
            Unavailable: The host is stopping.
        """
        call = Call(context, self._forget, audited, call_id)
        with self._lock:
            if self._closed:
                raise stopping_error()
            self._running[call] = call_id
        return call

    def _forget(self, call: Call) -> None:
        with self._lock:
            self._running.pop(call, None)
            if self._is_draining and not self._running:
                self._idle.notify_all()

    def client_calls(self) -> Sequence[Call]:
        """What runs now of which something is told, the oldest first."""
        with self._lock:
            return [call for call in self._running if call.audited is not None]

    def cancel(self, call_id: bytes, principal: Principal) -> bool:
        """Cancel what runs under an id.

        Args:
            call_id: As given to `begin`.
            principal: Who wants it: what is not for it stays.

        Returns:
            Whether anything did.
        """
        with self._lock:
            found = [
                call
                for call, running in self._running.items()
                if call_id and running == call_id and call.is_for(principal)
            ]
        for call in found:
            call.cancel()
        return bool(found)

    def __len__(self) -> int:
        return len(self._running)

    def wait_until_idle(self, seconds: float) -> bool:
        """Wait until nothing runs, of a host that drains.

        Args:
            seconds: How long at most.

        Returns:
            Whether nothing does.
        """
        with self._lock:
            return self._idle.wait_for(lambda: not self._running, seconds)

    def close(self, reason: LivestateError) -> bool:
        """Begin nothing more, cancel what runs, and wait until it has ended.

        Args:
            reason: What those are told whose executions are cancelled.

        Returns:
            Whether all executions ended.
        """
        with self._lock:
            self._is_draining = self._closed = True
            remaining = list(self._running)
        for call in remaining:
            call.cancel(reason)
        return self.wait_until_idle(CANCEL_SECONDS)


def sees_all_calls(principal: Principal) -> bool:
    """Whether somebody may know what others do: operators, and other hosts, which ask for them."""
    return principal.may(Permission.OPERATE) or principal.may(Permission.PEER)


def stopping_error() -> Unavailable:
    """What clients are told that want something of a host which is about to stop."""
    return Unavailable("The host is stopping and takes no new statements: ask another host.")
