"""Upserts and tombstones in any order and batching, with compactions, restarts and evictions in between,
equal a dict.
"""

from __future__ import annotations

import datetime as dt
import decimal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.model.schema import TOMBSTONE_COLUMN, Epoch, PartitionId, StoreDefinition, define_store
from engine.scan import FOUND_COLUMN, LIVE_COLUMN, Interval, RowFilter
from engine.state import keyed_rows
from engine.state.cache import ColumnCache
from engine.state.partition import PartitionStore
from engine.state.state_options import StateOptions
from engine.state.state_view import StateView
from engine.state.version import Version
from tests.support.partitions import cut_batch

Key = tuple[Any, ...]
SMALL = StateOptions(cache_bytes=1 << 20, block_rows=4, block_bytes=1 << 20, fan_out=3)
TINY_CACHE = StateOptions(
    paged_rows=3,
    page_bytes=1,
    cache_bytes=200,
    block_rows=2,
    block_bytes=64,
    fan_out=2,
    dead_share=0.2,
    apply_bytes=60,
)
"""An epoch is applied in pieces of two or three rows."""

DATES = st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31))
TIMES = st.datetimes()
KEY_KINDS: Mapping[str, tuple[list[pa.DataType], list[st.SearchStrategy[Any]]]] = {
    "bigint": ([pa.int64()], [st.sampled_from([-(2**63), 2**63 - 1]) | st.integers(-6, 6)]),
    "ubigint": ([pa.uint64()], [st.sampled_from([2**64 - 1]) | st.integers(0, 9)]),
    "varchar": ([pa.string()], [st.text("ab\x00é", max_size=3)]),
    "blob": ([pa.binary()], [st.binary(max_size=2)]),
    "boolean": ([pa.bool_()], [st.booleans()]),
    "date": ([pa.date32()], [DATES]),
    "timestamp": ([pa.timestamp("us")], [TIMES]),
    "decimal": ([pa.decimal128(5, 2)], [st.decimals(-99, 99, places=2)]),
    "composite": (
        [pa.string(), pa.int32(), pa.binary()],
        [st.text("a\x00\x01", max_size=2), st.integers(-2, 2), st.binary(max_size=2)],
    ),
    "composite of numbers": (
        [pa.int16(), pa.bool_(), pa.decimal128(4, 1), pa.date32()],
        [
            st.integers(-2, 2),
            st.booleans(),
            st.sampled_from([decimal.Decimal("-1.5"), decimal.Decimal("2.5")]),
            st.just(dt.date(2020, 1, 1)),
        ],
    ),
}


