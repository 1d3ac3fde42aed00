"""No secret shows where a value is printed: in a log, an error or a debugger."""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.access.claims import Claim
from engine.access.security_file import User
from flight_server.cli.credentials import add_token
from flight_server.client.connection_options import ConnectionOptions
from flight_server.host.host import HostOptions
from flight_server.host.serving import ServeArguments
from flight_server.identity.authenticator import Authenticator
from flight_server.identity.credentials import one_token
from tests.security.test_hostile_callers import Guarded, assert_answers
from tests.support.started_host import start_host

ROOT = Path(__file__).parents[2]
ROOMS = ("engine", "flight_server", "spark_pipeline")
SECRET_NAMES = ("token", "password", "secret", "session_key", "key_bytes", "tls_key", "private_key")
NO_SECRETS = {
    # Files, digests and kinds, not what they stand for.
    ("SecurityOptions", "session_key"),
    ("SecurityOptions", "peer_token"),
}
SECRET = "a-secret-of-this-test"


def fields_with_secrets() -> Iterator[tuple[str, str, ast.expr | None]]:
    """Fields of classes whose names say that they hold a secret, with what they are set to."""
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*.py")):
            text = file.read_text(encoding="utf-8")
            nodes = ast.parse(text).body if "dataclass" in text else []
            for node in nodes:
                if not isinstance(node, ast.ClassDef) or not is_dataclass(node):
                    continue
                for field in node.body:
                    if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
                        continue
                    name, kind = field.target.id, ast.unparse(field.annotation)
                    is_text = any(part in kind for part in ("str", "bytes"))
                    if is_text and name in SECRET_NAMES and (node.name, name) not in NO_SECRETS:
                        yield node.name, name, field.value


def is_dataclass(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(each) for each in node.decorator_list)


def test_every_field_with_a_secret_is_left_out_of_what_is_printed() -> None:
    found = list(fields_with_secrets())
    assert {(owner, name) for owner, name, _ in found} >= {
        ("User", "password"),
        ("ConnectionOptions", "token"),
        ("ConnectionOptions", "password"),
        ("HostOptions", "token"),
        ("HostOptions", "tls_key"),
        ("Credentials", "session_key"),
    }
    for owner, name, value in found:
        assert value is not None, f"{owner}.{name}"
        assert "repr=False" in ast.unparse(value), f"{owner}.{name}"


def test_values_print_no_secret(tmp_path: Path) -> None:
    claims: dict[str, Claim] = {}
    for value in (
        User("ann", SECRET, frozenset(), claims),
        ConnectionOptions(("grpc://a:1",), SECRET),
        ConnectionOptions(("grpc://a:1",), user="ann", password=SECRET),
        ConnectionOptions(("grpc://a:1",), certificate=SECRET.encode(), key=SECRET.encode()),
        HostOptions("changelog", tmp_path, token=SECRET, tls_key=SECRET.encode()),
        ServeArguments(token=SECRET),
        Authenticator(token=SECRET),
        one_token(SECRET),
    ):
        assert SECRET not in repr(value)
        assert SECRET not in str(value)


def test_a_host_logs_no_secret(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    files = Guarded(tmp_path)
    wrong = add_token(tmp_path / "elsewhere.toml", "ann", ["reader"], {}, None)
    with start_host(files.options) as host, files.client(host, "ann") as ann:
        assert_answers(ann)
        files.tokens["stranger"] = wrong
        with files.client(host, "stranger") as stranger, pytest.raises(Exception, match="bearer token"):
            assert_answers(stranger)
    for secret in (*files.tokens.values(), wrong):
        assert secret not in caplog.text
