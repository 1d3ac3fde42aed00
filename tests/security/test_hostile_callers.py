"""Callers that mean ill, by what they do to a connection: others get their answers meanwhile, and it costs
the host little.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest
from pyarrow import flight

from engine.changelog import Changelog, append_table
from engine.cluster.fragments import FragmentRequest
from engine.errors import Forbidden, LimitExceeded, LivestateError, Unauthenticated
from engine.exec.query_options import QueryOptions
from engine.model.schema import Epoch, PartitionId
from flight_server.cli.credentials import add_token
from flight_server.client.client import Client
from flight_server.client.connection_options import ConnectionOptions
from flight_server.host.host import Host, HostOptions
from flight_server.server.limits import ServerLimits
from flight_server.server.result_places import TABLE_PLACES
from flight_server.wire.fragment_messages import FragmentTicket
from tests.security.callers import Authority
from tests.security.test_scopes import ROWS, TRADES, append
from tests.support.host_processes import host_processes
from tests.support.plays import COUNT, PLAYS, STORE
from tests.support.started_host import start_host
from tests.support.waiting import wait_until

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""What a client of HTTP/2 begins with (RFC 9113), and settings of none."""
HALF_A_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 40
"""The beginning of TLS's first message."""
MANY = 300
LARGE = "SELECT a.id, b.range FROM trades a, range(80000) b"
"""Some 370 MiB: more than is on its way at once, however the network's windows have grown."""
MIDDLING_ROWS = 200_000
MIDDLING = f"SELECT range, range + 1 FROM range({MIDDLING_ROWS})".encode()
"""Some 3 MiB."""
NARROW = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 16_384)]
"""Options of a client that lets a host send it little ahead of what it reads."""


class Guarded:
    """A host that wants to know who calls.

    Args:
        directory: For its files.
        tls: Whether it speaks TLS.
    """

    def __init__(self, directory: Path, *, tls: bool = False) -> None:
        append(str(directory / "changelog"), TRADES, ROWS)
        self.directory = directory
        self.tokens = {
            name: add_token(directory / "tokens.toml", name, [role], {}, None)
            for name, role in (("ann", "reader"), ("bob", "reader"))
        }
        (directory / "security.toml").write_text('[security]\ntokens = "tokens.toml"\n')
        authority = Authority(directory) if tls else None
        own = None if authority is None else authority.issue("host", alternative="IP:127.0.0.1")
        self._roots = b"" if authority is None else authority.certificate.chain
        self.options = HostOptions(
            str(directory / "changelog"),
            directory / "data",
            port=0,
            security=directory / "security.toml",
            tls_certificate=b"" if own is None else own.chain,
            tls_key=b"" if own is None else own.key,
        )

    def client(self, host: Host, name: str) -> Client:
        return Client(
            ConnectionOptions((host.uri,), self.tokens[name], tls_roots=self._roots), timeout_seconds=60
        )

    def revoke(self, name: str) -> None:
        """Take a token out of the file."""
        file = self.directory / "tokens.toml"
        head, *entries = file.read_text().split("[[tokens]]")
        file.write_text("[[tokens]]".join([head, *(each for each in entries if f'"{name}"' not in each)]))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Guarded, Host]]:
    found = Guarded(tmp_path_factory.mktemp("plain"))
    with start_host(found.options) as host:
        yield found, host


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Guarded, Host]]:
    found = Guarded(tmp_path_factory.mktemp("tls"), tls=True)
    with start_host(found.options) as host:
        yield found, host


def count_threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def assert_answers(client: Client) -> None:
    assert client.query("SELECT count(*) AS n FROM trades").read_all()["n"].to_pylist() == [len(ROWS)]


def connect_many(resources: ExitStack, host: Host, sent: bytes) -> Sequence[socket.socket]:
    port = int(host.uri.rpartition(":")[2])
    found = []
    for _ in range(MANY):
        found.append(resources.enter_context(socket.create_connection(("127.0.0.1", port), 60)))
        found[-1].sendall(sent)
    return found


def test_idle_connections_take_no_threads(guarded: tuple[Guarded, Host]) -> None:
    files, host = guarded
    with files.client(host, "ann") as client, ExitStack() as resources:
        assert_answers(client)
        before = count_threads()
        connect_many(resources, host, PREFACE)
        assert_answers(client)
        assert count_threads() < before + MANY // 4


@pytest.mark.parametrize(
    "sent", [b"", HALF_A_HELLO, b"GET / HTTP/1.1\r\n\r\n"], ids=["nothing", "half", "HTTP"]
)
def test_half_open_handshakes_keep_nobody_out(encrypted: tuple[Guarded, Host], sent: bytes) -> None:
    files, host = encrypted
    with files.client(host, "ann") as client, ExitStack() as resources:
        assert_answers(client)
        before = count_threads()
        connect_many(resources, host, sent)
        assert_answers(client)
        with files.client(host, "bob") as another:
            assert_answers(another)
        assert count_threads() < before + MANY // 4


