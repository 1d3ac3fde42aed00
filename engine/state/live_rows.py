"""The live rows of a version as they are stored, hidden columns too, a few megabytes at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from engine.model.schema import TOMBSTONE_COLUMN
from engine.processes.right_of_way import RIGHT_OF_WAY
from engine.state.version import LiveSegment, Version


def live_rows(version: Version, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """All live rows of a partition, and behind them its tombstones.

    Args:
        version: The partition at one epoch.
        most_bytes: How large a batch may become by joining blocks; one block alone may be larger.

    Yields:
        Rows in the stored schema, unsorted; each key once. Batches of tombstones have `TOMBSTONE_COLUMN`
        behind.

    Raises:
        LivestateError: A block cannot be read.
    """
    yield from _batches(version.segments, most_bytes)
    for tombstones in _batches(version.tombstone_segments, most_bytes):
        field = pa.field(TOMBSTONE_COLUMN, pa.bool_(), nullable=False)
        yield tombstones.append_column(field, pa.repeat(True, tombstones.num_rows))


def _batches(segments: Sequence[LiveSegment], most_bytes: int) -> Iterator[pa.RecordBatch]:
    waiting: list[pa.RecordBatch] = []
    size = 0
    for entry in segments:
        for block in range(entry.segment.blocks):
            RIGHT_OF_WAY.give_way()
            rows = _live_of(entry, block)
            if rows is None:
                continue
            if waiting and size + rows.nbytes > most_bytes:
                yield pa.concat_batches(waiting)
                waiting, size = [], 0
            waiting.append(rows)
            size += rows.nbytes
    if waiting:
        yield pa.concat_batches(waiting)


def _live_of(entry: LiveSegment, block: int) -> pa.RecordBatch | None:
    start, stop = entry.segment.record.block_span(block)
    alive = None if entry.dead is None else entry.dead.live_flags(start, stop).view(np.bool_)
    if alive is not None and not alive.any():
        return None
    rows = entry.segment.reader.batch(block)
    return rows if alive is None or alive.all() else rows.filter(pa.array(alive))
