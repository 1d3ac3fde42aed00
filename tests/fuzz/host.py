"""The host that is fuzzed: a process with small limits, four stores, and another that looks keys up in it."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from engine.changelog import Changelog, append_table
from engine.model.schema import define_store
from tests.support.host_processes import HostProcess, host_processes
from tests.support.process_family import family

ROWS = 20_000
WIDE_ROWS, WIDE_FIELDS = 200, 300
LARGE_ROWS = 3_000_000
MEMORY_MIB = 256
CACHE_MIB = 64
ROOM_MIB = 300
"""What a host may take beyond its limits: its programs, and Arrow's and Python's own."""
MOST_MIB = MEMORY_MIB + CACHE_MIB + ROOM_MIB
MOST_OF_WORKER_MIB = 64 + 96 + 100
"""What a process of a statement may take (docs/decisions/0043), with its program."""
HOST_OPTIONS = (
    *("--memory", f"{MEMORY_MIB}MiB", "--cache", f"{CACHE_MIB}MiB", "--spill", "64MiB"),
    *("--threads", "2", "--max-statements", "8"),
)
_END_MIB = 8 * MOST_MIB
"""A host that is so large is ended, with its workers, before the machine has no memory left."""
_LOOK_SECONDS = 0.1
SO_FAR = "so far"
"""Asks `tests.fuzz.prober` for a report after which it goes on counting."""
_LOOKS_A_FAMILY = 3


def rows() -> pa.Table:
    """Of the stores `t` and `u`."""
    numbers = range(ROWS)
    return pa.table(
        {
            "k": pa.array(numbers, pa.int64()),
            "a": pa.array([number % 1000 for number in numbers], pa.int64()),
            "b": pa.array([number / 7 for number in numbers]),
            "s": [f"s{number}" for number in numbers],
        }
    )


def wide_rows() -> pa.Table:
    """Of the store `w`: few, with a struct of many fields, a list and a map."""
    fields = pa.struct([(f"f{number}", pa.int64()) for number in range(WIDE_FIELDS)])
    row = dict.fromkeys((field.name for field in fields), 7)
    return pa.table(
        {
            "k": pa.array(range(WIDE_ROWS), pa.int64()),
            "x": pa.array([row] * WIDE_ROWS, fields),
            "l": pa.array([[row]] * WIDE_ROWS, pa.list_(pa.field("item", fields))),
            "m": pa.array([[("a", 1)]] * WIDE_ROWS, pa.map_(pa.string(), pa.int64())),
        }
    )


def large_rows() -> pa.Table:
    """Of the store `l`: more than the cache takes."""
    numbers = np.arange(LARGE_ROWS)
    return pa.table({"k": numbers, "a": numbers % 1000, "b": numbers / 7, "c": numbers * 31 % LARGE_ROWS})


@contextmanager
def fuzzed_host(directory: Path) -> Iterator[HostProcess]:
    """Start a host for the length of the block.

    Args:
        directory: For its changelog and data.
    """
    uri = (directory / "changelog").as_uri()
    changelog = Changelog.open(uri)
    for name, table in {
        "t": rows(),
        "u": rows().slice(0, 40),
        "w": wide_rows(),
        "l": large_rows(),
    }.items():
        append_table(changelog, define_store(name, table.schema, ["k"], partitions=2), table)
    with host_processes(directory, uri, "a", options=HOST_OPTIONS) as hosts:
        yield hosts["a"]


class MemoryWatch:
    """Looks at the memory of a host, and of the processes that it has started, all the time; a context.

    Args:
        host: The host.

    Attributes:
        now: MiB of all of them together.
        peak: The most that this ever was.
        peak_of_host: Likewise, the host alone.
        peak_of_worker: Likewise, the largest of the others.
    """

    def __init__(self, host: HostProcess) -> None:
        self._host = host
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.now = self.peak = self.peak_of_host = self.peak_of_worker = 0

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        workers: list[int] = []
        for look in itertools.count():
            if self._is_over.wait(_LOOK_SECONDS):
                return
            with suppress(OSError):
                host = self._host.pid
                if look % _LOOKS_A_FAMILY == 0:
                    # A process that is being started is the host itself for a moment.
                    workers = [each for each in family(host)[1:] if _program(each) != _program(host)]
                own = _mebibytes(host, "VmRSS")
                # Programs are in memory once, however many processes run them.
                others = [_mebibytes(each, "RssAnon", "RssShmem") for each in workers]
                self.now = own + sum(others)
                # The system knows what lies between two looks.
                self.peak_of_host = max(self.peak_of_host, _mebibytes(host, "VmHWM"))
                self.peak_of_worker = max(self.peak_of_worker, *others, 0)
                self.peak = max(self.peak, self.now)
                if self.now > _END_MIB:
                    os.kill(host, signal.SIGKILL)


def _program(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def _mebibytes(process: int, *names: str) -> int:
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    found = re.findall(rf"^(?:{'|'.join(names)}):\s+(\d+) kB$", status, re.MULTILINE)
    return sum(map(int, found)) >> 10


class Prober:
    """A process that looks keys up, one after the other; a context. Safe for threads.

    Args:
        uri: Of the host.
        token: What it presents; empty: nothing.
    """

    def __init__(self, uri: str, token: str = "") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.prober", uri, token],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Prober:
        return self

    def __exit__(self, *raised: object) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def report(self, *, so_far: bool = False) -> Mapping[str, Any]:
        """How many lookups there were, milliseconds that they took, and what went wrong.

        Args:
            so_far: Whether the next report is of these lookups, too.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(SO_FAR if so_far else "", file=self._process.stdin, flush=True)
        found: Mapping[str, Any] = json.loads(self._process.stdout.readline())
        return found
