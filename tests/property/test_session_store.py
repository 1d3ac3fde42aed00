"""Session stores, however their commits are cut into epochs and whatever is past its retention, equal a plain
recomputation.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.model.kinds import WRITTEN_COLUMN, Behaviour, Function, MergedColumn, Retention, Session
from engine.model.schema import TOMBSTONE_COLUMN, Epoch, StoreDefinition, define_store
from engine.state.partition import PartitionStore
from tests.support.following import live_rows
from tests.support.merged_rows import fold_rows, is_same, visible_row
from tests.support.partitions import (
    STEPS,
    apply_in_epochs,
    cut_batch,
    folding_in_halves,
    new_partition,
    open_partition,
    view_of,
)

GAP = 5
COLUMNS = (
    MergedColumn("events", Function.COUNT),
    MergedColumn("amount", Function.SUM),
    MergedColumn("rating", Function.AVG),
    MergedColumn("entry", Function.FIRST, by="seen"),
    MergedColumn("page", Function.LAST, by="seen"),
)
TIME = pa.timestamp("us", "UTC")
TYPES = {
    "events": pa.int64(),
    "amount": pa.float64(),
    "__rating_sum": pa.float64(),
    "__rating_count": pa.int64(),
    "entry": pa.string(),
    "__entry_at": TIME,
    "page": pa.string(),
    "__page_at": TIME,
}
SCHEMA = pa.schema(
    [
        ("country", pa.string()),
        ("user", pa.int32()),
        ("session_start", TIME),
        ("session_end", TIME),
        *TYPES.items(),
    ]
)


KEYS = (["country", "user"], ["country", "session_start", "user"])
"""The start is behind the others unless it is named before them."""


def define(retention: Retention | None = None, key: Sequence[str] = KEYS[0]) -> StoreDefinition:
    behaviour = Behaviour(Session(GAP, COLUMNS), retention)
    return define_store("sessions", SCHEMA, key, partition_by=key[:1], partitions=1, behaviour=behaviour)


@dataclass(frozen=True)
class Fragment:
    """A row of a commit; a tombstone has no partials."""

    user: tuple[str, int]
    start: int
    end: int | None
    partials: tuple[Any, ...] | None

    @property
    def known_end(self) -> int:
        """The end that it is taken to have."""
        return self.start if self.end is None else max(self.end, self.start)


@dataclass
class Live:
    """A session of the recomputation."""

    user: tuple[str, int]
    start: int
    end: int
    partials: dict[str, Any]

    def meets(self, user: tuple[str, int], first: int, last: int) -> bool:
        return self.user == user and self.start <= last and self.end >= first


def fold_row(sessions: Sequence[Live], fragment: Fragment, schema: pa.Schema) -> list[Live]:
    """What one row makes of some sessions."""
    end = fragment.known_end
    if fragment.partials is None:
        return [session for session in sessions if not session.meets(fragment.user, fragment.start, end)]
    joined = sorted(
        (session for session in sessions if session.meets(fragment.user, fragment.start - GAP, end + GAP)),
        key=lambda session: session.start,
    )
    partials = fold_rows(
        COLUMNS,
        [*(session.partials for session in joined), dict(zip(TYPES, fragment.partials, strict=True))],
        schema,
    )
    start, end = min([fragment.start, *(s.start for s in joined)]), max([end, *(s.end for s in joined)])
    return [
        *(session for session in sessions if session not in joined),
        Live(fragment.user, start, end, partials),
    ]


FLOATS = st.sampled_from([0.1, 0.2, 0.3, -0.7, 1e16, -1e16])
PAGES = (st.none() | st.text("abc", max_size=3), st.none() | st.integers(0, 1))
PARTIALS = st.tuples(
    st.integers(1, 3), st.none() | FLOATS, st.none() | FLOATS, st.integers(0, 2), *PAGES, *PAGES
)
USERS = st.sampled_from([("a", 0), ("a", 0), ("a", 1), ("a\x00", 0)])
TIMES = st.integers(0, 50)


def fragments(ends: st.SearchStrategy[Any]) -> st.SearchStrategy[Fragment]:
    rows = st.tuples(USERS, TIMES, ends, PARTIALS | PARTIALS | PARTIALS | PARTIALS | PARTIALS | st.none())
    return rows.map(lambda row: Fragment(row[0], row[1], None if row[2] is None else row[1] + row[2], row[3]))


FRAGMENTS = fragments(st.integers(-2, 8) | st.integers(0, 2) | st.none())


def batch_of(rows: Sequence[Fragment], definition: StoreDefinition) -> pa.RecordBatch:
    partials = [row.partials or (None,) * len(TYPES) for row in rows]
    times = [pa.array([row.start for row in rows], TIME), pa.array([row.end for row in rows], TIME)]
    columns = [
        pa.array([row.user[place] for row in rows], kind)
        for place, kind in enumerate([pa.string(), pa.int32()])
    ]
    columns += [
        *times,
        *(pa.array([row[place] for row in partials], kind) for place, kind in enumerate(TYPES.values())),
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=definition.row_schema)
    flags = [row.partials is None for row in rows]
    return (
        batch.append_column(pa.field(TOMBSTONE_COLUMN, pa.bool_(), nullable=False), pa.array(flags))
        if any(flags)
        else batch
    )


def contents(store: PartitionStore, definition: StoreDefinition) -> dict[tuple[Any, ...], dict[str, Any]]:
    table = live_rows(view_of(store, definition))
    for name in ("session_start", "session_end"):
        table = table.set_column(table.schema.get_field_index(name), name, table[name].cast(pa.int64()))
    rows = table.to_pylist()
    return {
        tuple(row.pop(name) for name in ("country", "user", "session_start", "session_end")): row
        for row in rows
    }


def check(store: PartitionStore, definition: StoreDefinition, expected: Sequence[Live]) -> None:
    found = contents(store, definition)
    wanted = {
        (*session.user, session.start, session.end): visible_row(COLUMNS, session.partials)
        for session in expected
    }
    assert found.keys() == wanted.keys()
    for key, row in wanted.items():
        wrong = {
            name: (found[key][name], value)
            for name, value in row.items()
            if not is_same(found[key][name], value)
        }
        assert not wrong, (key, wrong)


PLAIN = (1, 0.1, 0.2, 1, "a", 1, "a", 1)


def fragment_at(start: int, end: int | None = None, *, is_tombstone: bool = False) -> Fragment:
    """A fragment whose page is the first or last one of its session only if it is folded first or last."""
    return Fragment(
        ("a", 0),
        start,
        end,
        None if is_tombstone else (1, start / 10, 1e16 / (start + 1), 1, *(str(start), 1) * 2),
    )


@settings(max_examples=80)
@given(
    st.lists(FRAGMENTS, min_size=1, max_size=16), st.lists(st.sampled_from(STEPS), min_size=16, max_size=16)
)
@example([fragment_at(0), fragment_at(5), fragment_at(11)], ["go on"] * 16)
@example([fragment_at(10), fragment_at(0), fragment_at(1), fragment_at(11), fragment_at(6)], ["go on"] * 16)
@example([fragment_at(20), fragment_at(0), fragment_at(12), fragment_at(6), fragment_at(16)], ["go on"] * 16)
@example(
    [fragment_at(20), fragment_at(0), fragment_at(12), fragment_at(6), fragment_at(16)],
    ["epoch", "go on", "go on", "epoch", "epoch"],
)
@example([fragment_at(10), fragment_at(0), fragment_at(21), fragment_at(16), fragment_at(5)], ["go on"] * 16)
@example(
    [
        fragment_at(40),
        fragment_at(20),
        fragment_at(30, 36),
        fragment_at(24),
        fragment_at(0),
        fragment_at(10, 15),
        fragment_at(4),
    ],
    ["go on"] * 16,
)
@example(
    [
        fragment_at(10),
        fragment_at(0),
        fragment_at(20),
        fragment_at(5),
        fragment_at(3, 11, is_tombstone=True),
        fragment_at(4),
    ],
    ["go on"] * 16,
)
def test_any_cut_into_epochs_equals_a_recomputation(rows: list[Fragment], steps: list[str]) -> None:
    definition = define()

    def equals_a_recomputation(store: PartitionStore, taken: Sequence[Fragment]) -> None:
        none: Sequence[Live] = []
        check(store, definition, reduce(partial(fold_row, schema=definition.row_schema), taken, none))

    apply_in_epochs(definition, rows, steps, partial(batch_of, definition=definition), equals_a_recomputation)


@pytest.mark.parametrize("key", KEYS, ids=", ".join)
@settings(max_examples=30)
@given(events=st.lists(st.tuples(USERS, TIMES), min_size=1, max_size=40), together=st.integers(1, 40))
def test_sessions_are_those_of_all_events(
    key: Sequence[str], events: list[tuple[tuple[str, int], int]], together: int
) -> None:
    """However late an event is, sessions are what is left between the pauses that are longer than the gap."""
    definition = define(key=key)
    expected: dict[tuple[Any, ...], int] = {}
    for user in {user for user, _ in events}:
        times = sorted(time for other, time in events if other == user)
        begins = [place for place, time in enumerate(times) if not place or time - times[place - 1] > GAP]
        for first, last in zip(begins, [*begins[1:], len(times)], strict=True):
            expected[*user, times[first], times[last - 1]] = last - first
    with new_partition(definition) as store:
        for first in range(0, len(events), together):
            rows = [Fragment(user, time, time, PLAIN) for user, time in events[first : first + together]]
            store.apply(Epoch(store.applied + 1), batch_of(rows, definition))
        assert {key: row["events"] for key, row in contents(store, definition).items()} == expected


@dataclass(frozen=True)
class Commit:
    """Rows, and how far the cutoff is, if it moves."""

    rows: tuple[Fragment, ...]
    cutoff: int | None


COMMITS = st.builds(Commit, st.lists(FRAGMENTS, max_size=4).map(tuple), st.none() | st.none() | TIMES)


@settings(max_examples=40)
@given(st.sampled_from(["session_start", "session_end"]), st.lists(COMMITS, min_size=1, max_size=8))
@example(
    "session_end",
    [
        Commit((fragment_at(0, 3), fragment_at(20)), None),
        Commit((fragment_at(8), fragment_at(14)), 5),
        Commit((fragment_at(2, 9),), None),
    ],
)
@example(
    "session_end", [Commit((), 10), Commit((fragment_at(5), fragment_at(5, 5), fragment_at(20, 5)), None)]
)
def test_what_is_past_its_retention_is_gone(column: str, commits: list[Commit]) -> None:
    definition = define(Retention(10, column))
    expected: list[Live] = []
    cutoff: int | None = None
    with (
        new_partition(definition) as alone,
        new_partition(definition) as halved,
        new_partition(definition) as together,
    ):
        waiting: list[Fragment] = []
        known: int | None = None
        for number, commit in enumerate(commits, 1):
            if commit.cutoff is not None and (cutoff is None or commit.cutoff > cutoff):
                if waiting:
                    together.apply(Epoch(number - 1), batch_of(waiting, definition), cutoff=known)
                    waiting = []
                known = cutoff = commit.cutoff
                expected = [
                    session
                    for session in expected
                    if (session.start if column == "session_start" else session.end) >= cutoff
                ]
            for row in commit.rows:
                time = row.start if column == "session_start" else row.known_end
                if row.partials is None or cutoff is None or time >= cutoff:
                    expected = fold_row(expected, row, definition.row_schema)
            batch = batch_of(commit.rows, definition) if commit.rows else None
            alone.apply(Epoch(number), batch, cutoff=cutoff)
            with folding_in_halves():
                halved.apply(Epoch(number), batch, cutoff=cutoff)
            waiting += commit.rows
            check(alone, definition, expected)
            check(halved, definition, expected)
        together.apply(
            Epoch(len(commits)), cut_batch(batch_of(waiting, definition)) if waiting else None, cutoff=known
        )
        check(together, definition, expected)


def test_rows_that_go_by_their_commit_are_as_new_as_their_last_fragment(tmp_path: Path) -> None:
    definition = define(Retention(10))

    def stored_batch(when: int, *rows: Fragment) -> pa.RecordBatch:
        times = pa.array([when] * len(rows), TIME)
        return batch_of(rows, definition).append_column(definition.stored_schema.field(WRITTEN_COLUMN), times)

    with closing(open_partition(definition, tmp_path)) as store:
        store.apply(Epoch(1), stored_batch(100, fragment_at(0), fragment_at(20)))
        store.apply(Epoch(2), stored_batch(200, fragment_at(4)))
        assert [key[2:] for key in contents(store, definition)] == [(20, 20), (0, 4)]
        store.apply(Epoch(3), None, cutoff=150)
        assert [key[2:] for key in contents(store, definition)] == [(0, 4)]
