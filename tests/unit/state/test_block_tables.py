"""Tables of blocks give the rows of their columns, and never keep a column that the cache has let go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from engine.model.schema import TOMBSTONE_COLUMN, Epoch, PartitionId, define_store
from engine.state.block_table import BlockTable
from engine.state.cache import ColumnCache
from engine.state.cache_places import WHOLE, CacheKey, SegmentPlace, TablePlace
from engine.state.column_reader import LARGEST_JOINED_SHARE, cache_keys
from engine.state.partition import PartitionStore
from engine.state.segment import Segment
from engine.state.state_options import StateOptions
from engine.state.state_view import StateView

ROWS = 100
TABLE = pa.table(
    {
        "id": pa.array(range(ROWS), pa.int64()),
        "half": [number / 2 for number in range(ROWS)],
        "name": [f"n{n}" for n in range(ROWS)],
    }
)
SEGMENT, PLACE = SegmentPlace(1, 1), TablePlace(0, (0, 1))
COLUMN = pa.array(range(10), pa.int64())
ROOM_FOR_THREE = 3 * COLUMN.nbytes


def _key(column: int, segment: int = 1) -> CacheKey:
    return CacheKey(1, segment, 0, column)


@pytest.fixture
def cache() -> ColumnCache:
    return ColumnCache(1 << 20)


@pytest.fixture
def view(tmp_path: Path, cache: ColumnCache) -> Iterator[StateView]:
    definition = define_store("things", TABLE.schema, ["id"], partitions=1)
    store = PartitionStore(definition, PartitionId(0), tmp_path, cache, StateOptions(block_rows=16))
    try:
        rows = TABLE.append_column(TOMBSTONE_COLUMN, pa.array(np.zeros(ROWS, np.bool_))).combine_chunks()
        version = store.apply(Epoch(1), rows.to_batches()[0])
        yield StateView(definition, Epoch(1), 0, {PartitionId(0): version})
    finally:
        store.close()


def _row(view: StateView, key: int, names: dict[str, str]) -> list[dict[str, object]] | None:
    places = tuple(TABLE.schema.get_field_index(column) for column in names.values())
    schema = pa.schema([pa.field(name, TABLE.schema.field(column).type) for name, column in names.items()])
    found = view.row(key, places, schema)
    return None if found is None else found.to_pylist()


def test_rows_are_right_however_columns_alternate_and_go(view: StateView, cache: ColumnCache) -> None:
    asked = [
        {"id": "id", "half": "half"},
        {"half": "half", "id": "id"},
        {"other": "half"},
        {"half": "half"},
        {"name": "name", "half": "id"},
    ]
    for key in range(ROWS):
        for names in (*asked, *asked):
            # Every third key finds none of its block in the cache.
            if key % 3 == 0:
                cache.drop(list(cache._entries))
            # Every seventh one finds columns that are in the cache as a whole.
            if key % 7 == 0:
                _join(view, (0, 2) if key % 2 else (1,))
            row = TABLE.slice(key, 1).to_pylist()[0]
            assert _row(view, key, names) == [{name: row[column] for name, column in names.items()}]
    assert _row(view, ROWS, asked[0]) is None


def _join(view: StateView, columns: Sequence[int]) -> None:
    segment = view.versions[PartitionId(0)].segments[0].segment
    for block in range(segment.blocks):
        segment.reader.columns(columns, block)
    found = segment.reader.whole_columns(columns)
    assert found is not None
    assert [array.to_pylist() for array in found] == [TABLE.column(place).to_pylist() for place in columns]


def test_columns_are_joined_once_all_of_their_blocks_are_there(view: StateView, cache: ColumnCache) -> None:
    segment = view.versions[PartitionId(0)].segments[0].segment
    cache.drop(list(cache._entries))
    for block in range(segment.blocks):
        assert segment.reader.whole_columns((1, 2)) is None
        segment.reader.columns((1, 2), block)
    single = cache.nbytes
    found = segment.reader.whole_columns((1, 2))
    assert found is not None
    assert {key.block for key in cache._entries} == {WHOLE}
    assert single // 2 < cache.nbytes <= single
    # Whatever is asked for now is cut out of them, also by who has known the blocks before.
    again = Segment(segment.id, segment.record, segment._context)
    for block in range(segment.blocks):
        start, stop = segment.record.block_span(block)
        for each in (segment, again):
            for arrays in (
                each.reader.columns((1, 2), block),
                each.reader.slices((1, 2), block, start, stop),
            ):
                assert [array.to_pylist() for array in arrays] == [
                    array.slice(start, stop - start).to_pylist() for array in found
                ]
            assert each.reader.batch(block).to_pylist() == TABLE.slice(start, stop - start).to_pylist()
    assert {key.block for key in cache._entries} == {WHOLE}
    cache.drop(list(cache._entries))
    assert (cache.nbytes, +cache._blocks) == (0, {})
    assert segment.reader.whole_columns((1, 2)) is None
    assert segment.reader.columns((1, 2), 3)[0].to_pylist() == found[0].slice(48, 16).to_pylist()


@pytest.mark.parametrize(("rows", "stays"), [(1, False), (2, True)])
def test_a_joined_column_is_used_when_its_blocks_would_have_been(rows: int, stays: bool) -> None:
    joined, other = [CacheKey(1, segment, WHOLE, 1) for segment in (1, 2)]
    place = TablePlace(WHOLE, (1,))
    cache = ColumnCache(5 * COLUMN.nbytes)
    for block in range(4):
        cache.put(joined._replace(block=block), COLUMN)
    column = cache.join(joined, 4, lambda array: array)
    table = BlockTable(TABLE.schema, [joined], pa.table([column], ["1"]))
    cache.put_table(SEGMENT, place, table, [column])
    cache.put(other, COLUMN)
    # Of its four blocks, so many rows are asked for: twice of as many, beside two that others ask for.
    for _ in range(2):
        cache.find(joined)
    if stays:
        assert cache.find_tables([SEGMENT], place, [rows]) == [table]
    cache.put(_key(1, segment=3), COLUMN)
    assert cache.peek(joined) is (column if stays else None)
    assert (cache.peek(other) is None) is stays


def test_columns_that_are_large_for_the_cache_stay_in_blocks(tmp_path: Path) -> None:
    definition = define_store("things", TABLE.schema, ["id"], partitions=1)
    cache = ColumnCache(ROWS * 8 * LARGEST_JOINED_SHARE - 1)
    store = PartitionStore(definition, PartitionId(0), tmp_path, cache, StateOptions(block_rows=16))
    try:
        rows = TABLE.append_column(TOMBSTONE_COLUMN, pa.array(np.zeros(ROWS, np.bool_))).combine_chunks()
        segment = store.apply(Epoch(1), rows.to_batches()[0]).segments[0].segment
        for block in range(segment.blocks):
            segment.reader.columns((1,), block)
        assert segment.reader.whole_columns((1,)) is None
        assert len([key for key in cache._entries if key.column == 1 or key.block != WHOLE]) >= segment.blocks
    finally:
        store.close()


def test_a_table_is_made_once(view: StateView, cache: ColumnCache) -> None:
    segment = view.versions[PartitionId(0)].segments[0].segment
    schema = TABLE.select(["id", "half"]).schema
    assert segment.reader.table((0, 1), 2, schema) is segment.reader.table((0, 1), 2, pa.schema(list(schema)))
    cache.drop(cache_keys(1, segment.id, segment.blocks, segment.record.column_bytes))
    assert (cache.nbytes, cache._tables) == (0, {})


def _keep(cache: ColumnCache, *columns: int) -> BlockTable:
    keys = [_key(column) for column in columns]
    for key in keys:
        cache.put(key, COLUMN)
    names = [str(column) for column in columns]
    table = BlockTable(TABLE.schema, keys, pa.table([COLUMN] * len(columns), names))
    cache.put_table(SEGMENT, PLACE, table, cache.find_all(keys))
    return table


def _table(cache: ColumnCache) -> BlockTable | None:
    return cache.find_tables([SEGMENT], PLACE, [1])[0]


def test_a_table_goes_with_the_first_of_its_columns() -> None:
    cache = ColumnCache(ROOM_FOR_THREE)
    assert _table(cache) is None
    table = _keep(cache, 0, 1)
    assert _table(cache) is table
    assert cache.nbytes == 2 * COLUMN.nbytes
    cache.put(_key(0, segment=2), COLUMN)
    assert _table(cache) is table
    cache.find(_key(1))
    cache.put(_key(1, segment=2), COLUMN)
    cache.put(_key(2, segment=2), COLUMN)
    assert (cache.find(_key(0)), _table(cache)) == (None, None)


def test_a_column_put_anew_or_dropped_takes_the_table_along() -> None:
    cache = ColumnCache(ROOM_FOR_THREE)
    _keep(cache, 0, 1)
    cache.put(_key(1), COLUMN.slice(0))
    assert _table(cache) is None
    _keep(cache, 0, 1)
    cache.drop([_key(0)])
    assert _table(cache) is None


def test_columns_of_a_table_that_is_used_stay() -> None:
    cache = ColumnCache(ROOM_FOR_THREE)
    table = _keep(cache, 0, 1)
    cache.put(_key(0, segment=2), COLUMN)
    assert _table(cache) is table
    cache.put(_key(1, segment=2), COLUMN)
    assert cache.find(_key(0, segment=2)) is None
    assert _table(cache) is table


@pytest.mark.parametrize("entries", [[COLUMN, None], [COLUMN, COLUMN.slice(0)]])
def test_a_table_of_columns_that_are_not_those_kept_is_not_kept(entries: list[pa.Array | None]) -> None:
    cache = ColumnCache(ROOM_FOR_THREE)
    for column in (0, 1):
        cache.put(_key(column), COLUMN)
    cache.put_table(
        SEGMENT,
        PLACE,
        BlockTable(TABLE.schema, [_key(0), _key(1)], pa.table([COLUMN, COLUMN], ["0", "1"])),
        entries,
    )
    assert _table(cache) is None


@pytest.mark.parametrize("arrow_type", [pa.int64(), pa.uint64(), pa.string()])
def test_a_key_is_found_by_the_edges_of_its_block(
    tmp_path: Path, cache: ColumnCache, arrow_type: pa.DataType
) -> None:
    def key(number: int) -> int | str:
        return f"{number:05}" if pa.types.is_string(arrow_type) else number

    definition = define_store(
        "things", pa.schema([("id", arrow_type), ("n", pa.int64())]), ["id"], partitions=1
    )
    there = range(10, 2 * ROWS + 10, 2)
    rows = pa.record_batch(
        [
            pa.array([key(number) for number in there], arrow_type),
            pa.array(there, pa.int64()),
            pa.array([False] * ROWS),
        ],
        ["id", "n", TOMBSTONE_COLUMN],
    )
    store = PartitionStore(definition, PartitionId(0), tmp_path, cache, StateOptions(block_rows=16))
    try:
        view = StateView(definition, Epoch(1), 0, {PartitionId(0): store.apply(Epoch(1), rows)})
        for number in range(there.stop + 10):
            cache.drop(list(cache._entries))
            found = view.row(key(number), (1,), pa.schema([("n", pa.int64())]))
            assert (found and found.to_pylist()) == ([{"n": number}] if number in there else None)
    finally:
        store.close()
