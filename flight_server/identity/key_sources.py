"""Where the keys of JSON Web Tokens come from: a file, or an address that is asked again."""

from __future__ import annotations

import io
import logging
import socket
import threading
import time
import urllib.error
import urllib.request
from http.client import HTTPException, HTTPMessage, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import IO, Any

from engine.access.security_file import SECRET_ALGORITHMS, JwtOptions
from engine.errors import InvalidInput, LivestateError
from flight_server.client.secret_files import read_secret
from flight_server.identity.web_tokens import SigningKeys, parse_keys

SECONDS_BETWEEN_ASKS = 30.0
"""How often an address is asked at most, however many tokens name keys that nobody knows."""
REFRESH_SECONDS = 600.0
"""After how long it is asked again, so that a key that its owner has withdrawn is not taken any more."""
TIMEOUT_SECONDS = 5.0
"""How long an address has for its whole answer."""
LARGEST_ANSWER = 2**20
MOST_WAITING = 64
"""How many calls wait at once for keys that are fetched; others go by those that are known."""

_log = logging.getLogger(__name__)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: it could lead to an address that nobody has named."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> None:
        return None


class _TimedStream(io.RawIOBase):
    """What comes from a socket until a moment. The time-out of a socket is for each piece: a server that
    sends a byte now and then would never meet it.

    Args:
        connected: The socket.
        ends: When all must have come, by the monotonic clock.
    """

    def __init__(self, connected: socket.socket, ends: float) -> None:
        self._socket = connected
        self._pieces = connected.makefile("rb", buffering=0)
        self._ends = ends

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)
        return self._pieces.readinto(buffer)

    def close(self) -> None:
        self._pieces.close()
        super().close()


def _answers_until(ends: float) -> type[HTTPResponse]:
    class TimedAnswer(HTTPResponse):
        def __init__(self, connected: socket.socket, *arguments: Any, **named: Any) -> None:
            super().__init__(connected, *arguments, **named)
            self.fp.close()
            self.fp = io.BufferedReader(_TimedStream(connected, ends))

    return TimedAnswer


class _TimedConnection(HTTPSConnection):
    """A connection whose time-out is for all that comes over it, headers and what a proxy says too.

    Args:
        host: Whom to connect to.
        timeout: Seconds, from now on.
        named: As `HTTPSConnection`.
    """

    def __init__(self, host: str, /, *, timeout: float = TIMEOUT_SECONDS, **named: Any) -> None:
        super().__init__(host, timeout=timeout, **named)
        self.response_class = _answers_until(time.monotonic() + timeout)


class _TimedConnections(urllib.request.HTTPSHandler):
    """Has requests made over a `_TimedConnection`."""

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_TimedConnection, req)


class KeySource:
    """The keys of one issuer. Usable from several threads.

    Args:
        options: Where they are, and what they may sign.
        directory: Where a file without a directory is.

    Attributes:
        document: What the file said; empty for an address.

    Raises:
        InvalidInput: They cannot be read, or hold no key that can be used.
    """

    def __init__(self, options: JwtOptions, directory: Path) -> None:
        self._options = options
        self._is_address = options.keys.startswith("https://")
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(MOST_WAITING)
        self._asked = time.monotonic()
        self.document = b"" if self._is_address else self._read_file(directory / options.keys)
        self._keys = self._read_address() if self._is_address else parse_keys(self.document, options)

    def keys(self, key_id: str) -> SigningKeys:
        """The keys, asked for again if one is wanted that is not among them, or they are old.

        Args:
            key_id: The key that is wanted.
        """
        if key_id in self._keys.keys:
            self._ask_again(REFRESH_SECONDS)
        elif self._is_address and self._places.acquire(blocking=False):
            # Whoever asks now may come back with it.
            try:
                self._ask_again(SECONDS_BETWEEN_ASKS, TIMEOUT_SECONDS)
            finally:
                self._places.release()
        return self._keys

    def are_current(self, keys: SigningKeys) -> bool:
        """Whether keys are those that are good now, which are asked for again if they are old.

        Args:
            keys: As `keys` has given them before.
        """
        self._ask_again(REFRESH_SECONDS)
        return keys is self._keys

    def _ask_again(self, after_seconds: float, wait_seconds: float = 0.0) -> None:
        if not wait_seconds and not self._is_due(after_seconds):
            return
        if self._lock.acquire(timeout=wait_seconds):
            try:
                # Looked at with the lock: those who have waited ask no second time.
                if self._is_due(after_seconds):
                    self._asked = time.monotonic()
                    self._keys = self._read_address()
            except LivestateError as error:
                # Those that are known stay good: an issuer that is away for a while locks nobody out.
                _log.warning(
                    "the keys of JSON Web Tokens stay as they were: %s",
                    error.message,
                    extra={"repeats": "keys"},
                )
            finally:
                self._lock.release()

    def _is_due(self, after_seconds: float) -> bool:
        return self._is_address and time.monotonic() - self._asked > after_seconds

    def _read_file(self, file: Path) -> bytes:
        if self._options.algorithms[0] in SECRET_ALGORITHMS:
            return read_secret(file, "The secret that signs JSON Web Tokens")
        try:
            return file.read_bytes()[: LARGEST_ANSWER + 1]
        except OSError as error:
            raise InvalidInput(
                f"The keys that sign JSON Web Tokens cannot be read: {error.strerror}."
            ) from error

    def _read_address(self) -> SigningKeys:
        opener = urllib.request.build_opener(_NoRedirects, _TimedConnections)
        try:
            with opener.open(self._options.keys, timeout=TIMEOUT_SECONDS) as answer:
                data = answer.read(LARGEST_ANSWER + 1)
        except (urllib.error.URLError, HTTPException, OSError, ValueError) as error:
            raise InvalidInput(
                f"The keys that sign JSON Web Tokens cannot be fetched from {self._options.keys}: "
                f"{_reason(error)}."
            ) from error
        if len(data) > LARGEST_ANSWER:
            raise InvalidInput("The keys that sign JSON Web Tokens are larger than 1 MiB.")
        return parse_keys(data, self._options)


def _reason(error: Exception) -> str:
    """Why an address has no answer, for whoever runs the host."""
    if isinstance(error, urllib.error.HTTPError):
        return f"it answers with status {error.code}"
    found = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(found, TimeoutError):
        return f"it has no answer within {TIMEOUT_SECONDS:g} seconds"
    return str(found) or type(found).__name__
