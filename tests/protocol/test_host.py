"""A host from start to stop, in this process and in one of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow as pa
import pytest
from adbc_driver_flightsql import DatabaseOptions
from pyarrow import flight

from engine.changelog import Changelog, append_table
from engine.errors import InvalidInput, LivestateError, Unavailable
from engine.model.schema import define_store
from flight_server.client.client import Client
from flight_server.host.host import Host, HostOptions
from tests.protocol.conftest import SONGS
from tests.support.certificate import Certificate
from tests.support.started_host import start_host
from tests.support.waiting import wait_until

DEFINITION = define_store("songs", SONGS.schema, ["song_id"], partitions=2)
# As the command does, it blocks the signals before imports start threads: one of those would be given a signal
# that comes while nobody waits for it, and end the process.
_SERVE = """
import signal, sys, time
from pathlib import Path
from flight_server.host.stop_signals import STOP_SIGNALS, block_stop_signals

def started(host):
    print(host.uri, flush=True)
    while sys.argv[3] == "busy" and signal.sigpending().isdisjoint(STOP_SIGNALS):
        time.sleep(0.01)

with block_stop_signals():
    from flight_server.host.host import HostOptions
    from flight_server.host.process import serve
    serve(
        HostOptions(changelog=sys.argv[1], data=Path(sys.argv[2]), port=0, grace_seconds=float(sys.argv[4])),
        started,
    )
print("stopped", flush=True)
"""


_SETTLED = """
import gc, os, sys
from pathlib import Path
from flight_server.host.host import HostOptions
from flight_server.host.process import serve

def started(host):
    print(gc.get_freeze_count() > 20 * len(gc.get_objects()), flush=True)
    os._exit(0)

serve(HostOptions(changelog=sys.argv[1], data=Path(sys.argv[2]), port=0), started)
"""


_ASK_ONCE = """
import sys
from flight_server.client.client import Client

client = Client(sys.argv[1])
client.query("SELECT 1").read_all()
print("asked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def options(tmp_path: Path) -> HostOptions:
    append_table(Changelog.open(str(tmp_path / "changelog")), DEFINITION, SONGS)
    return HostOptions(changelog=str(tmp_path / "changelog"), data=tmp_path / "data", port=0)


def test_a_host_serves_what_comes_once_it_is_notified(options: HostOptions) -> None:
    with start_host(options) as host, Client(host.uri) as client:
        assert client.query("SELECT sum(plays) AS n FROM songs").read_all()["n"].to_pylist() == [60]
        append_table(
            Changelog.open(options.changelog),
            DEFINITION,
            pa.table({"song_id": [4], "title": ["four"], "plays": [40]}),
        )
        client.notify("songs")
        wait_until(
            lambda: client.query("SELECT sum(plays) AS n FROM songs").read_all()["n"].to_pylist() == [100]
        )
        assert client.health()["ready"]


def test_a_host_starts_again_where_it_stopped(options: HostOptions) -> None:
    for _ in range(2):
        with start_host(options) as host, Client(host.uri) as client:
            assert client.query("SELECT count(*) AS n FROM songs").read_all()["n"].to_pylist() == [3]
        assert host.stop()


def test_one_host_at_a_time_uses_a_data_directory(options: HostOptions) -> None:
    with start_host(options):
        second = Host(options)
        with pytest.raises(InvalidInput, match="Another host uses this data directory") as caught:
            second.start()
        assert str(options.data) not in caught.value.message
    with start_host(options):
        pass


def test_a_taken_port_is_told(options: HostOptions, tmp_path: Path) -> None:
    with start_host(options) as host:
        port = int(host.uri.rpartition(":")[2])
        second = Host(HostOptions(changelog=options.changelog, data=tmp_path / "other", port=port))
        with pytest.raises(InvalidInput, match=f"port {port}"):
            second.start()
    with start_host(HostOptions(changelog=options.changelog, data=tmp_path / "other", port=0)):
        pass


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"address": "0.0.0.0"}, "other machines"),
        ({"address": "::"}, "other machines"),
        ({"address": "host.example"}, "other machines"),
        ({"address": "no/address", "open_to_all": True}, "no address"),
        ({"token": ""}, "empty"),
        ({"token": "abc\n"}, "No client can send"),
        ({"token": " abc"}, "No client can send"),
        ({"token": "tök"}, "No client can send"),
        ({"tls_certificate": b"x"}, "key"),
        ({"tls_certificate": b"x", "tls_key": b"y"}, "PEM"),
        ({"changelog": "what://is/this"}, "what"),
    ],
)
def test_options_that_cannot_be_are_refused(
    options: HostOptions, change: dict[str, object], words: str
) -> None:
    host = Host(HostOptions(**{**vars(options), **change}))
    with pytest.raises(LivestateError, match=words):
        host.start()
    assert host.stop()


def test_a_file_is_no_data_directory(options: HostOptions, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="data directory") as caught:
        Host(HostOptions(changelog=options.changelog, data=tmp_path / "file", port=0)).start()
    assert str(tmp_path) not in caught.value.message


