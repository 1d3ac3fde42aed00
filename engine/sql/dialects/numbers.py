"""Quotients, casts and other operations on numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sqlglot import exp

from engine.errors import Unsupported
from engine.sql.dialects.expressions import Rewrite, bracket, number_literal, typed_call, whole_number
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
_FRACTIONAL = (
    exp.Ceil,
    exp.Extract,
    exp.Floor,
    exp.Round,
    exp.Sign,
    exp.Trunc,
)
"""What has no whole quotient in PostgreSQL, though it is a whole number in the engine."""
_UNQUOTES_JSON = TRINO | {"snowflake", "databricks"}
_JSON_TYPES = {
    *exp.DataType.NESTED_TYPES,
    *(exp.DType.JSON, exp.DType.JSONB, exp.DType.VARIANT, exp.DType.SUPER, exp.DType.OBJECT),
}
"""Into which JSON is cast as it is; all else is cast from its text."""
_WRITTEN_DECIMAL = re.compile(r"[+-]?\d*(?:\.(\d*))?")
_SIZED_TEXTS = ("varchar", "char", "nvarchar", "nchar")
_CUTS_TEXTS = POSTGRES | MYSQL | TRINO | TSQL | {"redshift"}


def _divide(node: exp.Expr, dialect: str) -> exp.Expr:
    if not node.args.get("typed"):
        return node
    divided, divisor = node.this, node.expression
    if dialect in POSTGRES and (_has_fraction(divided) or _has_fraction(divisor)):
        divided = exp.cast(bracket(divided), "DOUBLE")
    if node.args.get("safe"):
        divisor = _null_for_0(divisor)
    return typed_call("typed_division", divided, divisor)


def _null_for_0(divisor: exp.Expr) -> exp.Expr:
    return exp.Nullif(this=divisor, expression=number_literal(0))


def _has_fraction(node: exp.Expr) -> bool:
    """Whether one of the operands of sums and products is `_FRACTIONAL`."""
    is_part = (exp.Add, exp.Mul, exp.Neg, exp.Paren, exp.Sub)
    return any(
        isinstance(part, _FRACTIONAL)
        for part in node.walk(prune=lambda each: not isinstance(each, is_part))
        if not isinstance(part, is_part)
    )


def _divide_whole(node: exp.Expr, dialect: str) -> exp.Expr:
    divisor = _null_for_0(node.expression) if dialect in MYSQL else node.expression
    return typed_call("whole_quotient", node.this, divisor)


def _cast(node: exp.Expr, dialect: str) -> exp.Expr:
    kind = node.args["to"]
    if kind.is_type("float") and dialect in TSQL:
        # FLOAT is a DOUBLE there; sqlglot takes it for a REAL.
        kind.set("this", exp.DType.DOUBLE)
        kind.set("expressions", [])
    elif kind.is_type("bit") and dialect in TSQL:
        kind.set("this", exp.DType.BOOLEAN)
    elif kind.is_type("timestamptz", "timestamp") and dialect in SPARK and not _is_no_number(node.this):
        node.set("this", typed_call("seconds_as_moment", node.this))
    elif (
        isinstance(node.this, exp.JSONExtract) and dialect in _UNQUOTES_JSON and kind.this not in _JSON_TYPES
    ):
        node.set("this", exp.JSONExtractScalar(this=node.this.this, expression=node.this.expression))
    return _cast_number(node, kind, dialect)


def _is_no_number(node: exp.Expr) -> bool:
    """Whether something is written as a text, or is cast to one or to a date."""
    if isinstance(node, exp.Cast):
        return node.args["to"].this not in exp.DataType.NUMERIC_TYPES
    return isinstance(node, exp.JSONExtract) or (isinstance(node, exp.Literal) and node.is_string)


def _cast_number(node: exp.Expr, kind: exp.Expr, dialect: str) -> exp.Expr:
    if kind.this in exp.DataType.INTEGER_TYPES:
        name = "to_nearest"
        if dialect in _CUTS_FRACTIONS:
            name = "without_fraction" if isinstance(node, exp.TryCast) else "strictly_without_fraction"
        if dialect in _CUTS_FRACTIONS | _ROUNDS_AWAY and not _is_whole(node.this):
            node.set("this", typed_call(name, node.this))
    elif kind.is_type("decimal") and not kind.expressions and dialect in _DECIMAL_DEFAULTS:
        digits = _DECIMAL_DEFAULTS[dialect]
        written = _WRITTEN_DECIMAL.fullmatch(node.this.name) if isinstance(node.this, exp.Literal) else None
        if written is not None and node.this.is_string and dialect in TRINO:
            # DECIMAL '1.25' has the digits that it is written with; sqlglot reads a cast of the text alike.
            digits = (38, len(written[1] or ""))
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


def _remainder(node: exp.Expr, _: str) -> exp.Expr:
    node.set("expression", _null_for_0(node.expression))
    return node


def _hash(node: exp.Expr, _: str) -> exp.Expr:
    raise Unsupported("HASH has other values in this dialect: use md5, or ask in DuckDB's dialect.")


def _is_nan(node: exp.Expr, _: str) -> exp.Expr:
    """NULL is a number."""
    return exp.Coalesce(this=node, expressions=[exp.false()])


REWRITES: Sequence[Rewrite] = (
    ((exp.Div,), OTHERS, _divide),
    ((exp.IntDiv,), OTHERS, _divide_whole),
    ((exp.Cast, exp.TryCast), OTHERS, _cast),
    ((exp.Convert,), TSQL, _convert),
    ((exp.Mod,), MYSQL, _remainder),
    (("hash",), SPARK | {"snowflake"}, _hash),
    ((exp.IsNan,), SPARK, _is_nan),
)
