"""Whole hosts of one deployment: TLS and token between them, and which epoch their clients read."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow as pa
import pytest
from adbc_driver_flightsql import DatabaseOptions
from pyarrow import flight
from rich.console import Console

from engine.changelog import Changelog, append_table
from engine.changelog.layout import commit_path, definition_path
from engine.cluster.deployment import Deployment, HostEntry
from engine.cluster.reports import HostName
from engine.errors import LivestateError, Unauthenticated, Unavailable, Unsupported
from engine.model.schema import Epoch, define_store
from flight_server.cli.store_tables import render_replicas
from flight_server.client.client import Client
from flight_server.client.connection_options import ConnectionOptions
from flight_server.host.host import Host, HostOptions
from flight_server.host.ports import free_ports
from flight_server.server.statement_meter import AnswerClass, ClassTotals
from flight_server.wire.messages import new, pack
from flight_server.wire.read_point_options import parse_read_point
from tests.support.certificate import Certificate
from tests.support.waiting import wait_until

ROWS = pa.table({"id": pa.array(range(1000), pa.int64()), "n": pa.array([1] * 1000, pa.int64())})
STORE = define_store("numbers", ROWS.schema, ["id"], partitions=8)
TOTAL = "SELECT sum(n) AS total FROM numbers"


def add(directory: Path, factor: int) -> int:
    """Replace all rows in one epoch, whose number this returns."""
    changelog = Changelog.open(str(directory / "changelog"))
    append_table(changelog, STORE, pa.table({"id": ROWS["id"], "n": pa.array([factor] * 1000, pa.int64())}))
    return changelog.newest_epoch(STORE.group)


@contextmanager
def pair(directory: Path, scheme: str = "grpc", **options: Any) -> Iterator[Sequence[Host]]:
    """Two hosts with all rows between them."""
    add(directory, 1)
    with several("ab", directory, scheme, **options) as hosts:
        yield hosts


@contextmanager
def several(names: str, directory: Path, scheme: str = "grpc", **options: Any) -> Iterator[Sequence[Host]]:
    """Hosts with names of one letter that have all rows of a changelog between them."""
    ports = free_ports("127.0.0.1", 0, len(names))
    entries = tuple(
        HostEntry(HostName(name), f"{scheme}://127.0.0.1:{port}")
        for name, port in zip(names, ports, strict=True)
    )
    deployment = Deployment(str(directory / "changelog"), entries)
    with ExitStack() as resources:
        hosts = []
        for entry, port in zip(entries, ports, strict=True):
            data = directory / entry.name
            hosts.append(
                Host(
                    HostOptions(
                        deployment.changelog,
                        data,
                        port=port,
                        deployment=deployment,
                        name=entry.name,
                        **options,
                    )
                )
            )
            resources.callback(hosts[-1].stop)
            hosts[-1].start()
        yield hosts


def total(client: Client) -> int:
    found: int = client.query(TOTAL).read_all()["total"][0].as_py()
    return found


def test_hosts_speak_tls_and_show_each_other_the_token(tmp_path: Path, certificate: Certificate) -> None:
    roots = certificate.chain
    tls = {"tls_certificate": roots, "tls_key": certificate.key, "tls_roots": roots, "token": "secret"}
    with pair(tmp_path, "grpc+tls", **tls) as hosts:
        for host in hosts:
            with Client(ConnectionOptions((host.uri,), "secret", roots), timeout_seconds=60) as client:
                assert total(client) == 1000
            with (
                Client(ConnectionOptions((host.uri,), tls_roots=roots)) as client,
                pytest.raises(Unauthenticated),
            ):
                client.hosts()


def test_a_client_reads_its_writes_and_an_older_epoch(tmp_path: Path) -> None:
    with pair(tmp_path) as hosts, Client(hosts[0].uri, timeout_seconds=60) as client:
        assert total(client) == 1000
        first = client.query(TOTAL).metadata["epochs"]["numbers"]
        epochs = {}
        for factor in (2, 3, 4):
            epochs[factor] = add(tmp_path, factor)
            client.options = replace(client.options, read_point=parse_read_point(min_epoch=epochs[factor]))
            assert total(client) == factor * 1000
        client.options = replace(client.options, read_point=parse_read_point(as_of=epochs[2]))
        assert total(client) == 2000
        client.options = replace(client.options, read_point=parse_read_point(as_of={"numbers": first}))
        assert total(client) == 1000
        cookies = {DatabaseOptions.WITH_COOKIE_MIDDLEWARE.value: "true"}
        with (
            flight_sql.connect(hosts[1].uri, db_kwargs=cookies, autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            connection.adbc_connection.set_options(**{"adbc.flight.sql.session.option.as_of": str(epochs[3])})
            cursor.execute(TOTAL)
            assert cursor.fetchall() == [(3000,)]


def test_an_epoch_that_does_not_come_is_waited_for_and_then_told(tmp_path: Path) -> None:
    with (
        pair(tmp_path) as hosts,
        Client(hosts[1].uri, timeout_seconds=60) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        assert total(client) == 1000
        epoch = client.query(TOTAL).metadata["epochs"]["numbers"]
        client.options = replace(client.options, read_point=parse_read_point(min_epoch=epoch + 1))
        waiting = pool.submit(total, client)
        wait_until(lambda: hosts[1].running_queries == 1)
        add(tmp_path, 5)
        assert waiting.result(60) >= 1000
        with (
            Client(
                client.uri, timeout_seconds=0.2, read_point=parse_read_point(min_epoch=epoch + 1000)
            ) as other,
            pytest.raises(LivestateError, match="epoch"),
        ):
            total(other)


def test_a_lone_host_has_no_deployment(uri: str) -> None:
    with Client(uri) as client, pytest.raises(Unsupported, match="no deployment"):
        client.hosts()


def test_a_host_must_be_one_of_its_deployment(tmp_path: Path) -> None:
    deployment = Deployment(str(tmp_path / "changelog"), (HostEntry(HostName("a"), "grpc://127.0.0.1:1"),))
    options = HostOptions(deployment.changelog, tmp_path / "data", port=0, deployment=deployment, name="z")
    with pytest.raises(LivestateError, match="no host z"):
        Host(options).start()
    host = Host(replace(options, name="a"))
    try:
        host.start()
        with Client(host.uri) as client:
            assert client.health()["stores"] == 0
    finally:
        host.stop()


def test_a_missing_host_is_named(tmp_path: Path) -> None:
    with pair(tmp_path) as hosts, Client(hosts[0].uri, timeout_seconds=60) as client:
        assert total(client) == 1000
        assert hosts[1].stop()
        client.options = replace(client.options, timeout_seconds=0.5)
        with pytest.raises(Unavailable, match=r"numbers|host b|Host b"):
            total(client)


def _info(client: flight.FlightClient, sql: str, *, parallel: bool) -> flight.FlightInfo:
    options = flight.FlightCallOptions(
        headers=[(b"livestate-parallel-endpoints", b"true" if parallel else b"false")]
    )
    return client.get_flight_info(
        flight.FlightDescriptor.for_command(pack(new("CommandStatementQuery", query=sql))), options
    )


def test_rows_in_no_order_can_be_read_from_each_host(tmp_path: Path) -> None:
    with (
        pair(tmp_path) as hosts,
        Client(hosts[0].uri, timeout_seconds=60) as waiting,
        flight.connect(hosts[0].uri) as client,
    ):
        assert total(waiting) == 1000
        for sql in (
            "SELECT * FROM numbers",
            "SELECT id + 1 AS more FROM numbers WHERE id > 5",
            "SELECT id, sum(n) AS total FROM numbers GROUP BY id",
        ):
            info = _info(client, sql, parallel=True)
            assert [endpoint.locations[0].uri.decode() for endpoint in info.endpoints] == [
                host.uri for host in hosts
            ], sql
            parts = []
            for endpoint in info.endpoints:
                with flight.connect(endpoint.locations[0]) as there:
                    parts.append(there.do_get(endpoint.ticket).read_all())
            assert all(part.schema.equals(info.schema) for part in parts)
            whole = waiting.query(sql).read_all()
            column = whole.schema.names[0]
            found = pa.concat_tables(part.replace_schema_metadata(None) for part in parts)
            assert found.sort_by(column).equals(whole.replace_schema_metadata(None).sort_by(column)), sql
            assert len(_info(client, sql, parallel=False).endpoints) == 1


def test_what_has_to_be_put_together_has_one_endpoint(tmp_path: Path) -> None:
    with (
        pair(tmp_path) as hosts,
        Client(hosts[0].uri, timeout_seconds=60) as waiting,
        flight.connect(hosts[0].uri) as client,
    ):
        assert total(waiting) == 1000
        for sql in (
            TOTAL,
            "SELECT count(*) FROM numbers",
            "SELECT * FROM numbers LIMIT 3",
            "SELECT * FROM numbers ORDER BY id",
            "SHOW STORES",
            "SELECT 1",
        ):
            assert len(_info(client, sql, parallel=True).endpoints) == 1, sql
        assert len(_info(client, "SELECT n FROM numbers WHERE id = 7", parallel=True).endpoints) == 1


def test_a_host_without_the_rows_answers_what_is_no_query(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2, 3], "kind": ["x", "y", "x"], "n": [10, 20, 30]})
    store = define_store("one", rows.schema, ["id"], partitions=1)
    append_table(Changelog.open(str(tmp_path / "changelog")), store, rows)
    with several("ab", tmp_path) as hosts:
        for host in hosts:
            with Client(host.uri, timeout_seconds=60) as client:
                wait_until(partial(_can_read, client, "SELECT * FROM one"))
                for sql, count in (
                    ("PIVOT one ON kind USING sum(n)", 3),
                    ("UNPIVOT one ON n", 3),
                    ("SUMMARIZE one", 3),
                    ("VALUES ((SELECT max(id) FROM one))", 1),
                    ("DESCRIBE PIVOT one ON kind USING sum(n)", 3),
                ):
                    assert client.query(sql).read_all().num_rows == count, (host.uri, sql)


def _can_read(client: Client, sql: str) -> bool:
    try:
        client.query(sql).read_all()
    except LivestateError:
        return False
    return True


def _taken(host: Host, name: AnswerClass) -> ClassTotals:
    figures = host.figures().server
    assert figures is not None
    return figures.totals.classes[name]


def test_what_moved_for_a_statement_is_all_that_the_other_host_sent(tmp_path: Path) -> None:
    """Also what came after the first rows."""
    rows = pa.table({"id": range(300_000), "n": [number * number for number in range(300_000)]})
    large = define_store("large", rows.schema, ["id"], partitions=8)
    append_table(Changelog.open(str(tmp_path / "changelog")), large, rows)
    with pair(tmp_path) as (asked, other), Client(asked.uri, timeout_seconds=60) as client:
        for sql in ("SELECT * FROM large", "SELECT n FROM large ORDER BY n", "SELECT DISTINCT n FROM large"):
            moved = _taken(asked, AnswerClass.SPLIT).moved
            sent = _taken(other, AnswerClass.FRAGMENT).size
            assert client.query(sql).read_all().num_rows == rows.num_rows
            wait_until(lambda: not (asked.running_queries or other.running_queries))
            moved = _taken(asked, AnswerClass.SPLIT).moved - moved
            sent = _taken(other, AnswerClass.FRAGMENT).size - sent
            assert sent > 500_000, sql
            assert moved == pytest.approx(sent, rel=0.05), sql


def test_the_table_of_stores_names_each_problem(tmp_path: Path) -> None:
    other = define_store("others", ROWS.schema, ["id"], partitions=2)
    changelog = tmp_path / "changelog"
    append_table(Changelog.open(str(changelog)), other, ROWS)
    changelog.joinpath(*definition_path(other.name).split("/")).write_bytes(b"{}")
    with pair(tmp_path) as hosts, Client(hosts[0].uri, timeout_seconds=60) as client:
        assert total(client) == 1000
        changelog.joinpath(*commit_path(STORE.group, Epoch(3)).split("/")).write_bytes(b"{}")
        wait_until(lambda: all(row["problem"] for row in client.stores().to_pylist()))
        rows = client.stores().to_pylist()
        console = Console(file=io.StringIO(), width=1000)
        console.print(render_replicas(client.replicas(), client.stores()))
    assert {row["store"] for row in rows} == {"numbers", "others"}
    assert isinstance(console.file, io.StringIO)
    for row in rows:
        assert f"{row['store']}: {row['problem']}" in console.file.getvalue()


def test_drivers_read_all_endpoints(tmp_path: Path) -> None:
    with pair(tmp_path) as hosts, Client(hosts[0].uri, timeout_seconds=60) as waiting:
        assert total(waiting) == 1000
        headers = {DatabaseOptions.RPC_CALL_HEADER_PREFIX.value + "livestate-parallel-endpoints": "true"}
        with (
            flight_sql.connect(hosts[1].uri, db_kwargs=headers, autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SELECT id FROM numbers WHERE n = ?", (1,))
            assert sorted(cursor.fetch_arrow_table()["id"].to_pylist()) == list(range(1000))
