"""Tokens, passwords, JSON Web Tokens and session tokens, good ones and all that are not."""

import base64
import hashlib
import hmac
import io
import json
import logging
import math
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from engine.access.principal import Permission, Principal, Proof
from engine.access.security_file import JwtOptions
from engine.errors import InvalidInput, LimitExceeded, LivestateError, Unauthenticated
from engine.telemetry.log_lines import RepeatFilter
from flight_server.cli.credentials import add_token, add_user
from flight_server.client.secret_files import read_secret, write_secret
from flight_server.identity import authenticator as authenticator_module
from flight_server.identity import key_sources, passwords
from flight_server.identity.authenticator import (
    MOST_KEPT,
    MOST_OF_ONE,
    STRANGERS,
    Authenticator,
    _KeptProof,
    _Known,
)
from flight_server.identity.credential_watcher import CredentialWatcher
from flight_server.identity.failed_logins import FREE_FAILURES, LONGEST_DELAY_SECONDS, FailedLogins
from flight_server.identity.key_sources import KeySource
from flight_server.identity.passwords import is_password
from flight_server.identity.session_tokens import SessionToken, read_session, sign_session
from flight_server.identity.web_tokens import SigningKeys, parse_keys
from tests.support.certificate import make_certificate
from tests.support.waiting import wait_until