def test_a_name_that_is_too_long_is_no_data_directory(options: HostOptions, tmp_path: Path) -> None:
    """The system says so as it does of a directory that this user may not look into."""
    with pytest.raises(InvalidInput, match="The data directory cannot be used: File name too long"):
        Host(HostOptions(changelog=options.changelog, data=tmp_path / ("x" * 300), port=0)).start()


def test_a_host_that_is_not_started_has_no_address(options: HostOptions) -> None:
    host = Host(options)
    with pytest.raises(Unavailable):
        _ = host.uri
    assert not host.is_ready()


def test_a_host_speaks_tls(options: HostOptions, certificate: Certificate) -> None:
    with start_host(
        HostOptions(**{**vars(options), "tls_certificate": certificate.chain, "tls_key": certificate.key})
    ) as host:
        assert host.uri.startswith("grpc+tls://127.0.0.1:")
        with flight.connect(host.uri, tls_root_certs=certificate.chain) as client:
            assert client.do_get(flight.Ticket("SELECT count(*) AS n FROM songs")).read_all()[
                "n"
            ].to_pylist() == [3]
        trusted = {DatabaseOptions.TLS_ROOT_CERTS.value: certificate.chain.decode()}
        with (
            flight_sql.connect(host.uri, db_kwargs=trusted, autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SELECT count(*) FROM songs")
            assert cursor.fetchone() == (3,)


@contextmanager
def process(
    options: HostOptions, start: str = "idle", grace_seconds: float = 0.5
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    arguments = [
        sys.executable,
        "-c",
        _SERVE,
        options.changelog,
        str(options.data),
        start,
        str(grace_seconds),
    ]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        try:
            yield running, running.stdout.readline().decode().strip()
        finally:
            running.kill()


@pytest.mark.parametrize(
    ("number", "start"),
    [(signal.SIGTERM, "idle"), (signal.SIGINT, "idle"), (signal.SIGTERM, "busy")],
    ids=["SIGTERM", "SIGINT", "SIGTERM before the process waits for it"],
)
def test_a_signal_ends_the_process_cleanly(options: HostOptions, number: signal.Signals, start: str) -> None:
    with process(options, start) as (running, uri):
        with Client(uri) as client:
            wait_until(lambda: client.health() == {"ready": True, "stores": 1, "running": 0})
        running.send_signal(number)
        output, errors = running.communicate(timeout=60)
        assert (running.returncode, output) == (0, b"stopped\n")
        assert b"Traceback" not in errors
    with start_host(options):
        pass


def test_a_client_that_does_not_read_cannot_hold_a_stop_up(options: HostOptions) -> None:
    with process(options) as (running, uri), flight.connect(uri) as client:
        wait_until(lambda: Client(uri).health() == {"ready": True, "stores": 1, "running": 0})
        reader = client.do_get(
            flight.Ticket("SELECT a.*, repeat('x', 100) AS pad FROM songs a, range(3000000)")
        )
        reader.read_chunk()
        running.send_signal(signal.SIGTERM)
        _, errors = running.communicate(timeout=30)
        assert running.returncode == 0
        assert b"Traceback" not in errors
        reader.cancel()
    with start_host(options):
        pass


def test_a_client_that_does_not_answer_cannot_hold_a_stop_up(options: HostOptions) -> None:
    with process(options) as (running, uri), frozen_client(uri):
        running.send_signal(signal.SIGTERM)
        _, errors = running.communicate(timeout=60)
        assert running.returncode == 0
        # Not after the 20 s that gRPC gives a client to say that it knows.
        assert b"does not answer any more; the host ends without it" in errors
    with start_host(options):
        pass


@contextmanager
def frozen_client(uri: str) -> Iterator[None]:
    """A process that has asked something, keeps its connection, and does nothing any more."""
    arguments = [sys.executable, "-c", _ASK_ONCE, uri]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        try:
            assert client.stdout.readline() == b"asked\n"
            client.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, client.pid, os.WSTOPPED)
            yield
        finally:
            client.kill()


def test_whoever_interrupts_a_stop_does_not_wait_for_what_runs(options: HostOptions) -> None:
    endless = "SELECT sum(hash(song_id + r.n)) AS n FROM songs, range(1000000000) r(n)"
    with (
        process(options, grace_seconds=3600) as (running, uri),
        Client(uri) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        asked = pool.submit(lambda: client.query(endless).read_all())
        wait_until(lambda: client.health()["running"] == 1)
        running.send_signal(signal.SIGINT)
        wait_until(lambda: not client.health()["ready"])
        # systemd and a parent may both send one of these.
        running.send_signal(signal.SIGTERM)
        assert client.health()["running"] == 1
        running.send_signal(signal.SIGINT)
        output, errors = running.communicate(timeout=60)
        with pytest.raises(LivestateError):
            asked.result(60)
    assert (running.returncode, output) == (0, b"stopped\n")
    assert b"Traceback" not in errors


def test_garbage_collection_passes_over_what_a_host_has_started_with(options: HostOptions) -> None:
    command = [sys.executable, "-c", _SETTLED, options.changelog, str(options.data)]
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout == "True\n"
