"""Results written to files: whole or not at all, with bounded memory, and with a bar at a terminal."""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO

import pyarrow as pa
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from engine.errors import InvalidInput, LivestateError
from engine.model.quantities import human_bytes, quantity
from flight_server.cli.call_threads import CallThread
from flight_server.cli.render import (
    RowWriter,
    human_seconds,
    terminal,
    write_arrow,
    write_arrow_file,
    write_csv,
    write_json,
    write_parquet,
)
from flight_server.client.client import Client

_FORMAT_OF: Mapping[str, str] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
_STREAM_SUFFIX = ".arrows"
_WRITERS: Mapping[str, RowWriter] = {
    "csv": write_csv,
    "json": write_json,
    "arrow": write_arrow_file,
    "parquet": write_parquet,
}
_LOOK_SECONDS = 0.1
_PATIENCE_SECONDS = 5.0


def format_of(file: Path, given: str | None) -> str:
    """The format of a file to write: what the user says, else what its name ends in.

    Raises:
        InvalidInput: Neither tells, or it is none for files.
    """
    found = given or _FORMAT_OF.get(file.suffix.lower())
    if found is None or found not in _WRITERS:
        what = "A table is for the eye" if found else f"{file.name} does not tell the format of the file"
        raise InvalidInput(f"{what}: say --format parquet, arrow, csv or json.")
    return found


class _Download(CallThread):
    """Writes the rows of a statement to a file; begins with `start`.

    Attributes:
        rows: How many are written.
        nbytes: How many bytes these have in the file.
        error: Why it failed.
    """

    def __init__(self, client: Client, sql: str, writer: RowWriter, out: IO[bytes]) -> None:
        super().__init__("download")
        self.rows = 0
        self.nbytes = 0
        self.error: Exception | None = None
        self._client = client
        self._sql = sql
        self._writer = writer
        self._out = out
        self._call_id = os.urandom(8)

    def run(self) -> None:
        """Read and write, to the end or to the first failure."""
        try:
            rows = self._client.query(self._sql, call_id=self._call_id)
            self._writer(rows.schema, self._count(rows), self._out)
            self._out.flush()
            self.nbytes = os.fstat(self._out.fileno()).st_size
        except Exception as error:  # noqa: BLE001 - whoever waits for it gets it
            self.error = error

    def cancel(self) -> None:
        """Have the host end the statement."""
        with suppress(LivestateError):
            # It may have ended in this moment.
            self._client.cancel(self._call_id)

    def _count(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            self.rows += batch.num_rows
            self.nbytes = os.fstat(self._out.fileno()).st_size


def write_result(client: Client, sql: str, file: Path, file_format: str) -> None:
    """Run a statement, and write its rows to a file that is there when all of them are, with a bar at a
    terminal and a line at the end on standard error.

    Args:
        client: Connection to the host.
        sql: One statement.
        file: The file; one that is there is replaced.
        file_format: Its format, of `format_of`.

    Raises:
        LivestateError: The statement failed, or the file cannot be written.
        KeyboardInterrupt: The user cancelled it.
        SystemExit: SIGTERM ended it.
    """
    writer = write_arrow if file.suffix.lower() == _STREAM_SUFFIX else _WRITERS[file_format]
    console = terminal(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[rows]:,} rows", markup=False),
        TextColumn("{task.fields[size]}", markup=False),
        TimeElapsedColumn(),
    )
    started = time.perf_counter()
    with (
        _termination_raises(),
        _replaced_file(file) as out,
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar,
    ):
        task = bar.add_task(file.name, total=None, rows=0, size="")
        download = _Download(client, sql, writer, out)
        try:
            download.start()
            while download.is_alive():
                download.join(_LOOK_SECONDS)
                bar.update(task, rows=download.rows, size=human_bytes(download.nbytes))
        except (KeyboardInterrupt, SystemExit):
            download.cancel()
            if download.is_alive():
                # It writes to the file until it hears of it.
                download.join(_PATIENCE_SECONDS)
            raise
        if download.error is not None:
            raise download.error
    console.print(
        f"{file.name}: {quantity(download.rows, 'row')}, "
        f"{human_bytes(download.nbytes)} in {human_seconds(time.perf_counter() - started)}.",
    )


@contextmanager
def _termination_raises() -> Iterator[None]:
    """Have SIGTERM end the process by an exception, so that nothing of what was not finished stays."""

    def end(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _replaced_file(file: Path) -> Iterator[IO[bytes]]:
    """A file under another name, which takes the place of this one at the end, unless that fails. What is no
    plain file, such as a pipe, is written as it is.
    """
    try:
        if file.exists() and not file.is_file():
            with file.open("wb") as out:
                yield out
            return
        part = file.with_name(f".{file.name}.{secrets.token_hex(4)}.part")
        try:
            with part.open("xb") as out:
                yield out
                out.flush()
                os.fsync(out.fileno())
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise InvalidInput(f"{file} cannot be written: {error.strerror or error}.") from error
