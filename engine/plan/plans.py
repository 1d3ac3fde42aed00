"""How a statement is answered: three kinds of plan, and which of them a statement gets.

A plan is made once for a statement and used for any parameters; what depends on parameters is computed in
`wanted_rows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from sqlglot import exp

from engine.plan.conditions import conditions
from engine.plan.intervals import IntervalFinder
from engine.plan.points import PointFinder
from engine.plan.predicates import OPAQUE, AllOf, Predicate, operand_of, predicate_of
from engine.plan.values import Arguments, Constant, Parameter
from engine.scan import RowFilter
from engine.sql.bind import BoundStatement, StoreReference


@dataclass(frozen=True)
class Output:
    """One column of a result that is a column of a store.

    Attributes:
        column: Name in the store.
        name: Name in the result.
    """

    column: str
    name: str


@dataclass(frozen=True)
class RowsPlan:
    """Plain columns of one store, without an engine.

    Attributes:
        reference: The store.
        outputs: Columns of the result.
        predicate: The whole WHERE clause; None if there is none.
        limit: How many rows at most; None for all.
    """

    reference: StoreReference
    outputs: tuple[Output, ...]
    predicate: Predicate | None
    limit: Constant | Parameter | None

    @cached_property
    def schema(self) -> pa.Schema:
        """Schema of the result."""
        stored = self.reference.definition.schema
        return pa.schema([pa.field(output.name, stored.field(output.column).type) for output in self.outputs])

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Columns of the store to read, each once."""
        return tuple(dict.fromkeys(output.column for output in self.outputs))

    @cached_property
    def column_indexes(self) -> tuple[int, ...]:
        """For each column of the result, its place in `columns`."""
        columns = self.columns
        return tuple(columns.index(output.column) for output in self.outputs)


@dataclass(frozen=True)
class CountPlan:
    """`SELECT count(*) FROM store`: stores know how many rows they have.

    Attributes:
        reference: The store.
        name: Name of the result's only column.
    """

    reference: StoreReference
    name: str

    @cached_property
    def schema(self) -> pa.Schema:
        """Schema of the result."""
        return pa.schema([pa.field(self.name, pa.int64())])


@dataclass(frozen=True)
class EnginePlan:
    """Anything else: the engine runs the statement over scans.

    Attributes:
        bound: The statement.
        predicates: For each reference, what holds for every row that can matter.
    """

    bound: BoundStatement
    predicates: tuple[Predicate, ...]


Plan = RowsPlan | CountPlan | EnginePlan


def plan(bound: BoundStatement) -> Plan:
    """Choose how to answer a query.

    Args:
        bound: A query.

    Returns:
        The plan. `RowsPlan` may still need the engine: its predicate must turn out to be points (see
        `wanted_rows`).
    """
    return _count_plan(bound) or _rows_plan(bound) or EnginePlan(bound, conditions(bound))


def _count_plan(bound: BoundStatement) -> CountPlan | None:
    select = bound.tree
    if (
        not isinstance(select, exp.Select)
        or _columns_in_use(select) != {"expressions", "from_"}
        or not _reads_one_store(bound, select)
    ):
        return None
    if len(select.expressions) != 1:
        return None
    output = select.expressions[0]
    count = output.this if isinstance(output, exp.Alias) else output
    if (
        not isinstance(count, exp.Count)
        or not isinstance(count.this, exp.Star)
        or _columns_in_use(count.this)
        or _columns_in_use(count) - {"this", "big_int"}
    ):
        return None
    return CountPlan(bound.references[0], output.alias if isinstance(output, exp.Alias) else "count_star()")


def _rows_plan(bound: BoundStatement) -> RowsPlan | None:
    """`SELECT columns FROM store [WHERE …] [LIMIT n]`, and nothing besides.

    Rows come in no particular order, as SQL has it without ORDER BY, so any LIMIT of them will do.
    """
    select = bound.tree
    if (
        not isinstance(select, exp.Select)
        or not _columns_in_use(select) <= {"expressions", "from_", "where", "limit"}
        or not _reads_one_store(bound, select)
    ):
        return None
    reference = bound.references[0]
    outputs = _outputs(select, reference)
    limit = select.args.get("limit")
    count = None if limit is None else _limit(limit)
    if outputs is None or (limit is not None and count is None):
        return None
    where = select.args.get("where")
    predicate = None
    if where is not None:
        predicate = predicate_of(where.this, lambda column: _column(column, reference), bound.list_schemas)
        if _has_opaque(predicate) or _renames(outputs, reference):
            return None
    return RowsPlan(reference, outputs, predicate, count)


