"""Columns of stored rows and of an epoch's rows as one, for folds that look at both."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from engine.model.schema import TOMBSTONE_COLUMN
from engine.state.folds.grouping import Mask

TOMBSTONE_FIELD = pa.field(TOMBSTONE_COLUMN, pa.bool_(), nullable=False)


def concatenate(stored: pa.ChunkedArray, rows: pa.Array) -> pa.Array:
    """Stored values, then those of the epoch."""
    chunks: Sequence[pa.Array] = [chunk for chunk in stored.chunks if len(chunk)]
    return pa.concat_arrays([*chunks, rows]) if chunks else rows


def tombstones_of(rows: pa.RecordBatch) -> Mask | None:
    """Which rows are tombstones, shape (rows,); None if none is."""
    if TOMBSTONE_COLUMN not in rows.schema.names:
        return None
    flags: Mask = pc.fill_null(rows.column(TOMBSTONE_COLUMN), False).to_numpy(zero_copy_only=False)
    return flags if flags.any() else None
