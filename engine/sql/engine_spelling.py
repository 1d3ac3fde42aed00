"""Literals, operators and names of a tree in a spelling that the engine reads as the statement means them."""

from __future__ import annotations

import re

from sqlglot import exp

from engine.sql.text import SourceText
from engine.sql.tokens import FACTORIAL

_PLAIN_NAME = re.compile(r"[^\W\d]\w*")
_NUMBERED_MARK = re.compile(r"\$\d+", re.ASCII)
_HEX_DIGITS = re.compile(r"(?:[0-9A-Fa-f]{2})*")


def write_out_literals(source: SourceText, tree: exp.Expr, dialect: str) -> exp.Expr:
    """A tree with functions in place of DuckDB's operators that sqlglot does not write, and with the literals
    that DuckDB has.
    """
    for node in list(tree.find_all(exp.Cast, exp.HexString, exp.BitString, exp.Struct)):
        if isinstance(node, exp.Struct):
            _write_out_fields(node)
        elif isinstance(node, exp.HexString):
            if not _HEX_DIGITS.fullmatch(str(node.this)):
                raise source.error(
                    (
                        f"x'{str(node.this)[:40]}' is no literal of bytes: it takes two hexadecimal digits a "
                        "byte."
                    ),
                    None,
                )
        elif isinstance(node, exp.BitString):
            if dialect != "duckdb":
                # Elsewhere it is a number, or can be one.
                node.replace(exp.Literal.number(int(str(node.this), 2)))
        elif node.args["to"].args.get("kind") == FACTORIAL:
            node.replace(exp.Anonymous(this="factorial", expressions=[node.this]))
    return tree


def _write_out_fields(struct: exp.Struct) -> None:
    """Name the fields of a struct that sqlglot would number. A parameter of a lambda is one: it is no column,
    whose name a value gets.
    """
    for field in struct.expressions:
        if isinstance(field, exp.Kwarg | exp.Identifier):
            named = exp.PropertyEQ(this=exp.to_identifier(field.name, quoted=True))
            field.replace(named)
            named.set("expression", field.expression if isinstance(field, exp.Kwarg) else field)


def write_out_names(tree: exp.Expr, dialect: str) -> None:
    """Put names in quotation marks that are names in their dialect alone: the engine would read `$9` as a
    parameter, `$$a$$` as a string, and `#1` as a column by its place. `$1` where a value may stand is one.
    """
    for pivot in () if dialect == "duckdb" else tree.find_all(exp.Pivot):
        # The engine takes no tables there.
        for node in pivot.walk(prune=lambda each: isinstance(each, exp.Query)):
            for part in ("table", "db", "catalog") if isinstance(node, exp.Column) else ():
                node.set(part, None)
    for node in [] if dialect == "duckdb" else list(tree.find_all(exp.Identifier)):
        name, column = str(node.this), node.parent
        if node.args.get("quoted") or not name or _PLAIN_NAME.fullmatch(name):
            continue
        if isinstance(column, exp.Column) and _NUMBERED_MARK.fullmatch(name) and not column.args.get("table"):
            column.replace(exp.Placeholder(this=name[1:]))
        else:
            node.set("quoted", True)
