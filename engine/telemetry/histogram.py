"""Counts of values by size."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field


@dataclass
class Histogram:
    """How many values were how large. Not safe for threads.

    Attributes:
        bounds: Where buckets end, ascending.
        counts: How many values are in each, those above all bounds in one more; each value counts once.
        total: Their sum.
    """

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = self.counts or [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def copy(self) -> Histogram:
        """The same, that nobody adds to."""
        return Histogram(self.bounds, list(self.counts), self.total)
