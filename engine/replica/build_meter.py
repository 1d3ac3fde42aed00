"""How much of a changelog partitions have read, and how much is left."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from threading import Lock

import pyarrow as pa

from engine.cluster.progress import RATE_SECONDS, Sample, transfer_rate
from engine.cluster.reports import Progress
from engine.model.schema import Epoch

SECONDS_BETWEEN_SAMPLES = 1.0
_NO_EPOCH = Epoch(0)


@dataclass
class _Step:
    """A snapshot or epochs that are being read.

    Attributes:
        written: Where it leads: as `Commit.written`.
        nbytes: Bytes of its files.
        own_bytes: Those of them that are for the partitions here.
        done: Of these, what was read.
    """

    written: int
    nbytes: int
    own_bytes: int
    done: int = 0

    @property
    def bytes_done(self) -> int:
        """What was read, with the part of the other hosts' partitions that belongs to it."""
        return self.nbytes * self.done // self.own_bytes if self.own_bytes else 0


class BuildMeter:
    """Counts what the partitions of a cohort read since they were last up to date. Safe for threads.

    It counts bytes of the whole group, as `Commit.written` does, as only these are known of epochs that
    were not read yet; `progress` then takes the part that the partitions have of them.

    Args:
        clock: Gives the time in seconds that never go back.

    Attributes:
        reached: As `Commit.written` of the epoch that the partitions have reached; None where that is not
            known.
        target: The epoch that was last aimed at.
        aimed_at: When, by the clock.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.reached: int | None = None
        self.target = _NO_EPOCH
        self.aimed_at = float("-inf")
        self._target_written: int | None = None
        self._clock = clock
        self._lock = Lock()
        self._done = 0
        self._step: _Step | None = None
        self._samples: deque[Sample] = deque()

    def aim(self, epoch: Epoch, written: int | None) -> None:
        """Take note of where the partitions are to come.

        Args:
            epoch: The epoch.
            written: As `Commit.written` of it; None where it is not known.
        """
        with self._lock:
            self.target, self._target_written, self.aimed_at = epoch, written, self._clock()

    @property
    def is_past_target(self) -> bool:
        """Whether the partitions have come to where they were to come."""
        written = self._target_written
        return written is not None and self.reached is not None and self.reached >= written

    def begin_step(self, written: int, nbytes: int, own_bytes: int) -> None:
        """Begin to read a snapshot or epochs. A step that was begun before has failed.

        Args:
            written: As `Commit.written` of the epoch that this leads to.
            nbytes: Bytes of its files.
            own_bytes: Those of them that are for the partitions here.
        """
        with self._lock:
            self._step = _Step(written, nbytes, own_bytes)
            self._take_sample()

    def count(self, nbytes: int) -> None:
        """Take note of bytes that were read for the partitions here."""
        with self._lock:
            if self._step is not None:
                self._step.done = min(self._step.done + nbytes, self._step.own_bytes)
                self._take_sample()

    def count_batches(self, batches: Iterable[pa.RecordBatch], nbytes: int) -> Iterator[pa.RecordBatch]:
        """Rows, counted while they are read.

        Args:
            batches: The rows.
            nbytes: The bytes that they are stored as; in memory they may take another number.
        """
        left = nbytes
        for batch in batches:
            yield batch
            counted = min(left, batch.nbytes)
            left -= counted
            self.count(counted)
        self.count(left)

    def end_step(self) -> None:
        """Take note that what was begun has been read and applied."""
        with self._lock:
            if self._step is not None:
                self._done += self._step.nbytes
                self.reached, self._step = self._step.written, None
                self._take_sample()

    def rest(self) -> None:
        """Take note that there is nothing to read: what comes next is counted from 0."""
        if self._done or self._samples:
            with self._lock:
                self._done, self._step = 0, None
                self._samples.clear()

    def progress(self, epoch: Epoch, target: Epoch, snapshot: Epoch | None, share: float) -> Progress:
        """How far the partitions are.

        Args:
            epoch: The epoch that they have reached.
            target: The epoch to which they are to come.
            snapshot: The epoch of the snapshot that is being read; None while commits are.
            share: Which part of the group's bytes is for the partitions here, about.
        """
        with self._lock:
            done, left, clock = self._bytes_done(), self._bytes_left(), self._clock()
            rate = transfer_rate(self._samples, done, clock)
            return Progress(
                epoch,
                target,
                snapshot,
                int(done * share),
                None if left is None else int(left * share),
                None if rate is None else rate * share,
            )

    def _bytes_done(self) -> int:
        return self._done + (0 if self._step is None else self._step.bytes_done)

    def _bytes_left(self) -> int | None:
        step, after = self._step, self.reached
        if step is not None:
            after = step.written
        if self._target_written is None or after is None:
            return None
        behind = max(0, self._target_written - after)
        return behind if step is None else behind + step.nbytes - step.bytes_done

    def _take_sample(self) -> None:
        """Remember what is done now, if it is time to; what is older than any rate is forgotten."""
        clock, samples = self._clock(), self._samples
        if not samples or clock - samples[-1].clock >= SECONDS_BETWEEN_SAMPLES:
            samples.append(Sample(clock, self._bytes_done()))
        while len(samples) > 1 and clock - samples[1].clock >= RATE_SECONDS:
            samples.popleft()
