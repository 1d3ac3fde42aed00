"""What is kept of statements, bounded in number and in bytes: a long one takes a thousand times what a short
one does.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

Value = TypeVar("Value")

_STATEMENT_BYTES = 12_000
_CHARACTER_BYTES = 300
"""What a statement takes, and each character of its text. It is an estimate: measured is a part of what trees
and plans take, which is more than the time to parse them.
"""
LARGEST_PART = 4
"""What takes more than this part of all that may be kept is not kept: it would leave no room for others."""


@dataclass(frozen=True)
class CacheLimits:
    """How much a cache keeps.

    Attributes:
        entries: So many entries.
        nbytes: About so many bytes.
    """

    entries: int
    nbytes: int = 64 << 20


def statement_bytes(text: str) -> int:
    """About how many bytes a statement takes with its trees and plans.

    Args:
        text: Its text.
    """
    return _STATEMENT_BYTES + _CHARACTER_BYTES * len(text)


class LeastRecentlyUsed(Generic[Value]):
    """A bounded map that forgets what was not asked for longest. Safe for threads.

    Args:
        limits: How much it keeps.
    """

    def __init__(self, limits: CacheLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()
        self._nbytes = 0

    @property
    def nbytes(self) -> int:
        """About what its entries take."""
        return self._nbytes

    def get(self, key: Hashable) -> Value | None:
        """The value of a key, if it is there."""
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                return None
            self._entries.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, value: Value, nbytes: int) -> None:
        """Keep a value.

        Args:
            key: Finds it.
            value: The value.
            nbytes: About what it takes.
        """
        with self._lock:
            _, before = self._entries.pop(key, (None, 0))
            self._nbytes -= before
            if nbytes > self._limits.nbytes // LARGEST_PART:
                return
            self._entries[key] = value, nbytes
            self._nbytes += nbytes
            while len(self._entries) > self._limits.entries or self._nbytes > self._limits.nbytes:
                _, (_, gone) = self._entries.popitem(last=False)
                self._nbytes -= gone
