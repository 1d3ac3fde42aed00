"""Session options, in cookies and headers; and who is let in."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow as pa
import pytest
from adbc_driver_flightsql import DatabaseOptions
from adbc_driver_manager import ProgrammingError
from pyarrow import flight

from engine.errors import InvalidInput, LivestateError, Unauthenticated
from engine.service import QueryService
from flight_server.cli.credentials import add_user
from flight_server.client.client import Client
from flight_server.client.connection_options import ConnectionOptions
from flight_server.host.host import Host
from flight_server.identity import passwords
from flight_server.identity.authenticator import Authenticator
from flight_server.server.server import LivestateServer
from flight_server.wire.boundary import is_word_of_caller
from flight_server.wire.messages import new, parse
from flight_server.wire.session_options import COOKIE, SessionOptions

SPARK_SQL = "SELECT `title` FROM songs WHERE song_id = 1"


class _Cookies(flight.ClientMiddlewareFactory):  # type: ignore[misc] # pyarrow has no types
    """A cookie jar, as drivers have one."""

    def __init__(self) -> None:
        self.jar: dict[str, str] = {}

    def start_call(self, info: Any) -> flight.ClientMiddleware:
        return _Jar(self.jar)


class _Jar(flight.ClientMiddleware):  # type: ignore[misc] # pyarrow has no types
    def __init__(self, jar: dict[str, str]) -> None:
        self._jar = jar

    def sending_headers(self) -> dict[str, str]:
        return {"cookie": "other=1; " + "; ".join(f"{name}={value}" for name, value in self._jar.items())}

    def received_headers(self, headers: dict[str, list[str]]) -> None:
        for cookie in headers.get("set-cookie", ()):
            name, _, value = cookie.partition(";")[0].partition("=")
            self._jar[name] = value


def _set(client: flight.FlightClient, **options: Any) -> dict[str, int]:
    values = {
        name: new("SessionOptionValue", **({kind: value} if kind else {}))
        for name, (kind, value) in options.items()
    }
    body = new("SetSessionOptionsRequest", session_options=values).SerializeToString()
    (result,) = client.do_action(flight.Action("SetSessionOptions", body))
    answer = parse("SetSessionOptionsResult", result.body.to_pybytes())
    return {name: error.value for name, error in answer.errors.items()}


def _get(client: flight.FlightClient) -> dict[str, Any]:
    (result,) = client.do_action(flight.Action("GetSessionOptions", b""))
    options = parse("GetSessionOptionsResult", result.body.to_pybytes()).session_options
    return {name: getattr(value, value.WhichOneof("option_value")) for name, value in options.items()}


def test_options_wait_for_no_statement(host: Host, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(*_: object) -> None:
        raise AssertionError("a statement is planned, which waits for others")

    monkeypatch.setattr(QueryService, "prepare", prepare)
    with flight.connect(uri, middleware=[_Cookies()]) as client:
        assert _set(client, dialect=("string_value", "spark")) == {}
        assert _set(client, dialect=("string_value", "klingon")) == {"dialect": 2}
        assert _get(client)["dialect"] == "spark"


def test_options_stick_to_the_cookie(uri: str) -> None:
    with flight.connect(uri, middleware=[_Cookies()]) as client:
        assert _get(client) == {"catalog": "livestate", "schema": "main", "dialect": "duckdb"}
        assert (
            _set(
                client,
                dialect=("string_value", "spark"),
                timeout=("double_value", 2.5),
                catalog=("string_value", "livestate"),
            )
            == {}
        )
        assert _get(client) == {"catalog": "livestate", "schema": "main", "dialect": "spark", "timeout": 2.5}
        assert client.do_get(flight.Ticket(SPARK_SQL)).read_all()["title"].to_pylist() == ["one"]
        assert _set(client, dialect=(None, None), timeout=("string_value", "7")) == {}
        assert _get(client) == {"catalog": "livestate", "schema": "main", "dialect": "duckdb", "timeout": 7.0}
        (result,) = client.do_action(flight.Action("CloseSession", b""))
        assert parse("CloseSessionResult", result.body.to_pybytes()).status == 1
        assert "timeout" not in _get(client)


def test_options_that_cannot_be_are_named_and_the_others_hold(uri: str) -> None:
    with flight.connect(uri, middleware=[_Cookies()]) as client:
        wrong = {
            "dialect": ("string_value", "klingon"),
            "schema": ("string_value", "other"),
            "catalog": ("int64_value", 1),
            "colour": ("string_value", "red"),
            "size": ("int64_value", 7),
            "timeout": ("int64_value", 9),
        }
        assert _set(client, **wrong) == {"dialect": 2, "schema": 2, "catalog": 2, "colour": 1, "size": 1}
        assert _get(client)["timeout"] == 9
        assert _set(client, timeout=("string_value", "soon")) == {"timeout": 2}
        assert _set(client, timeout=("bool_value", True)) == {"timeout": 2}


def test_headers_are_options_too(uri: str) -> None:
    def options(**headers: str) -> flight.FlightCallOptions:
        return flight.FlightCallOptions(
            headers=[(f"livestate-{name}".encode(), value.encode()) for name, value in headers.items()]
        )

    with flight.connect(uri) as client:
        assert client.do_get(flight.Ticket(SPARK_SQL), options(dialect="spark")).read_all().num_rows == 1
        with pytest.raises(pa.ArrowInvalid, match="livestate-timeout"):
            client.do_get(flight.Ticket("SELECT 1"), options(timeout="soon"))
        with pytest.raises(pa.ArrowInvalid, match="klingon"):
            client.do_get(flight.Ticket("SELECT 1"), options(dialect="klingon"))


def test_adbc_sends_options_as_headers_or_cookies(uri: str) -> None:
    headers = {DatabaseOptions.RPC_CALL_HEADER_PREFIX.value + "livestate-dialect": "spark"}
    with (
        flight_sql.connect(uri, db_kwargs=headers, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(SPARK_SQL)
        assert cursor.fetchall() == [("one",)]
    cookies = {DatabaseOptions.WITH_COOKIE_MIDDLEWARE.value: "true"}
    with (
        flight_sql.connect(uri, db_kwargs=cookies, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        connection.adbc_connection.set_options(**{"adbc.flight.sql.session.option.dialect": "spark"})
        cursor.execute(SPARK_SQL)
        assert cursor.fetchall() == [("one",)]


@pytest.mark.parametrize(
    "value",
    [
        "!",
        "e30",
        base64.urlsafe_b64encode(b"[]").decode(),
        base64.urlsafe_b64encode(b"[" * 3000).decode(),
        base64.urlsafe_b64encode(b'{"dialect": "\\ud800", "timeout_seconds": null}').decode(),
        base64.urlsafe_b64encode(b'{"dialect": 1, "timeout_seconds": null}').decode(),
    ],
)
def test_a_forged_cookie_is_refused(uri: str, value: str) -> None:
    options = flight.FlightCallOptions(headers=[(b"cookie", f"{COOKIE}={value}".encode())])
    with flight.connect(uri) as client, pytest.raises(pa.ArrowInvalid, match="cookie"):
        client.do_get(flight.Ticket("SELECT 1"), options)


def test_a_forged_timeout_in_a_cookie_is_refused(uri: str) -> None:
    cookie = SessionOptions(timeout_seconds=float("nan")).to_cookie()
    with flight.connect(uri) as client, pytest.raises(pa.ArrowInvalid, match="timeout"):
        client.do_get(
            flight.Ticket("SELECT 1"), flight.FlightCallOptions(headers=[(b"cookie", cookie.encode())])
        )


TOKEN = "correct horse: battery"


@pytest.fixture(scope="module")
def guarded_uri(host: Host) -> Iterator[str]:
    """A second server over the same stores, with a token."""
    service = QueryService(host.source)
    server = LivestateServer(
        "grpc://127.0.0.1:0", service, host.source.notify, authenticator=Authenticator(token=TOKEN)
    )
    yield f"grpc://127.0.0.1:{server.port}"
    assert server.stop(5)
    service.close()


def test_too_many_log_ins_are_no_wrong_password(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_user(tmp_path / "users.toml", "ann", TOKEN, ["reader"], {})
    (tmp_path / "security.toml").write_text('[security]\nusers = "users.toml"\n')
    turns = threading.BoundedSemaphore(1)
    monkeypatch.setattr(passwords, "_TURNS", turns)
    monkeypatch.setattr(passwords, "LONGEST_WAIT_SECONDS", 0.001)
    service = QueryService(host.source)
    authenticator = Authenticator(file=tmp_path / "security.toml")
    server = LivestateServer("grpc://127.0.0.1:0", service, host.source.notify, authenticator=authenticator)
    try:
        with flight.connect(f"grpc://127.0.0.1:{server.port}") as client:
            with turns, pytest.raises(flight.FlightServerError, match="Too many log-ins at once") as caught:
                client.authenticate_basic_token("ann", TOKEN)
            assert not isinstance(caught.value, flight.FlightUnauthenticatedError)
            assert not is_word_of_caller(caught.value)
            assert client.authenticate_basic_token("ann", TOKEN)[1].startswith(b"Bearer ls1.")
    finally:
        assert server.stop(5)
        service.close()


def test_the_token_opens_as_bearer_and_as_password(guarded_uri: str) -> None:
    with Client(ConnectionOptions((guarded_uri,), TOKEN)) as client:
        assert client.query("SELECT count(*) AS n FROM songs").read_all()["n"].to_pylist() == [3]
    for credentials in (
        {"username": "me", "password": TOKEN},
        {DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {TOKEN}"},
    ):
        with (
            flight_sql.connect(guarded_uri, db_kwargs=credentials, autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SELECT count(*) FROM songs")
            assert cursor.fetchone() == (3,)
    with flight.connect(guarded_uri) as client:
        header = client.authenticate_basic_token("me", TOKEN)
        assert (
            client.do_get(flight.Ticket("SELECT 1 AS one"), flight.FlightCallOptions(headers=[header]))
            .read_all()
            .num_rows
            == 1
        )


@pytest.mark.parametrize(
    "header",
    [
        None,
        b"Bearer wrong",
        b"Bearer ",
        b"Basic !!!",
        b"Basic " + base64.b64encode(b"me:wrong"),
        b"Digest x",
        b"",
    ],
)
def test_nothing_else_opens(guarded_uri: str, header: bytes | None) -> None:
    options = flight.FlightCallOptions(headers=[(b"authorization", header)] if header is not None else [])
    with flight.connect(guarded_uri) as client:
        for call in (
            lambda: client.do_get(flight.Ticket("SELECT 1"), options).read_all(),
            lambda: list(client.do_action(flight.Action("livestate.health", b""), options)),
            lambda: list(client.list_actions(options)),
        ):
            with pytest.raises(flight.FlightUnauthenticatedError, match="token") as caught:
                call()
            assert TOKEN not in str(caught.value)
            assert "Traceback" not in str(caught.value)


def test_our_client_and_adbc_say_so(guarded_uri: str) -> None:
    with Client(guarded_uri) as client, pytest.raises(Unauthenticated, match="token"):
        client.query("SELECT 1")
    with pytest.raises(ProgrammingError, match=r"(?i)unauthenticated"):
        flight_sql.connect(guarded_uri, db_kwargs={"username": "me", "password": "wrong"}, autocommit=True)


def test_a_dialect_that_is_none_is_told(uri: str) -> None:
    with Client(uri, dialect="klingon") as client, pytest.raises(InvalidInput, match="klingon"):
        client.query("SELECT 1")


def test_our_client_keeps_what_set_changes(uri: str) -> None:
    with Client(uri, timeout_seconds=7) as client:
        assert client.query("SET dialect TO spark").read_all().num_rows == 0
        assert client.query(SPARK_SQL).read_all()["title"].to_pylist() == ["one"]
        for sql, message in (
            ("SET dialect = 'klingon'", "The dialect 'klingon' is not known"),
            ("SET nothing = 1", "There is no session option 'nothing'"),
            ("SET timeout", "Write SET name = value"),
            ("SET timeout = 0", "above 0"),
        ):
            with pytest.raises(LivestateError, match=message):
                client.query(sql)
        assert client.options == SessionOptions("spark", 7.0)
        client.query("/* both */ RESET dialect; -- again").read_all()
        client.query("RESET timeout").read_all()
        assert client.options == SessionOptions()
        client.query("SET min_epoch = 1000000").read_all()
        client.query("SET timeout = 0.5").read_all()
        with pytest.raises(LivestateError, match="epoch"), client.keys("songs") as keys:
            keys.get(1)
        with pytest.raises(LivestateError, match="epoch"):
            client.query("SELECT count(*) FROM songs")
