"""Spark's conditions as SQL, where a host evaluates them exactly as Spark does.

Both know three truth values, order text by its bytes, let NaN equal itself and be greater than all other numbers, and let 0.0 equal -0.0. What is not
listed here stays with Spark: conditions on nested fields, on NULL or NaN as a value, and on values that are not of the column's type.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Context, Decimal

from pyspark.sql import types as spark
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from engine.sql_types import MAX_DECIMAL_DIGITS
from spark_pipeline.reader_options import quoted

_COMPARED = {
    EqualTo: "=",
    EqualNullSafe: "IS NOT DISTINCT FROM",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}
_TEXT: dict[type[Filter], str] = {StringStartsWith: "starts_with", StringEndsWith: "suffix", StringContains: "contains"}


_EXACT_CHARACTERS = 16
"""A number with a point that is no longer has at most 15 digits: whole and power of ten are doubles, so that their quotient is the nearest one."""
_DIGITS = Context(prec=MAX_DECIMAL_DIGITS, traps=[])
"""As many digits as a decimal can have; what takes more becomes NaN rather than an error."""


def sql_condition(condition: Filter, schema: spark.StructType) -> str | None:
    """A condition of Spark as SQL.

    Args:
        condition: The condition.
        schema: The frame's columns.

    Returns:
        SQL that is true for the same rows, and never an error; None where there is none.
    """
    if isinstance(condition, Not):
        inner = sql_condition(condition.child, schema)
        return None if inner is None else f"NOT ({inner})"
    path: tuple[str, ...] = getattr(condition, "attribute", ())
    if len(path) != 1 or path[0] not in schema.names:
        return None
    column, kind = quoted(path[0]), schema[path[0]].dataType
    match condition:
        case IsNull():
            return f"{column} IS NULL"
        case IsNotNull():
            return f"{column} IS NOT NULL"
        case In(value=values):
            listed = [_literal(value, kind) for value in values]
            return f"{column} IN ({', '.join(filter(None, listed))})" if listed and None not in listed else None
        case StringStartsWith(value=text) | StringEndsWith(value=text) | StringContains(value=text):
            literal = _literal(text, kind)
            return None if literal is None else f"{_TEXT[type(condition)]}({column}, {literal})"
    value = _literal(getattr(condition, "value", None), kind)
    sign = _COMPARED.get(type(condition))
    return None if value is None or sign is None else f"{column} {sign} {value}"


def _literal(value: object, kind: spark.DataType) -> str | None:
    """A value of a column's type as SQL; None where there is no exact one."""
    make = _LITERALS.get(type(kind))
    return None if value is None or make is None else make(value, kind)


def _boolean(value: object, kind: spark.DataType) -> str | None:
    return str(value).upper() if isinstance(value, bool) else None


def _integer(value: object, kind: spark.DataType) -> str | None:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _float(value: object, kind: spark.DataType) -> str | None:
    if not isinstance(value, float) or not math.isfinite(value):
        return None
    text = repr(value)
    if isinstance(kind, spark.DoubleType) and "e" not in text and len(text) <= _EXACT_CHARACTERS:
        return text
    return f"CAST('{text}' AS {'FLOAT' if isinstance(kind, spark.FloatType) else 'DOUBLE'})"


def _decimal(value: object, kind: spark.DataType) -> str | None:
    assert isinstance(kind, spark.DecimalType)
    if not isinstance(value, Decimal) or not value.is_finite():
        return None
    exact = value.quantize(Decimal(1).scaleb(-kind.scale), context=_DIGITS)
    return f"{exact:f}" if exact == value and len(exact.as_tuple().digits) <= kind.precision else None


def _text(value: object, kind: spark.DataType) -> str | None:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) and "\0" not in value else None


def _date(value: object, kind: spark.DataType) -> str | None:
    return f"DATE '{value.isoformat()}'" if isinstance(value, dt.date) and not isinstance(value, dt.datetime) else None


def _zoned(value: object, kind: spark.DataType) -> str | None:
    if not isinstance(value, dt.datetime) or value.tzinfo is None:
        return None
    return f"CAST('{value.astimezone(dt.UTC).isoformat(' ')}' AS TIMESTAMP WITH TIME ZONE)"


def _unzoned(value: object, kind: spark.DataType) -> str | None:
    return f"TIMESTAMP '{value.isoformat(' ')}'" if isinstance(value, dt.datetime) and value.tzinfo is None else None


_LITERALS: dict[type[spark.DataType], Callable[[object, spark.DataType], str | None]] = {
    spark.BooleanType: _boolean,
    spark.ByteType: _integer,
    spark.ShortType: _integer,
    spark.IntegerType: _integer,
    spark.LongType: _integer,
    spark.FloatType: _float,
    spark.DoubleType: _float,
    spark.DecimalType: _decimal,
    spark.StringType: _text,
    spark.DateType: _date,
    spark.TimestampType: _zoned,
    spark.TimestampNTZType: _unzoned,
}
