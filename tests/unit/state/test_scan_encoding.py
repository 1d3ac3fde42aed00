"""Scans for the engine have values as it reads them soonest, and it reads the same values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from engine.deadline import NO_DEADLINE
from engine.duckdb.engine import Engine, engine_table
from engine.model.distinct_sketch import Sketch, sketch_of
from engine.model.schema import TOMBSTONE_COLUMN, Epoch, PartitionId, define_store
from engine.scan import Interval, RowFilter
from engine.state import scan_pieces
from engine.state.cache import ColumnCache
from engine.state.cache_places import ENCODED
from engine.state.column_reader import LARGEST_JOINED_SHARE
from engine.state.partition import PartitionStore
from engine.state.scan_encoding import encode, encoded_type, repeats
from engine.state.state_options import StateOptions
from engine.state.state_view import PieceScan, StateView
from tests.support.partitions import view_of

ROWS, EPOCHS = 6_000, 3
OPTIONS = StateOptions(block_rows=256, fan_out=100)
PLACE = pa.dictionary(pa.int32(), pa.string())
NUMBERS = np.arange(ROWS)
COLUMNS = ["id", "price", "small", "wide", "city", "text", "day"]
ROWS_OF_STORE = pa.table(
    {
        "id": pa.array(NUMBERS),
        "price": pa.array(
            [None if n % 7 == 0 else Decimal(n - 3_000).scaleb(-2) for n in range(ROWS)],
            pa.decimal128(15, 2),
        ),
        "small": pa.array([Decimal(n).scaleb(-1) for n in range(ROWS)], pa.decimal128(9, 1)),
        "wide": pa.array([Decimal(n) for n in range(ROWS)], pa.decimal128(30, 0)),
        "city": pa.array([None if n % 5 == 0 else "a city of a long name" * (n % 3) for n in range(ROWS)]),
        "text": pa.array([f"text {n}" for n in range(ROWS)]),
        "day": pa.array(NUMBERS.astype(np.int32)).cast(pa.date32()),
    }
)
STORE = define_store("t", ROWS_OF_STORE.schema, ["id"], partitions=1)


def apply(store: PartitionStore) -> None:
    """All rows in some epochs, and then every hundredth again, so that there are dead ones."""
    for epoch in range(EPOCHS):
        apply_rows(store, Epoch(epoch + 1), ROWS_OF_STORE.take(pa.array(NUMBERS[epoch::EPOCHS])))
    apply_rows(store, Epoch(EPOCHS + 1), ROWS_OF_STORE.take(pa.array(NUMBERS[::100])))


def apply_rows(store: PartitionStore, epoch: Epoch, rows: pa.Table) -> None:
    flags = pa.array(np.zeros(rows.num_rows, np.bool_))
    store.apply(epoch, rows.append_column(TOMBSTONE_COLUMN, flags).combine_chunks().to_batches()[0])


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PartitionStore]:
    monkeypatch.setattr(scan_pieces, "LEAST_ENCODED_ROWS", 100)
    with closing(PartitionStore(STORE, PartitionId(0), tmp_path, ColumnCache(1 << 24), OPTIONS)) as store:
        apply(store)
        yield store


def scan(store: PartitionStore, wanted: RowFilter | None = None) -> PieceScan:
    found = view_of(store, STORE).scan(COLUMNS, wanted or RowFilter())
    assert isinstance(found, PieceScan)
    return found


def check(found: PieceScan) -> pa.Table:
    """The table that the engine gets has the rows of the batches, and the engine reads these values."""
    table = found.to_table()
    table.validate(full=True)
    expected = pa.Table.from_batches(found.batches(), found.schema)
    assert table.to_pylist() == expected.to_pylist()
    engine = Engine(1 << 28, 1, idle_workers=None)
    try:
        rows = engine.run('SELECT * FROM "t"', {"t": engine_table(found)}, (), NO_DEADLINE)
        assert pa.Table.from_batches(rows, rows.schema).sort_by("id").to_pylist() == (
            expected.sort_by("id").to_pylist()
        )
    finally:
        engine.close()
    return table


def types(table: pa.Table) -> list[pa.DataType]:
    return [table.schema.field(name).type for name in COLUMNS]


PLAIN = [STORE.schema.field(name).type for name in COLUMNS]
LAID_OUT = [
    pa.int64(),
    pa.decimal64(15, 2),
    pa.decimal32(9, 1),
    pa.decimal128(30, 0),
    PLACE,
    pa.string(),
    pa.date32(),
]


def test_the_engine_reads_what_was_written(store: PartitionStore) -> None:
    table = check(scan(store))
    assert types(table) == LAID_OUT
    assert table.column("price").num_chunks == EPOCHS + 1


def test_encoded_columns_are_kept(store: PartitionStore) -> None:
    view = view_of(store, STORE)
    first, second = (view.scan(["price", "city"]).to_table() for _ in range(2))
    for name in ("price", "city"):
        chunks = zip(first.column(name).chunks, second.column(name).chunks, strict=True)
        assert all(one.buffers()[1].address == other.buffers()[1].address for one, other in chunks)


@pytest.mark.parametrize(
    ("low", "high"), [(0, ROWS // 2 + 300), (10, ROWS - 10), (700, 900), (ROWS - 400, ROWS)]
)
def test_a_part_of_the_rows(store: PartitionStore, low: int, high: int) -> None:
    key = Interval(pa.scalar(low, pa.int64()), pa.scalar(high, pa.int64()), high_open=True)
    table = check(scan(store, RowFilter(intervals={"id": key})))
    # A few rows of large segments are not worth whole columns.
    assert types(table) == (LAID_OUT if high - low > ROWS // 2 else PLAIN)


def test_blocks_that_are_left_out(store: PartitionStore) -> None:
    day = Interval(pa.scalar(1_000, pa.int32()).cast(pa.date32()), None)
    table = check(scan(store, RowFilter(intervals={"day": day})))
    assert types(table) == LAID_OUT
    assert table.num_rows < ROWS


def test_few_rows_are_as_they_are_stored(store: PartitionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_pieces, "LEAST_ENCODED_ROWS", ROWS * 2)
    assert types(check(scan(store))) == PLAIN


def test_columns_that_a_cache_does_not_keep_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_pieces, "LEAST_ENCODED_ROWS", 100)
    room = ColumnCache(2_000 * 8 * LARGEST_JOINED_SHARE + 1_000)
    with closing(PartitionStore(STORE, PartitionId(0), tmp_path, room, OPTIONS)) as store:
        apply(store)
        expected = [*LAID_OUT]
        expected[1] = expected[2] = pa.decimal128(15, 2)
        expected[2], expected[4] = pa.decimal128(9, 1), pa.string()
        assert types(check(scan(store))) == expected


def test_decimals_with_too_many_digits_stay_as_they_are() -> None:
    too_long = pa.Array.from_buffers(pa.decimal128(15, 2), 1, [None, pa.py_buffer(b"\xff" * 8 + b"\0" * 8)])
    with pytest.raises(pa.ArrowInvalid):
        encode(too_long, pa.decimal64(15, 2))


def test_a_column_that_cannot_be_encoded_is_read_as_it_is(
    store: PartitionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(values: pa.Array, arrow_type: pa.DataType) -> pa.Array:
        raise pa.ArrowInvalid("No.")

    monkeypatch.setattr("engine.state.column_reader.encode", refuse)
    assert types(check(scan(store))) == PLAIN


def test_what_is_gone_takes_no_room(store: PartitionStore) -> None:
    check(scan(store))
    cache = store.version.segments[0].segment.reader.cache
    old = {entry.segment.id for entry in store.version.segments}
    store.compact_fully()
    check(scan(store))
    assert not [key for key in cache._entries if key.segment in old]
    assert [key for key in cache._entries if key.block == ENCODED]


def test_a_merge_finds_encoded_columns_worth_keeping(store: PartitionStore) -> None:
    view = view_of(store, STORE)
    entry = view.versions[PartitionId(0)].segments[0]
    entry.segment.reader.cache.drop(list(entry.segment.reader.cache._entries))
    assert not entry.segment.reader.kept_blocks(1).any()
    view.scan(["price"]).to_table()
    assert entry.segment.reader.kept_blocks(1).all()


@pytest.mark.parametrize(
    ("arrow_type", "is_repetitive", "expected"),
    [
        (pa.string(), True, PLACE),
        (pa.string(), False, None),
        (pa.int64(), True, None),
        (pa.decimal128(4, 0), False, None),
        (pa.decimal128(5, 0), False, pa.decimal32(5, 0)),
        (pa.decimal128(10, 3), True, pa.decimal64(10, 3)),
        (pa.decimal128(18, 18), False, pa.decimal64(18, 18)),
        (pa.decimal128(19, 2), False, None),
    ],
)
def test_layouts(arrow_type: pa.DataType, is_repetitive: bool, expected: pa.DataType | None) -> None:
    assert encoded_type(arrow_type, is_repetitive=is_repetitive) == expected


def sketch(values: int) -> Sketch:
    return sketch_of(pa.array(range(values)))


@pytest.mark.parametrize(
    ("sketches", "expected"),
    [
        ([], True),
        ([(None, 100)], False),
        ([(sketch(10), 100)], True),
        ([(sketch(50), 100)], False),
        ([(sketch(10), 100), (None, 100)], True),
        ([(sketch(10), 100), (None, 101)], False),
        ([(sketch(10), 1000), (sketch(50), 100)], False),
    ],
)
def test_which_columns_repeat(sketches: list[tuple[Sketch | None, int]], expected: bool) -> None:
    assert repeats(sketches) is expected


def test_a_view_of_nothing() -> None:
    view = StateView(STORE, Epoch(0), 0, {})
    assert check_empty(view.scan(COLUMNS).to_table())


def check_empty(table: pa.Table) -> bool:
    return bool(table.num_rows == 0 and table.column_names == COLUMNS)


def test_nothing_is_encoded_where_a_segment_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_pieces, "LEAST_ENCODED_ROWS", 100)
    # The decimals of the second partition take 32,000 bytes; those of the first 3,200.
    cache, first, second = ColumnCache(LARGEST_JOINED_SHARE * 10_000), PartitionId(0), PartitionId(1)
    with (
        closing(PartitionStore(STORE, first, tmp_path / "0", cache, OPTIONS)) as small,
        closing(PartitionStore(STORE, second, tmp_path / "1", cache, OPTIONS)) as large,
    ):
        apply_rows(small, Epoch(1), ROWS_OF_STORE.slice(0, 200))
        apply_rows(large, Epoch(1), ROWS_OF_STORE.slice(200, 2_000))
        view = StateView(STORE, Epoch(1), 0, {first: small.version, second: large.version})
        table = view.scan(["price"]).to_table()
        assert table.schema.field("price").type == PLAIN[1]
        places = [
            entry.segment.reader.encoded_place(1)
            for entry in (*small.version.segments, *large.version.segments)
        ]
        assert cache.has(places) == [False, False]
