"""Results on their way to a client: as one table when they are small, batch by batch when they are not."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any
from weakref import ref

import pyarrow as pa
from pyarrow import flight

from engine.access.principal import Principal
from engine.deadline import NO_DEADLINE, Deadline, DeadlineWatcher, Watch
from engine.errors import Cancelled
from engine.exec.query_result import QueryMetadata, QueryResult
from engine.telemetry.statement_ids import StatementScope, statement_id
from flight_server.server.callers import Callers
from flight_server.server.ledger import Pace
from flight_server.server.limits import HeldSlot
from flight_server.server.result_places import ResultPlace, ResultPlaces
from flight_server.server.running_calls import Call, CallState
from flight_server.wire.boundary import wire_error
from flight_server.wire.result_metadata import METADATA_KEY

_log = logging.getLogger(__name__)

TABLE_BYTES = 4 << 20
"""Results up to this size are gathered before they are sent; larger ones are streamed as they are made."""
WRITE_OPTIONS = pa.ipc.IpcWriteOptions()
"""Given with each stream: without, pyarrow looks for them in the environment, which takes longer than the
rest of making a stream.
"""
UNCOUNTED_BYTES = 256 << 10
"""Results up to this size take no place on their way: a host has memory for one of each of its threads."""


_LOOK_SECONDS = 0.2
"""How often a result that is held back is asked for whether it is still wanted."""


@dataclass(frozen=True)
class Terms:
    """On what terms somebody gets results.

    Attributes:
        callers: Knows whether it may go on: tokens end, and roles change.
        principal: Who.
        slow_clients: Ends what a client does not read in time.
        places: For results of more than `TABLE_BYTES`.
        table_places: For results of less, and more than `UNCOUNTED_BYTES`.
        pace: How quickly; None: as quickly as it can.
    """

    callers: Callers
    principal: Principal
    slow_clients: DeadlineWatcher
    places: ResultPlaces
    table_places: ResultPlaces
    pace: Pace | None = None


class _Sending:
    """The batches of a result. However it ends, read through, given up or failed, the result is closed and
    the call ended.

    A thread that sends to a client which reads nothing cannot be woken: Flight's server has no call for that.
    So when the time is over, or the call is cancelled, another thread closes the result and ends the call,
    and the client is told when it reads on.
    """

    def __init__(self, result: QueryResult, call: Call, context: Any, terms: Terms) -> None:
        self._making = threading.Lock()
        """Held while a batch is made."""
        self._watch: Watch | None = None
        self._overdue: Exception | None = None
        """What the client is told that has read too late."""
        self._place: ResultPlace | None = None
        self._terms = terms
        self._result = result
        self._batches = iter(result)
        self._gathered: deque[pa.RecordBatch] = deque()
        self._gathered_bytes = 0
        self._call = call
        self._context = context

    @property
    def gathered_bytes(self) -> int:
        """What was gathered takes."""
        return self._gathered_bytes

    def gather(self, limit_bytes: int) -> list[pa.RecordBatch] | None:
        """All batches, if they are small together; None if not: then they are still to come from the
        iterator.
        """
        for batch in self._batches:
            self._count(batch)
            self._gathered.append(batch)
            # Rows that are cut out of a column of many count for themselves; that takes longer to find out.
            held = batch.get_total_buffer_size()
            self._gathered_bytes += held if held <= limit_bytes else batch.nbytes
            if self._gathered_bytes > limit_bytes:
                return None
        self._result.close()
        return list(self._gathered)

    def hold(self, place: ResultPlace) -> None:
        """Have a place among the results that are sent batch by batch, until Flight drops this."""
        self._place = place

    def watch(self, deadline: Deadline) -> None:
        """Have it end in time also while its client reads nothing."""
        sending = ref(self)  # what is watched is forgotten as soon as Flight drops it
        self._watch = self._terms.slow_clients.watch(deadline, lambda: _end_unread(sending))
        self._watch.__enter__()

    def end_unread(self) -> None:
        """End it from a thread of its own, unless a batch is being made: that fails by itself. For the thread
        that watches all of them, and must not wait for what one of them has to let go of.
        """
        if self._overdue is not None or not self._making.acquire(blocking=False):
            return
        try:
            assert self._watch is not None and self._watch.error is not None
            # Before the lock is given back: who reads on must not take some rows for all.
            self._overdue = overdue = self._call.told_error(self._watch.error)
            threading.Thread(target=self._close_unread, args=[overdue], name="closing", daemon=True).start()
        except BaseException:
            self._overdue = None
            self._making.release()
            raise

    def _close_unread(self, told: Exception) -> None:
        """Close it, and let whoever reads on know: no batch is made meanwhile."""
        try:
            if self._call.audited is not None:
                self._call.audited.break_off(told)
            self._gathered.clear()
            self.close()
        except Exception:  # noqa: BLE001 - the top of a thread
            _log.exception("A result that its client does not read could not be closed.")
        finally:
            self._making.release()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        with self._making, StatementScope(self._call.id):
            if self._overdue is not None:
                raise wire_error(self._overdue, self._context, streaming=True)
            return self._next_or_error()

    def _next_or_error(self) -> pa.RecordBatch:
        try:
            self._call.check()
            self._terms.callers.check_again(self._context, self._terms.principal)
            batch = self._gathered.popleft() if self._gathered else self._next_batch()
            wait_for_pace(self._terms.pace, [batch], self._call)
        except StopIteration:
            self.close()
            raise
        except Exception as error:  # noqa: BLE001 - the last line before the network: what gets past it travels with its traceback
            told = self._call.told_error(error)
            try:
                if self._call.audited is not None:
                    self._call.audited.break_off(told)
                self.close()
                raise wire_error(told, self._context, streaming=True) from None
            finally:
                # It knows this function, which would know it.
                del told
        return batch

    def _next_batch(self) -> pa.RecordBatch:
        batch = next(self._batches)
        self._count(batch)
        return batch

    def _count(self, batch: pa.RecordBatch) -> None:
        if self._call.audited is not None:
            self._call.audited.count(batch.num_rows, batch.nbytes)

    def close(self) -> None:
        try:
            self._result.close()
        finally:
            self._call.end()
            if self._watch is not None:
                self._watch.__exit__(None, None, None)

    def __del__(self) -> None:
        # Flight drops the stream of a client that went away, without a word; a generator that never began
        # would not clean up.
        try:
            if self._place is not None and self._call.audited is not None:
                # Of what has ended nothing more is told.
                self._call.audited.break_off(Cancelled("The client went away before it had all rows."))
            self.close()
        finally:
            # Not earlier: the thread that sends may wait for its client until now.
            if self._place is not None:
                self._place.give()


def _end_unread(sending: ref[_Sending]) -> None:
    found = sending()
    if found is not None:
        found.end_unread()


class _PlacedRows:
    """The batches of a table, which has a place among the results that are on their way until Flight drops
    this: where its client reads nothing, that is when the client goes.

    Args:
        table: The table.
        place: Its place.
    """

    def __init__(self, table: pa.Table, place: ResultPlace) -> None:
        self._batches = iter(table.to_batches())
        self._place = place

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        return next(self._batches)

    def __del__(self) -> None:
        self._place.give()


def table_stream(result: QueryResult) -> flight.FlightDataStream:
    """The stream of a result whose rows are there already, and few.

    Args:
        result: With a table.
    """
    return flight.RecordBatchStream(_described_table(result), WRITE_OPTIONS)


def _described_table(result: QueryResult) -> pa.Table:
    assert result.table is not None
    # A dictionary, of which Arrow would make the same, takes it three times as long.
    metadata = pa.KeyValueMetadata({METADATA_KEY: result.metadata.to_json(statement_id())})
    return result.table.replace_schema_metadata(metadata)


def wait_for_pace(pace: Pace | None, rows: Iterable[pa.RecordBatch | pa.Table], call: Call) -> None:
    """Wait until rows may be sent: until the bytes before are paid for.

    Args:
        pace: How quickly they may; None: at once.
        rows: What is sent.
        call: What they are of.

    Raises:
        Cancelled: Nobody wants them any more.
    """
    if pace is None:
        return
    nbytes = sum(each.nbytes for each in rows)
    until = time.monotonic() + pace.take(nbytes)
    try:
        while (remaining := until - time.monotonic()) > 0:
            call.check()
            time.sleep(min(remaining, _LOOK_SECONDS))
    except Cancelled:
        # Nothing of it was sent, and others of the principal wait until it is paid for.
        pace.give_back(nbytes)
        raise


def catalog_stream(table: pa.Table, call: Call, context: Any, terms: Terms) -> flight.FlightDataStream:
    """The stream of a table that is about no store: it waits for nothing. Otherwise as `result_stream`."""
    result = QueryResult(table.schema, QueryMetadata("catalog"), iter(table.to_batches()))
    return result_stream(result, call, context, replace(terms, pace=None))


def result_stream(
    result: QueryResult,
    call: Call,
    context: Any,
    terms: Terms,
    slot: HeldSlot | None = None,
    deadline: Deadline = NO_DEADLINE,
    place: ResultPlace | None = None,
) -> flight.FlightDataStream:
    """The stream that answers DoGet.

    Args:
        result: Just begun; closed by the time the stream has been sent or dropped.
        call: Its execution; ended then.
        context: The call's `flight.ServerCallContext`.
        terms: On what terms it is sent.
        slot: What was held while it was computed: given back before it waits for its pace. None: nothing.
        deadline: When it must have been read.
        place: Taken for it, to be given back here; None: one is taken if it is of more than
            `UNCOUNTED_BYTES`.

    Returns:
        A stream whose schema carries the query's metadata.

    Raises:
        LivestateError: The query failed before its first `TABLE_BYTES`, or too many results of more than
            `UNCOUNTED_BYTES` are on their way.
    """
    if result.table is not None:
        if call.audited is not None:
            call.audited.count(result.table.num_rows, result.table_bytes)
        return _whole_stream(_described_table(result), result.table_bytes, call, terms, slot, place)
    metadata = {METADATA_KEY: result.metadata.to_json(call.id)}
    schema = result.schema.with_metadata(metadata)
    sending = _Sending(result, call, context, terms)
    gathered = sending.gather(TABLE_BYTES)
    if gathered is None:
        sending.hold(terms.places.take(terms.principal.name) if place is None else place)
        sending.watch(deadline)
        call.state = CallState.STREAMING
        return flight.GeneratorStream(schema, sending, WRITE_OPTIONS)
    table = pa.Table.from_batches(gathered, schema)
    return _whole_stream(table, sending.gathered_bytes, call, terms, slot, place)


def _whole_stream(
    table: pa.Table,
    nbytes: int,
    call: Call,
    terms: Terms,
    slot: HeldSlot | None,
    place: ResultPlace | None,
) -> flight.FlightDataStream:
    """The stream of a result whose rows are all there."""
    if nbytes <= UNCOUNTED_BYTES:
        if place is not None:
            place.give()
        _hold_back(table, call, terms, slot)
        return flight.RecordBatchStream(table, WRITE_OPTIONS)
    rows = _PlacedRows(table, terms.table_places.take(terms.principal.name) if place is None else place)
    _hold_back(table, call, terms, slot)
    return flight.GeneratorStream(table.schema, rows, WRITE_OPTIONS)


def _hold_back(table: pa.Table, call: Call, terms: Terms, slot: HeldSlot | None) -> None:
    """Wait until all rows of a call may be sent, and end it. Where nobody wants them any more, whoever began
    the call ends it, once that is noted.
    """
    if slot is not None:
        slot.give()
    wait_for_pace(terms.pace, [table], call)
    call.end()
