"""The audit log: who asked what, and what came of it. A JSON object a line, for other programs to read."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from engine.access.principal import Principal
from engine.errors import InvalidInput, LivestateError
from engine.exec.query_result import QueryMetadata, QueryResult
from engine.telemetry.statement_ids import statement_id
from flight_server.server.slow_statements import RunStatement, log_if_slow
from flight_server.server.statement_meter import StatementMeter
from flight_server.wire.boundary import kind_name

LONGEST_SQL = 10_000
"""Characters of a statement that are kept; its digest is of all."""
OK = "ok"
_WITHOUT_STATEMENTS = frozenset({"refused", "reload"})
"""Events whose errors are about credentials."""

_log = logging.getLogger(__name__)


class AuditLog:
    """Writes events. Safe for threads. The file may be moved away at any time, and is made anew then.

    Who asks does not suffer from a line that cannot be written: the host's own log tells of it.

    Args:
        file: Where; it is made for its owner alone.
        has_texts: Whether statements are written, and not their digests alone.

    Attributes:
        has_texts: As the argument.

    Raises:
        InvalidInput: It cannot be written.
    """

    def __init__(self, file: Path, *, has_texts: bool = True) -> None:
        self.has_texts = has_texts
        try:
            self._file = _AppendedFile(file)
        except OSError as error:
            raise InvalidInput(f"The audit log cannot be written: {error.strerror}.") from error

    def write(self, event: str, principal: Principal, peer: str, facts: Mapping[str, Any]) -> None:
        """Write a line.

        Args:
            event: What happened: `statement`, `keys`, `action`, `refused`, `reload`.
            principal: Who did it.
            peer: Where from, as gRPC has it; empty where that is not known.
            facts: What else there is to say, as JSON has it; of `sql` the digest is written, too.
        """
        try:
            self._file.append(self._line(event, principal, peer, facts))
        except Exception as error:  # noqa: BLE001 - whatever it is: who asks is not to suffer from it
            reason = error.strerror if isinstance(error, OSError) else type(error).__name__
            _log.error(
                "A line of the audit log cannot be written, or is not in its place: %s. Calls are answered "
                "all the same.",
                reason,
                extra={"repeats": "audit log"},
            )

    def close(self) -> None:
        """Write nothing more."""
        self._file.close()

    def _line(self, event: str, principal: Principal, peer: str, facts: Mapping[str, Any]) -> bytes:
        said = dict(facts)
        if "sql" in said:
            text = said.pop("sql")
            said["sql_sha256"] = hashlib.sha256(text.encode(errors="replace")).hexdigest()
            if self.has_texts:
                said["sql"] = text[:LONGEST_SQL]
        if not self.has_texts and event not in _WITHOUT_STATEMENTS:
            # Messages quote the statement, its parameters and values of rows.
            said.pop("error", None)
        line = {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "event": event,
            "principal": principal.name,
            "proof": principal.proof.value,
            "peer": peer,
            **said,
        }
        return f"{json.dumps(line)}\n".encode()


class _AppendedFile:
    """A file of lines, its owner's alone. It is made anew where it is not in its place any more. Safe for
    threads.

    Args:
        path: Where.

    Raises:
        OSError: It cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._lock = threading.Lock()
        self._file = self._open()
        self._is_cut = False

    def append(self, line: bytes) -> None:
        """Write a line. One that has no file in its place goes to where the ones before it went.

        Raises:
            OSError: It is not written, or not in its place.
        """
        with self._lock:
            try:
                if not self._is_in_place():
                    opened = self._open()
                    self._file.close()
                    self._file, self._is_cut = opened, False
            finally:
                self._write(line)

    def close(self) -> None:
        """Let go of it. Another line opens it anew."""
        with self._lock:
            self._file.close()

    def _open(self) -> FileIO:
        return FileIO(self._path, "a", opener=_open_private)

    def _is_in_place(self) -> bool:
        if self._file.closed:
            return False
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return False
        return os.path.samestat(found, os.fstat(self._file.fileno()))

    def _write(self, line: bytes) -> None:
        # Of a line that a full disk has cut, the rest is not written: the next one does not go on with it.
        rest = b"\n" + line if self._is_cut else line
        while rest:
            written = self._file.write(rest)
            self._is_cut = written < len(rest)
            rest = rest[written:]


