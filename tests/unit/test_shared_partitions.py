"""Partitions of a store that has many of them share RocksDBs: they are there again after a restart, what is
damaged is put aside and built again together, and partitions of an older version stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.changelog import Catalog, Changelog, open_appender
from engine.errors import Unavailable
from engine.model.schema import PartitionId, StoreDefinition
from engine.replica.directory_inspection import DirectoryInspection
from engine.replica.group_setup import ASIDE, GroupSetup
from engine.replica.partition_places import place_of
from engine.state.formats import MANIFEST, SegmentId, segment_key
from engine.state.partition import PartitionStore
from engine.state.rocks import Rocks
from engine.state.shared_storage import StoragePart, partitions_within
from engine.state.state_options import StateOptions
from tests.support.following import GROUP, PARTITIONS, define, run_follower
from tests.support.waiting import wait_until
from tests.unit.test_damaged_partitions import (
    ACCOUNTS,
    AMOUNTS,
    WAIT_SECONDS,
    amounts,
    break_block,
    build,
    can_be_read,
    flip_bytes,
    lose_current,
    wait_for_scrub,
)

STORE = Path("bank", "accounts")
DAMAGED = PartitionId(0)


@pytest.fixture(autouse=True)
def _share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.replica.partition_places.SHARED_FROM", 2)
    monkeypatch.setattr("engine.replica.partition_places.PARTITIONS_TOGETHER", 2)


def change(harm: Callable[[StoragePart], None]) -> Callable[[Path], None]:
    def change_and_close(path: Path) -> None:
        with closing(StoragePart(Rocks(path, StateOptions()), DAMAGED)) as part:
            harm(part)

    return change_and_close


HARMS = {
    "lost segment": change(
        lambda part: part.write_atomically([], [(segment_key(SegmentId(1)), segment_key(SegmentId(2)))])
    ),
    "manifest": change(lambda part: part.write_atomically([(MANIFEST, b"{}")])),
    "bytes": flip_bytes,
    "CURRENT": lose_current,
}


def together(directory: Path) -> list[int]:
    """The partitions that are where the damaged one is."""
    place = place_of(directory, ACCOUNTS, DAMAGED)
    return [
        number for number in range(PARTITIONS) if place_of(directory, ACCOUNTS, PartitionId(number)) == place
    ]


def test_they_are_there_again_and_take_few_directories(changelog: Changelog, tmp_path: Path) -> None:
    newest = build(changelog, tmp_path)
    assert len(list((tmp_path / STORE).iterdir())) == PARTITIONS // 2
    with run_follower(changelog, tmp_path) as follower:
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
        assert amounts(follower) == AMOUNTS
        assert not follower.report()[0][GROUP].problem
    inspection = DirectoryInspection(tmp_path, changelog)
    assert len(inspection) == PARTITIONS
    assert not [each for each in inspection.read() if each.faults]


@pytest.mark.parametrize("harm", HARMS)
def test_what_is_damaged_is_built_again_with_its_neighbours(
    changelog: Changelog, tmp_path: Path, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    newest = build(changelog, tmp_path)
    place = place_of(tmp_path, ACCOUNTS, DAMAGED).path
    HARMS[harm](tmp_path / place)
    inspection = DirectoryInspection(tmp_path, changelog)
    assert len(inspection) == PARTITIONS
    assert [each.name for each in inspection.read() if each.faults]
    with run_follower(changelog, tmp_path) as follower:
        # The group's problem says so until they are there again, which may be by now.
        told = (caplog.text, follower.report()[0][GROUP].problem or caplog.text)
        for number in together(tmp_path):
            assert all(f"accounts/{number}" in text for text in told)
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
        assert amounts(follower) == AMOUNTS
        wait_until(lambda: not follower.report()[0][GROUP].problem)
    assert (tmp_path / ASIDE / place / "CURRENT").exists()
    with run_follower(changelog, tmp_path) as follower:
        assert amounts(follower) == AMOUNTS


def test_what_is_found_damaged_later_likewise(changelog: Changelog, tmp_path: Path) -> None:
    build(changelog, tmp_path)
    with run_follower(changelog, tmp_path) as follower:
        break_block(follower)
        follower.scrub()
        wait_for_scrub(follower)
        wait_until((tmp_path / ASIDE / STORE).exists, WAIT_SECONDS)
        wait_until(lambda: can_be_read(follower), WAIT_SECONDS)
        assert amounts(follower) == AMOUNTS


@pytest.mark.parametrize("place", [0, 1])
def test_they_are_opened_again_where_that_fails_at_first(
    changelog: Changelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    build(changelog, tmp_path)
    failing = together(tmp_path)[place]
    opened, failed = GroupSetup.open, list[PartitionId]()

    def fail_once(
        self: GroupSetup, definition: StoreDefinition, partition: PartitionId, *shapes: Any
    ) -> PartitionStore:
        if partition == failing and not failed:
            failed.append(partition)
            raise Unavailable("The disk does not answer.")
        return opened(self, definition, partition, *shapes)

    with run_follower(changelog, tmp_path) as follower:
        monkeypatch.setattr(GroupSetup, "open", fail_once)
        break_block(follower)
        follower.scrub()
        wait_for_scrub(follower)
        wait_until(lambda: bool(failed), WAIT_SECONDS)
        wait_until(lambda: can_be_read(follower), WAIT_SECONDS)
        assert amounts(follower) == AMOUNTS
    (aside,) = (tmp_path / ASIDE / STORE).iterdir()
    with closing(Rocks(aside, StateOptions())) as rocks:
        assert len(partitions_within(rocks)) == len(together(tmp_path))


def test_a_damaged_store_that_comes_late_is_not_taken_for_a_new_one(
    changelog: Changelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group goes on without it, and so it is behind the epochs that have its rows."""
    build(changelog, tmp_path)
    appender = open_appender(changelog, [ACCOUNTS, define("users")])
    newest = appender.append({"users": pa.table({"account": [1], "amount": [1]})}).epoch
    with run_follower(changelog, tmp_path) as follower:
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
    HARMS["manifest"](tmp_path / place_of(tmp_path, ACCOUNTS, DAMAGED).path)
    read = Changelog.readable_catalog

    def read_without_accounts(self: Changelog) -> Catalog:
        catalog = read(self)
        stores = {name: each for name, each in catalog.stores.items() if name != ACCOUNTS.name}
        return replace(catalog, stores=stores)

    with monkeypatch.context() as patches:
        patches.setattr(Changelog, "readable_catalog", read_without_accounts)
        with run_follower(changelog, tmp_path) as follower:
            assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
            assert ACCOUNTS.name not in follower.definitions()
            patches.setattr(Changelog, "readable_catalog", read)
            follower.notify()
            wait_until(lambda: ACCOUNTS.name in follower.definitions(), WAIT_SECONDS)
            assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
            assert amounts(follower) == AMOUNTS


def test_partitions_of_an_older_version_stay_where_they_are(
    changelog: Changelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patches:
        patches.setattr("engine.replica.partition_places.SHARED_FROM", 1 << 20)
        newest = build(changelog, tmp_path)
    flip_bytes(tmp_path / STORE / str(DAMAGED))
    with run_follower(changelog, tmp_path) as follower:
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
        assert amounts(follower) == AMOUNTS
    there = {path.name for path in (tmp_path / STORE).iterdir()}
    assert there == {str(number) for number in range(PARTITIONS)}
    with run_follower(changelog, tmp_path) as follower:
        assert amounts(follower) == AMOUNTS
