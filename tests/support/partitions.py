"""Partition stores of small blocks, and commits that reach them in epochs cut anywhere."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import TypeVar
from unittest.mock import patch

import pyarrow as pa

from engine.model.schema import Epoch, PartitionId, StoreDefinition
from engine.state import pending_epoch
from engine.state.cache import ColumnCache
from engine.state.partition import PartitionStore
from engine.state.state_options import StateOptions
from engine.state.state_view import StateView

SMALL = StateOptions(cache_bytes=1 << 20, block_rows=4, block_bytes=1 << 20, fan_out=3, apply_bytes=0)
"""Each batch of an epoch is a piece of its own."""
STEPS = ("epoch", "halves", "go on", "go on", "cut", "compact", "restart")
"""What comes after a row: its epoch ends there, or goes on, in another piece where it is cut; or it ends, and
is folded in halves, or the partition is compacted or opened again.
"""

Row = TypeVar("Row")


def open_partition(definition: StoreDefinition, directory: Path) -> PartitionStore:
    """The only partition of a store, with what its directory has of it."""
    return PartitionStore(definition, PartitionId(0), directory, ColumnCache(SMALL.cache_bytes), SMALL)


@contextmanager
def new_partition(definition: StoreDefinition) -> Iterator[PartitionStore]:
    """The only partition of a store, in a directory that goes with it: Hypothesis has many examples in one
    test, and they share its `tmp_path`.
    """
    with (
        tempfile.TemporaryDirectory() as directory,
        closing(open_partition(definition, Path(directory))) as store,
    ):
        yield store


@contextmanager
def folding_in_halves() -> Iterator[None]:
    """Meanwhile nothing that is stored may be read for two rows at once, as if it were larger than a batch
    may be.
    """
    with patch.object(pending_epoch, "STORED_TIMES", 0):
        yield


def view_of(store: PartitionStore, definition: StoreDefinition) -> StateView:
    """What SQL reads of a partition."""
    return StateView(definition, store.version.epoch, 0, {PartitionId(0): store.version})


def cut_batch(batch: pa.RecordBatch, ends: Iterable[int] | None = None) -> Sequence[pa.RecordBatch]:
    """The rows of an epoch as several batches.

    Args:
        batch: The rows, at least one.
        ends: Behind which of them a batch ends, ascending, counted from 1; by default behind each.
    """
    places = [0, *(range(1, batch.num_rows) if ends is None else ends), batch.num_rows]
    return [batch.slice(begin, end - begin) for begin, end in pairwise(places)]


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
            begin, cuts = 0, list[int]()
            for end, step in enumerate(steps[: len(rows)], 1):
                if step in ("go on", "cut") and end < len(rows):
                    cuts += [end - begin] if step == "cut" else []
                    continue
                batch, begin, cuts = cut_batch(batch_of(rows[begin:end]), cuts), end, []
                epoch = Epoch(store.applied + 1)
                with folding_in_halves() if step == "halves" else nullcontext():
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
