"""Answers that need no engine: Arrow kernels on what partition state returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from engine.scan import LIVE_COLUMN, Scan, StoreView

_LIVE = pa.scalar(1, pa.uint8())


def lookup_rows(
    view: StoreView,
    columns: Sequence[str],
    places: Sequence[int],
    schema: pa.Schema,
    points: pa.RecordBatch,
    limit: int | None,
) -> pa.Table:
    """The live rows of points, as a result.

    Args:
        view: The store.
        columns: Columns to read, each once.
        places: For each result column, its place in `columns`.
        schema: Schema of the result.
        points: As `StoreView.lookup`.
        limit: How many rows at most; None for all.

    Returns:
        A table of `schema`.
    """
    if not points.num_rows or limit == 0:
        return pa.Table.from_batches([], schema)
    found = view.lookup(columns, points)
    if limit is not None and found.num_rows > limit:
        found = found.slice(0, limit)
    return pa.Table.from_arrays([found.column(place) for place in places], schema=schema)


def live_rows(
    scan: Scan, places: Sequence[int], schema: pa.Schema, limit: int | None
) -> Iterator[pa.RecordBatch]:
    """The live rows of a scan, as a result.

    Args:
        scan: A scan of columns, each once.
        places: For each result column, its place in the scan.
        schema: Schema of the result.
        limit: How many rows at most; None for all.

    Returns:
        Batches of `schema`; the scan is read no further than needed.
    """
    dead = LIVE_COLUMN in scan.schema.names
    for batch in scan.batches():
        live = batch.filter(pc.equal(batch.column(LIVE_COLUMN), _LIVE)) if dead else batch
        if limit is not None:
            live = live.slice(0, limit)
            limit -= live.num_rows
        if live.num_rows:
            yield pa.RecordBatch.from_arrays([live.column(place) for place in places], schema=schema)
        if limit == 0:
            return
