"""SHOW HOSTS and SHOW STORES, on one host and over several."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from engine.catalog.host_statuses import HOSTS_SCHEMA, hosts_table, store_statuses
from engine.cluster.reports import GroupReport, HostName, HostReport, HostStatus, ReadableEpoch, StoreReport
from engine.model.schema import Epoch, GroupName, PartitionId
from engine.service import QueryOptions, QueryService
from tests.support.local_cluster import memory_cluster
from tests.support.memory_source import MemorySource, memory_view
from tests.unit.exec.conftest import DEAD, PLAYS, ROWS, SONGS, TITLES

OPTIONS = QueryOptions(memory_limit_bytes=200 << 20, threads=1)
HOSTS = [HostName(name) for name in "abc"]


def read_status(service: QueryService, sql: str) -> list[dict[str, object]]:
    with service.execute(sql) as result:
        assert result.schema == service.prepare(sql).schema
        found: list[dict[str, object]] = result.read_all().to_pylist()
    return found


def test_one_host_shows_itself() -> None:
    service = QueryService(MemorySource([memory_view(PLAYS, ROWS, DEAD)]), OPTIONS)
    (row,) = read_status(service, "show hosts;")
    assert list(row) == HOSTS_SCHEMA.names
    assert (row["host"], row["alive"], row["store_group"], row["partitions"]) == (
        "this host",
        True,
        PLAYS.group,
        PLAYS.partitions,
    )
    service.close()


def test_every_host_shows_all_hosts_and_whole_stores() -> None:
    with memory_cluster(
        [PLAYS, SONGS], {"plays": ROWS, "My Songs": TITLES}, HOSTS, {"plays": DEAD}, OPTIONS
    ) as cluster:
        for service in cluster.services.values():
            hosts = read_status(service, "SHOW HOSTS")
            assert {row["host"] for row in hosts} == set(HOSTS)
            assert all(row["alive"] for row in hosts)
            stores = {row["store"]: row for row in read_status(service, "SHOW STORES")}
            assert [
                (name, row["rows"], row["partitions"], row["problem"]) for name, row in stores.items()
            ] == [
                ("My Songs", 5, SONGS.partitions, ""),
                ("plays", 20, PLAYS.partitions, ""),
            ]
        cluster.stop(HOSTS[2])
        alive = {row["host"]: row["alive"] for row in read_status(cluster.services[HOSTS[0]], "SHOW HOSTS")}
        assert alive == {"a": True, "b": True, "c": False}


def report(
    host: str, partitions: list[int], rows: int, epoch: int, unread_since: int | None = None
) -> HostReport:
    held = StoreReport(tuple(map(PartitionId, partitions)), rows, rows * 10, len(partitions), rows)
    group = GroupReport((ReadableEpoch(Epoch(epoch), epoch),), Epoch(9), unread_since)
    return HostReport(HostName(host), {GroupName(PLAYS.group): group}, {PLAYS.name: held})


def test_replicas_count_once_and_what_nobody_has_is_named() -> None:
    everything = list(range(PLAYS.partitions))
    both = {HostName(name): report(name, everything, 100, epoch) for name, epoch in (("a", 7), ("b", 8))}
    (status,) = store_statuses(both, {PLAYS.name: PLAYS}, [], 0)
    assert (status.rows, status.bytes, status.partitions, status.epoch, status.newest_epoch) == (
        100,
        1000,
        PLAYS.partitions,
        8,
        9,
    )
    half = {
        HostName("a"): report("a", everything[:3], 30, 7, unread_since=1_000_000),
        HostName("b"): report("b", everything[3:-2], 40, 9),
    }
    here = replace(status, problem="something else", skipped="epoch 3")
    (status,) = store_statuses(half, {PLAYS.name: PLAYS}, [here], 3_000_000)
    assert status.skipped == "epoch 3"
    assert (status.rows, status.partitions, status.epoch, status.lag_seconds) == (
        70,
        PLAYS.partitions - 2,
        7,
        2.0,
    )
    lacking = f"No host that answers has partitions {PLAYS.partitions - 2}, {PLAYS.partitions - 1}."
    assert status.problem == f"{lacking} something else"
    (status,) = store_statuses({}, {PLAYS.name: PLAYS}, [], 0)
    assert (status.rows, status.epoch, status.partitions) == (0, 0, 0)


NOW = 100_000_000
"""Microseconds."""


@st.composite
def host_statuses(draw: st.DrawFn) -> dict[HostName, HostStatus]:
    """Hosts of which each knows of some epochs, and can read some of these."""
    found = {}
    for host in HOSTS:
        known, looked_at = draw(st.integers(0, 5)), draw(st.sampled_from([0, NOW - 9_000_000, NOW]))
        epoch = draw(st.integers(0, known))
        readable = (ReadableEpoch(Epoch(epoch), 1),) if epoch else ()
        unread_since = NOW - 4_000_000 if epoch < known else None
        group = GroupReport(readable, Epoch(known), unread_since, looked_at)
        held = StoreReport(tuple(map(PartitionId, range(PLAYS.partitions))))
        known_of = HostReport(host, {PLAYS.group: group}, {PLAYS.name: held}, draw(st.booleans()))
        found[host] = HostStatus(alive=draw(st.booleans()), report=known_of)
    return found


@given(host_statuses())
def test_no_host_and_no_store_is_up_to_date_that_lacks_an_epoch(
    statuses: dict[HostName, HostStatus],
) -> None:
    definitions = {PLAYS.name: PLAYS}
    for row in hosts_table({}, statuses, definitions, NOW).to_pylist():
        status = statuses[row["host"]]
        assert status.report is not None
        group = status.report.groups[PLAYS.group]
        assert row["epochs_behind"] == row["newest_epoch"] - row["epoch"]
        if row["epochs_behind"]:
            since = group.unread_since or group.looked_at
            assert row["lag_seconds"] == ((NOW - since) / 1_000_000 if since else None)
        else:
            assert row["lag_seconds"] == 0.0
        if not status.alive:
            assert row["state"] == "away"
        elif status.report.is_draining:
            assert row["state"] == "draining"
        else:
            assert (row["state"] == "readable") == (row["epochs_behind"] == 0)
    reports = {name: each.report for name, each in statuses.items() if each.alive and each.report}
    (store,) = store_statuses(reports, definitions, [], NOW)
    groups = (each.groups[PLAYS.group] for each in reports.values())
    since = max(
        (each.unread_since or each.looked_at for each in groups if each.newest == store.epoch), default=0
    )
    is_behind = bool(since) and store.epoch < store.newest_epoch
    assert store.lag_seconds == ((NOW - since) / 1_000_000 if is_behind else 0.0)
