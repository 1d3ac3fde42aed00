"""The query service: SQL in, batches out. What a statement goes through stands in `QueryService.execute`."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from weakref import WeakSet

import pyarrow as pa

from engine.access.principal import EngineLimit
from engine.access.scope import Scope
from engine.catalog.show import describe_schema, plan_text
from engine.cluster.fragments import FragmentRequest
from engine.coordinator.answers_at_hand import AnswersAtHand
from engine.coordinator.catalog_queries import CatalogQueries
from engine.coordinator.coordinator import Coordinator
from engine.coordinator.deployment_hosts import DeploymentHosts
from engine.coordinator.distributed_query import DistributedQuery
from engine.coordinator.division import Divider, Division
from engine.coordinator.endpoints import Endpoints
from engine.coordinator.fragment_hosts import FragmentHosts
from engine.coordinator.key_rows import KeyRows
from engine.coordinator.key_streams import KeyStream, key_columns
from engine.coordinator.lag_limit import LagLimit
from engine.coordinator.one_host import cluster_of_one
from engine.coordinator.plan_cache import PlanCache
from engine.coordinator.plan_runner import PlanRunner
from engine.coordinator.prepared_statements import PreparedStatement, PreparedStatements
from engine.coordinator.resources import Resources, open_resources
from engine.coordinator.restricted_hosts import restricted_hosts
from engine.coordinator.result_metadata import hide_sizes
from engine.coordinator.router import Router
from engine.coordinator.routes import Routes
from engine.deadline import Deadline, Slot
from engine.errors import Forbidden
from engine.exec.argument_maker import ArgumentMaker, Clock
from engine.exec.fallbacks import REFUSALS, TEXT_REFUSALS
from engine.exec.fragment_cache import FragmentCache
from engine.exec.fragment_executor import FragmentExecutor
from engine.exec.kept_answers import KeptAnswers
from engine.exec.local_executor import LocalExecutor
from engine.exec.query_options import QueryOptions
from engine.exec.query_result import QueryMetadata, QueryResult
from engine.exec.requests import Requests
from engine.exec.restricted_source import RestrictedSource
from engine.model.read_point import NEWEST, ReadPoint
from engine.model.table_shapes import ExpectedShapes
from engine.scan import StoreSource
from engine.sql.parsed_statement import StatementClass
from engine.statements.column_names import ColumnNames
from engine.statements.least_recently_used import CacheLimits
from engine.statements.request import Request
from engine.statements.session import DEFAULT_SESSION, Session
from engine.statements.shapes import Shapes
from engine.statements.statement_cache import StatementCache
from engine.statements.templates import Templates
from engine.statements.texts import Texts

_log = logging.getLogger(__name__)
__all__ = [
    "DEFAULT_SESSION",
    "PreparedStatement",
    "QueryMetadata",
    "QueryOptions",
    "QueryResult",
    "QueryService",
    "Session",
]


MOST_SCOPES = 64
"""Services that are kept for those for whom a part of the stores exists; of more, those asked longest ago are
made anew.
"""


@dataclass(frozen=True)
class ServiceFigures:
    """What statements have taken so far, and take now.

    Attributes:
        retries: How often one was begun anew after a host failed.
        answers: Questions that are known, with an answer or without.
        answer_bytes: What they take.
        gathered_bytes: What rows of other hosts take that are not merged yet.
        gathered_disk_bytes: What of these is in files.
        engine_bytes: What the engine takes.
        engine_disk_bytes: What it has in files.
    """

    retries: int
    answers: int
    answer_bytes: int
    gathered_bytes: int
    gathered_disk_bytes: int
    engine_bytes: int
    engine_disk_bytes: int


class RestrictedServices:
    """Services by what exists for those whom they answer. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Scope, QueryService] = OrderedDict()
        # Statements of those that are not kept any more may still run.
        self._alive: WeakSet[QueryService] = WeakSet()

    def find(self, scope: Scope) -> QueryService | None:
        """The service of a scope; None where it is not kept."""
        with self._lock:
            found = self._kept.get(scope)
            if found is not None:
                self._kept.move_to_end(scope)
            return found

    def add(self, scope: Scope, service: QueryService) -> QueryService:
        """Keep a service.

        Args:
            scope: What exists for those whom it answers.
            service: The service.

        Returns:
            The service that is kept: that of another thread, if that was sooner.
        """
        with self._lock:
            kept = self._kept.setdefault(scope, service)
            self._alive.add(kept)
            if len(self._kept) > MOST_SCOPES:
                self._kept.popitem(last=False)
            return kept

    def all(self) -> Sequence[QueryService]:
        """All services that still answer."""
        with self._lock:
            return list(self._alive)


