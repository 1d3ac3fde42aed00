"""Host processes that are killed or frozen while they work: what can be answered is, all else ends soon and
says what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, append_table
from engine.errors import Cancelled, DeadlineExceeded, LivestateError, Unavailable
from flight_server.client.client import Client
from tests.support.host_processes import HostProcesses, host_processes
from tests.support.plays import COUNT, ENDLESS, FAN_OUT, PLAYS, ROWS, STORE
from tests.support.waiting import wait_until

PATIENT_SECONDS = 60.0
FEWEST_TIMES, MOST_TIMES = 4_000, 256_000
NAMES_THE_LOST = r"Host c failed, and no other host can answer for partitions \d+, .* of store plays"


def processes(directory: Path, replication: int) -> Iterator[HostProcesses]:
    changelog = str(directory / "changelog")
    append_table(Changelog.open(changelog), STORE, PLAYS)
    with host_processes(directory, changelog, replication=replication) as hosts:
        yield hosts


@pytest.fixture(scope="module")
def single_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostProcesses]:
    yield from processes(tmp_path_factory.mktemp("single"), 1)


@pytest.fixture(scope="module")
def double_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostProcesses]:
    yield from processes(tmp_path_factory.mktemp("double"), 2)


@pytest.fixture
def single(single_hosts: HostProcesses) -> Iterator[HostProcesses]:
    """Every partition on one host; all hosts are there, and work on nothing, before and after."""
    single_hosts.wait_until_whole()
    yield single_hosts
    wait_until(lambda: single_hosts.count_running() == [0, 0, 0])


@pytest.fixture
def double(double_hosts: HostProcesses) -> Iterator[HostProcesses]:
    """Every partition on two hosts; otherwise the same."""
    double_hosts.wait_until_whole()
    yield double_hosts
    wait_until(lambda: double_hosts.count_running() == [0, 0, 0])


def begin(
    hosts: HostProcesses, pool: ThreadPoolExecutor, client: Client, sql: str, call_id: bytes = b""
) -> Future[pa.Table]:
    """A statement that runs on all three hosts when this returns."""
    asked = submit(hosts, pool, client, sql, call_id)
    assert not asked.done(), "it ended too soon to be disturbed"
    return asked


def submit(
    hosts: HostProcesses, pool: ThreadPoolExecutor, client: Client, sql: str, call_id: bytes = b""
) -> Future[pa.Table]:
    """A statement that runs on all three hosts when this returns, or has ended."""
    asked = pool.submit(lambda: client.query(sql, call_id=call_id).read_all())
    wait_until(lambda: all(hosts.count_running()) or asked.done())
    return asked


def begin_long(
    hosts: HostProcesses, pool: ThreadPoolExecutor, client: Client
) -> tuple[Future[pa.Table], int]:
    """A statement that runs on all three hosts for a while, and its answer. It takes a second or so at first;
    where whoever looks is slower than that, it is asked for more.
    """
    times = FEWEST_TIMES
    while True:
        sql = f"SELECT count(nullif(hash(song + r.n + 1), 0)) AS n FROM plays, range({times}) r(n)"
        asked = submit(hosts, pool, client, sql)
        if not asked.done():
            return asked, ROWS * times
        times *= 2
        assert times <= MOST_TIMES, "it ended too soon to be disturbed"


def is_right(client: Client, sql: str = COUNT) -> bool:
    """Whether a statement is answered. An answer that is not the right one fails the test."""
    try:
        found = client.query(sql).read_all()["n"].to_pylist()
    except LivestateError:
        return False
    assert found == dict(FAN_OUT)[sql]
    return True


def test_a_cancel_ends_the_work_of_all_processes(single: HostProcesses) -> None:
    with ThreadPoolExecutor(1) as pool, Client(single["a"].uri) as client:
        for number in range(3):
            call_id = f"cancel {number}".encode()
            asked = begin(single, pool, client, ENDLESS, call_id)
            client.cancel(call_id)
            wait_until(lambda: not any(single.count_running()))
            with pytest.raises(Cancelled):
                asked.result(60)


def test_a_lookup_that_waits_for_a_frozen_host_can_be_cancelled(single: HostProcesses) -> None:
    with ThreadPoolExecutor(1) as pool, Client(single["a"].uri, timeout_seconds=PATIENT_SECONDS) as client:
        lookups = (f"SELECT plays FROM plays WHERE song = {song}" for song in range(100))
        there = next(sql for sql in lookups if client.query(sql).metadata["hosts"] == ["c"])
        with single["c"].freeze():
            asked = pool.submit(lambda: client.query(there, call_id=b"lookup").read_all())
            wait_until(lambda: running_counts(single, "a") == [1])
            client.cancel(b"lookup")
            with pytest.raises(Cancelled):
                asked.result(PATIENT_SECONDS)


def test_a_killed_host_is_told_with_its_partitions_and_comes_back(single: HostProcesses) -> None:
    with ThreadPoolExecutor(1) as pool, Client(single["a"].uri, timeout_seconds=PATIENT_SECONDS) as client:
        asked = begin(single, pool, client, ENDLESS)
        single["c"].kill()
        try:
            with pytest.raises(Unavailable, match=NAMES_THE_LOST):
                asked.result(PATIENT_SECONDS)
            wait_until(lambda: not any(running_counts(single, "ab")))
            for uri in (single["a"].uri, single["b"].uri):
                with Client(uri, timeout_seconds=0.3) as other:
                    assert not any(is_right(other, sql) for sql, _ in FAN_OUT)
                    with pytest.raises(
                        Unavailable,
                        match=(
                            r"Partition \d+ of store plays .*host c is not alive, and epoch \d+ of group "
                            r"plays"
                        ),
                    ):
                        other.query(COUNT)
        finally:
            single["c"].start()
        single["c"].wait()
        assert is_right(client), "a patient query waits for the host"
        single.wait_until_whole()
        assert all(is_right(client, sql) for sql, _ in FAN_OUT)


def running_counts(hosts: HostProcesses, names: str) -> list[int]:
    """How many statements run on some of the hosts."""
    found = []
    for name in names:
        with Client(hosts[name].uri) as client:
            found.append(int(client.health()["running"]))
    return found


def test_a_frozen_host_is_late_first_and_then_given_up(single: HostProcesses) -> None:
    """Its connections stay open: nobody says that it is gone."""
    with ThreadPoolExecutor(2) as pool, Client(single["a"].uri, timeout_seconds=PATIENT_SECONDS) as client:
        asked = begin(single, pool, client, ENDLESS)
        with single["c"].freeze():
            inputs = pool.submit(lambda: client.query(UPLOADING).read_all())
            with Client(single["b"].uri, timeout_seconds=0.5) as hasty:
                with pytest.raises(DeadlineExceeded, match="host c"):
                    hasty.query(COUNT)
                # On a busy machine the host is given up meanwhile, and the message says that.
                with pytest.raises((DeadlineExceeded, Unavailable), match=r"[Hh]ost c"):
                    for song in range(100):
                        hasty.query(f"SELECT plays FROM plays WHERE song = {song}").read_all()
            for lost in (asked, inputs):
                with pytest.raises(Unavailable, match=NAMES_THE_LOST):
                    lost.result(PATIENT_SECONDS)
            with (
                Client(single["a"].uri, timeout_seconds=0.1) as hasty,
                pytest.raises(Unavailable, match="host c is not alive"),
            ):
                hasty.query(COUNT)
        assert is_right(client), "a patient query waits for the host"


UPLOADING = (
    "SELECT count(*) AS n FROM plays a JOIN plays b ON a.song = b.plays + b.song JOIN plays c ON "
    "c.song = a.plays + a.song"
)
"""Sends rows of some hosts to the others."""


@pytest.mark.parametrize("loss", ["kill", "freeze"])
def test_with_replicas_answers_go_on(double: HostProcesses, loss: str) -> None:
    lost = double["c"]
    with ThreadPoolExecutor(1) as pool, Client(double["a"].uri, timeout_seconds=PATIENT_SECONDS) as client:
        asked, answer = begin_long(double, pool, client)
        if loss == "kill":
            lost.kill()
            try:
                _answers_go_on(double)
                assert asked.result(PATIENT_SECONDS)["n"].to_pylist() == [answer]
            finally:
                lost.start()
            lost.wait()
        else:
            with lost.freeze():
                _answers_go_on(double)
                assert asked.result(PATIENT_SECONDS)["n"].to_pylist() == [answer]
        double.wait_until_whole()
        assert all(is_right(client, sql) for sql, _ in FAN_OUT)


def _answers_go_on(hosts: HostProcesses) -> None:
    for uri in (hosts["a"].uri, hosts["b"].uri):
        with Client(uri, timeout_seconds=PATIENT_SECONDS) as client:
            assert all(is_right(client, sql) for sql, _ in FAN_OUT)
