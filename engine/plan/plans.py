"""How a statement is answered: three kinds of plan, and which of them a statement gets.

A plan is made once for a statement and used for any parameters; what depends on parameters is computed in
`wanted_rows`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa
from sqlglot import exp

from engine.cached_property import cached_property
from engine.model.names import fold
from engine.model.schema import StoreDefinition
from engine.plan.conditions import conditions
from engine.plan.intervals import IntervalFinder
from engine.plan.logical.logical_plan import logical_plan
from engine.plan.logical.plan import LogicalPlan
from engine.plan.points import PointFinder, conjuncts_of
from engine.plan.predicates import (
    OPAQUE,
    AllOf,
    Compare,
    Comparison,
    Predicate,
    is_opaque,
    operand_of,
    predicate_of,
)
from engine.plan.row_joins import RowJoin, row_join
from engine.plan.row_tests import (
    EVERY_ROW,
    AllTests,
    NullTest,
    RowTest,
    RowTests,
    ValueTest,
    columns_of,
    count_tests,
    null_test,
)
from engine.plan.row_widths import RowWidths
from engine.plan.values import Arguments, Constant, Parameter
from engine.scan import KeyRange, RowFilter
from engine.sql.bind import BoundStatement, StoreReference

MOST_TESTS = 64
"""With more comparisons than this for each row, the engine is faster, and can be interrupted."""
MOST_POINTS = 1 << 16
"""Values that are looked up one by one in a store that the engine then reads: more of them take longer than
reading all of it.
"""
MOST_SUMMED_DIGITS = 30
"""Digits of decimals that can be summed without a thought of overflow."""


MOST_ROWS = (1 << 63) - 1
"""The largest LIMIT or OFFSET that the engine takes."""


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
class KeyOrder:
    """An ORDER BY along the key of a store.

    Attributes:
        columns: Key columns that follow each other.
        pinned: The key columns before them, each of which WHERE compares with one value.
        descending: Whether the greatest comes first.
    """

    columns: tuple[str, ...]
    pinned: tuple[str, ...]
    descending: bool


@dataclass(frozen=True)
class RowsPlan:
    """Plain columns of one store, without an engine.

    Attributes:
        reference: The store.
        outputs: Columns of the result.
        predicate: The WHERE clause but for `null_tests`; None if there is nothing else in it.
        limit: How many rows at most; None for all.
        offset: How many rows are passed over; None for none.
        null_tests: Conjuncts of WHERE that ask for NULL.
        order: The order of the rows; None for any.
    """

    reference: StoreReference
    outputs: tuple[Output, ...]
    predicate: Predicate | None
    limit: Constant | Parameter | None
    offset: Constant | Parameter | None = None
    null_tests: tuple[NullTest, ...] = ()
    order: KeyOrder | None = None

    @property
    def takes_any_rows(self) -> bool:
        """Whether rows can be taken as they are found, on any host, until there are enough."""
        return self.order is None and self.offset is None

    @property
    def is_unconditional(self) -> bool:
        """Whether there is no WHERE clause."""
        return self.predicate is None and not self.null_tests

    @property
    def takes_all_of_predicate(self) -> bool:
        """Whether the result is all rows for which `predicate` holds."""
        return self.limit is None and self.offset is None and not self.null_tests

    @property
    def takes_first_of_predicate(self) -> bool:
        """Whether the result has a row for which `predicate` holds, if there is one."""
        limit = 1 if self.limit is None else self.limit.value if isinstance(self.limit, Constant) else None
        is_enough = type(limit) is int and 1 <= limit <= MOST_ROWS
        return is_enough and self.offset is None and not self.null_tests

    @cached_property
    def schema(self) -> pa.Schema:
        """Schema of the result."""
        stored = self.reference.definition.schema
        return pa.schema([pa.field(output.name, stored.field(output.column).type) for output in self.outputs])

    @cached_property
    def widths(self) -> RowWidths:
        """What rows of the result take."""
        return RowWidths(self.schema)

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
        logical: The logical plan; None where there is none, or where nothing is to be learned from it, as the
            statement is one SELECT from one table.
    """

    bound: BoundStatement
    predicates: tuple[Predicate, ...]
    logical: LogicalPlan | None


class Summary(Enum):
    """An aggregate that kernels compute as the engine does."""

    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True)
class SummaryColumn:
    """One column of a `SummaryPlan`'s result.

    Attributes:
        summary: The aggregate.
        column: Of which column of the store; None for `count(*)`.
        name: Name in the result; None where the text gives none.
    """

    summary: Summary
    column: str | None
    name: str | None


@dataclass(frozen=True)
class SummaryPlan(EnginePlan):
    """Aggregates of all rows of one store that pass a condition. Over many rows, and over several hosts, it
    is an `EnginePlan` like any other.

    Attributes:
        rows: The rows; its outputs are the columns that are aggregated.
        summaries: Columns of the result.
    """

    rows: RowsPlan
    summaries: tuple[SummaryColumn, ...]


