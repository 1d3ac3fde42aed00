"""What the disk of a host has of a partition is damaged: the partition is named, put aside and built again,
while the host serves the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, open_appender
from engine.errors import LivestateError
from engine.model.schema import Epoch, PartitionId
from engine.replica.follower import Follower
from engine.replica.group_setup import ASIDE
from engine.replica.scrubber import ScrubOptions, ScrubStatus
from engine.scan import BuildingError
from engine.state.damage import DamagedError, damage_error
from engine.state.formats import MANIFEST, SegmentId, dead_run_key, encode_rows, segment_key
from engine.state.rocks import Rocks
from engine.state.state_options import StateOptions
from tests.support.following import GROUP, OPTIONS, PARTITIONS, contents, define, run_follower
from tests.support.gated import Gate, gate_changelog
from tests.support.waiting import wait_until

ACCOUNTS = define("accounts")
NUMBERS = 800
WAIT_SECONDS = 60.0
DAMAGED, WHOLE = PartitionId(0), tuple(PartitionId(number) for number in range(1, PARTITIONS))
SUPERSEDED = 12
AMOUNTS = {number: 2 if number < SUPERSEDED else 1 for number in range(NUMBERS)}


def build(changelog: Changelog, directory: Path) -> Epoch:
    """A data directory with rows, of which a second epoch supersedes so few that deltas have them."""
    appender = open_appender(changelog, [ACCOUNTS])
    with run_follower(changelog, directory) as follower:
        for numbers, amount in ((range(NUMBERS), 1), (range(SUPERSEDED), 2)):
            rows = pa.table({"account": numbers, "amount": [amount] * len(numbers)})
            newest = appender.append({"accounts": rows}).epoch
            assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
        assert amounts(follower) == AMOUNTS
    return newest


def amounts(follower: Follower, partitions: tuple[PartitionId, ...] | None = None) -> Mapping[int, int]:
    with follower.pin_views(
        [ACCOUNTS.name], None, None if partitions is None else {ACCOUNTS.name: partitions}
    ) as views:
        return contents(views[ACCOUNTS.name])


def lose_delta(rocks: Rocks) -> None:
    deltas = [key for mark in (b"d", b"D") for key, _ in rocks.pairs(mark)]
    assert deltas
    rocks.write_atomically([], [(key, key + b"\0") for key in deltas])


def gain_delta(rocks: Rocks) -> None:
    rocks.write_atomically([(dead_run_key(SegmentId(1), Epoch(99)), encode_rows(pa.array([70]).to_numpy()))])


def lose_segment(rocks: Rocks) -> None:
    rocks.write_atomically([], [(segment_key(SegmentId(1)), segment_key(SegmentId(2)))])


def break_manifest(rocks: Rocks) -> None:
    rocks.write_atomically([(MANIFEST, b"{}")])


def change(harm: Callable[[Rocks], None]) -> Callable[[Path], None]:
    def change_and_close(path: Path) -> None:
        with closing(Rocks(path, StateOptions())) as rocks:
            harm(rocks)

    return change_and_close


def flip_bytes(path: Path) -> None:
    for file in path.iterdir():
        if file.suffix in {".log", ".sst", ".blob"}:
            file.write_bytes(bytes(byte ^ 0x55 for byte in file.read_bytes()))


def lose_current(path: Path) -> None:
    (path / "CURRENT").write_bytes(b"")


def lose_files(path: Path, pattern: str) -> None:
    found = list(path.glob(pattern))
    assert found
    for file in found:
        file.unlink()


HARMS: Mapping[str, Callable[[Path], None]] = {
    "lost table": partial(lose_files, pattern="*.sst"),
    "lost MANIFEST": partial(lose_files, pattern="MANIFEST-*"),
    "lost delta": change(lose_delta),
    "gained delta": change(gain_delta),
    "lost segment": change(lose_segment),
    "manifest": change(break_manifest),
    "bytes": flip_bytes,
    "CURRENT": lose_current,
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_partition_is_put_aside_and_built_again(
    changelog: Changelog, tmp_path: Path, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    newest = build(changelog, tmp_path / "data")
    where = Path("bank", "accounts", str(DAMAGED))
    HARMS[harm](tmp_path / "data" / where)
    gate = Gate(GROUP, Epoch(2))
    with gate_changelog(changelog.uri, gate) as gated, run_follower(gated, tmp_path / "data") as follower:
        problem = follower.report()[0][GROUP].problem
        assert "accounts/0 is damaged" in problem
        assert "built again" in problem
        assert problem in caplog.text
        assert {row.problem for row in follower.status()} == {problem}
        assert gate.reached.wait(WAIT_SECONDS)
        gate.open()
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
        assert amounts(follower) == AMOUNTS
        wait_until(lambda: not follower.report()[0][GROUP].problem)
    assert (tmp_path / "data" / ASIDE / where / "CURRENT").exists()


@pytest.mark.parametrize("pattern", ["*.blob", "MANIFEST-*"])
def test_a_lost_file_of_long_values_is_damage(
    changelog: Changelog, tmp_path: Path, pattern: str, caplog: pytest.LogCaptureFixture
) -> None:
    """RocksDB opens a file of blobs when it reads from it, and keeps its directory locked until all is let go
    of that reads.
    """
    options = replace(OPTIONS, state=StateOptions())
    rows = pa.table({"account": range(20_000), "amount": range(20_000)})
    newest = open_appender(changelog, [ACCOUNTS]).append({"accounts": rows}).epoch
    with run_follower(changelog, tmp_path / "data", options) as follower:
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
    lose_files(tmp_path / "data" / "bank" / "accounts" / str(DAMAGED), pattern)
    with run_follower(changelog, tmp_path / "data", options) as follower:
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
        assert amounts(follower) == {number: number for number in range(20_000)}
        wait_until(lambda: not follower.report()[0][GROUP].problem)
    assert "What the disk of this host had of accounts/0 is damaged (RocksDB)" in caplog.text
    assert "open in another process" not in caplog.text


def test_the_rest_is_served_meanwhile(changelog: Changelog, tmp_path: Path) -> None:
    newest = build(changelog, tmp_path / "data")
    change(lose_delta)(tmp_path / "data" / "bank" / "accounts" / str(DAMAGED))
    gate = Gate(GROUP, Epoch(2))
    with gate_changelog(changelog.uri, gate) as gated, run_follower(gated, tmp_path / "data") as follower:
        assert gate.reached.wait(WAIT_SECONDS)
        served = amounts(follower, WHOLE)
        assert 0 < len(served) < NUMBERS
        assert all(AMOUNTS[number] == amount for number, amount in served.items())
        with pytest.raises(BuildingError, match="Partition 0 of store accounts"):
            amounts(follower)
        gate.open()
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
        assert amounts(follower) == AMOUNTS


def test_a_partition_of_a_newer_version_is_not_put_aside(changelog: Changelog, tmp_path: Path) -> None:
    build(changelog, tmp_path / "data")
    path = tmp_path / "data" / "bank" / "accounts" / str(DAMAGED)
    change(lambda rocks: rocks.write_atomically([(MANIFEST, b'{"format": 99}')]))(path)
    with run_follower(changelog, tmp_path / "data") as follower:
        assert "upgrade livestate" in follower.report()[0][GROUP].problem
        with pytest.raises(LivestateError):
            amounts(follower)
    assert not (tmp_path / "data" / ASIDE).exists()


def break_block(follower: Follower) -> None:
    """Write something else for a block of a partition that is open, and lose what memory has of it."""
    (group,) = follower._groups.values()
    (store,) = [each for each in group.partitions if each.identity == (ACCOUNTS.name, DAMAGED)]
    storage = store.context.storage
    key = next(key for key, _ in storage.pairs(b"b") if key[9:11] == b"\0\1")
    storage.write_atomically([(key, b"no block")])


def lose_open_delta(follower: Follower) -> None:
    (group,) = follower._groups.values()
    (store,) = [each for each in group.partitions if each.identity == (ACCOUNTS.name, DAMAGED)]
    deltas = [key for mark in (b"d", b"D") for key, _ in store.context.storage.pairs(mark)]
    assert deltas
    store.context.storage.write_atomically([], [(key, key + b"\0") for key in deltas])


def wait_for_scrub(follower: Follower) -> ScrubStatus:
    wait_until(lambda: not follower.scrub_status.is_running, WAIT_SECONDS)
    return follower.scrub_status


def test_a_scrub_of_a_whole_host_finds_nothing(
    changelog: Changelog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "engine.replica.scrubber")
    build(changelog, tmp_path / "data")
    with run_follower(changelog, tmp_path / "data") as follower:
        assert follower.scrub().number == 1
        status = wait_for_scrub(follower)
        assert (status.partitions, status.partitions_done) == (PARTITIONS, PARTITIONS)
        assert status.bytes_done >= NUMBERS * 16
        assert not (status.damaged or status.unread or status.is_cancelled)
        done = f"of {PARTITIONS} partitions {PARTITIONS} were done"
        ended = f"A scrub has ended: {done}, of which 0 are damaged and 0 could not be read."
        wait_until(lambda: ended in caplog.messages)


@pytest.mark.parametrize("harm", [break_block, lose_open_delta])
def test_a_scrub_finds_what_is_damaged_while_the_host_serves(
    changelog: Changelog, tmp_path: Path, harm: Callable[[Follower], None]
) -> None:
    newest = build(changelog, tmp_path / "data")
    gate = Gate(GROUP, Epoch(2))
    with gate_changelog(changelog.uri, gate) as gated, run_follower(gated, tmp_path / "data") as follower:
        harm(follower)
        follower.scrub()
        (damaged,) = wait_for_scrub(follower).damaged
        assert "accounts/0 of group bank is damaged" in damaged
        assert gate.reached.wait(WAIT_SECONDS)
        assert "accounts/0 is damaged" in follower.status()[0].problem
        served = amounts(follower, WHOLE)
        assert 0 < len(served) < NUMBERS
        with pytest.raises(BuildingError, match="Partition 0 of store accounts"):
            amounts(follower)
        gate.open()
        wait_until(lambda: not follower.report()[0][GROUP].problem)
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
        assert amounts(follower) == AMOUNTS
        follower.scrub()
        assert wait_for_scrub(follower).damaged == ()
    assert (tmp_path / "data" / ASIDE / "bank" / "accounts" / str(DAMAGED)).exists()


def test_a_scrub_keeps_to_its_rate_and_can_be_cancelled(changelog: Changelog, tmp_path: Path) -> None:
    build(changelog, tmp_path / "data")
    with run_follower(changelog, tmp_path / "data") as follower:
        assert follower.scrub(rate_bytes=1.0).is_running
        wait_until(lambda: follower.scrub_status.bytes_done > 0)
        assert follower.scrub().number == 1, "one runs at a time"
        follower.cancel_scrub()
        status = wait_for_scrub(follower)
        assert status.is_cancelled
        assert status.partitions_done < PARTITIONS
        assert follower.scrub().number == 2
        assert not wait_for_scrub(follower).is_cancelled


def test_scrubs_come_by_themselves(changelog: Changelog, tmp_path: Path) -> None:
    build(changelog, tmp_path / "data")
    often = replace(OPTIONS, scrubs=ScrubOptions(every_seconds=0.01))
    with run_follower(changelog, tmp_path / "data", often) as follower:
        wait_until(lambda: follower.scrub_status.number >= 2)


def test_a_statement_that_meets_damage_has_the_partition_built_again(
    changelog: Changelog, tmp_path: Path
) -> None:
    newest = build(changelog, tmp_path / "data")
    with run_follower(changelog, tmp_path / "data") as follower:
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
        break_block(follower)
        with pytest.raises(DamagedError, match="a running host puts the partition aside"):
            amounts(follower)
        wait_until(lambda: can_be_read(follower), WAIT_SECONDS)
        assert amounts(follower) == AMOUNTS
    assert (tmp_path / "data" / ASIDE / "bank" / "accounts" / str(DAMAGED)).exists()


def can_be_read(follower: Follower) -> bool:
    try:
        return bool(amounts(follower))
    except LivestateError:
        return False


def test_a_merge_that_meets_damage_has_the_partition_built_again(
    changelog: Changelog, tmp_path: Path
) -> None:
    """Nobody asks anything; epochs come until the damaged segment is to be merged."""
    newest = build(changelog, tmp_path / "data")
    appender = open_appender(changelog, [ACCOUNTS])
    with run_follower(changelog, tmp_path / "data") as follower:
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
        break_block(follower)
        for first in range(NUMBERS, 6 * NUMBERS, NUMBERS):
            rows = pa.table({"account": range(first, first + NUMBERS), "amount": [1] * NUMBERS})
            newest = appender.append({"accounts": rows}).epoch
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
        assert follower.wait_until_compact(WAIT_SECONDS)
        wait_until((tmp_path / "data" / ASIDE / "bank" / "accounts" / str(DAMAGED)).exists)
        wait_until(lambda: can_be_read(follower), WAIT_SECONDS)
        assert amounts(follower) == AMOUNTS | dict.fromkeys(range(NUMBERS, 6 * NUMBERS), 1)
        wait_until(lambda: not any(status.problem for status in follower.status()))


def test_an_epoch_that_meets_damage_has_the_partition_built_again(
    changelog: Changelog, tmp_path: Path
) -> None:
    """Its rows replace others, whose keys cannot be read any more."""
    newest = build(changelog, tmp_path / "data")
    appender = open_appender(changelog, [ACCOUNTS])
    with run_follower(changelog, tmp_path / "data") as follower:
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
        (group,) = follower._groups.values()
        (store,) = [each for each in group.partitions if each.identity == (ACCOUNTS.name, DAMAGED)]
        storage = store.context.storage
        keys = [key for key, _ in storage.pairs(b"b") if key[9:11] == b"\0\0"]
        storage.write_atomically([(key, b"no block") for key in keys])
        rows = pa.table({"account": range(NUMBERS), "amount": [3] * NUMBERS})
        newest = appender.append({"accounts": rows}).epoch
        wait_until((tmp_path / "data" / ASIDE / "bank" / "accounts" / str(DAMAGED)).exists)
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
        assert amounts(follower) == dict.fromkeys(range(NUMBERS), 3)
        wait_until(lambda: not any(status.problem for status in follower.status()))


def break_rocks(follower: Follower, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the RocksDB of an open partition say of all writes, and of its end, that it is damaged."""
    (group,) = follower._groups.values()
    (store,) = [each for each in group.partitions if each.identity == (ACCOUNTS.name, DAMAGED)]
    broken = store.context.storage._storage  # type: ignore[attr-defined]
    close = broken.close

    def fail(*_: object, **__: object) -> None:
        raise damage_error("RocksDB")

    def close_and_fail() -> None:
        close()
        fail()

    monkeypatch.setattr(broken, "_apply", fail)
    monkeypatch.setattr(broken, "close", close_and_fail)


