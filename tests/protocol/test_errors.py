"""Every kind of error over a real Flight connection and back."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from engine.errors import (
    Cancelled,
    Corrupt,
    DeadlineExceeded,
    Defect,
    Fenced,
    InvalidInput,
    LimitExceeded,
    LivestateError,
    NotFound,
    Position,
    Unauthenticated,
    Unavailable,
    Unsupported,
)
from flight_server.client.client import Client
from flight_server.client.connection import HostLostError
from flight_server.wire.boundary import (
    MAX_MESSAGE_CHARACTERS,
    error_detail,
    error_of_kind,
    guard_rpc,
    kind_name,
    livestate_error,
)

SECRET = "/srv/secret/token.txt"
KINDS: dict[str, tuple[LivestateError, type[Exception]]] = {
    "InvalidInput": (InvalidInput("The column nme is not there.", Position(7, 1, 8)), pa.ArrowInvalid),
    "NotFound": (NotFound("There is no store plays."), pa.ArrowKeyError),
    "Unsupported": (Unsupported("livestate is read-only."), pa.ArrowNotImplementedError),
    "Unauthenticated": (Unauthenticated("Say who you are."), flight.FlightUnauthenticatedError),
    "Unavailable": (Unavailable("Partition 3 of plays cannot be read now."), flight.FlightUnavailableError),
    "DeadlineExceeded": (
        DeadlineExceeded("The query took longer than 5 seconds."),
        flight.FlightTimedOutError,
    ),
    "Cancelled": (Cancelled("The query was cancelled."), flight.FlightCancelledError),
    "LimitExceeded": (LimitExceeded("The query needs more memory than 1 GiB."), flight.FlightServerError),
    "Fenced": (Fenced("Token 4 is older than token 5."), flight.FlightServerError),
    "Corrupt": (Corrupt("Segment 7 is not what was written."), flight.FlightInternalError),
}


class _Failing(flight.FlightServerBase):  # type: ignore[misc] # pyarrow has no types
    """Raises what a call names, guarded as the real server is."""

    def fail(self, name: str) -> None:
        if name in KINDS:
            raise KINDS[name][0]
        if name == "long":
            raise InvalidInput("x" * 100_000)
        if name == "surrogate":
            raise NotFound("There is no store \ud800.")
        message = f"{name}: cannot open {SECRET}"
        raise {
            "os": OSError,
            "key": KeyError,
            "value": ValueError,
            "flight": flight.FlightUnavailableError,
            "memory": MemoryError,
        }[name](message)

    def note_failure(self, error: Exception) -> None:
        """Nobody watches."""

    @guard_rpc
    def do_get(self, context: Any, ticket: flight.Ticket) -> None:
        self.fail(_name(ticket.ticket))

    @guard_rpc
    def do_put(self, context: Any, descriptor: flight.FlightDescriptor, reader: Any, writer: Any) -> None:
        self.fail(_name(descriptor.command))

    @guard_rpc
    def get_flight_info(self, context: Any, descriptor: flight.FlightDescriptor) -> None:
        self.fail(_name(descriptor.command))

    @guard_rpc
    def get_schema(self, context: Any, descriptor: flight.FlightDescriptor) -> None:
        self.fail(_name(descriptor.command))

    @guard_rpc
    def do_action(self, context: Any, action: flight.Action) -> None:
        self.fail(_name(action.body.to_pybytes()))


def _name(text: bytes) -> str:
    # livestate's own client sends a statement handle; its text is the name.
    return next(
        (
            name
            for name in (*KINDS, "long", "surrogate", "os", "key", "value", "flight", "memory")
            if name.encode() in text
        ),
        "",
    )


@pytest.fixture(scope="module")
def failing() -> Iterator[str]:
    server = _Failing("grpc://127.0.0.1:0")
    yield f"grpc://127.0.0.1:{server.port}"
    server.shutdown()


def _put(client: flight.FlightClient, name: str) -> None:
    writer, reader = client.do_put(flight.FlightDescriptor.for_command(name), pa.schema([]))
    reader.read()
    writer.close()


CALLS: dict[str, Callable[[flight.FlightClient, str], Any]] = {
    "do_get": lambda client, name: client.do_get(flight.Ticket(name)).read_all(),
    "do_put": _put,
    "do_action": lambda client, name: list(client.do_action(flight.Action("any", name.encode()))),
    "get_flight_info": lambda client, name: client.get_flight_info(flight.FlightDescriptor.for_command(name)),
    "get_schema": lambda client, name: client.get_schema(flight.FlightDescriptor.for_command(name)),
}


def _no_leak(error: Exception) -> None:
    for leak in ("Traceback", ".py", SECRET, "secret", "line "):
        assert leak not in str(error)
    assert SECRET.encode() not in (getattr(error, "extra_info", None) or b"")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", KINDS)
def test_a_kind_arrives_as_its_class_with_its_message_alone(failing: str, name: str, call: str) -> None:
    error, expected = KINDS[name]
    with (
        flight.connect(failing) as client,
        pytest.raises((flight.FlightError, pa.ArrowException, OSError)) as caught,
    ):
        CALLS[call](client, name)
    assert error.message.rstrip(".") in str(caught.value)
    _no_leak(caught.value)
    # In get_schema pyarrow has codes for three kinds only.
    if call != "get_schema" or name in ("InvalidInput", "NotFound", "Unsupported"):
        assert isinstance(caught.value, expected)


@pytest.mark.parametrize("name", KINDS)
def test_our_client_gets_the_very_error_back(failing: str, name: str) -> None:
    error, _ = KINDS[name]
    with Client(failing) as client:
        with pytest.raises(LivestateError) as by_query:
            client.query(name)
        with pytest.raises(LivestateError) as by_action:
            client.notify(name)
    for caught in (by_query.value, by_action.value):
        assert type(caught) is type(error)
        assert caught.message == error.message
        assert getattr(caught, "position", None) == getattr(error, "position", None)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", ["os", "key", "value", "flight", "memory"])
def test_what_nobody_expected_is_told_by_an_incident_only(
    failing: str, name: str, call: str, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.ERROR),
        flight.connect(failing) as client,
        pytest.raises((flight.FlightError, pa.ArrowException)) as caught,
    ):
        CALLS[call](client, name)
    _no_leak(caught.value)
    (incident,) = [word.rstrip(".") for word in str(caught.value).split("incident ")[1:2]]
    incident = incident.split()[0].rstrip(".")
    assert incident in caplog.text
    assert SECRET in caplog.text
    assert "Traceback" in caplog.text


def test_a_long_message_is_cut(failing: str) -> None:
    with Client(failing) as client, pytest.raises(InvalidInput) as caught:
        client.query("long")
    assert len(caught.value.message) == MAX_MESSAGE_CHARACTERS + 1


def test_a_message_that_quotes_what_is_not_unicode_can_be_sent(failing: str) -> None:
    with Client(failing) as client, pytest.raises(NotFound) as caught:
        client.query("surrogate")
    assert caught.value.message == "There is no store ?."


@pytest.mark.parametrize(
    "detail",
    [
        None,
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"kind": "Nonsense"}',
        b'{"kind": {}}',
        b'{"kind": "LivestateErro"}',
    ],
)
def test_a_trailer_that_makes_no_sense_leaves_the_class(detail: bytes | None) -> None:
    found = livestate_error(flight.FlightUnavailableError("gone"), detail)
    assert type(found) is Unavailable
    assert found.message == "gone"


@pytest.mark.parametrize("position", [None, [], {"offset": 1}, {"offset": "1", "line": 1, "column": 1}])
def test_a_position_that_makes_no_sense_is_none(position: object) -> None:
    detail = {**json.loads(error_detail(InvalidInput("m"))), "position": position}
    found = livestate_error(pa.ArrowInvalid("m"), json.dumps(detail).encode())
    assert isinstance(found, InvalidInput)
    assert found.position is None


def test_the_name_of_a_kind_finds_it_again() -> None:
    kinds: list[type[LivestateError]] = [
        LivestateError,
        Defect,
        *(type(error) for error, _ in KINDS.values()),
    ]
    for kind in kinds:
        assert type(error_of_kind(kind_name(kind("m")), "m")) is kind, kind


def test_a_finer_class_travels_as_its_kind() -> None:
    assert type(error_of_kind(kind_name(HostLostError("gone")), "gone")) is Unavailable


@pytest.mark.parametrize("name", ["Position", "dataclass", "HostLostError", "__name__", "", "Unavailable\0"])
def test_a_name_of_no_kind_becomes_a_plain_error(name: str) -> None:
    found = error_of_kind(name, "m")
    assert (type(found), found.message) == (LivestateError, "m")
