"""Where brackets are opened and closed."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})


def brackets_around(tokens: Sequence[Token]) -> list[int]:
    """Where the bracket around each token is opened; -1 outside of all.

    Args:
        tokens: The tokens of a text.
    """
    opened, made = [-1], []
    for place, token in enumerate(tokens):
        if token.token_type in CLOSING and len(opened) > 1:
            opened.pop()
        made.append(opened[-1])
        if token.token_type in OPENING:
            opened.append(place)
    return made


def ends_of_brackets(tokens: Sequence[Token]) -> dict[int, int]:
    """Where brackets are closed, by the places where they are opened.

    Args:
        tokens: The tokens of a text.
    """
    ends: dict[int, int] = {}
    opened: list[int] = []
    for place, token in enumerate(tokens):
        if token.token_type in OPENING:
            opened.append(place)
        elif token.token_type in CLOSING and opened:
            ends[opened.pop()] = place
    return ends
