"""Whatever the hosts report: a route reads every partition once, at one epoch a group, together; and there is
one whenever there can be.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from engine.cluster.assignment import Assignment
from engine.cluster.readable import GroupReading
from engine.cluster.reports import GroupReport, HostName, HostReport, ReadableEpoch
from engine.cluster.routing import NoRoute, Route, route
from engine.model.read_point import ReadPoint
from engine.model.schema import Epoch, GroupName, PartitionId, StoreName
from tests.unit.cluster.reporting import group_report, host_report, store

HOSTS = tuple(HostName(name) for name in "abc")
ASSIGNMENT = Assignment(HOSTS, 2)
STORES = {
    each.name: each
    for each in (store("p", "g", 3), store("q", "g", 3), store("r", "h", 3), store("s", "h", 2))
}
GROUPS = (GroupName("g"), GroupName("h"))
Needs = Mapping[StoreName, frozenset[PartitionId]]


def numbers_of(name: StoreName) -> st.SearchStrategy[frozenset[PartitionId]]:
    return st.frozensets(st.integers(0, STORES[name].partitions - 1).map(PartitionId))


needs = st.dictionaries(st.sampled_from(sorted(STORES)), st.none()).flatmap(
    lambda names: st.fixed_dictionaries({name: numbers_of(StoreName(name)) for name in names})
)


@st.composite
def reports(draw: st.DrawFn) -> dict[HostName, HostReport]:
    found = {}
    for host in draw(st.lists(st.sampled_from(HOSTS), min_size=1, unique=True)):
        epochs = {group: draw(st.frozensets(st.integers(1, 4), min_size=1)) for group in GROUPS}
        held = {
            name: draw(st.one_of(st.just(frozenset(range(definition.partitions))), numbers_of(name)))
            for name, definition in STORES.items()
        }
        since = {name: draw(st.sampled_from([0, 0, 2])) for name in STORES}
        found[host] = host_report(
            host, {group: group_report(there) for group, there in epochs.items()}, held, since
        )
    return found


def can_read(
    report: HostReport, name: StoreName, number: PartitionId, epochs: Mapping[GroupName, Epoch]
) -> bool:
    held, epoch = report.stores[name], epochs[STORES[name].group]
    return (
        number in held.partitions
        and epoch >= held.since
        and epoch in report.groups[STORES[name].group].committed
    )


def slots(needed: Needs) -> dict[tuple[int, PartitionId], list[StoreName]]:
    found: dict[tuple[int, PartitionId], list[StoreName]] = {}
    for name, numbers in needed.items():
        for number in numbers:
            found.setdefault((STORES[name].partitions, number), []).append(name)
    return found


def readers(
    known: Mapping[HostName, HostReport],
    names: list[StoreName],
    number: PartitionId,
    epochs: Mapping[GroupName, Epoch],
) -> set[HostName]:
    return {
        host
        for host, report in known.items()
        if all(can_read(report, name, number, epochs) for name in names)
    }


def best_epochs(
    known: Mapping[HostName, HostReport], needed: Needs, oldest: int
) -> dict[GroupName, Epoch] | None:
    """By trying all: the newest epochs at which everything can be read, the first group's first."""
    groups = sorted({STORES[name].group for name in needed})
    there = [
        sorted(
            {e for report in known.values() for e in report.groups[group].committed if e >= oldest},
            reverse=True,
        )
        for group in groups
    ]
    for choice in product(*there):
        epochs = dict(zip(groups, choice, strict=True))
        if all(readers(known, names, number, epochs) for (_, number), names in slots(needed).items()):
            return epochs
    return None


@given(reports(), needs, st.sampled_from(HOSTS), st.integers(0, 4))
def test_routes(known: dict[HostName, HostReport], needed: Needs, here: HostName, oldest: int) -> None:
    found = route(needed, STORES, known, here, ASSIGNMENT.order, ReadPoint(min_epoch=Epoch(oldest)))
    expected = best_epochs(known, needed, oldest)
    if isinstance(found, NoRoute):
        assert expected is None
        assert found.may_come
        return
    assert found.epochs == expected
    check_whole(found, needed)
    placed = {
        (STORES[name].partitions, number): host
        for host, stores in found.partitions.items()
        for name, some in stores.items()
        for number in some
    }
    for slot, names in slots(needed).items():
        able = readers(known, names, slot[1], found.epochs)
        assert placed[slot] in able
    everywhere = set(known).intersection(
        *(readers(known, names, number, found.epochs) for (_, number), names in slots(needed).items())
    )
    if slots(needed) and everywhere:
        assert len(found.partitions) == 1
        assert here not in everywhere or found.hosts == (here,)
    elif slots(needed):
        check_preferred(found, known, needed)


def check_whole(found: Route, needed: Needs) -> None:
    """Every needed partition once, nothing else, and equal numbers together."""
    hosts_of: dict[tuple[int, PartitionId], set[HostName]] = {}
    read: dict[StoreName, list[PartitionId]] = {name: [] for name in needed}
    for host, stores in found.partitions.items():
        assert set(stores) == set(needed)
        for name, numbers in stores.items():
            assert list(numbers) == sorted(numbers)
            read[name] += numbers
            for number in numbers:
                hosts_of.setdefault((STORES[name].partitions, number), set()).add(host)
    assert {name: sorted(numbers) for name, numbers in read.items()} == {
        name: sorted(numbers) for name, numbers in needed.items()
    }
    assert all(len(hosts) == 1 for hosts in hosts_of.values())


def check_preferred(found: Route, known: Mapping[HostName, HostReport], needed: Needs) -> None:
    """Of several hosts the first that can answers for a partition, if it has not got its share of others."""
    sharing: dict[tuple[int, tuple[StoreName, ...]], list[PartitionId]] = {}
    for (count, number), names in slots(needed).items():
        sharing.setdefault((count, tuple(names)), []).append(number)
    for (count, together), numbers in sharing.items():
        for number in numbers:
            first = next(
                host
                for host in ASSIGNMENT.order(count)[number]
                if host in readers(known, list(together), number, found.epochs)
            )
            read = set(numbers).intersection(found.partitions.get(first, {}).get(together[0], ()))
            assert number in read or len(read) * len(known) >= len(numbers)


@st.composite
def following_hosts(draw: st.DrawFn) -> tuple[dict[HostName, GroupReport], list[int]]:
    """Hosts that follow one group, each since it last looked; and when its epochs were committed, from the
    first on.
    """
    gaps = draw(st.lists(st.integers(1, 5), min_size=1, max_size=8))
    times = [sum(gaps[: place + 1]) for place in range(len(gaps))]
    found: dict[HostName, GroupReport] = {}
    for host in HOSTS:
        looked_at = draw(st.integers(times[0], times[-1] + 5))
        known = sum(time <= looked_at for time in times)
        applied = draw(st.integers(1, known))
        # It takes several epochs together, and lets go of older ones.
        kept = {*draw(st.sets(st.integers(1, applied))), applied}
        readable = tuple(ReadableEpoch(Epoch(epoch), times[epoch - 1]) for epoch in sorted(kept))
        unread = times[applied] if applied < known else None
        found[host] = GroupReport(readable, Epoch(known), unread, looked_at)
    return found, times


@given(following_hosts())
def test_no_epoch_is_taken_to_be_newer_than_the_first_commit_that_it_lacks(
    group: tuple[dict[HostName, GroupReport], list[int]],
) -> None:
    known, times = group
    reading = GroupReading(GroupName("g"), (), (), known, {})
    for epoch in reading.epochs:
        if epoch < len(times):
            assert reading.complete_until(epoch) <= times[epoch], epoch
