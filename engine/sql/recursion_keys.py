"""Aggregates in the key of a recursion, `USING KEY (k, max(v))`, where sqlglot knows names alone."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from engine.sql.engine_dialect.brackets import ends_of_brackets
from engine.sql.engine_dialect.made_tokens import token_near

_SIGN = "part of a key "
"""Begins names that need quotation marks, and have none."""
_KEY = ["USING", "KEY", "("]


def take_key_parts(tokens: Sequence[Token]) -> tuple[Sequence[Token], Sequence[Sequence[Token]]]:
    """Take what is no name out of keys of recursions.

    Args:
        tokens: The tokens of a text in DuckDB's dialect.

    Returns:
        Tokens with names in their places, and what was taken out, in order.
    """
    opened = [
        place
        for place in range(2, len(tokens))
        if [token.text.upper() for token in tokens[place - 2 : place + 1]] == _KEY
    ]
    if not opened:
        return tokens, ()
    ends = ends_of_brackets(tokens)
    closed = {place + 1: ends[place] for place in opened if place in ends}
    made: list[Token] = []
    parts: list[Sequence[Token]] = []
    place = 0
    while place < len(tokens):
        made.append(tokens[place])
        place += 1
        if place not in closed:
            continue
        for part in _parts(tokens, place, closed[place]):
            place += len(part) + 1
            made.append(part[0])
            if len(part) > 1:
                made[-1] = token_near(TokenType.VAR, f"{_SIGN}{len(parts)}", part[0])
                parts.append(part)
            made.append(tokens[place - 1])
    return made, parts


def _parts(tokens: Sequence[Token], begin: int, end: int) -> Sequence[Sequence[Token]]:
    """What commas separate up to a closing bracket, or to where nothing is."""
    found: list[Sequence[Token]] = []
    depth = 0
    for place in range(begin, end + 1):
        kind = tokens[place].token_type
        if depth == 0 and kind in (TokenType.COMMA, TokenType.R_PAREN):
            if place > begin:
                found.append(tokens[begin:place])
            if place == begin or kind is TokenType.R_PAREN:
                return found
            begin = place + 1
        depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
    return ()


def put_key_parts(tree: exp.Expr, parts: Sequence[exp.Expr]) -> None:
    """Put parts of keys in the places of the names that stand for them.

    Args:
        tree: A statement; changed in place.
        parts: What was taken out of its text, parsed.
    """
    for cte in tree.find_all(exp.CTE):
        for name in cte.args.get("key_expressions") or ():
            if not name.args.get("quoted") and name.name.startswith(_SIGN):
                name.replace(parts[int(name.name.removeprefix(_SIGN))])
