"""Snapshots in a changelog: parts become one, what came before goes, and writers, readers and zombies still
agree.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, Commit, Snapshot, SnapshotRetention, open_appender
from engine.changelog.local_objects import LocalObjects
from engine.changelog.rows import partition_rows
from engine.changelog.snapshot import (
    EPOCH_WEIGHT,
    Mark,
    SnapshotPart,
    droppable_before,
    is_due,
    parts_covering,
)
from engine.changelog.snapshot_codec import encode_snapshot
from engine.errors import Corrupt, Fenced, Unavailable
from engine.model.schema import Epoch, PartitionId
from engine.replica.recovery import snapshots_to_try
from tests.support.stopping_objects import Stopped, StoppingObjects
from tests.unit.changelog.conftest import PLAYS, read, rows

Reopen = Callable[[], Changelog]
GROUP = PLAYS.group
DEFINITIONS = {PLAYS.name: PLAYS}
EVERYWHERE = [(PLAYS.name, PartitionId(number)) for number in range(PLAYS.partitions)]
NO_TAIL = SnapshotRetention(kept=1, tail_seconds=0)
LATER = 4_000_000_000_000_000


def rows_by_partition(*songs: int) -> dict[PartitionId, pa.RecordBatch]:
    return partition_rows(PLAYS, rows(*songs))


def write_part(
    changelog: Changelog,
    epoch: Epoch,
    live: Mapping[PartitionId, pa.RecordBatch],
    partitions: Collection[int],
) -> SnapshotPart:
    covers = [place for place in EVERYWHERE if place[1] in partitions]
    found = [(place, live[place[1]]) for place in covers if place[1] in live]
    return changelog.snapshots(GROUP).write_part(epoch, DEFINITIONS, covers, found)


def commit_of(changelog: Changelog, epoch: Epoch) -> Commit:
    found = changelog.read_commit(GROUP, epoch)
    assert found is not None
    return found


def take(changelog: Changelog, epoch: Epoch, *songs: int) -> Snapshot:
    """A snapshot with these songs."""
    write_part(changelog, epoch, rows_by_partition(*songs), range(PLAYS.partitions))
    assert changelog.snapshots(GROUP).commit(commit_of(changelog, epoch), EVERYWHERE)
    found = changelog.snapshots(GROUP).read(epoch)
    assert found is not None
    return found


def songs_of(changelog: Changelog, snapshot: Snapshot) -> list[int]:
    snapshots = changelog.snapshots(GROUP)
    batches = [batch for _, number in EVERYWHERE for batch in snapshots.batches(snapshot, PLAYS, number)]
    return sorted(song for batch in batches for song in batch.column("song").to_pylist())


def append_many(changelog: Changelog, count: int) -> list[Epoch]:
    """Epochs of one song each, after a fence."""
    appender = open_appender(changelog, [PLAYS])
    return [appender.epoch, *(appender.append({"plays": rows(song)}).epoch for song in range(count))]


def test_a_snapshot_counts_when_all_partitions_are_there(reopen: Reopen) -> None:
    changelog = reopen()
    epoch = append_many(changelog, 5)[-1]
    commit, snapshots = commit_of(changelog, epoch), changelog.snapshots(GROUP)
    assert not snapshots.commit(commit, EVERYWHERE)
    write_part(changelog, epoch, rows_by_partition(*range(5)), [0, 2])
    assert not snapshots.commit(commit, EVERYWHERE)
    assert (snapshots.epochs(), snapshots.newest_snapshot()) == ([], None)
    write_part(reopen(), epoch, rows_by_partition(*range(5)), [1, 2, 3])
    assert snapshots.commit(commit, EVERYWHERE)
    other = reopen()
    assert other.snapshots(GROUP).commit(commit, EVERYWHERE)
    found = other.snapshots(GROUP).newest_snapshot()
    assert found is not None
    assert (found.epoch, found.committed_at, found.written) == (epoch, commit.committed_at, commit.written)
    assert found.stores == frozenset([PLAYS.name])
    assert songs_of(other, found) == [0, 1, 2, 3, 4]


def test_an_empty_snapshot(reopen: Reopen) -> None:
    changelog = reopen()
    assert songs_of(changelog, take(changelog, append_many(changelog, 1)[-1])) == []


def test_large_partitions_are_cut(reopen: Reopen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.changelog.snapshots.FILE_BYTES", 1000)
    changelog = reopen()
    epoch = append_many(changelog, 1)[-1]
    live = rows_by_partition(*range(400))
    found = [(place, live[place[1]].slice(start, 10)) for place in EVERYWHERE for start in range(0, 200, 10)]
    part = changelog.snapshots(GROUP).write_part(epoch, DEFINITIONS, EVERYWHERE, found)
    assert len(part.files) > 10
    assert changelog.snapshots(GROUP).commit(commit_of(changelog, epoch), EVERYWHERE)
    snapshot = reopen().snapshots(GROUP).newest_snapshot()
    assert snapshot is not None
    assert snapshot.nbytes == sum(file.size for file in part.files)
    assert songs_of(reopen(), snapshot) == list(range(400))


def test_what_is_before_the_oldest_kept_snapshot_goes(reopen: Reopen) -> None:
    changelog = reopen()
    epochs = append_many(changelog, 9)
    stays = changelog.writer(GROUP, "w")
    staged = changelog.stage(GROUP, stays.next_epoch, {PLAYS.name: rows_by_partition(100)}, task="t")
    with_file = stays.commit([staged]).epoch
    for epoch in (epochs[2], epochs[5], with_file):
        take(changelog, epoch, *range(epoch))
    write_part(changelog, epochs[4], rows_by_partition(1), [0])
    soon = commit_of(changelog, with_file).committed_at
    assert changelog.drop(GROUP, SnapshotRetention(kept=1, tail_seconds=3600), now=soon).epochs == 0
    dropped = changelog.drop(GROUP, SnapshotRetention(kept=2, tail_seconds=0), now=LATER)
    assert (dropped.epochs, dropped.snapshots) == (epochs[5] - 1, 1)
    other = reopen()
    assert [other.holds(GROUP, Epoch(epoch)) for epoch in range(1, with_file + 1)] == [
        epoch >= epochs[5] for epoch in range(1, with_file + 1)
    ]
    assert other.snapshots(GROUP).epochs() == [epochs[5], with_file]
    assert other.snapshots(GROUP).parts(epochs[4]) == []
    assert other.newest_epoch(GROUP) == with_file
    assert other.newest_epoch(GROUP, epochs[5]) == with_file
    assert read(other, with_file) == [(100, "t", 1)]
    assert other.drop(GROUP, SnapshotRetention(kept=2, tail_seconds=0), now=LATER).epochs == 0
    assert other.drop(GROUP, NO_TAIL, LATER).snapshots == 1
    assert (other.collect(GROUP), other.newest_epoch(GROUP)) == (0, with_file)


def lose_file(local: Changelog, root: Path, snapshot: Snapshot) -> None:
    next(root.glob(f"groups/*/snapshots/*{snapshot.epoch}/*.arrow")).unlink()


def cut_file(local: Changelog, root: Path, snapshot: Snapshot) -> None:
    file = next(root.glob(f"groups/*/snapshots/*{snapshot.epoch}/*.arrow"))
    file.write_bytes(file.read_bytes()[:-1])


def change_history(local: Changelog, root: Path, snapshot: Snapshot) -> None:
    (path,) = root.glob(f"groups/*/snapshots/*{snapshot.epoch}.snapshot")
    path.write_bytes(encode_snapshot(dataclasses.replace(snapshot, digest="0" * 32)).to_pybytes())


@pytest.mark.parametrize("harm", [lose_file, cut_file, change_history])
def test_epochs_do_not_go_for_what_is_left_of_a_snapshot(
    local: Changelog, tmp_path: Path, harm: Callable[[Changelog, Path, Snapshot], None]
) -> None:
    """As an older copy of the changelog leaves them that was put back before a loss of power."""
    epochs = append_many(local, 6)
    first, second = take(local, epochs[2], 0, 1), take(local, epochs[4], *range(4))
    harm(local, tmp_path / "root", second)
    reopened = Changelog.open(local.uri)
    assert reopened.drop(GROUP, NO_TAIL, LATER).epochs == first.epoch - 1
    assert all(reopened.holds(GROUP, Epoch(epoch)) for epoch in range(first.epoch, epochs[-1] + 1))


def test_a_writer_goes_on_behind_a_snapshot(reopen: Reopen) -> None:
    changelog = reopen()
    writer = open_appender(changelog, [PLAYS])
    first = writer.append({"plays": rows(1)}, query_id="q", batch_id=7)
    last = writer.append({"plays": rows(2)}, query_id="other", batch_id=1)
    take(changelog, last.epoch, 1, 2)
    assert changelog.drop(GROUP, NO_TAIL, LATER).epochs == last.epoch - 1
    later = reopen().writer(GROUP, "later")
    assert later.epoch == last.epoch + 1
    assert later.token > last.token
    assert later.committed_epoch("q", 7) == first.epoch
    repeated = later.append({PLAYS.name: rows_by_partition(1)}, query_id="q", batch_id=7)
    assert (repeated.epoch, repeated.query_id, repeated.batch_id, repeated.files) == (first.epoch, "q", 7, ())
    assert reopen().newest_epoch(GROUP) == later.epoch


@pytest.mark.parametrize("committed", [True, False])
def test_a_zombie_cannot_write_what_was_dropped(reopen: Reopen, committed: bool) -> None:
    """Its next number is free again, as it was before anybody wrote."""
    changelog = reopen()
    zombie = changelog.writer(GROUP, "zombie")
    changelog.create_store(PLAYS)
    if committed:
        zombie.append({PLAYS.name: rows_by_partition(1)})
    other = reopen().writer(GROUP, "other")
    for song in range(3):
        other.append({PLAYS.name: rows_by_partition(song)})
    take(changelog, other.epoch, 0, 1, 2)
    assert changelog.drop(GROUP, NO_TAIL, LATER).epochs == other.epoch - 1
    for _ in range(2):
        with pytest.raises(Fenced, match="written by other with token 2 now; zombie with token 1"):
            zombie.append({PLAYS.name: rows_by_partition(9)})
    assert not changelog.holds(GROUP, Epoch(zombie.epoch + 1))
    assert reopen().newest_epoch(GROUP) == other.epoch


def test_a_crash_anywhere_leaves_all_rows(tmp_path: Path) -> None:
    steps = 0
    while True:
        root = tmp_path / str(steps)
        changelog = Changelog.open(str(root))
        epochs = append_many(changelog, 7)
        stopping = Changelog(str(root), {}, StoppingObjects(LocalObjects(root), steps))
        finished = False
        with suppress(Stopped):
            take(stopping, epochs[3], 0, 1, 2)
            take(stopping, epochs[5], 0, 1, 2, 3, 4)
            stopping.drop(GROUP, NO_TAIL, LATER)
            finished = True
        assert all_songs(Changelog.open(str(root))) == list(range(7))
        # Whoever comes next goes on, and leaves nothing behind.
        after = Changelog.open(str(root))
        take(after, epochs[6], *range(6))
        after.drop(GROUP, NO_TAIL, LATER)
        assert all_songs(Changelog.open(str(root))) == list(range(7))
        names = {path.name for path in (root / "groups" / "plays").rglob("*") if path.is_file()}
        assert len([name for name in names if name.endswith(".commit")]) == 2
        assert len([name for name in names if name.endswith(".snapshot")]) == 1
        assert len([name for name in names if name.endswith(".arrow")]) == 1
        if finished:
            assert steps > 10
            return
        steps += 1


def all_songs(changelog: Changelog) -> list[int]:
    """What a host would come to know."""
    snapshot = changelog.snapshots(GROUP).newest_snapshot()
    songs = [] if snapshot is None else songs_of(changelog, snapshot)
    for epoch in range(snapshot.epoch + 1 if snapshot else 1, changelog.newest_epoch(GROUP) + 1):
        songs += [int(str(row[0])) for row in read(changelog, epoch)]
    return sorted(songs)


def test_several_may_drop_at_once(reopen: Reopen) -> None:
    changelog, other = reopen(), reopen()
    epochs = append_many(changelog, 6)
    take(changelog, epochs[-1], *range(6))
    assert other.snapshots(GROUP).epochs() == [epochs[-1]]
    assert changelog.drop(GROUP, NO_TAIL, LATER).epochs == epochs[-1] - 1
    assert other.drop(GROUP, NO_TAIL, LATER).epochs == 0
    assert all_songs(other) == list(range(6))


# ---- damage


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "other"])
def test_a_damaged_snapshot_is_left_out(local: Changelog, tmp_path: Path, damage: str) -> None:
    epochs = append_many(local, 4)
    take(local, epochs[2], 0, 1)
    take(local, epochs[4], 0, 1, 2, 3)
    older, newer = sorted((tmp_path / "root" / "groups" / "plays" / "snapshots").glob("*.snapshot"))
    data = newer.read_bytes()
    damaged = {
        "flip": bytes([*data[:60], data[60] ^ 1, *data[61:]]),
        "cut": data[:-3],
        "empty": b"",
        "other": older.read_bytes(),
    }[damage]
    newer.write_bytes(damaged)
    other = Changelog.open(local.uri)
    found = other.snapshots(GROUP).newest_snapshot()
    assert found is not None
    assert found.epoch == epochs[2]
    with pytest.raises(
        Corrupt, match=r"snapshot at epoch 5 of store group plays is (damaged|that of epoch 3)"
    ):
        other.snapshots(GROUP).read(epochs[4])


def test_another_format_is_not_read(local: Changelog, tmp_path: Path) -> None:
    epoch = append_many(local, 1)[-1]
    take(local, epoch, 0)
    (file,) = (tmp_path / "root" / "groups" / "plays" / "snapshots").glob("*.snapshot")
    data = file.read_bytes()
    file.write_bytes(data[:8] + b"\x03" + data[9:])
    with pytest.raises(Corrupt, match="has format 3; this version reads up to 2: upgrade livestate"):
        Changelog.open(local.uri).snapshots(GROUP).read(epoch)


@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_damaged_rows_of_a_snapshot_are_not_read(local: Changelog, tmp_path: Path, damage: str) -> None:
    epoch = append_many(local, 1)[-1]
    snapshot = take(local, epoch, *range(100))
    (file,) = (tmp_path / "root" / "groups" / "plays" / "snapshots").rglob("*.arrow")
    data = file.read_bytes()
    file.unlink()
    if damage != "gone":
        file.write_bytes(data[:-8] if damage == "cut" else data[:300] + bytes([data[300] ^ 1]) + data[301:])
    with pytest.raises(Corrupt, match="the snapshot at epoch 2 of store group plays"):
        songs_of(local, snapshot)


def test_a_damaged_part_is_written_again(local: Changelog, tmp_path: Path) -> None:
    epoch = append_many(local, 1)[-1]
    write_part(local, epoch, rows_by_partition(0), range(4))
    (file,) = (tmp_path / "root").rglob("*.part")
    file.write_bytes(file.read_bytes()[:-1])
    assert local.snapshots(GROUP).parts(epoch) == []
    assert songs_of(local, take(local, epoch, 0)) == [0]


def test_a_part_that_lacks_a_file_does_not_count(local: Changelog, tmp_path: Path) -> None:
    """Epochs would go for it."""
    epoch = append_many(local, 1)[-1]
    write_part(local, epoch, rows_by_partition(0), range(4))
    (file,) = (tmp_path / "root").glob("groups/*/snapshots/**/*.arrow")
    file.unlink()
    assert not local.snapshots(GROUP).commit(commit_of(local, epoch), EVERYWHERE)
    assert local.snapshots(GROUP).parts(epoch) == []
    assert songs_of(local, take(local, epoch, 0)) == [0]


class SilentObjects(LocalObjects):
    """Objects that are written, and nobody hears of parts of a snapshot."""

    def put(self, path: str, chunks: Sequence[pa.Buffer]) -> None:
        """See `Objects.put`."""
        super().put(path, chunks)
        if path.endswith(".part"):
            raise Unavailable("No answer.")


def test_a_part_whose_answer_was_lost_keeps_its_rows(local: Changelog, tmp_path: Path) -> None:
    epoch = append_many(local, 1)[-1]
    objects = SilentObjects(tmp_path / "root")
    with pytest.raises(Unavailable):
        write_part(Changelog(local.uri, {}, objects), epoch, rows_by_partition(0), range(4))
    assert local.snapshots(GROUP).commit(commit_of(local, epoch), EVERYWHERE)
    found = local.snapshots(GROUP).newest_snapshot()
    assert found is not None
    assert songs_of(local, found) == [0]


def test_a_host_goes_on_from_the_snapshot_that_is_there(local: Changelog) -> None:
    """Not from one of the same epoch that it has read, before the changelog was restored."""
    epochs = append_many(local, 3)
    known = take(local, epochs[2], 0, 1)
    assert local.snapshots(GROUP).newest_snapshot() == known
    local.objects.delete([path for path in local.objects.list("groups") if "snapshots" in path])
    other = take(Changelog.open(local.uri), epochs[2], 0, 1)
    found = snapshots_to_try(local, GROUP, Epoch(0), "", is_blocked=False)
    assert [snapshot.parts for snapshot in found] == [other.parts] != [known.parts]


def test_rows_in_other_columns_are_not_taken(local: Changelog) -> None:
    snapshot = take(local, append_many(local, 1)[-1], 0)
    other = dataclasses.replace(PLAYS, stored_schema=PLAYS.schema.append(pa.field("more", pa.int64())))
    with pytest.raises(Corrupt, match="do not fit the store's definition"):
        for _, number in EVERYWHERE:
            list(local.snapshots(GROUP).batches(snapshot, other, number))


FULL_DISK = """
import resource, sys
from engine.errors import LimitExceeded
from tests.support.stopping_objects import Stopped, StoppingObjects
from tests.unit.changelog.test_snapshots import *

