"""A connection that threads share."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from engine.changelog import Changelog, append_table
from engine.errors import Unavailable
from flight_server.client.client import Client
from flight_server.client.connection import HostLostError
from flight_server.client.connection_options import ConnectionOptions
from flight_server.host.host import HostOptions
from tests.support.certificate import Certificate
from tests.support.plays import PLAYS, STORE
from tests.support.started_host import start_host

ROUNDS = 40
FAR_SECONDS = 0.5


@contextmanager
def far_away(uri: str) -> Iterator[str]:
    """Another address of a host: one connection to it, over which the first bytes take long."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def relay() -> None:
            near, _ = listener.accept()
            with near, socket.create_connection(("127.0.0.1", int(uri.rpartition(":")[2]))) as far:
                time.sleep(FAR_SECONDS)
                back = threading.Thread(target=_copy, args=(far, near))
                back.start()
                _copy(near, far)
                back.join()

        relaying = threading.Thread(target=relay)
        relaying.start()
        yield f"grpc://127.0.0.1:{listener.getsockname()[1]}"
        relaying.join()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while found := source.recv(1 << 16):
            sink.sendall(found)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def test_a_host_far_away_is_waited_for(uri: str) -> None:
    with far_away(uri) as far, Client(far) as client:
        assert client.query("SELECT 1 AS one").read_all().to_pylist() == [{"one": 1}]


def test_a_connection_may_be_closed_under_statements(uri: str) -> None:
    for _ in range(ROUNDS):
        client = Client(uri)
        started = threading.Barrier(4)

        def ask(client: Client = client, started: threading.Barrier = started) -> str:
            started.wait()
            while True:
                try:
                    assert client.query("SELECT 1 AS one").read_all().to_pylist() == [{"one": 1}]
                except Unavailable as error:
                    return str(error)

        with ThreadPoolExecutor(3) as pool:
            asking = [pool.submit(ask) for _ in range(3)]
            started.wait()
            client.close()
            assert {done.result() for done in asking} == {
                f"The connection to {uri} is closed; open another one."
            }


def test_rows_that_were_begun_are_read_to_their_end_after_closing(uri: str) -> None:
    client = Client(uri)
    rows = client.query("SELECT count(*) AS n FROM range(3) UNION ALL SELECT 7")
    client.close()
    client.close()
    assert rows.read_all()["n"].to_pylist() == [3, 7]
    with pytest.raises(Unavailable, match="is closed"):
        client.notify()


def test_who_does_not_get_through_is_told_what_to_do(
    uri: str, certificate: Certificate, tmp_path: Path
) -> None:
    place = uri.removeprefix("grpc://")
    with pytest.raises(HostLostError, match="speaks no TLS there: write its address with grpc://"):
        _ask(ConnectionOptions((f"grpc+tls://{place}",), tls_roots=certificate.chain))
    append_table(Changelog.open(str(tmp_path / "changelog")), STORE, PLAYS.slice(0, 10))
    options = HostOptions(
        str(tmp_path / "changelog"),
        tmp_path / "data",
        port=0,
        tls_certificate=certificate.chain,
        tls_key=certificate.key,
    )
    with start_host(options) as host:
        place = host.uri.removeprefix("grpc+tls://")
        with pytest.raises(HostLostError, match=r"may want TLS \(grpc\+tls://"):
            _ask(ConnectionOptions((f"grpc://{place}",)))
        with pytest.raises(HostLostError, match="name who does, with --tls-roots"):
            _ask(ConnectionOptions((host.uri,)))
        with pytest.raises(HostLostError, match="is not for this name"):
            _ask(
                ConnectionOptions((host.uri.replace("127.0.0.1", "localhost"),), tls_roots=certificate.chain)
            )
    with (
        HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        serving = pool.submit(other.serve_forever)
        with pytest.raises(HostLostError, match="What answers there is no host"):
            _ask(ConnectionOptions((f"grpc://127.0.0.1:{other.server_port}",)))
        other.shutdown()
        serving.result()
    with pytest.raises(HostLostError, match="Its address has no port"):
        _ask(ConnectionOptions(("grpc://127.0.0.1",)))
    with pytest.raises(HostLostError, match="Is `livestate serve` running there"):
        _ask(ConnectionOptions(("grpc://127.0.0.1:1",)))


def _ask(options: ConnectionOptions) -> None:
    with Client(options) as client:
        client.health()
