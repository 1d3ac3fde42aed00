"""Epochs are passed by and stores dropped while real hosts are killed: afterwards all answer alike, and
nothing comes back.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from engine.changelog import Changelog, StoreAppender, append_table, open_appender
from engine.changelog.layout import commit_path
from engine.errors import LivestateError
from engine.model.schema import Epoch, define_store
from flight_server.client.client import Client
from tests.support.host_processes import HostProcesses, host_processes
from tests.support.waiting import wait_until
from tests.unit.cli.conftest import livestate

SCHEMA = pa.schema([("account", pa.int64()), ("amount", pa.int64())])
ACCOUNTS = define_store("accounts", SCHEMA, ["account"], partitions=4)
WAIT_SECONDS = 90.0


def append(appender: StoreAppender, number: int) -> Epoch:
    rows = pa.table({"account": range(number * 100, number * 100 + 50), "amount": [number] * 50})
    return appender.append({"accounts": rows}).epoch


def numbers(uri: str) -> list[int] | None:
    """Whose rows a host answers; None where it does not."""
    with Client(uri) as client:
        try:
            found = client.query("SELECT DISTINCT amount FROM accounts ORDER BY amount").read_all()
        except LivestateError:
            return None
        return [int(amount) for amount in found["amount"].to_pylist()]


def problems(uri: str) -> str:
    with Client(uri) as client:
        return " ".join(row["problem"] for row in client.stores().to_pylist())


def wait_for_numbers(hosts: HostProcesses, expected: list[int]) -> None:
    for uri in hosts.uris:
        wait_until(lambda uri=uri: numbers(uri) == expected, WAIT_SECONDS)  # type: ignore[misc] # mypy gives lambdas with defaults no type


def test_an_epoch_is_passed_by_while_hosts_are_killed(tmp_path: Path) -> None:
    root = str(tmp_path / "changelog")
    appender = open_appender(Changelog.open(root), [ACCOUNTS])
    append(appender, 1)
    with host_processes(tmp_path, root, "ab", replication=2) as hosts:
        hosts["a"].kill()
        damaged = append(appender, 2)
        append(appender, 3)
        wait_until(lambda: numbers(hosts["b"].uri) == [1, 2, 3], WAIT_SECONDS)
        path = commit_path(ACCOUNTS.group, damaged)
        objects = Changelog.open(root).objects
        objects.delete([path])
        objects.create(path, [pa.py_buffer(b"nothing")])
        hosts["a"].start()
        hosts["a"].wait()
        wait_until(lambda: "is damaged" in problems(hosts["a"].uri), WAIT_SECONDS)
        hosts["b"].kill()
        place = ["--changelog", root, "--group", "accounts", "--epoch", str(damaged)]
        done = livestate("skip", *place, "--reason", "it is damaged", "--uri", hosts["a"].uri)
        assert done.exit_code == 0, done.output
        wait_until(lambda: numbers(hosts["a"].uri) == [1, 3], WAIT_SECONDS)
        # It has the rows on its disk.
        hosts["b"].start()
        hosts["b"].wait()
        append(appender, 4)
        wait_for_numbers(hosts, [1, 3, 4])
        assert "was passed by" in hosts["b"].said
        with Client(hosts["b"].uri) as client:
            (row,) = client.stores().to_pylist()
            assert "it is damaged" in row["skipped"]
    assert livestate("verify", root).exit_code == 0


def test_a_store_is_dropped_while_a_host_is_away(tmp_path: Path) -> None:
    root = str(tmp_path / "changelog")
    appender = open_appender(Changelog.open(root), [ACCOUNTS])
    append(appender, 1)
    with host_processes(tmp_path, root, "ab", replication=2) as hosts:
        wait_for_numbers(hosts, [1])
        hosts["a"].kill()
        done = livestate("drop", "accounts", "--yes", "--changelog", root, "--uri", hosts["b"].uri)
        assert done.exit_code == 0, done.output
        wait_until(lambda: not list((tmp_path / "host-b").glob("accounts/accounts/*")), WAIT_SECONDS)
        assert numbers(hosts["b"].uri) is None
        hosts["b"].kill()
        hosts["b"].start()
        hosts["a"].start()
        for host in hosts:
            host.wait()
        append_table(
            Changelog.open(root), ACCOUNTS, pa.table({"account": list(range(40)), "amount": [7] * 40})
        )
        wait_for_numbers(hosts, [7])
        wait_until(lambda: not (tmp_path / "host-a" / "accounts" / "accounts").exists(), WAIT_SECONDS)
