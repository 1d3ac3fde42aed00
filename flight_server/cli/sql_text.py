"""Where SQL statements end in a text that a person types or a file holds."""

from __future__ import annotations

import re

_PIECE = re.compile(
    r"""
      '(?:[^']|'')*(?:'|\Z)             # a text, closed or not
    | "(?:[^"]|"")*(?:"|\Z)             # a quoted name
    | --[^\n]*                          # a comment up to the end of the line
    | /\*(?:(?!\*/).)*(?:\*/|\Z)
    | (?P<end>;)
    | [^'"\-/;]+ | [-/]                 # everything else
    """,
    re.VERBOSE | re.DOTALL,
)
COMMAND_WORDS = frozenset({"help", "quit", "exit"})
"""Words that a prompt understands without a backslash and a semicolon."""


def split_statements(text: str) -> tuple[list[str], str]:
    """Cut a text at the semicolons that end statements: those outside of texts, quoted names and comments.

    Args:
        text: SQL, any number of statements.

    Returns:
        The statements that a semicolon ended, without it and stripped, empty ones left out; and what is
        behind the last one, empty if that is nothing but comments.
    """
    statements: list[str] = []
    start = 0
    for piece in _PIECE.finditer(text):
        if piece["end"]:
            statements.append(text[start : piece.start()].strip())
            start = piece.end()
    rest = text[start:].strip()
    return [statement for statement in statements if _strip_comments(statement)], rest if _strip_comments(
        rest
    ) else ""


def is_complete(text: str) -> bool:
    r"""Whether a prompt should run a text now: it is empty, a command such as `\q`, or its last statement has
    ended.

    Args:
        text: What was typed so far.

    Returns:
        False to read another line.
    """
    typed = text.strip()
    if not typed or typed.startswith("\\") or typed.lower() in COMMAND_WORDS:
        return True
    statements, rest = split_statements(typed)
    return bool(statements) and not rest


def _strip_comments(text: str) -> str:
    return "".join(
        piece[0] for piece in _PIECE.finditer(text) if not piece[0].startswith(("--", "/*"))
    ).strip()
