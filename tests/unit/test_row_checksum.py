"""The checksum of rows: the same however rows lie, another one whatever differs."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.model.row_checksum import RowChecksum, checksum_rows

SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("tiny", pa.uint8()),
        ("name", pa.string()),
        ("blob", pa.binary()),
        ("is", pa.bool_()),
        ("price", pa.decimal128(20, 2)),
        ("share", pa.float64()),
        ("day", pa.date32()),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("x", pa.int32()), ("of", pa.string())])),
        ("counts", pa.map_(pa.string(), pa.int64())),
    ]
)
TEXTS = st.text(max_size=20)
ROWS = st.lists(
    st.tuples(
        st.integers(-(2**63), 2**63 - 1),
        st.none() | st.integers(0, 255),
        st.none() | TEXTS,
        st.none() | st.binary(max_size=20),
        st.none() | st.booleans(),
        st.none() | st.decimals(-(10**15), 10**15, places=2),
        st.none() | st.floats(allow_nan=False),
        st.none() | st.dates(dt.date(1970, 1, 1), dt.date(2100, 1, 1)),
        st.none() | st.lists(st.none() | TEXTS, max_size=4),
        st.none() | st.fixed_dictionaries({"x": st.none() | st.integers(0, 9), "of": st.none() | TEXTS}),
        st.none() | st.lists(st.tuples(TEXTS, st.none() | st.integers(0, 9)), max_size=3),
    ),
    max_size=12,
)


def batch_of(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMA)
    return pa.record_batch(
        [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


@given(ROWS, st.randoms(use_true_random=False), st.integers(0, 12), st.integers(0, 3))
def test_it_does_not_depend_on_order_batches_and_slices(
    rows: list[tuple[Any, ...]], random: Any, cut: int, before: int
) -> None:
    whole = checksum_rows(batch_of(rows))
    assert whole.rows == len(rows)
    shuffled = list(rows)
    random.shuffle(shuffled)
    batch = batch_of(shuffled)
    assert checksum_rows(batch) == whole
    assert checksum_rows(batch.slice(0, cut)) + checksum_rows(batch.slice(cut)) == whole
    among = batch_of([*rows[:before], *shuffled, *rows[:1]]).slice(len(rows[:before]), len(rows))
    assert checksum_rows(among) == whole
    taken = pa.concat_batches([batch_of([]), batch])
    assert checksum_rows(taken) == whole
    assert RowChecksum.from_text(str(whole)) == whole


@given(ROWS.filter(bool), st.data())
def test_whatever_differs_is_seen(rows: list[tuple[Any, ...]], data: st.DataObject) -> None:
    others = data.draw(ROWS.filter(bool))
    place, column = data.draw(st.integers(0, len(rows) - 1)), data.draw(st.integers(0, len(SCHEMA) - 1))
    changed = list(rows)
    changed[place] = (*rows[place][:column], others[0][column], *rows[place][column + 1 :])
    before, after = batch_of(rows), batch_of(changed)
    is_same = sorted(map(str, before.to_pylist())) == sorted(map(str, after.to_pylist()))
    first, second = checksum_rows(before), checksum_rows(after)
    assert (first == second) is is_same
    assert (first.first == second.first) is is_same
    assert (first.second == second.second) is is_same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array(["ab", "c"]), pa.array(["a", "bc"])),
        (pa.array(["", None]), pa.array([None, None], pa.string())),
        (pa.array(["a\0"]), pa.array(["a"])),
        (pa.array(["x" * 8]), pa.array(["x" * 9])),
        (pa.array(["12345678abcdefgh"]), pa.array(["abcdefgh12345678"])),
        (pa.array([0, None]), pa.array([0, 0])),
        (pa.array([1, 1, 2, 2]), pa.array([1, 2, 2, 1 + 1])),
        (pa.array([[1], [2, 3]]), pa.array([[1, 2], [3]])),
        (pa.array([[], [None]], pa.list_(pa.int64())), pa.array([[], []], pa.list_(pa.int64()))),
        (pa.array([[], None], pa.list_(pa.int64())), pa.array([[], []], pa.list_(pa.int64()))),
        (pa.array([0.0]), pa.array([-0.0])),
        (pa.array([{"a": None}]), pa.array([None], pa.struct([("a", pa.null())]))),
        (pa.array([Decimal("1.00")]), pa.array([Decimal("2.00")])),
    ],
)
def test_neighbours_differ(one: pa.Array, other: pa.Array) -> None:
    assert checksum_rows(pa.record_batch([one], ["c"])) != checksum_rows(pa.record_batch([other], ["c"]))


def test_values_that_change_places_are_seen() -> None:
    rows = pa.record_batch({"a": [1, 2], "b": [2, 1]})
    assert checksum_rows(rows) == checksum_rows(pa.record_batch({"a": [2, 1], "b": [1, 2]}))
    assert checksum_rows(rows) != checksum_rows(pa.record_batch({"a": [1, 2], "b": [1, 2]}))
    assert checksum_rows(rows.slice(0, 1)) != checksum_rows(pa.record_batch({"a": [2], "b": [1]}))


def test_it_does_not_depend_on_dictionaries_and_on_what_lies_beneath_a_null() -> None:
    names = pa.array(["x", "y", None, "x"])
    plain = checksum_rows(pa.record_batch([names], ["c"]))
    assert checksum_rows(pa.record_batch([names.dictionary_encode()], ["c"])) == plain
    beneath = pa.Array.from_buffers(
        pa.int64(), 2, [pa.py_buffer(b"\1"), pa.array([5, 77], pa.int64()).buffers()[1]]
    )
    assert checksum_rows(pa.record_batch([beneath], ["c"])) == checksum_rows(
        pa.record_batch([pa.array([5, None], pa.int64())], ["c"])
    )


def test_it_is_the_same_in_every_version() -> None:
    """Snapshots keep it."""
    rows = pa.record_batch({"k": [1, 2, 3], "name": ["a", None, "a longer name"]})
    assert str(checksum_rows(rows)) == "3 e505a56ac6d99d789f5975c89e7d1a91"


@pytest.mark.parametrize("text", ["", "1", "1 00", "x " + "0" * 32, "-1 " + "0" * 32, "1 " + "g" * 32])
def test_what_is_no_checksum_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="checksum"):
        RowChecksum.from_text(text)
