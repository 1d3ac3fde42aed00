"""Keys that the rows of one store tell of another, which is looked up then and not scanned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from engine.plan.key_joins import KeyJoin
from engine.scan import Interval, RowFilter, StoreView

MOST_KEYS = 1000
"""Keys that are looked up for a join."""
MOST_KNOWN_ROWS = 100_000
"""Rows that are read to find them."""
LEAST_ROWS = 4096
"""Smaller stores are read as fast."""
LEAST_ROWS_A_KEY = 50
"""A store of fewer rows for each key is read as fast as it is looked up."""


def narrow_by_joins(
    wanted: Mapping[str, RowFilter], views: Mapping[str, StoreView], joins: Sequence[KeyJoin]
) -> Mapping[str, RowFilter]:
    """Which rows of scans can matter, as joins tell more of it.

    Args:
        wanted: What is known of it, by scan.
        views: The store of each scan.
        joins: Joins of the statement.

    Returns:
        The same, with the keys that other scans' rows have.
    """
    found = dict(wanted)
    left = list(joins)
    while True:
        # What has become few rows by one join may tell the keys of another.
        join = next((each for each in left if _is_worthwhile(each, found, views)), None)
        if join is None:
            return found
        left.remove(join)
        points = _keys(join, found[join.known_scan], views)
        if points is not None:
            intervals = found[join.wanted_scan].intervals
            found[join.wanted_scan] = RowFilter(points, intervals)


def _is_worthwhile(join: KeyJoin, wanted: Mapping[str, RowFilter], views: Mapping[str, StoreView]) -> bool:
    known, rows = wanted[join.known_scan], views[join.wanted_scan].live_rows
    is_narrow = known.points is not None or bool(known.intervals)
    return (
        wanted[join.wanted_scan].points is None
        and rows >= LEAST_ROWS
        and (is_narrow or views[join.known_scan].live_rows * LEAST_ROWS_A_KEY <= rows)
    )


def _keys(join: KeyJoin, wanted: RowFilter, views: Mapping[str, StoreView]) -> pa.RecordBatch | None:
    """The keys that a scan's rows tell; None where they are too many."""
    definition = views[join.wanted_scan].definition
    columns = list(dict.fromkeys((join.known_column, *wanted.intervals)))
    scan = views[join.known_scan].scan(columns, wanted)
    if scan.statistics.rows_read > MOST_KNOWN_ROWS:
        return None
    table = scan.live_rows()
    tests = [_test(table[name], interval) for name, interval in wanted.intervals.items()]
    if tests:
        table = table.filter(reduce(pc.and_, tests))
    keys = pc.unique(table[join.known_column]).drop_null()
    rows = views[join.wanted_scan].live_rows
    if len(keys) > MOST_KEYS or len(keys) * LEAST_ROWS_A_KEY > rows:
        return None
    return pa.record_batch([keys], schema=pa.schema([definition.key_schema.field(0)]))


def _test(values: pa.ChunkedArray, interval: Interval) -> pa.ChunkedArray:
    """Which values lie in an interval, surely or perhaps."""
    tests = [pc.is_valid(values)]
    if interval.low is not None:
        tests.append((pc.greater if interval.low_open else pc.greater_equal)(values, interval.low))
    if interval.high is not None:
        tests.append((pc.less if interval.high_open else pc.less_equal)(values, interval.high))
    return reduce(pc.and_kleene, tests)
