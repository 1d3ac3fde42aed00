"""Refuses statements that are too long while they are bytes of a message: to read the message, and its text
in it, takes several times as much.
"""

from __future__ import annotations

from engine.errors import LimitExceeded
from engine.sql.literals import longest_text_error
from flight_server.wire.fragment_messages import FRAGMENT_MARK
from flight_server.wire.messages import long_fields, packed_name
from flight_server.wire.tickets import COMMAND_MARK, STATEMENT_MARK

_JSON = b"{"
_WITH_TEXT = frozenset({"CommandStatementQuery", "ActionCreatePreparedStatementRequest"})
_WITH_HANDLE = frozenset({"CommandPreparedStatementQuery", "ActionClosePreparedStatementRequest"})
_TIMES_OF_FRAGMENT = 4
"""How many times as long the text of a fragment may be: conditions are written wherever they hold."""


def check_ticket(ticket: bytes, longest: int) -> None:
    """See that the statement of a ticket is not too long.

    Args:
        ticket: Any bytes.
        longest: Bytes of the longest text.

    Raises:
        LimitExceeded: It is longer.
        InvalidInput: The bytes are a message that holds more than it can have.
    """
    if len(ticket) <= longest:
        return
    if ticket.startswith(STATEMENT_MARK):
        _check_text("StatementHandle", "sql", ticket, len(STATEMENT_MARK), len(ticket), longest)
    elif ticket.startswith(FRAGMENT_MARK):
        most = _TIMES_OF_FRAGMENT * longest
        _check_text("FragmentRequest", "sql", ticket, len(FRAGMENT_MARK), len(ticket), most)
    elif ticket.startswith(_JSON):
        _check_json(ticket, longest)
    elif not ticket.startswith(COMMAND_MARK):
        raise longest_text_error(longest)


def check_command(command: bytes, longest: int) -> None:
    """See that the statement of a command, or of an action that takes one, is not too long.

    Args:
        command: Any bytes.
        longest: Bytes of the longest text.

    Raises:
        LimitExceeded: It is longer.
        InvalidInput: The bytes are a message that holds more than it can have.
    """
    if len(command) <= longest:
        return
    if command.startswith(_JSON):
        _check_json(command, longest)
        return
    # This comes first, as it bounds how many fields there are.
    value = long_fields("Any", command).get("value")
    name = packed_name(command)
    if value is None:
        return
    if name in _WITH_TEXT:
        _check_text(name, "query", command, value.begin, value.end, longest)
    elif name in _WITH_HANDLE:
        handle = long_fields(name, command, value.begin, value.end).get("prepared_statement_handle")
        if handle is not None:
            begin = handle.begin + len(STATEMENT_MARK)
            _check_text("StatementHandle", "sql", command, begin, handle.end, longest)


def _check_text(name: str, field: str, data: bytes, begin: int, end: int, longest: int) -> None:
    text = long_fields(name, data, begin, end).get(field)
    if text is not None and text.end - text.begin > longest:
        raise longest_text_error(longest)


def _check_json(body: bytes, longest: int) -> None:
    if len(body) > longest:
        raise LimitExceeded(
            f"The statement's JSON takes {len(body):,} bytes; this host reads at most {longest:,}: bind long "
            "values as parameters of Flight SQL."
        )
