"""The columns of statements, without running them: they are bound over empty tables, in a database that has
nothing else.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import duckdb
import pyarrow as pa

from engine.deadline import NO_DEADLINE, Deadline, hold_lock
from engine.duckdb.database import open_database
from engine.duckdb.engine_errors import ENGINE_FAILURES, EXPLAIN, Failure, NotBoundError, read_failure
from engine.duckdb.growth import is_parsed_quickly, is_planned_quickly, lists_many_columns, needs_worker
from engine.duckdb.results import check_types, known_type, result_schema
from engine.duckdb.worker_messages import BindJob, encode_rows
from engine.duckdb.worker_pool import WorkerPool, bound_columns
from engine.model.catalog_names import CATALOG, SCHEMA
from engine.model.names import fold
from engine.model.sql_types import quote_identifier, sql_type
from engine.plan.query_text import ReadColumn, cast_text
from engine.scan import LIVE_COLUMN
from engine.sql.bind import StoreReference

MEMORY_BYTES = 64 << 20
LONGEST_KEPT_TEXT = 20_000
"""Characters of a text of which is remembered how it was parsed."""
_ROW_NUMBER = "rowid"
"""A column that the engine's tables have by themselves, and scans have not. (Columns that a text does not
name change nothing.)
"""
_FIXED_LENGTH = re.compile(r"""(?P<quoted>"[^"]*"|'[^']*')|\[\d+\]""")
"""The length of an array in the name of a type, or what may look like one."""


class Binder:
    """Binds statements. Safe for threads.

    Args:
        workers: Where statements are bound whose constants could take more than this process can bound: they
            are computed meanwhile. None: this is such a process.
    """

    def __init__(self, workers: WorkerPool | None) -> None:
        self._workers = workers
        self._lock = threading.Lock()
        self._open()

    def _open(self) -> None:
        before = (f"ATTACH ':memory:' AS {CATALOG}", f"USE {CATALOG}.{SCHEMA}")
        self._database = open_database(MEMORY_BYTES, 1, before_locking=before)
        self._tables: dict[str, pa.Schema] = {}
        self._parsed: tuple[str, Sequence[duckdb.Statement]] | None = None

    def _parse(self, sql: str) -> Sequence[duckdb.Statement]:
        """The statements of a text. Those of the latest are known: a text is bound after a look at its
        syntax, and to parse it takes as long as to bind it.
        """
        if self._parsed is not None and self._parsed[0] == sql:
            return self._parsed[1]
        statements = self._database.extract_statements(sql)
        self._parsed = (sql, statements) if len(sql) <= LONGEST_KEPT_TEXT else None
        return statements

    def columns(
        self,
        sql: str,
        tables: Mapping[str, pa.Schema],
        values: Sequence[object] | Mapping[str, object] = (),
        deadline: Deadline = NO_DEADLINE,
    ) -> tuple[ReadColumn, ...]:
        """The columns of a query, as the engine names and types them.

        Args:
            sql: One query in DuckDB's dialect.
            tables: Canonical schema of each table that it may read; names that differ in case only are one
                table.
            values: A value for each of its parameters.
            deadline: When the statement must end that it is bound for.

        Returns:
            The columns.

        Raises:
            DeadlineExceeded: Other statements are bound for too long.
            Cancelled: The caller took it back meanwhile.
            NotBoundError: It is not one query, or the engine refuses it.
            InvalidInput: A table has a column whose type no store can have.
            LimitExceeded: Its constants need too much memory.
        """
        if self._workers is not None and _needs_worker(sql, tables, values):
            schemas = {name: encode_rows(schema) for name, schema in tables.items()}
            return bound_columns(self._workers, BindJob(sql, schemas, values), deadline)
        with hold_lock(self._lock, deadline):
            try:
                self._create(tables)
                statements = self._parse(sql)
                if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                    raise NotBoundError(sql)
                # A relation is bound here and now, and never run. (DESCRIBE forgets the case of an alias that
                # is a column's name as well.)
                relation = (
                    self._database.sql(statements[0], params=values)
                    if values
                    else self._database.sql(statements[0])
                )
                return tuple(
                    ReadColumn(name, str(kind))
                    for name, kind in zip(relation.columns, relation.types, strict=True)
                )
            except ENGINE_FAILURES as error:
                if read_failure(error).is_fatal:
                    self._open()
                raise NotBoundError(str(error)) from error

    def syntax_failure(self, sql: str, deadline: Deadline) -> Failure | None:
        """What the engine's parser says against a text.

        Args:
            sql: The text.
            deadline: When the statement must end.

        Returns:
            The failure; None where the parser takes it, or could take long to read it.
        """
        if not is_parsed_quickly(sql):
            return None
        with hold_lock(self._lock, deadline):
            try:
                self._parse(sql)
            except ENGINE_FAILURES as error:
                return self._failure(error)
        return None

    def binding_failure(
        self,
        sql: str,
        tables: Mapping[str, pa.Schema],
        values: Sequence[object] | Mapping[str, object],
        deadline: Deadline,
    ) -> Failure | None:
        """What the engine says in full against a query that `columns` did not bind.

        Args:
            sql: As there, and so are all others.
            tables: Its tables.
            values: Values of its parameters.
            deadline: When the statement must end.

        Returns:
            The failure; None where it is bound, or could take more than this process can bound.
        """
        if self._workers is not None and _needs_worker(sql, tables, values):
            return None
        with hold_lock(self._lock, deadline):
            try:
                self._create(tables)
                self._database.execute(f"{EXPLAIN}{sql}", values or None).fetchall()
            except ENGINE_FAILURES as error:
                failure = self._failure(error)
                start = None if failure.start is None else failure.start - len(EXPLAIN)
                return replace(failure, start=start)
        return None

    def planning_seconds(
        self,
        sql: str,
        schemas: Mapping[str, pa.Schema],
        values: Sequence[object] | Mapping[str, object],
    ) -> float:
        """The processor time in which the engine plans a query over empty rows. For a process that can be
        killed.

        Args:
            sql: One query in DuckDB's dialect.
            schemas: Of what it reads, by name.
            values: A value for each of its parameters.

        Returns:
            Seconds.

        Raises:
            NotBoundError: The engine refuses it.
        """
        with self._lock:
            try:
                for name, schema in schemas.items():
                    self._database.register(name, schema.empty_table())
                begun = time.process_time()
                self._database.execute(f"{EXPLAIN}{sql}", values or None).fetchall()
                return time.process_time() - begun
            except ENGINE_FAILURES as error:
                self._failure(error)
                raise NotBoundError(str(error)) from error
            finally:
                for name in schemas:
                    self._database.unregister(name)

    def _failure(self, error: Exception) -> Failure:
        failure = read_failure(error)
        if failure.is_fatal:
            self._open()
        return failure

    def schema(self, columns: Sequence[ReadColumn], deadline: Deadline) -> pa.Schema:
        """The schema of a result with columns of the engine.

        Args:
            columns: Its columns.
            deadline: When the statement must end.

        Returns:
            The schema, as `engine.duckdb.results.result_schema` would give it.

        Raises:
            Unsupported: A column has a type that Arrow clients cannot read.
            LimitExceeded: There are too many columns, or parts of their types.
            NotBoundError: The engine does not know a type by its name.
            DeadlineExceeded: Other statements are bound for too long.
            Cancelled: The caller took it back meanwhile.
        """
        check_types([column.name for column in columns], [column.type for column in columns])
        known = {column.type: known_type(column.type) for column in columns}
        others = [column for column in columns if known[column.type] is None]
        if others:
            asked = result_schema(self._arrow_schema(others, deadline), [column.name for column in others])
            known |= {column.type: field.type for column, field in zip(others, asked, strict=True)}
        return pa.schema([pa.field(column.name, known[column.type]) for column in columns])

    def _arrow_schema(self, columns: Sequence[ReadColumn], deadline: Deadline) -> pa.Schema:
        """The schema that the engine gives to columns of these types."""
        nulls = ", ".join(cast_text("NULL", _FIXED_LENGTH.sub(_as_list, column.type)) for column in columns)
        with hold_lock(self._lock, deadline):
            try:
                with self._database.sql(f"SELECT {nulls}").to_arrow_reader(1) as reader:
                    return reader.schema
            except (*ENGINE_FAILURES, pa.ArrowException) as error:
                raise NotBoundError(str(error)) from error

    def _create(self, tables: Mapping[str, pa.Schema]) -> None:
        for name, schema in tables.items():
            if self._tables.get(fold(name)) != schema:
                columns = ", ".join(
                    f"{quote_identifier(field.name)} {sql_type(field.type)}" for field in schema
                )
                self._database.execute(f"CREATE OR REPLACE TABLE {quote_identifier(name)} ({columns})")
                self._tables[fold(name)] = schema

    def close(self) -> None:
        """Let go of the database."""
        with self._lock:
            self._database.close()


