"""Hosts that drain: clients are sent to other hosts, what runs ends, and other hosts read elsewhere."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event
from urllib.error import HTTPError
from urllib.request import urlopen

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow as pa
import pytest
from pyarrow import flight

from engine.changelog import Changelog, append_table
from engine.cluster.reports import HostName
from engine.errors import Cancelled, InvalidInput, Unavailable
from flight_server.client.client import Client
from flight_server.host.host import Host, HostOptions
from flight_server.wire.messages import new, pack
from flight_server.wire.tickets import Command, Statement
from tests.support.many_hosts import three_hosts
from tests.support.plays import ENDLESS, PLAYS, STORE
from tests.support.started_host import start_host
from tests.support.waiting import PATIENCE_SECONDS, wait_until

COUNT = "SELECT count(*) AS n FROM plays WHERE plays >= 0"
_BELOW_ALL = itertools.count(-1, -1)
A, B = HostName("a"), HostName("b")


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[HostName, Host]]:
    """Three hosts, two of which hold each partition."""
    with three_hosts(tmp_path_factory.mktemp("hosts"), replication=2) as found:
        yield found


def count(client: Client) -> tuple[int, list[str]]:
    """How many rows there are, and who said so; never an answer that was kept."""
    rows = client.query(f"{COUNT} AND genre > {next(_BELOW_ALL)}")
    return rows.read_all()["n"].to_pylist()[0], rows.metadata["hosts"]


def test_a_host_that_drains_sends_clients_away(hosts: dict[HostName, Host]) -> None:
    with Client(hosts[A].uri) as a, Client(hosts[B].uri) as b, a.keys("plays") as keys:
        assert keys.get(1) is not None
        wait_until(lambda: "a" in count(b)[1])
        assert a.drain("begin")["draining"]
        assert a.drain("status")["draining"]
        assert (a.health()["ready"], a.health()["draining"]) == (False, True)
        assert "draining" in hosts[A].unready_reason()
        for ask in (
            lambda: a.query(COUNT),
            lambda: a.query("SELECT * FROM plays WHERE song = 1"),
            lambda: a.keys("plays").get(1),
            lambda: keys.get(1),
        ):
            with pytest.raises(
                Unavailable, match=r"stopping and takes no new statements: ask another host\.$"
            ):
                ask()
        with flight.connect(hosts[A].uri) as plain, pytest.raises(flight.FlightUnavailableError):
            plain.do_get(flight.Ticket(COUNT.encode()))
        # Other hosts have its rows, too, and read them there.
        wait_until(lambda: "a" not in count(b)[1])
        assert count(b)[0] == PLAYS.num_rows
        wait_until(
            lambda: (
                {
                    (row["host"], row["state"])
                    for row in b.query("SHOW HOSTS").read_all().to_pylist()
                    if row["host"] == "a"
                }
                == {("a", "draining")}
            )
        )
        assert not a.drain("end")["draining"]
        wait_until(lambda: "a" in count(b)[1])
        assert count(a)[0] == PLAYS.num_rows
        assert a.health()["ready"]
        with pytest.raises(InvalidInput, match="body of livestate"):
            a.drain("now")


def test_what_runs_goes_on_while_a_host_drains(hosts: dict[HostName, Host]) -> None:
    with Client(hosts[A].uri) as a, flight.connect(hosts[A].uri) as plain:
        long = plain.do_get(flight.Ticket(b"SELECT a.*, repeat('x', 100) AS pad FROM plays a, range(100)"))
        long.read_chunk()
        try:
            a.drain("begin")
            assert a.drain("status")["running"] > 0
            assert sum(chunk.data.num_rows for chunk in long) > 0
            wait_until(lambda: not a.drain("status")["running"])
        finally:
            a.drain("end")


def test_what_still_runs_on_a_draining_host_is_seen_and_cancelled(hosts: dict[HostName, Host]) -> None:
    with (
        Client(hosts[A].uri) as a,
        Client(hosts[B].uri) as b,
        flight_sql.connect(hosts[A].uri, autocommit=True) as connection,
        connection.cursor() as cursor,
        ThreadPoolExecutor(1) as pool,
    ):

        def of_a(client: Client) -> dict[str, str]:
            """What runs on host a: the id of each statement, and its state."""
            shown = client.query("SHOW STATEMENTS").read_all().to_pylist()
            return {
                row["id"]: row["state"]
                for row in shown
                if row["host"] == "a" and not str(row["statement"]).startswith("SHOW")
            }

        for canceller in (a, b):
            endless = pool.submit(query_all, a, ENDLESS)
            try:
                wait_until(lambda: list(of_a(b).values()) == ["running"])
                a.drain("begin")
                (own,) = of_a(a)
                assert of_a(b) == {own: "running"}
                cursor.execute("SHOW STATEMENTS")
                assert own in {row[0] for row in cursor.fetchall()}
                with pytest.raises(Unavailable):
                    a.query(COUNT)
                assert canceller.query(f"CANCEL '{own}'").read_all().to_pylist() == [{"id": own, "host": "a"}]
                with pytest.raises(Cancelled):
                    endless.result(PATIENCE_SECONDS)
            finally:
                a.drain("end")


def test_what_asks_for_stores_is_refused_in_every_call_of_a_draining_host(
    hosts: dict[HostName, Host],
) -> None:
    with Client(hosts[A].uri) as a, flight.connect(hosts[A].uri) as plain:
        handle = Statement("SELECT song FROM plays WHERE song = ?").to_bytes()
        query = pack(new("CommandStatementQuery", query=COUNT))
        prepared = pack(new("CommandPreparedStatementQuery", prepared_statement_handle=handle))
        tables = pack(new("CommandGetTables"))
        prepare = pack(new("ActionCreatePreparedStatementRequest", query=COUNT))
        json_query = json.dumps({"sql": COUNT}).encode()
        value = pa.record_batch({"1": [2]})

        def bind() -> None:
            writer, reader = plain.do_put(flight.FlightDescriptor.for_command(prepared), value.schema)
            with writer:
                writer.write_batch(value)
                writer.done_writing()
                reader.read()

        calls: list[Callable[[], object]] = [
            *(
                partial(ask, flight.FlightDescriptor.for_command(command))
                for ask in (plain.get_flight_info, plain.get_schema)
                for command in (query, prepared, tables)
            ),
            partial(plain.get_flight_info, flight.FlightDescriptor.for_command(json_query)),
            partial(plain.do_get, flight.Ticket(Command(tables).to_bytes())),
            lambda: list(plain.do_action(("CreatePreparedStatement", prepare))),
            bind,
        ]
        for ask in calls:
            ask()
        a.drain("begin")
        try:
            for ask in calls:
                with pytest.raises(pa.ArrowException, match="takes no new statements"):
                    ask()
        finally:
            a.drain("end")


def test_rows_that_only_a_draining_host_has_are_read_there(tmp_path: Path) -> None:
    with three_hosts(tmp_path) as hosts, Client(hosts[A].uri) as a, Client(hosts[B].uri) as b:
        a.drain("begin")
        wait_until(lambda: "draining" in b.hosts()["state"].to_pylist())
        assert count(b) == (PLAYS.num_rows, ["a", "b", "c"])


def test_hosts_are_stopped_and_started_while_others_answer(tmp_path: Path) -> None:
    """As in a rolling upgrade: whoever asks another host notices nothing."""
    with three_hosts(tmp_path, replication=2) as hosts, Client(hosts[B].uri) as b:
        wait_until(lambda: count(b)[1] == ["a", "b", "c"])
        stopped = Event()
        with ThreadPoolExecutor(2) as pool:
            asking = [pool.submit(_count_until, b, stopped) for _ in range(2)]
            try:
                assert hosts[A].stop()
                hosts[A].start()
                wait_until(lambda: "a" in count(b)[1])
            finally:
                stopped.set()
            assert min(each.result(PATIENCE_SECONDS) for each in asking) > 0


def _count_until(client: Client, stopped: Event) -> int:
    """Count rows again and again; how often that was."""
    times = 0
    while not stopped.is_set():
        assert count(client)[0] == PLAYS.num_rows
        times += 1
    return times


def query_all(client: Client, sql: str) -> pa.Table:
    return client.query(sql).read_all()


def test_a_host_that_stops_gives_up_fragments_that_have_not_begun(tmp_path: Path) -> None:
    """A fragment of a statement that never gives a row begins never; other hosts forget it, too."""
    with three_hosts(tmp_path) as hosts:
        for _ in range(3):
            with Client(hosts[A].uri) as client, ThreadPoolExecutor(1) as pool:
                asked = pool.submit(query_all, client, ENDLESS)
                wait_until(lambda: all(host.running_queries for host in hosts.values()))
                assert hosts[A].stop(0.0)
                with pytest.raises(Unavailable):
                    asked.result(PATIENCE_SECONDS)
            wait_until(lambda: not any(host.running_queries for host in hosts.values()))
            hosts[A].start()
            hosts[A].wait_until_ready(PATIENCE_SECONDS)


def test_what_does_not_end_within_its_grace_is_told_why(tmp_path: Path) -> None:
    changelog = str(tmp_path / "changelog")
    append_table(Changelog.open(changelog), STORE, PLAYS)
    options = HostOptions(changelog, tmp_path / "data", port=0, grace_seconds=0.1, http=("127.0.0.1", 0))
    with start_host(options) as host, Client(host.uri) as client, ThreadPoolExecutor(1) as pool:
        with urlopen(f"{host.http_uri}/readyz") as ready, urlopen(f"{host.http_uri}/livez") as lives:
            assert (ready.read(), lives.read()) == (b"The host is ready.\n", b"The host lives.\n")
        asked = pool.submit(lambda: client.query(ENDLESS).read_all())
        wait_until(lambda: host.running_queries == 1)
        host.drain()
        with pytest.raises(Unavailable, match="start it again"):
            client.drain("end")
        with pytest.raises(HTTPError) as caught:
            urlopen(f"{host.http_uri}/readyz")
        assert (caught.value.code, b"draining" in caught.value.read()) == (503, True)
        caught.value.close()
        assert host.stop()
        with pytest.raises(Unavailable, match=r"had not ended within .*--grace.*ask another host"):
            asked.result(PATIENCE_SECONDS)


def test_a_host_without_a_changelog_says_why_it_is_not_ready(tmp_path: Path) -> None:
    options = HostOptions(str(tmp_path / "none"), tmp_path / "data", port=0, http=("127.0.0.1", 0))
    host = Host(options)
    assert host.unready_reason() == "The host is starting."
    try:
        host.start()
        with pytest.raises(HTTPError) as caught:
            urlopen(f"{host.http_uri}/readyz")
        assert b"changelog that this host follows does not exist yet" in caught.value.read()
        caught.value.close()
    finally:
        host.stop()
