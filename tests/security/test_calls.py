"""Who is let in by a host, and to what: each way to prove oneself, with each client."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow as pa
import pytest
from adbc_driver_flightsql import DatabaseOptions
from adbc_driver_manager import OperationalError, ProgrammingError
from pyarrow import flight

from engine.changelog import Changelog, append_table
from engine.errors import Forbidden, InvalidInput, Unauthenticated, Unavailable
from engine.model.schema import define_store
from flight_server.cli.credentials import add_token, add_user
from flight_server.client.client import Client
from flight_server.client.connection_options import ConnectionOptions
from flight_server.host.host import Host, HostOptions
from flight_server.wire.fragment_messages import FRAGMENT_MARK
from tests.protocol.test_jdbc import java_command
from tests.security.callers import Authority
from tests.support.started_host import start_host
from tests.support.waiting import wait_until
from tests.unit.cli.conftest import livestate

PASSWORD = "correct horse: battery"
COUNT = "SELECT count(*) AS n FROM songs"
ROLES = ("reader", "writer", "operator", "peer")


@pytest.fixture(scope="module")
def changelog(tmp_path_factory: pytest.TempPathFactory) -> str:
    uri = str(tmp_path_factory.mktemp("changelog"))
    rows = pa.table({"song_id": [1, 2, 3], "title": ["a", "b", "c"]})
    append_table(Changelog.open(uri), define_store("songs", rows.schema, ["song_id"], partitions=2), rows)
    return uri


@pytest.fixture(scope="module")
def security(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("security")
    add_user(directory / "users.toml", "ann", PASSWORD, ["reader"], {})
    for role in ROLES:
        token = add_token(directory / "tokens.toml", f"some {role}", [role], {}, None)
        (directory / role).write_text(token)
    (directory / "security.toml").write_text('[security]\nusers = "users.toml"\ntokens = "tokens.toml"\n')
    return directory


@pytest.fixture(scope="module")
def host(changelog: str, security: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    data = tmp_path_factory.mktemp("host") / "data"
    with start_host(HostOptions(changelog, data, port=0, security=security / "security.toml")) as started:
        yield started


def client_of(host: Host, security: Path, role: str) -> Client:
    return Client(ConnectionOptions((host.uri,), (security / role).read_text()))


def count_over_adbc(uri: str, **options: str) -> int:
    with (
        flight_sql.connect(uri, db_kwargs=options, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(COUNT)
        (count,) = cursor.fetchone() or (0,)
    return int(count)


def test_a_user_logs_in_over_adbc_and_pyarrow(host: Host) -> None:
    assert count_over_adbc(host.uri, username="ann", password=PASSWORD) == 3
    with flight.connect(host.uri) as client:
        header = client.authenticate_basic_token("ann", PASSWORD)
        assert header[1].startswith(b"Bearer ls1.")
        options = flight.FlightCallOptions(headers=[header])
        assert client.do_get(flight.Ticket(COUNT), options).read_all()["n"].to_pylist() == [3]
    with pytest.raises(ProgrammingError):
        count_over_adbc(host.uri, username="ann", password="wrong")


def test_a_token_over_adbc_and_our_client(host: Host, security: Path) -> None:
    token = (security / "reader").read_text()
    header = DatabaseOptions.AUTHORIZATION_HEADER.value
    assert count_over_adbc(host.uri, **{header: f"Bearer {token}"}) == 3
    assert count_over_adbc(host.uri, username="any", password=token) == 3
    with Client(ConnectionOptions((host.uri,), user="ann", password=PASSWORD)) as client:
        assert client.query(COUNT).read_all()["n"].to_pylist() == [3]


def test_the_command_line_presents_each_kind(
    host: Host, security: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (security / "reader").chmod(0o600)
    for proof in (["--token-file", str(security / "reader")], ["--user", "ann"]):
        monkeypatch.setenv("LIVESTATE_PASSWORD", PASSWORD)
        done = livestate("sql", COUNT, "--format", "csv", "--uri", host.uri, *proof)
        assert (done.exit_code, done.stdout.split()) == (0, ['"n"', "3"]), done.output
    with monkeypatch.context() as patched:
        patched.setenv("LIVESTATE_USER", "nobody")
        token_file = ["--token-file", str(security / "reader")]
        assert livestate("stores", "--uri", host.uri, *token_file).exit_code == 0
        both = livestate("stores", "--uri", host.uri, *token_file, "--user", "ann")
        assert "Give a user and a password, or a token, not both." in both.stderr
    (security / "reader").chmod(0o644)
    done = livestate("stores", "--uri", host.uri, "--token-file", str(security / "reader"))
    assert done.exit_code == 2
    assert "chmod 600" in done.stderr
    assert livestate("stores", "--uri", host.uri).exit_code == 1


@pytest.mark.parametrize("role", ROLES)
def test_each_role_does_what_it_may_and_nothing_else(host: Host, security: Path, role: str) -> None:
    with client_of(host, security, role) as client:
        client.act("livestate.health", b"")
        assert_allowed(role in ("reader", "peer"), lambda: client.query(COUNT).read_all())
        assert_allowed(role in ("reader", "peer"), lambda: client.keys("songs").close())
        assert_allowed(role != "reader", lambda: client.act("livestate.notify", b""))
        assert_allowed(role == "operator", lambda: client.act("livestate.scrub", b'{"do": "status"}'))
        assert_allowed(role == "operator", client.diagnose)
        assert_allowed(role == "operator", lambda: client.act("livestate.drain", b'{"do": "status"}'))
        with pytest.raises(
            Exception, match="belongs to no deployment" if role == "peer" else "may not act as"
        ):
            client.act("livestate.report", b"")
    with flight.connect(host.uri) as raw:
        options = flight.FlightCallOptions(
            headers=[(b"authorization", b"Bearer " + (security / role).read_bytes())]
        )
        descriptor = flight.FlightDescriptor.for_command(FRAGMENT_MARK + b"{}")
        with pytest.raises((pa.ArrowException, flight.FlightError)) as caught:
            writer, reader = raw.do_exchange(descriptor, options)
            with writer:
                reader.read_all()
        assert isinstance(caught.value, flight.FlightUnauthorizedError) == (role != "peer")


def assert_allowed(is_allowed: bool, call: Callable[[], object]) -> None:
    if is_allowed:
        call()
        return
    with pytest.raises(Forbidden, match="may not"):
        call()


def test_a_token_that_is_taken_back_is_refused_and_others_go_on(changelog: str, tmp_path: Path) -> None:
    kept, lost = (
        add_token(tmp_path / "tokens.toml", name, ["reader"], {}, None) for name in ("kept", "lost")
    )
    (tmp_path / "security.toml").write_text('[security]\ntokens = "tokens.toml"\n')
    options = HostOptions(changelog, tmp_path / "data", port=0, security=tmp_path / "security.toml")
    with (
        start_host(options) as host,
        Client(ConnectionOptions((host.uri,), kept)) as one,
        Client(ConnectionOptions((host.uri,), lost)) as other,
    ):
        assert other.query(COUNT).read_all().num_rows == 1
        text = (tmp_path / "tokens.toml").read_text()
        (tmp_path / "tokens.toml").write_text(text[: text.rindex("[[tokens]]")])

        def is_refused() -> bool:
            try:
                other.query(COUNT).read_all()
            except Unauthenticated:
                return True
            return False

        wait_until(is_refused)
        assert one.query(COUNT).read_all().num_rows == 1


def test_certificates_of_callers(changelog: str, tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), None
    own = authority.issue("host", alternative="IP:127.0.0.1")
    ann, bob = authority.issue("ann", alternative="DNS:ann.example.com"), authority.issue("bob")
    (tmp_path / "other").mkdir()
    stranger = Authority(tmp_path / "other").issue("ann", alternative="DNS:ann.example.com")
    (tmp_path / "security.toml").write_text(
        '[security.certificates]\nauthorities = "authority.pem"\n'
        '[[security.certificates.principals]]\nsubject = "ann.example.com"\nname = "ann"\n'
        'roles = ["reader"]\n'
    )
    options = HostOptions(
        changelog,
        tmp_path / "data",
        port=0,
        security=tmp_path / "security.toml",
        tls_certificate=own.chain,
        tls_key=own.key,
    )
    with start_host(options) as host:

        def connect(certificate: bytes, key: bytes) -> Client:
            return Client(
                ConnectionOptions(
                    (host.uri,), tls_roots=authority.certificate.chain, certificate=certificate, key=key
                )
            )

        with connect(ann.chain, ann.key) as client:
            assert client.query(COUNT).read_all()["n"].to_pylist() == [3]
            with pytest.raises(Forbidden, match="ann may not tell the host"):
                client.act("livestate.notify", b"")
        with (
            connect(bob.chain, bob.key) as client,
            pytest.raises(Unauthenticated, match="nobody of its subject"),
        ):
            client.query(COUNT)
        for certificate, key in ((b"", b""), (stranger.chain, stranger.key)):
            with connect(certificate, key) as client, pytest.raises(Unavailable, match="cannot be reached"):
                client.query(COUNT)
        trust = {
            DatabaseOptions.TLS_ROOT_CERTS.value: authority.certificate.chain.decode(),
            DatabaseOptions.MTLS_CERT_CHAIN.value: ann.chain.decode(),
            DatabaseOptions.MTLS_PRIVATE_KEY.value: ann.key.decode(),
        }
        assert count_over_adbc(host.uri, **trust) == 3
        own_roots = f"tlsRootCerts={authority.certificate.chain_file}"
        caller = f"clientCertificate={ann.chain_file}&clientKey={ann.key_file}"
        assert jdbc_answers(host.uri, tmp_path, f"{own_roots}&{caller}", own_roots) == ["rows 3", "refused"]
        with pytest.raises((OperationalError, ProgrammingError)):
            count_over_adbc(
                host.uri, **{DatabaseOptions.TLS_ROOT_CERTS.value: authority.certificate.chain.decode()}
            )


def jdbc_answers(uri: str, directory: Path, *properties: str) -> list[str]:
    """What the JDBC driver gets with each of these sets of connection properties."""
    (directory / "properties").write_text("\n".join(properties))
    address = uri.removeprefix("grpc://").removeprefix("grpc+tls://")
    command = [*java_command(Path(__file__).parent / "LogIns.java", address), str(directory / "properties")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_jdbc_presents_users_and_tokens(host: Host, security: Path, tmp_path: Path) -> None:
    plain, token = "useEncryption=false", (security / "reader").read_text()
    answers = jdbc_answers(
        host.uri,
        tmp_path,
        f"{plain}&user=ann&password={quote(PASSWORD)}",
        f"{plain}&token={token}",
        f"{plain}&user=any&password={token}",
        f"{plain}&user=ann&password=wrong",
        f"{plain}&token=wrong",
        plain,
    )
    assert answers == ["rows 3"] * 3 + ["refused"] * 3


def test_hosts_that_cannot_be(changelog: str, tmp_path: Path, security: Path) -> None:
    file = security / "security.toml"
    for options, words in (
        ({"address": "0.0.0.0"}, "say who may call"),
        ({"address": "0.0.0.0", "token": "x"}, "--insecure"),
        ({"address": "0.0.0.0", "security": file}, "--insecure"),
        ({"security": file, "token": "x"}, "leave --token-file"),
        ({"security": tmp_path / "none"}, "The security file cannot be read"),
    ):
        with pytest.raises(InvalidInput, match=words):
            Host(HostOptions(changelog, tmp_path / "data", port=0, **options)).start()


@pytest.mark.parametrize(
    ("options", "words"),
    [({"open_to_all": True}, "open to all"), ({"token": "x", "insecure": True}, "does without TLS")],
)
def test_an_open_door_is_logged_at_each_start(
    changelog: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, options: dict[str, Any], words: str
) -> None:
    with start_host(HostOptions(changelog, tmp_path / "data", address="0.0.0.0", port=0, **options)):
        assert words in caplog.text
