"""A host that starts while its changelog is away serves what it has, says so, and catches up by itself."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, Commit, StoreAppender, open_appender
from engine.changelog.checksummed_json import seal, unseal
from engine.changelog.codec import decode_commit
from engine.changelog.kept_catalog import KeptCatalog
from engine.errors import Corrupt, InvalidInput, LivestateError, Unavailable
from engine.model.migration import AddColumn
from engine.model.schema import Epoch, GroupName, StoreName, define_store
from engine.replica import reached_epoch
from engine.replica.follower import Follower
from flight_server.client.client import Client
from tests.support.following import OPTIONS, contents, run_follower
from tests.support.lone_host import lone_host
from tests.support.waiting import PATIENCE_SECONDS, wait_until

SCHEMA = pa.schema([("account", pa.int64()), ("amount", pa.int64())])
STORE = define_store("debit", SCHEMA, ["account"], partitions=4, group="bank")
GROUP = GroupName("bank")
TOTAL = "SELECT count(*) AS n FROM debit"


class Away:
    """A changelog whose directory can be moved away.

    Attributes:
        root: Where it is when it is there.
        appender: Writes it.
    """

    def __init__(self, directory: Path) -> None:
        self.root = directory / "changelog"
        self.appender: StoreAppender = open_appender(Changelog.open(str(self.root)), [STORE])
        self.accounts = 0
        self._elsewhere = directory / "elsewhere"

    def append(self, count: int = 1) -> Epoch:
        """Epochs of a row, each in one partition alone."""
        for _ in range(count):
            rows = pa.table({"account": [self.accounts], "amount": [1]}, SCHEMA)
            epoch = self.appender.append({"debit": rows}).epoch
            self.accounts += 1
        return epoch

    def take_away(self) -> None:
        self.root.rename(self._elsewhere)

    def bring_back(self) -> None:
        if self.root.exists():
            shutil.rmtree(self.root)
        self._elsewhere.rename(self.root)


@pytest.fixture
def away(tmp_path: Path) -> Iterator[Away]:
    yield Away(tmp_path)


def count(client: Client) -> int:
    return int(client.query(TOTAL).read_all()["n"][0].as_py())


def problem(client: Client) -> str:
    return str(client.stores()["problem"][0].as_py())


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_host_process_starts_without_its_changelog(away: Away, tmp_path: Path, end: signal.Signals) -> None:
    epoch = away.append(40)
    with lone_host(away.root, tmp_path / "data") as (process, client):
        wait_until(lambda: count(client) == 40)
        assert client.stores()["epoch"].to_pylist() == [epoch]
        process.send_signal(end)
        process.wait(PATIENCE_SECONDS)
    away.take_away()
    with lone_host(away.root, tmp_path / "data") as (_, client):
        assert count(client) == 40
        assert f"what can be read is epoch {epoch}" in problem(client)
        away.bring_back()
        away.append(10)
        wait_until(lambda: count(client) == 50)
        wait_until(lambda: problem(client) == "")


def test_a_migrated_store_and_a_switched_name_are_kept(away: Away, tmp_path: Path) -> None:
    changelog = Changelog.open(str(away.root))
    changelog.migrate_store(STORE.name, [AddColumn("note", pa.int64(), "7")])
    changelog.switch(StoreName("best"), STORE.name)
    epoch = away.append(5)
    with run_follower(changelog, tmp_path / "data") as follower:
        assert follower.wait_for(GROUP, epoch, PATIENCE_SECONDS)
        tables, generation = follower.tables(), follower.definitions()[STORE.name].generation
        kept = tmp_path / "data" / "catalog.json"
        wait_until(lambda: "/migrations/" in kept.read_text() and "/switches/" in kept.read_text())
    away.take_away()
    with run_follower(Changelog.open(str(away.root)), tmp_path / "data") as follower:
        assert follower.tables() == tables
        assert "best" in tables
        assert follower.definitions()[STORE.name].generation == generation == 1
        away.bring_back()
        assert follower.wait_for(GROUP, away.append(), PATIENCE_SECONDS)


def test_a_changelog_that_is_there_is_asked_though_a_full_disk_does_not_take_its_catalogue(
    away: Away, tmp_path: Path
) -> None:
    """What the host had before is shown for a changelog that is away alone."""
    data, epoch = tmp_path / "data", away.append(4)
    with run_follower(Changelog.open(str(away.root)), data) as follower:
        assert follower.wait_for(GROUP, epoch, PATIENCE_SECONDS)
        wait_until((data / ".reached" / f"{GROUP}.json").exists)
    newest, shown = away.append(300), list[Epoch]()
    (data / "catalog.tmp").mkdir()

    def is_shown() -> bool:
        with suppress(Unavailable), follower.pin_views([STORE.name]) as views:
            shown.append(views[STORE.name].epoch)
        return bool(shown)

    with run_follower(Changelog.open(str(away.root)), data) as follower:
        wait_until(is_shown)
        assert shown == [newest]


def test_a_host_without_anything_does_not_start(away: Away, tmp_path: Path) -> None:
    away.append()
    with run_follower(Changelog.open(str(away.root)), tmp_path / "data"):
        pass
    (tmp_path / "data" / "catalog.json").unlink()
    away.take_away()
    with pytest.raises(Unavailable, match="The changelog that this host's data directory belongs to"):
        Follower(Changelog.open(str(away.root)), tmp_path / "data", OPTIONS).start()


@pytest.mark.parametrize("name", ["catalog.json", "livestate.json"])
def test_a_file_of_the_data_directory_that_cannot_be_read_is_named(
    away: Away, tmp_path: Path, name: str
) -> None:
    """As where it is another user's: here it is a directory, which root cannot read as a file either."""
    away.append()
    with run_follower(Changelog.open(str(away.root)), tmp_path / "data"):
        pass
    (tmp_path / "data" / name).unlink()
    (tmp_path / "data" / name).mkdir()
    away.take_away()
    with pytest.raises(Unavailable, match=f"cannot read {name} in its data directory .* to the user"):
        Follower(Changelog.open(str(away.root)), tmp_path / "data", OPTIONS).start()


