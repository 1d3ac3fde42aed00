"""Bytes of gathered rows: what a statement may hold, and all statements together."""

from __future__ import annotations

import threading

from engine.errors import LimitExceeded


class MemoryPool:
    """Rows that statements of this host have gathered and not merged yet. Safe for threads.

    Args:
        limit_bytes: What one statement may hold.
        total_limit_bytes: What all statements may hold together.
    """

    def __init__(self, limit_bytes: int, total_limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.total_limit_bytes = total_limit_bytes
        self._lock = threading.Lock()
        self._held = 0

    @property
    def held_bytes(self) -> int:
        """What all statements hold now."""
        return self._held

    def reservation(self) -> MemoryReservation:
        """The share of one statement."""
        return MemoryReservation(self)

    def take(self, nbytes: int) -> bool:
        """Hold more, or less where negative; False if that would be too much."""
        with self._lock:
            if nbytes > 0 and self._held + nbytes > self.total_limit_bytes:
                return False
            self._held += nbytes
            return True


class MemoryReservation:
    """What one statement holds. Safe for threads.

    Args:
        memory: What all hold.
    """

    def __init__(self, memory: MemoryPool) -> None:
        self._memory = memory
        self._lock = threading.Lock()
        self._held = 0
        self._freed = False

    def take(self, nbytes: int) -> None:
        """Hold more.

        Raises:
            LimitExceeded: That would be too much.
        """
        limit, total = self._memory.limit_bytes, self._memory.total_limit_bytes
        with self._lock:
            if self._freed:
                return
            if self._held + nbytes > limit:
                raise LimitExceeded(
                    "The statement gathers more rows of other hosts than gather_limit_bytes allows "
                    f"({limit} bytes): ask for fewer rows or columns, or raise the limit."
                )
            if not self._memory.take(nbytes):
                raise LimitExceeded(
                    "All statements together gather more rows of other hosts than total_gather_limit_bytes "
                    f"allows ({total} bytes): "
                    "try again later, or raise the limit."
                )
            self._held += nbytes

    def give(self, nbytes: int) -> None:
        """Hold less: rows went on."""
        with self._lock:
            if not self._freed:
                self._held -= nbytes
                self._memory.take(-nbytes)

    def free(self) -> None:
        """Hold nothing any more. May be called again."""
        with self._lock:
            self._freed = True
            held, self._held = self._held, 0
            self._memory.take(-held)
