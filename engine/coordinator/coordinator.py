"""Answers statements, wherever their partitions are: on this host, on another one, or on several."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import pyarrow as pa

from engine.cluster.reports import HostName
from engine.cluster.routing import Route
from engine.coordinator.cluster import Cluster
from engine.coordinator.distributed_query import DistributedQuery
from engine.coordinator.endpoints import Endpoints, endpoints_of
from engine.coordinator.exchange_stream import ExchangeStream
from engine.coordinator.explained import analyzed_lines, scattered_lines, whole_lines
from engine.coordinator.fragment_context import FragmentContext, FragmentStats
from engine.coordinator.fragment_hosts import FragmentHosts
from engine.coordinator.key_rows import KeyQuery, KeyRows
from engine.coordinator.memory import MemoryPool
from engine.coordinator.parts import HostFailedError, Parts, RefusedError, let_go, stopping
from engine.coordinator.plans import PlanCache, ReadyPlan, WholeText
from engine.coordinator.results import forwarded_metadata, local_metadata, scattered_metadata
from engine.coordinator.router import MOST_SHAPES, Routed, Router, migrated_again_and_again
from engine.coordinator.routes import Routes
from engine.coordinator.scatter import Scatter, limited, renamed
from engine.duckdb.deadline import Deadline, Watch, Watcher
from engine.duckdb.engine import BindingError, Engine, EngineRows
from engine.duckdb.results import sliced
from engine.errors import Defect, InvalidInput, LivestateError, NotFound, Unavailable
from engine.exec.engine_query import python_values
from engine.exec.fragment_executor import FragmentExecutor
from engine.exec.local import LocalExecutor
from engine.exec.query_result import QueryResult
from engine.model.read_point import NEWEST
from engine.plan.placement import Kept, kept_partitions, unite_partitions
from engine.plan.plans import CountPlan
from engine.plan.values import Arguments
from engine.scan import BuildingError
from engine.statements.pin import MigratedError, Pin
from engine.statements.request import REFUSED_LIMIT, Request

_log = logging.getLogger(__name__)

Result = TypeVar("Result")

MOST_TRIES = 4
"""How often a statement is begun anew after a host failed."""

PRIMED_BYTES = 4 << 20
"""Arrow bytes that are read before any is handed out: a result up to this size survives the loss
of a host.
"""


@dataclass(frozen=True)
class CoordinatorOptions:
    """Limits of a coordinator.

    Attributes:
        gather_limit_bytes: Arrow bytes of other fragments' rows that one statement may hold.
        total_gather_limit_bytes: What all statements may hold together.
        peer_threads: Threads that call hosts, for all statements together.
        batch_bytes: Arrow bytes that a batch of a result should not exceed.
        merge_table_bytes: Arrow bytes of a fragment's rows up to which a merge reads them as a table; where
            it can, it reads more as they come.
    """

    gather_limit_bytes: int
    total_gather_limit_bytes: int
    peer_threads: int
    batch_bytes: int
    merge_table_bytes: int


@dataclass(frozen=True)
class Answer:
    """A result, and how it came about.

    Attributes:
        result: The result.
        route: Epochs, and who read what; None where a host without peers read what it has.
        plan: How it was split; None where one host answered it whole.
        stats: What came from where; grows while the result is read.
    """

    result: QueryResult
    route: Route | None
    plan: ReadyPlan | None = None
    stats: Collection[FragmentStats] = ()


class Coordinator:
    """Answers statements over all hosts; one host is a cluster of one. Safe for threads.

    Args:
        cluster: The hosts.
        engine: Merges rows.
        plans: Plans of statements.
        routes: Knows how big stores are, and who can answer.
        router: Finds who can answer statements.
        local: Answers from this host's stores.
        executor: Runs fragments on this host.
        options: Limits.
    """

    def __init__(
        self,
        cluster: Cluster,
        engine: Engine,
        plans: PlanCache,
        routes: Routes,
        router: Router,
        local: LocalExecutor,
        executor: FragmentExecutor,
        options: CoordinatorOptions,
    ) -> None:
        self._cluster = cluster
        self._engine = engine
        self._plans = plans
        self._routes = routes
        self._router = router
        self._local = local
        self._hosts = FragmentHosts(cluster, executor)
        self._options = options
        self._memory = MemoryPool(options.gather_limit_bytes, options.total_gather_limit_bytes)
        self._threads = ThreadPoolExecutor(options.peer_threads, "livestate-parts")
        self._watcher = Watcher()
        self._key_rows = KeyRows(cluster, routes, router, plans, local)
        self._lock = threading.Lock()
        self._running: set[Parts] = set()
        self._closed = False

    @property
    def gathered_bytes(self) -> int:
        """Arrow bytes that all statements hold now."""
        return self._memory.held_bytes

    def close(self) -> None:
        """Stop. Statements still running end with an error; whatever they run on this host has ended when
        this returns.
        """
        with self._lock:
            self._closed = True
            running = list(self._running)
        for parts in running:
            parts.end(stopping())
        self._threads.shutdown(cancel_futures=True)
        self._watcher.close()

    def answer(self, asked: DistributedQuery) -> Answer:
        """Answer a statement.

        A host that fails before the first row was handed out is left out of the next try.

        Args:
            asked: The statement.

        Returns:
            Its result, to be closed by the caller.

        Raises:
            LivestateError: It cannot be answered, as kind and message say.
        """
        if not self._cluster.has_peers:
            return Answer(self._run_alone(asked, self._local.answer), None)
        try:
            return self._answer_with_retries(asked)
        except LivestateError as error:
            let_go(error)
            raise

    def _run_alone(self, asked: DistributedQuery, run: Callable[[Request], Result]) -> Result:
        """Run a statement on a host without peers.

        It reads the newest epochs as they are when it begins, without a route: that is newer than what a
        report said before, costs nothing, and what cannot be read is refused at once by whoever knows why.
        """
        is_building = False
        for _ in range(MOST_SHAPES):
            request = asked.request
            if is_building or request.read_point != NEWEST:
                routed = self._router.find(asked, whole=True)
                asked, request = routed.asked, routed.asked.request
                if request.read_point != NEWEST:
                    request = replace(request, pin=Pin(routed.route.epochs))
            try:
                return run(request)
            except MigratedError as migrated:
                asked = self._router.bound_anew(asked, migrated.generations)
            except BuildingError:
                is_building = True  # there is a route once it is built, or an error that says how far it is
        raise migrated_again_and_again()

    def _answer_with_retries(self, asked: DistributedQuery) -> Answer:
        routed = self._router.find(asked)
        failed: set[HostName] = set()
        for _ in range(MOST_TRIES):
            try:
                return self._answer_on_route(routed)
            except HostFailedError as failure:
                asked.deadline.check()
                failed.add(failure.host)
                routed = self._router.along(routed, self._find_other_route(routed, failed, failure))
        raise Unavailable(
            f"Hosts failed one after the other ({', '.join(sorted(failed))}); try again shortly."
        )

    def row(self, asked: KeyQuery) -> QueryResult | None:
        """Answer a lookup of one row by its key, past everything that other statements need.

        Args:
            asked: The lookup.

        Returns:
            The result; None where `answer` has to find out more.
        """
        return self._key_rows.row(asked)

    def endpoints(self, asked: DistributedQuery) -> Endpoints | None:
        """The fragments whose rows together are the answer of a statement.

        Args:
            asked: The statement.

        Returns:
            A fragment for each of at least two hosts; None where the answer has to come from here.

        Raises:
            LivestateError: It cannot be answered, as kind and message say.
        """
        if not self._cluster.has_peers:
            return None
        routed = self._router.find(asked)
        if len(self._readers(routed.route)) < 2:
            return None
        return endpoints_of(routed.asked, self._plan(routed.asked), routed.route, self._cluster.here)

    def explain(self, asked: DistributedQuery) -> list[str]:
        """The lines of EXPLAIN.

        Args:
            asked: The statement.

        Raises:
            LivestateError: It cannot be answered, as kind and message say.
        """
        if not self._cluster.has_peers:
            return self._run_alone(asked, self._local.explain)
        routed = self._router.find(asked)
        asked, kept, route = routed.asked, routed.kept, routed.route
        statement, hosts = asked.statement, self._readers(route)
        if not hosts or hosts == [self._cluster.here]:
            return self._local.explain(self._request_here(asked, route))
        text = self._plans.whole(asked.request).text if len(hosts) == 1 else None
        if text is not None:
            return whole_lines(statement, asked.arguments, kept, hosts[0], text)
        plan = self._plan(asked)
        kept = kept_partitions(plan.runs.bound.references, plan.runs.predicates, asked.arguments)
        context = FragmentContext(asked.arguments, route, self._cluster.here, asked.deadline)
        shares = {
            each.fragment.name: context.shares(each.text, unite_partitions(each.fragment.references, kept))
            for each in plan.fragments
        }
        return scattered_lines(plan, asked.arguments, kept, shares)

    def analyze(self, asked: DistributedQuery) -> list[str]:
        """Run a statement, and say what that took.

        Args:
            asked: The statement.

        Returns:
            What EXPLAIN ANALYZE adds to EXPLAIN.

        Raises:
            LivestateError: It cannot be answered, as kind and message say.
        """
        begun = time.perf_counter()
        answer = self.answer(asked)
        with answer.result as result:
            rows = sum(batch.num_rows for batch in result)
            taken = time.perf_counter() - begun
        lines = [f"rows: {rows}"]
        if answer.route is not None:
            lines += analyzed_lines(answer.route, answer.stats, self._cluster.here)
        lines += [f"{step}: {seconds * 1000:.3f} ms" for step, seconds in result.metadata.seconds.items()]
        return [*lines, f"all rows: {taken * 1000:.3f} ms"]

    def _find_other_route(
        self, routed: Routed, failed: Collection[HostName], failure: HostFailedError
    ) -> Route:
        """A route without the hosts that failed, or with them if they have got on: an epoch may have been
        given up meanwhile.
        """
        asked, needs, route = routed.asked, routed.needs, routed.route
        without = self._routes.now(needs, asked.definitions, asked.read_point, failed)
        if isinstance(without, Route):
            return without
        found = self._routes.now(needs, asked.definitions, asked.read_point)
        if isinstance(found, Route) and found.epochs != route.epochs:
            return found
        raise _lost_host_error(failure, route) from failure

    def _readers(self, route: Route) -> list[HostName]:
        """The hosts that have something to read."""
        return [host for host in route.hosts if any(route.partitions[host].values())]

    def _plan(self, asked: DistributedQuery) -> ReadyPlan:
        if asked.limit == REFUSED_LIMIT:
            return self._plans.gathering(asked.request)
        sizes = self._routes.sizes(asked.statement.bound.stores, asked.definitions)
        return self._plans.plan(asked.request, sizes)

    def _answer_on_route(self, routed: Routed) -> Answer:
        asked, kept, route = routed.asked, routed.kept, routed.route
        hosts = self._readers(route)
        if not hosts or hosts == [self._cluster.here]:
            return self._answer_here(asked, route)
        if len(hosts) == 1:
            whole = self._plans.whole(asked.request)
            if whole.text is not None:
                return self._forward(asked, route, hosts[0], whole)
        plan = self._plan(asked)
        try:
            return self._answer_scattered(asked, kept, route, plan)
        except RefusedError as refused:
            # An expression may meet rows before what would have left them out on one host; only other
            # refusals are surprising.
            level = logging.INFO if isinstance(refused.error, InvalidInput) else logging.WARNING
            _log.log(
                level, "A statement is answered by gathering, since its split form was refused: %s", refused
            )
        plan = self._plans.gathering(asked.request)
        try:
            return self._answer_scattered(asked, kept, route, plan)
        except RefusedError as refused:
            raise refused.error from refused

    def _request_here(self, asked: DistributedQuery, route: Route) -> Request:
        """A statement with what this host reads."""
        held = route.partitions.get(self._cluster.here, {})
        partitions = {name: tuple(held.get(name, ())) for name in asked.statement.bound.stores}
        # Without partitions any epoch will do, and this host need not have that of the others.
        epochs = route.epochs if any(partitions.values()) else None
        return replace(asked.request, pin=Pin(epochs, partitions))

    def _answer_here(self, asked: DistributedQuery, route: Route) -> Answer:
        """This host has all of it."""
        here = self._cluster.here
        try:
            result = self._local.answer(self._request_here(asked, route))
        except Unavailable as error:
            raise HostFailedError(here, error) from error
        except NotFound as error:
            if error.position is not None:
                raise
            raise HostFailedError(here, error) from error
        result.metadata = local_metadata(here, result.metadata, route, asked.definitions)
        return Answer(result, route)

    def _forward(self, asked: DistributedQuery, route: Route, host: HostName, whole: WholeText) -> Answer:
        """One other host has all of it: the statement goes there, and its rows come straight through."""
        assert whole.text is not None
        context = FragmentContext(asked.arguments, route, self._cluster.here, asked.deadline)
        with ExitStack() as resources:
            parts = self._begin_parts(asked.deadline, resources)
            try:
                part = parts.open(
                    host,
                    context.request(whole.text, context.shares(whole.text, route.partitions[host])[host], {}),
                )
                stats = FragmentStats("statement", part, 0, 0.0)
                rows = _read_first_batches(stats.counted(parts.batches(part)))
            except RefusedError as refused:
                raise refused.error from refused
            kept = resources.pop_all()
        schema = part.rows.schema if whole.schema is None else whole.schema
        seconds = asked.request.seconds()
        metadata = forwarded_metadata(host, part.rows.metadata, route, asked.definitions, seconds)
        batches = sliced(renamed(_rows_for_client(rows, route), schema), self._options.batch_bytes)
        return Answer(QueryResult(schema, metadata, batches, kept.close, parts.end), route, None, (stats,))

    def _answer_scattered(self, asked: DistributedQuery, kept: Kept, route: Route, plan: ReadyPlan) -> Answer:
        """Several hosts have it: each runs fragments over its part."""
        planned = asked.request.seconds()["total"]
        if plan.runs is not asked.statement:
            kept = kept_partitions(plan.runs.bound.references, plan.runs.predicates, asked.arguments)
        context = FragmentContext(asked.arguments, route, self._cluster.here, asked.deadline)
        needs = {
            each.fragment.name: unite_partitions(each.fragment.references, kept) for each in plan.fragments
        }
        with ExitStack() as resources:
            parts = self._begin_parts(asked.deadline, resources)
            reservation = self._memory.reservation()
            resources.callback(reservation.free)
            scatter = Scatter(context, needs, parts, self._threads, reservation)
            resources.callback(scatter.forget)
            schema, batches = self._rows(asked, route, plan, scatter, resources)
            kept_open = resources.pop_all()
        seconds = asked.request.seconds(plan=planned, gather=scatter.gather_seconds)
        if plan.merge is not None:
            seconds["merge"] = max(0.0, seconds["total"] - planned - scatter.gather_seconds)
        metadata = scattered_metadata(
            plan, scatter.stats, route, asked.definitions, self._cluster.here, seconds
        )
        interrupt = partial(_interrupt, parts, batches)
        result = QueryResult(
            schema, metadata, sliced(iter(batches), self._options.batch_bytes), kept_open.close, interrupt
        )
        return Answer(result, route, plan, scatter.stats)

    def _rows(
        self, asked: DistributedQuery, route: Route, plan: ReadyPlan, scatter: Scatter, resources: ExitStack
    ) -> tuple[pa.Schema, Any]:
        """Rows of a plan, once every host has begun; for a merge, once all that it reads is here, or on its
        way.
        """
        if plan.merge is not None:
            return self._merge(asked, route, plan, scatter, resources)
        *earlier, last = plan.fragments
        schema = last.outputs.schema if plan.schema is None else plan.schema
        if isinstance(plan.runs.plan, CountPlan):
            counted = scatter.gather(plan.fragments)[last.fragment.name]
            total = sum(counted.column(0).to_pylist())
            return schema, iter((pa.record_batch([pa.array([total], pa.int64())], schema=schema),))
        scatter.gather(earlier)
        return schema, renamed(
            limited(_rows_for_client(_read_first_batches(scatter.stream(last)), route), asked.limit), schema
        )

    def _merge(
        self, asked: DistributedQuery, route: Route, plan: ReadyPlan, scatter: Scatter, resources: ExitStack
    ) -> tuple[pa.Schema, Any]:
        merge = plan.merge
        assert merge is not None
        tables = self._read_by_merge(asked, plan, scatter)
        values = python_values(
            Arguments(tuple(asked.arguments.parameters[place] for place in merge.parameter_indexes))
        )
        try:
            rows = self._engine.run(merge.sql, tables, values, asked.deadline)
        except BindingError as error:
            raise RefusedError(
                Defect(f"The engine refuses the merge of a statement ({error}); please report the statement.")
            ) from error
        resources.callback(rows.close)
        # Before the engine closes: it lets go of a flow when the next batch is there.
        resources.callback(scatter.end)
        flows = any(isinstance(table, ExchangeStream) for table in tables.values())
        batches = _rows_for_client(_read_first_batches(iter(rows)), route) if flows else iter(rows)
        return (rows.schema if plan.schema is None else plan.schema), _Merged(
            rows, batches if plan.schema is None else renamed(batches, plan.schema)
        )

    def _read_by_merge(
        self, asked: DistributedQuery, plan: ReadyPlan, scatter: Scatter
    ) -> Mapping[str, pa.Table | ExchangeStream]:
        """What a merge reads, by name."""
        assert plan.merge is not None
        if plan.flows:
            *earlier, last = plan.fragments
            scatter.gather(earlier)
            return {last.fragment.name: scatter.flow(last, self._options.merge_table_bytes)}
        gathered = scatter.gather(plan.fragments)
        lists = asked.arguments.lists
        return {
            name: gathered[name] if name in gathered else pa.Table.from_batches([lists[name]])
            for name in plan.merge.tables
        }

    def _begin_parts(self, deadline: Deadline, resources: ExitStack) -> Parts:
        """Nothing under way yet, under watch."""
        deadline.check()
        parts = Parts(self._hosts)
        with self._lock:
            if self._closed:
                raise stopping()
            self._running.add(parts)
        resources.callback(self._forget, parts)
        watch: Watch = self._watcher.watch(
            deadline, lambda: parts.end(watch.error and parts.too_late(watch.error))
        )
        # What is under way ends before the watch does.
        resources.enter_context(watch)
        resources.callback(parts.end)
        return parts

    def _forget(self, parts: Parts) -> None:
        with self._lock:
            self._running.discard(parts)
        parts.forget()


class _Merged:
    """Batches of a merge, and the engine's statement that they come from."""

    def __init__(self, rows: EngineRows, batches: Iterator[pa.RecordBatch]) -> None:
        self._rows = rows
        self._batches = batches

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._batches

    def interrupt(self) -> None:
        self._rows.interrupt()


