"""Answers statements from the stores of this host: by lookup, as plain rows, as a count, or on the engine."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa

from engine.deadline import Deadline
from engine.duckdb.engine import Engine, Outputs
from engine.duckdb.engine_errors import BindingError
from engine.duckdb.results import is_small, slice_batches
from engine.errors import LivestateError
from engine.exec.engine_query import (
    RunningQuery,
    outputs_of,
    outputs_of_stored,
    python_values,
    reads_of,
    run,
    scan_sql,
)
from engine.exec.fallbacks import (
    TEXT_REFUSALS,
    Fallback,
    count_fallbacks,
    log_fallback,
    read_all_columns,
)
from engine.exec.kernels import join_by_key, live_rows, summarize
from engine.exec.query_result import QueryMetadata, QueryResult
from engine.exec.read_metadata import EpochsRead, epochs_of, lookup_metadata, metadata_of
from engine.exec.row_selections import can_select, select_rows
from engine.model.schema import StoreName
from engine.plan.arguments import TIME_TYPE, argument_types
from engine.plan.explain import explain
from engine.plan.key_lookup import KeyLookup
from engine.plan.plans import CountPlan, EnginePlan, RowJoinPlan, RowsPlan, SummaryPlan
from engine.plan.row_widths import RowWidths
from engine.plan.statement import ReadyStatement
from engine.plan.wanted_rows import RowSelection, row_selection
from engine.scan import StoreSource
from engine.sql.diagnose import diagnose
from engine.sql.read_columns import has_columns_of_rows
from engine.statements.pin import Pin, Views, check_shapes
from engine.statements.request import REFUSED_LIMIT, Request, limit_of
from engine.statements.statement_cache import ReadyText

MOST_JOINED_ROWS = 1000
"""With more rows to look up partners for, the engine is faster."""


@dataclass(frozen=True)
class BindableStatement:
    """A statement that the engine takes.

    Attributes:
        statement: The statement that was asked, or one that reads all columns of its stores and has its lists
            in place.
        outputs: Its columns; None where its rows make them.
        fallbacks: The fall-backs that led to it.
    """

    statement: ReadyStatement
    outputs: Outputs | None
    fallbacks: tuple[Fallback, ...] = ()


class LocalExecutor:
    """Answers statements from this host's stores. Safe for threads.

    Args:
        source: The stores.
        engine: The engine.
        batch_bytes: Arrow bytes that a batch of a result should not exceed.
    """

    def __init__(self, source: StoreSource, engine: Engine, batch_bytes: int) -> None:
        self._source = source
        self._engine = engine
        self._batch_bytes = batch_bytes

    def answer(self, request: Request) -> QueryResult:
        """Answer a query.

        Args:
            request: The query.

        Returns:
            The result; close it, or read it to its end.

        Raises:
            MigratedError: A store has other columns at the epoch that is read.
            LivestateError: It cannot be answered, as kind and message say.
        """
        match request.statement.plan:
            case CountPlan() as plan:
                return self._count(request, plan)
            case RowsPlan() as plan if plan.is_unconditional and plan.takes_any_rows:
                return self._rows(request) or self._engine_query(request)
            case RowsPlan():
                return self._selection(request) or self._engine_query(request)
            case SummaryPlan() as plan:
                return self._summary(request, plan) or self._engine_query(request)
            case RowJoinPlan() as plan:
                return self._row_join(request, plan) or self._engine_query(request)
            case _:
                return self._engine_query(request)

    def row(
        self,
        lookup: KeyLookup,
        key: int | str,
        pin: Pin,
        started: float,
        complete_until: int | None = None,
    ) -> QueryResult:
        """Answer the most frequent query, one row by its key.

        Args:
            lookup: The query.
            key: A value of the key's type.
            pin: What is read.
            started: When the query came, by `time.perf_counter`.
            complete_until: Until when what is read lacks no commit, microseconds since 1970 UTC; None where
                that is not known.

        Returns:
            The result, all of it there already.

        Raises:
            Unavailable: The store cannot be read now, or (`MigratedError`) has other columns at this epoch.
        """
        stores = lookup.definitions
        with pin.views(self._source, stores) as views:
            view = views[lookup.definition.name]
            if not view.definition.has_shape_of(lookup.definition):
                check_shapes(views, stores)
            row = view.row(key, lookup.column_indexes, lookup.schema)
            seconds = time.perf_counter() - started
            metadata = lookup_metadata(view, 0 if row is None else 1, seconds, complete_until)
        if row is None:
            return QueryResult(lookup.schema, metadata, lookup.no_row, table_bytes=0)
        return QueryResult(lookup.schema, metadata, row, table_bytes=lookup.widths.table_bytes(row))

    def rows_of_keys(
        self,
        lookup: KeyLookup,
        keys: pa.RecordBatch,
        pin: Pin,
        started: float,
        complete_until: int | None = None,
    ) -> QueryResult:
        """Answer a lookup of rows by a list of keys.

        Args:
            lookup: The query.
            keys: Its keys, at least one; may repeat.
            pin: As for `row`.
            started: As for `row`.
            complete_until: As for `row`.

        Returns:
            The rows in no particular order.

        Raises:
            Unavailable: As `row`.
        """
        stores = lookup.definitions
        with pin.views(self._source, stores) as views:
            view = views[lookup.definition.name]
            if not view.definition.has_shape_of(lookup.definition):
                check_shapes(views, stores)
            columns = view.lookup(lookup.read_columns, keys).columns
            table = pa.Table.from_arrays(
                [columns[place] for place in lookup.read_places], schema=lookup.schema
            )
            seconds = time.perf_counter() - started
            metadata = lookup_metadata(view, table.num_rows, seconds, complete_until)
        return self._result(table, metadata, lookup.widths)

    def newest_epochs(self, stores: Collection[StoreName]) -> EpochsRead:
        """The newest epochs of stores that are here.

        Args:
            stores: The stores.

        Raises:
            Unavailable: One of them cannot be read now.
        """
        with self._source.pin_views(stores) as views:
            return epochs_of(views)

    @contextmanager
    def _views(self, request: Request) -> Iterator[Views]:
        """The stores of a statement, as it takes them to be."""
        stores = request.statement.bound.definitions
        with request.pin.views(self._source, stores) as views:
            check_shapes(views, stores)
            yield views

    def _count(self, request: Request, plan: CountPlan) -> QueryResult:
        with self._views(request) as views:
            count = views[plan.reference.definition.name].live_rows
            metadata = metadata_of("count", views, (), request.seconds(), rows_read=0)
        batch = pa.record_batch([pa.array([count], pa.int64())], schema=plan.schema)
        return QueryResult(plan.schema, metadata, iter((batch,)))

    def _rows(self, request: Request) -> QueryResult | None:
        """Stream plain columns of a whole store."""
        plan = request.statement.plan
        assert isinstance(plan, RowsPlan)
        limit = request.limit
        if limit == REFUSED_LIMIT:
            return None
        with ExitStack() as resources:
            views = resources.enter_context(self._views(request))
            scan = views[plan.reference.definition.name].scan(plan.columns)
            metadata = metadata_of("rows", views, (scan.statistics,), request.seconds())
            batches = _check_time(live_rows(scan, plan.column_indexes, plan.schema, limit), request.deadline)
            kept = resources.pop_all()
        return QueryResult(plan.schema, metadata, slice_batches(batches, self._batch_bytes), kept)

    def _selection(self, request: Request) -> QueryResult | None:
        """Answer by plain rows that pass the tests of WHERE; None where the engine has to, or is faster."""
        plan = request.statement.plan
        assert isinstance(plan, RowsPlan)
        limit, offset = limit_of(plan.limit, request.arguments), limit_of(plan.offset, request.arguments) or 0
        if REFUSED_LIMIT in (limit, offset):
            return None
        selection = row_selection(plan, request.arguments)
        if selection is None:
            return None
        planned = time.perf_counter()
        with self._views(request) as views:
            needed = None if limit is None else limit + offset
            view = views[plan.reference.definition.name]
            found = select_rows(view, selection, plan.order, needed)
            if found is None:
                return None
            rows = found.rows.slice(offset, limit) if offset or limit is not None else found.rows
            columns = rows.columns
            table = pa.Table.from_arrays(
                [columns[place] for place in plan.column_indexes], schema=plan.schema
            )
            seconds = request.seconds(plan=planned - request.started, read=time.perf_counter() - planned)
            metadata = (
                metadata_of("lookup", views, (), seconds, table.num_rows)
                if selection.is_lookup and plan.takes_any_rows
                else metadata_of("rows", views, found.statistics, seconds, found.rows_read)
            )
        return self._result(table, metadata, plan.widths)

    def _summary(self, request: Request, plan: SummaryPlan) -> QueryResult | None:
        """Answer by aggregates of a few rows; None where the engine has to, or is faster."""
        names = request.statement.names or [
            summary.name for summary in plan.summaries if summary.name is not None
        ]
        selection = row_selection(plan.rows, request.arguments)
        if selection is None or len(names) != len(plan.summaries):
            return None
        planned = time.perf_counter()
        with self._views(request) as views:
            view = views[plan.rows.reference.definition.name]
            found = select_rows(view, selection, None, None)
            if found is None:
                return None
            arrays = summarize(found.rows, plan.summaries)
            schema = pa.schema(
                [pa.field(name, array.type) for name, array in zip(names, arrays, strict=True)]
            )
            seconds = request.seconds(plan=planned - request.started, read=time.perf_counter() - planned)
            metadata = metadata_of("summary", views, found.statistics, seconds)
        return self._result(pa.Table.from_arrays(arrays, schema=schema), metadata)

    def _row_join(self, request: Request, plan: RowJoinPlan) -> QueryResult | None:
        """Answer by rows that are looked up, and the rows that have their key; None where the engine has to,
        or is faster.
        """
        join = plan.join
        names = request.statement.names or join.names
        selection = _joined_selection(request, plan)
        if selection is None or len(names) != len(join.outputs):
            return None
        planned = time.perf_counter()
        with self._views(request) as views:
            found = select_rows(views[join.one.definition.name], selection, None, None)
            if found is None:
                return None
            others = dict.fromkeys(output.column for output in join.outputs if output.is_other)
            view = views[join.other.definition.name]
            rows, partners = join_by_key(found.rows, join.column, view, tuple(others))
            arrays = [
                (partners if output.is_other else rows).column(output.column) for output in join.outputs
            ]
            schema = pa.schema(
                [pa.field(name, array.type) for name, array in zip(names, arrays, strict=True)]
            )
            table = pa.Table.from_arrays(arrays, schema=schema).combine_chunks()
            seconds = request.seconds(plan=planned - request.started, read=time.perf_counter() - planned)
            metadata = metadata_of("rows", views, found.statistics, seconds)
        return self._result(table, metadata)

    def _result(
        self, table: pa.Table, metadata: QueryMetadata, widths: RowWidths | None = None
    ) -> QueryResult:
        """A result whose rows are there already."""
        if is_small(table, self._batch_bytes):
            nbytes = None if widths is None else widths.table_bytes(table)
            return QueryResult(table.schema, metadata, table, table_bytes=nbytes)
        batches = slice_batches(iter(table.to_batches()), self._batch_bytes)
        return QueryResult(table.schema, metadata, batches)

    def _engine_query(self, request: Request) -> QueryResult:
        # Lookups end sooner than a question to the caller is answered: Flight's takes 0.1 ms.
        request.deadline.check()
        with ExitStack() as resources:
            views = resources.enter_context(self._views(request))
            running, fallbacks = self._start(request, views)
            resources.callback(running.close)
            statistics = [
                read.explained.statistics for read in running.reads if read.explained.statistics is not None
            ]
            metadata = metadata_of("engine", views, statistics, request.seconds(**running.seconds))
            if fallbacks:
                metadata = replace(metadata, fallbacks=count_fallbacks(fallbacks))
            kept = resources.pop_all()
        rows = running.rows
        return QueryResult(rows.schema, metadata, slice_batches(iter(rows), self._batch_bytes), kept, (rows,))

    def _start(self, request: Request, views: Views) -> tuple[RunningQuery, tuple[Fallback, ...]]:
        """Begin on the engine; returns also the fall-backs that it took."""
        try:
            return run(self._engine, request.statement, request.arguments, views, request.deadline), ()
        except BindingError as error:
            statement = _read_all_columns(request, error)
            arguments = replace(request.arguments, lists=request.ready.catalog_rows)
            try:
                running = run(self._engine, statement, arguments, views, request.deadline)
            except BindingError:
                raise refusal(request.ready, error) from error
            log_fallback(Fallback.ALL_COLUMNS, error)
            return running, (Fallback.ALL_COLUMNS,)

    def bind(self, request: Request) -> BindableStatement:
        """Find a query's columns without running it.

        Args:
            request: The query; without values its parameters have the types that their places suggest.

        Returns:
            The query as the engine takes it, and its columns.

        Raises:
            LivestateError: It is not valid, as kind and message say.
        """
        statement = request.statement
        if statement.plan is not None and not isinstance(statement.plan, EnginePlan):
            return BindableStatement(statement, outputs_of_stored(statement.plan.schema))
        return self.bind_on_engine(request)

    def bind_on_engine(self, request: Request) -> BindableStatement:
        """Find a query's columns as the engine does, though there may be no need of the engine.

        Args:
            request: As in `bind`.

        Returns:
            As `bind`.

        Raises:
            LivestateError: The engine refuses it, as kind and message say.
        """
        statement = request.statement
        types = request.types or argument_types(statement.bound)
        try:
            return self._bind_with_types(request, types)
        except BindingError as error:
            slot_types: tuple[pa.DataType | None, ...] = tuple(
                slot.type for slot in statement.bound.parameters
            )
            if request.types or None not in slot_types:
                raise refusal(request.ready, error) from error
            if statement.bound.reads_time:
                slot_types = (*slot_types, TIME_TYPE)
        # Where no place suggests a type, the engine may find one that fits, which the default did not.
        try:
            return self._bind_with_types(request, slot_types)
        except BindingError as error:
            raise refusal(request.ready, error) from error

    def outputs_with_values(self, request: Request) -> Outputs:
        """The columns of a query as the values of its parameters make them, without running it.

        Args:
            request: The query, with values.

        Raises:
            LivestateError: The engine refuses it, as kind and message say.
        """
        values = python_values(request.arguments)
        try:
            return outputs_of(
                self._engine, request.statement, request.types, values, request.deadline, by_values=True
            )
        except BindingError as error:
            raise refusal(request.ready, error) from error

    def _bind_with_types(self, request: Request, types: tuple[pa.DataType | None, ...]) -> BindableStatement:
        """A query with types of its parameters, with the fall-backs of `_start`."""
        try:
            return self._bind_statement(request, request.statement, types)
        except BindingError as error:
            statement = _read_all_columns(request, error)
            try:
                bindable = self._bind_statement(request, statement, types)
            except BindingError:
                raise error from None
            return replace(bindable, fallbacks=(Fallback.ALL_COLUMNS,))

    def _bind_statement(
        self, request: Request, statement: ReadyStatement, types: tuple[pa.DataType | None, ...]
    ) -> BindableStatement:
        # The values found make a pivot's columns, so there are none without rows.
        return BindableStatement(
            statement,
            None
            if has_columns_of_rows(statement.bound.tree)
            else outputs_of(
                self._engine, statement, types, python_values(request.arguments), request.deadline
            ),
        )

    def explain(self, request: Request) -> list[str]:
        """The lines of EXPLAIN.

        Args:
            request: The statement.
        """
        statement = request.statement
        with self._views(request) as views:
            reads = reads_of(statement, request.arguments, views)
            plan_name = _plan_name(request, views)
            sql = scan_sql(statement, request.arguments, reads) if plan_name == "engine" else None
            if sql is not None:
                self.bind(request)
        return explain(plan_name, [read.explained for read in reads], sql)


def _plan_name(request: Request, views: Views) -> str:
    """Kind of the plan that a statement most likely gets; a page may turn out to need the engine."""
    plan, arguments = request.statement.plan, request.arguments
    if isinstance(plan, CountPlan):
        return "count"
    if isinstance(plan, SummaryPlan):
        rows = row_selection(plan.rows, arguments)
        read = views[plan.rows.reference.definition.name]
        is_small = rows is not None and can_select(read, rows, None, is_bounded=False)
        return "summary" if is_small else "engine"
    if isinstance(plan, RowJoinPlan):
        return "engine" if _joined_selection(request, plan) is None else "rows"
    if not isinstance(plan, RowsPlan):
        return "engine"
    counts = [limit_of(plan.limit, arguments), limit_of(plan.offset, arguments)]
    if REFUSED_LIMIT in counts:
        return "engine"
    if plan.is_unconditional and plan.takes_any_rows:
        return "rows"
    selection = row_selection(plan, arguments)
    if selection is not None and selection.is_lookup and plan.takes_any_rows:
        return "lookup"
    view = views[plan.reference.definition.name]
    is_bounded = counts[0] is not None
    return (
        "rows"
        if selection is not None and can_select(view, selection, plan.order, is_bounded=is_bounded)
        else "engine"
    )


def _joined_selection(request: Request, plan: RowJoinPlan) -> RowSelection | None:
    """The rows for which partners are looked up; None where they are not found by whole keys, or are many."""
    selection = row_selection(plan.rows, request.arguments)
    points = None if selection is None else selection.wanted.points
    is_small = (
        points is not None
        and points.num_columns == len(plan.join.one.definition.key)
        and points.num_rows <= MOST_JOINED_ROWS
    )
    return selection if is_small else None


def _check_time(batches: Iterator[pa.RecordBatch], deadline: Deadline) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        deadline.check()
        yield batch


def _read_all_columns(request: Request, error: BindingError) -> ReadyStatement:
    """A statement that the engine has refused, with all columns of its stores and its lists in place: so no
    shortcut of planning can be the cause.
    """
    try:
        statement = read_all_columns(request.ready, request.dialect, request.deadline).statement
    except TEXT_REFUSALS as cause:
        raise refusal(request.ready, error) from cause
    return replace(statement, names=request.statement.names)


def refusal(ready: ReadyText, error: BindingError) -> LivestateError:
    """What is wrong with a statement that the engine refuses as it stands.

    Args:
        ready: The statement.
        error: What the engine says.
    """
    return diagnose(
        ready.statement.bound, error.failure.message, error.failure.name, error.near, error.failure.subtype
    )
