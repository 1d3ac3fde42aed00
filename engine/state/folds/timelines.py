"""Fragments of sessions on their keys' time lines: which of them become one session, and in which order they
are folded.

What a session is follows from its fragments row by row: a fragment and the sessions that it touches become
one, which is folded from these sessions, the earliest first, and then from the fragment. So the result does
not depend on where the rows were cut into epochs, not even where the order of sums matters. Nearly always the
fragments of a session keep touching what they make from the first to the last, and then they are folded in
their order, all sessions at once. Only where sessions come to be apart and are bridged later, or where a
tombstone is, rows are gone through one by one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import numpy.typing as npt

from engine.state.folds.grouping import Mask
from engine.state.keys import Rows

Times = npt.NDArray[np.int64]
"""Microseconds since 1970."""


@dataclass(frozen=True, eq=False)
class SessionFragments:
    """Stored sessions in order of their start, then the rows of an epoch in commit order.

    Attributes:
        keys: The number of each one's key, shape (fragments,).
        starts: Time of the first event.
        ends: Time of the last event, not before the first.
        stored: How many of them are stored sessions, which lie further apart than the gap.
        removals: Which of them are tombstones; None if none is.
    """

    keys: Rows
    starts: Times
    ends: Times
    stored: int
    removals: Mask | None = None


@dataclass(frozen=True, eq=False)
class Step:
    """Items that are folded into one for each group. Items are fragments by their number, and behind them the
    results of the steps before.

    Attributes:
        items: Numbers of items; those of a group in the order in which they are folded.
        groups: The number of each one's group.
        count: How many groups there are; none is empty.
    """

    items: Rows
    groups: Rows
    count: int


@dataclass(frozen=True, eq=False)
class Joined:
    """How fragments become sessions.

    Attributes:
        steps: What is folded, one step after the other.
        sessions: The items that are the sessions which are new or changed.
        some_fragment: A fragment of each of these, which has its key.
        replaced: The stored sessions whose rows go; a new one may have the same start.
    """

    steps: Sequence[Step]
    sessions: Rows
    some_fragment: Rows
    replaced: Rows


def join(fragments: SessionFragments, gap: int) -> Joined:
    """Find the sessions that some fragments make.

    Args:
        fragments: The fragments.
        gap: The largest time between two events of one session, microseconds.

    Returns:
        What is to be folded, and what becomes of the stored sessions.
    """
    size = len(fragments.keys)
    one_by_one, whole = _split_by_key(fragments)
    runs = _runs(fragments, whole, gap)
    easy = _keeps_touching(fragments, runs, gap) if len(runs.rows) else np.empty(0, np.bool_)
    units = [
        *_split(one_by_one, fragments.keys[one_by_one]),
        *_split(runs.rows[~easy[runs.numbers]], runs.numbers[~easy[runs.numbers]]),
    ]
    lines = [_Line(fragments, rows, gap) for rows in units]
    kept = easy[runs.numbers]
    items, groups = runs.rows[kept], np.cumsum(easy)[runs.numbers[kept]] - 1
    first = np.flatnonzero(np.diff(groups, prepend=-1))
    steps, numbers, some = _steps(
        Step(items, groups, len(first)), [chain for line in lines for chain in line.changed], size
    )
    moved = items[
        (items < fragments.stored)
        & (fragments.starts[items] != _first_starts(fragments.starts[items], groups, first))
    ]
    replaced = np.array([row for line in lines for row in line.replaced], np.intp)
    sessions = np.concatenate([np.arange(size, size + len(first)), numbers])
    return Joined(steps, sessions, np.concatenate([items[first], some]), np.concatenate([moved, replaced]))


def _split_by_key(fragments: SessionFragments) -> tuple[Rows, Rows]:
    """The fragments of keys that have a tombstone, and the others, both in their order."""
    rows: Rows = np.arange(len(fragments.keys))
    if fragments.removals is None:
        return rows[:0], rows
    is_removed = np.isin(fragments.keys, fragments.keys[fragments.removals])
    return rows[is_removed], rows[~is_removed]


def _split(rows: Rows, numbers: Rows) -> Iterator[Rows]:
    """Rows by a number that they have, each part in ascending order."""
    order = np.argsort(numbers, kind="stable")
    bounds = np.flatnonzero(np.diff(numbers[order])) + 1
    return (part for part in np.split(rows[order], bounds) if len(part))


def _first_starts(starts: Times, groups: Rows, first: Rows) -> Times:
    """The smallest start of each one's group; groups are in order."""
    return np.minimum.reduceat(starts, first)[groups] if len(first) else starts


