"""A delete vector that has lost an entry would bring a superseded row back, and one that has gained an entry
would hide a row: only the counts of the manifest tell.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from engine.model.schema import Epoch, define_store
from engine.scan import LIVE_COLUMN
from engine.state.damage import DamagedError
from engine.state.delete_vector import Bits
from engine.state.formats import (
    MANIFEST,
    Manifest,
    SegmentId,
    dead_bits_key,
    dead_run_key,
    dead_run_range,
    encode_bits,
    encode_rows,
    segment_key,
)
from engine.state.rocks import Rocks
from engine.state.state_options import StateOptions
from engine.state.storage import Pair, Range
from tests.support.partitions import open_partition, view_of

STORE = define_store("accounts", pa.schema([("k", pa.int64()), ("v", pa.int64())]), ["k"], partitions=1)
ROWS = 10_000
FEW, MANY = range(3), range(400)
"""Keys of a second epoch, whose older rows are stored by their numbers, or as bits."""
FIRST = SegmentId(1)


def rows(keys: range, value: int) -> pa.RecordBatch:
    return pa.record_batch({"k": list(keys), "v": [value] * len(keys)}, schema=STORE.row_schema)


def values(directory: Path) -> Mapping[int, int]:
    """What a partition answers to a scan that reads live rows alone."""
    with closing(open_partition(STORE, directory)) as store:
        scanned = view_of(store, STORE).scan(["k", "v"]).to_table().to_pylist()
        found = [(row["k"], row["v"]) for row in scanned if row.get(LIVE_COLUMN, 1)]
        assert len(dict(found)) == len(found)
        return dict(found)


def write(directory: Path, superseded: range) -> None:
    with closing(open_partition(STORE, directory)) as store:
        store.apply(Epoch(1), rows(range(ROWS), 1))
        store.apply(Epoch(2), rows(superseded, 2))


def change(directory: Path, pairs: list[Pair], removed: list[Range], counts: bool = True) -> None:
    """Write past the partition store; without `counts` as if the manifest were of an older version."""
    with closing(Rocks(directory, StateOptions())) as rocks:
        if not counts:
            manifest = json.loads(rocks.get(MANIFEST) or b"")
            del manifest["live_rows"], manifest["crc32"]
            pairs = [*pairs, (MANIFEST, json.dumps({**manifest, "format": 3}).encode())]
        rocks.write_atomically(pairs, removed)


def dead_bits(superseded: range, rows: int = ROWS) -> Bits:
    flags = np.zeros(rows, np.uint8)
    flags[list(superseded)] = 1
    return np.packbits(flags, bitorder="little")


LOST_DELTA: tuple[range, list[Pair], list[Range]] = (FEW, [], [dead_run_range(FIRST)])
CHANGES = {
    "lost": LOST_DELTA,
    "gained": (FEW, [(dead_run_key(FIRST, 9), encode_rows(np.array([150])))], []),
    "no row": (FEW, [(dead_run_key(FIRST, 2), encode_rows(np.array([0, 1, ROWS])))], []),
    "cut off": (FEW, [(dead_run_key(FIRST, 2), encode_rows(np.array([0, 1, 2]))[:-1])], []),
    "whole lost": (MANY, [], [(dead_bits_key(FIRST), dead_bits_key(SegmentId(2)))]),
    "whole one less": (MANY, [(dead_bits_key(FIRST), encode_bits(dead_bits(range(399))))], []),
    "whole one more": (MANY, [(dead_bits_key(FIRST), encode_bits(dead_bits(range(401))))], []),
    "whole too long": (MANY, [(dead_bits_key(FIRST), encode_bits(dead_bits(MANY, ROWS + 8)))], []),
    "twice": (MANY, [(dead_run_key(FIRST, 1), encode_rows(np.array([7], np.uint32)))], []),
    "whole cut off": (MANY, [(dead_bits_key(FIRST), encode_bits(dead_bits(MANY))[:-1])], []),
    "segment lost": (FEW, [], [(segment_key(FIRST), segment_key(SegmentId(2)))]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_partition_with_a_damaged_delete_vector_is_refused(tmp_path: Path, name: str) -> None:
    superseded, pairs, removed = CHANGES[name]
    write(tmp_path, superseded)
    change(tmp_path, pairs, removed)
    with pytest.raises(DamagedError, match="is damaged"):
        open_partition(STORE, tmp_path)


@pytest.mark.parametrize("superseded", [FEW, MANY], ids=["delta", "whole"])
def test_counts_are_kept_and_whole_partitions_opened(tmp_path: Path, superseded: range) -> None:
    write(tmp_path, superseded)
    for _ in range(2):
        found = values(tmp_path)
        assert len(found) == ROWS
        assert {key for key, value in found.items() if value == 2} == set(superseded)
    with closing(Rocks(tmp_path, StateOptions())) as rocks:
        manifest = Manifest.from_bytes(rocks.get(MANIFEST) or b"")
    assert manifest.live_rows == (ROWS - len(superseded), len(superseded))


def test_an_older_partition_has_no_counts_until_its_next_epoch(tmp_path: Path) -> None:
    write(tmp_path, FEW)
    change(tmp_path, *LOST_DELTA[1:], counts=False)
    with closing(open_partition(STORE, tmp_path)) as store:
        assert store.version.live_rows == ROWS + len(FEW), "nothing tells that rows are there twice"
        store.apply(Epoch(3), rows(range(100, 104), 3))
    with closing(Rocks(tmp_path, StateOptions())) as rocks:
        assert Manifest.from_bytes(rocks.get(MANIFEST) or b"").live_rows is not None
    change(tmp_path, *LOST_DELTA[1:])
    with pytest.raises(DamagedError):
        open_partition(STORE, tmp_path)
