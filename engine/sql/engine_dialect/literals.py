"""What DuckDB reads as one word, or as a literal, and the parser does not."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from engine.model.names import fold
from engine.sql.engine_dialect.brackets import CLOSING
from engine.sql.engine_dialect.hidden_functions import hide_function, replaced_extract
from engine.sql.engine_dialect.made_tokens import token_near, token_over

_NUMBER_ENDS = CLOSING | {TokenType.NUMBER, TokenType.STRING, TokenType.VAR, TokenType.IDENTIFIER}
"""What a dot behind takes a part of."""
_LITERALS = {"x": TokenType.HEX_STRING, "b": TokenType.BIT_STRING}
"""By the letter before them, what strings are."""
_TWO_WORDS = {
    ("ORDER", "BY"): TokenType.ORDER_BY,
    ("GROUP", "BY"): TokenType.GROUP_BY,
    ("PARTITION", "BY"): TokenType.PARTITION_BY,
    ("GROUPING", "SETS"): TokenType.GROUPING_SETS,
    ("SIMILAR", "TO"): TokenType.SIMILAR_TO,
    ("DOUBLE", "PRECISION"): TokenType.DOUBLE,
    ("CHAR", "VARYING"): TokenType.VARCHAR,
    ("CHARACTER", "VARYING"): TokenType.VARCHAR,
    ("BIT", "VARYING"): TokenType.BIT,
}
"""Words that are one token for the parser, if no comment stands between."""
_FIRST_WORDS = frozenset(
    {TokenType.VAR, TokenType.PARTITION, TokenType.DOUBLE, TokenType.CHAR, TokenType.TEXT, TokenType.BIT}
)
"""As which the first of them is read alone."""
_NAMED_TYPES = frozenset(
    {"UINT8", "UINT16", "UINT32", "UINT64", "TIMESTAMPTZ_NS", "GUID", "OID", "VARINT", "INTEGRAL"}
)
"""Types of DuckDB's that are names like others for the parser."""
_SECOND_OF_TWO = frozenset({TokenType.VAR, TokenType.L_BRACE})
UNITS = frozenset(
    """
    microsecond millisecond second minute hour day week month quarter year decade century centurie millennium
    millennia
    """.split()  # noqa: SIM905 - a list of fifteen lines otherwise
)
"""Of intervals, without the letter that makes several of one."""


def merge_literals(tokens: Sequence[Token]) -> list[Token]:
    """Tokens with whole literals, and with functions hidden that the parser is not to know.

    Args:
        tokens: The tokens of a text.
    """
    made: list[Token] = []
    place = 0
    while place < len(tokens):
        found = _literal(tokens, place) or replaced_extract(tokens, place)
        if found is None:
            made.append(hide_function(tokens, place))
            place += 1
        else:
            replacement, place = found
            made += replacement
    return made


def _literal(tokens: Sequence[Token], place: int) -> tuple[list[Token], int] | None:
    """The tokens for a literal of several, an operator or a keyword that begins at a place, and where others
    begin; None for anything else.
    """
    token = tokens[place]
    if token.token_type is TokenType.NULLSAFE_EQ:
        is_put = place > 1 and tokens[place - 2].token_type is TokenType.OPERATOR
        return ([token] if is_put else _operator(token)), place + 1
    if place + 1 == len(tokens):
        return None
    following = tokens[place + 1]
    kind = token.token_type
    if following.token_type is TokenType.NUMBER:
        if kind is TokenType.DOT and _begins_number(tokens, place):
            return [token_over(TokenType.NUMBER, f".{following.text}", token, following)], place + 2
    elif following.token_type is TokenType.STRING:
        letter = fold(token.text)
        if kind is TokenType.VAR and letter in _LITERALS and following.start == token.end + 1:
            return [token_over(_LITERALS[letter], following.text, token, following)], place + 2
        if kind is TokenType.STRING:
            return _joined_strings(tokens, place)
        if (
            kind is TokenType.JSON
            or _names_type(token)
            or (kind is TokenType.INTERVAL and not _has_unit(tokens, place))
        ):
            return _cast(following, token), place + 2
    elif following.token_type in _SECOND_OF_TWO:
        return _two_tokens(tokens, place)
    return None


def _two_tokens(tokens: Sequence[Token], place: int) -> tuple[list[Token], int] | None:
    """The tokens for a keyword whose words a comment parts, or for `MAP {}`, of which the parser makes
    `MAP MAP()`; as for `_literal`.
    """
    token, following = tokens[place : place + 2]
    words = token.text.upper(), following.text.upper()
    if words in _TWO_WORDS and token.token_type in _FIRST_WORDS:
        return [token_over(_TWO_WORDS[words], " ".join(words), token, following)], place + 2
    if token.token_type is TokenType.MAP and place + 2 < len(tokens):
        end = tokens[place + 2]
        if end.token_type is TokenType.R_BRACE and following.token_type is TokenType.L_BRACE:
            brackets = token_near(TokenType.L_PAREN, "(", following), token_near(TokenType.R_PAREN, ")", end)
            return [token, *brackets], place + 3
    return None


def _operator(token: Token) -> list[Token]:
    """`<=>` is the distance of vectors by their angle; the parser takes it for IS NOT DISTINCT FROM."""
    return [
        token_near(TokenType.OPERATOR, "OPERATOR", token),
        token_near(TokenType.L_PAREN, "(", token),
        token_near(TokenType.VAR, token.text, token),
        token_near(TokenType.R_PAREN, ")", token),
    ]


def _begins_number(tokens: Sequence[Token], place: int) -> bool:
    """Whether the dot at a place begins a number, which stands right behind it."""
    dot, number = tokens[place], tokens[place + 1]
    if number.start != dot.end + 1:
        return False
    before = tokens[place - 1] if place else None
    return before is None or before.end + 1 != dot.start or before.token_type not in _NUMBER_ENDS


def _joined_strings(tokens: Sequence[Token], place: int) -> tuple[list[Token], int]:
    """Strings behind each other are one."""
    end = place
    while end < len(tokens) and tokens[end].token_type is TokenType.STRING:
        end += 1
    text = "".join(token.text for token in tokens[place:end])
    return [token_over(TokenType.STRING, text, tokens[place], tokens[end - 1])], end


def _names_type(token: Token) -> bool:
    return token.token_type is TokenType.VAR and token.text.upper() in _NAMED_TYPES


def _has_unit(tokens: Sequence[Token], place: int) -> bool:
    """Whether a unit follows the string behind the INTERVAL at a place."""
    return place + 2 < len(tokens) and fold(tokens[place + 2].text).removesuffix("s") in UNITS


def _cast(value: Token, to: Token) -> list[Token]:
    """`INTERVAL '1.5 days'` as a cast: the parser makes `'1.5' DAYS` of it, which DuckDB rounds. It takes
    `JSON '…'` for the function, which leaves blanks out, and `UINT8 '5'` for a column.
    """
    return [
        token_near(TokenType.VAR, "CAST", to),
        token_near(TokenType.L_PAREN, "(", to),
        value,
        token_near(TokenType.ALIAS, "AS", to),
        to,
        token_near(TokenType.R_PAREN, ")", value),
    ]
