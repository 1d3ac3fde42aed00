"""The space of rows that went comes back on the disk."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa

from engine.model.kinds import Behaviour, Retention
from engine.model.schema import Epoch, PartitionId, define_store
from engine.state.cache import ColumnCache
from engine.state.partition import PartitionStore
from engine.state.segment_store import RECLAIM_BYTES
from engine.state.state_options import StateOptions
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
