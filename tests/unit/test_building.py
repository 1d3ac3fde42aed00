"""A host that is being built answers nothing from before its start: statements wait, go elsewhere, or are
told how far it is.
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, StoreAppender, open_appender
from engine.cluster.reports import GroupReport, Progress
from engine.errors import LimitExceeded, NotFound, Unavailable
from engine.model.read_point import AsOfEpoch, AsOfTimestamp, ReadPoint
from engine.model.schema import Epoch, GroupName, StoreDefinition, define_store
from engine.replica.follower import Follower
from engine.scan import BuildingError
from engine.service import QueryService, Session
from flight_server.client.client import Client
from flight_server.host.host import Host, HostOptions
from flight_server.server.limits import ServerLimits
from flight_server.wire.read_point_options import parse_read_point
from tests.support.following import GROUP, OPTIONS, define, run_follower
from tests.support.gated import Gate, gate_changelog
from tests.support.local_cluster import SMALL, Cluster, following_cluster, host_names
from tests.support.waiting import PATIENCE_SECONDS, wait_until

EPOCHS, STOP = 12, Epoch(8)
HURRIED = 1.0
DEBIT = define("debit")
OTHER = GroupName("shop")
SALES = define_store("sales", DEBIT.schema, ["account"], partitions=2, group=OTHER)
COUNT, SUM, ROW = (
    "SELECT count(*) AS n FROM debit",
    "SELECT sum(amount) AS n FROM debit",
    "SELECT amount AS n FROM debit WHERE account = 3",
)
ANSWERS = {COUNT: EPOCHS, SUM: EPOCHS, ROW: 1}


def append(appender: StoreAppender, store: StoreDefinition, account: int) -> Epoch:
    return appender.append({store.name: pa.table({"account": [account], "amount": [1]}, store.schema)}).epoch


@pytest.fixture(autouse=True)
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that catches up takes few epochs at once."""
    monkeypatch.setattr("engine.replica.commit_queue.MOST_EPOCHS_TOGETHER", 2)


@pytest.fixture
def appender(changelog: Changelog) -> StoreAppender:
    """Of a store with as many rows as there are epochs with rows: the count says which epoch was read."""
    appender = open_appender(changelog, [DEBIT])
    for account in range(EPOCHS):
        append(appender, DEBIT, account)
    return appender


@dataclass(frozen=True)
class Building:
    """A host that waits at a gate on its way through the epochs."""

    gate: Gate
    follower: Follower
    service: QueryService

    def ask(
        self, sql: str, timeout_seconds: float = PATIENCE_SECONDS, read_point: ReadPoint | None = None
    ) -> int:
        session = (
            Session(timeout_seconds=timeout_seconds)
            if read_point is None
            else Session(timeout_seconds=timeout_seconds, read_point=read_point)
        )
        with self.service.execute(sql, session=session) as result:
            (row,) = result.read_all().to_pylist()
        return int(row["n"])


@contextmanager
def building(changelog: Changelog, directory: Path, epoch: Epoch = STOP) -> Iterator[Building]:
    gate = Gate(GROUP, epoch)
    with (
        gate_changelog(changelog.uri, gate) as behind_gate,
        run_follower(behind_gate, directory) as follower,
        ExitStack() as resources,
    ):
        service = QueryService(follower, SMALL)
        resources.callback(service.close)
        resources.callback(gate.open)
        assert gate.reached.wait(PATIENCE_SECONDS)
        yield Building(gate, follower, service)


