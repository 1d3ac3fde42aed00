"""A host that does not follow: an older epoch is read, and what is wished for newer is waited for, then
refused with all names.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow as pa
import pytest
from adbc_driver_manager import Error
from pyarrow import flight

from engine.changelog import Changelog, open_appender
from engine.cluster.reports import HostName
from engine.errors import DeadlineExceeded, Unavailable
from engine.model.read_point import ReadPoint
from engine.model.schema import Epoch
from engine.service import QueryOptions
from flight_server.client.client import Client
from flight_server.host.host import Host
from flight_server.wire.read_point_options import parse_read_point
from tests.support.many_hosts import three_hosts
from tests.support.plays import PLAYS, ROWS, STORE
from tests.support.waiting import wait_until

TOTAL = "SELECT sum(plays) AS n FROM plays"
OLD, NEW = 2 * ROWS, 3 * ROWS
TIMEOUT_SECONDS = 0.3
"""Less than statements may take that bring no time-out."""


@dataclass(frozen=True)
class LaggingCluster:
    """Three hosts, of which c lacks the newest epoch until it may go on.

    Attributes:
        hosts: The hosts.
        old: The epoch that all have.
        new: The one that c lacks.
        go_on: Set when c may follow again.
    """

    hosts: dict[HostName, Host]
    old: Epoch
    new: Epoch
    go_on: threading.Event

    def client(self, name: str, timeout_seconds: float, read_point: ReadPoint) -> Client:
        """A client of one of them."""
        return Client(self.hosts[HostName(name)].uri, timeout_seconds=timeout_seconds, read_point=read_point)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LaggingCluster]:
    with lagging_cluster(tmp_path) as found:
        yield found


@contextmanager
def lagging_cluster(tmp_path: Path, queries: QueryOptions | None = None) -> Iterator[LaggingCluster]:
    with three_hosts(tmp_path, queries=queries) as hosts:
        appender = open_appender(Changelog.open(str(tmp_path / "changelog")), [STORE])
        wait_for_epoch(hosts, "abc", appender.epoch)
        paused, go_on = threading.Event(), threading.Event()

        def pause() -> None:
            paused.set()
            assert go_on.wait(60)

        # Whoever is told of a change keeps the follower waiting: with the next epoch that c applies, it
        # stops.
        source = hosts[HostName("c")].source
        source.add_listener(pause)
        try:
            appender.append({STORE.name: plays(2)})
            assert paused.wait(60)
            old = source.report()[0][STORE.group].newest
            appender.append({STORE.name: plays(3)})
            wait_for_epoch(hosts, "ab", appender.epoch)
            yield LaggingCluster(hosts, old, appender.epoch, go_on)
        finally:
            go_on.set()


def plays(count: int) -> pa.Table:
    """All rows, with another number of plays."""
    return PLAYS.set_column(2, "plays", pa.array([count] * ROWS, pa.int64()))


def wait_for_epoch(hosts: Mapping[HostName, Host], names: str, epoch: Epoch) -> None:
    """Wait until hosts have an epoch."""
    for name in names:
        wait_until(partial(has_epoch, hosts[HostName(name)], epoch))


def has_epoch(host: Host, epoch: Epoch) -> bool:
    return host.source.report()[0][STORE.group].newest == epoch


def test_without_a_wish_the_newest_epoch_that_all_have_is_read(cluster: LaggingCluster) -> None:
    for read_point in (
        ReadPoint(),
        parse_read_point(as_of=int(cluster.old)),
        parse_read_point(max_staleness=3600.0),
    ):
        for name in "ac":
            with cluster.client(name, 60, read_point) as client:
                rows = client.query(TOTAL)
                assert rows.metadata["epochs"] == {STORE.group: cluster.old}
                assert rows.read_all()["n"].to_pylist() == [OLD]


def refusal(
    cluster: LaggingCluster, name: str, timeout_seconds: float, read_point: ReadPoint
) -> Unavailable | DeadlineExceeded:
    """Why a host does not answer."""
    with cluster.client(name, timeout_seconds, read_point) as client:
        try:
            client.query(TOTAL)
        except (Unavailable, DeadlineExceeded) as error:
            return error
    pytest.fail("it was answered")


def test_an_epoch_that_one_host_lacks_is_waited_for_and_then_told(cluster: LaggingCluster) -> None:
    wanted = (
        rf"Partition \d+ of store plays is at epoch {cluster.old} on host c, and epoch {cluster.new} is "
        r"wanted"
    )
    for read_point in (
        parse_read_point(min_epoch=int(cluster.new)),
        parse_read_point(as_of=int(cluster.new)),
        parse_read_point(max_staleness=0.001),
    ):
        for name in "ac":
            timeout_seconds, begun = TIMEOUT_SECONDS, time.monotonic()
            while isinstance(error := refusal(cluster, name, timeout_seconds, read_point), DeadlineExceeded):
                # The machine is too busy to come to the point in that time.
                timeout_seconds, begun = 2 * timeout_seconds, time.monotonic()
            assert re.search(wanted, error.message)
            assert time.monotonic() - begun >= timeout_seconds * 0.9


def test_an_epoch_that_comes_in_time_is_read(cluster: LaggingCluster) -> None:
    wishes = (parse_read_point(min_epoch=int(cluster.new)), parse_read_point(as_of=int(cluster.new)))

    def ask(read_point: ReadPoint) -> list[int]:
        with cluster.client("a", 60, read_point) as client:
            found: list[int] = client.query(TOTAL).read_all()["n"].to_pylist()
        return found

    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(ask, read_point) for read_point in wishes]
        wait_until(lambda: cluster.hosts[HostName("a")].running_queries == len(wishes))
        assert not any(each.done() for each in waiting)
        cluster.go_on.set()
        assert [each.result(60) for each in waiting] == [[NEW]] * len(wishes)


STALE = ReadPoint(allow_stale=True)
MAX_LAG = 1.0
REFUSED = "the max_lag of 1 seconds: .*say allow_stale"


def test_beyond_its_max_lag_no_host_answers_without_being_told_to(tmp_path: Path) -> None:
    with lagging_cluster(tmp_path, QueryOptions(max_lag_seconds=MAX_LAG)) as cluster:
        for name in "ac":
            wait_until(partial(is_refused, cluster, name))
            uri = cluster.hosts[HostName(name)].uri
            for ask in client_ways(uri) + plain_ways(uri):
                with pytest.raises((Unavailable, flight.FlightError, Error), match=REFUSED):
                    ask(allow_stale=False)
                facts = ask(allow_stale=True)
                assert facts["epochs"] == {STORE.group: cluster.old}
                assert facts["stale_seconds"] > MAX_LAG
            for headers in ({}, {"livestate-parallel-endpoints": "true"}):
                with pytest.raises(Error, match=REFUSED):
                    ask_by_adbc(uri, "SELECT plays FROM plays", headers)
                found = ask_by_adbc(
                    uri, "SELECT plays FROM plays", headers | {"livestate-allow-stale": "true"}
                )
                assert sum(found["plays"].to_pylist()) == OLD
        with cluster.client("a", 60, STALE) as client:
            (row,) = [row for row in client.hosts().to_pylist() if row["host"] == "c"]
            assert (row["epoch"], row["newest_epoch"]) == (cluster.old, cluster.new)
        cluster.go_on.set()
        wait_for_epoch(cluster.hosts, "abc", cluster.new)
        wait_until(lambda: not is_refused(cluster, "a"))


def is_refused(cluster: LaggingCluster, name: str) -> bool:
    with cluster.client(name, 60, ReadPoint()) as client:
        try:
            client.query(TOTAL).read_all()
        except Unavailable as error:
            assert "max_lag" in error.message
            return True
    return False


Way = Callable[..., Mapping[str, Any]]
"""Asks with or without `allow_stale`; gives what the answer says of itself."""


def client_ways(uri: str) -> list[Way]:
    def client_of(allow_stale: bool) -> Client:
        return Client(uri, timeout_seconds=60, read_point=ReadPoint(allow_stale=allow_stale))

    def query(sql: str, *, allow_stale: bool) -> Mapping[str, Any]:
        with client_of(allow_stale) as client:
            rows = client.query(sql)
            rows.read_all()
            return rows.metadata

    def keys(*, allow_stale: bool) -> Mapping[str, Any]:
        with client_of(allow_stale) as client, client.keys(STORE.name) as stream:
            stream.get_many(range(ROWS))
            return stream.metadata

    statements = (TOTAL, "SELECT * FROM plays", "SELECT count(*) FROM plays", "SELECT count(*) FROM plays")
    return [*(partial(query, sql) for sql in statements), keys]


def plain_ways(uri: str) -> list[Way]:
    def ticket(*, allow_stale: bool) -> Mapping[str, Any]:
        command = json.dumps({"sql": TOTAL, "allow_stale": allow_stale}).encode()
        with flight.connect(uri) as client:
            schema = client.do_get(flight.Ticket(command)).read_all().schema
        found: Mapping[str, Any] = json.loads(schema.metadata[b"livestate"])
        return found

    def ask_by_partitions(*, allow_stale: bool) -> Mapping[str, Any]:
        command = {"sql": "SELECT * FROM plays", "endpoints": "partitions", "allow_stale": allow_stale}
        with flight.connect(uri) as client:
            info = client.get_flight_info(flight.FlightDescriptor.for_command(json.dumps(command).encode()))
            for endpoint in info.endpoints:
                with flight.connect(endpoint.locations[0]) as there:
                    found = json.loads(there.do_get(endpoint.ticket).read_all().schema.metadata[b"livestate"])
                    assert found["stale_seconds"] > MAX_LAG
        facts: Mapping[str, Any] = json.loads(info.app_metadata)
        return facts

    return [ticket, ask_by_partitions]


def ask_by_adbc(uri: str, sql: str, headers: Mapping[str, str]) -> pa.Table:
    options = {f"adbc.flight.sql.rpc.call_header.{name}": value for name, value in headers.items()}
    with (
        flight_sql.connect(uri, db_kwargs=options, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(sql)
        return cursor.fetch_arrow_table()