PASSWORD = "correct horse: battery"
SECRET = b"0123456789abcdef0123456789abcdef"
ISSUER = "https://login.example.com/"
RSA_KEY = rsa.generate_private_key(65537, 2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
ED_KEY = ed25519.Ed25519PrivateKey.generate()
SIGNERS: Mapping[str, tuple[Any, str]] = {
    "rsa": (RSA_KEY, "RS256"),
    "ec": (EC_KEY, "ES256"),
    "ed": (ED_KEY, "EdDSA"),
}


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def public_keys() -> dict[str, Any]:
    algorithms = jwt.get_algorithm_by_name
    return {
        "keys": [
            {**json.loads(algorithms(algorithm).to_jwk(key.public_key())), "kid": kid, "alg": algorithm}
            for kid, (key, algorithm) in SIGNERS.items()
        ]
    }


def claims(**changed: Any) -> dict[str, Any]:
    said = {"iss": ISSUER, "aud": "livestate", "sub": "ann", "exp": time.time() + 600, "roles": ["reader"]}
    return {name: value for name, value in {**said, **changed}.items() if value is not None}


def make_web_token(kid: str = "rsa", **changed: Any) -> str:
    key, algorithm = SIGNERS[kid]
    return jwt.encode(claims(**changed), key, algorithm, headers={"kid": kid})


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file of users; a digest takes a while to make."""
    file = tmp_path_factory.mktemp("users") / "users.toml"
    add_user(file, "ann", PASSWORD, ["reader"], {"desk": "rates"})
    return file.read_bytes()


@pytest.fixture
def directory(tmp_path: Path, users: bytes) -> Path:
    (tmp_path / "keys.json").write_text(json.dumps(public_keys()))
    write_secret(tmp_path / "users.toml", users)
    (tmp_path / "security.toml").write_text(
        '[security]\nusers = "users.toml"\ntokens = "tokens.toml"\n'
        f'[security.jwt]\nissuer = "{ISSUER}"\naudience = "livestate"\nkeys = "keys.json"\n'
    )
    write_secret(tmp_path / "tokens.toml", b"version = 1\n")
    return tmp_path


@pytest.fixture
def authenticator(directory: Path) -> Authenticator:
    return Authenticator(file=directory / "security.toml")


def test_tokens_of_several_principals(directory: Path) -> None:
    first = add_token(directory / "tokens.toml", "grafana", ["reader"], {"desk": "rates"}, None)
    ends = datetime.now(UTC) + timedelta(seconds=600)
    second = add_token(directory / "tokens.toml", "job", ["writer"], {}, ends)
    assert first not in (directory / "tokens.toml").read_text()
    authenticator = Authenticator(file=directory / "security.toml")
    for presented in (f"Bearer {first}", f"bearer {first}", basic("whoever", first)):
        principal = authenticator.principal_of_headers([presented])
        assert principal is not None
        assert (principal.name, principal.proof, principal.claims) == (
            "grafana",
            Proof.TOKEN,
            {"desk": "rates"},
        )
    job = authenticator.principal_of_headers([f"Bearer {second}", f"Bearer {second}"])
    assert job is not None
    assert (job.may(Permission.NOTIFY), job.may(Permission.READ)) == (True, False)


def test_a_token_that_has_expired_is_refused(directory: Path) -> None:
    past = datetime.now(UTC) - timedelta(seconds=1)
    token = add_token(directory / "tokens.toml", "job", ["writer"], {}, past)
    with pytest.raises(Unauthenticated, match="has expired"):
        Authenticator(file=directory / "security.toml").principal_of_headers([f"Bearer {token}"])


def test_a_password_and_what_a_log_in_gets(authenticator: Authenticator) -> None:
    principal = authenticator.principal_of_headers([basic("ann", PASSWORD)])
    assert principal is not None
    assert (principal.name, principal.proof, principal.claims) == ("ann", Proof.PASSWORD, {"desk": "rates"})
    bearer = authenticator.bearer([basic("ann", PASSWORD)])
    assert bearer.startswith("ls1.")
    assert authenticator.principal_of_headers([f"Bearer {bearer}"]) == principal
    for damaged in (bearer[:-2], bearer + "A", bearer.replace("ls1.", "ls2."), "ls1..", "ls1.e30.AA"):
        with pytest.raises(Unauthenticated):
            authenticator.principal_of_headers([f"Bearer {damaged}"])


@pytest.mark.parametrize("name", ["ann", "bob", "nobody", ""])
def test_a_log_in_gets_no_more_than_it_proves(directory: Path, name: str) -> None:
    add_user(directory / "users.toml", "bob", "another password", ["operator"], {})
    static = add_token(directory / "tokens.toml", "grafana", ["reader"], {}, None)
    authenticator = Authenticator(file=directory / "security.toml")
    session = authenticator.bearer([basic("ann", PASSWORD)])
    for secret in (static, session, make_web_token(), PASSWORD, "wrong"):
        for presented in (basic(name, secret), f"Bearer {secret}"):
            try:
                proved = authenticator.principal_of_headers([presented])
            except Unauthenticated:
                with pytest.raises(Unauthenticated):
                    authenticator.bearer([presented])
            else:
                bearer = authenticator.bearer([presented])
                assert authenticator.principal_of_headers([f"Bearer {bearer}"]) == proved


def test_a_log_in_without_a_proof_is_refused(directory: Path) -> None:
    (directory / "callers.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    with (directory / "security.toml").open("a") as file:
        file.write('[security.certificates]\nauthorities = "callers.pem"\nprincipals = []\n')
    authenticator = Authenticator(file=directory / "security.toml")
    assert authenticator.principal_of_headers([]) is None
    with pytest.raises(Unauthenticated, match="a log-in takes no certificate"):
        authenticator.bearer([])


def test_another_password_ends_the_log_ins_of_the_one_before(directory: Path) -> None:
    authenticator = Authenticator(file=directory / "security.toml")
    bearer = authenticator.bearer([basic("ann", PASSWORD)])
    (directory / "users.toml").unlink()
    add_user(directory / "users.toml", "ann", "another password", ["reader"], {})
    authenticator.reload()
    for presented in (f"Bearer {bearer}", basic("ann", PASSWORD)):
        with pytest.raises(Unauthenticated):
            authenticator.principal_of_headers([presented])
    assert authenticator.principal_of_headers([basic("ann", "another password")]) is not None


def test_a_session_token_ends() -> None:
    token = SessionToken("ann", "x", 7)
    assert read_session(sign_session(token, SECRET), SECRET) == token
    assert read_session(sign_session(token, SECRET), SECRET[::-1]) is None
    assert read_session("ls1." + "A" * 5000 + ".x", SECRET) is None


def test_what_proves_nobody(authenticator: Authenticator) -> None:
    for presented, words in (
        ([], "wants a token"),
        ([""], "wants a token"),
        (["Basic !!!"], "wants a token"),
        (["Basic " + base64.b64encode(b"no colon").decode()], "wants a token"),
        (["Digest x"], "wants a token"),
        (["Bearer "], "neither known"),
        (["Bearer x", "Bearer y"], "several different"),
        (["Bearer " + "x" * 20_000], "longer than"),
        ([basic("ann", "wrong")], "are wrong"),
        ([basic("nobody", PASSWORD)], "are wrong"),
        ([basic("ann", "x" * 2000)], "are wrong"),
    ):
        with pytest.raises(Unauthenticated, match=words):
            authenticator.principal_of_headers(presented)


def test_failed_log_ins_slow_the_next_ones_down(authenticator: Authenticator) -> None:
    for _ in range(FREE_FAILURES):
        with pytest.raises(Unauthenticated, match="are wrong"):
            authenticator.principal_of_headers([basic("ann", "wrong")])
    with pytest.raises(Unauthenticated, match=r"Too many log-ins .*: wait 1 s"):
        authenticator.principal_of_headers([basic("ann", PASSWORD)])


def test_nobody_is_told_to_wait_for_no_time(
    authenticator: Authenticator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FailedLogins, "begin", lambda *_: 0.2)
    with pytest.raises(Unauthenticated, match="wait 1 s and try again"):
        authenticator.principal_of_headers([basic("ann", PASSWORD)])


def test_the_delay_doubles_and_is_forgotten() -> None:
    failed = FailedLogins()
    delays, now = [], 0.0
    for _ in range(FREE_FAILURES + 8):
        assert failed.begin("ann", now) == 0.0
        failed.fail("ann", now)
        now += (delay := delay_of(failed, "ann", now))
        delays.append(delay)
    assert delays[: FREE_FAILURES - 1] == [0.0] * (FREE_FAILURES - 1)
    assert delays[FREE_FAILURES - 1 :][:4] == [1.0, 2.0, 4.0, 8.0]
    assert delays[-1] == LONGEST_DELAY_SECONDS
    failed.fail("ann", now)
    assert delay_of(failed, "ann", now + 901) == delay_of(failed, "bob", now) == 0.0
    failed.forget("ann")
    assert delay_of(failed, "ann", now) == 0.0


def delay_of(failed: FailedLogins, subject: str, now: float) -> float:
    """The delay, without a log-in that has begun."""
    delay = failed.begin(subject, now)
    if delay == 0.0:
        failed.take_back(subject)
    return delay


def test_log_ins_at_once_are_no_more_than_one_after_another() -> None:
    failed = FailedLogins()
    begun = [failed.begin("ann", 1.0) == 0.0 for _ in range(100)]
    assert begun == [True] * FREE_FAILURES + [False] * (100 - FREE_FAILURES)
    assert [failed.begin("ann", 2.5) == 0.0 for _ in range(100)] == [True] + [False] * 99


def test_a_log_in_that_was_not_looked_at_is_no_failure(
    authenticator: Authenticator, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as busy:
        busy.setattr(passwords, "_TURNS", threading.BoundedSemaphore(1))
        busy.setattr(passwords, "LONGEST_WAIT_SECONDS", 0.001)
        assert passwords._TURNS.acquire()
        for _ in range(FREE_FAILURES + 1):
            with pytest.raises(LimitExceeded):
                authenticator.principal_of_headers([basic("ann", PASSWORD)])
    assert authenticator.principal_of_headers([basic("ann", PASSWORD)]) is not None


def test_equal_log_ins_at_once_take_one_digest(
    authenticator: Authenticator, monkeypatch: pytest.MonkeyPatch
) -> None:
    digested: list[str] = []

    def check_and_note(digest: str | None, password: str) -> bool:
        digested.append(password)
        return is_password(digest, password)

    monkeypatch.setattr(authenticator_module, "is_password", check_and_note)
    begin = threading.Barrier(20)

    def log_in() -> str:
        begin.wait()
        principal = authenticator.principal_of_headers([basic("ann", PASSWORD)])
        return "" if principal is None else principal.name

    with ThreadPoolExecutor(20) as pool:
        calls = [pool.submit(log_in) for _ in range(20)]
    assert {call.result() for call in calls} == {"ann"}
    assert digested == [PASSWORD]
    assert not authenticator._known.awaited


@pytest.mark.parametrize("password", ["x" * 1025, "wrong"])
def test_made_up_names_make_nobody_forgotten(
    authenticator: Authenticator, monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    # Thousands of digests would take minutes.
    monkeypatch.setattr(authenticator_module, "is_password", lambda _digest, _password: False)
    # On a busy machine they take longer than the delay that is looked for.
    monkeypatch.setattr(authenticator_module, "time", SimpleNamespace(time=time.time, monotonic=lambda: 1.0))
    for _ in range(FREE_FAILURES):
        with pytest.raises(Unauthenticated, match="are wrong"):
            authenticator.principal_of_headers([basic("ann", "wrong")])
    for count in range(12_000):
        with pytest.raises(Unauthenticated):
            authenticator.principal_of_headers([basic(f"u{count}", password)])
    assert len(authenticator._failed._failures) <= STRANGERS + 1
    with pytest.raises(Unauthenticated, match="Too many log-ins"):
        authenticator.principal_of_headers([basic("ann", "wrong")])


def test_made_up_names_are_few_lines_of_the_log(authenticator: Authenticator) -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.addFilter(RepeatFilter())
    log = logging.getLogger(authenticator_module.__name__)
    log.addHandler(handler)
    try:
        for name in ("ann", *(f"u{count}" for count in range(100))):
            with pytest.raises(Unauthenticated, match="are wrong"):
                authenticator.principal_of_headers([basic(name, "x" * 1025)])
    finally:
        log.removeHandler(handler)
    assert written.getvalue().splitlines() == [
        "a log-in has failed: user 'ann'",
        "a log-in has failed: user 'u0'",
    ]


@pytest.mark.parametrize("kid", list(SIGNERS))
def test_a_web_token(authenticator: Authenticator, kid: str) -> None:
    token = make_web_token(kid, desk="rates", nested={"x": 1}, teams=["a"])
    principal = authenticator.principal_of_headers([f"Bearer {token}"])
    assert principal is not None
    assert (principal.name, principal.proof, set(principal.roles)) == ("ann", Proof.JWT, {"reader"})
    assert principal.claims == {"desk": "rates", "teams": ("a",), "sub": "ann", "roles": ("reader",)}


@pytest.fixture
def issuer_keys(directory: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the issuer's address answers; nothing: it is away."""
    served: list[dict[str, Any]] = public_keys()["keys"]

    def read(source: KeySource) -> SigningKeys:
        if not served:
            raise InvalidInput("The keys that sign JSON Web Tokens cannot be fetched.")
        return parse_keys(json.dumps({"keys": served}).encode(), source._options)

    monkeypatch.setattr(KeySource, "_read_address", read)
    file = directory / "security.toml"
    file.write_text(file.read_text().replace("keys.json", "https://login.example.com/keys.json"))
    return served


def test_a_key_that_was_withdrawn_ends_tokens_that_are_in_use(
    directory: Path, issuer_keys: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    authenticator = Authenticator(file=directory / "security.toml")
    tokens = {kid: make_web_token(kid) for kid in ("rsa", "ec")}
    assert all(is_good(authenticator, token) for token in tokens.values())
    withdrawn = issuer_keys.pop(0)
    assert withdrawn["kid"] == "rsa"
    assert is_good(authenticator, tokens["rsa"])
    monkeypatch.setattr(key_sources, "REFRESH_SECONDS", -1.0)
    assert not is_good(authenticator, tokens["rsa"])
    assert is_good(authenticator, tokens["ec"])
    issuer_keys.clear()
    assert is_good(authenticator, tokens["ec"])


def test_an_issuer_that_is_away_keeps_no_token_good(
    directory: Path, issuer_keys: list[dict[str, Any]]
) -> None:
    static = add_token(directory / "tokens.toml", "grafana", ["reader"], {}, None)
    authenticator = Authenticator(file=directory / "security.toml")
    issuer_keys.clear()
    write_secret(directory / "tokens.toml", b"version = 1")
    authenticator.reload()
    assert not is_good(authenticator, static)
    assert is_good(authenticator, make_web_token())


def test_an_issuer_that_is_away_is_in_the_log(
    directory: Path,
    issuer_keys: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    authenticator = Authenticator(file=directory / "security.toml")
    issuer_keys.clear()
    assert is_good(authenticator, make_web_token())
    assert not caplog.records
    monkeypatch.setattr(key_sources, "REFRESH_SECONDS", -1.0)
    assert is_good(authenticator, make_web_token())
    told = (
        "the keys of JSON Web Tokens stay as they were: The keys that sign JSON Web Tokens cannot be fetched."
    )
    assert told in caplog.messages


def test_keys_that_cannot_be_fetched_are_those_of_the_issuer_before(
    directory: Path, issuer_keys: list[dict[str, Any]]
) -> None:
    static = add_token(directory / "tokens.toml", "grafana", ["reader"], {}, None)
    authenticator = Authenticator(file=directory / "security.toml")
    served = list(issuer_keys)
    issuer_keys.clear()
    file = directory / "security.toml"
    file.write_text(file.read_text().replace(ISSUER, "https://others.example.com/"))
    write_secret(directory / "tokens.toml", b"version = 1")
    authenticator.reload()
    of_others = make_web_token(iss="https://others.example.com/")
    assert not is_good(authenticator, static)
    assert is_good(authenticator, make_web_token())
    # The keys that are known are not those of the others.
    assert not is_good(authenticator, of_others)
    assert authenticator.has_changed()
    issuer_keys += served
    authenticator.reload()
    assert not is_good(authenticator, make_web_token())
    assert is_good(authenticator, of_others)
    assert not authenticator.has_changed()


def test_calls_with_a_new_key_wait_for_the_one_that_fetches_it(
    directory: Path, issuer_keys: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    new = [issuer_keys.pop() for _ in range(2)]
    authenticator = Authenticator(file=directory / "security.toml")
    source = authenticator.credentials.web_keys
    assert source is not None
    issuer_keys += new
    read, asked, answered = KeySource._read_address, threading.Event(), threading.Event()
    asks: list[KeySource] = []

    def read_slowly(source: KeySource) -> SigningKeys:
        asks.append(source)
        asked.set()
        assert answered.wait(60)
        return read(source)

    monkeypatch.setattr(KeySource, "_read_address", read_slowly)
    # Nobody gives up on a busy machine.
    monkeypatch.setattr(key_sources, "TIMEOUT_SECONDS", 60.0)
    monkeypatch.setattr(key_sources, "SECONDS_BETWEEN_ASKS", 600.0)
    monkeypatch.setattr(source, "_asked", -math.inf)
    tokens = [make_web_token(kid, jti=str(count)) for kid in ("ec", "ed") for count in range(5)]
    with ThreadPoolExecutor(len(tokens)) as pool:
        first = pool.submit(is_good, authenticator, tokens[0])
        assert asked.wait(60)
        others = [pool.submit(is_good, authenticator, token) for token in tokens[1:]]
        try:
            wait_until(
                lambda: (
                    any(call.done() for call in others)
                    or source._places._value == key_sources.MOST_WAITING - len(tokens)
                )
            )
            # A key that is known waits for nobody.
            assert is_good(authenticator, make_web_token("rsa"))
        finally:
            answered.set()
        assert all(call.result() for call in [first, *others])
    assert len(asks) == 1


def test_made_up_keys_are_asked_for_once_and_few_wait(
    directory: Path, issuer_keys: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_sources, "MOST_WAITING", 3)
    monkeypatch.setattr(key_sources, "TIMEOUT_SECONDS", 60.0)
    source = Authenticator(file=directory / "security.toml").credentials.web_keys
    assert source is not None
    read, answered = KeySource._read_address, threading.Event()
    asks: list[KeySource] = []

    def read_slowly(source: KeySource) -> SigningKeys:
        asks.append(source)
        assert answered.wait(60)
        return read(source)

    monkeypatch.setattr(KeySource, "_read_address", read_slowly)
    monkeypatch.setattr(key_sources, "SECONDS_BETWEEN_ASKS", 600.0)
    monkeypatch.setattr(source, "_asked", -math.inf)
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(source.keys, f"made up {count}") for count in range(3)]
        try:
            wait_until(lambda: source._places._value == 0)
            for count in range(100):
                assert "rsa" in source.keys(f"another {count}").keys
            assert not any(call.done() for call in waiting)
        finally:
            answered.set()
    for count in range(100):
        source.keys(f"later {count}")
    assert len(asks) == 1


@pytest.fixture
def key_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ssl.SSLSocket]:
    """A server of TLS whose certificate is trusted."""
    certificate = make_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.chain_file))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.chain_file, certificate.key_file)
    with context.wrap_socket(socket.create_server(("127.0.0.1", 0)), server_side=True) as server:
        yield server


