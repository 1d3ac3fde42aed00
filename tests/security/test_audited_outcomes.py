"""However a call is asked, and however it ends: its line of the audit log, and what is counted, say what its
client got.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from engine.errors import Cancelled
from flight_server.cli.credentials import add_token
from flight_server.client.client import Client
from flight_server.client.connection_options import ConnectionOptions
from flight_server.host.host import Host, HostOptions
from flight_server.wire.messages import new, pack
from tests.protocol.test_cluster_hosts import add
from tests.support.started_host import start_host
from tests.support.waiting import wait_until

PARTITIONS = 8
FAILS_AT_WORK = "SELECT id, CAST('x' || n AS INT) AS n FROM numbers"
CALL = bytes(range(16))


@dataclass(frozen=True)
class Site:
    """A host with an audit log, and a reader whose results come slowly.

    Attributes:
        host: It.
        log: Its audit log.
        client: The reader's.
        plain: Likewise, of Flight alone.
        proof: What goes with its calls.
    """

    host: Host
    log: Path
    client: Client
    plain: flight.FlightClient
    proof: flight.FlightCallOptions

    def lines(self) -> list[dict[str, Any]]:
        """Those of statements and their parts, but not of SHOW."""
        found = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [line for line in found if not line.get("sql", "SHOW").startswith("SHOW")]

    def parts(self, sql: str) -> list[flight.FlightEndpoint]:
        """A statement planned partition by partition."""
        command = json.dumps({"sql": sql, "endpoints": "partitions"}).encode()
        info = self.plain.get_flight_info(flight.FlightDescriptor.for_command(command), self.proof)
        return list(info.endpoints)

    def rows_of(self, part: flight.FlightEndpoint) -> int:
        """How many rows a part has."""
        rows: int = self.plain.do_get(part.ticket, self.proof).read_all().num_rows
        return rows


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    add(tmp_path, 1)
    token = add_token(tmp_path / "tokens.toml", "ann", ["reader"], {}, None)
    roles = "[roles.reader]\nmax_result_bytes_per_second = 20000\n"
    (tmp_path / "security.toml").write_text(f'[security]\ntokens = "tokens.toml"\n{roles}')
    log = tmp_path / "audit.log"
    options = HostOptions(
        str(tmp_path / "changelog"),
        tmp_path / "data",
        port=0,
        security=tmp_path / "security.toml",
        audit_log=log,
    )
    proof = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {token}".encode())])
    with (
        start_host(options) as host,
        Client(ConnectionOptions((host.uri,), token), timeout_seconds=60) as client,
        flight.connect(host.uri) as plain,
    ):
        yield Site(host, log, client, plain, proof)


def read_parts(site: Site) -> list[tuple[str, str]]:
    parts = site.parts("SELECT id, n FROM numbers")
    assert sum(map(site.rows_of, parts)) == 1000
    return [("endpoint", "ok")] * PARTITIONS


def fail_in_a_part(site: Site) -> list[tuple[str, str]]:
    first, *_ = site.parts(FAILS_AT_WORK)
    with pytest.raises(pa.ArrowInvalid, match="Could not convert"):
        site.rows_of(first)
    return [("endpoint", "InvalidInput")]


def fail_at_work(site: Site) -> list[tuple[str, str]]:
    with pytest.raises(pa.ArrowInvalid, match="Could not convert"):
        site.plain.do_get(flight.Ticket(FAILS_AT_WORK.encode()), site.proof).read_all()
    return [("statement", "InvalidInput")]


def fail_to_plan(site: Site) -> list[tuple[str, str]]:
    sql = "SELECT * FROM others"
    command = pack(new("CommandStatementQuery", query=sql))
    documents = [{"sql": sql}, {"sql": sql, "endpoints": "partitions"}]
    for described in (command, *(json.dumps(document).encode() for document in documents)):
        with pytest.raises(pa.ArrowException, match="There is no store others"):
            site.plain.get_flight_info(flight.FlightDescriptor.for_command(described), site.proof)
    with pytest.raises(pa.ArrowException, match="There is no store others"):
        site.plain.get_schema(flight.FlightDescriptor.for_command(command), site.proof)
    prepare = flight.Action(
        "CreatePreparedStatement", pack(new("ActionCreatePreparedStatementRequest", query=sql))
    )
    with pytest.raises(pa.ArrowException, match="There is no store others"):
        list(site.plain.do_action(prepare, site.proof))
    return [("statement", "NotFound")] * 5


def go_away(site: Site) -> list[tuple[str, str]]:
    rows = site.client.query("SELECT a.id FROM numbers a, range(9000)")
    rows.close()
    return [("statement", "Cancelled")]


def go_away_from_a_part(site: Site) -> list[tuple[str, str]]:
    first, *_ = site.parts("SELECT a.id FROM numbers a, range(90000)")
    site.plain.do_get(first.ticket, site.proof).cancel()
    return [("endpoint", "Cancelled")]


def cancel_what_is_held_back(site: Site) -> list[tuple[str, str]]:
    sql = "SELECT a.id + {} FROM numbers a, range(10)"
    site.client.query(sql.format(0)).read_all()
    with ThreadPoolExecutor(1) as pool:
        held_back = pool.submit(lambda: site.client.query(sql.format(1), call_id=CALL).read_all())
        wait_until(lambda: _has_all_rows(site))
        site.client.cancel(CALL)
        with pytest.raises(Cancelled):
            held_back.result(60)
    return [("statement", "ok"), ("statement", "Cancelled")]


def _has_all_rows(site: Site) -> bool:
    running = site.client.query("SHOW STATEMENTS").read_all().to_pylist()
    return any(row["id"] == CALL.hex() and row["rows_sent"] == 10_000 for row in running)


@pytest.mark.parametrize(
    "ask",
    [
        read_parts,
        fail_in_a_part,
        fail_at_work,
        fail_to_plan,
        go_away,
        go_away_from_a_part,
        cancel_what_is_held_back,
    ],
)
def test_what_a_client_got_is_what_is_told(site: Site, ask: Callable[[Site], list[tuple[str, str]]]) -> None:
    expected = ask(site)
    wait_until(lambda: site.host.running_queries == 0 and len(site.lines()) >= len(expected))
    lines = site.lines()
    assert [(line["event"], line["outcome"]) for line in lines] == expected
    answered = [line for line in lines if line["outcome"] == "ok"]
    assert all(list(line["epochs"]) == ["numbers"] for line in answered)
    figures = site.host.figures().server
    assert figures is not None
    counted = [each for name, each in figures.totals.classes.items() if name.value != "catalog"]
    assert sum(sum(each.seconds.counts) for each in counted) == len(answered)
    assert sum(each.rows for each in counted) == sum(line["rows"] for line in answered)
    assert sum(each.rows_read for each in counted) == (1000 if answered else 0)
    assert sum(figures.totals.failures.values()) == len(lines) - len(answered)
