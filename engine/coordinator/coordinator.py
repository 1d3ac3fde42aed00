"""Answers statements, wherever their partitions are: on this host, on another one, or on several."""

from __future__ import annotations

import logging
import time
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from engine.cluster.reports import HostName
from engine.cluster.routing import Route
from engine.coordinator.deployment_hosts import DeploymentHosts
from engine.coordinator.distributed_query import DistributedQuery
from engine.coordinator.explain_lines import analyzed_lines, scattered_lines, whole_lines
from engine.coordinator.fragment_context import FragmentContext
from engine.coordinator.fragment_runs import HostFailedError, RefusedError, clear_tracebacks
from engine.coordinator.lag_limit import LagLimit
from engine.coordinator.lost_hosts import first_line
from engine.coordinator.plan_cache import PlanCache, ReadyPlan
from engine.coordinator.plan_runner import Answer, PlanRunner
from engine.coordinator.result_metadata import local_metadata, moved_bytes
from engine.coordinator.router import RoutedQuery, Router
from engine.errors import LivestateError, NotFound, Unavailable
from engine.exec.fallbacks import Fallback, log_fallback
from engine.exec.kept_answers import KeptAnswer, KeptAnswers, Question, question_of
from engine.exec.local_executor import LocalExecutor
from engine.exec.query_result import QueryResult
from engine.exec.read_metadata import EpochRead, EpochsRead, stale_seconds
from engine.plan.partition_pruning import kept_partitions, unite_partitions
from engine.plan.query_text import QueryText
from engine.scan import BuildingError
from engine.statements.pin import MigratedError, Pin
from engine.statements.request import REFUSED_LIMIT, Request
from engine.telemetry.spans import span

_log = logging.getLogger(__name__)

MOST_TRIES = 4
"""How often a statement is begun anew after a host failed."""


