"""Events out of thin air, the same ones always: every value is a pure function of the event's number and a
seed.

So event 1,000,000 can be made without those before it, in any process, and a batch that Spark makes again
after a crash has the same events. A test that knows how many events there were knows all of them.
"""

from __future__ import annotations

from functools import lru_cache
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

EVENT_START_MICROSECONDS = 1_767_225_600_000_000
"""Event time of the first event: 2026-01-01 00:00 UTC."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST_FACTOR = np.uint64(0xBF58476D1CE4E5B9)
_SECOND_FACTOR = np.uint64(0x94D049BB133111EB)


class Draws:
    """Random values of some events.

    Args:
        numbers: The events' numbers, from 0.
        seed: Equal seeds draw equal values.
    """

    def __init__(self, numbers: Integers, seed: int = 1) -> None:
        self.numbers = numbers
        self._seed = seed

    def bits(self, name: str) -> npt.NDArray[np.uint64]:
        """64 random bits for each event: the output function of SplitMix64 (Steele, Lea and Flood, 2014) on
        number, seed and name.

        Args:
            name: What is drawn; other names give other bits.
        """
        salt = np.uint64(crc32(f"{self._seed} {name}".encode()))
        with np.errstate(over="ignore"):
            # Twice: the salt moves where the sequence starts, and a neighbour's start must not be its next
            # value.
            return _mix(_mix(np.full(1, salt)) + self.numbers.astype(np.uint64) * _GOLDEN)

    def uniform(self, name: str) -> Floats:
        """Numbers from 0 up to, and without, 1."""
        return (self.bits(name) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def integers(self, name: str, count: int) -> Integers:
        """Integers from 0 up to, and without, `count`."""
        return (self.uniform(name) * count).astype(np.int64)

    def skewed_integers(self, name: str, count: int, exponent: float = 2.0) -> Integers:
        """Integers below `count`, the small ones more often: a uniform number to the power of `exponent`."""
        return (self.uniform(name) ** exponent * count).astype(np.int64)

    def zipf(self, name: str, count: int, exponent: float) -> Integers:
        """Integers below `count` by Zipf's law: number k in proportion to 1 / (k + 1) to the power of
        `exponent`.
        """
        numbers = np.searchsorted(_zipf_reach(count, exponent), self.uniform(name), side="right")
        # The shares add up to 1 but for rounding.
        return np.minimum(numbers, count - 1).astype(np.int64)

    def times(self, per_second: float, late_share: float = 0.0, late_seconds: float = 0.0) -> pa.Array:
        """Event times, one after the other.

        Args:
            per_second: Events in a second of event time.
            late_share: Share of the events that are older than their place says.
            late_seconds: By how much at most.

        Returns:
            `timestamp[us, UTC]`.
        """
        since = (self.numbers * (1e6 / per_second)).astype(np.int64)
        late = np.where(
            self.uniform("late") < late_share, self.integers("lateness", max(1, int(late_seconds * 1e6))), 0
        )
        return pa.array(EVENT_START_MICROSECONDS + np.maximum(since - late, 0)).cast(
            pa.timestamp("us", "UTC")
        )


@lru_cache(maxsize=4)
def _zipf_reach(count: int, exponent: float) -> Floats:
    weights: Floats = np.arange(1, count + 1, dtype=np.float64) ** -exponent
    reach: Floats = np.cumsum(weights) / weights.sum()
    return reach


def _mix(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    bits = (bits ^ (bits >> np.uint64(30))) * _FIRST_FACTOR
    bits = (bits ^ (bits >> np.uint64(27))) * _SECOND_FACTOR
    return bits ^ (bits >> np.uint64(31))


def words(indexes: Integers, choices: tuple[str, ...]) -> pa.Array:
    """Texts by their place in a list."""
    return pa.array(choices).take(pa.array(indexes))