def test_it_is_said_why_keys_cannot_be_fetched(
    key_server: ssl.SSLSocket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer() -> None:
        connected, _ = key_server.accept()
        with connected:
            connected.recv(10_000)
            connected.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")

    port = key_server.getsockname()[1]
    options = JwtOptions(ISSUER, "livestate", f"https://127.0.0.1:{port}/keys")
    with ThreadPoolExecutor(1) as pool:
        answering = pool.submit(answer)
        with pytest.raises(
            InvalidInput, match=r"cannot be fetched from https://.*: it answers with status 503"
        ):
            KeySource(options, tmp_path)
        answering.result()
    monkeypatch.setattr(key_sources, "TIMEOUT_SECONDS", 0.2)
    with pytest.raises(InvalidInput, match=r"it has no answer within 0\.2 seconds"):
        KeySource(options, tmp_path)
    key_server.close()
    with pytest.raises(InvalidInput, match=r"Connection refused"):
        KeySource(options, tmp_path)


@pytest.mark.parametrize("dripping", ["nothing", "headers", "body"])
def test_a_key_server_has_a_time_for_its_whole_answer(
    key_server: ssl.SSLSocket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dripping: str
) -> None:
    body = json.dumps(public_keys()).encode()
    slow = {"nothing": b"", "headers": b"X: %040d\r\n" % 0, "body": b" " * 40}[dripping]
    drips = [bytes([byte]) for byte in slow]
    size = len(body) + (len(drips) if dripping == "body" else 0)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n" % size
    pieces = [head, b"\r\n", *drips, body] if dripping == "body" else [head, *drips, b"\r\n", body]

    def answer() -> None:
        # The client hangs up, in the middle of a handshake too where the machine is busy.
        with suppress(OSError):
            connected, _ = key_server.accept()
            with connected:
                connected.recv(10_000)
                for piece in pieces:
                    connected.sendall(piece)
                    # Never as long as the time-out: no piece alone is late.
                    time.sleep(0.05 if len(piece) == 1 else 0)

    port = key_server.getsockname()[1]
    options = JwtOptions(ISSUER, "livestate", f"https://127.0.0.1:{port}/keys")
    if dripping != "nothing":
        monkeypatch.setattr(key_sources, "TIMEOUT_SECONDS", 0.5)
    with ThreadPoolExecutor(1) as pool:
        answering = pool.submit(answer)
        if dripping == "nothing":
            assert set(KeySource(options, tmp_path).keys("rsa").keys) == set(SIGNERS)
        else:
            with pytest.raises(InvalidInput, match="cannot be fetched"):
                KeySource(options, tmp_path)
        answering.result()


def make_unsigned_token(**header: Any) -> str:
    parts = ({"alg": "none", "typ": "JWT", "kid": "rsa", **header}, claims())
    texts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*texts, ""])


