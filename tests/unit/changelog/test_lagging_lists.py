"""An object store whose lists do not show yet what was written: nobody takes a group whose first epochs are
gone for a new one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.changelog import Changelog
from engine.changelog.backup import back_up, restore
from engine.changelog.layout import dropped_path, snapshot_path
from engine.changelog.skipping import skip_epoch
from engine.errors import InvalidInput, Unavailable
from engine.model.schema import Epoch
from engine.replica.follower import Follower
from tests.support.following import OPTIONS
from tests.support.lagging_objects import lagging_changelog
from tests.support.waiting import wait_until
from tests.unit.changelog.test_snapshots import GROUP, LATER, NO_TAIL, append_many, take


def without_snapshots(root: Path, shown: int = 0) -> Changelog:
    """A changelog whose lists show no snapshot that is newer than an epoch."""
    last = snapshot_path(GROUP, Epoch(shown))
    return lagging_changelog(root, lambda path: path.endswith(".snapshot") and path > last)


@pytest.fixture
def root_after_drops(local: Changelog) -> Path:
    """The root of a changelog that begins at epoch 7 and ends at 9."""
    epochs = append_many(local, 8)
    for epoch in epochs[2], epochs[6]:
        take(local, epoch, *range(epoch))
    assert local.drop(GROUP, NO_TAIL, LATER).epochs == 6
    return Path(local.uri)


@pytest.mark.parametrize("shown", [0, 3])
def test_a_writer_does_not_begin_anew(root_after_drops: Path, shown: int) -> None:
    with pytest.raises(Unavailable, match="cannot be told"):
        without_snapshots(root_after_drops, shown).newest_epoch(GROUP)
    with pytest.raises(Unavailable, match="cannot be told"):
        without_snapshots(root_after_drops, shown).writer(GROUP, "w")
    assert Changelog.open(str(root_after_drops)).committed_epochs(GROUP) == [7, 8, 9]
    assert without_snapshots(root_after_drops, shown).newest_epoch(GROUP, Epoch(7)) == 9
    assert Changelog.open(str(root_after_drops)).writer(GROUP, "w").epoch == 10


@pytest.mark.parametrize("shown", [0, 3])
def test_an_epoch_is_not_passed_by_that_all_others_stand_on(root_after_drops: Path, shown: int) -> None:
    """No snapshot would count, and what was before is gone."""
    changelog = without_snapshots(root_after_drops, shown)
    with pytest.raises(InvalidInput, match="in the snapshot at epoch 7"):
        skip_epoch(changelog, GROUP, Epoch(7), "drawn", "ann@ops", 0, force=True)
    assert skip_epoch(changelog, GROUP, Epoch(8), "drawn", "ann@ops", 0, force=True).epoch == 8
    (snapshot,) = Changelog.open(str(root_after_drops)).usable_snapshots(GROUP)
    assert snapshot.epoch == 7


def test_the_beginning_is_known_to_be_gone(root_after_drops: Path) -> None:
    """So a writer that found the group empty and slept takes back what it has created."""
    changelog = without_snapshots(root_after_drops)
    assert not changelog.holds(GROUP, Epoch(0))
    (root_after_drops / dropped_path(GROUP)).unlink()  # as an older version left it
    assert changelog.holds(GROUP, Epoch(0))
    assert not Changelog.open(str(root_after_drops)).holds(GROUP, Epoch(0))


def test_a_host_waits_for_the_list(root_after_drops: Path, tmp_path: Path) -> None:
    host = Follower(without_snapshots(root_after_drops), tmp_path / "data", OPTIONS)
    host.start()
    try:
        wait_until(lambda: any("cannot be told" in status.problem for status in host.status()))
    finally:
        host.stop()


def test_a_host_that_is_behind_keeps_what_it_has(local: Changelog, tmp_path: Path) -> None:
    """Its epoch was root_after_drops, and the snapshot is not listed: that is no other history."""
    append_many(local, 2)
    root = Path(local.uri)
    host = Follower(without_snapshots(root), tmp_path / "data", OPTIONS)
    host.start()
    try:
        assert host.wait_for(GROUP, Epoch(3), 60)
    finally:
        host.stop()
    take(local, append_many(local, 5)[-1], 1)
    local.drop(GROUP, NO_TAIL, LATER)
    host = Follower(without_snapshots(root), tmp_path / "data", OPTIONS)
    host.start()
    try:
        wait_until(lambda: any(status.problem for status in host.status()))
        assert not list((tmp_path / "data" / ".aside").glob("**/CURRENT"))
        assert "another" not in "".join(status.problem for status in host.status())
    finally:
        host.stop()


def test_an_older_changelog_says_it_with_the_next_drop(local: Changelog) -> None:
    epochs = append_many(local, 8)
    take(local, epochs[3], 1)
    local.drop(GROUP, NO_TAIL, LATER)
    (Path(local.uri) / dropped_path(GROUP)).unlink()
    take(local, epochs[6], 1)
    local.drop(GROUP, NO_TAIL, LATER)
    assert local.objects.exists(dropped_path(GROUP))


def test_a_backup_says_it_too(root_after_drops: Path, tmp_path: Path) -> None:
    backup = Changelog.open(str(tmp_path / "backup"))
    list(back_up(Changelog.open(str(root_after_drops)), backup, {}, 1))
    list(restore(backup, Changelog.open(str(tmp_path / "restored")), {}))
    with pytest.raises(Unavailable, match="cannot be told"):
        without_snapshots(tmp_path / "restored").newest_epoch(GROUP)


def test_a_floor_of_a_restored_changelog_takes_the_place_of_one_that_was_known(local: Changelog) -> None:
    """The number of the floor is the same, and another epoch is the first that stays."""
    epochs = append_many(local, 8)
    take(local, epochs[6], 1)
    copy = {path: local.objects.get(path) for path in local.objects.list("groups")}
    local.drop(GROUP, NO_TAIL, LATER)
    assert not local.holds(GROUP, epochs[4])
    local.objects.delete(list(local.objects.list("groups")))
    for path, data in copy.items():
        assert data is not None
        local.objects.create(path, [data])
    other = Changelog.open(local.uri)
    other.snapshots(GROUP).retract(epochs[6])
    take(other, epochs[2], 1)
    other.drop(GROUP, NO_TAIL, LATER)
    assert local.holds(GROUP, epochs[4])
