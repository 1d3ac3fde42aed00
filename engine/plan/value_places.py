"""Where a statement's parameters are mere values: nothing about it but what is compared depends on them."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from sqlglot import exp

from engine.model.names import fold
from engine.sql.bind import BoundStatement, StoreReference
from engine.sql.output_names import holds_unnamed
from engine.sql.read_columns import has_columns_of_rows
from engine.sql.versions import is_versioned

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_CONNECTIVES = (exp.And, exp.Or, exp.Not, exp.Paren)


def value_places(bound: BoundStatement) -> Mapping[int, pa.DataType]:
    """Parameters that a plain column of a store is compared with, in WHERE or ON.

    Args:
        bound: A query.

    Returns:
        For the number of each of them the column's type; none for statements whose plan may hang on values.
    """
    tree = bound.tree
    if (
        not isinstance(tree, exp.Query)
        or has_columns_of_rows(tree)
        or any(is_versioned(reference.definition) for reference in bound.references)
    ):
        return {}
    by_scan = {reference.scan: reference for reference in bound.references}
    found: dict[int, pa.DataType] = {}
    others: set[int] = set()
    for mark in tree.find_all(exp.Placeholder):
        arrow_type = _compared_type(mark, by_scan)
        if arrow_type is None or found.get(int(mark.name), arrow_type) != arrow_type:
            others.add(int(mark.name))
        else:
            found[int(mark.name)] = arrow_type
    return {number: arrow_type for number, arrow_type in found.items() if number not in others}


def _compared_type(mark: exp.Placeholder, by_scan: Mapping[str, StoreReference]) -> pa.DataType | None:
    """The type of the column that a parameter is compared with; None where it is anything but that."""
    comparison = mark.parent
    if comparison is None:
        return None
    arguments = {name for name, value in comparison.args.items() if value}
    if isinstance(comparison, _COMPARISONS) and arguments == {"this", "expression"}:
        column = comparison.args["expression"] if comparison.this is mark else comparison.this
    elif (isinstance(comparison, exp.Between) and arguments == {"this", "low", "high"}) or (
        isinstance(comparison, exp.In) and arguments == {"this", "expressions"}
    ):
        column = comparison.this
    else:
        return None
    select = _condition_of(comparison)
    if select is None or not isinstance(column, exp.Column) or holds_unnamed(mark):
        return None
    return _column_type(column, select, by_scan)


def _condition_of(comparison: exp.Expr) -> exp.Select | None:
    """The SELECT of whose WHERE, or of an ON of whose joins, a comparison is a part."""
    node: exp.Expr = comparison
    while isinstance(node.parent, _CONNECTIVES):
        node = node.parent
    parent = node.parent
    if isinstance(parent, exp.Where) or (isinstance(parent, exp.Join) and node.arg_key == "on"):
        select = parent.parent
    else:
        return None
    return select if isinstance(select, exp.Select) else None


def _column_type(
    column: exp.Column, select: exp.Select, by_scan: Mapping[str, StoreReference]
) -> pa.DataType | None:
    """The type of a column that surely is one of a store in the FROM clause of a SELECT."""
    if column.db or column.catalog or isinstance(column.this, exp.Star):
        return None
    name, qualifier = fold(column.name), fold(column.table)
    from_ = select.args.get("from_")
    tables = [] if from_ is None else [from_.this, *(join.this for join in select.args.get("joins") or ())]
    references = [
        by_scan[table.name] for table in tables if isinstance(table, exp.Table) and table.name in by_scan
    ]
    # Whatever else stands there may have a column of this name, too.
    if len(references) != len(tables):
        return None
    aliases = [fold(reference.alias) for reference in references]
    is_alias = any(
        isinstance(output, exp.Alias)
        and fold(output.alias) in (name, qualifier)
        and not (isinstance(output.this, exp.Column) and fold(output.this.name) == name)
        for output in select.expressions
    )
    has_such_columns = any(
        fold(field.name) in aliases for reference in references for field in reference.definition.schema
    )
    if is_alias or has_such_columns:
        return None
    types = [
        field.type
        for alias, reference in zip(aliases, references, strict=True)
        if not qualifier or alias == qualifier
        for field in reference.definition.schema
        if fold(field.name) == name
    ]
    return types[0] if len(types) == 1 else None
