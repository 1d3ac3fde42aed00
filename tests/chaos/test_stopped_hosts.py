"""Host processes that are told to stop: at work and while they start, they close what they have opened, and
say nothing about it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from engine.changelog import Changelog, append_table
from engine.cluster.deployment import Deployment, HostEntry
from engine.cluster.reports import HostName
from engine.errors import Cancelled, DeadlineExceeded, NotFound, Unavailable
from flight_server.client.client import Client
from flight_server.host.ports import free_ports
from flight_server.host.process import SERVES
from flight_server.host.serving import deployment_text
from tests.support.host_processes import OPTIONS, HostProcess, HostProcesses, host_processes
from tests.support.plays import COUNT, ENDLESS, FAN_OUT, PLAYS, STORE
from tests.support.waiting import PATIENCE_SECONDS, wait_until


def test_hosts_that_answered_queries_of_all_kinds_stop_without_a_word(tmp_path: Path) -> None:
    changelog = str(tmp_path / "changelog")
    append_table(Changelog.open(changelog), STORE, PLAYS)
    options = (*OPTIONS, "--http-address", "127.0.0.1:0", "--grace", "60")
    with host_processes(tmp_path, changelog, "ab", options=options) as hosts:
        for host in hosts:
            with Client(host.uri) as client:
                _ask(hosts, client)
        with Client(hosts["a"].uri) as client, _endless_statement(hosts, client):
            hosts["a"].terminate()
            wait_until(lambda: "draining" in _unready_reason(hosts["a"]))
            with pytest.raises(Unavailable, match="ask another host"):
                client.query(COUNT)
            assert hosts["a"].exit_status is None
            assert not _unready_reason(hosts["b"])
        said = {host.name: host.stop() for host in hosts}
    assert {
        name: [line for line in lines.splitlines() if not line.startswith(SERVES)]
        for name, lines in said.items()
    } == {"a": [], "b": []}


def _ask(hosts: HostProcesses, client: Client) -> None:
    for sql, answer in FAN_OUT:
        assert client.query(sql).read_all()["n"].to_pylist() == answer
    assert client.query("SELECT * FROM plays WHERE song = 7").read_all().num_rows == 1
    with pytest.raises(NotFound):
        client.query("SELECT nothing FROM plays")
    with Client(client.uri, timeout_seconds=0.3) as hurried, pytest.raises(DeadlineExceeded):
        hurried.query(ENDLESS).read_all()
    with _endless_statement(hosts, client):
        pass


@contextmanager
def _endless_statement(hosts: HostProcesses, client: Client) -> Iterator[None]:
    """A statement that runs on all hosts, until it is cancelled."""
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(lambda: client.query(ENDLESS, call_id=b"endless").read_all())
        try:
            wait_until(lambda: all(hosts.count_running()) or asked.done())
            yield
        finally:
            client.cancel(b"endless")
        with pytest.raises(Cancelled):
            asked.result(PATIENCE_SECONDS)


def _unready_reason(host: HostProcess) -> str:
    """Why a host is not ready; empty if it is."""
    try:
        with urlopen(f"{host.http_uri}/readyz"):
            return ""
    except HTTPError as error:
        with error:
            assert error.code == HTTPStatus.SERVICE_UNAVAILABLE
            return error.read().decode()


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_host_that_is_stopped_while_it_starts_ends_in_order(tmp_path: Path, stop: signal.Signals) -> None:
    """Its deployment file is a pipe: it waits there, with all modules imported and the threads that these
    start.
    """
    append_table(Changelog.open(str(tmp_path / "changelog")), STORE, PLAYS)
    (port,) = free_ports("127.0.0.1", 0, 1)
    deployment = Deployment(
        str(tmp_path / "changelog"),
        (HostEntry(HostName("a"), f"grpc://127.0.0.1:{port}", str(tmp_path / "data")),),
        1,
    )
    pipe = tmp_path / "livestate.toml"
    os.mkfifo(pipe)
    command = [
        sys.executable,
        "-m",
        "flight_server.cli.main",
        "serve",
        "--log-level",
        "error",
        "--deployment",
        str(pipe),
        "--host",
        "a",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            with pipe.open("w") as writer:
                process.send_signal(stop)
                writer.write(deployment_text(deployment))
            said, _ = process.communicate(timeout=PATIENCE_SECONDS)
        finally:
            process.kill()
    assert process.returncode == 0
    assert [line.startswith(SERVES) for line in said.splitlines()] == [True]
