"""What this process, its machine and a directory have: for `livestate doctor`."""

from __future__ import annotations

import os
import platform
import resource
import secrets
import shutil
import statistics
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from flight_server.wire.diagnosis_messages import DirectoryFacts

PACKAGES = ("livestate", "pyarrow", "duckdb", "rocksdict", "sqlglot", "obstore", "numpy")
"""Those whose versions may make a difference between hosts."""
_TRIES = 5
_PROBE_BYTES = 4096
_CONTROL_GROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def package_versions() -> Mapping[str, str]:
    """Versions by name; what is not installed is not there."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def directory_facts(directory: Path) -> DirectoryFacts:
    """Look at a directory; a small file is written there, and removed again.

    Args:
        directory: It.
    """
    try:
        mode = f"{directory.stat().st_mode & 0o777:o}"
        usage = shutil.disk_usage(directory)
    except OSError as error:
        return DirectoryFacts(problem=f"It cannot be read: {error.strerror}.")
    try:
        seconds = statistics.median(_synced_write_seconds(directory) for _ in range(_TRIES))
    except OSError as error:
        problem = f"It cannot be written: {error.strerror}."
        return DirectoryFacts(mode, problem, 0.0, usage.free, usage.total)
    return DirectoryFacts(mode, "", seconds, usage.free, usage.total)


def _synced_write_seconds(directory: Path) -> float:
    file = directory / f"doctor-{secrets.token_hex(8)}.part"
    begun = time.perf_counter()
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, bytes(_PROBE_BYTES))
        os.fsync(descriptor)
        return time.perf_counter() - begun
    finally:
        os.close(descriptor)
        file.unlink(missing_ok=True)


def open_files() -> tuple[int, int]:
    """How many files this process has open, and how many it may have; negative for no limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sum(1 for _ in Path("/proc/self/fd").iterdir()), -1 if limit == resource.RLIM_INFINITY else limit


def memory_bytes() -> int:
    """What this process takes of memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def memory_limit_bytes() -> int:
    """What the machine has, or the control group of this process where that is less."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in _CONTROL_GROUP_LIMITS:
        try:
            text = file.read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            found = min(found, int(text))
    return found
