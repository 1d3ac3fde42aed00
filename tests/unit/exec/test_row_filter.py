"""Conditions of roles: kernels pass the rows that plain DuckDB finds, whatever the condition."""

from __future__ import annotations

from random import Random

import duckdb
import pyarrow as pa
import pytest

from engine.access.claims import Claim
from engine.errors import InvalidInput
from engine.exec.kernels import passing_rows, row_mask
from engine.model.schema import define_store
from engine.plan.row_filter import row_filter

NAN = float("nan")
ROWS = pa.table(
    {
        "id": pa.array(range(12), pa.int64()),
        "a": ["x", "xy", "%x", "X", "", None, "é", "x%", "yx", "zé\n", "x_y", "xx"],
        "b": pa.array([1, 2, None, 4, 5, 6, 7, 8, 9, -1, 0, 3], pa.int32()),
        "c": pa.array([0.5, NAN, None, -0.0, 0.0, 1.5, NAN, -1.0, 2.0, 3.5, float("inf"), 1.0]),
    }
)
STORE = define_store("t", ROWS.schema, ["id"])
CLAIMS: dict[str, Claim] = {"text": "x", "texts": ("x", "xy"), "number": 4, "pattern": "%y"}
LEAVES = (
    *("a = 'x'", "a <> 'x'", "a IN ('x', 'yx')", "a NOT IN ('x', 'xy')", "a IS NULL", "a IS NOT NULL"),
    *(
        "a LIKE 'x%'",
        "a NOT LIKE '%x'",
        "a LIKE '%x%'",
        "a LIKE 'x'",
        "a LIKE '%'",
        "a LIKE '%é'",
        "a LIKE ''",
    ),
    *("starts_with(a, 'x')", "a ^@ 'é'", "ends_with(a, 'y')", "contains(a, '%')", "contains(a, '')"),
    *("b < 4", "b >= 4", "b BETWEEN 2 AND 6", "b NOT BETWEEN 2 AND 6", "b IN (1, 2, 3)", "4 > b", "b <> 4"),
    *("c < 1", "c >= 1", "c = 0", "c <> 0", "c > 100", "c <= 1.5", "c IN (0, 0.5)", "c BETWEEN -1 AND 1"),
)
OF_CLAIMS = (
    ("a = claim('text')", "a = 'x'"),
    ("NOT a = claim('text')", "a <> 'x'"),
    ("a IN claim('texts')", "a IN ('x', 'xy')"),
    ("a NOT IN claim('texts')", "a NOT IN ('x', 'xy')"),
    ("b < claim('number')", "b < 4"),
    ("starts_with(a, claim('text'))", "starts_with(a, 'x')"),
    ("NOT a LIKE claim('pattern')", "a NOT LIKE '%y'"),
)


def ids(condition: str) -> list[int]:
    test = row_filter(STORE, [condition], CLAIMS)
    found: list[int] = passing_rows(ROWS, test)["id"].to_pylist()
    (batch,) = ROWS.to_batches()
    assert batch.filter(pa.array(row_mask(batch, test)))["id"].to_pylist() == found
    return found


def expected_ids(condition: str) -> list[int]:
    rows = ROWS  # noqa: F841 - DuckDB finds it by its name
    found = duckdb.execute(f"SELECT id FROM rows WHERE {condition} ORDER BY id").fetchall()
    return [key for (key,) in found]


def condition(random: Random, depth: int) -> str:
    if depth == 0 or random.random() < 0.2:
        return random.choice(LEAVES)
    match random.randrange(4):
        case 0 | 1:
            return f"NOT ({condition(random, depth - 1)})"
        case kind:
            parts = [f"({condition(random, depth - 1)})" for _ in range(random.choice((2, 3)))]
            return (" AND " if kind == 2 else " OR ").join(parts)


@pytest.mark.parametrize("leaf", LEAVES)
def test_each_condition_and_its_opposite(leaf: str) -> None:
    for text in (leaf, f"NOT {leaf}", f"NOT NOT ({leaf})"):
        assert ids(text) == expected_ids(text), text


@pytest.mark.parametrize("seed", range(200))
def test_conditions_of_many_parts(seed: int) -> None:
    text = condition(Random(f"row filter {seed}"), 3)
    assert ids(text) == expected_ids(text), text


def test_nothing_is_in_an_empty_list_of_claims() -> None:
    claims: dict[str, Claim] = {"texts": (), "text": "x"}
    assert not passing_rows(ROWS, row_filter(STORE, ["a IN claim('texts')"], claims)).num_rows
    either = row_filter(STORE, ["a IN claim('texts') OR a = claim('text')"], claims)
    assert passing_rows(ROWS, either)["id"].to_pylist() == expected_ids("a = 'x'")


@pytest.mark.parametrize(("text", "like"), OF_CLAIMS)
def test_conditions_of_claims(text: str, like: str) -> None:
    assert ids(text) == expected_ids(like)


@pytest.mark.parametrize("claim", [2**70, -(2**70), "\ud800", ("x", "\ud800")])
def test_a_claim_that_no_column_can_have_is_refused(claim: Claim) -> None:
    with pytest.raises(InvalidInput, match="numbers have 64 bits at the most"):
        row_filter(
            STORE, ["b IN claim('it')" if isinstance(claim, tuple) else "b < claim('it')"], {"it": claim}
        )