def test_a_write_that_meets_damage_has_the_partition_built_again(
    changelog: Changelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = build(changelog, tmp_path / "data")
    appender = open_appender(changelog, [ACCOUNTS])
    with run_follower(changelog, tmp_path / "data") as follower:
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
        break_rocks(follower, monkeypatch)
        rows = pa.table({"account": range(NUMBERS), "amount": [3] * NUMBERS})
        newest = appender.append({"accounts": rows}).epoch
        wait_until((tmp_path / "data" / ASIDE / "bank" / "accounts" / str(DAMAGED)).exists, WAIT_SECONDS)
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
        wait_until(lambda: can_be_read(follower), WAIT_SECONDS)
        assert amounts(follower) == dict.fromkeys(range(NUMBERS), 3)
        wait_until(lambda: not any(status.problem for status in follower.status()))


def test_a_host_stops_though_a_partition_is_damaged(
    changelog: Changelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are closed, and their epoch is noted."""
    newest = build(changelog, tmp_path / "data")
    with run_follower(changelog, tmp_path / "data") as follower:
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
        break_rocks(follower, monkeypatch)
        stores = [store for group in follower._groups.values() for store in group.partitions]
        newest = open_appender(changelog, [ACCOUNTS]).append({}).epoch
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
    for store in stores:
        with closing(Rocks(tmp_path / "data" / "bank" / "accounts" / str(store.identity[1]), StateOptions())):
            pass  # or it would be locked
    with run_follower(changelog, tmp_path / "data") as follower:
        assert follower.wait_for(GROUP, newest, WAIT_SECONDS)
        assert amounts(follower) == AMOUNTS
