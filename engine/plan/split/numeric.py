"""Which expressions are surely numbers."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from sqlglot import exp

from engine.errors import InvalidInput
from engine.model.sql_types import sql_type
from engine.plan.logical.trees import text
from engine.sql.functions import function_name

_SAME_AS_BOTH = (exp.Add, exp.Sub, exp.Mod, exp.IntDiv)
_SAME_AS_FIRST = (exp.Neg, exp.Paren, exp.Abs, exp.Round, exp.Ceil, exp.Floor)
_ALWAYS = (exp.Sqrt, exp.Ln, exp.Exp, exp.Pow, exp.Length, exp.Extract, exp.Year, exp.Month, exp.Day)
_PARTS_OF_TIMES = frozenset({"date_part", "datepart"})
"""Functions that give a number for a name; EXTRACT is one of them."""


def note_types(tree: exp.Expr, types: Mapping[str, pa.DataType]) -> None:
    """Annotate the columns of a tree with their types, for `is_number`.

    Args:
        tree: A qualified tree; its columns are changed.
        types: Canonical types of columns, by the text of the column.
    """
    known: dict[pa.DataType, exp.DataType | None] = {}
    for column in tree.find_all(exp.Column):
        arrow_type = types.get(text(column))
        if arrow_type is None:
            continue
        if arrow_type not in known:
            known[arrow_type] = _noted_type(arrow_type)
        if known[arrow_type] is not None:
            column.type = known[arrow_type]


def _noted_type(arrow_type: pa.DataType) -> exp.DataType | None:
    """A type as a note; None for one that is no value type of a store, and so nothing that is known to be a
    number.
    """
    try:
        return exp.DataType.build(sql_type(arrow_type), dialect="duckdb")
    except InvalidInput:
        return None


def is_number(node: exp.Expr | None) -> bool:
    """Whether an expression is surely a number, and not a date, time or interval.

    Columns tell it by their `type` (see `note_types`); a column without one is unknown.

    Args:
        node: An expression; None is none.

    Returns:
        False where it is not known.
    """
    if isinstance(node, exp.Column):
        return node.type is not None and _is_numeric(node.type)
    if isinstance(node, exp.Cast):
        return _is_numeric(node.args["to"])
    if isinstance(node, exp.Literal):
        return not node.is_string
    if isinstance(node, exp.Mul | exp.Div):
        # A number times a parameter is one: only intervals change what a product is.
        return all(
            is_number(side) or isinstance(side, exp.Placeholder) for side in (node.this, node.expression)
        ) and not (isinstance(node.this, exp.Placeholder) and isinstance(node.expression, exp.Placeholder))
    if isinstance(node, _SAME_AS_BOTH):
        return is_number(node.this) and is_number(node.expression)
    if isinstance(node, _SAME_AS_FIRST):
        return is_number(node.this)
    if isinstance(node, exp.Case):
        return _are_numbers(
            [*(branch.args.get("true") for branch in node.args["ifs"]), node.args.get("default")]
        )
    if isinstance(node, exp.If):
        return _are_numbers([node.args.get("true"), node.args.get("false")])
    if isinstance(node, exp.Coalesce):
        return _are_numbers([node.this, *node.expressions])
    return isinstance(node, _ALWAYS) or _is_part_of_time(node)


def _is_part_of_time(node: exp.Expr | None) -> bool:
    """Whether an expression is one part of a time; for a list of names there are several."""
    if not isinstance(node, exp.Anonymous) or function_name(node) not in _PARTS_OF_TIMES:
        return False
    return bool(node.expressions) and bool(node.expressions[0].is_string)


def _are_numbers(results: list[exp.Expr | None]) -> bool:
    """Whether one result is a number and the others are numbers or NULL."""
    given = [result for result in results if result is not None and not isinstance(result, exp.Null)]
    return bool(given) and all(is_number(result) for result in given)


def _is_numeric(sql_type: exp.Expr) -> bool:
    return (
        isinstance(sql_type, exp.DataType)
        and bool(sql_type.is_type(*exp.DataType.NUMERIC_TYPES))
        and not sql_type.is_type(exp.DataType.Type.BIT)
    )
