"""Small epochs of a group that can be read stay in memory for a moment: a host that is killed before they are
written reads them again, and its note of what it has reached never says more than the disk has.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, StoreAppender, open_appender
from engine.errors import LimitExceeded
from engine.model.schema import Epoch
from engine.replica import follower as follower_module
from engine.replica.follower import Follower
from engine.replica.reached_epoch import read_reached_epoch
from engine.replica.task_runner import Task, Work
from engine.state.partition import PartitionStore
from tests.support.following import GROUP, contents, define, run_follower
from tests.support.waiting import PATIENCE_SECONDS, wait_until

STORE = define("debit")
NEVER = 3600.0


class Accounts:
    """Epochs of one row each, in one partition alone.

    Attributes:
        expected: The amount of each account.
    """

    def __init__(self, changelog: Changelog) -> None:
        self.expected: dict[int, int] = {}
        self._appender: StoreAppender = open_appender(changelog, [STORE])

    def append(self, epochs: int) -> Epoch:
        for _ in range(epochs):
            account = len(self.expected)
            rows = pa.table({"account": [account], "amount": [account]}, STORE.row_schema)
            epoch = self._appender.append({STORE.name: rows}).epoch
            self.expected[account] = account
        return epoch


@pytest.fixture
def accounts(changelog: Changelog) -> Accounts:
    return Accounts(changelog)


def partitions_of(follower: Follower) -> Sequence[PartitionStore]:
    return list(follower._groups[GROUP].partitions)


def noted_epoch(data: Path) -> int:
    (note,) = (data / ".reached").iterdir()
    reached = read_reached_epoch(note)
    assert reached is not None
    return reached.epoch


def check(follower: Follower, accounts: Accounts) -> None:
    with follower.pin_views([STORE.name]) as views:
        assert contents(views[STORE.name]) == accounts.expected


def bring_to(follower: Follower, epoch: Epoch) -> None:
    follower.notify(GROUP)
    assert follower.wait_for(GROUP, epoch, PATIENCE_SECONDS)


def test_a_host_that_is_killed_reads_again_what_was_held(
    changelog: Changelog, accounts: Accounts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, left = tmp_path / "data", tmp_path / "left"
    first = accounts.append(6)
    with run_follower(changelog, data) as follower:
        bring_to(follower, first)
        wait_until(lambda: noted_epoch(data) == first)
        monkeypatch.setattr(follower_module, "SECONDS_BETWEEN_RELEASES", NEVER)
        newest = accounts.append(1)
        bring_to(follower, newest)
        check(follower, accounts)
        stores = partitions_of(follower)
        assert [store.is_written for store in stores].count(False) == 1
        assert max(store.applied for store in stores) == newest > max(s.written_epoch for s in stores)
        assert noted_epoch(data) == first
        # What a kill leaves.
        shutil.copytree(data, left, ignore=shutil.ignore_patterns("LOCK"))
    with run_follower(changelog, left) as follower:
        bring_to(follower, newest)
        check(follower, accounts)
        bring_to(follower, accounts.append(2))
        check(follower, accounts)


def test_what_is_buffered_is_written_within_a_moment(
    changelog: Changelog, accounts: Accounts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_module, "SECONDS_BETWEEN_RELEASES", 0.05)
    first = accounts.append(6)
    with run_follower(changelog, tmp_path / "data") as follower:
        bring_to(follower, first)
        newest = accounts.append(3)
        bring_to(follower, newest)
        wait_until(lambda: all(store.is_written for store in partitions_of(follower)))
        wait_until(lambda: noted_epoch(tmp_path / "data") == newest)
    with run_follower(changelog, tmp_path / "data") as follower:
        check(follower, accounts)


def test_nothing_is_buffered_while_the_disk_is_full(
    changelog: Changelog, accounts: Accounts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else memory would fill up in place of the disk."""

    def fail(*_: object) -> None:
        raise LimitExceeded("The disk is full.")

    monkeypatch.setattr(follower_module, "SECONDS_BETWEEN_RELEASES", 0.05)
    first = accounts.append(6)
    with run_follower(changelog, tmp_path / "data") as follower:
        bring_to(follower, first)
        (group,) = follower._groups.values()
        with monkeypatch.context() as patch:
            for store in partitions_of(follower):
                patch.setattr(store.context.storage, "write_atomically", fail)
            held = accounts.append(1)
            bring_to(follower, held)
            wait_until(lambda: follower._tasks.is_failing(Task(Work.WRITE, GROUP)))
            accounts.append(1)
            follower.notify(GROUP)
            wait_until(lambda: follower._tasks.is_failing(Task(Work.FOLLOW, GROUP)))
            assert follower.status()[0].problem == "The disk is full."
            assert group.view is not None
            assert group.view.epoch == held
        bring_to(follower, accounts.append(1))
        check(follower, accounts)
        wait_until(lambda: all(store.is_written for store in partitions_of(follower)))
