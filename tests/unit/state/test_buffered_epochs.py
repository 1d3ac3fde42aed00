"""What comes of a few rows may stay in memory: it is read like all else, and is written with what comes next.
A crash before that takes the partition back to a whole epoch, and it comes to the same rows again.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.errors import Unavailable
from engine.model.migration import AddColumn, migrate_definition
from engine.model.schema import TOMBSTONE_COLUMN, Epoch, PartitionId, StoreDefinition, define_store
from engine.state.cache import ColumnCache
from engine.state.delete_vector import BITS_ONLY_ROWS
from engine.state.partition import PartitionStore
from engine.state.partition_shape import Migrated
from engine.state.segment_store import BUFFERED_BYTES
from engine.state.state_options import MIB, StateOptions
from tests.support.following import live_rows
from tests.support.partitions import view_of

STORE = define_store(
    "plays", pa.schema([("k", pa.int64()), ("name", pa.string()), ("n", pa.float64())]), ["k"], partitions=1
)
KEYS_ENCODED = define_store(
    "plays",
    pa.schema([("k", pa.int64()), ("name", pa.string()), ("n", pa.float64())]),
    ["name", "k"],
    partitions=1,
)
OPTIONS = StateOptions(fan_out=3)


def batch(*keys: int, epoch: int = 1, removed: tuple[int, ...] = ()) -> pa.RecordBatch:
    values = {"k": list(keys), "name": [f"song {key}" for key in keys], "n": [float(epoch)] * len(keys)}
    rows = pa.RecordBatch.from_pydict(values, schema=STORE.row_schema)
    return (
        rows.append_column(TOMBSTONE_COLUMN, pa.array([key in removed for key in keys])) if removed else rows
    )


@contextmanager
def open_partition(
    path: Path, cache_bytes: int = MIB, store: StoreDefinition = STORE
) -> Iterator[PartitionStore]:
    """The partition; afterwards it is gone without a word, as a crash leaves it."""
    partition = PartitionStore(store, PartitionId(0), path, ColumnCache(cache_bytes), OPTIONS)
    try:
        yield partition
    finally:
        partition.abandon()


def rows_of(partition: PartitionStore) -> dict[int, float]:
    """The epoch of each key's row."""
    found = live_rows(view_of(partition, partition.definition)).to_pylist()
    assert all(row["name"] == f"song {row['k']}" for row in found)
    return {row["k"]: row["n"] for row in found}


def stored_blocks(partition: PartitionStore) -> set[int]:
    """The segments of which blocks are stored."""
    return {int.from_bytes(key[1:9], "big") for key, _ in partition.context.storage.pairs(b"b")}


@pytest.mark.parametrize("store", [STORE, KEYS_ENCODED], ids=["numbers", "encoded keys"])
@pytest.mark.parametrize("cache_bytes", [MIB, 0], ids=["cache", "no cache"])
def test_what_is_buffered_is_read(tmp_path: Path, cache_bytes: int, store: StoreDefinition) -> None:
    with open_partition(tmp_path, cache_bytes, store) as partition:
        partition.apply(Epoch(1), batch(1, 2, 3))
        stored = stored_blocks(partition)
        partition.apply(Epoch(2), batch(2, 4, epoch=2), is_buffered=True)
        partition.apply(Epoch(3), batch(3, 2, epoch=3, removed=(3,)), is_buffered=True)
        assert (partition.applied, partition.written_epoch, partition.is_written) == (3, 1, False)
        assert rows_of(partition) == {1: 1.0, 2: 3.0, 4: 2.0}
        assert stored_blocks(partition) == stored
        statistics = [entry.segment.statistics_of("k") for entry in partition.version.segments]
        bounds = [(each.low[0].as_py(), each.high[0].as_py()) for each in statistics if each is not None]
        assert bounds == [(1, 3), (2, 4), (2, 2)]


def test_a_crash_takes_it_back_to_what_is_written(tmp_path: Path) -> None:
    with open_partition(tmp_path) as partition:
        partition.apply(Epoch(1), batch(1, 2, 3))
        partition.apply(Epoch(2), batch(2, 4, epoch=2), digest="two")
        partition.apply(Epoch(3), batch(3, 5, epoch=3), digest="three", is_buffered=True)
    with open_partition(tmp_path) as partition:
        assert (partition.applied, partition.digest) == (2, "two")
        assert rows_of(partition) == {1: 1.0, 2: 2.0, 3: 1.0, 4: 2.0}
        partition.apply(Epoch(3), batch(3, 5, epoch=3), digest="three", is_buffered=True)
        partition.apply(Epoch(4), batch(5, epoch=4), digest="four", is_buffered=True)
        expected = rows_of(partition)
        partition.write()
        assert (partition.written_epoch, partition.is_written) == (4, True)
        partition.check_records()
    with open_partition(tmp_path) as partition:
        assert (partition.applied, partition.digest) == (4, "four")
        assert rows_of(partition) == expected == {1: 1.0, 2: 2.0, 3: 3.0, 4: 2.0, 5: 4.0}
        statistics = partition.version.segments[-1].segment.statistics_of("k")
        assert statistics is not None and statistics.bounds is not None
        assert [bound.as_py() for bound in statistics.bounds] == [5, 5]


