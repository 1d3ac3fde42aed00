"""Processes: whether they run, what they have started, and how they are told to end."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path


def runs(process: int) -> bool:
    """Whether there is such a process, and it is no zombie: who adopts orphans may take its time."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def family(process: int) -> list[int]:
    """A process and all that it, and those that it started, have started."""
    found = [process]
    for member in found:
        # A process and its threads can end while they are looked at.
        threads: list[Path] = []
        with suppress(FileNotFoundError, ProcessLookupError):
            threads += Path(f"/proc/{member}/task").iterdir()
        for thread in threads:
            with suppress(FileNotFoundError, ProcessLookupError):
                found += map(int, (thread / "children").read_text().split())
    return found


def processor_seconds(process: int) -> float:
    """How long a process has had a processor so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def signal_group(process: int, number: signal.Signals) -> None:
    """What a terminal does at Ctrl-C: everybody in the process's group gets a signal."""
    os.killpg(process, number)


def signal_family(process: int, number: signal.Signals) -> None:
    """What systemd does when it ends a unit: everybody gets a signal, whatever group or session they have
    made.
    """
    for member in family(process):
        with suppress(ProcessLookupError):
            os.kill(member, number)


ENDS: Mapping[str, tuple[Callable[[int, signal.Signals], None], signal.Signals]] = {
    "group SIGTERM": (signal_group, signal.SIGTERM),
    "group SIGINT": (signal_group, signal.SIGINT),
    "family SIGTERM": (signal_family, signal.SIGTERM),
    "family SIGINT": (signal_family, signal.SIGINT),
}
"""Ways in which processes are ended together; the process has been started in a session of its own."""
