"""Hosts write snapshots, and come back from them: after a lost disk, a long absence, damage, and beside hosts
that are gone.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, SnapshotRetention, StoreAppender, open_appender
from engine.changelog.layout import commit_path
from engine.changelog.snapshot import EPOCH_WEIGHT
from engine.cluster.assignment import Assignment
from engine.cluster.reports import HostName
from engine.errors import Unavailable
from engine.model.kinds import Behaviour, Retention
from engine.model.schema import Epoch, PartitionId, StoreDefinition, define_store
from engine.replica.follower import Follower
from engine.replica.follower_options import FollowerOptions
from engine.replica.group_setup import ASIDE
from engine.replica.snapshot_options import SnapshotOptions
from tests.support.following import GROUP, OPTIONS, contents, define, run_follower
from tests.support.quick_directory import quick_directory
from tests.support.waiting import PATIENCE_SECONDS, wait_until

DEBIT, CREDIT = define("debit"), define("credit")
NO_TAIL = SnapshotRetention(kept=1, tail_seconds=0)
EPOCHS_BETWEEN = 8


def snapshot_options(every: int = EPOCHS_BETWEEN, retention: SnapshotRetention = NO_TAIL) -> FollowerOptions:
    """Options of a host that makes a snapshot every few epochs, and looks for the work of others often."""
    return replace(
        OPTIONS,
        snapshots=SnapshotOptions(every * EPOCH_WEIGHT, retention, look_seconds=0.01, retry_seconds=0.05),
    )


NEVER = replace(OPTIONS, snapshots=SnapshotOptions(after_bytes=0))


@pytest.fixture
def appender(changelog: Changelog) -> StoreAppender:
    return open_appender(changelog, [DEBIT, CREDIT])


def rows(amounts: dict[int, int]) -> pa.Table:
    return pa.table(
        {"account": pa.array(amounts, pa.int64()), "amount": pa.array(amounts.values(), pa.int64())}
    )


def batch(amounts: dict[int, int]) -> pa.RecordBatch:
    return pa.record_batch(
        [pa.array(amounts, pa.int64()), pa.array(amounts.values(), pa.int64())], schema=DEBIT.schema
    )


def append(appender: StoreAppender, amounts: dict[int, int]) -> Epoch:
    return appender.append(
        {"debit": rows(amounts), "credit": rows({account: -amount for account, amount in amounts.items()})}
    ).epoch


def append_some(appender: StoreAppender, count: int, known: dict[int, int]) -> Epoch:
    """Epochs of three rows each; later ones write over earlier ones."""
    for number in range(count):
        amounts = {account % 20: number + account for account in range(3 * number, 3 * number + 3)}
        known |= amounts
        newest = append(appender, amounts)
    return newest


def debit(follower: Follower) -> dict[int, int]:
    with follower.pin_views([DEBIT.name, CREDIT.name]) as views:
        found, opposite = contents(views[DEBIT.name]), contents(views[CREDIT.name])
    assert opposite == {account: -amount for account, amount in found.items()}
    return found


def snapshots_of(changelog: Changelog) -> list[Epoch]:
    return changelog.snapshots(GROUP).epochs()


def wait_for_snapshot(changelog: Changelog, since: int) -> Epoch:
    wait_until(lambda: bool(snapshots_of(changelog)) and snapshots_of(changelog)[-1] >= since)
    return snapshots_of(changelog)[-1]


def take_snapshot(
    changelog: Changelog, appender: StoreAppender, directory: Path, before: dict[int, int] | None = None
) -> dict[int, int]:
    """Epochs, of which the first ones have given way to a snapshot, and a few behind it."""
    known = dict(before or {})
    with run_follower(changelog, directory, snapshot_options()) as follower:
        append_some(appender, EPOCHS_BETWEEN, known)
        snapshot = wait_for_snapshot(changelog, EPOCHS_BETWEEN)
        wait_until(lambda: not changelog.holds(GROUP, Epoch(snapshot - 1)))
        newest = append(appender, {1: 111, 500: 500})
        known |= {1: 111, 500: 500}
        assert follower.wait_for(GROUP, newest, PATIENCE_SECONDS)
        assert debit(follower) == known
    return known


def check(
    changelog: Changelog, directory: Path, known: dict[int, int], options: FollowerOptions = NEVER
) -> None:
    with run_follower(changelog, directory, options) as follower:
        assert follower.wait_for(GROUP, changelog.newest_epoch(GROUP), PATIENCE_SECONDS)
        assert debit(follower) == known


def test_a_lost_disk_comes_back_from_a_snapshot(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    known = take_snapshot(changelog, appender, tmp_path / "data")
    shutil.rmtree(tmp_path / "data")
    check(changelog, tmp_path / "data", known)
    check(changelog, tmp_path / "data", known)


def test_a_lost_partition_comes_back_from_a_snapshot(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    known = take_snapshot(changelog, appender, tmp_path / "data")
    for path in (tmp_path / "data" / "bank" / "credit" / "2", tmp_path / "data" / "bank" / "debit" / "0"):
        shutil.rmtree(path)
    check(changelog, tmp_path / "data", known)


def test_a_host_that_was_away_for_long_comes_back(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    away = append(appender, {1: 1, 77: 77})
    with run_follower(changelog, tmp_path / "away", NEVER) as follower:
        assert follower.wait_for(GROUP, away, PATIENCE_SECONDS)
    known = take_snapshot(changelog, appender, tmp_path / "data", {1: 1, 77: 77})
    assert not changelog.holds(GROUP, away)
    check(changelog, tmp_path / "away", known)


def test_a_running_host_that_missed_it_all_comes_back(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its disk was full, say. Then nothing says that there is news: what follows its epoch is not there."""
    monkeypatch.setattr("engine.replica.catch_up.SECONDS_BETWEEN_DOUBTS", 0.05)
    away = append(appender, {1: 1})
    with run_follower(changelog, tmp_path / "away", replace(NEVER, poll_seconds=0.02)) as follower:
        assert follower.wait_for(GROUP, away, PATIENCE_SECONDS)
        hidden = tmp_path / "changelog" / "groups" / "bank"
        elsewhere = Changelog.open(str(tmp_path / "elsewhere"))
        hidden.rename(tmp_path / "hidden")
        shutil.copytree(tmp_path / "changelog", tmp_path / "elsewhere")
        shutil.copytree(tmp_path / "hidden", tmp_path / "elsewhere" / "groups" / "bank")
        known = take_snapshot(elsewhere, open_appender(elsewhere, [DEBIT, CREDIT]), tmp_path / "data")
        (tmp_path / "elsewhere" / "groups" / "bank").rename(hidden)
        assert follower.wait_for(GROUP, changelog.newest_epoch(GROUP), PATIENCE_SECONDS)
        assert debit(follower) == known


