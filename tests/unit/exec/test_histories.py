"""Statements while the changelog gets another history: none is answered from two of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, open_appender
from engine.cluster.fragments import FragmentRequest
from engine.cluster.reports import HostName
from engine.errors import NotFound, Unavailable
from engine.exec.query_result import QueryResult
from engine.model.read_point import AsOfEpoch, ReadPoint
from engine.model.schema import Epoch, GroupName, PartitionId
from engine.replica import catch_up
from engine.replica.follower import Follower
from engine.replica.follower_options import FollowerOptions
from engine.service import QueryService, Session
from tests.support.following import GROUP, PARTITIONS, define
from tests.support.local_cluster import Cluster, following_cluster
from tests.support.waiting import wait_until

ACCOUNTS = define("accounts")
NUMBERS = 40
WAIT_SECONDS = 60.0
HERE, PEER = HostName("c"), HostName("d")
HOLDING = FollowerOptions(poll_seconds=3600.0, retry_seconds=0.05)
"""Hosts that look at the changelog when they are told to."""
SUM = "SELECT sum(amount) AS s FROM accounts"


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group without news looks at once whether its epoch is the changelog's still."""
    monkeypatch.setattr(catch_up, "SECONDS_BETWEEN_DOUBTS", 0.0)


@dataclass
class World:
    """Two hosts that have halves of a store each, and what they follow."""

    root: Path
    cluster: Cluster

    @property
    def here(self) -> QueryService:
        return self.cluster.services[HERE]

    def follower(self, host: HostName) -> Follower:
        found = self.cluster.sources[host]
        assert isinstance(found, Follower)
        return found

    def restore(self, amount: int) -> None:
        """Another last epoch, of the same number, in the place of the one that hosts have."""
        shutil.rmtree(self.root / "changelog")
        shutil.copytree(self.root / "copy", self.root / "changelog")
        append(self.root, amount)

    def move(self, host: HostName) -> None:
        """A host comes to have what the changelog has now, and says so."""
        changelog = Changelog.open(str(self.root / "changelog"))
        commit = changelog.read_commit(GROUP, changelog.newest_epoch(GROUP))
        assert commit is not None

        def has_moved() -> bool:
            self.follower(host).notify()
            readable = self.follower(host).report()[0][GROUP].readable
            return bool(readable) and readable[-1].digest == commit.digest

        wait_until(has_moved, WAIT_SECONDS)

    def held(self, host: HostName) -> tuple[PartitionId, ...]:
        return self.follower(host).report()[1][ACCOUNTS.name].partitions

    def ask(self, timeout_seconds: float = WAIT_SECONDS) -> int:
        with self.here.execute(SUM, session=Session(timeout_seconds=timeout_seconds)) as result:
            return int(result.read_all()["s"][0].as_py())


def append(root: Path, amount: int) -> Epoch:
    rows = pa.table({"account": range(NUMBERS), "amount": [amount] * NUMBERS})
    return open_appender(Changelog.open(str(root / "changelog")), [ACCOUNTS]).append({"accounts": rows}).epoch


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    append(tmp_path, 0)
    shutil.copytree(tmp_path / "changelog", tmp_path / "copy")
    newest = append(tmp_path, 1)
    changelog = Changelog.open(str(tmp_path / "changelog"))
    with following_cluster(changelog, tmp_path / "data", (HERE, PEER), HOLDING) as cluster:
        cluster.wait_for({GROUP: newest}, WAIT_SECONDS)
        made = World(tmp_path, cluster)
        assert 0 < len(made.held(HERE)) < PARTITIONS
        yield made


def run_before_fragments(
    monkeypatch: pytest.MonkeyPatch, service: QueryService, action: Callable[[], None]
) -> None:
    """Have something happen once a host was asked for a fragment, and before it looks at it."""
    execute, actions = service.execute_fragment, [action]

    def act_and_execute(request: FragmentRequest, cancelled: Callable[[], bool] | None = None) -> QueryResult:
        while actions:
            actions.pop()()
        return execute(request, cancelled)

    monkeypatch.setattr(service, "execute_fragment", act_and_execute)


def test_a_statement_waits_until_all_hosts_have_the_other_history(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert world.ask() == NUMBERS

    def rebuild_peer() -> None:
        world.restore(2)
        world.move(PEER)

    run_before_fragments(monkeypatch, world.cluster.services[PEER], rebuild_peer)
    assert world.ask() == 2 * NUMBERS
    assert "is not the one that is meant, but of another history" in caplog.text


def test_a_statement_is_planned_again_when_all_hosts_have_moved(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rebuild() -> None:
        world.restore(2)
        for host in (HERE, PEER):
            world.move(host)

    run_before_fragments(monkeypatch, world.cluster.services[PEER], rebuild)
    assert world.ask() == 2 * NUMBERS


def test_a_fragment_without_digests_is_answered_from_what_is_there(world: World) -> None:
    def ask(digests: Mapping[GroupName, str]) -> int:
        request = FragmentRequest(
            SUM.replace("accounts", '"main"."accounts"'),
            {GROUP: world.follower(PEER).report()[0][GROUP].newest},
            {ACCOUNTS.name: world.held(PEER)},
            digests=digests,
        )
        with world.cluster.services[PEER].execute_fragment(request) as result:
            return int(result.read_all()["s"][0].as_py())

    digest = world.follower(PEER).report()[0][GROUP].readable[-1].digest
    assert ask({}) == ask({GROUP: digest}) > 0
    with pytest.raises(Unavailable, match="another history"):
        ask({GROUP: "0" * len(digest)})


def test_an_epoch_that_was_read_is_not_read_again_from_another_history(world: World) -> None:
    with world.here.execute(SUM) as result:
        assert result.read_all()["s"].to_pylist() == [NUMBERS]
        metadata = result.metadata
    pinned = ReadPoint(as_of={GROUP: AsOfEpoch(metadata.epochs[GROUP], metadata.digests[GROUP])})
    plain = ReadPoint(as_of={GROUP: AsOfEpoch(metadata.epochs[GROUP])})

    def ask(read_point: ReadPoint) -> int:
        session = Session(timeout_seconds=WAIT_SECONDS, read_point=read_point)
        with world.here.execute(SUM, session=session) as result:
            return int(result.read_all()["s"][0].as_py())

    assert [ask(pinned), ask(plain)] == [NUMBERS, NUMBERS]
    world.restore(2)
    for host in (HERE, PEER):
        world.move(host)
    assert ask(plain) == 2 * NUMBERS
    for _ in range(3):  # also where an answer to the same was kept
        with pytest.raises(NotFound, match="another history"):
            ask(pinned)
