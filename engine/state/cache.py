"""Decoded columns in memory, the least recently used ones dropped first."""

from __future__ import annotations

import itertools
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from threading import Lock
from typing import Any, NamedTuple

import pyarrow as pa

from engine.state.block_table import BlockTable
from engine.state.cache_places import WHOLE, CacheKey, ColumnPlace, SegmentPlace, TablePlace, column_place
from engine.state.key_column import KeyColumn

HELD_SHARE = 2
"""Readers hold at most one part in so many of the cache at once, so that the rest goes on working."""
LEAST_HELD_BYTES = 32 << 20
"""What readers may hold beside a small cache."""
LARGEST_KEY_SHARE = 0.75
"""Key columns stay in the cache as a whole while all of them together take at most this part of it."""
MOST_TABLES = 1024
"""Tables that a segment may have."""


@dataclass
class _Uses:
    """How often a joined column was used.

    Attributes:
        blocks: Of how many blocks it is made.
        missing: How often rows of it have to be used until it counts as used.
    """

    blocks: int
    missing: int

    def count(self, rows: int) -> bool:
        """Take note of rows that are used; whether the column counts as used by that."""
        if self.missing > rows:
            self.missing -= rows
            return False
        self.missing = self.blocks
        return True


class _KeptTable(NamedTuple):
    """A table that is kept.

    Attributes:
        table: The table.
        columns: Where each of its columns is, and how often it was used if it was joined.
    """

    table: BlockTable
    columns: Sequence[tuple[CacheKey, _Uses | None]]


_NO_TABLES: Mapping[TablePlace, _KeptTable] = {}


@dataclass(slots=True)
class _HeldColumn:
    """A column that readers hold.

    Attributes:
        readers: How many.
        nbytes: What the one holds that holds most of it, or did since there are any.
        dropped: Entries that are not kept any more, and stay for readers that come to them later.
        dropped_bytes: What counts of them.
    """

    readers: int
    nbytes: int
    dropped: dict[CacheKey, Any] = field(default_factory=dict)
    dropped_bytes: int = 0


class CacheHold:
    """Implements `engine.scan.Hold` over the cache.

    Args:
        cache: The cache.
        columns: What is held of it.
        copied_bytes: What is held beside.
    """

    def __init__(self, cache: ColumnCache, columns: Mapping[ColumnPlace, int], copied_bytes: int) -> None:
        self._cache: ColumnCache | None = cache
        self._columns = columns
        self._copied_bytes = copied_bytes

    def release(self) -> None:
        """As `Hold.release`."""
        cache, self._cache = self._cache, None
        if cache is not None:
            cache.let_go(self._columns, self._copied_bytes)


