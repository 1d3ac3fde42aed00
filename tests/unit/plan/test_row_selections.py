"""What rows are still tested for: what neither looked up keys nor a range of the key say."""

from __future__ import annotations

import pyarrow as pa
import pytest

from engine.model.schema import StoreDefinition, define_store
from engine.plan.intervals import MOST_ALTERNATIVES, IntervalFinder
from engine.plan.plan_choice import plan
from engine.plan.plans import RowsPlan
from engine.plan.predicates import AnyOf, Compare, Comparison
from engine.plan.row_tests import AllTests, columns_of
from engine.plan.values import Arguments, Constant
from engine.plan.wanted_rows import RowSelection, row_selection
from engine.scan import Interval
from engine.sql.bind import bind
from engine.sql.literals import lift
from engine.sql.parse import parse

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string()), ("n", pa.int64()), ("x", pa.float64())])


def _selection(sql: str, key: list[str]) -> RowSelection:
    store: StoreDefinition = define_store("t", SCHEMA, key, partitions=4)
    made = plan(bind(parse(lift(sql, "duckdb"), "duckdb"), (), {store.name: store}))
    assert isinstance(made, RowsPlan)
    found = row_selection(made, Arguments())
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("condition", "key", "tested"),
    [
        ("a BETWEEN 1 AND 5", ["a"], []),
        ("a > 1 AND a < 5 AND n = 3", ["a"], ["n"]),
        ("a >= 1 AND x > 2", ["a", "b"], ["x"]),
        ("a > 1 AND b > 'c'", ["a", "b"], ["b"]),
        ("a = 1", ["a"], []),
        ("a IN (1, 2, 3) AND n < 5", ["a"], ["n"]),
        ("a IN (1, 2) AND a IN (2, 3)", ["a"], ["a"]),
        ("a IN (1, 2) AND a > 1", ["a"], ["a"]),
        ("a = 1 AND b = 'c' AND n IS NULL", ["a", "b"], ["n"]),
        ("a = 1 AND b > 'c'", ["a", "b"], ["b"]),
        ("a IN (1, 2) OR a = 3", ["a"], []),
        ("(a = 1 AND n = 2) OR a = 3", ["a"], ["a", "n"]),
        ("b = 'c'", ["a", "b"], ["b"]),
        ("a = NULL AND n = 1", ["a"], ["n"]),
    ],
)
def test_only_what_the_key_does_not_say_is_tested(condition: str, key: list[str], tested: list[str]) -> None:
    selection = _selection(f"SELECT x FROM t WHERE {condition}", key)
    assert sorted(columns_of(selection.test)) == tested
    assert selection.columns == tuple(dict.fromkeys(["x", *tested]))


@pytest.mark.parametrize(
    ("condition", "interval"),
    [
        ("(a, b) > (5, 'k')", Interval(low=pa.scalar(5))),
        ("(5, 'k') > (a, b)", Interval(high=pa.scalar(5))),
        ("(a, b) >= (5, 'k') AND (a, b) < (7, 'c')", Interval(pa.scalar(5), pa.scalar(7))),
        ("a > 5 OR (a = 5 AND b > 'k')", Interval(low=pa.scalar(5))),
        ("a > 5 OR a = 4", Interval(low=pa.scalar(4))),
        ("a > 5 OR a > 6", Interval(low=pa.scalar(5), low_open=True)),
        ("(a > 5 AND a < 9) OR a BETWEEN 7 AND 8", Interval(pa.scalar(5), pa.scalar(9), True, True)),
        ("a > 5 OR b > 'k'", None),
        ("a < 5 OR a <= 5", Interval(high=pa.scalar(5))),
    ],
)
def test_rows_behind_a_key_are_read_along_it(condition: str, interval: Interval | None) -> None:
    selection = _selection(f"SELECT n FROM t WHERE {condition} ORDER BY a, b LIMIT 3", ["a", "b"])
    assert selection.key_range is not None
    assert selection.key_range.interval == interval
    assert "a" in columns_of(selection.test)


def test_many_alternatives_bound_nothing() -> None:
    for count, is_bounded in ((MOST_ALTERNATIVES, True), (MOST_ALTERNATIVES + 1, False)):
        predicate = AnyOf(
            tuple(Compare("a", Comparison.GREATER, Constant(number, literal=True)) for number in range(count))
        )
        definition = define_store("t", SCHEMA, ["a"])
        assert ("a" in IntervalFinder(definition, Arguments()).find(predicate)) is is_bounded


def test_a_page_behind_a_prefix_is_not_tested() -> None:
    selection = _selection("SELECT n FROM t WHERE a = 1 AND b > 'c' ORDER BY b LIMIT 3", ["a", "b"])
    assert selection.key_range is not None
    assert (selection.test, selection.columns) == (AllTests(()), ("n",))


def test_pages_of_several_keys_are_sorted_by_columns_that_are_read() -> None:
    selection = _selection("SELECT n FROM t WHERE a IN (1, 2) ORDER BY a", ["a"])
    assert selection.key_range is None
    assert (selection.test, selection.columns) == (AllTests(()), ("n", "a"))
