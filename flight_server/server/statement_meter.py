"""Counts what statements take, by class: a few additions for each, for whoever watches the host."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from engine.coordinator.result_metadata import DISTRIBUTED, WHOLE_RULE
from engine.errors import LivestateError
from engine.exec.fallbacks import Fallback
from engine.exec.query_result import QueryMetadata
from engine.telemetry.histogram import Histogram
from flight_server.wire.boundary import kind_name

BOUNDS = (
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
)
"""Seconds at which the buckets of the histogram end."""
UNEXPECTED = "Defect"
"""The kind of failures that nobody expected."""


class AnswerClass(StrEnum):
    """How a statement was answered."""

    KEPT = "kept"
    LOOKUP = "lookup"
    ROWS = "rows"
    COUNT = "count"
    SUMMARY = "summary"
    ENGINE = "engine"
    CATALOG = "catalog"
    FORWARDED = "forwarded"
    SPLIT = "split"
    GATHERED = "gathered"
    KEYS = "keys"
    ENDPOINT = "endpoint"
    FRAGMENT = "fragment"


_PLANS: Mapping[str, AnswerClass] = {
    each.value: each
    for each in (
        AnswerClass.LOOKUP,
        AnswerClass.ROWS,
        AnswerClass.COUNT,
        AnswerClass.SUMMARY,
        AnswerClass.ENGINE,
        AnswerClass.CATALOG,
    )
}
_EVENTS: Mapping[str, AnswerClass] = {
    each.value: each for each in (AnswerClass.KEYS, AnswerClass.ENDPOINT, AnswerClass.FRAGMENT)
}
_GATHERING = frozenset({Fallback.GATHER_PIECES, Fallback.GATHER_SUBTREES, Fallback.GATHER_ALL})


def statement_class(metadata: QueryMetadata) -> AnswerClass:
    """How a statement was answered.

    Args:
        metadata: What its result says.
    """
    if metadata.kept:
        return AnswerClass.KEPT
    if metadata.rules == (WHOLE_RULE,) and metadata.plan != AnswerClass.LOOKUP:
        return AnswerClass.FORWARDED
    if metadata.plan == DISTRIBUTED:
        is_gathered = not _GATHERING.isdisjoint(metadata.fallbacks)
        return AnswerClass.GATHERED if is_gathered else AnswerClass.SPLIT
    return _PLANS.get(metadata.plan, AnswerClass.ENGINE)


@dataclass
class ClassTotals:
    """What the statements of a class have taken so far.

    Attributes:
        seconds: How long they took.
        rows: Rows that were sent.
        size: Their Arrow bytes.
        moved: Arrow bytes that went between hosts for them.
        rows_read: Stored rows that were read.
        partitions: Partitions of the stores that they name.
        pruned: How many of these were not read.
    """

    seconds: Histogram = field(default_factory=lambda: Histogram(BOUNDS))
    rows: int = 0
    size: int = 0
    moved: int = 0
    rows_read: int = 0
    partitions: int = 0
    pruned: int = 0


@dataclass(frozen=True)
class StatementTotals:
    """What all statements have taken so far.

    Attributes:
        classes: By class.
        fallbacks: How often each fall-back was taken.
        failures: How many calls failed, by kind.
    """

    classes: Mapping[AnswerClass, ClassTotals]
    fallbacks: Mapping[str, int]
    failures: Mapping[str, int]


class StatementMeter:
    """Counts statements. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._classes = {each: ClassTotals() for each in AnswerClass}
        self._fallbacks: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()

    def note(self, event: str, metadata: QueryMetadata | None, seconds: float, rows: int, size: int) -> None:
        """Count a statement that has ended.

        Args:
            event: What it is, as the audit log has it.
            metadata: What it read; None where that is not known.
            seconds: How long it took.
            rows: Rows that were sent.
            size: Their Arrow bytes.
        """
        found = _EVENTS.get(event)
        if metadata is None and found is None:
            return
        if found is None:
            assert metadata is not None
            found = statement_class(metadata)
        totals = self._classes[found]
        with self._lock:
            totals.seconds.add(seconds)
            totals.rows += rows
            totals.size += size
            if metadata is None or metadata.kept:
                return
            totals.moved += metadata.bytes_moved
            totals.rows_read += metadata.rows_read
            totals.partitions += metadata.partitions
            totals.pruned += metadata.partitions - metadata.partitions_read
            if metadata.fallbacks:
                self._fallbacks.update(metadata.fallbacks)

    def note_failure(self, error: Exception) -> None:
        """Count a call that failed.

        Args:
            error: Why.
        """
        kind = kind_name(error) if isinstance(error, LivestateError) else UNEXPECTED
        with self._lock:
            self._failures[kind] += 1

    def totals(self) -> StatementTotals:
        """What was counted so far."""
        with self._lock:
            return StatementTotals(
                {name: replace(each, seconds=each.seconds.copy()) for name, each in self._classes.items()},
                dict(self._fallbacks),
                dict(self._failures),
            )
