"""Processes in which statements run that this one could not end or bound (`engine.duckdb.growth`)."""

from __future__ import annotations

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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from engine.duckdb.deadline import POLL_SECONDS, Deadline
from engine.duckdb.worker_messages import (
    BATCH,
    END,
    FAILURE,
    JOB,
    NEXT,
    READY,
    STOP,
    BindJob,
    RunJob,
    decode_columns,
    decode_failure,
    decode_rows,
    encode_rows,
    send_tables,
)
from engine.errors import Defect, LimitExceeded, Unavailable
from engine.plan.query_text import ReadColumn
from engine.processes.children import python_environment

MAX_WORKERS = 2
"""Statements that run in processes at once, for those that read streams of other hosts and for the others
each: the former may wait for the latter.
"""
MAX_IDLE = 2
"""Processes that are kept for the next statement."""
TABLE_BYTES = 128 << 20
"""Tables up to this size are handed over as a copy; others block by block as they are read, so that the
engine does not know how many rows they have.
"""
_ROWS = 122_880
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
    """A process, by the sockets to it. Not safe for several threads, but for `kill`."""

    def __init__(self) -> None:
        jobs, their_jobs = socket.socketpair()
        inputs, their_inputs = socket.socketpair()
        with their_jobs, their_inputs:
            self._process = subprocess.Popen(  # noqa: S603  the command is made here
                [sys.executable, "-m", "engine.duckdb.worker_process", str(their_inputs.fileno())],
                stdin=their_jobs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[their_inputs.fileno()],
                env={**python_environment(), "ARROW_DEFAULT_MEMORY_POOL": "system"},
                # What ends this process's group by a key must not end its statements with a defect.
                start_new_session=True,
            )
        self.tables = inputs
        self.jobs, self.inputs = Connection(jobs.detach()), Connection(os.dup(inputs.fileno()))
        self._spill_directories: dict[Path, Path] = {}

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def spill_directory(self, parent: Path) -> Path:
        """A directory for what this process spills, removed with it.

        Args:
            parent: Where it stands.
        """
        return self._spill_directories.setdefault(parent, parent / f"worker-{secrets.token_hex(16)}")

    def kill(self) -> None:
        """End the process, from any thread, whatever it does. May be called again."""
        self._process.kill()

    def signal_of_end(self) -> int:
        """The signal that ended the process, which does not answer; 0 if it ended by itself."""
        try:
            status = self._process.wait(_MOMENT_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            status = self._process.wait()
        return max(0, -status)

    def close(self) -> None:
        """End it and free what it holds."""
        self.kill()
        self._process.wait()
        self.jobs.close()
        self.inputs.close()
        self.tables.close()
        for directory in self._spill_directories.values():
            shutil.rmtree(directory, ignore_errors=True)


class WorkerPool:
    """Workers, as many as there are statements for them, and some that wait for the next. Safe for threads.

    Args:
        size: Statements of a kind at once: of those that read other hosts' streams, and of the others.
        patience_seconds: How long one waits that has no time-out.
    """

    def __init__(self, size: int = MAX_WORKERS, patience_seconds: float = 30.0) -> None:
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._patience_seconds = patience_seconds
        self._slots = {reads_hosts: threading.BoundedSemaphore(size) for reads_hosts in (False, True)}

    def take(self, deadline: Deadline, *, reads_hosts: bool = False) -> Worker:
        """A worker, to be given back.

        Args:
            deadline: Of the statement.
            reads_hosts: Whether it reads streams of other hosts.

        Raises:
            LivestateError: The statement must end before there is one, as `Deadline.check`.
            Unavailable: It has waited for long.
        """
        slots, tries_until = self._slots[reads_hosts], time.monotonic() + self._patience_seconds
        while not slots.acquire(timeout=POLL_SECONDS):
            deadline.check()
            if deadline.at is None and time.monotonic() > tries_until:
                raise Unavailable(
                    "Too many statements that make long values or lists are running: try again."
                )
        try:
            return self._idle_worker() or Worker()
        except BaseException:
            slots.release()
            raise

    def _idle_worker(self) -> Worker | None:
        with self._lock:
            while self._idle:
                worker = self._idle.pop()
                if not worker.has_ended:
                    return worker
                worker.close()
        return None

    def give_back(self, worker: Worker, *, is_ready: bool, reads_hosts: bool = False) -> None:
        """Let others have a worker.

        Args:
            worker: The worker.
            is_ready: Whether it waits for a job; if not, it is ended.
            reads_hosts: As it was taken.
        """
        with self._lock:
            is_kept = is_ready and len(self._idle) < MAX_IDLE
            if is_kept:
                self._idle.append(worker)
        if not is_kept:
            worker.close()
        self._slots[reads_hosts].release()

    def close(self) -> None:
        """End the workers that wait. Others are started where they are needed."""
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.close()


WORKERS = WorkerPool()
"""Of this process: workers know nothing of a statement once it is over."""


class WorkerSession:
    """A job in a worker, from taking one to giving it back. Not safe for several threads, but for `kill`.

    Args:
        pool: Where the worker comes from.
        deadline: When the statement must end.
        streams: What it reads as it comes, by name.
        reads_hosts: Whether streams of other hosts are among them.

    Raises:
        LivestateError: As `WorkerPool.take`.
    """

    def __init__(
        self,
        pool: WorkerPool,
        deadline: Deadline,
        streams: Mapping[str, pa.Table | Stream],
        *,
        reads_hosts: bool = False,
    ) -> None:
        self._pool = pool
        self._deadline = deadline
        self._streams = streams
        self._reads_hosts = reads_hosts
        self._readings: dict[bytes, Iterator[pa.RecordBatch]] = {}
        self._worker = pool.take(deadline, reads_hosts=reads_hosts)
        self._is_open = True

    def spill_directory(self, parent: Path) -> Path:
        """As `Worker.spill_directory`."""
        return self._worker.spill_directory(parent)

    def kill(self) -> None:
        """End the job from any thread: whoever waits for it gets an error."""
        self._worker.kill()

    def begin(self, job: RunJob | BindJob, tables: Iterable[pa.Table] = ()) -> tuple[bytes, bytes]:
        """Give the worker its job.

        Args:
            job: The job.
            tables: What it reads whole.

        Returns:
            As `call`.

        Raises:
            LivestateError: As `call`.
            BaseException: As `call`.
        """
        try:
            send_tables(self._worker.tables, tables)
        except OSError as error:
            raise self._loss() from error
        return self.call(JOB, pickle.dumps(job))

    def call(self, request: bytes, *body: bytes) -> tuple[bytes, bytes]:
        """Say something to the worker, and wait for what it answers.

        Args:
            request: What kind of message it is.
            body: Its body.

        Returns:
            Kind and body of the answer.

        Raises:
            LivestateError: The statement must end, or has ended its process.
            BaseException: What broke off a stream that it reads, or else why it failed.
        """
        try:
            self._worker.jobs.send_bytes(b"".join([request, *body]))
            message = self._message(self._next_rows)
        except (EOFError, OSError) as error:
            raise self._loss() from error
        kind, answer = message[:1], message[1:]
        if kind == FAILURE:
            raise self._cause() or decode_failure(answer)
        return kind, answer

    def _message(
        self, answer_input: Callable[[bytes], bytes], patience_seconds: float | None = None
    ) -> bytes:
        """What the worker says next; until then its wishes for rows are answered.

        Raises:
            EOFError: It is gone.
            TimeoutError: It said nothing in time.
            LivestateError: The statement must end.
        """
        ends_at = None if patience_seconds is None else time.monotonic() + patience_seconds
        jobs, inputs = self._worker.jobs, self._worker.inputs
        while True:
            ready = wait([jobs, inputs], POLL_SECONDS)
            if ends_at is not None:
                if not ready and time.monotonic() > ends_at:
                    raise TimeoutError
            else:
                self._deadline.check()
            if jobs in ready:
                return jobs.recv_bytes()
            if inputs in ready:
                inputs.send_bytes(answer_input(inputs.recv_bytes()))

    def _next_rows(self, wish: bytes) -> bytes:
        """Rows of a reading of a stream."""
        number_and_name = wish[1:]
        if number_and_name not in self._readings:
            name = number_and_name.split(b" ", 1)[1].decode()
            self._readings[number_and_name] = _batches(self._streams[name])
        try:
            batch = next(self._readings[number_and_name], None)
        except pa.ArrowException as error:
            raise self._cause() or error from error
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
        ended_by = self._worker.signal_of_end()
        _log.warning("The process of a statement ended, by signal %d.", ended_by)
        if ended_by == signal.SIGSEGV:
            return Defect("The query engine broke on this statement; please report the statement.")
        return LimitExceeded(
            "The statement needs more memory than it may have: ask for less, or for shorter values."
        )

    def close(self) -> None:
        """Give the worker back. May be called again."""
        if not self._is_open:
            return
        self._is_open = False
        self._readings.clear()
        is_ready = False
        try:
            is_ready = self._is_ready_soon()
        finally:
            self._pool.give_back(self._worker, is_ready=is_ready, reads_hosts=self._reads_hosts)

    def _is_ready_soon(self) -> bool:
        """Tell the worker that this was all."""
        try:
            self._worker.jobs.send_bytes(STOP)
            while self._message(lambda _: STOP, _MOMENT_SECONDS)[:1] != READY:
                pass
        except (EOFError, OSError):
            return False
        return True


def _batches(stream: pa.Table | Stream) -> Iterator[pa.RecordBatch]:
    if isinstance(stream, pa.Table):
        return iter(stream.to_batches(max_chunksize=_ROWS))
    return iter(pa.RecordBatchReader.from_stream(stream))


class WorkerRows:
    """A statement that runs in a worker: its columns and batches, as `engine.duckdb.engine.EngineRows`.

    Args:
        pool: Where the worker comes from.
        job: The statement; what the worker has to know of its tables, and its spill directory, are added.
        tables: What it reads.
        deadline: When it must end.
        reads_hosts: Whether it reads streams of other hosts.

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
        *,
        reads_hosts: bool,
    ) -> None:
        streams = {
            name: table
            for name, table in tables.items()
            if not isinstance(table, pa.Table) or table.nbytes > TABLE_BYTES
        }
        whole = {name: table for name, table in tables.items() if name not in streams}
        schemas = {name: encode_rows(table.schema) for name, table in streams.items()}
        self._session = WorkerSession(pool, deadline, streams, reads_hosts=reads_hosts)
        with ExitStack() as unless_begun:
            unless_begun.callback(self.close)
            settings = job.settings
            if settings.spill_parent is not None:
                settings = replace(
                    settings, spill_parent=self._session.spill_directory(settings.spill_parent)
                )
            job = replace(job, tables=tuple(whole), streams=schemas, settings=settings)
            _, answer = self._session.begin(job, whole.values())
            self.columns, self.schema = decode_columns(answer)
            unless_begun.pop_all()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while True:
            kind, rows = self._session.call(NEXT)
            if kind == END:
                return
            yield from decode_rows(rows).to_batches()

    def interrupt(self) -> None:
        """End the statement from another thread: its next batch is an error."""
        self._session.kill()

    def close(self) -> None:
        """End the statement and free what it holds. May be called again."""
        self._session.close()


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
        _, answer = session.begin(job)
        return decode_columns(answer)[0]
    finally:
        session.close()
