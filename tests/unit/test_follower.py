"""A host's state follows the changelog: after restarts, lost directories, and bad commits it shows whole
epochs and nothing else.
"""

from __future__ import annotations

import resource
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event

import pyarrow as pa
import pytest

from engine.changelog import Catalog, Changelog, StoreAppender, open_appender
from engine.errors import Corrupt, InvalidInput, LimitExceeded, NotFound, Unavailable
from engine.model.schema import Epoch, GroupName, StoreName, define_store
from engine.replica.data_directory import HOST_NAMES, claim
from engine.replica.follower import Follower
from engine.replica.group import FollowedGroup
from engine.replica.group_setup import GroupSetup
from engine.scan import BuildingError
from tests.support.following import GROUP, OPTIONS, contents, define, run_follower
from tests.support.lagging_objects import lagging_changelog
from tests.support.waiting import wait_until

WAIT_SECONDS = 60.0
DEBIT, CREDIT = define("debit"), define("credit")


def rows(amounts: dict[int, int | None]) -> pa.Table:
    """Upserts, and tombstones where the amount is None."""
    removed = pa.array([amount is None for amount in amounts.values()], pa.bool_())
    return pa.table(
        {
            "account": pa.array(amounts, pa.int64()),
            "amount": pa.array(amounts.values(), pa.int64()),
            "removed": removed,
        }
    )


def append(
    appender: StoreAppender,
    debit: dict[int, int | None],
    credit: dict[int, int | None],
    replaced: tuple[str, ...] = (),
) -> Epoch:
    tables = {"debit": rows(debit), "credit": rows(credit)}
    return appender.append(tables, tombstone_column="removed", replaced=replaced).epoch


def both(follower: Follower) -> tuple[dict[int, int], dict[int, int]]:
    with follower.pin_views([DEBIT.name, CREDIT.name]) as views:
        assert views[DEBIT.name].epoch == views[CREDIT.name].epoch
        return contents(views[DEBIT.name]), contents(views[CREDIT.name])


@pytest.fixture
def appender(changelog: Changelog) -> StoreAppender:
    return open_appender(changelog, [DEBIT, CREDIT])


