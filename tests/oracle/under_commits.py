"""Queries while epochs land. No answer may mix two epochs, or lack rows.

`python -m tests.oracle.under_commits --queries 10000` asks hosts in one process; with `--processes` every
host is a process of its own, and with `--processes --kill` every partition is on two of them, and one is
killed and started again all the time.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Semaphore, Thread

import pyarrow as pa

from engine.changelog import Changelog
from engine.cluster.reports import HostName
from engine.replica.follower_options import FollowerOptions
from engine.service import QueryService
from engine.state.state_options import StateOptions
from flight_server.client.client import Client
from tests.support.bank import GROUP, INVARIANTS, Ask, Bank, check
from tests.support.host_processes import HostProcess, HostProcesses, host_processes
from tests.support.local_cluster import Cluster, following_cluster, host_names
from tests.support.seeds import seeded_random
from tests.support.waiting import wait_until

WAIT_SECONDS = 60.0
QUERIES_AN_EPOCH = 2
"""One epoch lands for so many queries: hosts take longer to apply it than to answer these, so each query
meets one.
"""
OPTIONS = FollowerOptions(poll_seconds=0.005, state=StateOptions(block_rows=16, fan_out=3))


@dataclass(frozen=True)
class Seen:
    """What came of a run.

    Attributes:
        queries: How many queries were asked.
        epochs: How many epochs landed meanwhile.
        versions: How many different epochs queries saw, at least.
    """

    queries: int
    epochs: int
    versions: int


def ask_of(service: QueryService) -> Ask:
    """How a service in this process is asked."""

    def ask(sql: str) -> pa.Table:
        with service.execute(sql) as result:
            return result.read_all()

    return ask


def ask_of_client(client: Client) -> Ask:
    """How a host is asked over the network."""
    return lambda sql: client.query(sql).read_all()


@contextmanager
def committing(bank: Bank) -> Iterator[Semaphore]:
    """Commit epochs until the end, in a thread of its own.

    Yields:
        What lets an epoch land each time it is released.
    """
    stop, due = Event(), Semaphore(0)

    def commit() -> None:
        while due.acquire() and not stop.is_set():
            bank.step()

    thread = Thread(target=commit, name="bank", daemon=True)
    thread.start()
    try:
        yield due
    finally:
        stop.set()
        due.release()
        thread.join(WAIT_SECONDS)


def ask_under_commits(bank: Bank, asks: Sequence[Ask], queries: int, threads: int = 2, seed: int = 0) -> Seen:
    """Ask invariants while epochs land. How many land hangs on how many queries are asked, and not on the
    machine.

    Args:
        bank: Writes the epochs; hosts have its first one.
        asks: How each host is asked.
        queries: How many queries.
        threads: How many clients.
        seed: What is asked of whom.

    Returns:
        What came of it.

    Raises:
        AssertionError: An answer mixes epochs, or is not whole.
    """
    before = bank.version

    def ask(number: int) -> set[int]:
        random = seeded_random(f"{seed} {number}")
        host = random.choice(asks)
        if number % QUERIES_AN_EPOCH == 0:
            due.release()
        if number % 25 == 0:
            return {int(host("SELECT max(version) AS v FROM accounts").column(0)[0].as_py())}
        check(random.choice(INVARIANTS), host)
        return set()

    with committing(bank) as due, ThreadPoolExecutor(threads) as clients:
        versions = set().union(*clients.map(ask, range(queries)))
    return Seen(queries, bank.version - before, len(versions))


@contextmanager
def bank_cluster(directory: Path, hosts: int) -> Iterator[tuple[Bank, Cluster]]:
    """A bank, and hosts that have its first epoch."""
    changelog = Changelog.open(str(directory / "changelog"))
    bank = Bank(changelog)
    with following_cluster(changelog, directory / "data", host_names(hosts), OPTIONS) as cluster:
        cluster.wait_for({GROUP: bank.epoch}, WAIT_SECONDS)
        yield bank, cluster


@contextmanager
def bank_processes(directory: Path, hosts: int, replication: int = 1) -> Iterator[tuple[Bank, HostProcesses]]:
    """A bank, and host processes that have its first epoch."""
    changelog = str(directory / "changelog")
    bank = Bank(Changelog.open(changelog))
    with host_processes(directory, changelog, host_names(hosts), replication) as processes:
        yield bank, processes


@dataclass
class Losses:
    """How often a host was lost.

    Attributes:
        count: How often it was killed, started again, and had everything again.
    """

    count: int = 0


@contextmanager
def losing(lost: HostProcess, witness: Client) -> Iterator[Losses]:
    """Kill a host and start it again, over and over until the end, in a thread of its own.

    Args:
        lost: The host.
        witness: A client of another one.
    """
    stop, losses = Event(), Losses()

    def lose() -> None:
        while not stop.is_set():
            lost.kill()
            lost.start()
            lost.wait()
            wait_until(lambda: takes_part(witness, lost.name), WAIT_SECONDS)
            losses.count += 1

    with ThreadPoolExecutor(1) as threads:
        losing = threads.submit(lose)
        try:
            yield losses
        finally:
            stop.set()
            losing.result(2 * WAIT_SECONDS)


def takes_part(witness: Client, host: HostName) -> bool:
    """Whether a host has all its partitions, as another one sees it."""
    rows = [row for row in witness.replicas().to_pylist() if row["host"] == host]
    return bool(rows) and all(row["alive"] and row["coming"] == 0 for row in rows)


def ask_processes(
    directory: Path, hosts: int, queries: int, clients: int, kill: bool, seed: int = 0
) -> tuple[Seen, int]:
    """Ask invariants of host processes while epochs land.

    Args:
        directory: For their data.
        hosts: How many hosts there are.
        queries: How many queries.
        clients: How many clients ask at once.
        kill: Every partition is on two hosts, and the last host is lost over and over; the others are asked.
        seed: What is asked of whom.

    Returns:
        What came of it, and how often a host was lost.

    Raises:
        AssertionError: An answer mixes epochs, or is not whole.
        LivestateError: There was no answer.
    """
    with bank_processes(directory, hosts, 2 if kill else 1) as (bank, processes), ExitStack() as resources:
        *asked, last = processes
        connected = [
            resources.enter_context(Client(host.uri, timeout_seconds=WAIT_SECONDS))
            for host in (asked if kill else processes)
        ]
        losses = resources.enter_context(losing(last, connected[0])) if kill else Losses()
        seen = ask_under_commits(
            bank, [ask_of_client(client) for client in connected], queries, clients, seed
        )
    return seen, losses.count


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.under_commits", description=__doc__)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--processes", action="store_true", help="every host is a process")
    parser.add_argument(
        "--kill", action="store_true", help="with --processes: one is killed and started again all the time"
    )
    options = parser.parse_args()
    if options.kill and not options.processes:
        parser.error("--kill needs --processes")
    started = time.monotonic()
    losses = 0
    if options.processes:
        with TemporaryDirectory() as directory:
            seen, losses = ask_processes(
                Path(directory),
                options.hosts,
                options.queries,
                options.clients,
                options.kill,
                seed=time.time_ns(),
            )
        return _say(seen, losses, time.monotonic() - started)
    with TemporaryDirectory() as directory, bank_cluster(Path(directory), options.hosts) as (bank, cluster):
        asks = [ask_of(cluster.services[host]) for host in cluster.hosts]
        seen = ask_under_commits(bank, asks, options.queries, options.clients, seed=time.time_ns())
    return _say(seen, losses, time.monotonic() - started)


def _say(seen: Seen, losses: int, seconds: float) -> int:
    lost = f" and a host was lost {losses} times" if losses else ""
    print(
        f"{seen.queries} queries in {seconds:.0f} s while {seen.epochs} epochs landed{lost}: every answer is "
        "whole and of one epoch"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
