"""Statements that are checked and typed before they run, and the columns of statements."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from engine.coordinator.catalog_queries import CATALOG_SCHEMAS
from engine.coordinator.coordinator import Coordinator
from engine.coordinator.distributed_query import DistributedQuery
from engine.coordinator.router import Router
from engine.coordinator.routes import Routes
from engine.deadline import Deadline
from engine.errors import InvalidInput
from engine.exec.local_executor import LocalExecutor
from engine.exec.requests import Requests
from engine.model.read_point import ReadPoint
from engine.model.table_shapes import ExpectedShapes
from engine.plan.arguments import parameter_schema
from engine.plan.column_origins import ColumnOrigin, column_origins
from engine.plan.plans import EnginePlan
from engine.plan.statement import ReadyStatement
from engine.scan import StoreSource
from engine.sql.parsed_statement import StatementClass
from engine.statements.least_recently_used import CacheLimits, LeastRecentlyUsed, statement_bytes
from engine.statements.request import Request
from engine.statements.statement_cache import MAX_CACHED_LENGTH
from engine.statements.texts import Texts


@dataclass(frozen=True, eq=False)
class PreparedStatement:
    """A statement that was checked and typed.

    Attributes:
        sql: Its text.
        schema: Schema of its result.
        parameters: One field a parameter, in the order of the numbers: named `1`, `2`, … or by their names.
        dialect: Dialect of the text.
        shapes: What its names meant, as `BoundStatement.shapes`; None where its columns follow from rows.
        origins: Which columns of stores its result has; empty where that is not known.
    """

    sql: str
    schema: pa.Schema
    parameters: pa.Schema
    dialect: str = "duckdb"
    shapes: ExpectedShapes | None = None
    origins: tuple[ColumnOrigin | None, ...] = ()


@dataclass(frozen=True)
class _Entry:
    """A prepared statement, good as long as its text still means the same."""

    statement: ReadyStatement
    prepared: PreparedStatement


class PreparedStatements:
    """Checks and types statements, and keeps those that come again. Safe for threads.

    Args:
        source: The stores that are here.
        texts: Makes texts ready.
        requests: Binds statements again.
        routes: Knows the generations of stores on all hosts.
        router: Finds the epochs that statements would read.
        coordinator: Runs statements whose columns only their rows tell.
        local: Tells the columns of the others.
        limits: How many statements to keep.
    """

    def __init__(
        self,
        source: StoreSource,
        texts: Texts,
        requests: Requests,
        routes: Routes,
        router: Router,
        coordinator: Coordinator,
        local: LocalExecutor,
        limits: CacheLimits,
    ) -> None:
        self._source = source
        self._texts = texts
        self._requests = requests
        self._routes = routes
        self._router = router
        self._coordinator = coordinator
        self._local = local
        self._entries: LeastRecentlyUsed[_Entry] = LeastRecentlyUsed(limits)

    def prepare(
        self,
        sql: str,
        dialect: str,
        read_point: ReadPoint,
        deadline: Deadline,
        expected_shapes: ExpectedShapes | None,
        given: Callable[[], pa.RecordBatch] | None = None,
    ) -> PreparedStatement:
        """Check a statement and tell its types.

        Args:
            sql: One read-only statement.
            dialect: Its dialect.
            read_point: Which epochs its session may read.
            deadline: When this must end.
            expected_shapes: What its names meant when its types were told before; None where they were not.
            given: Gives the values that it will run with, whose types decide where no place suggests any;
                None where they are not known yet.

        Returns:
            The statement with the schemas of its result and parameters.

        Raises:
            InvalidInput: It has other columns now than were told, and there is no epoch left at which it has
                these.
            LivestateError: The statement is not valid, as its kind and message say.
        """
        known = self.find(sql, dialect, read_point, expected_shapes, given)
        if known is not None:
            return known
        ready, read_point = self._texts.ready_text(sql, dialect, read_point, deadline)
        deadline.check()
        values = _values_that_decide(ready.statement, given)
        arguments, misfit = (
            (self._requests.arguments_without_values(ready, deadline), None)
            if values is None
            else self._requests.fit_arguments(ready, values, deadline)
        )
        started = time.perf_counter()
        newest = self.rebind_for_epochs(
            Request(dialect, ready, arguments, deadline, started, read_point, given=values, misfit=misfit)
        )
        request = newest
        if expected_shapes is not None:
            request = self._requests.keep_expected_shapes(newest, expected_shapes)
            if request is not newest:
                self._router.check_readable(self._query_of(request))
        if request.misfit is not None:
            raise InvalidInput(request.misfit)
        statement = request.statement
        is_typed = statement.bound.statement_class is StatementClass.QUERY and statement.has_fixed_columns
        prepared = PreparedStatement(
            sql,
            self._schema(request),
            parameter_schema(statement.bound.parameters),
            dialect,
            statement.bound.shapes if is_typed else None,
            column_origins(statement.logical) if is_typed and statement.bound.references else (),
        )
        if request is newest and values is None and _can_be_kept(request, sql):
            self._entries.put((sql, dialect), _Entry(statement, prepared), statement_bytes(sql))
        return prepared

    def find(
        self,
        sql: str,
        dialect: str,
        read_point: ReadPoint,
        expected_shapes: ExpectedShapes | None,
        given: Callable[[], pa.RecordBatch] | None,
    ) -> PreparedStatement | None:
        """A statement that was prepared before, if its text still means the same.

        Args:
            sql: One read-only statement.
            dialect: Its dialect.
            read_point: As that of `prepare`.
            expected_shapes: Likewise.
            given: Likewise.

        Returns:
            The statement; None where `prepare` has to find out more.
        """
        known = self._find(sql, dialect, read_point)
        if (
            known is None
            or expected_shapes not in (None, known.prepared.shapes)
            or _values_that_decide(known.statement, given) is not None
        ):
            return None
        return known.prepared

    def _find(self, sql: str, dialect: str, read_point: ReadPoint) -> _Entry | None:
        """The prepared statement of a text, if that still means the same."""
        known = self._entries.get((sql, dialect))
        if known is None or not known.statement.is_current(self._source.tables()):
            return None
        return None if self._may_be_migrated(known.statement, read_point) else known

    def _may_be_migrated(self, statement: ReadyStatement, read_point: ReadPoint) -> bool:
        """Whether the stores of a statement may be something else at the epochs that it would read than at
        the newest ones here.
        """
        stores = statement.bound.definitions.values()
        if not read_point.is_newest and any(definition.amendment for definition in stores):
            return True
        return self._routes.have_mixed_generations({definition.group for definition in stores})

    def rebind_for_epochs(self, request: Request) -> Request:
        """A request with what its stores are at the epochs that it would read now, as far as that can be
        told.

        Args:
            request: The request, bound with what they are at the newest epochs here.
        """
        if not self._may_be_migrated(request.statement, request.read_point):
            return request
        generations = self._router.other_generations(self._query_of(request))
        other = None if generations is None else self._requests.rebind(request, generations)
        return request if other is None else other

    def _query_of(self, request: Request) -> DistributedQuery:
        return DistributedQuery(request, self._source.definitions())

    def _schema(self, request: Request) -> pa.Schema:
        """The schema of a statement's result."""
        statement_class, plan = request.statement.bound.statement_class, request.statement.plan
        if statement_class is not StatementClass.QUERY:
            return CATALOG_SCHEMAS[statement_class]
        if plan is None or isinstance(plan, EnginePlan):
            return self.query_schema(request)
        return plan.schema

    def query_schema(self, request: Request) -> pa.Schema:
        """The schema of a query's result; the query runs where only its rows tell.

        Args:
            request: The query.

        Raises:
            LivestateError: It is not valid or cannot be answered, as its kind and message say.
        """
        if request.types and request.statement.is_typed_by_values and request.statement.has_fixed_columns:
            return self._local.outputs_with_values(request).schema
        outputs = self._local.bind(request).outputs
        if outputs is not None:
            return outputs.schema
        with (
            request.deadline.occupy_slot(),
            self._coordinator.answer(self._query_of(request)).result as result,
        ):
            return result.schema


def _values_that_decide(
    statement: ReadyStatement, given: Callable[[], pa.RecordBatch] | None
) -> pa.RecordBatch | None:
    """Values that may make other columns of a statement, by their types or by themselves, than those that its
    places suggest; None where they do not, or none are given.
    """
    slots = statement.bound.parameters
    if given is None or not slots or not (statement.plan is None or isinstance(statement.plan, EnginePlan)):
        return None
    values = given()
    decide = statement.is_typed_by_values or values.schema.types != [slot.type for slot in slots]
    return values if decide else None


def _can_be_kept(request: Request, sql: str) -> bool:
    """Whether it can be told later that a text still means the same: not without a store to refer to."""
    statement = request.statement
    return (
        bool(statement.bound.references)
        and not request.ready.lists
        and statement.has_fixed_columns
        and len(sql) <= MAX_CACHED_LENGTH
    )
