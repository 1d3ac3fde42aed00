"""What is on a disk is read by later versions: the names inside stay, whatever the code calls them."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from engine.model.distinct_sketch import sketch_of, sketch_text
from engine.model.schema import Epoch
from engine.state import formats
from engine.state.damage import DamagedError
from engine.state.formats import Manifest, SegmentId, SegmentRecord, add_checksum, remove_checksum
from engine.state.statistics import measure

STORED = {
    "format": 6,
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
    assert not SegmentRecord.from_bytes(older, {}).sketches


WIDE = SegmentRecord(
    3,
    4,
    {0: 24, 1: 24},
    pa.array([1]),
    pa.array([3]),
    {number: measure([pa.array([1, 2, 3])], pa.int64()) for number in range(2)},
    {0: sketch_of(pa.array([1, 2, 3]))},
)


def test_statistics_and_sketches_are_decoded_when_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoded: list[str] = []

    def statistics(*_: object) -> object:
        decoded.append("statistics")
        return object()

    def sketch(*_: object) -> object:
        decoded.append("sketch")
        return object()

    monkeypatch.setattr(formats, "ColumnStatistics", statistics)
    monkeypatch.setattr(formats, "sketch_of_text", sketch)
    record = SegmentRecord.from_bytes(WIDE.to_bytes(), {})
    assert not decoded
    first = record.statistics[1]
    assert record.statistics.get(1) is first
    assert record.statistics.get(2) is None
    assert decoded == ["statistics"]
    assert record.sketches[0] is record.sketches[0]
    assert decoded == ["statistics", "sketch"]


def test_they_are_decoded_at_once_where_no_checksum_says_that_they_are_right() -> None:
    data = bytes(remove_checksum(WIDE.to_bytes(), "segment record"))
    assert SegmentRecord.from_bytes(data, {}).statistics.keys() == {0, 1}
    (text,) = [sketch_text(each) for each in WIDE.sketches.values()]
    broken = data.replace(text.encode(), b"!" * len(text))
    assert broken != data
    with pytest.raises(DamagedError, match="segment record"):
        SegmentRecord.from_bytes(broken, {})


def test_a_record_that_lacks_what_it_names_is_damaged() -> None:
    """Whoever wrote it: the checksum is right."""
    data = bytes(remove_checksum(WIDE.to_bytes(), "segment record")).replace(b"low 1", b"low 7")
    for form in (data, add_checksum(data)):
        with pytest.raises(DamagedError, match="segment record"):
            SegmentRecord.from_bytes(form, {})
