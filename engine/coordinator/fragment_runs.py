"""What hosts work on for one statement: opened, read, and ended together."""

from __future__ import annotations

import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from engine.cluster.fragments import FragmentRequest, FragmentRows
from engine.cluster.reports import HostName
from engine.deadline import NO_DEADLINE, Deadline
from engine.errors import (
    Cancelled,
    DeadlineExceeded,
    LivestateError,
    NotFound,
    Unavailable,
)
from engine.exec.fallbacks import HOST_REFUSALS

LENT_AFTER_SECONDS = 1.0
"""A statement that has waited for other hosts for so long lends its slot."""
_MISSING = (Unavailable, NotFound)
"""A store, a partition or an epoch is not there, or the host is not."""


class HostFailedError(Exception):
    """A host did not give what it was asked for; another one may.

    Attributes:
        host: The host.
        error: What to tell the client, if no other host can.
    """

    def __init__(self, host: HostName, error: LivestateError) -> None:
        super().__init__(error.message)
        self.host = host
        self.error = error


class RefusedError(Exception):
    """A fragment or a merge was refused, though the statement is right: it must be answered in another way.

    Attributes:
        error: Why.
    """

    def __init__(self, error: LivestateError) -> None:
        super().__init__(error.message)
        self.error = error


class Hosts(Protocol):
    """Where fragments run. Safe for threads."""

    def run(self, host: HostName, request: FragmentRequest, cancelled: Callable[[], bool]) -> FragmentRows:
        """Begin a fragment on a host, on this one without a call, as `Peers.run`."""


@dataclass(frozen=True)
class FragmentRun:
    """A fragment on one host, under way.

    Attributes:
        host: The host.
        rows: Its rows.
    """

    host: HostName
    rows: FragmentRows


