"""Stores change by migrations: numbered objects that the next commit of their group takes up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event

import pyarrow as pa
import pytest

from engine.changelog import (
    Changelog,
    Commit,
    SnapshotRetention,
    append_table,
    decode_file,
    encode_file,
    open_appender,
    partition_rows,
)
from engine.changelog.codec import DATA_HEADER_LENGTH, decode_commit, encode_commit
from engine.changelog.layout import amendment_path
from engine.changelog.local_objects import LocalObjects
from engine.changelog.objects import Objects
from engine.errors import Corrupt, Fenced, InvalidInput, NotFound, Unavailable
from engine.model.kinds import Behaviour, Function, KeyValue, Merge, MergedColumn
from engine.model.migration import AddColumn, Change, DropColumn, RenameColumn, WidenColumn
from engine.model.schema import Epoch, StoreDefinition, StoreName, define_store
from tests.support.stopping_objects import StoppingObjects
from tests.support.waiting import wait_until
from tests.unit.changelog.conftest import PLAYS, flat, read, rows

Reopen = Callable[[], Changelog]
ADDED = (AddColumn("rating", pa.float64(), "0.5"),)
WIDENED = (WidenColumn("plays", pa.int64()), RenameColumn("title", "name"), DropColumn("rating"))
RATED = pa.table({"song": [9], "title": ["r"], "plays": pa.array([1], pa.int32()), "rating": [4.0]})


def newest(changelog: Changelog) -> StoreDefinition:
    definition = changelog.definition(PLAYS.name)
    assert definition is not None
    return definition


def read_as(changelog: Changelog, epoch: int, definition: StoreDefinition) -> list[tuple[object, ...]]:
    commit = commit_of(changelog, epoch)
    return flat(changelog.read_rows(commit, {definition.name: definition}))


def commit_of(changelog: Changelog, epoch: int) -> Commit:
    commit = changelog.read_commit(PLAYS.group, Epoch(epoch))
    assert commit is not None
    return commit


# ---- in effect


def test_a_migration_is_in_effect_with_the_next_commit(reopen: Reopen) -> None:
    appender = open_appender(reopen(), [PLAYS])
    appender.append({"plays": rows(1)})
    migration = reopen().migrate_store(PLAYS.name, ADDED)
    assert (migration.number, migration.before) == (1, PLAYS)
    changelog = reopen()
    assert changelog.definitions() == {PLAYS.name: migration.after}
    assert changelog.shapes(PLAYS.name) == (PLAYS, migration.after)
    assert [commit_of(changelog, epoch).generation for epoch in (1, 2)] == [0, 0]
    taken_up = appender.append({})
    assert taken_up.generation == 1
    assert commit_of(reopen(), 3) == taken_up
    reopen().migrate_store(PLAYS.name, WIDENED)
    assert appender.append({"plays": rows(2)}).generation == 2
    assert reopen().generation(PLAYS.group) == 2


def test_a_new_term_takes_migrations_up(reopen: Reopen) -> None:
    reopen().create_store(PLAYS)
    reopen().migrate_store(PLAYS.name, ADDED)
    first = reopen().writer(PLAYS.group, "w")
    assert commit_of(reopen(), first.epoch).generation == 1


def test_rows_of_before_and_after_answer_together(reopen: Reopen) -> None:
    appender = open_appender(reopen(), [PLAYS])
    appender.append({"plays": rows(1)})
    appender.append({"plays": rows(*range(100, 20_100))})
    reopen().migrate_store(PLAYS.name, ADDED)
    appender.append({"plays": rows(2)})
    append_table(reopen(), newest(reopen()), RATED)
    reopen().migrate_store(PLAYS.name, WIDENED)
    appender = open_appender(reopen(), [newest(reopen())])
    appender.append({"plays": pa.table({"song": [3], "name": ["n"], "plays": [2**40]})})
    changelog = reopen()
    now = newest(changelog)
    assert now.describe().startswith("plays (song BIGINT, name VARCHAR, plays BIGINT) KEY (song)")
    assert [read_as(changelog, epoch, now) for epoch in (2, 4, 6, 8)] == [
        [(1, "t", 1)],
        [(2, "t", 1)],
        [(9, "r", 1)],
        [(3, "n", 2**40)],
    ]
    assert len(read_as(changelog, 3, now)) == 20_000
    then = changelog.definition_at(PLAYS.name, 1)
    assert then is not None
    assert [read_as(changelog, epoch, then) for epoch in (2, 4, 6)] == [
        [(1, "t", 1, 0.5)],
        [(2, "t", 1, 0.5)],
        [(9, "r", 1, 4.0)],
    ]
    assert read(changelog, 2) == [(1, "t", 1)]


def test_files_staged_before_a_migration_are_committed_after_it(reopen: Reopen) -> None:
    changelog = reopen()
    changelog.create_store(PLAYS)
    writer = changelog.writer(PLAYS.group, "driver")

    def stage_file(song: int) -> bytes:
        return encode_file(
            reopen().stage(
                PLAYS.group, writer.next_epoch, {PLAYS.name: partition_rows(PLAYS, rows(song))}, task="t"
            )
        )

    before = stage_file(1)
    reopen().migrate_store(PLAYS.name, ADDED)
    after = stage_file(2)
    files = [decode_file(before), decode_file(after)]
    assert [file.generation for file in files] == [0, 1]
    assert writer.commit(files).generation == 1
    assert read_as(reopen(), 2, newest(reopen())) == [(1, "t", 1, 0.5), (2, "t", 1, 0.5)]


def test_of_shapes_that_look_alike_rows_are_taken_for_the_newest(reopen: Reopen) -> None:
    appender = open_appender(reopen(), [PLAYS])
    reopen().migrate_store(PLAYS.name, [DropColumn("plays")])
    appender.append({"plays": rows(1)})
    reopen().migrate_store(PLAYS.name, [AddColumn("plays", pa.int32(), "7")])
    appender.append({"plays": rows(2)})
    now = newest(reopen())
    assert now.is_as(PLAYS)
    assert now != PLAYS
    assert [read_as(reopen(), epoch, now) for epoch in (2, 3)] == [[(1, "t", 7)], [(2, "t", 1)]]
    assert reopen().create_store(PLAYS) == now


def test_an_appender_takes_rows_of_all_shapes(reopen: Reopen) -> None:
    appender = open_appender(reopen(), [PLAYS])
    reopen().migrate_store(PLAYS.name, ADDED)
    appender.append({"plays": RATED})
    reopen().migrate_store(PLAYS.name, WIDENED)
    appender.append({"plays": rows(1)})
    gone = pa.table({"plays": [2**40, 0], "song": [2, 3], "name": ["n", "m"], "gone": [False, True]})
    commit = appender.append({"plays": gone}, tombstone_column="gone")
    assert read_as(reopen(), 2, newest(reopen())) == [(9, "r", 1)]
    assert read_as(reopen(), 3, newest(reopen())) == [(1, "t", 1)]
    assert {row[0] for row in read_as(reopen(), commit.epoch, newest(reopen()))} == {2, 3}
    with pytest.raises(
        InvalidInput,
        match=r"the column name is missing.* the store is plays \(song BIGINT, name VARCHAR, plays BIGINT\)",
    ):
        appender.append({"plays": gone.drop_columns(["name", "gone"])})


def test_a_name_that_has_become_another_column_s_is_not_taken_for_the_former_one(reopen: Reopen) -> None:
    running = open_appender(reopen(), [PLAYS])
    reopen().migrate_store(PLAYS.name, [RenameColumn("title", "name"), WidenColumn("plays", pa.int64())])
    assert reopen().create_store(PLAYS) == PLAYS
    reopen().migrate_store(PLAYS.name, [AddColumn("title", pa.string())])
    with pytest.raises(InvalidInput, match=r"had these columns once, and title is another column now"):
        open_appender(reopen(), [PLAYS])
    assert reopen().create_store(PLAYS, goes_on=True) == PLAYS
    running.append({"plays": rows(1)})
    now = newest(reopen())
    assert read_as(reopen(), int(running.epoch), now) == [(1, "t", 1, None)]
    today = open_appender(reopen(), [now])
    with pytest.raises(InvalidInput, match="the column name is missing") as refused:
        today.append({"plays": rows(2)})
    assert "another appender" not in refused.value.message


def test_rows_of_today_that_an_earlier_appender_takes_for_others_are_refused_with_the_way_out(
    reopen: Reopen,
) -> None:
    running = open_appender(reopen(), [PLAYS])
    reopen().migrate_store(PLAYS.name, [DropColumn("title"), AddColumn("title", pa.int64())])
    today = rows(1).set_column(rows(1).schema.get_field_index("title"), "title", pa.array([7]))
    with pytest.raises(
        InvalidInput, match=r"title VARCHAR.* by now it is plays .*title BIGINT.*: open another appender"
    ):
        running.append({"plays": today})
    open_appender(reopen(), [newest(reopen())]).append({"plays": today})


def test_rows_are_not_read_in_shapes_of_before(reopen: Reopen) -> None:
    appender = open_appender(reopen(), [PLAYS])
    reopen().migrate_store(PLAYS.name, ADDED)
    commit = appender.append({"plays": rows(1)})
    with pytest.raises(
        NotFound,
        match=r"Store plays was migrated before epoch 2 of store group plays.* read the definitions again",
    ):
        reopen().read_rows(commit, {PLAYS.name: PLAYS})


def test_epochs_and_migrations_at_once(local: Changelog) -> None:
    """Whatever comes in between: an epoch's rows are in the shape of its generation, and that never falls."""
    appender, done = open_appender(local, [PLAYS]), Event()

    def write() -> None:
        while not done.is_set():
            appender.append({"plays": rows(int(appender.epoch))})

    other = Changelog.open(local.uri)
    with ThreadPoolExecutor(1) as thread:
        written = thread.submit(write)
        try:
            for number in range(6):
                reached = other.newest_epoch(PLAYS.group) + 3
                wait_until(lambda reached=reached: other.newest_epoch(PLAYS.group) >= reached)  # type: ignore[misc]  # mypy finds no type for it
                other.migrate_store(PLAYS.name, [AddColumn(f"c{number}", pa.int64(), str(number))])
            wait_until(lambda: commit_of(other, other.newest_epoch(PLAYS.group)).generation == 6)
        finally:
            done.set()
        written.result()
    commits = [commit_of(other, epoch) for epoch in range(2, other.newest_epoch(PLAYS.group) + 1)]
    assert [commit.generation for commit in commits] == sorted(commit.generation for commit in commits)
    assert {commit.generation for commit in commits} == set(range(7))
    for commit in commits:
        shape = other.definition_at(PLAYS.name, commit.generation)
        assert shape is not None
        assert flat(other.read_rows(commit, {PLAYS.name: shape})) == [
            (commit.epoch - 1, "t", 1, *range(commit.generation))
        ]


