"""Slots of small statements: as many compute at once as there are threads for them, and the others wait.

Most of a small statement's time is Python and the engine's own planning. With more of them at once than cores
they only take the interpreter's lock and the engine's threads from each other: 64 at once on two cores took 3
to 6 times the processor time of one after the other.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from engine.deadline import Deadline

SMALL_BYTES = 8 << 20
"""Statements that read more Arrow bytes than this take no slot: their work is the engine's, which shares its
threads among them.
"""
PATIENCE_SECONDS = 0.5
"""The longest wait. What reads little may still compute for long, and nobody should have to wait for the end
of that.
"""


class SmallQuerySlots:
    """Slots to compute in. Safe for threads.

    Args:
        count: How many there are at once.
        patience_seconds: The longest wait for one.
    """

    def __init__(self, count: int, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._free = threading.BoundedSemaphore(count)
        self._patience_seconds = patience_seconds

    @contextmanager
    def occupy(self, read_bytes: int, deadline: Deadline) -> Iterator[None]:
        """Wait for a slot, and keep it until the context ends.

        Args:
            read_bytes: Arrow bytes that the statement reads.
            deadline: When the statement must end.

        Raises:
            LivestateError: It was cancelled meanwhile, or its time is over.
        """
        if read_bytes > SMALL_BYTES:
            yield
            return
        has_slot = self._free.acquire(blocking=False)
        has_waited = not has_slot
        if has_waited:
            left = deadline.remaining_seconds
            has_slot = self._free.acquire(
                timeout=self._patience_seconds if left is None else min(self._patience_seconds, left)
            )
        try:
            if has_waited:
                deadline.check()
            yield
        finally:
            if has_slot:
                self._free.release()
