"""Merged segments: the same whether a column is joined and sorted, or gathered block by block."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from engine.model.schema import Epoch, PartitionId, define_store
from engine.state import segment_merge
from engine.state.cache import ColumnCache
from engine.state.partition import PartitionStore
from engine.state.state_options import MIB, StateOptions
from tests.support.partitions import SMALL, open_partition, view_of
from tests.support.seeds import seeded_generator

STORE = define_store(
    "t",
    pa.schema(
        {
            "a": pa.int64(),
            "b": pa.string(),
            "text": pa.string(),
            "number": pa.float64(),
            "list": pa.list_(pa.int64()),
        }
    ),
    ["a"],
    partitions=1,
)


def epoch_of(random: np.random.Generator, keys: int) -> pa.RecordBatch:
    ids = random.choice(200, keys, replace=False)
    texts = [None if key % 7 == 0 else "x" * int(random.integers(0, 90)) for key in ids]
    lists = [None if key % 5 == 0 else list(range(key % 4)) for key in ids]
    columns = [
        pa.array(ids),
        pa.array([str(key % 3) for key in ids]),
        pa.array(texts, pa.string()),
        pa.array(random.random(keys)),
    ]
    return pa.RecordBatch.from_arrays(
        [*columns, pa.array(lists, pa.list_(pa.int64()))], names=STORE.schema.names
    )


def merge_upserts(directory: Path) -> tuple[pa.Table, object]:
    """What a merge makes of random upserts, and what the segment knows of its blocks."""
    random = seeded_generator(5)
    store = open_partition(STORE, directory)
    for number in range(12):
        store.apply(Epoch(number + 1), epoch_of(random, int(random.integers(1, 60))))
    expected = pa.Table.from_batches(view_of(store, STORE).scan(STORE.schema.names).batches()).to_pylist()
    store.compact_fully()
    store.close()
    store = open_partition(STORE, directory)
    (entry,) = store.version.segments
    table = pa.Table.from_batches(
        [entry.segment.reader.batch(block) for block in range(entry.segment.blocks)]
    )
    assert sorted((row["a"], row) for row in expected if row.pop("__live", 1)) == [
        (row["a"], row) for row in table.to_pylist()
    ]
    record = entry.segment.record
    known = {number: (each.low, each.high, each.known.tolist()) for number, each in record.statistics.items()}
    store.close()
    return table, (known, record.column_bytes)


def test_gathered_columns_are_what_joined_ones_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    joined = merge_upserts(tmp_path / "joined")
    monkeypatch.setattr(segment_merge, "LARGE_COLUMN_BYTES", 0)
    assert merge_upserts(tmp_path / "gathered") == joined
    assert len(joined[0]) > 100 > SMALL.block_rows


@pytest.mark.parametrize("megabytes", [1, 24])
def test_a_merge_of_large_values_takes_no_more_memory_for_more_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, megabytes: int
) -> None:
    monkeypatch.setattr(segment_merge, "LARGE_COLUMN_BYTES", 0)
    definition = define_store(
        "t", pa.schema({"id": pa.int64(), "text": pa.large_binary()}), ["id"], partitions=1
    )
    store = PartitionStore(definition, PartitionId(0), tmp_path / "t", ColumnCache(MIB), StateOptions())
    for number in range(4):
        ids = pa.array(range(number, 4 * megabytes, 4), pa.int64())
        store.apply(
            Epoch(number + 1),
            pa.RecordBatch.from_arrays(
                [ids, pa.array([bytes([number]) * MIB] * len(ids))], schema=definition.schema
            ),
        )
    before = pa.total_allocated_bytes()
    peak = 0
    gathered = segment_merge._Gathering.rows

    def gather_and_watch(self: segment_merge._Gathering, wanted: np.ndarray) -> pa.Array:
        nonlocal peak
        found = gathered(self, wanted)
        peak = max(peak, pa.total_allocated_bytes())
        return found

    monkeypatch.setattr(segment_merge._Gathering, "rows", gather_and_watch)
    store.compact_fully()
    (entry,) = store.version.segments
    assert entry.segment.rows == 4 * megabytes
    assert peak - before < 16 * MIB
    store.close()
