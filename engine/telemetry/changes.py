"""What is worth a line of a log: what has changed, and not what goes on as it was.

Pure: whoever asks says what time it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

QUIET_SECONDS = 60.0
"""For so long after a line the like of it are counted, and not told."""
MOST_KEYS = 1000
"""Kinds of events that are told apart; beyond, those told longest ago are forgotten."""


class Crossing(Enum):
    """How a value has left the side of a threshold on which it was."""

    OVER = "over"
    BACK = "back"


@dataclass
class Threshold:
    """A threshold that a value crosses once, and not with each little swing around it.

    Attributes:
        limit: What it must exceed to be over.
        calm: What it must not exceed to be back; below the limit.
        is_over: On which side it is.
    """

    limit: float
    calm: float
    is_over: bool = False

    def update(self, value: float) -> Crossing | None:
        """Take the value as it is now.

        Args:
            value: The value.

        Returns:
            How it has crossed the threshold; None where it has not.
        """
        if not self.is_over and value > self.limit:
            self.is_over = True
            return Crossing.OVER
        if self.is_over and value <= self.calm:
            self.is_over = False
            return Crossing.BACK
        return None


@dataclass
class _LastLine:
    at: float
    silent: int = 0


@dataclass
class Repeats:
    """Tells the first event of a kind from those that follow it closely.

    Attributes:
        quiet_seconds: How long after one that is told others are counted alone.
    """

    quiet_seconds: float = QUIET_SECONDS
    _lines: dict[str, _LastLine] = field(default_factory=dict)

    def note(self, kind: str, now: float) -> int | None:
        """Take note of an event.

        Args:
            kind: What is the same for all events of which one is enough.
            now: The time, seconds of a clock that never goes back.

        Returns:
            How many were not told since the last that was; None: this one is not to be told either.
        """
        known = self._lines.get(kind)
        if known is not None and now - known.at < self.quiet_seconds:
            known.silent += 1
            return None
        self._lines.pop(kind, None)
        self._lines[kind] = _LastLine(now)
        if len(self._lines) > MOST_KEYS:
            del self._lines[next(iter(self._lines))]
        return 0 if known is None else known.silent
