"""Keys of every kind, on one host and on three: each has its own row, in the order of the keys."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from engine.coordinator import key_streams
from engine.coordinator.answer_memory import AnswerShare
from engine.coordinator.gather_memory import MemoryPool
from engine.coordinator.key_streams import key_columns
from engine.errors import LimitExceeded, Unsupported
from engine.model.kinds import Behaviour, Versioned
from engine.model.read_point import AsOfEpoch, ReadPoint
from engine.model.schema import Epoch, StoreDefinition, define_store
from engine.scan import FOUND_COLUMN, KeyedRows
from tests.support.local_cluster import Cluster, host_names, memory_cluster

DAY = dt.date(2026, 1, 1)
ROWS = 200
KEYS: dict[str, tuple[list[pa.DataType], Any]] = {
    "bigint": ([pa.int64()], lambda n: (n,)),
    "utinyint": ([pa.uint8()], lambda n: (n,)),
    "varchar": ([pa.string()], lambda n: (f"é{n}",)),
    "blob": ([pa.binary()], lambda n: (bytes([n]),)),
    "date": ([pa.date32()], lambda n: (DAY + dt.timedelta(n),)),
    "decimal": ([pa.decimal128(9, 2)], lambda n: (Decimal(n) / 4,)),
    "timestamp": (
        [pa.timestamp("us", "UTC")],
        lambda n: (dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=n),),
    ),
    "boolean, varchar": ([pa.bool_(), pa.string()], lambda n: (n % 2 == 0, f"{n // 2}")),
    "date, integer, varchar": (
        [pa.date32(), pa.int32(), pa.string()],
        lambda n: (DAY + dt.timedelta(n % 3), n % 7 - 3, f"{n // 21}"),
    ),
}


def _store(types: list[pa.DataType]) -> StoreDefinition:
    names = [f"k {place}" for place in range(len(types))]
    schema = pa.schema([("n", pa.int64()), *zip(names, types, strict=True), ("text", pa.string())])
    return define_store("Odd store", schema, names, partitions=5)


def _keys(definition: StoreDefinition, keys: list[tuple[Any, ...]]) -> pa.RecordBatch:
    fields = definition.key_schema
    return pa.RecordBatch.from_arrays(
        [pa.array([key[place] for key in keys], field.type) for place, field in enumerate(fields)],
        names=fields.names,
    )


def _check(cluster: Cluster, definition: StoreDefinition, key: Any, read_point: ReadPoint) -> None:
    chance = random.Random(7)
    for service in cluster.services.values():
        stream = service.key_stream("odd STORE", ["Text", "n"], read_point)
        assert stream.schema.names == [FOUND_COLUMN, "text", "n"]
        for count in (1, 2, 30, 300):
            numbers = [chance.randrange(ROWS) for _ in range(count)]
            answer = stream.answer(_keys(definition, [key(number) for number in numbers]), 60.0)
            # Every third number has no row.
            assert answer.rows.to_pylist() == [
                {FOUND_COLUMN: True, "text": None if number % 5 == 0 else f"t{number}", "n": number}
                if number % 3
                else {FOUND_COLUMN: False, "text": None, "n": None}
                for number in numbers
            ]
            assert answer.rows.schema == stream.schema
            assert answer.epochs == {definition.group: 1}


@pytest.mark.parametrize("hosts", [1, 3])
@pytest.mark.parametrize("kind", KEYS)
def test_each_key_has_its_row(kind: str, hosts: int) -> None:
    types, key = KEYS[kind]
    definition = _store(types)
    there = [number for number in range(ROWS) if number % 3]
    rows = pa.Table.from_arrays(
        [
            pa.array(there, pa.int64()),
            *_keys(definition, [key(number) for number in there]).columns,
            pa.array([None if number % 5 == 0 else f"t{number}" for number in there], pa.string()),
        ],
        schema=definition.schema,
    )
    with memory_cluster([definition], {definition.name: rows}, host_names(hosts)) as cluster:
        _check(cluster, definition, key, ReadPoint())
        _check(cluster, definition, key, ReadPoint(as_of={definition.group: AsOfEpoch(Epoch(1))}))
        asked = cluster.asked.total()
        assert (asked > 0) == (hosts > 1)


def test_a_row_that_many_keys_share_is_counted_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_streams, "MAX_ANSWER_BYTES", 1 << 20)
    definition = define_store("long", pa.schema([("id", pa.int64()), ("text", pa.string())]), ["id"])
    columns = key_columns({definition.name: definition}, {}, "long", ["text"])
    share = AnswerShare(MemoryPool(64 << 20, 64 << 20))
    long, short = "x" * 10_000, "y"
    rows = pa.record_batch([[long, short]], schema=columns.row_schema)
    places = pa.array([1, None, *[0] * 100])
    answer = columns.answer_of_rows(KeyedRows(rows, places), share)
    assert answer.column("text").to_pylist() == [short, None, *[long] * 100]
    assert answer.column(FOUND_COLUMN).to_pylist() == [True, False, *[True] * 100]
    for count in (110, 10_000):
        with pytest.raises(LimitExceeded, match=r"take more than 1 MiB: send fewer keys"):
            columns.answer_of_rows(KeyedRows(rows, pa.array([0] * count)), share)
    few = pa.record_batch([[True], ["x" * 100_000]], schema=columns.schema)
    assert columns.answer_of_few([few, None] * 5, share).column(FOUND_COLUMN).to_pylist() == [True, False] * 5
    with pytest.raises(LimitExceeded, match=r"rows of 16 keys take more than 1 MiB"):
        columns.answer_of_few([few] * 16, share)


@pytest.mark.parametrize("is_nested", [False, True])
def test_answers_that_clients_have_not_taken_have_room_together(*, is_nested: bool) -> None:
    text = pa.list_(pa.string()) if is_nested else pa.string()
    definition = define_store("long", pa.schema([("id", pa.int64()), ("text", text)]), ["id"])
    columns = key_columns({definition.name: definition}, {}, "long", ["text"])
    long = "x" * 10_000
    rows = pa.record_batch([pa.array([[long] if is_nested else long], text)], schema=columns.row_schema)
    found = KeyedRows(rows, pa.array([0] * 1000))
    memory = MemoryPool(64 << 20, 64 << 20)
    shares = [AnswerShare(memory) for _ in range(9)]
    answers: list[pa.RecordBatch] = []
    with pytest.raises(LimitExceeded, match=r"more than 64 MiB, this one counted: send fewer keys"):
        answers.extend(columns.answer_of_rows(found, share) for share in shares)
    shares[len(answers)].free()  # as a stream does that ends
    assert memory.held_bytes == pytest.approx(sum(answer.nbytes for answer in answers), rel=0.01)
    assert memory.held_bytes <= memory.total_limit_bytes
    few = KeyedRows(rows, pa.array([0] * 5))
    assert columns.answer_of_rows(few, shares[-1]).num_rows == 5
    for share in shares:
        share.free()
        share.free()
    assert memory.held_bytes == 0
    assert columns.answer_of_rows(found, shares[0]).equals(answers[0])


def test_versions_are_asked_for_in_sql() -> None:
    moment = pa.timestamp("us", "UTC")
    schema = pa.schema([("id", pa.int64()), ("at", moment), ("n", pa.int64())])
    definition = define_store("history_of", schema, ["id"], behaviour=Behaviour(Versioned("at")))
    with (
        memory_cluster(
            [definition], {definition.name: definition.schema.empty_table()}, host_names(1)
        ) as one,
        pytest.raises(Unsupported, match="ask for them in SQL"),
    ):
        one.services[one.hosts[0]].key_stream("history_of")
