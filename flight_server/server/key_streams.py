"""Streams of keys: DoExchange for clients that look up rows by their keys all the time."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
from pyarrow import flight

from engine.access.principal import LimitName, Permission, Principal
from engine.coordinator.key_streams import KeyAnswer, KeyStream
from engine.errors import Cancelled, DeadlineExceeded, InvalidInput, LimitExceeded
from engine.processes.call_core import CALL_CORE
from engine.processes.right_of_way import RIGHT_OF_WAY
from engine.service import QueryService, Session
from flight_server.server.audit import AuditedCall, AuditLog
from flight_server.server.callers import Callers
from flight_server.server.ledger import Ledger, Pace
from flight_server.server.limits import ServerLimits, Share, has_room, share_of
from flight_server.server.result_streams import WRITE_OPTIONS
from flight_server.server.running_calls import SECONDS_BETWEEN_QUESTIONS, Calls, stopping_error
from flight_server.wire.key_messages import KeyRequest, answer_metadata, answer_schema, check_keys

_GONE = (flight.FlightError, pa.ArrowException, OSError)
"""What pyarrow raises where the client is gone."""


class _OpenStream:
    """One stream that is open.

    Args:
        owner: Name of whoever opened it.

    Attributes:
        owner: As the argument.
        asked_at: When its client was last heard of, by the monotonic clock.
        has_place: Whether it counts against the limit still.
    """

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.asked_at = time.monotonic()
        self.has_place = True


class _Places:
    """Which streams are open: each takes a thread of the host. Safe for threads.

    A stream that is idle for too long loses its place where another one needs it: its client may be gone
    without a word, and its thread cannot be woken to see.

    Args:
        limit: How many streams may be open.
        idle_seconds: How long one keeps its place without a message.
    """

    def __init__(self, limit: int, idle_seconds: float) -> None:
        self._limit = limit
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._open: set[_OpenStream] = set()
        self._placed = 0
        self._closed = False

    def __len__(self) -> int:
        return len(self._open)

    def open(self, principal: Principal) -> _OpenStream:
        """A place for a new stream, to be given back by `close`.

        Args:
            principal: Who opens it.

        Raises:
            LimitExceeded: As many are open as may be, and of the principal as is its share of them; or as its
                roles allow.
            Unavailable: The host is stopping.
        """
        stream = _OpenStream(principal.name)
        with self._lock:
            if self._closed:
                raise stopping_error()
            limit = principal.limits.get(LimitName.KEY_STREAMS)
            if limit is not None and self._count_of(principal.name) >= limit.most:
                raise LimitExceeded(
                    f"{principal.name} has {limit.most} streams of keys open on this host, as many as the "
                    f"role {limit.role} may have ({LimitName.KEY_STREAMS.value}): close one, or ask another "
                    "host."
                )
            if self._placed >= self._limit:
                self._take_from_idle(stream.asked_at - self._idle_seconds)
            if self._placed >= self._limit and not self._has_share_left(principal.name):
                raise LimitExceeded(
                    f"{self._limit} streams of keys are open on this host, as many as may be "
                    "(max_key_streams): close one, or ask another host."
                )
            self._placed += 1
            self._open.add(stream)
        return stream

    def _count_of(self, owner: str) -> int:
        return sum(each.has_place and each.owner == owner for each in self._open)

    def _has_share_left(self, owner: str) -> bool:
        placed = Counter(each.owner for each in self._open if each.has_place)
        return has_room(placed, owner, self._limit)

    def _take_from_idle(self, since: float) -> None:
        for each in self._open:
            if each.has_place and each.asked_at < since:
                each.has_place = False
                self._placed -= 1

    def check_open(self) -> None:
        """Go on with a stream.

        Raises:
            Unavailable: The host is stopping.
        """
        if self._closed:
            raise stopping_error()

    def note_message(self, stream: _OpenStream) -> None:
        """Take note that a client has sent something.

        Raises:
            DeadlineExceeded: The stream has lost its place.
            Unavailable: The host is stopping.
        """
        stream.asked_at = time.monotonic()
        self.check_open()
        if not stream.has_place:
            raise DeadlineExceeded(
                f"The stream of keys was idle for more than {self._idle_seconds:g} s, and another one has "
                "taken its place: open another stream."
            )

    def close(self, stream: _OpenStream) -> None:
        """Give the place of a stream back."""
        with self._lock:
            self._open.discard(stream)
            self._placed -= stream.has_place
            stream.has_place = False
            self._changed.notify_all()

    def close_all(self, seconds: float) -> bool:
        """Open no more, and wait until those that are open have ended; the next message ends each of them.

        Args:
            seconds: How long to wait.

        Returns:
            Whether all have ended.
        """
        with self._lock:
            self._closed = True
            return self._changed.wait_for(lambda: not self._open, seconds)


class KeyStreams:
    """Answers streams of keys.

    Args:
        service: Looks keys up.
        calls: Knows what runs.
        callers: Knows who calls.
        limits: How many may be open, and how many messages may be worked on at once.
        ledger: Knows what each principal has taken.
        audit: Gets a line for each stream when it ends; None: there is none.
    """

    def __init__(
        self,
        service: QueryService,
        calls: Calls,
        callers: Callers,
        limits: ServerLimits,
        ledger: Ledger,
        audit: AuditLog | None = None,
    ) -> None:
        self._audit = audit
        self._ledger = ledger
        self._service = service
        self._calls = calls
        self._callers = callers
        self._places = _Places(limits.max_key_streams, limits.max_idle_seconds)
        # Messages are small and many: they neither wait for statements nor hold them up.
        self._slots = limits.slots("max_statements", limits.max_statements)

    def __len__(self) -> int:
        return len(self._places)

    def close(self, seconds: float) -> bool:
        """Answer no more messages.

        Args:
            seconds: How long to wait until clients have let go of their streams.

        Returns:
            Whether they have; a stream without messages cannot be ended by the host.
        """
        self._slots.close()
        return self._places.close_all(seconds)

    def exchange(
        self,
        context: Any,
        request: KeyRequest,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.MetadataRecordBatchWriter,
    ) -> None:
        """Answer a stream to its end.

        Args:
            context: The call's `flight.ServerCallContext`.
            request: What it was opened with.
            reader: Brings the keys.
            writer: Takes the rows.

        Raises:
            LivestateError: A message cannot be answered, by kind.
        """
        principal = self._callers.check(context, Permission.READ)
        audited = AuditedCall(self._audit, "keys", principal, context)
        audited.add(store=request.store)
        service = self._service.restrict(principal.scope)
        place = self._places.open(principal)
        try:
            stream = service.key_stream(request.store, request.columns, request.read_point)
            timeout_seconds = Session(timeout_seconds=request.timeout_seconds).time_limit(
                service.statement_timeout_seconds
            )
            _begin(stream, reader, writer)
            with ExitStack() as ended:
                ended.callback(stream.free_answer)
                self._answer_messages(
                    context, principal, audited, place, stream, timeout_seconds, reader, writer
                )
        except Exception as error:
            audited.fail(error)
            raise
        finally:
            CALL_CORE.leave()
            self._places.close(place)
            audited.end()

    def _answer_messages(
        self,
        context: Any,
        principal: Principal,
        audited: AuditedCall,
        place: _OpenStream,
        stream: KeyStream,
        timeout_seconds: float | None,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.MetadataRecordBatchWriter,
    ) -> None:
        share, pace = share_of(principal), self._ledger.result_pace(principal)
        while True:
            try:
                keys = reader.read_chunk().data
            except StopIteration:
                return
            except _GONE as error:
                raise _broken_error() from error
            self._calls.check_open()
            self._places.note_message(place)
            self._callers.check_again(context, principal)
            began = time.perf_counter()
            answer = self._answer(context, share, stream, check_keys(keys), timeout_seconds)
            seconds, rows = time.perf_counter() - began, answer.rows.num_rows
            self._calls.meter.note("keys", None, seconds, rows, answer.nbytes)
            audited.count(rows, answer.nbytes)
            if pace is not None:
                self._pause(context, pace, answer.nbytes)
            try:
                # It waits while the client reads nothing: so there is never more than one answer here.
                told = answer_metadata(
                    answer.epochs, answer.age_seconds, answer.stale_seconds, answer.digests
                )
                writer.write_with_metadata(answer.rows, told)
            except _GONE as error:
                raise _gone_error() from error
            # The next message may be long in coming.
            del answer
            stream.free_answer()

    def _pause(self, context: Any, pace: Pace, nbytes: int) -> None:
        """Wait before an answer is sent, as long as there is somebody to send it to."""
        until = time.monotonic() + pace.take(nbytes)
        while (remaining := until - time.monotonic()) > SECONDS_BETWEEN_QUESTIONS:
            time.sleep(SECONDS_BETWEEN_QUESTIONS)
            self._places.check_open()
            if context.is_cancelled():
                pace.give_back(nbytes)
                raise _gone_error()
        time.sleep(max(0.0, remaining))

    def _answer(
        self,
        context: Any,
        share: Share,
        stream: KeyStream,
        keys: pa.RecordBatch,
        timeout_seconds: float | None,
    ) -> KeyAnswer:
        call = self._calls.begin(b"", context)
        try:
            with self._slots.hold(timeout_seconds, share, call.is_cancelled) as slot, RIGHT_OF_WAY:
                if stream.answers_alone:
                    CALL_CORE.stay()
                return stream.answer(keys, timeout_seconds, call.is_cancelled, slot)
        except Cancelled as error:
            raise call.told_error(error) from error.__cause__
        finally:
            call.end()


def _begin(
    stream: KeyStream, reader: flight.MetadataRecordBatchReader, writer: flight.MetadataRecordBatchWriter
) -> None:
    """Say what answers look like, and see that keys are what they should be."""
    try:
        writer.begin(answer_schema(stream.schema, stream.key_schema), options=WRITE_OPTIONS)
        given = reader.schema
    except StopIteration:
        return
    except _GONE as error:
        raise _broken_error() from error
    if given.remove_metadata() != stream.key_schema:
        wanted = ", ".join(f"{field.name} {field.type}" for field in stream.key_schema)
        raise InvalidInput(
            f"The keys of the stream must have the columns ({wanted}), in this order and of these types."
        )


def _gone_error() -> Cancelled:
    return Cancelled("The client of the stream of keys is gone.")


def _broken_error() -> InvalidInput:
    return InvalidInput("A message of the stream of keys is no record batch of keys, or the client is gone.")