def test_slow_readers_hold_up_nobody_else(tmp_path: Path) -> None:
    files = Guarded(tmp_path)
    with start_host(files.options) as host, files.client(host, "ann") as ann, ExitStack() as resources:
        for _ in range(2):
            rows = ann.query(LARGE)
            resources.callback(rows.close)
            next(iter(rows))
        with files.client(host, "bob") as bob:
            assert_answers(bob)
            assert bob.query("SELECT sum(id) FROM trades").read_all().num_rows == 1
        shown = ann.query("SHOW STATEMENTS").read_all().to_pylist()
        assert [row["state"] for row in shown].count("streaming") == 2


def test_results_that_nobody_reads_have_a_limit(tmp_path: Path) -> None:
    files = Guarded(tmp_path)
    options = replace(files.options, limits=ServerLimits(max_results=2))
    with start_host(options) as host, files.client(host, "ann") as ann, ExitStack() as resources:
        for _ in range(2):
            rows = resources.enter_context(closing(ann.query(LARGE)))
            next(iter(rows))
        with pytest.raises(LimitExceeded, match=r"2 results of more than 4 MiB .* 2 of them to you"):
            ann.query(LARGE)
        assert_answers(ann)
        with files.client(host, "bob") as bob:
            # A share of the places is everybody's.
            others = bob.query(LARGE)
            next(iter(others))
            with pytest.raises(LimitExceeded, match=r"3 results .* 1 of them to you"):
                bob.query(LARGE)
            others.close()
        resources.close()
        wait_until(lambda: is_sent(ann))


def test_smaller_results_that_nobody_reads_have_a_limit(tmp_path: Path) -> None:
    """Nothing is told of a client that takes some kilobytes of its answer and no more."""
    files = Guarded(tmp_path)
    options = replace(files.options, limits=ServerLimits(max_results=1))
    with start_host(options) as host, ExitStack() as resources:
        header = (b"authorization", f"Bearer {files.tokens['ann']}".encode())
        call = flight.FlightCallOptions(timeout=60, headers=[header])
        slow = resources.enter_context(flight.connect(host.uri, generic_options=NARROW))

        def ask() -> Any:
            rows = slow.do_get(flight.Ticket(MIDDLING), call)
            resources.callback(rows.cancel)
            return rows

        def has_place() -> bool:
            try:
                return bool(ask())
            except pa.ArrowException:
                return False

        unread = [ask() for _ in range(TABLE_PLACES)]
        with pytest.raises(pa.ArrowException, match=r"4 results of more than 256 KiB .* 4 of them to you"):
            ask()
        with files.client(host, "ann") as client:
            assert_answers(client)
        with files.client(host, "bob") as bob:
            assert bob.query(MIDDLING.decode()).read_all().num_rows == MIDDLING_ROWS
        assert unread[0].read_all().num_rows == MIDDLING_ROWS
        wait_until(has_place)


def is_sent(client: Client) -> bool:
    """Whether there is a place for a large result."""
    try:
        with closing(client.query(LARGE)) as rows:
            return bool(next(iter(rows)).num_rows)
    except LimitExceeded:
        return False


def test_a_host_with_too_many_threads_refuses_calls(tmp_path: Path) -> None:
    files = Guarded(tmp_path)
    options = replace(files.options, limits=ServerLimits(max_threads=1))
    with (
        start_host(options) as host,
        files.client(host, "ann") as ann,
        pytest.raises(LimitExceeded, match="As many calls are under way on this host as it has threads for"),
    ):
        ann.query("SELECT 1")


def test_as_many_calls_as_may_be_end_no_host(tmp_path: Path) -> None:
    """Each takes memory of the pool that Flight's messages come from, and where that is empty Arrow ends the
    process.
    """
    changelog = (tmp_path / "changelog").as_uri()
    append_table(Changelog.open(changelog), STORE, PLAYS)
    with (
        host_processes(tmp_path, changelog, "a") as hosts,
        Client(hosts["a"].uri, timeout_seconds=60) as client,
        ExitStack() as resources,
    ):
        streams = [
            resources.enter_context(client.keys("plays", ["genre"]))
            for _ in range(ServerLimits().max_key_streams)
        ]
        large = 0
        with pytest.raises(LimitExceeded, match="results of more than 4 MiB"):
            while True:
                rows = client.query("SELECT a.song, b.song FROM plays a, plays b")
                next(iter(resources.enter_context(closing(rows))))
                large += 1
        assert large >= 16
        assert client.query(COUNT).read_all()["n"].to_pylist() == [PLAYS.num_rows]
        assert [stream.get(3) for stream in streams] == [{"genre": 3}] * len(streams)


