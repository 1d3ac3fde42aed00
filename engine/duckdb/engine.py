"""The engine: DuckDB, locked down, over Arrow.

One in-memory database without tables serves all statements (`engine.duckdb.database`), but for those of
principals whose memory is limited (`engine.duckdb.own_databases`). Every statement has a connection of its
own, so that names of its objects are seen by no other.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakSet

import duckdb
import pyarrow as pa

from engine.access.principal import Limit
from engine.deadline import NO_DEADLINE, Deadline, DeadlineWatcher, Watch
from engine.duckdb.binder import Binder, widest
from engine.duckdb.engine_database import EngineConnection, EngineDatabase, EngineMemory
from engine.duckdb.engine_errors import ENGINE_FAILURES, EXPLAIN, Allowance, BindingError, read_failure
from engine.duckdb.growth import MAX_LISTED, MAX_ROW_WIDTH, lists_many_columns, needs_worker
from engine.duckdb.handover import (
    MOST_LONG_ROWS,
    combine,
    fills_rows,
    repeats_long_values,
    rows_a_batch,
)
from engine.duckdb.own_databases import OwnDatabases
from engine.duckdb.planning_trials import PlanningTrials
from engine.duckdb.results import (
    check_types,
    check_unsigned,
    conversion,
    result_schema,
    unsigned_values,
)
from engine.duckdb.small_query_slots import SmallQuerySlots
from engine.duckdb.spill import SpillDirectory
from engine.duckdb.worker_memory import WorkerMemory
from engine.duckdb.worker_messages import EngineSettings, RunJob
from engine.duckdb.worker_pool import IDLE_WORKERS, IdleWorkers, Stream, WorkerPool, WorkerRows
from engine.errors import InvalidInput, LivestateError, Unsupported
from engine.model.result_width import MAX_RESULT_WIDTH, width_of_types
from engine.model.sql_types import quote_identifier
from engine.plan.query_text import ReadColumn
from engine.scan import LIVE_COLUMN, SMALL_SCAN_BYTES, Hold, Scan

TABLE_BYTES = 512 << 20
"""Scans up to this size are handed over as one table while statements hold little, larger ones block by block
as the engine reads them, which takes up to a fifth longer.
"""

FEW_ROWS = 10_000
"""Scans up to this size are handed over in one piece: the engine spends 30 µs on each."""

_MOST_ONES = 1 << 16
_ONES = pa.Array.from_buffers(pa.uint8(), _MOST_ONES, [None, pa.py_buffer(b"\1" * _MOST_ONES)])
"""What rows without columns are to the engine, for all scans: few blocks have more."""
_FAILURES = (*ENGINE_FAILURES, OSError, pa.ArrowException)
_QUERY = re.compile(r"\s*(?:\(|(?:SELECT|WITH|FROM|PIVOT)\b)", re.IGNORECASE)
"""How a pivot without an IN begins, and what it is a part of. Its values are a type first, so that the engine
takes it for several statements; and so it does for whatever else has one.
"""


@dataclass(frozen=True)
class Outputs:
    """The columns of a statement's result.

    Attributes:
        columns: Names and the engine's own types.
        schema: Schema of the result, as it is sent.
    """

    columns: tuple[ReadColumn, ...]
    schema: pa.Schema


class EngineRows(Protocol):
    """A running statement. Not safe for several threads, but for `interrupt`.

    Attributes:
        columns: Names of its columns and the engine's own types.
        schema: Schema of its batches.
    """

    columns: tuple[ReadColumn, ...]
    schema: pa.Schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Its batches."""

    def interrupt(self) -> None:
        """End the statement from another thread: its next batch is an error."""

    def close(self) -> None:
        """End the statement and free what it holds. May be called again."""


