"""A directory for tests that sync thousands of small files: in memory where the system has such a place."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_IN_MEMORY = Path("/dev/shm")


@contextmanager
def quick_directory() -> Iterator[Path]:
    """An empty directory, removed afterwards. What is tested in it must not be what a loss of
    power leaves.
    """
    with tempfile.TemporaryDirectory(
        prefix="livestate-", dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None
    ) as name:
        yield Path(name)
