"""Rows of a store in the order of its key: sorted runs of its segments, merged as far as somebody reads.

A segment is sorted by key, and so the rows of a key range are a run of it. Several runs are merged a stretch
at a time. A window of the same number of rows is laid on each run; the nearest of the windows' ends is the
horizon. No run has a row before the horizon outside its window, so all rows up to there are the next stretch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from engine.scan import KeyRange
from engine.state import keys as sort_keys
from engine.state.keys import KeyCodec, Keys, Rows
from engine.state.segment import Edge
from engine.state.version import LiveSegment

LEAST_WINDOW = 16
"""Rows of the first window on a run, besides twice the run's share of what is wanted."""
WINDOW_GROWTH = 4
"""How much longer every window is than the one before."""


class Run(NamedTuple):
    """Rows of a segment that follow each other: `start` to before `stop`."""

    entry: LiveSegment
    start: int
    stop: int


def range_edges(codec: KeyCodec, key_range: KeyRange) -> tuple[Edge | None, Edge | None]:
    """Where a range begins and ends among sorted keys; None where it has no bound.

    Args:
        codec: Of the store.
        key_range: The range.
    """
    prefix = [pa.array([value], value.type) for value in key_range.prefix]
    low = high = None
    if prefix:
        first, after, is_whole = codec.ranges(prefix)
        low, high = Edge(first, "left"), Edge(after, "right" if is_whole else "left")
    interval = key_range.interval
    if interval is not None and interval.low is not None:
        first, after, is_whole = codec.ranges([*prefix, pa.array([interval.low], interval.low.type)])
        low = Edge(after, "right" if is_whole else "left") if interval.low_open else Edge(first, "left")
    if interval is not None and interval.high is not None:
        first, after, is_whole = codec.ranges([*prefix, pa.array([interval.high], interval.high.type)])
        high = Edge(first, "left") if interval.high_open else Edge(after, "right" if is_whole else "left")
    return low, high


def find_runs(segments: Sequence[LiveSegment], low: Edge | None, high: Edge | None) -> list[Run]:
    """The rows between two edges, of each segment that has some.

    Args:
        segments: Where they may be.
        low: Where they begin.
        high: Where they end.
    """
    found = []
    for entry in segments:
        start, stop = entry.segment.span(low, high)
        if start < stop:
            found.append(Run(entry, start, stop))
    return found


@dataclass(frozen=True, eq=False)
class MergedRuns:
    """Implements `engine.scan.SortedRows` over runs.

    Attributes:
        runs: The runs; each key is live in one of them at most.
        places: Places of the columns in the store.
        schema: Schema of the columns.
    """

    runs: Sequence[Run]
    places: Sequence[int]
    schema: pa.Schema

    @property
    def stored_rows(self) -> int:
        """As `SortedRows.stored_rows`."""
        return sum(run.stop - run.start for run in self.runs)

    def stretches(self, wanted: int | None, *, descending: bool = False) -> Iterator[pa.Table]:
        """As `SortedRows.stretches`."""
        runs = self.runs
        window = None if wanted is None else LEAST_WINDOW + 2 * wanted // max(1, len(runs))
        while runs:
            horizon = None if window is None else _horizon(runs, window, descending=descending)
            taken, runs = _cut(runs, horizon, descending=descending)
            yield self._table(taken, descending=descending)
            window = None if window is None else window * WINDOW_GROWTH

    def _table(self, runs: Sequence[Run], *, descending: bool) -> pa.Table:
        """The live rows of some runs, in order."""
        rows = _live_order(runs)
        if not len(rows):
            return self.schema.empty_table()
        if descending:
            rows = rows[::-1]
        indices = pa.array(rows)
        parts = [_columns_of(run, self.places) for run in runs]
        arrays = [
            pa.concat_arrays([chunk for part in parts for chunk in part[column]]).take(indices)
            for column in range(len(self.places))
        ]
        return pa.Table.from_arrays(arrays, schema=self.schema)


def _horizon(runs: Sequence[Run], window: int, *, descending: bool) -> Keys | None:
    """The nearest of the ends of windows, as one key; None where all runs end within theirs."""
    ends = []
    for run in runs:
        if run.stop - run.start > window:
            row = run.stop - window if descending else run.start + window - 1
            ends.append(run.entry.segment.keys_between(row, row + 1))
    return sort_keys.extreme(sort_keys.concatenate(ends), greatest=descending) if ends else None


def _cut(
    runs: Sequence[Run], horizon: Keys | None, *, descending: bool
) -> tuple[Sequence[Run], Sequence[Run]]:
    """What of the runs lies up to a horizon, and what is left of them behind it."""
    if horizon is None:
        return runs, ()
    taken, left = [], []
    edge = Edge(horizon, "left" if descending else "right")
    for entry, start, stop in runs:
        row = min(max(entry.segment.span(None, edge)[1], start), stop)
        near, far = Run(entry, start, row), Run(entry, row, stop)
        if descending:
            near, far = far, near
        if near.start < near.stop:
            taken.append(near)
        if far.start < far.stop:
            left.append(far)
    return taken, left


def _live_order(runs: Sequence[Run]) -> Rows:
    """The live rows of runs in key order, counted from the first row of the first run on."""
    rows, keys, begin = [], [], 0
    for entry, start, stop in runs:
        live = None if entry.live is None else np.flatnonzero(entry.live[start:stop])
        if live is None or len(live):
            found = entry.segment.keys_between(start, stop)
            keys.append(found if live is None or len(live) == stop - start else sort_keys.take(found, live))
            rows.append((np.arange(stop - start) if live is None else live) + begin)
        begin += stop - start
    if not rows:
        return np.empty(0, np.intp)
    together: Rows = np.concatenate(rows)
    return together if len(keys) == 1 else together[sort_keys.order(sort_keys.concatenate(keys))]


def _columns_of(run: Run, places: Sequence[int]) -> list[list[pa.Array]]:
    """The stored arrays of a run, by column."""
    segment = run.entry.segment
    block_rows = segment.record.block_rows
    found: list[list[pa.Array]] = [[] for _ in places]
    for block in range(run.start // block_rows, (run.stop - 1) // block_rows + 1):
        start, stop = max(run.start, block * block_rows), min(run.stop, (block + 1) * block_rows)
        for chunks, column in zip(found, segment.slices(places, block, start, stop), strict=True):
            chunks.append(column)
    return found
