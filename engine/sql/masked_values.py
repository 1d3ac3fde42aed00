"""Texts for logs: what a statement does, without the values that it names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from engine.errors import InvalidInput
from engine.sql.tokens import LITERAL_TOKENS, dialect_of

LONGEST_TEXT = 100_000
"""Characters of a text that is cut into tokens for a log."""
_UNREADABLE = "(a text that cannot be shown without its values)"
_SQL_LINE = re.compile(r"(\s*(?:sql|engine|merge): )(.*)", re.DOTALL)
_VALUES_LINE = re.compile(r"(\s*(?:points: \d+|interval)).*", re.DOTALL)
_VALUES = LITERAL_TOKENS | {
    TokenType.NATIONAL_STRING,
    TokenType.RAW_STRING,
    TokenType.NATIONAL_RAW_STRING,
    TokenType.UNICODE_STRING,
}


def mask_values(sql: str, dialect: str = "duckdb") -> str:
    """A text with `?` for each of its literals, and without its comments.

    Args:
        sql: Any text.
        dialect: sqlglot's name of its dialect; empty for DuckDB's.

    Returns:
        The text on one line; a remark for what is no text of this dialect, or very long.
    """
    if len(sql) > LONGEST_TEXT:
        return _UNREADABLE
    try:
        tokens = dialect_of(dialect or "duckdb").tokenize(sql)
    except (SqlglotError, InvalidInput):
        return _UNREADABLE
    shown: list[str] = []
    end = -1
    for (start, last), is_value in sorted(_stretches(tokens).items()):
        if shown and start > end + 1:
            shown.append(" ")
        if not (is_value and start == end + 1 and shown[-1:] == ["?"]):
            shown.append("?" if is_value else sql[start : last + 1])
        end = last
    return " ".join("".join(shown).split())


def _stretches(tokens: Sequence[Token]) -> Mapping[tuple[int, int], bool]:
    """The stretches of a text that tokens stand for, each once, and whether a value is there: tokens that the
    text does not have are at the place of one that it has.
    """
    found: dict[tuple[int, int], bool] = {}
    before: Token | None = None
    for token in tokens:
        is_number_of_parameter = before is not None and before.text == "$"
        is_value = token.token_type in _VALUES and not is_number_of_parameter
        # The tokenizer takes `0xff` for a number and a name.
        is_rest_of_number = (
            before is not None
            and before.token_type is TokenType.NUMBER
            and token.token_type is TokenType.VAR
            and token.start == before.end + 1
        )
        before = token
        if token.token_type is not TokenType.HINT:
            place = token.start, token.end
            found[place] = found.get(place, False) or is_value or is_rest_of_number
    return found


def mask_plan(lines: Sequence[str]) -> list[str]:
    """The lines of EXPLAIN without values.

    Args:
        lines: As EXPLAIN gives them, in DuckDB's dialect.
    """
    return [_mask_line(line) for line in lines]


def _mask_line(line: str) -> str:
    found = _SQL_LINE.fullmatch(line)
    if found is not None:
        return found[1] + mask_values(found[2])
    found = _VALUES_LINE.fullmatch(line)
    return line if found is None else found[1]