def test_a_fenced_writer_stays_fenced(reopen: Reopen) -> None:
    zombie = open_appender(reopen(), [PLAYS])
    reopen().migrate_store(PLAYS.name, ADDED)
    reopen().writer(PLAYS.group, "taker")
    with pytest.raises(Fenced, match="written by taker"):
        zombie.append({"plays": rows(1)})


# ---- making one


def test_a_store_is_found_in_any_of_its_shapes(reopen: Reopen) -> None:
    reopen().create_store(PLAYS)
    first = reopen().migrate_store(PLAYS.name, ADDED).after
    second = reopen().migrate_store(PLAYS.name, WIDENED).after
    assert [reopen().create_store(shape) for shape in (PLAYS, first, second)] == [PLAYS, first, second]
    asked = define_store(
        "plays",
        pa.schema([("plays", pa.int64()), ("song", pa.int64()), ("name", pa.string())]),
        ["song"],
        partitions=4,
    )
    assert reopen().create_store(asked) == second
    elsewhere = Changelog.open("memory://").create_store(second)
    assert (elsewhere.generation, elsewhere.is_as(second)) == (0, True)


@pytest.mark.parametrize(
    ("columns", "hint"),
    [
        (
            [("song", "int64"), ("title", "string"), ("plays", "int32"), ("a b", "double")],
            "`livestate migrate plays --add '\"a b\" DOUBLE'`",
        ),
        (
            [("song", "int64"), ("n", "int8"), ("title", "string"), ("plays", "int64")],
            "`livestate migrate plays --widen plays=BIGINT --add 'n TINYINT'`",
        ),
        ([("song", "int64"), ("title", "string")], "`livestate migrate plays --drop plays`"),
        (
            [("id", "int64"), ("title", "string"), ("plays", "int32")],
            "`livestate migrate plays --rename song=id`",
        ),
        (
            [("a b", "int64"), ("title", "string"), ("plays", "int32")],
            "`livestate migrate plays --rename 'song=\"a b\"'`",
        ),
        (
            [("song", "int64"), ("name", "string"), ("plays", "int32")],
            (
                "`livestate migrate plays --rename title=name`, or "
                "`livestate migrate plays --drop title --add 'name VARCHAR'`"
            ),
        ),
        # A name in other letters is the same one to statements, and its values stay.
        (
            [("song", "int64"), ("Title", "string"), ("plays", "int32")],
            "`livestate migrate plays --rename title=Title`",
        ),
        (
            [("song", "int64"), ("n", "int8"), ("title", "string"), ("PLAYS", "int64")],
            "`livestate migrate plays --rename plays=PLAYS --widen PLAYS=BIGINT --add 'n TINYINT'`",
        ),
        ([("song", "string"), ("title", "string"), ("plays", "int32")], ""),
        ([("song", "int64"), ("title", "string"), ("plays", "int16")], ""),
    ],
)
def test_a_store_that_differs_says_what_a_migration_does(
    columns: Sequence[tuple[str, str]], hint: str
) -> None:
    changelog = Changelog.open("memory://")
    changelog.create_store(PLAYS)
    asked = define_store(
        "plays",
        pa.schema([(name, pa.type_for_alias(kind)) for name, kind in columns]),
        [columns[0][0]],
        partitions=4,
    )
    with pytest.raises(InvalidInput) as refused:
        changelog.create_store(asked)
    text = refused.value.message
    assert PLAYS.describe() in text
    assert asked.describe() in text
    assert text.endswith(f"or change the store: {hint}." if hint else "or another name.")


