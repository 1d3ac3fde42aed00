"""Merges that read rows while they are on their way from other hosts: memory, hosts that fail, refusals, and
ends before the end.
"""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice

import pyarrow as pa
import pytest

from engine.cluster.assignment import Assignment
from engine.cluster.fragments import FragmentRequest, FragmentRows
from engine.cluster.reports import HostName
from engine.coordinator.deployment_hosts import DeploymentHosts
from engine.coordinator.exchange_stream import ExchangeStream
from engine.coordinator.fragment_runs import FragmentRuns
from engine.coordinator.gather_memory import MemoryPool
from engine.coordinator.scatter import Scatter
from engine.deadline import Deadline
from engine.duckdb.engine import Engine
from engine.errors import (
    Cancelled,
    DeadlineExceeded,
    Defect,
    InvalidInput,
    LimitExceeded,
    LivestateError,
    NotFound,
    Unavailable,
)
from engine.model.schema import define_store
from engine.service import QueryOptions, QueryService, Session
from tests.support.held_source import HeldSource, rows_by_partition
from tests.support.local_cluster import SMALL, Cluster, DirectPeers, host_names, memory_cluster
from tests.support.waiting import PATIENCE_SECONDS, wait_until

COUNT = 60_000
LIMIT_BYTES = 200_000
PLAYS = define_store(
    "plays",
    pa.schema([("song", pa.int64()), ("artist", pa.string()), ("plays", pa.int64())]),
    ["song"],
    partitions=16,
)
ROWS = pa.table(
    {
        "song": range(COUNT),
        "artist": [f"artist {place // 2}" for place in range(COUNT)],
        "plays": [place % 1000 for place in range(COUNT)],
    }
)
HOSTS = host_names(3)
OPTIONS = replace(SMALL, batch_bytes=10_000, merge_table_bytes=20_000, gather_limit_bytes=LIMIT_BYTES)

GROUPS = "SELECT artist, count(*) AS n, sum(plays) AS s FROM plays GROUP BY artist"
MOST = "SELECT song, artist, plays FROM plays ORDER BY plays DESC, song LIMIT 60000"
PASSING = "SELECT song, artist FROM plays LIMIT 50000 OFFSET 1"
"""Its merge gives rows before it has read all."""


def _total(column: str) -> Callable[[pa.Table], bool]:
    return lambda found: int(sum(found[column].to_pylist())) == COUNT * (COUNT - 1) // 2