class QueryService:
    """Answers read-only SQL over the stores of a source, and over those of other hosts. Safe for threads.

    Args:
        source: The stores that are here.
        options: Limits.
        cluster: The hosts of the deployment; None where this host has everything.
        clock: Tells the time of statements, as nanoseconds since 1970.
        scope: What of the source exists, which shows nothing else; None: everything.
        resources: What it computes with, shared with another service that closes it; None: its own.
    """

    def __init__(
        self,
        source: StoreSource,
        options: QueryOptions | None = None,
        cluster: DeploymentHosts | None = None,
        clock: Clock = time.time_ns,
        *,
        scope: Scope | None = None,
        resources: Resources | None = None,
    ) -> None:
        self._source = source
        self._options = options = options or QueryOptions()
        self._cluster = cluster = cluster or cluster_of_one(source)
        self._clock = clock
        self._scope = scope
        self._resources = resources = resources or open_resources(options)
        self._restricted = RestrictedServices()
        limits = CacheLimits(options.cached_statements, options.kept_statement_bytes)
        engine = resources.engine
        # Texts to bound statements.
        self._statements = StatementCache(limits, ColumnNames(engine.binder))
        self._templates = Templates(limits)
        self._texts = Texts(source, self._statements, options.longest_text_bytes)
        # Statements and fragments over this host's stores.
        local = LocalExecutor(source, engine, options.batch_bytes)
        fragments, shapes = FragmentCache(engine, limits), Shapes(source)
        arguments = ArgumentMaker(resources.folder, clock)
        self._fragment_executor = FragmentExecutor(source, fragments, shapes, local, arguments)
        self._requests = Requests(self._texts, local, arguments)
        # Statements over all hosts.
        self._lag_limit = lag_limit = LagLimit(source, options.max_lag_seconds)
        routes = Routes(cluster, options.broadcast_limit_bytes, lag_limit)
        router = Router(source, routes, shapes, self._requests)
        plans = PlanCache(engine, fragments, local, limits)
        hosts = FragmentHosts(cluster, self._fragment_executor)
        self._runner = PlanRunner(cluster.here, hosts, options, resources)
        answers = self._answers = KeptAnswers(options.kept_answer_bytes)
        self._coordinator = Coordinator(cluster, router, plans, self._runner, local, answers, lag_limit)
        self._at_hand = AnswersAtHand(
            source,
            cluster,
            self._texts,
            local,
            KeyRows(cluster, routes, router, plans, local),
            answers,
            lag_limit,
            options.statement_timeout_seconds,
        )
        self._divider = Divider(cluster, router, plans)
        self._catalog = CatalogQueries(source, cluster, hides_sizes=scope is not None)
        self._prepared = PreparedStatements(
            source, self._texts, self._requests, routes, router, self._coordinator, local, limits
        )

    @property
    def source(self) -> StoreSource:
        """The stores that are here."""
        return self._source

    @property
    def has_peers(self) -> bool:
        """Whether there are other hosts, which may have rows that this one lacks."""
        return self._cluster.has_peers

    def figures(self) -> ServiceFigures:
        """What its statements have taken so far, and take now, those of restricted services among them."""
        services = (*self._restricted.all(), self)
        engine, memory = self._resources.engine.memory(), self._resources.memory
        return ServiceFigures(
            retries=sum(service._coordinator.retries for service in services),  # noqa: SLF001 - of this class
            answers=sum(len(service._answers) for service in services),  # noqa: SLF001 - likewise
            answer_bytes=sum(service._answers.nbytes for service in services),  # noqa: SLF001 - likewise
            gathered_bytes=memory.held_bytes,
            gathered_disk_bytes=memory.disk_bytes,
            engine_bytes=engine.nbytes,
            engine_disk_bytes=engine.spilled_bytes,
        )

    def close(self) -> None:
        """Stop the engine, and what other hosts do for this one."""
        for service in (*self._restricted.all(), self):
            service._runner.close()  # noqa: SLF001 - one of this class
        self._resources.close()

    def restrict(self, scope: Scope | None) -> QueryService:
        """The service that answers somebody for whom a part of the stores exists alone.

        It keeps plans and answers of its own, so nothing that others asked or got is told; it computes with
        what this one has.

        Args:
            scope: What exists; None for everything.
        """
        if scope is None:
            return self
        known = self._restricted.find(scope)
        return known or self._restricted.add(scope, self._restricted_service(scope))

    def _restricted_service(self, scope: Scope) -> QueryService:
        source = RestrictedSource(self._source, scope)
        cluster = restricted_hosts(self._cluster, source, scope) if self._cluster.has_peers else None
        options = replace(
            self._options,
            cached_statements=max(1, self._options.cached_statements // 8),
            statement_bytes=self._options.kept_statement_bytes // 8,
            answer_bytes=self._options.kept_answer_bytes // MOST_SCOPES,
        )
        return QueryService(source, options, cluster, self._clock, scope=scope, resources=self._resources)

    def prepare(
        self,
        sql: str,
        session: Session = DEFAULT_SESSION,
        expected_shapes: ExpectedShapes | None = None,
        given: Callable[[], pa.RecordBatch] | None = None,
        cancelled: Callable[[], bool] | None = None,
        engine_limit: EngineLimit | None = None,
        slot: Slot | None = None,
    ) -> PreparedStatement:
        """Check a statement and tell its types.

        Args:
            sql: One read-only statement.
            session: The client's choices.
            expected_shapes: What its names meant when its types were told before; None where they were not.
            given: Gives the values that it will run with; None where they are not known yet.
            cancelled: Tells, from any thread, whether the client took the statement back.
            engine_limit: What the engine may take for the client; None for as much as for anybody.
            slot: What it holds while rows are read that tell its columns, and has the limits of; None for
                nothing.

        Returns:
            The statement with the schemas of its result and parameters.

        Raises:
            InvalidInput: It has other columns now than were told, and there is no epoch left at which it has
                these.
            LivestateError: The statement is not valid, as its kind and message say.
        """
        deadline = Deadline(self._time_limit(session), cancelled, slot, engine_limit)
        return self._prepared.prepare(
            sql, session.dialect, session.read_point, deadline, expected_shapes, given
        )

    def prepared_before(
        self,
        sql: str,
        session: Session = DEFAULT_SESSION,
        expected_shapes: ExpectedShapes | None = None,
        given: Callable[[], pa.RecordBatch] | None = None,
    ) -> PreparedStatement | None:
        """A statement that was prepared before, which takes next to nothing to find.

        Args:
            sql: Any text.
            session: As that of `prepare`.
            expected_shapes: Likewise.
            given: Likewise.

        Returns:
            The statement; None where `prepare` has to find out more.
        """
        return self._prepared.find(sql, session.dialect, session.read_point, expected_shapes, given)

    def execute(
        self,
        text: str,
        parameters: pa.RecordBatch | None = None,
        session: Session = DEFAULT_SESSION,
        cancelled: Callable[[], bool] | None = None,
        expected_shapes: ExpectedShapes | None = None,
        slot: Slot | None = None,
        *,
        may_be_at_hand: bool = True,
    ) -> QueryResult:
        """Run a statement over one version of each store.

        Args:
            text: The statement.
            parameters: One row with a column a parameter; None for no parameters.
            session: The client's choices.
            cancelled: Tells, from any thread, whether the client took the statement back.
            expected_shapes: What the names of a text meant when the client was told its columns; None where
                it was not.
            slot: What the statement holds until there is a result; it is given back while an epoch is waited
                for. None for nothing.
            may_be_at_hand: Whether `answer_at_hand` may have it; False where it has said no.

        Returns:
            The result; close it, or read it to its end. Its columns are those that were told: where a store
            was migrated since so that they would be others, the newest epoch before is read, as long as there
            is one.

        Raises:
            InvalidInput: Its columns would be others than were told.
            LivestateError: The statement is not valid or cannot be answered, as its kind and message say.
        """
        started = time.perf_counter()

        # 1. One row by its key needs nothing of what follows, nor does an answer that was kept.
        if may_be_at_hand:
            found = self.answer_at_hand(text, parameters, session, cancelled, expected_shapes)
            if found is not None:
                return found

        # 2. Text → bound statement with its plan: of the template that texts share which differ in values, or
        # of its own.
        deadline = Deadline(self._time_limit(session), cancelled, slot)
        if parameters is None and session.dialect == "duckdb":
            shared = self._answer_by_template(text, session, deadline, started, expected_shapes)
            if shared is not None:
                return shared
        request = self._requests.make(text, parameters, session, deadline, expected_shapes, started=started)

        # 3. SHOW and DESCRIBE are tables; everything else runs.
        self._check_shown(request)
        table = self._catalog.table(request.statement.bound)
        if table is not None:
            return _catalog_result(table)
        match request.statement.bound.statement_class:
            case StatementClass.DESCRIBE:
                rebound = self._prepared.rebind_for_epochs(request)
                return _catalog_result(describe_schema(self._prepared.query_schema(rebound)))
            case StatementClass.EXPLAIN:
                return _explain_result(request, self._explain(request))
            case StatementClass.EXPLAIN_ANALYZE:
                return _explain_result(request, self._explain(request) + self._analyze(request))
            case _:
                # 4. Bound statement → route → fragments → executor, here or there → merge → batches.
                result = self._hide_sizes(self._coordinator.answer(self._query_of(request)).result)
                self._at_hand.learn_list(request, session)
                return result

    def _hide_sizes(self, result: QueryResult) -> QueryResult:
        """A result with metadata that tells nothing of rows that are hidden."""
        if self._scope is not None:
            result.tell(hide_sizes(result.metadata))
        return result

    def _check_shown(self, request: Request) -> None:
        """See that a statement shows nothing of what is hidden.

        Raises:
            Forbidden: It would.
        """
        bound, source = request.statement.bound, self._source
        if not isinstance(source, RestrictedSource):
            return
        if bound.statement_class is StatementClass.SHOW_HOSTS:
            raise Forbidden("SHOW HOSTS tells how much all stores hold: that takes the role reader.")
        explains = bound.statement_class in (StatementClass.EXPLAIN, StatementClass.EXPLAIN_ANALYZE)
        if explains and source.has_hidden_rows(bound.stores):
            raise Forbidden(
                "EXPLAIN tells how many rows stores hold, and some of these are not for you: that takes the "
                "role reader."
            )

    @property
    def statement_timeout_seconds(self) -> float | None:
        """What any statement may take; None for no limit."""
        return self._options.statement_timeout_seconds

    @property
    def longest_text_bytes(self) -> int:
        """Bytes of the longest text that it takes."""
        return self._options.longest_text_bytes

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
        return self._divider.endpoints(self._query_of(request))

    def divide(
        self,
        sql: str,
        parameters: pa.RecordBatch | None = None,
        session: Session = DEFAULT_SESSION,
        cancelled: Callable[[], bool] | None = None,
        slot: Slot | None = None,
    ) -> Division:
        """Divide a statement's answer into what a client can read partition by partition.

        Args:
            sql: One read-only statement.
            parameters: One row with a column a parameter; None for no parameters.
            session: The client's choices.
            cancelled: As in `prepare`.
            slot: As in `prepare`.

        Returns:
            Its pieces, good as long as their epochs can be read.

        Raises:
            LivestateError: The statement is not valid or cannot be answered, as its kind and message say.
        """
        deadline = Deadline(self._time_limit(session), cancelled, slot)
        request = self._requests.make(sql, parameters, session, deadline, None)
        bound = request.statement.bound
        if bound.statement_class is not StatementClass.QUERY or not bound.references:
            return Division({}, None, None)
        return self._divider.divide(self._query_of(request), self._time_limit(session))

    def _request(
        self,
        sql: str,
        parameters: pa.RecordBatch | None,
        session: Session,
        expected_shapes: ExpectedShapes | None = None,
    ) -> Request:
        deadline = Deadline(self._time_limit(session))
        return self._requests.make(sql, parameters, session, deadline, expected_shapes)

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
        if request.scope is not None:
            return self.restrict(request.scope).execute_fragment(replace(request, scope=None), cancelled)
        return self._hide_sizes(self._fragment_executor.execute(request, cancelled))

    def answer_at_hand(
        self,
        text: str,
        parameters: pa.RecordBatch | Sequence[object] | None,
        session: Session = DEFAULT_SESSION,
        cancelled: Callable[[], bool] | None = None,
        expected_shapes: ExpectedShapes | None = None,
    ) -> QueryResult | None:
        """As `AnswersAtHand.find`."""
        found = self._at_hand.find(text, parameters, session, cancelled, expected_shapes)
        return None if found is None else self._hide_sizes(found)

    def row(
        self,
        text: str,
        parameters: pa.RecordBatch | Sequence[object] | None,
        session: Session = DEFAULT_SESSION,
        cancelled: Callable[[], bool] | None = None,
        expected_shapes: ExpectedShapes | None = None,
    ) -> QueryResult | None:
        """As `AnswersAtHand.row`."""
        row = self._at_hand.row(text, parameters, session, cancelled, expected_shapes)
        return None if row is None else self._hide_sizes(row)

    def key_stream(
        self,
        store: str,
        columns: Sequence[str] | None = None,
        read_point: ReadPoint = NEWEST,
    ) -> KeyStream:
        """Make ready to look up rows of one store by their keys, many times.

        Args:
            store: The name of a store.
            columns: Names of its columns; None for all.
            read_point: Which epochs may be read.

        Returns:
            What answers batches of keys.

        Raises:
            LivestateError: There is no such store or column, or it cannot be asked in this way.
        """
        return KeyStream(
            self._source,
            self._coordinator,
            key_columns(self._source.tables(), self._source.damaged_names(), store, columns),
            read_point,
            self._lag_limit,
            self._resources.key_answers,
            has_peers=self._cluster.has_peers,
        )

    def _time_limit(self, session: Session) -> float | None:
        return session.time_limit(self._options.statement_timeout_seconds)

    def _answer_by_template(
        self,
        text: str,
        session: Session,
        deadline: Deadline,
        started: float,
        expected_shapes: ExpectedShapes | None,
    ) -> QueryResult | None:
        """Answer a query by the statement that texts share which differ in values alone.

        None where it has no values, and where it is refused: what is wrong, and where, is told by the text as
        it is written.
        """
        rows = self._at_hand.rows_of_list(text, session, started, expected_shapes)
        if rows is not None:
            return self._hide_sizes(rows)
        tables = self._source.tables()
        found = self._templates.parametrize(text, tables)
        if found is None:
            return None
        try:
            request = self._requests.make(
                found.text, found.values, session, deadline, expected_shapes, text, started
            )
        except TEXT_REFUSALS as error:
            _log.debug("A template is refused: %s", error)
            return None
        if found.is_likely:
            self._statements.learn_lookup(found.text, request.statement)
        try:
            result = self._hide_sizes(self._coordinator.answer(self._query_of(request)).result)
        except REFUSALS as error:
            deadline.check()
            _log.debug("A template cannot run: %s", error)
            return None
        self._at_hand.learn_list(request, session)
        return result

    def _query_of(self, request: Request) -> DistributedQuery:
        return DistributedQuery(request, self._source.definitions())

    def _explain(self, request: Request) -> list[str]:
        """The lines of EXPLAIN."""
        return self._coordinator.explain(self._query_of(request))

    def _analyze(self, request: Request) -> list[str]:
        """What EXPLAIN ANALYZE adds."""
        statement = request.statement
        query = replace(statement, bound=replace(statement.bound, statement_class=StatementClass.QUERY))
        running = replace(request, ready=replace(request.ready, statement=query), started=time.perf_counter())
        return self._coordinator.analyze(self._query_of(running))


def _explain_result(request: Request, lines: list[str]) -> QueryResult:
    return _catalog_result(plan_text([json.dumps(lines)] if request.statement.bound.is_json else lines))


def _catalog_result(table: pa.Table) -> QueryResult:
    return QueryResult(table.schema, QueryMetadata("catalog"), iter(table.to_batches()))