def test_what_no_migration_does_has_no_hint() -> None:
    changelog = Changelog.open("memory://")
    changelog.create_store(PLAYS)
    others = [
        define_store("plays", PLAYS.schema.append(pa.field("n", pa.int64())), ["song"], partitions=5),
        define_store(
            "plays",
            PLAYS.schema.append(pa.field("n", pa.int64())),
            ["song"],
            partitions=4,
            behaviour=Behaviour(KeyValue("n")),
        ),
        define_store("plays", PLAYS.schema, ["song", "title"], partitions=4),
    ]
    for asked in others:
        with pytest.raises(InvalidInput, match=r"or another name\.$"):
            changelog.create_store(asked)


def test_stores_that_cannot_be_migrated_are_left_as_they_are(reopen: Reopen) -> None:
    changelog = reopen()
    changelog.create_store(PLAYS)
    merged = define_store(
        "sums",
        PLAYS.schema.remove(1),
        ["song"],
        behaviour=Behaviour(Merge((MergedColumn("plays", Function.SUM, "n"),))),
    )
    changelog.create_store(merged)
    with pytest.raises(NotFound, match="There is no store x"):
        changelog.migrate_store(StoreName("x"), ADDED)
    with pytest.raises(InvalidInput, match="folds aggregates"):
        changelog.migrate_store(merged.name, ADDED)
    with pytest.raises(InvalidInput, match="song is in the key"):
        changelog.migrate_store(PLAYS.name, [DropColumn("song")])
    assert reopen().definitions() == {PLAYS.name: PLAYS, merged.name: merged}
    assert reopen().generation(PLAYS.group) == 0


