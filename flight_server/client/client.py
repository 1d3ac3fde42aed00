"""SQL over a connection to a livestate host: one call a query, and errors of the kinds of `engine.errors`.

The command line uses it; programs that want DB-API or pandas take ADBC instead.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

import pyarrow as pa
from pyarrow import flight

from engine.errors import InvalidInput
from engine.model.read_point import NEWEST, ReadPoint
from flight_server.client.connection import Connection, RowStream
from flight_server.client.connection_options import ConnectionOptions
from flight_server.client.key_stream import KeyStream
from flight_server.wire.diagnosis_messages import DIAGNOSE_ACTION, HostDiagnosis, parse_diagnosis
from flight_server.wire.key_messages import KeyRequest
from flight_server.wire.messages import new
from flight_server.wire.session_options import SessionOptions
from flight_server.wire.settings import setting_of
from flight_server.wire.tickets import CALL_ID_BYTES, Statement


class Rows:
    """The result of a query, read once. Close it, or read it to its end.

    Args:
        stream: Its rows on their way.

    Attributes:
        schema: Arrow schema of the batches.
        metadata: What the host says of the query: epochs read and their age, partitions read and pruned.
    """

    def __init__(self, stream: RowStream) -> None:
        self.schema = stream.schema
        self.metadata: Mapping[str, Any] = stream.metadata
        self._stream = stream

    @property
    def statement(self) -> str:
        """The id under which the logs of hosts have the query; empty where the host is older than that."""
        return str(self.metadata.get("statement", ""))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The batches, as they arrive.

        Raises:
            LivestateError: The query failed underway, by its kind.
        """
        for batch in self._stream:
            yield batch.replace_schema_metadata(self.schema.metadata)

    def read_all(self) -> pa.Table:
        """All that was not read yet, as one table.

        Raises:
            LivestateError: The query failed underway, by its kind.
        """
        return pa.Table.from_batches(list(self), self.schema)

    def close(self) -> None:
        """Tell the host that no more rows are wanted."""
        self._stream.close()


