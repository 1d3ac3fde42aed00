"""A connection to a host, for everybody who talks to one: actions, plans and streams of rows, and the errors
that hosts mean.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import flight

from engine.errors import InvalidInput, LivestateError, Unavailable
from flight_server.client.connection_options import ConnectionOptions
from flight_server.wire.boundary import ERROR_TRAILER, is_word_of_caller, livestate_error, plain_message
from flight_server.wire.call_headers import statement_headers
from flight_server.wire.result_metadata import METADATA_KEY

FLIGHT_FAILURES = (flight.FlightError, pa.ArrowException, OSError, KeyError)
"""What pyarrow raises when a call fails."""
CHANNEL_OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2000),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
"""A host that was started again is found within a second; gRPC's own choice is up to two minutes. The least
backoff is no pause: it is what gRPC gives an attempt to connect before it fails, enough for a busy host, and
for TLS to one far away.
"""
_REMEDIES = (
    ("wrong version number", "The host speaks no TLS there: write its address with grpc://."),
    (
        "not in peer certificate",
        "The host's certificate is not for this name: connect by one that it has, or give the host another.",
    ),
    ("certificate has expired", "The host's certificate has ended: give the host a new one, and restart it."),
    (
        "certificate verify failed",
        "Nobody whom this client trusts vouches for the host's certificate: name who does, with --tls-roots.",
    ),
    (
        "connect to all addresses; last error: UNAVAILABLE: .*: Socket closed",
        "It may want TLS (grpc+tls://, --tls-roots), or a certificate of the caller (--certificate, --key).",
    ),
    (
        "Expected SETTINGS frame|Received http2 header with status",
        "What answers there is no host: `livestate serve` says at which address it serves.",
    ),
)
"""What to do about a connection that does not come about, by what gRPC says; the first that is found."""


class HostLostError(Unavailable):
    """A host cannot be reached, or has stopped to answer; another one may do."""


class Trailer(flight.ClientMiddleware):  # type: ignore[misc] # pyarrow has no types
    """Keeps what the server says of an error, for one call."""

    def __init__(self) -> None:
        self.detail: bytes | None = None

    def received_headers(self, headers: Mapping[str, list[str | bytes]]) -> None:
        """Called by Flight with headers, and with trailers when the call is over."""
        for value in headers.get(ERROR_TRAILER, ()):
            self.detail = value if isinstance(value, bytes) else value.encode()


class _Trailers(flight.ClientMiddlewareFactory):  # type: ignore[misc] # pyarrow has no types
    """Hands each thread the trailer of the call that it began last."""

    def __init__(self) -> None:
        self._calls = threading.local()

    def start_call(self, info: Any) -> Trailer:
        """Called by Flight in the thread that begins a call."""
        self._calls.latest = Trailer()
        return self._calls.latest  # type: ignore[no-any-return]

    def latest_trailer(self) -> Trailer | None:
        return getattr(self._calls, "latest", None)


class RowStream:
    """Rows on their way from a host, read once. Close it, or read it to its end.

    Args:
        connection: Where the call was begun.
        reader: The call.
        trailer: Where the host's word on a failure comes in.

    Attributes:
        schema: Arrow schema of the batches.
        metadata: What the host says of them.
    """

    def __init__(
        self, connection: Connection, reader: flight.FlightStreamReader, trailer: Trailer | None
    ) -> None:
        self.schema: pa.Schema = reader.schema
        self.metadata = connection.document((self.schema.metadata or {}).get(METADATA_KEY, b"{}"))
        self._connection = connection
        self._reader = reader
        self._trailer = trailer

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The batches, as they arrive.

        Raises:
            LivestateError: The call failed underway, by its kind.
        """
        while True:
            with self._connection.translate_errors(self._trailer):
                try:
                    chunk = self._reader.read_chunk()
                except StopIteration:
                    return
            yield chunk.data

    def read_all(self) -> pa.Table:
        """All that was not read yet, as one table.

        Raises:
            LivestateError: The call failed underway, by its kind.
        """
        return pa.Table.from_batches(list(self), self.schema)

    def close(self) -> None:
        """Tell the host that no more rows are wanted."""
        self._reader.cancel()