def make_confused_token() -> str:
    """A token whose secret is the public key, which everybody may read."""
    public = RSA_KEY.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    head, body, _ = make_unsigned_token(alg="HS256").split(".")
    signature = hmac.digest(public, f"{head}.{body}".encode(), hashlib.sha256)
    return f"{head}.{body}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


def make_token_of_a_stranger() -> str:
    return jwt.encode(claims(), rsa.generate_private_key(65537, 2048), "RS256", headers={"kid": "rsa"})


BAD_WEB_TOKENS: Mapping[str, tuple[Callable[[], str], str]] = {
    "expired": (lambda: make_web_token(exp=time.time() - 60), "it has expired"),
    "without an end": (lambda: make_web_token(exp=None), "it lacks one of"),
    "without a near end": (lambda: make_web_token(exp=10**400), "it never expires"),
    "of the future": (lambda: make_web_token(nbf=time.time() + 600), "not good yet"),
    "for others": (lambda: make_web_token(aud="another"), "another audience"),
    "for nobody": (lambda: make_web_token(aud=None), "lacks one of"),
    "of others": (lambda: make_web_token(iss="https://evil.example.com/"), "another issuer"),
    "without a name": (lambda: make_web_token(sub=None), "no claim sub"),
    "with two lines": (lambda: make_web_token(sub="a\nb"), "no claim sub|damaged"),
    "with a long name": (lambda: make_web_token(sub="x" * 300), "no claim sub"),
    "with a number": (lambda: make_web_token(sub=7), "no claim sub|damaged"),
    "unsigned": (make_unsigned_token, "algorithm"),
    "unsigned, as if": (lambda: make_unsigned_token(alg="HS256"), "algorithm"),
    "confused": (make_confused_token, "algorithm"),
    "of a stranger": (make_token_of_a_stranger, "signature"),
    "in pieces": (lambda: make_web_token().replace(".", "..", 1), "neither known nor"),
    "cut": (lambda: make_web_token()[:-20], "neither known nor|signature|damaged"),
    "of another kind of key": (
        lambda: jwt.encode(claims(), EC_KEY, "ES256", headers={"kid": "rsa"}),
        "algorithm",
    ),
    "of a new key": (
        lambda: jwt.encode(claims(), EC_KEY, "ES256", headers={"kid": "new"}),
        "a key that this host does not know",
    ),
    "without a key": (lambda: jwt.encode(claims(), EC_KEY, "ES256"), "a key that this host does not know"),
    "nonsense": (lambda: "x.y.z", "neither known nor"),
}