class AuditedCall:
    """One call, and what is told of it: while it runs, and by its line in the audit log.

    Args:
        log: Where it is written; None: nowhere.
        event: As `AuditLog.write`.
        principal: Who calls.
        context: The call's `flight.ServerCallContext`.
        sql: The statement; empty where there is none.
        dialect: The statement's dialect; empty for the host's default.
        slow_seconds: How long the quickest one takes that is told by the host's log; None: none is.
        meter: Counts it; None: nobody does.

    Attributes:
        event: As the argument.
        principal: Likewise.
        sql: Likewise.
        peer: Where it comes from.
        rows: How many were sent so far.
        size: Their bytes.
    """

    def __init__(
        self,
        log: AuditLog | None,
        event: str,
        principal: Principal,
        context: Any,
        sql: str = "",
        *,
        dialect: str = "",
        slow_seconds: float | None = None,
        meter: StatementMeter | None = None,
    ) -> None:
        self._log = log
        self._meter = meter
        self.event = event
        self.principal = principal
        self.peer = peer_of(context)
        self.sql = sql
        self._facts: dict[str, Any] = {"sql": sql} if sql else {}
        if log is not None and statement_id():
            self._facts["statement"] = statement_id()
        self._dialect = dialect
        self._slow_seconds = slow_seconds
        self._metadata: QueryMetadata | None = None
        self._explain: Callable[[], Sequence[str]] | None = None
        self._moved_bytes: Callable[[], int] | None = None
        self._started = time.perf_counter()
        self._outcome = OK
        self.rows = 0
        self.size = 0

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return round(time.perf_counter() - self._started, 6)

    def add(self, **facts: Any) -> None:
        """Add to what is said of it."""
        if self._log is not None:
            self._facts.update(facts)

    def note_result(self, result: QueryResult) -> None:
        """Take note of what a statement read, and how."""
        self._metadata, self._explain = result.whole_metadata, result.explain
        self._moved_bytes = result.moved_bytes
        self.add(epochs=dict(result.metadata.epochs))

    def count(self, rows: int, size: int) -> None:
        """Count rows that are sent, and their bytes."""
        self.rows += rows
        self.size += size

    def break_off(self, error: Exception) -> None:
        """Take note that it failed when rows were on their way; nothing where it has ended."""
        self.fail(error)
        if self._meter is not None:
            self._meter.note_failure(error)

    def fail(self, error: Exception) -> None:
        """Take note that it failed."""
        if isinstance(error, LivestateError):
            self._outcome = kind_name(error)
            self.add(error=error.message)
        else:
            self._outcome = "Defect"

    def end(self) -> None:
        """Write its lines, and have it counted. May be called again."""
        log, self._log = self._log, None
        meter, self._meter = self._meter, None
        slow_seconds, self._slow_seconds = self._slow_seconds, None
        seconds = self.seconds
        if self._metadata is not None and self._moved_bytes is not None:
            # What its result says of them was known with the first rows.
            self._metadata = self._metadata.replace_quickly(bytes_moved=self._moved_bytes())
            self._moved_bytes = None
        if meter is not None and self._outcome == OK:
            meter.note(self.event, self._metadata, seconds, self.rows, self.size)
        if slow_seconds is not None:
            if seconds >= slow_seconds:
                log_if_slow(self._run_statement(seconds), slow_seconds)
            self._explain = None
        if log is None:
            return
        facts = {**self._facts, "rows": self.rows, "bytes": self.size, "seconds": seconds}
        log.write(self.event, self.principal, self.peer, {**facts, "outcome": self._outcome})

    def _run_statement(self, seconds: float) -> RunStatement:
        return RunStatement(
            self.event,
            self.sql,
            self._dialect,
            self.principal.name,
            seconds,
            self.rows,
            self.size,
            self._outcome,
            self._metadata,
            self._explain,
        )


def peer_of(context: Any) -> str:
    """Where a call comes from.

    Args:
        context: The call's `flight.ServerCallContext`.
    """
    # gRPC writes the brackets of an IPv6 address as %5B and %5D.
    return unquote(str(context.peer()))


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
