"""Epochs of few bytes that meet more stored bytes than an Arrow array has room for: they are folded in halves
of halves.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.model.kinds import Behaviour, Function, KeyValue, Merge, MergedColumn, Session, Versioned
from engine.model.schema import Epoch, StoreDefinition, define_store
from tests.support.following import live_rows
from tests.support.partitions import open_partition, view_of

MOST_BYTES, TEXT_BYTES, KEYS = 1 << 16, 1 << 12, 40
"""What stands for the 2 GiB of text that an array has at the most, and texts that are more than that
together.
"""
TIME = pa.timestamp("us")
TEXTS = pa.schema([("k", pa.int64()), ("at", TIME), ("text", pa.string())])
AT_AND_LAST = pa.schema([("k", pa.int64()), ("text", pa.string()), ("__text_at", TIME)])
SESSIONS = pa.schema(
    [("k", pa.int64()), ("session_start", TIME), ("session_end", TIME), ("text", pa.string())]
)
LAST, LONGEST = MergedColumn("text", Function.LAST, by="at"), MergedColumn("text", Function.MAX)


@pytest.fixture(autouse=True)
def small_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow refuses to put more text into an array than it can have."""
    concatenate = pa.concat_arrays

    def concatenate_within_limit(arrays: Iterable[pa.Array]) -> pa.Array:
        arrays = list(arrays)
        if pa.types.is_string(arrays[0].type) and sum(array.nbytes for array in arrays) > MOST_BYTES:
            raise pa.ArrowInvalid("offset overflow while concatenating arrays")
        return concatenate(arrays)

    monkeypatch.setattr(pa, "concat_arrays", concatenate_within_limit)


def define(schema: pa.Schema, kind: Any) -> StoreDefinition:
    return define_store("store", schema, ["k"], partitions=1, behaviour=Behaviour(kind))


def text_of(number: int) -> str:
    return chr(ord("a") + number % 26) * TEXT_BYTES


def test_a_history_may_be_longer_than_an_array(tmp_path: Path) -> None:
    """Of the versions of a key, only those that change are read."""
    definition = define(TEXTS, Versioned("at"))
    with closing(open_partition(definition, tmp_path)) as store:
        for number in range(KEYS):
            columns = [[1], [2 * number], [text_of(number)]]
            store.apply(Epoch(number + 1), pa.record_batch(columns, schema=definition.row_schema))
        # One that comes late, and one for each of all versions.
        store.apply(Epoch(KEYS + 1), pa.record_batch([[1], [5], ["late"]], schema=definition.row_schema))
        places = range(KEYS)
        columns = [[1] * KEYS, [2 * number + 1 for number in places], ["few"] * KEYS]
        store.apply(Epoch(KEYS + 2), pa.record_batch(columns, schema=definition.row_schema))
        found = live_rows(view_of(store, definition)).cast(
            pa.schema(
                [("k", pa.int64()), ("at", pa.int64()), ("text", pa.string()), ("valid_to", pa.int64())]
            )
        )
    versions = {row["at"]: (row["text"], row["valid_to"]) for row in found.to_pylist()}
    assert versions == {
        at: (text_of(at // 2) if at % 2 == 0 else "few", at + 1 if at < 2 * KEYS - 1 else None)
        for at in range(2 * KEYS)
    }


@pytest.mark.parametrize("kind", [Merge((LAST,)), Merge((LONGEST,))], ids=["last", "max"])
def test_merged_texts_may_be_more_than_an_array(tmp_path: Path, kind: Merge) -> None:
    is_last = kind.columns[0].function is Function.LAST
    definition = define(AT_AND_LAST if is_last else AT_AND_LAST.remove(2), kind)
    with closing(open_partition(definition, tmp_path)) as store:
        for number in range(KEYS):
            columns = [[number], [text_of(number)], [number]][: len(definition.row_schema)]
            store.apply(Epoch(number + 1), pa.record_batch(columns, schema=definition.row_schema))
        columns = [range(KEYS), ["~" if place % 2 else "A" for place in range(KEYS)], [*range(7), *[99] * 33]]
        batch = pa.record_batch(
            [pa.array(values) for values in columns][: len(definition.row_schema)],
            names=definition.row_schema.names,
        ).cast(definition.row_schema)
        store.apply(Epoch(KEYS + 1), batch)
        found = live_rows(view_of(store, definition)).to_pylist()
    new = {place: "~" if place % 2 else "A" for place in range(KEYS)}
    wins = {place: is_last or place % 2 == 1 for place in range(KEYS)}
    assert {row["k"]: row["text"] for row in found} == {
        place: new[place] if wins[place] else text_of(place) for place in range(KEYS)
    }


def test_the_order_of_latest_rows_may_be_more_than_an_array(tmp_path: Path) -> None:
    definition = define(TEXTS, KeyValue("text"))
    with closing(open_partition(definition, tmp_path)) as store:
        for number in range(KEYS):
            columns = [[number], [number], [text_of(number)]]
            store.apply(Epoch(number + 1), pa.record_batch(columns, schema=definition.row_schema))
        orders = ["~" if place % 2 else "A" for place in range(KEYS)]
        batch = pa.record_batch([[*range(KEYS)], [-1] * KEYS, orders], schema=definition.row_schema)
        store.apply(Epoch(KEYS + 1), batch)
        found = live_rows(view_of(store, definition)).to_pylist()
    assert {row["k"]: row["text"] for row in found} == {
        place: "~" if place % 2 else text_of(place) for place in range(KEYS)
    }


def test_sessions_may_have_more_text_than_an_array(tmp_path: Path) -> None:
    definition = define(SESSIONS, Session(5, (LONGEST,)))
    schema = definition.row_schema
    with closing(open_partition(definition, tmp_path)) as store:
        for number in range(KEYS):
            columns = [[1], [100 * number], [100 * number], [text_of(number)]]
            store.apply(Epoch(number + 1), pa.record_batch(columns, schema=schema))
        # One session of all that there are grows; then each of them does, at once.
        store.apply(Epoch(KEYS + 1), pa.record_batch([[1], [704], [704], ["~"]], schema=schema))
        starts = [100 * number - 1 for number in range(KEYS)]
        store.apply(
            Epoch(KEYS + 2), pa.record_batch([[1] * KEYS, starts, starts, ["A"] * KEYS], schema=schema)
        )
        found = live_rows(view_of(store, definition)).set_column(
            1, "session_start", live_rows(view_of(store, definition))["session_start"].cast(pa.int64())
        )
    assert {row["session_start"]: row["text"] for row in found.to_pylist()} == {
        100 * number - 1: "~" if number == 7 else text_of(number) for number in range(KEYS)
    }


def test_a_row_that_is_too_large_by_itself_says_so(tmp_path: Path) -> None:
    definition = define(AT_AND_LAST, Merge((LAST,)))
    with closing(open_partition(definition, tmp_path)) as store:
        large = pa.record_batch([[1], ["x" * (MOST_BYTES - 10)], [1]], schema=definition.row_schema)
        store.apply(Epoch(1), large)
        with pytest.raises(pa.ArrowInvalid, match="offset overflow"):
            store.apply(Epoch(2), large)
        assert store.version.epoch == Epoch(1)
