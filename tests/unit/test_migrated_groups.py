"""A host's stores change shape with the epoch that takes a migration up, and all of a group at once."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event

import pyarrow as pa
import pytest

from engine.changelog import Changelog, StoreAppender, open_appender
from engine.errors import Corrupt
from engine.model.migration import AddColumn, Change, RenameColumn, WidenColumn
from engine.model.schema import Epoch, StoreName
from engine.replica.compactor import Compactor
from engine.replica.follower import Follower
from tests.support.following import GROUP, OPTIONS, define, live_rows, run_follower
from tests.support.waiting import wait_until

WAIT_SECONDS = 60.0
DEBIT, CREDIT = define("debit"), define("credit")
NOTE = AddColumn("note", pa.string(), "none")
WIDENING: Mapping[int, Sequence[Change]] = {
    3: [WidenColumn("amount", pa.decimal128(20, 0))],
    6: [RenameColumn("amount", "sum")],
    9: [WidenColumn("sum", pa.decimal128(25, 2))],
}


@pytest.fixture
def appender(changelog: Changelog) -> StoreAppender:
    return open_appender(changelog, [DEBIT, CREDIT])


def append(appender: StoreAppender, *accounts: int, store: str = "debit") -> Epoch:
    return appender.append(
        {
            store: pa.table(
                {"account": pa.array(accounts, pa.int64()), "amount": pa.array(accounts, pa.int64())}
            )
        }
    ).epoch


def rows_of(follower: Follower, store: StoreName, epoch: Epoch | None = None) -> list[dict[str, object]]:
    with follower.pin_views([store], None if epoch is None else {GROUP: epoch}) as views:
        view = views[store]
        found = sorted(live_rows(view).to_pylist(), key=repr)
        assert all(tuple(row) == tuple(view.definition.schema.names) for row in found)
        return found


def generation_of(follower: Follower) -> int:
    """Of the newest epoch that can be read."""
    groups, _ = follower.report()
    return groups[GROUP].readable[-1].generation


def are_in_shape(follower: Follower) -> bool:
    return all(store.is_in_shape for group in follower._groups.values() for store in group.partitions)


def migrate(changelog: Changelog, appender: StoreAppender, *changes: Change) -> Epoch:
    """Migrate a store; the next commit takes it up."""
    changelog.migrate_store(DEBIT.name, changes)
    return append(appender, 99, store="credit")


def test_each_epoch_has_the_shape_of_its_generation(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    with run_follower(changelog, tmp_path / "data") as follower:
        before = append(appender, 1)
        assert follower.wait_for(GROUP, before, WAIT_SECONDS)
        follower.hold({GROUP: before}, WAIT_SECONDS)
        created = follower.definitions()
        changelog.migrate_store(DEBIT.name, [NOTE, RenameColumn("amount", "sum")])
        assert follower.definitions() == created, "no epoch has taken it up"
        after = append(appender, 2)
        assert follower.wait_for(GROUP, after, WAIT_SECONDS)
        wait_until(lambda: follower.definitions()[DEBIT.name].generation == 1)
        assert rows_of(follower, DEBIT.name) == [
            {"account": 1, "sum": 1, "note": "none"},
            {"account": 2, "sum": 2, "note": "none"},
        ]
        assert rows_of(follower, DEBIT.name, before) == [{"account": 1, "amount": 1}]
        readable = {entry.epoch: entry.generation for entry in follower.report()[0][GROUP].readable}
        assert (readable[before], readable[after]) == (0, 1)
        assert follower.definitions_of({GROUP: 0}) == created
        assert follower.definitions_of({GROUP: 1}) == follower.definitions_of({}) == follower.definitions()


def test_old_segments_are_rewritten_in_the_background(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    with run_follower(changelog, tmp_path / "data") as follower:
        append(appender, *range(100))
        assert follower.wait_for(
            GROUP,
            migrate(changelog, appender, NOTE, WidenColumn("amount", pa.decimal128(25, 0))),
            WAIT_SECONDS,
        )
        wait_until(lambda: are_in_shape(follower))
        assert len(rows_of(follower, DEBIT.name)) == 100


def test_a_restart_goes_on_with_what_is_to_be_rewritten(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(appender, *range(100))
    newest = migrate(changelog, appender, NOTE)
    with monkeypatch.context() as patched:
        patched.setattr(Compactor, "_compact", lambda *_: None)
        with run_follower(changelog, tmp_path / "data") as follower:
            assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
            assert not are_in_shape(follower)
    with run_follower(changelog, tmp_path / "data") as follower:
        wait_until(lambda: are_in_shape(follower))
        assert len(rows_of(follower, DEBIT.name)) == 100


def test_a_store_that_comes_when_others_were_migrated(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    append(appender, 1)
    newest = migrate(changelog, appender, NOTE)
    with run_follower(changelog, tmp_path / "data") as follower:
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
        changelog.create_store(define("later"))
        wait_until(lambda: "later" in follower.definitions())
    with run_follower(changelog, tmp_path / "data") as follower:
        assert generation_of(follower) == 1, "no epoch has come since"
        assert rows_of(follower, DEBIT.name) == [{"account": 1, "amount": 1, "note": "none"}]
        wait_until(lambda: follower.definitions()[DEBIT.name].generation == 1)


def test_partitions_that_a_death_left_before_and_behind_a_migration(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    data, saved = tmp_path / "data", tmp_path / "saved"
    with run_follower(changelog, data) as follower:
        assert follower.wait_for(GROUP, append(appender, *range(40)), WAIT_SECONDS)
    (partition,) = data.rglob("debit/2")
    shutil.copytree(partition, saved)
    migrate(changelog, appender, NOTE)
    newest = append(appender, *range(20, 60))
    with run_follower(changelog, data) as follower:
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
        kept = rows_of(follower, DEBIT.name)
    shutil.rmtree(partition)
    shutil.move(saved, partition)
    with run_follower(changelog, data) as follower:
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
        assert rows_of(follower, DEBIT.name) == kept
        assert generation_of(follower) == 1


def test_a_host_without_partitions_knows_the_shapes(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    newest = migrate(changelog, appender, NOTE)
    with run_follower(changelog, tmp_path / "data", replace(OPTIONS, held=lambda definition: ())) as follower:
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
        assert generation_of(follower) == 1
        wait_until(lambda: follower.definitions()[DEBIT.name].generation == 1)


def test_readers_go_on_while_migrations_and_rewrites_do(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    """Each view is of one epoch and one shape, and stays so however long it is read."""
    stopping = Event()

    def read(follower: Follower) -> int:
        looks = 0
        while not stopping.is_set():
            with follower.pin_views([DEBIT.name]) as views:
                view = views[DEBIT.name]
                first = live_rows(view)
                assert first.schema == view.definition.schema
                for added in first.schema.names[2:]:
                    assert set(first[added].to_pylist()) == {int(added.removeprefix("c"))}
                assert first.column(0).to_pylist() == [int(value) for value in first.column(1).to_pylist()]
                assert live_rows(view).equals(first)
            looks += 1
        return looks

    with run_follower(changelog, tmp_path / "data") as follower, ThreadPoolExecutor(2) as readers:
        assert follower.wait_for(GROUP, append(appender, *range(300)), WAIT_SECONDS)
        looking = [readers.submit(read, follower) for _ in range(2)]
        try:
            for number in range(12):
                newest = migrate(
                    changelog,
                    appender,
                    AddColumn(f"c{number}", pa.int32(), str(number)),
                    *WIDENING.get(number, ()),
                )
                append(appender, *range(number * 10, number * 10 + 50))
            assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
            wait_until(lambda: are_in_shape(follower))
        finally:
            stopping.set()
        assert all(reader.result() for reader in looking)
        assert generation_of(follower) == 12


# ---- a changelog that was restored from an older copy


def restore_copy(copy: Path, changelog: Changelog) -> None:
    """Have a changelog be as it was when it was copied."""
    shutil.rmtree(changelog.uri)
    shutil.copytree(copy, changelog.uri)


def test_a_migration_that_a_restored_changelog_has_in_place_of_another(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    """No commit had taken the other one up, so no history shows the difference."""
    append(appender, 1)
    shutil.copytree(changelog.uri, tmp_path / "copy")
    hosted = Changelog.open(changelog.uri)
    with run_follower(hosted, tmp_path / "data", OPTIONS) as follower:
        assert follower.wait_for(GROUP, Epoch(2), WAIT_SECONDS)
        changelog.migrate_store(DEBIT.name, [NOTE])
        assert "note" in hosted.definitions()[DEBIT.name].schema.names  # as a host that looks for stores
        restore_copy(tmp_path / "copy", changelog)
        restored = Changelog.open(changelog.uri)
        restored.migrate_store(DEBIT.name, [AddColumn("other", pa.int64(), "7")])
        epoch = append(open_appender(restored, [DEBIT, CREDIT]), 2)
        assert follower.wait_for(GROUP, epoch, WAIT_SECONDS)
        assert [row["other"] for row in rows_of(follower, DEBIT.name)] == [7, 7]


def test_a_migration_that_a_restored_changelog_has_lost(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    append(appender, 1)
    shutil.copytree(changelog.uri, tmp_path / "copy")
    migrate(changelog, appender, NOTE)
    hosted = Changelog.open(changelog.uri)
    assert hosted.generation(GROUP) == 1
    restore_copy(tmp_path / "copy", changelog)
    with pytest.raises(Corrupt, match="Amendment 1 of store group bank is missing"):
        hosted.definitions()
    assert hosted.definitions()[DEBIT.name].generation == 0


@pytest.mark.parametrize("is_migrated", [True, False])
def test_partitions_in_a_shape_that_a_restored_changelog_lacks_are_built_again(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path, is_migrated: bool
) -> None:
    append(appender, 1)
    shutil.copytree(changelog.uri, tmp_path / "copy")
    migrate(changelog, appender, NOTE)
    with run_follower(Changelog.open(changelog.uri), tmp_path / "data", OPTIONS) as follower:
        assert follower.wait_for(GROUP, append(appender, 3), WAIT_SECONDS)
    restore_copy(tmp_path / "copy", changelog)
    restored = Changelog.open(changelog.uri)
    if is_migrated:
        restored.migrate_store(DEBIT.name, [AddColumn("other", pa.int64(), "7")])
    epoch = append(open_appender(restored, [DEBIT, CREDIT]), 2)
    with run_follower(Changelog.open(changelog.uri), tmp_path / "data", OPTIONS) as follower:
        assert follower.wait_for(GROUP, epoch, WAIT_SECONDS)
        assert [row["account"] for row in rows_of(follower, DEBIT.name)] == [1, 2]
