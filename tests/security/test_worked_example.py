"""The worked example of docs/security.md, as it is written there, but for addresses and the changelog."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from engine.errors import Forbidden, NotFound, Unauthenticated
from flight_server.client.client import Client
from flight_server.client.connection_options import ConnectionOptions
from flight_server.client.secret_files import write_secret
from flight_server.host.host import Host
from flight_server.host.ports import free_ports
from flight_server.host.serving import ServeArguments, host_options
from tests.security.test_scopes import ROWS, TRADES, VISIBLE, append
from tests.support.waiting import wait_until
from tests.unit.cli.conftest import livestate

ROOT = Path(__file__).parents[2]
PASSWORD = "correct horse battery"
_BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


def blocks() -> list[tuple[str, str]]:
    """Languages and texts of the blocks of the example."""
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    section = page.partition("## A worked example")[2].partition("\n## ")[0]
    return _BLOCK.findall(section)


def run_line(line: str, directory: Path) -> None:
    """Do what a line of the example says."""
    words = shlex.split(re.sub(r"\b[abc]\.example\.com", "127.0.0.1", line))
    output = words.pop() if ">" in words else None
    words = [word for word in words if word != ">"]
    if words[0] == "livestate":
        words = [str(directory / word) if word.endswith(".toml") else word for word in words]
        done = livestate(*words[1:])
        assert done.exit_code == 0, done.output
        said = done.stdout
    else:
        words[0] = str(ROOT / words[0]) if words[0].startswith("deploy/") else words[0]
        said = subprocess.run(words, cwd=directory, check=True, capture_output=True, text=True).stdout
    if output is not None:
        write_secret(directory / output, said.encode())


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Mapping[str, str]]]:
    """The directory of the example, and where its hosts are."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is needed to make certificates")
    directory = tmp_path_factory.mktemp("example")
    (_, commands), (_, deployment), (_, serve) = blocks()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LIVESTATE_PASSWORD", PASSWORD)
        for line in commands.splitlines():
            run_line(line, directory)
    changelog = str(directory / "changelog")
    append(changelog, TRADES, ROWS)
    ports = free_ports("127.0.0.1", 0, 3)
    uris = {name: f"grpc+tls://127.0.0.1:{port}" for name, port in zip("abc", ports, strict=True)}
    text = deployment.replace("s3://example/changelog", changelog)
    for name, uri in uris.items():
        text = text.replace(f"grpc+tls://{name}.example.com:8815", uri)
    (directory / "livestate.toml").write_text(text, encoding="utf-8")
    for option in ("--deployment", "--host", "--tls-certificate", "--tls-key", "--tls-roots", "--audit-log"):
        assert option in serve
    with ExitStack() as resources:
        for name in uris:
            arguments = ServeArguments(
                deployment=directory / "livestate.toml",
                host=name,
                data=directory / f"data-{name}",
                tls_certificate=directory / "certificates" / f"{name}.pem",
                tls_key=directory / "certificates" / f"{name}.key",
                tls_roots=directory / "certificates" / "authority.pem",
                audit_log=directory / f"audit-{name}.jsonl",
            )
            host = Host(host_options(arguments))
            resources.callback(host.stop)
            host.start()
        yield directory, uris


def client_of(example: tuple[Path, Mapping[str, str]], host: str, name: str) -> Client:
    directory, uris = example
    roots = (directory / "certificates" / "authority.pem").read_bytes()
    token = directory / f"{name}.token"
    if token.exists():
        options = ConnectionOptions((uris[host],), token.read_text().strip(), tls_roots=roots)
    else:
        options = ConnectionOptions((uris[host],), user=name, password=PASSWORD, tls_roots=roots)
    return Client(options, timeout_seconds=60)


def test_each_gets_what_is_meant_for_it(example: tuple[Path, Mapping[str, str]]) -> None:
    with client_of(example, "c", "olga") as olga:
        wait_until(lambda: all(row["alive"] for row in olga.hosts().to_pylist()))
        with pytest.raises(Forbidden):
            olga.query("SELECT * FROM trades").read_all()
        assert {row["principal"] for row in olga.query("SHOW SESSIONS").read_all().to_pylist()} >= {"olga"}
    for host in "abc":
        with client_of(example, host, "ann") as ann:
            rows = ann.query("SELECT * FROM trades ORDER BY id").read_all().to_pylist()
            assert rows == VISIBLE
            with pytest.raises(NotFound):
                ann.query("SELECT * FROM trades WHERE note = 'x'").read_all()
        with client_of(example, host, "bob") as bob:
            # All amounts of that desk are what the role does not show.
            assert bob.query("SELECT * FROM trades").read_all().num_rows == 0
    with client_of(example, "a", "quotes") as quotes, quotes.keys("trades", ["amount"]) as stream:
        assert stream.get(1) == {"amount": ROWS[1]["amount"]}
    with client_of(example, "a", "job") as job:
        job.notify()
        with pytest.raises(Forbidden):
            job.query("SELECT 1").read_all()
    with client_of(example, "a", "nobody") as nobody, pytest.raises(Unauthenticated):
        nobody.query("SELECT 1").read_all()
    assert "ann" in (example[0] / "audit-a.jsonl").read_text()


def test_the_doctor_is_told_of_all_hosts(example: tuple[Path, Mapping[str, str]]) -> None:
    directory, uris = example
    roots = directory / "certificates" / "authority.pem"
    # olga may not read stores.
    caller = ("--uri", uris["a"], "--tls-roots", roots, "--token-file", directory / "olga.token")
    ran = livestate("doctor", "--format", "json", *caller)
    found = {(each["check"], each["where"]): each["level"] for each in json.loads(ran.stdout)["findings"]}
    for name in uris:
        assert (found["reachable", name], found["TLS", name]) == ("OK", "OK"), ran.output