MANY: dict[str, Callable[[pa.Table], bool]] = {
    GROUPS: lambda found: found.num_rows == COUNT // 2 and set(found["n"].to_pylist()) == {2},
    MOST: lambda found: _total("song")(found) and found.slice(0, 2)["song"].to_pylist() == [999, 1999],
    "SELECT DISTINCT artist FROM plays": lambda found: found.num_rows == COUNT // 2,
    "SELECT DISTINCT ON (artist) artist, song FROM plays ORDER BY artist, song": lambda found: all(
        song % 2 == 0 for song in found["song"].to_pylist()
    ),
    "SELECT song, row_number() OVER (ORDER BY song) AS r FROM plays": _total("song"),
    PASSING: lambda found: found.num_rows == 50_000 == len(set(found["song"].to_pylist())),
}


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine gives few rows at a time, and few of them are read before any is handed out."""
    monkeypatch.setattr("engine.duckdb.handover.MOST_ROWS", 1000)
    monkeypatch.setattr("engine.coordinator.lost_hosts.FIRST_BYTES", 10_000)


@contextmanager
def _cluster(options: QueryOptions = OPTIONS) -> Iterator[Cluster]:
    with memory_cluster([PLAYS], {"plays": ROWS}, HOSTS, options=options) as found:
        yield found


def _gathered_bytes(service: QueryService) -> int:
    return service._runner._memory.held_bytes


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with _cluster() as found:
        yield found


@pytest.mark.parametrize("sql", MANY)
def test_a_merge_holds_a_part_of_what_it_reads(cluster: Cluster, sql: str) -> None:
    service = cluster.services[HOSTS[0]]
    lines = [str(line) for line in _read(service, f"EXPLAIN ANALYZE {sql}")["plan"].to_pylist()]
    (moved,) = (int(line.split()[-2]) for line in lines if line.startswith("moved between hosts: "))
    # What the host itself has comes on top.
    assert moved > LIMIT_BYTES
    assert MANY[sql](_read(service, sql))
    assert _gathered_bytes(service) == 0


@pytest.mark.parametrize("sql", MANY)
def test_as_tables_the_same_rows_are_too_many(sql: str) -> None:
    with (
        _cluster(replace(OPTIONS, merge_table_bytes=1 << 30)) as cluster,
        pytest.raises(LimitExceeded, match="gather_limit_bytes"),
    ):
        cluster.services[HOSTS[0]].execute(sql)


def test_all_rows_that_came_are_counted(cluster: Cluster) -> None:
    lines = [
        str(line)
        for line in _read(cluster.services[HOSTS[1]], f"EXPLAIN ANALYZE {GROUPS}")["plan"].to_pylist()
    ]
    rows = {line.split()[3].rstrip(":"): int(line.split()[4]) for line in lines if line.startswith("read: ")}
    assert set(rows) == set(HOSTS)
    # An artist whose two songs are on different hosts is a group on both.
    assert COUNT // 2 < sum(rows.values()) < COUNT
    assert f"rows: {COUNT // 2}" in lines


def test_joins_gather_tables_and_keep_to_the_limit(cluster: Cluster) -> None:
    with pytest.raises(LimitExceeded, match="gather_limit_bytes"):
        cluster.services[HOSTS[0]].execute(
            "SELECT count(*) FROM plays a FULL JOIN plays b ON a.song + 1 = b.plays + 2"
        )


def _read(service: QueryService, sql: str) -> pa.Table:
    with service.execute(sql, session=Session(timeout_seconds=PATIENCE_SECONDS)) as result:
        return result.read_all()


# ---- hosts that fail


class _Broken:
    """A fragment's rows up to a point, and then an error; or nothing, until they are closed."""

    def __init__(
        self, rows: FragmentRows, batches: int, error: LivestateError | None, may_break: threading.Event
    ) -> None:
        self._rows = rows
        self._batches = batches
        self._error = error
        self._may_break = may_break
        self._closed = threading.Event()
        self.stuck = threading.Event()
        self.given = 0
        self.schema, self.metadata = rows.schema, rows.metadata

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in islice(self._rows, self._batches):
            self.given += 1
            yield batch
        if self._error is not None:
            assert self._may_break.wait(PATIENCE_SECONDS), "nobody let the rows break off"
            # A new one: its traceback is to go with it.
            raise type(self._error)(self._error.message)
        self.stuck.set()
        assert self._closed.wait(PATIENCE_SECONDS), "nobody closed the rows"
        raise Cancelled("The fragment was cancelled.")

    def close(self) -> None:
        self._closed.set()
        self._rows.close()


class _Breaking(DirectPeers):
    """Peers of whom host b breaks off, once."""

    def __init__(self, cluster: Cluster, here: HostName, batches: int, error: LivestateError | None) -> None:
        super().__init__(cluster, here)
        self._batches = batches
        self._error = error
        self.may_break = threading.Event()
        self.may_break.set()
        self._has_broken = False
        self.broken: _Broken | None = None

    def run(
        self, host: HostName, request: FragmentRequest, cancelled: Callable[[], bool] | None = None
    ) -> FragmentRows:
        rows = super().run(host, request, cancelled)
        if host != HOSTS[1] or self._has_broken:
            return rows
        self._has_broken = True
        self.broken = _Broken(rows, self._batches, self._error, self.may_break)
        return self.broken

    @property
    def is_stuck(self) -> bool:
        return self.broken is not None and self.broken.stuck.is_set()


@contextmanager
def _breaking_service(
    batches: int, error: LivestateError | None, replication: int = 2, threads: int = 1
) -> Iterator[tuple[QueryService, _Breaking]]:
    """A service at host a, and its peers."""
    assignment = Assignment(HOSTS, replication)
    stores = {PLAYS.name: (PLAYS, rows_by_partition(PLAYS, ROWS))}
    cluster = Cluster(
        {
            host: HeldSource(stores, {}, {PLAYS.name: assignment.held_partitions(host, PLAYS)})
            for host in HOSTS
        },
        assignment,
        OPTIONS,
    )
    peers = _Breaking(cluster, HOSTS[0], batches, error)
    service = QueryService(
        cluster.sources[HOSTS[0]],
        replace(OPTIONS, threads=threads),
        DeploymentHosts(peers, HOSTS[0], assignment.order),
    )
    try:
        yield service, peers
        assert _gathered_bytes(service) == 0
        # What was about to begin here when the statement ended ends by itself.
        wait_until(lambda: not service._resources.engine._watcher._watches)
    finally:
        service.close()
        cluster.close()


