"""Who calls, and with which session options.

A session lives with the client: its options are in the cookie that `SetSessionOptions` answers with. Nothing
is kept on the host, so any host can take the next call. JDBC always sends cookies back, ADBC with
`adbc.flight.sql.rpc.with_cookie_middleware=true`. Clients without cookies send the headers
`livestate-dialect`, `livestate-timeout`, `livestate-min-epoch`, `livestate-max-staleness`, `livestate-as-of`,
`livestate-allow-stale` and `livestate-parallel-endpoints` with each call; they win over the cookie. The
header `livestate-statement` is the id of a statement (`flight_server.wire.call_headers`).
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyarrow import flight

from engine.access.principal import NOBODY, Principal
from engine.errors import InvalidInput, LivestateError, NotFound
from engine.model.read_point import NEWEST, ReadPoint
from engine.sql.catalog_tables import CATALOG, SCHEMA
from engine.sql.tokens import dialect_of
from engine.telemetry.spans import TRACE_HEADERS
from flight_server.identity.authenticator import Authenticator
from flight_server.server.audit import AuditLog
from flight_server.wire.call_headers import MIDDLEWARE, STATEMENT_HEADER
from flight_server.wire.read_point_options import (
    READ_POINT_OPTIONS,
    parse_flag,
    parse_read_point,
    read_point_values,
)
from flight_server.wire.tickets import Statement, checked_timeout

_log = logging.getLogger(__name__)

COOKIE = "arrow_flight_session_id"
DIALECT_HEADER = "livestate-dialect"
TIMEOUT_HEADER = "livestate-timeout"
MIN_EPOCH_HEADER = "livestate-min-epoch"
MAX_STALENESS_HEADER = "livestate-max-staleness"
AS_OF_HEADER = "livestate-as-of"
ALLOW_STALE_HEADER = "livestate-allow-stale"
PARALLEL_HEADER = "livestate-parallel-endpoints"
_OPTION_HEADERS = frozenset(
    {
        "cookie",
        DIALECT_HEADER,
        TIMEOUT_HEADER,
        MIN_EPOCH_HEADER,
        MAX_STALENESS_HEADER,
        AS_OF_HEADER,
        ALLOW_STALE_HEADER,
        PARALLEL_HEADER,
        STATEMENT_HEADER,
        *TRACE_HEADERS,
    }
)
_ONLY = {"catalog": CATALOG, "schema": SCHEMA}
"""Options with one value, which they have anyway."""
_ANYBODY = "anybody"
"""The bearer token of a host that asks nobody; drivers with a user name insist on getting one."""


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

    def change(self, name: str, value: object) -> SessionOptions:
        """The same with one option changed.

        Args:
            name: The option.
            value: Its value, or the text of it, as drivers have it whose properties are texts; None or an
                empty text to take it back.

        Returns:
            The options, of which that one is changed.

        Raises:
            NotFound: There is no such option.
            InvalidInput: The value is none of that option.
        """
        if name == "timeout":
            return replace(self, timeout_seconds=checked_timeout(_number(value)))
        if name == "parallel_endpoints":
            return replace(self, parallel_endpoints=parse_flag("parallel_endpoints", value))
        if name in READ_POINT_OPTIONS:
            return self.with_read_point(name, value)
        if not isinstance(value, str | None):
            raise InvalidInput(f"The session option {name} must be a text.")
        if name == "dialect":
            if value:
                dialect_of(value)
            return replace(self, dialect=value or "")
        if name not in _ONLY:
            raise NotFound(
                f"There is no session option {name!r}; there are dialect, timeout, "
                f"{', '.join(READ_POINT_OPTIONS)}, parallel_endpoints, catalog and schema."
            )
        if value not in (None, "", _ONLY[name]):
            raise InvalidInput(f"There is only the {name} {_ONLY[name]}.")
        return self

    def with_read_point(self, name: str, value: object) -> SessionOptions:
        """The same with one limit of the read point changed.

        Args:
            name: One of `READ_POINT_OPTIONS`.
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
_LATER_COOKIE_FIELDS = {"allow_stale": False}
"""Fields that the cookies of older versions do not have."""
FORGET_COOKIE = f"{COOKIE}=; Path=/; Max-Age=0"
NO_OPTIONS = SessionOptions()
"""Those of a client that has set none."""
_WISH_HEADERS = {
    "min_epoch": MIN_EPOCH_HEADER,
    "max_staleness": MAX_STALENESS_HEADER,
    "as_of": AS_OF_HEADER,
    "allow_stale": ALLOW_STALE_HEADER,
}


