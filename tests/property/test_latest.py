"""Key-value stores that keep the latest row by an order column, against a dict that takes one row after the
other.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.changelog import Changelog, open_appender
from engine.model.kinds import Behaviour, KeyValue, Retention
from engine.model.schema import TOMBSTONE_COLUMN, Epoch, PartitionId, StoreDefinition, define_store
from engine.state.live_rows import live_rows
from engine.state.partition import PartitionStore
from tests.support import following
from tests.support.partitions import cut_batch, folding_in_halves, new_partition, open_partition, view_of

SCHEMA = pa.schema([("k", pa.int64()), ("seen", pa.timestamp("us")), ("n", pa.int64())])
FOR_EVER = define_store("store", SCHEMA, ["k"], partitions=1, behaviour=Behaviour(KeyValue("seen")))
FOR_A_TIME = define_store(
    "store", SCHEMA, ["k"], partitions=1, behaviour=Behaviour(KeyValue("seen"), Retention(1, "seen"))
)


@dataclass(frozen=True)
class Row:
    """A row, or a tombstone; `seen` may be null."""

    key: int
    seen: int | None
    gone: bool = False


@dataclass(frozen=True)
class Step:
    """What happens: rows come as an epoch, and then something may happen to the partition."""

    rows: tuple[Row, ...]
    cutoff: int | None = None
    replaces: bool = False
    then: str = ""
    is_cut: bool = False
    is_halved: bool = False


THEN = ("", "", "", "compact", "restart", "move")
ROW = st.builds(Row, st.integers(0, 4), st.none() | st.integers(0, 9), st.booleans())
STEPS = st.lists(
    st.builds(
        Step,
        st.lists(ROW, max_size=6).map(tuple),
        st.none() | st.none() | st.integers(0, 11),
        st.sampled_from([False] * 7 + [True]),
        st.sampled_from(THEN),
        st.booleans(),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
)


class Model:
    """A dict of what there is of a key: its order, whether it is alive, and the number of its row."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[int | None, bool, int]] = {}
        self.cutoff: int | None = None

    def is_old(self, seen: int | None) -> bool:
        return self.cutoff is not None and seen is not None and seen < self.cutoff

    def begin(self, cutoff: int | None, *, replaces: bool) -> None:
        if replaces:
            self.known.clear()
        if cutoff is not None and (self.cutoff is None or cutoff > self.cutoff):
            self.cutoff = cutoff
            self.known = {key: entry for key, entry in self.known.items() if not self.is_old(entry[0])}

    def take(self, row: Row, number: int) -> None:
        if not row.gone and self.is_old(row.seen):
            return
        if row.gone and row.seen is None:
            self.known.pop(row.key, None)
            return
        before = self.known.get(row.key)
        if before is None or before[0] is None or (row.seen is not None and row.seen >= before[0]):
            self.known[row.key] = (row.seen, not row.gone, number)

    def alive(self) -> dict[int, tuple[int | None, int]]:
        return {key: (seen, number) for key, (seen, is_alive, number) in self.known.items() if is_alive}


def batch_of(rows: Sequence[Row], first: int) -> pa.RecordBatch | None:
    if not rows:
        return None
    columns = [[row.key for row in rows], [row.seen for row in rows], list(range(first, first + len(rows)))]
    batch = pa.RecordBatch.from_arrays(
        [pa.array(values, pa.int64()) for values in columns], ["k", "seen", "n"]
    ).cast(FOR_EVER.row_schema)
    if not any(row.gone for row in rows):
        return batch
    return batch.append_column(
        pa.field(TOMBSTONE_COLUMN, pa.bool_(), nullable=False), pa.array([row.gone for row in rows])
    )


def contents(definition: StoreDefinition, store: PartitionStore) -> dict[int, tuple[int | None, int]]:
    table = following.live_rows(view_of(store, definition))
    columns = [table[name].cast(pa.int64()).to_pylist() for name in ("k", "seen", "n")]
    assert len(set(columns[0])) == len(columns[0])
    return {key: (seen, number) for key, seen, number in zip(*columns, strict=True)}


@settings(max_examples=40)
@given(STEPS, st.booleans())
@example(
    [
        Step((Row(1, 5),)),
        Step((Row(1, 7, gone=True),)),
        Step((Row(1, 6),), then="move"),
        Step((Row(1, 6),)),
        Step((Row(1, 7),)),
    ],
    False,
)
@example([Step((Row(1, 5, gone=True), Row(1, None, gone=True), Row(1, 1)), then="compact")], False)
@example(
    [
        Step((Row(1, 5, gone=True), Row(1, 6), Row(1, 7, gone=True), Row(2, 1)), then="restart", is_cut=True),
        Step((Row(1, 6),)),
    ],
    False,
)
@example(
    [
        Step((Row(1, 5, gone=True),)),
        Step((Row(1, 6),), cutoff=6),
        Step((Row(1, 6, gone=True),)),
        Step((Row(1, 7),), cutoff=8),
    ],
    True,
)
def test_the_latest_row_wins_in_any_order_of_arrival(steps: list[Step], expires: bool) -> None:
    definition = FOR_A_TIME if expires else FOR_EVER
    model, number = Model(), 0
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory) / "first"
        store = open_partition(definition, home)
        try:
            for place, step in enumerate(steps):
                cutoff = step.cutoff if expires else None
                model.begin(cutoff, replaces=step.replaces)
                batch = batch_of(step.rows, number)
                rows = cut_batch(batch) if step.is_cut and batch is not None else batch
                with folding_in_halves() if step.is_halved else nullcontext():
                    store.apply(Epoch(place + 1), rows, replaces=step.replaces, cutoff=cutoff)
                for row in step.rows:
                    model.take(row, number)
                    number += 1
                if step.then == "compact":
                    store.compact_fully()
                if step.then == "move":
                    # Another host begins with a snapshot of this one.
                    home = Path(directory) / str(place)
                    other = open_partition(definition, home)
                    other.restore(store.version.epoch, live_rows(store.version, 100), model.cutoff)
                    store.close()
                    store = other
                if step.then in ("restart", "move"):
                    store.close()
                    store = open_partition(definition, home)
                assert contents(definition, store) == model.alive()
        finally:
            store.close()


