"""What comes with a call has a slot from its first byte on, and a time to arrive in: a client that takes its
time holds up nobody.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight

from engine.changelog import Changelog
from engine.cluster.fragments import FragmentRequest
from engine.deadline import DeadlineWatcher
from engine.errors import DeadlineExceeded, LimitExceeded
from flight_server.client.connection import FLIGHT_FAILURES
from flight_server.host.host import HostOptions
from flight_server.server.arrivals import Arrival
from flight_server.server.limits import ServerLimits, Slots
from flight_server.wire.fragment_messages import (
    PIECE_BYTES,
    UPLOAD_SCHEMA,
    FragmentTicket,
    piece_batch,
    upload_pieces,
)
from flight_server.wire.messages import new, pack
from flight_server.wire.tickets import Statement
from tests.protocol.conftest import fill
from tests.protocol.peer_hosts import GROUP, PeerHost, entries, peer_host
from tests.support.started_host import start_host
from tests.support.waiting import wait_until

ROWS = pa.table({"n": pa.array([1, 2], pa.int64())})
REQUEST = FragmentRequest("inputs", {}, {}, inputs={"one": ROWS}, timeout_seconds=60)
PIECE = next(upload_pieces({"one": ROWS}))
SOON = 0.05
SQL = "SELECT title FROM songs WHERE song_id = ?"
VALUE = pa.record_batch({"1": [2]})


@pytest.fixture
def host() -> Iterator[PeerHost]:
    with peer_host(
        entries("a", "b"), "a", limits=ServerLimits(max_fragments=1, max_upload_seconds=60.0)
    ) as host:
        yield host
        wait_until(lambda: host.server.running == 0)
        assert held(host) == (0, 0)


def held(host: PeerHost) -> tuple[int, int]:
    """Slots and bytes of uploads."""
    fragments = host.server._fragments
    return fragments._slots.held, fragments._space.taken


class Upload:
    """An upload that is underway; a context that gives it up."""

    def __init__(self, client: flight.FlightClient, request: FragmentRequest) -> None:
        command = flight.FlightDescriptor.for_command(FragmentTicket.from_request(request).to_bytes())
        self.writer, self.reader = client.do_exchange(command)
        self.writer.begin(UPLOAD_SCHEMA)

    def send(self) -> None:
        self.writer.write_metadata(PIECE)

    def answer(self) -> pa.Table:
        self.writer.done_writing()
        return self.reader.read_all()

    def __enter__(self) -> Upload:
        return self

    def __exit__(self, *unused: object) -> None:
        self.reader.cancel()
        with suppress(*FLIGHT_FAILURES):
            self.writer.close()


@contextmanager
def connect(uri: str) -> Iterator[flight.FlightClient]:
    with flight.connect(uri) as client:
        yield client


def test_an_upload_of_a_silent_client_is_let_go_of(host: PeerHost) -> None:
    with connect(host.uri) as client, Upload(client, replace(REQUEST, timeout_seconds=SOON)) as silent:
        silent.send()
        # The deadline passes without a word of the client, whose thread cannot be woken.
        wait_until(lambda: host.server.running == 1 and held(host) == (0, 0))
        with Upload(client, REQUEST) as other:
            other.send()
            assert other.answer().replace_schema_metadata(None).equals(ROWS)
        with pytest.raises(
            flight.FlightTimedOutError,
            match=r"What came with the call took longer than its time-out of 0\.05 s",
        ):
            # Several, as the first ones may be on their way when the host says so.
            while True:
                silent.send()
                time.sleep(SOON)
    assert [request.inputs.keys() for request in host.runner.requests] == [{"one"}]


def test_an_upload_piece_by_piece_ends_with_its_deadline(host: PeerHost) -> None:
    with (
        connect(host.uri) as client,
        Upload(client, replace(REQUEST, timeout_seconds=SOON)) as slow,
        pytest.raises(FLIGHT_FAILURES),
    ):
        while True:
            slow.send()
            time.sleep(SOON / 10)
    assert host.runner.requests == []


def test_without_a_time_out_the_host_has_one() -> None:
    limits = ServerLimits(max_fragments=1, max_upload_seconds=SOON)
    with peer_host(entries("a", "b"), "a", limits=limits) as host, connect(host.uri) as client:
        with Upload(client, replace(REQUEST, timeout_seconds=None)) as silent:
            silent.send()
            wait_until(lambda: host.server.running == 1 and held(host) == (0, 0))
        wait_until(lambda: host.server.running == 0)


def test_no_more_of_an_upload_is_read_than_there_are_slots(host: PeerHost) -> None:
    with connect(host.uri) as client, Upload(client, REQUEST) as first:
        first.send()
        wait_until(lambda: held(host)[1] > 0)
        before = held(host)
        with Upload(client, replace(REQUEST, timeout_seconds=SOON)) as second:
            second.send()
            with pytest.raises(flight.FlightServerError, match="max_fragments"):
                second.answer()
            assert held(host) == before
        assert first.answer().num_rows == 2


def test_what_is_left_of_the_time_is_for_the_fragment(host: PeerHost) -> None:
    with connect(host.uri) as client, Upload(client, REQUEST) as upload:
        upload.send()
        wait_until(lambda: held(host)[1] > 0)
        time.sleep(SOON)
        assert upload.answer().num_rows == 2
    (request,) = host.runner.requests
    assert request.timeout_seconds is not None
    assert request.timeout_seconds < 60 - SOON


def test_endpoints_take_no_slot_of_other_hosts() -> None:
    limits = ServerLimits(max_fragments=1, max_endpoints=1)
    slow = replace(REQUEST, sql="slow", inputs={}, timeout_seconds=None)
    quick = replace(slow, sql="rows 1", timeout_seconds=10)
    with (
        peer_host(entries("a", "b"), "a", limits=limits) as host,
        connect(host.uri) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        ticket = FragmentTicket.from_request(slow, b"12345678").to_bytes()
        reading = pool.submit(lambda: client.do_get(flight.Ticket(ticket)).read_all())
        wait_until(lambda: host.runner.running == 1)
        command = flight.FlightDescriptor.for_command(FragmentTicket.from_request(quick).to_bytes())
        writer, reader = client.do_exchange(command)
        with writer:
            writer.done_writing()
            assert reader.read_all().num_rows == 100_000
        with pytest.raises(flight.FlightServerError, match="max_endpoints"):
            client.do_get(
                flight.Ticket(FragmentTicket.from_request(replace(quick, timeout_seconds=SOON)).to_bytes())
            )
        info = flight.FlightInfo(
            pa.schema([]), flight.FlightDescriptor.for_command(b""), [flight.FlightEndpoint(ticket, [])]
        )
        list(
            client.do_action(
                flight.Action(
                    "CancelFlightInfo",
                    new("CancelFlightInfoRequest", info=info.serialize()).SerializeToString(),
                )
            )
        )
        with pytest.raises(FLIGHT_FAILURES):
            reading.result(60)
        assert len(host.runner.requests) == 2
        assert GROUP not in host.runner.requests[0].epochs


def send_uploads(uri: str) -> int:
    """Inputs whose pieces have sizes around those at which a message is laid out in another way; how many."""
    sizes = [place + more for place in (1 << 7, 1 << 14, PIECE_BYTES) for more in range(-340, -300)]
    with connect(uri) as client:
        for size in sizes:
            rows = pa.table({"text": ["x" * max(0, size)]})
            with Upload(client, replace(REQUEST, inputs={"one": rows})) as upload:
                for piece in upload_pieces({"one": rows}):
                    upload.writer.write_batch(piece_batch(piece))
                assert upload.answer().replace_schema_metadata(None).equals(rows)
    return len(sizes)


def test_no_size_of_an_input_ends_the_host_that_sends_it(host: PeerHost) -> None:
    # In a process of its own: gRPC ends one that sends it what it takes for impossible.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as sender:
        assert sender.submit(send_uploads, host.uri).result() == len(host.runner.requests)


# ---- parameters


@pytest.fixture
def lone(tmp_path: Path) -> Iterator[str]:
    fill(Changelog.open(str(tmp_path / "changelog")))
    limits = ServerLimits(max_statements=1, max_upload_seconds=SOON, max_wait_seconds=60.0)
    with start_host(
        HostOptions(changelog=str(tmp_path / "changelog"), data=tmp_path / "data", port=0, limits=limits)
    ) as host:
        yield host.uri
        assert host._server is not None
        server = host._server
        wait_until(lambda: server._statements._binding_slots.held == server._statements._slots.held == 0)


def begin_binding(
    client: flight.FlightClient,
) -> tuple[flight.FlightStreamWriter, flight.FlightMetadataReader]:
    command = pack(new("CommandPreparedStatementQuery", prepared_statement_handle=Statement(SQL).to_bytes()))
    found: tuple[flight.FlightStreamWriter, flight.FlightMetadataReader] = client.do_put(
        flight.FlightDescriptor.for_command(command), VALUE.schema
    )
    return found


def bind(client: flight.FlightClient) -> bytes:
    writer, reader = begin_binding(client)
    with writer:
        writer.write_batch(VALUE)
        writer.done_writing()
        return bytes(reader.read().to_pybytes())


def titles_found(client: flight.FlightClient) -> list[str]:
    handle = bind(client)
    titles: list[str] = (
        client.do_get(flight.Ticket(handle[handle.index(b"\x00Q") :])).read_all()["title"].to_pylist()
    )
    return titles


def test_a_client_that_is_slow_to_bind_holds_up_nobody(lone: str) -> None:
    with connect(lone) as client:
        for _ in range(5):
            # Without a word, and with words that say nothing.
            silent, _ = begin_binding(client)
            empty, _ = begin_binding(client)
            empty.write_batch(VALUE.slice(0, 0))
            assert client.do_get(flight.Ticket("SELECT count(*) AS n FROM songs")).read_all()[
                "n"
            ].to_pylist() == [3]
            # Each has the only slot for a twentieth of a second.
            assert titles_found(client) == ["two"]
            for writer in (silent, empty):
                with (
                    pytest.raises(flight.FlightTimedOutError, match="What came with the call took longer"),
                    writer,
                ):
                    while True:
                        writer.write_batch(VALUE.slice(0, 0))
                        time.sleep(SOON / 10)


# ---- the parts


@pytest.fixture
def watcher() -> Iterator[DeadlineWatcher]:
    watcher = DeadlineWatcher()
    yield watcher
    watcher.close()


def test_what_has_arrived_is_not_let_go_of(watcher: DeadlineWatcher) -> None:
    released: list[int] = []
    with Arrival(watcher, 60.0, lambda: released.append(1)) as arrival:
        arrival.check()
        arrival.complete()
    with Arrival(watcher, SOON, lambda: released.append(2)) as arrival:
        arrival.complete()
        time.sleep(2 * SOON)
    assert released == []


def test_what_comes_too_late_is_let_go_of_once(watcher: DeadlineWatcher) -> None:
    released: list[int] = []
    with Arrival(watcher, SOON, lambda: released.append(1)) as arrival:
        wait_until(lambda: bool(released))
        for call in (arrival.check, arrival.complete):
            _fails(call)
        time.sleep(2 * SOON)
    assert released == [1]


def _fails(call: Callable[[], None]) -> None:
    with pytest.raises(DeadlineExceeded, match="What came with the call"):
        call()


def test_a_held_slot_is_given_back_once() -> None:
    slots = Slots("max_fragments", 1, max_waiting=1, max_wait_seconds=60)
    with slots.hold() as slot:
        assert (slots.held, slot.waited) == (1, 0.0)
        with pytest.raises(LimitExceeded):
            slots.hold(0.01)
        slot.give()
        slot.give()
        assert slots.held == 0
        with slots.hold():
            slot.give()
            assert slots.held == 1
    assert slots.held == 0
