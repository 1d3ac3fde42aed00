"""Rows that are past their retention: found in segments by the statistics of blocks first, and in the blocks
that need it by a look at the column.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.model.schema import TOMBSTONE_COLUMN
from engine.state.keys import Rows
from engine.state.version import LiveSegment

_DAY_MICROSECONDS = 86_400_000_000


def _is_old(column: pa.Array, cutoff: int) -> npt.NDArray[np.bool_]:
    """Which times are before a cutoff; NULL is not.

    Args:
        column: Timestamps in microseconds, or dates.
        cutoff: Microseconds since 1970 UTC.
    """
    if pa.types.is_date32(column.type):
        # In days, as the last dates have no microseconds in 64 bits; a date is old if the cutoff is behind
        # its midnight.
        ticks, least = column.view(pa.int32()).cast(pa.int64()), -(-cutoff // _DAY_MICROSECONDS)
    else:
        ticks, least = column.view(pa.int64()), cutoff
    old: npt.NDArray[np.bool_] = pc.fill_null(pc.less(ticks, least), False).to_numpy(zero_copy_only=False)
    return old


def expire(segments: Sequence[LiveSegment], column: int, name: str, cutoff: int) -> list[LiveSegment]:
    """Make rows dead that are older than a cutoff. A row without a time stays.

    Args:
        segments: Where they may be.
        column: Place of the column with the times.
        name: Its name.
        cutoff: Microseconds since 1970 UTC.

    Returns:
        The segments that still have live rows.
    """
    changed = [entry.mark_dead(_old_rows(entry, column, name, cutoff)) for entry in segments]
    return [entry for entry in changed if entry.live_rows]


def _old_rows(entry: LiveSegment, column: int, name: str, cutoff: int) -> Rows:
    """The live rows of a segment that are older than a cutoff."""
    segment, statistics = entry.segment, entry.segment.statistics_of(name)
    assert statistics is not None, "all columns of times have statistics"
    may_be_old = _is_old(statistics.low, cutoff) | ~statistics.known
    found = []
    for block in np.flatnonzero(may_be_old).tolist():
        start, _ = segment.record.block_span(block)
        found.append(np.flatnonzero(_is_old(segment.reader.column(column, block), cutoff)) + start)
    return entry.keep_live(np.concatenate(found)) if found else np.empty(0, np.intp)


def drop_old_rows(
    rows: pa.RecordBatch, name: str, cutoff: int, start: str = "", *, drop_tombstones: bool = False
) -> pa.RecordBatch:
    """Rows that are not older than a cutoff.

    Args:
        rows: Rows that come.
        name: The column with the times.
        cutoff: Microseconds since 1970 UTC.
        start: As `Shape.start_column`.
        drop_tombstones: As `Shape.tombstones_have_time`; otherwise tombstones are all kept, as what they
            have there means nothing.
    """
    old = _is_old(rows.column(name), cutoff)
    if start:
        old |= rows.column(name).is_null().to_numpy(zero_copy_only=False)
        old &= _is_old(rows.column(start), cutoff)
    if TOMBSTONE_COLUMN in rows.schema.names and not drop_tombstones:
        old &= ~rows.column(TOMBSTONE_COLUMN).to_numpy(zero_copy_only=False)
    return rows.filter(pa.array(~old)) if old.any() else rows


def replace_old_by_tombstones(rows: pa.RecordBatch, name: str, cutoff: int) -> pa.RecordBatch:
    """Rows of which those that are older than a cutoff have become tombstones: they replace what they were
    folded from, and are gone themselves.

    Args:
        rows: Folded rows.
        name: The column with the times.
        cutoff: Microseconds since 1970 UTC.
    """
    old = _is_old(rows.column(name), cutoff)
    if not old.any():
        return rows
    if TOMBSTONE_COLUMN in rows.schema.names:
        place = rows.schema.get_field_index(TOMBSTONE_COLUMN)
        old |= rows.column(place).to_numpy(zero_copy_only=False)
        rows = rows.remove_column(place)
    return rows.append_column(pa.field(TOMBSTONE_COLUMN, pa.bool_(), nullable=False), pa.array(old))