def _interrupt(parts: Parts, batches: object) -> None:
    parts.end()
    if isinstance(batches, _Merged):
        batches.interrupt()


def _read_first_batches(
    batches: Iterator[pa.RecordBatch],
) -> tuple[list[pa.RecordBatch], Iterator[pa.RecordBatch]]:
    """The first batches, and the others: what fails before these can still be begun anew."""
    first, size = [], 0
    for batch in batches:
        first.append(batch)
        size += batch.nbytes
        if size >= PRIMED_BYTES:
            break
    return first, batches


def _rows_for_client(
    primed: tuple[list[pa.RecordBatch], Iterator[pa.RecordBatch]], route: Route
) -> Iterator[pa.RecordBatch]:
    """The rows for whoever asked, who has some of them when a host fails now."""
    try:
        yield from chain(*primed)
    except HostFailedError as failure:
        message = failure.error.message.rstrip(".")
        raise Unavailable(
            f"Host {failure.host} failed when it had given a part of its rows"
            f"{_partition_words(failure.host, route)}: {message}."
        ) from failure
    except RefusedError as refused:
        raise refused.error from refused


def _lost_host_error(failure: HostFailedError, route: Route) -> LivestateError:
    """The error for partitions whose only host failed."""
    parts = _partition_words(failure.host, route)
    message = failure.error.message.rstrip(".")
    return (
        Unavailable(f"Host {failure.host} failed, and no other host can answer{parts}: {message}.")
        if parts
        else failure.error
    )


def _partition_words(host: HostName, route: Route) -> str:
    """Which partitions a host was to read, in words; empty for none."""
    held = sorted(route.partitions.get(host, {}).items())
    named = [f"{_numbers(numbers)} of store {name}" for name, numbers in held if numbers]
    return f" for partitions {'; '.join(named)}" if named else ""


def _numbers(numbers: Collection[int]) -> str:
    shown = sorted(numbers)
    return ", ".join(map(str, shown[:8])) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "")