class Client:
    """SQL over a connection to a host. May be shared by threads.

    Args:
        host: How the host is reached; its address is enough where it wants no token and has no private
            certificate.
        dialect: SQL dialect of the queries, such as `spark`; empty: the host's default.
        timeout_seconds: How long a query may run; None: as long as the host allows.
        read_point: Which epochs the queries may read.

    Attributes:
        uri: Where the host is.
        options: What was given, until a SET or RESET among the queries changes it, for all threads.

    Raises:
        InvalidInput: The address is none, or there are several.
    """

    def __init__(
        self,
        host: str | ConnectionOptions,
        *,
        dialect: str = "",
        timeout_seconds: float | None = None,
        read_point: ReadPoint = NEWEST,
    ) -> None:
        self._connection = Connection(ConnectionOptions.read(host) if isinstance(host, str) else host)
        self.uri = self._connection.uri
        self.options = SessionOptions(dialect, timeout_seconds, read_point)

    def query(
        self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None, *, call_id: bytes = b""
    ) -> Rows:
        """Run a statement, in one call. It returns when the first rows are there.

        Args:
            sql: One statement that only reads; or SET or RESET of a session option, which holds for the
                queries after it.
            parameters: Values for its `?` or `$1` by position, or for its `$name` by name; Python values of
                any SQL type.
            call_id: What `cancel` knows this execution by, chosen by the caller: random bytes, say, as are
                taken without one. In hexadecimal digits it is the statement's id in the logs of hosts.

        Returns:
            Its rows.

        Raises:
            LivestateError: What the host said, by its kind; Unavailable when there is no host.
            InvalidInput: A parameter is of a type that SQL does not have.
        """
        setting = setting_of(sql)
        options = self.options if setting is None else self.options.change(setting.name, setting.value)
        statement = replace(options.statement(sql), call_id=call_id or os.urandom(CALL_ID_BYTES))
        if parameters:
            statement = statement.bind(_parameter_batch(parameters))
        if setting is None:
            return Rows(self._connection.rows(statement.to_bytes()))
        # The host refuses what it does not know, and answers to those who bring the change back to it.
        cookie = (b"cookie", options.to_cookie().encode())
        rows = Rows(self._connection.rows(statement.to_bytes(), headers=[cookie]))
        self.options = options
        return rows

    def keys(self, store: str, columns: Sequence[str] | None = None) -> KeyStream:
        """Open a stream of keys: for services that look rows of one store up by their keys all the time.

        Args:
            store: Its name.
            columns: Names of the columns to read; None for all.

        Returns:
            The stream, to be closed. Each of its answers is at the newest epoch then, or at what the client's
            read point allows.

        Raises:
            LivestateError: What the host said, by its kind; Unavailable when there is no host.
        """
        request = KeyRequest(
            store,
            None if columns is None else tuple(columns),
            self.options.read_point,
            self.options.timeout_seconds,
        )
        return KeyStream(self._connection, request)

    def cancel(self, call_id: bytes) -> None:
        """Have the host end a query, from another thread than the one that waits for it.

        Args:
            call_id: As given to `query`.

        Raises:
            NotFound: It does not run (any more).
            LivestateError: What the host said, by its kind; Unavailable when there is no host.
        """
        endpoint = flight.FlightEndpoint(Statement("", call_id=call_id).to_bytes(), [])
        info = flight.FlightInfo(pa.schema([]), flight.FlightDescriptor.for_command(b""), [endpoint])
        self.act(
            "CancelFlightInfo", new("CancelFlightInfoRequest", info=info.serialize()).SerializeToString()
        )

    def stores(self) -> pa.Table:
        """How all stores stand, in a deployment over all its hosts: the rows of `SHOW STORES`.

        Raises:
            LivestateError: What the host said, by its kind; Unavailable when there is no host.
        """
        return self.query("SHOW STORES").read_all()

    def notify(self, group: str | None = None) -> None:
        """Tell the host that there may be a new epoch, so that it need not wait for its next poll.

        Args:
            group: Which store group; None: any.

        Raises:
            LivestateError: What the host said, by its kind; Unavailable when there is no host.
        """
        self.act("livestate.notify", (group or "").encode())

    def hosts(self) -> pa.Table:
        """How the hosts of the deployment stand: a table of `engine.catalog.host_statuses.HOSTS_SCHEMA`.

        Raises:
            Unsupported: The host belongs to no deployment.
            LivestateError: What the host said, by its kind; Unavailable when there is no host.
        """
        return self._table("livestate.hosts")

    def replicas(self) -> pa.Table:
        """Which host holds what of each store: a table of `flight_server.peers.host_tables.REPLICAS_SCHEMA`.

        Raises:
            Unsupported: The host belongs to no deployment.
            LivestateError: What the host said, by its kind; Unavailable when there is no host.
        """
        return self._table("livestate.replicas")

    def _table(self, action: str) -> pa.Table:
        answer = self._connection.answer(action, b"")
        try:
            with pa.ipc.open_stream(answer) as reader:
                return reader.read_all()
        except (pa.ArrowException, OSError) as error:
            raise self._connection.unreadable() from error

    def health(self) -> Mapping[str, Any]:
        """How the host is: `{"ready": true, "stores": 3, "running": 1}`, where statements and fragments run.

        Raises:
            LivestateError: What the host said, by its kind; Unavailable when there is no host.
        """
        return self._document("livestate.health", b"")

    def scrub(self, step: str, rate_bytes: float | None = None) -> Mapping[str, Any]:
        """Have the host read all that it has stored.

        Args:
            step: `begin`, `cancel` or `status`.
            rate_bytes: Arrow bytes a second at most; None for the host's option.

        Returns:
            How far it is: the attributes of `engine.replica.scrubber.ScrubStatus`.

        Raises:
            LivestateError: What the host said, by its kind; Unavailable when there is no host.
        """
        body = {"do": step} if rate_bytes is None else {"do": step, "rate": rate_bytes}
        return self._document("livestate.scrub", json.dumps(body).encode())

    def diagnose(self) -> HostDiagnosis:
        """How the host stands, as it says itself; for operators.

        Raises:
            LivestateError: What the host said, by its kind; Unavailable when there is no host.
        """
        return parse_diagnosis(self._connection.answer(DIAGNOSE_ACTION, b""))

    def drain(self, step: str) -> Mapping[str, Any]:
        """Have the host take no new statements, or take them again.

        Args:
            step: `begin`, `end` or `status`.

        Returns:
            How it is: `{"draining": true, "running": 1}`, where statements and fragments run.

        Raises:
            LivestateError: What the host said, by its kind; Unavailable when there is no host.
        """
        return self._document("livestate.drain", json.dumps({"do": step}).encode())

    def _document(self, action: str, body: bytes) -> Mapping[str, Any]:
        return self._connection.document(self._connection.answer(action, body))

    def act(self, name: str, body: bytes) -> list[bytes]:
        """Do an action, as `Connection.act`."""
        return self._connection.act(name, body)

    def close(self) -> None:
        """End the connection. What was begun goes on; statements begun later fail."""
        self._connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _parameter_batch(parameters: Sequence[Any] | Mapping[str, Any]) -> pa.RecordBatch:
    named = (
        parameters
        if isinstance(parameters, Mapping)
        else {str(place): value for place, value in enumerate(parameters, start=1)}
    )
    columns = {}
    for name, value in named.items():
        try:
            array = pa.array([value])
            columns[name] = array if pa.types.is_null(array.type) else array.cast(_bound_type(array.type))
        except (pa.ArrowException, OverflowError) as error:
            raise InvalidInput(
                f"Parameter {name}: a Python {type(value).__name__} of this value has no SQL type."
            ) from error
    return pa.record_batch(columns)


def _bound_type(arrow_type: pa.DataType) -> pa.DataType:
    """A type that hosts take: NULLs of no type, as an empty list has them, are texts within a value."""
    if pa.types.is_null(arrow_type):
        return pa.string()
    if pa.types.is_list(arrow_type):
        return pa.list_(_bound_type(arrow_type.value_type))
    if pa.types.is_struct(arrow_type):
        return pa.struct([field.with_type(_bound_type(field.type)) for field in arrow_type])
    return arrow_type
