"""The Flight SQL server: each RPC of Flight, handed to the module that knows its message.

`format/FlightSql.proto` of Apache Arrow says which message travels in which RPC.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
from pyarrow import flight

from engine.access.principal import Permission, Principal
from engine.deadline import DeadlineWatcher
from engine.duckdb.results import slice_batches
from engine.errors import InvalidInput, LivestateError, Unavailable, Unsupported
from engine.model.schema import GroupName
from engine.processes.call_core import CALL_CORE
from engine.processes.right_of_way import RIGHT_OF_WAY
from engine.service import QueryService
from engine.telemetry.statement_ids import name_statement, new_statement_id
from flight_server.identity.authenticator import Authenticator
from flight_server.peers.deployment_member import ClusterHost
from flight_server.server import catalog
from flight_server.server.actions import Actions, Scrubs, SelfReport
from flight_server.server.activity import Activity
from flight_server.server.audit import AuditLog
from flight_server.server.callers import Callers
from flight_server.server.drain import Drain
from flight_server.server.fragment_calls import FragmentCalls, FragmentRunner
from flight_server.server.key_streams import KeyStreams
from flight_server.server.ledger import Ledger
from flight_server.server.limits import ServerLimits
from flight_server.server.open_calls import OpenCalls
from flight_server.server.result_places import TABLE_PLACES, ResultPlaces
from flight_server.server.result_streams import TABLE_BYTES, WRITE_OPTIONS
from flight_server.server.running_calls import Calls
from flight_server.server.server_figures import ServerFigures
from flight_server.server.sessions import CallerFactory, OpenHandshake
from flight_server.server.statements import StatementCalls
from flight_server.server.thread_limit import ThreadLimit
from flight_server.wire.boundary import guard_rpc
from flight_server.wire.call_headers import MIDDLEWARE
from flight_server.wire.fragment_messages import FRAGMENT_MARK, parse_fragment
from flight_server.wire.key_messages import parse_key_request
from flight_server.wire.messages import unpack
from flight_server.wire.text_sizes import check_command, check_ticket
from flight_server.wire.tickets import Command, parse_json_command, parse_ticket

_READ_ONLY = (
    "livestate is read-only: stores are written by Spark jobs, `livestate load` and "
    "engine.changelog, not through SQL."
)
_ONE_RUN = "A query gives rows, for one set of values: run it with execute, and for many keys with = ANY(?)"
"""What is told, in addition, to who runs a prepared statement as one that changes rows."""
_ASKERS = (Permission.READ, Permission.OPERATE)
"""Whoever may send statements; an operator those that are not about stores."""
TOLD_SECONDS = 1.0
"""How long a stop waits until other hosts know of it; those that do not find out when they ask."""
LAST_SECONDS = 1.0
"""How long a stop waits for streams of keys, beyond the time of what runs."""
CLOSING_SECONDS = 3.0
"""How long a stop waits for connections to be closed: gRPC gives each client 20 s to say that it knows of it,
which one that is frozen, or whose machine is gone, never does.
"""
_QUERY, _PREPARED_QUERY = "CommandStatementQuery", "CommandPreparedStatementQuery"


def _always_ready() -> bool:
    return True


class LivestateServer(flight.FlightServerBase):  # type: ignore[misc] # pyarrow has no types
    """Serves a query service over Arrow Flight. It listens as soon as it exists.

    Args:
        location: Where to listen, such as `grpc://127.0.0.1:8815`; port 0 takes a free one (`port` says
            which).
        service: Answers statements.
        notify: Told of a store group that may have a new epoch; None: any may.
        ready: Whether the host has caught up with the changelog once; for `livestate.health`.
        authenticator: Knows who calls; None: the server is open. With certificates of callers it refuses, by
            TLS, who has none, and answers no handshake: pyarrow tells the subject of a certificate only to
            servers without one.
        tls_certificates: Pairs of certificate and key, PEM; for `grpc+tls://` locations.
        limits: What it takes on at once.
        cluster: The deployment that the host belongs to; None: none, and so no other hosts, whose fragments
            it would run.
        fragments: Runs fragments; None: the service.
        scrubs: Reads what the host has stored; None: it has nothing.
        audit: Gets a line for what is asked and refused; None: there is none.
        slow_seconds: How long the quickest statement takes that the log has with its plan; None: it has none.
        self_report: Looks at the host; None: nobody does.

    Attributes:
        drain: Sends clients to other hosts.
        open_calls: Counts the calls that are under way.
    """

    def __init__(
        self,
        location: str,
        service: QueryService,
        notify: Callable[[GroupName | None], None],
        *,
        ready: Callable[[], bool] = _always_ready,
        authenticator: Authenticator | None = None,
        tls_certificates: Sequence[tuple[bytes, bytes]] = (),
        limits: ServerLimits | None = None,
        cluster: ClusterHost | None = None,
        fragments: FragmentRunner | None = None,
        scrubs: Scrubs | None = None,
        audit: AuditLog | None = None,
        slow_seconds: float | None = None,
        self_report: SelfReport | None = None,
    ) -> None:
        self._service = service
        self._calls = Calls()
        limits = limits or ServerLimits()
        self._callers = Callers(authenticator, ThreadLimit(limits.max_threads), audit)
        self.open_calls = OpenCalls(limits.max_calls)
        self._slow_clients = DeadlineWatcher()
        self._closing: threading.Thread | None = None
        uris = {} if cluster is None else cluster.uris
        places = ResultPlaces(limits.max_results)
        table_places = ResultPlaces(TABLE_PLACES * limits.max_results, "more than 256 KiB")
        ledger = Ledger()
        activity = Activity(self._calls, self._callers.connections, cluster)
        self._statements = StatementCalls(
            service,
            self._calls,
            limits,
            self._slow_clients,
            places,
            table_places,
            uris,
            activity,
            self._callers,
            ledger,
            audit,
            slow_seconds,
        )
        self._fragments = FragmentCalls(
            fragments or service,
            self._calls,
            limits,
            self._slow_clients,
            places,
            has_peers=cluster is not None,
            callers=self._callers,
            ledger=ledger,
            audit=audit,
            slow_seconds=slow_seconds,
            most_seconds=service.statement_timeout_seconds,
        )
        self._key_streams = KeyStreams(service, self._calls, self._callers, limits, ledger, audit)
        self.drain = Drain(self._calls, cluster)
        self._actions = Actions(
            service,
            self._statements,
            self._calls,
            self._callers,
            ledger,
            notify,
            ready,
            self.drain,
            cluster,
            scrubs,
            audit,
            self_report,
        )
        takes_certificates = authenticator is not None and authenticator.takes_certificates
        with ExitStack() as unless_listening:
            # pyarrow never lets go of a server that could not listen; what it refers to would live until the
            # process ends.
            unless_listening.callback(self.__dict__.clear)
            super().__init__(
                location,
                auth_handler=None if takes_certificates else OpenHandshake(),
                middleware={
                    MIDDLEWARE: CallerFactory(authenticator, self.open_calls, audit, self._calls.meter)
                },
                tls_certificates=list(tls_certificates) or None,
                verify_client=takes_certificates,
                root_certificates=authenticator.credentials.authorities
                if authenticator is not None and takes_certificates
                else None,
            )
            unless_listening.pop_all()

    @property
    def running(self) -> int:
        """How many queries run now."""
        return len(self._calls)

    @property
    def open_key_streams(self) -> int:
        """How many streams of keys are open now."""
        return len(self._key_streams)

    def note_failure(self, error: Exception) -> None:
        """As `FailureCounter.note_failure`."""
        self._calls.meter.note_failure(error)

    def figures(self) -> ServerFigures:
        """What it takes now, and has counted so far."""
        return ServerFigures(
            totals=self._calls.meter.totals(),
            running=len(self._calls),
            connections=len(self._callers.connections.recent()),
            key_streams=len(self._key_streams),
            statements=self._statements.slots,
            fragments=self._fragments.slots,
            endpoints=self._fragments.endpoint_slots,
            input_bytes=self._fragments.input_bytes,
            is_draining=self._calls.is_draining,
        )

    def stop(self, grace_seconds: float) -> bool:
        """Take no more statements, tell other hosts so, let what runs finish, and stop listening.

        Args:
            grace_seconds: How long statements may run on before they are cancelled.

        Returns:
            Whether it has stopped. Not, if a client neither reads its result nor goes away, or keeps a stream
            of keys open: Flight waits for it without end; or if one does not answer any more.
        """
        self.drain.begin(is_final=True)
        self.drain.wait_until_told(TOLD_SECONDS)
        self._calls.wait_until_idle(grace_seconds)
        self._statements.close()
        self._fragments.close()
        self._key_streams.close(0.0)
        reason = Unavailable(
            "The host is stopping, and this had not ended within the time that it leaves (--grace): ask "
            "another host."
        )
        if not self._calls.close(reason) or not self._key_streams.close(LAST_SECONDS):
            return False
        is_closed = self._close_connections()
        self._slow_clients.close()
        return is_closed

    def _close_connections(self) -> bool:
        """Stop listening; whether all connections were closed in time."""
        if self._closing is None:
            self._closing = threading.Thread(target=self.shutdown, name="closing", daemon=True)
            self._closing.start()
        self._closing.join(CLOSING_SECONDS)
        return not self._closing.is_alive()

    @guard_rpc
    def get_flight_info(self, context: Any, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        """Plan a statement or a catalog command."""
        statements = self._statements_for(context)
        body = self._command(descriptor)
        if body.startswith(b"{"):
            command = parse_json_command(body, statements.defaults(context))
            return statements.command_info(command, descriptor, context)
        name, message = unpack(body)
        if name == _PREPARED_QUERY:
            return statements.flight_info(message.prepared_statement_handle, descriptor, context)
        if name == _QUERY:
            handle = statements.statement_of_query(context, message).to_bytes()
            return statements.flight_info(handle, descriptor, context)
        self._calls.check_open()
        self._callers.check(context, Permission.READ)
        schema = _catalog_schema(name, message)
        return flight.FlightInfo(schema, descriptor, [flight.FlightEndpoint(Command(body).to_bytes(), [])])

    @guard_rpc
    def get_schema(self, context: Any, descriptor: flight.FlightDescriptor) -> flight.SchemaResult:
        """Say what the result of a statement or a catalog command looks like."""
        statements = self._statements_for(context)
        name, message = unpack(self._command(descriptor))
        if name == _PREPARED_QUERY:
            return flight.SchemaResult(statements.schema(statements.statement_of_handle(message), context))
        if name == _QUERY:
            statement = statements.statement_of_query(context, message)
            return flight.SchemaResult(statements.schema(statement, context))
        self._calls.check_open()
        self._callers.check(context, Permission.READ)
        return flight.SchemaResult(_catalog_schema(name, message))

    @guard_rpc
    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.FlightDataStream:
        """Run a statement, a fragment or a catalog command."""
        principal = self._callers.check(context, *_ASKERS)
        body = ticket.ticket
        check_ticket(body, self._service.longest_text_bytes)
        with RIGHT_OF_WAY:
            return self._answer(context, body, principal)

    def _answer(self, context: Any, body: bytes, principal: Principal) -> flight.FlightDataStream:
        if body.startswith(FRAGMENT_MARK):
            CALL_CORE.leave()
            self._callers.check(context, Permission.READ)
            return self._fragments.run(parse_fragment(body), context, principal)
        statements = self._statements.for_principal(principal)
        request = parse_ticket(body, lambda: statements.defaults(context))
        if not isinstance(request, Command):
            return statements.run(request, context)
        self._calls.check_open()
        self._callers.check(context, Permission.READ)
        name, message = unpack(request.body)
        source = self._service.restrict(principal.scope).source
        table = catalog.command_table(name, message, source)
        if table is None:
            raise _refusal(name)
        # The schemas of all stores may be more than drivers take in one message.
        batches = list(slice_batches(iter(table.to_batches()), TABLE_BYTES))
        return flight.RecordBatchStream(pa.Table.from_batches(batches, table.schema), WRITE_OPTIONS)

    def _statements_for(self, context: Any) -> StatementCalls:
        """What answers the statements of whoever calls."""
        CALL_CORE.leave()
        principal = self._callers.check(context, *_ASKERS)
        return self._statements.for_principal(principal)

    def _command(self, descriptor: flight.FlightDescriptor) -> bytes:
        if descriptor.descriptor_type != flight.DescriptorType.CMD:
            raise InvalidInput("The descriptor must hold a Flight SQL command, not a path.")
        command = bytes(descriptor.command)
        check_command(command, self._service.longest_text_bytes)
        return command

    @guard_rpc
    def do_put(
        self,
        context: Any,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        """Bind parameters; everything that would write is refused."""
        statements = self._statements_for(context)
        name, message = unpack(self._command(descriptor))
        if name != _PREPARED_QUERY:
            raise _refusal(name)
        answer = statements.bind(statements.statement_of_handle(message), reader, context)
        writer.write(pa.py_buffer(answer.SerializeToString()))

    @guard_rpc
    def do_action(self, context: Any, action: flight.Action) -> Iterable[bytes]:
        """Do one of `flight_server.server.actions`."""
        CALL_CORE.leave()
        return self._actions.run(context, action.type, action.body.to_pybytes())

    @guard_rpc
    def list_actions(self, context: Any) -> Iterable[tuple[str, str]]:
        """Name the actions."""
        self._callers.principal(context)
        return [(name, "") for name in self._actions.names()]

    @guard_rpc
    def list_flights(self, context: Any, criteria: bytes) -> Iterable[flight.FlightInfo]:
        """Refuse: Flight SQL has catalog commands for that."""
        self._callers.principal(context)
        raise Unsupported("Ask for the stores with Flight SQL's GetTables, or with SHOW STORES.")

    @guard_rpc
    def do_exchange(
        self,
        context: Any,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.MetadataRecordBatchWriter,
    ) -> None:
        """Look keys up for a client, or run a fragment of another host."""
        command = bytes(descriptor.command or b"")
        is_for_keys = command.startswith(b"{")
        self._callers.check(context, Permission.READ if is_for_keys else Permission.PEER)
        if is_for_keys:
            name_statement(new_statement_id())
            self._calls.check_open()
            request = parse_key_request(command, self._statements.defaults(context))
            self._key_streams.exchange(context, request, reader, writer)
            return
        CALL_CORE.leave()
        check_ticket(command, self._service.longest_text_bytes)
        self._fragments.exchange(context, descriptor, reader, writer)


def _catalog_schema(name: str, message: Any) -> pa.Schema:
    schema = catalog.command_schema(name, message)
    if schema is None:
        raise _refusal(name)
    return schema


def _refusal(name: str) -> LivestateError:
    if name == "CommandPreparedStatementUpdate":
        return Unsupported(f"{_ONE_RUN}. {_READ_ONLY}")
    if name in ("CommandStatementUpdate", "CommandStatementIngest"):
        return Unsupported(_READ_ONLY)
    if name == "CommandStatementSubstraitPlan":
        return Unsupported("livestate takes SQL, not Substrait plans.")
    return InvalidInput(f"The message {name} does not belong in this call.")
