"""How many values differ: exact while they are few, near while they are many, the same however they come."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.model.distinct_sketch import (
    NO_HASHES,
    SKETCH_HASHES,
    distinct_values,
    has_sketch,
    sketch_of,
    sketch_of_text,
    sketch_text,
    unite_sketches,
)
from tests.support.seeds import seeded_generator

MANY = 50_000
COLUMNS: dict[str, pa.Array] = {
    "row numbers": pa.array(np.arange(MANY)),
    "multiples": pa.array(np.arange(MANY) * 4096),
    "unsigned": pa.array(np.arange(MANY), pa.uint32()),
    "floats": pa.array(np.arange(MANY) / 7),
    "moments": pa.array(np.arange(MANY) * 1_000_000, pa.timestamp("us")),
    "decimals": pa.array(np.arange(MANY)).cast(pa.decimal128(22, 2)),
    "short strings": pa.array([str(number) for number in range(MANY)]),
    "strings with a common beginning": pa.array([f"Customer#{number:09d}" for number in range(MANY)]),
    "bytes with a common end": pa.array([f"{number:09d}@example.org".encode() for number in range(MANY)]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_many_values_are_counted_about_right(name: str) -> None:
    sketch = sketch_of(COLUMNS[name])
    assert len(sketch) == SKETCH_HASHES
    assert 0.6 * MANY < distinct_values(sketch) < 1.6 * MANY


@pytest.mark.parametrize("name", COLUMNS)
def test_parts_come_to_the_same_as_the_whole(name: str) -> None:
    column = COLUMNS[name]
    parts = [column[:20_000], column[10_000:30_001], column[30_001:], column[:0]]
    assert unite_sketches(list(map(sketch_of, parts))).tolist() == sketch_of(column).tolist()


@pytest.mark.parametrize("name", COLUMNS)
def test_block_after_block_comes_to_the_same_as_the_whole(name: str) -> None:
    column = COLUMNS[name]
    sketch = NO_HASHES
    for part in (column[:100], column[100:101], column[:0], column[101:30_001], column[20_000:]):
        sketch = sketch_of(part, sketch)
    assert sketch.tolist() == sketch_of(column).tolist()


@pytest.mark.parametrize("width", [8, 16, 32, 64])
@pytest.mark.parametrize("is_signed", [True, False])
@pytest.mark.parametrize("count", [30, 200])
def test_integers_that_lie_together_are_taken_for_what_they_are(
    width: int, is_signed: bool, count: int
) -> None:
    """At both ends of their type; and those that come again are hashed once."""
    dtype = np.dtype(f"{'i' if is_signed else 'u'}{width // 8}")
    bounds = np.iinfo(dtype)
    for first in (bounds.min, bounds.max - count + 1):
        different = np.arange(first, first + count, dtype=dtype)
        repeated = pa.array(seeded_generator(width).permutation(np.tile(different, 300)))
        assert sketch_of(repeated).tolist() == sketch_of(pa.array(different)).tolist()
        apart = [sketch_of(pa.array([value], repeated.type)) for value in different]
        assert sketch_of(repeated).tolist() == unite_sketches(apart).tolist()


def test_values_that_come_again_count_once() -> None:
    assert distinct_values(sketch_of(pa.array(np.arange(MANY) % 50))) == 50
    assert 600 < distinct_values(sketch_of(pa.array(np.arange(MANY) % 1000))) < 1600


@pytest.mark.parametrize(
    ("values", "arrow_type", "expected"),
    [
        ([1, None, 1, 2], pa.int64(), 2),
        ([None], pa.int64(), 0),
        ([], pa.string(), 0),
        (["", "", None, "a", "a\0", "ab"], pa.string(), 4),
        ([0.0, -0.0, 1.0], pa.float32(), 2),
        ([Decimal("1.00"), Decimal("-1.00")], pa.decimal128(38, 2), 2),
        ([dt.date(2026, 1, 1)] * 3, pa.date32(), 1),
    ],
)
def test_few_values_are_counted_exactly(values: list[Any], arrow_type: pa.DataType, expected: int) -> None:
    assert distinct_values(sketch_of(pa.array(values, arrow_type))) == expected


@pytest.mark.parametrize(("narrow", "wide"), [(pa.int8(), pa.int64()), (pa.float32(), pa.float64())])
def test_a_column_that_grew_wider_has_the_same_sketch(narrow: pa.DataType, wide: pa.DataType) -> None:
    values = pa.array([-5, 0, 7], narrow)
    assert sketch_of(values).tolist() == sketch_of(values.cast(wide)).tolist()


def test_types_without_values_to_compare_have_none() -> None:
    assert not any(map(has_sketch, (pa.list_(pa.int64()), pa.bool_(), pa.struct([]), pa.null())))


def test_the_text_of_a_sketch_is_small_and_read_back() -> None:
    sketch = sketch_of(COLUMNS["floats"])
    assert len(sketch_text(sketch)) <= 344
    assert sketch_of_text(sketch_text(sketch)).tolist() == sketch.tolist()
    assert sketch_of_text(sketch_text(sketch[:0])).tolist() == []
    for damaged in (
        "AAA",
        "é",
        sketch_text(sketch[::-1].copy()),
        sketch_text(np.arange(65, dtype=np.uint32)),
    ):
        with pytest.raises(ValueError, match=re.compile("", re.DOTALL)):
            sketch_of_text(damaged)
