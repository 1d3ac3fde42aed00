"""Epochs that can never be applied are passed by: what is refused, what stands in for them, and for ever."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, Inspection, Skip, open_appender, partition_rows
from engine.changelog.amendments import AMENDMENT_FORMAT
from engine.changelog.backup import back_up, restore
from engine.changelog.checksummed_json import seal, unseal
from engine.changelog.epochs import Epochs
from engine.changelog.layout import amendment_path, commit_path, snapshot_path
from engine.changelog.skipping import skip_epoch
from engine.errors import Corrupt, Fenced, InvalidInput, NotFound
from engine.model.schema import Epoch, GroupName, StoreDefinition
from tests.unit.changelog.conftest import PLAYS, flat, rows
from tests.unit.changelog.test_backup import empty_place, take_snapshot

Reopen = Callable[[], Changelog]
GROUP = PLAYS.group
NOW = 1_789_000_000_000_000


def skip(changelog: Changelog, epoch: int, *, force: bool = False, reason: str = "lost") -> Skip:
    return skip_epoch(changelog, GROUP, Epoch(epoch), reason, "ann@ops", NOW, force=force)


def append(changelog: Changelog, *songs: int) -> None:
    """An epoch each, behind the fence, which is epoch 1."""
    appender = open_appender(changelog, [PLAYS])
    for song in songs:
        appender.append({"plays": rows(song)})


def change_object(changelog: Changelog, path: str, data: bytes) -> None:
    changelog.objects.delete([path])
    assert changelog.objects.create(path, [pa.py_buffer(data)])


def damage(changelog: Changelog, epoch: int) -> None:
    path = commit_path(GROUP, Epoch(epoch))
    data = changelog.objects.get(path)
    assert data is not None
    change_object(changelog, path, data.to_pybytes()[:40] + b"?" + data.to_pybytes()[41:])


def songs(changelog: Changelog, definition: StoreDefinition = PLAYS) -> list[object]:
    newest = changelog.newest_epoch(GROUP)
    found = []
    for epoch in range(1, newest + 1):
        commit = changelog.read_commit(GROUP, Epoch(epoch))
        assert commit is not None
        found += [row[0] for row in flat(changelog.read_rows(commit, {definition.name: definition}))]
    return found


def digests(changelog: Changelog) -> list[str]:
    commits = [
        changelog.read_commit(GROUP, Epoch(epoch)) for epoch in range(1, changelog.newest_epoch(GROUP) + 1)
    ]
    return [commit.digest for commit in commits if commit is not None]


# ---- what stands in


def test_an_epoch_that_cannot_be_read_is_passed_by(reopen: Reopen) -> None:
    append(reopen(), 1, 2, 3)
    whole = digests(reopen())
    damage(reopen(), 3)
    with pytest.raises(Corrupt):
        songs(reopen())
    skipped = skip(reopen(), 3)
    assert skipped.describe() == (
        "Epoch 3 of store group plays was passed by on 2026-09-10 at 00:26 UTC by ann@ops: lost"
    )
    assert replace(skipped, reason="It is lost.").describe().endswith("by ann@ops: It is lost")
    changelog = reopen()
    assert songs(changelog) == [1, 3]
    assert changelog.skips(GROUP) == [skipped]
    now = digests(changelog)
    assert now[:2] == whole[:2]
    assert not set(now[2:]) & set(whole[2:])  # who has applied it is never read with who has not
    assert changelog.read_commit(GROUP, Epoch(4)).before == now[2]  # type: ignore[union-attr]


def test_an_epoch_whose_rows_are_lost_is_passed_by(reopen: Reopen) -> None:
    append(reopen(), 1)
    changelog = reopen()
    writer = changelog.writer(GROUP, "task")

    placed = {PLAYS.name: partition_rows(PLAYS, rows(7))}
    file = changelog.stage(GROUP, writer.next_epoch, placed, task="task")
    commit = writer.commit([file])
    append(reopen(), 9)
    reopen().discard(GROUP, [file])
    with pytest.raises(Corrupt):
        songs(reopen())
    skip(reopen(), commit.epoch)
    assert songs(reopen()) == [1, 9]


def test_the_newest_epoch_is_passed_by_and_a_job_goes_on(reopen: Reopen) -> None:
    old = reopen().writer(GROUP, "old")
    reopen().create_store(PLAYS)
    append(reopen(), 1)
    fence = reopen().writer(GROUP, "killed").epoch
    damage(reopen(), fence)
    with pytest.raises(Corrupt):
        reopen().writer(GROUP, "new")
    skip(reopen(), fence)
    append(reopen(), 2)
    assert songs(reopen()) == [1, 2]
    with pytest.raises(Fenced):
        old.append({})


def test_no_job_goes_on_behind_an_epoch_that_follows_another_one(reopen: Reopen) -> None:
    append(reopen(), 1)
    append(reopen(), 2, 3)
    stray, *others = [commit_path(GROUP, Epoch(epoch)) for epoch in (5, 2, 3, 4)]
    of_before = reopen().objects.get(stray)
    assert of_before is not None
    reopen().objects.delete([stray, *others])
    # As if a backup of epoch 1 had been restored, and a job of before had committed after that.
    running = open_appender(reopen(), [PLAYS])
    running.append({"plays": rows(7)})
    running.append({"plays": rows(8)})
    assert reopen().objects.create(stray, [of_before])
    with pytest.raises(Corrupt, match=r"Epoch 5 .* behind another epoch 4 .* pass it by"):
        running.append({"plays": rows(9)})
    with pytest.raises(Corrupt, match="behind another epoch 4"):
        open_appender(reopen(), [PLAYS])
    assert reopen().newest_epoch(GROUP) == 5
    skip(reopen(), 5)
    append(reopen(), 10)
    assert songs(reopen()) == [7, 8, 10]
    changelog = reopen()
    commits = [changelog.read_commit(GROUP, Epoch(epoch)) for epoch in range(1, 8)]
    for one, other in pairwise(commits):
        assert one is not None
        assert other is not None
        assert other.before == one.digest
        assert other.token >= one.token
    with pytest.raises(Fenced):
        running.append({"plays": rows(11)})


def test_a_job_goes_on_behind_an_epoch_with_a_snapshot_whatever_was_before(reopen: Reopen) -> None:
    append(reopen(), 1)
    append(reopen(), 2, 3)
    assert take_snapshot(reopen(), 1, 2, 3) == 5
    came_late = [commit_path(GROUP, Epoch(5)), snapshot_path(GROUP, Epoch(5))]
    of_before = [reopen().objects.get(path) for path in came_late]
    reopen().objects.delete([*came_late, *(commit_path(GROUP, Epoch(epoch)) for epoch in (2, 3, 4))])
    running = open_appender(reopen(), [PLAYS])
    running.append({"plays": rows(7)})
    running.append({"plays": rows(8)})
    for path, data in zip(came_late, of_before, strict=True):
        assert data is not None
        assert reopen().objects.create(path, [data])
    append(reopen(), 10)
    changelog = reopen()
    fifth, sixth = (changelog.read_commit(GROUP, Epoch(epoch)) for epoch in (5, 6))
    assert fifth is not None
    assert sixth is not None
    assert sixth.before == fifth.digest
    with pytest.raises(Corrupt, match="behind another epoch 4"):
        running.append({"plays": rows(11)})


def test_a_writer_of_a_damaged_fence_does_not_share_its_token_with_the_next(reopen: Reopen) -> None:
    append(reopen(), 1)
    late = reopen().writer(GROUP, "late")
    damage(reopen(), late.epoch)
    skip(reopen(), late.epoch)
    reopen().writer(GROUP, "new")
    with pytest.raises(Fenced):
        late.append({})


def test_who_wrote_the_damaged_epoch_goes_on_behind_it(reopen: Reopen) -> None:
    changelog = reopen()
    appender = open_appender(changelog, [PLAYS])
    appender.append({"plays": rows(1)})
    appender.append({"plays": rows(2)})
    damage(reopen(), 3)
    skip(reopen(), 3)
    appender.append({"plays": rows(3)})
    assert songs(reopen()) == [1, 3]
    for found in Inspection(reopen()).read():
        assert not found.faults


def test_a_late_writer_under_the_number_of_an_epoch_that_was_passed_by(
    reopen: Reopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The epoch has given way to a snapshot. Until it takes its commit back, all the others read the same."""
    reopen().create_store(PLAYS)
    late = reopen().writer(GROUP, "late")
    append(reopen(), 1, 2)
    skip(reopen(), late.next_epoch, force=True)
    knowing = reopen()
    newest = take_snapshot(knowing, 1, 2)
    whole = knowing.read_commit(GROUP, newest)
    knowing.drop_before(GROUP, newest)
    seen = []
    is_first = Epochs._is_first

    def look(epochs: Epochs, epoch: Epoch) -> bool:
        for changelog in (reopen(), knowing):
            assert changelog.read_commit(GROUP, epoch) is not None
            seen.append(changelog.read_commit(GROUP, newest))
            assert [each.epoch for each in changelog.usable_snapshots(GROUP)] == [newest]
        return is_first(epochs, epoch)

    monkeypatch.setattr(Epochs, "_is_first", look)
    with pytest.raises(Fenced):
        late.append({})
    assert seen == [whole, whole]
    assert reopen().read_commit(GROUP, late.next_epoch) is None


