"""What takes long is done beside the groups that can be read, and can be given up."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, Snapshot, SnapshotRetention, StoreAppender, open_appender
from engine.changelog.snapshot import EPOCH_WEIGHT
from engine.changelog.store_drops import drop_store
from engine.errors import Unavailable
from engine.model.schema import Epoch, GroupName
from engine.replica.cohort import BUILT_TOGETHER
from engine.replica.follower import Follower
from engine.replica.snapshot_options import SnapshotOptions
from tests.support.following import OPTIONS, contents, define, run_follower
from tests.support.gated import SnapshotGate, gate_changelog
from tests.support.waiting import PATIENCE_SECONDS, wait_until

BUILT, READ = (replace(define(f"store of {name}"), group=GroupName(name)) for name in ("built", "read"))
SNAPSHOTS = SnapshotOptions(6 * EPOCH_WEIGHT, SnapshotRetention(kept=1, tail_seconds=0), look_seconds=0.01)


def append(appender: StoreAppender, account: int) -> Epoch:
    (store,) = appender._definitions
    rows = pa.table({"account": [account], "amount": [1]}, BUILT.schema)
    return appender.append({store: rows}).epoch


@pytest.fixture
def built(changelog: Changelog, tmp_path: Path) -> StoreAppender:
    """Of a group whose rows are in a snapshot, of which each partition has a file."""
    appender = open_appender(changelog, [BUILT])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("engine.changelog.snapshots.FILE_BYTES", 1)
        with run_follower(changelog, tmp_path / "first", replace(OPTIONS, snapshots=SNAPSHOTS)):
            for account in range(40):
                append(appender, account)
            wait_until(lambda: changelog.snapshots(BUILT.group).epochs() != [])
    return appender


@pytest.fixture
def gate() -> SnapshotGate:
    return SnapshotGate(BUILT.group)


@pytest.fixture
def gated(changelog: Changelog, gate: SnapshotGate) -> Iterator[Changelog]:
    with gate_changelog(changelog.uri, gate) as behind_gate:
        yield behind_gate


def built_snapshot(changelog: Changelog) -> Snapshot:
    snapshot = changelog.snapshots(BUILT.group).newest_snapshot()
    assert snapshot is not None
    return snapshot


def newest_rows(follower: Follower, appender: StoreAppender) -> dict[int, int]:
    (store,) = appender._definitions
    with follower.pin_views([store]) as views:
        return contents(views[store])


def test_epochs_of_a_group_do_not_wait_for_one_that_is_built(
    changelog: Changelog, built: StoreAppender, gate: SnapshotGate, gated: Changelog, tmp_path: Path
) -> None:
    appender = open_appender(changelog, [READ])
    with run_follower(gated, tmp_path / "data") as follower:
        assert gate.reached.wait(PATIENCE_SECONDS)
        for account in range(5):
            assert follower.wait_for(READ.group, append(appender, account), PATIENCE_SECONDS)
        assert newest_rows(follower, appender) == dict.fromkeys(range(5), 1)
        with pytest.raises(Unavailable, match="Group built is being built"):
            newest_rows(follower, built)
        gate.open()
        assert follower.wait_for(BUILT.group, built.epoch, PATIENCE_SECONDS)


def test_as_many_groups_are_built_as_threads_and_others_go_on(
    changelog: Changelog, built: StoreAppender, gate: SnapshotGate, gated: Changelog, tmp_path: Path
) -> None:
    """All threads of builds are taken by groups that wait."""
    appender = open_appender(changelog, [READ])
    first = append(appender, 0)
    with run_follower(changelog, tmp_path / "data") as follower:
        assert follower.wait_for(READ.group, first, PATIENCE_SECONDS)
    shutil.rmtree(tmp_path / "data" / "built")
    with run_follower(gated, tmp_path / "data", replace(OPTIONS, groups_built=1)) as follower:
        assert gate.reached.wait(PATIENCE_SECONDS)
        assert follower.wait_for(READ.group, append(appender, 1), PATIENCE_SECONDS)
        gate.open()
        assert follower.wait_for(BUILT.group, built.epoch, PATIENCE_SECONDS)


def test_a_large_epoch_of_a_group_that_is_read_does_not_wait_for_builds(
    changelog: Changelog,
    built: StoreAppender,
    gate: SnapshotGate,
    gated: Changelog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All threads of builds are taken, and all that run their partitions."""
    appender = open_appender(changelog, [READ])
    first = append(appender, 0)
    with run_follower(changelog, tmp_path / "data") as follower:
        assert follower.wait_for(READ.group, first, PATIENCE_SECONDS)
    shutil.rmtree(tmp_path / "data" / "built")
    options = replace(OPTIONS, apply_threads=BUILT_TOGETHER, groups_built=1)
    with run_follower(gated, tmp_path / "data", options) as follower:
        wait_until(lambda: len(gate.files) == BUILT_TOGETHER)
        monkeypatch.setattr("engine.replica.group.QUICK_BYTES", 0)
        monkeypatch.setattr("engine.replica.commit_queue.LARGE_EPOCH_BYTES", 1)
        assert follower.wait_for(READ.group, append(appender, 1), PATIENCE_SECONDS)
        assert newest_rows(follower, appender) == {0: 1, 1: 1}
        gate.open()
        assert follower.wait_for(BUILT.group, built.epoch, PATIENCE_SECONDS)


