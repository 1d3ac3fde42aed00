"""`livestate doctor` on real hosts, directories and changelogs that something is wrong with."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from engine.changelog import Changelog, append_table
from engine.changelog.objects import Objects, open_objects
from engine.changelog.probe import probe_objects
from engine.cluster.deployment import Deployment, HostEntry
from engine.cluster.reports import HostName
from flight_server.client.client import Client
from flight_server.client.secret_files import write_secret
from flight_server.host.host import Host, HostOptions
from flight_server.host.ports import free_ports
from flight_server.host.serving import deployment_text
from tests.support.plays import PLAYS, STORE
from tests.support.started_host import start_host
from tests.unit.cli.conftest import livestate

CERTIFICATES = Path(__file__).parents[3] / "deploy" / "certificates.sh"


def _findings(*arguments: str | Path) -> tuple[int, dict[tuple[str, str], dict[str, Any]]]:
    """The exit code, and the worst finding of each check, by check and where."""
    ran = livestate("doctor", "--format", "json", *arguments)
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for each in json.loads(ran.stdout)["findings"]:
        place = each["check"], each["where"]
        if place not in found or each["level"] != "OK":
            found[place] = each
    return ran.exit_code, found


def test_a_host_that_is_well(host: Host) -> None:
    code, found = _findings("--uri", host.uri)
    assert code == 0, found
    assert found["reachable", host.uri]["level"] == found["ready", host.uri]["level"] == "OK"
    assert {check for check, _ in found} >= {
        "fsync",
        "permissions",
        "disk",
        "open files",
        "memory",
        "versions",
    }
    shown = livestate("doctor", "--uri", host.uri)
    assert shown.stdout.splitlines()[0].startswith("OK    reachable")
    assert shown.stdout.splitlines()[-1].endswith(" 0 FAIL")


def test_nobody_is_there() -> None:
    code, found = _findings("--uri", "grpc://127.0.0.1:1")
    assert code == 1
    assert "cannot be reached" in found["reachable", "grpc://127.0.0.1:1"]["message"]


def test_a_host_that_another_one_does_not_reach_at_its_advertised_address(tmp_path: Path) -> None:
    changelog = str(tmp_path / "changelog")
    append_table(Changelog.open(changelog), STORE, PLAYS.slice(0, 100))
    port_a, port_b, closed = free_ports("127.0.0.1", 0, 3)
    a, b = HostName("a"), HostName("b")
    right = Deployment(
        changelog,
        (HostEntry(a, f"grpc://127.0.0.1:{port_a}"), HostEntry(b, f"grpc://127.0.0.1:{port_b}")),
    )
    wrong = Deployment(changelog, (right.hosts[0], HostEntry(b, f"grpc://127.0.0.1:{closed}")))
    file = tmp_path / "livestate.toml"
    file.write_text(deployment_text(right))
    hosts = [
        Host(
            HostOptions(changelog, tmp_path / name, port=port, deployment=known, name=name, grace_seconds=0.1)
        )
        for name, port, known in ((a, port_a, wrong), (b, port_b, right))
    ]
    try:
        for host in hosts:
            host.start()
        code, found = _findings("--deployment", file)
    finally:
        for host in hosts:
            host.stop()
    assert code == 1
    assert found["reachable", "a"]["level"] == found["reachable", "b"]["level"] == "OK", "from here"
    assert found["reachable", "b → a"]["level"] == "OK"
    lost = found["reachable", "a → b"]
    assert lost["level"] == "FAIL"
    assert str(closed) in lost["message"] and "deployment file of a" in lost["advice"]
    assert found["clock", "a, b"]["level"] == "OK"


def _certificate(directory: Path, ends: timedelta, address: str = "127.0.0.1") -> tuple[Path, bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "livestate")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=100))
        .not_valid_after(now + ends)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    chain = made.public_bytes(serialization.Encoding.PEM)
    file = directory / "certificate.pem"
    file.write_bytes(chain)
    kinds = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return file, chain, key.private_bytes(serialization.Encoding.PEM, *kinds)


@pytest.mark.parametrize(
    ("ends", "address", "level", "word"),
    [
        (timedelta(days=-1), "127.0.0.1", "FAIL", "expired"),
        (timedelta(days=90), "10.9.9.9", "FAIL", "mismatch"),
        (timedelta(days=3), "127.0.0.1", "FAIL", "2 more days"),
        (timedelta(days=90), "127.0.0.1", "OK", "89 more days"),
    ],
)
def test_certificates(tmp_path: Path, ends: timedelta, address: str, level: str, word: str) -> None:
    roots, chain, key = _certificate(tmp_path, ends, address)
    append_table(Changelog.open(str(tmp_path / "changelog")), STORE, PLAYS.slice(0, 10))
    options = HostOptions(
        str(tmp_path / "changelog"), tmp_path / "data", port=0, tls_certificate=chain, tls_key=key
    )
    with start_host(options) as host:
        uri = host.uri
        code, found = _findings("--uri", uri, "--tls-roots", roots)
        untrusted = _findings("--uri", uri)[1]
    said = found["TLS", uri]
    assert code == (level == "FAIL")
    assert (said["level"], word in said["message"]) == (level, True), said
    assert not said["message"].endswith("..")
    remedy = {"expired": "give the host a new one", "mismatch": "connect by one that it has"}.get(word, "")
    assert remedy in found["reachable", uri]["message"]
    assert untrusted["TLS", uri]["level"] == untrusted["reachable", uri]["level"] == "FAIL"
    assert word == "expired" or "--tls-roots" in untrusted["reachable", uri]["message"]


def test_who_is_not_let_in_is_told_so(tmp_path: Path) -> None:
    append_table(Changelog.open(str(tmp_path / "changelog")), STORE, PLAYS.slice(0, 10))
    token, security = tmp_path / "token", tmp_path / "security.toml"
    write_secret(token, b"another")
    options = HostOptions(str(tmp_path / "changelog"), tmp_path / "data", port=0, token="the right one")
    with start_host(options) as host:
        uri = host.uri
        code, found = _findings("--uri", uri, "--token-file", token)
    assert (code, found["access", uri]["level"]) == (1, "FAIL")
    assert "token" in found["access", uri]["message"]
    assert found["reachable", uri]["level"] == "OK"
    security.write_text("nonsense = true")
    assert _findings("--offline", "--security", security)[1]["security", str(security)]["level"] == "FAIL"


def test_a_directory_that_cannot_be_written_and_one_that_others_can_read(tmp_path: Path) -> None:
    code, found = _findings("--offline", "--data", "/proc/self")
    assert (code, found["data", "/proc/self"]["level"]) == (1, "FAIL")
    tmp_path.chmod(0o755)
    code, found = _findings("--offline", "--data", tmp_path)
    assert (code, found["permissions", str(tmp_path)]["level"]) == (0, "WARN")
    assert not list(tmp_path.iterdir()), "nothing is left of what was tried"
    assert livestate("doctor", "--offline").exit_code == 2


def _files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


class Overwriting:
    """Objects of a store that knows no conditional writes, and whose listings come late."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objects, name)

    def create(self, path: str, chunks: Sequence[pa.Buffer]) -> bool:
        self._objects.delete([path])
        self._objects.create(path, chunks)
        return True

    def list(self, directory: str, behind: str = "") -> Iterator[str]:
        return iter(())


