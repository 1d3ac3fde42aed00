"""Fragments: DoExchange for those that other hosts ask this one for, DoGet for the endpoints of divided
results, which clients read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import flight

from engine.access.principal import ANYBODY, Principal
from engine.cluster.fragments import FragmentRequest
from engine.deadline import Deadline, DeadlineWatcher
from engine.errors import Cancelled, InvalidInput, Unsupported
from engine.exec.query_result import QueryResult
from engine.telemetry.statement_ids import name_statement
from flight_server.server.arrivals import Arrival
from flight_server.server.audit import AuditedCall, AuditLog
from flight_server.server.callers import Callers
from flight_server.server.ledger import Ledger
from flight_server.server.limits import HeldSlot, ServerLimits, share_of
from flight_server.server.result_places import ResultPlaces
from flight_server.server.result_streams import TABLE_BYTES, WRITE_OPTIONS, Terms, result_stream
from flight_server.server.running_calls import Call, Calls, CallState
from flight_server.server.server_figures import SlotFigures
from flight_server.wire.call_headers import statement_of_call_id
from flight_server.wire.dictionary_encoding import Repeated
from flight_server.wire.fragment_messages import FragmentTicket, InputSpace, Upload, parse_fragment
from flight_server.wire.result_metadata import METADATA_KEY
from flight_server.wire.tickets import seconds_left

_PEERS = "hosts of the deployment"
_PEERS_PLACES = 4
"""Times as many results may be on their way to other hosts as to clients, each of whom asks one of them."""


class FragmentRunner(Protocol):
    """What runs fragments: `QueryService`."""

    def execute_fragment(self, request: FragmentRequest, cancelled: Callable[[], bool]) -> QueryResult:
        """Run a fragment over this host's partitions.

        Raises:
            LivestateError: It cannot run, by kind.
        """


class FragmentCalls:
    """Runs fragments for the calls of Flight.

    Args:
        runner: Runs them.
        calls: Knows what runs.
        limits: How many may be computed at once, and what their inputs may take.
        has_peers: Whether there are other hosts: without, nobody has a reason to send inputs.
        watcher: Watches how long inputs take to arrive.
        places: For results of endpoints that are sent batch by batch.
        callers: Knows who calls.
        ledger: Knows what each principal has taken.
        audit: Gets a line for each endpoint that a client reads; None: there is none.
        slow_seconds: How long the quickest fragment takes that the log has; None: it has none.
        most_seconds: What an endpoint may take, whatever its ticket says; None for no limit.
    """

    def __init__(
        self,
        runner: FragmentRunner,
        calls: Calls,
        limits: ServerLimits,
        watcher: DeadlineWatcher,
        places: ResultPlaces,
        *,
        has_peers: bool,
        callers: Callers,
        ledger: Ledger,
        audit: AuditLog | None = None,
        slow_seconds: float | None = None,
        most_seconds: float | None = None,
    ) -> None:
        self._audit = audit
        self._slow_seconds = slow_seconds
        self._most_seconds = most_seconds
        self._callers = callers
        self._ledger = ledger
        self._runner = runner
        self._calls = calls
        self._limits = limits
        self._has_peers = has_peers
        self._watcher = watcher
        self._places = places
        self._peer_places = ResultPlaces(_PEERS_PLACES * limits.max_results)
        self._slots = limits.slots("max_fragments", limits.max_fragments)
        self._endpoint_slots = limits.slots("max_endpoints", limits.max_endpoints)
        self._space = InputSpace(limits.max_input_bytes)

    @property
    def slots(self) -> SlotFigures:
        """How many fragments are computed now."""
        return self._slots.figures

    @property
    def endpoint_slots(self) -> SlotFigures:
        """How many endpoints are computed now."""
        return self._endpoint_slots.figures

    @property
    def input_bytes(self) -> int:
        """Memory of the input tables that are here now."""
        return self._space.taken

    def close(self) -> None:
        """Begin no more of them."""
        self._slots.close()
        self._endpoint_slots.close()

    def run(
        self, ticket: FragmentTicket, context: Any, principal: Principal = ANYBODY
    ) -> flight.FlightDataStream:
        """Run the fragment of an endpoint.

        Args:
            ticket: The fragment.
            context: The call's `flight.ServerCallContext`.
            principal: Who calls: what exists for it is read, and its limits hold, whatever the ticket says.

        Returns:
            The stream that answers DoGet.

        Raises:
            LivestateError: It cannot run, by kind.
        """
        if ticket.inputs:
            raise InvalidInput(
                "The fragment has inputs, which a DoGet cannot bring: send it with DoExchange."
            )
        asked = _limit_timeout(ticket.request, self._most_seconds)
        name_statement(statement_of_call_id(ticket.call_id))
        audited = AuditedCall(
            self._audit,
            "endpoint",
            principal,
            context,
            ticket.request.sql,
            slow_seconds=self._slow_seconds,
            meter=self._calls.meter,
        )
        call = self._calls.begin(ticket.call_id, context, audited)
        deadline = Deadline(asked.timeout_seconds, call.is_cancelled)
        with ExitStack() as unless_answered:
            unless_answered.callback(call.end)
            try:
                # Taken first: what would wait for it with its first rows would take memory meanwhile.
                place = self._places.wait(principal.name, deadline)
                unless_answered.callback(place.give)
                with self._endpoint_slots.hold(
                    asked.timeout_seconds, share_of(principal), call.is_cancelled
                ) as slot:
                    call.state = CallState.RUNNING
                    request = replace(
                        _shorten_timeout(asked, slot.waited, call),
                        scope=principal.scope,
                        engine_limit=principal.engine_limit,
                    )
                    result = self._runner.execute_fragment(request, call.is_cancelled)
                    audited.note_result(result)
                    pace = self._ledger.result_pace(principal)
                    terms = Terms(self._callers, principal, self._watcher, self._places, self._places, pace)
                    stream = result_stream(result, call, context, terms, slot, deadline, place)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is told and raised again
                told = call.told_error(error)
                try:
                    audited.fail(told)
                    if told is not error:
                        raise told from error
                    raise
                finally:
                    # It knows this function, which would know it.
                    del told
            unless_answered.pop_all()
        return stream

    def exchange(
        self,
        context: Any,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.MetadataRecordBatchWriter,
    ) -> None:
        """Run a fragment of another host, whose inputs come with the call.

        Args:
            context: The call's `flight.ServerCallContext`.
            descriptor: Holds the fragment.
            reader: Brings its inputs.
            writer: Takes its rows.

        Raises:
            LivestateError: It cannot run, by kind.
        """
        ticket = parse_fragment(bytes(descriptor.command or b""))
        if not self._has_peers:
            raise Unsupported(
                "This host belongs to no deployment, so it runs no fragments: send SQL with DoGet."
            )
        name_statement(statement_of_call_id(ticket.call_id))
        # It is no call of a client's, and so none that SHOW STATEMENTS has.
        told = AuditedCall(
            None,
            "fragment",
            ANYBODY,
            context,
            ticket.request.sql,
            slow_seconds=self._slow_seconds,
            meter=self._calls.meter,
        )
        call = self._calls.begin(ticket.call_id, context)
        try:
            with (
                self._slots.hold(ticket.request.timeout_seconds, cancelled=call.is_cancelled) as slot,
                Upload(ticket.inputs, self._space) as upload,
            ):
                self._answer(ticket, slot, upload, call, told, reader, writer)
        except Exception as error:
            reason = call.told_error(error)
            told.fail(reason)
            if reason is not error:
                raise reason from error
            raise
        finally:
            told.end()
            call.end()

    def _answer(
        self,
        ticket: FragmentTicket,
        slot: HeldSlot,
        upload: Upload,
        call: Call,
        told: AuditedCall,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.MetadataRecordBatchWriter,
    ) -> None:
        request = _shorten_timeout(ticket.request, slot.waited, call)
        if ticket.inputs:
            request = self._receive_inputs(request, slot, upload, call, reader)
        with self._runner.execute_fragment(request, call.is_cancelled) as result:
            first = _first_rows(result)
            # Whoever reads slowly from here on holds up nobody else.
            slot.give()
            told.note_result(result)
            is_large = sum(batch.get_total_buffer_size() for batch in first) > TABLE_BYTES
            place = self._peer_places.take(_PEERS) if is_large else None
            try:
                _write(result, first, call, told, writer)
            finally:
                if place is not None:
                    place.give()

    def _receive_inputs(
        self,
        request: FragmentRequest,
        slot: HeldSlot,
        upload: Upload,
        call: Call,
        reader: flight.MetadataRecordBatchReader,
    ) -> FragmentRequest:
        begun = time.monotonic()

        def release() -> None:
            upload.close()
            slot.give()

        with Arrival(self._watcher, self._limits.upload_seconds(request.timeout_seconds), release) as arrival:

            def check() -> None:
                call.check()
                arrival.check()

            inputs = upload.read(reader, check)
            arrival.complete()
        return replace(_shorten_timeout(request, time.monotonic() - begun, call), inputs=inputs)


def _limit_timeout(request: FragmentRequest, most_seconds: float | None) -> FragmentRequest:
    """A request of a client, whose ticket may be one of its own making, with no more time than any statement
    has.
    """
    limits = (request.timeout_seconds, most_seconds)
    seconds = min((limit for limit in limits if limit is not None), default=None)
    return replace(request, timeout_seconds=seconds)


def _shorten_timeout(request: FragmentRequest, seconds: float, call: Call) -> FragmentRequest:
    """A request with what is left of its time after a wait."""
    if not seconds:
        return request
    call.check()
    return replace(request, timeout_seconds=seconds_left(request.timeout_seconds, seconds))


def _first_rows(result: QueryResult) -> list[pa.RecordBatch]:
    """The first `TABLE_BYTES` of a result, or all of it."""
    first, size = [], 0
    for batch in result:
        first.append(batch)
        size += batch.get_total_buffer_size()
        if size > TABLE_BYTES:
            break
    return first


def _write(
    result: QueryResult,
    first: Sequence[pa.RecordBatch],
    call: Call,
    told: AuditedCall,
    writer: flight.MetadataRecordBatchWriter,
) -> None:
    schema = result.schema.with_metadata({METADATA_KEY: result.whole_metadata.to_json(call.id)})
    repeated = Repeated.from_sample(schema, first)
    _send_to_peer(lambda: writer.begin(repeated.schema, options=WRITE_OPTIONS))
    for batch in chain(first, _cancellable_batches(result, call)):
        told.count(batch.num_rows, batch.nbytes)
        for piece in repeated.pieces(batch):
            _send_to_peer(partial(writer.write_batch, piece))


def _cancellable_batches(result: QueryResult, call: Call) -> Iterator[pa.RecordBatch]:
    for batch in result:
        call.check()
        yield batch


def _send_to_peer(write: Callable[[], None]) -> None:
    try:
        write()
    except (flight.FlightError, pa.ArrowException, OSError) as error:
        raise Cancelled("The host that asked for the fragment is gone.") from error
