"""Which plan a statement gets: plain rows or a count where that is all that is asked for, else the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from sqlglot import exp

from engine.model.names import fold
from engine.plan.conditions import conditions
from engine.plan.logical.logical_plan import logical_plan
from engine.plan.plans import (
    CountPlan,
    EnginePlan,
    KeyOrder,
    Output,
    Plan,
    RowJoinPlan,
    RowsPlan,
    Summary,
    SummaryColumn,
    SummaryPlan,
)
from engine.plan.predicates import AllOf, Compare, Comparison, Predicate, is_opaque, operand_of, predicate_of
from engine.plan.row_joins import row_join
from engine.plan.row_tests import NullTest, null_test
from engine.plan.values import Constant, Parameter
from engine.sql.bind import BoundStatement, StoreReference

MOST_SUMMED_DIGITS = 30
"""Digits of decimals that can be summed without a thought of overflow."""
_SUMMARIES: Mapping[type[exp.Expr], Summary] = {
    exp.Count: Summary.COUNT,
    exp.Sum: Summary.SUM,
    exp.Min: Summary.MIN,
    exp.Max: Summary.MAX,
}


def plan(bound: BoundStatement) -> Plan:
    """Choose how to answer a query.

    Args:
        bound: A query.

    Returns:
        The plan. `RowsPlan` may still need the engine: its predicate must turn out to be points (see
        `wanted_rows`).
    """
    return (
        _count_plan(bound)
        or _rows_plan(bound)
        or _summary_plan(bound)
        or _row_join_plan(bound)
        or _engine_plan(bound)
    )


def _engine_plan(bound: BoundStatement) -> EnginePlan:
    logical = None if _is_one_select(bound.tree) else logical_plan(bound)
    return EnginePlan(bound, conditions(bound, logical), logical)


def _is_one_select(tree: exp.Expr | None) -> bool:
    """Whether a statement is one SELECT from one table, whose conditions on rows are all in WHERE."""
    return (
        isinstance(tree, exp.Select)
        and not tree.args.get("joins")
        and tree.args.get("having") is None
        and all(found is tree for found in tree.find_all(exp.Query))
    )


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
    """`SELECT columns FROM store [WHERE …] [ORDER BY …] [LIMIT n] [OFFSET n]`, and nothing besides.

    Without ORDER BY rows come in no particular order, as SQL has it, so any LIMIT of them will do. With it,
    they must come along the key, whose values differ from row to row and are never NULL.
    """
    select = bound.tree
    if (
        not isinstance(select, exp.Select)
        or not _columns_in_use(select) <= {"expressions", "from_", "where", "order", "limit", "offset"}
        or not _reads_one_store(bound, select)
    ):
        return None
    reference = bound.references[0]
    outputs = _outputs(select, reference)
    limit, offset = select.args.get("limit"), select.args.get("offset")
    count = None if limit is None else _row_count(limit)
    passed = None if offset is None else _row_count(offset)
    if (
        outputs is None
        or (limit is not None and count is None)
        or (offset is not None and passed is None)
        or ((select.args.get("where") or select.args.get("order")) and _renames(outputs, reference))
    ):
        return None
    predicate: Predicate | None = None
    null_tests: tuple[NullTest, ...] = ()
    where = select.args.get("where")
    if where is not None:
        found = _where(where.this, reference, bound.list_schemas)
        if found is None:
            return None
        predicate, null_tests = found
    order, ordered = None, select.args.get("order")
    if ordered is not None:
        order = _key_order(ordered, outputs, reference, predicate)
        if order is None:
            return None
    return RowsPlan(reference, outputs, predicate, count, passed, null_tests, order)


def _where(
    condition: exp.Expr, reference: StoreReference, lists: Mapping[str, pa.Schema]
) -> tuple[Predicate | None, tuple[NullTest, ...]] | None:
    """What WHERE asks for: a predicate, and conjuncts that ask for NULL. None if not all is understood."""

    def resolve(column: exp.Column) -> str | None:
        return _column(column, reference)

    tests: list[NullTest] = []
    others: list[exp.Expr] = []
    for part in condition.flatten() if isinstance(condition, exp.And) else (condition,):
        test = null_test(part, resolve)
        if test is None:
            others.append(part)
        else:
            tests.append(test)
    if not others:
        return None, tuple(tests)
    if not tests:
        others = [condition]
    parts = [predicate_of(part, resolve, lists, reference.definition.key) for part in others]
    predicate = parts[0] if len(parts) == 1 else AllOf(tuple(parts))
    return None if is_opaque(predicate) else (predicate, tuple(tests))


def _key_order(
    order: exp.Order, outputs: Sequence[Output], reference: StoreReference, predicate: Predicate | None
) -> KeyOrder | None:
    """The order of an ORDER BY; None where it does not go along the key."""
    if _columns_in_use(order) != {"expressions"}:
        return None
    columns: list[str] = []
    directions: set[bool] = set()
    for ordered in order.expressions:
        # Where NULLs come does not matter: keys have none.
        if not isinstance(ordered, exp.Ordered) or _columns_in_use(ordered) - {"this", "desc", "nulls_first"}:
            return None
        column = _ordering_column(ordered.this, outputs, reference)
        if column is None:
            return None
        columns.append(column)
        directions.add(bool(ordered.args.get("desc")))
    key = reference.definition.key
    pinned = _pinned_columns(predicate)
    leading = 0
    while leading < len(key) and key[leading] in pinned and key[leading] != columns[0]:
        leading += 1
    if len(directions) != 1 or tuple(columns) != key[leading : leading + len(columns)]:
        return None
    return KeyOrder(tuple(columns), key[:leading], directions.pop())


def _ordering_column(node: exp.Expr, outputs: Sequence[Output], reference: StoreReference) -> str | None:
    """The store's column that an ORDER BY names: by an output, whose name goes first, or as it is."""
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star) or fold(node.name) == "all":
        return None
    named = {output.column for output in outputs if fold(output.name) == fold(node.name)}
    if not node.table and named:
        return named.pop() if len(named) == 1 else None
    return _column(node, reference)