def test_epochs_become_visible_together(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    with run_follower(changelog, tmp_path / "data") as follower:
        for number in range(20):
            epoch = append(appender, {number: number, 100: number}, {number: -number, 100: -number})
            assert follower.wait_for(GROUP, epoch, WAIT_SECONDS)
            debit, credit = both(follower)
            assert sum(debit.values()) + sum(credit.values()) == 0
            assert debit[100] == number


def test_a_restart_shows_the_same_and_goes_on(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    with run_follower(changelog, tmp_path / "data") as follower:
        assert follower.wait_for(GROUP, append(appender, {1: 10, 2: 20}, {1: 1}), WAIT_SECONDS)
    missed = append(appender, {1: None, 3: 30}, {})
    with run_follower(changelog, tmp_path / "data") as follower:
        assert follower.wait_for(GROUP, missed, WAIT_SECONDS)
        assert both(follower) == ({2: 20, 3: 30}, {1: 1})


def test_a_group_whose_partitions_cannot_be_opened_at_first(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise Unavailable("The disk does not answer.")

    for number in range(3):
        newest = append(appender, {number: number}, {number: -number})
    with monkeypatch.context() as patched:
        patched.setattr(GroupSetup, "open", fail)
        with run_follower(changelog, tmp_path / "data") as follower:
            assert {row.problem for row in follower.status()} == {
                "Partition 0 of store credit cannot be opened: The disk does not answer."
            }
            with pytest.raises(
                BuildingError,
                match=(
                    "Group bank is being built on this host and does not get on: Partition 0 of store credit"
                ),
            ):
                both(follower)
            assert not follower.has_caught_up
            patched.undo()
            assert follower.wait_for(GROUP, newest, WAIT_SECONDS), (
                "an epoch was taken without the stores that it has rows of"
            )
            assert both(follower) == ({0: 0, 1: 1, 2: 2}, {0: 0, 1: -1, 2: -2})


def test_a_clean_restart_can_be_read_at_once(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    with run_follower(changelog, tmp_path / "data") as follower:
        assert follower.wait_for(GROUP, append(appender, {1: 10}, {}), WAIT_SECONDS)
    with run_follower(changelog, tmp_path / "data") as follower:
        assert both(follower) == ({1: 10}, {})


def test_a_lost_directory_is_rebuilt(changelog: Changelog, appender: StoreAppender, tmp_path: Path) -> None:
    with run_follower(changelog, tmp_path / "data") as follower:
        for number in range(10):
            newest = append(appender, {number: number, 7: None}, {number: number})
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
        before = both(follower)
    lost = [path for path in (tmp_path / "data").rglob("2") if path.is_dir()]
    assert lost
    for path in lost:
        shutil.rmtree(path)
    with run_follower(changelog, tmp_path / "data") as follower:
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
        assert both(follower) == before


def test_many_epochs_at_once_equal_one_by_one(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    append(appender, {1: 1, 2: 2, 3: 3}, {5: 5})
    append(appender, {1: None}, {5: None, 6: 6})
    append(appender, {9: 9}, {}, replaced=("debit",))
    append(appender, {10: 10, 9: None}, {6: 66})
    newest = append(appender, {11: 11}, {})
    with run_follower(changelog, tmp_path / "data") as follower:
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
        assert both(follower) == ({10: 10, 11: 11}, {6: 66})


def test_a_store_that_joins_later(changelog: Changelog, tmp_path: Path) -> None:
    append_debit = open_appender(changelog, [DEBIT])
    with run_follower(changelog, tmp_path / "data") as follower:
        epoch = append_debit.append({"debit": rows({1: 1}).drop_columns("removed")}).epoch
        assert follower.wait_for(GROUP, epoch, WAIT_SECONDS)
        with pytest.raises(NotFound, match="no store credit"), follower.pin_views([CREDIT.name]):
            pass
        epoch = append(open_appender(changelog, [DEBIT, CREDIT]), {2: 2}, {3: 3})
        assert follower.wait_for(GROUP, epoch, WAIT_SECONDS)
        assert both(follower) == ({1: 1, 2: 2}, {3: 3})


@pytest.mark.parametrize("few_epochs", [0, 64])
def test_a_store_that_is_listed_late_is_built_where_its_directory_was_lost(
    changelog: Changelog,
    appender: StoreAppender,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    few_epochs: int,
) -> None:
    """Epochs that have its rows were applied before: it is not taken for a new one."""
    monkeypatch.setattr("engine.replica.recovery.FEW_EPOCHS", few_epochs)
    with run_follower(changelog, tmp_path / "data") as follower:
        for number in range(3):
            newest = append(appender, {number: number}, {number: number})
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
        before = both(follower)
    shutil.rmtree(tmp_path / "data" / "bank" / "credit")
    is_late = Event()
    is_late.set()
    lagging = lagging_changelog(
        tmp_path / "changelog", lambda path: is_late.is_set() and path.startswith("stores/credit/")
    )
    with run_follower(lagging, tmp_path / "data") as follower:
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
        with pytest.raises(NotFound, match="no store credit"), follower.pin_views([CREDIT.name]):
            pass
        is_late.clear()
        newest = append(appender, {7: 7}, {})
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
        wait_until(
            lambda: {row.store for row in follower.status() if row.epoch == newest} == {"debit", "credit"}
        )
        assert both(follower) == ({**before[0], 7: 7}, before[1])


def damage_rows(content: bytes) -> bytes:
    return content[:-5] + b"wrong"


def damage_commit(content: bytes) -> bytes:
    return b"wrong" + content[5:]


def bring_damaged(
    changelog: Path, elsewhere: Path, damage: Callable[[bytes], bytes] = damage_rows
) -> tuple[Epoch, Path, bytes]:
    """Epochs that come while a host runs, of which one is damaged from its first moment on: its number, its
    place, and what it should be.
    """
    shutil.copytree(changelog, elsewhere)
    known = {path.name for path in elsewhere.rglob("*.commit")}
    other = open_appender(Changelog.open(str(elsewhere)), [DEBIT, CREDIT])
    bad = append(other, {2: 2}, {})
    append(other, {3: 3}, {})
    whole = b""
    # The last one first: a host sees none of them before the first is there.
    for path in sorted(
        (path for path in elsewhere.rglob("*.commit") if path.name not in known), reverse=True
    ):
        content, target = path.read_bytes(), changelog / path.relative_to(elsewhere)
        if path.name == f"{bad:020d}.commit":
            whole, place = content, target
            content = damage(content)
        target.write_bytes(content)
    return bad, place, whole


@pytest.mark.parametrize("damage", [damage_rows, damage_commit])
def test_a_damaged_commit_stops_the_group_and_not_its_queries(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    first = append(appender, {1: 1}, {})
    with run_follower(changelog, tmp_path / "data") as follower:
        assert follower.wait_for(GROUP, first, WAIT_SECONDS)
        bad, place, whole = bring_damaged(tmp_path / "changelog", tmp_path / "elsewhere", damage)
        wait_until(lambda: any(row.problem for row in follower.status()))
        assert not follower.wait_for(GROUP, bad, 0.2)
        assert both(follower) == ({1: 1}, {})
        status = {row.store: row for row in follower.status()}[DEBIT.name]
        assert (status.epoch, status.newest_epoch) == (bad - 1, bad + 1)
        assert GROUP in status.problem
        assert str(tmp_path) not in status.problem
        # The report, of which SHOW HOSTS and metrics are made, knows of these epochs, too.
        wait_until(lambda: follower.report()[0][GROUP].is_stuck)
        report = follower.report()[0][GROUP]
        assert (report.newest, report.newest_known) == (bad - 1, bad + 1)
        assert report.unread_since is not None and report.readable[-1].committed_at <= report.unread_since
    # Who starts now cannot come to what is newest, and does not answer as if it had.
    with run_follower(changelog, tmp_path / "data") as follower:
        # What a statement is told comes from the report, which knows it a moment after the status.
        wait_until(lambda: "damaged" in follower.report()[0][GROUP].problem)
        with pytest.raises(
            BuildingError, match=rf"at epoch {bad - 1} of {bad + 1} .* does not get on: .*damaged"
        ):
            both(follower)
        assert not follower.has_caught_up
        place.write_bytes(whole)
        assert follower.wait_for(GROUP, Epoch(bad + 1), WAIT_SECONDS)
        assert both(follower) == ({1: 1, 2: 2, 3: 3}, {})
        wait_until(lambda: not any(row.problem for row in follower.status()))
        assert follower.has_caught_up


def test_a_view_outlives_later_epochs_and_compaction(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    with run_follower(changelog, tmp_path / "data") as follower:
        assert follower.wait_for(GROUP, append(appender, dict.fromkeys(range(50), 0), {}), WAIT_SECONDS)
        with follower.pin_views([DEBIT.name]) as views:
            for number in range(1, 30):
                newest = append(appender, dict.fromkeys(range(50), number), {})
                assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
            assert contents(views[DEBIT.name]) == dict.fromkeys(range(50), 0)
        assert both(follower)[0] == dict.fromkeys(range(50), 29)


def test_status_counts(changelog: Changelog, appender: StoreAppender, tmp_path: Path) -> None:
    with run_follower(changelog, tmp_path / "data") as follower:
        newest = append(appender, {1: 1, 2: 2}, {3: 3})
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
        credit, debit = follower.status()
        assert (credit.store, debit.store) == (StoreName("credit"), StoreName("debit"))
        assert (debit.rows, debit.partitions, debit.epoch, debit.newest_epoch, debit.lag_seconds) == (
            2,
            4,
            newest,
            newest,
            0.0,
        )
        assert debit.bytes >= 2 * 16


def test_a_data_directory_serves_one_changelog_only(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    with run_follower(changelog, tmp_path / "data"):
        pass
    other = Changelog.open(str(tmp_path / "other"))
    open_appender(other, [DEBIT])
    with pytest.raises(InvalidInput, match="belongs to another changelog"):
        Follower(other, tmp_path / "data", OPTIONS).start()


@pytest.mark.parametrize("name", [*sorted(HOST_NAMES), ".aside", ".reached", "shared-0"])
def test_a_group_may_be_called_as_a_file_of_the_data_directory(
    changelog: Changelog, tmp_path: Path, name: str
) -> None:
    """Such as that which is written of a directory: it is not in the way of either."""
    table = pa.table({"account": [1, 2], "amount": [3, 4]})
    epochs = {}
    for each in (name, "good"):
        definition = define_store(each, table.schema, ["account"], partitions=1)
        with open_appender(changelog, [definition]) as appender:
            epochs[GroupName(each)] = appender.append({each: table}).epoch
    for _ in range(2):
        with run_follower(changelog, tmp_path / "data") as follower:
            for group, epoch in epochs.items():
                assert follower.wait_for(group, epoch, WAIT_SECONDS)
                with follower.pin_views([StoreName(group)]) as views:
                    assert contents(views[StoreName(group)]) == {1: 3, 2: 4}


def test_a_disk_that_is_full_at_the_first_start_is_said(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    """A limit on file sizes is what a full disk looks like without root."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(LimitExceeded, match="The disk of the data directory is full"):
            claim(tmp_path / "data", changelog.identity())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    with run_follower(changelog, tmp_path / "data"):
        pass


@pytest.mark.parametrize(
    ("text", "message"), [("no json", "damaged"), ('{"format": 9}', "format 9"), ("[]", "damaged")]
)
def test_a_damaged_data_directory_is_refused(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "livestate.json").write_text(text)
    with pytest.raises(Corrupt, match=message):
        Follower(changelog, tmp_path / "data", OPTIONS).start()


def test_a_lookup_of_many_keys_finds_each_once(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    with run_follower(changelog, tmp_path / "data") as follower:
        append(appender, dict.fromkeys(range(3000), 1), {})
        newest = append(appender, dict.fromkeys(range(0, 3000, 3), 2) | {7: None}, {})
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
        asked = [*range(0, 4000, 2), 7, 0, 0]
        with follower.pin_views([DEBIT.name]) as views:
            found = (
                views[DEBIT.name]
                .lookup(["account", "amount"], pa.record_batch([pa.array(asked)], ["account"]))
                .to_pylist()
            )
    expected = {account: 2 if account % 3 == 0 else 1 for account in asked if account < 3000 and account != 7}
    assert len(found) == len(expected)
    assert {row["account"]: row["amount"] for row in found} == expected


def test_a_partition_that_cannot_be_opened_for_a_while(changelog: Changelog, tmp_path: Path) -> None:
    append_debit = open_appender(changelog, [DEBIT])
    obstacle = tmp_path / "data" / "bank" / "credit" / "2"
    obstacle.parent.mkdir(parents=True)
    obstacle.write_text("no directory")
    with run_follower(changelog, tmp_path / "data") as follower:
        epoch = append_debit.append({"debit": rows({1: 1}).drop_columns("removed")}).epoch
        assert follower.wait_for(GROUP, epoch, WAIT_SECONDS)
        blocked = append(open_appender(changelog, [DEBIT, CREDIT]), {2: 2}, {3: 3})
        wait_until(lambda: any(row.problem for row in follower.status()))
        assert not follower.wait_for(GROUP, blocked, 0.2)
        (status,) = follower.status()
        assert "does not answer" in status.problem
        assert str(tmp_path) not in status.problem
        obstacle.unlink()
        assert follower.wait_for(GROUP, blocked, WAIT_SECONDS)
        assert both(follower) == ({1: 1, 2: 2}, {3: 3})


def test_a_switched_name_is_noticed(changelog: Changelog, appender: StoreAppender, tmp_path: Path) -> None:
    best = StoreName("best")
    with run_follower(changelog, tmp_path / "data") as follower:
        assert follower.wait_for(GROUP, append(appender, {1: 10}, {1: 1}), WAIT_SECONDS)
        assert follower.tables() is follower.definitions()
        changelog.switch(DEBIT.name, CREDIT.name)
        changelog.switch(best, DEBIT.name)
        follower.notify()
        wait_until(lambda: follower.tables() == {"debit": CREDIT, "credit": CREDIT, "best": DEBIT})
        assert follower.definitions() == {"debit": DEBIT, "credit": CREDIT}
        # Nobody tells of this one.
        changelog.switch(DEBIT.name, DEBIT.name)
        wait_until(lambda: follower.tables() == {"debit": DEBIT, "credit": CREDIT, "best": DEBIT})
    with run_follower(changelog, tmp_path / "data") as follower:
        assert follower.tables() == {"debit": DEBIT, "credit": CREDIT, "best": DEBIT}


def test_merged_segments_that_could_not_be_shown_are_shown_later(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: FollowedGroup) -> None:
        raise Unavailable("The disk does not answer.")

    with run_follower(changelog, tmp_path / "data") as follower:
        with monkeypatch.context() as patched:
            patched.setattr(FollowedGroup, "refresh", fail)
            for number in range(2 * OPTIONS.state.fan_out):
                epoch = append(appender, {number: number}, {number: number})
                assert follower.wait_for(GROUP, epoch, WAIT_SECONDS)
            wait_until(lambda: any(row.problem for row in follower.status()))
            # Nothing comes any more that would have them shown.
            assert follower.wait_until_compact(WAIT_SECONDS)
        wait_until(lambda: not any(row.problem for row in follower.status()))


# ---- groups that a host is told of before it knows them


TOLD = replace(OPTIONS, poll_seconds=600.0)
"""Only who is told looks."""


@pytest.fixture
def seldom_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores are not looked for again by themselves."""
    monkeypatch.setattr("engine.replica.store_search.SECONDS_BETWEEN_SEARCHES", 600.0)


def commit_first(changelog: Changelog, group: str) -> tuple[GroupName, Epoch]:
    """The first epoch of a group that is new."""
    store = replace(define(f"store of {group}"), group=GroupName(group))
    table = rows({1: 1}).drop_columns("removed")
    return store.group, open_appender(changelog, [store]).append({store.name: table}).epoch


@pytest.mark.usefixtures("seldom_searched")
def test_a_host_that_is_told_of_groups_that_it_does_not_know_finds_them_at_once(
    changelog: Changelog, tmp_path: Path
) -> None:
    with run_follower(changelog, tmp_path / "data", TOLD) as follower:
        first, second = commit_first(changelog, "first"), commit_first(changelog, "second")
        follower.notify(first[0])
        assert follower.wait_for(*first, WAIT_SECONDS)
        assert follower.wait_for(*second, WAIT_SECONDS)
        third = commit_first(changelog, "third")
        follower.notify(third[0])
        assert follower.wait_for(*third, WAIT_SECONDS)


def call_in_search(
    monkeypatch: pytest.MonkeyPatch, changelog: Changelog, action: Callable[[Changelog], None]
) -> None:
    """Have something done once the stores of the changelog were listed, and before the list is used."""
    listed = Changelog.readable_catalog

    def catalog(self: Changelog) -> Catalog:
        found = listed(self)
        if self is changelog:
            action(self)
        return found

    monkeypatch.setattr(Changelog, "readable_catalog", catalog)


@pytest.mark.usefixtures("seldom_searched")
@pytest.mark.parametrize("is_named", [True, False])
def test_what_is_told_during_a_search_is_looked_for_with_the_next(
    changelog: Changelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_named: bool
) -> None:
    seconds: list[tuple[GroupName, Epoch]] = []

    def commit_second(other: Changelog) -> None:
        if not seconds:
            seconds.append(commit_first(other, "second"))
            follower.notify(seconds[0][0] if is_named else None)

    with run_follower(changelog, tmp_path / "data", TOLD) as follower:
        first = commit_first(changelog, "first")
        call_in_search(monkeypatch, changelog, commit_second)
        follower.notify(first[0])
        assert follower.wait_for(*first, WAIT_SECONDS)
        (second,) = seconds
        assert follower.wait_for(*second, WAIT_SECONDS)


def test_a_search_that_failed_when_a_group_was_told_is_tried_again(
    changelog: Changelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [Unavailable("The changelog does not answer.")] * 2

    def fail(_: Changelog) -> None:
        if failures:
            raise failures.pop()

    with run_follower(changelog, tmp_path / "data", TOLD) as follower:
        first = commit_first(changelog, "first")
        call_in_search(monkeypatch, changelog, fail)
        follower.notify(first[0])
        assert follower.wait_for(*first, WAIT_SECONDS)
        assert not failures