def test_a_changelog_is_tried_out_and_nothing_is_left(tmp_path: Path) -> None:
    place = tmp_path / "changelog"
    append_table(Changelog.open(str(place)), STORE, PLAYS.slice(0, 10))
    before = _files(place)
    code, found = _findings("--offline", "--changelog", place)
    assert (code, found["changelog", str(place)]["level"]) == (0, "OK")
    assert _files(place) == before
    probe = probe_objects(Overwriting(open_objects(str(place), {})))
    assert len(probe.faults) == 3
    assert _files(place) == before
    code, found = _findings("--offline", "--changelog", "/proc/self/nothing")
    assert (code, found["changelog", "/proc/self/nothing"]["level"]) == (1, "FAIL")


def test_a_changelog_in_an_object_store(
    s3_options: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # As deploy/container/compose.yaml tells hosts of their object store.
    for name, option in (("ENDPOINT_URL", "endpoint"), *((name.upper(), name) for name in s3_options)):
        monkeypatch.setenv(f"AWS_{name}", s3_options[option])
    monkeypatch.delenv("AWS_ENDPOINT")
    for bucket, code in (("bucket", 0), ("nowhere", 1)):
        uri = f"s3://{bucket}/doctor"
        ran, found = _findings("--offline", "--changelog", uri)
        assert ran == code, found
        assert (found["changelog", uri]["level"] == "FAIL") == bool(code)
    place = open_objects("s3://bucket/doctor", s3_options)
    assert list(place.list("")) == [], "nothing is left of what was tried"
    assert len(probe_objects(Overwriting(place)).faults) == 3


def test_callers_with_certificates(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is needed to make certificates")
    made, others = tmp_path / "made", tmp_path / "others"
    for directory, *names in (
        (made, "host", "own", "127.0.0.1"),
        (made, "caller", "olga"),
        (made, "caller", "nobody"),
        (others, "caller", "olga"),
    ):
        subprocess.run([CERTIFICATES, directory, *names], check=True, capture_output=True)
    security = tmp_path / "security.toml"
    security.write_text(
        '[security.certificates]\nauthorities = "made/authority.pem"\n'
        '[[security.certificates.principals]]\nsubject = "olga"\nname = "olga"\nroles = ["operator"]\n'
    )
    append_table(Changelog.open(str(tmp_path / "changelog")), STORE, PLAYS.slice(0, 10))
    options = HostOptions(
        str(tmp_path / "changelog"),
        tmp_path / "data",
        port=0,
        security=security,
        tls_certificate=(made / "own.pem").read_bytes(),
        tls_key=(made / "own.key").read_bytes(),
    )
    said = {}
    with start_host(options) as host:
        uri = host.uri
        trusting = "--uri", uri, "--tls-roots", made / "authority.pem"
        for caller in ("made/olga", "others/olga", "made/nobody"):
            files = "--certificate", tmp_path / f"{caller}.pem", "--key", tmp_path / f"{caller}.key"
            said[caller] = _findings(*trusting, *files)
        said["without"] = _findings(*trusting)
    code, found = said.pop("made/olga")
    assert code == 0, found
    assert found["ready", uri]["level"] == found["TLS", uri]["level"] == "OK"
    words = {"others/olga": "none of its authorities", "made/nobody": "nobody of its", "without": "shows no"}
    for caller, (code, found) in said.items():
        assert (code, found["access", uri]["level"]) == (1, "FAIL"), found
        assert words[caller] in found["access", uri]["message"]
        assert found["reachable", uri]["level"] == found["TLS", uri]["level"] == "OK"


def test_hosts_say_how_they_stand_to_operators(host: Host) -> None:
    with Client(host.uri) as client:
        said = client.diagnose()
    assert said.ready and said.open_files > 10 and said.memory_bytes > 1 << 20
    assert said.versions["livestate"]
    assert said.data.problem == "" and said.data.fsync_seconds > 0
