"""The audit log: a line for each statement, stream of keys and refusal."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from engine.access.principal import ANYBODY
from engine.changelog import Author, Changelog, Decision, DecisionKind
from engine.changelog.store_drops import drop_store
from engine.errors import Forbidden, InvalidInput, LivestateError, Unauthenticated
from engine.model.migration import migrate_definition, parse_changes
from engine.model.schema import StoreName, define_store
from flight_server.cli.credentials import add_token
from flight_server.client.client import Client
from flight_server.client.connection_options import ConnectionOptions
from flight_server.host.decision_audit import DecisionAudit
from flight_server.host.host import HostOptions
from flight_server.server.audit import LONGEST_SQL, AuditLog, peer_of
from flight_server.wire.messages import new
from tests.protocol.test_cluster_hosts import add
from tests.support.started_host import start_host
from tests.support.waiting import wait_until

ADDED = parse_changes(["city VARCHAR"], (), (), ())


class _CallOverIpv6:
    """What gRPC says of where a call comes from."""

    def peer(self) -> str:
        return "ipv6:%5B::1%5D:41588"


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_what_is_asked_and_what_is_refused_gets_a_line(tmp_path: Path) -> None:
    add(tmp_path, 1)
    reader = add_token(tmp_path / "tokens.toml", "ann", ["reader"], {}, None)
    writer = add_token(tmp_path / "tokens.toml", "job", ["writer"], {}, None)
    (tmp_path / "security.toml").write_text('[security]\ntokens = "tokens.toml"\n')
    log = tmp_path / "audit.log"
    options = HostOptions(
        str(tmp_path / "changelog"),
        tmp_path / "data",
        port=0,
        security=tmp_path / "security.toml",
        audit_log=log,
    )
    with start_host(options) as host:
        with Client(ConnectionOptions((host.uri,), reader), timeout_seconds=60) as client:
            client.query("SELECT id FROM numbers WHERE id < 10").read_all()
            client.query("SELECT a.id FROM numbers a, range(2000)").read_all()
            for _ in range(3):
                client.query("SELECT n FROM numbers WHERE id = 7").read_all()
            with client.keys("numbers", ["n"]) as stream:
                stream.get_many([1, 2, 3])
            with pytest.raises(LivestateError):
                client.query("SELECT nothing FROM numbers").read_all()
            abandoned = client.query("SELECT a.id FROM numbers a, range(9000)")
            next(iter(abandoned))
            abandoned.close()
        with Client(ConnectionOptions((host.uri,), writer)) as client, pytest.raises(Forbidden):
            client.query("SELECT 1")
        with Client(ConnectionOptions((host.uri,), "guess")) as client, pytest.raises(Unauthenticated):
            client.query("SELECT 1")
        wait_until(lambda: len(lines(log)) >= 10)
    found = lines(log)
    by_sql = {line["sql"]: line for line in found if "sql" in line}
    assert by_sql["SELECT id FROM numbers WHERE id < 10"]["rows"] == 10
    large = by_sql["SELECT a.id FROM numbers a, range(2000)"]
    assert (large["principal"], large["proof"], large["rows"], large["outcome"]) == (
        "ann",
        "token",
        2_000_000,
        "ok",
    )
    assert large["bytes"] == 16_000_000
    assert large["peer"].startswith("ipv4:127.0.0.1")
    assert list(large["epochs"]) == ["numbers"]
    assert sum(line.get("sql") == "SELECT n FROM numbers WHERE id = 7" for line in found) == 3
    assert by_sql["SELECT nothing FROM numbers"]["outcome"] in ("NotFound", "InvalidInput")
    assert by_sql["SELECT a.id FROM numbers a, range(9000)"]["rows"] < 9_000_000
    (keys,) = (line for line in found if line["event"] == "keys")
    assert (keys["store"], keys["rows"], keys["principal"]) == ("numbers", 3, "ann")
    refused = [(line["principal"], line.get("wanted")) for line in found if line["event"] == "refused"]
    assert refused == [("job", "read stores"), ("nobody", None)]
    assert not any(
        reader in line or writer in line or "guess" in line for line in log.read_text().splitlines()
    )


def test_a_log_that_is_moved_away_is_made_anew(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log")
    log.write("action", ANYBODY, "", {"name": "x"})
    (tmp_path / "audit.log").rename(tmp_path / "audit.log.1")
    log.write("action", ANYBODY, "", {"name": "y"})
    log.close()
    assert [line["name"] for file in ("audit.log.1", "audit.log") for line in lines(tmp_path / file)] == [
        "x",
        "y",
    ]
    for file in ("audit.log.1", "audit.log"):
        assert (tmp_path / file).stat().st_mode & 0o777 == 0o600, "its owner's alone"


def _take_directory_away(log: Path) -> None:
    log.parent.rename(log.parent.with_name("away"))


def _put_file_over_directory(log: Path) -> None:
    _take_directory_away(log)
    log.parent.touch()


def _put_directory_there(log: Path) -> None:
    log.rename(log.with_name("moved"))
    log.mkdir()


def _fill_disk(log: Path) -> None:
    log.rename(log.with_name("moved"))
    log.symlink_to("/dev/full")


@pytest.mark.parametrize(
    "harm", [_take_directory_away, _put_file_over_directory, _put_directory_there, _fill_disk]
)
def test_who_asks_does_not_suffer_from_a_log_that_cannot_be_written(
    harm: Callable[[Path], None],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    add(tmp_path, 1)
    log = tmp_path / "log" / "audit.log"
    log.parent.mkdir()
    options = HostOptions(str(tmp_path / "changelog"), tmp_path / "data", port=0, token="x", audit_log=log)
    with start_host(options) as host, Client(ConnectionOptions((host.uri,), "x")) as client:
        client.query("SELECT 1").read_all()
        wait_until(lambda: len(lines(log)) == 1)
        harm(log)
        for _ in range(2):
            assert client.query("SELECT 'secret' AS a").read_all().to_pylist() == [{"a": "secret"}]
        with pytest.raises(LivestateError, match="SELECT nothing"):
            client.query("SELECT nothing FROM numbers").read_all()
        with (
            Client(ConnectionOptions((host.uri,), "guess")) as stranger,
            pytest.raises(Unauthenticated) as told,
        ):
            stranger.query("SELECT 1")
        assert "Traceback" not in str(told.value) and str(tmp_path) not in str(told.value)
        wait_until(lambda: host.running_queries == 0)
    assert "A line of the audit log cannot be written" in caplog.text
    assert "secret" not in caplog.text + capfd.readouterr().err


def test_a_line_without_a_file_in_its_place_goes_to_the_one_before(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    log = AuditLog(tmp_path / "log" / "audit.log")
    _take_directory_away(tmp_path / "log" / "audit.log")
    log.write("action", ANYBODY, "", {"name": "x"})
    (tmp_path / "log").mkdir()
    log.write("action", ANYBODY, "", {"name": "y"})
    log.close()
    assert [line["name"] for place in ("away", "log") for line in lines(tmp_path / place / "audit.log")] == [
        "x",
        "y",
    ]


_WRITE_ON_FULL_DISK = """
import resource, sys
from pathlib import Path
from engine.access.principal import ANYBODY
from flight_server.server.audit import AuditLog
file = Path(sys.argv[1])
log = AuditLog(file)
log.write("action", ANYBODY, "", {"name": "x"})
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + 5, most))
for _ in range(2):
    log.write("action", ANYBODY, "", {"name": "lost"})
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
log.write("action", ANYBODY, "", {"name": "y"})
"""


def test_a_line_that_a_full_disk_has_cut_does_not_spoil_the_next_one(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    subprocess.run([sys.executable, "-c", _WRITE_ON_FULL_DISK, str(file)], check=True, timeout=60)
    first, cut, last = file.read_text().splitlines()
    assert (json.loads(first)["name"], len(cut), json.loads(last)["name"]) == ("x", 5, "y")


def test_texts_can_be_left_out_and_are_cut(tmp_path: Path) -> None:
    for has_texts in (True, False):
        log = AuditLog(tmp_path / f"{has_texts}", has_texts=has_texts)
        log.write("statement", ANYBODY, "", {"sql": "SELECT 'a\nb'" + " " * 20_000})
        log.close()
        (line,) = lines(tmp_path / f"{has_texts}")
        assert len(line["sql_sha256"]) == 64
        assert len(line.get("sql", "")) == (LONGEST_SQL if has_texts else 0)


def test_with_digests_no_line_has_a_text_or_a_value(tmp_path: Path) -> None:
    add(tmp_path, 1)
    log = tmp_path / "audit.log"
    options = HostOptions(
        str(tmp_path / "changelog"), tmp_path / "data", port=0, audit_log=log, audits_texts=False
    )
    with start_host(options) as host, Client(host.uri) as client:
        for sql, parameters in (
            ("SELECT secret FROM numbers", None),
            ("SELECT ?::INT FROM numbers", ["secret"]),
            ("SELECT ('secret' || n)::INT FROM numbers", None),
        ):
            with pytest.raises(LivestateError):
                client.query(sql, parameters).read_all()
        with flight.connect(host.uri) as plain:
            info = plain.get_flight_info(flight.FlightDescriptor.for_command(b'{"sql": "SELECT \'secret\'"}'))
            with pytest.raises(pa.ArrowKeyError, match="does not run here"):
                list(plain.do_action(flight.Action("CancelFlightInfo", _cancel_request(info))))
    found = lines(log)
    assert [line["event"] for line in found] == ["statement"] * 3 + ["action"]
    assert all(line["outcome"] != "ok" for line in found)
    assert "secret" not in log.read_text()


def _cancel_request(info: flight.FlightInfo) -> bytes:
    request = new("CancelFlightInfoRequest", info=info.serialize())
    return bytes(request.SerializeToString())


def test_a_text_that_is_not_unicode_gets_a_line(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log")
    log.write("statement", ANYBODY, "", {"sql": "SELECT 1 AS \ud800"})
    log.close()
    (line,) = lines(tmp_path / "audit.log")
    assert line["sql"] == "SELECT 1 AS \ud800"


def test_a_log_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="The audit log cannot be written"):
        AuditLog(tmp_path / "none" / "audit.log")


def test_a_handshake_that_fails_gets_a_line_and_is_counted(tmp_path: Path) -> None:
    add(tmp_path, 1)
    options = HostOptions(
        str(tmp_path / "changelog"), tmp_path / "data", port=0, token="x", audit_log=tmp_path / "audit.log"
    )
    with (
        start_host(options) as host,
        flight.connect(host.uri) as client,
    ):
        with pytest.raises(flight.FlightUnauthenticatedError):
            client.authenticate_basic_token("ann", "wrong")
        totals = host.figures().server
        assert totals is not None and totals.totals.failures == {"Unauthenticated": 1}
    (line,) = lines(tmp_path / "audit.log")
    assert (line["event"], line["principal"]) == ("refused", "nobody")


def test_what_operators_decide_gets_a_line_on_a_host_that_hears_of_it(tmp_path: Path) -> None:
    add(tmp_path, 1)
    changelog, log = Changelog.open(str(tmp_path / "changelog")), tmp_path / "audit.log"
    other = define_store("others", pa.schema([("id", pa.int64())]), ["id"], partitions=1)
    changelog.create_store(other)
    changelog.switch(StoreName("first"), StoreName("numbers"))
    options = HostOptions(str(tmp_path / "changelog"), tmp_path / "data", port=0, audit_log=log)
    ann = Author("ann@ops-1", 1_700_000_000_000_000)
    after = migrate_definition(other, ADDED, 1)
    with start_host(options):
        wait_until(lambda: len(lines(log)) == 1)
        changelog.switch(StoreName("best"), StoreName("numbers"), ann)
        changelog.migrate_store(other.name, ADDED, ann)
        wait_until(lambda: len(lines(log)) == 3)
        drop_store(changelog, other.name, ann.who, ann.at)
        wait_until(lambda: len(lines(log)) == 4)
    found = lines(log)
    first = found[0]
    assert (first["event"], first["principal"], first["place"], first["decided_at"]) == (
        "switch",
        "nobody",
        "first",
        None,
    )
    told = {
        tuple(line[name] for name in ("event", "principal", "place", "number", "what")) for line in found[1:]
    }
    assert told == {
        ("switch", "ann@ops-1", "best", 1, "best means numbers"),
        ("migration", "ann@ops-1", "others", 1, after.describe()),
        ("drop", "ann@ops-1", "others", 2, "others"),
    }
    assert {line["decided_at"] for line in found[1:]} == {"2023-11-14T22:13:20.000+00:00"}


def test_a_decision_is_told_once_whatever_its_time_is(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log")
    audit = DecisionAudit(log)
    decisions = [
        Decision(DecisionKind.DROP, "g", number, Author("ann", at), "s")
        for number, at in enumerate([1 << 80, -5])
    ]
    for _ in range(2):
        audit.note(decisions)
    log.close()
    assert [(line["number"], line["decided_at"]) for line in lines(tmp_path / "audit.log")] == [
        (0, None),
        (1, None),
    ]


def test_where_a_call_over_ipv6_comes_from_is_an_address() -> None:
    assert peer_of(_CallOverIpv6()) == "ipv6:[::1]:41588"
