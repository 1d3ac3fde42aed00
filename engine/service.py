"""The query service: SQL in, batches out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from engine.catalog.show import (
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
from engine.catalog.standings import HOSTS_SCHEMA, hosts_table, store_statuses
from engine.cluster.fragments import FragmentRequest
from engine.coordinator.cluster import Cluster
from engine.coordinator.coordinator import Coordinator, CoordinatorOptions
from engine.coordinator.distributed_query import DistributedQuery
from engine.coordinator.division import Divider, Division
from engine.coordinator.endpoints import Endpoints
from engine.coordinator.key_rows import KeyQuery
from engine.coordinator.lone import lone_cluster
from engine.coordinator.plans import PlanCache
from engine.coordinator.router import Router
from engine.coordinator.routes import Routes
from engine.duckdb.deadline import Deadline, Slot
from engine.duckdb.engine import Engine
from engine.duckdb.spill import SpillDirectory
from engine.exec.fragment_cache import FragmentCache
from engine.exec.fragment_executor import FragmentExecutor
from engine.exec.local import LocalExecutor
from engine.exec.query_result import QueryMetadata, QueryResult
from engine.exec.requests import Requests
from engine.model.read_point import NEWEST, ReadPoint
from engine.plan.arguments import parameter_schema, template_values
from engine.plan.key_lookup import KeyLookup
from engine.plan.plans import EnginePlan, RowsPlan, lookup_points
from engine.plan.split.sizes import DEFAULT_LIMIT_BYTES
from engine.plan.statement import ReadyStatement
from engine.plan.values import Arguments
from engine.scan import BuildingError, StoreSource, StoreStatus
from engine.sql.literals import template_of
from engine.sql.parse import StatementClass
from engine.statements.column_names import ColumnNames
from engine.statements.pin import ALL_NEWEST, MigratedError
from engine.statements.request import REFUSED_LIMIT, Request
from engine.statements.shapes import Shapes
from engine.statements.statement_cache import MAX_CACHED_LENGTH, LeastRecentlyUsed, ReadyText, StatementCache
from engine.statements.texts import ExpectedShapes, Texts

__all__ = ["PreparedStatement", "QueryMetadata", "QueryOptions", "QueryResult", "QueryService", "Session"]


@dataclass(frozen=True)
class QueryOptions:
    """Limits of the query service.

    Attributes:
        memory_limit_bytes: Memory of the engine for all queries together, beyond the cached state they read.
        threads: Threads of the engine for all queries together.
        statement_timeout_seconds: Time that a statement may take until its last batch is read; None for no
            limit.
        max_sql_bytes: Size of the longest statement text, in UTF-8.
        batch_bytes: Arrow bytes that a batch of a result should not exceed.
        cached_statements: How many statements are kept parsed and planned.
        merge_table_bytes: Arrow bytes of hosts' rows up to which a merge reads them as a table; where it can,
            it reads more as they come.
        gather_limit_bytes: Arrow bytes of hosts' rows that one statement may hold for its merge.
        total_gather_limit_bytes: What all statements may hold together.
        broadcast_limit_bytes: Arrow bytes that a statement may send to every host to be joined there.
        peer_threads: Threads that wait for hosts, for all statements together.
        spill_directory: Directory for what the engine's memory does not hold, used for nothing else: it is
            emptied at the start and removed at the end. None: the engine keeps to its memory.
        spill_limit_bytes: What all statements may put there together; 0: nothing.
    """

    memory_limit_bytes: int = 2 << 30
    threads: int = os.cpu_count() or 1
    statement_timeout_seconds: float | None = 300.0
    max_sql_bytes: int = 16 << 20
    batch_bytes: int = 8 << 20
    cached_statements: int = 1000
    merge_table_bytes: int = 8 << 20
    gather_limit_bytes: int = 1 << 30
    total_gather_limit_bytes: int = 2 << 30
    broadcast_limit_bytes: int = DEFAULT_LIMIT_BYTES
    peer_threads: int = 64
    spill_directory: Path | None = None
    spill_limit_bytes: int = 8 << 30


@dataclass(frozen=True)
class Session:
    """What a client chose for its statements.

    Attributes:
        dialect: sqlglot's name of the SQL dialect.
        timeout_seconds: Time-out of statements, if it is shorter than the service's; None for the service's.
        read_point: Which epochs statements may read.
    """

    dialect: str = "duckdb"
    timeout_seconds: float | None = None
    read_point: ReadPoint = NEWEST


DEFAULT_SESSION = Session()


@dataclass(frozen=True)
class PreparedStatement:
    """A statement that was checked and typed.

    Attributes:
        sql: Its text.
        schema: Schema of its result.
        parameters: One field a parameter, in the order of the numbers: named `1`, `2`, … or by their names.
        dialect: Dialect of the text.
        shapes: What its names meant, as `BoundStatement.shapes`; None where its columns follow from rows.
    """

    sql: str
    schema: pa.Schema
    parameters: pa.Schema
    dialect: str = "duckdb"
    shapes: ExpectedShapes | None = None


@dataclass(frozen=True)
class _Prepared:
    """A prepared statement, good as long as its text still means the same."""

    ready: ReadyStatement
    prepared: PreparedStatement


class QueryService:
    """Answers read-only SQL over the stores of a source, and over those of other hosts. Safe for threads.

    Args:
        source: The stores that are here.
        options: Limits.
        cluster: The hosts of the deployment; None where this host has everything.
    """

    def __init__(
        self, source: StoreSource, options: QueryOptions | None = None, cluster: Cluster | None = None
    ) -> None:
        self._source = source
        self._options = options = options or QueryOptions()
        self._engine = Engine(options.memory_limit_bytes, options.threads, _spill_directory(options))
        self._statements = StatementCache(options.cached_statements, ColumnNames(self._engine.binder))
        self._texts = Texts(source, self._statements, options.max_sql_bytes)
        self._prepared: LeastRecentlyUsed[_Prepared] = LeastRecentlyUsed(options.cached_statements)
        self._local = LocalExecutor(source, self._engine, self._statements, options.batch_bytes)
        self._requests = Requests(self._texts, self._local)
        self._cluster = cluster or lone_cluster(source)
        self._routes = Routes(self._cluster, options.broadcast_limit_bytes)
        shapes = Shapes(source)
        self._router = Router(source, self._routes, shapes, self._requests)
        fragments = FragmentCache(self._engine, options.cached_statements)
        self._fragment_executor = FragmentExecutor(source, fragments, shapes, self._local)
        plans = PlanCache(self._engine, fragments, self._local, options.cached_statements)
        self._divider = Divider(self._cluster, self._routes, self._router, plans)
        self._coordinator = Coordinator(
            self._cluster,
            self._engine,
            plans,
            self._routes,
            self._router,
            self._local,
            self._fragment_executor,
            CoordinatorOptions(
                gather_limit_bytes=options.gather_limit_bytes,
                total_gather_limit_bytes=options.total_gather_limit_bytes,
                peer_threads=options.peer_threads,
                batch_bytes=options.batch_bytes,
                merge_table_bytes=options.merge_table_bytes,
            ),
        )

    @property
    def source(self) -> StoreSource:
        """The stores that are here."""
        return self._source

    def close(self) -> None:
        """Stop the engine, and what other hosts do for this one."""
        self._coordinator.close()
        self._engine.close()

    def prepare(
        self, sql: str, session: Session = DEFAULT_SESSION, expected_shapes: ExpectedShapes | None = None
    ) -> PreparedStatement:
        """Check a statement and tell its types.

        Args:
            sql: One read-only statement.
            session: The client's choices.
            expected_shapes: What its names meant when its types were told before; None where they were not.

        Returns:
            The statement with the schemas of its result and parameters.

        Raises:
            InvalidInput: It has other columns now than were told, and there is no epoch left at which it has
                these.
            LivestateError: The statement is not valid, as its kind and message say.
        """
        known = self._prepared.get((sql, session.dialect))
        is_known = (
            known is not None
            and known.ready.is_current(self._source.tables())
            and not self._may_be_migrated(known.ready, session.read_point)
        )
        if known is not None and is_known and expected_shapes in (None, known.prepared.shapes):
            return known.prepared
        deadline = Deadline(self._timeout(session))
        ready, read_point = self._texts.ready_text(sql, session.dialect, session.read_point, deadline)
        deadline.check()
        request = now = self._as_read(
            Request(
                session.dialect,
                ready,
                Arguments(lists=ready.lists),
                deadline,
                time.perf_counter(),
                read_point,
            )
        )
        if expected_shapes is not None:
            request = self._requests.with_expected_shapes(now, expected_shapes)
            if request is not now:
                self._router.check_readable(self._asked(request))
        statement = request.statement
        shapes = (
            statement.bound.shapes
            if statement.bound.statement_class is StatementClass.QUERY and statement.has_fixed_columns
            else None
        )
        prepared = PreparedStatement(
            sql, self._schema(request), parameter_schema(statement.bound.parameters), session.dialect, shapes
        )
        # Without a store to refer to there is no telling whether a text still means the same.
        if (
            request is now
            and statement.bound.references
            and not ready.lists
            and statement.has_fixed_columns
            and len(sql) <= MAX_CACHED_LENGTH
        ):
            self._prepared.put((sql, session.dialect), _Prepared(statement, prepared))
        return prepared

    def _may_be_migrated(self, statement: ReadyStatement, read_point: ReadPoint) -> bool:
        """Whether the stores of a statement may be something else at the epochs that it would read than at
        the newest ones here.
        """
        stores = statement.bound.definitions.values()
        if read_point != NEWEST and any(definition.generation for definition in stores):
            return True
        return self._routes.differ({definition.group for definition in stores})

    def _as_read(self, request: Request) -> Request:
        """A request with what its stores are at the epochs that it would read now, as far as that can be
        told.
        """
        if not self._may_be_migrated(request.statement, request.read_point):
            return request
        generations = self._router.ahead(self._asked(request))
        other = None if generations is None else self._requests.in_shapes(request, generations)
        return request if other is None else other

    def execute(
        self,
        statement: str | PreparedStatement,
        parameters: pa.RecordBatch | None = None,
        session: Session = DEFAULT_SESSION,
        cancelled: Callable[[], bool] | None = None,
        expected_shapes: ExpectedShapes | None = None,
        slot: Slot | None = None,
    ) -> QueryResult:
        """Run a statement over one version of each store.

        Args:
            statement: Text, or what `prepare` gave.
            parameters: One row with a column a parameter; None for no parameters.
            session: The client's choices; the dialect is that of the prepared statement, if it is one.
            cancelled: Tells, from any thread, whether the client took the statement back.
            expected_shapes: What the names of a text meant when the client was told its columns; None where
                it was not.
            slot: What the statement holds until there is a result; it is given back while an epoch is waited
                for. None for nothing.

        Returns:
            The result; close it, or read it to its end. Its columns are those that were told: where a store
            was migrated since so that they would be others, the newest epoch before is read, as long as there
            is one.

        Raises:
            InvalidInput: Its columns would be others than were told.
            LivestateError: The statement is not valid or cannot be answered, as its kind and message say.
        """
        started = time.perf_counter()
        text, dialect = (
            (statement, session.dialect) if isinstance(statement, str) else (statement.sql, statement.dialect)
        )
        expected_shapes = expected_shapes if isinstance(statement, str) else statement.shapes
        found = self.row(text, dialect, parameters, session, cancelled, expected_shapes)
        if found is not None:
            return found
        deadline = Deadline(self._timeout(session), cancelled, slot)
        if parameters is None and dialect == "duckdb":
            found = self._execute_template(text, deadline, started, session.read_point, expected_shapes)
            if found is not None:
                return found
        return self._run(
            replace(
                self._requests.made(text, dialect, parameters, session.read_point, deadline, expected_shapes),
                started=started,
            )
        )

    def endpoints(
        self,
        sql: str,
        parameters: pa.RecordBatch | None = None,
        session: Session = DEFAULT_SESSION,
        expected_shapes: ExpectedShapes | None = None,
    ) -> Endpoints | None:
        """What a client can ask of several hosts by itself to get a statement's answer, in place of having it
        gathered here.

        Args:
            sql: One read-only statement.
            parameters: One row with a column a parameter; None for no parameters.
            session: The client's choices.
            expected_shapes: As in `execute`.

        Returns:
            A fragment for each of at least two hosts, good as long as its epochs can be read; their rows
            together, in any order, are the answer. None where the answer has an order, or has to be put
            together in another way.

        Raises:
            LivestateError: The statement is not valid or cannot be answered, as its kind and message say.
        """
        request = self._request(sql, parameters, session, expected_shapes)
        bound = request.statement.bound
        if bound.statement_class is not StatementClass.QUERY or not bound.references:
            return None
        return self._coordinator.endpoints(self._asked(request))

    def divide(
        self, sql: str, parameters: pa.RecordBatch | None = None, session: Session = DEFAULT_SESSION
    ) -> Division:
        """Divide a statement's answer into what a client can read partition by partition.

        Args:
            sql: One read-only statement.
            parameters: One row with a column a parameter; None for no parameters.
            session: The client's choices.

        Returns:
            Its pieces, good as long as their epochs can be read.

        Raises:
            LivestateError: The statement is not valid or cannot be answered, as its kind and message say.
        """
        request = self._request(sql, parameters, session)
        bound = request.statement.bound
        if bound.statement_class is not StatementClass.QUERY or not bound.references:
            return Division({}, None, None)
        return self._divider.divide(self._asked(request), self._timeout(session))

    def _request(
        self,
        sql: str,
        parameters: pa.RecordBatch | None,
        session: Session,
        expected_shapes: ExpectedShapes | None = None,
    ) -> Request:
        return self._requests.made(
            sql,
            session.dialect,
            parameters,
            session.read_point,
            Deadline(self._timeout(session)),
            expected_shapes,
        )

    def execute_fragment(
        self, request: FragmentRequest, cancelled: Callable[[], bool] | None = None
    ) -> QueryResult:
        """Run a fragment over this host's partitions. It asks no other host for anything.

        Args:
            request: The fragment.
            cancelled: Tells, from any thread, whether nobody waits for it any more.

        Returns:
            The result; close it, or read it to its end.

        Raises:
            InvalidInput: It is not valid here.
            Unavailable: A partition or an epoch of it cannot be read here.
            LivestateError: It cannot be answered, as its kind and message say.
        """
        return self._fragment_executor.execute(request, cancelled)

    def row(
        self,
        text: str,
        dialect: str,
        parameters: pa.RecordBatch | Sequence[object] | None,
        session: Session = DEFAULT_SESSION,
        cancelled: Callable[[], bool] | None = None,
        expected_shapes: ExpectedShapes | None = None,
    ) -> QueryResult | None:
        """Answer the most frequent statement, one row by its key, past everything that other statements need.

        Args:
            text: Any statement.
            dialect: Its dialect.
            parameters: One row with a column a parameter, or plain Python values; None where the text has
                literals.
            session: The client's other choices.
            cancelled: Tells, from any thread, whether the client took the statement back; only asked while
                another host is waited for.
            expected_shapes: As in `execute`.

        Returns:
            The result; None where the statement asks for anything else, has not been made ready before, or
            was told other columns, so that `execute` has to answer it.

        Raises:
            Unavailable: The store cannot be read now.
        """
        started = time.perf_counter()
        if session.read_point is not NEWEST and session.read_point != NEWEST:
            return None
        texts = self._texts
        found = (
            texts.lookup_by_literal(text, dialect)
            if parameters is None
            else texts.lookup_by_parameter(text, dialect, parameters)
        )
        if found is None:
            return None
        statement, key = found
        lookup = statement.key_lookup
        if (
            lookup is None
            or not lookup.is_key(key)
            or (expected_shapes is not None and expected_shapes != statement.bound.shapes)
        ):
            return None
        if not self._cluster.has_peers:
            return self._row_alone(lookup, key, started)
        return self._coordinator.row(
            KeyQuery(
                statement, lookup, key, self._source.definitions(), self._timeout(session), started, cancelled
            )
        )

    def _row_alone(self, lookup: KeyLookup, key: int | str, started: float) -> QueryResult | None:
        """Answer a lookup of one row on a host without peers.

        The row is here or nowhere. What the coordinator needs to find that out takes 3 µs, a third of the
        lookup itself.
        """
        try:
            return self._local.row(lookup, key, ALL_NEWEST, started)
        except (MigratedError, BuildingError):
            return None

    def _timeout(self, session: Session) -> float | None:
        limits = [
            limit
            for limit in (session.timeout_seconds, self._options.statement_timeout_seconds)
            if limit is not None
        ]
        return min(limits, default=None)

    def _execute_template(
        self,
        text: str,
        deadline: Deadline,
        started: float,
        read_point: ReadPoint,
        expected_shapes: ExpectedShapes | None,
    ) -> QueryResult | None:
        """Answer a short lookup by the plan that all texts of its template share; None if it is no such
        lookup, or not known yet.
        """
        template = template_of(text)
        if template is None:
            return None
        tables = self._source.tables()
        known = self._statements.known_lookup(template.text, tables)
        if known is None:
            self._statements.learn_template(template.text, len(template.values), tables)
            return None
        values = template_values(known.bound.parameters, template)
        if values is None or (expected_shapes is not None and expected_shapes != known.bound.shapes):
            return None
        request = Request(
            "duckdb",
            ReadyText(text, known, {}),
            Arguments(values),
            deadline,
            started,
            read_point,
            has_expected_shapes=expected_shapes is not None,
        )
        assert isinstance(known.plan, RowsPlan)
        is_lookup = (
            request.limit != REFUSED_LIMIT and lookup_points(known.plan, request.arguments) is not None
        )
        return self._query(request) if is_lookup else None

    def _run(self, request: Request) -> QueryResult:
        bound = request.statement.bound
        match bound.statement_class:
            case StatementClass.SHOW_TABLES:
                return _catalog_result(show_tables(self._source.tables()))
            case StatementClass.SHOW_STORES:
                return _catalog_result(
                    show_stores(self._store_statuses(), self._source.definitions(), self._source.tables())
                )
            case StatementClass.SHOW_HOSTS:
                return _catalog_result(
                    hosts_table(
                        self._cluster.uris,
                        self._cluster.peers.host_statuses(),
                        self._source.definitions(),
                        _now(),
                    )
                )
            case StatementClass.DESCRIBE if bound.described is not None:
                return _catalog_result(describe_store(bound.described))
            case StatementClass.DESCRIBE:
                return _catalog_result(describe_schema(self._query_schema(self._as_read(request))))
            case StatementClass.EXPLAIN:
                return _catalog_result(plan_text(self._explained(request)))
            case StatementClass.EXPLAIN_ANALYZE:
                return _catalog_result(plan_text(self._analyzed(request)))
            case StatementClass.QUERY:
                return self._query(request)

    def _store_statuses(self) -> Sequence[StoreStatus]:
        """How the stores stand; where others hold parts of them, over all hosts."""
        here = self._source.status()
        if not self._cluster.has_peers:
            return here
        problems = {each.store: each.problem for each in here}
        return store_statuses(self._cluster.peers.reports(), self._source.definitions(), problems, _now())

    def _query(self, request: Request) -> QueryResult:
        if not request.statement.bound.references:
            return self._local.answer(request)
        return self._coordinator.answer(self._asked(request)).result

    def _asked(self, request: Request) -> DistributedQuery:
        return DistributedQuery(request, self._source.definitions())

    def _schema(self, request: Request) -> pa.Schema:
        """The schema of a statement's result."""
        bound, plan = request.statement.bound, request.statement.plan
        fixed = {
            StatementClass.SHOW_TABLES: TABLES_SCHEMA,
            StatementClass.SHOW_STORES: STORES_SCHEMA,
            StatementClass.SHOW_HOSTS: HOSTS_SCHEMA,
            StatementClass.DESCRIBE: COLUMNS_SCHEMA,
        }
        if bound.statement_class is not StatementClass.QUERY:
            return fixed.get(bound.statement_class, PLAN_SCHEMA)
        return self._query_schema(request) if plan is None or isinstance(plan, EnginePlan) else plan.schema

    def _query_schema(self, request: Request) -> pa.Schema:
        outputs = self._local.bind(request).outputs
        if outputs is not None:
            return outputs.schema
        with self._query(request) as result:
            return result.schema

    def _explained(self, request: Request) -> list[str]:
        """The lines of EXPLAIN."""
        if not request.statement.bound.references:
            return self._local.explain(request)
        return self._coordinator.explain(self._asked(request))

    def _analyzed(self, request: Request) -> list[str]:
        """The lines of EXPLAIN ANALYZE."""
        statement = request.statement
        lines = self._explained(request)
        query = replace(statement, bound=replace(statement.bound, statement_class=StatementClass.QUERY))
        running = replace(request, ready=replace(request.ready, statement=query), started=time.perf_counter())
        if statement.bound.references:
            return lines + self._coordinator.analyze(self._asked(running))
        with self._query(running) as result:
            rows = sum(batch.num_rows for batch in result)
            lines += [
                f"rows: {rows}",
                *(f"{step}: {seconds * 1000:.3f} ms" for step, seconds in result.metadata.seconds.items()),
            ]
            lines.append(f"all rows: {(time.perf_counter() - running.started) * 1000:.3f} ms")
        return lines


def _now() -> int:
    """The time, microseconds since 1970 UTC."""
    return time.time_ns() // 1000


def _spill_directory(options: QueryOptions) -> SpillDirectory | None:
    if options.spill_directory is None or not options.spill_limit_bytes:
        return None
    return SpillDirectory(options.spill_directory, options.spill_limit_bytes)


def _catalog_result(table: pa.Table) -> QueryResult:
    return QueryResult(table.schema, QueryMetadata("catalog"), iter(table.to_batches()))