class _Caller(flight.ServerMiddleware):  # type: ignore[misc] # pyarrow has no types
    """Headers of one call that livestate cares for, as they came; and whether options are among them."""

    def __init__(
        self, headers: Mapping[str, list[str]], response: Mapping[str, str], principal: Principal | None
    ) -> None:
        self.headers = headers
        self.principal = principal
        self.has_options = not _OPTION_HEADERS.isdisjoint(headers)
        self._response = response

    def sending_headers(self) -> Mapping[str, str]:
        return self._response


class CallerFactory(flight.ServerMiddlewareFactory):  # type: ignore[misc] # pyarrow has no types
    """Looks at the headers of each call: proof of identity if the host wants one, and session options.

    Args:
        authenticator: Knows who presents what; None: nobody is asked.
        audit: Gets a line for each who is refused; None: there is none.
    """

    def __init__(self, authenticator: Authenticator | None, audit: AuditLog | None = None) -> None:
        self._authenticator = authenticator
        self._audit = audit

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
        authenticator, bearer, principal = self._authenticator, _ANYBODY, None
        if authenticator is not None:
            proofs = headers.get("authorization", ())
            try:
                principal = authenticator.principal_of_headers(proofs)
                if info.method == flight.FlightMethod.HANDSHAKE:
                    bearer = authenticator.bearer(proofs)
            except LivestateError as error:
                if self._audit is not None:
                    self._audit.write("refused", NOBODY, "", {"error": error.message})
                # pyarrow adds to the text.
                raise flight.FlightUnauthenticatedError(error.message.rstrip(".")) from None
            except Exception:  # noqa: BLE001 - the last line before the network: pyarrow would send the traceback
                _log.exception("it could not be found out who calls")
                raise flight.FlightUnauthenticatedError("The host could not find out who calls") from None
        if info.method == flight.FlightMethod.HANDSHAKE:
            return _Caller(headers, {"authorization": f"Bearer {bearer}"}, principal)
        if principal is None and _OPTION_HEADERS.isdisjoint(headers):
            return None
        return _Caller(headers, {}, principal)


class OpenHandshake(flight.ServerAuthHandler):  # type: ignore[misc] # pyarrow has no types
    """Lets every handshake pass: Flight answers none without a handler, and `CallerFactory` has checked the
    headers before.
    """

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        """Nothing to exchange."""

    def is_valid(self, token: bytes) -> bytes:
        """Nobody has another identity than the headers say."""
        return b""


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
    if caller is None or not caller.has_options:
        return NO_OPTIONS
    options = _read_cookies(caller.headers.get("cookie", ()))
    for dialect in caller.headers.get(DIALECT_HEADER, ()):
        options = replace(options, dialect=dialect)
    for text in caller.headers.get(TIMEOUT_HEADER, ()):
        options = replace(options, timeout_seconds=_seconds(text))
    for text in caller.headers.get(PARALLEL_HEADER, ()):
        options = replace(options, parallel_endpoints=parse_flag("parallel_endpoints", text))
    for name, header in _WISH_HEADERS.items():
        for text in caller.headers.get(header, ()):
            options = options.with_read_point(name, text)
    return options


def _number(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return float(value) if value else None
    except ValueError as error:
        raise InvalidInput("The session option timeout must be a number of seconds above 0.") from error


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
        found = _LATER_COOKIE_FIELDS | document
        dialect, timeout, parallel, *read_point = (found[name] for name in _COOKIE_FIELDS)
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput("The session cookie is not one of this host's: connect anew.") from error
    if not isinstance(dialect, str):
        raise InvalidInput("The session cookie is not one of this host's: connect anew.")
    return SessionOptions(
        dialect,
        checked_timeout(timeout),
        parse_read_point(*read_point),
        parse_flag("parallel_endpoints", parallel),
    )