def test_two_epochs_behind_each_other_are_passed_by(reopen: Reopen) -> None:
    append(reopen(), 1, 2, 3, 4)
    damage(reopen(), 3)
    damage(reopen(), 4)
    skip(reopen(), 3)
    skip(reopen(), 4)
    assert songs(reopen()) == [1, 4]
    assert [skipped.epoch for skipped in reopen().skips(GROUP)] == [3, 4]


def test_verify_shows_it_and_finds_no_fault(reopen: Reopen) -> None:
    append(reopen(), 1, 2, 3)
    damage(reopen(), 3)
    skipped = skip(reopen(), 3)
    found = list(Inspection(reopen()).read())
    assert [each.faults for each in found] == [()] * len(found)
    assert [each.note for each in found if each.note] == [skipped.describe()]


# ---- what is refused


def test_an_epoch_that_can_be_read_needs_force(reopen: Reopen) -> None:
    append(reopen(), 1, 2)
    with pytest.raises(InvalidInput, match=r"can be read, .* --force"):
        skip(reopen(), 3)
    assert songs(reopen()) == [1, 2]
    skip(reopen(), 3, force=True)
    assert songs(reopen()) == [1]


def test_an_epoch_behind_a_damaged_one_is_not_passed_by_for_it(reopen: Reopen) -> None:
    append(reopen(), 1, 2, 3)
    damage(reopen(), 3)
    with pytest.raises(InvalidInput, match="Epoch 4 of store group plays can be read"):
        skip(reopen(), 4)


