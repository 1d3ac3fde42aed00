"""Real host processes, and what the system says of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa

from engine.cluster.deployment import Deployment, HostEntry
from engine.cluster.reports import HostName
from engine.errors import LivestateError
from flight_server.client.client import Client
from flight_server.host.ports import free_ports
from flight_server.host.serving import DEPLOYMENT_FILE, LOOPBACK, deployment_text

START_SECONDS = 60.0


class ServerProcess:
    """A server in a process of its own, which prints its address when it listens; as a context manager it is
    stopped at the end.

    Args:
        command: Arguments of the Python interpreter.
        log: Where its standard error goes.
    """

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.spawned = time.perf_counter()
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, *command], stdout=subprocess.PIPE, stderr=errors, text=True
            )
        assert self._process.stdout is not None
        found = re.search(r"grpc(\+tls)?://\S+", self._process.stdout.readline())
        if found is None:
            self._process.kill()
            raise SystemExit(f"A server did not start: see {log}.")
        self.uri = found[0]

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def stop(self) -> None:
        """End it cleanly, with SIGTERM."""
        self._process.terminate()
        self._process.wait(START_SECONDS)

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._process.kill()
        self._process.wait(START_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self.stop()


def _has_all(stores: pa.Table) -> bool:
    """Whether stores can be read at the newest epoch that there is."""
    return bool(stores.num_rows) and all(row["epoch"] >= row["newest_epoch"] for row in stores.to_pylist())


class ServeProcess(ServerProcess):
    """`livestate serve`.

    Args:
        options: Options of the command.
        log: Where its standard error goes.
    """

    def __init__(self, options: Sequence[str], log: Path) -> None:
        super().__init__(["-m", "flight_server.cli.main", "serve", *options], log)

    def wait_until_ready(self, timeout_seconds: float = 600.0) -> None:
        """Wait until it has stores, and all epochs of them that the changelog has by then."""
        with Client(self.uri) as client:
            wait_until(lambda: client.health()["ready"] and _has_all(client.stores()), timeout_seconds)

    def wait_until_settled(self, timeout_seconds: float = 600.0) -> None:
        """Wait until it has caught up and compaction has come to rest: half a second without work."""
        self.wait_until_ready(timeout_seconds)

        def is_idle() -> bool:
            before = cpu_seconds(self.pid)
            time.sleep(0.5)
            return cpu_seconds(self.pid) - before < 0.1

        wait_until(is_idle, timeout_seconds)


class HostProcess(ServeProcess):
    """A host that has everything, on a free port.

    Args:
        directory: Where its data and log go.
        changelog: URI of the changelog.
        options: Further options of the command.
    """

    def __init__(self, directory: Path, changelog: str, options: Sequence[str] = ()) -> None:
        data = str(directory / "data")
        super().__init__(
            ["--changelog", changelog, "--data", data, "--port", "0", *options], directory / "host.log"
        )


@contextmanager
def run_deployment(
    directory: Path, changelog: str, hosts: int, options: Sequence[str] = ()
) -> Iterator[Sequence[ServeProcess]]:
    """Hosts that share the partitions of a changelog's stores, each a process of this machine.

    Args:
        directory: Where their data and logs go.
        changelog: URI of the changelog.
        hosts: How many.
        options: Further options of each.

    Yields:
        The hosts `1`, `2`, …
    """
    ports = free_ports(LOOPBACK, 0, hosts)
    entries = [
        HostEntry(HostName(f"{number}"), f"grpc://{LOOPBACK}:{port}", str(directory / f"host-{number}"))
        for number, port in enumerate(ports, 1)
    ]
    file = directory / DEPLOYMENT_FILE
    file.write_text(deployment_text(Deployment(changelog, tuple(entries))))
    with ExitStack() as running:
        yield [
            running.enter_context(
                ServeProcess(
                    ["--deployment", str(file), "--host", entry.name, *options],
                    directory / f"host-{entry.name}.log",
                )
            )
            for entry in entries
        ]


def wait_until(is_so: Callable[[], bool], timeout_seconds: float) -> None:
    """Wait for a condition, looking every 10 ms.

    Raises:
        SystemExit: It did not come true in time.
    """
    deadline = time.monotonic() + timeout_seconds
    while not _holds(is_so):
        if time.monotonic() > deadline:
            raise SystemExit(f"What was waited for did not happen within {timeout_seconds:g} seconds.")
        time.sleep(0.01)


def _holds(is_so: Callable[[], bool]) -> bool:
    try:
        return is_so()
    except LivestateError:
        return False


def pin(pid: int, cores: set[int]) -> None:
    """Keep all threads that a process has now on some cores."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), cores)


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used, all threads together."""
    # proc(5): fields 14 and 15 of stat are user and system time in ticks of 10 ms; the name before them may
    # hold blanks.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def memory_bytes(pid: int, what: str = "VmRSS") -> int:
    """Memory of a process.

    Args:
        pid: The process.
        what: A field of /proc/PID/status, such as `VmRSS` (resident now) or `VmHWM` (the most that was
            resident).

    Returns:
        Bytes.
    """
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(rf"^{what}:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024
