"""What the columns of a group's stores are like, for the reports of hosts.

It is put together from what is known of segments, nothing is read, and only where enough of a store is new:
epochs come many times a second, and reports go out with each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from weakref import ref

import pyarrow as pa

from engine.cluster.reports import ColumnReport
from engine.model.column_numbers import column_number, has_numbers
from engine.model.distinct_sketch import has_sketch, unite_sketches
from engine.model.schema import PartitionId, StoreName
from engine.state.formats import SegmentId
from engine.state.segment import Segment
from engine.state.state_view import StateView
from engine.state.version import Version

MOST_COLUMNS = 64
"""Columns of a store that are reported, its first ones: a report stays small."""
_NEW_SHARE = 8
"""A store is looked at again when one row of so many is in segments that were not there."""
_SKETCHED_SHARE = 2
"""One row of so many must be in segments with sketches."""


@dataclass(frozen=True)
class _Known:
    """What was found out of a store.

    Attributes:
        schema: Its schema.
        segments: The segments that it had.
        versions: What its partitions looked like; nothing is kept in memory for this.
        columns: What its columns are like.
    """

    schema: pa.Schema
    segments: frozenset[tuple[PartitionId, SegmentId]]
    versions: Mapping[PartitionId, ref[Version]]
    columns: Mapping[str, ColumnReport]

    def has_seen(self, number: PartitionId, version: Version) -> bool:
        """Whether a partition looks as it did."""
        known = self.versions.get(number)
        return known is not None and known() is version


class ColumnReporter:
    """Says what columns are like. Not safe for threads."""

    def __init__(self) -> None:
        self._known: dict[StoreName, _Known] = {}

    def columns(self, store: StateView) -> Mapping[str, ColumnReport]:
        """What the columns of a store are like: the same object, until enough of it is new.

        Args:
            store: The store.
        """
        name, schema = store.definition.name, store.definition.schema
        known = self._known.get(name)
        if known is not None and known.schema.equals(schema):
            # There can be thousands of partitions, of which an epoch touches a few.
            changed = [
                (number, version)
                for number, version in store.versions.items()
                if not known.has_seen(number, version)
            ]
            new_rows = sum(
                entry.segment.rows
                for number, version in changed
                for entry in version.segments
                if (number, entry.segment.id) not in known.segments
            )
            if new_rows * _NEW_SHARE <= sum(version.stored_rows for version in store.versions.values()):
                return known.columns
        segments = {
            (number, entry.segment.id): entry.segment
            for number, version in store.versions.items()
            for entry in version.segments
        }
        found = {
            field.name: _column_report(field, list(segments.values()))
            for field in list(schema)[:MOST_COLUMNS]
        }
        versions = {number: ref(version) for number, version in store.versions.items()}
        self._known[name] = _Known(schema, frozenset(segments), versions, found)
        return found


def _column_report(field: pa.Field, segments: Sequence[Segment]) -> ColumnReport:
    low, high = _bounds(field, segments) if has_numbers(field.type) else (None, None)
    found = [(segment.rows, segment.sketch_of(field.name)) for segment in segments if has_sketch(field.type)]
    sketches = [sketch for _, sketch in found if sketch is not None]
    sketched = sum(rows for rows, sketch in found if sketch is not None)
    has_enough = sketched and sketched * _SKETCHED_SHARE >= sum(rows for rows, _ in found)
    return ColumnReport(low, high, unite_sketches(sketches) if has_enough else None)


def _bounds(field: pa.Field, segments: Sequence[Segment]) -> tuple[float | None, float | None]:
    lows: list[float] = []
    highs: list[float] = []
    for segment in segments:
        statistics = segment.statistics_of(field.name)
        bounds = None if statistics is None or statistics.low.type != field.type else statistics.bounds
        if bounds is None:
            return None, None
        low, high = map(column_number, bounds)
        if low is not None and high is not None:
            lows.append(low)
            highs.append(high)
        elif bounds[0].is_valid:
            return None, None
    return (min(lows), max(highs)) if lows else (None, None)