def _as_list(found: re.Match[str]) -> str:
    """A list in the place of an array of a fixed length, as results have it: the engine makes room for all
    values of an array, also where it is NULL.
    """
    return found["quoted"] or "[]"


def _needs_worker(
    sql: str, tables: Mapping[str, pa.Schema], values: Sequence[object] | Mapping[str, object]
) -> bool:
    columns = widest(tables.values())
    return (
        needs_worker(sql, values) or lists_many_columns(sql, columns) or not is_planned_quickly(sql, columns)
    )


def widest(schemas: Iterable[pa.Schema]) -> int:
    """How many columns the widest of some tables has."""
    return max(map(len, schemas), default=0)


def over_empty_stores(sql: str, references: Iterable[StoreReference]) -> tuple[str, dict[str, pa.Schema]]:
    """A query that reads empty stores in place of its scans.

    Args:
        sql: Reads scans by their quoted names, which stand nowhere else in it.
        references: What the scans are of.

    Returns:
        The query, and the tables that it reads.
    """
    tables = {}
    has_row_numbers = _ROW_NUMBER in fold(sql)
    for reference in references:
        # Names of stores may differ in case only; those of tables may not.
        name = f"store {reference.definition.name.encode().hex()}"
        tables[name] = reference.definition.schema
        sql = sql.replace(
            quote_identifier(reference.scan),
            _only_columns(reference, name) if has_row_numbers else quote_identifier(name),
        )
    return sql, tables


def _only_columns(reference: StoreReference, name: str) -> str:
    """A table without what it has besides its columns."""
    columns = ", ".join(map(quote_identifier, reference.columns)) or f"CAST(1 AS UTINYINT) AS {LIVE_COLUMN}"
    return f"(SELECT {columns} FROM {quote_identifier(name)})"
