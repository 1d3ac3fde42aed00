"""SET and RESET as a host takes them.

A session lives in a cookie (`flight_server.wire.session_options`). So the answer to the call that prepares or
plans the statement carries the new cookie, and the call that runs it sees whether the client has sent it
back: one that keeps no cookies gets an error, and no answer as if its option were set.
"""

from __future__ import annotations

from typing import Any

from engine.catalog.show import SUCCESS_SCHEMA
from engine.errors import InvalidInput
from flight_server.server.sessions import caller_options, change_option
from flight_server.wire.settings import Setting

SETTING_SCHEMA = SUCCESS_SCHEMA
"""What the answer looks like."""


def change_session(setting: Setting, context: Any) -> None:
    """Give the caller a cookie in which an option is changed.

    Args:
        setting: The change.
        context: The call's `flight.ServerCallContext`.

    Raises:
        LivestateError: There is no such option, or it has no such value.
    """
    changed = change_option(caller_options(context), setting.name, setting.value)
    context.add_header("set-cookie", changed.to_set_cookie())


def check_session(setting: Setting, context: Any) -> None:
    """See that the caller's option is changed.

    Args:
        setting: The change.
        context: The call's `flight.ServerCallContext`.

    Raises:
        NotFound: There is no such option.
        InvalidInput: It has no such value, or is not changed.
    """
    options = caller_options(context)
    if change_option(options, setting.name, setting.value) != options:
        raise InvalidInput(
            f"SET has no effect: this client keeps no cookies, or sends the header of {setting.name} with "
            "each call. JDBC keeps them; ADBC does with adbc.flight.sql.rpc.with_cookie_middleware=true. Or "
            "give the option when connecting."
        )
