"""Rows along the key are the live rows of the range, in order, whichever segments they lie in."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.model.schema import TOMBSTONE_COLUMN, Epoch, PartitionId, StoreDefinition, define_store
from engine.scan import Interval, KeyRange, RowFilter
from engine.state.cache import ColumnCache
from engine.state.partition import PartitionStore
from engine.state.state_options import StateOptions
from engine.state.state_view import StateView

OPTIONS = StateOptions(cache_bytes=1 << 20, block_rows=16)
COLD = StateOptions(cache_bytes=1, block_rows=16)
EPOCHS = 9
Row = tuple[str, int, int]
SCHEMA = pa.schema([("name", pa.string()), ("place", pa.int64()), ("epoch", pa.int64())])
NAMES = ["", "a", "ab", "b"]
KEYS = {
    "numbers": ["place"],
    "texts": ["name"],
    "both": ["name", "place"],
}


def _apply(store: PartitionStore, definition: StoreDefinition, rows: dict[tuple[object, ...], Row]) -> None:
    """Epochs that add, replace and remove rows, into `rows` as well."""
    source = random.Random(3)
    for epoch in range(1, EPOCHS + 1):
        written: dict[tuple[object, ...], tuple[Row, bool]] = {}
        for _ in range(60):
            # Later epochs remove many of the first rows, as a queue does.
            place = source.randrange(200 if epoch < EPOCHS else 50)
            name = (
                NAMES[source.randrange(4)] if "name" in definition.key[1:] or len(definition.key) > 1 else ""
            )
            row = (name or f"n{place:03}" if definition.key == ("name",) else name, place, epoch)
            key: tuple[object, ...] = tuple(row[SCHEMA.names.index(column)] for column in definition.key)
            written[key] = (row, source.random() < (0.3 if epoch < EPOCHS else 1.0))
        for key, (row, is_removed) in written.items():
            if is_removed:
                rows.pop(key, None)
            else:
                rows[key] = row
        columns = list(zip(*(row for row, _ in written.values()), strict=True))
        batch = pa.record_batch([pa.array(column) for column in columns], schema=SCHEMA)
        removed = pa.array(np.array([is_removed for _, is_removed in written.values()]))
        store.apply(Epoch(epoch), batch.append_column(TOMBSTONE_COLUMN, removed))


@pytest.fixture(scope="module", params=[*KEYS, *(f"{name}, cold" for name in KEYS)])
def made(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[StateView, list[Row]]]:
    name, _, cold = str(request.param).partition(", ")
    definition = define_store("things", SCHEMA, KEYS[name], partitions=1)
    options = COLD if cold else OPTIONS
    directory: Path = tmp_path_factory.mktemp("partition")
    store = PartitionStore(definition, PartitionId(0), directory, ColumnCache(options.cache_bytes), options)
    rows: dict[tuple[object, ...], Row] = {}
    try:
        _apply(store, definition, rows)
        view = StateView(definition, Epoch(EPOCHS), 0, {PartitionId(0): store.version})
        yield view, [rows[key] for key in sorted(rows, key=_encode_key)]
    finally:
        store.close()


def _encode_key(key: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(value.encode() if isinstance(value, str) else value for value in key)


def _ranges(definition: StoreDefinition) -> Iterator[tuple[KeyRange, int]]:
    """Ranges, and the place in the schema of the column that they bound."""
    yield KeyRange(), -1
    column = definition.schema.get_field_index(definition.key[0])
    arrow_type = definition.schema.field(column).type
    bounds = ["", "a", "n050", "zz"] if pa.types.is_string(arrow_type) else [-5, 30, 120, 500]
    for low in [None, *bounds]:
        for high in [None, *bounds]:
            for is_open in (False, True):
                yield (
                    KeyRange(
                        (),
                        Interval(
                            None if low is None else pa.scalar(low, arrow_type),
                            None if high is None else pa.scalar(high, arrow_type),
                            is_open,
                            is_open,
                        ),
                    ),
                    column,
                )


def _holds(key_range: KeyRange, value: object) -> bool:
    interval = key_range.interval
    if interval is None:
        return True
    low = None if interval.low is None else interval.low.as_py()
    high = None if interval.high is None else interval.high.as_py()
    above = low is None or value > low or (value == low and not interval.low_open)
    below = high is None or value < high or (value == high and not interval.high_open)
    return bool(above and below)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("wanted", [None, 1, 20])
def test_rows_come_along_the_key(
    made: tuple[StateView, list[Row]], wanted: int | None, descending: bool
) -> None:
    view, rows = made
    for key_range, column in _ranges(view.definition):
        expected = [row for row in rows if column < 0 or _holds(key_range, row[column])]
        _check(view, key_range, expected, wanted, descending=descending)


@pytest.mark.parametrize("descending", [False, True])
def test_rows_of_a_prefix_come_along_the_key(made: tuple[StateView, list[Row]], descending: bool) -> None:
    view, rows = made
    for name in [*NAMES, "c"] if len(view.definition.key) > 1 else []:
        for low in (None, 40, 400):
            interval = None if low is None else Interval(pa.scalar(low), pa.scalar(150), low_open=True)
            key_range = KeyRange((pa.scalar(name),), interval)
            expected = [row for row in rows if row[0] == name and _holds(key_range, row[1])]
            _check(view, key_range, expected, 5, descending=descending)


def _check(
    view: StateView, key_range: KeyRange, expected: list[Row], wanted: int | None, *, descending: bool
) -> None:
    ordered = view.sorted_rows(SCHEMA.names, key_range)
    stretches = list(ordered.stretches(wanted, descending=descending))
    found = [tuple(row.values()) for stretch in stretches for row in stretch.to_pylist()]
    assert found == (expected[::-1] if descending else expected), key_range
    assert ordered.stored_rows >= len(expected)


def test_only_what_is_asked_for_is_read(made: tuple[StateView, list[Row]]) -> None:
    view, rows = made
    first = next(view.sorted_rows(SCHEMA.names, KeyRange()).stretches(1, descending=True))
    assert 0 < first.num_rows < len(rows)


EXTREMES: dict[pa.DataType, list[Any]] = {
    pa.int8(): [-128, -127, 0, 126, 127],
    pa.int64(): [-(2**63), -1, 2**63 - 2, 2**63 - 1],
    pa.uint64(): [0, 1, 2**64 - 2, 2**64 - 1],
    pa.bool_(): [False, True],
    pa.date32(): [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)],
    pa.timestamp("us"): [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)],  # noqa: DTZ001
    pa.string(): ["", "\x00", "a", "a\x00", "a\x00\x00", "b"],
    pa.binary(): [b"", b"\x00", b"\xff", b"\xff\x00", b"\xff\xff"],
}


@pytest.mark.parametrize("arrow_type", EXTREMES, ids=str)
def test_ranges_end_at_the_least_and_the_greatest_values(tmp_path: Path, arrow_type: pa.DataType) -> None:
    values = EXTREMES[arrow_type]
    schema = pa.schema([("k", arrow_type), ("n", pa.int64())])
    definition = define_store("things", schema, ["k"], partitions=1)
    store = PartitionStore(definition, PartitionId(0), tmp_path, ColumnCache(1 << 20), OPTIONS)
    try:
        for epoch, chosen in enumerate((values[::2], values[1::2]), 1):
            numbers = [values.index(value) for value in chosen]
            batch = pa.record_batch(
                [pa.array(chosen, arrow_type), pa.array(numbers, pa.int64())], schema=schema
            )
            flags = pa.array([False] * len(chosen))
            version = store.apply(Epoch(epoch), batch.append_column(TOMBSTONE_COLUMN, flags))
        view = StateView(definition, Epoch(2), 0, {PartitionId(0): version})
        for low, high in product([None, *values], [None, *values]):
            for low_open, high_open in product([False, True], [False, True]):
                least, greatest = (
                    None if value is None else pa.scalar(value, arrow_type) for value in (low, high)
                )
                interval = Interval(least, greatest, low_open, high_open)
                expected = [
                    number
                    for number, value in enumerate(values)
                    if (low is None or value > low or (value == low and not low_open))
                    and (high is None or value < high or (value == high and not high_open))
                ]
                ordered = view.sorted_rows(["n"], KeyRange((), interval)).stretches(None)
                assert [number for part in ordered for number in part["n"].to_pylist()] == expected, interval
                scanned = view.scan(["n"], RowFilter(None, {"k": interval})).live_rows()
                assert sorted(scanned["n"].to_pylist()) == expected, interval
    finally:
        store.close()