@dataclass
class Model:
    """A partition store beside the dict that it must equal."""

    definition: StoreDefinition
    directory: Path
    options: StateOptions
    rows: dict[Key, Any] = field(default_factory=dict)
    epoch: int = 0
    pinned: list[tuple[Version, dict[Key, Any]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cache = ColumnCache(self.options.cache_bytes)
        self.store = self._open()

    def _open(self) -> PartitionStore:
        return PartitionStore(self.definition, PartitionId(0), self.directory, self.cache, self.options)

    def apply(self, changes: list[tuple[Key, Any, bool]], *, replaces: bool) -> None:
        self.epoch += 1
        if replaces:
            self.rows = {}
        for key, value, is_tombstone in changes:
            self.rows.pop(key, None)
            if not is_tombstone:
                self.rows[key] = value
        columns = [
            pa.array([change[0][place] for change in changes], f.type)
            for place, f in enumerate(self.definition.key_schema)
        ]
        columns += [
            pa.array([change[1] for change in changes], pa.int64()),
            pa.array([change[2] for change in changes], pa.bool_()),
        ]
        batch = pa.RecordBatch.from_arrays(columns, [*self.definition.key, "value", TOMBSTONE_COLUMN])
        self.store.apply(Epoch(self.epoch), cut_batch(batch), replaces=replaces)

    def restart(self) -> None:
        self.pinned.clear()
        self.store.close()
        self.store = self._open()

    def check(self) -> None:
        assert contents(self.store.version, self.definition) == self.rows
        assert self.store.version.live_rows == len(self.rows)
        for version, rows in self.pinned:
            assert contents(version, self.definition) == rows


def view_of(version: Version, definition: StoreDefinition) -> StateView:
    return StateView(definition, version.epoch, 0, {PartitionId(0): version})


def contents(version: Version, definition: StoreDefinition) -> dict[Key, Any]:
    scan = view_of(version, definition).scan(definition.schema.names)
    rows = [row for batch in scan.batches() for row in batch.to_pylist() if row.get(LIVE_COLUMN, 1)]
    found = {tuple(row[name] for name in definition.key): row[definition.schema.names[-1]] for row in rows}
    assert len(found) == len(rows), "a key is live twice"
    return found


@contextmanager
def model(kind: str, options: StateOptions) -> Iterator[Model]:
    types, _ = KEY_KINDS[kind]
    names = [f"k{place}" for place in range(len(types))]
    schema = pa.schema([*zip(names, types, strict=True), ("value", pa.int64())])
    with tempfile.TemporaryDirectory() as directory:
        made = Model(define_store("store", schema, names, partitions=1), Path(directory), options)
        try:
            yield made
        finally:
            made.store.close()


def batches_of(kind: str) -> st.SearchStrategy[list[tuple[Key, Any, bool]]]:
    key = st.tuples(*KEY_KINDS[kind][1])
    return st.lists(
        st.tuples(key, st.none() | st.integers(0, 9), st.sampled_from([False, False, True])), max_size=12
    )


def apply_some(pair: Model, kind: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 5), "batches")):
        pair.apply(data.draw(batches_of(kind), "rows"), replaces=False)


STEPS = ("compact", "compact fully", "restart", "pin", "unpin")


@pytest.mark.parametrize("options", [SMALL, TINY_CACHE], ids=["small", "tiny cache"])
@pytest.mark.parametrize("kind", KEY_KINDS)
@settings(max_examples=15)
@given(data=st.data())
def test_any_history_equals_a_dict(kind: str, options: StateOptions, data: st.DataObject) -> None:
    with model(kind, options) as pair:
        for _ in range(data.draw(st.integers(1, 12), "steps")):
            step = data.draw(st.sampled_from(["apply", "apply", "apply", "replace", *STEPS]), "step")
            take(pair, step, data.draw(batches_of(kind), "rows") if step in {"apply", "replace"} else [])
            pair.check()


def take(pair: Model, step: str, changes: list[tuple[Key, Any, bool]]) -> None:
    if step in {"apply", "replace"}:
        pair.apply(changes, replaces=step == "replace")
    elif step == "compact":
        while pair.store.compact():
            pass
    elif step == "compact fully":
        pair.store.compact_fully()
    elif step == "restart":
        pair.restart()
    elif step == "pin":
        pair.pinned.append((pair.store.version, dict(pair.rows)))
    else:
        pair.pinned.clear()


