"""What is said of a text that is no SQL, from what the tokenizer and the parser say."""

from __future__ import annotations

import re

from sqlglot.errors import ParseError, TokenError

from engine.errors import InvalidInput
from engine.sql.text import SourceText

_MISSING = re.compile(r"Missing (\S+) from \d+:(\d+)")
"""What sqlglot's tokenizer says of a quote that is not closed, and how many characters are before it."""


def token_error(source: SourceText, body: str, error: TokenError) -> InvalidInput:
    """What keeps a text from being cut into tokens: mostly something that is not closed."""
    missing = _MISSING.fullmatch(str(error.__context__))
    if missing is not None:
        return source.error(f"{missing[1]} is not closed.", int(missing[2]))
    if isinstance(error.__context__, IndexError) and "/*" in body:
        return source.error("A comment is not closed: */ is missing.", body.rfind("/*"))
    return source.error(f"The statement cannot be read: {first_line(str(error))}", None)


def syntax_error(source: SourceText, body: str, error: ParseError) -> InvalidInput:
    """Where the parser does not go on."""
    details = error.errors[0] if error.errors else {}
    line, column = details.get("line"), details.get("col")
    near = str(details.get("highlight") or "")
    what = f"Syntax error at {near[:40]!r}." if near.strip() else "Syntax error."
    if line is None or column is None:
        return source.error(what, None)
    # sqlglot counts columns up to the end of the token.
    start = _line_start(body, int(line)) + int(column) - max(len(near), 1)
    return source.error(what, max(start, 0))


def _line_start(text: str, line: int) -> int:
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
    return start


def first_line(text: str) -> str:
    """The first line of what a library says, and not too much of it."""
    return text.split("\n", 1)[0][:200]
