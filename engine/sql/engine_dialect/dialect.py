"""DuckDB's dialect as DuckDB has it: what is read in it is written as it was.

sqlglot reads DuckDB's texts to write them for other databases, and texts of others for DuckDB. So it puts
functions of its own in place of DuckDB's, some of which it then writes otherwise, or refuses. Its parser and
its writer are compiled and have no subclasses: here tokens are changed before the parser, trees behind it,
and the writer is told how to write some nodes.

Functions that nothing looks at by their kind are hidden from the parser: they stay names with arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.generator import Generator
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token

from engine.sql.engine_dialect.literals import merge_literals
from engine.sql.engine_dialect.made_tokens import ELEMENT, HIDDEN, ITSELF, NAMED
from engine.sql.engine_dialect.operand_brackets import add_brackets_around_operands
from engine.sql.engine_dialect.type_names import (
    hide_lists,
    hide_row_calls,
    name_columns,
    name_elements,
    show_tuple,
)
from engine.sql.engine_dialect.value_brackets import add_brackets_around_values
from engine.sql.engine_dialect.writers import writers
from engine.sql.numbers import split_numbers


class EngineDialect(DuckDB):
    """DuckDB's dialect. Trees of texts in other dialects are written in it, too.

    An index stands in a tree as in its text. sqlglot would count it from 0 in trees, and from 1 in texts,
    where it takes the index for a number and what has it for an array; that changes while types become known.
    """

    INDEX_OFFSET = 0

    def tokenize(self, sql: str, dialect: Any = None) -> list[Token]:
        """A text as tokens that the parser reads as DuckDB reads the text."""
        return _readable(super().tokenize(sql, dialect))

    def parser(self, **opts: Any) -> Any:
        """What makes trees of such tokens."""
        return _Reader(super().parser(**opts))

    def generator(self, **opts: Any) -> Generator:
        """What writes trees."""
        made = super().generator(**opts)
        made._dispatch = writers()  # noqa: SLF001 - it takes no other way
        return made

    def to_json_path(self, path: exp.Expr | None) -> exp.Expr | None:
        """A path into JSON is a value like others."""
        return path


class _Reader:
    """A parser of DuckDB's texts."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser

    def parse(self, tokens: list[Token], sql: str) -> list[exp.Expr | None]:
        return [tree and _as_written(tree) for tree in self._parser.parse(tokens, sql)]

    def parse_into(self, types: Any, tokens: list[Token], sql: str) -> list[exp.Expr | None]:
        return [tree and _as_written(tree) for tree in self._parser.parse_into(types, tokens, sql)]


def _readable(tokens: Sequence[Token]) -> list[Token]:
    """Tokens with what the parser reads otherwise than DuckDB put in another way."""
    whole = hide_row_calls(name_elements(hide_lists(merge_literals(split_numbers(tokens)))))
    return add_brackets_around_operands(add_brackets_around_values(name_columns(whole)))


def _as_written(tree: exp.Expr) -> exp.Expr:
    """A tree of such tokens as it means what DuckDB means, with the names of all functions."""
    for node in list(tree.find_all(exp.Anonymous, exp.Identifier)):
        name = str(node.this)
        # Where it looks for the type of a call, the parser reads the name alone.
        if name == ITSELF and node.expressions:
            _replace_by_argument(node)
        elif name == ELEMENT:
            show_tuple(node)
        elif name == NAMED:
            value, alias = node.expressions
            node.replace(
                exp.PivotAlias(this=value, alias=alias.this if isinstance(alias, exp.Column) else alias)
            )
        elif isinstance(node, exp.Anonymous):
            node.set("this", name.removeprefix(HIDDEN) if name.startswith(HIDDEN) else node.this)
            _split_distinct(node)
        elif name.startswith(HIDDEN):
            node.set("this", name.removeprefix(HIDDEN))
            node.set("quoted", True)
    return tree


def _replace_by_argument(call: exp.Expr) -> None:
    """What stands behind IN: `a IN [1, NULL]` looks for a value in a list, and `a IN (1, NULL)` compares."""
    (value,) = call.expressions
    around = call.parent
    if isinstance(around, exp.In) and isinstance(value, exp.Array) and _are_alike(value.expressions):
        # Without a NULL both are the same, and lists of values are known elsewhere.
        around.set("field", None)
        around.set("expressions", value.expressions)
    else:
        call.replace(value)


def _are_alike(values: Sequence[exp.Expr]) -> bool:
    """Whether values are strings, or whole numbers."""
    return bool(values) and (
        all(isinstance(each, exp.Literal) and each.is_string for each in values)
        or all(isinstance(each, exp.Literal) and each.is_int for each in values)
    )


def _split_distinct(call: exp.Anonymous) -> None:
    """Have DISTINCT stand before the first argument alone: the parser takes all of them for its own."""
    first = call.expressions[0] if call.expressions else None
    order = first if isinstance(first, exp.Order) else None
    distinct = order.this if order is not None else first
    if not isinstance(distinct, exp.Distinct) or len(distinct.expressions) < 2:
        return
    argument, *others = distinct.expressions
    if order is not None:
        order.set("this", others.pop())
        others.append(order)
    call.set("expressions", [exp.Distinct(expressions=[argument]), *others, *call.expressions[1:]])
