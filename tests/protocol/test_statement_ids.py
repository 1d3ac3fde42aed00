"""A statement has one id, at its client and in the logs of all hosts that take part."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import adbc_driver_flightsql.dbapi as adbc
import pytest
from pyarrow import flight

from engine.cluster.reports import HostName
from engine.errors import DeadlineExceeded, NotFound
from engine.telemetry.log_lines import JsonLines
from flight_server.cli.render import error_lines
from flight_server.client.client import Client
from flight_server.host.host import Host
from flight_server.wire.call_headers import STATEMENT_HEADER
from flight_server.wire.messages import new, pack
from flight_server.wire.result_metadata import METADATA_KEY
from flight_server.wire.tickets import Statement
from tests.support.many_hosts import three_hosts
from tests.support.plays import COUNT, ENDLESS, FAN_OUT
from tests.support.waiting import wait_until

A = HostName("a")
SECRET = 424_242_424
GROUPED = f"SELECT genre, sum(plays) AS n FROM plays WHERE song <> {SECRET} GROUP BY genre"


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[HostName, Host]]:
    """Three hosts for which every statement is slow."""
    with three_hosts(tmp_path_factory.mktemp("ids"), slow_seconds=0.0) as hosts:
        yield hosts


class Log:
    """The lines that were written, as programs read them."""

    def __init__(self, stream: io.StringIO) -> None:
        self._stream = stream

    def lines(self, statement: str) -> list[dict[str, Any]]:
        """Those about a statement."""
        found = [json.loads(line) for line in self._stream.getvalue().splitlines()]
        return [line for line in found if line.get("statement") == statement]

    def events(self, statement: str, event: str) -> list[dict[str, Any]]:
        """Those of a kind about a statement."""
        return [line for line in self.lines(statement) if line.get("event") == event]


@pytest.fixture
def log() -> Iterator[Log]:
    """What all hosts of this process log."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines("a"))
    logger = logging.getLogger("flight_server")
    logger.addHandler(handler)
    yield Log(stream)
    logger.removeHandler(handler)


@pytest.mark.parametrize("sql", [sql for sql, _ in FAN_OUT])
def test_client_coordinator_and_peers_name_a_statement_alike(
    hosts: dict[HostName, Host], log: Log, sql: str
) -> None:
    with Client(hosts[A].uri) as client:
        rows = client.query(sql)
        rows.read_all()
    wait_until(lambda: bool(log.events(rows.statement, "slow_statement")), 30)
    wait_until(lambda: len(log.events(rows.statement, "slow_fragment")) >= 2, 30)


def test_a_slow_statement_is_logged_with_its_plan_and_without_values(
    hosts: dict[HostName, Host], log: Log
) -> None:
    with Client(hosts[A].uri) as client:
        rows = client.query(GROUPED)
        assert rows.read_all().num_rows == 10
    wait_until(lambda: bool(log.events(rows.statement, "slow_statement")), 30)
    (line,) = log.events(rows.statement, "slow_statement")
    assert line["sql"] == "SELECT genre, sum(plays) AS n FROM plays WHERE song <> ? GROUP BY genre"
    assert (line["rows"], line["outcome"], line["level"]) == (10, "ok", "WARNING")
    assert line["plan"][0] == "plan: distributed"
    assert any(step.startswith("  sql: ") for step in line["plan"])
    assert {"plan", "gather", "merge", "total"} <= line["stages"].keys()
    assert line["hosts"] == ["a", "b", "c"]
    assert str(SECRET) not in json.dumps(log.lines(rows.statement))
    assert "?" in line["message"] and "plan: distributed" in line["message"]


def test_the_log_has_the_id_that_a_client_brings(hosts: dict[HostName, Host], log: Log) -> None:
    brought = "order-page.17"
    options = flight.FlightCallOptions(headers=[(STATEMENT_HEADER.encode(), brought.encode())])
    with flight.connect(hosts[A].uri) as client:
        reader = client.do_get(flight.Ticket(Statement(FAN_OUT[1][0]).to_bytes()), options)
        reader.read_all()
        assert json.loads(reader.schema.metadata[METADATA_KEY])["statement"] == brought
    wait_until(lambda: len(log.events(brought, "slow_fragment")) >= 2, 30)


@pytest.mark.parametrize("forged", ["x", "a b c d e f", 'aaaaaaaa","level":"', "a" * 65])
def test_an_id_that_is_not_well_formed_is_not_taken(hosts: dict[HostName, Host], forged: str) -> None:
    options = flight.FlightCallOptions(headers=[(STATEMENT_HEADER.encode(), forged.encode())])
    with flight.connect(hosts[A].uri) as client:
        reader = client.do_get(flight.Ticket(Statement(COUNT).to_bytes()), options)
        reader.read_all()
        given = json.loads(reader.schema.metadata[METADATA_KEY])["statement"]
    assert given != forged
    assert len(given) == 16


def test_planning_and_running_of_a_driver_have_one_id(hosts: dict[HostName, Host], log: Log) -> None:
    with flight.connect(hosts[A].uri) as client:
        command = pack(new("CommandStatementQuery", query=COUNT))
        info = client.get_flight_info(flight.FlightDescriptor.for_command(command))
        (endpoint,) = info.endpoints
        reader = client.do_get(endpoint.ticket)
        reader.read_all()
        statement = json.loads(reader.schema.metadata[METADATA_KEY])["statement"]
    wait_until(lambda: bool(log.events(statement, "slow_statement")), 30)
    with adbc.connect(hosts[A].uri, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(COUNT)
        assert cursor.fetchall() == [(30_000,)]


def test_a_failure_that_operators_may_be_asked_about_names_the_statement(
    hosts: dict[HostName, Host], log: Log
) -> None:
    with Client(hosts[A].uri, timeout_seconds=0.3) as client:
        with pytest.raises(DeadlineExceeded) as late:
            client.query(ENDLESS).read_all()
        with pytest.raises(NotFound) as wrong:
            client.query("SELECT nothing FROM plays").read_all()
    statement = late.value.statement
    wait_until(lambda: bool(log.events(statement, "slow_statement")), 30)
    (line,) = log.events(statement, "slow_statement")
    assert line["outcome"] == "DeadlineExceeded"
    assert error_lines(late.value)[-1] == f"(Statement {statement} in the logs of the hosts.)"
    assert wrong.value.statement
    assert not any(wrong.value.statement in line for line in error_lines(wrong.value)), (
        "it is the caller's own"
    )