def test_a_statement_waits_for_what_was_newest_at_the_start(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    with building(changelog, tmp_path / "data") as host, ThreadPoolExecutor(2 * len(ANSWERS)) as pool:
        for _ in range(2):  # the second time the plan is known, and its short ways are tried
            for hurried in [pool.submit(host.ask, sql, HURRIED) for sql in ANSWERS]:
                with pytest.raises(
                    Unavailable,
                    match=(
                        r"Partition \d of store debit is being rebuilt on this host, on its way to epoch 13 "
                        r"of group bank; "
                    ),
                ):
                    hurried.result(PATIENCE_SECONDS)
        waiting = [(sql, pool.submit(host.ask, sql)) for sql in ANSWERS for _ in range(2)]
        append(appender, DEBIT, 99)  # what comes meanwhile is not waited for
        host.gate.open()
        for sql, each in waiting:
            assert each.result(PATIENCE_SECONDS) in (ANSWERS[sql], ANSWERS[sql] + (sql is not ROW))


def test_the_error_says_how_far_the_host_is(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    with building(changelog, tmp_path / "data") as host:
        said = r"; it is at epoch [46] of 13 \(\d+ %.*\): try again later, or say allow_stale to read"
        with pytest.raises(Unavailable, match=said):
            host.ask(COUNT, HURRIED)
        with (
            pytest.raises(
                BuildingError, match=r"Group bank is being built on this host; it is at epoch [46] of 13"
            ),
            host.follower.pin_views([DEBIT.name]),
        ):
            pass
        (status,) = host.follower.status()
        assert status.problem.startswith("The store is being built on this host; it is at epoch")
        assert (status.epoch, status.newest_epoch, status.rows) == (0, appender.epoch, 0)
        groups, stores = host.follower.report()
        assert groups[GROUP].readable == ()
        assert groups[GROUP].newest_known == appender.epoch
        assert stores[DEBIT.name].partitions == ()
        assert stores[DEBIT.name].rebuilding == tuple(range(DEBIT.partitions))
        host.gate.open()
        assert host.follower.wait_for(GROUP, appender.epoch, PATIENCE_SECONDS)
        assert host.follower.status()[0].problem == ""
        assert host.follower.report()[0][GROUP].building is None


def test_on_the_way_only_those_are_answered_who_allow_it(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    stale = ReadPoint(allow_stale=True)
    with building(changelog, tmp_path / "data") as host:
        wait_until(lambda: bool(host.follower.report()[0][GROUP].past))
        reached = host.follower.report()[0][GROUP].past[-1]
        as_of = ReadPoint(as_of_default=AsOfEpoch(reached.epoch))
        refused = (ReadPoint(), as_of, ReadPoint(as_of_default=AsOfTimestamp(reached.committed_at)))
        for _ in range(3):  # what is kept of one answer is not given to those who do not allow it
            for sql in (COUNT, SUM):
                # One row an epoch, from the second on.
                assert host.ask(sql, PATIENCE_SECONDS, stale) == reached.epoch - 1
                assert host.ask(sql, PATIENCE_SECONDS, replace(as_of, allow_stale=True)) == reached.epoch - 1
            for read_point in refused:
                with pytest.raises(Unavailable, match="is being rebuilt on this host"):
                    host.ask(COUNT, 0.05, read_point)
        session = Session(read_point=stale)
        with host.service.execute(ROW, session=session) as result:
            assert result.metadata.epochs == {GROUP: reached.epoch}
            assert result.metadata.digests == {GROUP: reached.digest}
            assert (result.metadata.stale_seconds or 0) > 0
        division = host.service.divide("SELECT * FROM debit", session=session)
        assert division.epochs == {GROUP: reached.epoch}
        assert division.pieces
        host.follower.hold(division.epochs, 60.0)
        rows = [host.service.execute_fragment(piece.request).read_all().num_rows for piece in division.pieces]
        assert sum(rows) == reached.epoch - 1
        keys = host.service.key_stream("debit", read_point=stale)
        answer = keys.answer(pa.record_batch({"account": [0, 11]}), PATIENCE_SECONDS)
        assert answer.rows.column(0).to_pylist() == [True, False]
        host.gate.open()
        assert host.follower.wait_for(GROUP, appender.epoch, PATIENCE_SECONDS)
        assert host.follower.report()[0][GROUP].past == ()
        for read_point in (ReadPoint(), stale):
            assert host.ask(COUNT, PATIENCE_SECONDS, read_point) == EPOCHS


def test_wishes_for_epochs_wait_as_well(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    newest = appender.epoch
    answered = [
        {},
        {"min_epoch": 2},
        {"min_epoch": int(newest)},
        {"max_staleness": 3600.0},
        {"as_of": int(newest)},
    ]
    refused = [{"as_of": int(STOP) - 2}, {"as_of": int(newest) + 5}]
    everything = [*answered, *refused]
    with building(changelog, tmp_path / "data") as host, ThreadPoolExecutor(len(everything)) as pool:
        hurried = [
            pool.submit(host.ask, COUNT, HURRIED, parse_read_point(**read_point))  # type: ignore[arg-type]
            for read_point in everything
        ]
        for each in hurried:
            with pytest.raises(Unavailable, match="is being rebuilt on this host"):
                each.result(PATIENCE_SECONDS)
        waiting = [
            pool.submit(host.ask, COUNT, PATIENCE_SECONDS, parse_read_point(**read_point))  # type: ignore[arg-type]
            for read_point in answered
        ]
        host.gate.open()
        assert [each.result(PATIENCE_SECONDS) for each in waiting] == [EPOCHS] * len(answered)
        for read_point in refused:
            with pytest.raises(NotFound, match=r"is not retained|is not known to be committed"):
                host.ask(COUNT, PATIENCE_SECONDS, parse_read_point(**read_point))


def test_a_group_that_never_stands_still_is_there_in_the_end(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    """It waits for what was newest at its start, and not for what comes all the time."""
    stopping = threading.Event()

    def produce() -> None:
        account = EPOCHS
        while not stopping.is_set():
            append(appender, DEBIT, account)
            account += 1

    with ThreadPoolExecutor(1) as pool, run_follower(changelog, tmp_path / "data") as follower:
        producing = pool.submit(produce)
        try:
            wait_until(lambda: follower.has_caught_up)
        finally:
            stopping.set()
        producing.result(PATIENCE_SECONDS)


def test_ready_is_once_and_for_all(changelog: Changelog, appender: StoreAppender, tmp_path: Path) -> None:
    gate = Gate(GROUP, Epoch(appender.epoch + 1))
    with (
        gate_changelog(changelog.uri, gate) as behind_gate,
        run_follower(behind_gate, tmp_path / "data") as follower,
    ):
        wait_until(lambda: follower.has_caught_up)
        newest = append(appender, DEBIT, 99)
        assert gate.reached.wait(PATIENCE_SECONDS)
        assert follower.report()[0][GROUP].newest < newest
        assert follower.has_caught_up
        open_appender(changelog, [SALES])
        assert follower.has_caught_up
        gate.open()


def test_a_host_with_all_of_it_on_its_disk_answers_at_once(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    with run_follower(changelog, tmp_path / "data") as follower:
        assert follower.wait_for(GROUP, appender.epoch, PATIENCE_SECONDS)
    follower = Follower(changelog, tmp_path / "data", OPTIONS)
    follower._look_for_stores()  # what `start` does before its threads begin
    follower._open_groups()
    try:
        assert follower.has_caught_up
        with follower.pin_views([DEBIT.name]) as views:
            assert views[DEBIT.name].epoch == appender.epoch
    finally:
        follower.stop()


def test_a_host_that_was_away_answers_nothing_of_before(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    with run_follower(changelog, tmp_path / "data") as follower:
        assert follower.wait_for(GROUP, appender.epoch, PATIENCE_SECONDS)
    missed = [append(appender, DEBIT, 100 + number) for number in range(6)]
    with building(changelog, tmp_path / "data", missed[3]) as host:
        with pytest.raises(Unavailable, match=rf"it is at epoch 1[3456] of {missed[-1]} \("):
            host.ask(COUNT, HURRIED)
        host.gate.open()
        assert host.ask(COUNT) == EPOCHS + 6


def test_a_lost_partition_is_waited_for(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    """The others are read meanwhile where they are enough; they are never behind what was newest."""
    with run_follower(changelog, tmp_path / "data") as follower:
        assert follower.wait_for(GROUP, appender.epoch, PATIENCE_SECONDS)
    shutil.rmtree(tmp_path / "data" / "bank" / "debit" / "2")
    with building(changelog, tmp_path / "data") as host, ThreadPoolExecutor(1) as pool:
        assert not host.follower.has_caught_up
        with pytest.raises(
            Unavailable,
            match=r"Partition 2 of store debit is being rebuilt on this host, .*; it is at epoch [46] of 13",
        ):
            host.ask(COUNT, HURRIED)
        with host.follower.pin_views([DEBIT.name], None, {DEBIT.name: [0, 1, 3]}) as views:  # type: ignore[list-item]
            assert views[DEBIT.name].epoch == appender.epoch
        waiting = pool.submit(host.ask, COUNT)
        host.gate.open()
        assert waiting.result(PATIENCE_SECONDS) == EPOCHS
        wait_until(lambda: host.follower.has_caught_up)


# ---- several groups


@contextmanager
def host_of_two_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statements: int
) -> Iterator[tuple[Host, Gate, StoreAppender]]:
    """A host process's parts, of which one group is on its disk and another one waits at a gate."""
    changelog = Changelog.open(str(tmp_path / "changelog"))
    sales = open_appender(changelog, [SALES])
    append(sales, SALES, 1)
    with run_follower(changelog, tmp_path / "data") as follower:
        assert follower.wait_for(OTHER, sales.epoch, PATIENCE_SECONDS)
    append(sales, SALES, 2)
    debit = open_appender(changelog, [DEBIT])
    for account in range(EPOCHS):
        append(debit, DEBIT, account)
    gate = Gate(GROUP, Epoch(2))
    with gate_changelog(changelog.uri, gate) as behind_gate:
        monkeypatch.setattr("flight_server.host.host.Changelog.open", lambda *_: behind_gate)
        limits = ServerLimits(max_statements=statements, max_waiting=2)
        host = Host(
            HostOptions(
                changelog.uri, tmp_path / "data", port=0, limits=limits, follower=OPTIONS, grace_seconds=0.2
            )
        )
        host.start()
        try:
            yield host, gate, sales
        finally:
            gate.open()
            host.stop()


def numbers_of(client: Client, sql: str) -> list[int]:
    found: list[int] = client.query(sql).read_all()["n"].to_pylist()
    return found


def test_a_group_that_is_built_holds_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither those who follow it, though its turn comes first by name, nor those who ask: a statement that
    waits takes no slot.
    """
    with (
        host_of_two_groups(tmp_path, monkeypatch, statements=1) as (host, gate, _),
        ThreadPoolExecutor(3) as pool,
    ):
        assert gate.reached.wait(PATIENCE_SECONDS)

        def ask_debit(timeout_seconds: float) -> list[int]:
            with Client(host.uri, timeout_seconds=timeout_seconds) as other:
                return numbers_of(other, COUNT)

        with Client(host.uri, timeout_seconds=PATIENCE_SECONDS) as client:
            assert not client.health()["ready"]
            waiting: list[Future[list[int]]] = [pool.submit(ask_debit, PATIENCE_SECONDS) for _ in range(2)]
            wait_until(lambda: host.running_queries == 2)
            assert numbers_of(client, "SELECT count(*) AS n FROM sales") == [2]
            with pytest.raises(
                LimitExceeded, match="2 requests of this kind wait for epochs that are to come"
            ):
                ask_debit(PATIENCE_SECONDS)
            assert not any(each.done() for each in waiting)
            gate.open()
            assert [each.result(PATIENCE_SECONDS) for each in waiting] == [[EPOCHS], [EPOCHS]]
            wait_until(lambda: bool(client.health()["ready"]))


# ---- several hosts


def test_statements_go_to_the_replica_that_has_it(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = host_names(2)
    with following_cluster(changelog, tmp_path, hosts, OPTIONS, replication=2) as cluster:
        cluster.wait_for({GROUP: appender.epoch}, PATIENCE_SECONDS)
    shutil.rmtree(tmp_path / hosts[0])
    gate = Gate(GROUP, STOP)
    with gate_changelog(changelog.uri, gate) as behind_gate:
        opened = iter([behind_gate, changelog])
        monkeypatch.setattr(
            "tests.support.local_cluster.Follower", lambda _, *settings: Follower(next(opened), *settings)
        )
        with following_cluster(changelog, tmp_path, hosts, OPTIONS, replication=2) as cluster:
            assert gate.reached.wait(PATIENCE_SECONDS)
            for service in cluster.services.values():
                assert [answer(service, sql) for sql in ANSWERS] == list(ANSWERS.values())
            assert cluster.asked[hosts[1]] > 0
            assert cluster.asked[hosts[0]] == 0
            cluster.stop(hosts[1])
            with pytest.raises(
                Unavailable, match=rf"is being rebuilt on host {hosts[0]}, .*it is at epoch [46] of 13"
            ):
                answer(cluster.services[hosts[0]], COUNT, HURRIED)
            stale = Session(timeout_seconds=PATIENCE_SECONDS, read_point=ReadPoint(allow_stale=True))
            with cluster.services[hosts[0]].execute(COUNT, session=stale) as result:
                epoch = result.metadata.epochs[GROUP]
                assert result.read_all()["n"].to_pylist() == [epoch - 1]
                assert 1 < epoch < STOP
            with pytest.raises(Unavailable, match="is being rebuilt on host"):
                answer(cluster.services[hosts[0]], COUNT, 0.05)
            assert rows_of_show(cluster, "SHOW STORES")[0]["problem"].startswith(
                "No host that answers has partitions 0, 1, 2, 3. Host a builds partitions; it is at"
            )
            gate.open()
            assert answer(cluster.services[hosts[0]], COUNT) == EPOCHS


def answer(service: QueryService, sql: str, timeout_seconds: float = PATIENCE_SECONDS) -> int:
    with service.execute(sql, session=Session(timeout_seconds=timeout_seconds)) as result:
        (row,) = result.read_all().to_pylist()
    return int(row["n"])


def rows_of_show(cluster: Cluster, sql: str) -> Sequence[dict[str, str]]:
    with cluster.services[cluster.hosts[0]].execute(sql) as result:
        rows: list[dict[str, str]] = result.read_all().to_pylist()
    return rows


def test_reports_that_differ_in_progress_alone_wake_nobody() -> None:
    reports = [
        GroupReport((), Epoch(9), None, 5, Progress(Epoch(epoch), Epoch(9)), problem)
        for epoch, problem in ((1, ""), (2, "a"))
    ]
    assert reports[0] == reports[1]
    assert Progress(Epoch(0), Epoch(0)).percent == Progress(Epoch(7), Epoch(5)).percent == 100


# ---- a changelog that is not there


def test_a_changelog_that_is_not_there_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    changelog = Changelog.open(str(tmp_path / "nowhere"))
    missing = "The changelog that this host follows does not exist yet"
    with caplog.at_level(logging.WARNING), run_follower(changelog, tmp_path / "data") as follower:
        assert f"There is no changelog at {changelog.uri} yet" in caplog.text
        service = QueryService(follower, SMALL)
        try:
            for sql in (COUNT, "SELECT 1 AS n", "SHOW TABLES", "SHOW STORES", "EXPLAIN SELECT * FROM debit"):
                with pytest.raises(Unavailable, match=missing) as caught:
                    service.execute(sql)
                assert str(tmp_path) not in caught.value.message
            with pytest.raises(Unavailable, match=missing):
                service.prepare(COUNT)
            assert not follower.has_caught_up
            appender = open_appender(Changelog.open(changelog.uri), [DEBIT])
            append(appender, DEBIT, 1)
            wait_until(lambda: follower.has_caught_up)
            assert answer(service, COUNT) == 1
        finally:
            service.close()
