"""Where tests write: in memory, where the machine has enough of it. A disk syncs thousands of small files
late, and no test looks at what a loss of power leaves.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

ROOT = "PYTEST_DEBUG_TEMPROOT"
"""Set to a directory, tests write there: pytest's own name for it."""
_IN_MEMORY = Path("/dev/shm")
_MEMORY = Path("/proc/meminfo")
ENOUGH_BYTES = 4 << 30
"""Several times what a whole run has at one time."""


def choose_temporary_root() -> None:
    """Have pytest, and all processes that tests start, write in memory; if somebody has chosen a place, or
    there is not enough memory, nothing changes.
    """
    if ROOT not in os.environ and _is_large_enough():
        os.environ[ROOT] = str(_IN_MEMORY)


def _is_large_enough() -> bool:
    if not (os.access(_IN_MEMORY, os.W_OK) and _MEMORY.is_file()):
        return False
    available = re.search(r"^MemAvailable:\s+(\d+) kB$", _MEMORY.read_text(), re.MULTILINE)
    return (
        available is not None
        and shutil.disk_usage(_IN_MEMORY).free >= ENOUGH_BYTES
        # Hosts, Spark and the tests themselves want some, too.
        and int(available[1]) << 10 >= 2 * ENOUGH_BYTES
    )