class ColumnCache:
    """Arrow arrays and `KeyColumn`s by place, up to a number of bytes. Safe for any number of threads.

    A column whose blocks were joined counts as used when rows of it were used as often as it has blocks: its
    blocks would be used as often each. Counted like a block it would keep in memory, for a few rows that all
    ask for, many that nobody asks for.

    A block may also have `BlockTable`s of some of its columns. They have no bytes of their own, as they are
    there only as long as all of their columns are.

    A statement that reads columns as a whole holds them: what is dropped meanwhile stays in memory until its
    end. It counts as long, and so do copies, so that all together take no more than the capacity.

    Args:
        capacity: Bytes that may stay. An array larger than that is used and not kept.

    Attributes:
        capacity: As the argument.
        hits: How often an entry was found.
        misses: How often one was not.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.hits = self.misses = 0
        self._entries: OrderedDict[CacheKey, Any] = OrderedDict()
        self._tables: dict[SegmentPlace, dict[TablePlace, _KeptTable]] = {}
        self._blocks: Counter[ColumnPlace] = Counter()
        """How many single blocks there are."""
        self._joined: dict[CacheKey, _Uses] = {}
        """The columns that were joined, but for key columns: these are read as a whole again."""
        self._held: dict[ColumnPlace, _HeldColumn] = {}
        self._bytes = 0
        self._held_bytes = 0
        self._unkept_bytes = 0
        """What of the bytes that are held is not kept here, or not any more."""
        self._key_bytes = 0
        self._lock = Lock()
        self._partitions = itertools.count(1)

    def new_partition(self) -> int:
        """A number for a partition store that is being opened, unlike that of any other that uses
        the cache.
        """
        return next(self._partitions)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that are kept now."""
        return self._bytes

    def count_keys(self, nbytes: int) -> None:
        """Take note of key columns that there are from now on, or are no more.

        Args:
            nbytes: Bytes that they take as a whole; negative where they have gone.
        """
        with self._lock:
            self._key_bytes += nbytes

    def keeps_keys(self, more: int = 0) -> bool:
        """Whether the key columns of all segments fit, so that they are worth being kept whole.

        Args:
            more: Bytes of key columns that are not noted yet.
        """
        return self._key_bytes + more <= self.capacity * LARGEST_KEY_SHARE

    def has(self, keys: Sequence[CacheKey]) -> list[bool]:
        """Which entries are kept; to ask does not count as use."""
        with self._lock:
            return [key in self._entries for key in keys]

    def peek(self, key: CacheKey) -> Any:
        """The entry, or None where it is not kept; does not count as use."""
        with self._lock:
            return self._entries.get(key)

    def find(self, key: CacheKey, rows: int = 1) -> Any:
        """The entry, or None where it is not kept.

        Args:
            key: Which.
            rows: How often it is used by that, if it is a column that was joined.
        """
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                self.misses += 1
            else:
                self.hits += 1
                self._use(key, rows)
            return entry

    def find_all(self, keys: Sequence[CacheKey], rows: Sequence[int] | None = None) -> list[Any]:
        """For each key, its entry, or None where it is not kept: `find` for many at the price of one lock.

        Args:
            keys: Which.
            rows: For each, how often it is used by that, as for `find`; None: once each.
        """
        with self._lock:
            found = [self._entries.get(key) for key in keys]
            hits, joined, use = 0, self._joined, self._entries.move_to_end
            for key, entry, used in zip(keys, found, rows or repeat(1, len(keys)), strict=True):
                if entry is None:
                    continue
                hits += 1
                # As `_use`, without a call for each key.
                uses = joined.get(key) if key.block == WHOLE else None
                if uses is None or uses.count(used):
                    use(key)
            self.hits += hits
            self.misses += len(found) - hits
            return found

    def get(self, key: CacheKey, load: Callable[[], Any]) -> Any:
        """The entry, loaded where it is not kept. Two threads may load the same entry at once; either result
        is right.
        """
        entry = self.find(key)
        if entry is None:
            entry = self._find_dropped(key)
        if entry is None:
            entry = load()
            self.put(key, entry)
        return entry

    def _find_dropped(self, key: CacheKey) -> Any:
        """The entry, if it is no longer kept, and another reader holds it: one copy is enough for all."""
        with self._lock:
            held = self._held.get(column_place(key))
            return None if held is None else held.dropped.get(key)

    def put(self, key: CacheKey, entry: Any) -> None:
        """Keep an entry and drop the least recently used ones for it."""
        self.put_all({key: entry})

    def put_all(self, entries: Mapping[CacheKey, Any]) -> None:
        """Keep entries: `put` for many at the price of one lock."""
        with self._lock:
            for key, entry in entries.items():
                self._forget(key)
                nbytes = entry.nbytes
                if nbytes > self.capacity:
                    continue
                self._entries[key] = entry
                self._bytes += nbytes
                if key.block >= 0:
                    self._blocks[column_place(key)] += 1
            self._make_room()

    def hold(self, columns: Mapping[ColumnPlace, int], copied_bytes: int = 0) -> CacheHold | None:
        """Have columns count for as long as they are held, whether they are kept or not.

        Args:
            columns: Bytes that are held of each.
            copied_bytes: What is held beside.

        Returns:
            To be released; None where readers hold too much already.
        """
        find = self._held.get
        with self._lock:
            known = [find(place) for place in columns]
            more = copied_bytes
            for held, nbytes in zip(known, columns.values(), strict=True):
                more += nbytes if held is None else max(0, nbytes - held.nbytes)
            if self._held_bytes + more > max(self.capacity // HELD_SHARE, LEAST_HELD_BYTES):
                return None
            for held, (place, nbytes) in zip(known, columns.items(), strict=True):
                if held is None:
                    self._held[place] = _HeldColumn(1, nbytes)
                else:
                    held.readers += 1
                    held.nbytes = max(held.nbytes, nbytes)
            self._held_bytes += more
            self._unkept_bytes += copied_bytes
            self._make_room()
        return CacheHold(self, columns, copied_bytes)

    def let_go(self, columns: Mapping[ColumnPlace, int], copied_bytes: int) -> None:
        """Have columns that were held count no more: once for each `hold` with the same arguments."""
        with self._lock:
            self._held_bytes -= copied_bytes
            self._unkept_bytes -= copied_bytes
            for place in columns:
                held = self._held[place]
                held.readers -= 1
                if not held.readers:
                    del self._held[place]
                    self._held_bytes -= held.nbytes
                    self._unkept_bytes -= held.dropped_bytes

    @property
    def held_bytes(self) -> int:
        """Bytes that readers hold now."""
        return self._held_bytes

    def _make_room(self) -> None:
        """Drop what was not used for the longest time, until all fits. One part is always left to it."""
        room = self.capacity - min(self._unkept_bytes, self.capacity // HELD_SHARE)
        while self._bytes > room:
            self._forget(next(iter(self._entries)))

    def drop(self, keys: Sequence[CacheKey]) -> None:
        """Forget entries; those that are not kept are passed over."""
        with self._lock:
            for key in keys:
                self._forget(key)

    def _use(self, key: CacheKey, rows: int = 1) -> None:
        """Count an entry that is kept as used."""
        uses = self._joined.get(key) if key.block == WHOLE else None
        if uses is None or uses.count(rows):
            self._entries.move_to_end(key)

    def _forget(self, key: CacheKey, *, is_joined: bool = False) -> None:
        """Forget an entry, if it is kept.

        Args:
            key: Which.
            is_joined: Whether its values are kept in another entry from now on.
        """
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= entry.nbytes
            self._joined.pop(key, None)
            column = column_place(key)
            if key.block >= 0:
                self._count_down(column)
            held = self._held.get(column)
            if held is not None and not is_joined:
                # What was read again since, and is dropped again, is held once.
                dropped = min(entry.nbytes, held.nbytes - held.dropped_bytes)
                if dropped == entry.nbytes:
                    # It counts as a whole; of a larger one only what readers have taken stays.
                    held.dropped.setdefault(key, entry)
                held.dropped_bytes += dropped
                self._unkept_bytes += dropped
            # Tables hold their columns in memory. A whole column is in those of all blocks, so all of the
            # segment go.
            self._tables.pop(SegmentPlace(key.partition, key.segment), None)

    def _count_down(self, column: ColumnPlace) -> None:
        self._blocks[column] -= 1
        if not self._blocks[column]:
            del self._blocks[column]

    def join(self, whole: CacheKey, blocks: int, make_entry: Callable[[pa.Array], Any]) -> Any:
        """Put the blocks of a column together, as one entry in place of theirs, if all of them are kept.

        Args:
            whole: Where the column is to be.
            blocks: How many blocks it has.
            make_entry: Makes the entry of the joined blocks.

        Returns:
            The entry; None where a block is not kept.
        """
        if self._blocks.get(column_place(whole), 0) < blocks:
            return None
        keys = [whole._replace(block=block) for block in range(blocks)]
        entries = self.find_all(keys)
        if any(entry is None for entry in entries):
            return None
        joined = make_entry(pa.concat_arrays(entries))
        with self._lock:
            for key in keys:
                # Whoever misses a block now reads it once more.
                self._forget(key, is_joined=True)
        self.put(whole, joined)
        if not isinstance(joined, KeyColumn):
            with self._lock:
                if whole in self._entries:
                    self._joined[whole] = _Uses(blocks, blocks)
        return joined

    def find_tables(
        self, segments: Sequence[SegmentPlace], place: TablePlace, rows: Sequence[int]
    ) -> list[BlockTable | None]:
        """For each segment, its table, or None where there is none. Their columns count as used.

        Args:
            segments: Places of the segments.
            place: Which table of each.
            rows: How many rows of each are wanted.
        """
        tables, use = self._tables, self._entries.move_to_end
        found: list[BlockTable | None] = []
        with self._lock:
            for segment, wanted in zip(segments, rows, strict=True):
                kept = tables.get(segment, _NO_TABLES).get(place)
                if kept is None:
                    found.append(None)
                    continue
                found.append(kept.table)
                # Its columns count as one hit each; a table that is not there is asked for by columns.
                self.hits += len(kept.columns)
                for key, uses in kept.columns:
                    if uses is None or uses.count(wanted):
                        use(key)
        return found

    def put_table(
        self, segment: SegmentPlace, place: TablePlace, table: BlockTable, entries: Sequence[Any]
    ) -> None:
        """Keep a table.

        Args:
            segment: Of which segment it is.
            place: Which of its tables it is.
            table: Made of `entries`.
            entries: For each of its keys, what `find_all` found. If one is not kept any more, neither is the
                table.
        """
        with self._lock:
            if all(
                entry is not None and self._entries.get(key) is entry
                for key, entry in zip(table.keys, entries, strict=True)
            ):
                tables = self._tables.setdefault(segment, {})
                if len(tables) >= MOST_TABLES:
                    tables.clear()
                tables[place] = _KeptTable(table, [(key, self._joined.get(key)) for key in table.keys])
