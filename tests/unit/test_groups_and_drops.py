"""A group of a host while stores are dropped and created beside it: it hears of that late, or meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pytest

from engine.changelog import (
    Changelog,
    Inspection,
    SnapshotRetention,
    StoreAppender,
    open_appender,
    partition_rows,
)
from engine.changelog.backup import back_up, restore
from engine.changelog.layout import STORES_PATH
from engine.changelog.local_objects import LocalObjects
from engine.changelog.skipping import skip_epoch
from engine.changelog.snapshot import EPOCH_WEIGHT
from engine.changelog.store_drops import drop_store, remove_dropped_stores
from engine.errors import Unavailable
from engine.model.migration import parse_changes
from engine.model.schema import Epoch, PartitionId, StoreDefinition, StoreDefinitions, define_store
from engine.replica.group import FollowedGroup
from engine.replica.group_definitions import GroupDefinitions
from engine.replica.group_setup import GroupSetup
from engine.replica.group_views import EpochRetention
from engine.replica.snapshot_options import SnapshotOptions
from engine.replica.snapshot_schedule import DueSnapshot
from engine.replica.snapshotter import SnapshotMaker
from engine.state.cache import ColumnCache
from engine.state.partition import PartitionStore
from engine.state.rocks import shared_options
from engine.state.state_options import StateOptions
from engine.state.state_view import StateView
from tests.support.following import GROUP, PARTITIONS, contents, define, live_rows

ACCOUNTS, LIMITS, OTHERS = define("accounts"), define("limits"), define("others")
FEES = define_store(
    ACCOUNTS.name,
    pa.schema([("account", pa.int64()), ("fee", pa.int32())]),
    ["account"],
    partitions=2,
    group=GROUP,
)
"""Another store of the name, in fewer partitions."""
STATE = StateOptions(block_rows=16, fan_out=3)
NOW = 1_789_000_000_000_000
MOST_STEPS = 50


class Host:
    """The group on one host, which does nothing by itself.

    Attributes:
        changelog: What it follows.
        due: Snapshots that it is to write.
        compacted: For each request to compact a partition, the epochs that could be read, and that were
            reported.
    """

    def __init__(self, root: str, directory: Path, workers: ThreadPoolExecutor) -> None:
        self.changelog = Changelog.open(root)
        self.due: list[DueSnapshot] = []
        self.compacted: list[tuple[Epoch, Epoch]] = []
        clock = count(0, 1000)
        self.state = FollowedGroup(
            GROUP,
            self.changelog,
            GroupSetup(
                directory=directory,
                cache=ColumnCache(1 << 20),
                options=STATE,
                shared_options=shared_options(STATE),
                held=lambda definition: range(definition.partitions),  # type: ignore[arg-type, return-value]
                retention=EpochRetention(seconds=0.0, versions=2, bytes=1 << 20),
                workers=workers,
                request_compaction=lambda group, store: self.note_compaction(),
                snapshot_after=EPOCH_WEIGHT,
                now=lambda: NOW,
                clock=lambda: float(next(clock)),
            ),
        )

    def note_compaction(self) -> None:
        """Note what can be read as a partition is to be compacted."""
        view = self.state.view
        if view is not None:
            self.compacted.append((view.epoch, self.state.reported[0].newest))

    def look(self) -> None:
        """Take up what is new of the stores."""
        self.state.add_stores(self.changelog.readable_catalog().stores.values())

    def step(self) -> None:
        """Step until nothing is left to be done."""
        for _ in range(MOST_STEPS):
            has_moved = self.state.step()
            due = self.state.take_due_snapshot()
            self.due += [due] if due is not None else []
            if not has_moved:
                return
        raise AssertionError("The group never comes to rest.")

    def amounts(self, store: StoreDefinition) -> set[int]:
        """What a store has, as the host answers."""
        return set(contents(self.view(store)).values())

    def view(self, store: StoreDefinition) -> StateView:
        """A store as the host answers."""
        view = self.state.view
        assert view is not None
        return view.store(store.name, None)


@contextmanager
def restarted_host(root: str, directory: Path) -> Iterator[Host]:
    """A host that has been at rest with what there is, and has looked for nothing since it started again."""
    with ThreadPoolExecutor(2) as workers:
        before = Host(root, directory, workers)
        before.look()
        before.step()
        before.state.close()
        host = Host(root, directory, workers)
        yield host
        host.state.close()


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "changelog")


@pytest.fixture
def host(root: str, tmp_path: Path) -> Iterator[Host]:
    with ThreadPoolExecutor(2) as workers:
        made = Host(root, tmp_path / "data", workers)
        yield made
        made.state.close()


def append(appender: StoreAppender, amount: int, *stores: StoreDefinition) -> Epoch:
    numbers = {"account": range(10), "amount": [amount] * 10, "fee": [amount] * 10}
    rows: dict[str, pa.Table] = {
        store.name: pa.table({name: numbers[name] for name in store.schema.names}, store.schema)
        for store in stores
    }
    return appender.append(rows).epoch


def put_back(copy: Path, root: str) -> None:
    """Restore the changelog from a copy."""
    shutil.rmtree(root)
    shutil.copytree(copy, root)


def drop(root: str, store: StoreDefinition) -> None:
    changelog = Changelog.open(root)
    drop_store(changelog, store.name, "ann@ops", NOW)
    remove_dropped_stores(changelog, store.group)


def test_a_store_that_comes_while_others_are_to_be_built_again(root: str, host: Host) -> None:
    """It does not begin without them."""
    appender = open_appender(Changelog.open(root), [ACCOUNTS])
    skipped = append(appender, 1, ACCOUNTS)
    append(appender, 2, ACCOUNTS)
    host.look()
    host.step()
    skip_epoch(Changelog.open(root), GROUP, skipped, "It was drawn.", "ann@ops", NOW, force=True)
    host.changelog.generation(GROUP)
    host.state.heed_amendments()
    assert host.state.view is None
    open_appender(Changelog.open(root), [LIMITS])
    host.look()
    assert host.state.view is None
    host.step()
    assert (host.amounts(ACCOUNTS), host.amounts(LIMITS)) == ({2}, set())


def test_an_epoch_that_is_passed_by_in_the_middle_of_a_step_is_said_to_be(root: str, host: Host) -> None:
    """What the host applied is not said to be lost, or of before a backup was restored."""
    appender = open_appender(Changelog.open(root), [ACCOUNTS])
    skipped = append(appender, 1, ACCOUNTS)
    host.look()
    host.step()
    skip_epoch(Changelog.open(root), GROUP, skipped, "It was drawn.", "ann@ops", NOW, force=True)
    append(open_appender(Changelog.open(root), [ACCOUNTS]), 2, ACCOUNTS)
    host.changelog.generation(GROUP)
    host.state.step()
    assert host.state.view is None
    assert f"Epoch {skipped} of store group {GROUP} was passed by" in host.state.rebuild_reason
    host.step()
    assert host.amounts(ACCOUNTS) == {2}


def test_a_partition_that_was_opened_before_its_store_was_dropped(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was left open where another one could not be opened, and is not that of the store that followed."""
    append(open_appender(Changelog.open(root), [ACCOUNTS, LIMITS]), 1, ACCOUNTS, LIMITS)
    with restarted_host(root, tmp_path / "data") as host:
        opened = GroupSetup.open

        def open_accounts(setup: GroupSetup, definition: StoreDefinition, *others: Any) -> PartitionStore:
            if definition.name == LIMITS.name:
                raise Unavailable("The disk does not answer.")
            return opened(setup, definition, *others)

        with monkeypatch.context() as patches:
            patches.setattr(GroupSetup, "open", open_accounts)
            with pytest.raises(Unavailable, match="does not answer"):
                host.look()
        drop(root, ACCOUNTS)
        append(open_appender(Changelog.open(root), [ACCOUNTS, LIMITS]), 2, LIMITS)
        host.changelog.generation(GROUP)
        host.look()
        host.step()
        while host.state.is_rebuilding:
            host.state.rebuild()
        assert (host.amounts(ACCOUNTS), host.amounts(LIMITS)) == (set(), {2})


