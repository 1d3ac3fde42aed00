"""Runs a statement's plan over a route: fragments on the hosts, their rows gathered, the merge."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import pyarrow as pa

from engine.cluster.reports import HostName
from engine.cluster.routing import Route
from engine.coordinator.distributed_query import DistributedQuery
from engine.coordinator.epoch_lease import EpochLease
from engine.coordinator.exchange_stream import ExchangeStream
from engine.coordinator.fragment_context import FragmentContext, FragmentStats
from engine.coordinator.fragment_hosts import FragmentHosts
from engine.coordinator.fragment_runs import RefusedError
from engine.coordinator.lost_hosts import read_first_batches
from engine.coordinator.plan_cache import ReadyPlan
from engine.coordinator.resources import Resources
from engine.coordinator.result_metadata import forwarded_metadata, scattered_metadata
from engine.coordinator.router import RoutedQuery
from engine.coordinator.running_fragments import RunningFragments
from engine.coordinator.scatter import Scatter, rename_columns, take_rows
from engine.duckdb.engine import EngineRows
from engine.duckdb.engine_errors import BindingError
from engine.duckdb.results import slice_batches
from engine.errors import Defect, InvalidInput
from engine.exec.engine_query import python_values
from engine.exec.fallbacks import Fallback
from engine.exec.local_executor import refusal
from engine.exec.query_options import QueryOptions
from engine.exec.query_result import QueryResult, Work
from engine.plan.partition_pruning import kept_partitions, unite_partitions
from engine.plan.plans import CountPlan
from engine.plan.query_text import QueryText
from engine.plan.values import Arguments


@dataclass(frozen=True)
class Answer:
    """A result, and how it came about.

    Attributes:
        result: The result.
        route: Epochs, and who read what; None where a host that belongs to no deployment read what it has.
        stats: What came from where; grows while the result is read.
    """

    result: QueryResult
    route: Route | None
    stats: Collection[FragmentStats] = ()


class PlanRunner:
    """Runs plans. Safe for threads.

    Args:
        here: This host.
        hosts: Where fragments run.
        options: Limits.
        resources: The engine, which merges rows, and memory and threads for them.
    """

    def __init__(
        self, here: HostName, hosts: FragmentHosts, options: QueryOptions, resources: Resources
    ) -> None:
        self._here = here
        self._engine = resources.engine
        self._options = options
        self._hosts = hosts
        self._running = RunningFragments(hosts, resources.watcher)
        self._lease_threads = resources.lease_threads
        self._memory = resources.memory
        self._threads = resources.threads

    def close(self) -> None:
        """Stop. Statements still running end with an error."""
        self._running.end_all()

    def forward(
        self, routed: RoutedQuery, host: HostName, text: QueryText, schema: pa.Schema | None
    ) -> Answer:
        """Answer a statement by one other host that has all of it; its rows come straight through.

        Args:
            routed: The statement, and its route.
            host: The host.
            text: The whole statement.
            schema: Schema of the result; None where the rows make it.

        Raises:
            HostFailedError: The host failed.
            LivestateError: The host refuses the statement, or it failed in another way.
        """
        query, route = routed.query, routed.route
        context = FragmentContext(query.arguments, route, self._here, query.deadline)
        with ExitStack() as resources:
            runs = self._running.begin(query.deadline, resources)
            try:
                share = context.shares(text, route.partitions[host])[host]
                with runs.note_wait():
                    run = runs.open(host, context.request(text, share, {}))
                    stats = FragmentStats("statement", run, 0, 0.0)
                    rows = read_first_batches(stats.count(runs.batches(run)), route)
            except RefusedError as refused:
                raise refused.error from refused
            kept_open = resources.pop_all()
        # Of what values decide, the host that runs the statement has the types.
        names = run.rows.schema.names if schema is None else schema.names
        schema = pa.schema(zip(names, run.rows.schema.types, strict=True))
        seconds = query.request.seconds()
        metadata = forwarded_metadata(host, run.rows.metadata, route, query.definitions, seconds)
        batches = slice_batches(rename_columns(rows, schema), self._options.batch_bytes)
        return Answer(QueryResult(schema, metadata, batches, kept_open, (runs,)), route, (stats,))

    def scatter(self, routed: RoutedQuery, plan: ReadyPlan) -> Answer:
        """Answer a statement by several hosts, each of which runs fragments over its part.

        Args:
            routed: The statement, and its route.
            plan: Its plan.

        Raises:
            HostFailedError: A host failed.
            RefusedError: A host refused a fragment, or the engine the merge.
            LivestateError: It failed in another way.
        """
        query, kept, route = routed.query, routed.kept, routed.route
        planned = query.request.seconds()["total"]
        if plan.runs is not query.statement:
            kept = kept_partitions(plan.runs.bound.references, plan.runs.predicates, query.arguments)
        context = FragmentContext(query.arguments, route, self._here, query.deadline)
        needs = {
            each.fragment.name: unite_partitions(each.fragment.references, kept) for each in plan.fragments
        }
        with ExitStack() as resources:
            runs = self._running.begin(query.deadline, resources)
            reservation = self._memory.reservation(query.deadline.gather_limit)
            resources.callback(reservation.free)
            lease = EpochLease(self._hosts, route, self._lease_threads)
            scatter = Scatter(context, needs, runs, self._threads, reservation, lease)
            resources.callback(scatter.forget)
            if plan.merge is None:
                schema, batches = self._pass_through(query, route, plan, scatter)
                work: tuple[Work, ...] = (runs,)
            else:
                rows = self._merge(query, plan, plan.merge, scatter)
                resources.callback(rows.close)
                # Before the engine closes: it lets go of a stream when the next batch is there.
                resources.callback(scatter.end)
                schema, batches = self._merged_batches(rows, route, plan, scatter)
                work = (runs, rows)
            kept_open = resources.pop_all()
        seconds = query.request.seconds(plan=planned, gather=scatter.gather_seconds)
        if plan.merge is not None:
            seconds["merge"] = max(0.0, seconds["total"] - planned - scatter.gather_seconds)
        metadata = scattered_metadata(plan, scatter.stats, route, query.definitions, self._here, seconds)
        result = QueryResult(
            schema, metadata, slice_batches(batches, self._options.batch_bytes), kept_open, work
        )
        return Answer(result, route, scatter.stats)

    def _pass_through(
        self, query: DistributedQuery, route: Route, plan: ReadyPlan, scatter: Scatter
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """The rows of a plan without a merge, once every host has begun."""
        *earlier, last = plan.fragments
        schema = last.outputs.schema if plan.schema is None else plan.schema
        if isinstance(plan.runs.plan, CountPlan):
            counts = scatter.gather(plan.fragments)[last.fragment.name]
            total = sum(counts.column(0).to_pylist())
            return schema, iter((pa.record_batch([pa.array([total], pa.int64())], schema=schema),))
        scatter.gather(earlier)
        batches = read_first_batches(scatter.stream(last), route)
        return schema, rename_columns(take_rows(batches, query.limit), schema)

    def _merge(
        self, query: DistributedQuery, plan: ReadyPlan, merge: QueryText, scatter: Scatter
    ) -> EngineRows:
        """Begin a merge, once all that it reads is here, or on its way."""
        tables = self._tables_of_merge(query, plan, merge, scatter)
        values = python_values(
            Arguments(tuple(query.arguments.parameters[index] for index in merge.parameter_indexes))
        )
        try:
            width = query.request.statement.bound.row_width
            return self._engine.run(merge.sql, tables, values, query.deadline, row_width=width)
        except BindingError as error:
            # Where rows make the columns, or values have other types than what stood for them, nothing has
            # said before that the statement is right.
            raise RefusedError(
                refusal(query.request.ready, error)
                if plan.schema is None or merge.parameter_indexes
                else Defect(
                    f"The engine refuses the merge of a statement ({error}); please report the statement."
                )
            ) from error

    def _tables_of_merge(
        self, query: DistributedQuery, plan: ReadyPlan, merge: QueryText, scatter: Scatter
    ) -> Mapping[str, pa.Table | ExchangeStream]:
        """What a merge reads, by name."""
        if plan.flows:
            *earlier, last = plan.fragments
            scatter.gather(earlier)
            return {last.fragment.name: scatter.gather_or_stream(last, self._options.merge_table_bytes)}
        gathered = scatter.gather(plan.fragments)
        lists = query.arguments.lists
        return {
            name: gathered[name] if name in gathered else pa.Table.from_batches([lists[name]])
            for name in merge.tables
        }

    def _merged_batches(
        self, rows: EngineRows, route: Route, plan: ReadyPlan, scatter: Scatter
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        batches = read_first_batches(iter(rows), route) if scatter.has_streams else iter(rows)
        if plan.schema is None:
            return rows.schema, batches
        schema = plan.schema
        if rows.schema.types != schema.types:
            if Fallback.GATHER_ALL not in plan.fallbacks:
                raise RefusedError(InvalidInput("Values of parameters decide which columns there are."))
            # The statement as it stands knows better than what was told of it without its values.
            schema = pa.schema(zip(schema.names, rows.schema.types, strict=True))
        return schema, rename_columns(batches, schema)
