"""What rows are still tested for: what neither looked up keys nor a range of the key say."""

from __future__ import annotations

import pyarrow as pa
import pytest

from engine.model.schema import StoreDefinition, define_store
from engine.plan.plan_choice import plan
from engine.plan.plans import RowsPlan
from engine.plan.row_tests import AllTests, columns_of
from engine.plan.values import Arguments
from engine.plan.wanted_rows import RowSelection, row_selection
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


def test_a_page_behind_a_prefix_is_not_tested() -> None:
    selection = _selection("SELECT n FROM t WHERE a = 1 AND b > 'c' ORDER BY b LIMIT 3", ["a", "b"])
    assert selection.key_range is not None
    assert (selection.test, selection.columns) == (AllTests(()), ("n",))


def test_pages_of_several_keys_are_sorted_by_columns_that_are_read() -> None:
    selection = _selection("SELECT n FROM t WHERE a IN (1, 2) ORDER BY a", ["a"])
    assert selection.key_range is None
    assert (selection.test, selection.columns) == (AllTests(()), ("n", "a"))
