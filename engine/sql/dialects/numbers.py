"""Quotients, casts and other operations on numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from engine.errors import Unsupported
from engine.sql.dialects.expressions import Rewrite, number_literal, typed_call, whole_number
from engine.sql.dialects.families import MYSQL, OTHERS, POSTGRES, SPARK, TRINO, TSQL

_DECIMAL_DEFAULTS: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys(SPARK | MYSQL, (10, 0)),
    **dict.fromkeys(TRINO | {"snowflake"}, (38, 0)),
    **dict.fromkeys(TSQL | {"redshift"}, (18, 0)),
    "bigquery": (38, 9),
    # It keeps all digits there; so many are the most that leave room for whole numbers of 23.
    **dict.fromkeys(POSTGRES, (38, 15)),
}
"""Digits, and those behind the point, of a DECIMAL that does not say them."""
_CUTS_FRACTIONS = SPARK | TSQL | {"sqlite", "clickhouse", "teradata"}
_ROUNDS_AWAY = MYSQL | TRINO | {"snowflake", "bigquery", "oracle"}
_SIZED_TEXTS = ("varchar", "char", "nvarchar", "nchar")
_CUTS_TEXTS = POSTGRES | MYSQL | TRINO | TSQL | {"redshift"}


def _divide(node: exp.Expr, _: str) -> exp.Expr:
    if not node.args.get("typed"):
        return node
    divisor = node.expression
    if node.args.get("safe"):
        divisor = exp.Nullif(this=divisor, expression=number_literal(0))
    return typed_call("typed_division", node.this, divisor)


def _divide_whole(node: exp.Expr, _: str) -> exp.Expr:
    return typed_call("whole_quotient", node.this, node.expression)


def _cast(node: exp.Expr, dialect: str) -> exp.Expr:
    kind = node.args["to"]
    if kind.this in exp.DataType.INTEGER_TYPES:
        name = "to_nearest"
        if dialect in _CUTS_FRACTIONS:
            name = "without_fraction" if isinstance(node, exp.TryCast) else "strictly_without_fraction"
        if dialect in _CUTS_FRACTIONS | _ROUNDS_AWAY and not _is_whole(node.this):
            node.set("this", typed_call(name, node.this))
    elif kind.is_type("decimal") and not kind.expressions and dialect in _DECIMAL_DEFAULTS:
        digits = _DECIMAL_DEFAULTS[dialect]
        kind.set("expressions", [exp.DataTypeParam(this=number_literal(each)) for each in digits])
    elif kind.is_type(*_SIZED_TEXTS) and dialect in _CUTS_TEXTS and len(kind.expressions) == 1:
        length = kind.expressions[0].this
        kind.set("expressions", [])
        return exp.Left(this=node, expression=length) if whole_number(length) is not None else node
    return node


def _convert(node: exp.Expr, dialect: str) -> exp.Expr:
    """A cast in another form, where nothing says how a text is to look."""
    if node.args.get("style") is not None:
        raise Unsupported("CONVERT with a style is not supported: use strftime, or strptime.")
    made = exp.TryCast if node.args.get("safe") else exp.Cast
    return _cast(made(this=node.expression, to=node.this), dialect)


def _is_whole(node: exp.Expr) -> bool:
    return whole_number(node) is not None or isinstance(node, exp.Count)


def _is_nan(node: exp.Expr, _: str) -> exp.Expr:
    """NULL is a number."""
    return exp.Coalesce(this=node, expressions=[exp.false()])


REWRITES: Sequence[Rewrite] = (
    ((exp.Div,), OTHERS, _divide),
    ((exp.IntDiv,), OTHERS, _divide_whole),
    ((exp.Cast, exp.TryCast), OTHERS, _cast),
    ((exp.Convert,), TSQL, _convert),
    ((exp.IsNan,), SPARK, _is_nan),
)
