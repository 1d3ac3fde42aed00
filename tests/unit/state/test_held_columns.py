"""What statements hold counts in the cache: columns whose entries were dropped, and copies."""

from __future__ import annotations

from pathlib import Path
from weakref import WeakSet

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from engine.model.schema import Epoch, PartitionId, define_store
from engine.scan import RowFilter, Scan
from engine.state.cache import HELD_SHARE, LEAST_HELD_BYTES, CacheHold, ColumnCache
from engine.state.cache_places import CacheKey, ColumnPlace
from engine.state.partition import PartitionStore
from engine.state.state_options import StateOptions
from tests.support.partitions import view_of

MIB = 1 << 20
ENTRY = 4 * MIB
CAPACITY = 80 * MIB
MOST_HELD = CAPACITY // HELD_SHARE
PLAYS = define_store(
    "plays",
    pa.schema([("k", pa.int64()), ("a", pa.int64()), ("b", pa.int64()), ("c", pa.int64())]),
    ["k"],
    partitions=1,
)
ROWS = 400_000


class Entry:
    """Something of the size of a block."""

    nbytes = ENTRY


def key(segment: int, block: int) -> CacheKey:
    return CacheKey(1, segment, block, 0)


def place(segment: int) -> ColumnPlace:
    return ColumnPlace(1, segment, 0)


