"""A merge leaves the cache as it found it: what was there of the rows is there of the merged ones, and what
was not is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from engine.model.schema import Epoch, PartitionId, define_store
from engine.state import column_reader, segment_merge
from engine.state.cache import ColumnCache
from engine.state.partition import PartitionStore
from engine.state.rocks import Rocks
from engine.state.state_options import StateOptions
from tests.support.partitions import view_of
from tests.support.seeds import seeded_generator

STORE = define_store(
    "t", pa.schema([("k", pa.int64()), ("a", pa.int64()), ("b", pa.float64())]), ["k"], partitions=1
)
ROWS, INPUTS, HOT = 40_000, 4, 0.2
OPTIONS = StateOptions(block_rows=512, fan_out=100, paged_rows=1000)


def rows(numbers: np.ndarray) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array(numbers), pa.array(numbers * 2), pa.array(numbers / 2)], schema=STORE.row_schema
    )


def look_up(store: PartitionStore, numbers: np.ndarray) -> None:
    view = view_of(store, STORE)
    schema = pa.schema([STORE.schema.field("a"), STORE.schema.field("b")])
    for number in numbers.tolist():
        row = view.row(number, (1, 2), schema)
        assert row is not None
        assert row["a"].to_pylist() == [number * 2]


class CountingCache(ColumnCache):
    """Counts what is found of value columns, and what is not."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.loads = 0

    def put(self, key: object, entry: object) -> None:
        self.loads += 1
        super().put(key, entry)  # type: ignore[arg-type]


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("is_hot", [False, True])
def test_a_merge_leaves_the_cache_as_it_found_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_large: bool, is_hot: bool
) -> None:
    if is_large:
        monkeypatch.setattr(segment_merge, "LARGE_MERGE_SHARE", 1 << 30)
        monkeypatch.setattr(segment_merge, "LARGE_COLUMN_BYTES", 0)
    cache = CountingCache(ROWS * 16)
    random = seeded_generator(6)
    order = random.permutation(ROWS)
    with closing(PartitionStore(STORE, PartitionId(0), tmp_path, cache, OPTIONS)) as store:
        for epoch in range(INPUTS):
            store.apply(Epoch(epoch + 1), rows(order[epoch::INPUTS]))
    with closing(PartitionStore(STORE, PartitionId(0), tmp_path, cache, OPTIONS)) as store:
        hot = np.arange(int(ROWS * HOT))
        if is_hot:
            look_up(store, hot[::16])
        before, cache.loads = cache.nbytes, 0
        store.compact_fully()
        store.release()
        (entry,) = store.version.segments
        kept = np.array([entry.segment.reader.kept_blocks(column) for column in (1, 2)])
        expected = (
            np.arange(entry.segment.blocks) < HOT * entry.segment.blocks if is_hot else np.zeros(1, bool)
        )
        assert (kept == expected).mean() > 0.95
        assert cache.nbytes <= before * 1.1 + 8 * ROWS * (not is_large) + 1000
        if is_hot:
            cache.loads = 0
            look_up(store, random.choice(hot, 200))
            assert cache.loads <= 12, "nearly all is found"


@pytest.mark.parametrize("room", [0, ROWS * 24])
def test_what_a_large_merge_makes_is_read_again_only_where_the_cache_had_no_room_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    monkeypatch.setattr(segment_merge, "LARGE_MERGE_SHARE", 1 << 30)
    read: list[bytes] = []
    get_all = Rocks.get_all

    def note(rocks: Rocks, keys: Sequence[bytes]) -> list[bytes | None]:
        read.extend(key for key in keys if key.startswith(b"b"))
        return get_all(rocks, keys)

    monkeypatch.setattr(Rocks, "get_all", note)
    cache = ColumnCache(ROWS * 25 + room)
    with closing(PartitionStore(STORE, PartitionId(0), tmp_path, cache, OPTIONS)) as store:
        for epoch in range(INPUTS):
            store.apply(Epoch(epoch + 1), rows(np.arange(epoch, ROWS, INPUTS)))
        store.compact_fully()
        (entry,) = store.version.segments
        assert bool(read) == (not room)
        assert entry.segment.reader.kept_blocks(1).all()


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("is_joined", [False, True])
def test_a_merge_joins_the_columns_that_its_inputs_had_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_large: bool, is_joined: bool
) -> None:
    monkeypatch.setattr(column_reader, "LARGEST_JOINED_SHARE", 1)
    if is_large:
        monkeypatch.setattr(segment_merge, "LARGE_MERGE_SHARE", 1 << 30)
    cache = ColumnCache(ROWS * (45 if is_large else 200))
    order = seeded_generator(7).permutation(ROWS)
    with closing(PartitionStore(STORE, PartitionId(0), tmp_path, cache, OPTIONS)) as store:
        for epoch in range(INPUTS):
            store.apply(Epoch(epoch + 1), rows(order[epoch::INPUTS]))
        if is_joined:
            for entry in store.version.segments:
                assert entry.segment.reader.join(1) is not None
        store.compact_fully()
        (entry,) = store.version.segments
        reader = entry.segment.reader
        assert reader.blocks > 1
        assert reader.kept_blocks(1).all()
        assert [reader.is_joined(column) for column in (1, 2)] == [is_joined, False]
        look_up(store, order[::97])


def test_a_merge_to_one_block_joins_nothing(tmp_path: Path) -> None:
    options = StateOptions(block_rows=1 << 16, fan_out=100, paged_rows=1000)
    small = StateOptions(block_rows=512, fan_out=100, paged_rows=1000)
    cache, numbers = ColumnCache(ROWS * 100), np.arange(2000)
    with closing(PartitionStore(STORE, PartitionId(0), tmp_path, cache, small)) as store:
        store.apply(Epoch(1), rows(numbers))
    with closing(PartitionStore(STORE, PartitionId(0), tmp_path, cache, options)) as store:
        reader = store.version.segments[0].segment.reader
        for block in range(reader.blocks):
            reader.column(1, block)
        assert reader.join(1) is not None
        store.apply(Epoch(2), rows(numbers[:100]))
        store.compact_fully()
        (entry,) = store.version.segments
        assert (entry.segment.blocks, entry.segment.reader.is_joined(1)) == (1, False)
        look_up(store, numbers[::7])
