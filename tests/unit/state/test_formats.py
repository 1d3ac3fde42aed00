"""What is on a disk is read by later versions: the names inside stay, whatever the code calls them."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa

from engine.model.distinct_sketch import sketch_of
from engine.model.schema import Epoch
from engine.state.formats import Manifest, SegmentId, SegmentRecord

STORED = {
    "format": 5,
    "store": "debit",
    "partition": 3,
    "columns": {"account": "BIGINT"},
    "epoch": 7,
    "next_segment": 6,
    "segments": [1, 4],
    "cutoff": None,
    "graves": [5],
    "generation": 1,
    "digest": "0123456789abcdef0123456789abcdef",
    "live_rows": [10, 4, 1],
}


def test_a_manifest_is_stored_by_its_first_names() -> None:
    manifest = Manifest.from_bytes(json.dumps(STORED).encode())
    assert manifest == Manifest(
        store="debit",
        partition=3,
        columns={"account": "BIGINT"},
        epoch=Epoch(7),
        next_segment=SegmentId(6),
        segments=(SegmentId(1), SegmentId(4)),
        tombstone_segments=(SegmentId(5),),
        generation=1,
        digest="0123456789abcdef0123456789abcdef",
        live_rows=(10, 4, 1),
    )
    stored = json.loads(manifest.to_bytes())
    assert list(stored)[-1] == "crc32"
    del stored["crc32"]
    assert stored == STORED


def test_a_manifest_of_the_first_format_has_no_tombstones() -> None:
    first = {
        name: value
        for name, value in STORED.items()
        if name not in ("cutoff", "graves", "generation", "digest", "live_rows")
    }
    manifest = Manifest.from_bytes(json.dumps({**first, "format": 1}).encode())
    assert manifest.tombstone_segments == ()
    assert manifest.generation == 0
    assert manifest.digest == ""


def test_a_manifest_of_the_third_format_has_no_counts() -> None:
    third = {name: value for name, value in STORED.items() if name != "live_rows"}
    manifest = Manifest.from_bytes(json.dumps({**third, "format": 3}).encode())
    assert manifest.live_rows is None
    assert manifest.digest == STORED["digest"]


def test_a_manifest_of_the_second_format_has_no_digest() -> None:
    second = {name: value for name, value in STORED.items() if name not in ("digest", "live_rows")}
    manifest = Manifest.from_bytes(json.dumps({**second, "format": 2}).encode())
    assert manifest.digest == ""
    assert manifest.generation == 1


def test_a_segment_without_sketches_is_read() -> None:
    fences = pa.array([1])
    sketch = sketch_of(pa.array([1, 2, 3]))
    record = SegmentRecord(3, 4, {0: 24}, fences, fences, {}, {0: sketch})
    data = record.to_bytes()
    assert SegmentRecord.from_bytes(data, {}).sketches[0].tolist() == sketch.tolist()
    older = replace(record, sketches={}).to_bytes()
    assert b"sketches" not in older
    assert SegmentRecord.from_bytes(older, {}).sketches == {}
