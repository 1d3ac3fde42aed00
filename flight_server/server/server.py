"""The Flight SQL server: each RPC of Flight, handed to the module that knows its message.

`format/FlightSql.proto` of Apache Arrow says which message travels in which RPC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
from pyarrow import flight

from engine.duckdb.deadline import Watcher
from engine.errors import InvalidInput, LivestateError, Unsupported
from engine.model.schema import GroupName
from engine.processes.right_of_way import RIGHT_OF_WAY
from engine.service import QueryService
from flight_server.peers.deployment_member import ClusterHost
from flight_server.server import catalog
from flight_server.server.actions import Actions, Scrubs
from flight_server.server.fragment_calls import FragmentRunner, Fragments
from flight_server.server.key_streams import KeyStreams
from flight_server.server.limits import ServerLimits
from flight_server.server.result_streams import WRITE_OPTIONS
from flight_server.server.running_calls import Calls
from flight_server.server.sessions import MIDDLEWARE, CallerFactory, OpenHandshake
from flight_server.server.statements import Statements
from flight_server.wire.boundary import guard_rpc
from flight_server.wire.fragment_messages import FRAGMENT_MARK, parse_fragment
from flight_server.wire.key_messages import parse_key_request
from flight_server.wire.messages import unpack
from flight_server.wire.tickets import Command, parse_json_command, parse_ticket

_READ_ONLY = (
    "livestate is read-only: stores are written by Spark jobs, `livestate load` and "
    "engine.changelog, not through SQL."
)
DRAIN_SECONDS = 1.0
"""How long a stop waits for streams of keys, beyond the time of what runs."""
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
        token: What callers must present, as a bearer token or as a password; None: the server is open.
        tls_certificates: Pairs of certificate and key, PEM; for `grpc+tls://` locations.
        limits: What it takes on at once.
        cluster: The deployment that the host belongs to; None: none, and so no other hosts, whose fragments
            it would run.
        fragments: Runs fragments; None: the service.
        scrubs: Reads what the host has stored; None: it has nothing.
    """

    def __init__(
        self,
        location: str,
        service: QueryService,
        notify: Callable[[GroupName | None], None],
        *,
        ready: Callable[[], bool] = _always_ready,
        token: str | None = None,
        tls_certificates: Sequence[tuple[bytes, bytes]] = (),
        limits: ServerLimits | None = None,
        cluster: ClusterHost | None = None,
        fragments: FragmentRunner | None = None,
        scrubs: Scrubs | None = None,
    ) -> None:
        self._service = service
        self._calls = Calls()
        limits = limits or ServerLimits()
        self._arrivals = Watcher()
        uris = {} if cluster is None else cluster.uris
        self._statements = Statements(service, self._calls, limits, self._arrivals, uris)
        self._fragments = Fragments(
            fragments or service, self._calls, limits, self._arrivals, has_peers=cluster is not None
        )
        self._key_streams = KeyStreams(service, self._calls, limits)
        self._actions = Actions(service, self._statements, self._calls, notify, ready, cluster, scrubs)
        with ExitStack() as unless_listening:
            # pyarrow never lets go of a server that could not listen; what it refers to would live until the
            # process ends.
            unless_listening.callback(self.__dict__.clear)
            super().__init__(
                location,
                auth_handler=OpenHandshake(),
                middleware={MIDDLEWARE: CallerFactory(token)},
                tls_certificates=list(tls_certificates) or None,
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

    def stop(self, grace_seconds: float) -> bool:
        """Take no more queries, let those that run finish, and stop listening.

        Args:
            grace_seconds: How long queries may run on before they are cancelled; and how long after that they
                have to end.

        Returns:
            Whether it has stopped. Not, if a client neither reads its result nor goes away, or keeps a stream
            of keys open: Flight waits for it without end.
        """
        self._statements.close()
        self._fragments.close()
        self._key_streams.close(0.0)
        if not self._calls.close(grace_seconds) or not self._key_streams.close(DRAIN_SECONDS):
            return False
        self.shutdown()
        self._arrivals.close()
        return True

    @guard_rpc
    def get_flight_info(self, context: Any, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        """Plan a statement or a catalog command."""
        body = _command(descriptor)
        if body.startswith(b"{"):
            return self._statements.command_info(
                parse_json_command(body, self._statements.defaults(context)), descriptor
            )
        name, message = unpack(body)
        if name == _PREPARED_QUERY:
            return self._statements.flight_info(message.prepared_statement_handle, descriptor)
        if name == _QUERY:
            return self._statements.flight_info(
                self._statements.statement_of_query(context, message).to_bytes(), descriptor
            )
        schema = _catalog_schema(name, message)
        return flight.FlightInfo(schema, descriptor, [flight.FlightEndpoint(Command(body).to_bytes(), [])])

    @guard_rpc
    def get_schema(self, context: Any, descriptor: flight.FlightDescriptor) -> flight.SchemaResult:
        """Say what the result of a statement or a catalog command looks like."""
        name, message = unpack(_command(descriptor))
        if name == _PREPARED_QUERY:
            return flight.SchemaResult(self._statements.schema(self._statements.statement_of_handle(message)))
        if name == _QUERY:
            return flight.SchemaResult(
                self._statements.schema(self._statements.statement_of_query(context, message))
            )
        return flight.SchemaResult(_catalog_schema(name, message))

    @guard_rpc
    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.FlightDataStream:
        """Run a statement, a fragment or a catalog command."""
        with RIGHT_OF_WAY:
            return self._answer(context, ticket.ticket)

    def _answer(self, context: Any, body: bytes) -> flight.FlightDataStream:
        if body.startswith(FRAGMENT_MARK):
            return self._fragments.run(parse_fragment(body), context)
        request = parse_ticket(body, lambda: self._statements.defaults(context))
        if not isinstance(request, Command):
            return self._statements.run(request, context)
        name, message = unpack(request.body)
        table = catalog.command_table(name, message, self._service.source)
        if table is None:
            raise _refusal(name)
        return flight.RecordBatchStream(table, WRITE_OPTIONS)

    @guard_rpc
    def do_put(
        self,
        context: Any,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        """Bind parameters; everything that would write is refused."""
        name, message = unpack(_command(descriptor))
        if name != _PREPARED_QUERY:
            raise _refusal(name)
        answer = self._statements.bind(self._statements.statement_of_handle(message), reader)
        writer.write(pa.py_buffer(answer.SerializeToString()))

    @guard_rpc
    def do_action(self, context: Any, action: flight.Action) -> Iterable[bytes]:
        """Do one of `flight_server.server.actions`."""
        return self._actions.run(context, action.type, action.body.to_pybytes())

    @guard_rpc
    def list_actions(self, context: Any) -> Iterable[tuple[str, str]]:
        """Name the actions."""
        return [(name, "") for name in self._actions.names()]

    @guard_rpc
    def list_flights(self, context: Any, criteria: bytes) -> Iterable[flight.FlightInfo]:
        """Refuse: Flight SQL has catalog commands for that."""
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
        if command.startswith(b"{"):
            request = parse_key_request(command, self._statements.defaults(context))
            self._key_streams.exchange(context, request, reader, writer)
            return
        self._fragments.exchange(context, descriptor, reader, writer)


def _command(descriptor: flight.FlightDescriptor) -> bytes:
    if descriptor.descriptor_type != flight.DescriptorType.CMD:
        raise InvalidInput("The descriptor must hold a Flight SQL command, not a path.")
    return bytes(descriptor.command)


def _catalog_schema(name: str, message: Any) -> pa.Schema:
    schema = catalog.command_schema(name, message)
    if schema is None:
        raise _refusal(name)
    return schema


def _refusal(name: str) -> LivestateError:
    if name in ("CommandStatementUpdate", "CommandPreparedStatementUpdate", "CommandStatementIngest"):
        return Unsupported(_READ_ONLY)
    if name == "CommandStatementSubstraitPlan":
        return Unsupported("livestate takes SQL, not Substrait plans.")
    return InvalidInput(f"The message {name} does not belong in this call.")
