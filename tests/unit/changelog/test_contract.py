"""What every changelog does, on whatever storage."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from engine.changelog import Changelog, decode_file, encode_file, open_appender, partition_rows
from engine.changelog.changelog import ABANDONED_AFTER
from engine.changelog.epochs import Gap
from engine.changelog.first_loads import collect_first_load, unfinished_first_loads
from engine.changelog.layout import FORMAT_PATH, commit_path
from engine.errors import Corrupt, InvalidInput, NotFound
from engine.model.schema import TOMBSTONE_COLUMN, Epoch, GroupName, PartitionId, StoreName, define_store
from tests.unit.changelog.conftest import PLAYS, flat, read, rows

Reopen = Callable[[], Changelog]


def test_an_empty_changelog(reopen: Reopen) -> None:
    changelog = reopen()
    assert changelog.definitions() == {}
    assert changelog.definition(PLAYS.name) is None
    assert changelog.groups() == []
    assert changelog.newest_epoch(PLAYS.group) == 0
    assert changelog.read_commit(PLAYS.group, Epoch(1)) is None
    assert changelog.collect(PLAYS.group) == 0
    assert changelog.identity() is None


def test_a_changelog_keeps_its_identity(reopen: Reopen) -> None:
    reopen().create_store(PLAYS)
    identity = reopen().identity()
    assert identity
    reopen().writer(PLAYS.group, "w")
    assert reopen().identity() == identity
    other = Changelog.open("memory://")
    other.create_store(PLAYS)
    assert other.identity() != identity


def test_files_of_a_first_load_that_died_are_deleted_an_hour_later(reopen: Reopen) -> None:
    open_appender(reopen(), [PLAYS], creates_stores_later=True).stage({"plays": rows(1)})
    changelog = reopen()
    load = unfinished_first_loads(changelog)[PLAYS.group]
    assert abs(load.written_at - changelog.objects.current_time()) < 60_000_000
    assert collect_first_load(changelog, load, load.written_at + ABANDONED_AFTER) == 0
    assert collect_first_load(changelog, load, load.written_at + ABANDONED_AFTER + 1) == 1
    assert unfinished_first_loads(changelog) == {}


def test_append_and_read_back(reopen: Reopen) -> None:
    appender = open_appender(reopen(), [PLAYS], writer_id="loader")
    commit = appender.append({"plays": rows(1, 2, 3)})
    appender.append({"plays": rows(2, title="new")})

    reader = reopen()
    assert reader.definitions() == {"plays": PLAYS}
    assert reader.groups() == ["plays"]
    assert reader.newest_epoch(PLAYS.group) == 3
    assert reader.newest_epoch(PLAYS.group, commit.epoch) == 3
    assert read(reader, 1) == []
    assert read(reader, 2) == [(1, "t", 1), (2, "t", 1), (3, "t", 1)]
    assert read(reader, 3) == [(2, "new", 1)]
    stored = reader.read_commit(PLAYS.group, Epoch(2))
    assert stored == commit
    assert stored is not None
    assert (stored.writer, stored.token, stored.rows, stored.stores) == (
        "loader",
        1,
        3,
        frozenset([PLAYS.name]),
    )


def test_a_big_epoch_goes_to_a_data_file_and_is_read_by_partition(reopen: Reopen) -> None:
    appender = open_appender(reopen(), [PLAYS])
    commit = appender.append({"plays": rows(*range(50_000))})
    assert [file.name.startswith("driver-") for file in commit.files] == [True]
    reader = reopen()
    assert len(read(reader, 2)) == 50_000
    part = reader.read_rows(commit, {PLAYS.name: PLAYS}, lambda _, partition: partition in (1, 3))
    assert {place[1] for place in part} == {1, 3}
    expected = partition_rows(PLAYS, rows(*range(50_000)))
    assert part[PLAYS.name, PartitionId(3)].to_batches() == [expected[PartitionId(3)]]
    assert reader.read_rows(commit, {}, lambda *_: False) == {}


def test_far_ranges_of_a_file_are_read_apart(reopen: Reopen) -> None:
    changelog = reopen()
    wide = define_store("wide", pa.schema([("k", pa.int64()), ("v", pa.binary())]), ["k"], partitions=8)
    table = pa.table({"k": range(64), "v": [bytes([k]) * 100_000 for k in range(64)]}, wide.schema)
    commit = open_appender(changelog, [wide]).append({"wide": table})
    found = changelog.read_rows(commit, {wide.name: wide}, lambda _, partition: partition in (0, 3, 7))
    expected = partition_rows(wide, table)
    assert len(found) == 3
    assert all(rows.to_batches() == [expected[place[1]]] for place, rows in found.items())


def test_several_stores_in_one_commit(reopen: Reopen) -> None:
    songs = define_store(
        "songs",
        pa.schema([("id", pa.string()), ("genre", pa.string())]),
        ["id"],
        group="charts",
        partitions=2,
    )
    plays = define_store("plays", PLAYS.schema, ["song"], group="charts", partitions=4)
    appender = open_appender(reopen(), [songs, plays])
    commit = appender.append({"plays": rows(1), "songs": pa.table({"id": ["a", "b"], "genre": ["x", None]})})
    reader = reopen()
    assert reader.groups() == ["charts"]
    assert commit.stores == {songs.name, plays.name}
    found = reader.read_rows(commit, reader.definitions())
    assert flat({place: batch for place, batch in found.items() if place[0] == "songs"}) == [
        ("a", "x"),
        ("b", None),
    ]
    with pytest.raises(NotFound, match=r"plays in epoch 2 of store group charts"):
        reader.read_rows(commit, {songs.name: songs})


def test_tombstones_travel_only_where_there_are_some(reopen: Reopen) -> None:
    appender = open_appender(reopen(), [PLAYS])
    table = rows(*range(20)).append_column("gone", pa.array([song == 7 for song in range(20)]))
    commit = appender.append({"plays": table}, tombstone_column="gone")
    marked = [
        batch
        for batch in reopen().read_rows(commit, {PLAYS.name: PLAYS}).values()
        if TOMBSTONE_COLUMN in batch.schema.names
    ]
    assert len(marked) == 1
    assert marked[0].schema.names[-1] == TOMBSTONE_COLUMN
    assert {row["song"] for row in marked[0].to_pylist() if row[TOMBSTONE_COLUMN]} == {7}


def test_replaced_stores_are_named(reopen: Reopen) -> None:
    appender = open_appender(reopen(), [PLAYS])
    assert appender.append({"plays": rows(1)}, replaced=["plays"]).replaced == ("plays",)
    emptied = appender.append({}, replaced=["plays"])
    stored = reopen().read_commit(PLAYS.group, emptied.epoch)
    assert stored is not None
    assert (stored.replaced, stored.files, stored.stores) == ((PLAYS.name,), (), frozenset([PLAYS.name]))


def test_tasks_stage_files_and_the_commit_names_the_winners(reopen: Reopen) -> None:
    changelog = reopen()
    changelog.create_store(PLAYS)
    writer = changelog.writer(PLAYS.group, "driver")
    staged = {}
    for task, attempt in [("0", "lost"), ("0", "won"), ("1", "won")]:
        tables = {PLAYS.name: partition_rows(PLAYS, rows(1, 2, 3, title=f"{task} {attempt}"))}
        staged[task, attempt] = reopen().stage(PLAYS.group, writer.next_epoch, tables, task=task)
    assert reopen().newest_epoch(PLAYS.group) == 1
    files = [decode_file(encode_file(staged[task, "won"])) for task in ("0", "1")]
    commit = writer.commit(files, query_id="q", batch_id=0)
    # Rows of one partition come in the order of the files, so that the later file wins.
    found = reopen().read_rows(commit, {PLAYS.name: PLAYS})
    for batch in found.values():
        titles = batch["title"].to_pylist()
        assert titles == sorted(titles)
    assert len(flat(found)) == 6
    assert changelog.collect(PLAYS.group) == 1
    assert changelog.collect(PLAYS.group) == 0
    assert len(flat(reopen().read_rows(commit, {PLAYS.name: PLAYS}))) == 6


def test_slices_with_and_without_tombstones_of_one_partition_join(reopen: Reopen) -> None:
    changelog = reopen()
    single = define_store("single", PLAYS.schema, ["song"], partitions=1)
    changelog.create_store(single)
    writer = changelog.writer(single.group, "driver")
    gone = rows(1).append_column("gone", pa.array([True]))
    parts = [
        partition_rows(single, rows(1)),
        partition_rows(single, gone, tombstone_column="gone"),
        partition_rows(single, rows(2)),
    ]
    files = [
        changelog.stage(single.group, writer.next_epoch, {single.name: part}, task="t") for part in parts
    ]
    batch = changelog.read_rows(writer.commit(files), {single.name: single})[single.name, PartitionId(0)]
    assert batch[TOMBSTONE_COLUMN].to_pylist() == [False, True, False]
    assert batch["song"].to_pylist() == [1, 1, 2]


def test_a_file_staged_for_another_epoch_is_refused(reopen: Reopen) -> None:
    changelog = reopen()
    changelog.create_store(PLAYS)
    writer = changelog.writer(PLAYS.group, "driver")
    file = changelog.stage(
        PLAYS.group, writer.next_epoch, {PLAYS.name: partition_rows(PLAYS, rows(1))}, task="0"
    )
    writer.append({})
    with pytest.raises(InvalidInput, match="staged for epoch 2, and the next one is 3"):
        writer.commit([file])


def test_a_store_is_created_once(reopen: Reopen) -> None:
    assert reopen().create_store(PLAYS) == PLAYS
    assert reopen().create_store(PLAYS) == PLAYS
    other = define_store("plays", PLAYS.schema, ["song"], partitions=5)
    with pytest.raises(InvalidInput, match=r"PARTITIONS 4 .* PARTITIONS 5 "):
        reopen().create_store(other)
    assert reopen().definition(PLAYS.name) == PLAYS


@pytest.mark.parametrize(
    "name",
    [
        "two words",
        ".hidden",
        "..x",
        "a%2Fb",
        "naïve名",
        "a:b*c?d|e\\f\"g'h",
        "#hash?query&x=1",
        "x" * 200,
        "é" * 100,
        "tail.",
    ],
)
def test_any_printable_name(reopen: Reopen, name: str) -> None:
    definition = define_store(name, PLAYS.schema, ["song"])
    commit = open_appender(reopen(), [definition]).append({name: rows(*range(20_000))})
    assert commit.files[0].name
    reader = reopen()
    assert reader.definitions() == {StoreName(name): definition}
    assert reader.newest_epoch(GroupName(name)) == 2
    assert len(read(reader, 2, definition)) == 20_000
    assert reader.collect(GroupName(name)) == 0


def test_all_4096_partitions(reopen: Reopen) -> None:
    definition = define_store("many", PLAYS.schema, ["song"], partitions=4096)
    commit = open_appender(reopen(), [definition]).append({"many": rows(*range(60_000))})
    reader = reopen()
    stored = reader.read_commit(definition.group, commit.epoch)
    assert stored == commit
    assert stored is not None
    found = reader.read_rows(stored, {definition.name: definition})
    assert len(found) == 4096
    assert sorted(song for batch in found.values() for song in batch["song"].to_pylist()) == list(
        range(60_000)
    )


@pytest.mark.parametrize("epochs", [1, 2, 3, 7, 8, 20])
def test_the_newest_epoch_is_found_from_anywhere(epochs: int) -> None:
    changelog = Changelog.open("memory://")
    changelog.create_store(PLAYS)
    writer = changelog.writer(PLAYS.group, "w")
    for _ in range(epochs - 1):
        writer.append({})
    assert [changelog.newest_epoch(PLAYS.group, Epoch(known)) for known in range(epochs + 1)] == [epochs] * (
        epochs + 1
    )


def test_commit_times_never_fall(reopen: Reopen) -> None:
    appender = open_appender(reopen(), [PLAYS])
    times = [appender.append({}).committed_at for _ in range(5)]
    assert times == sorted(times)


def test_rows_that_do_not_fit_are_never_stored(reopen: Reopen) -> None:
    changelog = reopen()
    changelog.create_store(PLAYS)
    writer = changelog.writer(PLAYS.group, "w")
    good = pa.RecordBatch.from_pydict({"song": [1], "title": ["t"], "plays": [1]}, PLAYS.schema)
    null_key = pa.RecordBatch.from_arrays(
        [pa.array([None], pa.int64()), good["title"], good["plays"]], schema=PLAYS.schema
    )
    with pytest.raises(InvalidInput, match="4 partitions, and rows came for partition 4"):
        writer.append({PLAYS.name: {PartitionId(4): good}})
    with pytest.raises(InvalidInput, match="title is missing"):
        writer.append({PLAYS.name: {PartitionId(0): good.drop_columns(["title"])}})
    with pytest.raises(InvalidInput, match="key column song is null"):
        writer.append({PLAYS.name: {PartitionId(0): null_key}})
    with pytest.raises(NotFound, match="no store other"):
        writer.append({StoreName("other"): {PartitionId(0): good}})
    with pytest.raises(NotFound, match="no store other"):
        writer.append({}, replaced=[StoreName("other")])
    changelog.create_store(define_store("away", PLAYS.schema, ["song"], group="elsewhere"))
    with pytest.raises(InvalidInput, match="belongs to store group elsewhere"):
        changelog.stage(PLAYS.group, writer.next_epoch, {StoreName("away"): {PartitionId(0): good}}, task="0")
    assert reopen().newest_epoch(PLAYS.group) == 1
    assert writer.append({PLAYS.name: {PartitionId(0): good}}).epoch == 2


def test_what_sorts_behind_a_path_is_listed(reopen: Reopen) -> None:
    objects = reopen().objects
    paths = ["g/1.commit", "g/1/a", "g/1/b/c", "g/2.commit", "g/2/a", "g/s/1", "g/s/2"]
    for path in reversed(paths):
        objects.put(path, [pa.py_buffer(b"x")])
    objects.put("h/1", [pa.py_buffer(b"x")])
    for number, path in enumerate(paths):
        assert list(objects.list("g", path)) == paths[number + 1 :]
    assert list(objects.list("g", "g/0.commit")) == paths
    assert list(objects.list("g", "g/1/b/a")) == paths[2:]
    assert sorted(objects.list("g")) == paths


def test_a_gap_is_found(reopen: Reopen) -> None:
    changelog, group = reopen(), PLAYS.group
    changelog.create_store(PLAYS)
    writer = changelog.writer(group, "w")
    while writer.epoch < 9:
        writer.append({})
    assert [changelog.find_gap(group, Epoch(known)) for known in range(10)] == [None] * 10
    changelog.objects.delete([commit_path(group, Epoch(lost)) for lost in (4, 5, 7)])
    assert reopen().newest_epoch(group) == 3
    assert reopen().find_gap(group, Epoch(3)) == Gap(group, Epoch(4), Epoch(6), Epoch(6))
    assert reopen().newest_listed_epoch(group, Epoch(2)) == 6
    assert reopen().find_gap(group, Epoch(6)) == Gap(group, Epoch(7), Epoch(8), Epoch(9))
    with pytest.raises(Corrupt, match="The commit of epoch 4 of store group plays is missing, though later"):
        reopen().writer(group, "w")
    writer.append({})  # who has begun before goes on
    changelog.objects.delete([commit_path(group, Epoch(lost)) for lost in range(4, 11)])
    assert reopen().find_gap(group, Epoch(3)) is None
    assert reopen().writer(group, "w").epoch == 4


def test_what_was_dropped_or_is_being_restored_is_no_gap(reopen: Reopen) -> None:
    changelog, group = reopen(), PLAYS.group
    changelog.create_store(PLAYS)
    writer = changelog.writer(group, "w")
    while writer.epoch < 9:
        writer.append({})
    whole = changelog.objects.get(FORMAT_PATH)
    assert whole is not None
    changelog.objects.delete([commit_path(group, Epoch(4)), FORMAT_PATH])
    assert reopen().find_gap(group, Epoch(3)) is None
    changelog.objects.put(FORMAT_PATH, [whole])
    assert reopen().find_gap(group, Epoch(3)) is not None
    changelog._epochs(group).drop(Epoch(6))
    assert [reopen().find_gap(group, Epoch(known)) for known in range(1, 10)] == [None] * 9