def test_a_merge_writes_what_is_buffered_and_not_what_it_took_in(tmp_path: Path) -> None:
    with open_partition(tmp_path) as partition:
        for epoch in range(1, 4):
            partition.apply(Epoch(epoch), batch(epoch, 10, epoch=epoch), is_buffered=True)
        before = {entry.segment.id for entry in partition.version.segments}
        assert partition.compact()
        (merged,) = partition.version.segments
        assert stored_blocks(partition) == {merged.segment.id}
        assert merged.segment.id not in before
        expected = rows_of(partition)
        assert partition.is_written
    with open_partition(tmp_path) as partition:
        assert partition.applied == 3
        assert rows_of(partition) == expected == {1: 1.0, 2: 2.0, 3: 3.0, 10: 3.0}


def test_what_the_disk_names_stays_until_it_names_something_else(tmp_path: Path) -> None:
    with open_partition(tmp_path) as partition:
        partition.apply(Epoch(1), batch(1, 2))
        partition.apply(Epoch(2), batch(1, 2, epoch=2), is_buffered=True)
        gc.collect()
        assert len(partition.version.segments) == 1
        partition.release()
    with open_partition(tmp_path) as partition:
        assert rows_of(partition) == {1: 1.0, 2: 1.0}
        partition.apply(Epoch(2), batch(1, 2, epoch=2), is_buffered=True)
        partition.write()
        gc.collect()
        partition.release()
        assert stored_blocks(partition) == {entry.segment.id for entry in partition.version.segments}


def test_a_write_that_fails_comes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise Unavailable("The disk does not answer.")

    with open_partition(tmp_path, cache_bytes=0) as partition:
        partition.apply(Epoch(1), batch(1, 2), is_buffered=True)
        with monkeypatch.context() as patch, pytest.raises(Unavailable):
            patch.setattr(partition.context.storage, "write_atomically", fail)
            partition.write()
        assert not partition.is_written
        assert rows_of(partition) == {1: 1.0, 2: 1.0}
        partition.write()
    with open_partition(tmp_path) as partition:
        assert rows_of(partition) == {1: 1.0, 2: 1.0}


def test_many_bytes_are_written_in_small_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """rocksdict holds the interpreter in each of them."""
    written: list[int] = []
    with open_partition(tmp_path) as partition:
        for epoch in range(1, 5):
            partition.apply(Epoch(epoch), batch(*range(2500 * epoch, 2500 * epoch + 2500)), is_buffered=True)
        storage = partition.context.storage
        write = storage.write_atomically

        def write_and_note(pairs: Iterable[tuple[bytes, bytes]], *removed: Any) -> None:
            pairs = list(pairs)
            written.append(sum(len(value) for _, value in pairs))
            write(pairs, *removed)

        monkeypatch.setattr(storage, "write_atomically", write_and_note)
        partition.write()
        assert sum(entry.segment.record.nbytes for entry in partition.version.segments) > 2 * BUFFERED_BYTES
        assert len(written) == 1
        assert written[0] < BUFFERED_BYTES
        assert len(stored_blocks(partition)) == 4
    with open_partition(tmp_path, cache_bytes=0) as partition:
        assert rows_of(partition).keys() == set(range(2500, 12500))


def test_a_write_that_was_done_and_failed_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dead rows of a large segment are runs of row numbers, which later ones take in."""
    keys = range(2 * BITS_ONLY_ROWS)
    with open_partition(tmp_path) as partition:
        partition.apply(Epoch(1), batch(*keys))
        storage = partition.context.storage
        write = storage.write_atomically

        def write_and_fail(*arguments: Any) -> None:
            write(*arguments)
            raise Unavailable("The disk does not answer.")

        partition.apply(Epoch(2), batch(1, 2, epoch=2), is_buffered=True)
        with monkeypatch.context() as patch, pytest.raises(Unavailable):
            patch.setattr(storage, "write_atomically", write_and_fail)
            partition.write()
        partition.apply(Epoch(3), batch(*range(3, 33), epoch=3), is_buffered=True)
        expected = rows_of(partition)
        partition.write()
        partition.check_records()
    with open_partition(tmp_path) as partition:
        assert rows_of(partition) == expected


def test_it_is_written_when_the_partition_is_closed_or_notes_its_epoch(tmp_path: Path) -> None:
    for number, noted in enumerate((None, Epoch(9))):
        path = tmp_path / str(number)
        partition = PartitionStore(STORE, PartitionId(0), path, ColumnCache(MIB), OPTIONS)
        partition.apply(Epoch(1), batch(1), is_buffered=True)
        partition.close(noted)
        with open_partition(path) as again:
            assert again.applied == (noted or 1)
            assert rows_of(again) == {1: 1.0}


def test_a_scrub_takes_no_epoch_in_memory_for_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One lands behind whatever is written alone."""
    with open_partition(tmp_path) as partition:
        partition.apply(Epoch(1), batch(1), is_buffered=True)
        write = partition.write

        def write_and_go_on() -> None:
            write()
            partition.apply(Epoch(2), batch(2), is_buffered=True)

        monkeypatch.setattr(partition, "write", write_and_go_on)
        partition.check_records()
        assert partition.written_epoch == partition.applied


def test_many_rows_and_migrations_are_written_at_once(tmp_path: Path) -> None:
    with open_partition(tmp_path) as partition:
        partition.apply(Epoch(1), batch(*range(BUFFERED_BYTES // 16)), is_buffered=True)
        assert partition.written_epoch == 1
        partition.apply(Epoch(2), batch(1, epoch=2), is_buffered=True)
        assert partition.written_epoch == 1
        migrated = Migrated(migrate_definition(STORE, [AddColumn("more", pa.int64())], 1), 1)
        partition.apply(Epoch(3), None, migrated=migrated, is_buffered=True)
        assert partition.written_epoch == 3
        assert rows_of(partition)[1] == 2.0
