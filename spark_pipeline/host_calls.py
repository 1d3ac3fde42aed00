"""What the reader asks of hosts, over plain Flight: a plan, to keep its epochs, and rows.

| call | what travels |
|---|---|
| GetFlightInfo | a JSON ticket as descriptor, with `"endpoints": "partitions"`; its application metadata is `{"epochs": {group: number}}` |
| DoAction `livestate.hold` | `{"epochs": {group: number}, "seconds": number}`: the host keeps these epochs readable for so long |
| DoGet | a ticket of the plan |

Failures come with the trailer `livestate-error-bin`, JSON of `kind` (a class of `engine.errors`) and
`message`; without it they are the network's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyarrow import flight

from engine import errors
from engine.errors import InvalidInput, LivestateError, Unavailable
from spark_pipeline.reader_options import ReaderOptions

CALL_SECONDS = 10.0
"""How long a host may take to say that it is there."""
HOST_SECONDS = 300.0
"""How long hosts take for a statement at most, unless they are told otherwise."""
MARGIN_SECONDS = 10.0
"""What a host that has run out of time has to say so, before the call is given up."""

_TRAILER = "livestate-error-bin"
_FAILURES = (flight.FlightError, pa.ArrowException, OSError, KeyError)
"""What pyarrow raises when a call fails."""


class HostLostError(Unavailable):
    """A host cannot be reached, or has stopped to answer; another one may do."""


@dataclass(frozen=True)
class Share:
    """Rows that one task reads.

    Attributes:
        ticket: What to ask for.
        uris: The hosts that have them, best first.
    """

    ticket: bytes = field(repr=False)
    uris: tuple[str, ...]


@dataclass(frozen=True)
class ReadPlan:
    """How a statement is read, all of it at the same epochs.

    Attributes:
        schema: Arrow schema of the rows.
        epochs: The epoch of each store group.
        shares: Their rows together are the answer.
    """

    schema: pa.Schema
    epochs: Mapping[str, int]
    shares: tuple[Share, ...]

    @property
    def uris(self) -> tuple[str, ...]:
        """All hosts that rows are read from, or could be."""
        return tuple(dict.fromkeys(uri for share in self.shares for uri in share.uris))

    def without(self, lost: Sequence[str]) -> ReadPlan:
        """The same plan, in which some hosts are asked for nothing."""
        shares = tuple(
            Share(share.ticket, tuple(uri for uri in share.uris if uri not in lost)) for share in self.shares
        )
        return replace(self, shares=shares)


class _Trailer(flight.ClientMiddleware):  # type: ignore[misc] # pyarrow has no types
    """Keeps what the host says of the failure of a call."""

    detail: bytes = b""

    def received_headers(self, headers: Mapping[str, list[str | bytes]]) -> None:
        for value in headers.get(_TRAILER, ()):
            self.detail = value if isinstance(value, bytes) else value.encode()


class _Trailers(flight.ClientMiddlewareFactory):  # type: ignore[misc] # pyarrow has no types
    """Keeps the trailer of the call that began last."""

    def __init__(self) -> None:
        self.latest = _Trailer()

    def start_call(self, info: Any) -> _Trailer:
        self.latest = _Trailer()
        return self.latest


class HostConnection:
    """Calls to one host, one after the other; a context that closes the connection.

    Args:
        uri: Where it is.
        options: Token and certificates.

    Raises:
        InvalidInput: The address is none.
    """

    def __init__(self, uri: str, options: ReaderOptions) -> None:
        self._uri = uri
        self._headers = (
            [(b"authorization", b"Bearer " + options.token.encode())] if options.token is not None else []
        )
        self._limit = options.timeout_seconds or HOST_SECONDS
        self._trailers = _Trailers()
        try:
            self._client = flight.connect(
                uri, tls_root_certs=options.tls_roots or None, middleware=[self._trailers]
            )
        except (pa.ArrowException, ValueError) as error:
            raise InvalidInput(
                f"{uri!r} is not the address of a host; write it like grpc://127.0.0.1:8815."
            ) from error

    def __enter__(self) -> HostConnection:
        return self

    def __exit__(self, *unused: object) -> None:
        self._client.close()

    def plan(self, command: Mapping[str, object]) -> ReadPlan:
        """Have a statement planned.

        Args:
            command: The fields of a JSON descriptor.

        Raises:
            HostLostError: The host does not answer.
            LivestateError: What the host says of the statement, by kind.
        """
        descriptor = flight.FlightDescriptor.for_command(json.dumps(command).encode())
        with self._translated():
            info = self._client.get_flight_info(descriptor, self._call(self._limit + MARGIN_SECONDS))
        epochs = json.loads(info.app_metadata or b"{}").get("epochs", {})
        shares = tuple(
            Share(
                endpoint.ticket.ticket,
                tuple(location.uri.decode() for location in endpoint.locations) or (self._uri,),
            )
            for endpoint in info.endpoints
        )
        return ReadPlan(info.schema, epochs, shares)

    def hold(self, epochs: Mapping[str, int], seconds: float) -> None:
        """Have epochs kept readable.

        Raises:
            HostLostError: The host does not answer.
            Unavailable: It has not got one of the epochs (any more).
        """
        action = flight.Action("livestate.hold", json.dumps({"epochs": epochs, "seconds": seconds}).encode())
        with self._translated():
            for _ in self._client.do_action(action, self._call(CALL_SECONDS)):
                pass

    def rows(self, ticket: bytes) -> Iterator[pa.RecordBatch]:
        """Read rows.

        Args:
            ticket: What for.

        Yields:
            The batches, as they arrive.

        Raises:
            HostLostError: The host does not answer (any more).
            LivestateError: What the host says, by kind.
        """
        with self._translated():
            reader = self._client.do_get(flight.Ticket(ticket), self._call(self._limit + MARGIN_SECONDS))
        try:
            while True:
                with self._translated():
                    try:
                        chunk = reader.read_chunk()
                    except StopIteration:
                        return
                yield chunk.data
        finally:
            reader.cancel()

    def _call(self, seconds: float) -> flight.FlightCallOptions:
        return flight.FlightCallOptions(timeout=seconds, headers=self._headers)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except _FAILURES as error:
            raise _meant(self._uri, error, self._trailers.latest.detail) from None


def _meant(uri: str, error: Exception, detail: bytes) -> LivestateError:
    document = json.loads(detail) if detail else {}
    kind = getattr(errors, str(document.get("kind")), None)
    if isinstance(kind, type) and issubclass(kind, LivestateError):
        return kind(str(document.get("message")))
    said = (
        str(error)
        .partition(". gRPC client debug context")[0]
        .partition(". Client context")[0]
        .removeprefix("Flight returned ")
    )
    if isinstance(error, flight.FlightUnauthenticatedError):
        return errors.Unauthenticated(f"The host at {uri} refuses: {said}. Give it with the option token.")
    return HostLostError(f"The host at {uri} cannot be reached: {said}.")