def _renames(outputs: Sequence[Output], reference: StoreReference) -> bool:
    """An output under the name of another column could be what WHERE means."""
    names = {name.lower() for name in reference.definition.schema.names}
    return any(
        output.name.lower() != output.column.lower() and output.name.lower() in names for output in outputs
    )


def _columns_in_use(node: exp.Expr) -> set[str]:
    return {name for name, value in node.args.items() if value}


def _reads_one_store(bound: BoundStatement, select: exp.Select) -> bool:
    table = select.args["from_"].this if select.args.get("from_") else None
    if (
        not isinstance(table, exp.Table)
        or len(bound.references) != 1
        or table.name != bound.references[0].scan
    ):
        return False
    return _columns_in_use(table) <= {"this", "alias"} and _columns_in_use(table.args["alias"]) == {"this"}


def _outputs(select: exp.Select, reference: StoreReference) -> tuple[Output, ...] | None:
    found: list[Output] = []
    for expression in select.expressions:
        if _is_whole_row(expression, reference):
            found += [Output(name, name) for name in reference.definition.schema.names]
            continue
        column = expression.this if isinstance(expression, exp.Alias) else expression
        name = _column(column, reference) if isinstance(column, exp.Column) else None
        if name is None:
            return None
        found.append(Output(name, expression.alias if isinstance(expression, exp.Alias) else name))
    return tuple(found)


def _is_whole_row(expression: exp.Expr, reference: StoreReference) -> bool:
    """`*`, or `*` behind the table's name."""
    if isinstance(expression, exp.Column) and isinstance(expression.this, exp.Star):
        names = {name.lower() for name in reference.definition.schema.names}
        qualifier = expression.table.lower()
        return (
            not expression.db
            and not _columns_in_use(expression.this)
            and qualifier == reference.alias.lower()
            and qualifier not in names
        )
    return isinstance(expression, exp.Star) and not _columns_in_use(expression)


def _column(column: exp.Column, reference: StoreReference) -> str | None:
    """The store's column that an expression means: bare or behind the table's name, which no column has as
    well.
    """
    if isinstance(column.this, exp.Star) or column.db or column.catalog:
        return None
    by_lower = {name.lower(): name for name in reference.definition.schema.names}
    qualifier = column.table.lower()
    if qualifier and (qualifier != reference.alias.lower() or qualifier in by_lower):
        return None
    return by_lower.get(column.name.lower())


def _limit(limit: exp.Limit) -> Constant | Parameter | None:
    if _columns_in_use(limit) != {"expression"}:
        return None
    operand = operand_of(limit.args["expression"])
    if isinstance(operand, Parameter):
        return operand
    return (
        operand
        if isinstance(operand, Constant) and type(operand.value) is int and operand.value >= 0
        else None
    )


def _has_opaque(predicate: Predicate) -> bool:
    parts = getattr(predicate, "parts", None)
    return predicate == OPAQUE if parts is None else any(_has_opaque(part) for part in parts)


def wanted_rows(predicate: Predicate, reference: StoreReference, arguments: Arguments) -> RowFilter:
    """Which rows of a reference a query can need.

    Args:
        predicate: What holds for every row that can matter.
        reference: The reference.
        arguments: What the statement is used with.

    Returns:
        A superset of the needed rows.
    """
    if predicate in (OPAQUE, AllOf(())):
        return RowFilter()
    points = PointFinder(reference.definition, arguments).find(predicate)
    intervals = IntervalFinder(reference.definition, arguments).find(predicate)
    return RowFilter(None if points is None else points.rows, intervals)


def lookup_points(rows_plan: RowsPlan, arguments: Arguments) -> pa.RecordBatch | None:
    """The points whose rows are the answer.

    Args:
        rows_plan: A plan with a predicate.
        arguments: What the statement is used with.

    Returns:
        Points that are all that WHERE asks for, so that the live rows equal to one of them are the result;
        None where WHERE asks for something else.
    """
    if rows_plan.predicate is None:
        return None
    points = PointFinder(rows_plan.reference.definition, arguments).find(rows_plan.predicate)
    return points.rows if points is not None and points.complete else None
