"""What processes that a job has beside it need: a port, and an end."""

from __future__ import annotations

import re
import socket
import subprocess
from contextlib import suppress

from engine.errors import InvalidInput

LOOPBACK = "127.0.0.1"
_STOP_SECONDS = 15.0
_WATCH = """
read -r nothing
kill "$1" || exit
left=$2
while [ "$left" -gt 0 ]; do sleep 1; kill -0 "$1" || exit; left=$((left - 1)); done
kill -KILL "$1"
"""
"""Waits for the end of its input, and then ends a process: in order if it does so within some seconds, else at once."""

_PLACE = re.compile(r"(?P<host>\[[^\]]+\]|[^:\s]+):(?P<port>\d{1,5})")


def free_port() -> int:
    """A port of the loopback address that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def stop_process(process: subprocess.Popen[bytes]) -> None:
    """End a process: in order if it does so within a quarter of a minute, else at once."""
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Watcher:
    """Ends a process when this one has ended without doing so, however that came about.

    It is a shell whose input is a pipe of this process; nothing else has its other end, which the kernel closes when this process is gone.

    Args:
        process: Number of the process, which runs.
        patience_seconds: How long it has to end in order.
    """

    def __init__(self, process: int, patience_seconds: int = 10) -> None:
        self._shell = subprocess.Popen(  # noqa: S603  the command is made here
            ["/bin/sh", "-c", _WATCH, "watcher", str(process), str(patience_seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # What ends this process's group must not end it.
            start_new_session=True,
        )

    def stop(self) -> None:
        """Let go of the process, before its number can be another one's."""
        self._shell.kill()
        self._shell.wait()
        assert self._shell.stdin is not None
        self._shell.stdin.close()


def answers(places: str, seconds: float) -> bool:
    """Whether somebody takes connections at one of some places.

    Args:
        places: `host:port`, or several with commas.
        seconds: How long to try, over all of them.

    Raises:
        InvalidInput: They are written otherwise.
    """
    found = [_PLACE.fullmatch(place.strip()) for place in places.split(",")]
    known = [(place["host"].strip("[]"), int(place["port"])) for place in found if place is not None]
    if len(known) < len(found):
        raise InvalidInput(f"{places!r} is no address; write it as host:port, or several with commas.")
    for place in known:
        with suppress(OSError), socket.create_connection(place, seconds / len(known)):
            return True
    return False