@settings(max_examples=25)
@given(st.lists(ROW, min_size=1, max_size=25), st.lists(st.booleans(), min_size=25, max_size=25))
def test_any_cut_into_epochs_gives_the_same_rows(rows: list[Row], cuts: list[bool]) -> None:
    model = Model()
    with new_partition(FOR_EVER) as store:
        begin = 0
        for end in range(1, len(rows) + 1):
            model.take(rows[end - 1], end - 1)
            if cuts[end - 1] or end == len(rows):
                store.apply(Epoch(end), batch_of(rows[begin:end], begin))
                begin = end
        assert contents(FOR_EVER, store) == model.alive()


@pytest.mark.parametrize(
    ("kind", "rising"),
    [
        (pa.string(), ["", "B", "a", "é"]),
        (pa.float64(), [float("-inf"), 0.5, 7.0, float("nan")]),
        (pa.date32(), ["1969-12-31", "2026-01-02", "2026-11-01"]),
        (pa.decimal128(38, 2), ["-1.00", "0.01", "100.00"]),
    ],
)
def test_orders_of_every_type(tmp_path: Path, kind: pa.DataType, rising: list[Any]) -> None:
    definition = define_store(
        "store",
        pa.schema([("k", pa.int64()), ("at", kind)]),
        ["k"],
        partitions=1,
        behaviour=Behaviour(KeyValue("at")),
    )
    values = pa.array([*rising, None], None if pa.types.is_floating(kind) else pa.string()).cast(kind)
    store = open_partition(definition, tmp_path)
    for epoch, place in enumerate([1, 0, len(rising) - 1, len(rising), 1]):
        store.apply(
            Epoch(epoch + 1),
            pa.RecordBatch.from_arrays(
                [pa.array([1]), values[place : place + 1]], schema=definition.row_schema
            ),
        )
    (entry,) = (entry for entry in store.version.segments if entry.live_rows)
    assert (
        entry.segment.reader.column(1, 0).equals(values[len(rising) - 1 : len(rising)])
        or pc.all(pc.is_nan(entry.segment.reader.column(1, 0))).as_py()
    )
    store.close()


def test_tombstones_are_merged_and_their_space_comes_back(tmp_path: Path) -> None:
    store = open_partition(FOR_A_TIME, tmp_path)
    for epoch in range(1, 30):
        store.apply(Epoch(epoch), batch_of([Row(epoch, epoch, gone=True)], epoch))
        while store.compact():
            pass
    assert len(store.version.tombstone_segments) < 6
    assert sum(entry.live_rows for entry in store.version.tombstone_segments) == 29
    assert not store.version.segments
    store.apply(Epoch(30), None, cutoff=25)
    assert sum(entry.live_rows for entry in store.version.tombstone_segments) == 5
    store.apply(Epoch(31), batch_of([Row(27, 26), Row(28, 29)], 0))
    assert contents(FOR_A_TIME, store) == {28: (29, 1)}
    store.close()


def test_a_snapshot_has_tombstones(tmp_path: Path) -> None:
    changelog = Changelog.open(str(tmp_path / "changelog"))
    rows = [Row(1, 5), Row(2, 6), Row(1, 7, gone=True)]
    with open_appender(changelog, [FOR_EVER]) as appender:
        commit = appender.append({})
    store, other = open_partition(FOR_EVER, tmp_path / "store"), open_partition(FOR_EVER, tmp_path / "other")
    store.apply(commit.epoch, batch_of(rows, 0))
    snapshots, place = changelog.snapshots(FOR_EVER.group), (FOR_EVER.name, PartitionId(0))
    snapshots.write_part(
        commit.epoch,
        {FOR_EVER.name: FOR_EVER},
        [place],
        ((place, batch) for batch in live_rows(store.version, 100)),
    )
    assert snapshots.commit(commit, [place])
    snapshot = snapshots.read(commit.epoch)
    assert snapshot is not None
    other.restore(commit.epoch, snapshots.batches(snapshot, FOR_EVER, PartitionId(0)))
    assert contents(FOR_EVER, other) == contents(FOR_EVER, store) == {2: (6, 1)}
    for partition in (store, other):
        partition.apply(Epoch(commit.epoch + 1), batch_of([Row(1, 6), Row(2, 6)], 8))
        assert contents(FOR_EVER, partition) == {2: (6, 9)}
        partition.close()
