"""Whose turn it is: which store group of a host is moved on next, as a function of values. No threads, and no
clock of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from engine.model.schema import GroupName

HEAD_START_SECONDS = 0.5
"""A group of which somebody has told comes before groups that have waited for so much longer, and no more:
one that is told of all the time does not keep the others waiting.
"""


class Lane(Enum):
    """Which threads take a turn."""

    QUICK = "a look at what is new, and a little of it"
    LARGE = "large epochs of groups that can be read"
    LONG = "what can take minutes: builds, snapshots that are read"


@dataclass(frozen=True)
class Turn:
    """A group that is to be moved on.

    Attributes:
        group: The group.
        due_at: When, by the clock.
        lane: By which threads.
        is_notified: Whether somebody has told that there is something new.
        epochs_missing: How many epochs it needs before it can be read.
    """

    group: GroupName
    due_at: float
    lane: Lane = Lane.LONG
    is_notified: bool = False
    epochs_missing: int = 0

    @property
    def rank(self) -> tuple[float, int, GroupName]:
        """The smallest comes first: who has waited longest, and of several that have waited as long the one
        that can be read soonest.
        """
        head_start = HEAD_START_SECONDS if self.is_notified else 0.0
        return self.due_at - head_start, self.epochs_missing, self.group


def next_turn(turns: Iterable[Turn], lane: Lane, clock: float) -> Turn | None:
    """The turn that is taken now; None where none is due.

    Args:
        turns: Those that nobody has taken.
        lane: By which threads.
        clock: The time, in seconds that never go back.
    """
    due = [turn for turn in turns if turn.lane is lane and turn.due_at <= clock]
    return min(due, key=lambda turn: turn.rank, default=None)


def next_due_time(turns: Iterable[Turn], lane: Lane) -> float:
    """When the next turn is due, by the clock; infinity where there is none.

    Args:
        turns: Those that nobody has taken.
        lane: By which threads.
    """
    return min((turn.due_at for turn in turns if turn.lane is lane), default=float("inf"))
