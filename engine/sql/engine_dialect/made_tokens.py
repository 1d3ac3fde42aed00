"""Tokens that a text does not have, and names that are hidden from the parser."""

from __future__ import annotations

import re

from sqlglot.tokenizer_core import Token, TokenType

HIDDEN = "\x00"
"""Begins the name of a function that the parser is not to know. No text that DuckDB reads has it."""
ITSELF = f"{HIDDEN}{HIDDEN}"
"""Names the function that stands for its argument, which is what IN looks into."""
NAMED = f"{HIDDEN}as"
"""Names the function that stands for a value with a name."""
ELEMENT = f"{HIDDEN}element"
"""Names an element of a tuple, which has no name."""
_NO_NAMES = frozenset({TokenType.STRING, TokenType.NUMBER, TokenType.END})
_WORD = re.compile(r"\w")


def is_name(token: Token) -> bool:
    """Whether a token is a name, or a word that could be one."""
    return token.token_type is TokenType.IDENTIFIER or (
        token.token_type not in _NO_NAMES and _WORD.match(shown_name(token)) is not None
    )


def shown_name(token: Token) -> str:
    """The name that a token has in the text."""
    return token.text.removeprefix(HIDDEN)


def token_near(kind: TokenType, text: str, near: Token) -> Token:
    """A token that the text does not have, at the place of one that it has."""
    return Token(kind, text, near.line, near.col, near.start, near.end)


def token_over(kind: TokenType, text: str, first: Token, last: Token) -> Token:
    """One token that stands for several."""
    return Token(kind, text, last.line, last.col, first.start, last.end)