class Readers:
    """A cache, what is in memory of it, and who holds what."""

    def __init__(self) -> None:
        self.cache = ColumnCache(CAPACITY)
        self.holds: list[tuple[CacheHold, ColumnPlace | None, int]] = []
        self.most: dict[ColumnPlace, int] = {}
        """What the largest hold of a column had, since somebody holds it."""
        self.entries: WeakSet[Entry] = WeakSet()

    def load(self) -> Entry:
        entry = Entry()
        self.entries.add(entry)
        return entry

    def hold(self, column: ColumnPlace | None, nbytes: int) -> None:
        before = self.cache.held_bytes
        columns, copied = ({}, nbytes) if column is None else ({column: nbytes}, 0)
        hold = self.cache.hold(columns, copied)
        if hold is None:
            assert self.cache.held_bytes == before > MOST_HELD - nbytes
        else:
            self.holds.append((hold, column, nbytes))
            if column is not None:
                self.most[column] = max(self.most.get(column, 0), nbytes)

    def release(self, number: int) -> None:
        if self.holds:
            hold, column, _ = self.holds.pop(number % len(self.holds))
            hold.release()
            if column is not None and column not in {other for _, other, _ in self.holds}:
                del self.most[column]

    def check(self) -> None:
        copies = sum(nbytes for _, column, nbytes in self.holds if column is None)
        assert self.cache.held_bytes == copies + sum(self.most.values()) <= MOST_HELD
        assert self.cache.nbytes + copies <= len(self.entries) * ENTRY + copies <= CAPACITY


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["get", "put", "drop", "hold", "copy", "release"]),
            st.integers(0, 9),
            st.integers(0, 5),
        ),
        max_size=80,
    )
)
def test_what_is_kept_and_held_has_room_together(steps: list[tuple[str, int, int]]) -> None:
    readers = Readers()
    cache = readers.cache
    for step, first, second in steps:
        match step:
            case "get":
                cache.get(key(first, second), readers.load)
            case "put":
                cache.put(key(first, second), readers.load())
            case "drop":
                cache.drop([key(first, second)])
            case "hold":
                # A part of an entry, too.
                readers.hold(place(first), ENTRY * second * 3 // 4)
            case "copy":
                readers.hold(None, ENTRY * second)
            case _:
                readers.release(first)
        readers.check()
    for hold, _, _ in readers.holds:
        hold.release()
        hold.release()
    assert cache.held_bytes == 0
    for block in range(CAPACITY // ENTRY):
        cache.put(key(20, block), Entry())
    assert cache.nbytes == CAPACITY


def test_what_is_dropped_while_it_is_held_takes_room_from_the_others() -> None:
    cache = ColumnCache(CAPACITY)
    blocks = MOST_HELD // ENTRY
    for block in range(blocks):
        cache.put(key(1, block), Entry())
    hold = cache.hold({place(1): MOST_HELD})
    assert hold is not None
    assert cache.hold({place(2): ENTRY}) is None
    assert cache.nbytes == MOST_HELD  # it is in memory once
    for block in range(3 * CAPACITY // ENTRY):
        cache.put(key(2, block), Entry())
    assert cache.nbytes == CAPACITY - MOST_HELD
    hold.release()
    cache.put(key(3, 0), Entry())
    assert cache.nbytes == CAPACITY - MOST_HELD + ENTRY


def test_readers_share_what_is_dropped_while_they_hold_it() -> None:
    readers = Readers()
    cache = readers.cache
    blocks = MOST_HELD // ENTRY
    for _ in range(2):
        holds = [cache.hold({place(1): MOST_HELD}) for _ in range(2)]
        read = [cache.get(key(1, block), readers.load) for block in range(blocks)]
        for block in range(2 * CAPACITY // ENTRY):
            cache.put(key(2, block), Entry())
        assert cache.has([key(1, block) for block in range(blocks)]) == [False] * blocks
        for hold in holds:
            assert all(cache.get(key(1, block), readers.load) is read[block] for block in range(blocks))
            assert hold is not None
            hold.release()
        del read
        assert not readers.entries


def test_what_does_not_count_as_a_whole_does_not_stay() -> None:
    readers = Readers()
    cache = readers.cache
    hold = cache.hold({place(1): ENTRY + 1})
    assert hold is not None
    for block in range(3):
        cache.get(key(1, block), readers.load)
        cache.drop([key(1, block)])
    assert len(readers.entries) == 1
    hold.release()
    assert not readers.entries


def test_a_column_that_several_hold_counts_once() -> None:
    cache = ColumnCache(CAPACITY)
    holds = [cache.hold({place(1): MOST_HELD}) for _ in range(10)]
    assert None not in holds
    assert cache.held_bytes == MOST_HELD


def test_a_small_cache_lets_small_statements_hold_what_they_read() -> None:
    cache = ColumnCache(MIB)
    assert cache.hold({}, LEAST_HELD_BYTES) is not None
    assert cache.hold({}, 1) is None
    for block in range(5):
        cache.put(key(1, block), Smaller())
    assert cache.nbytes == MIB // HELD_SHARE


class Smaller(Entry):
    nbytes = MIB // 4


def scans(store: PartitionStore) -> dict[str, Scan]:
    view = view_of(store, PLAYS)
    keys = pa.record_batch({"k": np.arange(0, ROWS, 2)})
    return {
        "all rows": view.scan(["a", "b"]),
        "keys": view.scan(["a", "b"], RowFilter(keys)),
        "few keys": view.scan(["a", "b"], RowFilter(keys.slice(0, 10))),
    }


def test_scans_hold_what_their_tables_take(tmp_path: Path) -> None:
    options = StateOptions(block_rows=1 << 16)
    store = PartitionStore(PLAYS, PartitionId(0), tmp_path, ColumnCache(CAPACITY), options)
    cache = store.context.cache
    numbers = pa.array(np.arange(ROWS))
    store.apply(Epoch(1), pa.RecordBatch.from_arrays([numbers] * 4, schema=PLAYS.row_schema))
    for name, scan in scans(store).items():
        hold = scan.hold()
        assert hold is not None, name
        table = scan.to_table()
        assert cache.held_bytes == table.nbytes == scan.nbytes, name
        assert pa.Table.from_batches(list(scan.batches())).equals(table), name
        again = scan.hold()
        assert again is not None, name
        assert (cache.held_bytes == table.nbytes) is (name == "all rows"), name
        again.release()
        hold.release()
        assert cache.held_bytes == 0, name
    whole = scans(store)["all rows"]
    for most, is_copied in ((1, False), (2, True)):
        holds = [whole.hold(is_copied=is_copied) for _ in range(2)]
        assert cache.held_bytes == most * whole.nbytes
        for each in holds:
            assert each is not None
            each.release()
    store.close()
