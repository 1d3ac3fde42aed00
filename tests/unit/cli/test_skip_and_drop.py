"""`livestate skip` and `livestate drop`, as an operator runs them."""

from __future__ import annotations

import getpass
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, append_table, open_appender
from engine.changelog.layout import commit_path
from engine.changelog.store_drops import drop_store
from engine.model.schema import Epoch, StoreName, define_store
from flight_server.client.client import Client
from flight_server.host.host import Host, HostOptions
from tests.support.waiting import wait_until
from tests.unit.cli.conftest import livestate

ROWS = pa.table({"id": pa.array(range(5), pa.int64()), "name": [f"n{i}" for i in range(5)]})
STORE = define_store("t", ROWS.schema, ["id"], partitions=2)
OTHER = define_store("u", ROWS.schema, ["id"], partitions=2, group="t")
REASON = "the data file is lost"


@pytest.fixture
def changelog(tmp_path: Path) -> Changelog:
    """One that has a store with rows, at epochs 2 to 4."""
    opened = Changelog.open(str(tmp_path / "changelog"))
    appender = open_appender(opened, [STORE])
    for first in (0, 2, 4):
        appender.append({"t": ROWS.slice(first, 2)})
    return opened


def damage(changelog: Changelog, epoch: int) -> None:
    path = commit_path(STORE.group, Epoch(epoch))
    changelog.objects.delete([path])
    assert changelog.objects.create(path, [pa.py_buffer(b"nothing")])


def skip(changelog: Changelog, epoch: int, *more: str) -> tuple[int, str]:
    shown = livestate(
        "skip", "--changelog", changelog.uri, "--group", "t", "--epoch", str(epoch), "--reason", REASON, *more
    )
    return shown.exit_code, shown.output


def test_a_damaged_epoch_is_passed_by(changelog: Changelog, tmp_path: Path) -> None:
    damage(changelog, 3)
    options = HostOptions(changelog=changelog.uri, data=tmp_path / "data", port=0)
    host = Host(options)
    host.start()
    try:
        with Client(host.uri) as client:
            wait_until(lambda: "damaged" in client.stores()["problem"][0].as_py())
            code, output = skip(changelog, 3, "--uri", host.uri)
            assert code == 0, output
            assert "Epoch 3 of store group t was passed by on 20" in output
            assert f"by {getpass.getuser()}@" in output
            assert output.splitlines()[-1].startswith("Hosts go on behind it")
            wait_until(lambda: client.stores()["rows"][0].as_py() == 3)
            # What was built a moment ago is reported as such until the next report.
            wait_until(lambda: not client.stores()["problem"][0].as_py())
            shown = client.query("SHOW STORES").read_all().to_pylist()[0]
            assert REASON in shown["skipped"] and shown["rows"] == 3
            assert "Epoch 3 of store group t was passed by" in livestate("stores", "--uri", host.uri).output
    finally:
        host.stop()
    verified = livestate("verify", changelog.uri)
    assert verified.exit_code == 0
    assert REASON in verified.stdout


def test_an_epoch_that_can_be_read_is_refused(changelog: Changelog) -> None:
    code, output = skip(changelog, 3)
    assert code == 1
    assert "Epoch 3 of store group t can be read" in output
    assert skip(changelog, 3, "--force")[0] == 0
    code, output = skip(changelog, 3, "--force")
    assert code == 1 and REASON in output


def test_what_keeps_a_host_before_another_epoch_is_no_reason(changelog: Changelog, tmp_path: Path) -> None:
    damage(changelog, 3)
    host = Host(HostOptions(changelog=changelog.uri, data=tmp_path / "data", port=0))
    host.start()
    try:
        with Client(host.uri) as client:
            wait_until(lambda: "damaged" in client.stores()["problem"][0].as_py())
            code, output = skip(changelog, 4, "--uri", host.uri)
            assert code == 1 and "Epoch 4 of store group t can be read" in output
            assert skip(changelog, 3, "--uri", host.uri)[0] == 0
            wait_until(lambda: client.stores()["rows"][0].as_py() == 3)
    finally:
        host.stop()


def test_a_host_that_says_nothing_is_no_reason(changelog: Changelog, tmp_path: Path) -> None:
    host = Host(HostOptions(changelog=changelog.uri, data=tmp_path / "data", port=0))
    host.start()
    try:
        wait_until(host.is_ready)
        code, output = skip(changelog, 3, "--uri", host.uri)
        assert code == 1 and "can be read" in output
    finally:
        host.stop()


