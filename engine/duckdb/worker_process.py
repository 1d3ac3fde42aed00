"""A process that runs statements for another one, which can kill it.

`engine.duckdb.worker_pool` starts it as `python -m engine.duckdb.worker_process INPUTS`, with one socket as
its standard input, over which it is given jobs and hands rows back, and another with the number INPUTS, over
which it asks for the rows that a statement reads (`engine.duckdb.worker_messages`). It ends when the first
one does.

The kernel refuses it more memory than its engine's limit and some room beside it. The engine reports that as
any lack of memory.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import resource
import secrets
import select
import socket
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path

import duckdb
import pyarrow as pa

from engine.deadline import NO_DEADLINE
from engine.duckdb.binder import Binder
from engine.duckdb.engine import Engine, EngineRows
from engine.duckdb.spill import SpillDirectory
from engine.duckdb.worker_messages import (
    BATCH,
    COLUMNS,
    END,
    FAILURE,
    JOB,
    NEXT,
    PLANNED,
    READY,
    BindJob,
    EngineSettings,
    Job,
    PlanJob,
    RunJob,
    TableRange,
    decode_rows,
    encode_columns,
    encode_failure,
    encode_rows,
    lack_of_memory,
    limit_of,
    receive_tables,
)
from engine.errors import InvalidInput, LimitExceeded

ROOM_BYTES = 96 << 20
"""Memory beside what the engine counts: values that functions make, and rows on their way."""
KEPT_BYTES = 64 << 20
"""What a job may leave behind."""
MOST_ENGINES = 4
"""Engines that are kept: statements of roles with different limits come in turns, and to open one takes as
long as many statements.
"""
BINDING_BYTES = 64 << 20
"""Memory to bind a statement, constants of which are computed meanwhile."""


class Inputs:
    """The rows that statements read, from the process that has them. Safe for threads.

    Args:
        inputs: The socket to that process.
    """

    def __init__(self, inputs: socket.socket) -> None:
        self._socket = inputs
        self._connection = Connection(os.dup(inputs.fileno()))
        self._lock = threading.Lock()
        self._numbers = count()

    def tables(self, ranges: Mapping[str, TableRange]) -> dict[str, pa.Table]:
        """The tables of a job."""
        return receive_tables(self._socket, ranges) if ranges else {}

    def batches(self, name: str) -> Iterator[pa.RecordBatch]:
        """The rows of one reading of a stream.

        Args:
            name: Of the stream.

        Raises:
            EOFError: They broke off.
        """
        ask = NEXT + f"{next(self._numbers)} {name}".encode()
        while True:
            with self._lock:
                self._connection.send_bytes(ask)
                answer = self._connection.recv_bytes()
            if answer[:1] == END:
                return
            if answer[:1] != BATCH:
                raise EOFError("The rows broke off.")
            yield from decode_rows(answer[1:]).to_batches()


class InputStream:
    """An `engine.duckdb.worker_pool.Stream` from the other process, which knows what broke it off."""

    def __init__(self, inputs: Inputs, name: str, schema: pa.Schema) -> None:
        self._inputs = inputs
        self._name = name
        self.schema = schema
        self.error: BaseException | None = None

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        batches = self._inputs.batches(self._name)
        return pa.RecordBatchReader.from_batches(self.schema, batches).__arrow_c_stream__(requested_schema)


class WorkerProcess:
    """Does one job after the other.

    Args:
        jobs: Where they come from, and results go.
        inputs: Rows that they read.
    """

    def __init__(self, jobs: Connection, inputs: Inputs) -> None:
        self._jobs = jobs
        self._inputs = inputs
        # The one that was used last is the last.
        self._engines: OrderedDict[EngineSettings, Engine] = OrderedDict()
        self._binder: Binder | None = None
        self._floor_bytes = _data_bytes()

    def run(self) -> None:
        """Do jobs until there are no more, or one has left this process so large that the next would have
        less memory than it may, or had too little itself for more than its statement.
        """
        self._jobs.send_bytes(READY)
        while True:
            message = self._jobs.recv_bytes()
            if message[:1] != JOB:
                # The end of a result that had ended by itself.
                continue
            job = pickle.loads(message[1:])  # noqa: S301 - from the process that started this one
            try:
                self._do(job)
            except (MemoryError, duckdb.OutOfMemoryException):
                _limit_memory(resource.RLIM_INFINITY)
                self._jobs.send_bytes(FAILURE + encode_failure(lack_of_memory(limit_of(job))))
                # It may have lacked it while it replaced a broken engine.
                return
            except Exception as error:  # noqa: BLE001 - the top of the process: whoever gave the job raises it
                # To say why it failed may take what it lacked.
                _limit_memory(resource.RLIM_INFINITY)
                self._jobs.send_bytes(FAILURE + encode_failure(error))
            _limit_memory(resource.RLIM_INFINITY)
            if _data_bytes() > self._floor_bytes + KEPT_BYTES:
                return
            self._jobs.send_bytes(READY)

    def _do(self, job: Job) -> None:
        if isinstance(job, BindJob | PlanJob):
            self._bind_or_plan(job)
        else:
            self._run_statement(job)

    def _bind_or_plan(self, job: BindJob | PlanJob) -> None:
        if self._binder is None:
            self._binder = Binder(None)
            self._floor_bytes = _data_bytes()
        _limit_memory(self._floor_bytes + BINDING_BYTES + ROOM_BYTES)
        schemas = {name: decode_rows(schema).schema for name, schema in job.tables.items()}
        if isinstance(job, PlanJob):
            seconds = self._binder.planning_seconds(job.sql, schemas, job.values)
            self._jobs.send_bytes(PLANNED + json.dumps(seconds).encode())
            return
        columns = self._binder.columns(job.sql, schemas, job.values)
        self._jobs.send_bytes(COLUMNS + encode_columns(columns, pa.schema([])))

    def _run_statement(self, job: RunJob) -> None:
        engine = self._engine_with(job.settings)
        _limit_memory(self._floor_bytes + job.settings.allowance.nbytes + ROOM_BYTES)
        tables = self._inputs.tables(job.tables)
        streams = {
            name: InputStream(self._inputs, name, decode_rows(schema).schema)
            for name, schema in job.streams.items()
        }
        rows = engine.run(job.sql, {**tables, **streams}, job.parameters, NO_DEADLINE, job.names)
        try:
            self._jobs.send_bytes(COLUMNS + encode_columns(rows.columns, rows.schema))
            self._hand_over(rows)
        finally:
            rows.close()

    def _hand_over(self, rows: EngineRows) -> None:
        """Send rows as they are asked for, until there are no more, or nobody asks."""
        for batch in rows:
            if self._jobs.recv_bytes() != NEXT:
                return
            self._jobs.send_bytes(BATCH + encode_rows(rows.schema, [batch]))
        if self._jobs.recv_bytes() == NEXT:
            self._jobs.send_bytes(END)

    def _engine_with(self, settings: EngineSettings) -> Engine:
        engine = self._engines.pop(settings, None)
        if engine is None:
            if len(self._engines) >= MOST_ENGINES:
                self._engines.popitem(last=False)[1].close()
            spill = _spill_directory(settings)
            allowance = settings.allowance
            engine = Engine(allowance.nbytes, settings.threads, spill, None, allowance.limit)
            self._floor_bytes = _data_bytes()
        self._engines[settings] = engine
        return engine


def _spill_directory(settings: EngineSettings) -> SpillDirectory | None:
    """A directory of an engine's own; None where it does not spill.

    Raises:
        LimitExceeded: The disk takes none.
    """
    if settings.spill_parent is None:
        return None
    try:
        return SpillDirectory(settings.spill_parent / secrets.token_hex(16), settings.spill_limit_bytes)
    except InvalidInput as error:
        raise LimitExceeded(
            "The disk takes nothing of what memory does not hold: ask for less, or free disk space."
        ) from error


def _data_bytes() -> int:
    """Memory of this process that is its own and can be written."""
    found = re.search(r"^VmData:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) << 10


def _limit_memory(limit_bytes: int) -> None:
    """Let this process have so much memory of its own."""
    resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, resource.RLIM_INFINITY))


def _end_with(connection: socket.socket) -> None:
    """End this process, whatever it computes, when the other end of a socket is closed."""
    ends = select.poll()
    ends.register(connection, 0)
    ends.poll()
    os._exit(0)


def main() -> None:
    """Serve the process at the other ends of the sockets."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    inputs = socket.socket(fileno=int(sys.argv[1]))
    threading.Thread(target=_end_with, args=(inputs,), name="livestate-worker-end", daemon=True).start()
    with suppress(EOFError, OSError):
        WorkerProcess(Connection(sys.stdin.fileno()), Inputs(inputs)).run()
    os._exit(0)


if __name__ == "__main__":
    main()
