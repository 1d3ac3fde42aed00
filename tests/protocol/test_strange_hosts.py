"""What a host says of a failure is taken for what it is, however strange."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from engine.errors import InvalidInput, LivestateError, Unauthenticated, Unavailable
from flight_server.client.client import Client
from flight_server.client.connection import Connection, HostLostError
from flight_server.client.connection_options import ConnectionOptions
from flight_server.wire.boundary import ERROR_TRAILER
from flight_server.wire.result_metadata import METADATA_KEY
from spark_pipeline.host_calls import ReaderConnection

FAILURES = {
    "unavailable": flight.FlightUnavailableError,
    "unauthenticated": flight.FlightUnauthenticatedError,
    "cancelled": flight.FlightCancelledError,
    "late": flight.FlightTimedOutError,
    "internal": flight.FlightInternalError,
    "server": flight.FlightServerError,
}
TRAILERS = [
    b"\xff",
    b"[]",
    b"null",
    b'{"kind": "Position", "message": "m"}',
    b'{"kind": "annotations", "message": "m"}',
    b'{"kind": ["InvalidInput"], "message": "m"}',
    b'{"kind": "__name__"}',
]
"""None names a kind."""


class _Strange(flight.FlightServerBase):  # type: ignore[misc] # pyarrow has no types
    """Fails as the body of an action says: `failure`, or `failure:trailer`."""

    def do_action(self, context: Any, action: flight.Action) -> Iterator[bytes]:
        name, colon, trailer = action.body.to_pybytes().partition(b":")
        if colon:
            context.add_trailer(ERROR_TRAILER, trailer)
        raise FAILURES[name.decode()]("Nothing")

    def get_flight_info(self, context: Any, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        context.add_trailer(ERROR_TRAILER, json.loads(descriptor.command)["trailer"].encode("latin-1"))
        raise flight.FlightServerError("Nothing")


@pytest.fixture(scope="module")
def strange() -> Iterator[ConnectionOptions]:
    with _Strange("grpc://127.0.0.1:0") as server:
        yield ConnectionOptions((f"grpc://127.0.0.1:{server.port}",))


class _Damaged(flight.FlightServerBase):  # type: ignore[misc] # pyarrow has no types
    """Answers what is no answer.

    Attributes:
        answers: The results of every action.
        document: What it says of every result and plan.
    """

    answers: Sequence[bytes] = ()
    document = b""

    def do_action(self, context: Any, action: flight.Action) -> Iterator[bytes]:
        yield from self.answers

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.RecordBatchStream:
        table = pa.table({"n": [1]}).replace_schema_metadata({METADATA_KEY: self.document})
        return flight.RecordBatchStream(table)

    def get_flight_info(self, context: Any, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        return flight.FlightInfo(pa.schema([]), descriptor, [], app_metadata=self.document)


@pytest.fixture(scope="module")
def damaged() -> Iterator[tuple[_Damaged, str]]:
    with _Damaged("grpc://127.0.0.1:0") as server:
        yield server, f"grpc://127.0.0.1:{server.port}"


@pytest.mark.parametrize(
    "answers",
    [[], [b""], [b"{"], [b"\xff"], [b"[]"], [b"[" * 100_000], [b"{}", b"{}"]],
    ids=lambda each: repr(each)[:20],
)
def test_an_action_without_an_answer_that_can_be_read_is_a_lost_host(
    damaged: tuple[_Damaged, str], answers: Sequence[bytes]
) -> None:
    server, uri = damaged
    server.answers = answers
    with Client(uri) as client:
        for ask in (
            client.health,
            client.hosts,
            partial(client.scrub, "status"),
            partial(client.drain, "status"),
        ):
            with pytest.raises(HostLostError, match=f"What the host at {uri} answers cannot be read"):
                ask()
        with pytest.raises(HostLostError if len(answers) != 1 else LivestateError, match="cannot be read"):
            client.diagnose()


@pytest.mark.parametrize("document", [b"{", b"\xff", b"[]", b"[" * 100_000], ids=lambda each: repr(each[:4]))
def test_what_a_host_says_of_an_answer_and_cannot_be_read_is_a_lost_host(
    damaged: tuple[_Damaged, str], document: bytes
) -> None:
    server, uri = damaged
    server.document = document
    words = f"What the host at {uri} answers cannot be read"
    with Client(uri) as client, pytest.raises(HostLostError, match=words):
        client.query("SELECT 1")
    options = ConnectionOptions((uri,))
    with ReaderConnection(options, None) as host, pytest.raises(HostLostError, match=words):
        host.plan({})


@pytest.mark.parametrize("trailer", TRAILERS)
def test_a_kind_that_is_none_becomes_a_plain_error(strange: ConnectionOptions, trailer: bytes) -> None:
    with Connection(strange) as connection, pytest.raises(LivestateError) as caught:
        connection.act("any", b"server:" + trailer)
    assert type(caught.value) is LivestateError
    assert "Nothing" in caught.value.message


@pytest.mark.parametrize("trailer", TRAILERS)
def test_spark_s_reader_takes_it_alike(strange: ConnectionOptions, trailer: bytes) -> None:
    with ReaderConnection(strange, None) as host, pytest.raises(LivestateError) as caught:
        host.plan({"trailer": trailer.decode("latin-1")})
    assert type(caught.value) is LivestateError


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("unavailable", HostLostError),
        ("cancelled", HostLostError),
        ("late", HostLostError),
        ("internal", HostLostError),
        ("server", HostLostError),
        ("unauthenticated", Unauthenticated),
    ],
)
def test_a_host_that_says_nothing_is_lost_but_where_it_refuses_the_caller(
    strange: ConnectionOptions, name: str, kind: type[LivestateError]
) -> None:
    with Connection(strange) as connection, pytest.raises(LivestateError) as caught:
        connection.act("any", name.encode())
    assert type(caught.value) is kind
    assert (strange.uri in caught.value.message) == (kind is HostLostError)
    assert "Client context" not in caught.value.message


def test_a_host_s_own_word_is_not_a_lost_host(strange: ConnectionOptions) -> None:
    with Connection(strange) as connection, pytest.raises(Unavailable) as caught:
        connection.act("any", b'unavailable:{"kind": "Unavailable", "message": "Not now."}')
    assert (type(caught.value), caught.value.message) == (Unavailable, "Not now.")
    with Connection(strange) as connection, pytest.raises(InvalidInput) as refused:
        connection.act("any", b'server:{"kind": "InvalidInput", "message": "No."}')
    assert refused.value.message == "No."
