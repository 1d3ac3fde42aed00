"""Taking times."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Spent:
    """Time that something took.

    Attributes:
        wall: Seconds.
        cpu: Seconds of processor time of this process, all threads together.
    """

    wall: float = 0.0
    cpu: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.wall + other.wall, self.cpu + other.cpu)


@contextmanager
def stopwatch() -> Iterator[Spent]:
    """Measures its block; the `Spent` that it gives is filled at the end."""
    spent = Spent()
    wall, cpu = time.perf_counter(), time.process_time()
    yield spent
    spent.wall, spent.cpu = time.perf_counter() - wall, time.process_time() - cpu


def time_in_turns(actions: Mapping[str, Callable[[], object]], repetitions: int) -> dict[str, list[Spent]]:
    """Time several actions in turns, so that what else the machine does meets all of them alike.

    Args:
        actions: By name.
        repetitions: How often each is timed; it runs once more before, untimed.

    Returns:
        The times of each, in order.
    """
    times: dict[str, list[Spent]] = {name: [] for name in actions}
    for action in actions.values():
        action()
    for turn in range(repetitions):
        names = list(actions) if turn % 2 == 0 else list(actions)[::-1]
        for name in names:
            with stopwatch() as spent:
                actions[name]()
            times[name].append(spent)
    return times


def median_wall(times: Sequence[Spent]) -> float:
    """Median of wall times, seconds."""
    return statistics.median(spent.wall for spent in times)


def median_cpu(times: Sequence[Spent]) -> float:
    """Median of processor times, seconds."""
    return statistics.median(spent.cpu for spent in times)


def percentile(seconds: Sequence[float], share: float) -> float:
    """The smallest of the times that at least this share of them does not exceed.

    Args:
        seconds: At least one time.
        share: Above 0, up to 1.

    Returns:
        One of the times.
    """
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, max(0, round(share * len(ordered)) - 1))]


def milliseconds(seconds: float) -> float:
    """Seconds as milliseconds."""
    return seconds * 1e3
