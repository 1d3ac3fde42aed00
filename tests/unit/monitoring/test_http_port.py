"""The HTTP port: short GETs are answered, and nothing else takes more than a thread for a moment."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http import HTTPStatus
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from engine.errors import InvalidInput
from flight_server.monitoring import http_port
from flight_server.monitoring.http_port import LONGEST_REQUEST, MOST_READING, THREADS, WAITING, HttpPort, Page


class _Pages:
    def page(self, path: str) -> Page | None:
        match path:
            case "/well":
                return Page(HTTPStatus.OK, b"well")
            case "/broken":
                raise RuntimeError("secret")
            case _:
                return None


@pytest.fixture(scope="module")
def port() -> Iterator[HttpPort]:
    made = HttpPort("127.0.0.1", 0, _Pages())
    made.start()
    yield made
    made.stop()
    made.stop()


def connect(port: HttpPort) -> socket.socket:
    place = urlsplit(port.uri)
    return socket.create_connection((place.hostname, place.port), timeout=60)


def answer_to(port: HttpPort, request: bytes) -> bytes:
    """All that comes back for some bytes."""
    with connect(port) as client:
        client.sendall(request)
        received = b""
        while piece := client.recv(65536):
            received += piece
        return received


def test_pages_are_answered(port: HttpPort) -> None:
    with urlopen(f"{port.uri}/well?question=1") as answer:
        assert answer.read() == b"well"
        assert answer.headers["Connection"] == "close"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /none HTTP/1.1\r\n\r\n", 404),
        (b"POST /well HTTP/1.1\r\n\r\n", 405),
        (b"GET /well\r\n\r\n", 400),
        (b"\x16\x03\x01\r\n\r\n", 400),
        (b"GET /well HTTP/1.1\r\n" + b"x" * (LONGEST_REQUEST - 10), 431),
    ],
)
def test_what_is_no_request_of_a_page_is_refused(port: HttpPort, request_bytes: bytes, status: int) -> None:
    assert answer_to(port, request_bytes).startswith(f"HTTP/1.1 {status} ".encode())


def test_a_page_that_fails_tells_nothing(port: HttpPort, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(HTTPError) as caught:
        urlopen(Request(f"{port.uri}/broken"))
    assert (caught.value.code, caught.value.read()) == (500, b"Internal Server Error\n")
    caught.value.close()
    assert "secret" in caplog.text


def test_whoever_sends_slowly_is_let_go(port: HttpPort, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_port, "REQUEST_SECONDS", 0.1)
    held = [connect(port) for _ in range(THREADS)]
    try:
        for each in held:
            each.sendall(b"GET /well")
        assert b"well" in answer_to(port, b"GET /well HTTP/1.0\r\n\r\n")
        assert all(b" 408 " in each.recv(100) for each in held)
    finally:
        for each in held:
            each.close()


def test_connections_that_say_nothing_hold_up_nobody(port: HttpPort) -> None:
    held = [connect(port) for _ in range(MOST_READING + 3)]
    try:
        for _ in range(5):
            assert b"well" in answer_to(port, b"GET /well HTTP/1.0\r\n\r\n")
        # The first of them have made room.
        assert all(b" 408 " in each.recv(100) for each in held[:3])
        held[-1].sendall(b"GET /we")
        held[-1].sendall(b"ll HTTP/1.0\r\n\r\n")
        assert b"well" in held[-1].recv(1000)
    finally:
        for each in held:
            each.close()


class _SlowPages:
    def __init__(self) -> None:
        self.is_ready = threading.Event()

    def page(self, path: str) -> Page:
        self.is_ready.wait(60)
        return Page(HTTPStatus.OK, path.encode())


def test_requests_that_wait_take_no_more_descriptors_than_are_meant_for_them() -> None:
    pages = _SlowPages()
    made = HttpPort("127.0.0.1", 0, pages)
    made.start()
    place = urlsplit(made.uri)
    taken: list[socket.socket] = []
    try:
        with pytest.raises(TimeoutError):
            for _ in range(10 * (THREADS + WAITING)):
                taken.append(socket.create_connection((place.hostname, place.port), timeout=3))
                taken[-1].sendall(b"GET /well HTTP/1.0\r\n\r\n")
        pages.is_ready.set()
        assert len(taken) > THREADS + WAITING
        for each in taken:
            each.settimeout(60)
            assert each.recv(1000).startswith(b"HTTP/1.1 200")
    finally:
        pages.is_ready.set()
        for each in taken:
            each.close()
        made.stop()


def test_a_port_that_stops_closes_what_was_coming() -> None:
    made = HttpPort("127.0.0.1", 0, _Pages())
    made.start()
    with connect(made) as client:
        client.sendall(b"GET /well")
        assert b"well" in answer_to(made, b"GET /well HTTP/1.0\r\n\r\n")
        made.stop()
        assert client.recv(100) == b""


def test_a_taken_port_is_told(port: HttpPort) -> None:
    with pytest.raises(InvalidInput, match="choose another --http-address"):
        HttpPort("127.0.0.1", urlsplit(port.uri).port or 0, _Pages())
