"""Whether maps have a key twice, against a set of each map's keys."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.changelog import partition_rows
from engine.model.map_keys import repeats_map_key
from engine.model.schema import PartitionId, define_store

NAN = float("nan")
PLAIN: dict[pa.DataType, list[Any]] = {
    pa.float64(): [0.0, -0.0, NAN, -NAN, 1.5],
    pa.float32(): [0.0, -0.0, NAN, 1.5],
    pa.int64(): [0, -1, 2**62],
    pa.bool_(): [True, False],
    pa.string(): ["", "a", "a\0", "0"],
    pa.binary(): [b"", b"\0", b"\0\0"],
    pa.decimal128(5, 2): [Decimal("0.00"), Decimal("1.50")],
    # These are dates and times of no year of Python's.
    pa.date32(): [4_000_000, -4_000_000, 0],
    pa.timestamp("us"): [2**60, -(2**60), 0],
    pa.timestamp("us", "UTC"): [2**60, 0],
}


def _nested_types(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    structs = st.lists(inner, min_size=1, max_size=3).map(
        lambda kinds: pa.struct([pa.field(f"f{place}", kind) for place, kind in enumerate(kinds)])
    )
    return structs | inner.map(pa.list_) | st.builds(pa.map_, inner, inner)


TYPES = st.recursive(st.sampled_from(list(PLAIN)), _nested_types, max_leaves=4)


def _values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Values of a type, of which many are equal."""
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({field.name: st.none() | _values(field.type) for field in kind})
    if pa.types.is_map(kind):
        return st.lists(st.tuples(_values(kind.key_type), st.none() | _values(kind.item_type)), max_size=2)
    if pa.types.is_list(kind):
        return st.lists(st.none() | _values(kind.value_type), max_size=2)
    return st.sampled_from(PLAIN[kind])


def _comparable(value: Any) -> Any:
    """A value that equals others where SQL says so."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value
    if isinstance(value, dict):
        return tuple(_comparable(each) for each in value.values())
    return tuple(map(_comparable, value)) if isinstance(value, list | tuple) else value


def _repeats(value: Any, kind: pa.DataType) -> bool:
    if value is None:
        return False
    if pa.types.is_struct(kind):
        return any(_repeats(value[field.name], field.type) for field in kind)
    if pa.types.is_map(kind):
        keys = {_comparable(key) for key, _ in value}
        return len(keys) < len(value) or any(
            _repeats(key, kind.key_type) or _repeats(item, kind.item_type) for key, item in value
        )
    return pa.types.is_list(kind) and any(_repeats(each, kind.value_type) for each in value)


@st.composite
def _maps(draw: st.DrawFn) -> tuple[pa.DataType, list[Any], list[bool]]:
    """A type of maps, maps, and which of them a null covers."""
    kind = pa.map_(draw(TYPES), draw(st.sampled_from(list(PLAIN))))
    maps = draw(st.lists(_values(kind), max_size=6))
    return kind, maps, [draw(st.booleans()) for _ in maps]


@settings(deadline=None)
@given(_maps(), st.integers(0, 2))
@example(
    (pa.map_(pa.struct({"a": pa.float64()}), pa.int64()), [[({"a": 0.0}, 1), ({"a": -0.0}, 2)]], [False]), 0
)
@example((pa.map_(pa.list_(pa.float64()), pa.int64()), [[([0.0], 1), ([-0.0], 2)]], [False]), 0)
@example((pa.map_(pa.list_(pa.string()), pa.int64()), [[([None], 1), ([""], 2)]], [False]), 0)
@example((pa.map_(pa.struct({"a": pa.date32()}), pa.int64()), [[({"a": 4_000_000}, 1)]], [False]), 0)
def test_maps_that_have_a_key_twice_are_found(
    made: tuple[pa.DataType, list[Any], list[bool]], first: int
) -> None:
    kind, maps, covered = made
    whole = pa.array(maps, kind)
    values = pa.MapArray.from_arrays(
        whole.offsets, whole.keys, whole.items, kind, mask=pa.array(covered, pa.bool_())
    ).slice(first)
    seen = [None if is_covered else each for each, is_covered in zip(maps, covered, strict=True)][first:]
    assert repeats_map_key(values) == any(_repeats(each, kind) for each in seen)
    assert repeats_map_key(pa.array([seen], pa.list_(kind))) == any(_repeats(each, kind) for each in seen)


def test_every_nan_is_one() -> None:
    bits = np.array([0x7FF8000000000000, 0xFFF8000000000001], np.uint64).view(np.float64)
    for keys in (pa.array(bits), pa.StructArray.from_arrays([pa.array(bits)], ["a"])):
        assert repeats_map_key(pa.MapArray.from_arrays([0, 2], keys, pa.array([1, 2])))


@pytest.mark.parametrize("lists", [pa.list_(pa.float64(), 1), pa.large_list(pa.float64())])
def test_lists_of_other_kinds_are_keys(lists: pa.DataType) -> None:
    for values, repeats in (([0.0, -0.0], True), ([0.0, 1.0], False)):
        keys = pa.array([None, *([value] for value in values)], lists).slice(1)
        assert repeats_map_key(pa.MapArray.from_arrays([0, 2], keys, pa.array([1, 2]))) == repeats


@pytest.mark.parametrize("nested", [pa.struct({"a": pa.date32()}), pa.list_(pa.date32())])
def test_keys_with_dates_of_any_year_are_taken(nested: pa.DataType) -> None:
    days = [4_000_000, -4_000_000]
    keys = pa.array([{"a": day} if pa.types.is_struct(nested) else [day] for day in days], nested)
    table = pa.table({"k": [1], "m": pa.MapArray.from_arrays([0, 2], keys, pa.array([1, 2]))})
    store = define_store("maps", table.schema, ["k"], partitions=1)
    assert partition_rows(store, table)[PartitionId(0)]["m"].values.field(0).equals(keys)
