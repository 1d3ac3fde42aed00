"""Functions that the parser is not to know, as it would put others in their place."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.tokenizer_core import Token, TokenType

from engine.model.names import fold
from engine.sql.engine_dialect.made_tokens import HIDDEN, token_near

_PARSER = DuckDB.parser_class
KNOWN_FUNCTIONS = frozenset(
    """
    abs any_value approx_count_distinct approx_quantile arg_max arg_min argmax argmin array_agg avg
    bit_and bit_or bit_xor bool_and bool_or cast ceil ceiling char_length character_length coalesce
    columns contains count count_if countif cume_dist current_database current_localtimestamp current_role
    current_schemas day dense_rank ends_with exp first_value floor gen_random_uuid generate_series
    get_current_time greatest group_concat grouping grouping_id if ifnull kurtosis lag last last_value
    lead least len length list_value listagg ln max max_by median min min_by mod mode month nth_value
    ntile nullif overlay percent_rank percentile_cont percentile_disc position pow power quantile
    quantile_cont quantile_disc random rank regexp_matches replace round row_number skewness sqrt
    starts_with stddev stddev_pop stddev_samp string_agg struct_pack substring sum today trim try_cast
    var_pop var_samp variance version year
    """.split()  # noqa: SIM905 - a list of eighty lines otherwise
)
"""Functions that the parser is to know: it reads the arguments of some in a way of their own, and nodes tell
others elsewhere. All are written as they were, or under a name that means the same.
"""
_HIDDEN_FUNCTIONS = frozenset(
    fold(name)
    for names in (_PARSER.FUNCTIONS, _PARSER.FUNCTION_PARSERS, ("APPLY",))
    for name in names
    if fold(name) not in KNOWN_FUNCTIONS
)
_NAMES = frozenset(
    {
        *(TokenType.VAR, TokenType.IDENTIFIER, TokenType.APPLY, TokenType.FILTER, TokenType.FORMAT),
        *(TokenType.LEFT, TokenType.RIGHT, TokenType.XOR),
    }
)
"""Tokens that name functions; others are words of SQL as well, or types, and are always known."""
_BEFORE_WINDOW = frozenset({TokenType.OVER, TokenType.ALIAS})
_FRAME_STARTS = frozenset({"BETWEEN", "UNBOUNDED", "CURRENT"})


def replaced_extract(tokens: Sequence[Token], place: int) -> tuple[list[Token], int] | None:
    """`EXTRACT(part FROM …` at a place as `date_part('part', …`.

    Args:
        tokens: The tokens of a text.
        place: Of a token.

    Returns:
        The tokens for it, and where others begin; None where there is none.
    """
    name = tokens[place]
    if name.token_type is not TokenType.VAR or fold(name.text) != "extract" or place + 3 >= len(tokens):
        return None
    opening, part, behind = tokens[place + 1 : place + 4]
    if opening.token_type is not TokenType.L_PAREN or behind.token_type is not TokenType.FROM:
        return None
    return [
        token_near(TokenType.VAR, f"{HIDDEN}date_part", name),
        opening,
        token_near(TokenType.STRING, part.text, part),
        token_near(TokenType.COMMA, ",", behind),
    ], place + 4


def hide_function(tokens: Sequence[Token], place: int) -> Token:
    """The token at a place, which is hidden if it names a function that the parser is not to know.

    Args:
        tokens: The tokens of a text.
        place: Of a token.
    """
    token = tokens[place]
    if token.token_type is TokenType.VAR and token.text.upper() == "PIVOT_LONGER":
        return token_near(TokenType.UNPIVOT, token.text, token)
    if token.text.upper() == "GROUPS" and _begins_frame(tokens, place):
        return token_near(TokenType.ROWS, token.text, token)
    if token.token_type not in _NAMES or fold(token.text) not in _HIDDEN_FUNCTIONS:
        return token
    if place + 1 == len(tokens) or tokens[place + 1].token_type is not TokenType.L_PAREN:
        return token
    if token.token_type is TokenType.FILTER and tokens[place - 1].token_type is TokenType.R_PAREN:
        return token
    return token_near(TokenType.VAR, HIDDEN + token.text, token)


def _begins_frame(tokens: Sequence[Token], place: int) -> bool:
    """Whether the word at a place is the first one of a window, and not a name. The parser knows ROWS and
    RANGE there.
    """
    if not 2 <= place < len(tokens) - 1 or tokens[place].token_type is not TokenType.VAR:
        return False
    window, opening, following = tokens[place - 2], tokens[place - 1], tokens[place + 1]
    if opening.token_type is not TokenType.L_PAREN or window.token_type not in _BEFORE_WINDOW:
        return False
    return following.token_type is TokenType.NUMBER or following.text.upper() in _FRAME_STARTS
