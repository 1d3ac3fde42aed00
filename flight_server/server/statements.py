"""Statements: planning at GetFlightInfo, execution at DoGet, prepared statements and their parameters between
the two.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyarrow import flight

from engine.access.principal import ANYBODY, Permission, Principal
from engine.cluster.reports import HostName
from engine.coordinator.division import Division, Piece
from engine.deadline import Deadline, DeadlineWatcher
from engine.errors import InvalidInput, Unsupported
from engine.model.quantities import quantity
from engine.model.read_point import NEWEST, AsOfEpoch
from engine.processes.call_core import CALL_CORE
from engine.service import DEFAULT_SESSION, MOST_SCOPES, PreparedStatement, QueryResult, QueryService, Session
from engine.sql.literals import MAX_PARAMETERS, too_many_parameters_error
from engine.telemetry.statement_ids import name_statement
from flight_server.server.activity import Activity, ActivityStatement, parse_activity
from flight_server.server.arrivals import Arrival
from flight_server.server.audit import AuditedCall, AuditLog
from flight_server.server.callers import Callers
from flight_server.server.json_values import json_array
from flight_server.server.ledger import Ledger
from flight_server.server.limits import HeldSlot, ServerLimits, share_of
from flight_server.server.result_places import ResultPlaces
from flight_server.server.result_streams import (
    UNCOUNTED_BYTES,
    Terms,
    catalog_stream,
    result_stream,
    table_stream,
)
from flight_server.server.running_calls import Call, Calls, CallState
from flight_server.server.server_figures import SlotFigures
from flight_server.server.sessions import caller_options
from flight_server.server.settings import SETTING_SCHEMA, change_session, check_session
from flight_server.wire.bound_row import bound_row
from flight_server.wire.call_headers import statement_of_call_id
from flight_server.wire.column_metadata import describe_field
from flight_server.wire.fragment_messages import FragmentTicket
from flight_server.wire.messages import Message, new
from flight_server.wire.parameter_types import announced_schema
from flight_server.wire.session_options import NO_OPTIONS
from flight_server.wire.settings import Setting, setting_of
from flight_server.wire.tickets import (
    CALL_ID_BYTES,
    JsonCommand,
    JsonStatement,
    Parameters,
    PlainValue,
    Statement,
    execution_ticket,
    parse_handle,
)

MAX_ECHOED_BYTES = 4 << 20
"""A longer statement is in the ticket alone and not also in the FlightInfo's descriptor: drivers take
messages of 16 MiB at the most.
"""
_DEFAULTS = NO_OPTIONS.statement("")
_described: WeakKeyDictionary[PreparedStatement, pa.Schema] = WeakKeyDictionary()
"""What drivers are told of the columns of statements that are kept."""
_PLAIN_JSON = (int, float, bool, type(None))


def engine_session(statement: Statement) -> Session:
    """The session of the query service that a statement runs in.

    Args:
        statement: Any.

    Returns:
        Its dialect, time limit and read point.
    """
    if not statement.dialect and statement.timeout_seconds is None and statement.read_point is NEWEST:
        return DEFAULT_SESSION
    return Session(
        statement.dialect or DEFAULT_SESSION.dialect, statement.timeout_seconds, statement.read_point
    )


class StatementCalls:
    """Plans and runs statements for the calls of Flight.

    Args:
        service: Answers them.
        calls: Knows what runs.
        limits: How many may be computed at once.
        slow_clients: Ends what clients send or read too slowly.
        places: For results of more than `TABLE_BYTES`.
        table_places: For results of less, and more than `UNCOUNTED_BYTES`.
        uris: Where the hosts of the deployment are; empty: there is none.
        activity: Answers statements about what goes on.
        callers: Knows who calls.
        ledger: Knows what each principal has taken.
        audit: Gets a line for each that is run; None: there is none.
        slow_seconds: How long the quickest statement takes that the log has with its plan; None: it has none.
    """

    def __init__(
        self,
        service: QueryService,
        calls: Calls,
        limits: ServerLimits,
        slow_clients: DeadlineWatcher,
        places: ResultPlaces,
        table_places: ResultPlaces,
        uris: Mapping[HostName, str],
        activity: Activity,
        callers: Callers,
        ledger: Ledger,
        audit: AuditLog | None = None,
        slow_seconds: float | None = None,
    ) -> None:
        self._audit = audit
        self._slow_seconds = slow_seconds
        self._activity = activity
        self._ledger = ledger
        self._terms = Terms(callers, ANYBODY, slow_clients, places, table_places)
        self._principal = ANYBODY
        self._by_principal: dict[int, StatementCalls] = {}
        """Those of principals that asked last, by the id of their object, to which they refer."""
        self._default_session = replace(DEFAULT_SESSION, user=ANYBODY.name)
        self._service = service
        self._calls = calls
        self._limits = limits
        self._slots = limits.slots("max_statements", limits.max_statements)
        # A client that is slow to send its values holds up no statement.
        self._binding_slots = limits.slots("max_statements", limits.max_statements)
        self._slow_clients = slow_clients
        self._uris = uris

    def for_principal(self, principal: Principal) -> StatementCalls:
        """The same for the statements of somebody; they share what is limited.

        Args:
            principal: Who asks.
        """
        if principal is self._principal:
            return self
        # The object itself and not its like: it is good as long as its proof is, which was seen to before.
        known = self._by_principal.get(id(principal))
        if known is not None and known._principal is principal:  # noqa: SLF001 - one of this class
            return known
        other = self._copy_for(principal)
        if other._terms.pace is None:  # noqa: SLF001 - likewise; the ledger wants to be asked for a pace
            if len(self._by_principal) >= MOST_SCOPES:
                self._by_principal.clear()
            self._by_principal[id(principal)] = other
        return other

    def _copy_for(self, principal: Principal) -> StatementCalls:
        other = copy(self)
        other._principal = principal  # noqa: SLF001 - one of this class
        other._by_principal = {}  # noqa: SLF001 - likewise; else it would refer to itself
        other._default_session = replace(DEFAULT_SESSION, user=principal.name)  # noqa: SLF001 - likewise
        other._service = self._service.restrict(principal.scope)  # noqa: SLF001 - likewise
        pace = self._ledger.result_pace(principal)
        other._terms = replace(self._terms, principal=principal, pace=pace)  # noqa: SLF001 - likewise
        return other

    @property
    def slots(self) -> SlotFigures:
        """How many are computed now."""
        return self._slots.figures

    def close(self) -> None:
        """Begin no more of them."""
        self._slots.close()
        self._binding_slots.close()

    def defaults(self, context: Any) -> Statement:
        """The empty statement with the caller's session options."""
        options = caller_options(context)
        return _DEFAULTS if options is NO_OPTIONS else options.statement("")

    def statement_of_query(self, context: Any, message: Message) -> Statement:
        """The statement of a message that has SQL text: a query, or one to prepare.

        Raises:
            Unsupported: It is to be part of a transaction.
        """
        if message.transaction_id:
            raise Unsupported(
                "livestate has no transactions: each query reads one consistent epoch of each store. Leave "
                "the transaction out."
            )
        return caller_options(context).statement(message.query)

    def statement_of_handle(self, message: Message) -> Statement:
        """The statement of a message that has a prepared-statement handle.

        Raises:
            InvalidInput: The handle is not one of livestate's.
        """
        return parse_handle(message.prepared_statement_handle)

    def schema(self, statement: Statement, context: Any) -> pa.Schema:
        """The schema of a statement's result.

        Args:
            statement: Any.
            context: The call's `flight.ServerCallContext`.

        Raises:
            InvalidInput: It is another one than was told when the statement was prepared.
            LivestateError: The statement cannot run, by kind.
        """
        with self._failure_audited(statement, context):
            return described_schema(self._prepared_statement(statement, context))

    @contextmanager
    def _failure_audited(self, statement: Statement, context: Any) -> Iterator[None]:
        """Plan a statement. One that cannot be planned is never run, which is what others get their line of
        the audit log for: so it gets one here.
        """
        name_statement(statement_of_call_id(statement.call_id))
        audited = None
        if self._audit is not None:
            audited = AuditedCall(self._audit, "statement", self._principal, context, statement.sql)
        try:
            yield
        except Exception as error:
            if audited is not None:
                audited.fail(error)
                audited.end()
            raise

    def _activity_of(self, statement: Statement) -> ActivityStatement | Setting | None:
        """What a statement asks for that is not about stores; None where it is about these, which whoever
        asks may read.

        Raises:
            Unavailable: It is about stores, and the host is about to stop.
            Forbidden: It may not.
        """
        found = parse_activity(statement.sql) or setting_of(statement.sql)
        if found is None:
            self._calls.check_open()
            self._principal.check(Permission.READ)
        return found

    def _prepared_statement(self, statement: Statement, context: Any) -> PreparedStatement:
        activity = self._activity_of(statement)
        if isinstance(activity, Setting):
            change_session(activity, context)
            return PreparedStatement(statement.sql, SETTING_SCHEMA, pa.schema([]), statement.dialect)
        if activity is not None:
            return PreparedStatement(statement.sql, activity.schema, pa.schema([]), statement.dialect)
        name_statement(statement_of_call_id(statement.call_id))
        session = engine_session(statement)
        given = None if statement.parameters is None else statement.parameters.batch
        known = self._service.prepared_before(statement.sql, session, statement.expected_shapes, given)
        if known is not None:
            return known
        call = self._begin_planning(statement, context)
        try:
            return self._service.prepare(
                statement.sql,
                session,
                statement.expected_shapes,
                given,
                call.is_cancelled,
                slot=self._slots.reserve(share_of(self._principal), call.is_cancelled),
            )
        finally:
            call.end()

    def _begin_planning(self, statement: Statement, context: Any) -> Call:
        """Take note that a statement is planned, for whoever asks for it or cancels it."""
        told = AuditedCall(None, "statement", self._principal, context, statement.sql)
        call = self._calls.begin(statement.call_id, context, told)
        call.state = CallState.PLANNING
        return call

    def _division(
        self, statement: Statement, values: pa.RecordBatch | None, slot: HeldSlot, context: Any
    ) -> Division:
        name_statement(statement_of_call_id(statement.call_id))
        call = self._begin_planning(statement, context)
        try:
            return self._service.divide(
                statement.sql, values, engine_session(statement), call.is_cancelled, slot
            )
        finally:
            call.end()

    def flight_info(
        self, handle: bytes, descriptor: flight.FlightDescriptor, context: Any
    ) -> flight.FlightInfo:
        """Plan a statement.

        Args:
            handle: Its handle.
            descriptor: What the client asked with.
            context: The call's `flight.ServerCallContext`.

        Returns:
            The result's schema and one ticket, good for this host and all others; or a ticket for each of
            several hosts, if the statement allows it and their rows together are the answer.

        Raises:
            LivestateError: The statement cannot run, by kind.
        """
        call_id = os.urandom(CALL_ID_BYTES)
        name_statement(statement_of_call_id(call_id))
        statement = parse_handle(handle)
        with self._failure_audited(statement, context):
            prepared = self._prepared_statement(statement, context)
            expected_shapes = prepared.shapes if statement.expected_shapes is None else None
            endpoints = self._parallel_endpoints(statement, prepared) or [
                flight.FlightEndpoint(execution_ticket(handle, expected_shapes, call_id), [])
            ]
        if len(handle) > MAX_ECHOED_BYTES:
            descriptor = flight.FlightDescriptor.for_command(b"")
        return flight.FlightInfo(described_schema(prepared), descriptor, endpoints)

    def _parallel_endpoints(
        self, statement: Statement, prepared: PreparedStatement
    ) -> list[flight.FlightEndpoint]:
        """An endpoint for each host that has rows of the answer; none where one host has to give it."""
        if not (statement.parallel and self._uris) or self._activity_of(statement) is not None:
            return []
        values = None if statement.parameters is None else statement.parameters.batch()
        fragments = (
            self._service.endpoints(statement.sql, values, engine_session(statement), prepared.shapes) or {}
        )
        return [
            flight.FlightEndpoint(
                FragmentTicket.from_request(request, os.urandom(CALL_ID_BYTES)).to_bytes(),
                [flight.Location(self._uris[host])],
            )
            for host, request in fragments.items()
        ]

    def command_info(
        self, command: JsonCommand, descriptor: flight.FlightDescriptor, context: Any
    ) -> flight.FlightInfo:
        """Plan a statement of a JSON descriptor.

        Args:
            command: What it asks for.
            descriptor: It.
            context: The call's `flight.ServerCallContext`.

        Returns:
            The result's schema, and one ticket; or, by partition, a ticket for each partition that is read,
            with all hosts that have it. Where the answer cannot be divided that is one ticket for any host.
            All of them read the same epochs, which the application metadata names: `{"epochs": {"store
            group": number}, "digests": {"store group": "…"}, "stale_seconds": 0.1}`.

        Raises:
            LivestateError: The statement cannot run, by kind.
        """
        with self._failure_audited(command.request.statement, context):
            return self._command_info(command, descriptor, context)

    def _command_info(
        self, command: JsonCommand, descriptor: flight.FlightDescriptor, context: Any
    ) -> flight.FlightInfo:
        statement = command.request.statement
        activity = self._activity_of(statement)
        cancelled = context.is_cancelled
        slot = self._slots.reserve(share_of(self._principal), cancelled)
        values = None if activity is not None else self._typed_parameters(command.request, slot, cancelled)
        statement = statement if values is None else statement.bind(values)
        if not command.by_partition or activity is not None:
            prepared = self._prepared_statement(statement, context)
            endpoint = flight.FlightEndpoint(execution_ticket(statement.to_bytes(), prepared.shapes), [])
            return flight.FlightInfo(described_schema(prepared), descriptor, [endpoint])
        division = self._division(statement, values, slot, context)
        schema = division.schema
        if schema is None:
            schema = described_schema(self._prepared_statement(statement, context))
        if division.pieces is None:
            epochs = {
                group: AsOfEpoch(epoch, division.digests.get(group, ""))
                for group, epoch in division.epochs.items()
            }
            pinned = replace(statement, read_point=replace(statement.read_point, pinned=epochs))
            endpoints = [
                flight.FlightEndpoint(
                    execution_ticket(pinned.to_bytes(), division.shapes), list(self._uris.values())
                )
            ]
        else:
            endpoints = [self._piece_endpoint(piece) for piece in division.pieces]
        facts = {
            "epochs": dict(division.epochs),
            "digests": dict(division.digests),
            "stale_seconds": division.stale_seconds,
        }
        return flight.FlightInfo(schema, descriptor, endpoints, app_metadata=json.dumps(facts))

    def _piece_endpoint(self, piece: Piece) -> flight.FlightEndpoint:
        locations = [self._uris[host] for host in piece.hosts if host in self._uris]
        return flight.FlightEndpoint(
            FragmentTicket.from_request(piece.request, os.urandom(CALL_ID_BYTES)).to_bytes(), locations
        )

    def run(self, statement: Statement | JsonStatement, context: Any) -> flight.FlightDataStream:
        """Execute a statement.

        Args:
            statement: From a ticket.
            context: The call's `flight.ServerCallContext`.

        Returns:
            The stream that answers DoGet.

        Raises:
            LivestateError: The statement cannot run, by kind.
        """
        name_statement(statement_of_call_id(statement.call_id))
        # What is at hand is never slow.
        audited = None if self._audit is None else self._audited_call(statement, context)
        activity: ActivityStatement | Setting | None = None
        call = None
        try:
            # What is at hand was asked of stores before, so it need not be read for anything else.
            may_be_at_hand = self._calls.is_open and self._principal.may(Permission.READ)
            found = self._answer_at_hand(statement) if may_be_at_hand else None
            if found is None:
                activity = self._activity_of(
                    statement.statement if isinstance(statement, JsonStatement) else statement
                )
            elif self._terms.pace is None and found.table_bytes <= UNCOUNTED_BYTES:
                if audited is not None:
                    _count_table(audited, found)
                else:
                    self._note_at_hand(found)
                CALL_CORE.stay()
                return table_stream(found)
            CALL_CORE.leave()
            audited = audited or self._audited_call(statement, context)
            call = self._calls.begin(statement.call_id, context, audited)
            if activity is not None:
                # Without a slot: whoever wants to know what takes all of them need not wait for one.
                call.state = CallState.RUNNING
                return catalog_stream(self._activity_table(activity, context), call, context, self._terms)
            if found is not None:
                return result_stream(found, call, context, self._terms)
            return self._answer(statement, call, context)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told and raised again
            told = error if call is None else call.told_error(error)
            try:
                if audited is not None:
                    audited.fail(told)
                    audited.end()
                if call is not None:
                    call.end()
                if told is not error:
                    raise told from error
                raise
            finally:
                # It knows this function, which would know it, and keep the statement until all is collected.
                del told

    def _activity_table(self, activity: ActivityStatement | Setting, context: Any) -> pa.Table:
        """The answer to a statement that is not about stores."""
        if isinstance(activity, ActivityStatement):
            return self._activity.answer(activity, self._principal)
        check_session(activity, context)
        return SETTING_SCHEMA.empty_table()

    def _note_at_hand(self, result: QueryResult) -> None:
        """Count an answer that took next to nothing."""
        assert result.table is not None
        metadata = result.whole_metadata
        seconds = metadata.seconds.get("total", 0.0)
        self._calls.meter.note("statement", metadata, seconds, result.table.num_rows, result.table_bytes)

    def _audited_call(self, statement: Statement | JsonStatement, context: Any) -> AuditedCall:
        asked = statement.statement if isinstance(statement, JsonStatement) else statement
        return AuditedCall(
            self._audit,
            "statement",
            self._principal,
            context,
            asked.sql,
            dialect=asked.dialect,
            slow_seconds=self._slow_seconds,
            meter=self._calls.meter,
        )

    def _answer_at_hand(self, statement: Statement | JsonStatement) -> QueryResult | None:
        """An answer that takes next to nothing, on a host that has all rows: it takes no slot and cannot be
        cancelled, as it waits for nobody and is there sooner than either would be looked after. None for
        anything else.
        """
        if self._service.has_peers:
            return None
        if isinstance(statement, JsonStatement):
            return self._json_row(statement)
        given = statement.parameters
        if isinstance(given, Parameters):
            return None
        session = engine_session(statement)
        values = None if given is None else (given.value,)
        return self._service.answer_at_hand(statement.sql, values, session, None, statement.expected_shapes)

    def _json_row(self, request: JsonStatement, call: Call | None = None) -> QueryResult | None:
        statement, given = request.statement, request.parameters
        if not given or isinstance(given, Mapping) or not statement.read_point.is_newest:
            return None
        session = engine_session(statement)
        cancelled = None if call is None else call.is_cancelled
        return self._service.row(statement.sql, given, session, cancelled)

    def _answer(
        self, statement: Statement | JsonStatement, call: Call, context: Any
    ) -> flight.FlightDataStream:
        # Whoever reads a large result slowly holds up nobody else.
        share = share_of(self._principal)
        session = Session(timeout_seconds=statement.timeout_seconds)
        deadline = Deadline(session.time_limit(self._service.statement_timeout_seconds), call.is_cancelled)
        with self._slots.hold(statement.timeout_seconds, share, call.is_cancelled) as slot:
            call.state = CallState.RUNNING
            if slot.waited:
                call.check()
                statement = statement.shorten_timeout(slot.waited)
            result = (
                self._json_result(statement, call, slot)
                if isinstance(statement, JsonStatement)
                else self._result(statement, call, slot)
            )
            if call.audited is not None:
                call.audited.note_result(result)
            return result_stream(result, call, context, self._terms, slot, deadline)

    def _session(self, statement: Statement) -> Session:
        session = engine_session(statement)
        return (
            self._default_session
            if session is DEFAULT_SESSION
            else replace(session, user=self._principal.name)
        )

    def _result(self, statement: Statement, call: Call, slot: HeldSlot) -> QueryResult:
        given, session = statement.parameters, self._session(statement)
        has_peers = self._service.has_peers
        if has_peers and isinstance(given, PlainValue):
            found = self._service.row(
                statement.sql,
                [given.value],
                session,
                call.is_cancelled,
                statement.expected_shapes,
            )
            if found is not None:
                return found
        values = None if given is None else given.batch()
        return self._service.execute(
            statement.sql,
            values,
            session,
            call.is_cancelled,
            statement.expected_shapes,
            slot,
            may_be_at_hand=has_peers or given is not None,
        )

    def _json_result(self, request: JsonStatement, call: Call, slot: HeldSlot) -> QueryResult:
        statement = request.statement
        session = self._session(statement)
        found = self._json_row(request, call) if self._service.has_peers else None
        if found is not None:
            return found
        values = self._typed_parameters(request, slot, call.is_cancelled)
        return self._service.execute(statement.sql, values, session, call.is_cancelled, slot=slot)

    def _typed_parameters(
        self, request: JsonStatement, slot: HeldSlot, cancelled: Callable[[], bool]
    ) -> pa.RecordBatch | None:
        if not request.parameters:
            return None
        given = request.parameters
        if len(given) > MAX_PARAMETERS:
            raise too_many_parameters_error()
        if not isinstance(given, Mapping) and all(isinstance(value, _PLAIN_JSON) for value in given):
            # The service converts between these by itself, so the statement need not be asked for its types.
            names = [str(place) for place in range(1, len(given) + 1)]
            return pa.record_batch(
                [json_array(name, value, None) for name, value in zip(names, given, strict=True)], names
            )
        wanted = self._service.prepare(
            request.statement.sql,
            engine_session(request.statement),
            cancelled=cancelled,
            slot=slot,
        ).parameters
        if len(given) != len(wanted):
            raise InvalidInput(
                f"The statement has {quantity(len(wanted), 'parameter')}, and the ticket {len(given)}."
            )
        if isinstance(given, Mapping) and set(given) != set(wanted.names):
            raise InvalidInput(
                f"The statement has the parameters ({', '.join(wanted.names)}), and the ticket "
                f"({', '.join(given)})."
            )
        values = [given[field.name] for field in wanted] if isinstance(given, Mapping) else given
        return pa.record_batch(
            [json_array(field.name, value, field.type) for field, value in zip(wanted, values, strict=True)],
            wanted.names,
        )

    def prepare(self, statement: Statement, context: Any) -> Message:
        """Prepare a statement.

        Args:
            statement: Without parameters.
            context: The call's `flight.ServerCallContext`.

        Returns:
            `ActionCreatePreparedStatementResult`: the handle, the result's schema and the parameters', as IPC
            messages.

        Raises:
            LivestateError: The statement cannot run, by kind.
        """
        with self._failure_audited(statement, context):
            prepared = self._prepared_statement(statement, context)
        return new(
            "ActionCreatePreparedStatementResult",
            prepared_statement_handle=replace(statement, expected_shapes=prepared.shapes).to_bytes(),
            dataset_schema=described_schema(prepared).serialize().to_pybytes(),
            parameter_schema=announced_schema(prepared.parameters).serialize().to_pybytes()
            if len(prepared.parameters)
            else b"",
        )

    def bind(self, statement: Statement, reader: flight.MetadataRecordBatchReader, context: Any) -> Message:
        """Bind values to a prepared statement.

        Args:
            statement: From its handle.
            reader: The values: one column a parameter, one row.
            context: The call's `flight.ServerCallContext`.

        Returns:
            `DoPutPreparedStatementResult` with the handle of the bound statement.

        Raises:
            Unavailable: The host is about to stop.
            Forbidden: Whoever asks may not read stores.
            InvalidInput: There is not exactly one row of values, or they are too many bytes.
            DeadlineExceeded: They did not come in time.
        """
        self._activity_of(statement)
        share = share_of(self._principal)
        seconds = self._limits.upload_seconds(statement.timeout_seconds)
        with (
            self._binding_slots.hold(statement.timeout_seconds, share, context.is_cancelled) as slot,
            Arrival(self._slow_clients, seconds, slot.give) as arrival,
        ):
            values = bound_row(reader, arrival.check)
        bound = statement if values is None else statement.bind(values)
        return new("DoPutPreparedStatementResult", prepared_statement_handle=bound.to_bytes())


def described_schema(prepared: PreparedStatement) -> pa.Schema:
    """The columns of a statement's result, as drivers are told them.

    Args:
        prepared: The statement.

    Returns:
        Its schema, with what Flight SQL knows of each column beside its type.
    """
    known = _described.get(prepared)
    if known is not None:
        return known
    origins = prepared.origins or (None,) * len(prepared.schema)
    schema = pa.schema(
        [
            describe_field(field) if origin is None else describe_field(field, origin.schema, origin.table)
            for field, origin in zip(prepared.schema, origins, strict=True)
        ]
    )
    _described[prepared] = schema
    return schema


def _count_table(audited: AuditedCall, result: QueryResult) -> None:
    assert result.table is not None
    audited.note_result(result)
    audited.count(result.table.num_rows, result.table_bytes)
    audited.end()
