"""The space of rows that went comes back on the disk."""

from __future__ import annotations

from contextlib import suppress
from operator import attrgetter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from engine.changelog import Changelog, open_appender
from engine.model.kinds import Behaviour, Retention
from engine.model.schema import Epoch, GroupName, PartitionId, define_store
from engine.replica import compactor
from engine.replica.follower_options import FollowerOptions
from engine.state.cache import ColumnCache
from engine.state.formats import SegmentId, segment_key
from engine.state.partition import PartitionStore
from engine.state.segment_store import RECLAIM_BYTES
from engine.state.state_options import StateOptions
from tests.support.following import run_follower
from tests.support.seeds import seeded_generator
from tests.support.waiting import wait_until

SCHEMA = pa.schema([("k", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
WINDOWS = define_store(
    "store",
    SCHEMA,
    ["k", "at"],
    partition_by=["k"],
    partitions=1,
    behaviour=Behaviour(retention=Retention(1, "at")),
)
ROWS = 300_000


def size(directory: Path) -> int:
    """Bytes of all files; some of them may go meanwhile."""
    found = 0
    for file in directory.rglob("*"):
        with suppress(FileNotFoundError):
            found += file.stat().st_size
    return found


VALUES = define_store("values", pa.schema([("k", pa.int64()), ("v", pa.int64())]), ["k"], partitions=1)


def test_space_that_rows_share_with_others_comes_back_at_rest(tmp_path: Path) -> None:
    """Upserts of all rows leave as much garbage as there are rows, in the files of those that are left."""
    options = StateOptions(write_buffer_bytes=1 << 20)
    store = PartitionStore(VALUES, PartitionId(0), tmp_path, ColumnCache(1 << 20), options)
    random = seeded_generator(3)
    values = np.zeros(2 * ROWS, np.int64)
    for epoch in range(1, 9):
        keys = random.permutation(2 * ROWS)[:ROWS]
        values[keys] = epoch
        store.apply(Epoch(epoch), pa.record_batch({"k": keys, "v": np.full(ROWS, epoch)}))
        while store.compact():
            pass
    store.compact_fully()
    assert store.has_garbage()
    store.settle()
    assert not store.has_garbage()
    wait_until(lambda: size(tmp_path) < 1.3 * store.version.nbytes + (2 << 20))
    for _ in range(2):
        (entry,) = store.version.segments
        keys, found = (entry.segment.reader.whole_column(column).to_numpy() for column in (0, 1))
        assert (found == values[keys]).all()
        assert len(keys) == np.count_nonzero(values)
        store.close()
        store = PartitionStore(VALUES, PartitionId(0), tmp_path, ColumnCache(1 << 20), options)
    store.close()


def test_segments_that_have_gone_are_removed_behind_an_epoch_and_not_with_it(tmp_path: Path) -> None:
    """Readers wait for the epoch."""
    storage_of, rows = attrgetter("_storage"), pa.record_batch({"k": np.arange(9), "v": np.arange(9)})
    store = PartitionStore(VALUES, PartitionId(0), tmp_path, ColumnCache(1 << 20), StateOptions())
    for epoch in range(1, 4):
        store.apply(Epoch(epoch), rows)
    kept = [entry.segment.id for entry in store.version.segments]
    gone = [SegmentId(number) for number in range(1, max(kept)) if number not in kept]
    assert gone
    assert all(storage_of(store).get(segment_key(segment)) is not None for segment in gone)
    store.release()
    assert all(storage_of(store).get(segment_key(segment)) is None for segment in gone)
    assert all(storage_of(store).get(segment_key(segment)) is not None for segment in kept)
    store.close()


def test_a_host_that_rests_gives_space_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compactor, "REST_SECONDS", 2.0)
    changelog = Changelog.open(str(tmp_path / "changelog"))
    appender = open_appender(changelog, [VALUES])
    options = FollowerOptions(poll_seconds=0.05, retention_seconds=0.0)
    with run_follower(changelog, tmp_path / "data", options) as host:
        for epoch in range(8):
            rows = pa.table({"k": np.arange(epoch, 2 * ROWS, 2), "v": np.full(ROWS - epoch // 2, epoch)})
            appender.append({"values": rows})
            assert host.wait_for(GroupName("values"), appender.epoch, 60)
        wait_until(lambda: size(tmp_path / "data") < 2 * ROWS * 16 * 1.5)


def test_space_comes_back_when_rows_are_past_their_retention(tmp_path: Path) -> None:
    store = PartitionStore(
        WINDOWS, PartitionId(0), tmp_path, ColumnCache(1 << 20), StateOptions(write_buffer_bytes=1 << 20)
    )
    for epoch in (1, 2, 3):
        times = pa.array(np.full(ROWS, epoch)).cast(pa.timestamp("us", "UTC"))
        store.apply(
            Epoch(epoch),
            pa.RecordBatch.from_arrays([pa.array(np.arange(ROWS)), times], schema=WINDOWS.row_schema),
        )
    full = size(tmp_path)
    assert full > RECLAIM_BYTES
    store.apply(Epoch(4), None, cutoff=4)
    assert not store.version.segments  # whole segments went, none of them rewritten
    store.compact()
    # RocksDB removes the files a moment later.
    wait_until(lambda: size(tmp_path) < full / 4)
    store.close()
