"""Stores end: their rows count for nothing, their objects go, and their names can be used again."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import (
    Changelog,
    Inspection,
    StoreDrop,
    append_table,
    open_appender,
    partition_rows,
)
from engine.changelog.backup import back_up, restore
from engine.changelog.kept_catalog import CatalogObjects
from engine.changelog.layout import (
    amendment_path,
    commit_path,
    definition_path,
    group_path,
    snapshot_path,
    switch_path,
)
from engine.changelog.local_objects import LocalObjects
from engine.changelog.store_drops import Removed, drop_store, remove_dropped_stores
from engine.errors import Corrupt, InvalidInput, NotFound
from engine.model.kinds import Behaviour, KeyValue, Retention
from engine.model.migration import parse_changes
from engine.model.schema import Epoch, StoreDefinition, StoreName, define_store
from tests.support.lagging_objects import lagging_changelog
from tests.support.stopping_objects import Stopped, StoppingObjects
from tests.unit.changelog.conftest import PLAYS, rows
from tests.unit.changelog.test_backup import EVERYWHERE, empty_place, take_snapshot

Reopen = Callable[[], Changelog]
GROUP = PLAYS.group
NOW = 1_789_000_000_000_000
OTHER_PLAYS = define_store("plays", pa.schema([("id", pa.string())]), ["id"], partitions=1, group=GROUP)
"""Another store of the same name."""
SONGS = define_store(
    "songs", pa.schema([("song", pa.int64()), ("name", pa.string())]), ["song"], partitions=2, group=GROUP
)


def drop(changelog: Changelog, store: StoreDefinition = PLAYS) -> StoreDrop:
    return drop_store(changelog, store.name, "ann@ops", NOW)


def append(changelog: Changelog, *songs: int, store: StoreDefinition = PLAYS) -> None:
    appender = open_appender(changelog, [store])
    for song in songs:
        appender.append({store.name: rows(song) if store is PLAYS else names(song)})


def twice_created(reopen: Reopen) -> Changelog:
    """Where the store was dropped, and is there again."""
    append(reopen(), 1)
    drop(reopen())
    append(reopen(), 2)
    return reopen()


def names(*songs: int) -> pa.Table:
    return pa.table({"song": pa.array(songs, pa.int64()), "name": [f"name {song}" for song in songs]})


def stored_songs(changelog: Changelog, definition: StoreDefinition = PLAYS) -> list[object]:
    """The songs of all rows of a store that are in epochs."""
    shape = changelog.definition(definition.name) or definition
    found: list[object] = []
    for epoch in changelog.committed_epochs(definition.group):
        commit = changelog.read_commit(definition.group, epoch)
        assert commit is not None
        found += [
            row[0]
            for (store, _), table in changelog.read_rows(
                commit, {definition.name: shape}, lambda store, _: store == definition.name
            ).items()
            for row in zip(*table.to_pydict().values(), strict=True)
        ]
    return found


def check_sound(changelog: Changelog) -> None:
    assert [fault for each in Inspection(changelog).read() for fault in each.faults] == []


# ---- the end


def test_a_dropped_store_is_gone(reopen: Reopen) -> None:
    append(reopen(), 1, 2)
    other = open_appender(reopen(), [define_store("other", PLAYS.schema, ["song"])])
    other.append({"other": rows(5)})
    dropped = drop(reopen())
    changelog = reopen()
    assert list(changelog.definitions()) == ["other"]
    assert changelog.definition(PLAYS.name) is None
    assert changelog.groups() == ["other"]
    assert changelog.drop_of(PLAYS.name) == (GROUP, dropped)
    assert stored_songs(changelog) == []
    with pytest.raises(NotFound, match="There is no store plays"):
        drop(reopen())


def test_a_store_that_is_not_there_is_not_dropped(reopen: Reopen) -> None:
    append(reopen(), 1)
    with pytest.raises(NotFound, match="There is no store songs in the changelog"):
        drop(reopen(), SONGS)


def test_a_store_that_sql_reads_by_another_name_is_not_dropped(reopen: Reopen) -> None:
    append(reopen(), 1)
    reopen().switch(StoreName("charts"), PLAYS.name)
    with pytest.raises(InvalidInput, match="by the name charts: switch that to another store first"):
        drop(reopen())


def test_two_operators_drop_it_once(reopen: Reopen) -> None:
    append(reopen(), 1)
    first, second = reopen(), reopen()
    for each in (first, second):
        each.definitions()
        each.amendments(GROUP).newest_number()
    assert drop(first).number == 1
    with pytest.raises(NotFound):
        drop(second)


def test_epochs_of_a_store_that_lists_do_not_show_yet_stay(tmp_path: Path) -> None:
    root = tmp_path / "changelog"
    append(Changelog.open(str(root)), 1, 2)
    drop(Changelog.open(str(root)))
    append(Changelog.open(str(root)), 7, 8, store=SONGS)
    damaged = commit_path(GROUP, Epoch(2))
    objects = Changelog.open(str(root)).objects
    objects.delete([damaged])
    assert objects.create(damaged, [pa.py_buffer(b"?")])
    lagging = lagging_changelog(root, definition_path(SONGS.name).__eq__)
    assert GROUP not in lagging.groups()
    assert not remove_dropped_stores(lagging, GROUP).epochs
    assert Changelog.open(str(root)).snapshots(GROUP).epochs() == []
    drop(Changelog.open(str(root)), SONGS)
    removed = remove_dropped_stores(Changelog.open(str(root)), GROUP)
    assert removed.epochs == Changelog.open(str(root)).newest_epoch(GROUP) - 1


# ---- jobs


def test_a_job_that_writes_it_is_told(reopen: Reopen) -> None:
    appender = open_appender(reopen(), [PLAYS])
    appender.append({"plays": rows(1)})
    drop(reopen())
    with pytest.raises(
        NotFound, match="Store plays was dropped on 2026-09-10 at 00:26 UTC by ann@ops: its rows"
    ):
        appender.append({"plays": rows(2)})
    with pytest.raises(NotFound, match="was dropped"):
        reopen().stage(GROUP, appender.epoch, {PLAYS.name: partition_rows(PLAYS, rows(2))}, task="t")


def test_rows_that_were_staged_before_are_refused(reopen: Reopen) -> None:
    appender = open_appender(reopen(), [PLAYS])
    writer = reopen().writer(GROUP, "job")
    placed = {PLAYS.name: partition_rows(PLAYS, rows(7))}
    file = reopen().stage(GROUP, writer.next_epoch, placed, task="t")
    drop(reopen())
    with pytest.raises(NotFound, match="was dropped"):
        writer.commit([file])
    open_appender(reopen(), [PLAYS])
    del appender
    with pytest.raises(NotFound, match="was dropped"):
        writer.commit([file])


def test_rows_that_were_committed_at_the_same_time_count_for_nothing(
    reopen: Reopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer had asked for amendments before the store was dropped."""
    changelog = reopen()
    appender = open_appender(changelog, [PLAYS])
    amendments = changelog.amendments(GROUP)
    with monkeypatch.context() as patches:
        patches.setattr(amendments, "newest_number", lambda known=0: 0)
        drop(reopen())
        late = appender.append({"plays": rows(7)})
    assert late.places
    append(reopen(), 8)
    assert stored_songs(reopen()) == [8]