@pytest.mark.parametrize("method", ["DoPut", "DoExchange"])
def test_calls_of_which_no_message_follows_leave_others_their_share(tmp_path: Path, method: str) -> None:
    files = Guarded(tmp_path)
    options = replace(files.options, limits=ServerLimits(max_calls=8))
    proof = [("authorization", f"Bearer {files.tokens['ann']}")]
    ended = threading.Event()

    def say_nothing() -> Iterator[bytes]:
        ended.wait()
        yield from ()

    with (
        start_host(options) as host,
        files.client(host, "ann") as ann,
        files.client(host, "bob") as bob,
        grpc.insecure_channel(host.uri.removeprefix("grpc://")) as channel,
    ):
        call = channel.stream_stream(f"/arrow.flight.protocol.FlightService/{method}")
        assert host._server is not None
        count = host._server.open_calls
        try:
            silent = [call(say_nothing(), metadata=proof) for _ in range(8)]
            wait_until(lambda: len(count) == 8)
            with pytest.raises(
                LivestateError, match=r"8 calls are under way .*, 8 of them of ann, and no more"
            ):
                assert_answers(ann)
            assert_answers(bob)
            more = call(say_nothing(), metadata=proof)
            assert more.code() is grpc.StatusCode.UNKNOWN
            assert "max_calls" in more.details()
            for each in silent:
                each.cancel()
            wait_until(lambda: len(count) == 0)
            assert_answers(ann)
        finally:
            ended.set()
        wait_until(lambda: len(count) == 0)


def test_whoever_is_taken_out_gets_no_more_of_an_open_stream(tmp_path: Path) -> None:
    files = Guarded(tmp_path)
    with (
        start_host(files.options) as host,
        files.client(host, "ann") as ann,
        files.client(host, "bob") as bob,
    ):
        keys, rows = ann.keys("trades", ["amount"]), ann.query(LARGE)
        assert keys.get(3) == {"amount": "3"}
        next(iter(rows))
        files.revoke("ann")
        wait_until(lambda: is_refused(ann))
        with pytest.raises((Unauthenticated, Forbidden)):
            keys.get(3)
        with pytest.raises((Unauthenticated, Forbidden)):
            rows.read_all()
        keys.close()
        assert_answers(bob)


def is_refused(client: Client) -> bool:
    try:
        client.query("SELECT 1").read_all()
    except Unauthenticated:
        return True
    return False


def test_a_proof_that_was_overheard_is_good_no_longer_than_its_entry(tmp_path: Path) -> None:
    files = Guarded(tmp_path)
    with (
        start_host(files.options) as host,
        files.client(host, "ann") as ann,
        files.client(host, "ann") as replay,
    ):
        assert_answers(ann)
        assert_answers(replay)
        files.revoke("ann")
        wait_until(lambda: is_refused(ann))
        assert is_refused(replay)


@pytest.mark.parametrize("body", [b"", b"\x00", b"\xff" * 64, b"x" * 100_000, b'{"sql": 1}'])
def test_tickets_and_handles_that_are_none(guarded: tuple[Guarded, Host], body: bytes) -> None:
    files, host = guarded
    header = (b"authorization", f"Bearer {files.tokens['ann']}".encode())
    options = flight.FlightCallOptions(timeout=60, headers=[header])
    with flight.connect(host.uri) as client:
        with pytest.raises((pa.ArrowException, flight.FlightError)):
            client.do_get(flight.Ticket(body), options).read_all()
        with pytest.raises((pa.ArrowException, flight.FlightError)):
            client.get_flight_info(flight.FlightDescriptor.for_command(body), options)


@pytest.mark.parametrize("generation", [1, 7, (1 << 31) - 1])
def test_a_ticket_of_a_migration_that_there_is_not_looks_like_no_damage(
    guarded: tuple[Guarded, Host], generation: int
) -> None:
    """It would set off an alarm."""
    files, host = guarded
    request = FragmentRequest(
        "SELECT * FROM trades",
        {TRADES.group: Epoch(2)},
        {TRADES.name: (PartitionId(0),)},
        generations={TRADES.group: generation},
    )
    header = (b"authorization", f"Bearer {files.tokens['ann']}".encode())
    options = flight.FlightCallOptions(timeout=60, headers=[header])
    ticket = flight.Ticket(FragmentTicket.from_request(request).to_bytes())
    with flight.connect(host.uri) as client, pytest.raises(pa.ArrowInvalid, match="plan the statement again"):
        client.do_get(ticket, options).read_all()


@pytest.mark.parametrize("seconds", [None, 1e6])
def test_a_ticket_gets_no_more_time_than_any_statement(tmp_path: Path, seconds: float | None) -> None:
    files = Guarded(tmp_path)
    request = FragmentRequest(
        "SELECT sum(hash(t.id + r.n)) AS n FROM trades t, range(1000000000) r(n)",
        {TRADES.group: Epoch(2)},
        {TRADES.name: (PartitionId(0),)},
        timeout_seconds=seconds,
    )
    header = (b"authorization", f"Bearer {files.tokens['ann']}".encode())
    options = flight.FlightCallOptions(timeout=60, headers=[header])
    ticket = flight.Ticket(FragmentTicket.from_request(request).to_bytes())
    limits = QueryOptions(statement_timeout_seconds=0.5)
    with (
        start_host(replace(files.options, queries=limits)) as host,
        flight.connect(host.uri) as client,
        pytest.raises(flight.FlightTimedOutError, match=r"longer than its time-out of 0\.5"),
    ):
        client.do_get(ticket, options).read_all()
