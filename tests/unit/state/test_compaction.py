"""Which segments are merged, of stores with and without a time in their key."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from engine.model.schema import define_store, time_in_key
from engine.state.compaction import MOST_STRETCHES, STRETCH_ROWS, SegmentSize, Span, choose, span_of
from engine.state.formats import SegmentId
from engine.state.state_options import StateOptions
from engine.state.statistics import measure

OPTIONS = StateOptions()
TIME = pa.timestamp("us", "UTC")


def sizes(rows: Sequence[int], spans: Sequence[Span | None], dead: int = 0) -> list[SegmentSize]:
    return [
        SegmentSize(SegmentId(n), count, count - dead, 40 * count, span)
        for n, (count, span) in enumerate(zip(rows, spans, strict=True))
    ]


def test_small_segments_are_merged_whatever_their_times() -> None:
    assert choose(sizes([10] * 8, [(n, n + 1) for n in range(8)]), OPTIONS) == tuple(range(8))
    assert choose(sizes([10] * 8, [None] * 8), OPTIONS) == tuple(range(8))
    assert choose(sizes([10] * 7, [(0, 9)] * 7), OPTIONS) == ()


def test_stretches_of_time_are_not_merged() -> None:
    rows = [STRETCH_ROWS // 2] * 16
    assert choose(sizes(rows, [None] * 16), OPTIONS) != ()
    assert choose(sizes(rows, [(10 * n, 10 * n + 11) for n in range(16)]), OPTIONS) == ()
    # Segments of the same times are no use apart.
    assert len(choose(sizes(rows, [(n, 100 + n) for n in range(16)]), OPTIONS)) == 8


def test_neighbours_in_time_are_merged() -> None:
    spans: list[Span | None] = [(10 * n, 10 * n + 9) for n in (3, 0, 9, 1, 8, 2, 7, 4, 5, 6)]
    assert choose(sizes([5000] * 10, spans), OPTIONS) == (1, 3, 5, 0, 7, 8, 9, 6)


def test_stretches_grow_with_the_partition() -> None:
    small = STRETCH_ROWS // 4
    large = sizes([small] * 8, [(10 * n, 10 * n + 9) for n in range(8)])
    assert choose(large, OPTIONS) == ()
    rest = [
        SegmentSize(SegmentId(99), rows, rows, 1, (1000, 2000)) for rows in [2 * small * MOST_STRETCHES * 8]
    ]
    assert choose([*large, *rest], OPTIONS) == tuple(range(8))


def test_a_stretch_with_dead_rows_is_rewritten_with_what_is_of_its_time() -> None:
    found = sizes([STRETCH_ROWS] * 3, [(0, 9), (20, 29), (10, 19)])
    dying = SegmentSize(SegmentId(7), 2 * STRETCH_ROWS, STRETCH_ROWS, 1, (9, 12))
    assert choose([*found, dying], OPTIONS) == (7, 2)
    assert choose([*sizes([STRETCH_ROWS] * 3, [None] * 3), dying], OPTIONS) == (7, 0, 1, 2)


@pytest.mark.parametrize(("kind", "span"), [(TIME, (3, 9)), (pa.date32(), (3, 9))])
def test_the_times_of_a_segment(kind: pa.DataType, span: Span) -> None:
    blocks = [
        pa.array(times, pa.int64() if kind == TIME else pa.int32()).cast(kind)
        for times in ([5, 3], [9], [4, 8])
    ]
    assert span_of(measure(blocks, kind)) == span
    assert span_of(measure([pa.nulls(2, kind)], kind)) is None


def test_the_time_in_a_key() -> None:
    schema = pa.schema([("s", pa.string()), ("start", TIME), ("end", TIME), ("n", pa.int64())])
    assert time_in_key(define_store("w", schema, ["s", "start", "end"], partition_by=["s"])) == "start"
    assert time_in_key(define_store("w", schema, ["s", "start"])) == ""
    assert time_in_key(define_store("w", schema, ["s", "n"], partition_by=["s"])) == ""
