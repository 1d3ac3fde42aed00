"""What a worker process and the process that started it say to each other.

They are of one installation and live at one time, so that no message carries a version. A message is one
byte, which says what it is, and a body:

| socket | to the worker | from the worker |
|---|---|---|
| first | `JOB` (pickled), `NEXT` batch of the result, `STOP`: no more of it | `COLUMNS` of the result, \
`PLANNED` (seconds), `BATCH`, `END` of them, `FAILURE` (JSON), `READY` for a job |
| inputs | `BATCH`, `END` of a stream, `STOP`: it broke off | `NEXT` batch of a stream (its number and name) |

Rows and schemas are Arrow IPC streams. Tables are such streams too, one behind the other in a file that is in
memory alone, and that is handed over on the second socket before the job: so the engine knows how many rows
they have. What comes from a worker is validated, and never unpickled: it is the worker that is not trusted.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from traceback import format_exception

import pyarrow as pa

from engine import errors
from engine.access.principal import Limit
from engine.duckdb.engine_errors import Allowance, BindingError, Failure, NotBoundError, limit_in_words
from engine.errors import Defect, LimitExceeded, LivestateError
from engine.plan.query_text import ReadColumn

JOB, NEXT, STOP = b"J", b"N", b"S"
COLUMNS, PLANNED, BATCH, END, FAILURE, READY = b"C", b"P", b"B", b"E", b"F", b"R"

_FILE = "/proc/self/fd/{}"
_FILE_SENT = b"T"
_LOGGED_CALLS = 20
_LOGGED_CHARACTERS = 10_000
"""Of the traceback of a defect, the end."""
_KINDS = {
    kind.__name__: kind
    for kind in (
        errors.InvalidInput,
        errors.NotFound,
        errors.Unsupported,
        errors.Unavailable,
        errors.LimitExceeded,
        errors.Defect,
    )
}


TableRange = tuple[int, int]
"""First byte of a table in a file, and the one behind its last."""


@dataclass(frozen=True)
class EngineSettings:
    """How a worker's engine is opened.

    Attributes:
        allowance: What it may take.
        threads: As for `engine.duckdb.engine.Engine`.
        spill_parent: Directory for its spill directory; None: it does not spill.
        spill_limit_bytes: What it may put there.
    """

    allowance: Allowance
    threads: int
    spill_parent: Path | None = None
    spill_limit_bytes: int = 0


@dataclass(frozen=True)
class RunJob:
    """A statement to run.

    Attributes:
        sql: As for `engine.duckdb.engine.Engine.run`.
        tables: Where each table that it reads stands in the file that was handed over, by name.
        streams: Schemas of what else it reads, by name.
        parameters: Values of its parameters.
        names: What the columns of its result are called; None for what the engine calls them.
        settings: Of the engine.
    """

    sql: str
    tables: Mapping[str, TableRange]
    streams: Mapping[str, bytes]
    parameters: Sequence[object]
    names: Sequence[str] | None
    settings: EngineSettings


@dataclass(frozen=True)
class BindJob:
    """A statement whose columns are asked for.

    Attributes:
        sql: As for `engine.duckdb.binder.Binder.columns`.
        tables: Schemas of the tables that it may read, by name.
        values: Values of its parameters.
    """

    sql: str
    tables: Mapping[str, bytes]
    values: Sequence[object] | Mapping[str, object]


@dataclass(frozen=True)
class PlanJob:
    """A statement to plan, and not to run.

    Attributes:
        sql: As for `engine.duckdb.binder.Binder.planning_seconds`.
        tables: Schemas of what it reads, by name.
        values: Values of its parameters.
    """

    sql: str
    tables: Mapping[str, bytes]
    values: Sequence[object] | Mapping[str, object]


Job = RunJob | BindJob | PlanJob


def limit_of(job: Job) -> Limit | None:
    """What the memory of a job is a part of by a role; None: it has as much as anybody's."""
    return job.settings.allowance.limit if isinstance(job, RunJob) else None