def test_an_epoch_that_was_lost_is_named(reopen: Reopen) -> None:
    append(reopen(), 1, 2, 3)
    reopen().objects.delete([commit_path(GROUP, Epoch(3))])
    with pytest.raises(NotFound, match="later ones are there: restore the changelog from a backup"):
        skip(reopen(), 3, force=True)


@pytest.mark.parametrize(
    ("epoch", "message"), [(9, "There is no epoch 9 of store group plays; the newest is 3.")]
)
def test_an_epoch_that_is_not_there_is_refused(reopen: Reopen, epoch: int, message: str) -> None:
    append(reopen(), 1, 2)
    with pytest.raises(NotFound, match=message):
        skip(reopen(), epoch, force=True)


def test_a_group_that_is_not_there_is_refused(reopen: Reopen) -> None:
    append(reopen(), 1)
    with pytest.raises(NotFound, match="There is no store group other; there are plays"):
        skip_epoch(reopen(), GroupName("other"), Epoch(1), "x", "ann", NOW, force=True)


def test_an_epoch_of_a_snapshot_is_refused(reopen: Reopen) -> None:
    append(reopen(), 1, 2)
    take_snapshot(reopen(), 1, 2)
    with pytest.raises(InvalidInput, match="is in the snapshot at epoch 3"):
        skip(reopen(), 2, force=True)


def test_a_reason_is_asked_for(reopen: Reopen) -> None:
    append(reopen(), 1)
    with pytest.raises(InvalidInput, match="Say why"):
        skip(reopen(), 2, force=True, reason=" ")


