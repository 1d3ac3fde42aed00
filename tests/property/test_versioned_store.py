"""Versioned stores, however their commits are cut into epochs and whatever is past its retention, equal a
plain recomputation.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.model.kinds import WRITTEN_COLUMN, Behaviour, Retention, Versioned
from engine.model.schema import TOMBSTONE_COLUMN, Epoch, StoreDefinition, define_store
from engine.state.partition import PartitionStore
from tests.support.following import live_rows
from tests.support.partitions import (
    STEPS,
    apply_in_epochs,
    cut_batch,
    folding_in_halves,
    new_partition,
    open_partition,
    view_of,
)

TIME = pa.timestamp("us")
SCHEMA = pa.schema(
    [
        ("price", pa.float64()),
        ("symbol", pa.string()),
        ("at", TIME),
        ("tags", pa.list_(pa.int64())),
        ("market", pa.string()),
    ]
)
KEYS = (["symbol"], ["market", "symbol"], ["market", "at", "symbol"])
"""All symbols are of one market. The time is behind the others unless it is named before them."""


def define(retention: Retention | None = None, key: Sequence[str] = KEYS[0]) -> StoreDefinition:
    behaviour = Behaviour(Versioned("at"), retention)
    return define_store("prices", SCHEMA, key, partition_by=key[:1], partitions=1, behaviour=behaviour)


@dataclass(frozen=True)
class Row:
    """A row of a commit; a tombstone has values, too, which do not matter."""

    symbol: str
    at: int
    price: float | None
    tags: tuple[int, ...] | None
    is_tombstone: bool = False


Store = dict[tuple[str, int], Row]
Seen = dict[tuple[str, int], tuple[Any, ...]]


def sort_by_key(rows: Sequence[Row]) -> Store:
    """The newest row of each version."""
    return {(row.symbol, row.at): row for row in rows}


def visible_versions(store: Store) -> Seen:
    """Versions with their `valid_to`."""
    found: Seen = {}
    for symbol in {symbol for symbol, _ in store}:
        history = sorted(at for other, at in store if other == symbol)
        for at, following in zip(history, [*history[1:], None], strict=True):
            row = store[symbol, at]
            tags = None if row.tags is None else list(row.tags)
            found[symbol, at] = (None, None, at) if row.is_tombstone else (row.price, tags, following)
    return found


LEAST, GREATEST = -(1 << 63), (1 << 63) - 1
EXTREMES = st.sampled_from([LEAST, LEAST + 1, LEAST + 2, -1, GREATEST - 1, GREATEST])
"""Infinity is among them: DuckDB has it at the ends of 64 bits."""
ROWS = st.builds(
    Row,
    st.sampled_from(["", "a", "b\x00"]),
    st.integers(0, 12) | st.integers(0, 12) | EXTREMES,
    st.none() | st.sampled_from([0.5, 1.0]),
    st.none() | st.lists(st.integers(0, 2), max_size=2).map(tuple),
    st.sampled_from([False, False, False, True]),
)


def batch_of(rows: Sequence[Row], definition: StoreDefinition) -> pa.RecordBatch:
    columns = [
        pa.array([row.price for row in rows], pa.float64()),
        pa.array([row.symbol for row in rows], pa.string()),
        pa.array([row.at for row in rows], TIME),
        pa.array([row.tags for row in rows], pa.list_(pa.int64())),
        pa.array(["m"] * len(rows), pa.string()),
    ]
    batch = pa.RecordBatch.from_arrays(columns, SCHEMA.names).cast(definition.row_schema)
    flags = [row.is_tombstone for row in rows]
    return (
        batch.append_column(pa.field(TOMBSTONE_COLUMN, pa.bool_(), nullable=False), pa.array(flags))
        if any(flags)
        else batch
    )


def contents(store: PartitionStore, definition: StoreDefinition) -> Seen:
    table = live_rows(view_of(store, definition))
    assert table.schema.names == [*SCHEMA.names, "valid_to"]
    for name in ("at", "valid_to"):
        table = table.set_column(table.schema.get_field_index(name), name, table[name].cast(pa.int64()))
    return {
        (row["symbol"], row["at"]): (row["price"], row["tags"], row["valid_to"]) for row in table.to_pylist()
    }


@pytest.mark.parametrize("key", KEYS, ids=", ".join)
@settings(max_examples=60)
@given(st.lists(ROWS, min_size=1, max_size=14), st.lists(st.sampled_from(STEPS), min_size=14, max_size=14))
@example(
    [Row("a", 5, 1.0, None), Row("a", 9, 1.0, None), Row("a", 7, 0.5, (), True), Row("a", 6, 0.5, None)],
    ["epoch"] * 14,
)
@example([Row("a", 5, 1.0, (1,), True), Row("a", 5, 1.0, None), Row("a", 5, 0.5, (2,))], ["go on"] * 14)
def test_any_cut_into_epochs_equals_a_recomputation(
    key: Sequence[str], rows: list[Row], steps: list[str]
) -> None:
    definition = define(key=key)

    def equals_a_recomputation(store: PartitionStore, taken: Sequence[Row]) -> None:
        assert contents(store, definition) == visible_versions(sort_by_key(taken))

    apply_in_epochs(definition, rows, steps, partial(batch_of, definition=definition), equals_a_recomputation)


def expire(store: Store, cutoff: int | None, column: str) -> Store:
    """The versions that are not past a cutoff; they go one by one with what they know of those
    behind them.
    """
    ends = {key: row[2] for key, row in visible_versions(store).items()}
    times = ends if column == "valid_to" else {key: row.at for key, row in store.items()}
    return {key: row for key, row in store.items() if not is_old(times[key], cutoff)}


def is_old(time: int | None, cutoff: int | None) -> bool:
    return cutoff is not None and time is not None and time < cutoff


@pytest.mark.parametrize("column", ["valid_to", "at"])
@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.lists(ROWS, max_size=4), st.none() | st.integers(0, 12) | EXTREMES),
        min_size=1,
        max_size=8,
    )
)
@example([([Row("a", 3, 1.0, None), Row("a", 5, 1.0, None, True), Row("a", 1, 0.5, None)], 6)])
@example([([Row("a", 5, 1.0, None, True), Row("a", 7, 1.0, None, True)], 6)])
@example(
    [
        ([Row("a", 1, 1.0, None), Row("a", 5, 0.5, None)], 6),
        ([Row("a", 3, 1.0, None), Row("a", 9, 1.0, None)], None),
        ([], 9),
        ([], 10),
    ]
)
def test_versions_of_before_the_cutoff_are_gone(
    column: str, commits: list[tuple[list[Row], int | None]]
) -> None:
    definition = define(Retention(10, column))
    expected: Store = {}
    cutoff: int | None = None
    with (
        new_partition(definition) as store,
        new_partition(definition) as cut,
        new_partition(definition) as halved,
    ):
        for number, (rows, moved) in enumerate(commits, 1):
            cutoff = max((time for time in (cutoff, moved) if time is not None), default=None)
            expected = expire(expected, cutoff, column)
            expected = expire(expected | sort_by_key(rows), cutoff, column)
            batch = batch_of(rows, definition) if rows else None
            store.apply(Epoch(number), batch, cutoff=cutoff)
            cut.apply(Epoch(number), None if batch is None else cut_batch(batch), cutoff=cutoff)
            with folding_in_halves():
                halved.apply(Epoch(number), batch, cutoff=cutoff)
            for each in (store, cut, halved):
                assert contents(each, definition) == visible_versions(expected)


def test_a_version_that_is_followed_later_keeps_the_time_of_its_own_commit(tmp_path: Path) -> None:
    definition = define(Retention(10))

    def stored_batch(when: int, row: Row) -> pa.RecordBatch:
        return batch_of([row], definition).append_column(
            definition.stored_schema.field(WRITTEN_COLUMN), pa.array([when], pa.timestamp("us", "UTC"))
        )

    with closing(open_partition(definition, tmp_path)) as store:
        store.apply(Epoch(1), stored_batch(100, Row("a", 1, 1.0, None)))
        store.apply(Epoch(2), stored_batch(200, Row("a", 2, 1.0, None)))
        assert contents(store, definition) == {("a", 1): (1.0, None, 2), ("a", 2): (1.0, None, None)}
        store.apply(Epoch(3), None, cutoff=150)
        assert contents(store, definition) == {("a", 2): (1.0, None, None)}
