"""What goes wrong between hosts: lost hosts, limits, time, cancelled statements, epochs that are not there,
plans that do not fit.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import NoReturn

import pyarrow as pa
import pytest
import sqlglot
from sqlglot import exp

from engine.cluster.assignment import Assignment
from engine.cluster.fragments import FragmentRequest, FragmentRows
from engine.cluster.reports import HostName, HostReport
from engine.coordinator.deployment_hosts import DeploymentHosts
from engine.coordinator.lost_hosts import FIRST_BYTES
from engine.coordinator.plan_cache import PlanCache
from engine.deadline import NO_DEADLINE
from engine.duckdb.engine import Engine
from engine.errors import (
    Cancelled,
    DeadlineExceeded,
    InvalidInput,
    LimitExceeded,
    LivestateError,
    NotFound,
    Unavailable,
)
from engine.exec.fragment_cache import FragmentCache
from engine.exec.local_executor import LocalExecutor
from engine.model.partitioning import partition_of
from engine.model.read_point import ReadPoint
from engine.model.schema import Epoch, define_store
from engine.plan.split.nodes import Fragment, SplitPlan
from engine.plan.split.sizes import Sizes
from engine.plan.values import Arguments
from engine.service import QueryOptions, QueryService, Session
from engine.sql.bind import BoundStatement
from engine.sql.engine_dialect import EngineDialect
from engine.statements.column_names import ColumnNames
from engine.statements.least_recently_used import CacheLimits
from engine.statements.request import Request
from engine.statements.statement_cache import StatementCache
from tests.support.held_source import HeldSource, rows_by_partition
from tests.support.local_cluster import SMALL, Cluster, DirectPeers, host_names, memory_cluster
from tests.support.memory_source import MemorySource, memory_view
from tests.support.waiting import PATIENCE_SECONDS, wait_until

PLAYS = define_store(
    "plays",
    pa.schema([("song_id", pa.int64()), ("genre", pa.string()), ("count", pa.int64())]),
    ["song_id"],
    partitions=16,
)
ROWS = pa.table({"song_id": list(range(1000)), "genre": ["rock", "pop"] * 500, "count": list(range(1000))})
HOSTS = host_names(3)
ENDLESS = "SELECT sum(a.count * b.count + c.count - d.count) FROM plays a, plays b, plays c, plays d, plays e"


@contextmanager
def _open_replicas(replication: int, options: QueryOptions = SMALL) -> Iterator[Cluster]:
    assignment = Assignment(HOSTS, replication)
    stores = {PLAYS.name: (PLAYS, rows_by_partition(PLAYS, ROWS))}
    cluster = Cluster(
        {
            host: HeldSource(stores, {}, {PLAYS.name: assignment.held_partitions(host, PLAYS)})
            for host in HOSTS
        },
        assignment,
        options,
    )
    try:
        yield cluster
    finally:
        cluster.close()


class _Unaware(DirectPeers):
    """Peers that have not noticed yet which hosts are gone."""

    def reports(self) -> Mapping[HostName, HostReport]:
        return {host: HostReport(host, *source.report()) for host, source in self._cluster.sources.items()}


def _unaware(cluster: Cluster, host: HostName) -> QueryService:
    """A query service at a host whose peers do not know who is alive."""
    return QueryService(
        cluster.sources[host],
        SMALL,
        DeploymentHosts(_Unaware(cluster, host), host, Assignment(HOSTS, 2).order),
    )


SUM = "SELECT sum(count) FROM plays"
TOTAL = sum(range(1000))


def test_a_replica_answers_for_a_host_that_is_gone() -> None:
    with _open_replicas(2) as cluster:
        service = _unaware(cluster, HOSTS[0])
        try:
            for lost in HOSTS[1:]:
                cluster.stop(lost)
                for sql in (SUM, "SELECT count FROM plays", "SELECT count(*) FROM plays"):
                    with service.execute(sql) as result:
                        found = result.read_all()
                        assert lost not in result.metadata.hosts
                    if sql == SUM:
                        assert int(found.column(0)[0].as_py()) == TOTAL
                for key in range(20):
                    with service.execute(f"SELECT count FROM plays WHERE song_id = {key}") as result:
                        assert result.read_all().to_pylist() == [{"count": key}]
                cluster.restart(lost)
        finally:
            service.close()


def test_without_a_replica_the_error_names_host_and_partitions() -> None:
    with _open_replicas(1) as cluster:
        service = _unaware(cluster, HOSTS[0])
        try:
            cluster.stop(HOSTS[1])
            with pytest.raises(Unavailable, match=f"Host {HOSTS[1]} failed.* partitions .* of store plays"):
                service.execute(SUM)
        finally:
            service.close()


def test_a_store_that_is_dropped_while_a_statement_is_made_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    lookup = "SELECT count FROM plays WHERE song_id = 4"
    with _open_replicas(1) as cluster:
        service, source = cluster.services[HOSTS[0]], cluster.sources[HOSTS[0]]
        with service.execute(lookup) as result:
            assert result.read_all().to_pylist() == [{"count": 4}]
        assert service.row(lookup, None) is not None
        there = source.tables()
        monkeypatch.setattr(source, "tables", lambda: there)
        monkeypatch.setattr(source, "definitions", dict)
        for sql in (SUM, lookup, f"EXPLAIN {SUM}"):
            with pytest.raises(NotFound, match=r"There is no store plays (any more|at the epoch)"):
                service.execute(sql)
        assert service.row(lookup, None) is None, "the statement says why"
        anew = {PLAYS.name: replace(PLAYS, partitions=2, since=1)}
        monkeypatch.setattr(source, "definitions", lambda: anew)
        with pytest.raises(Unavailable, match="made anew"):
            service.execute(SUM)


class _FarBehind(DirectPeers):
    """Peers of whom one has given up the epoch that it is asked for, once. Until something changes no epoch
    can be read on all of them.
    """

    has_given_up = waited = False

    def run(
        self, host: HostName, request: FragmentRequest, cancelled: Callable[[], bool] | None = None
    ) -> FragmentRows:
        if host == HOSTS[1] and not self.has_given_up:
            self.has_given_up = True
            raise Unavailable("Group plays cannot be read at epoch 1 on this host; the epochs there are: 9.")
        return super().run(host, request, cancelled)

    def reports(self) -> Mapping[HostName, HostReport]:
        found = super().reports()
        if self.has_given_up and not self.waited:
            report = found[HOSTS[1]]
            groups = {name: replace(group, readable=()) for name, group in report.groups.items()}
            return {**found, HOSTS[1]: replace(report, groups=groups)}
        return found

    def wait_for_change(self, timeout_seconds: float) -> bool:
        self.waited = True
        return True


def test_a_host_that_has_given_up_an_epoch_has_not_failed() -> None:
    with _open_replicas(1) as cluster:
        peers = _FarBehind(cluster, HOSTS[0])
        service = QueryService(
            cluster.sources[HOSTS[0]], SMALL, DeploymentHosts(peers, HOSTS[0], Assignment(HOSTS, 1).order)
        )
        try:
            assert _total(service) == TOTAL
            assert peers.waited
        finally:
            service.close()


class _LaggingReplica(DirectPeers):
    """Peers of whom one is gone, as it turns out. Those that have its partitions, too, lack the epoch that it
    had, until something changes.
    """

    waited = False

    def run(
        self, host: HostName, request: FragmentRequest, cancelled: Callable[[], bool] | None = None
    ) -> FragmentRows:
        if host == HOSTS[1]:
            self._cluster.stop(host)
        return super().run(host, request, cancelled)

    def reports(self) -> Mapping[HostName, HostReport]:
        found = super().reports()
        if HOSTS[1] in found or self.waited:
            return found
        groups = {name: replace(group, readable=()) for name, group in found[HOSTS[2]].groups.items()}
        return {**found, HOSTS[2]: replace(found[HOSTS[2]], groups=groups)}

    def wait_for_change(self, timeout_seconds: float) -> bool:
        self.waited = True
        return True


def test_a_replica_that_lags_is_waited_for_where_a_host_is_gone() -> None:
    with _open_replicas(2) as cluster:
        peers = _LaggingReplica(cluster, HOSTS[0])
        service = QueryService(
            cluster.sources[HOSTS[0]], SMALL, DeploymentHosts(peers, HOSTS[0], Assignment(HOSTS, 2).order)
        )
        try:
            assert _total(service) == TOTAL
            assert peers.waited
        finally:
            service.close()


class _BreakingRows:
    """The first rows, as often as to make so many bytes, and then an error."""

    def __init__(self, rows: FragmentRows, nbytes: int, error: LivestateError) -> None:
        self._rows = rows
        self._nbytes = nbytes
        self._error = error
        self.nbytes = 0
        self.schema, self.metadata, self.close = rows.schema, rows.metadata, rows.close

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        batch = next(iter(self._rows))
        yield pa.concat_batches([batch] * (self._nbytes // batch.nbytes + 1))
        raise self._error


class _Breaking(DirectPeers):
    """Peers of whom one fails when it has given rows, once."""

    nbytes = 0
    error: LivestateError | None = None
    broke = False

    def run(
        self, host: HostName, request: FragmentRequest, cancelled: Callable[[], bool] | None = None
    ) -> FragmentRows:
        rows = super().run(host, request, cancelled)
        if host != HOSTS[1] or self.error is None:
            return rows
        error, self.error, self.broke = self.error, None, True
        return _BreakingRows(rows, self.nbytes, error)


@pytest.mark.parametrize(
    "sql", [SUM, "SELECT count FROM plays", "SELECT count FROM plays WHERE genre = 'pop' LIMIT 2000"]
)
def test_a_host_that_breaks_within_the_first_bytes_is_replaced(sql: str) -> None:
    with _open_replicas(2) as cluster:
        peers = _Breaking(cluster, HOSTS[0])
        service = QueryService(
            cluster.sources[HOSTS[0]], SMALL, DeploymentHosts(peers, HOSTS[0], Assignment(HOSTS, 2).order)
        )
        peers.error = Unavailable("It went away.")
        try:
            with service.execute(sql) as result:
                found = result.read_all().column(0).to_pylist()
            assert peers.broke
            assert int(sum(found)) == (sum(range(1, 1000, 2)) if "pop" in sql else TOTAL)
        finally:
            service.close()


@pytest.mark.parametrize(
    # Kinds and not errors: an error that was raised holds all that its traceback names, and pytest holds the
    # parameters to the end.
    ("kind", "words"),
    [(Unavailable, "Host b failed when .* partitions .* of store plays"), (InvalidInput, "It broke")],
)
def test_a_host_that_breaks_when_rows_were_handed_out_ends_the_result(
    kind: type[LivestateError], words: str
) -> None:
    with _open_replicas(2) as cluster:
        peers = _Breaking(cluster, HOSTS[0])
        service = QueryService(
            cluster.sources[HOSTS[0]], SMALL, DeploymentHosts(peers, HOSTS[0], Assignment(HOSTS, 2).order)
        )
        peers.nbytes, peers.error = 3 * FIRST_BYTES, kind("It broke.")
        try:
            with service.execute("SELECT * FROM plays") as result, pytest.raises(kind, match=words):
                result.read_all()
        finally:
            service.close()


class _Stuck(DirectPeers):
    """Peers of whom one answers only when it may."""

    may_answer = threading.Event()
    asked = threading.Semaphore(0)

    def run(
        self, host: HostName, request: FragmentRequest, cancelled: Callable[[], bool] | None = None
    ) -> FragmentRows:
        if host == HOSTS[1]:
            self.asked.release()
            self.may_answer.wait()
        return super().run(host, request, cancelled)


def test_statements_that_wait_for_a_host_do_not_stop_those_that_do_not_need_it() -> None:
    placed = partition_of([ROWS.column("song_id")], PLAYS.partitions).tolist()
    threads = 2
    options = QueryOptions(memory_limit_bytes=512 << 20, threads=1, peer_threads=threads)
    with _open_replicas(1) as cluster, ThreadPoolExecutor(3 * threads) as clients:
        peers = _Stuck(cluster, HOSTS[0])
        service = QueryService(
            cluster.sources[HOSTS[0]], options, DeploymentHosts(peers, HOSTS[0], Assignment(HOSTS, 1).order)
        )
        try:
            # As many again wait for a thread of that host.
            waiting = [clients.submit(_total, service) for _ in range(2 * threads)]
            for _ in range(threads):
                peers.asked.acquire()
            held = cluster.sources[HOSTS[1]].report()[1][PLAYS.name].partitions
            keys = [key for key, at in enumerate(placed) if at not in held][:20]
            listed = ", ".join(map(str, keys))
            with service.execute(f"SELECT count(*) FROM plays WHERE song_id IN ({listed})") as result:
                assert result.read_all().column(0).to_pylist() == [len(keys)]
                assert HOSTS[1] not in result.metadata.hosts
                assert len(result.metadata.hosts) > 1
            assert not any(each.done() for each in waiting)
            peers.may_answer.set()
            assert [each.result() for each in waiting] == [TOTAL] * len(waiting)
        finally:
            peers.may_answer.set()
            service.close()


def _total(service: QueryService) -> int:
    with service.execute(SUM) as result:
        return int(result.read_all().column(0)[0].as_py())


def test_missing_partitions_are_waited_for_until_the_deadline() -> None:
    with _open_replicas(1) as cluster:
        service = cluster.services[HOSTS[0]]
        cluster.stop(HOSTS[1])
        begun = time.monotonic()
        with pytest.raises(Unavailable, match="plays"):
            service.execute(SUM, session=Session(timeout_seconds=0.3))
        assert time.monotonic() - begun >= 0.25
        back = threading.Timer(0.2, cluster.restart, (HOSTS[1],))
        back.start()
        with service.execute(SUM, session=Session(timeout_seconds=30.0)) as result:
            assert int(result.read_all().column(0)[0].as_py()) == TOTAL
        back.join()


def test_gathering_more_than_allowed_is_an_error_that_names_the_limit() -> None:
    options = QueryOptions(memory_limit_bytes=512 << 20, threads=1, gather_limit_bytes=2000)
    with _open_replicas(1, options) as cluster:
        service = cluster.services[HOSTS[0]]
        with pytest.raises(LimitExceeded, match="gather_limit_bytes"):
            service.execute("SELECT median(count), mode(genre) FROM plays")
        with service.execute("SELECT * FROM plays") as result:
            assert result.read_all().num_rows == 1000
        assert service._runner._memory.held_bytes == 0


def test_all_statements_together_gather_no_more_than_allowed() -> None:
    options = QueryOptions(memory_limit_bytes=512 << 20, threads=1, total_gather_limit_bytes=12_000)
    with _open_replicas(1, options) as cluster:
        service = cluster.services[HOSTS[0]]
        held = service.execute("SELECT median(count) FROM plays")
        with pytest.raises(LimitExceeded, match="total_gather_limit_bytes"):
            service.execute("SELECT median(count) FROM plays")
        held.close()
        with service.execute("SELECT median(count) FROM plays") as result:
            assert result.read_all().num_rows == 1


class _Hurried(DirectPeers):
    """Peers of whom one finds its time over before the host that asks it does."""

    def run(
        self, host: HostName, request: FragmentRequest, cancelled: Callable[[], bool] | None = None
    ) -> FragmentRows:
        if host == HOSTS[1]:
            raise DeadlineExceeded("The statement ran longer than its time-out of 0.0925768 s.")
        return super().run(host, request, cancelled)


def test_a_time_out_is_the_statements_whoever_sees_it_first() -> None:
    with memory_cluster([PLAYS], {"plays": ROWS}, HOSTS) as cluster:
        order = Assignment(HOSTS).order
        service = QueryService(
            cluster.sources[HOSTS[0]], SMALL, DeploymentHosts(_Hurried(cluster, HOSTS[0]), HOSTS[0], order)
        )
        try:
            with pytest.raises(DeadlineExceeded, match=r"time-out of 60 s: .*\. It waited for .*host.* b"):
                service.execute(SUM, session=Session(timeout_seconds=60.0))
        finally:
            service.close()


def test_a_cancelled_statement_ends_on_all_hosts() -> None:
    with memory_cluster([PLAYS], {"plays": ROWS}, HOSTS) as cluster:
        cancelled = threading.Event()

        def cancel_in_the_midst() -> None:
            wait_until(lambda: _is_in_the_midst(cluster))
            cancelled.set()

        with ThreadPoolExecutor(1) as pool:
            cancelling = pool.submit(cancel_in_the_midst)
            with pytest.raises(Cancelled):
                cluster.services[HOSTS[0]].execute(
                    ENDLESS, cancelled=cancelled.is_set, session=Session(timeout_seconds=PATIENCE_SECONDS)
                )
            cancelling.result()
        wait_until(lambda: not _is_busy(cluster))


def _is_busy(cluster: Cluster) -> bool:
    """Whether the engine of a host still works on something."""
    return any(service._resources.engine._watcher._watches for service in cluster.services.values())


def _is_in_the_midst(cluster: Cluster) -> bool:
    """Whether the first host has asked all others, and there is work to end."""
    return set(cluster.asked) == set(HOSTS[1:]) and _is_busy(cluster)


def test_time_that_runs_out_ends_a_statement_on_all_hosts() -> None:
    with memory_cluster([PLAYS], {"plays": ROWS}, HOSTS) as cluster:
        # Nothing else would end it.
        with pytest.raises(DeadlineExceeded, match=r"time-out of 0\.3 s"):
            cluster.services[HOSTS[0]].execute(ENDLESS, session=Session(timeout_seconds=0.3))
        wait_until(lambda: not _is_busy(cluster))


def test_a_result_closed_by_another_thread_ends_on_all_hosts() -> None:
    with memory_cluster([PLAYS], {"plays": ROWS}, HOSTS) as cluster:
        slow = "SELECT a.song_id, sum(b.count) FROM plays a, plays b, plays c, plays d, plays e GROUP BY 1"
        raised: list[Exception] = []
        results: list[object] = []

        def read() -> None:
            try:
                with cluster.services[HOSTS[0]].execute(slow, cancelled=lambda: bool(results)) as result:
                    result.read_all()
            except Cancelled as error:
                raised.append(error)

        reader = threading.Thread(target=read)
        reader.start()
        wait_until(lambda: _is_in_the_midst(cluster))
        results.append("over")
        reader.join(PATIENCE_SECONDS)
        assert not reader.is_alive()
        assert raised
        wait_until(lambda: not _is_busy(cluster))


def test_a_result_that_is_given_up_frees_everything() -> None:
    with memory_cluster(
        [PLAYS],
        {"plays": ROWS},
        HOSTS,
        options=QueryOptions(memory_limit_bytes=512 << 20, threads=1, batch_bytes=512),
    ) as cluster:
        service = cluster.services[HOSTS[0]]
        result = service.execute("SELECT song_id + 1 FROM plays")
        assert next(iter(result)).num_rows
        result.close()
        assert list(result) == []
        wait_until(lambda: not _is_busy(cluster))


def test_an_epoch_that_is_wished_for_and_not_there() -> None:
    with memory_cluster([PLAYS], {"plays": ROWS}, HOSTS) as cluster:
        service = cluster.services[HOSTS[0]]
        with pytest.raises(Unavailable, match="2"):
            service.execute(
                SUM, session=Session(timeout_seconds=0.2, read_point=ReadPoint(min_epoch=Epoch(2)))
            )
        with service.execute(SUM, session=Session(read_point=ReadPoint(min_epoch=Epoch(1)))) as result:
            assert int(result.read_all().column(0)[0].as_py()) == TOTAL
        with service.execute("SELECT sum(count) FROM plays AS OF EPOCH 1") as result:
            assert int(result.read_all().column(0)[0].as_py()) == TOTAL
        with pytest.raises(NotFound, match="7"):
            service.execute("SELECT sum(count) FROM plays AS OF EPOCH 7")
        with service.execute("SELECT count FROM plays WHERE song_id = 4 AS OF EPOCH 1") as result:
            assert result.read_all().to_pylist() == [{"count": 4}]


def test_wishes_hold_on_a_host_that_has_everything() -> None:
    service = QueryService(MemorySource([memory_view(PLAYS, ROWS)]), SMALL)
    try:
        with pytest.raises(Unavailable, match="2"):
            service.execute(
                SUM, session=Session(timeout_seconds=0.2, read_point=ReadPoint(min_epoch=Epoch(2)))
            )
        with service.execute("SELECT count FROM plays WHERE song_id = 4 AS OF EPOCH 1") as result:
            assert result.read_all().to_pylist() == [{"count": 4}]
        with pytest.raises(NotFound, match="7"):
            service.execute("SELECT count FROM plays WHERE song_id = 4 AS OF EPOCH 7")
    finally:
        service.close()


def test_a_host_refuses_partitions_and_epochs_that_it_has_not() -> None:
    with memory_cluster([PLAYS], {"plays": ROWS}, HOSTS) as cluster:
        service = cluster.services[HOSTS[0]]
        held = service.source.report()[1][PLAYS.name].partitions
        sql = 'SELECT count(*) FROM "main"."plays"'
        with service.execute_fragment(
            FragmentRequest(sql, {PLAYS.group: Epoch(1)}, {PLAYS.name: held})
        ) as result:
            assert result.read_all().num_rows == 1
        missing = next(number for number in range(8) if number not in held)
        with pytest.raises(Unavailable):
            service.execute_fragment(
                FragmentRequest(sql, {PLAYS.group: Epoch(1)}, {PLAYS.name: (type(held[0])(missing),)})
            )
        with pytest.raises(Unavailable):
            service.execute_fragment(FragmentRequest(sql, {PLAYS.group: Epoch(5)}, {PLAYS.name: held}))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT table_name FROM information_schema.tables",
        "SELECT t.table_name, current_user FROM information_schema.tables t JOIN plays ON true GROUP BY ALL",
        "SELECT current_user FROM plays",
    ],
)
def test_a_fragment_does_not_read_the_catalog(sql: str) -> None:
    with memory_cluster([PLAYS], {"plays": ROWS}, HOSTS) as cluster:
        service = cluster.services[HOSTS[0]]
        held = service.source.report()[1][PLAYS.name].partitions
        with pytest.raises(InvalidInput, match="A fragment reads stores and its inputs alone"):
            service.execute_fragment(
                FragmentRequest(sql, {PLAYS.group: Epoch(1)}, {PLAYS.name: held}, timeout_seconds=60.0)
            )


def _split_wrongly(bound: BoundStatement, *_: object) -> SplitPlan:
    tree = sqlglot.parse_one('SELECT no_such_column FROM "__scan_0"', dialect=EngineDialect)
    assert isinstance(tree, exp.Query)
    return SplitPlan(("broken",), (Fragment("__part_0", tree, bound.references, (), "broken"),), None)


@contextmanager
def _plans_and_request() -> Iterator[tuple[PlanCache, Request]]:
    """Plans, and a statement to plan."""
    engine = Engine(256 << 20, 1)
    try:
        statements = StatementCache(CacheLimits(10), ColumnNames(engine.binder))
        local = LocalExecutor(MemorySource([memory_view(PLAYS, ROWS)]), engine, 1 << 20)
        sql = "SELECT genre, sum(count) FROM plays GROUP BY genre"
        ready = statements.ready_text(sql, "duckdb", {PLAYS.name: PLAYS}, NO_DEADLINE)
        plans = PlanCache(engine, FragmentCache(engine, CacheLimits(10)), local, CacheLimits(10))
        yield plans, Request("duckdb", ready, Arguments(), NO_DEADLINE, 0.0)
    finally:
        engine.close()


def test_a_plan_that_the_engine_refuses_is_replaced_by_gathering(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.coordinator.plan_cache.split", _split_wrongly)
    with _plans_and_request() as (plans, request):
        with caplog.at_level(logging.WARNING):
            plan = plans.plan(request, Sizes())
        assert plan.split.rules == ("gather",)
        assert "gather all" in caplog.text
        assert plans.plan(request, Sizes()) is plan


@pytest.mark.parametrize("error", [Cancelled("Taken back."), DeadlineExceeded("Too late.")])
def test_a_statement_that_ends_while_it_is_planned_is_no_refusal(
    error: LivestateError, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _plans_and_request() as (plans, request):
        with monkeypatch.context() as patch:
            patch.setattr("engine.coordinator.plan_cache.split", lambda *_: _raise(error))
            with pytest.raises(type(error)):
                plans.plan(request, Sizes())
            patch.setattr(FragmentCache, "bind", lambda *_: _raise(error))
            with pytest.raises(type(error)):
                plans.whole_text(request)
        # Nothing is kept of it.
        assert plans.plan(request, Sizes()).split.rules != ("gather",)
        assert plans.whole_text(request).text is not None


def _raise(error: LivestateError) -> NoReturn:
    raise error
