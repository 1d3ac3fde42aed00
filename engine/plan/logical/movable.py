"""Which expressions mean the same on every host, over any part of the rows."""

from __future__ import annotations

from sqlglot import exp

from engine.plan.logical.function_properties import is_aggregate, is_volatile
from engine.sql.functions import ROW_MAKING_FUNCTIONS, function_name

_NOT_A_VALUE = (
    exp.Query,
    exp.Window,
    exp.Star,
    exp.Collate,
    exp.Columns,
    exp.Alias,
    exp.Aliases,
    exp.Unnest,
    exp.Explode,
    exp.Comprehension,
)


def is_movable(expression: exp.Expr) -> bool:
    """Whether an expression over columns can be evaluated row by row on any host.

    A collation is part of a value's type, which does not travel with the value; so expressions with one stay
    where they are.

    Args:
        expression: An expression of a qualified SELECT.

    Returns:
        False if it holds an aggregate, a window, a query, a function that is volatile or makes rows, a
        collation, or a name without a table.
    """
    for node in expression.walk():
        if isinstance(node, _NOT_A_VALUE) or is_aggregate(node):
            return False
        if isinstance(node, exp.Column) and not node.table:
            return False
        if isinstance(node, exp.Func) and (is_volatile(node) or function_name(node) in ROW_MAKING_FUNCTIONS):
            return False
    return True


def has_columns(expression: exp.Expr) -> bool:
    """Whether an expression depends on the row."""
    return expression.find(exp.Column) is not None
