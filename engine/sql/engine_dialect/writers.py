"""What is written otherwise than sqlglot writes it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.generator import Generator

_OPERATOR_SIGNS = frozenset("~!@#^&|`?+-*/%<>=")
_Write = Callable[[Generator, Any], str]


@cache
def writers() -> dict[type[exp.Expr], _Write]:
    """What writes each kind of node."""
    known = DuckDB().generator()._dispatch  # noqa: SLF001 - as above
    type_text = known[exp.DataType]
    return {
        **known,
        exp.BitString: lambda _, node: f"b'{node.this}'",
        exp.Bracket: _element_text,
        exp.BitwiseNot: lambda writer, node: _with_sign("~", writer.sql(node, "this")),
        exp.DataType: lambda writer, node: _type_text(type_text, writer, node),
        exp.HexString: lambda _, node: f"x'{node.this}'",
        exp.Operator: _operator_text,
        exp.LogicalAnd: partial(_truth_text, known[exp.LogicalAnd]),
        exp.LogicalOr: partial(_truth_text, known[exp.LogicalOr]),
        exp.Neg: lambda writer, node: _with_sign("-", writer.sql(node, "this")),
        exp.Limit: _limit_text,
        exp.Pivot: _pivot_text,
        exp.Struct: partial(_struct_text, known[exp.Struct]),
        exp.WithinGroup: _ordered_text,
    }


def _element_text(writer: Generator, node: exp.Bracket) -> str:
    """An element, by the index as it stands; sqlglot makes some that it says count from 1, as all do here."""
    return f"{writer.sql(node, 'this')}[{', '.join(map(writer.sql, node.expressions))}]"


def _truth_text(otherwise: _Write, writer: Generator, node: exp.LogicalAnd | exp.LogicalOr) -> str:
    """`bool_and(DISTINCT x ORDER BY y)`, of which sqlglot makes `bool_and(CAST(DISTINCT …))`."""
    if not isinstance(node.this, exp.Distinct | exp.Order):
        return otherwise(writer, node)
    name = "BOOL_AND" if isinstance(node, exp.LogicalAnd) else "BOOL_OR"
    return f"{name}({writer.sql(node, 'this')})"


def _struct_text(otherwise: _Write, writer: Generator, node: exp.Struct) -> str:
    """`struct_pack(COLUMNS(*))`, whose fields have names only when the columns are known; sqlglot numbers
    them.
    """
    if not any(isinstance(field, exp.Columns | exp.Star) for field in node.expressions):
        return otherwise(writer, node)
    fields = [
        f"{writer.sql(field, 'this')} := {writer.sql(field, 'expression')}"
        if isinstance(field, exp.PropertyEQ)
        else writer.sql(field)
        for field in node.expressions
    ]
    return f"STRUCT_PACK({', '.join(fields)})"


def _type_text(otherwise: _Write, writer: Generator, node: exp.DataType) -> str:
    if node.this is exp.DataType.Type.NULL:
        return '"NULL"'  # the type, as that of an empty list, whose name is no word
    text = otherwise(writer, node)
    if text.startswith("REAL("):
        return f"FLOAT{text.removeprefix('REAL')}"  # its digits say whether it is a DOUBLE
    is_tuple = node.this is exp.DataType.Type.STRUCT and any(
        isinstance(each, exp.DataType) for each in node.expressions
    )
    return f"TUPLE{text.removeprefix('STRUCT')}" if is_tuple else text


def _with_sign(sign: str, operand: str) -> str:
    """An operand with a sign before it, which is no part of an operator of several."""
    return f"{sign} {operand}" if operand[:1] in _OPERATOR_SIGNS else f"{sign}{operand}"


def _operator_text(writer: Generator, node: exp.Operator) -> str:
    """`<=>` as it is read; others that are written so bind otherwise than without the word."""
    operator = str(node.args["operator"])
    return writer.binary(node, operator if operator == "<=>" else f"OPERATOR({operator})")


def _limit_text(writer: Generator, node: exp.Limit) -> str:
    """`LIMIT (30 - 10) %`, which DuckDB reads with any expression, and PERCENT with numbers alone."""
    text, options = writer.limit_sql(node), node.args.get("limit_options")
    is_share = options is not None and options.args.get("percent")
    return f"{text.removesuffix('PERCENT')}%" if is_share else text


def _pivot_text(writer: Generator, node: exp.Pivot) -> str:
    """A PIVOT as sqlglot has it for most databases; for DuckDB it takes the tables off the names in whatever
    is read. One without ON has groups and aggregates alone.
    """
    if not node.this or node.expressions or not (node.args.get("using") or node.args.get("group")):
        return writer.pivot_sql(node)
    using = writer.expressions(node, key="using", flat=True)
    parts = (
        f"PIVOT {writer.sql(node, 'this')}",
        f" USING {using}" if using else "",
        writer.sql(node, "group"),
    )
    return writer.prepend_ctes(node, "".join(parts))


def _ordered_text(writer: Generator, node: exp.WithinGroup) -> str:
    """`f(…) WITHIN GROUP (ORDER BY …)` as `f(… ORDER BY …)`, a percentile with what is ordered as its first
    argument.
    """
    call, order = node.this, node.expression
    if isinstance(call, exp.ArrayAgg):
        return writer.withingroup_sql(node)
    if isinstance(call, exp.PERCENTILES):
        name = "QUANTILE_CONT" if isinstance(call, exp.PercentileCont) else "QUANTILE_DISC"
        value, share = writer.sql(order.expressions[0], "this"), writer.sql(call, "this")
        return f"{name}({value}, {share}{writer.sql(order)})"
    return f"{writer.sql(call).removesuffix(')')}{writer.sql(order)})"
