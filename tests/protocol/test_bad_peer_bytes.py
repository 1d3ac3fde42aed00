"""What one host sends another, damaged or forged: refused in one sentence, nothing kept of it, and the host
goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import flight

from engine.cluster.fragments import FragmentRequest
from engine.cluster.reports import HostName, HostReport
from engine.model.schema import Epoch, PartitionId, StoreName
from flight_server.client.connection import FLIGHT_FAILURES
from flight_server.peers.peers import REPORT_ACTION
from flight_server.wire.fragment_messages import FRAGMENT_MARK, UPLOAD_SCHEMA, FragmentTicket, upload_pieces
from flight_server.wire.report_messages import SentReport
from tests.protocol.peer_hosts import GROUP, PeerHost, Stores, entries, peer_host
from tests.support.waiting import wait_until

ROWS = pa.table({"n": pa.array([1, 2], pa.int64())})
TICKET = FragmentTicket.from_request(
    FragmentRequest(
        "inputs",
        {GROUP: Epoch(7)},
        {StoreName("songs"): (PartitionId(0),)},
        inputs={"one": ROWS},
        timeout_seconds=20,
    )
)
PIECE = next(upload_pieces({"one": ROWS}))
REPORT = SentReport(HostReport(HostName("a"), *Stores().report()), "id", 5, 7).to_bytes()
OFTEN = settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[PeerHost, flight.FlightClient]]:
    with peer_host(entries("a", "b"), "a") as host, flight.connect(host.uri) as client:
        yield host, client


@pytest.fixture
def peer(served: tuple[PeerHost, flight.FlightClient]) -> Iterator[flight.FlightClient]:
    host, client = served
    yield client
    wait_until(lambda: host.runner.running == host.server.running == 0)
    assert host.server._fragments._space.taken == 0
    assert host.server._fragments._slots.held == 0
    assert exchange(client, TICKET.to_bytes(), [PIECE]).equals(ROWS)


def exchange(
    client: flight.FlightClient, command: bytes, pieces: Sequence[bytes | pa.Buffer | pa.RecordBatch]
) -> pa.Table:
    """What a host answers to a fragment with this upload. Hosts send pieces, and never batches."""
    writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(command))
    try:
        # Once the host has refused, writing fails too; the reader has the reason.
        with suppress(*FLIGHT_FAILURES):
            if pieces:
                writer.begin(pieces[0].schema if isinstance(pieces[0], pa.RecordBatch) else UPLOAD_SCHEMA)
            for piece in pieces:
                if isinstance(piece, pa.RecordBatch):
                    writer.write_batch(piece)
                else:
                    writer.write_metadata(piece)
            writer.done_writing()
        return reader.read_all().replace_schema_metadata(None)
    finally:
        with suppress(*FLIGHT_FAILURES):
            writer.close()


def assert_refusal(call: Callable[[], object], words: str) -> None:
    with pytest.raises(pa.ArrowInvalid, match=words) as caught:
        call()
    assert "Traceback" not in str(caught.value)
    assert ".py" not in str(caught.value)


def piece(number: int, stream: bytes) -> bytes:
    return number.to_bytes(8, "little", signed=True) + stream


STREAM = PIECE.to_pybytes()[8:]
OTHER = next(upload_pieces({"one": pa.table({"text": ["x"]})}))
UPLOADS: dict[str, list[bytes | pa.Buffer | pa.RecordBatch]] = {
    "nothing": [],
    "rows": [pa.record_batch({"n": [1]})],
    "rows without columns": [pa.RecordBatch.from_arrays([], schema=pa.schema([]))],
    "a number too many": [PIECE, piece(1, STREAM)],
    "a number below 0": [piece(-1, STREAM)],
    "no number": [b"1234567"],
    "no bytes": [b""],
    "empty bytes": [piece(0, b"")],
    "no stream": [piece(0, b"SELECT 1")],
    "a stream cut off in its schema": [piece(0, STREAM[:20])],
    "a stream cut off in its rows": [piece(0, STREAM[: len(STREAM) - 20])],
    "pieces of different columns": [PIECE, OTHER],
}


@pytest.mark.parametrize("name", UPLOADS)
def test_uploads_that_make_no_sense_are_refused(peer: flight.FlightClient, name: str) -> None:
    assert_refusal(lambda: exchange(peer, TICKET.to_bytes(), UPLOADS[name]), "input|damaged")


@pytest.mark.parametrize(
    "command",
    [
        b"",
        b"x",
        FRAGMENT_MARK,
        FRAGMENT_MARK + b"\xff" * 20,
        TICKET.to_bytes()[:-3],
        replace(TICKET, inputs=("one", "one")).to_bytes(),
    ],
)
def test_commands_that_make_no_sense_are_refused(peer: flight.FlightClient, command: bytes) -> None:
    assert_refusal(lambda: exchange(peer, command, [PIECE]), "fragment|damaged|inputs")


def test_an_upload_that_is_given_up_leaves_nothing_behind(peer: flight.FlightClient) -> None:
    for _ in range(10):
        writer, reader = peer.do_exchange(flight.FlightDescriptor.for_command(TICKET.to_bytes()))
        writer.begin(UPLOAD_SCHEMA)
        writer.write_metadata(PIECE)
        reader.cancel()
        with suppress(*FLIGHT_FAILURES):
            writer.close()


@given(data=st.data())
@OFTEN
def test_a_piece_with_a_flipped_byte_is_refused_or_read(
    peer: flight.FlightClient, data: st.DataObject
) -> None:
    body = bytearray(STREAM)
    body[data.draw(st.integers(0, len(body) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
        exchange(peer, TICKET.to_bytes(), [piece(0, bytes(body))])


@given(data=st.data())
@OFTEN
def test_a_fragment_with_a_flipped_byte_is_refused_or_run(
    peer: flight.FlightClient, data: st.DataObject
) -> None:
    # Behind the text, so that the stand-in that runs it knows its word.
    ticket = bytearray(
        replace(
            TICKET, inputs=(), request=replace(TICKET.request, sql="rows 1", timeout_seconds=None)
        ).to_bytes()
    )
    begin = ticket.index(b"rows 1") + 6
    ticket[data.draw(st.integers(begin, len(ticket) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(pa.ArrowInvalid):
        peer.do_get(flight.Ticket(bytes(ticket))).read_all()


@given(st.binary(max_size=200))
@OFTEN
def test_no_bytes_bring_a_host_out_of_step(peer: flight.FlightClient, noise: bytes) -> None:
    with suppress(pa.ArrowInvalid):
        peer.do_get(flight.Ticket(FRAGMENT_MARK + noise)).read_all()
    with suppress(pa.ArrowInvalid):
        list(peer.do_action(flight.Action(REPORT_ACTION, noise)))


@given(data=st.data())
@OFTEN
def test_a_damaged_report_is_refused_or_another_report(
    peer: flight.FlightClient, data: st.DataObject
) -> None:
    body = bytearray(json.dumps({**json.loads(REPORT), "host": "b"}).encode())
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with suppress(pa.ArrowInvalid):
        list(peer.do_action(flight.Action(REPORT_ACTION, bytes(body))))
