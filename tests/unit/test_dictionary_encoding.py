"""Strings that repeat, on their way between hosts."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest

from flight_server.wire.dictionary_encoding import LEAST_ROWS, Repeated, decode, decoded_schema

ROWS = 1000
REPEATING = ["metal", None, "", "日本", "progressive rock"] * (ROWS // 5)
DIFFERENT = [f"song {number}" for number in range(ROWS)]
BATCH = pa.record_batch(
    {
        "genre": REPEATING,
        "title": DIFFERENT,
        "n": list(range(ROWS)),
        "tags": pa.array([["a"]] * ROWS, pa.list_(pa.string())),
    }
)


def _send(batches: list[pa.RecordBatch], repeated: Repeated) -> list[pa.RecordBatch]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, repeated.schema) as writer:
        for batch in batches:
            for piece in repeated.pieces(batch):
                writer.write_batch(piece)
    reader = pa.ipc.open_stream(sink.getvalue())
    schema = decoded_schema(reader.schema)
    return [decode(batch, schema) for batch in reader]


def _sent_bytes(batch: pa.RecordBatch, repeated: Repeated) -> int:
    return sum(piece.nbytes for piece in repeated.pieces(batch))


def test_columns_that_repeat_are_dictionaries_and_come_back_as_they_were() -> None:
    schema = BATCH.schema.with_metadata({"about": "them"})
    repeated = Repeated.from_sample(schema, [BATCH])
    assert repeated.indexes == (0,)
    assert repeated.schema.metadata == {b"about": b"them"}
    assert _sent_bytes(BATCH, repeated) < BATCH.nbytes - 5 * ROWS
    later = BATCH.set_column(0, "genre", pa.array(DIFFERENT))
    batches = [BATCH, later, BATCH.slice(0, 0), BATCH.slice(3, 70)]
    assert pa.Table.from_batches(_send(batches, repeated)) == pa.Table.from_batches(batches)


@pytest.mark.parametrize(
    "first",
    [
        [],
        [BATCH.slice(0, 0)],
        [BATCH.slice(0, LEAST_ROWS - 1)],
        [BATCH.select(["title", "n"])],
        [pa.record_batch({"n": pa.array([1, 2] * ROWS, pa.int16()), "x": [1.0, 2.0] * ROWS})],
    ],
)
def test_what_is_not_worth_it_stays(first: list[pa.RecordBatch]) -> None:
    schema = first[0].schema if first else BATCH.schema
    repeated = Repeated.from_sample(schema, first)
    assert repeated.indexes == ()
    assert repeated.schema == schema
    assert all(list(repeated.pieces(batch)) == [batch] for batch in first)


def test_batches_without_columns_keep_their_rows() -> None:
    table = pa.table({"n": [1, 2, 3]}).select([])
    batches = table.to_batches()
    found = [decode(batch, decoded_schema(table.schema)) for batch in batches]
    assert [batch.num_rows for batch in found] == [batch.num_rows for batch in batches]


def test_every_batch_has_its_own_dictionary() -> None:
    batches = [
        pa.record_batch({"word": [f"word {number} {place % 3}" for place in range(100)]})
        for number in range(20)
    ]
    repeated = Repeated.from_sample(batches[0].schema, batches[:1])
    assert repeated.indexes == (0,)
    assert _send(batches, repeated) == batches
    sizes = [_sent_bytes(batch, repeated) for batch in batches]
    assert all(abs(one - other) < 50 for one, other in pairwise(sizes))


def test_integers_that_repeat_are_dictionaries_too() -> None:
    batch = pa.record_batch({"n": [1, None, -(2**40)] * ROWS, "m": pa.array([7, 8, 9] * ROWS, pa.int32())})
    repeated = Repeated.from_sample(batch.schema, [batch])
    assert [field.type for field in repeated.schema] == [
        pa.dictionary(pa.uint8(), pa.int64()),
        pa.dictionary(pa.uint8(), pa.int32()),
    ]
    assert _send([batch], repeated) == [batch]
    assert _sent_bytes(batch, repeated) < batch.nbytes / 4


@pytest.mark.parametrize(("few", "many"), [(3, 300), (500, 70_000)])
def test_a_batch_with_more_values_than_indices_travels_in_pieces(few: int, many: int) -> None:
    first = pa.record_batch({"word": [f"word {place % few}" for place in range(9 * few + LEAST_ROWS)]})
    later = pa.record_batch({"word": [f"word {place}" for place in range(many)]})
    repeated = Repeated.from_sample(first.schema, [first])
    assert repeated.indexes == (0,)
    found = _send([first, later, first], repeated)
    assert pa.Table.from_batches(found) == pa.Table.from_batches([first, later, first])
    assert 1 < len(list(repeated.pieces(later))) < 4
