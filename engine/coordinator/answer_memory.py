"""Bytes of answers to keys that clients have not taken yet, of all streams together."""

from __future__ import annotations

import threading

from engine.errors import LimitExceeded

UNCOUNTED_BYTES = 64 << 10
"""Answers up to this size do not count: there is no more than one of each stream."""
LEAST_BYTES = 64 << 20
"""What all streams may hold, at the least."""
MEMORY_SHARE = 4
"""They may hold one part in so many of the memory that statements have."""


class AnswerMemory:
    """What streams of keys hold. Safe for threads.

    Args:
        memory_limit_bytes: The memory that statements have.

    Attributes:
        limit_bytes: What all streams may hold.
    """

    def __init__(self, memory_limit_bytes: int) -> None:
        self.limit_bytes = max(LEAST_BYTES, memory_limit_bytes // MEMORY_SHARE)
        self._lock = threading.Lock()
        self._held = 0

    @property
    def held_bytes(self) -> int:
        """What all streams hold now."""
        return self._held

    def take(self, nbytes: int) -> bool:
        """Hold more, or less where negative; False if that would be too much."""
        with self._lock:
            if nbytes > 0 and self._held + nbytes > self.limit_bytes:
                return False
            self._held += nbytes
            return True


class AnswerShare:
    """What one stream holds. One thread at a time uses it.

    Args:
        memory: What all hold.
    """

    def __init__(self, memory: AnswerMemory) -> None:
        self._memory = memory
        self._held = 0

    def take(self, nbytes: int) -> None:
        """Hold more.

        Raises:
            LimitExceeded: That would be too much.
        """
        if nbytes <= UNCOUNTED_BYTES:
            return
        if not self._memory.take(nbytes):
            raise LimitExceeded(
                "Clients of all streams of keys have not taken answers of more than "
                f"{self._memory.limit_bytes >> 20} MiB, this one counted: send fewer keys in a message, take "
                "answers as they come, or try again later."
            )
        self._held += nbytes

    def give(self, nbytes: int) -> None:
        """Hold less, or nothing if that is less."""
        given = min(nbytes, self._held)
        self._held -= given
        self._memory.take(-given)

    def free(self) -> None:
        """Hold nothing any more. May be called again."""
        if self._held:
            self.give(self._held)
