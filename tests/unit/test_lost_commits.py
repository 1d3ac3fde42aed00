"""A commit in the middle of a changelog was lost: no host takes the epoch before it for the newest one."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, SnapshotRetention, StoreAppender, open_appender
from engine.changelog.layout import commit_path
from engine.changelog.snapshot import EPOCH_WEIGHT
from engine.errors import Corrupt
from engine.model.schema import Epoch, PartitionId
from engine.replica.follower import Follower
from engine.replica.group_setup import ASIDE
from engine.replica.snapshot_options import SnapshotOptions
from engine.scan import BuildingError
from tests.support.following import GROUP, OPTIONS, PARTITIONS, contents, define, run_follower
from tests.support.waiting import wait_until

ACCOUNTS = define("accounts")
EPOCHS, LOST = Epoch(11), Epoch(8)
SAID = f"The commit of epoch {LOST} of store group bank is missing, though later ones are there"
WAIT_SECONDS = 60.0


def append(appender: StoreAppender) -> Epoch:
    """An epoch with rows for all partitions that say which epoch it is."""
    number = appender.epoch + 1
    rows = pa.table({"account": range(40), "amount": [number] * 40})
    assert appender.append({"accounts": rows}).epoch == number
    return Epoch(number)


def write(root: Path, newest: Epoch = EPOCHS) -> None:
    """A changelog up to an epoch, or the rest of it."""
    appender = open_appender(Changelog.open(str(root)), [ACCOUNTS])
    while appender.epoch < newest:
        append(appender)


def lose(root: Path, epoch: Epoch = LOST) -> None:
    (root / commit_path(GROUP, epoch)).rename(root.parent / f"lost-{epoch}")


def bring_back(root: Path, epoch: Epoch = LOST) -> None:
    (root.parent / f"lost-{epoch}").rename(root / commit_path(GROUP, epoch))


def build(root: Path, data: Path, newest: Epoch) -> None:
    """A data directory that is at the newest epoch."""
    with run_follower(Changelog.open(str(root)), data) as host:
        assert host.wait_for(GROUP, newest, WAIT_SECONDS)


def amounts(host: Follower, partitions: tuple[PartitionId, ...] | None = None) -> Mapping[int, int]:
    wanted = None if partitions is None else {ACCOUNTS.name: partitions}
    with host.pin_views([ACCOUNTS.name], None, wanted) as views:
        return contents(views[ACCOUNTS.name])


def wait_until_said(host: Follower, said: str = SAID) -> None:
    wait_until(lambda: said in host.report()[0][GROUP].problem)
    wait_until(lambda: all(said in row.problem for row in host.status()))


def check_goes_on(host: Follower, newest: Epoch = EPOCHS) -> None:
    host.notify(GROUP)
    assert host.wait_for(GROUP, newest, WAIT_SECONDS)
    assert set(amounts(host).values()) == {newest}
    wait_until(lambda: not host.report()[0][GROUP].problem)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "changelog"


@pytest.mark.parametrize("before", [None, 3, LOST - 1])
def test_a_host_that_starts_does_not_answer_from_before(
    root: Path, tmp_path: Path, before: int | None
) -> None:
    if before is not None:
        write(root, Epoch(before))
        build(root, tmp_path / "data", Epoch(before))
    write(root)
    lose(root)
    with run_follower(Changelog.open(str(root)), tmp_path / "data") as host:
        wait_until_said(host)
        with pytest.raises(BuildingError):
            amounts(host)
        assert not host.has_caught_up
        (row,) = host.status()
        assert row.newest_epoch == host.report()[0][GROUP].newest_known == EPOCHS
        assert row.lag_seconds > 0
        bring_back(root)
        check_goes_on(host)
        assert host.has_caught_up


@pytest.mark.parametrize("lost", [1, EPOCHS - 1])
def test_the_first_and_the_last_but_one_may_be_lost(root: Path, tmp_path: Path, lost: int) -> None:
    write(root)
    lose(root, Epoch(lost))
    with run_follower(Changelog.open(str(root)), tmp_path / "data") as host:
        wait_until_said(host, f"The commit of epoch {lost} of")
        bring_back(root, Epoch(lost))
        check_goes_on(host)


def test_several_may_be_lost(root: Path, tmp_path: Path) -> None:
    write(root)
    for lost in (4, 5, LOST):
        lose(root, Epoch(lost))
    with run_follower(Changelog.open(str(root)), tmp_path / "data") as host:
        wait_until_said(host, "The commit of epoch 4 of")
        for lost in (4, 5):
            bring_back(root, Epoch(lost))
        host.notify(GROUP)
        wait_until_said(host)
        bring_back(root)
        check_goes_on(host)


def test_a_host_that_runs_says_so_and_counts_its_lag(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on answering what it has, as with an epoch that is damaged."""
    monkeypatch.setattr("engine.replica.catch_up.SECONDS_BETWEEN_DOUBTS", 0.05)
    write(root, Epoch(LOST - 1))
    elsewhere = tmp_path / "elsewhere"
    with run_follower(Changelog.open(str(root)), tmp_path / "data") as host:
        assert host.wait_for(GROUP, Epoch(LOST - 1), WAIT_SECONDS)
        shutil.copytree(root, elsewhere)
        appender = open_appender(Changelog.open(str(elsewhere)), [ACCOUNTS])
        while appender.epoch < EPOCHS:
            append(appender)
        for epoch in range(LOST + 1, EPOCHS + 1):
            path = commit_path(GROUP, Epoch(epoch))
            (elsewhere / path).rename(root / path)
        wait_until_said(host)
        assert set(amounts(host).values()) == {LOST - 1}
        report = host.report()[0][GROUP]
        assert (report.newest, report.newest_known) == (LOST - 1, EPOCHS)
        assert report.unread_since is not None
        (row,) = host.status()
        assert (row.epoch, row.newest_epoch) == (LOST - 1, EPOCHS)
        assert row.lag_seconds > 0
        (elsewhere / commit_path(GROUP, LOST)).rename(root / commit_path(GROUP, LOST))
        check_goes_on(host)
        assert host.report()[0][GROUP].unread_since is None


