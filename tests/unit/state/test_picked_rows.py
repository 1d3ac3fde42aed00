"""Rows picked out of many blocks and segments are those that were written, whatever their types."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.model.schema import TOMBSTONE_COLUMN, Epoch, PartitionId, define_store
from engine.state import few_values, picked_rows, state_view
from engine.state.cache import ColumnCache
from engine.state.partition import PartitionStore
from engine.state.state_options import StateOptions
from engine.state.state_view import StateView

ROWS = 300
EPOCHS = 3
OPTIONS = StateOptions(cache_bytes=1 << 20, block_rows=16)
NOON = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)


def _column(kind: pa.DataType, values: list[Any], *, nulls: slice = slice(0)) -> pa.Array:
    values[nulls] = [None] * len(values[nulls])
    return pa.array(values, kind)


TABLE = pa.table(
    {
        "id": pa.array(range(ROWS), pa.int64()),
        "small": _column(pa.int8(), [number % 100 for number in range(ROWS)]),
        "some_null": _column(pa.int32(), list(range(ROWS)), nulls=slice(100, 250, 3)),
        "all_null": pa.nulls(ROWS, pa.float64()),
        "real": _column(pa.float32(), [number / 4 for number in range(ROWS)], nulls=slice(None, None, 7)),
        "money": _column(
            pa.decimal128(38, 2), [Decimal(number) / 4 for number in range(ROWS)], nulls=slice(1, None, 2)
        ),
        "day": _column(pa.date32(), [NOON.date() + dt.timedelta(number) for number in range(ROWS)]),
        "moment": _column(pa.timestamp("us", "UTC"), [NOON + dt.timedelta(number) for number in range(ROWS)]),
        "flag": _column(pa.bool_(), [number % 3 == 0 for number in range(ROWS)], nulls=slice(5, None, 5)),
        "text": _column(pa.string(), ["é" * (number % 4) for number in range(ROWS)], nulls=slice(5, None, 5)),
        "numbers": _column(
            pa.list_(pa.int64()), [list(range(number % 3)) for number in range(ROWS)], nulls=slice(5, None, 5)
        ),
    }
)


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StateView]:
    directory: Path = tmp_path_factory.mktemp("partition")
    definition = define_store("things", TABLE.schema, ["id"], partitions=1)
    store = PartitionStore(definition, PartitionId(0), directory, ColumnCache(OPTIONS.cache_bytes), OPTIONS)
    try:
        for epoch in range(EPOCHS):
            rows = TABLE.take(pa.array(range(epoch, ROWS, EPOCHS)))
            rows = rows.append_column(
                TOMBSTONE_COLUMN, pa.array(np.zeros(rows.num_rows, np.bool_))
            ).combine_chunks()
            version = store.apply(Epoch(epoch + 1), rows.to_batches()[0])
        yield StateView(definition, Epoch(EPOCHS), 0, {PartitionId(0): version})
    finally:
        store.close()


@pytest.mark.parametrize("few", [10, few_values.FEW_VALUES])
@pytest.mark.parametrize("asked", [[], [7], [299, 0], [8, 9, 9, 500], range(120, 140), range(ROWS)])
def test_rows_are_those_that_were_written(
    view: StateView, asked: list[int], few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (few_values, picked_rows):
        monkeypatch.setattr(module, "FEW_VALUES", few)
    found = view.lookup(TABLE.schema.names, pa.record_batch([pa.array(asked, pa.int64())], ["id"]))
    found.validate(full=True)
    expected = TABLE.take(pa.array(sorted({key for key in asked if key < ROWS}), pa.int64()))
    assert found.sort_by("id").to_pylist() == expected.to_pylist()


def test_no_columns_have_a_row_count(view: StateView) -> None:
    assert view.lookup([], pa.record_batch([pa.array([1, 2, 500])], ["id"])).num_rows == 2


def test_one_batch_is_made_of_many_blocks(view: StateView) -> None:
    found = view.lookup(TABLE.schema.names, pa.record_batch([pa.array(range(ROWS))], ["id"]))
    assert [batch.num_rows for batch in found.to_batches()] == [ROWS]


@pytest.mark.parametrize("arrow_type", [pa.string(), pa.binary()])
def test_texts_that_are_too_many_bytes_for_one_array_are_several(
    arrow_type: pa.DataType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(picked_rows, "MOST_TEXT_BYTES", 10)
    schema = pa.schema([("id", pa.int64()), ("text", arrow_type)])
    texts = pa.array(["abcd", None, "", "efghijk"] * 4).cast(arrow_type)
    rows = pa.record_batch([pa.array(range(16)), texts], schema=schema)
    rows = rows.append_column(TOMBSTONE_COLUMN, pa.array(np.zeros(16, np.bool_)))
    definition = define_store("things", schema, ["id"], partitions=1)
    store = PartitionStore(definition, PartitionId(0), tmp_path, ColumnCache(1 << 20), OPTIONS)
    try:
        view = StateView(definition, Epoch(1), 0, {PartitionId(0): store.apply(Epoch(1), rows)})
        asked = pa.record_batch([pa.array(range(10))], ["id"])
        found = view.lookup(["text", "id"], asked)
        assert found.column("text").combine_chunks().to_pylist() == texts[:10].to_pylist()
    finally:
        store.close()


def test_batches_with_too_many_bytes_of_text_stay_apart() -> None:
    """The bytes are never touched, so they take no memory."""
    length = 1_200_000_000
    data = np.zeros(length, np.uint8)
    text = pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, length], np.int32)), pa.py_buffer(data))
    batch = pa.record_batch([pa.array([1]), text], ["id", "text"])
    joined = picked_rows.join([batch, batch], batch.schema)
    assert (joined.num_rows, joined["id"].num_chunks, joined["text"].num_chunks) == (2, 1, 2)


def test_columns_that_clients_ask_for_are_not_remembered_without_end(view: StateView) -> None:
    keys = pa.record_batch([pa.array([1])], ["id"])
    names = TABLE.schema.names
    for first in names:
        for second in names:
            assert view.lookup([first, second], keys).column_names == [first, second]
    assert len(view._projections) <= state_view.MOST_PROJECTIONS < len(names) ** 2
