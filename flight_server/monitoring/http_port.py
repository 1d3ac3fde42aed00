"""A small HTTP port: GET of a few pages, by a few threads, each request within a few seconds.

Python's own `http.server` reads as long as a client sends, and takes a thread for each connection. This one
reads one short request of a connection, answers it and hangs up. One thread reads all requests as they come,
so that whoever sends slowly, or keeps connections open, holds up nobody.
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
from queue import Queue
from typing import Protocol

from engine.errors import InvalidInput

THREADS = 3
"""Requests that are answered at once; others wait."""
WAITING = 16
"""How many of these; while there are as many, nothing more is read."""
MOST_READING = 64
"""Connections whose requests are still to come; of more, the one that was first is let go."""
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


@dataclass
class _Request:
    """A request that is still coming.

    Attributes:
        connection: Where from.
        until: When it has to be there, by the monotonic clock.
        received: What of it is.
    """

    connection: socket.socket
    until: float
    received: bytes = b""


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
        self._received: Queue[tuple[socket.socket, str | HTTPStatus] | None] = Queue(WAITING)
        """Connections with the path that each asks for, or what it is told instead; None: no more come."""
        self._threads = [
            threading.Thread(target=self._read_requests, name="http", daemon=True),
            *(
                threading.Thread(target=self._answer_requests, name=f"http {number}", daemon=True)
                for number in range(1, THREADS + 1)
            ),
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

    def _read_requests(self) -> None:
        coming: dict[socket.socket, _Request] = {}
        with selectors.DefaultSelector() as ready:
            ready.register(self._listener, selectors.EVENT_READ)
            ready.register(self._wakened, selectors.EVENT_READ)
            while True:
                first = next(iter(coming.values()), None)
                found = ready.select(None if first is None else max(0.0, first.until - time.monotonic()))
                sources = [key.fileobj for key, _ in found]
                if self._wakened in sources:
                    break
                # All have as long, so they are overdue in the order in which they came.
                overdue = [each for each in coming.values() if each.until <= time.monotonic()]
                if self._listener in sources:
                    self._accept(ready, coming)
                    overdue += list(coming.values())[: max(0, len(coming) - MOST_READING)]
                ended: dict[socket.socket, str | HTTPStatus] = {
                    each.connection: HTTPStatus.REQUEST_TIMEOUT for each in overdue
                }
                for connection in coming.keys() & set(sources):
                    outcome = _read_some(coming[connection])
                    if outcome is not None:
                        ended[connection] = outcome
                for connection, outcome in ended.items():
                    ready.unregister(connection)
                    del coming[connection]
                    self._received.put((connection, outcome))
        for connection in coming:
            connection.close()
        for _ in range(THREADS):
            self._received.put(None)

    def _accept(self, ready: selectors.BaseSelector, coming: dict[socket.socket, _Request]) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError as error:
            # The client has gone. Without a descriptor it stays to be accepted.
            if error.errno in (errno.EMFILE, errno.ENFILE):
                time.sleep(_SECONDS_WITHOUT_DESCRIPTORS)
            return
        connection.setblocking(False)
        ready.register(connection, selectors.EVENT_READ)
        coming[connection] = _Request(connection, time.monotonic() + REQUEST_SECONDS)

    def _answer_requests(self) -> None:
        while (received := self._received.get()) is not None:
            connection, asked = received
            with connection:
                try:
                    connection.settimeout(ANSWER_SECONDS)
                    page = self._page(asked) if isinstance(asked, str) else _error_page(asked)
                    connection.sendall(_answer_bytes(page))
                    # The client has the answer when it hangs up, whatever it has sent beside its request.
                    connection.shutdown(socket.SHUT_WR)
                except OSError:
                    # The client is gone, or reads too slowly.
                    continue
                except Exception:  # noqa: BLE001 - the top of a thread
                    _log.exception("A request for a probe or for metrics failed in a way nobody expected.")

    def _page(self, path: str) -> Page:
        try:
            return self._pages.page(path) or _error_page(HTTPStatus.NOT_FOUND)
        except Exception:  # noqa: BLE001 - whoever asks is told nothing of it
            _log.exception("The page %s failed in a way nobody expected.", path[:100])
            return _error_page(HTTPStatus.INTERNAL_SERVER_ERROR)


def _read_some(request: _Request) -> str | HTTPStatus | None:
    """Read what has come of a request: the path that it asks for, or what is told instead; None while more of
    it has to come.
    """
    try:
        piece = request.connection.recv(LONGEST_REQUEST)
    except BlockingIOError:
        return None
    except OSError:
        return HTTPStatus.BAD_REQUEST
    request.received += piece
    if b"\r\n\r\n" in request.received:
        return _path_of(request.received)
    if len(request.received) > LONGEST_REQUEST:
        return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    return None if piece else HTTPStatus.BAD_REQUEST


def _path_of(received: bytes) -> str | HTTPStatus:
    words = received.partition(b"\r\n")[0].split(b" ")
    if len(received) > LONGEST_REQUEST:
        return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        return HTTPStatus.BAD_REQUEST
    if words[0] != b"GET":
        return HTTPStatus.METHOD_NOT_ALLOWED
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