def test_partitions_that_are_built_again_stay_before_it(root: Path, tmp_path: Path) -> None:
    write(root)
    build(root, tmp_path / "data", EPOCHS)
    lose(root)
    shutil.rmtree(tmp_path / "data" / "bank" / "accounts" / "0")
    others = tuple(PartitionId(number) for number in range(1, PARTITIONS))
    with run_follower(Changelog.open(str(root)), tmp_path / "data") as host:
        wait_until_said(host)
        assert set(amounts(host, others).values()) == {EPOCHS}
        with pytest.raises(BuildingError):
            amounts(host)
        bring_back(root)
        check_goes_on(host)


def test_what_a_host_has_of_the_lost_epoch_is_not_put_aside(root: Path, tmp_path: Path) -> None:
    write(root, LOST)
    build(root, tmp_path / "data", LOST)
    write(root)
    lose(root)
    with run_follower(Changelog.open(str(root)), tmp_path / "data") as host:
        wait_until_said(host)
        bring_back(root)
        check_goes_on(host)
    assert not (tmp_path / "data" / ASIDE).exists()


def take_snapshot(root: Path, data: Path) -> None:
    """A snapshot at the newest epoch; no epoch goes for it."""
    snapshots = SnapshotOptions(EPOCHS * EPOCH_WEIGHT, SnapshotRetention(1, 3600.0), look_seconds=0.01)
    changelog = Changelog.open(str(root))
    with run_follower(changelog, data, replace(OPTIONS, snapshots=snapshots)) as host:
        assert host.wait_for(GROUP, EPOCHS, WAIT_SECONDS)
        wait_until(lambda: EPOCHS in changelog.snapshots(GROUP).epochs())
    assert changelog.holds(GROUP, Epoch(1))


def test_a_snapshot_behind_it_has_the_rows(root: Path, tmp_path: Path) -> None:
    write(root, Epoch(LOST - 1))
    build(root, tmp_path / "away", Epoch(LOST - 1))
    write(root)
    take_snapshot(root, tmp_path / "data")
    lose(root)
    for directory in (tmp_path / "away", tmp_path / "fresh"):
        with run_follower(Changelog.open(str(root)), directory) as host:
            assert host.wait_for(GROUP, EPOCHS, WAIT_SECONDS)
            assert set(amounts(host).values()) == {EPOCHS}


def test_the_epoch_of_a_snapshot_may_be_lost(root: Path, tmp_path: Path) -> None:
    """Nothing was dropped, and the snapshot is listed: nobody says otherwise."""
    write(root)
    take_snapshot(root, tmp_path / "data")
    write(root, Epoch(EPOCHS + 2))
    lose(root, EPOCHS)
    with run_follower(Changelog.open(str(root)), tmp_path / "data") as host:
        wait_until_said(host, f"The commit of epoch {EPOCHS} of")
        bring_back(root, EPOCHS)
        check_goes_on(host, Epoch(EPOCHS + 2))
    assert not (tmp_path / "data" / ASIDE).exists()


@pytest.mark.parametrize("lost", range(1, EPOCHS))
def test_no_job_begins_in_the_gap(root: Path, lost: int) -> None:
    """Its history would be another one. One that comes to the end goes on behind that."""
    write(root)
    lose(root, Epoch(lost))
    try:
        write(root, Epoch(EPOCHS + 2))
    except Corrupt as error:
        assert f"The commit of epoch {lost} of store group bank is missing" in error.message
    assert not (root / commit_path(GROUP, Epoch(lost))).exists()
    bring_back(root, Epoch(lost))
    write(root, Epoch(EPOCHS + 4))