def encode_rows(schema: pa.Schema, batches: Iterable[pa.RecordBatch] = ()) -> bytes:
    """Rows as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    rows: bytes = sink.getvalue().to_pybytes()
    return rows


def decode_rows(body: bytes) -> pa.Table:
    """The rows of an Arrow IPC stream, not copied."""
    with pa.ipc.open_stream(body) as reader:
        return reader.read_all()


def write_tables(tables: Mapping[str, pa.Table]) -> tuple[int, dict[str, TableRange]]:
    """Tables in a file that is in memory alone.

    Args:
        tables: The tables, by name.

    Returns:
        The file's number, to be closed by the caller; and where each table stands in it.

    Raises:
        OSError: There is no memory for them.
    """
    file = os.memfd_create("livestate-tables")
    ranges: dict[str, TableRange] = {}
    try:
        with pa.OSFile(_FILE.format(file), "wb") as sink:
            for name, table in tables.items():
                start = sink.tell()
                with pa.ipc.new_stream(sink, table.schema) as writer:
                    writer.write_table(table)
                ranges[name] = start, sink.tell()
    except BaseException:
        os.close(file)
        raise
    return file, ranges


def send_file(connection: socket.socket, file: int) -> None:
    """Hand a file over."""
    socket.send_fds(connection, [_FILE_SENT], [file])


def receive_tables(connection: socket.socket, ranges: Mapping[str, TableRange]) -> dict[str, pa.Table]:
    """The tables of a file that was handed over, not copied."""
    _, files, _, _ = socket.recv_fds(connection, len(_FILE_SENT), 1)
    try:
        with pa.memory_map(_FILE.format(files[0])) as source:
            content = source.read_buffer()
            return {
                name: pa.ipc.open_stream(content.slice(start, stop - start)).read_all()
                for name, (start, stop) in ranges.items()
            }
    finally:
        os.close(files[0])


def encode_columns(columns: Sequence[ReadColumn], schema: pa.Schema) -> bytes:
    """The columns of a result, their names and types first, in JSON and one line."""
    described = json.dumps([[column.name, column.type] for column in columns])
    return described.encode() + b"\n" + encode_rows(schema)


def decode_columns(body: bytes) -> tuple[tuple[ReadColumn, ...], pa.Schema]:
    """What `encode_columns` made."""
    described, _, schema = body.partition(b"\n")
    return tuple(ReadColumn(*column) for column in json.loads(described)), decode_rows(schema).schema


def lack_of_memory(limit: Limit | None = None) -> LimitExceeded:
    """What a statement raises whose process ends, or refuses to go on, for want of memory.

    Args:
        limit: What that is a part of by a role; None: it is as much as anybody's.
    """
    part = "" if limit is None else f", a part of {limit_in_words(limit)}"
    return LimitExceeded(
        f"The statement needs more memory than it may have{part}, or ended the process that it ran in: ask "
        "for less, or for shorter values. If it asks for little, please report it."
    )


def encode_failure(error: Exception) -> bytes:
    """Why a job failed, as JSON. Of what nobody expects, the host's log is to know where it was raised."""
    if isinstance(error, BindingError):
        body: dict[str, object] = {"failure": asdict(error.failure), "near": error.near}
    elif isinstance(error, NotBoundError):
        body = {"unbound": str(error)}
    elif isinstance(error, LivestateError):
        body = {"kind": type(error).__name__, "message": error.message}
    else:
        message = "The query engine failed on this statement; please report the statement."
        body = {"kind": Defect.__name__, "message": message}
    if body.get("kind") == Defect.__name__:
        body["traceback"] = "".join(format_exception(error, limit=_LOGGED_CALLS))[-_LOGGED_CHARACTERS:]
    return json.dumps(body).encode()


def decode_failure(body: bytes) -> Exception:
    """The error to raise for what `encode_failure` made."""
    report = json.loads(body)
    if "failure" in report:
        return BindingError(Failure(**report["failure"]), report["near"])
    if "unbound" in report:
        return NotBoundError(report["unbound"])
    failure = _KINDS.get(report["kind"], Defect)(report["message"])
    if "traceback" in report:
        failure.add_note(report["traceback"][-_LOGGED_CHARACTERS:])
    return failure
