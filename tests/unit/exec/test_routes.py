"""Routes are kept while no report changes, and never longer."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa
import pytest

import engine.coordinator.routes
from engine.cluster.assignment import Assignment
from engine.cluster.fragments import Peers
from engine.cluster.reports import ColumnReport, GroupReport, HostName, HostReport, ReadableEpoch, StoreReport
from engine.cluster.routing import NoRoute, Route
from engine.coordinator.deployment_hosts import DeploymentHosts
from engine.coordinator.lag_limit import LagLimit
from engine.coordinator.routes import Reports, Routes
from engine.deadline import Deadline
from engine.errors import Unavailable
from engine.model.read_point import NEWEST, ReadPoint
from engine.model.schema import Epoch, GroupName, PartitionId, StoreName, define_store
from engine.plan.split.sizes import StoreSize
from engine.scan import StoreSource

A, B = HostName("a"), HostName("b")
SONGS = define_store("songs", pa.schema([("song", pa.int64())]), ["song"], partitions=8)
DEFINITIONS = {SONGS.name: SONGS}
ALL: Mapping[StoreName, tuple[PartitionId, ...]] = {
    SONGS.name: tuple(PartitionId(number) for number in range(8))
}


class KnownReports:
    """What a host was told, given out in new mappings each time, as hosts do with their own report."""

    def __init__(self, assignment: Assignment) -> None:
        self.reports_by_host: dict[HostName, HostReport] = {}
        for host in (A, B):
            store = StoreReport(assignment.held_partitions(host, SONGS), rows=10, bytes=100)
            self.reports_by_host[host] = HostReport(host, {SONGS.group: report_of(1)}, {SONGS.name: store})

    def reports(self) -> Reports:
        return {
            host: replace(report, groups=dict(report.groups)) for host, report in self.reports_by_host.items()
        }

    def wait_for_change(self, timeout_seconds: float) -> bool:
        time.sleep(min(timeout_seconds, 0.01))
        return False

    def group(self, host: HostName, group: GroupReport) -> None:
        self.reports_by_host[host] = replace(
            self.reports_by_host[host], groups={GroupName(SONGS.group): group}
        )


def report_of(*epochs: int, looked_at: int = 0) -> GroupReport:
    return GroupReport(
        tuple(ReadableEpoch(Epoch(epoch), epoch) for epoch in epochs), Epoch(max(epochs)), None, looked_at
    )


@pytest.fixture
def known_reports() -> KnownReports:
    return KnownReports(Assignment((A, B)))


@pytest.fixture
def routes(known_reports: KnownReports) -> Routes:
    return make_routes(known_reports, None)


def make_routes(known_reports: KnownReports, max_lag_seconds: float | None) -> Routes:
    hosts = DeploymentHosts(cast("Peers", cast("Any", known_reports)), A, Assignment((A, B)).order)
    return Routes(hosts, 1 << 20, LagLimit(cast("StoreSource", None), max_lag_seconds))


def epoch(found: Route | NoRoute) -> Epoch:
    assert isinstance(found, Route)
    return found.epochs[SONGS.group]


def test_a_route_is_kept_while_reports_are_made_of_the_same(routes: Routes) -> None:
    assert routes.newest_route(ALL, DEFINITIONS, NEWEST) is routes.newest_route(
        dict(ALL), DEFINITIONS, ReadPoint()
    )


def test_other_needs_have_other_routes(routes: Routes) -> None:
    routes.newest_route(ALL, DEFINITIONS, NEWEST)
    found = routes.newest_route({SONGS.name: (PartitionId(3),)}, DEFINITIONS, NEWEST)
    assert isinstance(found, Route)
    assert [numbers for stores in found.partitions.values() for numbers in stores.values()] == [(3,)]


def test_a_new_epoch_is_seen_at_once(known_reports: KnownReports, routes: Routes) -> None:
    assert epoch(routes.newest_route(ALL, DEFINITIONS, NEWEST)) == 1
    known_reports.group(A, report_of(1, 2))
    assert epoch(routes.newest_route(ALL, DEFINITIONS, NEWEST)) == 1
    known_reports.group(B, report_of(1, 2))
    assert epoch(routes.newest_route(ALL, DEFINITIONS, NEWEST)) == 2


def test_a_host_that_is_gone_is_left_out_and_one_that_comes_back_taken_in(
    known_reports: KnownReports, routes: Routes
) -> None:
    first = routes.newest_route(ALL, DEFINITIONS, NEWEST)
    gone = known_reports.reports_by_host.pop(B)
    assert isinstance(routes.newest_route(ALL, DEFINITIONS, NEWEST), NoRoute)
    known_reports.reports_by_host[B] = gone
    assert routes.newest_route(ALL, DEFINITIONS, NEWEST) == first


def test_a_look_at_the_changelog_counts_for_staleness(known_reports: KnownReports, routes: Routes) -> None:
    read_point = ReadPoint(max_staleness_seconds=3600.0)
    assert isinstance(routes.newest_route(ALL, DEFINITIONS, read_point), NoRoute)
    for host in (A, B):
        known_reports.group(host, report_of(1, looked_at=1 << 60))
    assert epoch(routes.newest_route(ALL, DEFINITIONS, read_point)) == 1


def test_a_wish_and_hosts_left_out_are_not_answered_with_a_kept_route(routes: Routes) -> None:
    routes.newest_route(ALL, DEFINITIONS, NEWEST)
    assert isinstance(routes.newest_route(ALL, DEFINITIONS, ReadPoint(min_epoch=Epoch(2))), NoRoute)
    assert isinstance(routes.newest_route(ALL, DEFINITIONS, NEWEST, without=[B]), NoRoute)


def test_a_kept_route_goes_when_its_epoch_is_too_old(
    known_reports: KnownReports, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_700_000_000 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: now)
    for host in (A, B):
        known_reports.group(host, report_of(1, looked_at=now // 1000))
    routes = make_routes(known_reports, max_lag_seconds=10.0)
    assert epoch(routes.newest_route(ALL, DEFINITIONS, NEWEST)) == 1
    now += 10 * 10**9
    assert epoch(routes.newest_route(ALL, DEFINITIONS, NEWEST)) == 1
    now += 1000
    refused = routes.newest_route(ALL, DEFINITIONS, NEWEST)
    assert isinstance(refused, NoRoute)
    assert not refused.may_come
    assert epoch(routes.newest_route(ALL, DEFINITIONS, ReadPoint(allow_stale=True))) == 1
    assert isinstance(routes.newest_route(ALL, DEFINITIONS, NEWEST), NoRoute)


def test_a_size_is_kept_until_a_host_says_something_else(known_reports: KnownReports, routes: Routes) -> None:
    def size() -> StoreSize:
        return routes.sizes([SONGS.name], DEFINITIONS).by_store[SONGS.name]

    def tell(**changes: Any) -> None:
        report = known_reports.reports_by_host[A]
        stores = {SONGS.name: replace(report.stores[SONGS.name], **changes)}
        known_reports.reports_by_host[A] = replace(report, stores=stores)

    first = size()
    known_reports.group(A, report_of(1, looked_at=1 << 60))
    tell()
    assert size() is first
    tell(rows=5000)
    assert size().rows > first.rows
    columns = {"song": ColumnReport(1.0, 9.0, None)}
    tell(columns=columns)
    known_reports.reports_by_host[B] = replace(
        known_reports.reports_by_host[B],
        stores={SONGS.name: replace(known_reports.reports_by_host[B].stores[SONGS.name], columns=columns)},
    )
    (column,) = size().columns
    assert column[0] == "song" and column[1].low is not None
    del known_reports.reports_by_host[A], known_reports.reports_by_host[B]
    assert SONGS.name not in routes.sizes([SONGS.name], DEFINITIONS).by_store


def find(routes: Routes, min_epoch: int, seconds: float) -> Route:
    return routes.find(ALL, DEFINITIONS, ReadPoint(min_epoch=Epoch(min_epoch)), Deadline(seconds))


def test_nobody_waits_long_where_nobody_gets_on(
    known_reports: KnownReports, routes: Routes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An epoch that is damaged comes when an operator has done something about it."""
    monkeypatch.setattr(engine.coordinator.routes, "STUCK_SECONDS", 0.05)
    damaged = replace(report_of(1), newest_known=Epoch(2), problem="Epoch 2 is damaged.")
    known_reports.group(A, damaged)
    # As long as one host gets on, it is waited for.
    with pytest.raises(Unavailable, match="and epoch 2 is wanted: try again shortly"):
        find(routes, 2, 0.3)
    known_reports.group(B, damaged)
    told = r"where its group does not get on \(Epoch 2 is damaged\), and epoch 2 is wanted"
    with pytest.raises(Unavailable, match=told):
        find(routes, 2, 3600.0)


def test_what_gets_on_again_is_waited_for(
    known_reports: KnownReports, routes: Routes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.coordinator.routes, "STUCK_SECONDS", 3600.0)
    for host in (A, B):
        report = replace(report_of(1), newest_known=Epoch(2), problem="The changelog cannot be reached.")
        known_reports.group(host, report)

    def get_on() -> None:
        for host in (A, B):
            known_reports.group(host, report_of(1, 2))

    timer = threading.Timer(0.05, get_on)
    timer.start()
    assert find(routes, 2, 3600.0).epochs[SONGS.group] == 2
    timer.join()


def test_an_epoch_that_is_not_there_yet_is_waited_for_whatever_else_fails(
    known_reports: KnownReports, routes: Routes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.coordinator.routes, "STUCK_SECONDS", 0.0)
    for host in (A, B):
        known_reports.group(host, replace(report_of(1), problem="Snapshots cannot be written."))
    refused = routes.newest_route(ALL, DEFINITIONS, ReadPoint(min_epoch=Epoch(2)))
    assert isinstance(refused, NoRoute)
    assert not refused.is_stuck
    with pytest.raises(Unavailable) as error:
        find(routes, 2, 0.2)
    assert "Snapshots" not in error.value.message
