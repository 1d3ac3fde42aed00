"""Headers of a call that say which statement it is about.

A host takes the id of whoever begins a statement, if it is well formed: a client's, or that of the host that
asks for a fragment. Without one, the id is the call id of the statement's ticket in hexadecimal digits, so
planning and running have the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.telemetry.spans import TRACE_HEADERS, trace_headers
from engine.telemetry.statement_ids import is_statement_id, new_statement_id, statement_id

MIDDLEWARE = "livestate"
"""Under which name a server's middleware keeps the headers of a call."""
STATEMENT_HEADER = "livestate-statement"


def statement_headers() -> list[tuple[bytes, bytes]]:
    """What a call to a host carries, of the statement that this thread works for, and of its trace."""
    statement = statement_id()
    headers = [(STATEMENT_HEADER.encode(), statement.encode())] if statement else []
    return headers + [(name.encode(), value.encode()) for name, value in trace_headers().items()]


def statement_of_call_id(call_id: bytes) -> str:
    """The id of a statement of which no header says one.

    Args:
        call_id: What its execution is known by; may be empty.

    Returns:
        The same in hexadecimal digits, where that is an id; else a new one.
    """
    if not call_id:
        return new_statement_id()
    found = call_id.hex()
    return found if is_statement_id(found) else new_statement_id()


def statement_of_headers(headers: Mapping[str, Sequence[str]]) -> str:
    """The id that a call brings; empty for none that is well formed.

    Args:
        headers: Values by lower-case name.
    """
    return next((text for text in headers.get(STATEMENT_HEADER, ()) if is_statement_id(text)), "")


def trace_of_call(context: Any) -> Mapping[str, str]:
    """The headers of a trace that a call is part of; none where it is of none.

    Args:
        context: The call's `flight.ServerCallContext`.
    """
    caller = context.get_middleware(MIDDLEWARE)
    known: Mapping[str, Sequence[str]] = {} if caller is None else caller.headers
    return {name: known[name][0] for name in TRACE_HEADERS if known.get(name)}


def statement_of_call(context: Any) -> str:
    """The id that a call brings; empty for none that is well formed.

    Args:
        context: The call's `flight.ServerCallContext`.
    """
    caller = context.get_middleware(MIDDLEWARE)
    return "" if caller is None else statement_of_headers(caller.headers)
