"""Memory that the engine lends to rows beside it, which statements have gathered or which answer keys."""

from __future__ import annotations

import threading

from engine.duckdb.engine import Engine
from engine.duckdb.engine_database import counted_bytes

STEP_BYTES = 16 << 20
"""The engine lends in steps of this size: each takes it 0.2 ms."""
LEAST_FREE_BYTES, FREE_SHARE = 16 << 20, 16
"""Rows up to this size, or one part in so many of the memory if that is more, are beside what the engine is
told of anyhow.
"""
ENGINE_SHARE = 4
"""One part in so many of the memory the engine keeps."""


class LentMemory:
    """What rows beside the engine take of the memory that they and the engine have together. Safe for
    threads.

    Args:
        engine: Has that memory.
        memory_limit_bytes: How much that is.
    """

    def __init__(self, engine: Engine, memory_limit_bytes: int) -> None:
        self._engine = engine
        self._free_bytes = max(LEAST_FREE_BYTES, memory_limit_bytes // FREE_SHARE)
        most_lent = counted_bytes(memory_limit_bytes) - memory_limit_bytes // ENGINE_SHARE
        self._most_bytes = self._free_bytes + most_lent // STEP_BYTES * STEP_BYTES
        # Reentrant, as finalizers give back what they held, in whatever thread they run.
        self._lock = threading.RLock()
        self._taken = self._lent = 0
        self._is_changing = False

    @property
    def lent_bytes(self) -> int:
        """What the engine does without now."""
        return self._lent

    def take(self, nbytes: int) -> bool:
        """Take more, or less where negative; False if statements that run leave no room for it."""
        with self._lock:
            if nbytes > 0 and self._taken + nbytes > self._most_bytes:
                return False
            self._taken += nbytes
            if self._lend() or nbytes <= 0:
                return True
            self._taken -= nbytes
            return False

    def _lend(self) -> bool:
        """Have the engine lend what is taken; False if it cannot."""
        if self._is_changing:
            return True  # this is a finalizer in the loop, which sees what it gave back
        self._is_changing = True
        try:
            while self._lent != (needed := self._needed()):
                if not self._engine.lend(needed):
                    return False
                self._lent = needed
        finally:
            self._is_changing = False
        return True

    def _needed(self) -> int:
        """What the engine is to lend. A step is given back when as much has gone that it is not asked for
        again at once.
        """
        least, most = (self._steps(self._taken + more) for more in (0, STEP_BYTES))
        return min(max(self._lent, least), most)

    def _steps(self, taken: int) -> int:
        return -(-max(0, taken - self._free_bytes) // STEP_BYTES) * STEP_BYTES
