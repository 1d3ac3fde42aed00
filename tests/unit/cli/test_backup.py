"""`livestate backup` and `livestate restore`, as a user runs them, and a host on what was restored."""

from __future__ import annotations

import resource
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, append_table
from engine.changelog.backup import restore
from engine.changelog.local_objects import LocalObjects
from engine.model.schema import define_store
from engine.replica.data_directory import claim
from flight_server.client.client import Client
from flight_server.host.host import Host, HostOptions
from tests.support.stopping_objects import Stopped, StoppingObjects
from tests.support.waiting import wait_until
from tests.unit.cli.conftest import livestate

ROWS = pa.table({"id": pa.array(range(500), pa.int64()), "name": [f"n{i}" for i in range(500)]})
STORE = define_store("t", ROWS.schema, ["id"], partitions=2)


@pytest.fixture
def changelog(tmp_path: Path) -> Path:
    """One that has a store with rows."""
    append_table(Changelog.open(str(tmp_path / "changelog")), STORE, ROWS)
    return tmp_path / "changelog"


def test_a_changelog_is_lost_and_restored(changelog: Path, tmp_path: Path) -> None:
    made = livestate("backup", tmp_path / "backup", "--changelog", changelog)
    assert (made.exit_code, made.stdout) == (0, "")
    group, total, where = made.stderr.splitlines()
    assert group.startswith("t: epoch 2, ")
    assert total.startswith("all: ")
    assert where == f"{tmp_path / 'backup'} has the backup."
    append_table(Changelog.open(str(changelog)), STORE, ROWS.slice(0, 1).set_column(1, "name", [["later"]]))
    again = livestate("backup", tmp_path / "backup", "--changelog", changelog)
    assert again.exit_code == 0
    assert again.stderr.startswith("Bringing the backup of ")
    shutil.rmtree(changelog)
    restored = livestate("restore", tmp_path / "backup", "--changelog", changelog)
    assert restored.exit_code == 0
    assert restored.stderr.splitlines()[-1] == f"{changelog} has the changelog: start jobs and hosts on it."
    host = Host(HostOptions(changelog=str(changelog), data=tmp_path / "data", port=0))
    host.start()
    try:
        wait_until(host.is_ready)
        with Client(host.uri) as client:
            found = client.query("SELECT count(*) AS n, min(name) AS name FROM t").read_all()
        assert found.to_pylist() == [{"n": 500, "name": "later"}]
    finally:
        host.stop()


