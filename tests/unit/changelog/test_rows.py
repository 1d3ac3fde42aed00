"""Rows from outside: what fits, what is cast, what is refused, and where it goes."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.changelog import partition_rows
from engine.errors import InvalidInput, LimitExceeded
from engine.model.partitioning import partition_of
from engine.model.schema import TOMBSTONE_COLUMN, PartitionId, define_store
from tests.unit.changelog.conftest import PLAYS, rows


def test_each_row_is_on_its_partition_in_its_order() -> None:
    table = rows(*[n % 97 for n in range(1_000)]).set_column(2, "plays", pa.array(range(1_000), pa.int32()))
    placed = partition_rows(PLAYS, table)
    assert sum(batch.num_rows for batch in placed.values()) == 1_000
    for partition, batch in placed.items():
        assert batch.schema == PLAYS.schema
        assert set(partition_of([batch["song"]], 4).tolist()) == {partition}
        assert np.all(np.diff(batch["plays"].to_numpy()) > 0)


def test_chunks_batches_and_column_order_do_not_matter() -> None:
    table = rows(*range(10))
    whole = partition_rows(PLAYS, table)
    chunked = pa.concat_tables([table.slice(0, 3), table.slice(3, 0), table.slice(3)])
    assert same(partition_rows(PLAYS, chunked), whole)
    assert same(partition_rows(PLAYS, table.select(["plays", "title", "song"])), whole)
    assert same(partition_rows(PLAYS, table.to_batches()[0]), whole)
    assert partition_rows(PLAYS, table.slice(0, 0)) == {}
    assert partition_rows(PLAYS, PLAYS.schema.empty_table()) == {}


def test_one_partition() -> None:
    single = define_store("single", PLAYS.schema, ["song"], partitions=1)
    placed = partition_rows(single, rows(3, 1, 2))
    assert placed[PartitionId(0)]["song"].to_pylist() == [3, 1, 2]


@pytest.mark.parametrize(
    ("target", "source", "values"),
    [
        (pa.int64(), pa.int32(), [1, None]),
        (pa.int8(), pa.int64(), [-128, 127]),
        (pa.uint16(), pa.int64(), [0, 65_535]),
        (pa.float64(), pa.int64(), [2**53, -1]),
        (pa.float64(), pa.float32(), [0.5, None]),
        (pa.decimal128(10, 2), pa.int64(), [7]),
        (pa.decimal128(10, 2), pa.decimal128(5, 1), [Decimal("1.5")]),
        (pa.string(), pa.large_string(), ["a", None]),
        (pa.string(), pa.string_view(), ["a", "b" * 20]),
        (pa.string(), pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a", None]),
        (pa.binary(), pa.large_binary(), [b"a"]),
        (pa.date32(), pa.date64(), [dt.date(2024, 2, 29)]),
        (pa.timestamp("us"), pa.timestamp("ns"), [dt.datetime(2024, 2, 29, 1, 2, 3, 4)]),  # noqa: DTZ001  the type has no zone
        (
            pa.timestamp("us", "UTC"),
            pa.timestamp("ms", "Europe/Vienna"),
            [dt.datetime(2024, 2, 29, tzinfo=dt.UTC)],
        ),
        (pa.list_(pa.int64()), pa.large_list(pa.int32()), [[1, None], None, []]),
        (
            pa.struct([("a", pa.int64()), ("b", pa.string())]),
            pa.struct([("a", pa.int8()), ("b", pa.large_string())]),
            [{"a": 1, "b": "x"}],
        ),
        (pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int32()), [[("a", 1)]]),
        (pa.list_(pa.int64()), pa.null(), [None]),
        (pa.list_(pa.decimal128(3, 2)), pa.list_(pa.int64()), [[5, None]]),
        (pa.list_(pa.decimal128(3, 2)), pa.list_(pa.int32(), 1), [[5], None]),
        (pa.struct([("a", pa.decimal128(3, 0))]), pa.struct([("a", pa.uint64())]), [{"a": 999}]),
        (
            pa.map_(pa.decimal128(4, 1), pa.list_(pa.decimal128(4, 1))),
            pa.map_(pa.int32(), pa.large_list(pa.int16())),
            [[(100, [5])]],
        ),
    ],
    ids=str,
)
def test_types_are_cast_where_no_value_changes(
    target: pa.DataType, source: pa.DataType, values: list[Any]
) -> None:
    array = pa.array(values, source)
    expected = pa.array(values, target).to_pylist()
    assert values_in_a_store(target, array) == expected
    if not pa.types.is_dictionary(source):
        places = pa.array([*range(len(values)), None], pa.int16())
        encoded = pa.DictionaryArray.from_arrays(places, array)
        assert values_in_a_store(target, encoded) == [*expected, None]


def values_in_a_store(target: pa.DataType, array: pa.Array) -> list[Any]:
    """Values as a store with a column of a type takes them."""
    store = define_store("typed", pa.schema([("k", pa.int64()), ("v", target)]), ["k"], partitions=1)
    batch = partition_rows(store, pa.table({"k": range(len(array)), "v": array}))[PartitionId(0)]
    assert batch.schema == store.schema
    found: list[Any] = batch["v"].to_pylist()
    return found


def test_values_of_a_dictionary_that_no_row_has_do_not_matter() -> None:
    values = pa.DictionaryArray.from_arrays(pa.array([1, None]), pa.array([300, 5], pa.int64()))
    assert values_in_a_store(pa.int8(), values) == [5, None]
    assert values_in_a_store(pa.decimal128(3, 2), values) == [Decimal(5), None]


@pytest.mark.parametrize(
    ("target", "source", "values"),
    [
        (pa.int8(), pa.int64(), [128]),
        (pa.uint8(), pa.int64(), [-1]),
        (pa.float64(), pa.int64(), [2**53 + 1]),
        (pa.decimal128(3, 2), pa.decimal128(5, 3), [Decimal("1.234")]),
        (pa.list_(pa.decimal128(3, 2)), pa.list_(pa.int64()), [[10]]),
        (pa.timestamp("us"), pa.timestamp("ns"), [np.datetime64("2024-01-01T00:00:00.000000001")]),
    ],
    ids=str,
)
def test_values_that_would_change_are_refused(
    target: pa.DataType, source: pa.DataType, values: list[Any]
) -> None:
    store = define_store("typed", pa.schema([("k", pa.int64()), ("v", target)]), ["k"])
    with pytest.raises(InvalidInput, match=r"column v is .* holds values that .* cannot hold exactly"):
        partition_rows(store, pa.table({"k": [0], "v": pa.array(values, source)}))


def test_a_type_that_has_the_name_of_the_columns_is_called_as_arrow_does() -> None:
    store = define_store("typed", pa.schema([("k", pa.int64()), ("v", pa.timestamp("us"))]), ["k"])
    moments = pa.array([1], pa.timestamp("ns"))
    with pytest.raises(
        InvalidInput, match=r"v is of Arrow's type timestamp\[ns\] and holds values that TIMESTAMP cannot"
    ):
        partition_rows(store, pa.table({"k": [0], "v": moments}))


@pytest.mark.parametrize(
    ("target", "source"),
    [
        (pa.int64(), pa.float64()),
        (pa.int64(), pa.string()),
        (pa.string(), pa.int64()),
        (pa.float32(), pa.float64()),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.string(), pa.binary()),
        (pa.bool_(), pa.int8()),
        (pa.struct([("a", pa.int64())]), pa.struct([("b", pa.int64())])),
        (pa.int64(), pa.month_day_nano_interval()),
    ],
    ids=str,
)
def test_other_types_are_refused_with_both_definitions(target: pa.DataType, source: pa.DataType) -> None:
    store = define_store("typed", pa.schema([("k", pa.int64()), ("v", target)]), ["k"])
    with pytest.raises(
        InvalidInput,
        match=r"batch 7: .* The rows are \(k BIGINT, v .*\); the store is typed \(k BIGINT, v .*\) KEY \(k\)",
    ):
        partition_rows(
            store, pa.table({"k": pa.array([], pa.int64()), "v": pa.array([], source)}), batch_name="batch 7"
        )


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["song", "title"], "the column plays is missing"),
        (["song"], "the column title, plays is missing"),
        (["song", "title", "plays", "more"], "the columns differ"),
        (["song", "title", "plays", "song"], "the column song is there twice"),
        (["song", "song", "title"], "the column song is there twice and the column plays is missing"),
        (["song", "title", "Plays"], "the column plays is missing"),
    ],
)
def test_columns_must_be_those_of_the_store(names: list[str], message: str) -> None:
    table = pa.Table.from_arrays([pa.array([1]) for _ in names], names=names)
    with pytest.raises(
        InvalidInput,
        match=(
            rf"Store plays, the batch: {message}\. The rows are \(song BIGINT.* the store is plays \(song "
            r"BIGINT, "
        ),
    ):
        partition_rows(PLAYS, table)


def test_a_null_key_names_store_batch_column_and_row() -> None:
    table = pa.table(
        {"song": pa.array([1, None, None], pa.int64()), "title": ["a", "b", "c"], "plays": [1, 2, 3]}
    )
    with pytest.raises(
        InvalidInput,
        match=r"Store plays, batch 4: the key column song is null in 2 of 3 rows, first in row 1;",
    ):
        partition_rows(PLAYS, table, batch_name="batch 4")


@pytest.mark.parametrize("where", ["key", "value", "list"])
def test_text_that_is_none_is_refused(where: str) -> None:
    """Hosts refuse what is damaged in the changelog, and do not get beyond it."""
    schema = pa.schema([("key", pa.string()), ("value", pa.string()), ("list", pa.list_(pa.string()))])
    store = define_store("t", schema, ["key"], partitions=2)
    broken = pa.array([b"a", b"\xff"]).view(pa.string())
    columns = {"key": pa.array(["a", "b"]), "value": pa.array(["a", None]), "list": pa.array([["a"], None])}
    columns[where] = (
        pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), broken) if where == "list" else broken
    )
    with pytest.raises(
        InvalidInput, match=rf"batch 7: the column {where} holds what is no VARCHAR.*must be UTF-8"
    ):
        partition_rows(store, pa.table(columns), batch_name="batch 7")


_LISTS = pa.map_(pa.list_(pa.int64()), pa.int64())


@pytest.mark.parametrize(
    ("kept", "repeated", "arrow_type"),
    [
        ([("a", 1), ("b", 1)], [("a", 1), ("a", 2)], pa.map_(pa.string(), pa.int64())),
        ([(1, "x"), (-1, None)], [(7, None), (2, "x"), (7, "y")], pa.map_(pa.int32(), pa.string())),
        ([(0.0, 1), (0.5, 1)], [(0.0, 1), (-0.0, 1)], pa.map_(pa.float64(), pa.int64())),
        ([(float("nan"), 1)], [(float("nan"), 1), (float("nan"), 2)], pa.map_(pa.float32(), pa.int64())),
        ([([1], 1), ([1, 2], 1)], [([1], 1), ([1], 2)], _LISTS),
        (
            [[("a", 1)], [("a", 2)]],
            [[("a", 1)], [("b", 1), ("b", 1)]],
            pa.list_(pa.map_(pa.string(), pa.int8())),
        ),
        ({"m": [("a", 1)]}, {"m": [("a", 1), ("a", 1)]}, pa.struct({"m": pa.map_(pa.string(), pa.int64())})),
        (
            [(1, [("a", 1)]), (2, [("a", 1)])],
            [(1, [("a", 1), ("a", 2)])],
            pa.map_(pa.int64(), pa.map_(pa.string(), pa.int64())),
        ),
        (
            [([("a", 1)], 1)],
            [([("a", 1), ("a", 2)], 1)],
            pa.map_(pa.map_(pa.string(), pa.int64()), pa.int64()),
        ),
    ],
)
def test_a_map_has_a_key_once(kept: object, repeated: object, arrow_type: pa.DataType) -> None:
    store = define_store("maps", pa.schema({"k": pa.int64(), "m": arrow_type}), ["k"], partitions=1)
    good = [kept, None, kept]
    for slices in ((0, 5), (1, 5), (2, 3)):
        values = pa.array([repeated, *good, repeated], arrow_type).slice(*slices)
        rows = pa.table({"k": range(len(values)), "m": values})
        if slices == (2, 3):
            rows = rows.slice(0, 2)
            assert partition_rows(store, rows)[PartitionId(0)].num_rows == 2
            continue
        with pytest.raises(InvalidInput, match="batch 7: the column m has a map with a key twice"):
            partition_rows(store, rows, batch_name="batch 7")


@pytest.mark.parametrize(
    ("arrow_type", "fitting", "larger"),
    [
        (pa.string(), "x" * 900, "x" * 1_100),
        (pa.list_(pa.int64()), [1] * 110, [1] * 130),
        (pa.struct([("a", pa.binary())]), {"a": b"x" * 900}, {"a": b"x" * 1_100}),
    ],
)
def test_a_value_may_be_so_large_that_two_of_them_are_read_together(
    monkeypatch: pytest.MonkeyPatch, arrow_type: pa.DataType, fitting: object, larger: object
) -> None:
    monkeypatch.setattr("engine.changelog.rows.MAX_VALUE_BYTES", 1_000)
    definition = define_store("s", pa.schema([("k", pa.int64()), ("v", arrow_type)]), ["k"])

    def place(values: list[object]) -> int:
        table = pa.table({"k": range(len(values)), "v": pa.array(values, arrow_type)})
        return sum(batch.num_rows for batch in partition_rows(definition, table).values())

    assert place([fitting] * 30 + [None]) == 31
    with pytest.raises(
        LimitExceeded, match=r"Store s, the batch: the column v has a value of more than 1,000"
    ):
        place([fitting] * 17 + [larger] + [fitting] * 3)


def test_tombstones() -> None:
    single = define_store("single", PLAYS.schema, ["song"], partitions=1)
    table = pa.table(
        {"song": [1, 2, 3], "title": ["a", None, "c"], "plays": [1, None, 3], "gone": [False, True, None]}
    )
    batch = partition_rows(single, table, tombstone_column="gone")[PartitionId(0)]
    assert batch[TOMBSTONE_COLUMN].to_pylist() == [False, True, False]
    alive = table.set_column(3, "gone", pa.array([None, False, False]))
    assert partition_rows(single, alive, tombstone_column="gone")[PartitionId(0)].schema == single.schema
    with pytest.raises(InvalidInput, match="the columns differ"):
        partition_rows(single, table)
    with pytest.raises(InvalidInput, match="tombstone column gone must be BOOLEAN, not BIGINT"):
        partition_rows(single, table.set_column(3, "gone", pa.array([0, 1, 0])), tombstone_column="gone")
    with pytest.raises(InvalidInput, match="tombstone column plays is a column of the store"):
        partition_rows(single, table, tombstone_column="plays")
    with pytest.raises(InvalidInput, match="the columns differ"):
        partition_rows(single, table.drop_columns(["gone"]), tombstone_column="gone")


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(-5, 5), st.text(max_size=3), st.booleans()), max_size=30),
    st.sampled_from([1, 2, 7, 256, 257, 4096]),
)
def test_nothing_is_lost_and_equal_keys_keep_their_order(
    values: list[tuple[int, str, bool]], partitions: int
) -> None:
    store = define_store(
        "s",
        pa.schema([("a", pa.int32()), ("b", pa.string()), ("n", pa.int64())]),
        ["a", "b"],
        partition_by=["a"],
        partitions=partitions,
    )
    table = pa.table(
        {
            "a": pa.array([a for a, _, _ in values], pa.int32()),
            "b": pa.array([b for _, b, _ in values], pa.string()),
            "n": pa.array(range(len(values)), pa.int64()),
            "gone": pa.array([gone for _, _, gone in values], pa.bool_()),
        }
    )
    placed = partition_rows(store, table, tombstone_column="gone")
    found = {}
    for batch in placed.values():
        assert batch["n"].to_pylist() == sorted(batch["n"].to_pylist())
        for row in batch.to_pylist():
            found[row["n"]] = (row["a"], row["b"], row.get(TOMBSTONE_COLUMN, False))
    assert [found[n] for n in range(len(values))] == values
    keys = [{row["a"] for row in batch.to_pylist()} for batch in placed.values()]
    assert sum(len(key) for key in keys) == len({a for a, _, _ in values})


def same(left: dict[PartitionId, pa.RecordBatch], right: dict[PartitionId, pa.RecordBatch]) -> bool:
    return left.keys() == right.keys() and all(
        batch.equals(right[partition]) for partition, batch in left.items()
    )