def test_a_store_is_dropped_once_it_is_confirmed(changelog: Changelog) -> None:
    refused = livestate("drop", "t", "--changelog", changelog.uri, stdin="n\n")
    assert refused.exit_code == 1
    lines = refused.stdout.splitlines()
    assert lines[0] == f"Store {STORE.describe()}"
    assert lines[1] == "is lost on all hosts with all its rows, up to epoch 4 of store group t."
    assert lines[2] == "It is the only store of its group, whose epochs go as well."
    assert Changelog.open(changelog.uri).definitions()
    assert livestate("drop", "t", "--changelog", changelog.uri).exit_code == 1
    done = livestate("drop", "t", "--changelog", changelog.uri, stdin="y\n")
    assert done.exit_code == 0
    assert "\nStore t was dropped on 20" in done.stdout
    assert "Removed from the changelog: 3 epochs, 0 snapshots and 0 data files (0 B)." in done.stdout
    assert not Changelog.open(changelog.uri).definitions()
    again = livestate("drop", "t", "--changelog", changelog.uri)
    assert again.exit_code == 0
    assert again.stdout.startswith("Store t was dropped on 20")


def test_a_change_is_whole_where_hosts_cannot_be_told(changelog: Changelog) -> None:
    hosts = ("--uri", "localhost:1", "--uri", "localhost:2", "--changelog", changelog.uri)
    skip = ("skip", "--group", "t", "--epoch", "2", "--reason", "wrong", "--force")
    for verb, said in (
        (("switch", "u", "t"), "SQL reads store t by the name u.\n"),
        (("switch", "u", "u"), "The name u means no store any more.\n"),
        (skip, "Hosts go on behind it within a second."),
        (("drop", "t", "--yes"), "Removed from the changelog: 3 epochs"),
    ):
        done = livestate(*verb, *hosts)
        assert done.exit_code == 1
        assert said in done.stdout
        assert "The host at grpc://localhost:1 cannot be reached" in done.stderr
        assert "The host at grpc://localhost:2 cannot be reached" in done.stderr
        assert done.stderr.endswith(
            "The changelog has the change all the same; hosts take note within a second.\n"
        )


def test_a_drop_names_the_stores_that_stay(changelog: Changelog) -> None:
    open_appender(changelog, [OTHER])
    done = livestate("drop", "t", "--changelog", changelog.uri, "--yes")
    assert "The group's other stores stay as they are: u." in done.stdout
    assert list(Changelog.open(changelog.uri).definitions()) == ["u"]


def test_a_store_that_is_not_there_is_not_dropped(changelog: Changelog) -> None:
    done = livestate("drop", "nothing", "--changelog", changelog.uri, "--yes")
    assert (done.exit_code, done.output.strip()) == (
        1,
        "Error: There is no store nothing in the changelog: check the name, and the changelog's URI.",
    )


def test_collect_removes_what_a_drop_left(changelog: Changelog) -> None:
    drop_store(changelog, STORE.name, "ann", 1)
    shown = livestate("collect", "--changelog", changelog.uri)
    assert shown.stdout == "t: 0 files deleted, 3 epochs and 0 snapshots dropped\n"


def test_a_drop_that_is_killed_is_finished_by_the_next(tmp_path: Path) -> None:
    """A real process, killed at whatever it does."""
    command = [sys.executable, "-m", "flight_server.cli.main", "drop", "t", "--yes", "--changelog"]
    for seconds in (0.0, 0.02, 0.05, 0.1):
        place = str(tmp_path / str(seconds))
        changelog = Changelog.open(place)
        appender = open_appender(changelog, [STORE])
        for _ in range(30):
            appender.append({"t": ROWS})
        with subprocess.Popen([*command, place], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()  # what is lost
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                os.kill(process.pid, signal.SIGKILL)
        done = livestate("drop", "t", "--changelog", place, "--yes")
        assert done.exit_code == 0, done.output
        assert livestate("verify", place).exit_code == 0
        append_table(Changelog.open(place), STORE, ROWS.slice(0, 1))
        left = Changelog.open(place)
        newest = left.newest_epoch(STORE.group)
        assert newest == 33 and left.definition(StoreName("t")) is not None
        assert left.committed_epochs(STORE.group) == [31, 32, 33]