def test_a_store_that_is_dropped_while_it_is_looked_up(
    reopen: Reopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever creates it gets a new one, and whoever migrates it is told that there is none."""
    append(reopen(), 1)

    def drop_at_look(looks: int) -> Changelog:
        changelog = reopen()
        amendments = changelog.amendments(GROUP)
        newest, left = amendments.newest_number, count(looks, -1)

        def newest_number(known: int = 0) -> int:
            if next(left) == 1:
                drop(reopen())
            return newest(known)

        monkeypatch.setattr(amendments, "newest_number", newest_number)
        return changelog

    found = [drop_at_look(looks).create_store(PLAYS).since for looks in (1, 2, 3)]
    assert found == [1, 2, 3]
    for looks in (1, 2):
        with pytest.raises(NotFound, match="no store plays"):
            drop_at_look(looks).migrate_store(PLAYS.name, parse_changes(["rating DOUBLE"], [], [], []))
        append(reopen(), 1)


def test_a_definition_that_was_read_is_another_one_in_a_restored_changelog(
    reopen: Reopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many stores of the name were dropped before it."""
    monkeypatch.setattr("engine.changelog.amendments.SECONDS_BETWEEN_CHECKS", 0.0)
    changelog = twice_created(reopen)
    assert list(changelog.definitions()) == ["plays"]
    # As if a copy of before the drop were put back, and the store dropped again.
    changelog.objects.delete([definition_path(PLAYS.name, 1), amendment_path(GROUP, 1)])
    drop_store(reopen(), PLAYS.name, "bob@ops", NOW)
    reopen().create_store(OTHER_PLAYS)
    assert changelog.definitions()[PLAYS.name].schema == OTHER_PLAYS.schema


def test_another_definition_behind_the_same_drop_in_a_restored_changelog(
    reopen: Reopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was decided of the group is the same."""
    monkeypatch.setattr("engine.changelog.amendments.SECONDS_BETWEEN_CHECKS", 0.0)
    changelog = twice_created(reopen)
    known = changelog.definitions()[PLAYS.name]
    heard = changelog.exclusions(GROUP)
    # As if a copy of between the drop and the next store were put back.
    changelog.objects.delete([definition_path(PLAYS.name, 1)])
    assert not changelog.definitions()
    reopen().create_store(OTHER_PLAYS)
    found = changelog.definitions()[PLAYS.name]
    assert (found.schema, found.since) == (OTHER_PLAYS.schema, known.since)
    assert changelog.exclusions(GROUP) is not heard  # who goes by them looks at the group again


def test_a_definition_that_was_read_while_the_group_was_checked_is_read_again(
    reopen: Reopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    changelog = twice_created(reopen)
    path = definition_path(PLAYS.name, 1)
    get = CatalogObjects.get

    def get_slowly(objects: CatalogObjects, wanted: str) -> pa.Buffer | None:
        data = get(objects, wanted)
        if wanted == path and data is not None:
            patches.undo()
            changelog.objects.delete([path])
            reopen().create_store(OTHER_PLAYS)
            changelog.amendments(GROUP).forget()
        return data

    with monkeypatch.context() as patches:
        patches.setattr(CatalogObjects, "get", get_slowly)
        changelog.definition(PLAYS.name)
    found = changelog.definition(PLAYS.name)
    assert found is not None
    assert found.schema == OTHER_PLAYS.schema


# ---- the same name again


def test_a_new_store_of_the_name_has_nothing_of_the_old_one(reopen: Reopen) -> None:
    append(reopen(), 1, 2)
    take_snapshot(reopen(), 1, 2)
    drop(reopen())
    append(reopen(), 3)
    changelog = reopen()
    definition = changelog.definition(PLAYS.name)
    assert definition is not None and definition.since == 1 and definition.is_as(PLAYS)
    assert stored_songs(changelog) == [3]
    (snapshot,) = changelog.snapshots(GROUP).readable_snapshots()
    assert [snapshot.part_of(*place) for place in EVERYWHERE] == [None] * len(EVERYWHERE)
    assert not snapshot.stores
    check_sound(changelog)


def test_a_new_store_may_be_another_one(reopen: Reopen) -> None:
    append(reopen(), 1)
    reopen().migrate_store(PLAYS.name, parse_changes(["rating DOUBLE"], [], [], []))
    drop(reopen())
    other = define_store("plays", pa.schema([("id", pa.string())]), ["id"], partitions=1, group="elsewhere")
    append_table(reopen(), other, pa.table({"id": ["a"]}))
    changelog = reopen()
    assert changelog.definitions() == {"plays": other}
    assert changelog.shapes(PLAYS.name) == (other,)
    drop_store(reopen(), other.name, "ann", NOW)
    append(reopen(), 9)
    changelog = reopen()
    assert [shape.is_as(PLAYS) for shape in changelog.shapes(PLAYS.name)] == [True]
    assert stored_songs(changelog) == [9]
    assert changelog.incarnation(PLAYS.name) == 2
    reopen().migrate_store(PLAYS.name, parse_changes(["stars BIGINT"], [], [], []))
    assert reopen().definition(PLAYS.name).schema.names[-1] == "stars"  # type: ignore[union-attr]
    check_sound(reopen())


def test_a_new_store_does_not_inherit_the_cutoff(reopen: Reopen) -> None:
    kept = define_store(
        "plays",
        pa.schema([("song", pa.int64()), ("at", pa.timestamp("us"))]),
        ["song"],
        behaviour=Behaviour(KeyValue(), Retention(1_000_000, "at")),
    )
    writer = open_appender(reopen(), [kept])._writer
    writer.append({}, cutoffs={kept.name: 50})
    drop(reopen(), kept)
    commit = reopen().writer(GROUP, "job").append({})
    assert commit.cutoffs == {}
    found = reopen().read_commit(GROUP, Epoch(2))
    assert found is not None and found.cutoffs == {}


def digests(changelog: Changelog) -> list[str]:
    """Those of the first four commits."""
    commits = [changelog.read_commit(GROUP, Epoch(epoch)) for epoch in range(1, 5)]
    assert None not in commits
    return [commit.digest for commit in commits if commit is not None]


def test_the_others_of_its_group_stay(reopen: Reopen) -> None:
    appender = open_appender(reopen(), [PLAYS, SONGS])
    appender.append({"plays": rows(1), "songs": names(1)})
    appender.append({"plays": rows(2)})
    appender.append({"songs": names(3)})
    before = digests(reopen())
    drop(reopen())
    assert remove_dropped_stores(reopen(), GROUP) == Removed()
    changelog = reopen()
    assert list(changelog.definitions()) == ["songs"]
    assert stored_songs(changelog, SONGS) == [1, 3]
    # Nothing of theirs is built again.
    assert digests(changelog) == before
    appender.append({"songs": names(4)})
    assert stored_songs(reopen(), SONGS) == [1, 3, 4]
    check_sound(reopen())


# ---- what is left is removed


def test_data_files_of_it_alone_are_deleted(reopen: Reopen) -> None:
    changelog = reopen()
    open_appender(changelog, [PLAYS, SONGS])
    writer = changelog.writer(GROUP, "job")
    files = [
        changelog.stage(GROUP, writer.next_epoch, {store.name: partition_rows(store, table)}, task=store.name)
        for store, table in ((PLAYS, rows(1)), (SONGS, names(1)))
    ]
    writer.commit(files)
    drop(reopen())
    assert remove_dropped_stores(reopen(), GROUP) == Removed(0, 0, 1, files[0].size)
    assert remove_dropped_stores(reopen(), GROUP) == Removed()
    assert stored_songs(reopen(), SONGS) == [1]
    check_sound(reopen())
    backup, place = empty_place(), empty_place()
    list(back_up(reopen(), backup, {}, NOW))
    list(restore(backup, place, {}))
    assert stored_songs(place, SONGS) == [1]
    assert list(place.definitions()) == ["songs"]


def prepare_large(changelog: Changelog) -> None:
    """A group of one store, with epochs in data files and a snapshot."""
    open_appender(changelog, [PLAYS])
    writer = changelog.writer(GROUP, "job")
    for song in range(3):
        placed = {PLAYS.name: partition_rows(PLAYS, rows(song))}
        writer.commit([changelog.stage(GROUP, writer.next_epoch, placed, task="t")])
        if song == 1:
            take_snapshot(changelog, 0, 1)


def test_a_group_without_stores_keeps_its_newest_epoch(reopen: Reopen) -> None:
    prepare_large(reopen())
    newest = reopen().newest_epoch(GROUP)
    drop(reopen())
    removed = remove_dropped_stores(reopen(), GROUP)
    assert (removed.epochs, removed.snapshots, removed.files) == (newest - 1, 1, 1)
    changelog = reopen()
    assert changelog.committed_epochs(GROUP) == [newest]
    left = [path.removeprefix(group_path(GROUP)) for path in changelog.objects.list(group_path(GROUP))]
    assert not [path for path in left if path.endswith(".arrow")]
    assert changelog.newest_epoch(GROUP) == newest
    append(reopen(), 9)
    assert reopen().newest_epoch(GROUP) == newest + 2  # numbers go on
    assert stored_songs(reopen()) == [9]
    check_sound(reopen())


def test_a_dropped_group_stays_dropped_in_a_backup(reopen: Reopen) -> None:
    prepare_large(reopen())
    drop(reopen())
    for is_clean in (False, True):
        if is_clean:
            remove_dropped_stores(reopen(), GROUP)
        backup, place = empty_place(), empty_place()
        list(back_up(reopen(), backup, {}, NOW))
        list(restore(backup, place, {}))
        assert place.definitions() == {}
        append(place, 5)
        assert stored_songs(place) == [5]


class DroppingObjects(LocalObjects):
    """Objects of a changelog one of whose stores is dropped when somebody comes to one of them.

    Attributes:
        path: The path of that.
    """

    path = ""

    def get(self, path: str) -> pa.Buffer | None:
        found = super().get(path)
        if path == self.path:
            changelog = Changelog("memory://", {}, LocalObjects(self.root))
            if changelog.definition(PLAYS.name) is not None:
                drop(changelog)
                remove_dropped_stores(changelog, GROUP)
        return found


@pytest.mark.parametrize("has_snapshot", [False, True])
def test_a_store_may_be_dropped_under_whoever_reads_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_snapshot: bool
) -> None:
    places = [tmp_path / name for name in ("read", "copied")]
    for place in places:
        changelog = Changelog.open(str(place))
        prepare_large(changelog)
        if not has_snapshot:
            snapshots = changelog.snapshots(GROUP)
            snapshots.retract(snapshots.epochs()[0])
        append(changelog, 7, store=SONGS)
        newest = changelog.snapshots(GROUP).newest_snapshot()
    path = commit_path(GROUP, Epoch(1)) if newest is None else snapshot_path(GROUP, newest.epoch)
    read, copied = (Changelog("memory://", {}, DroppingObjects(place)) for place in places)
    monkeypatch.setattr(DroppingObjects, "path", path)
    check_sound(read)
    assert list(read.definitions()) == ["songs"]
    backup, restored = empty_place(), empty_place()
    list(back_up(copied, backup, {}, NOW))
    list(restore(backup, restored, {}))
    assert stored_songs(restored, SONGS) == [7]
    check_sound(restored)


def test_a_store_without_epochs_is_dropped(reopen: Reopen) -> None:
    reopen().create_store(PLAYS)
    drop(reopen())
    assert remove_dropped_stores(reopen(), GROUP) == Removed()
    assert reopen().definitions() == {}
    place = empty_place()
    list(back_up(reopen(), place, {}, NOW))
    assert place.definitions() == {}
    append(reopen(), 1)
    assert stored_songs(reopen()) == [1]


def test_a_drop_that_is_killed_anywhere_goes_on(tmp_path: Path) -> None:
    for changes in range(40):
        root = tmp_path / str(changes)
        prepare_large(Changelog.open(str(root)))
        stopping = StoppingObjects(LocalObjects(root), changes)
        killed = Changelog(str(root), {}, stopping)
        is_whole = False
        try:
            drop(killed)
            remove_dropped_stores(killed, GROUP)
            is_whole = True
        except Stopped:
            pass
        changelog = Changelog.open(str(root))
        if changes == 0:
            assert list(changelog.definitions()) == ["plays"]
            drop(changelog)
        assert changelog.definitions() == {}
        check_sound(Changelog.open(str(root)))
        # A job may come first, and the rest of the drop behind it.
        if changes % 2:
            append(Changelog.open(str(root)), 9)
        remove_dropped_stores(Changelog.open(str(root)), GROUP)
        append(Changelog.open(str(root)), 10)
        remove_dropped_stores(Changelog.open(str(root)), GROUP)
        check_sound(Changelog.open(str(root)))
        assert stored_songs(Changelog.open(str(root))) == ([9, 10] if changes % 2 else [10])
        if is_whole:
            return
    raise AssertionError("the drop never came to its end")


# ---- what is damaged keeps to itself


def harm(changelog: Changelog, path: str) -> None:
    changelog.objects.delete([path])
    assert changelog.objects.create(path, [pa.py_buffer(b"{}")])


def test_a_damaged_definition_keeps_its_store_alone(reopen: Reopen) -> None:
    other = define_store("other", PLAYS.schema, ["song"])
    append(reopen(), 1)
    open_appender(reopen(), [other]).append({"other": rows(1)})
    reopen().switch(StoreName("charts"), PLAYS.name)
    harm(reopen(), definition_path(other.name))
    catalog = reopen().readable_catalog()
    assert list(catalog.stores) == ["plays"]
    assert catalog.switches == {"charts": "plays"}
    assert list(catalog.damaged_stores) == ["other"]
    assert catalog.damaged_stores[other.name].startswith("Store other cannot be read: ")
    found = [(each.name, fault) for each in Inspection(reopen()).read() for fault in each.faults]
    assert [name for name, _ in found] == ["The name other", "Store group other"]
    with pytest.raises(Corrupt, match="It cannot be dropped before it can be read"):
        drop_store(reopen(), other.name, "ann", NOW)
    with pytest.raises(InvalidInput, match="by the name charts"):
        drop(reopen())
    harm(reopen(), switch_path(StoreName("charts"), 1))
    assert list(reopen().readable_catalog().damaged_names) == ["charts"]
    drop(reopen())
    assert reopen().readable_catalog().stores == {}


def test_a_damaged_amendment_keeps_its_group_alone(reopen: Reopen) -> None:
    other = define_store("other", PLAYS.schema, ["song"])
    append(reopen(), 1)
    open_appender(reopen(), [other]).append({"other": rows(1)})
    reopen().migrate_store(PLAYS.name, parse_changes(["rating DOUBLE"], [], [], []))
    harm(reopen(), amendment_path(GROUP, 1))
    catalog = reopen().readable_catalog()
    assert list(catalog.stores) == ["other"]
    assert list(catalog.damaged_stores) == ["plays"]
    faults = [fault for each in Inspection(reopen()).read() for fault in each.faults]
    assert len(faults) == 1 and faults[0].startswith("Store plays cannot be read: ")


def test_a_job_does_not_write_into_a_store_that_was_made_anew(reopen: Reopen) -> None:
    """Not before its term is over either: the new job makes its stores before it opens its own."""
    job = open_appender(reopen(), [PLAYS])
    job.append({"plays": rows(1)})
    staged = [job.stage({"plays": rows(2)})]
    drop(reopen())
    anew = define_store("plays", PLAYS.schema, ["song"], partitions=8)
    reopen().create_store(anew)
    with pytest.raises(NotFound, match=r"Store plays .* its rows are not taken any more"):
        job.append({"plays": rows(3)})
    with pytest.raises(NotFound, match=r"Store plays .* its rows are not taken any more"):
        job.commit(staged)
    later = open_appender(reopen(), [anew])
    assert later.append({"plays": rows(4)}).files