class Coordinator:
    """Answers statements over all hosts; one host is a cluster of one. Safe for threads.

    Args:
        cluster: The hosts.
        router: Finds who can answer statements.
        plans: Plans of statements.
        runner: Runs plans.
        local: Answers from this host's stores.
        answers: Keeps answers.
        lag_limit: How far behind what is read without a route may be.
    """

    def __init__(
        self,
        cluster: DeploymentHosts,
        router: Router,
        plans: PlanCache,
        runner: PlanRunner,
        local: LocalExecutor,
        answers: KeptAnswers,
        lag_limit: LagLimit,
    ) -> None:
        self._cluster = cluster
        self._router = router
        self._plans = plans
        self._runner = runner
        self._local = local
        self._answers = answers
        self._lag_limit = lag_limit
        self._retries = 0

    @property
    def retries(self) -> int:
        """How often a statement was begun anew after a host failed."""
        return self._retries

    def answer(self, query: DistributedQuery, *, fresh: bool = False) -> Answer:
        """Answer a statement.

        A host that fails before the first row was handed out is left out of the next try.

        Args:
            query: The statement.
            fresh: Whether it is computed in any case, and its answer not kept.

        Returns:
            Its result, to be closed by the caller.

        Raises:
            LivestateError: It cannot be answered, as kind and message say.
        """
        question = None if fresh else question_of(query.request)
        try:
            return self._answer_newest(query, question) or self._answer_on_any_route(query, question)
        except LivestateError as error:
            clear_tracebacks(error)
            raise

    def _answer_newest(self, query: DistributedQuery, question: Question | None) -> Answer | None:
        """Answer a statement without a route: one that reads no store, or the newest epochs of a host without
        peers. None if it needs a route, also because a store is being built or was migrated just now.

        On a host without peers everything is there or nowhere. With a route, a lookup of two keys takes 1.5
        times as long there, a sum over a small store 1.05 times.
        """
        if not query.statement.bound.references:
            return self._answer_from_here(query, question, 0)
        if self._cluster.has_peers or not query.read_point.is_newest:
            return None
        until = self._lag_limit.complete_until(query.statement.bound.stores, query.read_point)
        return None if until is None else self._answer_from_here(query, question, until)

    def _answer_from_here(
        self, query: DistributedQuery, question: Question | None, complete_until: int
    ) -> Answer | None:
        """Answer from the newest epochs that are here; None where that needs a route."""
        try:
            if question is None:
                result = self._answer_request(query.request)
                result.metadata = result.metadata.replace_quickly(stale_seconds=stale_seconds(complete_until))
                return Answer(result, None)
            return self._answer_or_keep(query, question, complete_until)
        except (MigratedError, BuildingError):
            return None

    def _answer_or_keep(self, query: DistributedQuery, question: Question, complete_until: int) -> Answer:
        """Answer from the newest epochs that are here, or with what was answered from them before."""
        request = query.request
        epochs = self._local.newest_epochs(request.statement.bound.stores)
        turn = self._answers.begin(question, request.statement, epochs, request.deadline)
        if isinstance(turn, KeptAnswer):
            return Answer(turn.result_now(request.started, complete_until), None)
        pin = Pin(
            {each.group: each.epoch for each in epochs}, digests={each.group: each.digest for each in epochs}
        )
        with turn or nullcontext():
            result = self._answer_request(request if turn is None else replace(request, pin=pin))
            result.metadata = result.metadata.replace_quickly(stale_seconds=stale_seconds(complete_until))
            return Answer(result if turn is None else turn.keep(result), None)

    def _answer_on_any_route(self, query: DistributedQuery, question: Question | None) -> Answer:
        """Answer by a route, or with what was answered from its epochs before."""
        routed = self._find_route(query)
        if question is None:
            return self._answer_with_retries(routed)
        request, route = routed.query.request, routed.route
        epochs = _epochs_read(route)
        turn = self._answers.begin(question, request.statement, epochs, request.deadline)
        if isinstance(turn, KeptAnswer):
            return Answer(turn.result_now(request.started, route.complete_until), route)
        if turn is None:
            return self._answer_with_retries(routed)
        with turn:
            answer = self._answer_with_retries(routed)
            return replace(answer, result=turn.keep(answer.result))

    def _answer_with_retries(self, routed: RoutedQuery) -> Answer:
        query = routed.query
        failed: set[HostName] = set()
        reason = ""
        for _ in range(MOST_TRIES):
            try:
                return self._answer_on_route(routed)
            except HostFailedError as failure:
                query.deadline.check()
                self._retries += 1
                _log.warning(
                    "Host %s failed; what it was asked for is begun anew without it: %s",
                    failure.host,
                    str(failure),  # who keeps the record would keep all that the error's frames hold
                    extra={"repeats": f"failover {failure.host}"},
                )
                failed.add(failure.host)
                routed = self._router.find_other(routed, failed, failure)
                reason = first_line(failure)
        raise Unavailable(
            f"Hosts failed one after the other ({', '.join(sorted(failed))}); try again shortly. The last "
            f"one said: {reason}."
        )

    def _find_route(self, query: DistributedQuery) -> RoutedQuery:
        # A host that belongs to no deployment shows how much of whole stores a statement reads.
        with span("route"):
            return self._router.find(query, whole=not self._cluster.has_peers)

    def explain(self, query: DistributedQuery) -> list[str]:
        """The lines of EXPLAIN.

        Args:
            query: The statement.

        Raises:
            LivestateError: It cannot be answered, as kind and message say.
        """
        if not query.statement.bound.references:
            return self._local.explain(query.request)
        routed = self._find_route(query)
        query, hosts = routed.query, routed.readers
        if not hosts or hosts == [self._cluster.here]:
            return self._local.explain(self._request_here(routed))
        text = self._plans.whole_text(query.request).text if len(hosts) == 1 else None
        if text is not None:
            return self._explain_whole(routed, hosts[0], text)
        return self._explain_scattered(routed, self._plan(query))

    def _explain_whole(self, routed: RoutedQuery, host: HostName, text: QueryText) -> list[str]:
        query = routed.query
        sizes = self._router.sizes(query)
        return whole_lines(query.statement, query.arguments, routed.kept, host, text, sizes)

    def _explain_scattered(self, routed: RoutedQuery, plan: ReadyPlan) -> list[str]:
        query, route = routed.query, routed.route
        kept = kept_partitions(plan.runs.bound.references, plan.runs.predicates, query.arguments)
        context = FragmentContext(query.arguments, route, self._cluster.here, query.deadline)
        shares = {
            each.fragment.name: context.shares(each.text, unite_partitions(each.fragment.references, kept))
            for each in plan.fragments
        }
        return scattered_lines(plan, query.arguments, kept, shares, self._router.sizes(query))

    def analyze(self, query: DistributedQuery) -> list[str]:
        """Run a statement, and say what that took.

        Args:
            query: The statement.

        Returns:
            What EXPLAIN ANALYZE adds to EXPLAIN.

        Raises:
            LivestateError: It cannot be answered, as kind and message say.
        """
        begun = time.perf_counter()
        answer = self.answer(query, fresh=True)
        with answer.result as result:
            rows = sum(batch.num_rows for batch in result)
            taken = time.perf_counter() - begun
        lines = [f"rows: {rows}"]
        if answer.route is not None:
            lines += analyzed_lines(answer.route, answer.stats, self._cluster.here)
        lines += [f"{step}: {seconds * 1000:.3f} ms" for step, seconds in result.metadata.seconds.items()]
        return [*lines, f"all rows: {taken * 1000:.3f} ms"]

    def _plan(self, query: DistributedQuery) -> ReadyPlan:
        with span("plan"):
            if query.limit == REFUSED_LIMIT:
                return self._plans.gather_plan(query.request)
            return self._plans.plan(query.request, self._router.sizes(query))

    def _answer_on_route(self, routed: RoutedQuery) -> Answer:
        """Answer a statement, with the fall-backs of `engine.exec.fallbacks`."""
        query, hosts = routed.query, routed.readers
        if not hosts or hosts == [self._cluster.here]:
            return self._answer_here(routed)
        refused: tuple[Fallback, ...] = ()
        if len(hosts) == 1:
            whole = self._plans.whole_text(query.request)
            if whole.text is not None:
                answer = self._runner.forward(routed, hosts[0], whole.text, whole.schema)
                answer.result.explain = partial(self._explain_whole, routed, hosts[0], whole.text)
                answer.result.moved_bytes = partial(moved_bytes, answer.stats, self._cluster.here)
                return answer
            refused = (Fallback.SPLIT,)
        plan = self._plan(query).with_fallbacks(refused)
        try:
            return self._scatter(routed, plan)
        except RefusedError as refusal:
            if Fallback.GATHER_ALL in plan.fallbacks:
                raise refusal.error from refusal
            log_fallback(Fallback.GATHER_ALL, refusal.error)
        try:
            return self._scatter(routed, self._plans.replace_refused(query.request).with_fallbacks(refused))
        except RefusedError as refusal:
            raise refusal.error from refusal

    def _scatter(self, routed: RoutedQuery, plan: ReadyPlan) -> Answer:
        with span("gather"):
            answer = self._runner.scatter(routed, plan)
        answer.result.explain = partial(self._explain_scattered, routed, plan)
        answer.result.moved_bytes = partial(moved_bytes, answer.stats, self._cluster.here)
        return answer

    def _request_here(self, routed: RoutedQuery) -> Request:
        """A statement with what this host reads."""
        query, route = routed.query, routed.route
        held = route.partitions.get(self._cluster.here, {})
        partitions = {name: tuple(held.get(name, ())) for name in query.statement.bound.stores}
        # Without partitions any epoch will do, and this host need not have that of the others.
        is_reading = any(partitions.values())
        pin = Pin(route.epochs if is_reading else None, partitions, route.digests if is_reading else None)
        return replace(query.request, pin=pin)

    def _answer_request(self, request: Request) -> QueryResult:
        """Answer a statement from this host's stores."""
        with span("answer here"):
            result = self._local.answer(request)
        result.explain = partial(self._local.explain, request)
        return result

    def _answer_here(self, routed: RoutedQuery) -> Answer:
        """This host has all of it."""
        here = self._cluster.here
        try:
            result = self._answer_request(self._request_here(routed))
        except Unavailable as error:
            raise HostFailedError(here, error) from error
        except NotFound as error:
            if error.position is not None:
                raise
            raise HostFailedError(here, error) from error
        if not self._cluster.has_peers:
            # What is said of hosts and their partitions is for deployments.
            stale = stale_seconds(routed.route.complete_until)
            result.metadata = result.metadata.replace_quickly(stale_seconds=stale)
            return Answer(result, None)
        result.metadata = local_metadata(here, result.metadata, routed.route, routed.query.definitions)
        return Answer(result, routed.route)


def _epochs_read(route: Route) -> EpochsRead:
    """The epochs of a route as they are compared."""
    return tuple(
        EpochRead(group, epoch, route.committed_at[group], route.digests.get(group, ""))
        for group, epoch in sorted(route.epochs.items())
    )
