"""Segments that were stored in one shape of their store and are seen in another."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from engine.errors import Unavailable
from engine.model.migration import (
    AddColumn,
    Change,
    DropColumn,
    RenameColumn,
    WidenColumn,
    migrate_definition,
)
from engine.model.schema import TOMBSTONE_COLUMN, Epoch, PartitionId, StoreDefinition, define_store
from engine.scan import Interval, RowFilter
from engine.state.cache import ColumnCache
from engine.state.formats import MANIFEST, SegmentId, block_key, segment_key
from engine.state.partition import PartitionStore
from engine.state.partition_shape import Migrated
from engine.state.state_options import StateOptions
from engine.state.state_view import StateView
from engine.state.storage import Pair

OPTIONS = StateOptions(block_rows=16)
ROWS = 64
CREATED = define_store(
    "plays",
    pa.schema([("song", pa.int64()), ("count", pa.int32()), ("note", pa.string())]),
    ["song"],
    partitions=1,
)
FIRST = SegmentId(1)


class Plays:
    """A partition with one segment of 64 rows, and what its store was and is.

    Args:
        directory: For its data.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.shapes = [CREATED]
        self.cache = ColumnCache(1 << 20)
        self.store = self._open()
        self.apply([(number, number * 10, f"n{number}") for number in range(ROWS)])

    def _open(self) -> PartitionStore:
        return PartitionStore(
            CREATED,
            PartitionId(0),
            self.directory,
            self.cache,
            OPTIONS,
            definition_at=lambda generation: self.shapes[generation],
        )

    @property
    def definition(self) -> StoreDefinition:
        return self.shapes[-1]

    @property
    def view(self) -> StateView:
        return StateView(self.definition, self.store.version.epoch, 0, {PartitionId(0): self.store.version})

    def migrate(self, *changes: Change) -> None:
        self.shapes.append(migrate_definition(self.definition, changes, len(self.shapes)))
        self.store.apply(Epoch(self.store.version.epoch + 1), None, migrated=self.now)

    @property
    def now(self) -> Migrated:
        return Migrated(self.definition, len(self.shapes) - 1)

    def apply(self, rows: Sequence[tuple[object, ...]], *, removed: bool = False) -> None:
        columns = zip(*rows, strict=True)
        arrays = [
            pa.array(column, field.type)
            for column, field in zip(columns, self.definition.schema, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.definition.schema)
        if removed:
            batch = batch.append_column(TOMBSTONE_COLUMN, pa.array([True] * len(rows)))
        self.store.apply(Epoch(self.store.version.epoch + 1), batch)

    def is_in_shape(self) -> bool:
        return self.store.is_in_shape

    def restart(self) -> None:
        self.store.close()
        self.store = self._open()

    def is_stored(self, column: int, segment: SegmentId = FIRST) -> bool:
        return self.store.context.storage.get(block_key(segment, column, 0)) is not None


@pytest.fixture
def plays(tmp_path: Path) -> Iterator[Plays]:
    plays = Plays(tmp_path / "plays")
    yield plays
    plays.store.close()


def column(view: StateView, name: str) -> list[object]:
    found: list[object] = view.scan([name]).to_table()[name].to_pylist()
    return found


def blocks_read(view: StateView, name: str, low: object, high: object = None) -> int:
    kind = view.definition.schema.field(name).type
    first, last = (None if bound is None else pa.scalar(bound, kind) for bound in (low, high))
    return view.scan([name], RowFilter(intervals={name: Interval(first, last)})).statistics.blocks_read


def test_old_and_new_rows_answer_together(plays: Plays) -> None:
    before = plays.view
    plays.migrate(
        AddColumn("rating", pa.float64(), "0.5"),
        WidenColumn("count", pa.int64()),
        RenameColumn("note", "remark"),
    )
    plays.apply([(1000, 1 << 40, "new", 4.0)])
    assert plays.view.scan(plays.definition.schema.names).to_table().schema == plays.definition.schema
    assert column(plays.view, "rating") == [0.5] * ROWS + [4.0]
    assert column(plays.view, "count") == [*range(0, ROWS * 10, 10), 1 << 40]
    assert column(plays.view, "remark") == [*(f"n{number}" for number in range(ROWS)), "new"]
    assert column(before, "note") == [f"n{number}" for number in range(ROWS)]
    assert before.scan(["count"]).to_table().schema == pa.schema([CREATED.schema.field("count")])


def test_statistics_of_columns_that_are_not_stored_are_right(plays: Plays) -> None:
    plays.migrate(
        AddColumn("rating", pa.int32(), "7"),
        AddColumn("mood", pa.string()),
        WidenColumn("count", pa.decimal128(20, 2)),
    )
    assert blocks_read(plays.view, "rating", 7, 7) == 4
    assert blocks_read(plays.view, "rating", 8) == 0
    assert blocks_read(plays.view, "mood", "") == 0, "NULL lies in no interval"
    assert blocks_read(plays.view, "count", 470, 470) == 1
    plays.migrate(WidenColumn("rating", pa.int64()))
    assert blocks_read(plays.view, "rating", 7, 7) == 4
    assert blocks_read(plays.view, "rating", 8) == 0
    plays.migrate(DropColumn("count"), AddColumn("count", pa.int32()))
    assert blocks_read(plays.view, "count", -1) == 0, "another column had that name"


def test_rows_of_one_block_in_two_shapes(plays: Plays) -> None:
    """Same names, types and places; another column."""
    places, schema = (0, 1), pa.schema([CREATED.schema.field(place) for place in (0, 1)])
    before = plays.view
    plays.migrate(DropColumn("count"), DropColumn("note"), AddColumn("count", pa.int32(), "-1"))
    for _ in range(3):
        old, new = before.row(5, places, schema), plays.view.row(5, places, schema)
        assert old is not None
        assert new is not None
        assert (old.to_pylist(), new.to_pylist()) == ([{"song": 5, "count": 50}], [{"song": 5, "count": -1}])


def test_a_rewrite_waits_for_nobody_and_takes_nothing_away(plays: Plays) -> None:
    before = plays.view
    plays.migrate(DropColumn("note"), WidenColumn("count", pa.int64()))
    size = plays.store.version.nbytes
    assert not plays.is_in_shape()
    assert plays.store.compact()
    assert plays.is_in_shape()
    assert not plays.store.compact()
    assert plays.store.version.nbytes < size
    assert plays.is_stored(column=2), "a view needs it"
    plays.cache.drop(list(plays.cache._entries))
    assert column(before, "note") == [f"n{number}" for number in range(ROWS)]
    del before
    plays.store.release()
    assert not plays.is_stored(column=2)
    assert column(plays.view, "count") == [*range(0, ROWS * 10, 10)]
    assert {key.segment for key in plays.cache._entries} == {2}


def test_a_view_of_a_migrated_store_keeps_the_old_segment(plays: Plays) -> None:
    """It sees it in another shape than it was opened in, and nobody else has it."""
    plays.migrate(RenameColumn("note", "remark"))
    view = plays.view
    plays.store.compact_fully()
    plays.store.release()
    plays.cache.drop(list(plays.cache._entries))
    assert column(view, "remark") == [f"n{number}" for number in range(ROWS)]


def test_what_a_rewrite_has_made_of_a_column_outlives_a_restart(plays: Plays) -> None:
    plays.migrate(AddColumn("rating", pa.float32(), "0.1"))
    plays.restart()
    assert plays.store.generation == 1
    assert not plays.is_in_shape()
    narrow = column(plays.view, "rating")
    plays.migrate(WidenColumn("rating", pa.float64()))
    lacking = column(plays.view, "rating")
    plays.restart()
    while plays.store.compact():
        pass
    plays.restart()
    assert plays.is_in_shape()
    assert column(plays.view, "rating") == lacking == narrow


@contextmanager
def before_the_next_write(store: PartitionStore, act: Callable[[], None]) -> Iterator[None]:
    """Have something done when a merge has read its segments and begins to write."""
    storage = store.context.storage
    write = storage.write

    def acting(pairs: Iterable[Pair], *, logged: bool = True) -> None:
        storage.write = write  # type: ignore[method-assign]
        act()
        write(pairs, logged=logged)

    storage.write = acting  # type: ignore[method-assign]
    yield


def test_a_merge_that_a_migration_overtakes(plays: Plays) -> None:
    plays.apply([(number, number * 10, f"n{number}") for number in range(ROWS, 2 * ROWS)])

    def overtake() -> None:
        plays.migrate(
            AddColumn("rating", pa.float64(), "0.5"), RenameColumn("note", "remark"), DropColumn("count")
        )
        plays.apply([(0, None, None)], removed=True)

    with before_the_next_write(plays.store, overtake):
        plays.store.compact_fully()
    assert len(plays.store.version.segments) == 1
    assert plays.store.version.live_rows == 2 * ROWS - 1
    assert not plays.is_in_shape()
    assert column(plays.view, "remark") == [f"n{number}" for number in range(2 * ROWS)]
    plays.restart()
    while plays.store.compact():
        pass
    assert plays.is_in_shape()
    assert sorted(column(plays.view, "remark"), key=str) == sorted(
        (f"n{number}" for number in range(1, 2 * ROWS)), key=str
    )


def test_a_migration_that_fails_leaves_the_old_shape(plays: Plays) -> None:
    storage = plays.store.context.storage
    write = storage.write_atomically

    def fail(*args: object) -> None:
        storage.write_atomically = write  # type: ignore[method-assign]
        raise Unavailable("The disk does not answer.")

    storage.write_atomically = fail  # type: ignore[method-assign,assignment]
    with pytest.raises(Unavailable):
        plays.migrate(DropColumn("count"))
    assert plays.store.generation == 0
    assert plays.store.apply(Epoch(2), None, migrated=plays.now).epoch == 2
    assert plays.store.generation == 1
    assert column(plays.view, "note") == [f"n{number}" for number in range(ROWS)]


def test_a_migration_of_another_store_of_the_group_is_noted(plays: Plays) -> None:
    plays.shapes.append(CREATED)
    plays.store.apply(Epoch(2), None, migrated=plays.now)
    plays.restart()
    assert plays.store.generation == 1
    assert plays.is_in_shape()


def in_the_first_format(store: PartitionStore) -> None:
    """Write the manifest and the segment's record as versions before migrations did: statistics by name."""
    storage = store.context.storage
    document = json.loads(storage.get(MANIFEST) or b"")
    del document["crc32"]
    del document["generation"]
    storage.write([(MANIFEST, json.dumps({**document, "format": 1}).encode())])
    batch = pa.ipc.open_stream(storage.get(segment_key(FIRST))).read_next_batch()
    numbers = json.loads(batch.schema.metadata[b"segment"])
    names = {str(number): CREATED.schema.names[number] for number in numbers["statistics"]}
    numbers |= {"format": 1, "statistics": list(names.values())}
    columns = [
        " ".join([what, *(names[number] for number in rest)])
        for what, *rest in (name.split(" ") for name in batch.schema.names)
    ]
    sink = pa.BufferOutputStream()
    renamed = pa.RecordBatch.from_arrays(batch.columns, columns).replace_schema_metadata(
        {"segment": json.dumps(numbers)}
    )
    with pa.ipc.new_stream(sink, renamed.schema) as writer:
        writer.write_batch(renamed)
    storage.write([(segment_key(FIRST), bytes(sink.getvalue()))])


def test_segments_of_the_first_format(plays: Plays) -> None:
    in_the_first_format(plays.store)
    plays.restart()
    assert blocks_read(plays.view, "count", 470, 470) == 1
    plays.migrate(RenameColumn("count", "plays"), AddColumn("count", pa.int32(), "7"))
    plays.restart()
    assert blocks_read(plays.view, "plays", 470, 470) == 1
    assert blocks_read(plays.view, "count", 7, 7) == 4
    assert column(plays.view, "plays") == [*range(0, ROWS * 10, 10)]


def test_an_added_column_of_many_blocks_is_read_with_dead_rows_between(tmp_path: Path) -> None:
    plays = Plays(tmp_path / "more")
    with closing(plays.store):
        plays.apply([(number, 0, "") for number in range(0, ROWS, 2)], removed=True)
        plays.migrate(AddColumn("rating", pa.int32(), "3"))
        found = plays.view.lookup(["song", "rating"], pa.record_batch({"song": np.arange(ROWS)}))
        assert sorted(found["song"].to_pylist()) == list(range(1, ROWS, 2))
        assert found["rating"].to_pylist() == [3] * (ROWS // 2)
