"""Processes in which statements run that this one could not end or bound (`engine.duckdb.growth`).

They are started where they are needed, know nothing of a statement once it is over, and wait for the next one
then, whichever engine of this process has it.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from engine.access.principal import Limit
from engine.deadline import POLL_SECONDS, Deadline, DeadlineWatcher
from engine.duckdb.worker_memory import WorkerShare
from engine.duckdb.worker_messages import (
    BATCH,
    END,
    FAILURE,
    JOB,
    NEXT,
    READY,
    STOP,
    BindJob,
    Job,
    PlanJob,
    RunJob,
    TableRange,
    decode_columns,
    decode_failure,
    decode_rows,
    encode_rows,
    lack_of_memory,
    limit_of,
    send_file,
    write_tables,
)
from engine.errors import Defect, LimitExceeded, Unavailable
from engine.model.damaged_rows import check_rows
from engine.plan.query_text import ReadColumn
from engine.processes.children import python_environment
from engine.processes.scheduling import lower_priority

MAX_WORKERS = 16
"""Statements and fragments of an engine that run in processes at once. Fragments of one statement wait for
each other with their first rows read, so that a small limit would be met by one statement alone.
"""
MAX_IDLE = 2
"""Processes that are kept for the next statement."""
WAIT_SECONDS = 0.25
"""How long a statement waits for a process that others use before it has another one started, where so many
run that the new one would not be kept: a start takes half a second of a processor, most jobs milliseconds.
"""
SHARED_BYTES = 32 << 20
"""Tables of a statement that its process is given as such, together: copies that count for nobody. The others
it reads block by block, without the number of their rows.
"""
WORKER_NICENESS = 5
"""Whoever asks for little goes first."""
ALLOCATORS = {"ARROW_DEFAULT_MEMORY_POOL": "system", "DUCKDB_JE_MALLOC_CONF": "narenas:1"}
"""Variables of a process. With one arena, which is there before the process gets its limit, a thread needs no
other one: the engine's jemalloc ends the process by SIGSEGV where it has no memory for that.
"""
CRASH = "The process of a statement was ended by a signal: %s."
_WANT_OF_MEMORY = (signal.SIGABRT, signal.SIGKILL)
"""How a process ends that is refused memory, or is the system's choice when there is none."""
NO_THREAD_MEMORY = 127
"""The exit status of a process that has no memory for a new thread's variables: so the C library ends it,
with a line of its own.
"""
_STREAMED_ROWS = 122_880
_MOMENT_SECONDS = 0.1
"""How long a process may take to be ready for the next statement once it is told that this one is over."""

_log = logging.getLogger(__name__)


class Stream(Protocol):
    """Rows that the engine reads as they come. What breaks them off crosses the engine as text; the engine's
    caller takes it from here.
    """

    @property
    def schema(self) -> pa.Schema:
        """Schema of the rows."""

    @property
    def error(self) -> BaseException | None:
        """What broke them off; None while nothing has."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows by Arrow's PyCapsule interface. Nothing is read before the first batch is asked for."""


