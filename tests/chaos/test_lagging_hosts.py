"""A host that does not follow: an older epoch is read, and what is wished for newer is waited for, then
refused with all names.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, open_appender
from engine.cluster.reports import HostName
from engine.errors import Unavailable
from engine.model.read_point import ReadPoint
from engine.model.schema import Epoch
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
class Lagging:
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
def lagging(tmp_path: Path) -> Iterator[Lagging]:
    with three_hosts(tmp_path) as hosts:
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
            yield Lagging(hosts, old, appender.epoch, go_on)
        finally:
            go_on.set()


def plays(count: int) -> pa.Table:
    """All rows, with another number of plays."""
    return PLAYS.set_column(2, "plays", pa.array([count] * ROWS, pa.int64()))


def wait_for_epoch(hosts: Mapping[HostName, Host], names: str, epoch: Epoch) -> None:
    """Wait until hosts have an epoch."""
    for name in names:
        source = hosts[HostName(name)].source
        wait_until(lambda source=source: source.report()[0][STORE.group].newest == epoch)  # type: ignore[misc] # mypy gives lambdas with defaults no type


def test_without_a_wish_the_newest_epoch_that_all_have_is_read(lagging: Lagging) -> None:
    for read_point in (
        ReadPoint(),
        parse_read_point(as_of=int(lagging.old)),
        parse_read_point(max_staleness=3600.0),
    ):
        for name in "ac":
            with lagging.client(name, 60, read_point) as client:
                rows = client.query(TOTAL)
                assert rows.metadata["epochs"] == {STORE.group: lagging.old}
                assert rows.read_all()["n"].to_pylist() == [OLD]


def test_an_epoch_that_one_host_lacks_is_waited_for_and_then_told(lagging: Lagging) -> None:
    wanted = (
        rf"Partition \d+ of store plays is at epoch {lagging.old} on host c, and epoch {lagging.new} is "
        r"wanted"
    )
    for read_point in (
        parse_read_point(min_epoch=int(lagging.new)),
        parse_read_point(as_of=int(lagging.new)),
        parse_read_point(max_staleness=0.001),
    ):
        for name in "ac":
            begun = time.monotonic()
            with (
                lagging.client(name, TIMEOUT_SECONDS, read_point) as client,
                pytest.raises(Unavailable, match=wanted),
            ):
                client.query(TOTAL)
            assert time.monotonic() - begun >= TIMEOUT_SECONDS * 0.9


def test_an_epoch_that_comes_in_time_is_read(lagging: Lagging) -> None:
    wishes = (parse_read_point(min_epoch=int(lagging.new)), parse_read_point(as_of=int(lagging.new)))

    def ask(read_point: ReadPoint) -> list[int]:
        with lagging.client("a", 60, read_point) as client:
            found: list[int] = client.query(TOTAL).read_all()["n"].to_pylist()
        return found

    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(ask, read_point) for read_point in wishes]
        wait_until(lambda: lagging.hosts[HostName("a")].running_queries == len(wishes))
        assert not any(each.done() for each in waiting)
        lagging.go_on.set()
        assert [each.result(60) for each in waiting] == [[NEW]] * len(wishes)