class FragmentRuns:
    """The runs of one statement. Whoever ends them, from whatever thread, ends all: reads under way fail,
    and nothing more is begun.

    Args:
        hosts: Where they run.
        deadline: The statement's; it has the slot.
    """

    def __init__(self, hosts: Hosts, deadline: Deadline = NO_DEADLINE) -> None:
        self._hosts = hosts
        self._deadline = deadline
        self._waits_since: float | None = None
        self._begun_here = 0
        self._lock = threading.Lock()
        self._open_runs: Counter[HostName] = Counter()
        self._under_way: dict[int, FragmentRun] = {}
        self._ended = False
        self._cause: BaseException | None = None
        self._listeners: list[Callable[[], None]] = []

    @property
    def has_ended(self) -> bool:
        """Whether they were ended."""
        return self._ended

    @property
    def cause(self) -> BaseException:
        """Why they were ended."""
        return self._cause or Cancelled("The statement was cancelled.")

    def begin_here(self) -> None:
        """A run on this host is to begin: until `end_here` the statement computes while it waits."""
        with self._lock:
            self._begun_here += 1

    def end_here(self) -> None:
        """A run on this host has given what it was waited for."""
        with self._lock:
            self._begun_here -= 1

    @contextmanager
    def note_wait(self) -> Iterator[None]:
        """For a block in which the statement waits for its runs: when it is long, and none of them is here,
        somebody else has its slot meanwhile.

        Raises:
            LivestateError: As `Deadline.reclaim_slot`, behind a block that does not fail.
        """
        with self._lock:
            self._waits_since = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                self._waits_since = None
        self._deadline.reclaim_slot()

    def lend_slot_if_late(self) -> None:
        """Lend the statement's slot, if it waits for other hosts for long; from any thread."""
        with self._lock:
            since = self._waits_since
            if since is not None and not self._begun_here and time.monotonic() - since > LENT_AFTER_SECONDS:
                self._deadline.lend_slot()

    def add_end_listener(self, listener: Callable[[], None]) -> None:
        """Call something, from the thread that ends the runs, when they are ended; at once if they were."""
        with self._lock:
            self._listeners.append(listener)
            ended = self._ended
        if ended:
            listener()

    def open(self, host: HostName, request: FragmentRequest) -> FragmentRun:
        """Begin a fragment on a host.

        Raises:
            HostFailedError: The host does not answer, or not from these partitions at this epoch.
            RefusedError: The host refuses the fragment.
            LivestateError: It failed in another way, or the runs were ended.
        """
        if self.has_ended:
            raise self.cause
        with self._lock:
            self._open_runs[host] += 1
        run = FragmentRun(host, self._start(host, request))
        with self._lock:
            ended = self._ended
            if not ended:
                self._under_way[id(run)] = run
        if ended:
            run.rows.close()
            raise self.cause
        return run

    def _start(self, host: HostName, request: FragmentRequest) -> FragmentRows:
        try:
            return self._hosts.run(host, request, lambda: self._ended)
        except LivestateError as error:
            if self._is_final(error):
                raise
            raise self._translate(host, error) from error

    def _is_final(self, error: LivestateError) -> bool:
        """Whether a failure at a host is the statement's as it is: one that is raised from itself is a cycle,
        with all that its traceback holds.
        """
        is_translated = self._is_out_of_time(error) or isinstance(error, _MISSING + HOST_REFUSALS)
        return error is self._cause or not (self._ended or is_translated)

    def _is_out_of_time(self, error: LivestateError) -> bool:
        """Whether a host had no time left: it knows of what was left of the statement's alone."""
        return isinstance(error, DeadlineExceeded) and self._deadline.at is not None

    def _translate(self, host: HostName, error: LivestateError) -> BaseException:
        """What another failure at a host means to the statement."""
        if self._ended:
            return self.cause
        if self._is_out_of_time(error):
            return self.deadline_error(self._deadline.time_error())
        return HostFailedError(host, error) if isinstance(error, _MISSING) else RefusedError(error)

    def batches(self, run: FragmentRun) -> Iterator[pa.RecordBatch]:
        """The rows of a run.

        Raises:
            HostFailedError: The host failed underway.
            RefusedError: The engine of the host refused something about the rows.
            LivestateError: It failed in another way, or the runs were ended.
        """
        try:
            yield from run.rows
        except LivestateError as error:
            if self._is_final(error):
                raise
            raise self._translate(run.host, error) from error
        if self._ended:
            # Rows that were cut off must not look like all there are.
            raise self.cause
        self.finish(run)

    def finish(self, run: FragmentRun) -> None:
        """Close a run that was read."""
        with self._lock:
            if self._under_way.pop(id(run), None) is not None:
                self._open_runs[run.host] -= 1
        run.rows.close()

    def deadline_error(self, error: LivestateError) -> LivestateError:
        """Why the runs are ended, and by whom: a time-out names the hosts that have not given all their
        rows.
        """
        with self._lock:
            late = sorted(host for host, runs in self._open_runs.items() if runs)
        if not (isinstance(error, DeadlineExceeded) and late):
            return error
        return DeadlineExceeded(
            f"{error.message.rstrip('.')}. It waited for {'host' if len(late) == 1 else 'hosts'} "
            f"{', '.join(late)}."
        )

    def end(self, cause: BaseException | None = None) -> None:
        """End all runs.

        Args:
            cause: Why; the first one counts. None: nobody wants them any more.
        """
        with self._lock:
            if self._ended:
                return
            self._ended, self._cause = True, cause
            runs, self._under_way = list(self._under_way.values()), {}
            listeners = list(self._listeners)
        for run in runs:
            run.rows.close()
        for listener in listeners:
            listener()

    def interrupt(self) -> None:
        """End all runs: nobody wants them any more."""
        self.end()

    def forget(self) -> None:
        """Let go of the cause, when all is over: its traceback holds the rows that were gathered, and these
        runs.
        """
        with self._lock:
            self._cause = None
            self._listeners.clear()


def clear_tracebacks(error: BaseException) -> None:
    """Clear what an error's traceback holds, and those of its causes: rows that were gathered, for one.

    Errors that refer to each other, as a refusal and its reason, are cycles, which only a garbage collection
    would free.

    Args:
        error: It has left all functions whose variables are to be cleared.
    """
    waiting, seen = [error], set[int]()
    while waiting:
        found = waiting.pop()
        if id(found) not in seen:
            seen.add(id(found))
            traceback.clear_frames(found.__traceback__)
            waiting += [other for other in (found.__cause__, found.__context__) if other is not None]


def stopping_error() -> Unavailable:
    """Why a host that stops answers nothing any more."""
    return Unavailable("The host is stopping; ask again later, or another host.")