BEFORE, AMIDST, ALL = 0, 20, 1 << 30
"""Batches: 20 of them are ten times what is read before the engine begins."""


@pytest.mark.parametrize("batches", [BEFORE, AMIDST])
@pytest.mark.parametrize("sql", [GROUPS, PASSING])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_host_that_is_lost_before_a_row_was_handed_out_is_replaced(
    sql: str, batches: int, threads: int
) -> None:
    with _breaking_service(batches, Unavailable("It went away."), threads=threads) as (service, peers):
        assert MANY[sql](_read(service, sql))
        assert peers.broken is not None


@pytest.mark.parametrize(
    "error",
    [
        Unavailable("It went away."),
        # The text is that of the fragment, which its client has never seen.
        NotFound("It went away.\nLine 1, column 15:\nSELECT v FROM main.plays\n              ^"),
    ],
)
@pytest.mark.parametrize("batches", [BEFORE, AMIDST])
def test_without_a_replica_the_error_names_host_and_partitions(batches: int, error: LivestateError) -> None:
    with (
        _breaking_service(batches, error, replication=1) as (service, _),
        pytest.raises(
            Unavailable,
            match=(
                r"Host b failed, and no other host can answer for partitions .* of store plays: It went "
                r"away\.$"
            ),
        ),
    ):
        service.execute(GROUPS)


@pytest.mark.usefixtures("small_steps")
def test_a_host_that_is_lost_when_rows_were_handed_out_ends_the_result() -> None:
    with _breaking_service(AMIDST, Unavailable("It went away.")) as (service, peers):
        peers.may_break.clear()
        with service.execute(PASSING) as result:
            assert peers.broken is not None
            assert next(result).num_rows
            peers.may_break.set()
            with pytest.raises(
                Unavailable,
                match=(
                    r"Host b failed when it had given a part of its rows for partitions .* of store plays: "
                    r"It went away"
                ),
            ):
                result.read_all()


def test_a_fragment_that_is_refused_amidst_its_rows_is_answered_by_gathering(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        caplog.at_level(logging.INFO),
        _breaking_service(AMIDST, InvalidInput("A value cannot be cast.")) as (service, peers),
    ):
        assert MANY[GROUPS](_read(service, GROUPS))
        assert peers.broken is not None
    assert "gather all" in caplog.text


def test_other_errors_amidst_the_rows_keep_their_kind() -> None:
    with (
        _breaking_service(AMIDST, LimitExceeded("Host b has no memory.")) as (service, _),
        pytest.raises(LimitExceeded, match="Host b has no memory"),
    ):
        service.execute(GROUPS)


# ---- nothing stays


