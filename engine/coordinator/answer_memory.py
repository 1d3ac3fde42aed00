"""Bytes of answers to keys that clients have not taken yet, of all streams together."""

from __future__ import annotations

from engine.coordinator.gather_memory import MemoryPool
from engine.coordinator.lent_memory import LentMemory
from engine.errors import LimitExceeded

UNCOUNTED_BYTES = 64 << 10
"""Answers up to this size do not count: there is no more than one of each stream."""
LEAST_BYTES = 64 << 20
"""What all streams may hold, at the least."""
MEMORY_SHARE = 4
"""They may hold one part in so many of the memory that statements have."""


def answer_memory(memory_limit_bytes: int, lent: LentMemory | None = None) -> MemoryPool:
    """What all streams of keys may hold.

    Args:
        memory_limit_bytes: The memory that statements have.
        lent: As for `MemoryPool`.
    """
    limit_bytes = max(LEAST_BYTES, memory_limit_bytes // MEMORY_SHARE)
    return MemoryPool(limit_bytes, limit_bytes, lent=lent)


class AnswerShare:
    """What one stream holds. One thread at a time uses it.

    Args:
        memory: What all hold.
    """

    def __init__(self, memory: MemoryPool) -> None:
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
            mebibytes = self._memory.total_limit_bytes >> 20
            raise LimitExceeded(
                f"Clients of all streams of keys have not taken answers of more than {mebibytes} MiB, this "
                "one counted, or statements leave no memory for so much: send fewer keys in a message, take "
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
