"""Numbers with exponents, as tokens: sqlglot takes `1e3-1e2` for the number `1e3-1` and the name `e2`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

_TWO_NUMBERS = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)[eE]\d+[+-].*")
_NUMBERS = frozenset({TokenType.NUMBER, TokenType.VAR})
_BEGINS = frozenset("0123456789.")
_KINDS = {
    "number": TokenType.NUMBER,
    "plus": TokenType.PLUS,
    "dash": TokenType.DASH,
    "dot": TokenType.DOT,
    "name": TokenType.VAR,
}
_PIECES = re.compile(
    r"(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)|(?P<plus>\+)|(?P<dash>-)|(?P<dot>\.)|(?P<name>\w+)"
)


def split_numbers(tokens: Sequence[Token]) -> list[Token]:
    """Tokens in which a sign behind an exponent with digits is an operator.

    Args:
        tokens: The tokens of a text in any dialect.
    """
    made: list[Token] = []
    place = 0
    while place < len(tokens):
        end = place + 1
        token = tokens[place]
        # Some dialects have names that begin with a digit.
        if token.token_type in _NUMBERS and token.text[:1] in _BEGINS and _TWO_NUMBERS.fullmatch(token.text):
            while end < len(tokens) and _goes_on(tokens[end - 1], tokens[end]):
                end += 1
            made += _pieces(tokens[place:end])
        else:
            made.append(tokens[place])
        place = end
    return made


def _goes_on(token: Token, following: Token) -> bool:
    """Whether a token stands right behind another one, and may be a part of a number."""
    return following.start == token.end + 1 and following.token_type in _KINDS.values()


def _pieces(tokens: Sequence[Token]) -> list[Token]:
    """Tokens that stand right behind each other, cut anew."""
    text = "".join(token.text for token in tokens)
    first, last = tokens[0], tokens[-1]
    made = []
    for piece in _PIECES.finditer(text):
        kind = _KINDS[str(piece.lastgroup)]
        start, end = (min(first.start + place, last.end) for place in (piece.start(), piece.end() - 1))
        made.append(Token(kind, piece[0], first.line, first.col, start, end))
    return made
