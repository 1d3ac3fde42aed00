"""Gather: rows of every reference come to the coordinator, which runs the statement as it stands.

Right for every statement, since the coordinator then has what one host with everything would have: each
reference's rows, once each, but for rows that cannot matter. Which rows those are `engine.plan.conditions`
says, from the statement alone, and what it does not understand keeps all rows. A fragment reads the columns
that the statement can touch, and one column of ones where it only counts rows. NULLs, duplicates and types
are those of the stores; the order of rows is no more certain than on one host.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import count

import pyarrow as pa
from sqlglot import exp

from engine.model.names import fold
from engine.plan.logical.trees import PART_PREFIX, column, conjunction, disjunction, select_from, table
from engine.plan.predicates import (
    AllOf,
    AnyOf,
    Compare,
    CompareRow,
    Comparison,
    IsAmong,
    IsAnyOf,
    IsListed,
    Opaque,
    Predicate,
    StartsWith,
)
from engine.plan.split.nodes import Fragment, SplitPlan
from engine.plan.values import UNKNOWN, Computed, Constant, Operand, Parameter
from engine.sql.bind import BoundStatement, StoreReference

RULE = "gather"
_ONE = "one"
_COMPARISONS: dict[Comparison, type[exp.Binary]] = {
    Comparison.EQUAL: exp.EQ,
    Comparison.LESS: exp.LT,
    Comparison.LESS_EQUAL: exp.LTE,
    Comparison.GREATER: exp.GT,
    Comparison.GREATER_EQUAL: exp.GTE,
}


def gather(bound: BoundStatement, predicates: Sequence[Predicate]) -> SplitPlan:
    """Split a statement into its references and itself.

    Args:
        bound: A statement with a tree.
        predicates: For each reference, what holds for every row that can matter.

    Returns:
        One fragment a reference, and the statement over them.
    """
    assert bound.tree is not None
    return gather_rest(bound, bound.tree.copy(), predicates)


def gather_rest(
    bound: BoundStatement,
    merge: exp.Expr,
    predicates: Sequence[Predicate],
    fragments: Sequence[Fragment] = (),
) -> SplitPlan:
    """Gather what is still read of a statement's references.

    Args:
        bound: The statement.
        merge: Its tree, perhaps with rows of fragments in the places of some of its queries; taken over.
        predicates: For each reference of the statement, what holds for every row that can matter.
        fragments: These fragments.

    Returns:
        The fragments, one more for each reference that the tree still reads, and the tree over them.
    """
    # A common table expression may have such a name.
    taken = {fold(cte.alias) for cte in merge.find_all(exp.CTE)} | {each.name for each in fragments}
    unused = (name for number in count() if (name := f"{PART_PREFIX}{number}") not in taken)
    tables = [node for node in merge.find_all(exp.Table) if not node.db]
    read = {node.name for node in tables}
    gathered = [
        (reference, predicate, next(unused))
        for reference, predicate in zip(bound.references, predicates, strict=True)
        if reference.scan in read or not fragments
    ]
    parts = {reference.scan: name for reference, _, name in gathered}
    for node in tables:
        if node.name in parts:
            node.set("this", exp.to_identifier(parts[node.name], quoted=True))
    rows = (
        Fragment(name, _rows(reference, predicate, bound.list_schemas), (reference,), (), RULE)
        for reference, predicate, name in gathered
    )
    every = (*fragments, *rows)
    return SplitPlan(tuple(each.rule for each in every), every, merge)


def _rows(reference: StoreReference, predicate: Predicate, lists: Mapping[str, pa.Schema]) -> exp.Select:
    """The columns of a reference that can be touched, of the rows that can matter."""
    alias = reference.alias
    outputs: list[exp.Expr] = [
        exp.alias_(column(alias, name), name, quoted=True) for name in reference.columns
    ]
    rows = select_from(
        outputs or [exp.alias_(exp.Literal.number(1), _ONE, quoted=True)], table(reference.scan, alias)
    )
    condition = condition_of(predicate, reference, lists)
    if condition is not None:
        rows.set("where", exp.Where(this=condition))
    return rows


def condition_of(
    predicate: Predicate, reference: StoreReference, lists: Mapping[str, pa.Schema]
) -> exp.Expr | None:
    """A predicate as a condition.

    Args:
        predicate: What is known of a reference's rows.
        reference: The reference.
        lists: Columns of the long literal lists by name.

    Returns:
        A condition that holds wherever the predicate does; None where that says nothing.
    """
    if isinstance(predicate, Opaque):
        return None
    if isinstance(predicate, AllOf):
        known = [
            part
            for part in (condition_of(each, reference, lists) for each in predicate.parts)
            if part is not None
        ]
        return conjunction(known)
    if isinstance(predicate, AnyOf):
        parts = [condition_of(each, reference, lists) for each in predicate.parts]
        known = [part for part in parts if part is not None]
        return disjunction(known) if len(known) == len(parts) else None
    return _leaf(predicate, reference, lists)


def _leaf(
    predicate: Compare | CompareRow | IsAmong | IsListed | IsAnyOf | StartsWith,
    reference: StoreReference,
    lists: Mapping[str, pa.Schema],
) -> exp.Expr | None:
    alias = reference.alias
    if isinstance(predicate, StartsWith):
        return exp.StartsWith(
            this=column(alias, predicate.column), expression=exp.Literal.string(predicate.prefix)
        )
    if isinstance(predicate, IsAnyOf):
        return exp.EQ(
            this=column(alias, predicate.column), expression=exp.Any(this=_operand(predicate.parameter))
        )
    if isinstance(predicate, Compare):
        arrow_type = reference.definition.schema.field(predicate.column).type
        if predicate.beside is not None and _is_number(arrow_type):
            return _between_condition(predicate, alias)
        if predicate.beside is UNKNOWN and pa.types.is_string(arrow_type):
            return None  # the engine compares by the collation of the other bound
        operand = _operand(predicate.operand)
        return (
            None
            if operand is None
            else _COMPARISONS[predicate.comparison](this=column(alias, predicate.column), expression=operand)
        )
    if isinstance(predicate, CompareRow):
        return _first_bound(predicate, reference, lists)
    columns = [column(alias, name) for name in predicate.columns]
    left: exp.Expr = columns[0] if len(columns) == 1 else exp.Tuple(expressions=columns)
    if isinstance(predicate, IsListed):
        names = [lists[predicate.list_name].names[index] for index in predicate.column_indexes]
        listed = select_from(
            [column(predicate.list_name, name) for name in names],
            table(predicate.list_name, predicate.list_name),
        )
        return exp.In(this=left, query=exp.Subquery(this=listed))
    return _membership(left, predicate, reference.definition.schema)


def _first_bound(
    predicate: CompareRow, reference: StoreReference, lists: Mapping[str, pa.Schema]
) -> exp.Expr | None:
    """What a comparison of rows says of its first column."""
    operand = predicate.operands[0]
    if not isinstance(operand, Constant) or operand.value is None:
        return None  # all values are less than NULL, beside others
    is_above = predicate.comparison in (Comparison.GREATER, Comparison.GREATER_EQUAL)
    towards = Comparison.GREATER_EQUAL if is_above else Comparison.LESS_EQUAL
    return _leaf(Compare(predicate.columns[0], towards, operand), reference, lists)


def _is_number(arrow_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(arrow_type) or pa.types.is_decimal(arrow_type) or pa.types.is_floating(arrow_type)
    )


def _between_condition(predicate: Compare, alias: str) -> exp.Expr | None:
    """A bound of a BETWEEN over numbers: both at once, as the engine finds one type for them and the column;
    said with the lower one.
    """
    low, high = (
        _operand(predicate.operand),
        None if predicate.beside in (None, UNKNOWN) else _operand(predicate.beside),
    )
    if predicate.comparison is not Comparison.GREATER_EQUAL or low is None or high is None:
        return None
    return exp.Between(this=column(alias, predicate.column), low=low, high=high)


def _membership(left: exp.Expr, predicate: IsAmong, schema: pa.Schema) -> exp.Expr | None:
    """Membership in a list, where it cannot matter whether the rows were a list or VALUES, which are typed
    differently.
    """
    members: list[exp.Expr] = []
    for row in predicate.rows:
        if len(row) > 1 and not all(isinstance(each, Constant) and each.value is not None for each in row):
            return None  # such rows equal those that an outer join pads with NULLs
        operands = [
            _member(operand, schema.field(name).type)
            for operand, name in zip(row, predicate.columns, strict=True)
        ]
        known = [operand for operand in operands if operand is not None]
        if len(known) != len(operands):
            return None
        members.append(known[0] if len(known) == 1 else exp.Tuple(expressions=known))
    return exp.In(this=left, expressions=members) if members else None


def _member(operand: Operand, arrow_type: pa.DataType) -> exp.Expr | None:
    if isinstance(operand, Constant) and operand.literal and operand.value is not None:
        same = (
            pa.types.is_string(arrow_type)
            if isinstance(operand.value, str)
            else pa.types.is_integer(arrow_type) and type(operand.value) is int
        )
        return _operand(operand) if same else None
    return _operand(operand)


def _operand(operand: Operand) -> exp.Expr | None:
    """An operand as it stood in the statement; None for a constant of a form that no statement has, and for
    an expression that may fail, which must not happen where no row reaches it.
    """
    if isinstance(operand, Computed):
        return operand.node.copy() if operand.is_moved_time else None
    if isinstance(operand, Parameter):
        return exp.Placeholder(this=str(operand.index + 1))
    value = operand.value
    found: exp.Expr | None = None
    if value is None:
        found = exp.null()
    elif isinstance(value, bool):
        found = exp.Boolean(this=value)
    elif isinstance(value, str):
        text = exp.Literal.string(value)
        found = text if operand.literal else exp.cast(text, "TEXT")
    elif isinstance(value, int | Decimal):
        # Neither formats integers as floats nor rounds decimals to the context's 28 digits, as `format(…,
        # "f")` and `abs` do.
        literal = exp.Literal.number(
            str(abs(value)) if isinstance(value, int) else format(value.copy_abs(), "f")
        )
        found = exp.Neg(this=literal) if value < 0 else literal
    elif isinstance(value, dt.datetime):
        found = exp.cast(
            exp.Literal.string(value.isoformat(" ")),
            "TIMESTAMPTZ" if value.tzinfo is not None else "TIMESTAMP",
            dialect="duckdb",
        )
    elif isinstance(value, dt.date):
        found = exp.cast(exp.Literal.string(value.isoformat()), "DATE")
    return found
