"""A host of no deployment, in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flight_server.client.client import Client


@contextmanager
def lone_host(changelog: Path, data: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], Client]]:
    """A host process that serves, and a client of it; however it ends, the process does.

    Args:
        changelog: What it follows.
        data: Its data directory.
        options: More of the command line.
    """
    command = [
        sys.executable,
        "-m",
        "flight_server.cli.main",
        "serve",
        "--changelog",
        str(changelog),
        "--data",
        str(data),
        "--port",
        "0",
        # Nobody reads on once it serves.
        "--log-level",
        "error",
        *options,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            said = ""
            while not (found := re.search(r"grpc://\S+:\d+", said)):
                line = process.stdout.readline()
                assert line, f"the host ended: {said}"
                said += line
            with Client(found[0]) as client:
                yield process, client
        finally:
            process.kill()
