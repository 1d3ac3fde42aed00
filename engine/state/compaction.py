"""Which segments to merge: a pure function of their sizes.

Size-tiered: segments are sorted into classes by their live rows, each class `fan_out` times as large as the one before, and a class
with `fan_out` members is merged into one segment. A segment with too many dead rows is rewritten, together with all smaller ones: its
rewrite is by far the larger part of the work, and the smaller ones come along almost free. As keys are live in one segment only, any set
of segments can be merged, whatever their age.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.state.formats import SegmentId
from engine.state.options import StateOptions

SMALLEST_CLASS_ROWS = 1024
"""Segments up to this size are one class: merging them costs next to nothing."""


@dataclass(frozen=True)
class SegmentSize:
    """What the choice depends on.

    Attributes:
        segment: The segment.
        rows: Rows, dead ones included.
        live_rows: Live rows.
        nbytes: Arrow bytes, dead rows included.
    """

    segment: SegmentId
    rows: int
    live_rows: int
    nbytes: int


def choose(sizes: Sequence[SegmentSize], options: StateOptions) -> tuple[SegmentId, ...]:
    """The segments to merge next.

    Args:
        sizes: All segments of a partition.
        options: `fan_out` and `dead_share`.

    Returns:
        Their ids; none where nothing is worth it.
    """
    full = _first_full_class(sizes, options)
    if full:
        return full
    for size in sorted(sizes, key=lambda size: size.live_rows):
        if size.rows > SMALLEST_CLASS_ROWS and size.rows - size.live_rows > options.dead_share * size.rows:
            smaller = [other for other in sizes if other.live_rows <= size.live_rows and other is not size]
            return _fitting([size, *smaller], options.merge_bytes)
    return ()


def _first_full_class(sizes: Sequence[SegmentSize], options: StateOptions) -> tuple[SegmentId, ...]:
    classes: dict[int, list[SegmentSize]] = {}
    for size in sizes:
        classes.setdefault(_size_class(size.live_rows, options.fan_out), []).append(size)
    for _, members in sorted(classes.items()):
        if len(members) >= options.fan_out:
            fitting = _fitting(members, options.merge_bytes)
            if len(fitting) > 1:
                return fitting
    return ()


def _fitting(sizes: Sequence[SegmentSize], most: int) -> tuple[SegmentId, ...]:
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
