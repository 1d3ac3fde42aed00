"""The text of EXPLAIN: what is read of each store, and what the engine runs. Stable: the same query gives the
same text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from engine.scan import Interval, RowFilter, ScanStatistics
from engine.sql.bind import StoreReference
from engine.sql.versions import HISTORY

SHOWN_POINTS = 3


@dataclass(frozen=True)
class ReadExplained:
    """How one reference is read.

    Attributes:
        reference: The reference.
        wanted: Which rows can matter.
        statistics: What pruning left; None for a lookup, which reads no more than its points need.
    """

    reference: StoreReference
    wanted: RowFilter
    statistics: ScanStatistics | None


def explain(plan_name: str, reads: Sequence[ReadExplained], sql: str | None) -> list[str]:
    """The lines of EXPLAIN.

    Args:
        plan_name: Name of the plan, such as `lookup`.
        reads: What is read.
        sql: What the engine runs; None if it is not needed.

    Returns:
        Lines without line ends.
    """
    lines = [f"plan: {plan_name}"]
    for read in reads:
        lines += _reference(read.reference, read.wanted)
        lines += _statistics(read.statistics)
    if sql is not None:
        lines.append(f"engine: {sql}")
    return lines


def explain_pruned(
    reference: StoreReference, wanted: RowFilter, partitions: int, rows: int | None = None
) -> list[str]:
    """The lines of EXPLAIN for a reference whose partitions are on several hosts.

    Args:
        reference: The reference.
        wanted: Which rows can matter.
        partitions: How many partitions can have such rows.
        rows: About how many such rows there are; None where that is not known.

    Returns:
        Lines without line ends.
    """
    return [
        *_reference(reference, wanted),
        f"  reads: {partitions} of {reference.definition.partitions} partitions",
        *([] if rows is None else [f"  estimated rows: {rows}"]),
    ]


def _reference(reference: StoreReference, wanted: RowFilter) -> list[str]:
    schema, name = reference.table
    shown = f"{schema}.{name}" if schema == HISTORY and not reference.is_held else name
    alias = "" if reference.alias == name else f" as {reference.alias}"
    return [
        f"store: {shown}{alias}",
        f"  columns: {', '.join(reference.columns) or 'none'}",
        *_wanted_lines(wanted),
    ]


def _wanted_lines(wanted: RowFilter) -> list[str]:
    lines = []
    if wanted.points is not None:
        lines.append(
            f"  points: {wanted.points.num_rows} of "
            f"({', '.join(wanted.points.schema.names)}){_points_text(wanted.points)}"
        )
    lines += [
        f"  interval: {_interval(column, interval)}" for column, interval in sorted(wanted.intervals.items())
    ]
    return lines or ["  rows: all"]


def _points_text(points: pa.RecordBatch) -> str:
    rows = points.slice(0, SHOWN_POINTS).to_pylist()
    text = ", ".join("(" + ", ".join(str(value) for value in row.values()) + ")" for row in rows)
    more = ", …" if points.num_rows > SHOWN_POINTS else ""
    return f": {text}{more}" if text else ""


def _interval(column: str, interval: Interval) -> str:
    if interval.low is not None and interval.low == interval.high:
        return f"{column} = {interval.low}"
    low = "" if interval.low is None else f"{interval.low} {'<' if interval.low_open else '<='} "
    high = "" if interval.high is None else f" {'<' if interval.high_open else '<='} {interval.high}"
    return f"{low}{column}{high}"


def _statistics(statistics: ScanStatistics | None) -> list[str]:
    if statistics is None:
        return ["  reads: the rows of these points"]
    pairs = (
        ("partitions", statistics.partitions_read, statistics.partitions),
        ("segments", statistics.segments_read, statistics.segments),
        ("blocks", statistics.blocks_read, statistics.blocks),
        ("rows", statistics.rows_read, statistics.rows),
    )
    return ["  reads: " + ", ".join(f"{read} of {total} {what}" for what, read, total in pairs)]