@pytest.fixture
def no_collection() -> Iterator[None]:
    """Only what nothing refers to is freed."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _held(known: Sequence[object] = ()) -> list[object]:
    """What there is of statements, but for what was known before: errors that other tests have kept refer to
    what they were raised in.
    """
    others = set(map(id, known))
    return [
        found
        for found in gc.get_objects()
        if isinstance(found, Scatter | FragmentRuns | ExchangeStream | pa.RecordBatchReader)
        and id(found) not in others
    ]


JOIN = "SELECT count(*) AS n FROM plays a FULL JOIN plays b ON a.song + 1 = b.plays + 2"
FAILED: list[LivestateError] = [
    Unavailable("It went away."),
    InvalidInput("A cast."),
    LimitExceeded("No memory."),
    Defect("A defect."),
]


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize("error", FAILED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("batches", [BEFORE, AMIDST])
@pytest.mark.parametrize("sql", [GROUPS, JOIN])
def test_rows_of_a_statement_that_failed_are_free_without_a_collection(
    sql: str, batches: int, error: LivestateError
) -> None:
    known = _held()
    with _breaking_service(batches, error, replication=1) as (service, peers):
        for _ in range(3):
            with suppress(LivestateError):
                service.execute(sql).close()
        peers.broken = None
        # Threads that read at other hosts meanwhile are about to end.
        wait_until(lambda: not _held(known), 4)


# ---- ends before the end


@pytest.mark.parametrize("threads", [1, 2])
def test_a_cancel_ends_a_merge_that_waits_for_rows(threads: int) -> None:
    with _breaking_service(AMIDST, None, threads=threads) as (service, peers), ThreadPoolExecutor(1) as pool:
        cancelled = threading.Event()
        asked = pool.submit(service.execute, GROUPS, cancelled=cancelled.is_set)
        wait_until(lambda: peers.is_stuck)
        cancelled.set()
        with pytest.raises(Cancelled):
            asked.result(PATIENCE_SECONDS)


def test_time_that_runs_out_ends_a_merge_that_waits_for_rows_and_names_the_host() -> None:
    with _breaking_service(AMIDST, None) as (service, peers):
        with pytest.raises(DeadlineExceeded, match=r"time-out of 2 s.* It waited for hosts? .*b"):
            service.execute(GROUPS, session=Session(timeout_seconds=2.0))
        assert peers.is_stuck


def test_a_host_that_stops_ends_its_merges() -> None:
    with _breaking_service(AMIDST, None) as (service, peers), ThreadPoolExecutor(1) as pool:
        asked = pool.submit(service.execute, GROUPS)
        wait_until(lambda: peers.is_stuck)
        service._runner.close()
        with pytest.raises(Unavailable) as caught:
            asked.result(PATIENCE_SECONDS)
        assert caught.value.message == "The host is stopping; ask again later, or another host."


@pytest.mark.usefixtures("small_steps")
def test_a_result_that_is_given_up_ends_its_merge() -> None:
    with _breaking_service(ALL, None) as (service, peers), service.execute(PASSING) as result:
        assert result.read_all().num_rows == 50_000
        assert peers.broken is not None
        whole = peers.broken.given
    with _breaking_service(ALL, None) as (service, peers):
        result = service.execute(PASSING)
        assert next(result).num_rows
        # Nobody reads on, so the host is not asked for all.
        assert peers.broken is not None
        assert peers.broken.given < whole
        result.close()
        assert list(result) == []


@pytest.mark.usefixtures("small_steps")
def test_a_result_that_is_closed_while_it_waits_for_rows_ends_its_merge() -> None:
    with (
        _breaking_service(AMIDST, None) as (service, peers),
        service.execute(PASSING) as result,
        ThreadPoolExecutor(1) as pool,
    ):
        reading = pool.submit(result.read_all)
        wait_until(lambda: peers.is_stuck)
        result.close()
        with pytest.raises(Cancelled):
            reading.result(PATIENCE_SECONDS)


def test_a_limit_that_is_reached_ends_the_rest() -> None:
    with _breaking_service(AMIDST, None) as (service, peers):
        assert _read(service, "SELECT song, artist FROM plays LIMIT 15000 OFFSET 1").num_rows == 15_000
        assert peers.broken is not None


# ---- a flow by itself


class _NoHosts:
    """Hosts that nobody may ask."""

    def run(self, host: HostName, request: FragmentRequest, cancelled: Callable[[], bool]) -> FragmentRows:
        pytest.fail("no host is asked")


def test_a_flow_is_not_read_twice() -> None:
    schema = pa.schema([("a", pa.int64())])
    batches = [pa.record_batch([pa.array([place])], schema=schema) for place in range(10)]
    engine = Engine(256 << 20, 1)
    try:
        parts = FragmentRuns(_NoHosts())
        flow = ExchangeStream(
            schema, batches[:2], iter(batches[2:]), parts, MemoryPool(1 << 20, 1 << 20).reservation()
        )
        rows = engine.run('SELECT sum(a) AS s FROM "p"', {"p": flow}, [], Deadline(None))
        assert [row for batch in rows for row in batch.to_pylist()] == [{"s": 45}]
        rows.close()
        with pytest.raises(Defect, match="twice"):
            engine.run('SELECT sum(a) AS s FROM "p"', {"p": flow}, [], Deadline(None))
    finally:
        engine.close()
