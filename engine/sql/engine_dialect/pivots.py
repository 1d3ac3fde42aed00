"""PIVOT where the parser does not know it: as a query beside others, and names of its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot.tokenizer_core import Token, TokenType

from engine.sql.engine_dialect.brackets import CLOSING, OPENING

PIVOTS = frozenset({TokenType.PIVOT, TokenType.UNPIVOT})
_SET_OPERATIONS = frozenset({TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT})
_BEFORE_QUERY = _SET_OPERATIONS | {
    *(TokenType.L_PAREN, TokenType.SEMICOLON, TokenType.ALL, TokenType.DISTINCT),
    *(TokenType.DESCRIBE, TokenType.SUMMARIZE),
}
_BEHIND_QUERY = _SET_OPERATIONS | {
    *(TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET, TokenType.FETCH),
}
_BESIDE_QUERY = _SET_OPERATIONS | {TokenType.ALL, TokenType.DISTINCT, TokenType.VAR}
_BEFORE_TABLE = frozenset({TokenType.FROM, TokenType.JOIN, TokenType.COMMA, TokenType.ALIAS, *PIVOTS})
_ENDS = CLOSING | {TokenType.SEMICOLON}
_QUERIES = frozenset({TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.VALUES, TokenType.TABLE})


def pivot_queries(tokens: Sequence[Token], closing: Mapping[int, int]) -> list[tuple[int, int]]:
    """Where queries that are a PIVOT begin and end, of those that stand where the parser knows none: before
    ORDER BY or the like, beside another query, or in an expression.

    Args:
        tokens: The tokens of a text.
        closing: Where its brackets are closed.

    Returns:
        For each its first token, and the one behind its last.
    """
    opening = {end: start for start, end in closing.items()}
    found: list[tuple[int, int]] = []
    # For each open bracket, where a PIVOT has begun in it, and whether the parser knows none there.
    begun: list[tuple[int, bool] | None] = [None]
    for place, token in enumerate([*tokens, None]):
        kind = TokenType.SEMICOLON if token is None else token.token_type
        latest = begun[-1]
        if latest is not None and (kind in _BEHIND_QUERY or (latest[1] and kind in _ENDS)):
            found.append((latest[0], place))
        if kind in _BEHIND_QUERY or kind in _ENDS:
            begun[-1] = None
        if kind in OPENING:
            begun.append(None)
        elif kind in CLOSING and len(begun) > 1:
            begun.pop()
        elif kind in PIVOTS and _begins_query(tokens, place, opening):
            begun[-1] = (place, _is_operand(tokens, place))
    return found


def _is_operand(tokens: Sequence[Token], place: int) -> bool:
    """Whether the query that begins at a place stands beside another one, or in an expression."""
    if place == 0 or tokens[place - 1].token_type is not TokenType.L_PAREN:
        return place > 0 and tokens[place - 1].token_type in _BESIDE_QUERY
    before = tokens[place - 2] if place > 1 else None
    return before is None or (
        before.token_type not in _BEFORE_TABLE and before.text.upper() != "MATERIALIZED"
    )


def _begins_query(tokens: Sequence[Token], place: int, opening: Mapping[int, int]) -> bool:
    """Whether the PIVOT at a place is a query, and not a part of FROM."""
    if place == 0:
        return True
    before = tokens[place - 1]
    if before.token_type is TokenType.R_PAREN:
        # It ends a common table expression, or a table of FROM.
        begin = opening.get(place - 1, 0)
        return begin > 0 and tokens[begin - 1].text.upper() in ("AS", "MATERIALIZED")
    is_by_name = before.text.upper() == "NAME" and place > 1 and tokens[place - 2].text.upper() == "BY"
    return before.token_type in _BEFORE_QUERY or is_by_name


def names_of_values(tokens: Sequence[Token], closing: Mapping[int, int]) -> dict[int, int]:
    """Where `AS` gives a value of `PIVOT … ON … IN (…)` a name, and where each value begins: the parser knows
    names there behind FOR alone.

    Args:
        tokens: The tokens of a text.
        closing: Where its brackets are closed.

    Returns:
        The places of `AS`, each with that of its value's first token.
    """
    found: dict[int, int] = {}
    is_on = False
    for place, token in enumerate(tokens):
        kind = token.token_type
        if kind is TokenType.ON or kind is TokenType.FOR:
            is_on = kind is TokenType.ON
        if kind is not TokenType.IN or not is_on or place + 1 not in closing:
            continue
        if tokens[place + 2].token_type in _QUERIES:
            continue
        start = inner = place + 2
        while inner < closing[place + 1]:
            if tokens[inner].token_type is TokenType.COMMA:
                start = inner + 1
            elif tokens[inner].token_type is TokenType.ALIAS:
                found[inner] = start
            inner = closing.get(inner, inner) + 1
    return found
