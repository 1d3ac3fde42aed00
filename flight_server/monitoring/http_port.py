"""A small HTTP port: GET of a few pages, by a few threads, each request within a few seconds.

Python's own `http.server` reads as long as a client sends, and takes a thread for each connection. This one
reads one short request of a connection, answers it and hangs up: whoever sends slowly, or keeps connections
open, holds up one of a few threads for a few seconds, and nothing else of the host.
"""

from __future__ import annotations

import errno
import logging
import selectors
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

from engine.errors import InvalidInput

THREADS = 3
"""Requests that are answered at once; a few more wait."""
WAITING = 16
REQUEST_SECONDS = 3.0
"""How long a request may take to arrive."""
ANSWER_SECONDS = 10.0
"""How long a client may take to read its answer."""
LONGEST_REQUEST = 8192
"""Bytes of a request with its headers."""
_SECONDS_WITHOUT_DESCRIPTORS = 0.05
"""How long nobody is asked for a connection where the process can open no more."""
PLAIN_TEXT = "text/plain; charset=utf-8"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Page:
    """An answer.

    Attributes:
        status: HTTP's status.
        body: What is sent.
        content_type: What that is.
    """

    status: HTTPStatus
    body: bytes
    content_type: str = PLAIN_TEXT


class Pages(Protocol):
    """What the port has to show."""

    def page(self, path: str) -> Page | None:
        """The page at a path, as it is now; None where there is none."""


class _RequestError(Exception):
    """What is no request that is answered.

    Args:
        status: What the client is told.
    """

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class HttpPort:
    """Listens, and answers from threads of its own. It listens as soon as it exists, and answers once it is
    started.

    Args:
        address: Name or number of the interface.
        port: Where; 0 takes a free port.
        pages: What there is to show.

    Attributes:
        uri: Where it is.

    Raises:
        InvalidInput: It cannot listen there.
    """

    def __init__(self, address: str, port: int, pages: Pages) -> None:
        self._pages = pages
        try:
            family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][0]
            self._listener = socket.create_server((address, port), family=family, backlog=WAITING)
        except OSError as error:
            raise InvalidInput(
                f"Probes and metrics cannot be answered on {address} port {port}: {error.strerror}; choose "
                "another --http-address."
            ) from error
        self._listener.setblocking(False)
        self._waker, self._wakened = socket.socketpair()
        shown = f"[{address}]" if ":" in address else address
        self.uri = f"http://{shown}:{self._listener.getsockname()[1]}"
        self._threads = [
            threading.Thread(target=self._run, name=f"http {number}", daemon=True)
            for number in range(1, THREADS + 1)
        ]

    def start(self) -> None:
        """Answer from now on."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Answer no more, and give the port back. May be called again."""
        if self._listener.fileno() < 0:
            return
        self._waker.close()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        self._listener.close()
        self._wakened.close()

    def _run(self) -> None:
        with selectors.DefaultSelector() as ready:
            ready.register(self._listener, selectors.EVENT_READ)
            ready.register(self._wakened, selectors.EVENT_READ)
            while all(key.fileobj is not self._wakened for key, _ in ready.select()):
                try:
                    connection, _ = self._listener.accept()
                except OSError as error:
                    # Another thread was sooner, or the client has gone. Without a descriptor it stays to be
                    # accepted.
                    if error.errno in (errno.EMFILE, errno.ENFILE):
                        time.sleep(_SECONDS_WITHOUT_DESCRIPTORS)
                    continue
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.sendall(_answer_bytes(self._page(connection)))
                # The client has the answer when it hangs up, whatever it has sent beside its request.
                connection.shutdown(socket.SHUT_WR)
            except OSError:
                # The client is gone, or reads too slowly.
                return
            except Exception:  # noqa: BLE001 - the top of a thread
                _log.exception("A request for a probe or for metrics failed in a way nobody expected.")

    def _page(self, connection: socket.socket) -> Page:
        try:
            path = _read_path(connection)
        except _RequestError as error:
            return _error_page(error.status)
        connection.settimeout(ANSWER_SECONDS)
        try:
            return self._pages.page(path) or _error_page(HTTPStatus.NOT_FOUND)
        except Exception:  # noqa: BLE001 - whoever asks is told nothing of it
            _log.exception("The page %s failed in a way nobody expected.", path[:100])
            return _error_page(HTTPStatus.INTERNAL_SERVER_ERROR)


def _read_path(connection: socket.socket) -> str:
    """The path that a client asks for.

    Raises:
        _RequestError: It asks for nothing that can be answered.
        OSError: It is gone.
    """
    until = time.monotonic() + REQUEST_SECONDS
    received = b""
    while b"\r\n\r\n" not in received:
        left = until - time.monotonic()
        if left <= 0:
            raise _RequestError(HTTPStatus.REQUEST_TIMEOUT)
        connection.settimeout(left)
        try:
            piece = connection.recv(LONGEST_REQUEST)
        except TimeoutError:
            raise _RequestError(HTTPStatus.REQUEST_TIMEOUT) from None
        received += piece
        if not piece:
            raise _RequestError(HTTPStatus.BAD_REQUEST)
        if len(received) > LONGEST_REQUEST:
            raise _RequestError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    words = received.partition(b"\r\n")[0].split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        raise _RequestError(HTTPStatus.BAD_REQUEST)
    if words[0] != b"GET":
        raise _RequestError(HTTPStatus.METHOD_NOT_ALLOWED)
    return words[1].partition(b"?")[0].decode("ascii", "replace")


def _error_page(status: HTTPStatus) -> Page:
    return Page(status, f"{status.phrase}\n".encode())


def _answer_bytes(page: Page) -> bytes:
    lines: Sequence[str] = (
        f"HTTP/1.1 {page.status.value} {page.status.phrase}",
        f"Content-Type: {page.content_type}",
        f"Content-Length: {len(page.body)}",
        "Cache-Control: no-store",
        "Connection: close",
        *(["Allow: GET"] if page.status is HTTPStatus.METHOD_NOT_ALLOWED else []),
    )
    return "\r\n".join([*lines, "", ""]).encode() + page.body
