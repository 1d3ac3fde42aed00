"""What rows that are committed make of the stores of the simulation, kind by kind, worked out row by row."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from engine.changelog import Commit
from engine.model.kinds import (
    Behaviour,
    Function,
    KeyValue,
    Merge,
    MergedColumn,
    Retention,
    Session,
    Versioned,
)
from engine.model.schema import GroupName, StoreDefinition, define_store
from engine.producers.partial_rows import partial_rows

GROUP = GroupName("g")
HOUR = 3_600_000_000
TOMBSTONE = "__tombstone"
COLUMNS = (MergedColumn("total", Function.SUM, of="amount"), MergedColumn("n", Function.COUNT))
GAP = HOUR // 6
Row = Mapping[int, Any]
"""Column numbers with values."""
Rows = dict[Any, Row]
"""Rows by their keys; several columns of a key are a tuple."""
Marks = dict[Any, Any]
"""What is known of keys beside their rows: when the last row of one went, or was committed."""
_TIME = pa.timestamp("us")


def partial_totals(amounts: Mapping[int, int]) -> pa.Table:
    """Amounts as rows of a store that adds them up."""
    events = {"key": pa.array(amounts, pa.int64()), "amount": pa.array(amounts.values(), pa.int64())}
    return partial_rows(pa.table(events), ["key"], COLUMNS)


def _define(name: str, columns: pa.Schema, behaviour: Behaviour) -> StoreDefinition:
    return define_store(name, columns, ["key"], partitions=2, group=GROUP, behaviour=behaviour)


_TIMED = pa.schema([("key", pa.int64()), ("at", _TIME), ("amount", pa.int32())])
_SUMS = partial_totals({1: 1}).schema
_SPANS = pa.schema([("key", pa.int64()), ("session_start", _TIME), ("session_end", _TIME), *list(_SUMS)[1:]])
LATEST = _define("latest", _TIMED, Behaviour(KeyValue("at"), retention=Retention(HOUR, "at")))
HISTORY = _define("history", _TIMED, Behaviour(Versioned("at"), retention=Retention(HOUR, "valid_to")))
SEEN = _define("seen", _SUMS, Behaviour(Merge(COLUMNS), retention=Retention(HOUR)))
SESSIONS = _define(
    "sessions", _SPANS, Behaviour(Session(GAP, COLUMNS), retention=Retention(HOUR, "session_end"))
)
PLAIN_LATEST = _define("plain latest", _TIMED, Behaviour(KeyValue("at")))
PLAIN_HISTORY = _define("plain history", _TIMED, Behaviour(Versioned("at")))
PLAIN_SESSIONS = _define("plain sessions", _SPANS, Behaviour(Session(GAP, COLUMNS)))
OTHER_KINDS = (LATEST, HISTORY, SEEN, SESSIONS, PLAIN_LATEST, PLAIN_HISTORY, PLAIN_SESSIONS)


# ---- what becomes of rows


def is_old(row: Row, shape: StoreDefinition, cutoff: int) -> bool:
    """Whether a row of a store whose retention goes by a column is past it."""
    retention = shape.behaviour.retention
    assert retention is not None
    return is_before(row[shape.column(retention.column).number], cutoff)


def goes_by_commits(shape: StoreDefinition) -> bool:
    """Whether rows of a store go a time after they were committed."""
    retention = shape.behaviour.retention
    return retention is not None and not retention.column


def is_before(at: Any, cutoff: int | None) -> bool:
    """Whether a time is there and before a cutoff."""
    return cutoff is not None and at is not None and int(pa.scalar(at, _TIME).value) < cutoff


def apply_entries(
    rows: Rows, marks: Marks, entries: Sequence[dict[str, Any]], shape: StoreDefinition, commit: Commit
) -> None:
    """Have rows of a store that were committed take effect.

    Args:
        rows: The rows that it has.
        marks: What is known beside them.
        entries: Rows of one partition, in commit order.
        shape: What the store is.
        commit: The commit.
    """
    kind, cutoff = shape.behaviour.kind, commit.cutoffs.get(shape.name)
    if isinstance(kind, Versioned):
        _apply_history(rows, entries, shape, kind, cutoff)
        return
    for entry in entries:
        if isinstance(kind, Session):
            _apply_fragment(rows, entry, shape, cutoff)
        elif isinstance(kind, KeyValue) and kind.order_by:
            _apply_latest(rows, marks, entry, shape, cutoff)
        elif goes_by_commits(shape):
            _apply_seen(rows, marks, entry, shape, commit)
        else:
            _apply_plain(rows, entry, shape, cutoff)


def identity_of(entry: dict[str, Any], shape: StoreDefinition) -> Any:
    """Take the key out of a row."""
    key = tuple(entry.pop(name) for name in shape.key)
    return key if len(key) > 1 else key[0]


def _row_of(entry: Mapping[str, Any], shape: StoreDefinition) -> Row:
    return {shape.column(name).number: value for name, value in entry.items()}


def _add(row: Row, before: Row) -> Row:
    return {number: value + before[number] for number, value in row.items()}


def _apply_plain(rows: Rows, entry: dict[str, Any], shape: StoreDefinition, cutoff: int | None) -> None:
    key = identity_of(entry, shape)
    if entry.pop(TOMBSTONE, False):
        rows.pop(key, None)
        return
    row = _row_of(entry, shape)
    if cutoff is not None and is_old(row, shape, cutoff):
        return
    is_merged = isinstance(shape.behaviour.kind, Merge) and key in rows
    rows[key] = _add(row, rows[key]) if is_merged else row


def _apply_seen(
    rows: Rows, marks: Marks, entry: dict[str, Any], shape: StoreDefinition, commit: Commit
) -> None:
    """A row is as new as the last one that was added to it."""
    key = identity_of(entry, shape)
    if entry.pop(TOMBSTONE, False):
        rows.pop(key, None)
        marks.pop(key, None)
    elif commit.committed_at >= commit.cutoffs.get(shape.name, commit.committed_at):
        row = _row_of(entry, shape)
        rows[key] = _add(row, rows[key]) if key in rows else row
        marks[key] = max(marks.get(key, commit.committed_at), commit.committed_at)


def _apply_latest(
    rows: Rows, marks: Marks, entry: dict[str, Any], shape: StoreDefinition, cutoff: int | None
) -> None:
    """The latest row stays, and when a later one was taken away, none that is earlier comes back."""
    key, is_gone = identity_of(entry, shape), entry.pop(TOMBSTONE, False)
    row, time = _row_of(entry, shape), LATEST.column("at").number
    at = row[time]
    if not is_gone and is_before(at, cutoff):
        return
    is_for_good = is_gone and at is None
    there = rows[key][time] if key in rows else marks.get(key)
    if not is_for_good and there is not None and (at is None or at < there):
        return
    rows.pop(key, None)
    marks.pop(key, None)
    if not is_gone:
        rows[key] = row
    elif not is_for_good:
        marks[key] = at


def _apply_history(
    rows: Rows, entries: Sequence[dict[str, Any]], shape: StoreDefinition, kind: Versioned, cutoff: int | None
) -> None:
    """Each row holds until the next one of its key; what was taken away never holds."""
    end = shape.column(kind.valid_to).number
    touched = set()
    for entry in entries:
        key, at = identity_of(entry, shape)
        is_gone = entry.pop(TOMBSTONE, False)
        touched.add(key)
        values = {number: None if is_gone else value for number, value in _row_of(entry, shape).items()}
        rows[key, at] = {**values, end: at if is_gone else None}
    for key in touched:
        times = sorted(at for other, at in rows if other == key)
        for at, following in zip(times, [*times[1:], None], strict=True):
            if rows[key, at][end] != at:
                rows[key, at] = {**rows[key, at], end: following}
        for at in times:
            if is_before(rows[key, at][end], cutoff):
                del rows[key, at]


def _apply_fragment(rows: Rows, entry: dict[str, Any], shape: StoreDefinition, cutoff: int | None) -> None:
    """A fragment and all sessions that are no further away than the gap are one session."""
    key, start = identity_of(entry, shape)
    is_gone = entry.pop(TOMBSTONE, False)
    row, last = _row_of(entry, shape), shape.column("session_end").number
    end = start if row[last] is None else max(start, row[last])
    if not is_gone and is_before(end, cutoff):
        return
    gap = dt.timedelta() if is_gone else dt.timedelta(microseconds=GAP)
    joined = [
        (other, first)
        for other, first in rows
        if other == key and rows[other, first][last] >= start - gap and first <= end + gap
    ]
    before = [rows.pop(each) for each in joined]
    if is_gone:
        return
    numbers = [number for number in row if number != last]
    sums = {number: row[number] + sum(each[number] for each in before) for number in numbers}
    rows[key, min([start, *(first for _, first in joined)])] = {
        **sums,
        last: max([end, *(each[last] for each in before)]),
    }


# ---- what jobs write


def timed_values(shape: StoreDefinition, changes: Mapping[int, int | None], at: int) -> list[int | None]:
    """The time of each row of changes to a store with one time in its rows."""
    kind = shape.behaviour.kind
    if isinstance(kind, Versioned):
        return [(at // GAP - key % 3) * GAP for key in changes]
    if not (isinstance(kind, KeyValue) and kind.order_by):
        return [at] * len(changes)
    return [
        None if (key + (amount or 0)) % 6 == 0 else (at // GAP - key % 3) * GAP
        for key, amount in changes.items()
    ]


def fragments(changes: Mapping[int, int | None], at: int) -> pa.Table:
    """Changes as fragments of sessions, of which some have no end, or one before the start."""
    amounts = {key: amount or 0 for key, amount in changes.items()}
    starts = [at // GAP * GAP - key * (amount or 1) % 9 * (GAP // 2) for key, amount in amounts.items()]
    ends = [
        None if amount % 7 == 3 else start + (amount % 4 - 1) * (GAP // 2)
        for start, amount in zip(starts, amounts.values(), strict=True)
    ]
    sums = partial_totals(amounts)
    times = [pa.array(starts, _TIME), pa.array(ends, _TIME)]
    return pa.table([sums.column(0), *times, *sums.columns[1:]], schema=_SPANS)
