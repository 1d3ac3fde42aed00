"""How hosts are reached: one value, checked when it is made."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import InvalidInput
from flight_server.client.connection_options import ConnectionOptions
from flight_server.client.secret_files import write_secret
from flight_server.host.serving import ServeArguments, host_options
from tests.support.certificate import make_certificate

ROOTS = b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


def test_options_as_a_user_gives_them(tmp_path: Path) -> None:
    write_secret(tmp_path / "token", b" secret\n")
    (tmp_path / "roots").write_bytes(ROOTS)
    found = ConnectionOptions.read(
        " grpc://a:1, grpc+tls://[::1]:2,", token_file=tmp_path / "token", tls_roots=str(tmp_path / "roots")
    )
    assert found == ConnectionOptions(("grpc://a:1", "grpc+tls://[::1]:2"), "secret", ROOTS)
    assert [each.uri for each in found.hosts] == ["grpc://a:1", "grpc+tls://[::1]:2"]
    assert {each.token for each in found.hosts} == {"secret"}
    assert pickle.loads(pickle.dumps(found)) == found
    assert "secret" not in repr(found)
    assert "CERTIFICATE" not in repr(found)


def test_a_host_and_a_port_are_completed(tmp_path: Path) -> None:
    given = "localhost:8815, 10.0.0.7:1,[::1]:2,grpc+tls://a:3,db-1.example.org:4"
    places = ("localhost:8815", "10.0.0.7:1", "[::1]:2", "grpc+tls://a:3", "db-1.example.org:4")
    (tmp_path / "roots").write_bytes(ROOTS)
    for roots, scheme in ((None, "grpc"), (tmp_path / "roots", "grpc+tls")):
        found = ConnectionOptions.read(given, tls_roots=roots).uris
        assert found == tuple(each if "//" in each else f"{scheme}://{each}" for each in places)
    for nothing in ("localhost", "a b:1", "a:", ":1", "a:b", "a:99999", "//a:1"):
        with pytest.raises(InvalidInput, match="is not the address of a host"):
            ConnectionOptions.read(nothing)


@pytest.mark.parametrize(
    "uri", ["nonsense", "", "a:1", "http://a:1", "grpc:/a:1", "GRPC://a:1", "grpc://a:b", "grpc://a:99999"]
)
def test_what_is_no_address_is_refused(uri: str) -> None:
    with pytest.raises(InvalidInput, match="is not the address of a host"):
        ConnectionOptions((uri,))


@pytest.mark.parametrize("uri", ["grpc://ann:secret@a:1", "grpc+tls://secret@a:1"])
def test_a_proof_in_an_address_is_refused_and_not_told(uri: str) -> None:
    with pytest.raises(InvalidInput, match="takes no user and no password") as refusal:
        ConnectionOptions.read(uri)
    assert "secret" not in refusal.value.message


@pytest.mark.parametrize("token", ["", "a\nb", "ü", "a\0"])
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(InvalidInput, match="token is") as refusal:
        ConnectionOptions(token=token)
    assert not token or token not in refusal.value.message


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_what_is_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidInput, match="seconds above 0"):
        ConnectionOptions(call_seconds=seconds)


def test_one_host_is_one() -> None:
    with pytest.raises(InvalidInput, match="one host"):
        _ = ConnectionOptions().uri
    with pytest.raises(InvalidInput, match="one host"):
        _ = ConnectionOptions(("grpc://a:1", "grpc://b:1")).uri


def test_files_that_hold_nothing_are_refused(tmp_path: Path) -> None:
    write_secret(tmp_path / "empty", b"\n")
    write_secret(tmp_path / "binary", b"\xff\xfe")
    for name, words in (("empty", "empty"), ("binary", "UTF-8"), ("nothing", "cannot be read")):
        with pytest.raises(InvalidInput, match=words) as refusal:
            ConnectionOptions.read(token_file=tmp_path / name)
        assert str(tmp_path) not in refusal.value.message
    for name in ("empty", "binary", "nothing"):
        with pytest.raises(InvalidInput, match="certificates") as refusal:
            ConnectionOptions.read(tls_roots=tmp_path / name)
        assert str(tmp_path) not in refusal.value.message
    with pytest.raises(InvalidInput, match="no certificate"):
        ConnectionOptions(tls_roots=b"x")
    with pytest.raises(InvalidInput, match="not both"):
        ConnectionOptions.read(token="a", token_file=tmp_path / "empty")


def test_a_key_of_another_certificate_is_refused_before_anybody_connects_or_listens(tmp_path: Path) -> None:
    for name in ("ours", "others"):
        (tmp_path / name).mkdir()
    ours, others = (make_certificate(tmp_path / name) for name in ("ours", "others"))
    for each in (ours, others):
        each.key_file.chmod(0o600)
    assert ConnectionOptions.read(certificate=ours.chain_file, key=ours.key_file).key == ours.key
    with pytest.raises(InvalidInput, match="The key is not that of the certificate"):
        ConnectionOptions.read(certificate=ours.chain_file, key=others.key_file)
    serve = ServeArguments(changelog="x", data=tmp_path / "data", tls_certificate=ours.chain_file)
    assert host_options(replace(serve, tls_key=ours.key_file)).tls_key == ours.key
    with pytest.raises(InvalidInput, match="The key is not that of the certificate"):
        host_options(replace(serve, tls_key=others.key_file))
    write_secret(tmp_path / "key", ours.chain)
    with pytest.raises(InvalidInput, match="give them in PEM, the key without a password"):
        ConnectionOptions.read(certificate=ours.chain_file, key=tmp_path / "key")