class Worker:
    """A process, by the sockets to it. Not safe for several threads, but for `kill`.

    Attributes:
        is_starting: It has not said yet that it can take a job.

    Raises:
        Unavailable: It could not be started.
    """

    def __init__(self) -> None:
        try:
            jobs, their_jobs = socket.socketpair()
            inputs, their_inputs = socket.socketpair()
            with their_jobs, their_inputs:
                self._process = subprocess.Popen(  # noqa: S603  the command is made here
                    [sys.executable, "-m", "engine.duckdb.worker_process", str(their_inputs.fileno())],
                    stdin=their_jobs.fileno(),
                    stdout=subprocess.DEVNULL,
                    pass_fds=[their_inputs.fileno()],
                    env={**python_environment(), **ALLOCATORS},
                    # What ends this process's group by a key is not to end its statements one by one.
                    start_new_session=True,
                )
            # From its start on, which takes half a second of a processor.
            lower_priority(self._process.pid, WORKER_NICENESS)
            self.jobs, self.inputs = Connection(jobs.detach()), Connection(os.dup(inputs.fileno()))
            self.files = inputs
        except OSError as error:
            raise Unavailable(
                "The host could not start the process for this statement: try again later."
            ) from error
        self._spill_directories: dict[Path, Path] = {}
        self._is_killed = False
        self.is_starting = True

    def wait_for_start(self, deadline: Deadline) -> None:
        """Wait until it can take a job.

        Args:
            deadline: Of the statement that waits.

        Raises:
            LivestateError: The statement must end before. The process goes on with its start.
            EOFError: It is gone.
            OSError: Likewise.
        """
        while self.is_starting:
            if self.jobs.poll(POLL_SECONDS):
                self.is_starting = self.jobs.recv_bytes() != READY
            else:
                deadline.check()

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone, or about to go: on a busy machine that takes its time, and what it has
        said before can still be read.
        """
        return self._is_killed or self._process.poll() is not None

    def spill_directory(self, parent: Path) -> Path:
        """A directory for what this process spills, removed with it.

        Args:
            parent: Where it stands.
        """
        return self._spill_directories.setdefault(parent, parent / f"worker-{secrets.token_hex(16)}")

    def kill(self) -> None:
        """End the process, from any thread, whatever it does. May be called again."""
        self._is_killed = True
        self._process.kill()

    def end_status(self) -> int:
        """How the process ended, which does not answer: its exit status, or a signal's number below 0."""
        try:
            status: int = self._process.wait(_MOMENT_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            status = self._process.wait()
        return status

    def close(self) -> None:
        """End it and free what it holds."""
        self.kill()
        self._process.wait()
        self.jobs.close()
        self.inputs.close()
        self.files.close()
        for directory in self._spill_directories.values():
            shutil.rmtree(directory, ignore_errors=True)


class IdleWorkers:
    """Workers that wait for a job. Safe for threads, and for finalizers, which run amidst anything: there is
    no lock.
    """

    def __init__(self) -> None:
        self._workers: deque[Worker] = deque()

    def take(self) -> Worker | None:
        """One of them; None if none waits."""
        while True:
            try:
                worker = self._workers.pop()
            except IndexError:
                return None
            if not worker.has_ended:
                return worker
            worker.close()

    def keep(self, worker: Worker) -> None:
        """Have one wait for a job, or end it if enough do."""
        if len(self._workers) < MAX_IDLE:
            # Who comes next takes one that is ready, if there is one.
            (self._workers.appendleft if worker.is_starting else self._workers.append)(worker)
        else:
            worker.close()

    def forget(self) -> None:
        """Let go of them without a word: they are another process's."""
        self._workers = deque()

    def close(self) -> None:
        """End them. Others are started where they are needed."""
        while (worker := self.take()) is not None:
            worker.close()


IDLE_WORKERS = IdleWorkers()
"""Of this process."""
os.register_at_fork(after_in_child=IDLE_WORKERS.forget)


class WorkerPool:
    """The workers of an engine. Safe for threads.

    Args:
        idle: Those that wait for a job of any engine.
        size: How many may work for this one at once.
        patience_seconds: The longest wait for one.
    """

    def __init__(self, idle: IdleWorkers, size: int = MAX_WORKERS, patience_seconds: float = 30.0) -> None:
        self._idle = idle
        self._size = size
        self._patience_seconds = patience_seconds
        # Reentrant, as finalizers give workers back.
        self._changed = threading.Condition(threading.RLock())
        self._busy = 0

    def take(self, deadline: Deadline) -> Worker:
        """A worker, to be given back.

        Args:
            deadline: Of the statement.

        Raises:
            LivestateError: The statement must end before there is one, as `Deadline.check`.
            LimitExceeded: It has waited for long.
            Unavailable: None could be started.
        """
        ends_at = time.monotonic() + self._patience_seconds
        with self._changed:
            while self._busy >= self._size:
                deadline.check()
                if time.monotonic() > ends_at:
                    raise LimitExceeded(
                        f"{self._size} statements that make long values run already: try again later."
                    )
                self._changed.wait(POLL_SECONDS)
            self._busy += 1
        try:
            return self._idle.take() or self._awaited_worker(deadline) or Worker()
        except BaseException:
            self._free_slot()
            raise

    def _awaited_worker(self, deadline: Deadline) -> Worker | None:
        """One that another statement gives back soon; None if none does, or it is no use to wait for it.

        Raises:
            LivestateError: The statement must end before, as `Deadline.check`.
        """
        ends_at = time.monotonic() + WAIT_SECONDS
        worker: Worker | None = None
        with self._changed:
            while worker is None and self._busy > MAX_IDLE and time.monotonic() < ends_at:
                self._changed.wait(POLL_SECONDS)
                deadline.check()
                worker = self._idle.take()
        return worker

    def give_back(self, worker: Worker, *, is_ready: bool) -> None:
        """Let others have a worker.

        Args:
            worker: The worker.
            is_ready: Whether it waits for a job; if not, it is ended.
        """
        try:
            if is_ready:
                self._idle.keep(worker)
            else:
                worker.close()
        finally:
            self._free_slot()

    def _free_slot(self) -> None:
        with self._changed:
            self._busy -= 1
            self._changed.notify()


class WorkerSession:
    """A job in a worker, from taking one to giving it back. Not safe for several threads, but for `kill`.

    Args:
        pool: Where the worker comes from.
        deadline: When the statement must end.
        streams: What it reads as it comes, by name.

    Raises:
        LivestateError: As `WorkerPool.take`.
    """

    def __init__(
        self, pool: WorkerPool, deadline: Deadline, streams: Mapping[str, pa.Table | Stream]
    ) -> None:
        self._pool = pool
        self._deadline = deadline
        self._streams = streams
        self._readings: dict[bytes, Iterator[pa.RecordBatch]] = {}
        self._limit: Limit | None = None
        self._worker = pool.take(deadline)
        # Reentrant, as finalizers close results.
        self._lock = threading.RLock()
        self._is_open = True

    def spill_directory(self, parent: Path) -> Path:
        """As `Worker.spill_directory`."""
        return self._worker.spill_directory(parent)

    def kill(self) -> None:
        """End the job from any thread: whoever waits for it gets an error. Does nothing once it is over."""
        with self._lock:
            # One that still starts has no job yet, and who waits for it looks at the time.
            if self._is_open and not self._worker.is_starting:
                self._worker.kill()

    def begin(self, job: Job, file: int | None = None) -> bytes:
        """Give the worker its job.

        Args:
            job: The job.
            file: The tables that it reads.

        Returns:
            What it answers.

        Raises:
            LivestateError: As `call`.
            BaseException: As `call`.
        """
        self._limit = limit_of(job)
        try:
            self._worker.wait_for_start(self._deadline)
            if file is not None:
                send_file(self._worker.files, file)
        except (EOFError, OSError) as error:
            raise self._loss() from error
        return self.call(JOB, pickle.dumps(job))[1]

    def call(self, kind: bytes, body: bytes = b"") -> tuple[bytes, bytes]:
        """Say something to the worker, and wait for what it answers.

        Args:
            kind: What kind of message it is.
            body: Its body.

        Returns:
            Kind and body of the answer.

        Raises:
            LivestateError: The statement must end, or has ended its process.
            BaseException: What broke off a stream that it reads, or else why it failed.
        """
        try:
            with suppress(OSError):
                # One that is gone may have said why.
                self._worker.jobs.send_bytes(kind + body)
            message = self._receive(self._next_rows)
        except (EOFError, OSError) as error:
            raise self._loss() from error
        if message[:1] == FAILURE:
            raise self._cause() or decode_failure(message[1:])
        return message[:1], message[1:]

    def _receive(
        self, answer_input: Callable[[bytes], bytes], patience_seconds: float | None = None
    ) -> bytes:
        """What the worker says next; until then, it gets the rows that it asks for.

        Raises:
            EOFError: It is gone.
            TimeoutError: It said nothing in time.
            LivestateError: The statement must end.
        """
        ends_at = None if patience_seconds is None else time.monotonic() + patience_seconds
        jobs, inputs = self._worker.jobs, self._worker.inputs
        while True:
            ready = wait([jobs, inputs], POLL_SECONDS)
            if ends_at is None:
                if self._deadline.error() is not None:
                    # It computes, and would not hear that it may stop.
                    self.kill()
                self._deadline.check()
            elif not ready and time.monotonic() > ends_at:
                raise TimeoutError
            if jobs in ready:
                return jobs.recv_bytes()
            if inputs in ready:
                inputs.send_bytes(answer_input(inputs.recv_bytes()))

    def _next_rows(self, request: bytes) -> bytes:
        """Rows of a reading of a stream."""
        number_and_name = request[1:]
        if number_and_name not in self._readings:
            name = number_and_name.split(b" ", 1)[1].decode()
            self._readings[number_and_name] = _batches(self._streams[name])
        try:
            batch = next(self._readings[number_and_name], None)
        except pa.ArrowException as error:
            raise self._cause() or Defect(
                "Rows that a statement reads could not be handed to its process; please report the statement."
            ) from error
        return END if batch is None else BATCH + encode_rows(batch.schema, [batch])

    def _cause(self) -> BaseException | None:
        """What made a job fail that lies outside of it."""
        for stream in self._streams.values():
            if not isinstance(stream, pa.Table) and stream.error is not None:
                return stream.error
        return self._deadline.error()

    def _loss(self) -> BaseException:
        """What to raise where the worker is gone."""
        cause = self._cause()
        if cause is not None:
            return cause
        status = self._worker.end_status()
        if status < 0:
            is_expected = -status in _WANT_OF_MEMORY
            _log.log(logging.WARNING if is_expected else logging.ERROR, CRASH, signal.strsignal(-status))
            return lack_of_memory(self._limit)
        _log.warning("The process of a statement ended with status %d.", status)
        if status == NO_THREAD_MEMORY:
            return lack_of_memory(self._limit)
        return Unavailable("The process that this statement ran in ended: try again, or see the host's log.")

    def close(self) -> None:
        """Give the worker back. May be called again."""
        with self._lock:
            if not self._is_open:
                return
            self._is_open = False
        self._readings.clear()
        is_ready = False
        try:
            is_ready = self._is_ready_soon()
        finally:
            self._pool.give_back(self._worker, is_ready=is_ready)

    def _is_ready_soon(self) -> bool:
        """Tell the worker that this was all. One that still starts knows of nothing: on a busy machine that
        takes longer than many statements may, and who comes next need not begin anew.
        """
        if self._worker.is_starting:
            return not self._worker.has_ended
        try:
            self._worker.jobs.send_bytes(STOP)
            while self._receive(lambda _: STOP, _MOMENT_SECONDS)[:1] != READY:
                pass
        except (EOFError, OSError):
            return False
        # Its time may have been over when it was ready.
        return not self._worker.has_ended


def _batches(stream: pa.Table | Stream) -> Iterator[pa.RecordBatch]:
    if isinstance(stream, pa.Table):
        return iter(stream.to_batches(max_chunksize=_STREAMED_ROWS))
    return iter(pa.RecordBatchReader.from_stream(stream))


class WorkerRows:
    """A statement that runs in a worker: its columns and batches, as `engine.duckdb.engine.EngineRows`.

    Args:
        pool: Where the worker comes from.
        job: The statement; where its tables stand, and a spill directory of the worker's own, are added.
        tables: What it reads.
        deadline: When it must end.
        watcher: Ends it then, also while nobody asks for rows.
        share: What the worker may take; given back at the end.

    Attributes:
        columns: Names of its columns and the engine's own types.
        schema: Schema of its batches.
    """

    def __init__(
        self,
        pool: WorkerPool,
        job: RunJob,
        tables: Mapping[str, pa.Table | Stream],
        deadline: Deadline,
        watcher: DeadlineWatcher,
        share: WorkerShare,
    ) -> None:
        self._share = share
        shared = _shared_tables(tables)
        streams = {name: table for name, table in tables.items() if name not in shared}
        self._session = WorkerSession(pool, deadline, streams)
        self._watch = watcher.watch(deadline, self._session.kill)
        with ExitStack() as unless_begun, ExitStack() as files:
            unless_begun.callback(self.close)
            self._watch.__enter__()
            settings = job.settings
            if settings.spill_parent is not None:
                settings = replace(
                    settings, spill_parent=self._session.spill_directory(settings.spill_parent)
                )
            file: int | None = None
            ranges: Mapping[str, TableRange] = {}
            if shared:
                try:
                    file, ranges = write_tables(shared)
                except OSError as error:
                    raise lack_of_memory() from error
                files.callback(os.close, file)
            schemas = {name: encode_rows(table.schema) for name, table in streams.items()}
            job = replace(job, tables=ranges, streams=schemas, settings=settings)
            self.columns, self.schema = decode_columns(self._session.begin(job, file))
            unless_begun.pop_all()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while True:
            kind, body = self._session.call(NEXT)
            if kind == END:
                return
            rows = decode_rows(body)
            check_rows(rows)
            yield from rows.to_batches()

    def interrupt(self) -> None:
        """End the statement from another thread: its next batch is an error."""
        self._session.kill()

    def close(self) -> None:
        """End the statement and free what it holds. May be called again."""
        self._watch.__exit__(None, None, None)
        self._session.close()
        self._share.give()


def _shared_tables(tables: Mapping[str, pa.Table | Stream]) -> Mapping[str, pa.Table]:
    """The smallest tables, as many as may be shared together."""
    whole = [(name, table) for name, table in tables.items() if isinstance(table, pa.Table)]
    shared, left = {}, SHARED_BYTES
    for name, table in sorted(whole, key=lambda item: item[1].nbytes):
        left -= table.nbytes
        if left < 0:
            break
        shared[name] = table
    return shared


def planning_seconds(pool: WorkerPool, job: PlanJob, deadline: Deadline) -> float:
    """The processor time in which the engine plans a statement over empty tables, in a worker.

    Args:
        pool: Where the worker comes from.
        job: The statement.
        deadline: When it must end.

    Returns:
        Seconds.

    Raises:
        NotBoundError: The engine refuses it.
        LivestateError: It must end, or ended its process.
    """
    session = WorkerSession(pool, deadline, {})
    try:
        return float(json.loads(session.begin(job)))
    finally:
        session.close()


def bound_columns(pool: WorkerPool, job: BindJob, deadline: Deadline) -> tuple[ReadColumn, ...]:
    """The columns of a statement, bound in a worker.

    Args:
        pool: Where the worker comes from.
        job: The statement.
        deadline: When it must end.

    Returns:
        The columns.

    Raises:
        NotBoundError: The engine refuses it.
        LivestateError: It must end, or ended its process.
    """
    session = WorkerSession(pool, deadline, {})
    try:
        return decode_columns(session.begin(job))[0]
    finally:
        session.close()