def test_an_epoch_that_cannot_be_noted_is_shown(
    away: Away, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As where the notes are another user's, or the disk is read-only by now."""
    (tmp_path / "data" / ".reached" / f"{GROUP}.json").mkdir(parents=True)
    epoch = away.append(3)
    with run_follower(Changelog.open(str(away.root)), tmp_path / "data") as follower:
        assert follower.wait_for(GROUP, epoch, PATIENCE_SECONDS)
        assert follower.wait_for(GROUP, away.append(), PATIENCE_SECONDS)
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


def test_another_changelog_in_its_place_is_not_followed(away: Away, tmp_path: Path) -> None:
    epoch = away.append(3)
    with run_follower(Changelog.open(str(away.root)), tmp_path / "data") as follower:
        assert follower.wait_for(GROUP, epoch, PATIENCE_SECONDS)
    away.take_away()
    with run_follower(Changelog.open(str(away.root)), tmp_path / "data") as follower:
        other = open_appender(Changelog.open(str(away.root)), [STORE])
        for _ in range(10):
            other.append({"debit": pa.table({"account": [99], "amount": [1]}, SCHEMA)})
        wait_until(lambda: "Another changelog" in follower._tasks.problem(GROUP))
        away.bring_back()
        assert follower.wait_for(GROUP, away.append(), PATIENCE_SECONDS)
        with follower.pin_views([STORE.name]) as views:
            assert contents(views[STORE.name]) == dict.fromkeys(range(4), 1)
    with pytest.raises(InvalidInput, match="belongs to another changelog"):
        other_root = tmp_path / "other"
        open_appender(Changelog.open(str(other_root)), [STORE])
        Follower(Changelog.open(str(other_root)), tmp_path / "data", OPTIONS).start()


def noted_epoch(data: Path) -> int:
    (note,) = (data / ".reached").iterdir()
    reached = reached_epoch.read_reached_epoch(note)
    return 0 if reached is None else reached.epoch


def killed_host(away: Away, tmp_path: Path, *, is_written: bool = False) -> Epoch:
    """The data directory of a host that was killed, whose partitions have noted several epochs.

    Args:
        away: The changelog.
        tmp_path: Where the directory is.
        is_written: Whether the host lives until it has written its last epochs.
    """
    away.append(40)
    with lone_host(away.root, tmp_path / "data") as (process, client):
        wait_until(lambda: count(client) == 40)
        away.append(3)
        wait_until(lambda: count(client) == 43)
        if is_written:
            wait_until(lambda: noted_epoch(tmp_path / "data") == away.appender.epoch)
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_SECONDS)
    return away.appender.epoch


