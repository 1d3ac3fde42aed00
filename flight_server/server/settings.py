"""SET and RESET: options of a session, changed by a statement.

A session lives in a cookie (`flight_server.server.sessions`). So the answer to the call that prepares or
plans the statement carries the new cookie, and the call that runs it sees whether the client has sent it
back: one that keeps no cookies gets an error, and no answer as if its option were set.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from engine.catalog.show import SUCCESS_SCHEMA
from engine.errors import InvalidInput
from flight_server.server.sessions import SessionOptions, caller_options

_MAYBE = re.compile(r"\s*(?:re)?set\b", re.IGNORECASE)
_VALUE = r"""'(?P<string>(?:[^']|'')*+)'|"(?P<quoted>[^"]*+)"|(?P<plain>[-+.@:\w]+)"""
_SETTING = re.compile(
    rf"\s*(?:RESET\s+(?P<reset>\w+)|SET\s+(?:SESSION\s+)?(?P<name>\w+)\s*(?:=|\bTO\b)\s*(?:{_VALUE}))\s*;?\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Setting:
    """A change of an option.

    Attributes:
        name: The option.
        value: Its new value as text; None to take it back.
    """

    name: str
    value: str | None

    @property
    def schema(self) -> pa.Schema:
        """What its answer looks like."""
        return SUCCESS_SCHEMA

    def change(self, context: Any) -> None:
        """Give the caller a cookie in which the option is changed.

        Args:
            context: The call's `flight.ServerCallContext`.

        Raises:
            LivestateError: There is no such option, or it has no such value.
        """
        context.add_header("set-cookie", self._changed_options(caller_options(context)).to_cookie())

    def check(self, context: Any) -> None:
        """See that the caller's option is changed.

        Args:
            context: The call's `flight.ServerCallContext`.

        Raises:
            InvalidInput: It is not.
        """
        options = caller_options(context)
        if self._changed_options(options) != options:
            raise InvalidInput(
                f"SET has no effect: this client keeps no cookies, or sends the header of {self.name} with "
                "each call. JDBC keeps them; ADBC does with adbc.flight.sql.rpc.with_cookie_middleware=true. "
                "Or give the option when connecting."
            )

    def _changed_options(self, options: SessionOptions) -> SessionOptions:
        return options.change(self.name, self.value)


def setting_of(text: str) -> Setting | None:
    """The change that a statement asks for.

    Args:
        text: Any statement.

    Returns:
        The change; None for any other statement.

    Raises:
        InvalidInput: It begins as such a statement, and goes on in another way.
    """
    if _MAYBE.match(text) is None:
        return None
    found = _SETTING.fullmatch(text)
    if found is None:
        raise InvalidInput("Write SET name = value, or RESET name, with an option of the session.")
    if found["reset"] is not None:
        return Setting(found["reset"].lower(), None)
    string, quoted = found["string"], found["quoted"]
    value = string.replace("''", "'") if string is not None else quoted
    return Setting(found["name"].lower(), found["plain"] if value is None else value)
