"""Bytes of answers to keys that clients have not taken yet, of all streams together."""

from __future__ import annotations

from engine.coordinator.gather_memory import MemoryPool
from engine.errors import LimitExceeded

UNCOUNTED_BYTES = 64 << 10
"""Answers up to this size do not count: there is no more than one of each stream."""


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
                "one counted: send fewer keys in a message, take answers as they come, or try again later."
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
