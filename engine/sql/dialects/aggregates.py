"""Aggregates: which values they take, and what they give where there are none."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from sqlglot import ErrorLevel, exp
from sqlglot.errors import UnsupportedError

from engine.errors import Unsupported
from engine.sql.dialects.expressions import Rewrite, bracket, call, copy_of, number_literal
from engine.sql.dialects.families import OTHERS, POSTGRES, SPARK, TRINO, TSQL
from engine.sql.engine_dialect import EngineDialect


def _as_double(node: exp.Expr) -> exp.Expr:
    return exp.cast(node, "DOUBLE")


def _within_group(node: exp.Expr, dialect: str) -> exp.Expr:
    call, order = node.this, node.expression
    if isinstance(call, exp.PercentileCont):
        for ordered in order.expressions:
            ordered.set("this", _as_double(ordered.this))
    elif isinstance(call, exp.ArrayAgg):
        order.set("this", call.this)
        call.set("this", order)
        call.parent = node.parent
        return _array_of_values(call, dialect)
    return node


def _percentile(node: exp.Expr, _: str) -> exp.Expr:
    return exp.PercentileCont(this=_as_double(node.this), expression=node.args["quantile"])


def _array_of_values(node: exp.Expr, dialect: str) -> exp.Expr:
    """Without NULLs, and no more than are wanted."""
    wanted = node.this
    if isinstance(wanted, exp.Limit) and not isinstance(
        node.parent, exp.Filter | exp.IgnoreNulls | exp.Window
    ):
        node.set("this", wanted.this)
        return call("list_slice", _array_of_values(node, dialect), number_literal(1), wanted.expression)
    if not node.args.get("nulls_excluded") or isinstance(node.parent, exp.WithinGroup):
        return node
    node.set("nulls_excluded", None)
    value = node.this
    while isinstance(value, exp.Order | exp.Limit | exp.Distinct):
        value = value.expressions[0] if isinstance(value, exp.Distinct) else value.this
    there = exp.Not(this=exp.Is(this=copy_of(value, "An array of values"), expression=exp.null()))
    if isinstance(node.parent, exp.Filter):
        condition = node.parent.expression
        condition.set("this", exp.And(this=bracket(condition.this), expression=bracket(there)))
        return node
    is_in_window = isinstance(node.parent, exp.Window)
    found = exp.Filter(this=node, expression=exp.Where(this=there))
    return found if is_in_window else _or_empty(found, dialect)


def _array_without_nulls(node: exp.Expr, dialect: str) -> exp.Expr:
    array = node.this
    if not isinstance(array, exp.ArrayAgg):
        return node
    array.set("nulls_excluded", True)
    array.parent = node.parent
    return _array_of_values(array, dialect)


def _filtered_array(node: exp.Expr, dialect: str) -> exp.Expr:
    is_list = isinstance(node.this, exp.ArrayAgg)
    return _or_empty(node, dialect) if is_list and not isinstance(node.parent, exp.Window) else node


def _set_of_values(node: exp.Expr, dialect: str) -> exp.Expr:
    found = exp.ArrayAgg(this=exp.Distinct(expressions=[node.this]), nulls_excluded=True)
    found.parent = node.parent
    return _array_of_values(found, dialect)


def _or_empty(node: exp.Expr, dialect: str) -> exp.Expr:
    """An array of no values, where that is no NULL."""
    if dialect not in SPARK | {"snowflake"}:
        return node
    return exp.Coalesce(this=node, expressions=[exp.Array(expressions=[])])


def _at_extreme(node: exp.Expr, _: str) -> exp.Expr:
    """The value of the row that has the extreme, be it NULL."""
    if node.args.get("count") is not None:
        return node
    name = "arg_max_null" if isinstance(node, exp.ArgMax) else "arg_min_null"
    return exp.AnonymousAggFunc(this=name, expressions=[node.this, node.expression])


def _joined_values(node: exp.Expr, _: str) -> exp.Expr:
    """Of no values an empty text."""
    if isinstance(node.parent, exp.Filter | exp.Window | exp.WithinGroup):
        return node
    return exp.Coalesce(this=node, expressions=[exp.Literal.string("")])


def _joined_set(node: exp.Expr, _: str) -> exp.Expr:
    """The delimiter stands behind DISTINCT, and is none of the values."""
    values = node.this
    if isinstance(values, exp.Distinct) and len(values.expressions) == 2 and not node.args.get("separator"):
        value, delimiter = values.expressions
        values.set("expressions", [value])
        node.set("separator", delimiter)
    return node


def _kurtosis(node: exp.Expr, _: str) -> exp.Expr:
    return exp.AnonymousAggFunc(this="kurtosis_pop", expressions=[node.this])


def _skewness(node: exp.Expr, _: str) -> exp.Expr:
    raise Unsupported(
        "The skewness of this dialect is that of a population: ask in DuckDB's dialect for a sample's."
    )


def _every(node: exp.Expr, _: str) -> exp.Expr:
    (value,) = node.expressions
    return exp.LogicalAnd(this=value)


def _any_value_true(node: exp.Expr, _: str) -> exp.Expr:
    """An aggregate, but where it is what something is compared with."""
    if isinstance(node.parent, exp.Binary) and node.arg_key == "expression":
        return node
    (value,) = node.expressions if isinstance(node, exp.Anonymous) else (node.this,)
    return exp.LogicalOr(this=value.this if isinstance(value, exp.Paren) else value)


def _json_array(node: exp.Expr, _: str) -> exp.Expr:
    if isinstance(node.parent, exp.Filter | exp.Window):
        return node
    (value,) = node.expressions if isinstance(node, exp.Anonymous) else (node.this,)
    return call("to_json", exp.ArrayAgg(this=value))


def _json_object(node: exp.Expr, _: str) -> exp.Expr:
    return call("json_object", *node.expressions)


def read_aggregates(tree: exp.Expr) -> None:
    """Have aggregates be those that the engine is asked for: hosts share the work by what they are.

    Args:
        tree: A statement in the engine's terms. It is changed.
    """
    for node in list(tree.find_all(exp.AggFunc)):
        call = node.parent if isinstance(node.parent, exp.WithinGroup) else node
        with suppress(UnsupportedError):
            written = call.sql(dialect=EngineDialect, unsupported_level=ErrorLevel.RAISE)
            read: exp.Expr = exp.maybe_parse(f"SELECT {written}", dialect=EngineDialect).expressions[0]
            if read != call:
                call.replace(read)


REWRITES: Sequence[Rewrite] = (
    ((exp.WithinGroup,), POSTGRES | TSQL | {"redshift", "snowflake"}, _within_group),
    ((exp.Quantile,), SPARK, _percentile),
    ((exp.ArrayAgg,), OTHERS, _array_of_values),
    ((exp.ArrayUniqueAgg,), SPARK | {"snowflake"}, _set_of_values),
    ((exp.Filter,), SPARK | {"snowflake"}, _filtered_array),
    ((exp.ArgMax, exp.ArgMin), SPARK | TRINO | {"snowflake", "bigquery"}, _at_extreme),
    ((exp.GroupConcat,), frozenset({"snowflake"}), _joined_values),
    ((exp.GroupConcat,), frozenset({"redshift"}), _joined_set),
    ((exp.Kurtosis,), SPARK, _kurtosis),
    ((exp.Skewness,), SPARK | TRINO, _skewness),
    (("every",), SPARK | POSTGRES | TRINO, _every),
    ((exp.Any, "some"), SPARK, _any_value_true),
    ((exp.JSONArrayAgg, "jsonb_agg"), POSTGRES, _json_array),
    ((exp.IgnoreNulls,), frozenset({"bigquery"}), _array_without_nulls),
    (("json_build_object", "jsonb_build_object"), POSTGRES, _json_object),
)
