"""Arrows, which get a member of JSON in the engine, and which the parser can take for lambdas."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from engine.model.names import fold
from engine.sql.engine_dialect import EngineDialect
from engine.sql.text import SourceText

MAX_READ_AGAIN = 20_000
"""Characters that are parsed once more because they stand behind an arrow that is no lambda; where such
arrows nest, the inner ones each time again.
"""


def read_arrows(source: SourceText, tokens: Sequence[Token], tree: exp.Expr) -> None:
    """Have an arrow get a member of JSON, as in the engine; the parser reads it as a lambda where an argument
    of a function begins.
    """
    arrows = [token for token in tokens if token.token_type is TokenType.ARROW]
    lambdas = list(tree.find_all(exp.Lambda)) if arrows else []
    named = sum(fold(token.text) == "lambda" for token in tokens) if lambdas else 0
    if len(lambdas) <= named:
        return
    if named or any(len(each.expressions) != 1 for each in lambdas):
        raise source.error(
            "Write a lambda as lambda x: x + 1, and what gets a member of JSON in brackets.", arrows[0].start
        )
    room = MAX_READ_AGAIN
    try:
        for each in reversed(lambdas):
            name = each.expressions[0].sql(dialect=EngineDialect)
            member = each.this.sql(dialect=EngineDialect)
            room -= len(member)
            if room < 0:
                raise source.error(
                    "There is too much behind the arrows that stand in arguments of functions: put what gets "
                    "a member of JSON in brackets.",
                    arrows[0].start,
                )
            read: exp.Expr = exp.maybe_parse(f"SELECT {name} -> {member}", dialect=EngineDialect)
            each.replace(read.expressions[0].unalias())
    except (SqlglotError, RecursionError) as error:
        raise source.error("Put what gets a member of JSON in brackets.", arrows[0].start) from error
