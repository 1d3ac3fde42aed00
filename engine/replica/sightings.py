"""When a host has first seen that epochs are there, by its own clock.

Commits say when they were made by the clock of the machine that made them, and never fall from one epoch to
the next: behind one of a clock that was ahead, all say a time that is still to come. How far a host is behind
must not go by that.
"""

from __future__ import annotations

from engine.model.schema import Epoch

MOST_SIGHTINGS = 1024
"""Where there are as many, two and two become one, of the later epoch and the earlier time; even."""


class Sightings:
    """What a host has seen of a group's epochs. For one thread."""

    def __init__(self) -> None:
        self._seen: list[tuple[Epoch, int]] = []
        """The newest epoch that was known, and from when on; both rise."""

    def note(self, epoch: Epoch, seen_at: int) -> None:
        """Take note that the epochs up to one are there.

        Args:
            epoch: The newest of them.
            seen_at: When that was seen, microseconds since 1970 UTC.
        """
        if self._seen and epoch <= self._seen[-1][0]:
            return
        self._seen.append((epoch, seen_at))
        if len(self._seen) == MOST_SIGHTINGS:
            pairs = zip(self._seen[::2], self._seen[1::2], strict=True)
            self._seen = [(later, at) for (_, at), (later, _) in pairs]

    def lower(self, epoch: Epoch) -> None:
        """Take note that there is nothing behind an epoch any more."""
        kept = [each for each in self._seen if each[0] < epoch]
        self._seen = kept + [(epoch, at) for _, at in self._seen[len(kept) :][:1]]

    def unread_since(self, epoch: Epoch, committed_at: int) -> int:
        """Since when an epoch can be missing: its commit's time, or when it was seen first if that is before.

        Args:
            epoch: The epoch; those before it are not asked for any more.
            committed_at: When it was committed by the clock of whoever did, microseconds since 1970 UTC.
        """
        while self._seen and self._seen[0][0] < epoch:
            del self._seen[0]
        return min(committed_at, self._seen[0][1]) if self._seen else committed_at