class Connection:
    """A Flight connection that threads share, and that any of them may close; a context that closes it.

    pyarrow takes a client apart as soon as it is closed, under the feet of a thread that begins a call at
    that moment: the process dies. So closing only lets go of the client, and it ends when the last call that
    uses it has begun; streams live on by themselves.

    Args:
        options: How the host is reached; one host.
        channel: Options of the gRPC channel.

    Raises:
        InvalidInput: The address is none.
    """

    def __init__(
        self, options: ConnectionOptions, *, channel: Sequence[tuple[str, int]] = CHANNEL_OPTIONS
    ) -> None:
        self.uri = options.uri
        self._headers = [(b"authorization", options.authorization)] if options.authorization else []
        self._call_seconds = options.call_seconds
        self._call_options = self._options_with_timeout(options.call_seconds)
        self._trailers = _Trailers()
        try:
            self._client: flight.FlightClient | None = flight.connect(
                self.uri,
                tls_root_certs=options.tls_roots or None,
                cert_chain=options.certificate or None,
                private_key=options.key or None,
                middleware=[self._trailers],
                generic_options=list(channel),
            )
        except (pa.ArrowException, ValueError) as error:
            raise InvalidInput(
                f"{self.uri!r} is not the address of a host; write it like grpc://127.0.0.1:8815."
            ) from error

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def client(self) -> flight.FlightClient:
        """What begins calls. Do not keep it.

        Raises:
            Unavailable: The connection is closed.
        """
        client = self._client
        if client is None:
            raise Unavailable(f"The connection to {self.uri} is closed; open another one.")
        return client

    def call_options(
        self, seconds: float | None = None, headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> flight.FlightCallOptions:
        """What each call carries: who calls, and how long it may take.

        Args:
            seconds: How long; None: as long as the connection's options allow.
            headers: What else it carries.
        """
        if headers:
            return flight.FlightCallOptions(
                timeout=self._call_seconds if seconds is None else seconds, headers=[*self._headers, *headers]
            )
        return self._call_options if seconds is None else self._options_with_timeout(seconds)

    @property
    def stream_options(self) -> flight.FlightCallOptions:
        """What a call carries that is open for as long as its client likes: who calls."""
        return self._options_with_timeout(None)

    def _options_with_timeout(self, seconds: float | None) -> flight.FlightCallOptions:
        return flight.FlightCallOptions(timeout=seconds, headers=self._headers)

    def act(self, name: str, body: bytes, seconds: float | None = None) -> list[bytes]:
        """Do an action.

        Args:
            name: Its type.
            body: Its body.
            seconds: How long it may take; None: as long as the connection's options allow.

        Returns:
            The bodies of its results.

        Raises:
            HostLostError: The host does not answer.
            LivestateError: What it said, by its kind.
        """
        with self.translate_errors():
            return [
                result.body.to_pybytes()
                for result in self.client.do_action(flight.Action(name, body), self.call_options(seconds))
            ]

    def answer(self, name: str, body: bytes) -> bytes:
        """Do an action that has one result; arguments and errors as those of `act`."""
        answers = self.act(name, body)
        if len(answers) != 1:
            raise self.unreadable()
        return answers[0]

    def document(self, answer: bytes) -> Mapping[str, Any]:
        """The JSON object that a host has answered.

        Raises:
            HostLostError: It is none.
        """
        try:
            document = json.loads(answer.decode())
        except (ValueError, RecursionError) as error:
            raise self.unreadable() from error
        if not isinstance(document, dict):
            raise self.unreadable()
        return document

    def unreadable(self) -> HostLostError:
        """The error for an answer that is none."""
        return HostLostError(
            f"What the host at {self.uri} answers cannot be read: it is damaged, or no host of livestate."
        )

    def info(self, command: bytes, seconds: float | None = None) -> flight.FlightInfo:
        """Have a command planned; arguments and errors as those of `act`."""
        descriptor = flight.FlightDescriptor.for_command(command)
        with self.translate_errors():
            return self.client.get_flight_info(descriptor, self.call_options(seconds))

    def rows(
        self, ticket: bytes, seconds: float | None = None, headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> RowStream:
        """Begin to read rows. It returns when the first are there; errors as those of `act`.

        Args:
            ticket: What they are the answer to.
            seconds: As for `act`.
            headers: What the call carries besides, as for `call_options`.
        """
        with self.translate_errors():
            options = self.call_options(seconds, headers=[*statement_headers(), *headers])
            reader = self.client.do_get(flight.Ticket(ticket), options)
            return RowStream(self, reader, self.latest_trailer())

    @contextmanager
    def translate_errors(self, trailer: Trailer | None = None) -> Iterator[None]:
        """Turn what pyarrow raises inside into an error of the kind that the host meant.

        Args:
            trailer: The call's; by default that of the call which this thread began last.

        Raises:
            HostLostError: The host did not answer, or broke off.
            LivestateError: In place of any other failure of Flight.
        """
        try:
            yield
        except FLIGHT_FAILURES as error:
            call = trailer if trailer is not None else self.latest_trailer()
            raise self._translate_error(error, call.detail if call is not None else None) from error

    def _translate_error(self, error: Exception, detail: bytes | None) -> LivestateError:
        said = plain_message(error).rstrip(".")
        if detail is not None or (is_word_of_caller(error) and "http2 header with status" not in said):
            return livestate_error(error, detail)
        return HostLostError(f"The host at {self.uri} cannot be reached: {said}. {_remedy(self.uri, said)}")

    def latest_trailer(self) -> Trailer | None:
        """Of the call that this thread began last; None before the first."""
        return self._trailers.latest_trailer()

    def close(self) -> None:
        """Begin no more calls. May be called again, and by any thread."""
        self._client = None


def _remedy(uri: str, said: str) -> str:
    for pattern, remedy in _REMEDIES:
        if re.search(pattern, said):
            return remedy
    if urlsplit(uri).port is None and not uri.startswith("grpc+unix:"):
        return "Its address has no port; `livestate serve` listens on 8815 unless --port says otherwise."
    return "Is `livestate serve` running there?"
