"""Options of a session, which clients set for their statements; and the cookie that carries them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from engine.errors import InvalidInput, NotFound
from engine.model.catalog_names import CATALOG, SCHEMA
from engine.model.read_point import NEWEST, ReadPoint
from flight_server.wire.json_bodies import parse_json
from flight_server.wire.read_point_options import (
    READ_POINT_OPTIONS,
    parse_flag,
    parse_read_point,
    read_point_values,
)
from flight_server.wire.tickets import Statement, checked_timeout

COOKIE = "arrow_flight_session_id"
FORGET_COOKIE = f"{COOKIE}=; Path=/; Max-Age=0"
_COOKIE_FIELDS = ("dialect", "timeout_seconds", "parallel_endpoints", *READ_POINT_OPTIONS)
_LATER_COOKIE_FIELDS = {"allow_stale": False}
"""Fields that the cookies of older versions do not have."""
_ONLY = {"catalog": CATALOG, "schema": SCHEMA}
"""Options with one value, which they have anyway."""


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

    @property
    def values(self) -> dict[str, object]:
        """Those that are set, by name: texts, numbers and truth values that `change` takes."""
        values: dict[str, object] = {
            "dialect": self.dialect,
            "timeout": self.timeout_seconds,
            **read_point_values(self.read_point),
            "parallel_endpoints": self.parallel_endpoints,
        }
        # 0 is a value, of min_epoch, say.
        return {
            name: value
            for name, value in values.items()
            if value is not None and value is not False and value != ""
        }

    def to_cookie(self) -> str:
        """The cookie that `parse_cookies` understands when it comes back: `name=value`."""
        options = {
            "dialect": self.dialect,
            "timeout_seconds": self.timeout_seconds,
            "parallel_endpoints": self.parallel_endpoints,
        }
        document = json.dumps({**options, **read_point_values(self.read_point)})
        value = base64.urlsafe_b64encode(document.encode()).decode().rstrip("=")
        return f"{COOKIE}={value}"

    def to_set_cookie(self) -> str:
        """The value of a Set-Cookie header that has a client send the cookie from then on."""
        return f"{self.to_cookie()}; Path=/"

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
                empty text to take it back. Only a host knows which dialects there are.

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
        if name != "dialect" and name not in _ONLY:
            raise NotFound(
                f"There is no session option {name!r}; there are dialect, timeout, "
                f"{', '.join(READ_POINT_OPTIONS)}, parallel_endpoints, catalog and schema."
            )
        if not isinstance(value, str | None):
            raise InvalidInput(f"The session option {name} must be a text.")
        if name == "dialect":
            return replace(self, dialect=value or "")
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


NO_OPTIONS = SessionOptions()
"""Those of a client that has set none."""


def _number(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return float(value) if value else None
    except ValueError as error:
        raise InvalidInput("The session option timeout must be a number of seconds above 0.") from error


def parse_cookies(headers: Iterable[str]) -> SessionOptions:
    """The options that a call brings.

    Args:
        headers: The values of its Cookie headers.

    Returns:
        Those of the session's cookie; `NO_OPTIONS` where there is none.

    Raises:
        InvalidInput: The cookie is not one of livestate's.
    """
    for header in headers:
        for cookie in header.split(";"):
            name, _, value = cookie.strip().partition("=")
            if name == COOKIE and value:
                return _parse_cookie(value)
    return NO_OPTIONS


def _parse_cookie(value: str) -> SessionOptions:
    try:
        document = parse_json(base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)))
        found = _LATER_COOKIE_FIELDS | document
        dialect, timeout, parallel, *read_point = (found[name] for name in _COOKIE_FIELDS)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidInput("The session cookie is not one of this host's: connect anew.") from error
    if not isinstance(dialect, str) or not dialect.isascii():
        raise InvalidInput("The session cookie is not one of this host's: connect anew.")
    return SessionOptions(
        dialect,
        checked_timeout(timeout),
        parse_read_point(*read_point),
        parse_flag("parallel_endpoints", parallel),
    )
