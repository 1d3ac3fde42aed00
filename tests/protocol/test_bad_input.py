"""Requests that are damaged, forged, or of the wrong kind: a clear error, and the host goes on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import flight

from engine.cluster.fragments import FragmentRequest
from flight_server.wire.fragment_messages import FragmentTicket
from flight_server.wire.messages import TYPE_PREFIX, new, pack, unpack
from flight_server.wire.tickets import Statement

_FAILURES = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError)
_HANDLE = Statement("SELECT title FROM songs WHERE song_id = ?").to_bytes()


@pytest.fixture(autouse=True)
def _still_serving(plain: flight.FlightClient) -> Iterator[None]:
    yield
    assert plain.do_get(flight.Ticket("SELECT count(*) AS n FROM songs")).read_all()["n"].to_pylist() == [3]


def _assert_refusal(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(_FAILURES, match=words) as caught:
        call()
    assert "Traceback" not in str(caught.value)
    assert ".py" not in str(caught.value)


COMMANDS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "no Flight SQL"),
    "text": (b"SELECT 1", "damaged|no Flight SQL"),
    "noise": (b"\xff" * 50, "damaged"),
    "cut off": (pack(new("CommandStatementQuery", query="SELECT 1"))[:-3], "damaged"),
    "unknown type": (
        new("Any", type_url=TYPE_PREFIX + "CommandFlyToTheMoon").SerializeToString(),
        "CommandFlyToTheMoon",
    ),
    "foreign type": (
        new("Any", type_url="type.googleapis.com/google.protobuf.Empty").SerializeToString(),
        "google.protobuf.Empty",
    ),
    "long type": (new("Any", type_url="x" * 10_000).SerializeToString(), "no Flight SQL"),
    "damaged body": (
        new("Any", type_url=TYPE_PREFIX + "CommandGetTables", value=b"\xff\xff").SerializeToString(),
        "CommandGetTables",
    ),
    "action": (pack(new("ActionCreatePreparedStatementRequest", query="SELECT 1")), "does not belong"),
    "own message": (pack(new("StatementHandle", sql="SELECT 1")), "does not belong"),
    "update": (pack(new("CommandStatementUpdate", query="DELETE FROM songs")), "read-only"),
    "ingest": (pack(new("CommandStatementIngest", table="songs")), "read-only"),
    "substrait": (pack(new("CommandStatementSubstraitPlan")), "Substrait"),
    "transaction": (pack(new("CommandStatementQuery", query="SELECT 1", transaction_id=b"t")), "transaction"),
    "no handle": (pack(new("CommandPreparedStatementQuery")), "handle"),
    "forged handle": (
        pack(new("CommandPreparedStatementQuery", prepared_statement_handle=b"\x00Q\xff\xff")),
        "damaged",
    ),
    "sql as handle": (
        pack(new("CommandPreparedStatementQuery", prepared_statement_handle=b"SELECT 1")),
        "handle",
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_descriptors_that_make_no_sense_are_refused(plain: flight.FlightClient, name: str) -> None:
    command, words = COMMANDS[name]
    descriptor = flight.FlightDescriptor.for_command(command)
    _assert_refusal(lambda: plain.get_flight_info(descriptor), words)
    _assert_refusal(lambda: plain.get_schema(descriptor), words)


def test_a_path_is_no_command(plain: flight.FlightClient) -> None:
    descriptor = flight.FlightDescriptor.for_path("songs")
    _assert_refusal(lambda: plain.get_flight_info(descriptor), "not a path")
    _assert_refusal(lambda: plain.get_schema(descriptor), "not a path")


def _put(client: flight.FlightClient, command: bytes, table: pa.Table) -> bytes:
    writer, reader = client.do_put(flight.FlightDescriptor.for_command(command), table.schema)
    with writer:
        # Once the host has refused, writing fails too; the reader has the reason.
        with contextlib.suppress(pa.ArrowException, flight.FlightError, OSError):
            writer.write_table(table)
            writer.done_writing()
        answer = reader.read()
    return b"" if answer is None else bytes(answer.to_pybytes())


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"transaction"}))
def test_puts_that_make_no_sense_are_refused(plain: flight.FlightClient, name: str) -> None:
    _assert_refusal(lambda: _put(plain, COMMANDS[name][0], pa.table({"1": [1]})), COMMANDS[name][1])


def test_parameters_that_make_no_sense_are_refused(plain: flight.FlightClient) -> None:
    bind = pack(new("CommandPreparedStatementQuery", prepared_statement_handle=_HANDLE))
    _assert_refusal(lambda: _put(plain, bind, pa.table({"1": [1, 2]})), "one row")
    _assert_refusal(lambda: _put(plain, bind, pa.table({"1": ["x" * (17 << 20)]})), "parameters take")
    for values in (pa.table({"1": ["x"]}), pa.table({"1": [1], "2": [2]}), pa.table({"1": [[1]]})):
        _assert_refusal(lambda values=values: _run(plain, _put(plain, bind, values)), "arameter")  # type: ignore[misc]
    assert _run(plain, _put(plain, bind, pa.table({"1": [2]}))) == ["two"]
    _assert_refusal(
        lambda: _put(plain, bind, pa.table({"1": pa.array([], pa.int64())})), "no row of parameters"
    )
    _assert_refusal(lambda: _run(plain, _put(plain, bind, pa.table({}))), "arameter")


def _run(client: flight.FlightClient, answer: bytes) -> list[str]:
    # The answer is a raw message with one field: a tag, a length of one or two bytes, and the handle.
    handle = answer[answer.index(b"\x00Q") :]
    info = client.get_flight_info(
        flight.FlightDescriptor.for_command(
            pack(new("CommandPreparedStatementQuery", prepared_statement_handle=handle))
        )
    )
    titles: list[str] = client.do_get(info.endpoints[0].ticket).read_all()["title"].to_pylist()
    return titles


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        ("CreatePreparedStatement", b"\xff", "damaged"),
        ("CreatePreparedStatement", b"", "no Flight SQL"),
        ("CreatePreparedStatement", pack(new("CommandGetCatalogs")), "must be a"),
        (
            "CreatePreparedStatement",
            pack(new("ActionCreatePreparedStatementRequest", query="SELECT 1", transaction_id=b"t")),
            "transaction",
        ),
        (
            "ClosePreparedStatement",
            pack(new("ActionClosePreparedStatementRequest", prepared_statement_handle=b"x")),
            "handle",
        ),
        ("CancelFlightInfo", b"\xff", "damaged"),
        (
            "CancelFlightInfo",
            new("CancelFlightInfoRequest", info=b"\xff").SerializeToString(),
            "of a FlightInfo message are damaged",
        ),
        ("CancelFlightInfo", b"", "no FlightInfo, or has no endpoints"),
        (
            "CancelQuery",
            pack(new("ActionCancelQueryRequest", info=b"\xff")),
            "of a FlightInfo message are damaged",
        ),
        ("SetSessionOptions", b"\xff", "damaged"),
        ("GetSessionOptions", b"\xff", "damaged"),
        ("CloseSession", b"\xff", "damaged"),
        ("BeginTransaction", b"", "no transactions"),
        ("EndTransaction", b"", "no transactions"),
        ("BeginSavepoint", b"", "no transactions"),
        ("EndSavepoint", b"", "no transactions"),
        ("CreatePreparedSubstraitPlan", b"", "Substrait"),
        ("RenewFlightEndpoint", b"", "names no time at which it expires"),
        ("livestate.notify", b"\xff", "UTF-8"),
        ("livestate.drain", b"", "begin"),
        ("livestate.drain", b'{"do": true}', "begin"),
        ("livestate.scrub", b"", "begin"),
        ("livestate.scrub", b"[]", "begin"),
        ("livestate.scrub", b'{"do": "harm"}', "begin"),
        ("livestate.scrub", b'{"do": "begin", "rate": 0}', "above 0"),
        ("livestate.scrub", b'{"do": "begin", "rate": NaN}', "above 0"),
        ("livestate.scrub", b'{"do": "begin", "rate": 1' + b"0" * 400 + b"}", "above 0"),
        ("livestate.scrub", b'{"do": "begin", "rate": true}', "above 0"),
        ("FlyToTheMoon", b"", "FlyToTheMoon"),
        ("x" * 100_000, b"", "There is no action"),
    ],
)
def test_actions_that_make_no_sense_are_refused(
    plain: flight.FlightClient, name: str, body: bytes, words: str
) -> None:
    _assert_refusal(lambda: list(plain.do_action(flight.Action(name, body))), words)


def test_what_there_is_not_is_refused(plain: flight.FlightClient) -> None:
    _assert_refusal(lambda: list(plain.list_flights()), "GetTables")

    def exchange() -> None:
        writer, reader = plain.do_exchange(flight.FlightDescriptor.for_command(b"x"))
        with writer:
            reader.read_chunk()

    _assert_refusal(exchange, "DoExchange")
    assert "livestate.notify" in [action.type for action in plain.list_actions()]


def test_a_lone_host_runs_no_fragments_of_others(plain: flight.FlightClient) -> None:
    descriptor = flight.FlightDescriptor.for_command(
        b'{"sql": "SELECT title FROM songs", "endpoints": "partitions"}'
    )
    info = plain.get_flight_info(descriptor)
    tickets = [endpoint.ticket for endpoint in info.endpoints]
    assert len(tickets) > 1
    # Those of its own plans are for whoever reads its results.
    found = [title for ticket in tickets for title in plain.do_get(ticket).read_all()["title"].to_pylist()]
    assert sorted(found) == ["one", "three", "two"]
    with_inputs = FragmentTicket(
        FragmentRequest('SELECT * FROM "__part_0"', {}, {}), ("__part_0",)
    ).to_bytes()

    def exchange(command: bytes) -> None:
        writer, reader = plain.do_exchange(flight.FlightDescriptor.for_command(command))
        with writer:
            reader.read_chunk()

    for command in (tickets[0].ticket, with_inputs):
        _assert_refusal(
            partial(exchange, command),
            "belongs to no deployment, so it runs no fragments: send SQL with DoGet",
        )
    _assert_refusal(lambda: plain.do_get(flight.Ticket(with_inputs)), "inputs, which a DoGet cannot bring")


@given(st.binary(max_size=200))
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_bring_the_host_out_of_step(plain: flight.FlightClient, noise: bytes) -> None:
    for prefix in (b"", b"\x00Q", b"\x00C", b"{"):
        with contextlib.suppress(*_FAILURES):
            plain.do_get(flight.Ticket(prefix + noise)).read_all()
    with contextlib.suppress(*_FAILURES):
        plain.get_flight_info(flight.FlightDescriptor.for_command(noise))


@given(st.data())
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_handle_with_a_flipped_byte_is_refused_or_answered(
    plain: flight.FlightClient, data: st.DataObject
) -> None:
    value = data.draw(st.sampled_from([pa.array([1]), pa.array(["a"]), pa.array([1], pa.int32())]))
    handle = bytearray(
        Statement("SELECT title FROM songs WHERE song_id = ?")
        .bind(pa.record_batch([value], ["1"]))
        .to_bytes()
    )
    place = data.draw(st.integers(2, len(handle) - 1))
    handle[place] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(*_FAILURES):
        plain.do_get(flight.Ticket(bytes(handle))).read_all()


def test_messages_read_back() -> None:
    name, message = unpack(
        pack(new("CommandGetTables", catalog="", table_types=["a", "b"], include_schema=True))
    )
    assert name == "CommandGetTables"
    assert message.HasField("catalog")
    assert not message.HasField("db_schema_filter_pattern")
    assert list(message.table_types) == ["a", "b"]


def test_messages_have_the_bytes_of_the_protocol() -> None:
    # By hand, from format/FlightSql.proto: tag = field number << 3 | wire type.
    assert (
        new("CommandStatementQuery", query="ab", transaction_id=b"c").SerializeToString()
        == b"\x0a\x02ab\x12\x01c"
    )
    assert new("CommandGetSqlInfo", info=[8, 300]).SerializeToString() == b"\x0a\x03\x08\xac\x02"
    assert new("CommandGetTables", include_schema=True).SerializeToString() == b"\x28\x01"
    assert (
        new(
            "ActionCreatePreparedStatementResult", prepared_statement_handle=b"h", parameter_schema=b"p"
        ).SerializeToString()
        == b"\x0a\x01h\x1a\x01p"
    )
    value = new("SessionOptionValue", int64_value=1)
    assert value.SerializeToString() == b"\x19" + b"\x01" + b"\x00" * 7
    entry = b"\x0a\x01k" + b"\x12\x09" + value.SerializeToString()
    assert (
        new("SetSessionOptionsRequest", session_options={"k": value}).SerializeToString()
        == b"\x0a" + bytes([len(entry)]) + entry
    )