@pytest.mark.parametrize("kind", KEY_KINDS)
@settings(max_examples=15)
@given(data=st.data())
def test_lookups_find_exactly_their_rows(kind: str, data: st.DataObject) -> None:
    with model(kind, SMALL) as pair:
        apply_some(pair, kind, data)
        view = view_of(pair.store.version, pair.definition)
        leading = data.draw(st.integers(1, len(pair.definition.key)), "leading key columns")
        known = sorted({key[:leading] for key in pair.rows}, key=repr)
        asked = data.draw(
            st.lists(
                st.tuples(*KEY_KINDS[kind][1][:leading])
                | (st.sampled_from(known) if known else st.nothing()),
                max_size=8,
            ),
            "points",
        )
        fields = list(pair.definition.key_schema)[:leading]
        points = pa.RecordBatch.from_arrays(
            [pa.array([point[p] for point in asked], f.type) for p, f in enumerate(fields)],
            [f.name for f in fields],
        )
        found = view.lookup(pair.definition.schema.names, points).to_pylist()
        expected = [key for key in pair.rows if key[:leading] in set(asked)]
        assert sorted(
            (tuple(row[name] for name in pair.definition.key) for row in found), key=repr
        ) == sorted(expected, key=repr)
        if kind in {"bigint", "ubigint", "varchar"}:
            schema = pair.definition.schema
            place = schema.get_field_index("value")
            rows = {
                key: view.row(key, (place,), pa.schema([schema.field(place)]))
                for (key,) in [*asked, *pair.rows]
            }
            assert {key: row.to_pylist() for key, row in rows.items() if row} == {
                key: [{"value": pair.rows[key,]}] for key in rows if (key,) in pair.rows
            }
            for key, row in rows.items():
                found = view.found_row(key, (place,), pa.schema([schema.field(place)]))
                expected_rows = [] if row is None else [{FOUND_COLUMN: True, **row.to_pylist()[0]}]
                assert ([] if found is None else found.to_pylist()) == expected_rows
        if asked and leading == len(pair.definition.key):
            _check_rows(view, points, asked, pair.rows)
            with (
                patch.object(keyed_rows, "FEW_KEYS", 0),
                patch.object(keyed_rows, "FEW_KEYS_OF_PARTITION", 1),
            ):
                _check_rows(view, points, asked, pair.rows)
        scanned = view.scan(["value"], RowFilter(points=points))
        assert sum(batch.num_rows for batch in scanned.batches()) == len(expected)


def _check_rows(
    view: StateView, keys: pa.RecordBatch, asked: Sequence[tuple[Any, ...]], rows: Mapping[Any, Any]
) -> None:
    """See that each key has its own row, or none."""
    schema = view.definition.schema
    found = view.keyed_rows(keys, range(len(schema)), schema)
    assert found.rows.schema == schema
    assert found.rows.num_rows == len({key for key in asked if key in rows})
    assert found.places.is_valid().to_pylist() == [key in rows for key in asked]
    taken = found.rows.take(found.places)
    assert taken.column("value").to_pylist() == [rows.get(key) for key in asked]
    for place, name in enumerate(view.definition.key):
        assert taken.column(name).to_pylist() == [key[place] if key in rows else None for key in asked]


@pytest.mark.parametrize("kind", KEY_KINDS)
@settings(max_examples=15)
@given(data=st.data())
def test_intervals_never_lose_a_row(kind: str, data: st.DataObject) -> None:
    with model(kind, SMALL) as pair:
        apply_some(pair, kind, data)
        column = data.draw(st.sampled_from([*range(len(pair.definition.key)), None]), "column")
        name = "value" if column is None else pair.definition.key[column]
        values = st.integers(0, 9) if column is None else KEY_KINDS[kind][1][column]
        low, high = data.draw(st.none() | values, "low"), data.draw(st.none() | values, "high")
        low_open, high_open = data.draw(st.booleans(), "low open"), data.draw(st.booleans(), "high open")
        type_ = pair.definition.schema.field(name).type
        bounds = [None if bound is None else pa.scalar(bound, type_) for bound in (low, high)]
        scan = view_of(pair.store.version, pair.definition).scan(
            pair.definition.schema.names,
            RowFilter(intervals={name: Interval(bounds[0], bounds[1], low_open, high_open)}),
        )
        got = {
            tuple(row[k] for k in pair.definition.key)
            for batch in scan.batches()
            for row in batch.to_pylist()
            if row.get(LIVE_COLUMN, 1)
        }
        for key, value in pair.rows.items():
            held = value if column is None else key[column]
            above = held is not None and (low is None or held > low or (held == low and not low_open))
            below = held is not None and (high is None or held < high or (held == high and not high_open))
            if above and below:
                assert key in got
        assert got <= set(pair.rows)
