"""Fragments that other hosts ask this one for: DoGet for those without inputs, DoExchange for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import flight

from engine.cluster.fragments import FragmentRequest
from engine.errors import Cancelled, InvalidInput, Unsupported
from engine.exec.query_result import QueryResult
from flight_server.calls import Call, Calls
from flight_server.fragments import FragmentTicket, InputSpace, Upload, parse_fragment
from flight_server.limits import Slots
from flight_server.repeated import Repeated
from flight_server.results import TABLE_BYTES, WRITE_OPTIONS, result_stream
from flight_server.tickets import METADATA_KEY, seconds_left


class FragmentRunner(Protocol):
    """What runs fragments: `QueryService`."""

    def execute_fragment(self, request: FragmentRequest, cancelled: Callable[[], bool]) -> QueryResult:
        """Run a fragment over this host's partitions.

        Raises:
            LivestateError: It cannot run, by kind.
        """


class Fragments:
    """Runs fragments for the calls of Flight.

    Args:
        runner: Runs them; None on a host that belongs to no deployment.
        calls: Knows what runs.
        slots: How many may be computed at once.
        space: Memory for inputs.
    """

    def __init__(self, runner: FragmentRunner | None, calls: Calls, slots: Slots, space: InputSpace) -> None:
        self._runner = runner
        self._calls = calls
        self._slots = slots
        self._space = space

    def run(self, ticket: FragmentTicket, context: Any) -> flight.FlightDataStream:
        """Run a fragment without inputs.

        Args:
            ticket: The fragment.
            context: The call's `flight.ServerCallContext`.

        Returns:
            The stream that answers DoGet.

        Raises:
            LivestateError: It cannot run, by kind.
        """
        if ticket.inputs:
            raise InvalidInput("The fragment has inputs, which a DoGet cannot bring: send it with DoExchange.")
        call = self._calls.begin(ticket.call_id, context)
        with ExitStack() as unless_answered:
            unless_answered.callback(call.end)
            with self._slots.taken(ticket.request.timeout_seconds) as waited:
                stream = result_stream(self._begun(ticket.request, call, waited), call, context)
            unless_answered.pop_all()
        return stream

    def exchange(
        self, context: Any, descriptor: flight.FlightDescriptor, reader: flight.MetadataRecordBatchReader, writer: flight.MetadataRecordBatchWriter
    ) -> None:
        """Run a fragment whose inputs come with the call.

        Args:
            context: The call's `flight.ServerCallContext`.
            descriptor: Holds the fragment.
            reader: Brings its inputs.
            writer: Takes its rows.

        Raises:
            LivestateError: It cannot run, by kind.
        """
        ticket = parse_fragment(bytes(descriptor.command or b""))
        call = self._calls.begin(ticket.call_id, context)
        try:
            with Upload(ticket.inputs, self._space) as upload:
                self._answer(ticket, upload, call, reader, writer)
        finally:
            call.end()

    def _answer(
        self, ticket: FragmentTicket, upload: Upload, call: Call, reader: flight.MetadataRecordBatchReader, writer: flight.MetadataRecordBatchWriter
    ) -> None:
        request = replace(ticket.request, inputs=upload.read(reader, call.check))
        with ExitStack() as begun:
            with self._slots.taken(request.timeout_seconds) as waited:
                result = begun.enter_context(self._begun(request, call, waited))
                first = _first_rows(result)
            # Whoever reads slowly from here on holds up nobody else.
            _write(result, first, call, writer)

    def _begun(self, request: FragmentRequest, call: Call, waited: float) -> QueryResult:
        if self._runner is None:
            raise Unsupported("This host belongs to no deployment, so it runs no fragments: start it with --deployment.")
        if waited:
            call.check()
            request = replace(request, timeout_seconds=seconds_left(request.timeout_seconds, waited))
        return self._runner.execute_fragment(request, call.cancelled)


def _first_rows(result: QueryResult) -> list[pa.RecordBatch]:
    """The first `TABLE_BYTES` of a result, or all of it."""
    first, size = [], 0
    for batch in result:
        first.append(batch)
        size += batch.get_total_buffer_size()
        if size > TABLE_BYTES:
            break
    return first


def _write(result: QueryResult, first: Sequence[pa.RecordBatch], call: Call, writer: flight.MetadataRecordBatchWriter) -> None:
    schema = result.schema.with_metadata({METADATA_KEY: result.metadata.to_json()})
    repeated = Repeated.of(schema, first)
    _to_peer(lambda: writer.begin(repeated.schema, options=WRITE_OPTIONS))
    for batch in chain(first, _wanted(result, call)):
        _to_peer(lambda batch=batch: writer.write_batch(repeated.encoded(batch)))  # type: ignore[misc] # mypy gives lambdas with defaults no type


def _wanted(result: QueryResult, call: Call) -> Iterator[pa.RecordBatch]:
    for batch in result:
        call.check()
        yield batch


def _to_peer(write: Callable[[], None]) -> None:
    try:
        write()
    except (flight.FlightError, pa.ArrowException, OSError) as error:
        raise Cancelled("The host that asked for the fragment is gone.") from error