changelog = Changelog.open(sys.argv[1])
epoch = append_many(changelog, 3)[-1]
for limit in (5_000, 200):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        write_part(changelog, epoch, rows_by_partition(*range(2_000 if limit == 5_000 else 1)), range(4))
    except LimitExceeded as error:
        print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print([path.name for path in Path(sys.argv[1]).rglob("*") if path.suffix in (".arrow", ".part", ".tmp")])
print(songs_of(changelog, take(changelog, epoch, 0, 1, 2)))
"""


def test_a_full_disk_leaves_no_part(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    *refusals, left, songs = done.stdout.splitlines()
    assert len(refusals) == 2
    assert all(line.startswith("The disk of the changelog is full") for line in refusals)
    assert (left, songs) == ("[]", "[0, 1, 2]")


# ---- decisions


def commit(epoch: int, written: int, nbytes: int = 0) -> Commit:
    found = Commit(GROUP, Epoch(epoch), 1, "w", "n", None, None, 0, written=written)
    assert nbytes == found.nbytes == 0
    return found


def test_a_snapshot_is_due_by_the_weight_of_the_epochs() -> None:
    after = 10 * EPOCH_WEIGHT
    assert [epoch for epoch in range(1, 200) if is_due(Mark(), commit(epoch, 0), after)] == [
        10,
        20,
        40,
        80,
        160,
    ]
    mark = Mark(Epoch(10), 0, 30 * EPOCH_WEIGHT)
    assert [epoch for epoch in range(1, 200) if is_due(mark, commit(epoch, 0), after)] == [40, 70, 130]


def test_rows_count_for_a_snapshot(local: Changelog) -> None:
    appender = open_appender(local, [PLAYS])
    size = appender.append({"plays": rows(*range(100))}).nbytes
    assert size > 0
    found = [appender.append({"plays": rows(*range(100))}) for _ in range(9)]
    assert [each.written for each in found] == [size * (number + 2) for number in range(9)]
    due = [each.epoch for each in found if is_due(Mark(), each, 5 * (size + EPOCH_WEIGHT))]
    assert due == [6, 11]


def snapshot(epoch: int, committed_at: int = 0) -> Snapshot:
    return Snapshot(GROUP, Epoch(epoch), committed_at, 0, {}, ())


@pytest.mark.parametrize(
    ("retention", "oldest"),
    [
        (SnapshotRetention(kept=1, tail_seconds=0), 30),
        (SnapshotRetention(kept=2, tail_seconds=0), 20),
        (SnapshotRetention(kept=3, tail_seconds=0), 10),
        (SnapshotRetention(kept=4, tail_seconds=0), None),
        (SnapshotRetention(kept=1, tail_seconds=15), 10),
        (SnapshotRetention(kept=1, tail_seconds=5), 20),
        (SnapshotRetention(kept=1, tail_seconds=100), None),
        (SnapshotRetention(kept=1, tail_seconds=100, tail_epochs=20), 10),
        (SnapshotRetention(kept=1, tail_seconds=100, tail_epochs=21), None),
    ],
)
def test_what_stays(retention: SnapshotRetention, oldest: int | None) -> None:
    snapshots = [snapshot(10, 10_000_000), snapshot(20, 20_000_000), snapshot(30, 30_000_000)]
    found = [each.epoch for each in droppable_before(snapshots, retention, now=30_000_000)]
    assert found == [epoch for epoch in (30, 20, 10) if oldest is not None and epoch <= oldest]
    assert not list(droppable_before([], retention, now=0))


def test_a_clock_that_was_ahead_keeps_nothing_for_as_long_as_it_was_wrong() -> None:
    """All commits behind that of the wrong clock have its time."""
    now, month = 60_000_000, 30 * 86_400_000_000
    ahead = [snapshot(10, 10_000_000), *(snapshot(epoch, now + month) for epoch in (20, 30, 40))]
    assert [
        each.epoch for each in droppable_before(ahead, SnapshotRetention(kept=2, tail_seconds=600), now)
    ] == [30, 20]
    # By less than clocks may be apart it counts for what it says, or for now.
    near = [snapshot(10, 10_000_000), *(snapshot(epoch, now + 1) for epoch in (20, 30, 40))]
    assert not list(droppable_before(near, SnapshotRetention(kept=2, tail_seconds=600), now))
    assert [
        each.epoch for each in droppable_before(near, SnapshotRetention(kept=2, tail_seconds=0), now)
    ] == [30, 20, 10]


def part(name: str, *numbers: int) -> SnapshotPart:
    return SnapshotPart(name, {}, frozenset((PLAYS.name, PartitionId(number)) for number in numbers), ())


def test_parts_are_combined_in_order_of_name() -> None:
    names = [part("c", 2, 3), part("a", 0), part("b", 0, 1, 2), part("d", 3)]
    found = parts_covering(names, EVERYWHERE)
    assert found is not None
    assert [each.name for each in found] == ["a", "b", "c"]
    assert parts_covering(names[1:3], EVERYWHERE) is None
    assert parts_covering([], []) == ()


def test_an_unreachable_changelog_keeps_all(local: Changelog, tmp_path: Path) -> None:
    epoch = append_many(local, 3)[-1]
    take(local, epoch, 0, 1, 2)
    directory = tmp_path / "root" / "groups" / "plays"
    directory.rename(tmp_path / "away")
    directory.write_text("no directory")
    with pytest.raises(Unavailable):
        local.writer(GROUP, "w")
    directory.unlink()
    (tmp_path / "away").rename(directory)
    assert all_songs(local) == [0, 1, 2]
