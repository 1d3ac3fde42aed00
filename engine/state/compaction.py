"""Which segments to merge: a pure function of their sizes.

Size-tiered: segments are sorted into classes by their live rows, each class `fan_out` times as large as the
one before, and a class with `fan_out` members is merged into one segment. A segment with too many dead rows
is rewritten, together with all smaller ones: its rewrite is by far the larger part of the work, and the
smaller ones come along almost free. As keys are live in one segment only, any set of segments can be merged,
whatever their age.

Where rows have a time in their key, as windows do, merging stops at segments of a part of the partition,
unless they are of the same time. So a large segment holds a stretch of time: a query for another time skips
it whole by its smallest and largest value, and what is past its retention goes as a whole segment, which
nobody has to rewrite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from engine.state.formats import SegmentId
from engine.state.state_options import StateOptions
from engine.state.statistics import ColumnStatistics
from engine.state.version import LiveSegment, Version

SMALLEST_CLASS_ROWS = 1024
"""Segments up to this size are one class: merging them costs next to nothing."""
STRETCH_ROWS = 512 * 1024
"""Segments that hold a stretch of time have at most this many rows, or one of `MOST_STRETCHES` of the
partition's.
"""
MOST_STRETCHES = 32

Span = tuple[int, int]
"""The smallest and the largest time of a segment."""


@dataclass(frozen=True)
class SegmentSize:
    """What the choice depends on.

    Attributes:
        segment: The segment.
        rows: Rows, dead ones included.
        live_rows: Live rows.
        nbytes: Arrow bytes, dead rows included.
        span: Its times, where rows have a time in their key.
    """

    segment: SegmentId
    rows: int
    live_rows: int
    nbytes: int
    span: Span | None = None


def span_of(statistics: ColumnStatistics) -> Span | None:
    """The times of a segment, as integers that rise with them; None where they are not known.

    Args:
        statistics: Of its column of timestamps or dates.
    """
    if not len(statistics.low) or statistics.low.null_count or not statistics.known.all():
        return None
    integer = pa.int64() if pa.types.is_timestamp(statistics.low.type) else pa.int32()
    return pc.min(statistics.low.view(integer)).as_py(), pc.max(statistics.high.view(integer)).as_py()


def segments_to_merge(version: Version, time_column: str, options: StateOptions) -> tuple[SegmentId, ...]:
    """The segments of a partition to merge next, or one to rewrite.

    A segment that is not stored in the shape in which it is seen is rewritten when nothing else is to be
    done: this makes reads cheaper, and removes dropped columns.

    Args:
        version: The partition.
        time_column: The time in its key; empty where there is none.
        options: `fan_out` and `dead_share`.

    Returns:
        Their ids, all with rows, or all tombstone segments; none where nothing is worth it.
    """
    return (
        choose(_sizes(version.segments, time_column), options)
        or choose(_sizes(version.tombstone_segments, time_column), options)
        or next(((entry.segment.id,) for entry in version.all_segments if not entry.segment.is_in_shape), ())
    )


def _sizes(segments: Sequence[LiveSegment], time_column: str) -> Sequence[SegmentSize]:
    sizes = []
    for entry in segments:
        statistics = entry.segment.statistics_of(time_column) if time_column else None
        span = None if statistics is None else span_of(statistics)
        nbytes = entry.segment.record.nbytes
        sizes.append(SegmentSize(entry.segment.id, entry.segment.rows, entry.live_rows, nbytes, span))
    return sizes


def choose(sizes: Sequence[SegmentSize], options: StateOptions) -> tuple[SegmentId, ...]:
    """The segments to merge next.

    Args:
        sizes: All segments of a partition.
        options: `fan_out` and `dead_share`.

    Returns:
        Their ids; none where nothing is worth it.
    """
    stretch = max(STRETCH_ROWS, sum(size.live_rows for size in sizes) // MOST_STRETCHES)
    full = _first_full_class(sizes, options, stretch)
    if full:
        return full
    for size in sorted(sizes, key=lambda size: size.live_rows):
        if size.rows > SMALLEST_CLASS_ROWS and size.rows - size.live_rows > options.dead_share * size.rows:
            smaller = [other for other in sizes if other.live_rows <= size.live_rows and other is not size]
            together = [
                other
                for other in smaller
                if size.live_rows <= STRETCH_ROWS // options.fan_out or _is_of_one_time([size, other])
            ]
            return _limit_bytes([size, *together], options.merge_bytes)
    return ()


def _is_of_one_time(sizes: Sequence[SegmentSize]) -> bool:
    """Whether segments have the same times rather than one stretch behind the other; so have all that have no
    times.
    """
    spans = [size.span for size in sizes if size.span is not None]
    if len(spans) < len(sizes):
        return True
    whole = max(last for _, last in spans) - min(first for first, _ in spans)
    return not whole or sum(last - first for first, last in spans) * 2 > whole * len(spans)


def _first_full_class(
    sizes: Sequence[SegmentSize], options: StateOptions, stretch: int
) -> tuple[SegmentId, ...]:
    classes: dict[int, list[SegmentSize]] = {}
    for size in sizes:
        classes.setdefault(_size_class(size.live_rows, options.fan_out), []).append(size)
    for _, members in sorted(classes.items()):
        if len(members) >= options.fan_out:
            fitting = _limit_bytes(_neighbours(members, options.fan_out, stretch), options.merge_bytes)
            if len(fitting) > 1:
                return fitting
    return ()


def _neighbours(members: Sequence[SegmentSize], fan_out: int, stretch: int) -> Sequence[SegmentSize]:
    """Those of a full class to merge: all of them, or the first that follow each other in time and do not
    make more than a stretch of it; or none.
    """
    if any(size.span is None for size in members):
        return members
    ordered = sorted(members, key=lambda size: size.span or (0, 0))
    for start in range(len(ordered) - fan_out + 1):
        chosen = ordered[start : start + fan_out]
        if sum(size.live_rows for size in chosen) <= stretch or _is_of_one_time(chosen):
            return chosen
    return ()


def _limit_bytes(sizes: Sequence[SegmentSize], most: int) -> tuple[SegmentId, ...]:
    """The first one, and as many of the others as together stay within the bytes that a merge may take."""
    chosen: list[SegmentId] = []
    total = 0
    for size in sizes:
        if not chosen or total + size.nbytes <= most:
            chosen.append(size.segment)
            total += size.nbytes
    return tuple(chosen)


def _size_class(rows: int, fan_out: int) -> int:
    number, upper = 0, SMALLEST_CLASS_ROWS
    while rows > upper:
        number, upper = number + 1, upper * fan_out
    return number
