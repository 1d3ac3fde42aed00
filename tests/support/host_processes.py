"""Hosts of one deployment, each a process: they can be killed, frozen and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from engine.cluster.deployment import Deployment, HostEntry
from engine.cluster.reports import HostName
from flight_server.client.client import Client
from flight_server.client.connection_options import ConnectionOptions
from flight_server.host.ports import free_ports
from flight_server.host.process import SERVES
from flight_server.host.serving import deployment_text
from tests.support.waiting import wait_until

START_SECONDS = 60.0
OPTIONS = ("--poll-interval", "0.01", "--threads", "1", "--memory", "512MiB", "--grace", "0.5")


class HostProcess:
    """One host.

    Args:
        entry: Its name and address.
        command: What starts it.
    """

    def __init__(self, entry: HostEntry, command: Sequence[str]) -> None:
        self.name = entry.name
        self.uri = entry.uri
        self._command = command
        self._process: subprocess.Popen[str] | None = None
        self._served = threading.Event()
        self._said: list[str] = []
        self._listener = threading.Thread()

    def start(self) -> None:
        """Start the process, for the first time or again; does not wait for it."""
        self._served.clear()
        # Its standard input is a pipe of this process, so that it cannot outlive it.
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self._process.stdout is not None
        self._listener = threading.Thread(target=self._listen, args=(self._process.stdout,), daemon=True)
        self._listener.start()

    def _listen(self, output: IO[str]) -> None:
        with output:
            for line in output:
                self._said.append(line)
                if line.startswith(SERVES):
                    self._served.set()

    @property
    def pid(self) -> int:
        """Number of the process."""
        assert self._process is not None
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """How the process ended; None while it runs."""
        assert self._process is not None
        return self._process.poll()

    @property
    def said(self) -> str:
        """All that it has said so far."""
        return "".join(self._said)

    @property
    def http_uri(self) -> str:
        """Where its probes and metrics are, of a host with `--http-address`."""
        return next(line for line in self._said if line.startswith(SERVES)).rpartition(" at ")[2].strip()

    def terminate(self) -> None:
        """Tell the process to end, and do not wait for it."""
        assert self._process is not None
        self._process.terminate()

    def wait(self) -> None:
        """Wait until it can be connected to."""
        assert self._served.wait(START_SECONDS), f"host {self.name} did not start: {''.join(self._said)}"

    def stop(self) -> str:
        """End the process in order.

        Returns:
            All that it has said.
        """
        self.terminate()
        assert self._process is not None
        assert self._process.wait(START_SECONDS) == 0, "".join(self._said)
        self._listener.join()
        return "".join(self._said)

    def kill(self) -> None:
        """End the process without a warning."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()

    @contextmanager
    def freeze(self) -> Iterator[None]:
        """It does nothing at all meanwhile, and its connections stay open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            # On a busy machine its threads go on for a while: the system stops them when the first of them
            # gets its turn.
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)


class HostProcesses:
    """All hosts of a deployment.

    Args:
        hosts: Each of them.
        token: What whoever asks presents; None: nothing.
    """

    def __init__(self, hosts: Sequence[HostProcess], token: str | None = None) -> None:
        self._token = token
        self._hosts = {host.name: host for host in hosts}

    def __getitem__(self, name: str) -> HostProcess:
        return self._hosts[HostName(name)]

    def __iter__(self) -> Iterator[HostProcess]:
        return iter(self._hosts.values())

    @property
    def uris(self) -> list[str]:
        """Where they are."""
        return [host.uri for host in self._hosts.values()]

    def wait_until_whole(self) -> None:
        """Wait until every host sees every other one alive, with all that it should hold and none of the
        epochs missing.
        """
        for uri in self.uris:
            with Client(ConnectionOptions((uri,), self._token)) as client:
                wait_until(lambda client=client: _sees_all(client, len(self._hosts)), START_SECONDS)  # type: ignore[misc] # mypy gives lambdas with defaults no type

    def count_running(self) -> list[int]:
        """How many statements and fragments run on each host."""
        found = []
        for uri in self.uris:
            with Client(ConnectionOptions((uri,), self._token)) as client:
                found.append(int(client.health()["running"]))
        return found


def _sees_all(client: Client, hosts: int) -> bool:
    alive = [row["alive"] for row in client.hosts().to_pylist()]
    replicas = client.replicas().to_pylist()
    there = all(
        row["alive"] and row["coming"] == 0 and row["epoch"] == row["newest_epoch"] for row in replicas
    )
    return len(alive) >= hosts and all(alive) and bool(replicas) and there


@contextmanager
def host_processes(
    directory: Path,
    changelog: str,
    names: Sequence[str] = "abc",
    replication: int = 1,
    options: Sequence[str] = OPTIONS,
    token: str | None = None,
) -> Iterator[HostProcesses]:
    """Start hosts, and end them however it ends.

    Args:
        directory: For their data.
        changelog: What they follow.
        names: Names of the hosts.
        replication: How many hosts hold a partition.
        options: Of the command that starts each.
        token: What whoever asks presents, where they want something.
    """
    ports = free_ports("127.0.0.1", 0, len(names))
    entries = tuple(
        HostEntry(HostName(name), f"grpc://127.0.0.1:{port}", str(directory / f"host-{name}"))
        for name, port in zip(names, ports, strict=True)
    )
    file = directory / "livestate.toml"
    file.write_text(deployment_text(Deployment(changelog, entries, replication)), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "flight_server.cli.main",
        "serve",
        "--deployment",
        str(file),
        "--supervised",
        # What hosts are to be silent about is no event of theirs.
        "--log-level",
        "error",
    ]
    hosts = [HostProcess(entry, [*command, "--host", entry.name, *options]) for entry in entries]
    started = []
    try:
        for host in hosts:
            host.start()
            started.append(host)
        for host in hosts:
            host.wait()
        processes = HostProcesses(hosts, token)
        processes.wait_until_whole()
        yield processes
    finally:
        for host in started:
            host.kill()
