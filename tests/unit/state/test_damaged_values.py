"""Each byte of each kind of value that a partition's RocksDB has, flipped and cut off: refused, or of no
consequence, and never in an answer. What the disk itself changes, RocksDB's checksums find
(`tests/chaos/test_damaged_state.py`).
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest

from engine.model.schema import Epoch, PartitionId, define_store
from engine.state import formats
from engine.state.cache import ColumnCache
from engine.state.damage import DamagedError
from engine.state.formats import BESIDE_COLUMNS, KEY_FILTER, LIVE_FLAGS, PAGE_FENCES
from engine.state.partition import PartitionStore
from engine.state.state_options import StateOptions
from engine.state.state_view import StateView
from tests.simulation.disk import Disk, DiskCopy, Life
from tests.support.damaged_bytes import damaged_forms
from tests.support.following import live_rows

STORE = define_store(
    "songs", pa.schema([("song", pa.int64()), ("title", pa.string())]), ["song"], partitions=1
)
PLACE = Path("partition")
MOST_BYTES = 2_000
"""Of a value whose every byte is tried."""
IN_BLOCKS = StateOptions(block_rows=64, fan_out=20)
IN_PAGES = replace(IN_BLOCKS, paged_rows=64, cache_bytes=256)
KEY_PAGES = 0
"""The number of the key column, which a large segment has in pages."""


def kinds() -> set[bytes]:
    """How the keys of each kind of value begin."""
    makers = [maker for name, maker in vars(formats).items() if name.endswith("_key")]
    keys = [maker(*[1] * len(inspect.signature(maker).parameters)) for maker in makers]
    return {formats.MANIFEST, *(key[:1] for key in keys)}


def open_store(disk: Disk, options: StateOptions = IN_BLOCKS) -> PartitionStore:
    with mock.patch("engine.state.partition.Rocks", lambda path, *settings, **more: disk.open(path, Life())):
        return PartitionStore(STORE, PartitionId(0), PLACE, ColumnCache(options.cache_bytes), options)


def rows(first: int, count: int, title: str) -> pa.RecordBatch:
    songs = range(first, first + count)
    return pa.record_batch([pa.array(songs, pa.int64()), pa.array([title] * count)], schema=STORE.row_schema)


def answer(disk: Disk, options: StateOptions = IN_BLOCKS) -> object:
    """What the partition answers, and where it goes on."""
    store = open_store(disk, options)
    view = StateView(STORE, store.version.epoch, 0, {PartitionId(0): store.version})
    found = sorted(map(repr, live_rows(view).to_pylist()))
    store.check_records()
    return found, store.applied, store.digest, store.generation


@pytest.fixture(scope="module")
def pairs() -> dict[bytes, bytes]:
    """What is stored of a partition with rows that died one at a time, and many at once."""
    disk = Disk()
    store = open_store(disk)
    with mock.patch("engine.state.delete_vector.BITS_ONLY_ROWS", 16):
        for epoch, batch in enumerate(
            [rows(0, 60, "t"), rows(7, 1, "u"), rows(100, 8, "v"), rows(100, 4, "w")]
        ):
            store.apply(Epoch(epoch + 1), batch, digest=f"{epoch:032d}")
    return disk.copy().contents[PLACE]


def test_every_kind_of_value_is_there(pairs: dict[bytes, bytes]) -> None:
    assert {key[:1] for key in pairs} == kinds()


@pytest.mark.parametrize("kind", sorted(kinds()))
def test_no_damaged_byte_is_served(kind: bytes, pairs: dict[bytes, bytes]) -> None:
    disk = Disk()
    disk.restore(DiskCopy({PLACE: pairs}, {}))
    whole = answer(disk)
    key, value = min(
        ((key, value) for key, value in pairs.items() if key[:1] == kind), key=lambda pair: len(pair[1])
    )
    assert 0 < len(value) < MOST_BYTES
    found = 0
    for offset, damaged in damaged_forms(value):
        disk.restore(DiskCopy({PLACE: {**pairs, key: damaged}}, {}))
        try:
            assert answer(disk) == whole, offset
        except DamagedError:
            found += 1
    assert found > len(value)


# ---- what is stored beside the columns of large segments


def answer_after_next(disk: Disk) -> object:
    """What the partition answers after an epoch that replaces rows: what finds these is read for that."""
    store = open_store(disk, IN_PAGES)
    store.apply(Epoch(2), rows(30, 38, "u"), digest=f"{1:032d}")
    return answer(disk, IN_PAGES)


@pytest.fixture(scope="module")
def paged_pairs() -> dict[bytes, bytes]:
    disk = Disk()
    store = open_store(disk, IN_PAGES)
    store.apply(Epoch(1), rows(0, 70, "t"), digest=f"{0:032d}")
    store.check_records()
    return disk.copy().contents[PLACE]


def column_of(key: bytes) -> int | None:
    return int.from_bytes(key[9:11], "big") if key[:1] == b"b" else None


def test_all_that_is_beside_columns_is_there(paged_pairs: dict[bytes, bytes]) -> None:
    assert {column_of(key) for key in paged_pairs} >= {*BESIDE_COLUMNS, KEY_PAGES} - {LIVE_FLAGS}


@pytest.mark.parametrize("column", [KEY_PAGES, PAGE_FENCES, KEY_FILTER])
def test_no_row_is_found_by_a_damaged_byte(column: int, paged_pairs: dict[bytes, bytes]) -> None:
    disk = Disk()
    disk.restore(DiskCopy({PLACE: paged_pairs}, {}))
    whole = answer_after_next(disk)
    key, value = min(
        ((key, value) for key, value in paged_pairs.items() if column_of(key) == column),
        key=lambda pair: len(pair[1]),
    )
    found = 0
    for offset, damaged in damaged_forms(value):
        disk.restore(DiskCopy({PLACE: {**paged_pairs, key: damaged}}, {}))
        try:
            assert answer_after_next(disk) == whole, offset
        except DamagedError:
            found += 1
    assert found > len(value)
