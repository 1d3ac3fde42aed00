"""An epoch that could not be applied is tried again as if it had never been tried."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.errors import LimitExceeded, Unavailable
from engine.model.kinds import Behaviour, Retention
from engine.model.schema import Epoch, PartitionId, define_store
from engine.state.cache import ColumnCache
from engine.state.partition import PartitionStore
from engine.state.rocks import Rocks
from engine.state.state_options import MIB, StateOptions

COLUMNS = pa.schema([("k", pa.int64()), ("seen", pa.timestamp("us", "UTC"))])
STORE = define_store(
    "events", COLUMNS, ["k"], partitions=1, behaviour=Behaviour(retention=Retention(1_000_000, "seen"))
)


def rows(*times: int) -> pa.RecordBatch:
    seen = [dt.datetime.fromtimestamp(time, dt.UTC) for time in times]
    return pa.RecordBatch.from_pydict({"k": list(times), "seen": seen}, schema=STORE.row_schema)


def test_rows_go_at_a_cutoff_that_was_tried_before(tmp_path: Path) -> None:
    cutoff = 50_000_000
    partition = PartitionStore(
        STORE, PartitionId(0), tmp_path / "partition", ColumnCache(MIB), StateOptions()
    )
    try:
        partition.apply(Epoch(1), rows(10, 90))
        with pytest.raises(IndexError):
            partition.apply(Epoch(2), rows(60).drop_columns(["k"]), cutoff=cutoff)
        assert partition.version.live_rows == 2
        assert partition.advances_cutoff(cutoff)
        assert partition.apply(Epoch(2), None, cutoff=cutoff).live_rows == 1
        assert not partition.advances_cutoff(cutoff)
    finally:
        partition.close()


def test_nothing_is_left_of_an_epoch_that_could_not_be_written(tmp_path: Path) -> None:
    partition = PartitionStore(
        STORE, PartitionId(0), tmp_path / "partition", ColumnCache(MIB), StateOptions()
    )
    try:
        partition.apply(Epoch(1), rows(10, 90))
        storage = partition.context.storage
        with pytest.MonkeyPatch.context() as patch, pytest.raises(Unavailable):
            patch.setattr(storage, "write_atomically", fail)
            partition.apply(Epoch(2), rows(60, 90))
        assert partition.apply(Epoch(2), rows(60)).live_rows == 3
        counting = {entry.segment.id for entry in partition.version.segments}
        stored = {int.from_bytes(key[1:9], "big") for key, _ in storage.pairs(b"b")}
        assert stored == counting
    finally:
        partition.close()


@pytest.mark.parametrize("room", [0, 1, 40])
def test_a_merge_that_a_full_disk_ends_leaves_no_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """Until the partition was opened again, each such merge took as much of the disk once more."""
    store = define_store("texts", pa.schema([("k", pa.int64()), ("v", pa.string())]), ["k"], partitions=1)
    options = StateOptions(fan_out=3, block_bytes=1 << 15)
    partition = PartitionStore(store, PartitionId(0), tmp_path / "partition", ColumnCache(MIB), options)

    def stored_segments() -> set[int]:
        return {int.from_bytes(key[1:9], "big") for key, _ in partition.context.storage.pairs(b"b")}

    try:
        for epoch in (1, 2, 3):
            columns = [
                pa.array(range(epoch, 9_000, 3)),
                pa.array(["x" * 1_000] * len(range(epoch, 9_000, 3))),
            ]
            partition.apply(Epoch(epoch), pa.RecordBatch.from_arrays(columns, schema=store.row_schema))
        before = stored_segments()
        write, left = Rocks._apply, [room]

        def write_while_there_is_room(rocks: Rocks, *arguments: Any, **options: Any) -> Any:
            if not left[0]:
                raise LimitExceeded("The disk is full.")
            left[0] -= 1
            return write(rocks, *arguments, **options)

        with monkeypatch.context() as patch:
            patch.setattr(Rocks, "_apply", write_while_there_is_room)
            with pytest.raises(LimitExceeded):
                partition.compact()
        partition.release()
        assert stored_segments() == before
        partition.compact()
        partition.release()
        assert len(stored_segments()) == 1
    finally:
        partition.close()


def fail(*_: object) -> None:
    raise Unavailable("The disk does not answer.")


def test_epochs_of_few_rows_get_sketches_when_they_are_merged(tmp_path: Path) -> None:
    store = define_store("numbers", pa.schema([("k", pa.int64()), ("v", pa.int64())]), ["k"], partitions=1)
    partition = PartitionStore(
        store, PartitionId(0), tmp_path / "partition", ColumnCache(MIB), StateOptions()
    )

    def sketched_rows() -> list[int]:
        segments = [entry.segment for entry in partition.version.segments]
        return [segment.rows for segment in segments if segment.sketch_of("v") is not None]

    try:
        for epoch, (start, stop) in enumerate(((0, 5000), (5000, 5300), (6000, 6400)), start=1):
            numbers = pa.array(range(start, stop))
            partition.apply(Epoch(epoch), pa.record_batch({"k": numbers, "v": numbers}))
        assert sketched_rows() == [5000, 400]
        partition.compact_fully()
        assert sketched_rows() == [5700]
    finally:
        partition.close()
