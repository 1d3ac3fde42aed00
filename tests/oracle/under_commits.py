"""Queries while epochs land: `python -m tests.oracle.under_commits --queries 10000`. No answer may mix two epochs."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Event, Thread

import pyarrow as pa

from engine.changelog import Changelog
from engine.follower import FollowerOptions
from engine.service import QueryService
from engine.state.options import StateOptions
from tests.support.bank import GROUP, INVARIANTS, Ask, Bank, check
from tests.support.cluster import Cluster, following_cluster, host_names

WAIT_SECONDS = 60.0
SECONDS_BETWEEN_EPOCHS = 0.004
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


@contextmanager
def committing(bank: Bank) -> Iterator[None]:
    """Commit epochs until the end, in a thread of its own."""
    stop = Event()

    def commit() -> None:
        while not stop.wait(SECONDS_BETWEEN_EPOCHS):
            bank.step()

    thread = Thread(target=commit, name="bank", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(WAIT_SECONDS)


def ask_under_commits(bank: Bank, asks: Sequence[Ask], queries: int, threads: int = 2, seed: int = 0) -> Seen:
    """Ask invariants while epochs land.

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
        random = Random(f"{seed} {number}")
        host = random.choice(asks)
        if number % 25 == 0:
            return {int(host("SELECT max(version) AS v FROM accounts").column(0)[0].as_py())}
        check(random.choice(INVARIANTS), host)
        return set()

    with committing(bank), ThreadPoolExecutor(threads) as clients:
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


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.under_commits", description=__doc__)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--clients", type=int, default=4)
    options = parser.parse_args()
    started = time.monotonic()
    with TemporaryDirectory() as directory, bank_cluster(Path(directory), options.hosts) as (bank, cluster):
        asks = [ask_of(cluster.services[host]) for host in cluster.hosts]
        seen = ask_under_commits(bank, asks, options.queries, options.clients, seed=time.time_ns())
    print(f"{seen.queries} queries in {time.monotonic() - started:.0f} s while {seen.epochs} epochs landed: every answer is of one epoch")
    return 0


if __name__ == "__main__":
    sys.exit(main())