def test_several_migrate_at_once(reopen: Reopen) -> None:
    reopen().create_store(PLAYS)
    changes: list[Sequence[Change]] = [[AddColumn(f"c{number}", pa.int64())] for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda change: reopen().migrate_store(PLAYS.name, change), changes))
    assert sorted(migration.number for migration in made) == list(range(1, 9))
    assert sorted(newest(reopen()).schema.names[3:]) == [f"c{number}" for number in range(8)]
    for migration in made:
        assert len(migration.after.schema) == len(migration.before.schema) + 1 == migration.number + 3


def test_migrations_of_several_stores_of_a_group_are_numbered_together(reopen: Reopen) -> None:
    changelog = reopen()
    stores = [
        changelog.create_store(define_store(name, PLAYS.schema, ["song"], group="plays"))
        for name in ("a", "b")
    ]
    assert [changelog.migrate_store(store.name, ADDED).number for store in stores] == [1, 2]
    reopened = reopen()
    shapes = [[reopened.definition_at(store.name, number) for store in stores] for number in range(3)]
    assert [[shape and shape.generation for shape in found] for found in shapes] == [[0, 0], [1, 0], [1, 2]]
    assert reopen().definition_at(StoreName("c"), 2) is None


class LosingObjects(StoppingObjects):
    """The answer to every create is lost; those of some paths are lost before they came."""

    def __init__(self, objects: Objects, *, arrives: bool) -> None:
        super().__init__(objects)
        self._arrives = arrives

    def create(self, path: str, chunks: Sequence[pa.Buffer]) -> bool:
        """See `Objects.create`."""
        if self._arrives:
            super().create(path, chunks)
        raise Unavailable("The answer was lost.")


