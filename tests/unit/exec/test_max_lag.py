"""A host that is further behind than it may be answers nothing, on whatever way it is asked, unless the
client says allow_stale; then the answer says how old it is.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, open_appender
from engine.changelog.layout import commit_path
from engine.cluster.assignment import Assignment
from engine.cluster.reports import HostName
from engine.errors import NotFound, Unavailable
from engine.exec.query_result import QueryMetadata
from engine.model.read_point import NEWEST, AsOfEpoch, AsOfTimestamp, ReadPoint
from engine.model.schema import Epoch, GroupName, PartitionId, StoreDefinition, StoreName
from engine.replica.follower import Follower
from engine.service import QueryService, Session
from tests.support.following import GROUP, OPTIONS, define
from tests.support.local_cluster import SMALL, Cluster, host_names
from tests.support.waiting import PATIENCE_SECONDS, wait_until

DEBIT, CREDIT = define("debit"), define("credit")
ACCOUNTS = 40
MAX_LAG = 60.0
HOUR = 3600.0
DAY = 86_400_000_000
STALE = ReadPoint(allow_stale=True)
STATEMENTS = (
    "SELECT amount FROM debit WHERE account = 3",
    "SELECT amount FROM debit WHERE account IN (3, 4)",
    "SELECT count(*) FROM debit",
    "SELECT account FROM debit",
    "SELECT account, amount FROM debit WHERE amount > 0 ORDER BY account LIMIT 2",
    "SELECT sum(amount) FROM debit WHERE account < 3",
    "SELECT amount % 7 AS rest, count(DISTINCT account) FROM debit GROUP BY rest",
    "SELECT d.amount, c.amount FROM debit AS d JOIN credit AS c USING (account) WHERE d.account = 3",
    "SELECT count(*) FROM debit AS d JOIN credit AS c ON d.amount < c.amount",
    "EXPLAIN ANALYZE SELECT sum(amount) FROM debit",
    "SELECT 1 WHERE EXISTS (SELECT * FROM credit)",
)


@dataclass
class Clock:
    """The clock of hosts: what they saw of the changelog, they saw so many seconds before."""

    behind: float = 0.0

    def now(self) -> int:
        return time.time_ns() // 1000 - int(self.behind * 1e6)


@dataclass(frozen=True)
class Behind:
    """Hosts of which the first is asked.

    Attributes:
        clock: Of all of them.
        followers: Their stores.
        service: Of the first.
        epoch: What is newest.
    """

    clock: Clock
    followers: list[Follower]
    service: QueryService
    epoch: Epoch
    metadata: list[QueryMetadata] = field(default_factory=list)

    def fall_behind(self, seconds: float) -> None:
        """Come to have looked at the changelog so long ago."""
        self.clock.behind = seconds

        def have_looked() -> bool:
            for follower in self.followers:
                follower.notify(GROUP)
            looks = (follower.report()[0][GROUP].looked_at for follower in self.followers)
            return all(abs(self.clock.now() - look) < 5e6 for look in looks)

        wait_until(have_looked, PATIENCE_SECONDS)

    def ask(self, sql: str, read_point: ReadPoint = NEWEST, *values: object) -> QueryMetadata:
        names = [str(number) for number, _ in enumerate(values, 1)]
        parameters = pa.record_batch([pa.array([value]) for value in values], names) if values else None
        session = Session(timeout_seconds=PATIENCE_SECONDS, read_point=read_point)
        with self.service.execute(sql, parameters, session) as result:
            assert result.read_all().num_rows
            return result.metadata

    def divide(self, read_point: ReadPoint) -> float | None:
        division = self.service.divide(STATEMENTS[3], session=Session(read_point=read_point))
        assert division.epochs == {GROUP: self.epoch}
        return division.stale_seconds

    def keys(self, read_point: ReadPoint) -> float | None:
        stream = self.service.key_stream("debit", read_point=read_point)
        found = stream.answer(pa.record_batch({"account": [3, 4]}), PATIENCE_SECONDS)
        assert found.rows.num_rows == 2
        return found.stale_seconds


@pytest.fixture(params=[1, 3])
def hosts(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Behind]:
    count: int = request.param
    changelog = Changelog.open(str(tmp_path / "changelog"))
    appender = open_appender(changelog, [DEBIT, CREDIT])
    rows = pa.table({"account": range(ACCOUNTS), "amount": range(1, ACCOUNTS + 1)}, DEBIT.schema)
    epoch = appender.append({StoreName("debit"): rows, StoreName("credit"): rows}).epoch
    clock, options = Clock(), replace(SMALL, max_lag_seconds=MAX_LAG)
    names = host_names(count)
    assignment = Assignment(names)
    with ExitStack() as resources:
        followers: dict[HostName, Follower] = {}
        for name in names:
            held = OPTIONS if count == 1 else replace(OPTIONS, held=_held(assignment, name))
            follower = followers[name] = Follower(changelog, tmp_path / name, held, clock.now)
            follower.start()
            resources.callback(follower.stop)
            assert follower.wait_for(GROUP, epoch, PATIENCE_SECONDS)
        if count == 1:
            service = QueryService(followers[names[0]], options)
            resources.callback(service.close)
        else:
            cluster = Cluster(followers, assignment, options)
            for each in cluster.services.values():
                resources.callback(each.close)
            service = cluster.services[names[0]]
        yield Behind(clock, list(followers.values()), service, epoch)


def _held(assignment: Assignment, name: HostName) -> Callable[[StoreDefinition], Collection[PartitionId]]:
    return lambda definition: assignment.held_partitions(name, definition)


def test_no_way_leads_round_the_limit(hosts: Behind) -> None:
    for _ in range(3):  # plans are ready and answers kept then
        for sql in STATEMENTS:
            hosts.ask(sql)
    hosts.ask("SELECT amount FROM debit WHERE account = ?", NEWEST, 3)
    hosts.fall_behind(HOUR)
    ways: list[Callable[[ReadPoint], object]] = [
        *(lambda point, sql=sql: hosts.ask(sql, point) for sql in STATEMENTS),
        lambda point: hosts.ask("SELECT amount FROM debit WHERE account = ?", point, 3),
        hosts.divide,
        hosts.keys,
    ]
    refused = (
        NEWEST,
        ReadPoint(max_staleness_seconds=2 * HOUR),
        ReadPoint(min_epoch=hosts.epoch),
        ReadPoint(as_of_default=AsOfTimestamp(time.time_ns() // 1000)),
    )
    for way in ways:
        for read_point in refused:
            with pytest.raises(
                Unavailable, match=r"the max_lag of 60 seconds: try again later, or say allow_"
            ):
                way(read_point)
            way(replace(read_point, allow_stale=True))


def test_a_stale_answer_says_how_old_it_is(hosts: Behind) -> None:
    for _ in range(3):
        for sql in STATEMENTS:
            fresh = hosts.ask(sql).stale_seconds
            assert sql.startswith("EXPLAIN") or (fresh is not None and fresh < MAX_LAG)
    hosts.fall_behind(HOUR)
    for sql in STATEMENTS:
        found = hosts.ask(sql, STALE)
        assert sql.startswith("EXPLAIN") or (
            found.stale_seconds is not None and found.stale_seconds > HOUR - 2
        )
        assert sql.startswith("EXPLAIN") or found.digests.keys() == {GROUP}
    for seconds in (hosts.divide(STALE), hosts.keys(STALE)):
        assert seconds is not None
        assert seconds > HOUR - 2


def test_no_staleness_at_all_is_met_by_the_next_look(hosts: Behind) -> None:
    for sql in STATEMENTS[:3]:
        began = time.monotonic()
        hosts.ask(sql, ReadPoint(max_staleness_seconds=0.0))
        assert time.monotonic() - began < PATIENCE_SECONDS / 4


def test_what_asks_for_the_past_is_not_behind(hosts: Behind) -> None:
    hosts.fall_behind(HOUR)
    by_epoch = ReadPoint(as_of_default=AsOfEpoch(hosts.epoch))
    assert hosts.ask(STATEMENTS[2], by_epoch).epochs == {GROUP: hosts.epoch}
    # The limit is one of the moment that is asked for, not of now.
    hosts.fall_behind(MAX_LAG - 30)
    soon = ReadPoint(as_of_default=AsOfTimestamp(time.time_ns() // 1000))
    assert hosts.ask(STATEMENTS[2], soon).epochs == {GROUP: hosts.epoch}


def test_an_epoch_of_a_group_that_there_is_not_is_refused(hosts: Behind) -> None:
    """What else is asked for would be read as of now, and nobody would see that a name is written wrongly."""
    wrong = ReadPoint(as_of={GroupName(GROUP.upper()): AsOfEpoch(hosts.epoch)})
    right = ReadPoint(as_of={GROUP: AsOfEpoch(hosts.epoch)})
    ways: list[Callable[[ReadPoint], object]] = [
        *(partial(hosts.ask, sql) for sql in STATEMENTS),
        hosts.divide,
        hosts.keys,
    ]
    for way in ways:
        with pytest.raises(NotFound, match=f"There is no store group {GROUP.upper()}, of which as_of names"):
            way(wrong)
        way(right)


def test_a_commit_of_a_clock_that_was_ahead_hides_no_lag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All commits behind it say tomorrow: what is unread is as old as when the host saw that it is there."""
    root, elsewhere, clock = tmp_path / "changelog", tmp_path / "elsewhere", Clock(behind=HOUR)
    rows = {"debit": pa.table({"account": [3], "amount": [1]}, DEBIT.schema)}
    with monkeypatch.context() as patched:
        patched.setattr("engine.changelog.writer.check_clock", lambda *_: None)
        patched.setattr("engine.changelog.writer._wall_clock", lambda: time.time_ns() // 1000 + DAY)
        open_appender(Changelog.open(str(root)), [DEBIT]).append(rows)
    appender = open_appender(Changelog.open(str(root)), [DEBIT])
    epoch = appender.append(rows).epoch
    with ExitStack() as resources:
        follower = Follower(Changelog.open(str(root)), tmp_path / "data", OPTIONS, clock.now)
        follower.start()
        resources.callback(follower.stop)
        assert follower.wait_for(GROUP, epoch, PATIENCE_SECONDS)
        service = QueryService(follower, replace(SMALL, max_lag_seconds=MAX_LAG))
        resources.callback(service.close)
        shutil.copytree(root, elsewhere)
        commit = open_appender(Changelog.open(str(elsewhere)), [DEBIT]).append(rows)
        fence, damaged = (commit_path(GROUP, Epoch(commit.epoch - back)) for back in (1, 0))
        (elsewhere / fence).rename(root / fence)
        data = (elsewhere / damaged).read_bytes()
        (elsewhere / damaged).write_bytes(data[:-5] + bytes([data[-5] ^ 1]) + data[-4:])
        (elsewhere / damaged).rename(root / damaged)
        wait_until(lambda: bool(follower.status()[0].problem), PATIENCE_SECONDS)
        hosts, clock.behind = Behind(clock, [follower], service, epoch), 0.0
        for read_point in (NEWEST, ReadPoint(max_staleness_seconds=2 * HOUR)):
            for sql in STATEMENTS[:3]:
                with pytest.raises(Unavailable, match="behind, more than the max_lag of 60 seconds"):
                    hosts.ask(sql, read_point)
        half = ReadPoint(max_staleness_seconds=HOUR / 2, allow_stale=True)
        with pytest.raises(Unavailable, match=r"may lack commits of the last 3\.6e"):
            service.execute(STATEMENTS[0], session=Session(timeout_seconds=0.2, read_point=half))
        found = hosts.ask(STATEMENTS[0], STALE)
        assert found.stale_seconds is not None
        assert HOUR <= found.stale_seconds < HOUR + PATIENCE_SECONDS
        assert HOUR <= follower.status()[0].lag_seconds < HOUR + PATIENCE_SECONDS


def test_statements_without_stores_are_never_behind(hosts: Behind) -> None:
    hosts.fall_behind(HOUR)
    assert hosts.ask("SELECT 1").stale_seconds is None
    hosts.ask("SHOW STORES")
    hosts.ask("SHOW HOSTS")
    hosts.ask("EXPLAIN SELECT 1")


def test_a_host_that_has_caught_up_answers_again(hosts: Behind) -> None:
    hosts.fall_behind(HOUR)
    with pytest.raises(Unavailable):
        hosts.ask(STATEMENTS[0])
    hosts.fall_behind(0.0)
    assert hosts.ask(STATEMENTS[0]).epochs == {GROUP: hosts.epoch}
