"""One moment for all systems that are compared: `now()` gives it in livestate, whose clock can be set, and
stands as a literal in the texts for plain DuckDB, whose clock cannot.
"""

from __future__ import annotations

import datetime as dt
import re

STATEMENT_TIME = dt.datetime(2024, 2, 29, 12, 30, 15, 123456, dt.UTC)
"""What `now()` gives."""

_PLAIN = STATEMENT_TIME.replace(tzinfo=None)
_LITERALS = {
    "now()": f"TIMESTAMPTZ '{STATEMENT_TIME}'",
    "current_timestamp": f"TIMESTAMPTZ '{STATEMENT_TIME}'",
    "get_current_timestamp()": f"TIMESTAMPTZ '{STATEMENT_TIME}'",
    "transaction_timestamp()": f"TIMESTAMPTZ '{STATEMENT_TIME}'",
    "current_localtimestamp()": f"TIMESTAMP '{_PLAIN}'",
    "localtimestamp": f"TIMESTAMP '{_PLAIN}'",
    "current_date": f"DATE '{_PLAIN.date()}'",
    "today()": f"DATE '{_PLAIN.date()}'",
    "current_localtime()": f"TIME '{_PLAIN.time()}'",
    "localtime": f"TIME '{_PLAIN.time()}'",
}
CLOCK_FUNCTIONS = tuple(_LITERALS)
"""Functions that read the clock, as `with_statement_time` knows them."""
_CALL = re.compile(
    "|".join(rf"\b{re.escape(call)}{'' if call.endswith(')') else '(?![(_])'}" for call in _LITERALS)
)


def statement_clock() -> int:
    """A clock that stands still at the moment, in nanoseconds since 1970."""
    return (STATEMENT_TIME - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1) * 1000


def with_statement_time(sql: str) -> str:
    """A statement with literals in place of functions that read the clock."""
    return _CALL.sub(lambda found: _LITERALS[found[0]], sql.replace("ago(", "(now() - "))
