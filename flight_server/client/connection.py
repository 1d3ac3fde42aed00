"""A connection to a host, as the client and the other hosts of a deployment use it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import flight

from engine.errors import InvalidInput, Unavailable
from flight_server.wire.boundary import ERROR_TRAILER

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

    def latest(self) -> Trailer | None:
        return getattr(self._calls, "latest", None)


class Connection:
    """A Flight connection that threads share, and that any of them may close.

    pyarrow takes a client apart as soon as it is closed, under the feet of a thread that begins a call at
    that moment: the process dies. So closing only lets go of the client, and it ends when the last call that
    uses it has begun; streams live on by themselves.

    Args:
        uri: Where the host listens.
        tls_roots: PEM certificates that vouch for it, for `grpc+tls://`; empty: the system's.
        options: Options of the gRPC channel.

    Raises:
        InvalidInput: The address is none.
    """

    def __init__(
        self, uri: str, *, tls_roots: bytes = b"", options: Sequence[tuple[str, int]] = CHANNEL_OPTIONS
    ) -> None:
        self._uri = uri
        self._trailers = _Trailers()
        try:
            self._client: flight.FlightClient | None = flight.connect(
                uri,
                tls_root_certs=tls_roots or None,
                middleware=[self._trailers],
                generic_options=list(options),
            )
        except (pa.ArrowException, ValueError) as error:
            raise InvalidInput(
                f"{uri!r} is not the address of a host; write it like grpc://127.0.0.1:8815."
            ) from error

    @property
    def client(self) -> flight.FlightClient:
        """What begins calls. Do not keep it.

        Raises:
            Unavailable: The connection is closed.
        """
        client = self._client
        if client is None:
            raise Unavailable(f"The connection to {self._uri} is closed; open another one.")
        return client

    def latest_trailer(self) -> Trailer | None:
        """Of the call that this thread began last; None before the first."""
        return self._trailers.latest()

    def close(self) -> None:
        """Begin no more calls. May be called again, and by any thread."""
        self._client = None
