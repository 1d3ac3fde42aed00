"""Kernels of aggregates where their ways part: large groups and small ones, numbers near the limits of their
type, texts, sketches.
"""

from __future__ import annotations

import decimal
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from engine.model.kinds import Function, MergedColumn
from engine.state.folds.fold_aggregates import Aggregates
from engine.state.folds.grouping import Grouping
from engine.state.folds.sums import sums
from tests.support.merged_rows import fold_rows, is_same
from tests.support.seeds import seeded_generator, seeded_random

ROWS = 4000
EXACT = decimal.Context(prec=60)
KINDS = {
    "bigint": pa.int64(),
    "tinyint": pa.int8(),
    "ubigint": pa.uint64(),
    "double": pa.float64(),
    "decimal": pa.decimal128(9, 2),
    "wide decimal": pa.decimal128(38, 2),
}


def values_of(kind: pa.DataType, *, large: bool) -> list[object]:
    numbers = seeded_random(f"{kind} {large}")
    if pa.types.is_floating(kind):
        return [numbers.choice([None, numbers.uniform(-1, 1) * (1e307 if large else 1)]) for _ in range(ROWS)]
    if pa.types.is_decimal(kind):
        most = 10**kind.precision - 1 if large else 99
        return [
            numbers.choice([None, EXACT.scaleb(Decimal(numbers.randint(-most, most)), -2)])
            for _ in range(ROWS)
        ]
    low, high = (
        (0, 2**kind.bit_width - 1)
        if pa.types.is_unsigned_integer(kind)
        else (-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1)
    )
    return [
        numbers.choice([None, numbers.randint(low, high) if large else numbers.randint(0, 3)])
        for _ in range(ROWS)
    ]


@pytest.mark.parametrize("groups", [1, 3, 1500, 9000])
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_sums_and_extremes_equal_a_plain_recomputation(name: str, large: bool, groups: int) -> None:
    kind = KINDS[name]
    values = values_of(kind, large=large)
    columns = [
        MergedColumn("a", Function.SUM),
        MergedColumn("b", Function.MIN),
        MergedColumn("c", Function.MAX),
    ]
    where = seeded_generator(groups).integers(0, groups, ROWS)
    reduced = Aggregates(columns).reduce(
        {column.name: pa.array(values, kind) for column in columns}, where, groups
    )
    rows: dict[int, list[dict[str, object]]] = {}
    for group, value in zip(where.tolist(), values, strict=True):
        rows.setdefault(group, []).append({column.name: value for column in columns})
    schema = pa.schema([(column.name, kind) for column in columns])
    found = {name: array.to_pylist() for name, array in reduced.items()}
    for group in range(groups):
        with decimal.localcontext(EXACT):
            expected = fold_rows(columns, rows.get(group, []), schema)
        assert all(is_same(found[name][group], value) for name, value in expected.items()), (group, expected)


@pytest.mark.parametrize("groups", [2, 1500])
@pytest.mark.parametrize("function", [Function.MIN, Function.MAX, Function.FIRST, Function.LAST])
def test_texts_of_large_and_of_small_groups(function: Function, groups: int) -> None:
    numbers = seeded_random(1)
    texts = [
        numbers.choice([None, "", "a", "é", "z", "a\x00", "ab" * numbers.randint(0, 4)]) for _ in range(ROWS)
    ]
    column = MergedColumn("text", function, by="at" if function in (Function.FIRST, Function.LAST) else "")
    rows = [dict(zip(column.partials, (text, text), strict=False)) for text in texts]
    where = seeded_generator(2).integers(0, groups, ROWS)
    partials = {name: pa.array([row[name] for row in rows], pa.string()) for name in column.partials}
    reduced = {
        name: array.to_pylist()
        for name, array in Aggregates([column]).reduce(partials, where, groups).items()
    }
    schema = pa.schema([(name, pa.string()) for name in column.partials])
    for group in range(groups):
        expected = fold_rows([column], [rows[row] for row in np.flatnonzero(where == group)], schema)
        assert {name: values[group] for name, values in reduced.items()} == expected


def test_slices_are_read_where_they_begin() -> None:
    cases = [
        (pa.int64(), 0, 1),
        (pa.float64(), 0.0, 1.0),
        (pa.decimal128(9, 2), Decimal(0), Decimal(1)),
        (pa.bool_(), False, True),
        (pa.date32(), 0, 1),
    ]
    for kind, zero, one in cases:
        values = pa.array([one, zero, None, one, one], kind).slice(1, 3)
        columns = [MergedColumn("x", Function.MAX)]
        assert Aggregates(columns).reduce({"x": values}, np.array([0, 1, 1]), 2)["x"].to_pylist() == [
            values[0].as_py(),
            values[2].as_py(),
        ]
        if not pa.types.is_boolean(kind) and not pa.types.is_date(kind):
            assert sums(values, Grouping(np.array([0, 1, 1]), 2)).to_pylist() == [
                values[0].as_py(),
                values[2].as_py(),
            ]


def test_no_rows_make_nulls_and_counts_of_nothing() -> None:
    columns = [
        MergedColumn("n", Function.COUNT),
        MergedColumn("s", Function.SUM),
        MergedColumn("t", Function.MIN),
    ]
    empty = {
        "n": pa.array([], pa.int64()),
        "s": pa.array([], pa.decimal128(38, 1)),
        "t": pa.array([], pa.string()),
    }
    reduced = Aggregates(columns).reduce(empty, np.empty(0, np.intp), 2)
    assert {name: values.to_pylist() for name, values in reduced.items()} == {
        "n": [0, 0],
        "s": [None, None],
        "t": [None, None],
    }


def test_a_hot_key_at_the_limit_stays_there() -> None:
    values = pa.array([2**62] * 1000 + [-1])
    assert sums(values, Grouping(np.zeros(1001, np.intp), 1)).to_pylist() == [2**63 - 2]
