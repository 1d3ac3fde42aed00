"""Merge stores, however their commits are cut into epochs, with compactions and restarts in between, equal a
plain recomputation.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.model.kinds import Behaviour, Function, Merge, MergedColumn
from engine.model.schema import TOMBSTONE_COLUMN, Epoch, StoreDefinition, define_store
from engine.scan import LIVE_COLUMN
from engine.state.partition import PartitionStore
from tests.support.merged_rows import Partial, fold_rows, is_same, visible_row
from tests.support.partitions import STEPS, apply_in_epochs, open_partition, view_of

COLUMNS = (
    MergedColumn("total", Function.SUM),
    MergedColumn("narrow", Function.SUM),
    MergedColumn("unsigned", Function.SUM),
    MergedColumn("real", Function.SUM),
    MergedColumn("single", Function.SUM),
    MergedColumn("money", Function.SUM),
    MergedColumn("wide", Function.SUM),
    MergedColumn("events", Function.COUNT),
    MergedColumn("rating", Function.AVG),
    MergedColumn("lowest", Function.MIN),
    MergedColumn("highest", Function.MAX),
    MergedColumn("word", Function.MIN),
    MergedColumn("last_word", Function.MAX),
    MergedColumn("least", Function.MIN),
    MergedColumn("flag", Function.MAX),
    MergedColumn("day", Function.MAX),
    MergedColumn("first_title", Function.FIRST),
    MergedColumn("title", Function.LAST),
    MergedColumn("tags", Function.LAST),
)
TYPES: dict[str, pa.DataType] = {
    "total": pa.int64(),
    "narrow": pa.int8(),
    "unsigned": pa.uint64(),
    "real": pa.float64(),
    "single": pa.float32(),
    "money": pa.decimal128(6, 2),
    "wide": pa.decimal128(38, 1),
    "events": pa.int64(),
    "__rating_sum": pa.decimal128(20, 1),
    "__rating_count": pa.int64(),
    "lowest": pa.float64(),
    "highest": pa.float64(),
    "word": pa.string(),
    "last_word": pa.binary(),
    "least": pa.decimal128(38, 1),
    "flag": pa.bool_(),
    "day": pa.date32(),
    "first_title": pa.string(),
    "__first_title_at": pa.timestamp("us"),
    "title": pa.string(),
    "__title_at": pa.float64(),
    "tags": pa.list_(pa.int64()),
    "__tags_at": pa.string(),
}
BIG = 2**63 - 1
EXACT = decimal.Context(prec=60)


def _decimals(most: int, places: int) -> st.SearchStrategy[Decimal]:
    return st.sampled_from([-most, -1, 0, 3, most]).map(
        lambda unscaled: EXACT.scaleb(Decimal(unscaled), -places)
    )


FLOATS = st.sampled_from(
    [0.0, -0.0, 0.1, 0.2, -0.7, 1e300, -1e300, 3.0, float("inf"), float("-inf"), float("nan")]
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "total": st.sampled_from([BIG, -BIG - 1, BIG // 2, 1, -5, 7]),
    "narrow": st.integers(-128, 127),
    "unsigned": st.sampled_from([0, 3, 2**63, 2**64 - 1]),
    "real": FLOATS,
    "single": st.sampled_from([0.5, -0.0, 2.0, float("nan"), float("inf"), 2.0**120]),
    "money": _decimals(999_999, 2),
    "wide": _decimals(10**38 - 1, 1),
    "events": st.integers(0, 3),
    "__rating_sum": _decimals(10**20 - 1, 1),
    "__rating_count": st.integers(0, 3),
    "lowest": FLOATS,
    "highest": FLOATS,
    "word": st.text("aé\x00", max_size=2),
    "last_word": st.binary(max_size=2),
    "least": _decimals(10**38 - 1, 1),
    "flag": st.booleans(),
    "day": st.dates(dt.date(2020, 1, 1), dt.date(2020, 1, 3)),
    "first_title": st.text("ab", max_size=2),
    "__first_title_at": st.sampled_from([f"2020-01-01T00:00:00.00000{micros}" for micros in range(3)]).map(
        dt.datetime.fromisoformat
    ),
    "title": st.text("ab", max_size=2),
    "__title_at": FLOATS,
    "tags": st.lists(st.integers(0, 3), max_size=2),
    "__tags_at": st.text("ab", max_size=2),
}
PARTIALS = st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()})
KEYS = st.tuples(st.text("a\x00", max_size=1), st.integers(0, 2))
Row = tuple[tuple[str, int], Partial | None]
"""A key, and a partial row or None for a tombstone."""
ROWS = st.lists(st.tuples(KEYS, PARTIALS | PARTIALS | PARTIALS | st.none()), min_size=1, max_size=14)


def define() -> StoreDefinition:
    schema = pa.schema([("name", pa.string()), ("number", pa.int32()), *TYPES.items()])
    return define_store(
        "store", schema, ["name", "number"], partitions=1, behaviour=Behaviour(Merge(COLUMNS))
    )


DEFINITION = define()


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    columns = [
        pa.array([key[place] for key, _ in rows], kind)
        for place, kind in enumerate([pa.string(), pa.int32()])
    ]
    for name, kind in TYPES.items():
        columns.append(pa.array([None if partial is None else partial[name] for _, partial in rows], kind))
    batch = pa.RecordBatch.from_arrays(columns, ["name", "number", *TYPES])
    batch = batch.cast(DEFINITION.row_schema)
    if all(partial is not None for _, partial in rows):
        return batch
    return batch.append_column(
        pa.field(TOMBSTONE_COLUMN, pa.bool_(), nullable=False),
        pa.array([partial is None for _, partial in rows]),
    )


def fold_of_all(rows: Sequence[Row]) -> dict[tuple[str, int], dict[str, Any]]:
    alive: dict[tuple[str, int], list[Partial]] = {}
    for key, partial in rows:
        if partial is None:
            alive.pop(key, None)
        else:
            alive.setdefault(key, []).append(partial)
    with decimal.localcontext(EXACT):
        partials = {key: fold_rows(COLUMNS, found, DEFINITION.row_schema) for key, found in alive.items()}
        return {key: partial | visible_row(COLUMNS, partial) for key, partial in partials.items()}


def contents(store: PartitionStore) -> dict[tuple[str, int], dict[str, Any]]:
    view = view_of(store, DEFINITION)
    seen = {
        (row["name"], row["number"]): row
        for row in view.scan(DEFINITION.schema.names).to_table().to_pylist()
        if row.pop(LIVE_COLUMN, 1)
    }
    hidden: dict[tuple[str, int], dict[str, Any]] = {}
    for entry in store.version.segments:
        for block in range(entry.segment.blocks):
            arrays = entry.segment.reader.columns(range(len(DEFINITION.stored_schema)), block)
            start, _ = entry.segment.record.block_span(block)
            for place, row in enumerate(
                pa.RecordBatch.from_arrays(arrays, schema=DEFINITION.stored_schema).to_pylist()
            ):
                if entry.is_live(start + place):
                    hidden[row["name"], row["number"]] = row
    assert hidden.keys() == seen.keys()
    assert all(is_same(hidden[key][name], value) for key, row in seen.items() for name, value in row.items())
    return hidden


def check(store: PartitionStore, rows: Sequence[Row]) -> None:
    found, expected = contents(store), fold_of_all(rows)
    assert found.keys() == expected.keys()
    for key, row in expected.items():
        wrong = {
            name: (found[key][name], value)
            for name, value in row.items()
            if not is_same(found[key][name], value)
        }
        assert not wrong, (key, wrong)


@settings(max_examples=120)
@given(ROWS, st.lists(st.sampled_from(STEPS), min_size=14, max_size=14))
@example([(("", 0), dict.fromkeys(TYPES))], ["epoch"] * 14)
def test_any_cut_into_epochs_equals_a_recomputation(rows: list[Row], steps: list[str]) -> None:
    apply_in_epochs(DEFINITION, rows, steps, batch_of, check)


def test_complete_mode_begins_anew(tmp_path: Path) -> None:
    partial = dict.fromkeys(TYPES) | {"total": 5, "events": 1}
    with closing(open_partition(DEFINITION, tmp_path)) as store:
        store.apply(Epoch(1), batch_of([(("a", 1), partial), (("b", 1), partial)]))
        store.apply(Epoch(2), batch_of([(("a", 1), partial), (("a", 1), partial)]), replaces=True)
        check(store, [(("a", 1), partial), (("a", 1), partial)])
