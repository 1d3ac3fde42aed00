"""What scans that come again share: blocks are found once for all statements that scan the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from engine.model.schema import TOMBSTONE_COLUMN, Epoch, PartitionId, define_store
from engine.scan import Interval, RowFilter
from engine.state.cache import ColumnCache
from engine.state.column_reader import encoded_columns, scanned_columns
from engine.state.partition import PartitionStore
from engine.state.scan_pieces import MOST_SCANS
from engine.state.state_options import StateOptions
from engine.state.state_view import MOST_SHARES, PieceScan, StateView

ROWS, SEGMENTS, BLOCK_ROWS = 3_000, 3, 256
STORE = define_store(
    "t", pa.schema([("id", pa.int64()), ("day", pa.int64()), ("price", pa.decimal128(15, 2))]), ["id"]
)
OPTIONS = StateOptions(block_rows=BLOCK_ROWS, fan_out=100)
ONE = PartitionId(1)
"""The stores are of one partition, which a view also has under this number, so that it can be cut."""


def apply(store: PartitionStore, epoch: int, numbers: pa.Array) -> None:
    rows = pa.table(
        {
            "id": numbers,
            "day": numbers,
            "price": numbers.cast(pa.decimal128(21, 2)).cast(pa.decimal128(15, 2)),
            TOMBSTONE_COLUMN: pa.array(np.zeros(len(numbers), np.bool_)),
        }
    )
    store.apply(Epoch(epoch), rows.combine_chunks().to_batches()[0])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[PartitionStore]:
    with closing(PartitionStore(STORE, PartitionId(0), tmp_path, ColumnCache(1 << 24), OPTIONS)) as store:
        for segment in range(SEGMENTS):
            apply(store, segment + 1, pa.array(np.arange(segment, ROWS, SEGMENTS)))
        # A segment of one block.
        apply(store, SEGMENTS + 1, pa.array([ROWS, ROWS + 1]))
        yield store


def view_of(store: PartitionStore) -> StateView:
    version = store.version
    return StateView(STORE, version.epoch, 0, {PartitionId(0): version, ONE: version})


def scan(view: StateView, day: int | None = None) -> PieceScan:
    """The rows from a day on."""
    intervals = {} if day is None else {"day": Interval(pa.scalar(day, pa.int64()))}
    found = view.scan(["id", "day", "price"], RowFilter(intervals=intervals))
    assert isinstance(found, PieceScan)
    return found


def test_statements_with_views_of_their_own_share_blocks(store: PartitionStore) -> None:
    view = view_of(store)
    one, other = (view.restrict([PartitionId(0)]) for _ in range(2))
    assert one is not other
    assert scan(one, 2_000).pieces is scan(other, 2_000).pieces
    assert scan(one).pieces is scan(other).pieces
    # Other bounds, or another set of partitions, are another scan.
    assert scan(one, 2_000).pieces is not scan(one, 2_001).pieces
    assert scan(one).pieces is not scan(view).pieces
    assert scan(view).pieces.rows == 2 * scan(one).pieces.rows == 2 * (ROWS + 2)
    assert scan(one, 2_000).statistics.blocks_read < scan(one).statistics.blocks_read


def test_a_later_epoch_has_blocks_of_its_own(store: PartitionStore) -> None:
    before = scan(view_of(store).restrict([PartitionId(0)]))
    apply(store, SEGMENTS + 2, pa.array([0, ROWS + 2]))
    after = scan(view_of(store).restrict([PartitionId(0)]))
    assert not before.pieces.has_dead
    assert after.pieces.has_dead
    assert after.pieces.rows == before.pieces.rows + 2


def test_few_scans_are_remembered(store: PartitionStore) -> None:
    view = view_of(store)
    first, second = scan(view, 0).pieces, scan(view, 1).pieces
    for day in range(2, MOST_SCANS + 1):
        scan(view, day)
    assert scan(view, 1).pieces is second
    assert scan(view, 0).pieces is not first


def test_few_sets_of_partitions_are_remembered(store: PartitionStore) -> None:
    version = store.version
    numbers = [PartitionId(number) for number in range(MOST_SHARES + 2)]
    view = StateView(STORE, version.epoch, 0, dict.fromkeys(numbers, version))
    found = [view.scanned_segments((number,)) for number in numbers]
    again = [view.scanned_segments((number,)) for number in numbers]
    assert [one is other for one, other in zip(found, again, strict=True)] == [
        *[True] * MOST_SHARES,
        False,
        False,
    ]


@pytest.mark.parametrize("cache_bytes", [1 << 24, 1 << 14], ids=["all fits", "little fits"])
def test_columns_of_many_segments_are_those_of_each(tmp_path: Path, cache_bytes: int) -> None:
    with closing(PartitionStore(STORE, PartitionId(0), tmp_path, ColumnCache(cache_bytes), OPTIONS)) as store:
        for segment in range(SEGMENTS):
            apply(store, segment + 1, pa.array(np.arange(segment, ROWS, SEGMENTS)))
        apply(store, SEGMENTS + 1, pa.array([ROWS, ROWS + 1]))
        segments = [entry.segment for entry in store.version.segments]
        assert {segment.blocks for segment in segments} == {1, -(-ROWS // SEGMENTS // BLOCK_ROWS)}
        for _ in range(3):
            for place, arrow_type in enumerate(STORE.schema.types):
                expected = [segment.reader.whole_column(place) for segment in segments]
                found = scanned_columns([each.reader for each in segments], place)
                assert [pa.chunked_array(each, arrow_type).combine_chunks() for each in found] == [
                    pa.chunked_array([each]).combine_chunks() for each in expected
                ]
            encoded = list(encoded_columns([each.reader for each in segments], 2, pa.decimal64(15, 2)))
            assert [None if each is None else each.to_pylist() for each in encoded] == [
                segment.reader.whole_column(2).to_pylist() if segment.reader.can_be_joined(2) else None
                for segment in segments
            ]


def test_columns_that_are_kept_are_found_in_one_look(
    store: PartitionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = view_of(store)
    expected = scan(view).to_table()

    def fail(*unused: object) -> None:
        raise AssertionError("a column was asked for by itself")

    monkeypatch.setattr("engine.state.column_reader.ColumnReader.scanned_column", fail)
    monkeypatch.setattr("engine.state.column_reader.ColumnReader.encoded_column", fail)
    # A segment of few rows has its key column in one block, which is looked up as a whole.
    names = ["day", "price"]
    assert view.scan(names).to_table().equals(expected.select(names))