def test_a_place_that_is_gone_at_once_is_refused(changelog: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("id,name\n1,a\n")
    for found in (
        livestate("backup", "memory://", "--changelog", changelog),
        livestate("restore", changelog, "--changelog", "memory://"),
        livestate("load", "t", rows, "--changelog", "memory://", "--key", "id"),
    ):
        assert found.exit_code == 2
        assert "What is at memory:// is gone when the command ends: give a directory" in found.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--epoch", "t=99"],
            "There is no epoch 99 of store group t, or not any more: ask for one from 1 to 2.",
        ),
        (["--epoch", "u=1"], "There is no store group u; there are t."),
    ],
)
def test_epochs_that_are_not_there(
    changelog: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    refused = livestate("backup", tmp_path / "backup", "--changelog", changelog, *arguments)
    assert (refused.exit_code, refused.stderr.strip()) == (1, f"Error: {message}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epoch", "t"], "'t' is not a store group and an epoch, like plays=120."),
        (["--epoch", "t=0"], "'t=0' is not a store group and an epoch, like plays=120."),
        (["--epoch", "t=1", "--epoch", "t=2"], "Store group t has two epochs: give one."),
    ],
)
def test_epochs_that_are_none(changelog: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    refused = livestate("backup", tmp_path / "backup", "--changelog", changelog, *arguments)
    assert (refused.exit_code, refused.stderr.splitlines()[-1]) == (2, f"Error: {message}")


def test_a_directory_of_a_host_or_of_others_is_no_empty_place(changelog: Path, tmp_path: Path) -> None:
    backup, hosts, others = tmp_path / "backup", tmp_path / "host's", tmp_path / "others"
    assert livestate("backup", backup, "--changelog", changelog).exit_code == 0
    claim(hosts, Changelog.open(str(changelog)).identity())
    (others / "backup").mkdir(parents=True)
    (others / "backup" / "notes.txt").write_text("mine")
    for place, message in (
        (
            hosts,
            f"{hosts} is the data directory of a host: choose an empty place; nothing was written there.",
        ),
        (others, f"{others} has backup/notes.txt, which is of no changelog: choose an empty place"),
    ):
        before = sorted(place.rglob("*"))
        for command in (
            ("restore", backup, "--changelog", place),
            ("backup", place, "--changelog", changelog),
        ):
            refused = livestate(*command)
            assert refused.exit_code == 1
            assert message in refused.stderr
        assert sorted(place.rglob("*")) == before
    (others / "notes.txt").write_text("mine")
    refused = livestate("restore", backup, "--changelog", others)
    assert f"{others} has notes.txt, which is of no changelog" in refused.stderr


def test_what_a_file_system_and_dead_commands_have_left_counts_for_nothing(
    changelog: Path, tmp_path: Path
) -> None:
    backup, place = tmp_path / "backup", tmp_path / "place"
    (backup / "lost+found").mkdir(parents=True)
    (place / "lost+found").mkdir(parents=True)
    for name in ("FORMAT", "clock"):
        (place / f"{name}.0011223344556677.tmp").write_bytes(b"half")
    assert livestate("backup", backup, "--changelog", changelog).exit_code == 0
    assert livestate("restore", backup, "--changelog", place).exit_code == 0
    assert (place / "FORMAT").exists()


def test_what_comes_beside_a_restore_does_not_end_it(changelog: Path, tmp_path: Path) -> None:
    backup, place = tmp_path / "backup", tmp_path / "place"
    assert livestate("backup", backup, "--changelog", changelog).exit_code == 0
    dying = Changelog(str(place), {}, StoppingObjects(LocalObjects(place), 5))
    with pytest.raises(Stopped):
        list(restore(Changelog.open(str(backup)), dying, {}))
    (place / "notes.txt").write_text("mine")
    assert livestate("restore", backup, "--changelog", place).exit_code == 0
    assert (place / "FORMAT").exists()


def test_the_disk_that_is_full_is_named(changelog: Path, tmp_path: Path) -> None:
    """There are two: no file of that of the copy can have more than a few bytes."""
    made = livestate("backup", tmp_path / "backup", "--changelog", changelog)
    assert made.exit_code == 0
    found = []
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        found.append(livestate("backup", tmp_path / "other", "--changelog", changelog))
        found.append(livestate("restore", tmp_path / "backup", "--changelog", tmp_path / "other"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    for refused in found:
        assert refused.exit_code == 1
        assert f"{tmp_path / 'other'}: The disk of the changelog is full" in refused.stderr


def test_the_place_that_cannot_be_reached_is_named(changelog: Path, tmp_path: Path) -> None:
    backup, away = tmp_path / "backup", tmp_path / ("x" * 300)
    assert livestate("backup", backup, "--changelog", changelog).exit_code == 0
    for command in (
        ("backup", away, "--changelog", changelog),
        ("restore", away, "--changelog", tmp_path / "place"),
        ("restore", backup, "--changelog", away),
    ):
        refused = livestate(*command)
        assert refused.exit_code == 1
        assert f"Error: {away}: The changelog's directory cannot be read (File name too" in refused.stderr


def test_a_place_that_is_taken(changelog: Path) -> None:
    refused = livestate("backup", changelog, "--changelog", changelog)
    assert refused.exit_code == 1
    assert "has a changelog or a backup: choose an empty place; nothing was written there." in refused.stderr


def test_a_place_within_the_other_one(changelog: Path, tmp_path: Path) -> None:
    """Whoever removes the one would lose the other."""
    (tmp_path / "link").symlink_to(changelog)
    for place, other in ((changelog / "backup", changelog), (tmp_path / "link" / "b", changelog)):
        refused = livestate("backup", place, "--changelog", other)
        assert (refused.exit_code, refused.stderr.strip()) == (
            1,
            f"Error: {place} lies within {other}: choose a place of its own; nothing was written there.",
        )
        assert not place.exists()
    livestate("backup", tmp_path / "backup", "--changelog", changelog)
    refused = livestate("restore", tmp_path / "backup", "--changelog", tmp_path / "backup" / "changelog")
    assert refused.exit_code == 1
    assert f"lies within {tmp_path / 'backup'}: choose a place of its own" in refused.stderr


def test_a_backup_that_is_taken_back_to_an_earlier_epoch_says_so(changelog: Path, tmp_path: Path) -> None:
    assert livestate("backup", tmp_path / "backup", "--changelog", changelog).exit_code == 0
    again = livestate("backup", tmp_path / "backup", "--changelog", changelog, "--epoch", "t=1")
    assert again.exit_code == 0
    assert "t: back to epoch 1; the backup had it up to epoch 2." in again.stderr.splitlines()
