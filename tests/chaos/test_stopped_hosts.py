"""Host processes that are told to stop: at work and while they start, they close what they have opened, and
say nothing about it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.changelog import Changelog, append_table
from engine.cluster.deployment import Deployment, HostEntry
from engine.cluster.reports import HostName
from engine.errors import Cancelled, DeadlineExceeded, NotFound
from flight_server.client.client import Client
from flight_server.host.ports import free_ports
from flight_server.host.process import SERVES
from flight_server.host.serving import deployment_text
from tests.support.host_processes import HostProcesses, host_processes
from tests.support.plays import ENDLESS, FAN_OUT, PLAYS, STORE
from tests.support.waiting import PATIENCE_SECONDS, wait_until


def test_hosts_that_answered_queries_of_all_kinds_stop_without_a_word(tmp_path: Path) -> None:
    changelog = str(tmp_path / "changelog")
    append_table(Changelog.open(changelog), STORE, PLAYS)
    with host_processes(tmp_path, changelog, "ab") as hosts:
        for host in hosts:
            with Client(host.uri) as client:
                _ask(hosts, client)
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
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(lambda: client.query(ENDLESS, call_id=b"endless").read_all())
        wait_until(lambda: all(hosts.count_running()) or asked.done())
        client.cancel(b"endless")
        with pytest.raises(Cancelled):
            asked.result(PATIENCE_SECONDS)


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
