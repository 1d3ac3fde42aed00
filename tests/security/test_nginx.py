"""nginx before a host, as deploy/nginx/livestate.conf has it: clients get their answers, and what is too much
gets no further.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import adbc_driver_flightsql.dbapi as flight_sql
import pytest
from adbc_driver_flightsql import DatabaseOptions
from pyarrow import flight

from engine.errors import LivestateError
from flight_server.cli.credentials import add_token, add_user
from flight_server.client.client import Client
from flight_server.client.connection_options import ConnectionOptions
from flight_server.host.host import HostOptions
from flight_server.host.ports import free_ports
from tests.security.callers import Authority
from tests.security.test_scopes import ROWS, TRADES, append
from tests.support.started_host import start_host
from tests.support.waiting import wait_until

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nginx" / "livestate.conf"
FRAME = """
daemon off;
master_process off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log {directory}/error.log warn;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    {server}
}}
"""
PASSWORD = "correct horse battery"


class Proxied:
    """A host behind nginx.

    Args:
        uri: Of nginx.
        roots: Vouch for it.
        token: Of a reader.
    """

    def __init__(self, uri: str, roots: bytes, token: str) -> None:
        self.uri = uri
        self.roots = roots
        self.token = token

    def client(self) -> Client:
        options = ConnectionOptions((self.uri,), self.token, tls_roots=self.roots)
        return Client(options, timeout_seconds=60)

    def raw(self) -> flight.FlightClient:
        return flight.connect(self.uri, tls_root_certs=self.roots)


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        pytest.skip("nginx is not installed: `make nginx`")
    place = tmp_path_factory.mktemp("nginx")
    authority = Authority(place)
    own = authority.issue("host", alternative="IP:127.0.0.1")
    append(str(place / "changelog"), TRADES, ROWS)
    token = add_token(place / "tokens.toml", "ann", ["reader"], {}, None)
    add_user(place / "users.toml", "bob", PASSWORD, ["reader"], {})
    (place / "security.toml").write_text('[security]\ntokens = "tokens.toml"\nusers = "users.toml"\n')
    options = HostOptions(str(place / "changelog"), place / "data", port=0, security=place / "security.toml")
    (port,) = free_ports("127.0.0.1", 0, 1)
    with start_host(options) as host:
        text = CONFIGURATION.read_text(encoding="utf-8")
        for given, put in (
            ("127.0.0.1:8815", host.uri.rpartition("/")[2]),
            ("listen 8816", f"listen 127.0.0.1:{port}"),
            ("/etc/livestate/host.pem", str(own.chain_file)),
            ("/etc/livestate/host.key", str(own.key_file)),
        ):
            assert given in text
            text = text.replace(given, put)
        (place / "nginx.conf").write_text(FRAME.format(directory=place, server=text))
        command = [program, "-p", str(place), "-e", str(place / "error.log"), "-c", str(place / "nginx.conf")]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        try:
            found = Proxied(f"grpc+tls://127.0.0.1:{port}", authority.certificate.chain, token)
            wait_until(lambda: answers(found) or process.poll() is not None)
            assert process.poll() is None, (place / "error.log").read_text()
            yield found
        finally:
            process.kill()
            process.wait()


def answers(proxied: Proxied) -> bool:
    try:
        with proxied.client() as client:
            return bool(client.health())
    except LivestateError:
        return False


def test_clients_get_their_answers(proxied: Proxied) -> None:
    with proxied.client() as client:
        assert client.query("SELECT count(*) AS n FROM trades").read_all()["n"].to_pylist() == [len(ROWS)]
        large = client.query("SELECT a.id FROM trades a, trades b, range(20)").read_all()
        assert large.num_rows == 20 * len(ROWS) ** 2
        with client.keys("trades", ["amount"]) as stream:
            for key in range(0, 90, 3):
                assert stream.get(key) == {"amount": str(key)}
    options = {
        DatabaseOptions.TLS_ROOT_CERTS.value: proxied.roots.decode(),
        "username": "bob",
        "password": PASSWORD,
    }
    with (
        flight_sql.connect(proxied.uri, options, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT id FROM trades WHERE id = ?", [3])
        assert cursor.fetchall() == [(3,)]


def test_who_presents_nothing_gets_no_further(proxied: Proxied) -> None:
    with proxied.raw() as client, pytest.raises(flight.FlightUnauthenticatedError, match="401"):
        client.do_get(flight.Ticket(b"SELECT 1")).read_all()


def test_what_is_too_large_gets_no_further(proxied: Proxied) -> None:
    with proxied.client() as client:
        with pytest.raises(LivestateError):
            client.query(f"SELECT '{'x' * (21 << 20)}'").read_all()
        assert client.query("SELECT 1 AS n").read_all()["n"].to_pylist() == [1]


def test_log_ins_are_slowed_by_address(proxied: Proxied) -> None:
    assert "429" not in refusal(proxied)
    assert any("429" in refusal(proxied) for _ in range(100))


def refusal(proxied: Proxied) -> str:
    with proxied.raw() as client, pytest.raises(flight.FlightError) as caught:
        client.authenticate_basic_token("nobody", "wrong")
    return str(caught.value)
