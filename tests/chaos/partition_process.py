"""A process that applies epochs to one partition store, or to two that share a RocksDB, until it kills itself
in the middle of a chosen write.

Started by `test_partition_crash.py` with a directory and the number of the RocksDB call to die at.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa

from engine.model.migration import AddColumn, DropColumn, RenameColumn, WidenColumn, migrate_definition
from engine.model.schema import TOMBSTONE_COLUMN, Epoch, PartitionId, StoreDefinition, define_store
from engine.state.cache import ColumnCache
from engine.state.partition import PartitionStore
from engine.state.partition_shape import Migrated
from engine.state.rocks import Rocks, shared_options
from engine.state.shared_storage import SharedStorages
from engine.state.state_options import StateOptions

EPOCHS = 18
EPOCHS_OF_A_SHAPE = 4
OPTIONS = StateOptions(cache_bytes=1 << 20, block_rows=8, fan_out=3)
EPOCHS_BETWEEN_WRITES = 3
"""Of what is held."""


def definition() -> StoreDefinition:
    return define_store("store", pa.schema([("k", pa.int64()), ("v", pa.string())]), ["k"], partitions=1)


def shapes() -> list[StoreDefinition]:
    """What the store is at each generation; the third migration is of another store of its group."""
    created = definition()
    one = migrate_definition(created, [AddColumn("n", pa.int32(), "7")], 1)
    two = migrate_definition(
        one, [WidenColumn("n", pa.int64()), RenameColumn("k", "key"), AddColumn("last", pa.string())], 2
    )
    return [created, one, two, two, migrate_definition(two, [DropColumn("v")], 4)]


def shape_at(epoch: int) -> Migrated:
    """What the store is at an epoch."""
    generation = (epoch - 1) // EPOCHS_OF_A_SHAPE
    return Migrated(shapes()[generation], generation)


def rows_of(epoch: int) -> pa.RecordBatch:
    """The same rows for the same epoch in every process: upserts of some keys, tombstones of others."""
    keys = [(epoch * 7 + place * 3) % 41 for place in range(20)]
    values = {
        "k": keys,
        "v": [f"{epoch}/{key}" for key in keys],
        "n": [epoch] * 20,
        "last": [str(key) for key in keys],
    }
    schema = shape_at(epoch).definition.row_schema
    columns = [pa.array(values["k" if field.name == "key" else field.name], field.type) for field in schema]
    removed = [(key + epoch) % 5 == 0 for key in keys]
    return pa.RecordBatch.from_arrays([*columns, pa.array(removed)], [*schema.names, TOMBSTONE_COLUMN])


def all_rows_until(epoch: int) -> dict[int, dict[str, Any]]:
    """What the store must hold at an epoch, by key."""
    held: dict[int, dict[str, Any]] = {}
    for number in range(1, epoch + 1):
        for row in rows_of(number).to_pylist():
            key = row.get("k", row.get("key"))
            held.pop(key, None)
            if not row.pop(TOMBSTONE_COLUMN):
                held[key] = {"n": 7, "last": None, **row, "k": key, "key": key}
    names = shape_at(epoch).definition.schema.names
    return {key: {name: row[name] for name in names} for key, row in held.items()}


def rows_until(epoch: int) -> dict[int, str]:
    """The values alone, before the first migration."""
    return {key: row["v"] for key, row in all_rows_until(epoch).items()}


def open_stores(directory: Path, partitions: int, options: StateOptions = OPTIONS) -> list[PartitionStore]:
    """The partitions, in the shape that they have on the disk; several share a RocksDB."""
    cache, storages, shared = ColumnCache(options.cache_bytes), SharedStorages(), shared_options(options)
    return [
        PartitionStore(
            definition(),
            number,
            directory,
            cache,
            options,
            shared,
            shapes().__getitem__,
            storage=storages.open_part(directory, number, options, shared) if partitions > 1 else None,
        )
        for number in map(PartitionId, range(partitions))
    ]


def die_at_call(number: int, *, dies_after: bool) -> None:
    """Have this process killed right before or right after its n-th write to RocksDB."""
    calls = itertools.count(1)

    def wrap_write(write: Callable[..., None]) -> Callable[..., None]:
        def write_or_die(*args: Any, **options: Any) -> None:
            call = next(calls)
            if call == number and not dies_after:
                os.kill(os.getpid(), signal.SIGKILL)
            write(*args, **options)
            if call == number:
                os.kill(os.getpid(), signal.SIGKILL)

        return write_or_die

    Rocks.write = wrap_write(Rocks.write)  # type: ignore[method-assign]
    Rocks.write_atomically = wrap_write(Rocks.write_atomically)  # type: ignore[method-assign]


def apply_epochs(
    directory: Path, partitions: int, die_at: int, dies_after: bool, is_buffered: bool, progress: Connection
) -> None:
    """Apply all epochs that the partitions lack, or die on the way.

    Args:
        directory: Of the partitions.
        partitions: How many there are.
        die_at: Which write to RocksDB to die at.
        dies_after: Right after it rather than right before.
        is_buffered: Whether epochs stay in memory for a while.
        progress: Is told the number of each epoch that is begun, and of each that is there and written.
    """
    die_at_call(die_at, dies_after=dies_after)
    # What is held is one block.
    stores = open_stores(directory, partitions, replace(OPTIONS, block_rows=32) if is_buffered else OPTIONS)
    for epoch in range(min(store.applied for store in stores) + 1, EPOCHS + 1):
        progress.send(("begin", epoch))
        for store in stores:
            shape = shape_at(epoch)
            migrated = shape if store.generation < shape.generation else None
            store.apply(Epoch(epoch), rows_of(epoch), migrated=migrated, is_buffered=is_buffered)
            if epoch % EPOCHS_BETWEEN_WRITES == 0:
                store.write()
        if all(store.is_written for store in stores):
            progress.send(("done", epoch))
        for store in stores:
            while store.compact():
                pass
    for store in stores:
        store.close()