@pytest.mark.parametrize("name", list(BAD_WEB_TOKENS))
def test_web_tokens_that_prove_nobody(authenticator: Authenticator, name: str) -> None:
    make, words = BAD_WEB_TOKENS[name]
    token = make()
    with pytest.raises(Unauthenticated, match=words) as caught:
        authenticator.principal_of_headers([f"Bearer {token}"])
    assert token not in str(caught.value)


def test_a_secret_that_hosts_share(tmp_path: Path) -> None:
    write_secret(tmp_path / "secret", SECRET + b"\n")
    (tmp_path / "security.toml").write_text(
        f'[security.jwt]\nissuer = "{ISSUER}"\naudience = "livestate"\nkeys = "secret"\n'
        'algorithms = ["HS256"]\n'
    )
    authenticator = Authenticator(file=tmp_path / "security.toml")
    assert authenticator.principal_of_headers([f"Bearer {jwt.encode(claims(), SECRET, 'HS256')}"]) is not None
    for token in (make_web_token(), make_unsigned_token(), jwt.encode(claims(), SECRET[::-1], "HS256")):
        with pytest.raises(Unauthenticated):
            authenticator.principal_of_headers([f"Bearer {token}"])


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("no JSON", "no JSON Web Key Set"),
        ("[]", "no JSON Web Key Set"),
        ('{"keys": 1}', "no list"),
        ('{"keys": []}', "no key with a kid"),
        ('{"keys": [{"kty": "oct", "k": "AAAA", "kid": "a"}]}', "no key with a kid"),
        ('{"keys": [{"kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "a"}]}', "no key with a kid"),
        ('{"keys": [' + ",".join(["{}"] * 101) + "]}", "more than 100"),
    ],
)
def test_keys_that_cannot_be_used(directory: Path, keys: str, words: str) -> None:
    (directory / "keys.json").write_text(keys)
    with pytest.raises(InvalidInput, match=words):
        Authenticator(file=directory / "security.toml")


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o620])
def test_a_secret_that_others_can_reach_is_refused(directory: Path, mode: int) -> None:
    (directory / "users.toml").chmod(mode)
    with pytest.raises(InvalidInput, match="chmod 600"):
        Authenticator(file=directory / "security.toml")


