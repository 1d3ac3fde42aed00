"""What processes that a job has beside it need: a port, and an end."""

from __future__ import annotations

import socket
import subprocess

LOOPBACK = "127.0.0.1"
_STOP_SECONDS = 15.0


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
