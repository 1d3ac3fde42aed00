"""When two answers that should be the same are taken for a host that tells what is hidden."""

from __future__ import annotations

import json

import pyarrow as pa

from tests.fuzz.access import difference
from tests.fuzz.calls import Answer, flight_stream


def test_an_error_may_quote_any_row_that_may_be_seen_and_no_other() -> None:
    permitted = [_failure("InvalidInput", "Overflow in left shift (60 << 60)")]
    assert difference(_failure("InvalidInput", "Overflow in left shift (58 << 58)"), permitted) is None
    told = difference(_failure("InvalidInput", "Overflow in left shift (658 << 658)"), permitted)
    assert told is not None
    assert "658" in told


def test_an_answer_is_looked_for_among_all_that_the_other_host_says() -> None:
    permitted = [_rows(2), _rows(3), _failure("Unavailable", "The host is busy.")]
    assert difference(_rows(3), permitted) is None
    assert difference(_rows(4), permitted) is not None
    assert difference(_failure("NotFound", "There is no store u."), permitted) is not None


def test_rows_may_come_in_any_batches() -> None:
    assert difference(_rows(5, 0, 2), [_rows(7)]) is None
    assert difference(_rows(), [_rows(0)]) is None
    assert (
        difference(_rows(5, 3), [_rows(5, 2)])
        == "tells what is hidden: ('OK', '8 rows') in place of ('OK', '7 rows')"
    )


def test_what_is_no_stream_of_rows_is_compared_by_its_messages() -> None:
    assert difference(Answer("OK", messages=(b"a",)), [Answer("OK", messages=(b"b",))]) is None
    assert difference(Answer("OK", messages=(b"a",)), [Answer("OK", messages=(b"a", b"b"))]) is not None


def test_what_depends_on_how_busy_a_host_is_is_compared_with_nothing() -> None:
    busy = _failure("Unavailable", "The host is busy.")
    assert difference(busy, [_rows(2)]) is None
    assert difference(_rows(2), [busy]) is None


def _rows(*batches: int) -> Answer:
    """An answer of rows, in batches of so many."""
    schema = pa.schema([("k", pa.int64())])
    ipc = [bytes(schema.serialize())]
    ipc += [bytes(pa.record_batch([pa.array(range(rows))], schema).serialize()) for rows in batches]
    return Answer("OK", messages=tuple(flight_stream(ipc, b"")))


def _failure(kind: str, message: str) -> Answer:
    return Answer("INVALID_ARGUMENT", "", json.dumps({"kind": kind, "message": message}))
