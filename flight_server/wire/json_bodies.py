"""JSON that a client or a host has sent, counted before it is read: a value of two bytes takes some hundred
once it is an object of Python's.
"""

from __future__ import annotations

import json
import re
from typing import Any

from engine.errors import InvalidInput

SHORT_BYTES = 64 << 10
"""More than a document takes that holds neither a statement nor what a host tells of its stores."""
MOST_VALUES = 1 << 16
"""Of a document, names among them."""
_MARKS = (b",", b":", b"[", b"{")
"""There is one of these for each value but the outermost."""
_WINDOW = 1 << 18
"""Bytes that are looked at before another thread may run."""
_STRING_OR_MARK = re.compile(rb'"[^"]*(?:"|\Z)|([,:\[{])')
"""A string without escapes, or a mark."""


def parse_json(body: bytes, most_bytes: int = SHORT_BYTES, most_values: int = MOST_VALUES) -> Any:
    """Read a document.

    Args:
        body: UTF-8 JSON.
        most_bytes: How long it may be.
        most_values: How many values it may hold, names among them.

    Returns:
        What it says.

    Raises:
        InvalidInput: It is longer, or has more values.
        ValueError: It is no JSON.
        RecursionError: It nests too deeply.
    """
    if len(body) > most_bytes:
        raise InvalidInput(
            f"The JSON takes {len(body):,} bytes; at most {most_bytes:,} are read here: send less in it."
        )
    if _has_more_marks(body, most_values) and _has_more_values(body, most_values):
        raise InvalidInput(
            f"The JSON has more than {most_values:,} values: bind a list as a parameter of Flight SQL, or "
            "send fewer."
        )
    # Bytes would be read as UTF-16, too, and with halves of surrogate pairs.
    return json.loads(body.decode())


def _has_more_marks(body: bytes, most: int) -> bool:
    """Whether there are more marks, with those in strings: most documents have few."""
    count = 0
    for begin in range(0, len(body), _WINDOW):
        count += sum(body.count(mark, begin, begin + _WINDOW) for mark in _MARKS)
        if count > most:
            return True
    return False


def _has_more_values(body: bytes, most: int) -> bool:
    # Without these two a quotation mark begins or ends a string.
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = strings = 0
    for found in _STRING_OR_MARK.finditer(plain):
        if found.lastindex is None:
            strings += 1
        else:
            marks += 1
        if marks > most or strings > most + 1:
            return True
    return False