def test_a_build_is_given_up_when_the_host_stops(
    built: StoreAppender, gate: SnapshotGate, gated: Changelog, tmp_path: Path
) -> None:
    snapshot = built_snapshot(gated)
    assert len(snapshot.parts[0].files) > BUILT_TOGETHER
    follower = Follower(gated, tmp_path / "data", OPTIONS)
    follower.start()
    wait_until(lambda: len(gate.files) == BUILT_TOGETHER)
    with ThreadPoolExecutor(1) as pool:
        stopping = pool.submit(follower.stop)
        wait_until(follower._stopping.is_set)
        gate.open()
        stopping.result(PATIENCE_SECONDS)
    assert len(gate.files) == BUILT_TOGETHER, "partitions were begun when the host stopped"
    with run_follower(gated, tmp_path / "data") as again:
        assert again.wait_for(BUILT.group, built.epoch, PATIENCE_SECONDS)
        assert newest_rows(again, built) == dict.fromkeys(range(40), 1)


def test_a_build_is_given_up_when_its_store_is_dropped(
    changelog: Changelog, built: StoreAppender, gate: SnapshotGate, gated: Changelog, tmp_path: Path
) -> None:
    """So one group's build can be cancelled, and the others go on."""
    assert len(built_snapshot(gated).parts[0].files) > BUILT_TOGETHER
    with run_follower(gated, tmp_path / "data") as follower:
        wait_until(lambda: len(gate.files) == BUILT_TOGETHER)
        drop_store(changelog, BUILT.name, "an operator", 0)
        wait_until(lambda: BUILT.name in gated.exclusions(BUILT.group).drops)
        gate.open()
        wait_until(lambda: not follower.status())
        assert len(gate.files) == BUILT_TOGETHER, "partitions were begun of a store that is no more"


def test_a_large_epoch_of_one_group_does_not_keep_others_waiting(
    changelog: Changelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found by a thread that looks, and left to one that may take its time."""
    monkeypatch.setattr("engine.replica.group.QUICK_BYTES", 100_000)
    large, small = open_appender(changelog, [BUILT]), open_appender(changelog, [READ])
    with run_follower(changelog, tmp_path / "data") as follower:
        assert follower.wait_for(BUILT.group, append(large, 0), PATIENCE_SECONDS)
        accounts = list(range(50_000))
        rows = pa.table({"account": accounts, "amount": [1] * len(accounts)}, BUILT.schema)
        assert follower.wait_for(BUILT.group, large.append({BUILT.name: rows}).epoch, PATIENCE_SECONDS)
        assert follower.wait_for(READ.group, append(small, 1), PATIENCE_SECONDS)
        assert newest_rows(follower, large) == dict.fromkeys(accounts, 1)


def test_a_group_that_never_stands_still_does_not_keep_others_waiting(
    changelog: Changelog, tmp_path: Path
) -> None:
    endless, now_and_then = open_appender(changelog, [BUILT]), open_appender(changelog, [READ])
    options = replace(OPTIONS, groups_looked_at=1, groups_built=1)
    with run_follower(changelog, tmp_path / "data", options) as follower:
        for account in range(20):
            for _ in range(5):
                append(endless, account)
                follower.notify(BUILT.group)
            assert follower.wait_for(READ.group, append(now_and_then, account), PATIENCE_SECONDS)
        assert follower.wait_for(BUILT.group, endless.epoch, PATIENCE_SECONDS)
