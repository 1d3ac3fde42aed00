"""Brackets around values that the parser takes for something else without them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.tokenizer_core import Token, TokenType

from engine.sql.engine_dialect.brackets import ends_of_brackets
from engine.sql.engine_dialect.made_tokens import ITSELF, shown_name, token_near
from engine.sql.engine_dialect.type_names import BEFORE_ARGUMENT

_SETS = frozenset({TokenType.ROLLUP, TokenType.CUBE, TokenType.GROUPING_SETS})
_GROUPED = _SETS | {TokenType.INTERVAL, TokenType.COLON, TokenType.FOR, TokenType.ARROW}
_GROUPING = frozenset({TokenType.INTERVAL, TokenType.ARROW, TokenType.L_BRACKET})
_LITERAL_TOKENS = frozenset({TokenType.STRING, TokenType.NUMBER})
_CONDITIONS = frozenset(
    {
        *(TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE),
        *(TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.IS, TokenType.ISNULL, TokenType.NOTNULL),
        *(TokenType.IN, TokenType.BETWEEN, TokenType.LIKE, TokenType.ILIKE, TokenType.GLOB),
        *(TokenType.SIMILAR_TO, TokenType.RLIKE, TokenType.TILDE, TokenType.COLLATE, TokenType.CARET_AT),
    }
)
"""What a key of a grouping set cannot have to the parser, outside of all brackets."""
_BOUND_ENDS = frozenset({TokenType.COLON, TokenType.R_BRACKET})
_NULLS = frozenset({"IGNORE", "RESPECT"})


def add_brackets_around_values(tokens: list[Token]) -> list[Token]:
    """Tokens with brackets around what the parser takes for something else without them, and with the names
    by which it knows functions of windows.

    Args:
        tokens: The tokens of a text.
    """
    if not any(
        token.token_type in _GROUPED or (len(token.text) == 5 and token.text.upper() == "NULLS")
        for token in tokens
    ):
        return tokens
    closing = ends_of_brackets(tokens)
    opened: dict[int, list[Token]] = {}
    ends: Counter[int] = Counter()
    for place, token in enumerate(tokens):
        if token.token_type in _SETS:
            for start, end in _conditions_in(tokens, place + 1, closing):
                opened[start] = [token_near(TokenType.L_PAREN, "(", token)]
                ends[end] += 1
        if token.token_type not in _GROUPING:
            continue
        start, end = _group(tokens, place, closing)
        if end > start:
            is_value = token.token_type is TokenType.ARROW
            name = [token_near(TokenType.VAR, ITSELF, token)] if is_value else []
            opened[start] = [*name, token_near(TokenType.L_PAREN, "(", token), *opened.get(start, ())]
            ends[end] += 1
    made: list[Token] = []
    for place, token in enumerate(tokens):
        made += [token_near(TokenType.R_PAREN, ")", token)] * ends[place]
        made += opened.get(place, ())
        made.append(_of_window(tokens, place, closing))
    return made


def _group(tokens: Sequence[Token], place: int, closing: Mapping[int, int]) -> tuple[int, int]:
    """Where what needs brackets because of the token at a place begins and ends; the place twice for
    nothing.
    """
    kind, end = tokens[place].token_type, closing.get(place, place)
    behind = tokens[place + 1].token_type if place + 1 < len(tokens) else TokenType.SEMICOLON
    if kind is TokenType.INTERVAL:
        # `INTERVAL 1 DAY + '2 …'`: the parser takes what is added for an interval, too.
        plus = closing.get(place + 1, place + 1) + 2
        is_sum = plus + 1 < len(tokens) and tokens[plus].token_type is TokenType.PLUS
        return place, plus if is_sum and tokens[plus + 1].token_type in _LITERAL_TOKENS else place
    if kind is TokenType.ARROW:
        # `f('…' -> 'a')`: the parser takes the string for a parameter of a lambda.
        before = tokens[place - 2].token_type if place > 1 else TokenType.SEMICOLON
        is_first = before in BEFORE_ARGUMENT and tokens[place - 1].token_type is TokenType.STRING
        return (place - 1, place) if is_first else (place, place)
    if kind is not TokenType.L_BRACKET or end == place:
        return place, place
    if (
        behind is TokenType.COLON
        and tokens[place + 2].token_type in DuckDB.parser_class.COLON_PLACEHOLDER_TOKENS
    ):
        # `l[:n]`: the parser takes `:n` for a parameter.
        return place + 2, _end_of_bound(tokens, place + 2, closing)
    if end + 1 < len(tokens) and tokens[end + 1].token_type is TokenType.L_BRACKET:
        # `[x FOR x IN l][1]`: the parser does not know what is behind.
        return place, end + 1 if _is_comprehension(tokens, place, closing) else place
    return place, place


def _conditions_in(
    tokens: Sequence[Token], opening: int, closing: Mapping[int, int]
) -> Iterator[tuple[int, int]]:
    """Where the conditions begin and end that stand bare between the commas of a bracket."""
    end = closing.get(opening, opening)
    start = place = opening + 1
    is_condition = False
    while place <= end:
        kind = tokens[place].token_type
        if place == end or kind is TokenType.COMMA:
            if is_condition:
                yield start, place
            start, is_condition = place + 1, False
        is_condition = is_condition or kind in _CONDITIONS
        place = closing.get(place, place) + 1


def _end_of_bound(tokens: Sequence[Token], start: int, closing: Mapping[int, int]) -> int:
    """Where a bound of a slice ends."""
    place = start
    while place < len(tokens) and tokens[place].token_type not in _BOUND_ENDS:
        place = closing.get(place, place) + 1
    return place


def _is_comprehension(tokens: Sequence[Token], start: int, closing: Mapping[int, int]) -> bool:
    """Whether the bracket that is opened at a place has a list with FOR in it."""
    place = start + 1
    while place < closing[start]:
        if tokens[place].token_type is TokenType.FOR:
            return True
        place = closing.get(place, place) + 1
    return False


def _of_window(tokens: Sequence[Token], place: int, closing: Mapping[int, int]) -> Token:
    """The token at a place; `last_value` for the `last` of `last(x IGNORE NULLS) OVER …`, which is the same
    there. The parser takes the one for an aggregate, which has no IGNORE NULLS.
    """
    token, end = tokens[place], closing.get(place + 1, 0)
    if end < place + 4 or tokens[end - 1].text.upper() != "NULLS":
        return token
    name = shown_name(token).upper()
    if name not in ("FIRST", "LAST") or tokens[place + 1].token_type is not TokenType.L_PAREN:
        return token
    if tokens[end - 2].text.upper() not in _NULLS:
        return token
    return token_near(TokenType.VAR, f"{name}_VALUE", token)