@pytest.mark.parametrize("arrives", [True, False])
def test_a_migration_whose_answer_was_lost(tmp_path: Path, arrives: bool) -> None:
    Changelog.open(str(tmp_path)).create_store(PLAYS)
    losing = Changelog(str(tmp_path), {}, LosingObjects(LocalObjects(tmp_path), arrives=arrives))
    if arrives:
        assert losing.migrate_store(PLAYS.name, ADDED).number == 1
    else:
        with pytest.raises(Unavailable, match="answer was lost"):
            losing.migrate_store(PLAYS.name, ADDED)
    assert Changelog.open(str(tmp_path)).generation(PLAYS.group) == int(arrives)


# ---- what is stored


def version_of(path: Path) -> int:
    return path.read_bytes()[8]


def test_formats_rise_only_where_something_was_migrated(local: Changelog, tmp_path: Path) -> None:
    appender = open_appender(local, [PLAYS])
    appender.append({"plays": rows(*range(20_000))})
    local.migrate_store(PLAYS.name, ADDED)
    appender.append({"plays": rows(*range(20_000))})
    group = tmp_path / "root" / "groups" / "plays"
    assert [version_of(path) for path in sorted(group.glob("*.commit"))] == [1, 1, 2]
    assert [version_of(path) for path in sorted(group.glob("*/*.arrow"))] == [1, 2]
    assert b'"generation"' not in sorted(group.glob("*.commit"))[1].read_bytes()


def test_the_format_is_what_the_document_says(local: Changelog, tmp_path: Path) -> None:
    open_appender(local, [PLAYS]).append({"plays": rows(1)})
    path = tmp_path / "root" / "groups" / "plays" / f"{2:020d}.commit"
    data = path.read_bytes()
    path.write_bytes(data[:8] + b"\x02" + data[9:])
    with pytest.raises(Corrupt, match="commit of epoch 2 of store group plays is damaged"):
        commit_of(local, 2)


@pytest.mark.parametrize("name", ["", "a.arrow"])
def test_no_commit_has_rows_of_a_later_generation(local: Changelog, name: str) -> None:
    commit = open_appender(local, [PLAYS]).append({"plays": rows(1)})
    inside = commit.files[0]
    file = (
        replace(inside, generation=2)
        if not name
        else replace(inside, generation=2, name=name, size=inside.size + DATA_HEADER_LENGTH, content=None)
    )
    later = replace(commit, generation=1, files=(file,))
    with pytest.raises(Corrupt, match="commit of epoch 2 of store group plays is damaged"):
        decode_commit(commit.group, commit.epoch, pa.py_buffer(b"".join(encode_commit(later))))
    same = replace(later, generation=2)
    assert (
        decode_commit(commit.group, commit.epoch, pa.py_buffer(b"".join(encode_commit(same)))).generation == 2
    )


@pytest.mark.parametrize("before", ["", "x" * 32, "0" * 31, 5])
def test_what_names_the_commit_before_is_a_digest(local: Changelog, before: object) -> None:
    commit = open_appender(local, [PLAYS]).append({"plays": rows(1)})
    strange = replace(commit, before=before)  # type: ignore[arg-type]
    with pytest.raises(Corrupt, match="commit of epoch 2 of store group plays is damaged"):
        decode_commit(commit.group, commit.epoch, pa.py_buffer(b"".join(encode_commit(strange))))