def test_an_epoch_is_passed_by_once(reopen: Reopen) -> None:
    append(reopen(), 1, 2)
    skip(reopen(), 3, force=True)
    with pytest.raises(InvalidInput, match="passed by already, by ann@ops: lost"):
        skip(reopen(), 3, force=True)


def test_two_operators_at_once_record_it_once(reopen: Reopen) -> None:
    append(reopen(), 1, 2, 3, 4)

    def attempt(number: int) -> str:
        try:
            return skip(reopen(), 3 if number % 2 else 4, force=True, reason=f"by {number}").reason
        except InvalidInput as error:
            return error.message

    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(attempt, range(8)))
    assert sum(text.startswith("by ") for text in said) == 2
    assert sorted(skipped.epoch for skipped in reopen().skips(GROUP)) == [3, 4]
    assert songs(reopen()) == [1, 4]


# ---- the record


def test_a_damaged_record_stops_its_group(reopen: Reopen) -> None:
    """What it says may matter to any epoch."""
    append(reopen(), 1, 2)
    skip(reopen(), 3, force=True)
    path = amendment_path(GROUP, 1)
    data = reopen().objects.get(path)
    assert data is not None
    change_object(reopen(), path, data.to_pybytes().replace(b"lost", b"1ost"))
    with pytest.raises(Corrupt, match="1 of store group plays is damaged"):
        songs(reopen())


def test_a_record_of_a_newer_version_is_refused(reopen: Reopen) -> None:
    append(reopen(), 1, 2)
    skip(reopen(), 3, force=True)
    path = amendment_path(GROUP, 1)
    data = reopen().objects.get(path)
    assert data is not None
    document = json.loads(unseal(data.to_pybytes(), "it"))
    newer = seal(json.dumps({**document, "format": AMENDMENT_FORMAT + 1}, indent=1).encode())
    change_object(reopen(), path, newer)
    with pytest.raises(Corrupt, match="upgrade livestate"):
        songs(reopen())


def test_a_version_without_skips_refuses_the_record(reopen: Reopen) -> None:
    """It takes each amendment for a definition."""
    append(reopen(), 1, 2)
    skip(reopen(), 3, force=True)
    data = reopen().objects.get(amendment_path(GROUP, 1))
    assert data is not None
    with pytest.raises(Corrupt, match="has format 4; this version reads up to 3: upgrade livestate"):
        StoreDefinition.from_json(unseal(data.to_pybytes(), "it"))


# ---- backups


def test_a_backup_has_the_skip_and_not_the_damage(reopen: Reopen) -> None:
    append(reopen(), 1, 2, 3)
    damage(reopen(), 3)
    with pytest.raises(Corrupt):
        list(back_up(reopen(), empty_place(), {}, NOW))
    skip(reopen(), 3)
    backup, place = empty_place(), empty_place()
    list(back_up(reopen(), backup, {}, NOW))
    list(restore(backup, place, {}))
    assert songs(place) == [1, 3]
    assert digests(place) == digests(reopen())


def test_a_backup_of_before_has_no_skip(reopen: Reopen) -> None:
    """Another epoch of the same number is not passed by."""
    append(reopen(), 1, 2, 3)
    skip(reopen(), 4, force=True)
    appender = open_appender(reopen(), [PLAYS])
    appender.append({"plays": rows(4)})
    place = empty_place()
    list(back_up(reopen(), place, {GROUP: Epoch(3)}, NOW))
    assert songs(place) == [1, 2]
    copy = empty_place()
    list(restore(place, copy, {}))
    append(copy, 5)
    assert songs(copy) == [1, 2, 5]
    assert not copy.skips(GROUP)


def test_another_epoch_of_the_same_number_is_not_passed_by(tmp_path: Path) -> None:
    """The changelog lost its end, and kept what was decided."""
    changelog = Changelog.open(str(tmp_path))
    append(changelog, 1, 2, 3)
    skip(changelog, 4, force=True)
    assert songs(Changelog.open(str(tmp_path))) == [1, 2]
    changelog.objects.delete([commit_path(GROUP, Epoch(epoch)) for epoch in (3, 4)])
    append(Changelog.open(str(tmp_path)), 8, 9)
    assert songs(Changelog.open(str(tmp_path))) == [1, 8, 9]
