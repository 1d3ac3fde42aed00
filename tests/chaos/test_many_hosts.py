"""Three hosts, many clients: queries that fan out cannot block each other, and what nobody wants any more ends on every host."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, append_table
from engine.cluster.deployment import Deployment, HostEntry
from engine.cluster.reports import HostName
from engine.errors import Cancelled, LivestateError, Unavailable
from engine.schema import define_store
from flight_server.client import Client
from flight_server.host import Host, HostOptions
from flight_server.limits import ServerLimits
from flight_server.ports import free_ports
from tests.protocol.waiting import wait_until

NAMES = ("a", "b", "c")
ROWS = 30_000
CLIENTS, QUERIES = 64, 6
PLAYS = pa.table(
    {
        "song": pa.array(range(ROWS), pa.int64()),
        "genre": pa.array([n % 10 for n in range(ROWS)], pa.int64()),
        "plays": pa.array([2] * ROWS, pa.int64()),
    }
)
FAN_OUT = (
    ("SELECT count(*) AS n FROM plays", [ROWS]),
    ("SELECT sum(plays) AS n FROM plays GROUP BY genre", [ROWS // 10 * 2] * 10),
    ("SELECT count(*) AS n FROM plays a JOIN plays b ON a.song = b.plays", [ROWS]),
    ("SELECT song AS n FROM plays ORDER BY song DESC LIMIT 3", [ROWS - 1, ROWS - 2, ROWS - 3]),
)
ENDLESS = "SELECT sum(hash(song + r.n)) AS n FROM plays, range(1000000000) r(n)"


def start(deployment: Deployment, name: HostName, directory: Path, limits: ServerLimits) -> Host:
    port = int(deployment.host(name).uri.rpartition(":")[2])
    data = directory / name
    host = Host(HostOptions(deployment.changelog, data, port=port, limits=limits, deployment=deployment, name=name, grace_seconds=0.2))
    host.start()
    return host


@contextmanager
def three_hosts(directory: Path, limits: ServerLimits) -> Iterator[dict[HostName, Host]]:
    """Hosts that know each other, with all rows of the store `plays` among them."""
    changelog = str(directory / "changelog")
    append_table(Changelog.open(changelog), define_store("plays", PLAYS.schema, ["song"], partitions=16), PLAYS)
    ports = free_ports("127.0.0.1", 0, 3)
    entries = tuple(HostEntry(HostName(name), f"grpc://127.0.0.1:{port}") for name, port in zip(NAMES, ports, strict=True))
    deployment = Deployment(changelog, entries)
    with ExitStack() as resources:
        hosts = {}
        for entry in entries:
            hosts[entry.name] = start(deployment, entry.name, directory, limits)
            resources.callback(hosts[entry.name].stop)
        for entry in entries:
            with Client(entry.uri) as client:
                wait_until(lambda client=client: sees_all(client), 60)  # type: ignore[misc] # mypy gives lambdas with defaults no type
        yield hosts


def sees_all(client: Client) -> bool:
    """Whether a host knows who holds each of the partitions, and that they are alive."""
    rows = client.replicas().to_pylist()
    held = [number for row in rows if row["alive"] and row["epoch"] == row["newest_epoch"] for number in row["partitions"]]
    return sorted(held) == list(range(16))


def running(hosts: dict[HostName, Host]) -> int:
    return sum(host.running_queries for host in hosts.values())


def test_many_clients_of_all_hosts_cannot_block_each_other(tmp_path: Path) -> None:
    limits = ServerLimits(max_statements=4, max_fragments=2, max_wait_seconds=120)
    with three_hosts(tmp_path, limits) as hosts, ThreadPoolExecutor(CLIENTS) as pool:
        uris = [host.uri for host in hosts.values()]

        def ask(number: int) -> None:
            with Client(uris[number % 3], timeout_seconds=120) as client:
                for query in range(QUERIES):
                    sql, answer = FAN_OUT[(number + query) % len(FAN_OUT)]
                    assert client.query(sql).read_all()["n"].to_pylist() == answer, sql

        list(pool.map(ask, range(CLIENTS), timeout=240))
        wait_until(lambda: running(hosts) == 0)


def test_a_cancel_ends_the_work_on_every_host(tmp_path: Path) -> None:
    with three_hosts(tmp_path, ServerLimits()) as hosts, ThreadPoolExecutor(1) as pool, Client(hosts[HostName("a")].uri) as client:
        asked = pool.submit(lambda: client.query(ENDLESS, call_id=b"12345678").read_all())
        wait_until(lambda: all(host.running_queries for host in hosts.values()))
        at = time.monotonic()
        client.cancel(b"12345678")
        wait_until(lambda: running(hosts) == 0)
        assert time.monotonic() - at < 1.0
        with pytest.raises(Cancelled):
            asked.result(20)


_ASK = """
import sys
from flight_server.client import Client
print("asking", flush=True)
Client(sys.argv[1]).query(sys.argv[2]).read_all()
"""


def test_a_client_that_is_killed_leaves_no_work_behind(tmp_path: Path) -> None:
    with three_hosts(tmp_path, ServerLimits()) as hosts:
        with subprocess.Popen([sys.executable, "-c", _ASK, hosts[HostName("b")].uri, ENDLESS], stdout=subprocess.PIPE) as client:
            assert client.stdout is not None
            assert client.stdout.readline() == b"asking\n"
            wait_until(lambda: all(host.running_queries for host in hosts.values()))
            at = time.monotonic()
            client.kill()
        wait_until(lambda: running(hosts) == 0)
        assert time.monotonic() - at < 1.0


def test_a_host_that_goes_away_is_told_and_comes_back(tmp_path: Path) -> None:
    with three_hosts(tmp_path, ServerLimits()) as hosts, Client(hosts[HostName("a")].uri, timeout_seconds=1) as client:
        sql, answer = FAN_OUT[0]
        stopped = hosts[HostName("c")]
        assert stopped.stop()
        with pytest.raises(LivestateError, match="c") as caught:
            for _ in range(100):
                client.query(sql).read_all()
        assert isinstance(caught.value, Unavailable)
        stopped.start()
        client.timeout_seconds = 60
        assert client.query(sql).read_all()["n"].to_pylist() == answer


def test_what_waits_for_a_slot_is_refused_in_time(tmp_path: Path) -> None:
    with three_hosts(tmp_path, ServerLimits(max_statements=1)) as hosts, Client(hosts[HostName("a")].uri) as client, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(lambda: client.query(ENDLESS, call_id=b"12345678").read_all())
        wait_until(lambda: all(host.running_queries for host in hosts.values()))
        with Client(client.uri, timeout_seconds=0.2) as other, pytest.raises(LivestateError, match="max_statements"):
            other.query("SELECT count(*) FROM plays").read_all()
        with Client(hosts[HostName("b")].uri, timeout_seconds=60) as other:
            assert other.query(FAN_OUT[0][0]).read_all()["n"].to_pylist() == [ROWS], "another host has slots of its own"
        client.cancel(b"12345678")
        with pytest.raises(Cancelled):
            asked.result(20)
