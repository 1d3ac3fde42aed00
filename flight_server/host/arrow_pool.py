"""The memory that Arrow Flight may take by itself. Imports nothing of Arrow, which reads its settings when it
is imported.

Flight makes rows of a message before a handler sees it. Where the message is compressed, a few kilobytes
become gigabytes, and pyarrow's server has no limit for it. That memory comes from the default pool of Arrow's
C++ side, and nearly nothing else does: uncompressed messages stay where gRPC has put them, and what Python
asks Arrow for comes from the pool that `pyarrow.set_memory_pool` names. So that pool gets a size, by the
settings of its allocator: https://microsoft.github.io/mimalloc/environment.html.
"""

from __future__ import annotations

import os
import sys

POOL_MIB = 640
"""Each thread that reads or sends messages takes pages of its own for each size, a third of a MiB together:
this is for `ServerLimits.max_threads` of them, and 128 MiB more for messages. Where the pool is empty, Arrow
ends the process: not only messages come from it, but also what describes rows that go to the engine.
"""
BUFFER_MIB = 24
"""What one compressed buffer may become. Parameters are 16 MiB at the most."""
_SETTINGS = {
    "ARROW_DEFAULT_MEMORY_POOL": "mimalloc",
    "MIMALLOC_RESERVE_OS_MEMORY": f"{POOL_MIB}MiB",
    "MIMALLOC_DISALLOW_OS_ALLOC": "1",
    "MIMALLOC_ARENA_MAX_OBJECT_SIZE": f"{BUFFER_MIB}MiB",
    # A page of which a thread uses little would be 2 MiB.
    "MIMALLOC_ALLOW_THP": "0",
}


def limit_arrow_pool() -> None:
    """Give the pool its size. Before Arrow is imported: afterwards this does nothing. Python's side needs
    another pool then.
    """
    if "pyarrow" not in sys.modules:
        os.environ.update(_SETTINGS)


def is_limited() -> bool:
    """Whether the pool has its size."""
    return all(os.environ.get(name) == value for name, value in _SETTINGS.items())
