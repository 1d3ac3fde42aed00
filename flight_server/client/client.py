"""A plain Flight client of a livestate host: one call a query, and errors of the kinds of `engine.errors`.

The command line uses it; programs that want DB-API or pandas take ADBC instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import pyarrow as pa
from pyarrow import flight

from engine.errors import InvalidInput, LivestateError, Unavailable
from engine.model.read_point import NEWEST, ReadPoint
from flight_server.client.connection import FLIGHT_FAILURES, Connection, Trailer
from flight_server.wire.boundary import livestate_error
from flight_server.wire.messages import new
from flight_server.wire.tickets import METADATA_KEY, Statement


@dataclass(frozen=True)
class Rows:
    """The result of a query, read once. Close it, or read it to its end.

    Attributes:
        schema: Arrow schema of the batches.
        metadata: What the host says of the query: epochs read and their age, partitions read and pruned.
    """

    schema: pa.Schema
    metadata: Mapping[str, Any]
    _reader: flight.FlightStreamReader = field(repr=False)
    _client: Client = field(repr=False)
    _trailer: Trailer | None = field(repr=False)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The batches, as they arrive.

        Raises:
            LivestateError: The query failed underway, by its kind.
        """
        while True:
            with self._client.translated(self._trailer):
                try:
                    chunk = self._reader.read_chunk()
                except StopIteration:
                    return
            yield chunk.data.replace_schema_metadata(self.schema.metadata)

    def read_all(self) -> pa.Table:
        """All that was not read yet, as one table.

        Raises:
            LivestateError: The query failed underway, by its kind.
        """
        return pa.Table.from_batches(list(self), self.schema)

    def close(self) -> None:
        """Tell the host that no more rows are wanted."""
        self._reader.cancel()


class Client:
    """A connection to a host. May be shared by threads.

    Args:
        uri: Where the host listens, such as `grpc://127.0.0.1:8815`; `grpc+tls://` for TLS.
        token: The host's bearer token, if it wants one.
        dialect: SQL dialect of the queries, such as `spark`; empty: the host's default.
        timeout_seconds: How long a query may run; None: as long as the host allows.
        tls_roots: PEM certificates that vouch for the host, for `grpc+tls://`; empty: the system's.
        read_point: Which epochs the queries may read.
    """

    def __init__(
        self,
        uri: str,
        *,
        token: str | None = None,
        dialect: str = "",
        timeout_seconds: float | None = None,
        tls_roots: bytes = b"",
        read_point: ReadPoint = NEWEST,
    ) -> None:
        self.uri = uri
        self.read_point = read_point
        self.dialect = dialect
        self.timeout_seconds = timeout_seconds
        headers = [(b"authorization", b"Bearer " + token.encode())] if token is not None else []
        self._options = flight.FlightCallOptions(headers=headers)
        self._connection = Connection(uri, tls_roots=tls_roots)

    def query(
        self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None, *, call_id: bytes = b""
    ) -> Rows:
        """Run a statement, in one call. It returns when the first rows are there.

        Args:
            sql: One read-only statement.
            parameters: Values for its `?` or `$1` by position, or for its `$name` by name; Python values of
                any SQL type.
            call_id: What `cancel` knows this execution by, chosen by the caller; random bytes, say.

        Returns:
            Its rows.

        Raises:
            LivestateError: What the host said, by its kind; Unavailable when there is no host.
            InvalidInput: A parameter is of a type that SQL does not have.
        """
        statement = Statement(
            sql, self.dialect, self.timeout_seconds, call_id=call_id, read_point=self.read_point
        )
        if parameters:
            statement = statement.bound(_parameter_batch(parameters))
        with self.translated():
            reader = self._connection.client.do_get(flight.Ticket(statement.to_bytes()), self._options)
            schema = reader.schema
        metadata = json.loads((schema.metadata or {}).get(METADATA_KEY, b"{}"))
        return Rows(schema, metadata, reader, self, self._connection.latest_trailer())

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
        """How the hosts of the deployment stand: a table of `engine.catalog.standings.HOSTS_SCHEMA`.

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
        (answer,) = self.act(action, b"")
        with pa.ipc.open_stream(answer) as reader:
            return reader.read_all()

    def health(self) -> Mapping[str, Any]:
        """How the host is: `{"ready": true, "stores": 3, "running": 1}`, where statements and fragments run.

        Raises:
            LivestateError: What the host said, by its kind; Unavailable when there is no host.
        """
        (answer,) = self.act("livestate.health", b"")
        document: Mapping[str, Any] = json.loads(answer)
        return document

    def close(self) -> None:
        """End the connection. What was begun goes on; statements begun later fail."""
        self._connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def act(self, name: str, body: bytes) -> list[bytes]:
        """Do an action.

        Args:
            name: Its type.
            body: Its body.

        Returns:
            The bodies of its results.

        Raises:
            LivestateError: What the host said, by its kind; Unavailable when there is no host.
        """
        with self.translated():
            return [
                result.body.to_pybytes()
                for result in self._connection.client.do_action(flight.Action(name, body), self._options)
            ]

    @contextmanager
    def translated(self, trailer: Trailer | None = None) -> Iterator[None]:
        """Turn what pyarrow raises inside into an error of the kind that the host meant.

        Args:
            trailer: The call's; by default that of the call which this thread began last.

        Raises:
            LivestateError: In place of any failure of Flight.
        """
        try:
            yield
        except FLIGHT_FAILURES as error:
            call = trailer if trailer is not None else self._connection.latest_trailer()
            known = livestate_error(error, call.detail if call is not None else None)
            raise self._explained(known, answered=call is not None and call.detail is not None) from error

    def _explained(self, error: LivestateError, *, answered: bool) -> LivestateError:
        if isinstance(error, Unavailable) and not answered:
            return Unavailable(f"No host answers at {self.uri}. Is `livestate serve` running there?")
        return error


def _parameter_batch(parameters: Sequence[Any] | Mapping[str, Any]) -> pa.RecordBatch:
    named = (
        parameters
        if isinstance(parameters, Mapping)
        else {str(place): value for place, value in enumerate(parameters, start=1)}
    )
    columns = {}
    for name, value in named.items():
        try:
            columns[name] = pa.array([value])
        except (pa.ArrowException, OverflowError) as error:
            raise InvalidInput(
                f"Parameter {name}: a Python {type(value).__name__} of this value has no SQL type."
            ) from error
    return pa.record_batch(columns)
