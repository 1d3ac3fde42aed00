"""A process that applies epochs to one partition store until it kills itself in the middle of a chosen write.

Run by `test_partition_crash.py` with a directory and the number of the RocksDB call to die at.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from engine.schema import TOMBSTONE_COLUMN, Epoch, PartitionId, StoreDefinition, define_store
from engine.state.cache import ColumnCache
from engine.state.options import StateOptions
from engine.state.partition import PartitionStore
from engine.state.rocks import Rocks

EPOCHS = 14
OPTIONS = StateOptions(cache_bytes=1 << 20, block_rows=8, fan_out=3)


def definition() -> StoreDefinition:
    return define_store("store", pa.schema([("k", pa.int64()), ("v", pa.string())]), ["k"], partitions=1)


def rows_of(epoch: int) -> pa.RecordBatch:
    """The same rows for the same epoch in every process: upserts of some keys, tombstones of others."""
    keys = [(epoch * 7 + place * 3) % 41 for place in range(20)]
    removed = [(key + epoch) % 5 == 0 for key in keys]
    return pa.RecordBatch.from_arrays([pa.array(keys), pa.array([f"{epoch}/{key}" for key in keys]), pa.array(removed)], ["k", "v", TOMBSTONE_COLUMN])


def rows_until(epoch: int) -> dict[int, str]:
    """What the store must hold at an epoch."""
    held: dict[int, str] = {}
    for number in range(1, epoch + 1):
        for row in rows_of(number).to_pylist():
            held.pop(row["k"], None)
            if not row[TOMBSTONE_COLUMN]:
                held[row["k"]] = row["v"]
    return held


def die_at_call(number: int, *, dies_after: bool) -> None:
    """Have this process killed right before or right after its n-th write to RocksDB."""
    calls = itertools.count(1)

    def dying(write: Callable[..., None]) -> Callable[..., None]:
        def wrapped(*args: Any, **options: Any) -> None:
            call = next(calls)
            if call == number and not dies_after:
                os.kill(os.getpid(), signal.SIGKILL)
            write(*args, **options)
            if call == number:
                os.kill(os.getpid(), signal.SIGKILL)

        return wrapped

    Rocks.write = dying(Rocks.write)  # type: ignore[method-assign]
    Rocks.write_atomically = dying(Rocks.write_atomically)  # type: ignore[method-assign]


def main(directory: str, die_at: int, *, dies_after: bool) -> None:
    die_at_call(die_at, dies_after=dies_after)
    store = PartitionStore(definition(), PartitionId(0), Path(directory), ColumnCache(OPTIONS.cache_bytes), OPTIONS)
    for epoch in range(store.applied + 1, EPOCHS + 1):
        print("begin", epoch, flush=True)
        store.apply(Epoch(epoch), rows_of(epoch))
        print("done", epoch, flush=True)
        while store.compact():
            pass
    store.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), dies_after=sys.argv[3] == "after")
