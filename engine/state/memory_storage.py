"""The bytes of a partition in memory, for stores that are rebuilt from the changelog whenever a
host starts.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from threading import Lock

from engine.state.storage import Pair, Range


class MemoryStorage:
    """Implements `engine.state.storage.Storage` without a disk: nothing is left when it is closed.

    A block is read as the bytes that are stored, so a decoded column takes no memory beside them.
    """

    def __init__(self) -> None:
        self.damage = ""
        self._values: dict[bytes, bytes] = {}
        self._keys: list[bytes] = []
        self._lock = Lock()

    def get(self, key: bytes) -> bytes | None:
        """As `Storage.get`."""
        return self._values.get(key)

    def get_all(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """As `Storage.get_all`."""
        return [self._values.get(key) for key in keys]

    def write(self, pairs: Iterable[Pair], *, logged: bool = True) -> None:
        """As `Storage.write`; no pair survives the process, logged or not."""
        for key, value in pairs:
            with self._lock:
                self._put(key, value)

    def write_atomically(self, pairs: Iterable[Pair], removed: Sequence[Range] = ()) -> None:
        """As `Storage.write_atomically`."""
        with self._lock:
            for low, high in removed:
                start, stop = bisect_left(self._keys, low), bisect_left(self._keys, high)
                for key in self._keys[start:stop]:
                    del self._values[key]
                del self._keys[start:stop]
            for key, value in pairs:
                self._put(key, value)

    def _put(self, key: bytes, value: bytes) -> None:
        if key not in self._values:
            insort(self._keys, key)
        self._values[key] = value

    def flush(self) -> None:
        """Nothing is to be done."""

    def reclaim(self, *, is_whole: bool = False, within: Range | None = None) -> None:
        """Nothing is to be done."""

    def pairs(self, prefix: bytes) -> Iterator[Pair]:
        """As `Storage.pairs`."""
        with self._lock:
            found = list(
                takewhile(lambda key: key.startswith(prefix), self._keys[bisect_left(self._keys, prefix) :])
            )
        return ((key, self._values[key]) for key in found)

    def beginnings(self, length: int, within: Range | None = None) -> Sequence[bytes]:
        """As `Storage.beginnings`."""
        with self._lock:
            start, stop = 0, len(self._keys)
            if within is not None:
                start, stop = bisect_left(self._keys, within[0]), bisect_left(self._keys, within[1])
            return list(dict.fromkeys(key[:length] for key in self._keys[start:stop]))

    def figures(self) -> Mapping[str, int]:
        """As `Storage.figures`."""
        return {}

    def close(self) -> None:
        """Nothing is to be done: the bytes go with the last query that reads them."""