class ScanStream:
    """A scan that the engine can read any number of times as a stream.

    Args:
        scan: The scan.
    """

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self.schema = readable_schema(scan.schema)
        self.error: LivestateError | None = None

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.RecordBatchReader.from_batches(self.schema, self._batches()).__arrow_c_stream__(
            requested_schema
        )

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._scan.batches():
                yield readable(batch, self.schema)
        except LivestateError as error:
            self.error = error
            raise


def named_columns(columns: Sequence[ReadColumn], names: Sequence[str] | None) -> tuple[ReadColumn, ...]:
    """Columns of a result under its names; those that the rows make, as PIVOT's, keep their own.

    Args:
        columns: As the engine has them.
        names: What they are called; None for what the engine calls them.
    """
    if names is None or len(names) != len(columns):
        return tuple(columns)
    return tuple(ReadColumn(name, column.type) for name, column in zip(names, columns, strict=True))


def readable_schema(schema: pa.Schema) -> pa.Schema:
    """The schema under which the engine reads a scan: it needs at least one column, so rows without columns
    count as live.
    """
    return schema if len(schema) else pa.schema([pa.field(LIVE_COLUMN, pa.uint8())])


def readable(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch as the engine reads it.

    Args:
        batch: A batch of a scan.
        schema: `readable_schema` of the scan.

    Returns:
        The batch, or one column of ones for a batch without columns.
    """
    if batch.num_columns:
        return batch
    ones = (
        _ONES[: batch.num_rows]
        if batch.num_rows <= len(_ONES)
        else pa.repeat(pa.scalar(1, pa.uint8()), batch.num_rows)
    )
    return pa.RecordBatch.from_arrays([ones], schema=schema)


def hold_scan(scan: Scan) -> Hold | None:
    """Have the rows of a scan count as memory that is taken.

    Args:
        scan: The scan.

    Returns:
        To be released when the engine has read them; None for a scan that it is to read as a `ScanStream`,
        since it is large, or statements hold much already.
    """
    return None if scan.nbytes > TABLE_BYTES else scan.hold()


def engine_table(scan: Scan) -> pa.Table:
    """The rows of a scan as a table that the engine reads, all in memory.

    Args:
        scan: The scan, held.
    """
    if len(scan.schema):
        table = scan.to_table()
        is_small = table.num_rows <= FEW_ROWS and table.nbytes <= SMALL_SCAN_BYTES
        return table.combine_chunks() if is_small else table
    schema = readable_schema(scan.schema)
    return pa.Table.from_batches([readable(batch, schema) for batch in scan.batches()], schema)


def with_live_rows(sql: str, scans: Mapping[str, pa.Schema]) -> str:
    """A statement that reads the live rows of its scans.

    Args:
        sql: Reads scans by their quoted names, which stand nowhere else in it.
        scans: Schema of each scan by name.

    Returns:
        The statement with the scans that have dead rows replaced by their live rows.
    """
    for name, schema in scans.items():
        if LIVE_COLUMN in schema.names:
            columns = ", ".join(quote_identifier(column) for column in schema.names if column != LIVE_COLUMN)
            sql = sql.replace(
                f'"{name}"', f'(SELECT {columns or LIVE_COLUMN} FROM "{name}" WHERE {LIVE_COLUMN} = 1)'
            )
    return sql


class Engine:
    """A locked-down DuckDB.

    Args:
        memory_limit_bytes: Memory for all statements together, beyond the Arrow data they read; and as much
            again for those of principals whose memory is limited.
        threads: Worker threads for all statements together.
        spill: Where it puts what the memory does not hold, until it is closed; None: nowhere, and statements
            fail that need more.
        idle_workers: Processes for statements that this one could not bound or end; None: this is such a
            process.
        limit: What its memory is a part of, if this is the engine of a worker; None for that of an engine.

    Attributes:
        binder: Tells columns of statements that are not run yet.
    """

    def __init__(
        self,
        memory_limit_bytes: int,
        threads: int,
        spill: SpillDirectory | None = None,
        idle_workers: IdleWorkers | None = IDLE_WORKERS,
        limit: Limit | None = None,
    ) -> None:
        self._threads = threads
        self._spill = spill
        self._workers = None if idle_workers is None else WorkerPool(idle_workers)
        self._trials = None if self._workers is None else PlanningTrials(self._workers)
        self._worker_memory = WorkerMemory(memory_limit_bytes)
        self._worker_rows: WeakSet[WorkerRows] = WeakSet()
        self._lock = threading.Lock()
        self._watcher = DeadlineWatcher()
        self._slots = SmallQuerySlots(threads)
        self.binder = Binder(self._workers)
        allowance = Allowance(memory_limit_bytes, limit, in_worker=idle_workers is None)
        self._database = EngineDatabase(allowance, threads, spill)
        self._own_databases = OwnDatabases(memory_limit_bytes, threads, spill)

    def memory(self) -> EngineMemory:
        """What all statements take that run in this process."""
        shared, own = self._database.memory(), self._own_databases.memory()
        return EngineMemory(shared.nbytes + own.nbytes, shared.spilled_bytes + own.spilled_bytes)

    def small_query_slot(self, sql: str, read_bytes: int, deadline: Deadline) -> AbstractContextManager[None]:
        """The slot of a statement that computes in this process, as `SmallQuerySlots.occupy`; nothing for one
        that does so in a worker.

        Args:
            sql: The statement.
            read_bytes: Arrow bytes that it reads.
            deadline: When it must end.
        """
        if self._workers is not None and needs_worker(sql):
            return nullcontext()
        return self._slots.occupy(read_bytes, deadline)

    def schema(self, sql: str, tables: Mapping[str, pa.Schema], parameters: Sequence[Any]) -> pa.Schema:
        """The schema of a statement's result, without running it.

        Args:
            sql: A statement in DuckDB's dialect.
            tables: Schema of each table that it reads.
            parameters: A value for each parameter.

        Returns:
            The result's schema.

        Raises:
            BindingError: The engine refuses the statement.
            LivestateError: It fails in another way.
        """
        return self.outputs(sql, tables, parameters).schema

    def outputs(
        self,
        sql: str,
        tables: Mapping[str, pa.Schema],
        parameters: Sequence[Any],
        names: Sequence[str] | None = None,
        deadline: Deadline = NO_DEADLINE,
        row_width: int = 0,
    ) -> Outputs:
        """The columns of a statement's result, without running it: as `schema`, with the engine's own types.

        Args:
            sql: A statement in DuckDB's dialect.
            tables: Schema of each table that it reads.
            parameters: A value for each parameter.
            names: What its columns are called; None for what the engine calls them.
            deadline: When the statement must end.
            row_width: As for `run`.

        Returns:
            The columns.

        Raises:
            BindingError: The engine refuses the statement.
            LivestateError: It fails in another way.
        """
        empty = {name: pa.Table.from_batches([], schema) for name, schema in tables.items()}
        rows = self.run(with_live_rows(sql, tables), empty, parameters, deadline, names, row_width)
        try:
            return Outputs(rows.columns, rows.schema)
        finally:
            rows.close()

    def run(
        self,
        sql: str,
        tables: Mapping[str, pa.Table | Stream],
        parameters: Sequence[Any],
        deadline: Deadline,
        names: Sequence[str] | None = None,
        row_width: int = 0,
    ) -> EngineRows:
        """Run a statement, in a worker if it could make more than this process can bound.

        Args:
            sql: A statement in DuckDB's dialect that reads nothing but `tables`.
            tables: What it reads, by name.
            parameters: A value for each parameter.
            deadline: When it must end.
            names: What its columns are called; None for what the engine calls them.
            row_width: As `engine.sql.bind.BoundStatement.row_width`.

        Returns:
            Its result, to be closed by the caller.

        Raises:
            BindingError: The engine refuses the statement.
            LivestateError: It fails in another way.
            BaseException: What broke a stream off.
        """
        if self._workers is not None and (
            needs_worker(sql, parameters)
            or row_width > MAX_ROW_WIDTH
            or repeats_long_values(sql, tables, parameters)
            or lists_many_columns(sql, widest(table.schema for table in tables.values()))
            or not self._is_planned_quickly(sql, tables, parameters, deadline)
        ):
            return self._run_in_worker(self._workers, sql, tables, parameters, deadline, names)
        limit = deadline.engine_limit
        connection = self._database.connect() if limit is None else self._own_databases.connect(limit)
        watch = self._watcher.watch(deadline, connection.duckdb.interrupt)
        is_bounded = self._workers is not None
        try:
            return LocalRows(
                connection, watch, sql, tables, parameters, names, row_width, is_bounded=is_bounded
            )
        except _TooLargeError:
            assert self._workers is not None
            return self._run_in_worker(self._workers, sql, tables, parameters, deadline, names)

    def _is_planned_quickly(
        self,
        sql: str,
        tables: Mapping[str, pa.Table | Stream],
        parameters: Sequence[Any],
        deadline: Deadline,
    ) -> bool:
        schemas = {name: table.schema for name, table in tables.items()}
        return self._trials is None or self._trials.is_quick(sql, schemas, parameters, deadline)

    def _run_in_worker(
        self,
        workers: WorkerPool,
        sql: str,
        tables: Mapping[str, pa.Table | Stream],
        parameters: Sequence[Any],
        deadline: Deadline,
        names: Sequence[str] | None,
    ) -> WorkerRows:
        spill = self._spill
        with ExitStack() as unless_begun:
            share = self._worker_memory.take(deadline.engine_limit)
            unless_begun.callback(share.give)
            settings = EngineSettings(
                share.allowance,
                self._threads,
                None if spill is None else spill.path,
                0 if spill is None else spill.limit_bytes,
            )
            job = RunJob(sql, {}, {}, tuple(parameters), names, settings)
            rows = WorkerRows(workers, job, tables, deadline, self._watcher, share)
            unless_begun.pop_all()
        with self._lock:
            self._worker_rows.add(rows)
        return rows

    def close(self) -> None:
        """Stop the engine. Statements still running end with an error."""
        self._watcher.close()
        self._database.close()
        self._own_databases.close()
        with self._lock:
            running = list(self._worker_rows)
        for rows in running:
            rows.interrupt()
        self.binder.close()
        if self._spill is not None:
            self._spill.close()


class _TooLargeError(Exception):
    """A result is wider than one that this process makes, or its rows have longer texts of the statement: a
    text says nothing of the fields of structs, and of what its result is.
    """


def _query_of(statements: Sequence[duckdb.Statement], sql: str) -> duckdb.Statement:
    """The query that a text is: nothing else is run, whatever the engine would make of it.

    Args:
        statements: The statements of the text.
        sql: The text.

    Raises:
        Unsupported: It is something else, or more than one.
    """
    if len(statements) == 1:
        kind = statements[0].type
        if kind == duckdb.StatementType.SELECT or (
            kind == duckdb.StatementType.MULTI and _QUERY.match(sql) is not None
        ):
            return statements[0]
    raise Unsupported("Only a single query can be run.")


class LocalRows:
    """A statement that runs in this process: `EngineRows`."""

    def __init__(
        self,
        connection: EngineConnection,
        watch: Watch,
        sql: str,
        tables: Mapping[str, pa.Table | Stream],
        parameters: Sequence[Any],
        names: Sequence[str] | None,
        row_width: int,
        *,
        is_bounded: bool,
    ) -> None:
        self._connection = connection
        self._watch = watch
        self._is_bounded = is_bounded
        self._most_width = MAX_LISTED if is_bounded else MAX_RESULT_WIDTH
        self._streams = [table for table in tables.values() if not isinstance(table, pa.Table)]
        self._reader: pa.RecordBatchReader | None = None
        self._relation: duckdb.DuckDBPyRelation | None = None
        self._rows_a_batch = 0
        with ExitStack() as unless_begun:
            unless_begun.callback(self.close)
            watch.__enter__()
            try:
                self._begin(sql, tables, parameters, names, row_width)
            except _FAILURES as error:
                # In a variable here, what is raised would be held by its own traceback, and so would the
                # tables.
                raise self._start_error(error, sql, parameters) from error
            unless_begun.pop_all()

    def _begin(
        self,
        sql: str,
        tables: Mapping[str, pa.Table | Stream],
        parameters: Sequence[Any],
        names: Sequence[str] | None,
        row_width: int,
    ) -> None:
        connection = self._connection.duckdb
        for name, table in tables.items():
            # Of a table as such, unlike a stream, the engine knows the number of rows, by which it orders
            # joins.
            connection.register(name, table)
        query = _query_of(connection.extract_statements(sql), sql)
        self._relation = (
            connection.sql(query, params=list(parameters)) if parameters else connection.sql(query)
        )
        types = [str(kind) for kind in self._relation.types]
        self.columns = named_columns(list(map(ReadColumn, self._relation.columns, types)), names)
        called = [column.name for column in self.columns]
        check_types(called, types)
        self._unsigned = unsigned_values(called, self._relation.types)
        if width_of_types(types) > self._most_width or (
            self._is_bounded and fills_rows(types, sql, tables, parameters, row_width)
        ):
            raise _TooLargeError
        self._rows_a_batch = rows_a_batch(types, sql, tables, parameters, row_width)
        self._reader = self._relation.to_arrow_reader(self._rows_a_batch)
        self.schema = result_schema(self._reader.schema, called)
        self._convert = conversion(self._reader.schema, self.schema)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return combine(self._batches()) if self._rows_a_batch < MOST_LONG_ROWS else self._batches()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        assert self._reader is not None
        while True:
            try:
                batch = self._reader.read_next_batch()
            except StopIteration:
                return
            except _FAILURES as error:
                raise self._error(error) from error
            if self._unsigned:
                check_unsigned(batch, self._unsigned)
            yield self._convert(batch)

    def interrupt(self) -> None:
        """End the statement from another thread: its next batch is an error."""
        with suppress(duckdb.Error):
            # It may have just ended.
            self._connection.duckdb.interrupt()

    def _start_error(self, error: Exception, sql: str, parameters: Sequence[Any]) -> BaseException:
        """What a statement that was not begun raises."""
        found = self._error(error)
        refused = self._refusal(sql, parameters) if isinstance(found, InvalidInput) else None
        return refused or found

    def _refusal(self, sql: str, parameters: Sequence[Any]) -> BindingError | None:
        """Where a statement is wrong that the engine refused: only EXPLAIN reports it in full."""
        try:
            self._connection.duckdb.execute(f"{EXPLAIN}{sql}", list(parameters)).fetchall()
        except _FAILURES as error:
            failure = read_failure(error)
            start = None if failure.start is None else failure.start - len(EXPLAIN)
            return BindingError(
                failure, "" if start is None or start < 0 else sql[start : start + failure.length]
            )
        return None

    def _error(self, error: Exception) -> BaseException:
        """The cause that lies deepest: what broke a stream off, then a deadline, then the engine."""
        for stream in self._streams:
            if stream.error is not None:
                return stream.error
        if self._watch.error is not None:
            return self._watch.error
        return self._watch.deadline.error() or self._connection.database.error(read_failure(error))

    def close(self) -> None:
        """End the statement and free what it holds. May be called again."""
        self._watch.__exit__(None, None, None)
        # Once raised, its traceback holds this object.
        self._watch.error = None
        reader, self._reader, self._relation = self._reader, None, None
        if reader is not None:
            with suppress(*_FAILURES):
                reader.close()
        self._connection.close()
