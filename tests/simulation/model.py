"""What the stores of the simulation have after each commit, worked out row by row from what was committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import Any

import pyarrow as pa

from engine.changelog import Changelog, Commit
from engine.changelog.rows import partition_rows
from engine.model.kinds import Behaviour, Merge, Retention, Session
from engine.model.migration import AddColumn, Change, DropColumn, RenameColumn, WidenColumn
from engine.model.schema import PartitionId, StoreDefinition, StoreName, define_store
from engine.state.state_view import StateView
from tests.simulation.kinds import (
    COLUMNS,
    GROUP,
    HOUR,
    Row,
    apply_entries,
    fragments,
    goes_by_commits,
    identity_of,
    is_before,
    is_old,
    partial_totals,
    timed_values,
)
from tests.support.following import live_rows

KEYS = 8

AMOUNTS = define_store(
    "amounts", pa.schema([("key", pa.int64()), ("amount", pa.int32())]), ["key"], partitions=2, group=GROUP
)
TOTALS = define_store(
    "totals",
    partial_totals({1: 1}).schema,
    ["key"],
    partitions=2,
    group=GROUP,
    behaviour=Behaviour(Merge(COLUMNS)),
)
RECENT = define_store(
    "recent",
    pa.schema([("key", pa.int64()), ("at", pa.timestamp("us")), ("amount", pa.int64())]),
    ["key"],
    partitions=2,
    group=GROUP,
    behaviour=Behaviour(retention=Retention(HOUR, "at")),
)
STORES = (AMOUNTS, TOTALS, RECENT)
WATCHED = define_store(
    "watched",
    pa.schema([("key", pa.int64()), ("amount", pa.int64())]),
    ["key"],
    partitions=2,
    group=GROUP,
    behaviour=Behaviour(in_memory=True),
)
"""Its rows are in memory alone, and come from the changelog again after each start."""
OTHER_AMOUNTS = define_store(
    "amounts", pa.schema([("key", pa.int64()), ("sum", pa.int64())]), ["key"], partitions=2, group=GROUP
)
"""Another store of the name, which can be created after `AMOUNTS` was dropped."""
Tables = Mapping[tuple[StoreName, PartitionId], pa.Table]


@dataclass(frozen=True)
class State:
    """What stores have after a commit.

    Attributes:
        shapes: What they are.
        rows: The row of each key of each.
        drops: The amendments that have ended the last store of a name, by name.
        marks: What is known of keys of each beside the rows.
        cutoffs: The last cutoff of each, where it had one.
    """

    shapes: Mapping[StoreName, StoreDefinition] = field(default_factory=dict)
    rows: Mapping[StoreName, Mapping[Any, Row]] = field(default_factory=dict)
    drops: Mapping[StoreName, int] = field(default_factory=dict)
    marks: Mapping[StoreName, Mapping[Any, Any]] = field(default_factory=dict)
    cutoffs: Mapping[StoreName, int] = field(default_factory=dict)

    def follow(self, commit: Commit, heard: Changelog, tables: Tables) -> State:
        """What stores have after the commit that follows.

        Args:
            commit: The commit.
            heard: The changelog as who has heard of no store that ends behind the commit.
            tables: The rows of the commit, in the shapes that stores have there.
        """
        shapes = shapes_at(heard, commit)
        drops = {name: drop.number for name, drop in heard.exclusions(GROUP).drops.items()}
        rows = {
            name: {
                key: _convert(row, self.shapes.get(name, shape), shape)
                for key, row in self.rows.get(name, {}).items()
                if drops.get(name) == self.drops.get(name)
            }
            for name, shape in shapes.items()
        }
        same = {name for name in shapes if drops.get(name) == self.drops.get(name)}
        marks = {name: dict(self.marks.get(name, {})) if name in same else {} for name in shapes}
        cutoffs = {name: cutoff for name, cutoff in self.cutoffs.items() if name in same}
        for name in commit.replaced:
            rows[name], marks[name] = {}, {}
        for name, cutoff in commit.cutoffs.items():
            if name in shapes and cutoff > cutoffs.get(name, cutoff - 1):
                _expire(rows[name], marks[name], shapes[name], cutoff)
                cutoffs[name] = cutoff
        for (name, _), table in tables.items():
            if name in shapes:
                apply_entries(rows[name], marks[name], table.to_pylist(), shapes[name], commit)
        return State(shapes, rows, drops, marks, cutoffs)

    def rows_of(self, view: StateView, *, is_past: bool = False) -> dict[Any, dict[str, Any]]:
        """What a view must have.

        Args:
            view: The view.
            is_past: Whether it is read by those alone who take what was, in terms of what is: a store that
                took the place of another one later is there, and has no rows.
        """
        name = view.definition.name
        since, drop = view.definition.since, self.drops.get(name, 0)
        if is_past and since > drop:
            return {}
        assert since == drop, f"{name}, epoch {view.epoch}: the one after amendment {since}, not after {drop}"
        names = _column_names(self.shapes.get(name, view.definition))
        return {
            key: {names[number]: value for number, value in row.items()}
            for key, row in self.rows.get(name, {}).items()
            if partition_of(key[0] if isinstance(key, tuple) else key) in view.versions
        }


def shapes_at(heard: Changelog, commit: Commit) -> Mapping[StoreName, StoreDefinition]:
    """What the stores are at a commit."""
    shapes = {}
    for name in heard.definitions():
        shape = heard.definition_at(name, commit.generation)
        assert shape is not None
        shapes[name] = shape
    return shapes


def view_rows(view: StateView) -> dict[Any, dict[str, Any]]:
    """What a view has, by key."""
    found = live_rows(view).to_pylist()
    rows = {identity_of(row, view.definition): row for row in found}
    assert len(rows) == len(found), "a key is there twice"
    return rows


@lru_cache(2 * KEYS)
def partition_of(key: int) -> PartitionId:
    """The partition of a key, in each of the stores."""
    rows = pa.table({"key": pa.array([key], pa.int64()), "amount": pa.array([0], pa.int32())})
    return next(iter(partition_rows(AMOUNTS, rows)))


def _column_names(shape: StoreDefinition) -> dict[int, str]:
    return {
        column.number: name
        for name, column in zip(shape.stored_schema.names, shape.columns, strict=True)
        if name not in shape.key and not name.startswith("__")
    }


def _convert(row: Row, before: StoreDefinition, after: StoreDefinition) -> Row:
    """A row in another shape of its store."""
    if before.generation == after.generation:
        return row
    converted = {}
    for name, column in zip(after.stored_schema.names, after.columns, strict=True):
        if name != "key":
            numbers = [column.number, *(number for number, _ in column.older)]
            default = column.default_value(after.stored_schema.field(name).type).as_py()
            converted[column.number] = next((row[number] for number in numbers if number in row), default)
    return converted


def _expire(rows: dict[Any, Row], marks: dict[Any, Any], shape: StoreDefinition, cutoff: int) -> None:
    """Have go what is past its retention."""
    by_mark = goes_by_commits(shape)
    gone = [key for key, at in marks.items() if is_before(at, cutoff)]
    old = gone if by_mark else [key for key, row in rows.items() if is_old(row, shape, cutoff)]
    for key in gone:
        del marks[key]
    for key in old:
        del rows[key]


# ---- what jobs write


def draw_changes(draw: Random) -> dict[int, int | None]:
    """Keys with amounts; None where a row goes."""
    keys = draw.sample(range(KEYS), draw.randint(1, 3))
    return {key: draw.choice([None, draw.randrange(100), draw.randrange(100)]) for key in keys}


def rows_to_write(
    shape: StoreDefinition, changes: Mapping[int, int | None], at: int
) -> Mapping[PartitionId, pa.RecordBatch]:
    """Changes as rows of a store.

    Args:
        shape: One of the shapes of the store.
        changes: As `draw_changes` gives them.
        at: The time of the rows, microseconds since 1970 UTC.
    """
    amounts = {key: amount or 0 for key, amount in changes.items()}
    if isinstance(shape.behaviour.kind, Merge):
        rows = partial_totals(amounts)
    elif isinstance(shape.behaviour.kind, Session):
        rows = fragments(changes, at)
    else:
        columns = {"key": pa.array(amounts, pa.int64())}
        for schema_field in shape.row_schema:
            if schema_field.name != "key":
                is_time = pa.types.is_timestamp(schema_field.type)
                values: Sequence[Any] = timed_values(shape, changes, at) if is_time else [*amounts.values()]
                columns[schema_field.name] = pa.array(values, schema_field.type)
        rows = pa.table(columns)
    gone = [changes[key] is None for key in rows["key"].to_pylist()]
    return partition_rows(shape, rows.append_column("gone", [gone]), tombstone_column="gone")


def draw_migration(draw: Random, shape: StoreDefinition) -> Change:
    """A change of `AMOUNTS` or `LATEST` that its shape can take, as a rule."""
    names = [name for name in shape.row_schema.names if name not in shape.key]
    name = draw.choice(names)
    changes: list[Change] = [
        AddColumn(f"more_{shape.next_column}", pa.int64(), draw.choice([None, "7"])),
        RenameColumn(name, f"other_{shape.next_column}_{draw.randrange(1000)}"),
    ]
    if len(names) > 1:
        changes.append(DropColumn(name))
    if shape.row_schema.field(name).type == pa.int32():
        changes.append(WidenColumn(name, pa.int64()))
    return draw.choice(changes)
