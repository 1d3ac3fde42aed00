"""Backups on every kind of storage: whole or not there, brought up to date, and made a changelog of again."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, Inspection, SnapshotRetention, open_appender
from engine.changelog.backup import Progress, back_up, finished_mark, restore
from engine.changelog.chain import EPOCHS_AT_ONCE
from engine.changelog.layout import (
    FORMAT_PATH,
    GROUPS_PATH,
    MARKS_PATH,
    STORES_PATH,
    TEMPORARY_SUFFIX,
    commit_path,
    definition_path,
    mark_path,
    snapshots_path,
)
from engine.changelog.local_objects import LocalObjects
from engine.changelog.objects import Objects, open_objects
from engine.changelog.rows import partition_rows
from engine.changelog.skipping import skip_epoch
from engine.changelog.snapshot import HostChecksums
from engine.changelog.store_drops import drop_store
from engine.errors import Corrupt, InvalidInput, LivestateError, NotFound, Unavailable
from engine.model.migration import parse_changes
from engine.model.schema import Epoch, GroupName, PartitionId, StoreName, define_store
from tests.support.stopping_objects import Stopped, StoppingObjects
from tests.unit.changelog.conftest import PLAYS, flat, read, rows

Reopen = Callable[[], Changelog]
GROUP = PLAYS.group
EVERYWHERE = [(PLAYS.name, PartitionId(number)) for number in range(PLAYS.partitions)]
NO_TAIL = SnapshotRetention(kept=1, tail_seconds=0)
LATER = 4_000_000_000_000_000
NOW = 1_700_000_000_000_000


def empty_place() -> Changelog:
    return Changelog("memory://", {}, open_objects("memory://", {}))


def reopen_place(changelog: Changelog) -> Changelog:
    """The same place, as another process sees it."""
    return Changelog(changelog.uri, {}, changelog.objects)


def append(changelog: Changelog, songs: Iterable[int]) -> None:
    appender = open_appender(changelog, [PLAYS])
    for song in songs:
        appender.append({"plays": rows(song, title=f"song {song}")})


def take_snapshot(changelog: Changelog, *songs: int) -> Epoch:
    """A snapshot with these songs at the newest epoch."""
    epoch = changelog.newest_epoch(GROUP)
    commit = changelog.read_commit(GROUP, epoch)
    assert commit is not None
    live = partition_rows(PLAYS, rows(*songs))
    snapshots = changelog.snapshots(GROUP)
    found = [((PLAYS.name, partition), batch) for partition, batch in live.items()]
    snapshots.write_part(epoch, {PLAYS.name: PLAYS}, EVERYWHERE, found, digest=commit.digest)
    assert snapshots.commit(commit, EVERYWHERE)
    return epoch


def back_up_all(changelog: Changelog, backup: Changelog, **epochs: int) -> list[Progress]:
    return list(back_up(reopen_place(changelog), reopen_place(backup), epochs_of(epochs), NOW))


def restore_all(backup: Changelog, place: Changelog, **epochs: int) -> list[Progress]:
    return list(restore(reopen_place(backup), reopen_place(place), epochs_of(epochs)))


def epochs_of(epochs: Mapping[str, int]) -> dict[GroupName, Epoch]:
    return {GroupName(group): Epoch(epoch) for group, epoch in epochs.items()}


@dataclass(frozen=True)
class Content:
    """All that a host or a job could read of a changelog with one group.

    Attributes:
        stores: Identity, definitions, switches, and all shapes of stores.
        newest: The newest epoch.
        epochs: Digest and rows of each, from the newest snapshot on.
        saved: Rows of the newest snapshot.
    """

    stores: object
    newest: Epoch
    epochs: Sequence[tuple[str, object]]
    saved: object


def final_state(found: Content) -> object:
    """The state that a changelog leads to, whether from a snapshot or from its epochs."""
    return found.stores, found.newest, found.epochs[-1]


def content(changelog: Changelog) -> Content:
    changelog = reopen_place(changelog)
    newest = changelog.newest_epoch(GROUP)
    snapshot = changelog.snapshots(GROUP).newest_snapshot()
    first = 1 if snapshot is None else snapshot.epoch
    shapes = {store: changelog.shapes(store) for store in changelog.definitions()}
    definitions = {store: found[-1] for store, found in shapes.items()}
    epochs = []
    for epoch in range(first, newest + 1):
        commit = changelog.read_commit(GROUP, Epoch(epoch))
        assert commit is not None
        epochs.append((commit.digest, flat(changelog.read_rows(commit, definitions))))
    saved = None
    if snapshot is not None:
        shape = changelog.definition_at(PLAYS.name, snapshot.generation)
        assert shape is not None
        batches = changelog.snapshots(GROUP).batches
        saved = [batch.to_pylist() for _, part in EVERYWHERE for batch in batches(snapshot, shape, part)]
    return Content((changelog.identity(), changelog.catalog(), shapes), newest, epochs, saved)


def paths_of(changelog: Changelog) -> set[str]:
    return {path for part in ("stores", "groups") for path in changelog.objects.list(part)}


def test_a_backup_becomes_the_same_changelog(reopen: Reopen) -> None:
    changelog = reopen()
    append(changelog, range(5))
    changelog.migrate_store(PLAYS.name, parse_changes(["rating DOUBLE"], [], ["title=name"], []))
    append(changelog, [7])
    changelog.switch(StoreName("charts"), PLAYS.name)
    backup, place = empty_place(), empty_place()
    shown = back_up_all(changelog, backup)
    assert (shown[0].group, shown[0].epoch, shown[0].nbytes) == (GROUP, changelog.newest_epoch(GROUP), 0)
    assert shown[-1].nbytes == shown[-1].total > 0
    mark = finished_mark(backup)
    assert mark is not None
    assert (mark.epochs, mark.finished_at) == ({GROUP: changelog.newest_epoch(GROUP)}, NOW)
    restore_all(backup, place)
    assert content(place) == content(changelog)
    assert list(place.objects.list(MARKS_PATH)) == []
    append(place, [8])
    assert place.newest_epoch(GROUP) == changelog.newest_epoch(GROUP) + 2


def test_a_backup_on_each_storage(reopen: Reopen) -> None:
    changelog, backup = empty_place(), reopen()
    append(changelog, range(3))
    back_up_all(changelog, backup)
    append(changelog, range(3, 6))
    take_snapshot(changelog, *range(6))
    append(changelog, [6])
    back_up_all(changelog, backup)
    assert content(backup) == content(changelog)
    place = empty_place()
    restore_all(backup, place)
    assert content(place) == content(changelog)


def test_only_what_is_new_is_copied_and_what_is_old_goes(local: Changelog) -> None:
    append(local, range(100))
    backup = empty_place()
    back_up_all(local, backup)
    before = paths_of(backup)
    append(local, [100])
    counting = StoppingObjects(backup.objects, 10_000)
    list(back_up(reopen_place(local), Changelog("memory://", {}, counting), {}, NOW))
    assert paths_of(backup) - before == paths_of(local) - before
    epoch = take_snapshot(local, *range(101))
    local.drop(GROUP, NO_TAIL, LATER)
    append(local, [101])
    back_up_all(local, backup)
    assert {path for path in paths_of(backup) if path.endswith(".commit")} == {
        commit_path(GROUP, Epoch(number)) for number in range(epoch, epoch + 3)
    }
    assert content(backup) == content(local)


def test_an_earlier_epoch(local: Changelog) -> None:
    append(local, range(4))
    middle = take_snapshot(local, *range(4))
    append(local, range(4, 9))
    end = local.newest_epoch(GROUP)
    backup, place = empty_place(), empty_place()
    back_up_all(local, backup, plays=end - 1)
    assert reopen_place(backup).newest_epoch(GROUP) == end - 1
    restore_all(backup, place, plays=end - 3)
    assert reopen_place(place).newest_epoch(GROUP) == end - 3
    assert read(place, end - 3) == read(local, end - 3)
    with pytest.raises(NotFound, match=f"up to epoch {end - 1}: ask for that or an earlier one"):
        restore_all(backup, empty_place(), plays=end)
    with pytest.raises(
        NotFound, match=rf"There is no epoch 99 of store group plays.* from {middle} to {end}"
    ):
        back_up_all(local, empty_place(), plays=99)
    local.drop(GROUP, NO_TAIL, LATER)
    with pytest.raises(NotFound, match=f"ask for one from {middle} to {end}"):
        back_up_all(local, empty_place(), plays=1)


def test_migrations_of_after_an_earlier_epoch_are_none_in_its_backup(local: Changelog) -> None:
    """Also where a store was dropped later still, which counts whenever it was: its rows may be gone."""
    other = define_store("other", PLAYS.schema, PLAYS.key, group=GROUP)
    with open_appender(local, [PLAYS, other]) as appender:
        appender.append({"plays": rows(1), "other": rows(1)})
        earlier = appender.epoch
        local.migrate_store(PLAYS.name, parse_changes(["rating DOUBLE"], [], [], []))
        appender.append({"plays": rows(2)})
        drop_store(reopen_place(local), other.name, "ann@ops", NOW)
        appender.append({"plays": rows(3)})
    backup, place = empty_place(), empty_place()
    back_up_all(local, backup, plays=earlier)
    restore_all(backup, place)
    append(place, [8])
    shape = reopen_place(place).definition(PLAYS.name)
    assert shape is not None
    assert shape.row_schema == PLAYS.row_schema
    assert reopen_place(place).definition(other.name) is None
    back_up_all(local, backup)
    assert content(backup) == content(local), "of a later epoch it has them"


def test_a_group_without_epochs(local: Changelog) -> None:
    local.create_store(PLAYS)
    backup, place = empty_place(), empty_place()
    assert back_up_all(local, backup) == []
    assert restore_all(backup, place) == []
    assert content(place) == content(local)


def test_a_copy_may_die_anywhere(local: Changelog) -> None:
    """After each death the earlier backup or the new one can be restored, and the next try ends as if the
    first had not died.
    """
    append(local, range(3))
    first = empty_place()
    back_up_all(local, first)
    old = content(first)
    take_snapshot(local, *range(3))
    append(local, range(3, 6))
    new, fresh = content(local), empty_place()
    back_up_all(local, fresh)
    deaths = 0
    while True:
        copied = copied_place(first)
        with suppress(Stopped):
            list(back_up(reopen_place(local), stopping_changelog(copied, deaths), {}, NOW))
            break
        place = empty_place()
        restore_all(copied, place)
        assert final_state(content(place)) in (final_state(old), final_state(new))
        back_up_all(local, copied)
        assert content(copied) == new
        assert paths_of(copied) == paths_of(fresh)
        deaths += 1
    assert deaths > 10


def copied_place(backup: Changelog) -> Changelog:
    """Another place with the same objects."""
    copied = empty_place()
    for path in (*paths_of(backup), FORMAT_PATH, *backup.objects.list(MARKS_PATH)):
        data = backup.objects.get(path)
        assert data is not None
        copied.objects.put(path, [data])
    return copied


def stopping_changelog(changelog: Changelog, changes: int) -> Changelog:
    return Changelog("memory://", {}, StoppingObjects(changelog.objects, changes))


def test_a_restore_may_die_anywhere(local: Changelog) -> None:
    append(local, range(3))
    take_snapshot(local, *range(3))
    append(local, range(3, 6))
    backup = empty_place()
    back_up_all(local, backup)
    deaths = wholes = 0
    while True:
        place = empty_place()
        with suppress(Stopped):
            list(restore(reopen_place(backup), stopping_changelog(place, deaths), {}))
            break
        wholes += reopen_place(place).identity() is not None
        restore_all(backup, place)
        assert content(place) == content(local)
        assert not list(place.objects.list(MARKS_PATH))
        deaths += 1
    assert deaths > 10
    assert wholes == 1


def test_a_restore_that_died_when_all_was_there(local: Changelog) -> None:
    """Whoever finishes it, or takes the place for an empty one, leaves what was written since."""
    append(local, range(3))
    backup = empty_place()
    back_up_all(local, backup)
    deaths = 0
    while True:
        place = empty_place()
        with suppress(Stopped):
            list(restore(reopen_place(backup), stopping_changelog(place, deaths), {}))
        if reopen_place(place).identity() is not None:
            break
        deaths += 1
    append(reopen_place(place), [9])
    before = content(place)
    refused: Sequence[Callable[[], object]] = (
        lambda: back_up_all(local, place),
        lambda: restore_all(backup, place, plays=2),
    )
    for copy in refused:
        with pytest.raises(InvalidInput, match="choose an empty place"):
            copy()
        assert list(place.objects.list(MARKS_PATH))
    restore_all(backup, place)
    assert content(place) == before
    with pytest.raises(InvalidInput, match="choose an empty place"):
        restore_all(backup, place)


def test_leftovers_of_a_restore_do_not_count(local: Changelog) -> None:
    """A restore that died had gone further than the one that follows."""
    append(local, range(6))
    backup, place = empty_place(), empty_place()
    back_up_all(local, backup)
    with suppress(Stopped):
        list(restore(reopen_place(backup), stopping_changelog(place, 6), {}))
    restore_all(backup, place, plays=2)
    assert reopen_place(place).newest_epoch(GROUP) == 2


def test_each_flipped_byte_is_named(tmp_path: Path) -> None:
    """No backup of a damaged changelog is finished and differs; every fourth byte is tried, a bit of it drawn
    at random.
    """
    changelog = Changelog.open(str(tmp_path / "root"))
    append(changelog, [1])
    take_snapshot(changelog, 1)
    append(changelog, [2])
    staged = changelog.writer(GROUP, "task", take_over=True)
    file = changelog.stage(
        GROUP, staged.next_epoch, {PLAYS.name: partition_rows(PLAYS, rows(3, 4))}, task="task"
    )
    staged.commit([file])
    changelog.drop(GROUP, NO_TAIL, LATER)
    whole_content, backup = content(changelog), empty_place()
    back_up_all(changelog, backup)
    draw = random.Random(7)
    tried = 0
    for path in sorted(paths_of(backup)):
        file_path = tmp_path / "root" / path
        whole = file_path.read_bytes()
        for offset in range(draw.randrange(4), len(whole), 4):
            flipped = bytearray(whole)
            flipped[offset] ^= 1 << draw.randrange(8)
            file_path.write_bytes(flipped)
            place = empty_place()
            with suppress(LivestateError):
                back_up_all(changelog, place)
            if finished_mark(place) is not None:
                assert content(place) == whole_content, (path, offset)
            tried += 1
        file_path.write_bytes(whole)
    assert tried > 500


def test_a_missing_object_is_named(local: Changelog) -> None:
    append(local, range(4))
    local.objects.delete([commit_path(GROUP, Epoch(3))])
    with pytest.raises(Corrupt, match=r"The commit of epoch 3 of store group plays is missing\. Restore"):
        back_up_all(local, empty_place())


def test_commits_of_two_histories_are_no_backup(tmp_path: Path) -> None:
    one, other = (Changelog.open(str(tmp_path / name)) for name in ("one", "other"))
    append(one, range(3))
    append(other, range(3))
    path = commit_path(GROUP, Epoch(3))
    data = other.objects.get(path)
    assert data is not None
    one.objects.delete([path])
    one.objects.put(path, [data])
    with pytest.raises(Corrupt, match="commit of epoch 3 of store group plays does not follow"):
        back_up_all(one, empty_place())


class DroppingObjects(LocalObjects):
    """Objects of a changelog whose older epochs are dropped when a copy comes to the first of them."""

    def get(self, path: str) -> pa.Buffer | None:
        if path == commit_path(GROUP, Epoch(1)):
            Changelog("memory://", {}, LocalObjects(self.root)).drop(GROUP, NO_TAIL, LATER)
        return super().get(path)


def test_epochs_may_be_dropped_under_a_copy(local: Changelog) -> None:
    append(local, range(4))
    objects = local.objects
    assert isinstance(objects, LocalObjects)
    source = Changelog("memory://", {}, DroppingObjects(objects.root))
    backup = empty_place()
    copy = back_up(source, backup, {}, NOW)
    next(copy)
    take_snapshot(local, *range(4))
    append(local, [4])
    list(copy)
    assert content(backup) == content(local)


def test_nothing_stays_of_an_attempt_that_was_given_up(local: Changelog) -> None:
    """Epochs are dropped in the midst of those that are copied, and the backup begins at a later snapshot."""
    append(local, range(3))
    take_snapshot(local, *range(3))
    local.drop(GROUP, NO_TAIL, LATER)
    append(local, range(3, 3 + 2 * EPOCHS_AT_ONCE))
    backup = empty_place()
    copy = back_up(reopen_place(local), backup, {}, NOW)
    while not any(path.endswith(".commit") for path in paths_of(backup)):
        next(copy)
    start = take_snapshot(local, *range(3 + 2 * EPOCHS_AT_ONCE))
    local.drop(GROUP, NO_TAIL, LATER)
    append(local, [1000])
    list(copy)
    assert content(backup) == content(local)
    assert paths_of(backup) <= paths_of(local)
    assert [each.faults for each in Inspection(reopen_place(backup)).read() if each.faults] == []
    place = empty_place()
    restore_all(backup, place, plays=start)
    assert [each.faults for each in Inspection(reopen_place(place)).read() if each.faults] == []


class ChangelogBeingWritten(LocalObjects):
    """Objects of a changelog where a store is created while it is copied: what was being written is under its
    final name when somebody asks for it.
    """

    def get(self, path: str) -> pa.Buffer | None:
        """See `Objects.get`."""
        if path.endswith(TEMPORARY_SUFFIX):
            self.delete([path])
        return super().get(path)


def test_a_store_may_be_created_under_a_copy(local: Changelog) -> None:
    append(local, [1])
    objects = local.objects
    assert isinstance(objects, LocalObjects)
    definition = f"{definition_path(StoreName('songs'))}.0011223344556677{TEMPORARY_SUFFIX}"
    objects.put(definition, [pa.py_buffer(b"half")])
    backup = empty_place()
    list(back_up(Changelog("memory://", {}, ChangelogBeingWritten(objects.root)), backup, {}, NOW))
    assert content(backup) == content(local)
    assert paths_of(backup) == paths_of(local)


def test_what_a_copy_was_writing_when_it_died_goes(local: Changelog, tmp_path: Path) -> None:
    append(local, [1])
    backup = Changelog.open(str(tmp_path / "backup"))
    back_up_all(local, backup)
    unfinished = f"{commit_path(GROUP, Epoch(2))}.0011223344556677{TEMPORARY_SUFFIX}"
    backup.objects.put(unfinished, [pa.py_buffer(b"half")])
    back_up_all(local, backup)
    assert not list(backup.objects.unfinished_objects(GROUPS_PATH))


def test_a_backup_of_another_history_stays_as_it_is(local: Changelog) -> None:
    """The changelog was restored to an earlier epoch, and written on from there."""
    append(local, range(6))
    backup, restored = empty_place(), empty_place()
    back_up_all(local, backup)
    restore_all(backup, restored, plays=3)
    back_up_all(restored, backup, plays=3)  # the same history, which ends sooner
    back_up_all(local, backup)
    before = content(backup)
    append(restored, range(100, 103))
    with pytest.raises(InvalidInput, match="a backup of another history of store group plays: epoch"):
        back_up_all(restored, backup)
    assert content(backup) == before
    back_up_all(restored, empty_place())


@pytest.mark.parametrize("behind", [0, 2])
@pytest.mark.parametrize("is_damaged", [True, False])
def test_an_epoch_that_was_passed_by_since_is_so_in_the_backup(
    local: Changelog, behind: int, is_damaged: bool
) -> None:
    append(local, range(5))
    first = empty_place()
    back_up_all(local, first)
    epoch = Epoch(local.newest_epoch(GROUP) - behind)
    if is_damaged:
        local.objects.delete([commit_path(GROUP, epoch)])
        local.objects.put(commit_path(GROUP, epoch), [pa.py_buffer(b"damaged")])
    skip_epoch(reopen_place(local), GROUP, epoch, "it is wrong", "ann@ops", NOW, force=True)
    append(reopen_place(local), [9])
    new = content(local)
    for deaths in count():
        backup = copied_place(first)
        with suppress(Stopped):
            list(back_up(reopen_place(local), stopping_changelog(backup, deaths), {}, NOW))
            break
        if not is_damaged:
            restore_all(backup, empty_place())
        back_up_all(local, backup)
        assert content(backup) == new
    assert content(backup) == new


def test_a_backup_keeps_what_only_it_says_to_be_passed_by(local: Changelog) -> None:
    append(local, range(5))
    before, backup = copied_place(local), empty_place()
    skip_epoch(reopen_place(local), GROUP, Epoch(3), "it is wrong", "ann@ops", NOW, force=True)
    back_up_all(local, backup)
    with pytest.raises(InvalidInput, match="a backup of another history of store group plays: epoch 3 is"):
        back_up_all(before, backup)
    assert content(backup) == content(local)


@pytest.mark.parametrize("lost", ["the newest epochs", "the group", "all but its marker"])
def test_what_the_changelog_has_lost_stays_in_its_backup(local: Changelog, lost: str) -> None:
    append(local, range(5))
    backup = empty_place()
    back_up_all(local, backup)
    before, paths = content(backup), paths_of(backup)
    newest = local.newest_epoch(GROUP)
    gone = {
        "the newest epochs": [commit_path(GROUP, Epoch(newest - 1)), commit_path(GROUP, newest)],
        "the group": list(local.objects.list(GROUPS_PATH)),
        "all but its marker": [*local.objects.list(GROUPS_PATH), *local.objects.list(STORES_PATH)],
    }
    local.objects.delete(gone[lost])
    with pytest.raises(Corrupt, match=f"has store group plays up to epoch {newest}, and the changelog"):
        back_up_all(local, backup)
    assert (content(backup), paths_of(backup)) == (before, paths)
    restored = empty_place()
    restore_all(backup, restored)
    assert content(restored) == before


def test_a_lost_definition_makes_no_backup(local: Changelog) -> None:
    append(local, range(3))
    backup = empty_place()
    back_up_all(local, backup)
    before = content(backup)
    local.create_store(replace(PLAYS, name=StoreName("others")))
    local.objects.delete([definition_path(PLAYS.name)])
    for place in (backup, empty_place()):
        with pytest.raises(Corrupt, match=r"The definition of store plays, of which epoch .* is missing"):
            back_up_all(local, place)
    assert content(backup) == before
    local.objects.delete([definition_path(StoreName("others"))])
    with pytest.raises(Corrupt, match="Store group plays of the changelog has epochs, and the definitions"):
        back_up_all(local, empty_place())


def test_places_that_are_taken(local: Changelog, tmp_path: Path) -> None:
    append(local, [1])
    other = Changelog.open(str(tmp_path / "other"))
    append(other, [1])
    backup = empty_place()
    back_up_all(other, backup)
    copies: Sequence[Callable[[], object]] = (
        lambda: back_up_all(local, other),
        lambda: back_up_all(local, local),
        lambda: restore_all(backup, local),
        lambda: restore_all(backup, backup),
    )
    for copy in copies:
        before = paths_of(local), paths_of(other), paths_of(backup)
        with pytest.raises(InvalidInput, match=r"has a changelog or a backup: choose an empty place"):
            copy()
        assert (paths_of(local), paths_of(other), paths_of(backup)) == before
    with pytest.raises(InvalidInput, match="has a copy of another changelog: choose a place of its own"):
        back_up_all(local, backup)


def test_a_place_where_hosts_have_begun_a_snapshot(local: Changelog) -> None:
    """The changelog was moved away below them."""
    append(local, range(3))
    backup, place = empty_place(), empty_place()
    back_up_all(local, backup)
    commit = local.read_commit(GROUP, Epoch(3))
    assert commit is not None
    snapshots = place.snapshots(GROUP)
    live = partition_rows(PLAYS, rows(1))
    found = [((PLAYS.name, partition), batch) for partition, batch in live.items()]
    snapshots.write_part(Epoch(3), {PLAYS.name: PLAYS}, EVERYWHERE, found, digest=commit.digest)
    snapshots.write_checksums(Epoch(3), HostChecksums("a", commit.digest, {}))
    restore_all(backup, place)
    assert content(place) == content(local)
    assert paths_of(place) == paths_of(backup)


def test_a_place_with_a_snapshot_is_taken(local: Changelog) -> None:
    append(local, range(3))
    backup, place = empty_place(), empty_place()
    back_up_all(local, backup)
    take_snapshot(local, 1)
    for path in local.objects.list(snapshots_path(GROUP)):
        data = local.objects.get(path)
        assert data is not None
        place.objects.put(path, [data])
    before = paths_of(place)
    with pytest.raises(InvalidInput, match="choose an empty place"):
        restore_all(backup, place)
    assert paths_of(place) == before


def test_what_is_not_there(local: Changelog) -> None:
    with pytest.raises(NotFound, match="There is no changelog at"):
        back_up_all(local, empty_place())
    append(local, [1])
    with pytest.raises(NotFound, match="There is no finished backup at"):
        restore_all(local, empty_place())
    with pytest.raises(NotFound, match="There is no store group songs; there are plays"):
        back_up_all(local, empty_place(), songs=1)
    backup = empty_place()
    with suppress(Stopped):
        list(back_up(reopen_place(local), stopping_changelog(backup, 3), {}, NOW))
    with pytest.raises(NotFound, match="There is no finished backup at"):
        restore_all(backup, empty_place())


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        (b"{}", r"The mark of the backup, .*, is damaged: .* make the backup again in another place"),
        (b"", r"The mark of the backup, .*, is damaged: .* make the backup again in another place"),
    ],
)
def test_a_damaged_mark(local: Changelog, mark: bytes, message: str) -> None:
    append(local, [1])
    backup = empty_place()
    backup.objects.put(mark_path(1), [pa.py_buffer(mark)])
    with pytest.raises(Corrupt, match=message):
        restore_all(backup, empty_place())
    with pytest.raises(Corrupt, match=message):
        back_up_all(local, backup)


def test_two_copies_to_one_place(local: Changelog) -> None:
    append(local, [1])
    backup = empty_place()
    one = back_up(reopen_place(local), reopen_place(backup), {}, NOW)
    next(one)
    back_up_all(local, backup)
    list(one)
    assert content(backup) == content(local)
    assert finished_mark(backup) is not None


class RepeatingObjects(LocalObjects):
    """Every request to create something is sent again, as the answer to it is lost: then it is there."""

    def create(self, path: str, chunks: Sequence[pa.Buffer]) -> bool:
        super().create(path, chunks)
        return False


def test_a_copy_to_a_place_whose_answers_are_lost(local: Changelog, tmp_path: Path) -> None:
    append(local, [1, 2])
    backup = Changelog("memory://", {}, RepeatingObjects(tmp_path / "backup"))
    back_up_all(local, backup)
    place = Changelog("memory://", {}, RepeatingObjects(tmp_path / "restored"))
    restore_all(backup, place)
    assert content(place) == content(local)
    append(local, [3])
    back_up_all(local, backup)
    place = Changelog("memory://", {}, RepeatingObjects(tmp_path / "again"))
    restore_all(backup, place)
    assert content(place) == content(local)


class PlaceBeingRestored(StoppingObjects):
    """A place where somebody else does something before each write of a restore."""

    def __init__(self, objects: Objects, act: Callable[[str], object]) -> None:
        super().__init__(objects)
        self._act = act

    def create(self, path: str, chunks: Sequence[pa.Buffer]) -> bool:
        """See `Objects.create`."""
        self._act(path)
        return super().create(path, chunks)


@pytest.mark.parametrize("before", ["", STORES_PATH, f"{GROUPS_PATH}/plays/{3:020}"])
@pytest.mark.parametrize("epochs", [{}, {"plays": 4}])
def test_a_job_that_runs_while_a_backup_is_restored(
    local: Changelog, epochs: Mapping[str, int], before: str
) -> None:
    """What it has committed is there afterwards: nothing that it is told of is deleted. It tries twice before
    each of some writes.
    """
    appender = open_appender(local, [PLAYS])
    for song in range(5):
        appender.append({"plays": rows(song)}, query_id="q", batch_id=song)
    backup = empty_place()
    back_up_all(local, backup)
    local.objects.delete([FORMAT_PATH, *local.objects.list(STORES_PATH), *local.objects.list(GROUPS_PATH)])
    committed: list[str] = []
    songs = iter(range(100, 200))

    def append_batches(path: str) -> None:
        for song in islice(songs, 2 if path.startswith(before) else 0):
            with suppress(Unavailable):
                commit = appender.append({"plays": rows(song)}, query_id="q", batch_id=song)
                committed.append(commit.digest)

    place = Changelog("memory://", {}, PlaceBeingRestored(local.objects, append_batches))
    list(restore(reopen_place(backup), place, epochs_of(epochs)))
    append_batches(before)
    append_batches(before)
    there = reopen_place(local)
    newest = there.newest_epoch(GROUP)
    commits = [there.read_commit(GROUP, Epoch(epoch)) for epoch in range(1, newest + 1)]
    digests = [commit.digest for commit in commits if commit is not None]
    assert set(committed) <= set(digests)
    assert len(committed) >= 2
    assert [commit.before for commit in commits[1:] if commit is not None] == digests[:-1]


def test_a_job_that_starts_while_a_backup_is_restored(local: Changelog) -> None:
    append(local, range(3))
    backup, place = empty_place(), empty_place()
    back_up_all(local, backup)
    refused: list[str] = []

    def start_job(path: str) -> None:
        if not path.startswith(MARKS_PATH):
            with pytest.raises(Unavailable, match="A backup is being copied or restored"):
                append(reopen_place(place), [100])
            refused.append(path)

    objects = PlaceBeingRestored(place.objects, start_job)
    list(restore(reopen_place(backup), Changelog("memory://", {}, objects), {}))
    assert refused[-1] == FORMAT_PATH
    assert content(place) == content(local)
    append(place, [100])


def test_what_a_job_commits_between_two_tries_of_a_restore_stays() -> None:
    """Wherever the first try dies: either nothing is committed, or it stays."""
    committed = 0
    for changes in count():
        place, backup = empty_place(), empty_place()
        appender = open_appender(place, [PLAYS])
        for song in range(3):
            appender.append({"plays": rows(song)})
        back_up_all(place, backup)
        gone = [*place.objects.list(STORES_PATH), *place.objects.list(GROUPS_PATH)]
        place.objects.delete([FORMAT_PATH, *gone])
        dying = Changelog("memory://", {}, StoppingObjects(place.objects, changes))
        try:
            list(restore(reopen_place(backup), dying, {}))
        except Stopped:
            pass
        else:
            break
        commit = None
        with suppress(Unavailable):
            commit = appender.append({"plays": rows(3)})
        restore_all(backup, place)
        if commit is not None:
            committed += 1
            there = reopen_place(place).read_commit(GROUP, commit.epoch)
            assert there is not None and there.digest == commit.digest, changes
    assert committed


def test_a_job_that_starts_as_a_restore_begins(local: Changelog) -> None:
    """It has its changelog: the restore gives way before it writes anything else."""
    append(local, range(3))
    backup, place = empty_place(), empty_place()
    back_up_all(local, backup)

    def start_job(path: str) -> None:
        if not paths_of(place):
            append(reopen_place(place), [100])

    objects = PlaceBeingRestored(place.objects, start_job)
    with pytest.raises(InvalidInput, match="choose an empty place"):
        list(restore(reopen_place(backup), Changelog("memory://", {}, objects), {}))
    assert reopen_place(place).newest_epoch(GROUP) == 2
    assert not list(place.objects.list(MARKS_PATH))


def test_a_job_that_runs_on_behind_a_restore_has_no_migration_of_before(local: Changelog) -> None:
    """Its epochs would name one that the changelog has no more, and nobody could read them."""
    appender = open_appender(local, [PLAYS])
    appender.append({"plays": rows(0)})
    backup = empty_place()
    back_up_all(local, backup)
    reopen_place(local).migrate_store(PLAYS.name, parse_changes(["rating DOUBLE"], [], [], []))
    assert appender.append({"plays": rows(1)}).generation == 1
    local.objects.delete([FORMAT_PATH, *local.objects.list(STORES_PATH), *local.objects.list(GROUPS_PATH)])
    restore_all(backup, local)
    with pytest.raises(Unavailable, match=r"has lost epoch 3 .* or was restored to epoch 2"):
        appender.append({"plays": rows(2)})
    assert appender.append({"plays": rows(2)}).generation == 0
    assert [each.faults for each in Inspection(reopen_place(local)).read() if each.faults] == []
