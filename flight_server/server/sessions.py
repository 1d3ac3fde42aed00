"""Who calls, and with which session options.

A session lives with the client: its options are in the cookie that `SetSessionOptions` answers with. Nothing
is kept on the host, so any host can take the next call. JDBC always sends cookies back, ADBC with
`adbc.flight.sql.rpc.with_cookie_middleware=true`. Clients without cookies send the headers
`livestate-dialect`, `livestate-timeout`, `livestate-min-epoch`, `livestate-max-staleness`, `livestate-as-of`
and `livestate-parallel-endpoints` with each call; they win over the cookie.
"""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyarrow import flight

from engine.errors import InvalidInput
from engine.model.read_point import NEWEST, ReadPoint
from flight_server.wire.read_point_options import READ_POINT_OPTIONS, parse_read_point, read_point_values
from flight_server.wire.tickets import Statement, checked_timeout

MIDDLEWARE = "livestate"
COOKIE = "arrow_flight_session_id"
DIALECT_HEADER = "livestate-dialect"
TIMEOUT_HEADER = "livestate-timeout"
MIN_EPOCH_HEADER = "livestate-min-epoch"
MAX_STALENESS_HEADER = "livestate-max-staleness"
AS_OF_HEADER = "livestate-as-of"
PARALLEL_HEADER = "livestate-parallel-endpoints"
_OPTION_HEADERS = frozenset(
    {
        "cookie",
        DIALECT_HEADER,
        TIMEOUT_HEADER,
        MIN_EPOCH_HEADER,
        MAX_STALENESS_HEADER,
        AS_OF_HEADER,
        PARALLEL_HEADER,
    }
)
_ANYBODY = "anybody"
"""The bearer token that a host without a token hands out; drivers with a user name insist on getting one."""


@dataclass(frozen=True)
class SessionOptions:
    """What a client set for its queries.

    Attributes:
        dialect: SQL dialect; empty: the host's default.
        timeout_seconds: How long a query may run; None: as long as the host allows.
        read_point: Which epochs it may read.
        parallel_endpoints: Results may be given as several endpoints, one a host, where nothing has to be
            done with their rows.
    """

    dialect: str = ""
    timeout_seconds: float | None = None
    read_point: ReadPoint = NEWEST
    parallel_endpoints: bool = False

    def to_cookie(self) -> str:
        """The value of a Set-Cookie header that `caller_options` understands when it comes back."""
        options = {
            "dialect": self.dialect,
            "timeout_seconds": self.timeout_seconds,
            "parallel_endpoints": self.parallel_endpoints,
        }
        document = json.dumps({**options, **read_point_values(self.read_point)})
        value = base64.urlsafe_b64encode(document.encode()).decode().rstrip("=")
        return f"{COOKIE}={value}; Path=/"

    def statement(self, sql: str) -> Statement:
        """A statement with these options."""
        return Statement(
            sql,
            self.dialect,
            self.timeout_seconds,
            read_point=self.read_point,
            parallel=self.parallel_endpoints,
        )

    def with_read_point(self, name: str, value: object) -> SessionOptions:
        """The same with one limit of the read point changed.

        Args:
            name: `min_epoch`, `max_staleness` or `as_of`.
            value: As `flight_server.wire.read_point_options.parse_read_point` takes it.

        Returns:
            The options, of which that one is changed.

        Raises:
            InvalidInput: The value is none of that option.
        """
        return replace(
            self, read_point=parse_read_point(**{**read_point_values(self.read_point), name: value})
        )


_COOKIE_FIELDS = ("dialect", "timeout_seconds", "parallel_endpoints", *READ_POINT_OPTIONS)
FORGET_COOKIE = f"{COOKIE}=; Path=/; Max-Age=0"
NO_OPTIONS = SessionOptions()
"""Those of a client that has set none."""
_FLAGS = {"true": True, "false": False, "": False}
_WISH_HEADERS = {"min_epoch": MIN_EPOCH_HEADER, "max_staleness": MAX_STALENESS_HEADER, "as_of": AS_OF_HEADER}


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
        token: What callers must present, as a bearer token or as the password of Basic authentication; None:
            nothing.
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
        if self._token is not None and not any(
            _proves(value, self._token) for value in headers.get("authorization", ())
        ):
            raise flight.FlightUnauthenticatedError(
                "This host wants a token: send it as a bearer token, or as the password of any user"
            )
        if info.method == flight.FlightMethod.HANDSHAKE:
            return _Caller(
                headers, {"authorization": f"Bearer {self._token if self._token is not None else _ANYBODY}"}
            )
        return None if _OPTION_HEADERS.isdisjoint(headers) else _Caller(headers, {})


class OpenHandshake(flight.ServerAuthHandler):  # type: ignore[misc] # pyarrow has no types
    """Lets every handshake pass: Flight answers none without a handler, and `CallerFactory` has checked the
    headers before.
    """

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
        return NO_OPTIONS
    options = _read_cookies(caller.headers.get("cookie", ()))
    for dialect in caller.headers.get(DIALECT_HEADER, ()):
        options = replace(options, dialect=dialect)
    for text in caller.headers.get(TIMEOUT_HEADER, ()):
        options = replace(options, timeout_seconds=_seconds(text))
    for text in caller.headers.get(PARALLEL_HEADER, ()):
        options = replace(options, parallel_endpoints=checked_flag(text))
    for name, header in _WISH_HEADERS.items():
        for text in caller.headers.get(header, ()):
            options = options.with_read_point(name, text)
    return options


def checked_flag(value: object) -> bool:
    """Whether the option parallel_endpoints is on.

    Args:
        value: What somebody sent; drivers whose connection properties are texts send `true` and `false`.

    Raises:
        InvalidInput: It is none of these.
    """
    flag = _FLAGS.get(value.lower()) if isinstance(value, str) else bool(value)
    if flag is None or not isinstance(value, str | bool | None):
        raise InvalidInput("The option parallel_endpoints must be true or false.")
    return flag


def _seconds(text: str) -> float | None:
    try:
        return checked_timeout(float(text))
    except ValueError as error:
        raise InvalidInput(f"The header {TIMEOUT_HEADER} must be a number of seconds above 0.") from error


def _read_cookies(headers: list[str]) -> SessionOptions:
    for header in headers:
        for cookie in header.split(";"):
            name, _, value = cookie.strip().partition("=")
            if name == COOKIE and value:
                return _parse_cookie(value)
    return NO_OPTIONS


def _parse_cookie(value: str) -> SessionOptions:
    try:
        document = json.loads(base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)))
        dialect, timeout, parallel, *read_point = (document[name] for name in _COOKIE_FIELDS)
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput("The session cookie is not one of this host's: connect anew.") from error
    if not isinstance(dialect, str):
        raise InvalidInput("The session cookie is not one of this host's: connect anew.")
    return SessionOptions(
        dialect, checked_timeout(timeout), parse_read_point(*read_point), checked_flag(parallel)
    )
