"""Ends processes that are not to outlive the one that started them. For the demo and the jobs, which know
nothing of each other.
"""

from __future__ import annotations

import subprocess

_WATCH = """
read -r nothing
kill "$1" || exit
left=$2
while [ "$left" -gt 0 ]; do sleep 1; kill -0 "$1" || exit; left=$((left - 1)); done
kill -KILL "$1"
"""
"""Waits for the end of its input, and then ends a process: in order if it does so within some seconds, else
at once.
"""


class Watcher:
    """Ends a process when this one has ended without doing so, however that came about.

    It is a shell whose input is a pipe of this process; nothing else has its other end, which the kernel
    closes when this process is gone.

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
