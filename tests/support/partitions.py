"""Partition stores of small blocks, and commits that reach them in epochs cut anywhere."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from engine.schema import Epoch, PartitionId, StoreDefinition
from engine.state.cache import ColumnCache
from engine.state.options import StateOptions
from engine.state.partition import PartitionStore
from engine.state.view import StateView

SMALL = StateOptions(cache_bytes=1 << 20, block_rows=4, block_bytes=1 << 20, fan_out=3)
STEPS = ("epoch", "epoch", "go on", "go on", "compact", "restart")
"""What comes after a row: its epoch ends there, or goes on; or it ends, and the partition is compacted or opened again."""

Row = TypeVar("Row")


def open_partition(definition: StoreDefinition, directory: Path) -> PartitionStore:
    """The only partition of a store, with what its directory has of it."""
    return PartitionStore(definition, PartitionId(0), directory, ColumnCache(SMALL.cache_bytes), SMALL)


@contextmanager
def new_partition(definition: StoreDefinition) -> Iterator[PartitionStore]:
    """The only partition of a store, in a directory that goes with it: Hypothesis has many examples in one test, and they share its `tmp_path`."""
    with tempfile.TemporaryDirectory() as directory, closing(open_partition(definition, Path(directory))) as store:
        yield store


def view_of(store: PartitionStore, definition: StoreDefinition) -> StateView:
    """What SQL reads of a partition."""
    return StateView(definition, store.version.epoch, 0, {PartitionId(0): store.version})


def apply_in_epochs(
    definition: StoreDefinition,
    rows: Sequence[Row],
    steps: Sequence[str],
    batch_of: Callable[[Sequence[Row]], pa.RecordBatch],
    check: Callable[[PartitionStore, Sequence[Row]], None],
) -> None:
    """Commit rows in their order; each epoch comes twice, the second time after what its last step says.

    Args:
        definition: A store of one partition.
        rows: At least one.
        steps: Of `STEPS`, at least as many; the last row ends its epoch in any case.
        batch_of: Makes an epoch's rows a batch.
        check: Asked after each epoch, with all rows so far.
    """
    with tempfile.TemporaryDirectory() as directory:
        store = open_partition(definition, Path(directory))
        try:
            begin = 0
            for end, step in enumerate(steps[: len(rows)], 1):
                if step == "go on" and end < len(rows):
                    continue
                batch, begin = batch_of(rows[begin:end]), end
                epoch = Epoch(store.applied + 1)
                store.apply(epoch, batch)
                if step == "compact":
                    store.compact_fully()
                if step == "restart":
                    store.close()
                    store = open_partition(definition, Path(directory))
                store.apply(epoch, batch)  # an epoch that comes again changes nothing
                check(store, rows[:end])
            assert begin == len(rows), "there are fewer steps than rows"
        finally:
            store.close()
