"""What a message takes once it is read is bounded by its bytes, and is known before."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import InvalidInput, LimitExceeded
from flight_server.wire.fragment_messages import FRAGMENT_MARK
from flight_server.wire.json_bodies import MOST_VALUES, SHORT_BYTES, parse_json
from flight_server.wire.messages import MOST_FIELDS, TYPE_PREFIX, long_fields, new, pack, parse, unpack
from flight_server.wire.protobuf_fields import OTHER, field_places
from flight_server.wire.text_sizes import check_command, check_ticket
from flight_server.wire.tickets import COMMAND_MARK, STATEMENT_MARK, Statement
from tests.fuzz.calls import field, varint
from tests.fuzz.unfolding import unfolding_call
from tests.support.seeds import seeded_random

LONGEST = 100_000


@given(
    st.binary(max_size=60) | st.lists(st.sampled_from(b"\x0a\x12\x08\x00\x01\x02\x03\x7f\x80\xff")).map(bytes)
)
def test_places_cover_all_bytes_of_anything(data: bytes) -> None:
    places = list(field_places(data))
    assert [place.tag for place in places] == [0, *(place.end for place in places)][: len(places)]
    assert not places or places[-1].end == len(data)
    assert all(place.tag <= place.begin <= place.end for place in places)


_messages = st.builds(
    lambda sql, row, call_id, number: new(
        "StatementHandle", sql=sql, parameter_row=row, call_id=call_id, number=number
    ),
    st.text(),
    st.binary(),
    st.binary(),
    st.integers(-(1 << 63), (1 << 63) - 1),
)


@given(_messages)
def test_places_are_those_of_the_fields(message: Any) -> None:
    data = message.SerializeToString()
    found = {place.number: data[place.begin : place.end] for place in field_places(data)}
    numbers = {name: each.number for name, each in message.DESCRIPTOR.fields_by_name.items()}
    assert found.get(numbers["sql"], b"") == message.sql.encode()
    assert found.get(numbers["parameter_row"], b"") == message.parameter_row
    assert found.get(numbers["call_id"], b"") == message.call_id
    assert OTHER in found


@pytest.mark.parametrize(
    "data",
    [b"\x0a", b"\x0a\x05ab", b"\xff" * 11, b"\x0b", b"\x0c", b"\x0e", b"\x02\x00", b"\x09123", b"\x08\x80"],
)
def test_what_is_no_field_is_one_up_to_the_end(data: bytes) -> None:
    places = list(field_places(field(3, b"x") + data))
    assert [place.number for place in places] == [3, OTHER]
    with pytest.raises((DecodeError, InvalidInput)):
        parse("StatementHandle", data)


def test_long_texts_and_values_may_be_of_any_size() -> None:
    big = b"x" * 3_000_000
    handle = new("StatementHandle", sql="y" * 2_000_000, parameter_row=big, parameter_schema=big)
    assert parse("StatementHandle", handle.SerializeToString()) == handle
    name, message = unpack(pack(new("CommandStatementQuery", query="é" * 1_000_000)))
    assert (name, len(message.query)) == ("CommandStatementQuery", 1_000_000)


@pytest.mark.parametrize("count", [MOST_FIELDS + 1, 1_000_000])
@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("StatementHandle", field(11, b"")),
        ("StatementHandle", field(1, b"")),
        ("StatementHandle", field(99, 1) + b""),
        ("FragmentRequest", field(7, b"")),
        ("FragmentRequest", field(3, field(1, b"t"))),
        ("FlightInfo", field(3, b"")),
        ("SetSessionOptionsRequest", field(1, b"")),
        ("CommandGetTables", field(4, b"")),
    ],
)
def test_a_message_has_no_more_than_some_fields(name: str, part: bytes, count: int) -> None:
    # Below that many bytes nothing is counted.
    data = part * count + field(99, b"x" * SHORT_BYTES)
    with pytest.raises(InvalidInput, match=rf"message {name} has more than 10,000 fields"):
        parse(name, data)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("StatementHandle", field(11, field(1, b"") * 100_000)),
        ("CommandGetSqlInfo", field(1, b"\x01" * 100_000)),
        ("FragmentRequest", field(4, field(1, b"t") + field(2, field(1, b"\x01" * 300_000)))),
        # Whatever cannot be told apart counts.
        ("StatementHandle", field(1, b"x") + b"\x0b" + field(1, b"x") * 100_000),
        ("StatementHandle", varint(1 << 3 | 2) + varint(1 << 40) + b"x" * 100_000),
    ],
)
def test_what_a_message_unfolds_to_is_bounded_by_its_bytes(name: str, data: bytes) -> None:
    with pytest.raises(InvalidInput, match=rf"message {name} has more than"):
        parse(name, data)


def test_of_a_field_that_comes_twice_the_last_counts() -> None:
    places = long_fields("StatementHandle", field(1, b"first") + field(1, b"second"))
    assert places["sql"].end - places["sql"].begin == len(b"second")


@pytest.mark.parametrize(
    ("body", "values"),
    [
        (b"[" + b"1," * 20 + b"1]", 21),
        (b"[" + b"{}," * 9 + b"{}]", 20),
        (b'{"a":1,"b":[1,2]}', 6),
        (b'["' + b",:[{" * 50 + b'"]', 1),
        (rb'["\",,,,,,,,,,,,,,,,,,,,", "\\", "\\\",,,,,,,,,,,,,,,,,", 1]', 4),
        (b"7", 0),
        (b'"' + b"," * 100 + b'"', 0),
    ],
)
def test_values_of_json_are_counted_without_what_is_in_strings(body: bytes, values: int) -> None:
    assert parse_json(body, most_values=values) == json.loads(body)
    if values:
        with pytest.raises(InvalidInput, match="more than"):
            parse_json(body, most_values=values - 1)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('a"\\,:[{é\n'), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
)


def _count(document: object) -> int:
    """Marks that it is written with: one before each value and each name but the first."""
    if isinstance(document, dict):
        return max(1, 2 * len(document)) + sum(map(_count, document.values()))
    if isinstance(document, list):
        return max(1, len(document)) + sum(map(_count, document))
    return 0


@given(_json, st.booleans())
def test_json_is_refused_if_it_has_too_many_values_and_only_then(document: object, ascii_only: bool) -> None:
    body = json.dumps(document, ensure_ascii=ascii_only).encode()
    most = _count(document)
    assert parse_json(body, most_values=most) == json.loads(body)
    if most:
        with pytest.raises(InvalidInput):
            parse_json(body, most_values=most - 1)


def test_json_has_a_length() -> None:
    assert parse_json(b'"' + b"x" * (SHORT_BYTES - 2) + b'"')
    with pytest.raises(InvalidInput, match="65,537 bytes"):
        parse_json(b'"' + b"x" * (SHORT_BYTES - 1) + b'"')
    with pytest.raises(InvalidInput, match="65,536 values"):
        parse_json(b"[" + b"1," * MOST_VALUES + b"1]", 1 << 30)


def _commands(text: str) -> Sequence[bytes]:
    handle = Statement(text).to_bytes()
    return [
        pack(new("CommandStatementQuery", query=text)),
        pack(new("ActionCreatePreparedStatementRequest", query=text)),
        pack(new("CommandPreparedStatementQuery", prepared_statement_handle=handle)),
        field(2, new("CommandStatementQuery", query=text).SerializeToString())
        + field(1, f"{TYPE_PREFIX}CommandStatementQuery".encode()),
    ]


@pytest.mark.parametrize("place", range(4))
def test_the_text_of_a_command_has_a_length(place: int) -> None:
    check_command(_commands("x" * LONGEST)[place], LONGEST)
    with pytest.raises(LimitExceeded, match=r"max_sql_bytes allows \(100000 bytes\)"):
        check_command(_commands("x" * (LONGEST + 1))[place], LONGEST)


def test_the_text_of_a_ticket_has_a_length_and_its_values_have_another() -> None:
    values = new("StatementHandle", sql="x" * LONGEST, text="v" * 500_000).SerializeToString()
    check_ticket(STATEMENT_MARK + values, LONGEST)
    check_ticket(b"x" * LONGEST, LONGEST)
    check_ticket(COMMAND_MARK + b"x" * 500_000, LONGEST)
    fragment = new("FragmentRequest", sql="x" * 3 * LONGEST, parameter_row=b"v" * 500_000).SerializeToString()
    check_ticket(FRAGMENT_MARK + fragment, LONGEST)
    for ticket in (
        Statement("x" * (LONGEST + 1)).to_bytes(),
        b"x" * (LONGEST + 1),
        FRAGMENT_MARK + new("FragmentRequest", sql="x" * 5 * LONGEST).SerializeToString(),
    ):
        with pytest.raises(LimitExceeded, match="max_sql_bytes"):
            check_ticket(ticket, LONGEST)
    with pytest.raises(LimitExceeded, match=r"JSON takes 100,011 bytes; this host reads at most 100,000"):
        check_ticket(b'{"sql":"' + b"x" * (LONGEST + 1) + b'"}', LONGEST)


def test_whatever_a_message_says_it_takes_some_times_its_bytes_to_read() -> None:
    """The generator of the fuzzer, without a host: what it makes is read or refused, in little memory."""
    tracemalloc.start()
    try:
        for seed in range(60):
            random = seeded_random(f"unfolding {seed}")
            call = unfolding_call("unfolding", seed, random)
            body = call.messages[0][:2_000_000]
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            for read in (
                unpack,
                parse_json,
                lambda data: parse("StatementHandle", data),
                lambda data: parse("FragmentRequest", data),
                lambda data: parse("SetSessionOptionsRequest", data),
                lambda data: parse("FlightInfo", data),
            ):
                try:
                    read(body)
                except (InvalidInput, ValueError, RecursionError):
                    continue
            assert tracemalloc.get_traced_memory()[1] - before < 40 << 20, call.about
    finally:
        tracemalloc.stop()
