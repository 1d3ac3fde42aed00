"""Brackets where the parser takes less, or more, for an operand than DuckDB."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.tokenizer_core import Token, TokenType

from engine.sql.engine_dialect.brackets import OPENING, ends_of_brackets
from engine.sql.engine_dialect.made_tokens import ITSELF, NAMED, token_near
from engine.sql.engine_dialect.pivots import PIVOTS, names_of_values, pivot_queries

_PARSER = DuckDB.parser_class
_SELECT_FROM = (
    (TokenType.SELECT, "SELECT"),
    (TokenType.STAR, "*"),
    (TokenType.FROM, "FROM"),
    (TokenType.L_PAREN, "("),
)
_ARITHMETIC = frozenset(
    {
        *(TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.DIV, TokenType.MOD),
        *(TokenType.CARET, TokenType.DSTAR),
    }
)
_OTHER_OPERATORS = _ARITHMETIC | {
    *(TokenType.DPIPE, TokenType.AMP, TokenType.PIPE),
}
_OPERANDS_BEHIND = {
    TokenType.TILDE: _ARITHMETIC,
    TokenType.ARROW: _OTHER_OPERATORS,
    TokenType.IN: _OTHER_OPERATORS,
}
"""Which operators bind closer than these, in what stands behind them: the parser has others."""
_BRACKETED = PIVOTS | _OPERANDS_BEHIND.keys()
_SIGNS = frozenset({TokenType.DASH, TokenType.PLUS, TokenType.TILDE})
_SUBSCRIPTS = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET})
_BEHIND_OPERANDS = frozenset({TokenType.DOT, TokenType.DCOLON})
_OPERANDS = (
    _PARSER.ID_VAR_TOKENS
    | _PARSER.FUNC_TOKENS
    | {
        *(
            TokenType.NUMBER,
            TokenType.STRING,
            TokenType.HEX_STRING,
            TokenType.BIT_STRING,
            TokenType.BYTE_STRING,
        ),
        *(TokenType.HEREDOC_STRING, TokenType.NULL, TokenType.TRUE, TokenType.FALSE, TokenType.IDENTIFIER),
    }
) - {TokenType.CASE, TokenType.INTERVAL}
_LONGEST_OPERAND = 64
"""Tokens and brackets of what is looked through behind an operator."""


def add_brackets_around_operands(tokens: list[Token]) -> list[Token]:
    """Tokens with brackets where the parser takes less, or more, for an operand than DuckDB.

    Args:
        tokens: The tokens of a text.
    """
    if not any(token.token_type in _BRACKETED for token in tokens):
        return tokens
    closing = ends_of_brackets(tokens)
    opened: dict[int, list[Token]] = {}
    ends: dict[int, int] = {}
    for place, token in enumerate(tokens):
        kind = token.token_type
        if kind in _OPERANDS_BEHIND:
            end, operators = _operand_end(tokens, place + 1, closing, _OPERANDS_BEHIND[kind])
            if kind is TokenType.IN:
                following = tokens[place + 1].token_type if end > place + 1 else TokenType.L_PAREN
                if following is TokenType.L_PAREN or (following is not TokenType.L_BRACKET and not operators):
                    continue
                opened[place + 1] = [token_near(TokenType.VAR, ITSELF, token)]
            elif not operators:
                continue
            opened.setdefault(place + 1, []).append(token_near(TokenType.L_PAREN, "(", token))
            ends[end] = ends.get(end, 0) + 1
    for start, end in pivot_queries(tokens, closing) if PIVOTS & {each.token_type for each in tokens} else ():
        opened[start] = [token_near(kind, text, tokens[start]) for kind, text in _SELECT_FROM]
        ends[end] = ends.get(end, 0) + 1
    names = (
        names_of_values(tokens, closing) if TokenType.PIVOT in {each.token_type for each in tokens} else {}
    )
    for place, start in names.items():
        opened[start] = [
            token_near(TokenType.VAR, NAMED, tokens[start]),
            token_near(TokenType.L_PAREN, "(", tokens[start]),
        ]
        ends[place + 2] = ends.get(place + 2, 0) + 1
    made: list[Token] = []
    for place, token in enumerate(tokens):
        made += [token_near(TokenType.R_PAREN, ")", token)] * ends.get(place, 0)
        made += opened.get(place, ())
        made.append(token_near(TokenType.COMMA, ",", token) if place in names else token)
    return made + [token_near(TokenType.R_PAREN, ")", tokens[-1])] * ends.get(len(tokens), 0)


def _operand_end(
    tokens: Sequence[Token], start: int, closing: Mapping[int, int], operators: Collection[TokenType]
) -> tuple[int, int]:
    """Where operands end that some operators join.

    Args:
        tokens: Tokens.
        start: Where the first operand begins.
        closing: Where brackets are closed.
        operators: The operators.

    Returns:
        The place behind; and how many of the operators stand between the operands. Both tell nothing where
        something else stands there than names, literals and brackets.
    """
    place, count, is_expected, end = start, 0, True, start
    while place < min(len(tokens), start + _LONGEST_OPERAND):
        kind = tokens[place].token_type
        if is_expected and kind is TokenType.TILDE and count and operators is _ARITHMETIC:
            # What joins it to the operands before binds less than they do.
            return end, count - 1
        if kind in OPENING and (is_expected or kind in _SUBSCRIPTS):
            place, is_expected = closing.get(place, len(tokens)) + 1, False
        elif is_expected and kind in _SIGNS:
            place += 1
        elif is_expected and kind in _OPERANDS:
            place, is_expected = place + 1, False
        elif not is_expected and kind in _BEHIND_OPERANDS:
            place, is_expected = place + 1, True
        elif not is_expected and kind in operators:
            end = place
            place, count, is_expected = place + 1, count + 1, True
        else:
            break
    return (start, 0) if is_expected else (place, count)
