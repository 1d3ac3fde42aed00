"""How the hosts of a deployment know each other, and what only they may do."""

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import Forbidden, InvalidInput, Unauthenticated, Unavailable
from flight_server.cli.credentials import add_token
from flight_server.client.client import Client
from flight_server.client.connection_options import ConnectionOptions
from flight_server.client.secret_files import write_secret
from flight_server.host.host import Host, HostOptions
from flight_server.host.process import SERVES
from flight_server.host.serving import ServeArguments, host_options
from tests.protocol.test_cluster_hosts import add, pair, total
from tests.security.callers import Authority
from tests.support.waiting import wait_until


def write_security(directory: Path, extra: str = "") -> str:
    """Files for hosts that know each other by a token; returns that of a reader."""
    write_secret(
        directory / "peer.token", add_token(directory / "tokens.toml", "host", ["peer"], {}, None).encode()
    )
    (directory / "security.toml").write_text(
        f'[security]\ntokens = "tokens.toml"\npeer_token = "peer.token"\n{extra}'
    )
    return add_token(directory / "tokens.toml", "grafana", ["reader"], {}, None)


def test_hosts_know_each_other_by_a_token_of_their_own(tmp_path: Path) -> None:
    reader = write_security(tmp_path)
    with pair(tmp_path, security=tmp_path / "security.toml") as hosts:
        for host in hosts:
            with Client(ConnectionOptions((host.uri,), reader), timeout_seconds=60) as client:
                assert total(client) == 1000
                with pytest.raises(Forbidden, match="grafana may not act as a host of the deployment"):
                    client.act("livestate.report", b"")


def test_hosts_know_each_other_by_certificates(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own = authority.issue("host", alternative="IP:127.0.0.1")
    ann = authority.issue("ann")
    (tmp_path / "security.toml").write_text(
        '[security]\npeer_certificate = "host.pem"\npeer_key = "host.key"\n'
        '[security.certificates]\nauthorities = "authority.pem"\n'
        '[[security.certificates.principals]]\nsubject = "127.0.0.1"\nname = "host"\nroles = ["peer"]\n'
        '[[security.certificates.principals]]\nsubject = "ann"\nname = "ann"\nroles = ["reader"]\n'
    )
    tls = {"tls_certificate": own.chain, "tls_key": own.key, "tls_roots": authority.certificate.chain}
    with pair(tmp_path, "grpc+tls", security=tmp_path / "security.toml", **tls) as hosts:
        for host in hosts:
            caller = ConnectionOptions(
                (host.uri,), tls_roots=authority.certificate.chain, certificate=ann.chain, key=ann.key
            )
            with Client(caller, timeout_seconds=60) as client:
                assert total(client) == 1000
                with pytest.raises(Forbidden, match="ann may not act as a host"):
                    client.act("livestate.report", b"")


def test_a_deployment_says_how_its_hosts_know_each_other(tmp_path: Path) -> None:
    add_token(tmp_path / "tokens.toml", "grafana", ["reader"], {}, None)
    (tmp_path / "security.toml").write_text('[security]\ntokens = "tokens.toml"\n')
    with (
        pytest.raises(InvalidInput, match="add peer_token, or peer_certificate"),
        pair(tmp_path, security=tmp_path / "security.toml"),
    ):
        pass


def test_a_file_is_read_again_when_the_process_is_told_to(tmp_path: Path) -> None:
    add(tmp_path, 1)
    reader = write_security(tmp_path)
    options = {
        "--changelog": tmp_path / "changelog",
        "--data": tmp_path / "data",
        "--port": 0,
        "--security": tmp_path / "security.toml",
    }
    given = [str(each) for option in options.items() for each in option]
    command = [sys.executable, "-m", "flight_server.cli.main", "serve", *given]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said.startswith(SERVES)
        with Client(ConnectionOptions((said.split()[-1],), reader), timeout_seconds=60) as client:
            assert total(client) == 1000
            (tmp_path / "tokens.toml").write_text("version = 1\n")
            process.send_signal(signal.SIGHUP)

            def is_refused() -> bool:
                try:
                    total(client)
                except Unauthenticated:
                    return True
                return False

            wait_until(is_refused)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, "Traceback" in errors) == (0, False)


def test_the_data_of_a_host_is_its_own(tmp_path: Path) -> None:
    add(tmp_path, 1)
    host = Host(HostOptions(str(tmp_path / "changelog"), tmp_path / "data", port=0))
    host.start()
    host.stop()
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


def test_the_tables_may_stand_in_the_deployment_file(tmp_path: Path) -> None:
    (tmp_path / "livestate.toml").write_text(
        'version = 1\nchangelog = "c"\n[[hosts]]\nname = "a"\nuri = "grpc://127.0.0.1:1"\ndata = "d"\n'
        '[security]\ntokens = "t"\n[roles.desk]\nstores = ["trades"]\n'
    )
    given = ServeArguments(deployment=tmp_path / "livestate.toml", host="a")
    assert host_options(given).security == tmp_path / "livestate.toml"
    assert host_options(replace(given, security=tmp_path / "other")).security == tmp_path / "other"
    text = (tmp_path / "livestate.toml").read_text()
    (tmp_path / "livestate.toml").write_text(text[: text.index("[security]")])
    assert host_options(given).security is None


def test_hosts_with_wrong_certificates_are_no_peers(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    (tmp_path / "other").mkdir()
    own = authority.issue("host", alternative="IP:127.0.0.1")
    unknown = authority.issue("unknown")
    forged = Authority(tmp_path / "other").issue("host", alternative="IP:127.0.0.1")
    (tmp_path / "security.toml").write_text(
        '[security]\npeer_certificate = "host.pem"\npeer_key = "host.key"\n'
        '[security.certificates]\nauthorities = "authority.pem"\n'
        '[[security.certificates.principals]]\nsubject = "127.0.0.1"\nname = "host"\nroles = ["peer"]\n'
    )
    tls = {"tls_certificate": own.chain, "tls_key": own.key, "tls_roots": authority.certificate.chain}
    with pair(tmp_path, "grpc+tls", security=tmp_path / "security.toml", **tls) as hosts:
        report = hosts[1]._cluster.peers.own_bytes()  # type: ignore[union-attr]
        for certificate, refusal in ((own, None), (unknown, Unauthenticated), (forged, Unavailable)):
            caller = ConnectionOptions(
                (hosts[0].uri,),
                tls_roots=authority.certificate.chain,
                certificate=certificate.chain,
                key=certificate.key,
            )
            with Client(caller, timeout_seconds=60) as client:
                if refusal is None:
                    assert client.act("livestate.report", report)
                    continue
                with pytest.raises(refusal):
                    client.act("livestate.report", report)


def test_a_report_of_a_host_that_is_none_of_the_deployment_is_refused(tmp_path: Path) -> None:
    write_security(tmp_path)
    peer = (tmp_path / "peer.token").read_text()
    with (
        pair(tmp_path, security=tmp_path / "security.toml") as hosts,
        Client(ConnectionOptions((hosts[0].uri,), peer), timeout_seconds=60) as client,
    ):
        report = hosts[1]._cluster.peers.own_bytes()  # type: ignore[union-attr]
        assert client.act("livestate.report", report)
        with pytest.raises(InvalidInput):
            client.act("livestate.report", report.replace(b'"b"', b'"x"', 1))
        with pytest.raises(InvalidInput):
            client.act("livestate.report", report[:-5])