@dataclass(frozen=True)
class RowJoinPlan(EnginePlan):
    """A few rows of one store, with the rows of another one whose key they have. For more rows, and over
    several hosts, it is an `EnginePlan` like any other.

    Attributes:
        rows: The rows of the first store.
        join: The join.
    """

    rows: RowsPlan
    join: RowJoin


Plan = RowsPlan | CountPlan | EnginePlan


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
    """Whether a statement is one SELECT from one table."""
    return (
        isinstance(tree, exp.Select)
        and not tree.args.get("joins")
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
    parts = [predicate_of(part, resolve, lists) for part in others]
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


_SUMMARIES: Mapping[type[exp.Expr], Summary] = {
    exp.Count: Summary.COUNT,
    exp.Sum: Summary.SUM,
    exp.Min: Summary.MIN,
    exp.Max: Summary.MAX,
}


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
    rows = None if points is None or points.rows.num_rows > MOST_POINTS else points.rows
    return RowFilter(rows, IntervalFinder(reference.definition, arguments).find(predicate))


@dataclass(frozen=True)
class RowSelection:
    """What is left of a `RowsPlan` once its arguments are known.

    Attributes:
        wanted: A superset of the rows that WHERE asks for.
        test: What rows must pass that stores give for `wanted`, or for `key_range`.
        columns: Columns to read, each once: those of the result, then those that are tested or ordered by.
        key_range: Where the rows lie in the order of the key, if the plan has an order and they lie in one
            range.
    """

    wanted: RowFilter
    test: RowTest
    columns: tuple[str, ...]
    key_range: KeyRange | None

    @property
    def is_lookup(self) -> bool:
        """Whether rows are looked up, and all that are found are wanted."""
        return self.wanted.points is not None and self.test == EVERY_ROW


def row_selection(rows_plan: RowsPlan, arguments: Arguments) -> RowSelection | None:
    """Which rows a plan gives.

    Args:
        rows_plan: The plan.
        arguments: What the statement is used with.

    Returns:
        The selection; None where only the engine can tell what a condition means.
    """
    definition, order = rows_plan.reference.definition, rows_plan.order
    rest = () if rows_plan.predicate is None else conjuncts_of(rows_plan.predicate)
    points = None
    if rows_plan.predicate is not None:
        found = PointFinder(definition, arguments).find(rows_plan.predicate)
        if found is not None and (found.complete or found.rows.num_rows <= MOST_POINTS):
            points, rest = found.rows, found.rest
    tests: list[RowTest] = [*rows_plan.null_tests]
    for part in rest:
        test = RowTests(definition, arguments).row_test(part)
        if test is None:
            return None
        tests.append(test)
    is_whole = points is not None and points.num_columns == len(definition.key)
    intervals = {} if is_whole else IntervalFinder(definition, arguments).find(AllOf(rest))
    wanted = RowFilter(points, intervals)
    key_range = None if order is None else _key_range(order, wanted, definition)
    # Stores give exactly the rows of a range of the key.
    bounded = _bounded_column(points, key_range, definition)
    tests = [test for test in tests if not (isinstance(test, ValueTest) and test.column == bounded)]
    whole = tests[0] if len(tests) == 1 else AllTests(tuple(tests))
    if count_tests(whole) > MOST_TESTS:
        return None
    columns = rows_plan.columns
    if tests or (order is not None and key_range is None):
        ordering = order.columns if order is not None and key_range is None else ()
        columns = tuple(dict.fromkeys((*columns, *sorted(columns_of(whole)), *ordering)))
    return RowSelection(wanted, whole, columns, key_range)


def _bounded_column(
    points: pa.RecordBatch | None, key_range: KeyRange | None, definition: StoreDefinition
) -> str | None:
    """The key column whose interval stores hold exactly; None where there is none."""
    if key_range is None:
        return definition.key[0] if points is None else None
    behind = len(key_range.prefix)
    return definition.key[behind] if behind < len(definition.key) else None


def _key_range(order: KeyOrder, wanted: RowFilter, definition: StoreDefinition) -> KeyRange | None:
    """The range of the key in which wanted rows lie, in the order that is asked for; None where points have
    to be looked up one by one.
    """
    key, points = definition.key, wanted.points
    if points is None:
        return KeyRange((), wanted.intervals.get(key[0])) if not order.pinned else None
    if points.num_rows != 1:
        return None
    prefix = tuple(points.column(index)[0] for index in range(points.num_columns))
    behind = key[len(prefix)] if len(prefix) < len(key) else None
    return KeyRange(prefix, None if behind is None else wanted.intervals.get(behind))
