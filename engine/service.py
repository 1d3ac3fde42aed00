"""The query service: SQL in, batches out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pyarrow as pa

from engine.errors import LimitExceeded, LivestateError
from engine.exec.catalog import (
    COLUMNS_SCHEMA,
    PLAN_SCHEMA,
    STORES_SCHEMA,
    TABLES_SCHEMA,
    describe_schema,
    describe_store,
    plan_text,
    show_stores,
    show_tables,
)
from engine.exec.deadline import Deadline
from engine.exec.engine import BindingError, Engine
from engine.exec.engine_query import RunningQuery, reads_of, result_schema_of, run, scan_sql
from engine.exec.kernels import live_rows, looked_up
from engine.exec.metadata import metadata_of
from engine.exec.query_result import QueryMetadata, QueryResult
from engine.exec.results import sliced
from engine.exec.statement_cache import MAX_CACHED_LENGTH, LeastRecentlyUsed, ReadyText, StatementCache
from engine.plan.arguments import parameter_schema, parameter_values, shape_values
from engine.plan.explain import explain
from engine.plan.plans import CountPlan, EnginePlan, RowsPlan, lookup_points
from engine.plan.statement import ReadyStatement
from engine.plan.values import Arguments, Operand, Parameter
from engine.scan import StoreSource, StoreView
from engine.schema import StoreName
from engine.sql.columns import has_pivot
from engine.sql.diagnose import located
from engine.sql.literals import shape_of
from engine.sql.parse import Kind

__all__ = ["PreparedStatement", "QueryMetadata", "QueryOptions", "QueryResult", "QueryService", "Session"]


Views = Mapping[StoreName, StoreView]
REFUSED_LIMIT = -1


@dataclass(frozen=True)
class QueryOptions:
    """Limits of the query service.

    Attributes:
        memory_limit_bytes: Memory of the engine for all queries together, beyond the cached state they read.
        threads: Threads of the engine for all queries together.
        statement_timeout_seconds: Time that a statement may take until its last batch is read; None for no limit.
        max_sql_bytes: Size of the longest statement text, in UTF-8.
        batch_bytes: Arrow bytes that a batch of a result should not exceed.
        cached_statements: How many statements are kept parsed and planned.
    """

    memory_limit_bytes: int = 2 << 30
    threads: int = os.cpu_count() or 1
    statement_timeout_seconds: float | None = 300.0
    max_sql_bytes: int = 16 << 20
    batch_bytes: int = 8 << 20
    cached_statements: int = 1000


@dataclass(frozen=True)
class Session:
    """What a client chose for its statements.

    Attributes:
        dialect: sqlglot's name of the SQL dialect.
        timeout_seconds: Time-out of statements, if it is shorter than the service's; None for the service's.
    """

    dialect: str = "duckdb"
    timeout_seconds: float | None = None


DEFAULT_SESSION = Session()


@dataclass(frozen=True)
class PreparedStatement:
    """A statement that was checked and typed.

    Attributes:
        sql: Its text.
        schema: Schema of its result.
        parameters: One field a parameter, in the order of the numbers: named `1`, `2`, … or by their names.
        dialect: Dialect of the text.
    """

    sql: str
    schema: pa.Schema
    parameters: pa.Schema
    dialect: str = "duckdb"


@dataclass(frozen=True)
class _Prepared:
    """A prepared statement, good as long as its text still means the same."""

    ready: ReadyStatement
    prepared: PreparedStatement


@dataclass(frozen=True)
class _Request:
    """One statement to run.

    Attributes:
        text: What the user wrote.
        dialect: Its dialect.
        ready: The statement, made ready.
        arguments: Its parameters and lists.
        deadline: When it must end.
        started: When it came, by `time.perf_counter`.
    """

    text: str
    dialect: str
    ready: ReadyText
    arguments: Arguments
    deadline: Deadline
    started: float

    def seconds(self, **steps: float) -> dict[str, float]:
        """Times of steps, with the time since the statement came."""
        return {**steps, "total": time.perf_counter() - self.started}


class QueryService:
    """Answers read-only SQL over the stores of a source. Safe for threads.

    Args:
        source: Where the stores are.
        options: Limits.
    """

    def __init__(self, source: StoreSource, options: QueryOptions | None = None) -> None:
        self._source = source
        self._options = options or QueryOptions()
        self._engine = Engine(self._options.memory_limit_bytes, self._options.threads)
        self._statements = StatementCache(self._options.cached_statements)
        self._prepared: LeastRecentlyUsed[_Prepared] = LeastRecentlyUsed(self._options.cached_statements)

    @property
    def source(self) -> StoreSource:
        """Where the stores are."""
        return self._source

    def close(self) -> None:
        """Stop the engine."""
        self._engine.close()

    def prepare(self, sql: str, session: Session = DEFAULT_SESSION) -> PreparedStatement:
        """Check a statement and tell its types.

        Args:
            sql: One read-only statement.
            session: The client's choices.

        Returns:
            The statement with the schemas of its result and parameters.

        Raises:
            LivestateError: The statement is not valid, as its kind and message say.
        """
        ready = self._ready(sql, session.dialect)
        known = self._prepared.get((sql, session.dialect))
        if known is not None and known.ready is ready.statement:
            return known.prepared
        request = _Request(sql, session.dialect, ready, Arguments(lists=ready.lists), Deadline(None), time.perf_counter())
        prepared = PreparedStatement(sql, self._schema(request), parameter_schema(ready.statement.bound.parameters), session.dialect)
        if not ready.lists and ready.statement.has_fixed_columns and len(sql) <= MAX_CACHED_LENGTH:
            self._prepared.put((sql, session.dialect), _Prepared(ready.statement, prepared))
        return prepared

    def execute(
        self,
        statement: str | PreparedStatement,
        parameters: pa.RecordBatch | None = None,
        session: Session = DEFAULT_SESSION,
        cancelled: Callable[[], bool] | None = None,
    ) -> QueryResult:
        """Run a statement over one version of each store.

        Args:
            statement: Text, or what `prepare` gave.
            parameters: One row with a column a parameter; None for no parameters.
            session: The client's choices; the dialect is that of the prepared statement, if it is one.
            cancelled: Tells, from any thread, whether the client took the statement back.

        Returns:
            The result; close it, or read it to its end.

        Raises:
            LivestateError: The statement is not valid or cannot be answered, as its kind and message say.
        """
        started = time.perf_counter()
        text, dialect = (statement, session.dialect) if isinstance(statement, str) else (statement.sql, statement.dialect)
        deadline = Deadline(self._timeout(session), cancelled)
        if parameters is None and dialect == "duckdb":
            found = self._execute_shape(text, deadline, started)
            if found is not None:
                return found
        ready = self._ready(text, dialect)
        values = parameter_values(ready.statement.bound.parameters, parameters)
        return self._run(_Request(text, dialect, ready, Arguments(values, ready.lists), deadline, started))

    def _timeout(self, session: Session) -> float | None:
        limits = [limit for limit in (session.timeout_seconds, self._options.statement_timeout_seconds) if limit is not None]
        return min(limits, default=None)

    def _ready(self, text: str, dialect: str) -> ReadyText:
        limit = self._options.max_sql_bytes
        if len(text) > limit or (len(text) * 4 > limit and len(text.encode(errors="replace")) > limit):
            raise LimitExceeded(f"The statement is longer than max_sql_bytes allows ({limit} bytes): pass values as parameters.")
        return self._statements.ready(text, dialect, self._source.definitions())

    def _execute_shape(self, text: str, deadline: Deadline, started: float) -> QueryResult | None:
        """Answer a short lookup by the plan that all of its shape share; None if it is no such lookup, or not known yet."""
        shape = shape_of(text)
        if shape is None:
            return None
        definitions = self._source.definitions()
        known = self._statements.shaped(shape.text, definitions)
        if known is None:
            self._statements.learn_shape(shape.text, len(shape.values), definitions)
            return None
        plan = known.plan
        if isinstance(plan, RowsPlan) and plan.one_key is not None and len(shape.values) == 1:
            found = self._one_row(plan, shape.values[0], started)
            if found is not None:
                return found
        values = shape_values(known.bound.parameters, shape)
        if values is None:
            return None
        return self._lookup(_Request(text, "duckdb", ReadyText(known, {}), Arguments(values), deadline, started))

    def _run(self, request: _Request) -> QueryResult:
        bound = request.ready.statement.bound
        match bound.kind:
            case Kind.SHOW_TABLES:
                return _catalog_result(show_tables(self._source.definitions().values()))
            case Kind.SHOW_STORES:
                return _catalog_result(show_stores(self._source.status()))
            case Kind.DESCRIBE if bound.described is not None:
                return _catalog_result(describe_store(bound.described))
            case Kind.DESCRIBE:
                return _catalog_result(describe_schema(self._query_schema(request)))
            case Kind.EXPLAIN | Kind.EXPLAIN_ANALYZE:
                return _catalog_result(plan_text(self._explained(request)))
            case Kind.QUERY:
                return self._query(request)

    def _query(self, request: _Request) -> QueryResult:
        match request.ready.statement.plan:
            case CountPlan() as plan:
                return self._count(request, plan)
            case RowsPlan(predicate=None):
                return self._rows(request) or self._engine_query(request)
            case RowsPlan():
                return self._lookup(request) or self._engine_query(request)
            case _:
                return self._engine_query(request)

    def _count(self, request: _Request, plan: CountPlan) -> QueryResult:
        with self._source.snapshot((plan.reference.definition.name,)) as views:
            count = views[plan.reference.definition.name].live_rows
            metadata = metadata_of("count", views, (), request.seconds(), rows_read=0)
        batch = pa.record_batch([pa.array([count], pa.int64())], schema=plan.schema)
        return QueryResult(plan.schema, metadata, iter((batch,)))

    def _lookup(self, request: _Request) -> QueryResult | None:
        """Answer by the rows of points; None if the points are not all that the statement asks for."""
        plan = request.ready.statement.plan
        assert isinstance(plan, RowsPlan)
        if plan.one_key is not None:
            found = self._one_row(plan, request.arguments.parameters[plan.one_key.place].as_py(), request.started)
            if found is not None:
                return found
        limit = _limit(plan.limit, request.arguments)
        points = lookup_points(plan, request.arguments)
        if points is None or limit == REFUSED_LIMIT:
            return None
        planned = time.perf_counter()
        name = plan.reference.definition.name
        with self._source.snapshot((name,)) as views:
            table = looked_up(views[name], plan.columns, plan.places, plan.schema, points, limit)
            steps = {"plan": planned - request.started, "read": time.perf_counter() - planned}
            metadata = metadata_of("lookup", views, (), request.seconds(**steps), rows_read=table.num_rows)
        return QueryResult(plan.schema, metadata, sliced(iter(table.to_batches()), self._options.batch_bytes))

    def _one_row(self, plan: RowsPlan, key: object, started: float) -> QueryResult | None:
        """Answer by the row of one key; None if that is no plain value of the key's type."""
        if not plan.is_plain_key(key):
            return None
        name = plan.reference.definition.name
        with self._source.snapshot((name,)) as views:
            row = views[name].row(plan.columns, key)
            metadata = metadata_of("lookup", views, (), {"total": time.perf_counter() - started}, rows_read=0 if row is None else 1)
        batches = () if row is None else (pa.RecordBatch.from_arrays([row.column(place) for place in plan.places], schema=plan.schema),)
        return QueryResult(plan.schema, metadata, batches)

    def _rows(self, request: _Request) -> QueryResult | None:
        """Stream plain columns of a whole store."""
        plan = request.ready.statement.plan
        assert isinstance(plan, RowsPlan)
        limit = _limit(plan.limit, request.arguments)
        if limit == REFUSED_LIMIT:
            return None
        name = plan.reference.definition.name
        resources = ExitStack()
        with resources:
            views = resources.enter_context(self._source.snapshot((name,)))
            scan = views[name].scan(plan.columns)
            metadata = metadata_of("rows", views, (scan.statistics,), request.seconds())
            batches = _checked(live_rows(scan, plan.places, plan.schema, limit), request.deadline)
            kept = resources.pop_all()
        return QueryResult(plan.schema, metadata, sliced(batches, self._options.batch_bytes), kept.close)

    def _engine_query(self, request: _Request) -> QueryResult:
        # Lookups end sooner than a question to the caller is answered: Flight's takes 0.1 ms.
        request.deadline.check()
        resources = ExitStack()
        with resources:
            views = resources.enter_context(self._source.snapshot(request.ready.statement.bound.stores))
            running = self._start(request, views)
            resources.callback(running.rows.close)
            statistics = [read.scan.statistics for read in running.reads if read.scan is not None]
            metadata = metadata_of("engine", views, statistics, request.seconds(**running.seconds))
            kept = resources.pop_all()
        rows = running.rows
        return QueryResult(rows.schema, metadata, sliced(iter(rows), self._options.batch_bytes), kept.close, rows.interrupt)

    def _start(self, request: _Request, views: Views) -> RunningQuery:
        """Begin on the engine.

        A statement that the engine refuses is tried again with all columns of its stores and its lists in place, so that no
        shortcut of planning can be the cause.
        """
        try:
            return run(self._engine, request.ready.statement, request.arguments, views, request.deadline)
        except BindingError as error:
            widened = self._widened(request, error)
            try:
                return run(self._engine, widened.statement, replace(request.arguments, lists={}), views, request.deadline)
            except BindingError:
                raise _refused(request.ready, error) from error

    def _widened(self, request: _Request, error: BindingError) -> ReadyText:
        try:
            widened = self._statements.widened(request.text, request.dialect, self._source.definitions())
        except LivestateError as cause:
            raise _refused(request.ready, error) from cause
        if widened.statement.bound.stores != request.ready.statement.bound.stores:
            raise _refused(request.ready, error) from error
        return widened

    def _schema(self, request: _Request) -> pa.Schema:
        """The schema of a statement's result."""
        bound, plan = request.ready.statement.bound, request.ready.statement.plan
        fixed = {Kind.SHOW_TABLES: TABLES_SCHEMA, Kind.SHOW_STORES: STORES_SCHEMA, Kind.DESCRIBE: COLUMNS_SCHEMA}
        if bound.kind is not Kind.QUERY:
            return fixed.get(bound.kind, PLAN_SCHEMA)
        return self._query_schema(request) if plan is None or isinstance(plan, EnginePlan) else plan.schema

    def _query_schema(self, request: _Request) -> pa.Schema:
        try:
            if has_pivot(request.ready.statement.bound.tree):
                # The values found make the columns, so there is no schema without rows.
                with self._engine_query(request) as result:
                    return result.schema
            return result_schema_of(self._engine, request.ready.statement, request.arguments)
        except BindingError as error:
            widened = self._widened(request, error)
            try:
                return result_schema_of(self._engine, widened.statement, Arguments())
            except BindingError:
                raise _refused(request.ready, error) from error

    def _explained(self, request: _Request) -> list[str]:
        """The lines of EXPLAIN and EXPLAIN ANALYZE."""
        statement = request.ready.statement
        analyze = statement.bound.kind is Kind.EXPLAIN_ANALYZE
        with self._source.snapshot(statement.bound.stores) as views:
            reads = reads_of(statement, request.arguments, views)
            kind = self._kind(request)
            sql = scan_sql(statement, request.arguments, reads) if kind == "engine" else None
            if sql is not None:
                self._query_schema(request)
        lines = explain(kind, [read.explained for read in reads], sql)
        if analyze:
            query = replace(statement, bound=replace(statement.bound, kind=Kind.QUERY))
            with self._query(replace(request, ready=replace(request.ready, statement=query), started=time.perf_counter())) as result:
                rows = sum(batch.num_rows for batch in result)
                lines += [f"rows: {rows}", *(f"{step}: {seconds * 1000:.3f} ms" for step, seconds in result.metadata.seconds.items())]
                lines.append(f"all rows: {(time.perf_counter() - request.started) * 1000:.3f} ms")
        return lines

    def _kind(self, request: _Request) -> str:
        plan = request.ready.statement.plan
        if isinstance(plan, CountPlan):
            return "count"
        if isinstance(plan, RowsPlan) and _limit(plan.limit, request.arguments) != REFUSED_LIMIT:
            if plan.predicate is None:
                return "rows"
            if lookup_points(plan, request.arguments) is not None:
                return "lookup"
        return "engine"


def _limit(operand: Operand | None, arguments: Arguments) -> int | None:
    """How many rows at most; None for all, and `REFUSED_LIMIT` for what the engine will refuse."""
    if operand is None:
        return None
    value = arguments.parameters[operand.place].as_py() if isinstance(operand, Parameter) else operand.value
    if value is None:
        return None
    return value if isinstance(value, int) and value >= 0 else REFUSED_LIMIT


def _checked(batches: Iterator[pa.RecordBatch], deadline: Deadline) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        deadline.check()
        yield batch


def _catalog_result(table: pa.Table) -> QueryResult:
    return QueryResult(table.schema, QueryMetadata("catalog"), iter(table.to_batches()))


def _refused(ready: ReadyText, error: BindingError) -> LivestateError:
    return located(ready.statement.bound, error.failure.message, error.failure.name, error.near, error.failure.subtype)
