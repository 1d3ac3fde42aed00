"""`livestate verify`: what is whole passes, whatever is damaged or lost is named, and nothing is written."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, SnapshotRetention, open_appender, partition_rows
from engine.changelog.layout import commit_path
from engine.changelog.snapshot import EPOCH_WEIGHT
from engine.model.schema import Epoch
from engine.replica.snapshot_options import SnapshotOptions
from engine.state.rocks import Rocks
from engine.state.state_options import StateOptions
from flight_server.host.host import HostOptions
from tests.support.following import GROUP, OPTIONS, define, run_follower
from tests.support.started_host import start_host
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.unit.cli.conftest import livestate

ACCOUNTS = define("accounts")
EPOCHS = 6
TAKING = replace(
    OPTIONS,
    snapshots=SnapshotOptions(
        EPOCHS * EPOCH_WEIGHT, SnapshotRetention(kept=2, tail_seconds=3600), look_seconds=0.01
    ),
)


def balances(amount: int, numbers: range = range(300)) -> Mapping[str, pa.Table]:
    return {"accounts": pa.table({"account": numbers, "amount": [amount] * len(numbers)})}


def append(root: Path, amount: int) -> Epoch:
    """By a job of its own, whose first epoch is empty."""
    return open_appender(Changelog.open(str(root)), [ACCOUNTS]).append(balances(amount)).epoch


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A changelog with small and large epochs and a snapshot, and the data directory of a host.

    The job's first epoch is empty. The snapshot is due at epoch 5, and the next one would be at epoch 11.
    """
    root = tmp_path_factory.mktemp("built")
    changelog = Changelog.open(str(root / "changelog"))
    job = open_appender(changelog, [ACCOUNTS])
    with run_follower(changelog, root / "data", TAKING) as follower:
        job.append(balances(0, range(20_000)))
        for amount in range(EPOCHS):
            newest = job.append(balances(amount)).epoch
            assert follower.wait_for(GROUP, newest, PATIENCE_SECONDS)
        wait_until(lambda: changelog.snapshots(GROUP).epochs() != [])
        assert follower.wait_until_compact(PATIENCE_SECONDS)
    return root


