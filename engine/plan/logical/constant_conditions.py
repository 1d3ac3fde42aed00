"""Conditions that compare one column with constants: they may be said again of other columns that have the
same values.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from sqlglot import exp

from engine.plan.logical.trees import column_text
from engine.plan.predicates import computed_operands, is_opaque, predicate_of

_TEMPORAL = (pa.types.is_date, pa.types.is_timestamp, pa.types.is_time)
_CAST_KINDS = {
    "number": exp.DataType.NUMERIC_TYPES,
    "text": exp.DataType.TEXT_TYPES,
    "temporal": exp.DataType.TEMPORAL_TYPES,
}


def compared_column(condition: exp.Expr, types: Mapping[str, pa.DataType]) -> str | None:
    """The column of a condition that compares it with constants.

    Args:
        condition: A condition of a resolved tree.
        types: Types of columns by their texts.

    Returns:
        The column's text, if the condition is about nothing else, is never true for NULL, and cannot fail for
        any value of the column's type; None for all other conditions.
    """
    columns = set[str]()
    for node in condition.walk():
        if isinstance(node, exp.Query):
            return None
        if isinstance(node, exp.Column):
            columns.add(column_text(node.table, node.name))
    if len(columns) != 1:
        return None
    (column,) = columns
    arrow_type = types.get(column)
    if arrow_type is None:
        return None
    predicate = predicate_of(condition, lambda _: column, {})
    if is_opaque(predicate) or not all(each.is_moved_time for each in computed_operands((predicate,))):
        return None
    kind = _kind_of(arrow_type)
    return column if kind is not None and _has_constants_of(condition, kind) else None


def _kind_of(arrow_type: pa.DataType) -> str | None:
    if pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type) or pa.types.is_decimal(arrow_type):
        return "number"
    if pa.types.is_string(arrow_type):
        return "text"
    return "temporal" if any(is_of(arrow_type) for is_of in _TEMPORAL) else None


def _has_constants_of(condition: exp.Expr, kind: str) -> bool:
    """Whether values of a kind can be compared with a condition's constants without being cast.

    A text literal takes the type of what it is compared with, before any row is read.
    """
    for node in condition.walk():
        if isinstance(node, exp.Cast):
            if not node.args["to"].is_type(*_CAST_KINDS[kind]):
                return False
        elif isinstance(node, exp.Literal) and not isinstance(node.parent, exp.Cast | exp.Interval):
            if node.is_string == (kind == "number"):
                return False
        elif isinstance(node, exp.Boolean):
            return False
    return True


def move_condition(condition: exp.Expr, column: exp.Column) -> exp.Expr:
    """A condition that compares one column with constants, said of another column."""
    copied = condition.copy()
    if isinstance(copied, exp.Column):
        return column.copy()
    for found in list(copied.find_all(exp.Column)):
        found.replace(column.copy())
    return copied