def test_a_store_that_is_back_in_a_restored_changelog_has_its_rows(
    root: str, tmp_path: Path, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no new one, which would have none up to the group's epoch."""
    monkeypatch.setattr("engine.changelog.amendments.SECONDS_BETWEEN_CHECKS", 0.0)
    append(open_appender(Changelog.open(root), [ACCOUNTS, LIMITS, OTHERS]), 1, ACCOUNTS, LIMITS, OTHERS)
    copy = Path(shutil.copytree(root, tmp_path / "copy"))
    host.look()
    host.step()
    drop_store(Changelog.open(root), ACCOUNTS.name, "ann@ops", NOW)
    host.changelog.generation(GROUP)
    host.state.heed_amendments()
    put_back(copy, root)
    drop_store(Changelog.open(root), LIMITS.name, "bob@ops", NOW)
    host.changelog.generation(GROUP)
    host.state.heed_amendments()
    host.look()
    while host.state.is_rebuilding:
        host.state.rebuild()
    assert (host.amounts(ACCOUNTS), host.amounts(OTHERS)) == ({1}, {1})


def test_another_store_behind_the_same_drop_in_a_restored_changelog(
    root: str, tmp_path: Path, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the host has applied has given way to a snapshot, so nothing of it differs."""
    monkeypatch.setattr("engine.changelog.amendments.SECONDS_BETWEEN_CHECKS", 0.0)
    append(open_appender(Changelog.open(root), [ACCOUNTS]), 1, ACCOUNTS)
    drop(root, ACCOUNTS)
    copy = Path(shutil.copytree(root, tmp_path / "copy"))
    append(open_appender(Changelog.open(root), [ACCOUNTS]), 2, ACCOUNTS)
    host.look()
    host.step()
    assert host.amounts(ACCOUNTS) == {2}
    put_back(copy, root)
    for _ in range(5):
        Changelog.open(root).writer(GROUP, "job")
    remove_dropped_stores(Changelog.open(root), GROUP)
    append(open_appender(Changelog.open(root), [FEES]), 3, FEES)
    host.look()
    host.state.heed_amendments()
    assert host.state.has_ended


def test_another_store_of_a_restored_changelog_beside_one_that_stays(
    root: str, tmp_path: Path, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not empty at the group's epoch, nor read at that of another history."""
    monkeypatch.setattr("engine.changelog.amendments.SECONDS_BETWEEN_CHECKS", 0.0)
    append(open_appender(Changelog.open(root), [ACCOUNTS, LIMITS]), 1, ACCOUNTS, LIMITS)
    drop(root, ACCOUNTS)
    copy = Path(shutil.copytree(root, tmp_path / "copy"))
    append(open_appender(Changelog.open(root), [ACCOUNTS, LIMITS]), 2, ACCOUNTS, LIMITS)
    host.look()
    host.step()
    assert (host.amounts(ACCOUNTS), host.amounts(LIMITS)) == ({2}, {2})
    put_back(copy, root)
    append(open_appender(Changelog.open(root), [FEES, LIMITS]), 3, FEES, LIMITS)
    host.look()
    host.state.heed_amendments()
    host.look()
    assert host.state.is_rebuilding
    while host.state.view is not None:
        assert host.state.rebuild()
    for _ in range(MOST_STEPS):
        host.state.step()
        host.state.rebuild()
    fees = host.view(FEES)
    assert fees.definition.schema == FEES.schema
    assert live_rows(fees)["fee"].to_pylist() == [3] * 10
    assert host.amounts(LIMITS) == {3}


def test_another_migration_of_the_same_number_in_a_restored_changelog(
    root: str, tmp_path: Path, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the host has applied has given way to a snapshot, so nothing of it differs."""
    monkeypatch.setattr("engine.changelog.amendments.SECONDS_BETWEEN_CHECKS", 0.0)
    append(open_appender(Changelog.open(root), [ACCOUNTS]), 1, ACCOUNTS)
    copy = Path(shutil.copytree(root, tmp_path / "copy"))
    changelog = Changelog.open(root)
    changelog.migrate_store(ACCOUNTS.name, parse_changes(rename=["amount=sum"]))
    append(open_appender(changelog, [ACCOUNTS]), 2, ACCOUNTS)
    host.look()
    host.step()
    assert host.view(ACCOUNTS).definition.schema.names == ["account", "sum"]
    put_back(copy, root)
    changelog = Changelog.open(root)
    after = changelog.migrate_store(ACCOUNTS.name, parse_changes(add=["note VARCHAR"])).after
    for amount in range(3):
        append(open_appender(changelog, [ACCOUNTS]), amount, ACCOUNTS)
    newest = changelog.read_commit(GROUP, changelog.newest_epoch(GROUP))
    assert newest is not None
    places = [(ACCOUNTS.name, PartitionId(number)) for number in range(PARTITIONS)]
    row = {"account": 1, "amount": 7, "note": "kept"}
    rows = [
        ((ACCOUNTS.name, number), batch)
        for number, batch in partition_rows(after, pa.Table.from_pylist([row], after.schema)).items()
    ]
    snapshots = changelog.snapshots(GROUP)
    snapshots.write_part(newest.epoch, {ACCOUNTS.name: after}, places, rows, newest.generation, newest.digest)
    assert snapshots.commit(newest, places)
    changelog.drop_before(GROUP, newest.epoch)
    host.step()
    assert live_rows(host.view(ACCOUNTS)).to_pylist() == [row]


def test_a_changelog_that_was_restored_before_an_epoch_of_it_could_be_shown(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lacks the migration that the epoch takes."""
    append(open_appender(Changelog.open(root), [ACCOUNTS]), 1, ACCOUNTS)
    copy = Path(shutil.copytree(root, tmp_path / "copy"))
    Changelog.open(root).migrate_store(ACCOUNTS.name, parse_changes(add=["note VARCHAR"]))
    append(open_appender(Changelog.open(root), [ACCOUNTS]), 2, ACCOUNTS)
    with restarted_host(root, tmp_path / "data") as host:

        def refuse(definitions: GroupDefinitions, generation: int) -> StoreDefinitions:
            raise Unavailable("The changelog does not answer.")

        with monkeypatch.context() as patches:
            patches.setattr(GroupDefinitions, "open_stores", refuse)
            with pytest.raises(Unavailable, match="does not answer"):
                host.look()
        put_back(copy, root)
        host.changelog.forget_history(GROUP)
        host.step()
        assert host.amounts(ACCOUNTS) == {1}


def test_what_a_snapshot_lacks_is_not_taken_for_empty(root: str, host: Host) -> None:
    """The store was dropped behind the host's last look, and its epochs have gone."""
    appender = open_appender(Changelog.open(root), [ACCOUNTS])
    append(appender, 1, ACCOUNTS)
    host.look()
    drop(root, ACCOUNTS)
    with pytest.raises(Unavailable, match="lets go of stores that were dropped before it goes on: accounts"):
        host.step()
    assert host.state.view is None
    host.state.heed_amendments()
    assert host.state.has_ended


def test_a_drop_of_the_same_number_in_a_restored_changelog(
    root: str, tmp_path: Path, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store that followed the other drop is no more; nor is there another one."""
    monkeypatch.setattr("engine.changelog.amendments.SECONDS_BETWEEN_CHECKS", 0.0)
    append(open_appender(Changelog.open(root), [ACCOUNTS]), 1, ACCOUNTS)
    copy = Path(shutil.copytree(root, tmp_path / "copy"))
    drop(root, ACCOUNTS)
    append(open_appender(Changelog.open(root), [ACCOUNTS]), 2, ACCOUNTS)
    host.look()
    host.step()
    assert host.amounts(ACCOUNTS) == {2}
    put_back(copy, root)
    drop_store(Changelog.open(root), ACCOUNTS.name, "bob@ops", NOW)
    host.changelog.generation(GROUP)
    host.state.heed_amendments()
    assert host.state.has_ended


def test_a_snapshot_has_nothing_of_a_store_that_begins_later(root: str, host: Host) -> None:
    """Others have not heard that there is a new one of the name."""
    appender = open_appender(Changelog.open(root), [ACCOUNTS, LIMITS])
    for amount in range(1, 4):
        append(appender, amount, ACCOUNTS, LIMITS)
    drop(root, ACCOUNTS)
    again = open_appender(Changelog.open(root), [ACCOUNTS, LIMITS])
    append(again, 9, ACCOUNTS, LIMITS)
    host.look()
    host.step()
    assert host.amounts(ACCOUNTS) == {9}
    before = [view for view, _ in host.due if not view.generation]
    assert before
    assert all(set(view.stores) == {"limits"} for view in before)


def test_an_epoch_can_be_read_before_partitions_are_merged_and_is_reported_behind_that(
    root: str, host: Host
) -> None:
    """Merges take processors and the interpreter from what readers wait for; and who has waited for an epoch,
    and waits for the merges behind it, is not to come before these were asked for.
    """
    appender = open_appender(Changelog.open(root), [ACCOUNTS])
    append(appender, 1, ACCOUNTS)
    host.look()
    host.step()
    epoch = append(appender, 2, ACCOUNTS)
    host.compacted.clear()
    host.step()
    assert set(host.compacted) == {(epoch, Epoch(epoch - 1))}


OTHER_LIMITS = replace(
    define_store("limits", pa.schema([("account", pa.int64()), ("most", pa.int64())]), ["account"]),
    group=GROUP,
)
"""Another store of the name."""


def settle(host: Host) -> None:
    """Have the host come to rest, whatever it is to let go of first."""
    for _ in range(4):
        host.changelog.generation(GROUP)
        host.state.heed_amendments()
        with suppress(Unavailable):
            host.look()
            host.step()
        while host.state.is_rebuilding:
            host.state.rebuild()


def columns(host: Host) -> dict[str, list[str]]:
    """Those of the stores that can be read."""
    view = host.state.view
    assert view is not None
    return {name: each.schema.names for name, each in view.definitions.items()}


@pytest.mark.parametrize("has_rows", [False, True])
@pytest.mark.parametrize("is_created_again", [False, True])
def test_a_store_that_a_restored_changelog_lacks(
    root: str, tmp_path: Path, host: Host, *, is_created_again: bool, has_rows: bool
) -> None:
    """It is there no more once epochs tell; one that was created under its name since is another one."""
    append(open_appender(Changelog.open(root), [ACCOUNTS]), 1, ACCOUNTS)
    copy = Path(shutil.copytree(root, tmp_path / "copy"))
    Changelog.open(root).create_store(LIMITS)
    if has_rows:
        append(open_appender(Changelog.open(root), [ACCOUNTS, LIMITS]), 2, ACCOUNTS, LIMITS)
    host.look()
    host.step()
    assert host.amounts(LIMITS) == ({2} if has_rows else set())
    put_back(copy, root)
    stores = [ACCOUNTS, OTHER_LIMITS] if is_created_again else [ACCOUNTS]
    appender = open_appender(Changelog.open(root), stores)
    append(appender, 3, ACCOUNTS)
    if is_created_again:
        appender.append({"limits": pa.table({"account": [1], "most": [3]})})
    append(appender, 4, ACCOUNTS)
    settle(host)
    assert host.amounts(ACCOUNTS) == {4}
    found = columns(host)
    if not (has_rows or is_created_again):
        assert found.pop("limits") == ["account", "amount"], "nobody can tell that it is gone"
    assert found == {each.name: each.schema.names for each in stores}


def test_commits_that_were_read_before_a_restore_are_not_taken_for_those_of_another_migration(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the number of the one that the partitions have taken up."""
    append(open_appender(Changelog.open(root), [ACCOUNTS]), 1, ACCOUNTS)
    copy = Path(shutil.copytree(root, tmp_path / "copy"))
    Changelog.open(root).migrate_store(ACCOUNTS.name, parse_changes(add=["note VARCHAR"]))
    append(open_appender(Changelog.open(root), [ACCOUNTS]), 2, ACCOUNTS)
    with restarted_host(root, tmp_path / "data") as host:
        append(open_appender(Changelog.open(root), [ACCOUNTS]), 3, ACCOUNTS)
        host.look()
        with monkeypatch.context() as patches:
            patches.setattr("engine.replica.group.QUICK_BYTES", 0)
            assert host.state.step(is_quick=True) and host.state.is_long
        put_back(copy, root)
        Changelog.open(root).migrate_store(ACCOUNTS.name, parse_changes(drop=["amount"], add=["most BIGINT"]))
        append_to = open_appender(Changelog.open(root), [ACCOUNTS])
        append_to.append({})
        host.changelog.forget_history(GROUP)
        settle(host)
        assert columns(host) == {"accounts": ["account", "most"]}


def test_commits_that_were_read_before_a_restore_have_the_rows_of_a_store_that_is_back(
    root: str, tmp_path: Path, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were read without them, as the store was dropped then."""
    monkeypatch.setattr("engine.changelog.amendments.SECONDS_BETWEEN_CHECKS", 0.0)
    append(open_appender(Changelog.open(root), [ACCOUNTS, LIMITS]), 1, ACCOUNTS, LIMITS)
    copy = Path(shutil.copytree(root, tmp_path / "copy"))
    drop_store(Changelog.open(root), LIMITS.name, "ann@ops", NOW)
    host.look()
    with monkeypatch.context() as patches:
        patches.setattr("engine.replica.group.QUICK_BYTES", 0)
        while not host.state.is_long:
            assert host.state.step(is_quick=True)
    put_back(copy, root)
    host.changelog.generation(GROUP)
    host.state.heed_amendments()
    host.look()
    while host.state.is_rebuilding:
        host.state.rebuild()
    host.step()
    assert (host.amounts(ACCOUNTS), host.amounts(LIMITS)) == ({1}, {1})


@pytest.mark.parametrize("is_due_before", [False, True])
def test_no_snapshot_counts_that_lacks_a_store_that_is_back_in_a_restored_changelog(
    root: str, tmp_path: Path, host: Host, *, is_due_before: bool
) -> None:
    """It was dropped when the snapshot became due, or has not been opened since it is back. The epochs that
    have its rows would go for the snapshot.
    """
    append(open_appender(Changelog.open(root), [ACCOUNTS, LIMITS]), 1, ACCOUNTS, LIMITS)
    copy = Path(shutil.copytree(root, tmp_path / "copy"))
    drop_store(Changelog.open(root), LIMITS.name, "ann@ops", NOW)
    host.look()
    host.step()
    put_back(copy, root)
    if not is_due_before:
        append(open_appender(Changelog.open(root), [ACCOUNTS, LIMITS]), 2, ACCOUNTS)
        host.changelog.forget_history(GROUP)
        host.state.heed_amendments()
        host.step()
    options = SnapshotOptions(EPOCH_WEIGHT, SnapshotRetention(kept=1, tail_seconds=0))
    maker = SnapshotMaker(host.changelog, options, lambda: NOW, Event())
    view, commit = host.due[-1]
    assert view.digest == commit.digest and list(view.stores) == [ACCOUNTS.name]
    assert maker.advance(view, commit, 1000.0)
    restored = Changelog.open(root)
    assert (restored.snapshots(GROUP).epochs(), restored.committed_epochs(GROUP)[0]) == ([], 1)
    settle(host)
    again = open_appender(restored, [ACCOUNTS, LIMITS])
    while host.due[-1][0] is view:
        append(again, 3, ACCOUNTS)
        host.step()
    view, commit = host.due[-1]
    assert maker.advance(view, commit, 1000.0)
    assert restored.snapshots(GROUP).epochs() == [view.epoch]
    assert (host.amounts(ACCOUNTS), host.amounts(LIMITS)) == ({3}, {1})


def test_a_restored_changelog_gets_snapshots_before_it_has_come_as_far_as_it_was(
    root: str, tmp_path: Path, host: Host
) -> None:
    host.look()
    copy: Path | None = None
    for number in range(20):
        append(open_appender(Changelog.open(root), [ACCOUNTS]), number, ACCOUNTS)
        host.look()
        host.step()
        copy = copy or Path(shutil.copytree(root, tmp_path / "copy"))
    maker = SnapshotMaker(host.changelog, SnapshotOptions(EPOCH_WEIGHT), lambda: NOW, Event())
    counted = host.due[-1][0].epoch
    assert maker.advance(*host.due[-1], 1000.0)
    while host.due[-1][0].epoch <= counted:
        append(open_appender(Changelog.open(root), [ACCOUNTS]), 1, ACCOUNTS)
        host.step()
    assert copy is not None
    put_back(copy, root)
    settle(host)
    host.due.clear()
    for number in range(4):
        append(open_appender(Changelog.open(root), [ACCOUNTS]), number, ACCOUNTS)
        host.step()
    assert host.due
    assert host.due[-1][0].epoch < counted


def test_a_host_says_what_it_has_at_an_epoch_of_each_history(root: str, tmp_path: Path, host: Host) -> None:
    append(open_appender(Changelog.open(root), [ACCOUNTS]), 1, ACCOUNTS)
    copy = Path(shutil.copytree(root, tmp_path / "copy"))
    host.look()
    maker, other = (
        SnapshotMaker(host.changelog, SnapshotOptions(EPOCH_WEIGHT, host=name), lambda: NOW, Event())
        for name in ("this", "other")
    )
    found = []
    for amount, makers in ((2, (maker, other)), (3, (other, maker))):
        append(open_appender(Changelog.open(root), [ACCOUNTS]), amount, ACCOUNTS)
        settle(host)
        view, commit = host.due[-1]
        assert all(each.advance(view, commit, 1000.0) for each in makers)
        claims = host.changelog.snapshots(GROUP).checksums(view.epoch, commit.digest)
        assert {claim.host for claim in claims} == {"this", "other"}
        if amount == 2:
            put_back(copy, root)
        found.append((view.epoch, view.digest))
    (first, one), (second, another) = found
    assert first == second
    assert one != another


def test_no_snapshot_is_begun_where_a_changelog_was_moved_away(root: str, tmp_path: Path, host: Host) -> None:
    append(open_appender(Changelog.open(root), [ACCOUNTS, LIMITS]), 1, ACCOUNTS)
    host.look()
    host.step()
    maker = SnapshotMaker(host.changelog, SnapshotOptions(EPOCH_WEIGHT), lambda: NOW, Event())
    Path(root).rename(tmp_path / "away")
    assert maker.advance(*host.due[-1], 1000.0)
    assert not Path(root).exists()


class ObjectsBeingRestored(LocalObjects):
    """Objects that a restore writes while a host goes on with the snapshot that it had begun."""

    advance: Callable[[], object] = staticmethod(lambda: None)

    def create(self, path: str, chunks: Sequence[pa.Buffer]) -> bool:
        """See `Objects.create`. Definitions come last."""
        if path.startswith(STORES_PATH):
            ObjectsBeingRestored.advance()
        return super().create(path, chunks)


def test_no_snapshot_is_made_of_a_changelog_that_is_being_restored(
    root: str, tmp_path: Path, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Epochs would go for it, and then the restore would delete it: the backup has no such one."""
    appender = open_appender(Changelog.open(root), [ACCOUNTS])
    for number in range(4):
        append(appender, number, ACCOUNTS)
    host.look()
    host.step()
    view, commit = host.due[-1]
    append(appender, 4, ACCOUNTS)
    backup = Changelog.open("memory://")
    list(back_up(Changelog.open(root), backup, {}, NOW))
    Path(root).rename(tmp_path / "away")
    options = SnapshotOptions(EPOCH_WEIGHT, SnapshotRetention(kept=1, tail_seconds=0))
    maker = SnapshotMaker(host.changelog, options, lambda: NOW, Event())
    advance = partial(maker.advance, view, commit, 1000.0)
    monkeypatch.setattr(ObjectsBeingRestored, "advance", staticmethod(advance))
    place = Changelog(root, {}, ObjectsBeingRestored(Path(root)))
    list(restore(Changelog("memory://", {}, backup.objects), place, {}))
    assert [each.faults for each in Inspection(Changelog.open(root)).read() if each.faults] == []
    settle(host)
    assert host.amounts(ACCOUNTS) == {4}


@pytest.mark.parametrize("epochs", [0, 1, 2])
def test_what_a_disk_has_of_a_store_that_a_restored_changelog_lacked(
    root: str, tmp_path: Path, *, epochs: int
) -> None:
    """It is not of the one that was created under its name since: that comes while others can be read, at an
    epoch before that of the disk, at the same, or at a later one.
    """
    append(open_appender(Changelog.open(root), [ACCOUNTS]), 1, ACCOUNTS)
    copy = Path(shutil.copytree(root, tmp_path / "copy"))
    append(open_appender(Changelog.open(root), [ACCOUNTS, LIMITS]), 2, ACCOUNTS, LIMITS)
    with restarted_host(root, tmp_path / "data") as host:
        put_back(copy, root)
        for _ in range(epochs):
            append(open_appender(Changelog.open(root), [ACCOUNTS]), 3, ACCOUNTS)
        settle(host)
        before = 3 if epochs else 1
        assert (host.amounts(ACCOUNTS), list(columns(host))) == ({before}, ["accounts"])
        again = open_appender(Changelog.open(root), [ACCOUNTS, LIMITS])
        host.look()
        assert (host.amounts(ACCOUNTS), host.amounts(LIMITS)) == ({before}, set())
        append(again, 4, LIMITS)
        settle(host)
        assert (host.amounts(ACCOUNTS), host.amounts(LIMITS)) == ({before}, {4})


def test_a_store_that_is_opened_late_gets_what_its_disk_lacks(root: str, tmp_path: Path) -> None:
    """Its definition could not be read at first, and its disk was put back as it was before an epoch that the
    others have.
    """
    appender = open_appender(Changelog.open(root), [ACCOUNTS, LIMITS])
    append(appender, 1, ACCOUNTS, LIMITS)
    with restarted_host(root, tmp_path / "data"):
        (disk,) = (tmp_path / "data").glob(f"**/{LIMITS.name}")
        copy = Path(shutil.copytree(disk, tmp_path / "copy"))
    append(appender, 2, ACCOUNTS, LIMITS)
    with restarted_host(root, tmp_path / "data") as host:
        put_back(copy, str(disk))
        host.state.add_stores([ACCOUNTS])
        host.step()
        assert host.amounts(ACCOUNTS) == {2}
        settle(host)
        assert (host.amounts(ACCOUNTS), host.amounts(LIMITS)) == ({2}, {2})