def test_secret_files(tmp_path: Path) -> None:
    write_secret(tmp_path / "a", b"x")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    assert read_secret(tmp_path / "a", "It") == b"x"
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]
    for place, words in ((tmp_path, "no regular file|Is a directory"), (tmp_path / "b", "It cannot be read")):
        with pytest.raises(InvalidInput, match=words):
            read_secret(place, "It")
    with pytest.raises(InvalidInput, match="cannot be written"):
        write_secret(tmp_path / "c" / "d", b"x")


def test_changed_files_are_read_again_and_bad_ones_change_nothing(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authenticator = Authenticator(file=directory / "security.toml")
    watcher = CredentialWatcher(authenticator)
    watcher.start()
    try:
        token = add_token(directory / "tokens.toml", "grafana", ["reader"], {}, None)
        wait_until(lambda: is_good(authenticator, token))
        good = (directory / "tokens.toml").read_bytes()
        write_secret(directory / "tokens.toml", b"version = 9")
        wait_until(
            lambda: "tokens.toml stays as it was: The file of tokens must say version = 1" in caplog.text
        )
        assert is_good(authenticator, token)
        watcher.reload()
        write_secret(directory / "tokens.toml", good.replace(b"grafana", b"prometheus"))
        wait_until(lambda: name_of(authenticator, token) == "prometheus")
        write_secret(directory / "tokens.toml", b"version = 1")
        wait_until(lambda: not is_good(authenticator, token))
    finally:
        watcher.stop()
    watcher.stop()


@pytest.mark.parametrize("damage", [b"damaged {", None])
@pytest.mark.parametrize("name", ["keys.json", "users.toml", "security.toml", "session.key", "callers.pem"])
def test_a_file_that_cannot_be_read_keeps_nothing_good_of_another(
    directory: Path, name: str, damage: bytes | None
) -> None:
    write_secret(directory / "session.key", SECRET)
    (directory / "callers.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    file = directory / "security.toml"
    file.write_text(
        file.read_text().replace("[security]", '[security]\nsession_key = "session.key"')
        + '[security.certificates]\nauthorities = "callers.pem"\nprincipals = []\n'
    )
    static = add_token(directory / "tokens.toml", "grafana", ["reader"], {}, None)
    authenticator = Authenticator(file=file)
    session = authenticator.bearer([basic("ann", PASSWORD)])
    good = (directory / name).read_bytes()
    (directory / name).unlink()
    if damage is not None:
        write_secret(directory / name, damage)
    assert authenticator.reload()
    assert is_good(authenticator, static)
    assert list(authenticator.credentials.unread) == [name]
    write_secret(directory / "tokens.toml", b"version = 1")
    assert authenticator.reload()
    assert not is_good(authenticator, static)
    for token in (session, make_web_token()):
        assert is_good(authenticator, token)
    # It is tried again, and until it can be read nothing that was proved is forgotten.
    known = authenticator._known
    assert authenticator.has_changed()
    assert not authenticator.reload()
    assert authenticator._known is known
    write_secret(directory / name, good)
    assert authenticator.reload()
    assert not authenticator.credentials.unread
    assert not authenticator.has_changed()
    assert not is_good(authenticator, static)


def test_a_role_that_is_gone_gives_nothing_to_those_who_still_have_it(directory: Path) -> None:
    file = directory / "security.toml"
    before = file.read_text()
    file.write_text(before + '[roles.rates]\nstores = ["trades"]\n')
    token = add_token(directory / "tokens.toml", "grafana", ["rates"], {}, None)
    authenticator = Authenticator(file=file)
    principal = authenticator.principal_of_headers([f"Bearer {token}"])
    assert principal is not None
    assert len(principal.grants) == 1
    file.write_text(before)
    authenticator.reload()
    assert list(authenticator.credentials.unread) == ["tokens.toml"]
    principal = authenticator.principal_of_headers([f"Bearer {token}"])
    assert principal is not None
    assert not principal.grants


def test_no_moment_of_a_reload_keeps_what_is_not_good_any_more(tmp_path: Path) -> None:
    (tmp_path / "security.toml").write_text('[security]\ntokens = "tokens.toml"\n')
    token = add_token(tmp_path / "tokens.toml", "grafana", ["reader"], {}, None)
    good = (tmp_path / "tokens.toml").read_bytes()
    authenticator = Authenticator(file=tmp_path / "security.toml")

    def reload_at(moment: int) -> bool:
        """Take the token out between two instructions of a call; false where the call had no more of them."""
        write_secret(tmp_path / "tokens.toml", good)
        authenticator.reload()
        count = 0

        def trace(frame: FrameType, event: str, _argument: object) -> Callable[..., Any] | None:
            nonlocal count
            if frame.f_code.co_filename != authenticator_module.__file__:
                return None
            frame.f_trace_opcodes = True
            count += event == "opcode"
            if count == moment and event == "opcode":
                sys.settrace(None)
                write_secret(tmp_path / "tokens.toml", b"version = 1")
                authenticator.reload()
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            name_of(authenticator, token)
        finally:
            sys.settrace(before)
        return count >= moment

    moment = 1
    while reload_at(moment):
        assert not is_good(authenticator, token), moment
        moment += 1
    assert moment > 50


def is_good(authenticator: Authenticator, token: str) -> bool:
    return name_of(authenticator, token) != ""


def name_of(authenticator: Authenticator, token: str) -> str:
    try:
        principal = authenticator.principal_of_headers([f"Bearer {token}"])
    except LivestateError:
        return ""
    assert principal is not None
    return principal.name


def test_kept_proofs_of_one_principal_are_bounded(authenticator: Authenticator) -> None:
    authenticator.principal_of_headers([basic("ann", PASSWORD)])
    token, known = authenticator.bearer([basic("ann", PASSWORD)]), authenticator._known
    for count in range(MOST_OF_ONE + 5):
        authenticator.principal_of_headers([f"Bearer{' ' * (count % 100 + 1)}{token}{' ' * (count // 100)}"])
    assert len(known.kept) == MOST_OF_ONE
    assert list(known.owned["ann"]) == list(known.kept)


def test_one_with_many_proofs_has_none_of_others_forgotten(authenticator: Authenticator) -> None:
    known = _Known(authenticator.credentials)
    proofs = {
        name: _KeptProof(Principal(name, frozenset(), Proof.TOKEN), math.inf) for name in ("ann", "bob")
    }
    known.keep(b"ann", proofs["ann"])
    for count in range(MOST_KEPT):
        known.keep(str(count).encode(), proofs["bob"])
    assert known.kept[b"ann"] is proofs["ann"]
    assert len(known.kept) == MOST_OF_ONE + 1


def test_kept_proofs_are_bounded(authenticator: Authenticator) -> None:
    known = _Known(authenticator.credentials)
    for count in range(MOST_KEPT + 5):
        proof = _KeptProof(Principal(f"user {count}", frozenset(), Proof.TOKEN), math.inf)
        for _ in range(2):  # what is verified again is kept once
            known.keep(str(count).encode(), proof)
    assert len(known.kept) == len(known.owned) == MOST_KEPT
    assert b"4" not in known.kept
    assert b"5" in known.kept


@pytest.mark.parametrize("password", ["short", "x" * 2000])
def test_passwords_have_bounds(tmp_path: Path, password: str) -> None:
    with pytest.raises(InvalidInput, match="8 to 1024"):
        add_user(tmp_path / "users.toml", "ann", password, ["reader"], {})


def test_a_user_cannot_be_added_twice(directory: Path) -> None:
    before = (directory / "users.toml").read_bytes()
    with pytest.raises(InvalidInput, match="There is a user ann already"):
        add_user(directory / "users.toml", "ann", PASSWORD, ["reader"], {})
    assert (directory / "users.toml").read_bytes() == before
