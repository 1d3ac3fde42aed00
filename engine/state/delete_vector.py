"""Delete vectors: which rows of a segment are dead. Immutable; two that follow each other share all but what
the younger one adds, so many epochs of a large segment can be read at once.

A vector is a bit a row, for most of the dead, and behind it a few runs of row numbers, for those that died
last. An epoch adds a run. As in a log-structured tree, a run takes in the youngest ones before it when they
together are as many as it would pay to copy, and all runs become bits when row numbers would take more memory
than these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.state.damage import damage_error
from engine.state.few_values import values_at

Bits = npt.NDArray[np.uint8]
"""A bit a row, the first row the lowest bit of the first byte: 1 where the row is dead, 0 behind the last."""
DeadRows = npt.NDArray[np.uint32]
"""Row numbers in ascending order, each once."""
RowNumbers = npt.NDArray[np.intp]

RUN_GROWTH = 4
"""A run takes in those behind it when they have a third of its rows each, so that some five runs are searched
and a row number is copied some five times.
"""
ROWS_PER_DEAD = 32
"""A row number takes as much memory as so many bits."""
BITS_ONLY_ROWS = 8192
"""Segments up to this size have bits alone: to copy them costs less than to search runs."""
_FIRST_NUMBER = 1 << 63
"""Runs that an older version has stored are numbered by epoch."""
_BIT_OF_ROW = np.left_shift(np.uint8(1), np.arange(8, dtype=np.uint8))


@dataclass(frozen=True, eq=False)
class DeadRun:
    """Rows that have died one after the other.

    Attributes:
        number: Rises from one run of a vector to the next.
        rows: The rows.
    """

    number: int
    rows: DeadRows


@dataclass(frozen=True, eq=False)
class DeleteVector:
    """Which rows of a segment are dead.

    Attributes:
        rows: How many rows the segment has.
        bits: Those of the dead that are in no run; None where there are none such.
        runs: Other dead rows, no row in two of them, the ones that died last behind.
        dead_rows: How many rows are dead.
    """

    rows: int
    bits: Bits | None
    runs: tuple[DeadRun, ...]
    dead_rows: int

    def add(self, rows: RowNumbers) -> DeleteVector:
        """The vector after some more rows have died.

        Args:
            rows: Rows that are not dead, each once.
        """
        dead_rows = self.dead_rows + len(rows)
        number = max(_FIRST_NUMBER, self.runs[-1].number + 1 if self.runs else 0)
        if self.rows <= BITS_ONLY_ROWS:
            runs = (*self.runs, DeadRun(number, rows.astype(np.uint32)))
            return DeleteVector(self.rows, _set_bits(self.rows, self.bits, runs), (), dead_rows)
        # They mostly come in order: a stable sort only looks.
        added = np.sort(rows.astype(np.uint32), kind="stable")
        runs = _merge_runs([*self.runs, DeadRun(number, added)])
        if sum(len(run.rows) for run in runs) * ROWS_PER_DEAD > self.rows:
            return DeleteVector(self.rows, _set_bits(self.rows, self.bits, runs), (), dead_rows)
        return DeleteVector(self.rows, self.bits, runs, dead_rows)

    def are_dead(self, rows: RowNumbers) -> npt.NDArray[np.bool_]:
        """Which of some rows are dead."""
        dead = (
            np.zeros(len(rows), np.bool_)
            if self.bits is None
            else (self.bits[rows >> 3] >> (rows & 7).astype(np.uint8) & 1).astype(np.bool_)
        )
        needles = rows.astype(np.uint32)
        for run in self.runs:
            places = np.minimum(run.rows.searchsorted(needles), len(run.rows) - 1)
            dead |= values_at(run.rows, places) == needles
        return dead

    def is_dead(self, row: int) -> bool:
        """Whether a row is dead."""
        if self.bits is not None and self.bits[row >> 3] >> (row & 7) & 1:
            return True
        needle = np.uint32(row)
        for run in self.runs:
            place = run.rows.searchsorted(needle)
            if place < len(run.rows) and run.rows[place] == needle:
                return True
        return False

    def has_dead(self, start: int, stop: int) -> bool:
        """Whether some row from one number to before another is dead."""
        if self.bits is not None and self._bit_flags(self.bits, start, stop).any():
            return True
        return any(len(part) for part in self._run_parts(start, stop))

    def live_flags(self, start: int, stop: int) -> npt.NDArray[np.uint8]:
        """For each row from one number to before another, 1 where it is live and 0 where it is dead."""
        flags: npt.NDArray[np.uint8] = (
            np.ones(stop - start, np.uint8)
            if self.bits is None
            else self._bit_flags(self.bits, start, stop) ^ np.uint8(1)
        )
        for part in self._run_parts(start, stop):
            flags[part - start] = 0
        return flags

    def live_rows(self, start: int, stop: int) -> RowNumbers:
        """The rows from one number to before another that are not dead, in ascending order."""
        return np.flatnonzero(self.live_flags(start, stop)) + start

    def dead_since(self, before: DeleteVector | None) -> RowNumbers:
        """The rows that died after another vector, in ascending order.

        Args:
            before: One that this one comes from; None for one without dead rows.
        """
        dead = _set_bits(self.rows, self.bits, self.runs)
        if before is not None:
            dead &= ~_set_bits(before.rows, before.bits, before.runs)
        return np.flatnonzero(np.unpackbits(dead, count=self.rows, bitorder="little"))

    @staticmethod
    def _bit_flags(bits: Bits, start: int, stop: int) -> npt.NDArray[np.uint8]:
        first = start >> 3
        flags = np.unpackbits(bits[first : (stop + 7) >> 3], bitorder="little")
        return flags[start - 8 * first : stop - 8 * first]

    def _run_parts(self, start: int, stop: int) -> Sequence[DeadRows]:
        """The rows of each run from one number to before another."""
        # Edges of another type would have numpy copy each run into that type.
        edges = np.array([start, stop], np.uint32)
        found = [(run.rows, run.rows.searchsorted(edges).tolist()) for run in self.runs]
        return [rows[first:last] for rows, (first, last) in found]

    @cached_property
    def arrays(self) -> Sequence[npt.NDArray[np.uint8] | DeadRows]:
        """The memory that it takes; another vector may share some of it."""
        runs = [run.rows for run in self.runs]
        return runs if self.bits is None else [self.bits, *runs]


def delete_vector(rows: int, bits: Bits | None, runs: Sequence[DeadRun]) -> DeleteVector | None:
    """A vector of what is stored.

    Args:
        rows: How many rows the segment has.
        bits: As `DeleteVector.bits`.
        runs: As `DeleteVector.runs`.

    Returns:
        The vector; None where no row is dead.

    Raises:
        DamagedError: A row is in two of them.
    """
    if bits is None and not runs:
        return None
    dead_rows = _count_bits(_set_bits(rows, bits, runs))
    if dead_rows != sum(len(run.rows) for run in runs) + (0 if bits is None else _count_bits(bits)):
        raise damage_error("delete vector")
    return DeleteVector(rows, bits, tuple(runs), dead_rows)


def _count_bits(bits: Bits) -> int:
    return int(np.bitwise_count(bits).sum(dtype=np.int64))


def _merge_runs(runs: Sequence[DeadRun]) -> tuple[DeadRun, ...]:
    """Runs, of which the last have become one where that is due."""
    sizes = [len(run.rows) for run in runs]
    behind = [*accumulate(reversed(sizes))][::-1]
    for place in range(len(runs) - 1):
        if sizes[place] * (RUN_GROWTH - 1) <= behind[place + 1]:
            rows = np.concatenate([run.rows for run in runs[place:]])
            # Runs are sorted already: a sort that finds runs merges them.
            rows.sort(kind="stable")
            return (*runs[:place], DeadRun(runs[-1].number, rows))
    return tuple(runs)


def _set_bits(rows: int, bits: Bits | None, runs: Sequence[DeadRun]) -> Bits:
    """A copy of bits in which those of runs are set, too."""
    together = np.zeros((rows + 7) // 8, np.uint8) if bits is None else bits.copy()
    for run in runs:
        np.bitwise_or.at(together, run.rows >> 3, _BIT_OF_ROW.take(run.rows & 7))
    return together


@dataclass(frozen=True)
class LiveFlags:
    """Which rows of a segment are live.

    Attributes:
        dead: By which delete vector.
        flags: A byte a row, 1 where it is live.
    """

    dead: DeleteVector
    flags: pa.Array

    @property
    def nbytes(self) -> int:
        """Bytes of the flags."""
        return int(self.flags.nbytes)
