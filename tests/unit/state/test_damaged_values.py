"""Each byte of each kind of value that a partition's RocksDB has, flipped and cut off: refused, or of no
consequence, and never in an answer. What the disk itself changes, RocksDB's checksums find
(`tests/chaos/test_damaged_state.py`).
"""

from __future__ import annotations

import inspect
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest

from engine.model.schema import Epoch, PartitionId, define_store
from engine.state import formats
from engine.state.cache import ColumnCache
from engine.state.damage import DamagedError
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


def kinds() -> set[bytes]:
    """How the keys of each kind of value begin."""
    makers = [maker for name, maker in vars(formats).items() if name.endswith("_key")]
    keys = [maker(*[1] * len(inspect.signature(maker).parameters)) for maker in makers]
    return {formats.MANIFEST, *(key[:1] for key in keys)}


def open_store(disk: Disk) -> PartitionStore:
    with mock.patch("engine.state.partition.Rocks", lambda path, *settings, **more: disk.open(path, Life())):
        return PartitionStore(
            STORE, PartitionId(0), PLACE, ColumnCache(1 << 20), StateOptions(block_rows=64, fan_out=20)
        )


def rows(first: int, count: int, title: str) -> pa.RecordBatch:
    songs = range(first, first + count)
    return pa.record_batch([pa.array(songs, pa.int64()), pa.array([title] * count)], schema=STORE.row_schema)


def answer(disk: Disk) -> object:
    """What the partition answers, and where it goes on."""
    store = open_store(disk)
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
