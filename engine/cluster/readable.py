"""What of a query the hosts can read: which partitions belong together, and at which epochs they
are there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from engine.cluster.reports import GroupReport, HostName, HostReport
from engine.model.durations import MICROSECONDS_PER_SECOND
from engine.model.schema import Epoch, GroupName, PartitionId, StoreDefinition, StoreName

Hosts = frozenset[HostName]
_Part = tuple[tuple[StoreName, ...], frozenset[PartitionId]]
"""Stores, and the partition numbers that are needed of all of them."""


@dataclass(frozen=True, eq=False)
class PartitionSet:
    """Partition numbers that are needed of the same stores, of equally many partitions each: a number is read
    of all of them at one host.

    Attributes:
        count: How many partitions each of the stores has.
        stores: The stores, in order of name.
        numbers: The partition numbers.
        held: Which of them each host has of all the stores, at some epoch; hosts without any are left out.
        beside: Global stores, of which a host that reads some of this partition set reads all that is needed.
        is_beside: It is of such stores, and not placed by itself.
    """

    count: int
    stores: tuple[StoreName, ...]
    numbers: frozenset[PartitionId]
    held: Mapping[HostName, frozenset[PartitionId]]
    beside: tuple[StoreName, ...] = ()
    is_beside: bool = False

    @property
    def read(self) -> tuple[StoreName, ...]:
        """All stores that a host reads with it."""
        return (*self.stores, *self.beside)

    def missing_numbers(self, hosts: Collection[HostName]) -> frozenset[PartitionId]:
        """The numbers that none of some hosts has."""
        return self.numbers.difference(*(held for host, held in self.held.items() if host in hosts))


def partition_sets_of(
    needs: Mapping[StoreName, Collection[PartitionId]],
    definitions: Mapping[StoreName, StoreDefinition],
    reports: Mapping[HostName, HostReport],
) -> tuple[PartitionSet, ...]:
    """What a query needs, cut so that the partitions of a partition set are all needed of the same stores.

    What is needed of global stores is read whole at every host that reads anything, so only hosts that have
    it count.

    Args:
        needs: Partitions by store.
        definitions: The stores.
        reports: What hosts hold.

    Returns:
        The partition sets; every needed partition is in one of them.
    """
    read = {store: frozenset(numbers) for store, numbers in needs.items() if numbers}
    beside = {store: numbers for store, numbers in read.items() if definitions[store].behaviour.is_global}
    if not beside:
        return _cut_into_sets(read, definitions, reports)
    able = {
        host: report
        for host, report in reports.items()
        if all(_holds_all(report, store, numbers) for store, numbers in beside.items())
    }
    spread = _cut_into_sets(
        {store: numbers for store, numbers in read.items() if store not in beside}, definitions, able
    )
    partition_sets = (
        *(
            replace(partition_set, is_beside=bool(spread))
            for partition_set in _cut_into_sets(beside, definitions, able)
        ),
        *spread,
    )
    return tuple(replace(partition_set, beside=tuple(sorted(beside))) for partition_set in partition_sets)


def _holds_all(report: HostReport, store: StoreName, numbers: frozenset[PartitionId]) -> bool:
    return store in report.stores and numbers <= frozenset(report.stores[store].held)


def _cut_into_sets(
    needs: Mapping[StoreName, frozenset[PartitionId]],
    definitions: Mapping[StoreName, StoreDefinition],
    reports: Mapping[HostName, HostReport],
) -> tuple[PartitionSet, ...]:
    found: list[PartitionSet] = []
    for count in sorted({definitions[store].partitions for store in needs}):
        parts: list[_Part] = []
        for store in sorted(store for store in needs if definitions[store].partitions == count):
            parts = _refined_parts(parts, store, needs[store])
        found += [
            PartitionSet(count, stores, numbers, _numbers_by_host(stores, numbers, reports))
            for stores, numbers in parts
        ]
    return tuple(found)


def _refined_parts(parts: Iterable[_Part], store: StoreName, numbers: frozenset[PartitionId]) -> list[_Part]:
    refined: list[_Part] = [((store,), numbers.difference(*(part for _, part in parts)))]
    for stores, part in parts:
        refined += [((*stores, store), part & numbers), (stores, part - numbers)]
    return [(stores, part) for stores, part in refined if part]


def _numbers_by_host(
    stores: tuple[StoreName, ...], numbers: frozenset[PartitionId], reports: Mapping[HostName, HostReport]
) -> dict[HostName, frozenset[PartitionId]]:
    held: dict[HostName, frozenset[PartitionId]] = {}
    for host, report in reports.items():
        if all(store in report.stores for store in stores):
            part = numbers.intersection(*(report.stores[store].held for store in stores))
            if part:
                held[host] = part
    return held


@dataclass(frozen=True)
class GroupReading:
    """A store group as a query reads it.

    Attributes:
        group: The group.
        stores: The stores of it that the query needs partitions of, in order of name.
        partition_sets: The partition sets that such a store is in.
        reports: How the group stands on each host.
        since: For each of the stores, the oldest epoch at which a host has all that it holds of it.
    """

    group: GroupName
    stores: tuple[StoreName, ...]
    partition_sets: tuple[PartitionSet, ...]
    reports: Mapping[HostName, GroupReport]
    since: Mapping[StoreName, Mapping[HostName, Epoch]]

    @cached_property
    def epochs(self) -> tuple[Epoch, ...]:
        """The epochs that any host can read, newest first."""
        return tuple(
            sorted({epoch for report in self.reports.values() for epoch in report.committed}, reverse=True)
        )

    @cached_property
    def newest_known(self) -> Epoch:
        """The newest epoch that any host knows to be committed."""
        return max(
            (epoch for report in self.reports.values() for epoch in (report.newest_known, report.newest)),
            default=Epoch(0),
        )

    def committed_at(self, epoch: Epoch) -> int:
        """When an epoch that a host can read was committed, microseconds since 1970 UTC."""
        return next(report.committed[epoch] for report in self.reports.values() if epoch in report.committed)

    def generation(self, epoch: Epoch) -> int:
        """How many amendments are in effect at an epoch that a host can read."""
        found = (
            each
            for report in self.reports.values()
            if epoch in report.committed
            for each in reversed(report.readable)
        )
        return next(each.generation for each in found if each.epoch == epoch)

    def digest(self, epoch: Epoch) -> str:
        """The digest of the commit of an epoch, which all hosts agree on that know it; empty if none does."""
        found = (
            each.digest for report in self.reports.values() for each in report.readable if each.epoch == epoch
        )
        return next((digest for digest in found if digest), "")

    def hosts_at(self, epoch: Epoch, store: StoreName) -> Hosts:
        """The hosts that can read what they hold of a store at an epoch."""
        since = self.since[store]
        return frozenset(
            host
            for host, report in self.reports.items()
            if epoch in report.committed and epoch >= since.get(host, epoch + 1)
        )

    def hosts_behind(self, epoch: Epoch) -> Hosts:
        """The hosts that have not come to an epoch yet."""
        return frozenset(host for host, report in self.reports.items() if report.newest < epoch)

    def is_covered(self, epoch: Epoch, others: Hosts = frozenset()) -> bool:
        """Whether all that is needed of this group can be read at an epoch, whatever the other groups allow.

        Args:
            epoch: The epoch.
            others: Hosts that count as if they had it.
        """
        readers = {store: self.hosts_at(epoch, store) | others for store in self.stores}
        return not any(
            partition_set.missing_numbers(
                frozenset.intersection(*(readers[store] for store in partition_set.read if store in readers))
            )
            for partition_set in self.partition_sets
        )

    def complete_until(self, epoch: Epoch) -> int:
        """Until when an epoch is known to lack no commit, microseconds since 1970 UTC.

        Where the hosts know of no later commit, one may have been made right after one of them last looked.
        Where they know only of later ones than the next, as who takes several together does, that may have
        been made right after the epoch. A commit that says a later time than that of any look tells nothing:
        it may be of right after the epoch, or after a host last saw that there was none.

        Args:
            epoch: An epoch that a host can read.
        """
        if epoch >= self.newest_known:
            return max(
                (report.looked_at for report in self.reports.values() if report.newest_known >= epoch),
                default=0,
            )
        following = [
            report.committed[Epoch(epoch + 1)]
            for report in self.reports.values()
            if epoch + 1 in report.committed
        ]
        unread = [
            report.unread_since
            for report in self.reports.values()
            if report.newest >= epoch and report.unread_since is not None
        ]
        # What a host that is further has not read was made after the next one.
        is_next_known = following or any(
            report.newest == epoch and report.unread_since is not None for report in self.reports.values()
        )
        until = min([*following, *unread]) if is_next_known else self.committed_at(epoch)
        looks = [report.looked_at for report in self.reports.values()]
        if until <= max(looks):
            return until
        found_none = [report.looked_at for report in self.reports.values() if report.newest_known <= epoch]
        own = self.committed_at(epoch)
        return max(*(found_none or [min(looks)]), own if own <= max(looks) else 0)

    def stale_seconds(self, epoch: Epoch, now: int) -> float:
        """How long ago, at most, the first commit after an epoch was made, as far as the hosts know.

        Args:
            epoch: An epoch that a host can read.
            now: The time, microseconds since 1970 UTC.
        """
        return max(0.0, (now - self.complete_until(epoch)) / MICROSECONDS_PER_SECOND)


def _agreed_reports(reports: Mapping[HostName, GroupReport]) -> Mapping[HostName, GroupReport]:
    """How a group stands on hosts, without the epochs that are not the same on all: one of these hosts has
    applied what the changelog does not have any more, and will find out.
    """
    digests: dict[Epoch, str] = {}
    disputed = {
        each.epoch
        for report in reports.values()
        for each in report.readable
        if each.digest and digests.setdefault(each.epoch, each.digest) != each.digest
    }
    if not disputed:
        return reports
    return {
        host: replace(report, readable=tuple(each for each in report.readable if each.epoch not in disputed))
        for host, report in reports.items()
    }


def past_reports(
    reports: Mapping[HostName, HostReport], definitions: Mapping[StoreName, StoreDefinition]
) -> Mapping[HostName, HostReport]:
    """Reports as they are for whoever allows stale answers: what hosts have of groups that they build is read
    at the epochs that they have come to.

    Args:
        reports: What hosts say.
        definitions: The stores.
    """
    found = {}
    for host, report in reports.items():
        past = {name: group for name, group in report.groups.items() if group.past and not group.readable}
        if past:
            groups = {name: replace(group, readable=group.past) for name, group in past.items()}
            stores = {
                name: replace(
                    store, partitions=store.rebuilding, rebuilding=(), since=past[group].past[0].epoch
                )
                for name, store in report.stores.items()
                if name in definitions and (group := definitions[name].group) in past
            }
            found[host] = replace(
                report, groups={**report.groups, **groups}, stores={**report.stores, **stores}
            )
    return {**reports, **found}


def readings_of(
    needs: Mapping[StoreName, Collection[PartitionId]],
    definitions: Mapping[StoreName, StoreDefinition],
    reports: Mapping[HostName, HostReport],
    partition_sets: tuple[PartitionSet, ...],
) -> tuple[GroupReading, ...]:
    """The store groups that a query reads, in order of name.

    Args:
        needs: Partitions by store.
        definitions: The stores.
        reports: How hosts stand.
        partition_sets: What `partition_sets_of` made of the needs.
    """
    readings = []
    for group in sorted({definitions[store].group for store in needs}):
        stores = tuple(
            sorted(store for store, numbers in needs.items() if numbers and definitions[store].group == group)
        )
        readings.append(
            GroupReading(
                group,
                stores,
                tuple(
                    partition_set
                    for partition_set in partition_sets
                    if not set(stores).isdisjoint(partition_set.read)
                ),
                _agreed_reports(
                    {host: report.groups[group] for host, report in reports.items() if group in report.groups}
                ),
                {
                    store: {
                        host: report.stores[store].since
                        for host, report in reports.items()
                        if store in report.stores
                    }
                    for store in stores
                },
            )
        )
    return tuple(readings)
