"""Rows of a store in the order of its key: sorted runs of its segments, merged as far as somebody reads.

A segment is sorted by key, and so the rows of a key range are a run of it. Several runs are merged a stretch
at a time. A window of the same number of rows is laid on each run, and the rows in the windows are sorted
together. The nearest of the windows' ends is the horizon: no run has a row before it outside its window, so
all rows up to there are the next of all.
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
from engine.state.picked_rows import Run, gather_runs
from engine.state.segment_keys import find_keys_between, find_spans
from engine.state.version import LiveSegment

LEAST_WINDOW = 16
"""Rows of the first window on a run, besides twice the run's share of what is wanted."""
SPARE_SHARE = 4
"""One row in so many that are wanted is taken besides, where some may be dead: to take a second time costs as
much as the first time.
"""
LEAST_SPARE = 4
"""Rows that are taken besides at least, where some may be dead."""
WINDOW_GROWTH = 4
"""How much longer every window is than the one before."""


class LiveRun(NamedTuple):
    """Rows of a segment that follow each other, dead ones among them: `start` to before `stop`."""

    entry: LiveSegment
    start: int
    stop: int


def range_edges(codec: KeyCodec, key_range: KeyRange) -> tuple[Keys | None, Keys | None]:
    """Where a range begins and ends among sorted keys.

    Args:
        codec: Of the store.
        key_range: The range.

    Returns:
        The first key that belongs to it, and the first behind it, each as keys of one row; None for no bound.
    """
    low = high = None
    if key_range.prefix:
        low, high = codec.edges(key_range.prefix)
    interval = key_range.interval
    if interval is not None and interval.low is not None:
        first, behind = codec.edges((*key_range.prefix, interval.low))
        if interval.low_open and behind is None:
            # There is no key above the greatest one.
            return first, first
        low = behind if interval.low_open else first
    if interval is not None and interval.high is not None:
        first, behind = codec.edges((*key_range.prefix, interval.high))
        high = first if interval.high_open else behind
    return low, high


def find_runs(segments: Sequence[LiveSegment], low: Keys | None, high: Keys | None) -> list[LiveRun]:
    """The rows between two edges, of each segment that has some.

    Args:
        segments: Where they may be.
        low: The first key that belongs to them; None for no bound.
        high: The first key behind them; None for no bound.
    """
    spans = find_spans([entry.segment.keys for entry in segments], low, high)
    return [
        LiveRun(entry, start, stop)
        for entry, (start, stop) in zip(segments, spans, strict=True)
        if start < stop
    ]


@dataclass(frozen=True, eq=False)
class MergedRuns:
    """Implements `engine.scan.SortedRows` over runs.

    Attributes:
        runs: The runs; each key is live in one of them at most.
        places: Places of the columns in the store.
        schema: Schema of the columns.
    """

    runs: Sequence[LiveRun]
    places: Sequence[int]
    schema: pa.Schema

    @property
    def stored_rows(self) -> int:
        """As `SortedRows.stored_rows`."""
        return sum(run.stop - run.start for run in self.runs)

    def stretches(self, wanted: int | None, *, descending: bool = False) -> Iterator[pa.Table]:
        """As `SortedRows.stretches`."""
        runs, most, window = self.runs, wanted, None
        if wanted is not None:
            window = LEAST_WINDOW + 2 * wanted // max(1, len(runs))
            if any(run.entry.dead is not None for run in runs):
                most = wanted + LEAST_SPARE + wanted // SPARE_SHARE
        while runs:
            merged = _merge(runs, window, most, descending=descending)
            yield self._table(merged)
            runs = _rest(runs, merged.taken, descending=descending)
            if window is not None and most is not None:
                window, most = window * WINDOW_GROWTH, most * WINDOW_GROWTH

    def _table(self, merged: _Merged) -> pa.Table:
        if not len(merged.order):
            return self.schema.empty_table()
        runs = [Run(entry.segment, start, stop) for entry, start, stop in merged.rows]
        return gather_runs(runs, self.places, self.schema).take(pa.array(merged.order))


class _Merged(NamedTuple):
    """Rows of runs that come next to each other.

    Attributes:
        taken: How many of each run, dead ones included.
        rows: They themselves, as they are stored.
        order: The live ones in order, counted from the first of them on.
    """

    taken: Sequence[int]
    rows: Sequence[LiveRun]
    order: Rows


def _merge(runs: Sequence[LiveRun], window: int | None, most: int | None, *, descending: bool) -> _Merged:
    """The next rows of runs.

    Args:
        runs: The runs, at least one.
        window: Length of the windows on them; None for their own.
        most: How many rows at most; None for any number.
        descending: Whether the last rows come first.
    """
    spans = [
        (start, stop)
        if window is None or stop - start <= window
        else (stop - window, stop)
        if descending
        else (start, start + window)
        for _, start, stop in runs
    ]
    lengths = np.array([stop - start for start, stop in spans])
    begins = np.cumsum(lengths) - lengths
    keys = find_keys_between([run.entry.segment.keys for run in runs], spans)
    order = sort_keys.order(sort_keys.concatenate(keys))
    if descending:
        order = order[::-1]
    (cut,) = (lengths < [stop - start for _, start, stop in runs]).nonzero()
    if len(cut):
        ranks = np.empty(len(order), np.intp)
        ranks[order] = np.arange(len(order))
        ends = begins[cut] if descending else begins[cut] + lengths[cut] - 1
        order = order[: int(ranks[ends].min()) + 1]
    order = order[:most]
    number = np.searchsorted(begins, order, side="right") - 1
    taken = np.bincount(number, minlength=len(runs))
    # What is not taken of a window lies behind what is, or before it where the last rows come first.
    passed = lengths - taken if descending else 0
    order = order + (np.cumsum(taken) - taken - begins - passed)[number]
    counts: list[int] = taken.tolist()
    rows = [
        LiveRun(entry, stop - count, stop) if descending else LiveRun(entry, start, start + count)
        for (entry, start, stop), count in zip(runs, counts, strict=True)
        if count
    ]
    return _Merged(counts, rows, _live_rows(rows, order))


def _rest(runs: Sequence[LiveRun], taken: Sequence[int], *, descending: bool) -> list[LiveRun]:
    """What is left of runs once some rows of each are taken."""
    return [
        LiveRun(entry, start, stop - count) if descending else LiveRun(entry, start + count, stop)
        for (entry, start, stop), count in zip(runs, taken, strict=True)
        if stop - start > count
    ]


def _live_rows(runs: Sequence[LiveRun], rows: Rows) -> Rows:
    """Those of some rows that are live, counted from the first row of the first run on."""
    if all(entry.dead is None for entry, _, _ in runs):
        return rows
    flags = [entry.live_flags(start, stop) for entry, start, stop in runs]
    live: Rows = rows[np.concatenate(flags)[rows] == 1]
    return live
