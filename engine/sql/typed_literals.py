"""Literals that begin with their types, such as `DATE '2024-05-01'`: sqlglot reads them otherwise than DuckDB
where something is behind them.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from engine.sql.engine_dialect.made_tokens import token_near

_BEHIND_LITERALS = frozenset({TokenType.DCOLON, TokenType.L_BRACKET})
_MOST_TOKENS_OF_TYPE = 6
"""Of DECIMAL(8, 2)."""


def bracket_typed_literals(tokens: Sequence[Token]) -> Sequence[Token]:
    """Tokens with brackets around such literals: the parser takes `DATE '2024-05-01'::VARCHAR` for a date.

    Args:
        tokens: The tokens of a text in DuckDB's dialect.
    """
    opened, closed = set[int](), set[int]()
    for place, token in enumerate(tokens):
        if token.token_type in _BEHIND_LITERALS:
            begin = begin_of_typed_literal(tokens, place - 1)
            if begin is not None:
                opened.add(begin)
                closed.add(place - 1)
    if not opened:
        return tokens
    made: list[Token] = []
    for place, token in enumerate(tokens):
        if place in opened:
            made.append(token_near(TokenType.L_PAREN, "(", token))
        made.append(token)
        if place in closed:
            made.append(token_near(TokenType.R_PAREN, ")", token))
    return made


def begin_of_typed_literal(tokens: Sequence[Token], end: int) -> int | None:
    """The first token of a literal that begins with its type.

    Args:
        tokens: The tokens of a text.
        end: The place of its last token.

    Returns:
        The place; None where no such literal ends.
    """
    if end < 1 or tokens[end].token_type is not TokenType.STRING:
        return None
    begin = end - 1
    if tokens[begin].text.upper() == "ZONE":
        begin -= 3
    elif tokens[begin].token_type is TokenType.R_PAREN:
        brackets = range(begin, max(begin - _MOST_TOKENS_OF_TYPE, 0), -1)
        begin = next((place for place in brackets if tokens[place].token_type is TokenType.L_PAREN), 0) - 1
    return begin if begin >= 0 and tokens[begin].token_type in Parser.TYPE_TOKENS else None