# ---- runs of touching fragments


@dataclass(frozen=True, eq=False)
class _Runs:
    """Fragments of a key that touch each other, if only by way of others, and an epoch's rows among them.

    Attributes:
        rows: The fragments, in the order of their runs, and of their numbers in each.
        numbers: The number of each one's run.
        count: How many runs there are.
    """

    rows: Rows
    numbers: Rows
    count: int


def _runs(fragments: SessionFragments, rows: Rows, gap: int) -> _Runs:
    keys, starts, ends = fragments.keys[rows], fragments.starts[rows], fragments.ends[rows]
    order = np.lexsort((starts, keys))
    keys, starts, ends = keys[order], starts[order], ends[order]
    latest = _running_largest(ends, keys)
    begins = np.ones(len(rows), np.bool_)
    begins[1:] = (keys[1:] != keys[:-1]) | _are_apart(latest[:-1], starts[1:], gap)
    numbers = np.empty(len(rows), np.intp)
    numbers[order] = np.cumsum(begins) - 1
    is_touched = np.zeros(int(begins.sum()), np.bool_)
    is_touched[numbers[rows >= fragments.stored]] = True
    kept = is_touched[numbers]
    rows, numbers = rows[kept], (np.cumsum(is_touched) - 1)[numbers[kept]]
    in_order = np.argsort(numbers, kind="stable")
    return _Runs(rows[in_order], numbers[in_order], int(is_touched.sum()))


def _keeps_touching(fragments: SessionFragments, runs: _Runs, gap: int) -> Mask:
    """Which runs have been one session from their first fragment on, shape (runs,)."""
    rows, numbers = runs.rows, runs.numbers
    starts, ends = fragments.starts[rows], fragments.ends[rows]
    latest, earliest = (
        _running_largest(ends, numbers),
        ~_running_largest(~starts, numbers),
    )  # ~ turns the order around
    is_apart = _are_apart(latest[:-1], starts[1:], gap) | _are_apart(ends[1:], earliest[:-1], gap)
    is_bridge = (rows < fragments.stored)[1:]
    easy = np.ones(runs.count, np.bool_)
    easy[numbers[1:][(numbers[1:] == numbers[:-1]) & (is_apart | is_bridge)]] = False
    return easy


def _are_apart(ends: Times, starts: Times, gap: int) -> Mask:
    """Whether a start lies further behind an end than the gap. Differences of any two times fit 64 bits
    without a sign.
    """
    apart: Mask = (starts > ends) & ((starts - ends).view(np.uint64) > gap)
    return apart


def _running_largest(values: Times, groups: Rows) -> Times:
    """The largest value up to each row within its group; rows of a group lie together, groups in ascending
    order.
    """
    distinct, ranks = np.unique(values, return_inverse=True)
    first = groups * len(distinct)
    largest: Times = distinct[np.maximum.accumulate(first + ranks) - first] if len(values) else values
    return largest


# ---- one by one


