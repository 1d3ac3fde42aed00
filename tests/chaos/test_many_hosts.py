"""Three hosts, many clients: queries that fan out cannot block each other, and what nobody wants any more
ends on every host.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from engine.cluster.reports import HostName
from engine.errors import Cancelled, LivestateError, Unavailable
from flight_server.client.client import Client
from flight_server.server.limits import ServerLimits
from tests.support.many_hosts import count_running, three_hosts
from tests.support.plays import COUNT, ENDLESS, FAN_OUT, ROWS
from tests.support.waiting import wait_until

CLIENTS, QUERIES = 64, 6
ON_C = "SELECT song, sum(plays) AS n FROM plays WHERE song = {song} GROUP BY song"
"""A statement that one host answers whole."""


@pytest.mark.parametrize(
    "limits",
    [ServerLimits(), ServerLimits(max_statements=4, max_fragments=2, max_wait_seconds=120)],
    ids=["default", "tight"],
)
def test_many_clients_of_all_hosts_cannot_block_each_other(tmp_path: Path, limits: ServerLimits) -> None:
    """All begin at once, a third of them at each host; every statement needs all hosts, and its host's slot
    while it waits for them.
    """
    begin = threading.Barrier(CLIENTS)
    with three_hosts(tmp_path, limits) as hosts, ThreadPoolExecutor(CLIENTS) as pool:
        uris = [host.uri for host in hosts.values()]

        def ask(number: int) -> None:
            with Client(uris[number % 3], timeout_seconds=120) as client:
                begin.wait(60)
                for query in range(QUERIES):
                    sql, answer = FAN_OUT[(number + query) % len(FAN_OUT)]
                    rows = client.query(sql)
                    assert rows.read_all()["n"].to_pylist() == answer, sql
                    assert rows.metadata["hosts"] == ["a", "b", "c"], sql

        list(pool.map(ask, range(CLIENTS), timeout=240))
        wait_until(lambda: count_running(hosts) == 0)


def test_a_cancel_ends_the_work_on_every_host(tmp_path: Path) -> None:
    with (
        three_hosts(tmp_path, ServerLimits()) as hosts,
        ThreadPoolExecutor(1) as pool,
        Client(hosts[HostName("a")].uri) as client,
    ):
        asked = pool.submit(lambda: client.query(ENDLESS, call_id=b"12345678").read_all())
        wait_until(lambda: all(host.running_queries for host in hosts.values()))
        client.cancel(b"12345678")
        wait_until(lambda: count_running(hosts) == 0)
        with pytest.raises(Cancelled):
            asked.result(60)


_ASK = """
import sys
from flight_server.client.client import Client
print("asking", flush=True)
Client(sys.argv[1]).query(sys.argv[2]).read_all()
"""


def test_a_client_that_is_killed_leaves_no_work_behind(tmp_path: Path) -> None:
    with three_hosts(tmp_path, ServerLimits()) as hosts:
        with subprocess.Popen(
            [sys.executable, "-c", _ASK, hosts[HostName("b")].uri, ENDLESS], stdout=subprocess.PIPE
        ) as client:
            assert client.stdout is not None
            assert client.stdout.readline() == b"asking\n"
            wait_until(lambda: all(host.running_queries for host in hosts.values()))
            client.kill()
        wait_until(lambda: count_running(hosts) == 0)


def test_a_host_that_goes_away_is_told_and_comes_back(tmp_path: Path) -> None:
    with (
        three_hosts(tmp_path, ServerLimits()) as hosts,
        Client(hosts[HostName("a")].uri, timeout_seconds=1) as client,
    ):
        sql, answer = FAN_OUT[0]
        stopped = hosts[HostName("c")]
        assert stopped.stop()
        with pytest.raises(LivestateError, match="c") as caught:
            for _ in range(100):
                client.query(sql).read_all()
        assert isinstance(caught.value, Unavailable)
        stopped.start()
        client.options = replace(client.options, timeout_seconds=60)
        assert client.query(sql).read_all()["n"].to_pylist() == answer


def test_what_waits_for_a_slot_is_refused_in_time(tmp_path: Path) -> None:
    with (
        three_hosts(tmp_path, ServerLimits(max_statements=1)) as hosts,
        Client(hosts[HostName("a")].uri) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        asked = pool.submit(lambda: client.query(ENDLESS, call_id=b"12345678").read_all())
        wait_until(lambda: all(host.running_queries for host in hosts.values()))
        with (
            Client(client.uri, timeout_seconds=0.2) as other,
            pytest.raises(LivestateError, match="max_statements"),
        ):
            other.query("SELECT count(*) FROM plays").read_all()
        with Client(hosts[HostName("b")].uri, timeout_seconds=60) as other:
            assert other.query(FAN_OUT[0][0]).read_all()["n"].to_pylist() == [ROWS], (
                "another host has slots of its own"
            )
        client.cancel(b"12345678")
        with pytest.raises(Cancelled):
            asked.result(60)


@pytest.mark.parametrize("sql", [COUNT, "SELECT song FROM plays WHERE plays > 1", ON_C])
def test_who_waits_for_a_slow_host_holds_up_nobody_else(tmp_path: Path, sql: str) -> None:
    """The slow host is alive, and does not come to what it is asked for: others have its only slot."""
    limits = ServerLimits(max_statements=1, max_fragments=1, max_wait_seconds=120)
    with (
        three_hosts(tmp_path, limits) as hosts,
        Client(hosts[HostName("a")].uri, timeout_seconds=60) as client,
        Client(hosts[HostName("b")].uri) as other,
        ThreadPoolExecutor(2) as pool,
    ):
        there = next(song for song in range(ROWS) if _hosts_of(client, song) == ["c"])
        endless = pool.submit(lambda: other.query(ENDLESS, call_id=b"12345678").read_all())
        try:
            wait_until(lambda: all(host.running_queries for host in hosts.values()))
            slow = pool.submit(lambda: client.query(sql.format(song=there)).read_all().num_rows)
            wait_until(lambda: hosts[HostName("a")].running_queries == 2)
            assert client.query("SELECT 1 + 1 AS n").read_all()["n"].to_pylist() == [2]
            assert not slow.done()
        finally:
            other.cancel(b"12345678")
        with pytest.raises(Cancelled):
            endless.result(60)
        assert slow.result(60) > 0


def _hosts_of(client: Client, song: int) -> list[str]:
    rows = client.query(ON_C.format(song=song))
    rows.read_all()
    found: list[str] = rows.metadata["hosts"]
    return found
