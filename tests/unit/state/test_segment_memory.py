"""What is known of a segment without reading its blocks keeps none of them in memory."""

from __future__ import annotations

import gc
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from engine.model.distinct_sketch import SKETCH_HASHES, sketch_of
from engine.model.schema import Epoch, PartitionId, define_store
from engine.state.cache import ColumnCache
from engine.state.partition import PartitionStore
from engine.state.state_options import StateOptions

ROWS = 10_000


@pytest.mark.parametrize("block_rows", [16_384, 1024])
def test_a_segment_holds_none_of_its_blocks(tmp_path: Path, block_rows: int) -> None:
    names = pa.array([f"{number:064}" for number in range(ROWS)])
    definition = define_store("things", pa.schema([("name", pa.string())]), ["name"], partitions=1)
    cache = ColumnCache(1)
    options = StateOptions(block_rows=block_rows, block_bytes=2 * names.nbytes)
    with closing(PartitionStore(definition, PartitionId(0), tmp_path, cache, options)) as store:
        before = pa.total_allocated_bytes()
        rows = pa.record_batch([names.take(pa.array(range(ROWS)))], schema=definition.row_schema)
        version = store.apply(Epoch(1), rows)
        del rows
        gc.collect()
        assert version.segments[0].segment.blocks == -(-ROWS // block_rows)
        assert pa.total_allocated_bytes() - before < names.nbytes // 16


def test_a_sketch_holds_its_own_hashes_only() -> None:
    for rows in (100, ROWS):
        sketch = sketch_of(pa.array(np.arange(rows)))
        assert len(sketch) == SKETCH_HASHES
        assert sketch.base is None
