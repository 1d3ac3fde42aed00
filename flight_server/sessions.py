"""Who calls, and with which session options.

A session lives with the client: its options are in the cookie that `SetSessionOptions` answers with. Nothing is kept on the host, so any host can
take the next call. JDBC always sends cookies back, ADBC with `adbc.flight.sql.rpc.with_cookie_middleware=true`. Clients without
cookies send the headers `livestate-dialect` and `livestate-timeout` with each call; they win over the cookie.
"""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from pyarrow import flight

from engine.errors import InvalidInput
from flight_server.tickets import checked_timeout

MIDDLEWARE = "livestate"
COOKIE = "arrow_flight_session_id"
DIALECT_HEADER = "livestate-dialect"
TIMEOUT_HEADER = "livestate-timeout"
_ANYBODY = "anybody"
"""The bearer token that a host without a token hands out; drivers with a user name insist on getting one."""


@dataclass(frozen=True)
class SessionOptions:
    """What a client set for its queries.

    Attributes:
        dialect: SQL dialect; empty: the host's default.
        timeout_seconds: How long a query may run; None: as long as the host allows.
    """

    dialect: str = ""
    timeout_seconds: float | None = None

    def to_cookie(self) -> str:
        """The value of a Set-Cookie header that `caller_options` understands when it comes back."""
        value = base64.urlsafe_b64encode(json.dumps(asdict(self)).encode()).decode().rstrip("=")
        return f"{COOKIE}={value}; Path=/"


FORGET_COOKIE = f"{COOKIE}=; Path=/; Max-Age=0"
_DEFAULTS = SessionOptions()


class _Caller(flight.ServerMiddleware):  # type: ignore[misc] # pyarrow has no types
    """Headers of one call that livestate cares for, as they came."""

    def __init__(self, headers: Mapping[str, list[str]], response: Mapping[str, str]) -> None:
        self.headers = headers
        self._response = response

    def sending_headers(self) -> Mapping[str, str]:
        return self._response


class CallerFactory(flight.ServerMiddlewareFactory):  # type: ignore[misc] # pyarrow has no types
    """Looks at the headers of each call: proof of identity if the host wants one, and session options.

    Args:
        token: What callers must present, as a bearer token or as the password of Basic authentication; None: nothing.
    """

    def __init__(self, token: str | None) -> None:
        self._token = token

    def start_call(self, info: Any, headers: Mapping[str, list[str]]) -> _Caller | None:
        """Let a call in, or not.

        Args:
            info: Which RPC it is.
            headers: Values by lower-case name.

        Returns:
            What to remember of it; None: nothing.

        Raises:
            flight.FlightUnauthenticatedError: The caller did not prove who it is.
        """
        if self._token is not None and not any(_proves(value, self._token) for value in headers.get("authorization", ())):
            raise flight.FlightUnauthenticatedError("This host wants a token: send it as a bearer token, or as the password of any user")
        if info.method == flight.FlightMethod.HANDSHAKE:
            return _Caller(headers, {"authorization": f"Bearer {self._token if self._token is not None else _ANYBODY}"})
        if "cookie" in headers or DIALECT_HEADER in headers or TIMEOUT_HEADER in headers:
            return _Caller(headers, {})
        return None


class OpenHandshake(flight.ServerAuthHandler):  # type: ignore[misc] # pyarrow has no types
    """Lets every handshake pass: Flight answers none without a handler, and `CallerFactory` has checked the headers before."""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        """Nothing to exchange."""

    def is_valid(self, token: bytes) -> bytes:
        """Nobody has another identity than the headers say."""
        return b""


def _proves(authorization: str, token: str) -> bool:
    scheme, _, proof = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return hmac.compare_digest(proof.encode(), token.encode())
    if scheme.lower() != "basic":
        return False
    try:
        # Go's client leaves the padding out.
        pair = base64.b64decode(proof + "=" * (-len(proof) % 4))
    except ValueError:
        return False
    return hmac.compare_digest(pair.partition(b":")[2], token.encode())


def caller_options(context: Any) -> SessionOptions:
    """The session options of a call.

    Args:
        context: The call's `flight.ServerCallContext`.

    Returns:
        What the cookie and the headers say.

    Raises:
        InvalidInput: The cookie is not one of livestate's, or the timeout is no number above 0.
    """
    caller = context.get_middleware(MIDDLEWARE)
    if caller is None:
        return _DEFAULTS
    options = _from_cookies(caller.headers.get("cookie", ()))
    for dialect in caller.headers.get(DIALECT_HEADER, ()):
        options = replace(options, dialect=dialect)
    for text in caller.headers.get(TIMEOUT_HEADER, ()):
        options = replace(options, timeout_seconds=_seconds(text))
    return options


def _seconds(text: str) -> float | None:
    try:
        return checked_timeout(float(text))
    except ValueError as error:
        raise InvalidInput(f"The header {TIMEOUT_HEADER} must be a number of seconds above 0.") from error


def _from_cookies(headers: list[str]) -> SessionOptions:
    for header in headers:
        for cookie in header.split(";"):
            name, _, value = cookie.strip().partition("=")
            if name == COOKIE and value:
                return _from_cookie(value)
    return _DEFAULTS


def _from_cookie(value: str) -> SessionOptions:
    try:
        document = json.loads(base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)))
        dialect, timeout = document["dialect"], document["timeout_seconds"]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput("The session cookie is not one of this host's: connect anew.") from error
    if not isinstance(dialect, str):
        raise InvalidInput("The session cookie is not one of this host's: connect anew.")
    return SessionOptions(dialect, checked_timeout(timeout))
