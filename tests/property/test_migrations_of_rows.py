"""Random migrations, epochs and writers in old and new shapes: what the changelog gives back is what a plain
model has.

The model tells columns apart by objects, never by names, places or numbers.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.changelog import Changelog, Commit, DataFile, Writer, decode_file, encode_file, partition_rows
from engine.changelog.objects import open_objects
from engine.errors import InvalidInput
from engine.model.kinds import PLAIN, Behaviour, KeyValue, Retention, Versioned
from engine.model.migration import AddColumn, Change, DropColumn, RenameColumn, WidenColumn
from engine.model.schema import (
    TOMBSTONE_COLUMN,
    Epoch,
    GroupName,
    PartitionId,
    StoreDefinition,
    StoreName,
    define_store,
)

GROUP = GroupName("g")
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
CREATED = pa.schema(
    [
        ("k", pa.int64()),
        ("o", pa.int64()),
        ("a", pa.int32()),
        ("s", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
BEHAVIOURS = {
    "plain": PLAIN,
    "latest": Behaviour(KeyValue(order_by="o")),
    "retained by commit": Behaviour(retention=Retention(10**15)),
    "retained by time": Behaviour(retention=Retention(10**15, "at")),
    "versioned": Behaviour(Versioned("at")),
}
FIXED = {
    "plain": set[str](),
    "latest": {"o"},
    "retained by commit": set[str](),
    "retained by time": {"at"},
    "versioned": {"at"},
}
WIDER: Mapping[pa.DataType, Sequence[pa.DataType]] = {
    pa.int32(): [pa.int64(), pa.float64(), pa.decimal128(12, 2)],
    pa.int64(): [pa.decimal128(20, 0)],
    pa.float32(): [pa.float64()],
    pa.decimal128(12, 2): [pa.decimal128(15, 3)],
}
NEW_COLUMNS: Sequence[tuple[pa.DataType, str | None, Any]] = [
    (pa.int32(), "7", 7),
    (pa.int64(), None, None),
    (pa.string(), "it's", "it's"),
    (pa.float32(), "0.5", 0.5),
    (pa.decimal128(12, 2), "1.5", Decimal("1.50")),
    (pa.list_(pa.int64()), None, None),
]
NAMES = ["a", "b", "c", "o", "s", "at", "k", "k2"]
SEEDS = st.integers(0, 10**6)
ACTIONS = st.one_of(
    st.tuples(st.just("migrate"), SEEDS),
    st.tuples(st.just("migrate other"), SEEDS),
    st.tuples(st.just("append"), SEEDS),
    st.tuples(st.just("stage"), SEEDS),
    st.tuples(st.just("commit staged"), SEEDS),
    st.tuples(st.just("new writer"), SEEDS),
)


@dataclass(eq=False)
class Identity:
    """A column through all its names and types.

    Attributes:
        default: Its value in rows that were written before it came.
    """

    default: Any = None


@dataclass(frozen=True)
class Known:
    """A column in one shape of the store."""

    name: str
    kind: pa.DataType
    identity: Identity


Shape = tuple[Known, ...]
Row = Mapping[Identity, Any]


@dataclass
class Model:
    """What the changelog must contain.

    Attributes:
        shapes: Generations and shapes of the store, oldest first.
        generation: How many migrations there are, those of the other store included.
        epochs: Rows and generation of each epoch, from 1.
        staged: What was staged for the next epoch.
    """

    shapes: list[tuple[int, Shape]]
    fixed: set[Identity]
    generation: int = 0
    epochs: list[tuple[list[Row], int]] = field(default_factory=list)
    staged: list[tuple[DataFile, Row]] = field(default_factory=list)

    def shape_at(self, generation: int) -> Shape:
        return [shape for since, shape in self.shapes if since <= generation][-1]

    def taken_for(self, shape: Shape) -> Shape:
        """Of the shapes that look like one, the newest."""
        return [
            other
            for _, other in self.shapes
            if [(c.name, c.kind) for c in other] == [(c.name, c.kind) for c in shape]
        ][-1]


def value(kind: pa.DataType, seed: int) -> Any:
    if pa.types.is_timestamp(kind):
        return START + dt.timedelta(minutes=seed % 1000)
    if pa.types.is_string(kind):
        return f"text {seed % 50}"
    if pa.types.is_list(kind):
        return [seed % 3]
    if pa.types.is_decimal(kind):
        return Decimal(seed % 1000).quantize(Decimal(1).scaleb(-kind.scale))
    return seed % 1000 / 4 if pa.types.is_floating(kind) else seed % 1000


def as_kind(found: Any, kind: pa.DataType) -> Any:
    if found is None:
        return None
    if pa.types.is_decimal(kind):
        return Decimal(found).quantize(Decimal(1).scaleb(-kind.scale))
    return float(found) if pa.types.is_floating(kind) else found


class Run:
    """A changelog and its model, driven by the same actions."""

    def __init__(self, behaviour: str) -> None:
        self._objects = open_objects("memory://", {})
        self._fixed = FIXED[behaviour]
        self._store = define_store(
            "t", CREATED, ["k"], partitions=2, group=GROUP, behaviour=BEHAVIOURS[behaviour]
        )
        self._other = define_store("other", pa.schema([("k", pa.int64())]), ["k"], partitions=1, group=GROUP)
        self._changelog = self._reopen()
        for store in (self._store, self._other):
            self._changelog.create_store(store)
        shape = tuple(Known(field.name, field.type, Identity()) for field in self._store.row_schema)
        self.model = Model(
            [(0, shape)], {c.identity for c in shape if c.name in self._fixed or c.name in self._store.key}
        )
        self._numbers = itertools.count()
        self._writer: Writer
        self.new_writer(0)

    def _reopen(self) -> Changelog:
        return Changelog("memory://", {}, self._objects)

    def new_writer(self, seed: int) -> None:
        self._writer = self._reopen().writer(GROUP, f"w{seed}")
        self.model.epochs.append(([], self.model.generation))
        self.model.staged.clear()

    def migrate(self, seed: int) -> None:
        changes: list[Change] = []
        shape = self.model.shapes[-1][1]
        for part in range(1 + seed % 3):
            change, shape = self._change(shape, seed // 3 + part * 7919)
            changes += [change] if change is not None else []
        if not changes:
            return
        migration = self._reopen().migrate_store(self._store.name, changes)
        self.model.generation += 1
        self.model.shapes.append((self.model.generation, shape))
        assert migration.number == migration.after.generation == self.model.generation
        assert [(f.name, f.type) for f in migration.after.row_schema] == [(c.name, c.kind) for c in shape]

    def _change(self, shape: Shape, seed: int) -> tuple[Change | None, Shape]:
        taken = {c.name for c in shape} | {"valid_to"}
        free = [name for name in NAMES if name not in taken]
        column = shape[seed // 4 % len(shape)]
        place = shape.index(column)
        if seed % 4 == 0 and free:
            kind, text, default = NEW_COLUMNS[seed // 4 % len(NEW_COLUMNS)]
            name = free[seed // 5 % len(free)]
            return AddColumn(name, kind, text), (*shape, Known(name, kind, Identity(default)))
        if seed % 4 == 1 and free:
            name = free[seed // 5 % len(free)]
            return RenameColumn(column.name, name), (
                *shape[:place],
                replace(column, name=name),
                *shape[place + 1 :],
            )
        if column.identity in self.model.fixed:
            return None, shape
        if seed % 4 == 2 and column.kind in WIDER:
            wider = WIDER[column.kind][seed // 5 % len(WIDER[column.kind])]
            return WidenColumn(column.name, wider), (
                *shape[:place],
                replace(column, kind=wider),
                *shape[place + 1 :],
            )
        if seed % 4 == 3:
            return DropColumn(column.name), (*shape[:place], *shape[place + 1 :])
        return None, shape

    def migrate_other(self, seed: int) -> None:
        self._reopen().migrate_store(
            self._other.name, [AddColumn(f"c{seed}_{next(self._numbers)}", pa.int64(), "1")]
        )
        self.model.generation += 1

    def _rows(self, seed: int) -> tuple[dict[PartitionId, pa.RecordBatch], list[Row]]:
        """Rows in some shape, old or new, as a job has them that knows only that one."""
        since, shape = self.model.shapes[seed % len(self.model.shapes)]
        definition = self._reopen().definition_at(self._store.name, since)
        assert definition is not None
        count = seed // 7 % 4
        values = {
            c.name: [value(c.kind, seed + 31 * row + 7 * place) for row in range(count)]
            for place, c in enumerate(shape)
        }
        for place, c in enumerate(shape):
            if c.identity not in self.model.fixed and seed % 5 == place:
                values[c.name] = [None] * count
        keys = [next(self._numbers) for _ in range(count)]
        values[definition.key[0]] = keys
        table = pa.table({c.name: pa.array(values[c.name], c.kind) for c in reversed(shape)})
        meant = self.model.taken_for(shape)
        rows: list[Row] = [
            {m.identity: values[c.name][row] for c, m in zip(shape, meant, strict=True)}
            for row in range(count)
        ]
        return partition_rows(definition, table), rows

    def append(self, seed: int) -> None:
        placed, rows = self._rows(seed)
        self._took(self._writer.append({self._store.name: placed}), rows)

    def stage(self, seed: int) -> None:
        placed, rows = self._rows(seed)
        file = self._reopen().stage(GROUP, self._writer.next_epoch, {self._store.name: placed}, task="t")
        assert file.generation == self.model.generation
        self.model.staged += [(decode_file(encode_file(file)), row) for row in rows]

    def commit_staged(self, _: int) -> None:
        files = list(dict.fromkeys(file for file, _ in self.model.staged))
        self._took(self._writer.commit(files), [row for _, row in self.model.staged])

    def _took(self, commit: Commit, rows: list[Row]) -> None:
        assert commit.generation == self.model.generation
        self.model.epochs.append((rows, commit.generation))
        self.model.staged.clear()

    def check(self) -> None:
        """Every epoch is what the model has, in the shape of its own generation and in the newest one."""
        reader = self._reopen()
        assert reader.newest_epoch(GROUP) == len(self.model.epochs)
        newest = reader.definitions()
        assert reader.generation(GROUP) == self.model.generation
        for epoch, (rows, generation) in enumerate(self.model.epochs, start=1):
            commit = reader.read_commit(GROUP, Epoch(epoch))
            assert commit is not None
            assert commit.generation == generation
            then = reader.definition_at(self._store.name, generation)
            assert then is not None
            for definitions, shape in (
                ({then.name: then}, self.model.shape_at(generation)),
                (newest, self.model.shape_at(self.model.generation)),
            ):
                expected = [
                    {c.name: as_kind(row.get(c.identity, c.identity.default), c.kind) for c in shape}
                    for row in rows
                ]
                assert read_rows(reader, commit, definitions, self._store.name) == sorted(expected, key=repr)


def read_rows(
    changelog: Changelog, commit: Commit, definitions: Mapping[StoreName, StoreDefinition], store: StoreName
) -> list[dict[str, Any]]:
    """The rows of a store in a commit."""
    batches = changelog.read_rows(commit, definitions).values()
    assert all(batch.schema == definitions[store].row_schema for batch in batches)
    return sorted((row for batch in batches for row in batch.to_pylist()), key=repr)


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
@settings(max_examples=60)
@given(actions=st.lists(ACTIONS, max_size=25))
def test_rows_of_all_shapes_come_back(behaviour: str, actions: list[tuple[str, int]]) -> None:
    run = Run(behaviour)
    for action, seed in actions:
        getattr(run, action.replace(" ", "_"))(seed)
    run.check()


def test_the_actions_reach_what_they_are_for() -> None:
    """Random migrations are of no use if few of them are made."""
    run = Run("plain")
    for seed in range(60):
        run.migrate(seed)
        run.append(seed + 5)
    run.check()
    assert len(run.model.shapes) > 40
    assert len({column.kind for _, shape in run.model.shapes for column in shape}) > 6


def test_tombstones_of_an_old_shape_stay_tombstones() -> None:
    changelog = Changelog.open("memory://")
    store = changelog.create_store(define_store("t", CREATED, ["k"], partitions=1))
    changelog.migrate_store(store.name, [AddColumn("b", pa.int64(), "1"), DropColumn("a")])
    table = pa.table(
        {"k": [1, 2], "o": [1, 2], "a": [1, 2], "s": ["x", "y"], "at": [START, START], "gone": [True, False]}
    )
    placed = partition_rows(store, table, tombstone_column="gone")
    commit = changelog.writer(store.group, "w").append({store.name: placed})
    (batch,) = changelog.read_rows(commit, changelog.definitions()).values()
    assert batch.schema.names == ["k", "o", "s", "at", "b", TOMBSTONE_COLUMN]
    assert (batch["b"].to_pylist(), batch[TOMBSTONE_COLUMN].to_pylist()) == ([1, 1], [True, False])


def test_rows_of_no_shape_are_refused() -> None:
    changelog = Changelog.open("memory://")
    store = changelog.create_store(define_store("t", CREATED, ["k"], partitions=1))
    writer = changelog.writer(store.group, "w")
    changelog.migrate_store(store.name, [DropColumn("a")])
    strange = pa.RecordBatch.from_pydict(
        {"k": [1], "s": ["x"]}, pa.schema([pa.field("k", pa.int64(), nullable=False), ("s", pa.string())])
    )
    with pytest.raises(
        InvalidInput,
        match=(
            r"the column o, at is missing.*the store is t \(k BIGINT, o BIGINT, s VARCHAR, at TIMESTAMP "
            r"WITH TIME ZONE\)"
        ),
    ):
        writer.append({store.name: {PartitionId(0): strange}})
    assert writer.append({}).generation == 1
