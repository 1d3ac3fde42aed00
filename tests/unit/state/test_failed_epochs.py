"""An epoch that could not be applied is tried again as if it had never been tried."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

from engine.model.kinds import Behaviour, Retention
from engine.model.schema import Epoch, PartitionId, define_store
from engine.state.cache import ColumnCache
from engine.state.partition import PartitionStore
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
        with pytest.raises(pa.ArrowInvalid):
            partition.apply(Epoch(2), rows(60).drop_columns(["k"]), cutoff=cutoff)
        assert partition.version.live_rows == 2
        assert partition.advances_cutoff(cutoff)
        assert partition.apply(Epoch(2), None, cutoff=cutoff).live_rows == 1
        assert not partition.advances_cutoff(cutoff)
    finally:
        partition.close()