@dataclass(eq=False)
class _Chain:
    """A session while it comes to be.

    Attributes:
        start: Time of the first event.
        end: Time of the last event.
        items: What it is folded from, in order: fragments, and sessions that were taken into it.
        fragment: A fragment of it.
        level: How many steps have to be done before it can be folded.
        number: Its number as an item, once it is known.
    """

    start: int
    end: int
    items: list[int | _Chain]
    fragment: int
    level: int = 0
    number: int = -1
    taken: list[_Chain] = field(default_factory=list)

    def take(self, other: _Chain) -> None:
        """Become one with a later session."""
        self.items.append(other)
        self.taken.append(other)
        self.end = max(self.end, other.end)
        self.level = max(self.level, other.level + 1)

    def chains(self) -> Iterator[_Chain]:
        """This session and all that were taken into it or into one of those."""
        waiting = [self]
        while waiting:
            chain = waiting.pop()
            yield chain
            waiting += chain.taken


class _Line:
    """The time line of a key, or a part of it.

    Args:
        fragments: All fragments.
        rows: Those on the line, in the order in which they come.
        gap: The largest time between two events of one session.

    Attributes:
        changed: The sessions that are new or changed.
        replaced: The stored sessions that are not there any more as they were.
    """

    def __init__(self, fragments: SessionFragments, rows: Rows, gap: int) -> None:
        self._sessions: list[_Chain] = []
        self._gap = gap
        removals = np.zeros(len(rows), np.bool_) if fragments.removals is None else fragments.removals[rows]
        columns = (rows, fragments.starts[rows], fragments.ends[rows], removals)
        for row, start, end, is_removal in zip(*(column.tolist() for column in columns), strict=True):
            if is_removal:
                self._remove(start, end)
            else:
                self._add(row, start, end)
        stored = set(rows[rows < fragments.stored].tolist())
        unchanged = {
            chain.fragment for chain in self._sessions if len(chain.items) == 1 and chain.fragment in stored
        }
        self.changed: Sequence[_Chain] = [
            chain for chain in self._sessions if chain.fragment not in unchanged
        ]
        self.replaced: Sequence[int] = sorted(stored - unchanged)

    def _add(self, row: int, start: int, end: int) -> None:
        touched = self._touched_keys(start - self._gap, end + self._gap)
        earliest, *others = self._sessions[touched] or [_Chain(start, end, [], row)]
        for other in others:
            earliest.take(other)
        earliest.items.append(row)
        earliest.start, earliest.end = min(earliest.start, start), max(earliest.end, end)
        self._sessions[touched] = [earliest]

    def _remove(self, start: int, end: int) -> None:
        del self._sessions[self._touched_keys(start, end)]

    def _touched_keys(self, first: int, last: int) -> slice:
        """The sessions that have a moment in common with a span of time."""
        low = bisect_left(self._sessions, first, key=lambda session: session.end)
        return slice(low, bisect_right(self._sessions, last, key=lambda session: session.start))


def _steps(easy: Step, chains: Sequence[_Chain], size: int) -> tuple[Sequence[Step], Rows, Rows]:
    """The steps for sessions that need but one, and for chains; and of each chain its item and a fragment."""
    parts = sorted((part for chain in chains for part in chain.chains()), key=lambda part: part.level)
    for number, part in enumerate(parts, size + easy.count):
        part.number = number
    steps = [_step(list(level)) for _, level in groupby(parts, key=lambda part: part.level)]
    numbers, fragments = (
        np.array(column, np.intp)
        for column in ([chain.number for chain in chains], [chain.fragment for chain in chains])
    )
    return [_join_timelines(easy, steps[0]), *steps[1:]] if steps else [easy], numbers, fragments


def _join_timelines(step: Step, other: Step) -> Step:
    groups = np.concatenate([step.groups, other.groups + step.count])
    return Step(np.concatenate([step.items, other.items]), groups, step.count + other.count)


def _step(chains: Sequence[_Chain]) -> Step:
    items = [item.number if isinstance(item, _Chain) else item for chain in chains for item in chain.items]
    groups = np.repeat(np.arange(len(chains)), [len(chain.items) for chain in chains])
    return Step(np.array(items, np.intp), groups, len(chains))
