"""Who calls, and with which session options.

A session lives with the client: its options are in the cookie that `SetSessionOptions` answers with. Nothing
is kept on the host, so any host can take the next call. JDBC always sends cookies back, ADBC with
`adbc.flight.sql.rpc.with_cookie_middleware=true`. Clients without cookies send the headers
`livestate-dialect`, `livestate-timeout`, `livestate-min-epoch`, `livestate-max-staleness`, `livestate-as-of`,
`livestate-allow-stale` and `livestate-parallel-endpoints` with each call; they win over the cookie. The
header `livestate-statement` is the id of a statement (`flight_server.wire.call_headers`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyarrow import flight

from engine.access.principal import NOBODY, Principal
from engine.errors import InvalidInput, LimitExceeded, LivestateError
from engine.sql.tokens import dialect_of
from engine.telemetry.spans import TRACE_HEADERS
from flight_server.identity.authenticator import Authenticator
from flight_server.server.audit import AuditLog
from flight_server.server.open_calls import OpenCalls
from flight_server.server.statement_meter import StatementMeter
from flight_server.wire.call_headers import MIDDLEWARE, STATEMENT_HEADER
from flight_server.wire.read_point_options import parse_flag
from flight_server.wire.session_options import NO_OPTIONS, SessionOptions, parse_cookies
from flight_server.wire.tickets import checked_timeout

_log = logging.getLogger(__name__)

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
_ANYBODY = "anybody"
"""The bearer token of a host that asks nobody; drivers with a user name insist on getting one."""
_WISH_HEADERS = {
    "min_epoch": MIN_EPOCH_HEADER,
    "max_staleness": MAX_STALENESS_HEADER,
    "as_of": AS_OF_HEADER,
    "allow_stale": ALLOW_STALE_HEADER,
}


class _Caller(flight.ServerMiddleware):  # type: ignore[misc] # pyarrow has no types
    """Headers of one call that livestate cares for, as they came; and whether options are among them. A
    call that is counted is so until it ends.
    """

    def __init__(
        self,
        headers: Mapping[str, list[str]],
        response: Mapping[str, str],
        principal: Principal | None,
        counted: OpenCalls | None = None,
    ) -> None:
        self.headers = headers
        self.principal = principal
        self.has_options = not _OPTION_HEADERS.isdisjoint(headers)
        self._response = response
        self._counted = counted

    def sending_headers(self) -> Mapping[str, str]:
        return self._response

    def call_completed(self, exception: Exception | None) -> None:
        if self._counted is not None and self.principal is not None:
            self._counted.end(self.principal.name)
            self._counted = None


class CallerFactory(flight.ServerMiddlewareFactory):  # type: ignore[misc] # pyarrow has no types
    """Looks at the headers of each call: proof of identity if the host wants one, and session options.

    Args:
        authenticator: Knows who presents what; None: nobody is asked.
        open_calls: Counts the calls of those who prove themselves by a header.
        audit: Gets a line for each who is refused; None: there is none.
        meter: Counts who is refused; None: nobody does.
    """

    def __init__(
        self,
        authenticator: Authenticator | None,
        open_calls: OpenCalls,
        audit: AuditLog | None = None,
        meter: StatementMeter | None = None,
    ) -> None:
        self._authenticator = authenticator
        self._open_calls = open_calls
        self._audit = audit
        self._meter = meter

    def start_call(self, info: Any, headers: Mapping[str, list[str]]) -> _Caller | None:
        """Let a call in, or not.

        Args:
            info: Which RPC it is.
            headers: Values by lower-case name.

        Returns:
            What to remember of it; None: nothing.

        Raises:
            flight.FlightUnauthenticatedError: The caller did not prove who it is.
            flight.FlightServerError: Too many log in at once to find it out, or it has too many calls under
                way.
        """
        try:
            return self._let_in(info, headers)
        except LivestateError as error:
            self._count(error)
            is_busy = isinstance(error, LimitExceeded)
            refusal = flight.FlightServerError if is_busy else flight.FlightUnauthenticatedError
            # pyarrow adds to the text.
            raise refusal(error.message.rstrip(".")) from None
        except Exception as error:  # noqa: BLE001 - the last line before the network: pyarrow would send the traceback
            _log.exception("it could not be found out who calls")
            self._count(error)
            raise flight.FlightUnauthenticatedError("The host could not find out who calls") from None

    def _count(self, error: Exception) -> None:
        if self._meter is not None:
            self._meter.note_failure(error)

    def _let_in(self, info: Any, headers: Mapping[str, list[str]]) -> _Caller | None:
        authenticator, bearer, principal = self._authenticator, _ANYBODY, None
        if authenticator is not None:
            proofs = headers.get("authorization", ())
            try:
                principal = authenticator.principal_of_headers(proofs)
                if info.method == flight.FlightMethod.HANDSHAKE:
                    bearer = authenticator.bearer(proofs)
            except LivestateError as error:
                if self._audit is not None:
                    # Flight tells no address at this place.
                    self._audit.write("refused", NOBODY, "", {"error": error.message})
                raise
        if info.method == flight.FlightMethod.HANDSHAKE:
            return _Caller(headers, {"authorization": f"Bearer {bearer}"}, principal)
        if principal is None:
            return None if _OPTION_HEADERS.isdisjoint(headers) else _Caller(headers, {}, None)
        self._count_call(principal)
        return _Caller(headers, {}, principal, self._open_calls)

    def _count_call(self, principal: Principal) -> None:
        try:
            self._open_calls.begin(principal.name)
        except LimitExceeded as error:
            # No handler is told of the call.
            _log.warning(
                "Refused (LimitExceeded): %s", error.message, extra={"repeats": f"calls {principal.name}"}
            )
            if self._audit is not None:
                self._audit.write("refused", principal, "", {"error": error.message})
            raise


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
    options = parse_cookies(caller.headers.get("cookie", ()))
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


def change_option(options: SessionOptions, name: str, value: object) -> SessionOptions:
    """Options of which one is changed, as `SessionOptions.change`; the dialect must be one that hosts know.

    Raises:
        NotFound: There is no such option.
        InvalidInput: The value is none of that option.
    """
    changed = options.change(name, value)
    if name == "dialect" and changed.dialect:
        dialect_of(changed.dialect)
    return changed


def _seconds(text: str) -> float | None:
    try:
        return checked_timeout(float(text))
    except ValueError as error:
        raise InvalidInput(f"The header {TIMEOUT_HEADER} must be a number of seconds above 0.") from error