def _pinned_columns(predicate: Predicate | None) -> frozenset[str]:
    """Columns that every row has one and the same value of, if it is known."""
    parts = predicate.parts if isinstance(predicate, AllOf) else (predicate,)
    return frozenset(
        part.column
        for part in parts
        if isinstance(part, Compare) and part.comparison is Comparison.EQUAL and part.beside is None
    )


def _summary_plan(bound: BoundStatement) -> SummaryPlan | None:
    """`SELECT aggregates FROM store WHERE …`, and nothing besides."""
    select = bound.tree
    if (
        not isinstance(select, exp.Select)
        or _columns_in_use(select) != {"expressions", "from_", "where"}
        or not _reads_one_store(bound, select)
    ):
        return None
    reference = bound.references[0]
    found = [_summary(expression, reference) for expression in select.expressions]
    summaries = tuple(summary for summary in found if summary is not None)
    names = {fold(name) for name in reference.definition.schema.names}
    if len(summaries) != len(found) or any(
        summary.name is not None and fold(summary.name) in names for summary in summaries
    ):
        return None
    where = _where(select.args["where"].this, reference, bound.list_schemas)
    if where is None:
        return None
    columns = dict.fromkeys(summary.column for summary in summaries if summary.column is not None)
    outputs = tuple(Output(column, column) for column in columns)
    rows = RowsPlan(reference, outputs, where[0], None, None, where[1])
    return SummaryPlan(bound, conditions(bound, None), None, rows, summaries)


def _row_join_plan(bound: BoundStatement) -> RowJoinPlan | None:
    """A join that looks keys up, where the rows of the first store are found without the engine."""
    join = row_join(bound)
    where = None if join is None else _where(join.condition, join.one, bound.list_schemas)
    if join is None or where is None:
        return None
    columns = dict.fromkeys((*(output.column for output in join.outputs if not output.is_other), join.column))
    outputs = tuple(Output(column, column) for column in columns)
    rows = RowsPlan(join.one, outputs, where[0], None, None, where[1])
    engine = _engine_plan(bound)
    return RowJoinPlan(engine.bound, engine.predicates, engine.logical, rows, join)


def _summary(expression: exp.Expr, reference: StoreReference) -> SummaryColumn | None:
    """An output that is an aggregate which kernels compute; None for any other."""
    call = expression.this if isinstance(expression, exp.Alias) else expression
    name = expression.alias if isinstance(expression, exp.Alias) else None
    summary = _SUMMARIES.get(type(call))
    if summary is None or _columns_in_use(call) - {"this", "big_int"}:
        return None
    if summary is Summary.COUNT and isinstance(call.this, exp.Star):
        return None if _columns_in_use(call.this) else SummaryColumn(summary, None, name)
    column = _column(call.this, reference) if isinstance(call.this, exp.Column) else None
    if column is None or not _can_be_summarized(summary, reference.definition.schema.field(column).type):
        return None
    return SummaryColumn(summary, column, name)


def _can_be_summarized(summary: Summary, arrow_type: pa.DataType) -> bool:
    """Whether kernels give what the engine gives, which takes NaN for the greatest number."""
    if summary is Summary.COUNT:
        return True
    if pa.types.is_integer(arrow_type):
        return True
    if pa.types.is_decimal(arrow_type):
        # Wider ones may overflow, which is for the engine to say.
        return summary is not Summary.SUM or arrow_type.precision <= MOST_SUMMED_DIGITS
    if summary is Summary.SUM:
        return bool(pa.types.is_float64(arrow_type))
    return bool(
        pa.types.is_string(arrow_type) or pa.types.is_date(arrow_type) or pa.types.is_timestamp(arrow_type)
    )


def _renames(outputs: Sequence[Output], reference: StoreReference) -> bool:
    """An output under the name of another column could be what WHERE means."""
    names = {fold(name) for name in reference.definition.schema.names}
    return any(fold(output.name) != fold(output.column) and fold(output.name) in names for output in outputs)


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
        names = {fold(name) for name in reference.definition.schema.names}
        qualifier = fold(expression.table)
        return (
            not expression.db
            and not _columns_in_use(expression.this)
            and qualifier == fold(reference.alias)
            and qualifier not in names
        )
    return isinstance(expression, exp.Star) and not _columns_in_use(expression)


def _column(column: exp.Column, reference: StoreReference) -> str | None:
    """The store's column that an expression means: bare or behind the table's name, which no column has as
    well.
    """
    if isinstance(column.this, exp.Star) or column.db or column.catalog:
        return None
    by_lower = {fold(name): name for name in reference.definition.schema.names}
    qualifier = fold(column.table)
    if qualifier and (qualifier != fold(reference.alias) or qualifier in by_lower):
        return None
    return by_lower.get(fold(column.name))


def _row_count(clause: exp.Expr) -> Constant | Parameter | None:
    """How many rows a LIMIT or an OFFSET names; None where the engine must judge."""
    if _columns_in_use(clause) != {"expression"}:
        return None
    operand = operand_of(clause.args["expression"])
    if isinstance(operand, Parameter):
        return operand
    return (
        operand
        if isinstance(operand, Constant) and type(operand.value) is int and operand.value >= 0
        else None
    )
