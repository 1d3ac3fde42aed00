"""Epochs are dropped many at once; while that goes on, nobody takes what is left for what it was."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from random import Random
from threading import Event
from typing import Any, cast

import pyarrow as pa
import pytest

from engine.changelog import Changelog, Commit, open_appender
from engine.changelog.checksummed_json import seal
from engine.changelog.epochs import Epochs
from engine.changelog.floors import Floors
from engine.changelog.inspection import Inspection
from engine.changelog.layout import commit_epoch, commit_path, floor_path
from engine.changelog.objects import Objects, open_objects
from engine.errors import Corrupt, Fenced, Unavailable
from engine.model.schema import Epoch, GroupName, define_store

GROUP = GroupName("bank")
STORE = define_store("debit", pa.schema([("account", pa.int64())]), ["account"], partitions=2, group=GROUP)
EPOCHS = 20
KEPT = Epoch(15)


class Deletions:
    """Objects of which some are deleted, in no order, before the others are lost with the process."""

    def __init__(self, objects: Objects, draw: Random, lives_for: int | None = None) -> None:
        self.requests = 0
        self._objects = objects
        self._draw = draw
        self._lives_for = lives_for

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objects, name)

    def delete(self, paths: Collection[str]) -> None:
        self.requests += bool(paths)
        for path in self._draw.sample(list(paths), len(paths)):
            if self._lives_for == 0:
                raise Unavailable("The process died.")
            if self._lives_for is not None:
                self._lives_for -= 1
            self._objects.delete([path])


def changelog_over(objects: object) -> Changelog:
    return Changelog("memory://", {}, cast("Objects", objects))


def append(changelog: Changelog, count: int) -> None:
    appender = open_appender(changelog, [STORE])
    for account in range(count):
        appender.append({"debit": pa.table({"account": [account]}, STORE.schema)})


def commit_of(changelog: Changelog, epoch: Epoch) -> Commit:
    commit = changelog.read_commit(GROUP, epoch)
    assert commit is not None
    return commit


def epochs_of(changelog: Changelog) -> Epochs:
    return changelog._epochs(GROUP)


def drop(changelog: Changelog, before: Epoch = KEPT, stopping: Event | None = None) -> int:
    return epochs_of(changelog).drop(before, stopping)


def test_a_request_deletes_many(reopen: Callable[[], Changelog]) -> None:
    changelog = reopen()
    append(changelog, EPOCHS)
    newest = changelog.newest_epoch(GROUP)
    assert drop(changelog) == KEPT - 1
    assert changelog.committed_epochs(GROUP) == list(range(KEPT, newest + 1))
    assert drop(changelog) == 0
    assert [reopen().holds(GROUP, Epoch(epoch)) for epoch in (KEPT - 1, KEPT, newest)] == [False, True, True]


def test_what_is_deleted_at_once_is_one_request(tmp_path: Path) -> None:
    objects = Deletions(open_objects("memory://", {}), Random(0))
    changelog = changelog_over(objects)
    append(changelog, EPOCHS)
    objects.requests = 0
    drop(changelog)
    assert objects.requests == 1


@pytest.mark.parametrize("lives_for", range(KEPT))
def test_a_drop_that_died_leaves_nothing_that_is_relied_on(lives_for: int) -> None:
    inner = open_objects("memory://", {})
    append(changelog_over(inner), EPOCHS)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("engine.changelog.epochs.DROPPED_TOGETHER", 4)
        if lives_for < KEPT - 1:
            with pytest.raises(Unavailable):
                drop(changelog_over(Deletions(inner, Random(lives_for), lives_for)))
        else:
            drop(changelog_over(Deletions(inner, Random(lives_for), lives_for)))
        there = {commit_epoch(GROUP, path) for path in inner.list("groups/bank")} - {0}
        reader = changelog_over(inner)
        for epoch in range(1, EPOCHS):
            # Whoever may go on from an epoch finds all that follow it.
            if reader.holds(GROUP, Epoch(epoch)):
                assert set(range(epoch, EPOCHS + 1)) <= there
        assert reader.holds(GROUP, KEPT)
        # The next one finds what was left.
        drop(reader, Epoch(KEPT + 1))
    left = {commit_epoch(GROUP, path) for path in inner.list("groups/bank")} - {0}
    assert min(left) == KEPT + 1


def test_a_writer_of_long_ago_does_not_fill_a_gap() -> None:
    """Its epoch is there still while the next one is gone already."""
    inner = open_objects("memory://", {})
    changelog = changelog_over(inner)
    append(changelog, 3)
    old = open_appender(changelog_over(inner), [STORE])
    at = changelog.newest_epoch(GROUP)
    append(changelog_over(inner), EPOCHS)

    class Gap(Deletions):
        def delete(self, paths: Collection[str]) -> None:
            gone = [path for path in paths if commit_epoch(GROUP, path) > at]
            super().delete(gone)
            if gone:
                raise Unavailable("The process died.")

    with pytest.raises(Unavailable):
        drop(changelog_over(Gap(inner, Random(0))), Epoch(at + 10))
    with pytest.raises((Fenced, Unavailable)):  # it cannot tell without the snapshot that made the drop right
        old.append({"debit": pa.table({"account": [99]}, STORE.schema)})
    assert changelog.read_commit(GROUP, Epoch(at + 1)) is None


def test_an_epoch_that_has_a_snapshot_at_once_stays() -> None:
    """All before it is dropped while its writer looks whether the one before it is there still."""

    class DropAtOnce(Deletions):
        is_due = False

        def create(self, path: str, chunks: Sequence[pa.Buffer]) -> bool:
            won = bool(self._objects.create(path, chunks))
            if self.is_due and commit_epoch(GROUP, path):
                self.is_due = False
                drop(changelog_over(inner), commit_epoch(GROUP, path))
            return won

    inner = open_objects("memory://", {})
    objects = DropAtOnce(inner, Random(0))
    appender = open_appender(changelog_over(objects), [STORE])
    appender.append({"debit": pa.table({"account": [1]}, STORE.schema)})
    objects.is_due = True
    newest = appender.append({"debit": pa.table({"account": [2]}, STORE.schema)}).epoch
    changelog = changelog_over(inner)
    assert changelog.committed_epochs(GROUP) == [newest]
    assert appender.append({"debit": pa.table({"account": [3]}, STORE.schema)}).epoch == newest + 1
    assert changelog.newest_epoch(GROUP, newest) == newest + 1


def test_a_drop_is_given_up_when_the_host_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.changelog.epochs.DROPPED_TOGETHER", 4)
    changelog = changelog_over(open_objects("memory://", {}))
    append(changelog, EPOCHS)
    stopping = Event()
    stopping.set()
    assert drop(changelog, stopping=stopping) == 0
    assert min(changelog.committed_epochs(GROUP)) == 1
    assert drop(changelog) == KEPT - 1


def test_files_go_before_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    deleted: list[str] = []
    inner = open_objects("memory://", {})

    class Noted(Deletions):
        def delete(self, paths: Collection[str]) -> None:
            deleted.extend(paths)
            super().delete(paths)

    monkeypatch.setattr("engine.changelog.writer.INLINE_BYTES", 0, raising=False)
    changelog = changelog_over(Noted(inner, Random(0)))
    appender = open_appender(changelog, [STORE])
    for account in range(4):
        file = appender.stage({"debit": pa.table({"account": [account]}, STORE.schema)})
        appender.commit([file])
    newest = appender.epoch
    deleted.clear()
    drop(changelog, newest)
    kinds = [path.rpartition(".")[2] for path in deleted]
    assert "arrow" in kinds
    assert kinds == sorted(kinds)
    assert [path for path in inner.list("groups/bank") if path.endswith(".arrow")] == [
        path for path in inner.list("groups/bank") if f"{newest:020d}/" in path
    ]


def test_verify_reads_what_says_that_epochs_were_dropped(reopen: Callable[[], Changelog]) -> None:
    changelog = reopen()
    append(changelog, EPOCHS)
    newest = changelog.newest_epoch(GROUP)
    assert changelog.snapshots(GROUP).commit(commit_of(changelog, KEPT), []), "a snapshot of no rows"
    drop(changelog)
    assert not [each.faults for each in Inspection(changelog).missing_epochs(GROUP)]
    changelog.objects.delete([commit_path(GROUP, Epoch(epoch)) for epoch in range(KEPT, newest)])
    (fault,) = (
        each.faults[0] for each in Inspection(reopen()).missing_epochs(GROUP) if "count" in each.faults[0]
    )
    assert fault.startswith(f"the epochs before {KEPT} count as dropped, and epoch {KEPT}")


# ---- the stored form


@pytest.fixture
def objects() -> Iterator[Objects]:
    yield open_objects("memory://", {})


GOLDEN = b'{\n "format": 1,\n "before": 15,\n "crc32": 725103523\n}'


def newest(objects: Objects) -> Epoch:
    return Floors(objects, GROUP).newest()


def test_the_stored_form_stays(objects: Objects) -> None:
    Floors(objects, GROUP).raise_to(KEPT)
    stored = objects.get(floor_path(GROUP, 1))
    assert stored is not None
    assert stored.to_pybytes() == GOLDEN
    assert newest(objects) == KEPT
    Floors(objects, GROUP).raise_to(Epoch(3))
    assert objects.get(floor_path(GROUP, 2)) is None, "it never falls"
    Floors(objects, GROUP).raise_to(Epoch(16))
    assert newest(objects) == 16


def test_a_newer_form_is_refused(objects: Objects) -> None:
    objects.create(floor_path(GROUP, 1), [pa.py_buffer(seal(b'{\n "format": 2,\n "before": 15\n}'))])
    with pytest.raises(Corrupt, match="has format 2; this version reads format 1: upgrade livestate"):
        newest(objects)


@pytest.mark.parametrize("place", range(len(GOLDEN)))
def test_a_damaged_floor_is_refused(objects: Objects, place: int) -> None:
    damaged = bytearray(GOLDEN)
    damaged[place] ^= 1
    objects.create(floor_path(GROUP, 1), [pa.py_buffer(bytes(damaged))])
    with pytest.raises(Corrupt, match="floor of store group bank"):
        newest(objects)


def test_a_changelog_that_was_restored_has_other_floors(objects: Objects) -> None:
    floors = Floors(objects, GROUP)
    floors.raise_to(KEPT)
    floors.raise_to(Epoch(18))
    objects.delete([floor_path(GROUP, 1), floor_path(GROUP, 2)])
    assert floors.newest() == 0