def test_a_few_epochs_are_read_rather_than_a_snapshot(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    known: dict[int, int] = {}
    with run_follower(
        changelog, tmp_path / "data", snapshot_options(retention=SnapshotRetention(kept=9))
    ) as follower:
        assert follower.wait_for(GROUP, append_some(appender, 3, known), PATIENCE_SECONDS)
    append_some(appender, EPOCHS_BETWEEN, known)
    with run_follower(changelog, tmp_path / "other", snapshot_options(retention=SnapshotRetention(kept=9))):
        snapshot = wait_for_snapshot(changelog, EPOCHS_BETWEEN)
    for path in (tmp_path / "changelog" / "groups" / "bank" / "snapshots").rglob("*.arrow"):
        path.unlink()  # whoever reads it notices
    check(changelog, tmp_path / "data", known)
    assert snapshots_of(changelog) == [snapshot]


def test_a_number_that_a_zombie_took_again_is_not_read(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    """A writer that dies between taking a dropped epoch's number and giving it back leaves a commit that
    never counted.
    """
    away = append(appender, {1: 1})
    with run_follower(changelog, tmp_path / "away", NEVER) as follower:
        assert follower.wait_for(GROUP, away, PATIENCE_SECONDS)
    following_commit = changelog.read_commit(GROUP, append(appender, {1: 666, 666: 666}))
    assert following_commit is not None
    known = take_snapshot(changelog, appender, tmp_path / "data", {666: 666})
    strange = dataclasses.replace(following_commit, nonce="strange")
    assert changelog._epochs(GROUP)._create(strange)
    check(changelog, tmp_path / "away", known)


def test_what_has_expired_stays_away(changelog: Changelog, tmp_path: Path) -> None:
    """A host that comes back from a snapshot lets no row in that is too late, as hosts that were there do
    not.
    """
    schema = pa.schema([("account", pa.int64()), ("amount", pa.int64()), ("seen", pa.timestamp("us", "UTC"))])
    store = define_store(
        "seen",
        schema,
        ["account"],
        partitions=1,
        group=GROUP,
        behaviour=Behaviour(retention=Retention(1_000_000, "seen")),
    )
    appender = open_appender(changelog, [store])
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

    def append_at(account: int, seconds: int) -> Epoch:
        moment = start + dt.timedelta(seconds=seconds)
        table = pa.table(
            {"account": [account], "amount": [seconds], "seen": pa.array([moment], pa.timestamp("us", "UTC"))}
        )
        return appender.append({"seen": table}, watermark=moment).epoch

    with run_follower(changelog, tmp_path / "data", snapshot_options()):
        for seconds in range(EPOCHS_BETWEEN + 2):
            append_at(seconds, seconds)
        wait_for_snapshot(changelog, EPOCHS_BETWEEN)
    shutil.rmtree(tmp_path / "data")
    late = start + dt.timedelta(seconds=1)
    table = pa.table({"account": [1000], "amount": [1], "seen": pa.array([late], pa.timestamp("us", "UTC"))})
    newest = appender.append({"seen": table}).epoch
    with run_follower(changelog, tmp_path / "data", NEVER) as follower:
        assert follower.wait_for(GROUP, newest, PATIENCE_SECONDS)
        with follower.pin_views([store.name]) as views:
            assert sorted(contents(views[store.name])) == [EPOCHS_BETWEEN, EPOCHS_BETWEEN + 1]


# ---- damage


def damage(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])


def newest_of(changelog_directory: Path, pattern: str) -> Path:
    return max((changelog_directory / "groups" / "bank" / "snapshots").rglob(pattern))


def two_snapshots(changelog: Changelog, appender: StoreAppender, directory: Path) -> dict[int, int]:
    known: dict[int, int] = {}
    with run_follower(
        changelog, directory, snapshot_options(retention=SnapshotRetention(kept=2, tail_seconds=0))
    ) as follower:
        append_some(appender, EPOCHS_BETWEEN, known)
        wait_for_snapshot(changelog, EPOCHS_BETWEEN)
        append_some(appender, EPOCHS_BETWEEN, known)
        wait_for_snapshot(changelog, 2 * EPOCHS_BETWEEN)
        newest = append_some(appender, 2, known)
        assert follower.wait_for(GROUP, newest, PATIENCE_SECONDS)
    first, _ = snapshots_of(changelog)
    assert not changelog.holds(GROUP, Epoch(first - 1))
    shutil.rmtree(directory)
    return known


@pytest.mark.parametrize("pattern", ["*.snapshot", "*.arrow"])
def test_an_older_snapshot_takes_the_place_of_a_damaged_one(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path, pattern: str
) -> None:
    known = two_snapshots(changelog, appender, tmp_path / "data")
    damage(newest_of(tmp_path / "changelog", pattern))
    check(Changelog.open(changelog.uri), tmp_path / "data", known)


@pytest.mark.parametrize("pattern", ["*.snapshot", "*.arrow"])
def test_without_any_snapshot_that_can_be_read_nothing_is_shown(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path, pattern: str
) -> None:
    known = two_snapshots(changelog, appender, tmp_path / "data")
    saved = tmp_path / "saved"
    shutil.copytree(tmp_path / "changelog", saved)
    for path in (tmp_path / "changelog" / "groups" / "bank" / "snapshots").rglob(pattern):
        damage(path)
    with run_follower(Changelog.open(changelog.uri), tmp_path / "data", NEVER) as follower:
        wait_until(
            lambda: any("no snapshot can be read any more" in row.problem for row in follower.status())
        )
        assert follower.status()[0].epoch == 0
        for path in (tmp_path / "changelog" / "groups" / "bank" / "snapshots").rglob(pattern):
            shutil.copy(saved / path.relative_to(tmp_path / "changelog"), path)
        assert follower.wait_for(GROUP, changelog.newest_epoch(GROUP), PATIENCE_SECONDS)
        assert debit(follower) == known


def test_a_snapshot_leads_past_a_damaged_commit(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    known: dict[int, int] = {}
    with run_follower(changelog, tmp_path / "data", NEVER) as follower:
        before = append_some(appender, 3, known)
        assert follower.wait_for(GROUP, before, PATIENCE_SECONDS)
    bad = append(appender, {9: 9})
    known |= {9: 9}
    with run_follower(changelog, tmp_path / "other", snapshot_options(retention=SnapshotRetention(kept=9))):
        append_some(appender, EPOCHS_BETWEEN, known)
        wait_for_snapshot(changelog, EPOCHS_BETWEEN)
    damage(tmp_path / "changelog" / "groups" / "bank" / f"{bad:020d}.commit")
    check(changelog, tmp_path / "data", known)


def test_a_full_disk_stops_no_host(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The snapshot waits, the host goes on."""
    directory = tmp_path / "changelog" / "groups" / "bank"
    known: dict[int, int] = {}
    append(appender, {0: 0})
    (directory / "snapshots").write_text("no directory")
    with run_follower(changelog, tmp_path / "data", snapshot_options()) as follower:
        newest = append_some(appender, EPOCHS_BETWEEN, known)
        assert follower.wait_for(GROUP, newest, PATIENCE_SECONDS)
        wait_until(lambda: "is not getting on: The changelog's directory cannot be written" in caplog.text)
        (directory / "snapshots").unlink()
        wait_for_snapshot(changelog, EPOCHS_BETWEEN)
        assert debit(follower) == known


def test_epochs_go_once_there_is_room_to_say_so(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The snapshot took the last of the disk. To drop epochs is what makes room for the next one."""
    floors = tmp_path / "changelog" / "groups" / "bank" / "floors"
    append(appender, {0: 0})
    floors.write_text("no directory")
    with run_follower(changelog, tmp_path / "data", snapshot_options()) as follower:
        append_some(appender, EPOCHS_BETWEEN, {})
        wait_for_snapshot(changelog, EPOCHS_BETWEEN)
        wait_until(lambda: "The dropping of epochs is not getting on" in caplog.text)
        wait_until(lambda: all("cannot be written" in status.problem for status in follower.status()))
        assert changelog.holds(GROUP, Epoch(2))
        floors.unlink()
        wait_until(lambda: not changelog.holds(GROUP, Epoch(2)))
        wait_until(lambda: not any(status.problem for status in follower.status()))


# ---- several hosts

HOSTS = [HostName("h1"), HostName("h2")]


def host_options(host: HostName, replication: int, patience_seconds: float = 30.0) -> FollowerOptions:
    assignment = Assignment(tuple(HOSTS), replication)

    def rank(definition: StoreDefinition, partition: PartitionId) -> int:
        return assignment.replicas(definition, partition).index(host)

    options = snapshot_options()
    snapshots = replace(options.snapshots, rank=rank, patience_seconds=patience_seconds)
    return replace(options, held=partial(assignment.held_partitions, host), snapshots=snapshots)


@contextmanager
def hosts(changelog: Changelog, directory: Path, replication: int) -> Iterator[list[Follower]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                run_follower(Changelog.open(changelog.uri), directory / host, host_options(host, replication))
            )
            for host in HOSTS
        ]


def merge_state(followers: list[Follower]) -> dict[int, int]:
    """What hosts that share the partitions hold together."""
    found: dict[int, int] = {}
    for host, follower in zip(HOSTS, followers, strict=True):
        numbers = Assignment(tuple(HOSTS)).held_partitions(host, DEBIT)
        with follower.pin_views([DEBIT.name], partitions={DEBIT.name: numbers}) as views:
            found |= contents(views[DEBIT.name])
    return found


def test_hosts_write_a_snapshot_together(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    known: dict[int, int] = {}
    with hosts(changelog, tmp_path, 1):
        append_some(appender, EPOCHS_BETWEEN, known)
        wait_for_snapshot(changelog, EPOCHS_BETWEEN)
    snapshot = changelog.snapshots(GROUP).newest_snapshot()
    assert snapshot is not None
    assert len(snapshot.parts) == 2
    append(appender, {3: 33})
    known |= {3: 33}
    check(changelog, tmp_path / "alone", known)
    for host in HOSTS:
        shutil.rmtree(tmp_path / host)
    with hosts(changelog, tmp_path, 1) as followers:
        for follower in followers:
            assert follower.wait_for(GROUP, changelog.newest_epoch(GROUP), PATIENCE_SECONDS)
        assert merge_state(followers) == known


def test_a_host_that_is_gone_holds_up_the_snapshot(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    """It comes back later, and stops at the same epoch."""
    known: dict[int, int] = {}
    with run_follower(changelog, tmp_path / "h1", host_options(HOSTS[0], 1)) as follower:
        newest = append_some(appender, EPOCHS_BETWEEN + 3, known)
        assert follower.wait_for(GROUP, newest, PATIENCE_SECONDS)
        wait_until(lambda: len(changelog.snapshots(GROUP).parts(Epoch(EPOCHS_BETWEEN))) == 1)
        assert snapshots_of(changelog) == []
        with run_follower(changelog, tmp_path / "h2", host_options(HOSTS[1], 1)):
            assert wait_for_snapshot(changelog, EPOCHS_BETWEEN) == EPOCHS_BETWEEN
    check(changelog, tmp_path / "alone", known)


def test_a_replica_writes_for_one_that_is_gone(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    known: dict[int, int] = {}
    with run_follower(changelog, tmp_path / "h1", host_options(HOSTS[0], 2, patience_seconds=0.2)):
        began = time.monotonic()
        append_some(appender, EPOCHS_BETWEEN, known)
        wait_for_snapshot(changelog, EPOCHS_BETWEEN)
        assert time.monotonic() - began > 0.2
    snapshot = changelog.snapshots(GROUP).newest_snapshot()
    assert snapshot is not None
    assert len(snapshot.parts) == 2
    check(changelog, tmp_path / "alone", known)


# ---- many epochs

EPOCHS = 4_000


def test_a_changelog_of_many_epochs_stays_small() -> None:
    store = replace(DEBIT, partitions=1)
    with quick_directory() as root:
        changelog = Changelog.open(str(root / "changelog"))
        changelog.create_store(store)
        writer = changelog.writer(GROUP, "w")
        options = snapshot_options(64, SnapshotRetention(kept=2, tail_seconds=0))
        most = 0
        with run_follower(changelog, root / "data", options) as follower:
            for number in range(EPOCHS):
                newest = writer.append({store.name: {PartitionId(0): batch({1: number})}}).epoch
                if number % 500 == 499:
                    assert follower.wait_for(GROUP, newest, PATIENCE_SECONDS)
                    most = max(most, len(list((root / "changelog" / "groups" / "bank").glob("*.commit"))))
            (status,) = follower.status()
            assert (status.rows, status.epoch) == (1, newest)
            assert status.segments <= 64
        assert most < 1_500
        shutil.rmtree(root / "data")
        with run_follower(changelog, root / "data", options) as follower:
            assert follower.wait_for(GROUP, newest, PATIENCE_SECONDS)
            with follower.pin_views([store.name]) as views:
                assert contents(views[store.name]) == {1: EPOCHS - 1}


def test_a_host_that_stops_takes_back_what_it_began(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    known: dict[int, int] = {}
    append_some(appender, EPOCHS_BETWEEN, known)
    for _ in range(3):
        with run_follower(changelog, tmp_path / "data", snapshot_options()):
            pass
    check(changelog, tmp_path / "data", known, snapshot_options())


def test_a_failure_that_nobody_expected_is_named(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    failing = threading.Event()
    failing.set()

    def rank(definition: StoreDefinition, partition: PartitionId) -> int:
        assert not failing.is_set(), "a defect"
        return 0

    options = snapshot_options()
    known: dict[int, int] = {}
    with run_follower(
        changelog, tmp_path / "data", replace(options, snapshots=replace(options.snapshots, rank=rank))
    ) as follower:
        wait_until(lambda: {status.problem for status in follower.status()} == {""})
        append_some(appender, EPOCHS_BETWEEN, known)
        said = (
            "The snapshot of group bank failed in a way that nobody expected (AssertionError): it is "
            "tried again"
        )
        wait_until(lambda: all(status.problem.startswith(said) for status in follower.status()))
        # Queries go on.
        assert follower.wait_for(GROUP, append_some(appender, EPOCHS_BETWEEN, known), PATIENCE_SECONDS)
        assert debit(follower) == known
        failing.clear()
        wait_for_snapshot(changelog, EPOCHS_BETWEEN)
        wait_until(lambda: not any(status.problem for status in follower.status()))


def test_an_epoch_1_that_was_created_anew_is_not_applied(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    """By a writer that ended before it took that back; and no snapshot can be read."""
    append(appender, {1: 666})
    first = tmp_path / "changelog" / commit_path(GROUP, Epoch(1))
    created = first.read_bytes()
    take_snapshot(changelog, appender, tmp_path / "data")
    assert not first.exists()
    first.write_bytes(created)
    for snapshot in (tmp_path / "changelog").rglob("*.snapshot"):
        damage(snapshot)
    with run_follower(Changelog.open(changelog.uri), tmp_path / "other", NEVER) as follower:
        wait_until(lambda: all("no snapshot can be read" in status.problem for status in follower.status()))
        assert {status.epoch for status in follower.status()} == {0}


def test_the_wrong_changelog_is_noticed(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    append(appender, {1: 1})
    check(changelog, tmp_path / "data", {1: 1})
    for path in (tmp_path / "changelog" / "groups" / "bank").glob("*.commit"):
        path.unlink()
    with run_follower(changelog, tmp_path / "data", NEVER) as follower:
        assert all("check that it is the right changelog" in status.problem for status in follower.status())
        with pytest.raises(Unavailable, match=r"does not get on: .* check that it is the right changelog"):
            debit(follower)
    assert not (tmp_path / "data" / ASIDE).exists()
