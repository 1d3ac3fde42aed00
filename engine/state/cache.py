"""Decoded columns in memory, the least recently used ones dropped first."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple

import pyarrow as pa

from engine.state.keys import Keys, Rows, find
from engine.state.prefixes import FEW_NEEDLES, Prefixes


class CacheKey(NamedTuple):
    """What an entry is. A tuple: it is made and hashed for each column that a query reads.

    Attributes:
        partition: Number of the open partition store, from `ColumnCache.new_partition`.
        segment: Segment id within it.
        block: Block within the segment; -1 for all of its rows.
        column: Column within the segment; -1 for the sort keys.
    """

    partition: int
    segment: int
    block: int
    column: int


@dataclass(frozen=True)
class KeyColumn:
    """The stored column that a segment's sort keys are read from, whole, and the sort keys themselves: one memory, two views.

    Attributes:
        column: The stored column.
        keys: The sort keys.
        prefixes: Binary sort keys as numbers, where these differ.
    """

    column: pa.Array
    keys: Keys
    prefixes: Prefixes | None

    @property
    def nbytes(self) -> int:
        """Bytes of the column, and of the numbers beside it."""
        return int(self.column.nbytes) + (self.prefixes.numbers.nbytes if self.prefixes else 0)

    def find(self, needles: Keys) -> tuple[Rows, Rows]:
        """As `keys.find`."""
        if self.prefixes is not None and len(needles) > FEW_NEEDLES:
            return self.prefixes.find(self.keys, needles)
        return find(self.keys, needles)


class ColumnCache:
    """Arrow arrays and `KeyColumn`s by place, up to a number of bytes. Safe for any number of threads.

    Args:
        capacity: Bytes that may stay. An array larger than that is used and not kept.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._entries: OrderedDict[CacheKey, Any] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()
        self._partitions = itertools.count(1)

    def new_partition(self) -> int:
        """A number for a partition store that is being opened, unlike that of any other that uses the cache."""
        return next(self._partitions)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that are kept now."""
        return self._bytes

    def find(self, key: CacheKey) -> Any:
        """The entry, or None where it is not kept."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
            return entry

    def find_all(self, keys: Sequence[CacheKey]) -> list[Any]:
        """For each key, its entry, or None where it is not kept: `find` for many at the price of one lock."""
        with self._lock:
            found = [self._entries.get(key) for key in keys]
            for key, entry in zip(keys, found, strict=True):
                if entry is not None:
                    self._entries.move_to_end(key)
            return found

    def get(self, key: CacheKey, load: Callable[[], Any]) -> Any:
        """The entry, loaded where it is not kept. Two threads may load the same entry at once; either result is right."""
        entry = self.find(key)
        if entry is None:
            entry = load()
            self.put(key, entry)
        return entry

    def put(self, key: CacheKey, entry: Any) -> None:
        """Keep an entry and drop the least recently used ones for it."""
        with self._lock:
            old = self._entries.pop(key, None)
            if old is not None:
                self._bytes -= old.nbytes
            if entry.nbytes > self.capacity:
                return
            self._entries[key] = entry
            self._bytes += entry.nbytes
            while self._bytes > self.capacity:
                _, dropped = self._entries.popitem(last=False)
                self._bytes -= dropped.nbytes

    def drop(self, keys: Sequence[CacheKey]) -> None:
        """Forget entries; those that are not kept are passed over."""
        with self._lock:
            for key in keys:
                entry = self._entries.pop(key, None)
                if entry is not None:
                    self._bytes -= entry.nbytes
