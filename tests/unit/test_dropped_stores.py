"""Hosts let go of stores that are dropped, and never take their rows for those of the next of that name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, SnapshotRetention, StoreAppender, open_appender
from engine.changelog.store_drops import drop_store, remove_dropped_stores
from engine.errors import NotFound, Unavailable
from engine.model.schema import Epoch, GroupName, StoreDefinition
from engine.replica.follower import Follower
from engine.replica.snapshot_options import SnapshotOptions
from tests.support.following import GROUP, OPTIONS, contents, define, run_follower
from tests.support.waiting import wait_until

ACCOUNTS, LIMITS = define("accounts"), define("limits")
WAIT_SECONDS = 60.0
NOW = 1_789_000_000_000_000


def append(appender: StoreAppender, number: int, *stores: StoreDefinition) -> Epoch:
    rows = pa.table({"account": range(number * 10, number * 10 + 10), "amount": [number] * 10})
    return appender.append({store.name: rows for store in stores or (ACCOUNTS,)}).epoch


def drop(root: str, store: StoreDefinition = ACCOUNTS) -> None:
    changelog = Changelog.open(root)
    drop_store(changelog, store.name, "ann@ops", NOW)
    remove_dropped_stores(changelog, store.group)


def numbers(host: Follower, store: StoreDefinition = ACCOUNTS) -> set[int]:
    with host.pin_views([store.name]) as views:
        found: Mapping[int, int] = contents(views[store.name])
        return set(found.values())


def is_gone(host: Follower, store: StoreDefinition = ACCOUNTS) -> bool:
    return store.name not in host.definitions() and store.name not in host.tables()


def directories(data: Path) -> set[str]:
    return {path.name for path in data.glob("bank/*")}


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "changelog")


def test_a_running_host_lets_go_of_a_dropped_store(root: str, tmp_path: Path) -> None:
    """Another store of its group goes on; the same name can be used again."""
    data = tmp_path / "data"
    appender = open_appender(Changelog.open(root), [ACCOUNTS, LIMITS])
    with run_follower(Changelog.open(root), data) as host:
        assert host.wait_for(GROUP, append(appender, 1, ACCOUNTS, LIMITS), WAIT_SECONDS)
        drop(root)
        host.notify()
        wait_until(lambda: is_gone(host))
        wait_until(lambda: directories(data) == {"limits"})
        with pytest.raises(NotFound, match="no store accounts"):
            numbers(host)
        assert numbers(host, LIMITS) == {1}
        assert {row.store for row in host.status()} == {"limits"}
        last = append(appender, 2, LIMITS)
        assert host.wait_for(GROUP, last, WAIT_SECONDS)
        assert numbers(host, LIMITS) == {1, 2}
        assert not any(row.problem for row in host.status())
        again = open_appender(Changelog.open(root), [ACCOUNTS, LIMITS])
        assert host.wait_for(GROUP, append(again, 3, ACCOUNTS, LIMITS), WAIT_SECONDS)
        assert numbers(host) == {3}
        assert numbers(host, LIMITS) == {1, 2, 3}
        assert directories(data) == {"limits", "accounts@1"}
    with run_follower(Changelog.open(root), tmp_path / "new") as host:
        assert host.wait_for(GROUP, again.epoch, WAIT_SECONDS)
        assert (numbers(host), numbers(host, LIMITS)) == ({3}, {1, 2, 3})


def test_a_running_host_lets_go_of_a_whole_group(root: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    appender = open_appender(Changelog.open(root), [ACCOUNTS])
    with run_follower(Changelog.open(root), data) as host:
        assert host.wait_for(GROUP, append(appender, 1), WAIT_SECONDS)
        drop(root)
        wait_until(lambda: is_gone(host) and not host.status())
        wait_until(lambda: directories(data) == set())
        assert host.has_caught_up
        again = open_appender(Changelog.open(root), [ACCOUNTS])
        assert host.wait_for(GROUP, append(again, 2), WAIT_SECONDS)
        assert numbers(host) == {2}
    with run_follower(Changelog.open(root), tmp_path / "new") as host:
        assert host.wait_for(GROUP, again.epoch, WAIT_SECONDS)
        assert numbers(host) == {2}
        drop(root)
        again = open_appender(Changelog.open(root), [ACCOUNTS])
        assert host.wait_for(GROUP, append(again, 3), WAIT_SECONDS)
        wait_until(lambda: host.definitions().keys() == {ACCOUNTS.name} and numbers(host) == {3})


def test_a_store_made_anew_in_another_group_is_not_read_for_the_one_of_before(
    root: str, tmp_path: Path
) -> None:
    """Who names the epochs of the groups that he knew is refused, and gets no epoch of another group."""
    appender = open_appender(Changelog.open(root), [ACCOUNTS, LIMITS])
    elsewhere = replace(ACCOUNTS, group=GroupName("elsewhere"))
    with run_follower(Changelog.open(root), tmp_path / "data") as host:
        before = append(appender, 1, ACCOUNTS, LIMITS)
        assert host.wait_for(GROUP, before, WAIT_SECONDS)
        drop(root)
        last = append(open_appender(Changelog.open(root), [elsewhere]), 2)
        assert host.wait_for(elsewhere.group, last, WAIT_SECONDS)
        assert numbers(host) == {2}
        with pytest.raises(Unavailable, match="made anew in store group elsewhere"):
            host.pin_views([ACCOUNTS.name], {GROUP: before})
        assert not host.definitions()[ACCOUNTS.name].has_shape_of(ACCOUNTS)


@pytest.mark.parametrize("is_renewed", [False, True])
def test_a_host_that_comes_back_has_nothing_of_it(root: str, tmp_path: Path, is_renewed: bool) -> None:
    data = tmp_path / "data"
    appender = open_appender(Changelog.open(root), [ACCOUNTS, LIMITS])
    with run_follower(Changelog.open(root), data) as host:
        assert host.wait_for(GROUP, append(appender, 1, ACCOUNTS, LIMITS), WAIT_SECONDS)
    drop(root)
    if is_renewed:
        appender = open_appender(Changelog.open(root), [ACCOUNTS, LIMITS])
        append(appender, 2, ACCOUNTS, LIMITS)
    with run_follower(Changelog.open(root), data) as host:
        assert host.wait_for(GROUP, Changelog.open(root).newest_epoch(GROUP), WAIT_SECONDS)
        if is_renewed:
            assert numbers(host) == {2}
            assert numbers(host, LIMITS) == {1, 2}
        else:
            assert is_gone(host)
        wait_until(lambda: "accounts" not in directories(data))


@pytest.mark.parametrize("has_rows", [False, True])
def test_a_new_store_of_the_name_is_there_after_a_restart(root: str, tmp_path: Path, has_rows: bool) -> None:
    """Nothing was committed meanwhile."""
    append(open_appender(Changelog.open(root), [ACCOUNTS, LIMITS]), 1, ACCOUNTS, LIMITS)
    drop(root)
    again = open_appender(Changelog.open(root), [ACCOUNTS, LIMITS])
    newest = append(again, 2, *([ACCOUNTS] if has_rows else []), LIMITS)
    for _ in range(3):
        with run_follower(Changelog.open(root), tmp_path / "data") as host:
            assert host.wait_for(GROUP, newest, WAIT_SECONDS)
            assert numbers(host) == ({2} if has_rows else set())
            assert numbers(host, LIMITS) == {1, 2}


def test_a_store_that_was_made_anew_in_between_is_another_one(root: str, tmp_path: Path) -> None:
    """The host hears of the end of the one and of the other at once."""
    data = tmp_path / "data"
    appender = open_appender(Changelog.open(root), [ACCOUNTS])
    with run_follower(Changelog.open(root), data) as host:
        assert host.wait_for(GROUP, append(appender, 1), WAIT_SECONDS)
        drop(root)
        again = open_appender(Changelog.open(root), [ACCOUNTS])
        assert host.wait_for(GROUP, append(again, 2), WAIT_SECONDS)
        wait_until(lambda: ACCOUNTS.name in host.definitions() and numbers(host) == {2})
        assert not any(row.problem for row in host.status())


def test_snapshots_of_before_do_not_bring_rows_back(root: str, tmp_path: Path) -> None:
    options = OPTIONS.__class__(
        poll_seconds=0.01,
        retry_seconds=0.05,
        snapshots=SnapshotOptions(after_bytes=3 * 256 * 1024, retention=SnapshotRetention(1, 0.0)),
    )
    appender = open_appender(Changelog.open(root), [ACCOUNTS, LIMITS])
    with run_follower(Changelog.open(root), tmp_path / "data", options) as host:
        for number in range(1, 5):
            assert host.wait_for(GROUP, append(appender, number, ACCOUNTS, LIMITS), WAIT_SECONDS)
        wait_until(lambda: bool(Changelog.open(root).snapshots(GROUP).epochs()))
    drop(root)
    again = open_appender(Changelog.open(root), [ACCOUNTS, LIMITS])
    append(again, 9, ACCOUNTS, LIMITS)
    with run_follower(Changelog.open(root), tmp_path / "new", options) as host:
        assert host.wait_for(GROUP, again.epoch, WAIT_SECONDS)
        assert numbers(host) == {9}
        assert numbers(host, LIMITS) == {1, 2, 3, 4, 9}
        for number in range(10, 16):
            assert host.wait_for(GROUP, append(again, number, ACCOUNTS, LIMITS), WAIT_SECONDS)
        wait_until(lambda: max(Changelog.open(root).snapshots(GROUP).epochs()) > again.epoch - 6)
        assert not any(row.problem for row in host.status())
    with run_follower(Changelog.open(root), tmp_path / "newest", options) as host:
        assert host.wait_for(GROUP, again.epoch, WAIT_SECONDS)
        assert numbers(host) == {9, *range(10, 16)}


def test_a_store_moves_to_another_group(root: str, tmp_path: Path) -> None:
    elsewhere = GroupName("elsewhere")
    moved = ACCOUNTS.__class__(**{**ACCOUNTS.__dict__, "group": elsewhere})
    appender = open_appender(Changelog.open(root), [ACCOUNTS, LIMITS])
    with run_follower(Changelog.open(root), tmp_path / "data") as host:
        assert host.wait_for(GROUP, append(appender, 1, ACCOUNTS, LIMITS), WAIT_SECONDS)
        drop(root)
        again = open_appender(Changelog.open(root), [moved])
        assert host.wait_for(elsewhere, append(again, 2), WAIT_SECONDS)
        assert numbers(host) == {2}
        assert numbers(host, LIMITS) == {1}
