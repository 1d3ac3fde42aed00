"""Each byte of each kind of object of a changelog, flipped and cut off: named or of no consequence, and never
taken for something else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import pyarrow as pa
import pytest

from engine.changelog import Changelog, layout, open_appender, partition_rows
from engine.changelog.backup import MARK_FORMAT, back_up, finished_mark
from engine.changelog.inspection import Inspection
from engine.changelog.snapshot import HostChecksums
from engine.changelog.store_drops import drop_store
from engine.errors import LivestateError
from engine.model.migration import AddColumn
from engine.model.row_checksum import checksum_rows
from engine.model.schema import Epoch, StoreName, define_store
from tests.support.damaged_bytes import damaged_forms
from tests.unit.changelog.conftest import PLAYS, flat, rows
from tests.unit.changelog.test_snapshots import GROUP, LATER, NO_TAIL, commit_of, rows_by_partition, songs_of

ALBUMS = define_store("albums", pa.schema([("album", pa.int64())]), ["album"], partitions=1)
INLINE, STAGED = Epoch(8), Epoch(10)
SONGS = (1, 2)
Reader = Callable[[Changelog], object]


def kinds() -> Mapping[str, re.Pattern[str]]:
    """The kinds of objects, by what the layout calls their paths."""
    assert layout.__doc__ is not None
    names = re.findall(r"^    ([A-Za-z]\S*) {2,}", layout.__doc__, re.MULTILINE)
    return {
        name: re.compile("[^/]+".join(re.escape(piece) for piece in re.split("<[^>]+>", name)))
        for name in names
    }


def read_stores(changelog: Changelog) -> object:
    shapes = [changelog.shapes(store.name) for store in (PLAYS, ALBUMS)]
    drops = [changelog.exclusions(store.group).drops for store in (PLAYS, ALBUMS)]
    return changelog.identity(), changelog.catalog(), shapes, drops


def read_epoch(epoch: Epoch) -> Reader:
    def read(changelog: Changelog) -> object:
        commit = commit_of(changelog, epoch)
        definition = changelog.definition_at(PLAYS.name, commit.generation)
        assert definition is not None
        return commit, flat(changelog.read_rows(commit, {PLAYS.name: definition}))

    return read


def read_snapshot(changelog: Changelog) -> object:
    (epoch,) = changelog.snapshots(GROUP).epochs()
    snapshot = changelog.snapshots(GROUP).read(epoch)
    assert snapshot is not None
    return snapshot, songs_of(changelog, snapshot)


def read_parts(changelog: Changelog) -> object:
    """What a host has written of a snapshot: what is damaged of that counts for nothing."""
    (epoch,) = changelog.snapshots(GROUP).epochs()
    return check_something(changelog.snapshots(GROUP).parts(epoch))


def read_checksums(changelog: Changelog) -> object:
    """What a host has said of its rows, likewise."""
    (epoch,) = changelog.snapshots(GROUP).epochs()
    return check_something(changelog.snapshots(GROUP).checksums(epoch, commit_of(changelog, epoch).digest))


def check_something(found: Sequence[object]) -> object:
    if not found:
        raise LivestateError("There is nothing.")
    return found


def read_beginning(changelog: Changelog) -> object:
    """That the object is there says all."""
    return changelog.holds(GROUP, Epoch(0)), changelog.newest_epoch(GROUP)


def read_floor(changelog: Changelog) -> object:
    """Which epochs are there for good."""
    return [changelog.holds(GROUP, Epoch(epoch)) for epoch in range(1, STAGED + 1)]


READERS: Mapping[str, Reader] = {
    "FORMAT": read_stores,
    "stores/<store>/definition.json": read_stores,
    "stores/<store>/definition-<n>.json": read_stores,
    "stores/<name>/switches/<number>.json": read_stores,
    "groups/<group>/<epoch>/<task>-<nonce>.arrow": read_epoch(STAGED),
    "groups/<group>/<epoch>.commit": read_epoch(INLINE),
    "groups/<group>/dropped.json": read_beginning,
    "groups/<group>/floors/<number>.json": read_floor,
    "groups/<group>/migrations/<number>.json": read_stores,
    "groups/<group>/snapshots/<epoch>/<nonce>-<n>.arrow": read_snapshot,
    "groups/<group>/snapshots/<epoch>/<nonce>.part": read_parts,
    "groups/<group>/snapshots/<epoch>/<nonce>.checksums": read_checksums,
    "groups/<group>/snapshots/<epoch>.snapshot": read_snapshot,
    "backup/<number>.json": finished_mark,
    "clock/<nonce>": lambda changelog: None,
}
"""Who reads each kind of object. An object of `clock` has no bytes."""
INSPECTED = frozenset(READERS) - {
    "groups/<group>/dropped.json",
    "groups/<group>/snapshots/<epoch>/<nonce>.part",
    "groups/<group>/snapshots/<epoch>/<nonce>.checksums",
    "backup/<number>.json",
    "clock/<nonce>",
}
"""What `livestate verify` reads; nothing depends on the others once a snapshot counts."""


@pytest.fixture(scope="module")
def objects() -> dict[str, pa.Buffer]:
    """All objects of a changelog that has every kind of them, as a backup has them too."""
    changelog = Changelog.open("memory://")
    appender = open_appender(changelog, [PLAYS])
    for song in range(6):
        appender.append({"plays": rows(song)})
    epoch = appender.epoch
    snapshots, commit = changelog.snapshots(GROUP), commit_of(changelog, epoch)
    places = [(PLAYS.name, number) for number in rows_by_partition(*range(100))]
    live = rows_by_partition(*SONGS)
    found = [((PLAYS.name, number), batch) for number, batch in live.items()]
    snapshots.write_part(epoch, {PLAYS.name: PLAYS}, places, found, digest=commit.digest)
    sums = {(PLAYS.name, number): checksum_rows(batch) for number, batch in live.items()}
    snapshots.write_checksums(epoch, HostChecksums("a", commit.digest, sums))
    assert snapshots.commit(commit, places)
    changelog.drop(GROUP, NO_TAIL, LATER)
    assert appender.append({"plays": rows(7)}).epoch == INLINE
    changelog.migrate_store(PLAYS.name, [AddColumn("note", pa.string(), "none")])
    writer = changelog.writer(GROUP, "task")
    definition = changelog.definition(PLAYS.name)
    assert definition is not None
    placed = {PLAYS.name: partition_rows(PLAYS, rows(9))}
    staged = changelog.stage(GROUP, writer.next_epoch, placed, task="task")
    assert writer.commit([staged]).epoch == STAGED
    changelog.switch(StoreName("charts"), PLAYS.name)
    changelog.create_store(ALBUMS)
    drop_store(changelog, ALBUMS.name, "ann", 1)
    changelog.create_store(ALBUMS)
    assert MARK_FORMAT == 1
    backup = Changelog.open("memory://")
    list(back_up(changelog, backup, {}, 1))
    return {
        path: data
        for each in (changelog, backup)
        for path in each.objects.list("")
        if (data := each.objects.get(path)) is not None
    }


def changelog_of(objects: Mapping[str, pa.Buffer]) -> Changelog:
    changelog = Changelog.open("memory://")
    for path, data in objects.items():
        changelog.objects.create(path, [data])
    return changelog


def test_every_kind_of_object_is_there(objects: dict[str, pa.Buffer]) -> None:
    """A kind that is new needs an entry here; so does its object in what `objects` makes."""
    assert set(READERS) == set(kinds())
    there = {name for path in objects for name, pattern in kinds().items() if pattern.fullmatch(path)}
    assert there == set(READERS) - {"clock/<nonce>"}
    assert all(any(pattern.fullmatch(path) for pattern in kinds().values()) for path in objects)


@pytest.mark.parametrize("kind", sorted(set(READERS) - {"clock/<nonce>"}))
def test_no_damaged_byte_is_served(kind: str, objects: dict[str, pa.Buffer]) -> None:
    read = READERS[kind]
    matching = sorted(
        (path for path in objects if kinds()[kind].fullmatch(path)), key=lambda each: -objects[each].size
    )
    if kind.endswith(".commit"):
        matching = [path for path in matching if f"{INLINE:020d}" in path]
    for path in matching if kind.startswith("groups/<group>/migrations") else matching[-1:]:
        check_bytes(objects, path, read)


def check_bytes(objects: Mapping[str, pa.Buffer], path: str, read: Reader) -> None:
    changelog = changelog_of(objects)
    whole, said = read(changelog_of(objects)), 0
    for offset, damaged in damaged_forms(objects[path].to_pybytes()):
        changelog.objects.delete([path])
        changelog.objects.create(path, [pa.py_buffer(damaged)])
        try:
            assert read(Changelog(changelog.uri, {}, changelog.objects)) == whole, offset
        except LivestateError as error:
            said += 1
            assert error.message.endswith(".")
    assert said > objects[path].size or read is read_beginning


@pytest.mark.parametrize("kind", sorted(INSPECTED))
def test_what_is_damaged_is_found_and_named(kind: str, objects: dict[str, pa.Buffer]) -> None:
    changelog = changelog_of(objects)
    path = next(path for path in objects if kinds()[kind].fullmatch(path))
    for offset, damaged in list(damaged_forms(objects[path].to_pybytes()))[::29]:
        changelog.objects.delete([path])
        changelog.objects.create(path, [pa.py_buffer(damaged)])
        faults: list[str] = []
        with suppress(LivestateError):
            inspected = Inspection(Changelog(changelog.uri, {}, changelog.objects)).read()
            faults = [fault for each in inspected for fault in each.faults]
            assert faults, offset
