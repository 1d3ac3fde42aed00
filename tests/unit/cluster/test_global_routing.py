"""Global stores: every host holds them, every host that takes part reads them, and never half of one."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from hypothesis import example, given
from hypothesis import strategies as st

from engine.cluster.assignment import Assignment
from engine.cluster.reports import HostName, HostReport
from engine.cluster.routing import NoRoute, route
from engine.errors import Unavailable
from engine.model.schema import Epoch, GroupName, PartitionId, StoreName
from tests.unit.cluster.reporting import group_report, host_report, store

HOSTS = tuple(HostName(name) for name in "abc")
ASSIGNMENT = Assignment(HOSTS)
PLAYS, SONGS, GENRES, LABELS = (
    store("plays", "g", 4),
    store("songs", "h", 4),
    store("genres", "g", 2, is_global=True),
    store("labels", "h", 1, is_global=True),
)
STORES = {each.name: each for each in (PLAYS, SONGS, GENRES, LABELS)}
GLOBAL = {GENRES.name, LABELS.name}
Needs = Mapping[StoreName, frozenset[PartitionId]]


def some_of(name: StoreName) -> st.SearchStrategy[frozenset[PartitionId]]:
    return st.frozensets(st.integers(0, STORES[name].partitions - 1).map(PartitionId))


needs = st.dictionaries(st.sampled_from(sorted(STORES)), st.none(), min_size=1).flatmap(
    lambda names: st.fixed_dictionaries({name: some_of(StoreName(name)) for name in names})
)


@st.composite
def reports(draw: st.DrawFn) -> dict[HostName, HostReport]:
    found = {}
    for host in draw(st.lists(st.sampled_from(HOSTS), min_size=1, unique=True)):
        epochs = {group: draw(st.frozensets(st.integers(1, 3), min_size=1)) for group in "gh"}
        held = {
            name: draw(st.one_of(st.just(frozenset(range(each.partitions))), some_of(name)))
            for name, each in STORES.items()
        }
        found[host] = host_report(host, {group: group_report(there) for group, there in epochs.items()}, held)
    return found


Readers = dict[tuple[int, PartitionId], set[HostName]]


def readers(
    known: Mapping[HostName, HostReport], needed: Needs, epochs: Mapping[GroupName, Epoch]
) -> Readers | None:
    """Who can read each number of the stores that are spread, with all that is needed of global ones; None if
    nobody has that.
    """

    def has(report: HostReport, name: StoreName, numbers: frozenset[PartitionId]) -> bool:
        group = STORES[name].group
        return not numbers or (
            numbers <= set(report.stores[name].partitions) and epochs[group] in report.groups[group].committed
        )

    able = {
        host: report
        for host, report in known.items()
        if all(has(report, name, needed[name]) for name in needed if name in GLOBAL)
    }
    if not able and any(needed.values()):
        return None
    spread = [STORES[name] for name in needed if name not in GLOBAL]

    def can_read(report: HostReport, count: int, number: PartitionId) -> bool:
        return all(
            has(report, each.name, frozenset([number]) & needed[each.name])
            for each in spread
            if each.partitions == count
        )

    slots = {(each.partitions, number) for each in spread for number in needed[each.name]}
    return {slot: {host for host, report in able.items() if can_read(report, *slot)} for slot in slots}


def newest(known: Mapping[HostName, HostReport], needed: Needs) -> dict[GroupName, Epoch] | None:
    """By trying all: the newest epochs at which everything can be read."""
    groups = sorted({STORES[name].group for name in needed})
    there = [
        sorted({epoch for report in known.values() for epoch in report.groups[group].committed}, reverse=True)
        for group in groups
    ]
    for choice in product(*there):
        epochs = dict(zip(groups, choice, strict=True))
        found = readers(known, needed, epochs)
        if found is not None and all(found.values()):
            return epochs
    return None


def whole(*hosts: str) -> dict[HostName, HostReport]:
    """Hosts that have all of the global stores and their own partitions of the others."""
    held = {
        host: {name: ASSIGNMENT.held_partitions(host, each) for name, each in STORES.items()}
        for host in HOSTS
    }
    there = {"g": group_report([1]), "h": group_report([1])}
    return {HostName(host): host_report(host, there, held[HostName(host)]) for host in hosts}


ALL = {
    name: frozenset(PartitionId(number) for number in range(each.partitions)) for name, each in STORES.items()
}


@given(reports(), needs, st.sampled_from(HOSTS))
@example(whole("a", "b", "c"), ALL, HOSTS[0])
def test_every_host_that_takes_part_reads_global_stores_whole(
    known: dict[HostName, HostReport], needed: Needs, here: HostName
) -> None:
    found = route(needed, STORES, known, here, ASSIGNMENT.order)
    expected = newest(known, needed)
    if isinstance(found, NoRoute):
        assert expected is None
        return
    assert found.epochs == expected
    assert found.everywhere == {name for name in needed if name in GLOBAL and needed[name]}
    able = readers(known, needed, found.epochs)
    assert able is not None
    for host, stores in found.partitions.items():
        for name in needed:
            if name in GLOBAL:
                assert stores[name] == tuple(sorted(needed[name]))
            else:
                assert all(host in able[STORES[name].partitions, number] for number in stores[name])
    for name in needed:
        if name not in GLOBAL:
            assert sorted(
                number for stores in found.partitions.values() for number in stores[name]
            ) == sorted(needed[name])
    if all(name in GLOBAL for name in needed):
        assert len(found.partitions) == 1


def test_all_hosts_hold_a_global_store() -> None:
    for host in HOSTS:
        assert ASSIGNMENT.held_partitions(host, GENRES) == (0, 1)
        assert len(ASSIGNMENT.held_partitions(host, PLAYS)) < PLAYS.partitions
    assert set(ASSIGNMENT.replicas(GENRES, PartitionId(1))) == set(HOSTS)


def test_a_missing_partition_of_a_global_store_is_named() -> None:
    known = whole("a")
    known = {
        host: host_report(host, report.groups, {"genres": [0], "plays": range(4)})
        for host, report in known.items()
    }
    found = route(
        {PLAYS.name: ALL[PLAYS.name], GENRES.name: ALL[GENRES.name]},
        STORES,
        known,
        HOSTS[0],
        ASSIGNMENT.order,
    )
    assert isinstance(found, NoRoute)
    assert isinstance(found.error, Unavailable)
    assert found.error.message.startswith("Partition 1 of store genres is on no host that is alive")
