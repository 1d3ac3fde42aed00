"""Strings, comments and blanks in texts that are not parsed yet.

Every function and pattern here takes time in proportion to the text: what is not closed reaches to the end of
the text, also with a backslash there that escapes nothing, so that nothing is read twice in the search for an
end that is not there. The parser says what is wrong with such a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

STRING = r"'[^']*+(?:''[^']*+)*+(?:'|\Z)"
"""A string, in which only quotation marks are doubled."""
ESCAPE_STRING = r"\be'(?:[^'\\]|\\.|'')*+(?:'|\\?\Z)"
"""DuckDB's string with backslashes."""
BACKSLASH_STRING = r"'(?:[^'\\]|\\.|'')*+(?:'|\\?\Z)"
"""A string of dialects whose strings have backslashes."""
QUOTED_NAME = r'"[^"]*+(?:""[^"]*+)*+(?:"|\Z)'
BACKSLASH_NAME = r'"(?:[^"\\]|\\.|"")*+(?:"|\\?\Z)|`[^`]*+(?:`|\Z)'
VALUES_AT_ONCE = 1000
"""How many values of a list are matched at once: each takes some hundred bytes meanwhile."""
LINE_COMMENT = r"--[^\n\r]*+"
COMMENT_MARK = r"/\*"
"""The beginning of a comment, whose end `comment_end` finds."""
DOLLAR_MARK = r"\$(?:[^\W\d]\w*)?\$"
"""The beginning of a string between dollars, whose end `dollar_end` finds."""

_WINDOW = 1 << 13
"""Characters that are searched at once: no other thread runs meanwhile, for some milliseconds at the most."""
_LONGEST_MARK = 256
"""What is found so near to the end of a window may go on behind it."""
NO_WIDTH = "\u200b\u2060\ufeff"
"""Characters without width, which DuckDB takes for blanks: texts have them from pages and chats that they are
copied from, and files begin with one.
"""
_BLANKS = re.compile(rf"(?:[\s{NO_WIDTH}]|{LINE_COMMENT})*+")
_OTHER_WORDS = (
    rf"(?P<comment>{COMMENT_MARK})|(?P<dollar>{DOLLAR_MARK})|{LINE_COMMENT}"
    rf"|{ESCAPE_STRING}|{STRING}|{QUOTED_NAME}"
)
"""What may have any characters in it, in DuckDB's dialect."""
_WITHOUT_WIDTH = re.compile(rf"{_OTHER_WORDS}|(?P<found>[{NO_WIDTH}]+)", re.IGNORECASE | re.DOTALL)
_BACKTICK_NAME = re.compile(
    rf"{_OTHER_WORDS}|(?P<found>`[^`]*+(?:``[^`]*+)*+`)|`.*+", re.IGNORECASE | re.DOTALL
)
_COMMENT_MARKS = re.compile(r"/\*|\*/")


def search_in_turns(pattern: re.Pattern[str], text: str, start: int) -> re.Match[str] | None:
    """Search a text as `pattern.search` does, but let other threads run meanwhile.

    Args:
        pattern: What to look for: begins within `_LONGEST_MARK` characters of where it can be told apart.
        text: A text.
        start: Where to begin.

    Returns:
        What is found; None if there is nothing.
    """
    while True:
        end = start + _WINDOW
        if end >= len(text):
            return pattern.search(text, start)
        found = pattern.search(text, start, end)
        if found is None:
            start = end - _LONGEST_MARK
        elif found.end() <= end - _LONGEST_MARK:
            return found
        else:
            return pattern.search(text, found.start())


def comment_end(text: str, start: int) -> int:
    """Where a comment ends. Comments nest.

    Args:
        text: A text.
        start: Where `/*` stands.

    Returns:
        The place behind its `*/`; the end of the text if it is not closed.
    """
    depth = 0
    for mark in _COMMENT_MARKS.finditer(text, start):
        depth += 1 if mark[0] == "/*" else -1
        if not depth:
            return mark.end()
    return len(text)


def dollar_end(text: str, start: int, tag: str) -> int:
    """Where a string between dollars ends.

    Args:
        text: A text.
        start: Where the string begins, with its tag.
        tag: The tag, with its dollars.

    Returns:
        The place behind the second tag; the end of the text if there is none.
    """
    end = text.find(tag, start + len(tag))
    return len(text) if end < 0 else end + len(tag)


def blanks_end(text: str, start: int) -> int:
    """Where white space and comments end.

    Args:
        text: A text.
        start: Where to begin.

    Returns:
        The first place from there on that is neither.
    """
    while True:
        found = _BLANKS.match(text, start)
        start = start if found is None else found.end()
        if not text.startswith("/*", start):
            return start
        start = comment_end(text, start)


def with_plain_blanks(text: str) -> str:
    """A text of the same length, in DuckDB's dialect, with blanks for what DuckDB takes for blanks and
    sqlglot for parts of names.

    Args:
        text: Any text.
    """
    if not any(sign in text for sign in NO_WIDTH):
        return text
    parts, copied = list[str](), 0
    for found in _find_outside_words(_WITHOUT_WIDTH, text):
        parts += [text[copied : found.start()], " " * len(found[0])]
        copied = found.end()
    return "".join([*parts, text[copied:]])


def with_quoted_names(text: str) -> str:
    """A text in DuckDB's dialect with names between quotation marks that it has between backticks: DuckDB
    reads both. Of the same length, where no name has either in it.

    Args:
        text: Any text.
    """
    if "`" not in text:
        return text
    parts, copied = list[str](), 0
    for found in _find_outside_words(_BACKTICK_NAME, text):
        name = found[0][1:-1].replace("``", "`").replace('"', '""')
        parts += [text[copied : found.start()], f'"{name}"']
        copied = found.end()
    return "".join([*parts, text[copied:]])


def _find_outside_words(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """What a pattern calls `found`, in order; not within strings, names and comments.

    Args:
        pattern: One of `_OTHER_WORDS`, or what is looked for.
        text: A text in DuckDB's dialect.
    """
    place = 0
    while found := search_in_turns(pattern, text, place):
        place = found.end()
        if found.lastgroup == "comment":
            place = comment_end(text, found.start())
        elif found.lastgroup == "dollar":
            place = dollar_end(text, found.start(), found[0])
        elif found.lastgroup == "found":
            yield found