def test_damaged_migrations_are_noticed(local: Changelog, tmp_path: Path) -> None:
    appender = open_appender(local, [PLAYS])
    local.migrate_store(PLAYS.name, ADDED)
    local.migrate_store(PLAYS.name, WIDENED)
    appender.append({"plays": rows(1)})
    path = tmp_path / "root" / amendment_path(PLAYS.group, 1)
    data = path.read_bytes()
    second = (tmp_path / "root" / amendment_path(PLAYS.group, 2)).read_bytes()
    for damaged, message in (
        (data[:-5] + b"x" + data[-4:], "Amendment 1 of store group plays is damaged"),
        (data.replace(b"rating", b"ratinG", 1), "Amendment 1 of store group plays is damaged"),
        (b"", "Amendment 1 of store group plays is damaged"),
        (second, "Amendment 1 of store group plays is that of 2 of store group plays"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(Corrupt, match=message):
            Changelog.open(local.uri).definition_at(PLAYS.name, 2)
    path.unlink()
    with pytest.raises(Corrupt, match="Amendment 1 of store group plays is missing"):
        Changelog.open(local.uri).definition_at(PLAYS.name, 2)


def test_a_writer_of_a_migrated_store_says_that_the_changelog_is_away(tmp_path: Path) -> None:
    """What was decided of its group is looked for again after a while, and with it what its stores are."""
    changelog, away = tmp_path / "changelog", tmp_path / "away"
    opened = Changelog.open(str(changelog))
    opened.create_store(PLAYS)
    opened.migrate_store(PLAYS.name, ADDED)
    appender = open_appender(opened, [PLAYS])
    changelog.rename(away)
    opened.forget_history(PLAYS.group)
    with pytest.raises(Unavailable):
        appender.append({PLAYS.name: rows(2)})
    away.rename(changelog)
    appender.append({PLAYS.name: rows(2)})
    assert len(read_as(opened, appender.epoch, newest(opened))) == rows(2).num_rows


def test_collecting_and_dropping_leave_migrations(reopen: Reopen) -> None:
    appender = open_appender(reopen(), [PLAYS])
    after = reopen().migrate_store(PLAYS.name, ADDED).after
    commit = appender.append({"plays": rows(1)})
    changelog = reopen()
    places = [(PLAYS.name, partition) for partition in partition_rows(PLAYS, rows(*range(100)))]
    live = partition_rows(after, pa.table({"song": [1], "title": ["t"], "plays": [1], "rating": [0.5]}))
    found = [((PLAYS.name, partition), batch) for partition, batch in live.items()]
    snapshots = changelog.snapshots(PLAYS.group)
    snapshots.write_part(commit.epoch, {PLAYS.name: PLAYS}, places, [])
    assert not snapshots.commit(commit, places), "a part of another generation does not count"
    snapshots.write_part(commit.epoch, {PLAYS.name: after}, places, found, commit.generation)
    assert snapshots.commit(commit, places)
    assert changelog.drop(PLAYS.group, SnapshotRetention(1, 0.0), 2**62).epochs == 1
    assert changelog.collect(PLAYS.group) == 0
    again = reopen()
    snapshot = again.snapshots(PLAYS.group).newest_snapshot()
    assert snapshot is not None
    assert (snapshot.generation, {part.generation for part in snapshot.parts}) == (1, {1})
    shape = again.definition_at(PLAYS.name, snapshot.generation)
    assert shape == after
    batches = [
        batch
        for _, partition in places
        for batch in again.snapshots(PLAYS.group).batches(snapshot, shape, partition)
    ]
    assert [batch.to_pylist() for batch in batches] == [
        [{"song": 1, "title": "t", "plays": 1, "rating": 0.5}]
    ]


@pytest.mark.parametrize("order", [("k", "a", "b"), ("k", "b", "a")])
@pytest.mark.parametrize(
    "changes",
    [
        [DropColumn("a"), AddColumn("a", pa.int64())],
        [RenameColumn("a", "c"), RenameColumn("b", "a"), RenameColumn("c", "b")],
    ],
)
def test_columns_of_today_are_those_of_today_in_any_order(
    reopen: Reopen, order: Sequence[str], changes: Sequence[Change]
) -> None:
    """Also where an earlier shape has them in just this order."""
    first = define_store("s", pa.schema([(name, pa.int64()) for name in "kab"]), ["k"], partitions=2)
    changelog = reopen()
    changelog.create_store(first)
    changelog.migrate_store(first.name, changes)
    again = define_store("s", pa.schema([(name, pa.int64()) for name in order]), ["k"], partitions=2)
    assert reopen().create_store(again) == reopen().definition(first.name)