@pytest.fixture
def root(built: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may harm."""
    shutil.copytree(built, tmp_path / "copy")
    return tmp_path / "copy"


def files(root: Path) -> Iterator[Path]:
    yield from sorted(path for path in root.rglob("*") if path.is_file())


def contents(root: Path) -> Mapping[Path, tuple[bytes, int]]:
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files(root)}


def test_what_is_whole_passes_and_stays_as_it_is(root: Path) -> None:
    before = contents(root)
    found = livestate("verify", root / "changelog")
    assert found.exit_code == 0, found.output
    assert "nothing is wrong" in found.stdout
    assert livestate("verify", (root / "changelog").as_uri()).stdout == found.stdout
    found = livestate("verify", root / "data", "--changelog", root / "changelog")
    assert found.exit_code == 0, found.output
    assert "partitions read: 4, " in found.stdout
    assert contents(root) == before


def harms(data: bytes) -> Iterator[bytes]:
    """Bytes that a disk may give instead of some."""
    middle = len(data) // 2
    yield data[:middle]
    yield b""
    for place in (3, middle, len(data) - 2):
        yield data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]


def test_every_damaged_object_of_a_changelog_is_named(root: Path) -> None:
    changelog, suffixes = root / "changelog", set()
    for path in files(changelog):
        if path.suffix in {".part", ".checksums"}:
            continue  # what the snapshot was made of
        whole = path.read_bytes()
        for harmed in harms(whole):
            path.write_bytes(harmed)
            found = livestate("verify", changelog)
            assert found.exit_code == 1, (path, found.output)
            assert found.exception is None or isinstance(found.exception, SystemExit), path
        path.write_bytes(whole)
        suffixes.add(path.suffix)
    assert suffixes == {".commit", ".arrow", ".snapshot", ".json", ""}
    assert livestate("verify", changelog).exit_code == 0


def test_every_lost_object_of_a_changelog_is_named(root: Path) -> None:
    """But for the first epochs, which may have given way to the snapshot, and the last, which may never have
    been committed: hosts that have applied it know better.
    """
    changelog = root / "changelog"
    opened = Changelog.open(str(changelog))
    edges = {commit_path(GROUP, epoch) for epoch in (Epoch(1), opened.newest_epoch(GROUP))}
    lost = 0
    for path in files(changelog):
        if path.suffix in {".part", ".checksums", ".snapshot"} or str(path.relative_to(changelog)) in edges:
            continue
        whole = path.read_bytes()
        path.unlink()
        found = livestate("verify", changelog)
        assert found.exit_code == 1, (path, found.output)
        path.write_bytes(whole)
        lost += 1
    assert lost > EPOCHS
    (snapshot,) = changelog.rglob("*.snapshot")
    for epoch in (1, 2):
        (changelog / commit_path(GROUP, Epoch(epoch))).unlink()
    assert livestate("verify", changelog).exit_code == 0
    snapshot.unlink()
    assert "no snapshot has their rows" in livestate("verify", changelog).stdout


def test_epochs_of_two_histories_are_named(root: Path) -> None:
    changelog = root / "changelog"
    newest = append(changelog, 50)
    shutil.copytree(changelog, root / "other")
    for place, amount in ((changelog, 60), (root / "other", 70)):
        newest = append(place, amount)
        append(place, amount + 1)
    path = commit_path(GROUP, newest)
    shutil.copy(root / "other" / path, changelog / path)
    found = livestate("verify", changelog)
    assert found.exit_code == 1
    assert f"Epoch {newest + 1} of store group bank: it was committed behind another epoch" in found.stdout


def partition(root: Path) -> Path:
    return root / "data" / "bank" / "accounts" / "2"


def test_every_damaged_file_of_a_partition_is_named_or_changes_nothing(root: Path) -> None:
    named = 0
    for path in files(partition(root)):
        if path.suffix not in {".log", ".sst", ".blob"} or not path.stat().st_size:
            continue
        whole = path.read_bytes()
        path.write_bytes(bytes(byte ^ 4 for byte in whole))
        found = livestate("verify", root / "data", "--changelog", root / "changelog")
        assert found.exception is None or isinstance(found.exception, SystemExit)
        if found.exit_code:
            assert "Partition accounts/2: " in found.stdout, found.output
            named += 1
        path.write_bytes(whole)
    assert named
    assert livestate("verify", root / "data", "--changelog", root / "changelog").exit_code == 0


@pytest.mark.parametrize("mark", [b"b", b"s", b"D"], ids=["block", "segment", "delete vector"])
def test_lost_records_of_a_partition_are_named(root: Path, mark: bytes) -> None:
    harmed = 0
    for path in partition(root).parent.iterdir():
        with closing(Rocks(path, StateOptions())) as rocks:
            lost = [key for key, _ in rocks.pairs(mark)][:1]
            rocks.write_atomically([], [(key, key + b"\0") for key in lost])
            harmed += len(lost)
    found = livestate("verify", root / "data", "--changelog", root / "changelog")
    assert found.exit_code == 1
    assert found.stdout.count("is damaged") == harmed


@pytest.mark.parametrize("harmed", [b"", b"{}", b'{"format": 99}'], ids=str)
def test_a_damaged_catalogue_is_named(root: Path, harmed: bytes) -> None:
    """A host does not start with it while the changelog is away."""
    (root / "data" / "catalog.json").write_bytes(harmed)
    found = livestate("verify", root / "data", "--changelog", root / "changelog")
    assert (found.exit_code, "The file catalog.json: The catalogue that" in found.stdout) == (1, True)


def test_a_partition_of_another_history_is_named(root: Path) -> None:
    shutil.copytree(root / "changelog", root / "before")
    newest = append(root / "changelog", 80)
    with run_follower(Changelog.open(str(root / "changelog")), root / "data") as follower:
        assert follower.wait_for(GROUP, newest, PATIENCE_SECONDS)
    append(root / "before", 90)
    found = livestate("verify", root / "data", "--changelog", root / "before")
    assert found.exit_code == 1
    assert f"it has applied another epoch {newest} than the changelog has" in found.stdout
    assert "of before a restore: its host builds it again, or never reads it" in found.stdout


def test_what_cannot_be_verified_is_said(root: Path) -> None:
    found = livestate("verify", root / "nothing")
    assert (found.exit_code, "There is no changelog" in found.stderr) == (1, True)
    found = livestate("verify", root / "data")
    assert (found.exit_code, "--changelog" in found.stderr) == (2, True)
    found = livestate("verify", root / "data", "--changelog", root / "nothing")
    assert (found.exit_code, f"There is no changelog at {root / 'nothing'}" in found.stderr) == (1, True)
    for options in ((), ("--changelog", str(root / "changelog"))):
        # The system says so as it does of a directory that this user may not look into.
        found = livestate("verify", root / ("x" * 300), *options)
        assert (found.exit_code, "cannot be read (File name too long)" in found.stderr) == (1, True)
    append(root / "another", 1)
    found = livestate("verify", root / "data", "--changelog", root / "another")
    assert (found.exit_code, "another changelog" in found.stderr) == (1, True)
    with start_host(HostOptions(changelog=str(root / "changelog"), data=root / "data", port=0)):
        found = livestate("verify", root / "data", "--changelog", root / "changelog")
    assert (found.exit_code, "stop it first" in found.stderr) == (1, True)


def test_what_a_first_load_that_failed_has_left_is_nothing_wrong(tmp_path: Path) -> None:
    changelog = Changelog.open(str(tmp_path))
    changelog.create_store(ACCOUNTS)
    rows = partition_rows(ACCOUNTS, pa.table({"account": [1], "amount": [1]}))
    changelog.writer(GROUP, "load").append({})
    changelog.stage(GROUP, Epoch(2), {ACCOUNTS.name: rows}, task="load")
    assert list(tmp_path.rglob("*.arrow"))
    shutil.rmtree(tmp_path / "stores")  # a load creates its store when all rows are there
    found = livestate("verify", tmp_path)
    assert (found.exit_code, "nothing is wrong" in found.stdout) == (0, True)
    # With rows that count, definitions were there.
    changelog = Changelog.open(str(tmp_path))
    changelog.create_store(ACCOUNTS)
    changelog.writer(GROUP, "load").append({ACCOUNTS.name: rows})
    shutil.rmtree(tmp_path / "stores")
    found = livestate("verify", tmp_path)
    assert (found.exit_code, "the definitions of its stores are missing" in found.stdout) == (1, True)
