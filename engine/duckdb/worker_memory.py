"""What the engines of workers may take."""

from __future__ import annotations

import threading
from collections import Counter

from engine.access.principal import EngineLimit
from engine.duckdb.engine_errors import Allowance

MIN_WORKER_MEMORY_BYTES = 64 << 20
LEAST_BYTES = 16 << 20
"""What a worker has at least, or all of its principal's limit, when others have taken the most of that."""


def worker_memory(memory_limit_bytes: int) -> int:
    """Memory for the engine of a worker, in bytes.

    Args:
        memory_limit_bytes: That of the engine whose statements it runs.
    """
    return min(memory_limit_bytes, max(memory_limit_bytes // 8, MIN_WORKER_MEMORY_BYTES))


class WorkerMemory:
    """Shares of workers. Safe for threads, and for finalizers.

    All workers of a principal with a limit have no more than that together, but for `LEAST_BYTES` each: one
    gets half of what is left, so that none has to wait for others. Fragments of a statement wait for each
    other, and would wait for ever.

    Args:
        memory_limit_bytes: Memory of the engine whose statements they run.
    """

    def __init__(self, memory_limit_bytes: int) -> None:
        self._most_bytes = worker_memory(memory_limit_bytes)
        self._lock = threading.RLock()
        self._taken: Counter[EngineLimit] = Counter()

    def take(self, limit: EngineLimit | None) -> WorkerShare:
        """The share of a worker, to be given back.

        Args:
            limit: What all statements of a principal may take; None for as much as anybody's.
        """
        if limit is None:
            return WorkerShare(self, None, self._most_bytes)
        with self._lock:
            left = limit.limit.most - self._taken[limit]
            nbytes = min(self._most_bytes, limit.limit.most, max(left // 2, LEAST_BYTES))
            self._taken[limit] += nbytes
        return WorkerShare(self, limit, nbytes)

    def give(self, share: WorkerShare) -> None:
        """Take a share back. May be called again."""
        with self._lock:
            limit, share.limit = share.limit, None
            if limit is not None:
                self._taken[limit] -= share.allowance.nbytes
                if not self._taken[limit]:
                    del self._taken[limit]


class WorkerShare:
    """What the engine of one worker may take.

    Args:
        memory: Where it is from.
        limit: Of whom; None: of anybody.
        nbytes: How much.

    Attributes:
        limit: As the argument; None once it was given back.
        allowance: What it is to the worker.
    """

    def __init__(self, memory: WorkerMemory, limit: EngineLimit | None, nbytes: int) -> None:
        self.limit = limit
        self.allowance = Allowance(nbytes, None if limit is None else limit.limit, in_worker=True)
        self._memory = memory

    def give(self) -> None:
        """Give it back. May be called again."""
        self._memory.give(self)
