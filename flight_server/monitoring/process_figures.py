"""What this process takes of its machine."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

_STATM = Path("/proc/self/statm")
_OPEN_FILES = Path("/proc/self/fd")


@dataclass(frozen=True)
class ProcessFigures:
    """What a process takes.

    Attributes:
        cpu_seconds: Processor time so far.
        resident_bytes: Memory, as the system counts it; 0 where it does not tell.
        arrow_bytes: What of it Arrow has.
        threads: Threads of Python.
        open_files: Open files and connections; 0 where the system does not tell.
    """

    cpu_seconds: float
    resident_bytes: int
    arrow_bytes: int
    threads: int
    open_files: int


def process_figures() -> ProcessFigures:
    """What this process takes now."""
    try:
        resident = int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        open_files = sum(1 for _ in _OPEN_FILES.iterdir())
    except OSError:
        resident = open_files = 0
    return ProcessFigures(
        time.process_time(),
        resident,
        pa.default_memory_pool().bytes_allocated(),
        threading.active_count(),
        open_files,
    )
