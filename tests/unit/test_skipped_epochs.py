"""Hosts pass epochs by: those that are stuck go on, and those that have the rows build again without them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.changelog import Changelog, StoreAppender, open_appender
from engine.changelog.layout import amendment_path, commit_path
from engine.changelog.skipping import skip_epoch
from engine.model.schema import Epoch, GroupName, define_store
from engine.replica.follower import Follower
from engine.state.partition import PartitionStore
from tests.support.following import GROUP, OPTIONS, contents, define, run_follower
from tests.support.waiting import wait_until

ACCOUNTS = define("accounts")
OTHER = define_store("other", ACCOUNTS.schema, ["account"], partitions=2, group=GroupName("other"))
WAIT_SECONDS = 60.0
NOW = 1_789_000_000_000_000


def append(appender: StoreAppender, number: int, store: str = "accounts") -> Epoch:
    """An epoch with a row for each of many partitions."""
    rows = pa.table({"account": range(number * 10, number * 10 + 10), "amount": [number] * 10})
    return appender.append({store: rows}).epoch


def damage(changelog: Changelog, epoch: Epoch) -> None:
    path = commit_path(GROUP, epoch)
    data = changelog.objects.get(path)
    assert data is not None
    changelog.objects.delete([path])
    assert changelog.objects.create(path, [pa.py_buffer(data.to_pybytes()[:60])])


def skip(changelog: Changelog, epoch: Epoch) -> None:
    skip_epoch(changelog, GROUP, epoch, "it is damaged", "ann@ops", NOW, force=True)


def amounts(follower: Follower) -> Mapping[int, int]:
    with follower.pin_views([ACCOUNTS.name]) as views:
        return contents(views[ACCOUNTS.name])


def has_numbers(follower: Follower, *numbers: int) -> bool:
    with follower.pin_views([ACCOUNTS.name]) as views:
        return set(contents(views[ACCOUNTS.name]).values()) == set(numbers)


def digest(follower: Follower) -> str:
    groups, _ = follower.report()
    return groups[GROUP].readable[-1].digest


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "changelog")


def test_a_host_that_is_stuck_goes_on_by_itself(
    root: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    changelog = Changelog.open(root)
    appender = open_appender(changelog, [ACCOUNTS])
    other = open_appender(changelog, [OTHER])
    with run_follower(Changelog.open(root), tmp_path / "data") as host:
        assert host.wait_for(GROUP, append(appender, 1), WAIT_SECONDS)
    damaged = append(appender, 2)
    damage(changelog, damaged)
    with run_follower(Changelog.open(root), tmp_path / "data") as host:
        last = append(appender, 3)
        wait_until(lambda: any("damaged" in row.problem for row in host.status()))
        assert {row.store for row in host.status() if row.problem} == {"accounts"}
        assert host.wait_for(OTHER.group, append(other, 1, "other"), WAIT_SECONDS)
        skip(Changelog.open(root), damaged)
        host.notify()
        assert host.wait_for(GROUP, last, WAIT_SECONDS)
        assert has_numbers(host, 1, 3)
        (row, _) = host.status()
        assert not row.problem
        assert f"Epoch {damaged} of store group bank was passed by" in row.skipped
        assert not (tmp_path / "data" / ".aside").exists()  # nobody had its rows: nothing is built again
        of_the_first = digest(host)
    with run_follower(Changelog.open(root), tmp_path / "new") as host:
        assert host.wait_for(GROUP, last, WAIT_SECONDS)
        assert has_numbers(host, 1, 3)
        assert digest(host) == of_the_first
        wait_until(lambda: "was passed by" in caplog.text)


def test_a_host_passes_by_what_a_job_committed_while_a_backup_was_restored(root: str, tmp_path: Path) -> None:
    changelog = Changelog.open(root)
    append(open_appender(changelog, [ACCOUNTS]), 1)
    before = open_appender(changelog, [ACCOUNTS])
    stray = [append(before, number) for number in (2, 3)][-1]
    paths = [commit_path(GROUP, Epoch(epoch)) for epoch in range(2, stray + 1)]
    data = changelog.objects.get(paths[-1])
    assert data is not None
    # As if a backup of epoch 1 had been restored, and the job of before had committed after that.
    changelog.objects.delete(paths)
    appender = open_appender(Changelog.open(root), [ACCOUNTS])
    while appender.epoch + 1 < stray:
        append(appender, 7)
    assert changelog.objects.create(paths[-1], [data])
    with run_follower(Changelog.open(root), tmp_path / "data") as host:
        wait_until(lambda: any("contradicts itself" in row.problem for row in host.status()))
        skip_epoch(Changelog.open(root), GROUP, stray, "of before the restore", "ann@ops", NOW, force=False)
        last = append(open_appender(Changelog.open(root), [ACCOUNTS]), 8)
        host.notify()
        assert host.wait_for(GROUP, last, WAIT_SECONDS)
        assert has_numbers(host, 7, 8)
        assert not any(row.problem for row in host.status())


def test_a_host_that_has_applied_it_builds_again_without_it(root: str, tmp_path: Path) -> None:
    appender = open_appender(Changelog.open(root), [ACCOUNTS])
    with run_follower(Changelog.open(root), tmp_path / "data") as host:
        append(appender, 1)
        wrong = append(appender, 2)
        last = append(appender, 3)
        assert host.wait_for(GROUP, last, WAIT_SECONDS)
        before = digest(host)
        skip(Changelog.open(root), wrong)
        wait_until(lambda: digest_if_any(host) not in ("", before))  # without news, without being told
        assert has_numbers(host, 1, 3)
        append(appender, 4)
        assert host.wait_for(GROUP, appender.epoch, WAIT_SECONDS)
        assert has_numbers(host, 1, 3, 4)
        assert not any(row.problem for row in host.status())


def digest_if_any(follower: Follower) -> str:
    groups, _ = follower.report()
    readable = groups[GROUP].readable
    return readable[-1].digest if readable else ""


def test_a_host_that_comes_back_never_serves_the_rows(root: str, tmp_path: Path) -> None:
    appender = open_appender(Changelog.open(root), [ACCOUNTS])
    with run_follower(Changelog.open(root), tmp_path / "data") as host:
        append(appender, 1)
        wrong = append(appender, 2)
        assert host.wait_for(GROUP, wrong, WAIT_SECONDS)
    skip(Changelog.open(root), wrong)
    host = Follower(Changelog.open(root), tmp_path / "data", OPTIONS)
    seen = []
    host.add_listener(lambda: seen.append(digest_if_any(host) and amounts(host)))
    host.start()
    try:
        assert host.wait_for(GROUP, wrong, WAIT_SECONDS)
        assert has_numbers(host, 1)
        assert all(2 not in found.values() for found in seen if found)
    finally:
        host.stop()


def test_an_epoch_that_some_partitions_have_applied(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One partition fails to apply an epoch that the others have taken; the epoch is passed by then."""
    appender = open_appender(Changelog.open(root), [ACCOUNTS])
    first = append(appender, 1)
    apply = PartitionStore.apply

    def apply_or_fail(store: PartitionStore, epoch: Epoch, *given: Any, **options: Any) -> None:
        if epoch == first + 1 and store.identity[1] == 0:
            raise ValueError("a defect")
        apply(store, epoch, *given, **options)

    with run_follower(Changelog.open(root), tmp_path / "data") as host:
        assert host.wait_for(GROUP, first, WAIT_SECONDS)
        monkeypatch.setattr(PartitionStore, "apply", apply_or_fail)
        wrong = append(appender, 2)
        wait_until(lambda: any("nobody expected" in row.problem for row in host.status()))
        skip(Changelog.open(root), wrong)
        assert host.wait_for(GROUP, append(appender, 3), WAIT_SECONDS)
        assert has_numbers(host, 1, 3)


def test_a_damaged_record_keeps_its_group_alone(root: str, tmp_path: Path) -> None:
    changelog = Changelog.open(root)
    appender, other = open_appender(changelog, [ACCOUNTS]), open_appender(changelog, [OTHER])
    append(appender, 1)
    skip(changelog, append(appender, 2))
    path = amendment_path(GROUP, 1)
    data = changelog.objects.get(path)
    assert data is not None
    changelog.objects.delete([path])
    changelog.objects.create(path, [pa.py_buffer(data.to_pybytes().replace(b"damaged", b"damagde"))])
    with run_follower(Changelog.open(root), tmp_path / "data") as host:
        assert host.wait_for(OTHER.group, append(other, 1, "other"), WAIT_SECONDS)
        (row,) = [row for row in host.status() if row.problem]
        assert row.store == "accounts"
        assert "1 of store group bank is damaged" in row.problem
        changelog.objects.delete([path])
        changelog.objects.create(path, [data])
        assert host.wait_for(GROUP, appender.epoch, WAIT_SECONDS)
        assert has_numbers(host, 1)
        wait_until(lambda: not any(row.problem for row in host.status()))