@pytest.mark.parametrize("is_away", [True, False])
def test_a_note_of_another_boot_does_not_count(
    away: Away, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_away: bool
) -> None:
    """Power may have been lost since, and with it what partitions had written."""
    newest = killed_host(away, tmp_path)
    monkeypatch.setattr("engine.replica.reached_epoch.boot_of_machine", lambda: "another")
    check_note_does_not_count(away, tmp_path, newest, is_away=is_away)


@pytest.mark.parametrize("is_away", [True, False])
def test_a_note_does_not_count_for_a_lost_partition(away: Away, tmp_path: Path, is_away: bool) -> None:
    newest = killed_host(away, tmp_path)
    shutil.rmtree(tmp_path / "data" / "bank" / "debit" / "1")
    check_note_does_not_count(away, tmp_path, newest, is_away=is_away)


def check_note_does_not_count(away: Away, tmp_path: Path, newest: Epoch, *, is_away: bool) -> None:
    """What is missing is read again, and nothing is served without it."""
    if is_away:
        away.take_away()
    with run_follower(Changelog.open(str(away.root)), tmp_path / "data") as follower:
        if is_away:
            assert "is not known to be all at one epoch" in follower.status()[0].problem
            with pytest.raises(LivestateError), follower.pin_views([STORE.name]):
                pass
            away.bring_back()
        assert follower.wait_for(GROUP, newest, PATIENCE_SECONDS)
        with follower.pin_views([STORE.name]) as views:
            assert contents(views[STORE.name]) == dict.fromkeys(range(43), 1)


@pytest.mark.parametrize("is_written", [True, False])
def test_a_host_that_was_killed_reads_few_commits_again(
    away: Away, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    """Its partitions have noted several epochs, but it has noted that all have come to the newest, or to the
    one before those of its last moment.
    """
    newest = killed_host(away, tmp_path, is_written=is_written)
    read: list[Epoch] = []

    def decode_and_note(group: GroupName, epoch: Epoch, data: pa.Buffer) -> Commit:
        read.append(epoch)
        return decode_commit(group, epoch, data)

    monkeypatch.setattr("engine.changelog.epochs.decode_commit", decode_and_note)
    with run_follower(Changelog.open(str(away.root)), tmp_path / "data") as follower:
        assert follower.wait_for(GROUP, newest, PATIENCE_SECONDS)
    assert set(read) <= ({newest} if is_written else set(range(newest - 3, newest + 1)))


# ---- stored forms


def test_the_catalogue_stays_readable() -> None:
    golden = (
        b'{\n "format": 1,\n "changelog": "c0ffee",\n "objects": {\n'
        b'  "stores/debit/definition.json": "{}"\n },\n "crc32": 3707666671\n}'
    )
    kept = KeptCatalog("c0ffee", {"stores/debit/definition.json": "{}"})
    assert kept.to_bytes() == golden
    assert KeptCatalog.from_bytes(golden) == kept


def test_a_damaged_or_newer_catalogue_is_refused(away: Away, tmp_path: Path) -> None:
    with run_follower(Changelog.open(str(away.root)), tmp_path / "data"):
        pass
    file = tmp_path / "data" / "catalog.json"
    stored = file.read_bytes()
    for place in range(len(stored)):
        damaged = bytearray(stored)
        damaged[place] ^= 1
        with pytest.raises(Corrupt, match="host kept is damaged: make the changelog available to this host"):
            KeptCatalog.from_bytes(bytes(damaged))
    document = json.loads(unseal(stored, "")) | {"format": 2}
    with pytest.raises(Corrupt, match="has format 2; this version reads format 1: upgrade livestate"):
        KeptCatalog.from_bytes(seal(json.dumps(document, indent=1).encode()))


def test_a_damaged_note_is_none(tmp_path: Path) -> None:
    note, file = reached_epoch.ReachedEpoch(Epoch(7), "d", 5, "b", 1 << 63), tmp_path / "notes" / "bank.json"
    reached_epoch.write_reached_epoch(file, note)
    stored = file.read_bytes()
    assert reached_epoch.read_reached_epoch(file) == note
    start = stored.index(b"{")
    for place in range(start, len(stored)):
        damaged = bytearray(stored)
        damaged[place] ^= 1
        file.write_bytes(bytes(damaged))
        assert reached_epoch.read_reached_epoch(file) is None
    reached_epoch.write_reached_epoch(file, note)
    assert file.read_bytes() == stored
