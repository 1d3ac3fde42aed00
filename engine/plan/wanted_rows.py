"""Which rows a statement needs, once its arguments are known."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from engine.model.schema import StoreDefinition
from engine.plan.intervals import IntervalFinder
from engine.plan.plans import KeyOrder, RowsPlan
from engine.plan.points import PointFinder, conjuncts_of
from engine.plan.predicates import OPAQUE, AllOf, Predicate
from engine.plan.row_tests import EVERY_ROW, AllTests, RowTest, RowTests, ValueTest, columns_of, count_tests
from engine.plan.values import Arguments
from engine.scan import KeyRange, RowFilter
from engine.sql.bind import StoreReference

MOST_TESTS = 64
"""With more comparisons than this for each row, the engine is faster, and can be interrupted."""
MOST_POINTS = 1 << 16
"""Values that are looked up one by one in a store that the engine then reads: more of them take longer than
reading all of it.
"""


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
