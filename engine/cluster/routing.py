"""Which epoch a query reads, and which host answers for which partition."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from engine.cluster.readable import (
    GroupReading,
    Hosts,
    PartitionSet,
    partition_sets_of,
    past_reports,
    readings_of,
)
from engine.cluster.refusals import refuse_lag, refuse_partition, refuse_read_point, refuse_route
from engine.cluster.reports import HostName, HostReport
from engine.cluster.shared_reading import share_numbers
from engine.errors import InvalidInput, LivestateError
from engine.model.read_point import NEWEST, AsOfEpoch, AsOfTimestamp, ReadPoint
from engine.model.schema import Epoch, GroupName, PartitionId, StoreDefinition, StoreName

Order = Callable[[int], Sequence[tuple[HostName, ...]]]
"""For a number of partitions, each partition's hosts, best first: `Assignment.order`."""


@dataclass(frozen=True)
class Route:
    """How a query is answered.

    Attributes:
        epochs: The epoch of each store group.
        committed_at: When it was committed, microseconds since 1970 UTC; 0 before the first.
        partitions: For each host that takes part, its partitions of every store that is read, ascending;
            every needed partition is at one host. A store that a host reads nothing of is there with none.
        everywhere: Global stores, of which every host reads all that is needed.
        generations: How many amendments of each store group are in effect at its epoch.
        digests: As `ReadableEpoch.digest` of the epochs; groups of which it is not known are not named.
        complete_until: Until when all of the epochs are known to lack no commit, microseconds since 1970 UTC;
            0 where nothing is read.
    """

    epochs: Mapping[GroupName, Epoch]
    committed_at: Mapping[GroupName, int]
    partitions: Mapping[HostName, Mapping[StoreName, tuple[PartitionId, ...]]]
    everywhere: frozenset[StoreName] = frozenset()
    generations: Mapping[GroupName, int] = field(default_factory=dict)
    digests: Mapping[GroupName, str] = field(default_factory=dict)
    complete_until: int = 0

    @cached_property
    def migrated(self) -> Mapping[GroupName, int]:
        """The generations that are not 0, as they travel with fragments."""
        return {group: generation for group, generation in self.generations.items() if generation}

    @property
    def hosts(self) -> tuple[HostName, ...]:
        """The hosts that take part, in order of name."""
        return tuple(sorted(self.partitions))


@dataclass(frozen=True)
class NoRoute:
    """Why a query cannot be answered now.

    Attributes:
        error: What to tell the client, if it is not to wait or has waited long enough.
        may_come: Whether a newer report can change that.
        is_stuck: Whether of some group all hosts say that they do not get on.
        is_held: Whether hosts that are alive have all that is needed, at whatever epochs.
    """

    error: LivestateError
    may_come: bool
    is_stuck: bool = False
    is_held: bool = False


def route(
    needs: Mapping[StoreName, Collection[PartitionId]],
    definitions: Mapping[StoreName, StoreDefinition],
    reports: Mapping[HostName, HostReport],
    here: HostName,
    order: Order,
    read_point: ReadPoint = NEWEST,
    now: int = 0,
    max_lag_seconds: float | None = None,
    began: int | None = None,
) -> Route | NoRoute:
    """Choose one epoch for each store group, and a host for each partition.

    Each group is read at the newest epoch that the read point allows and at which some host has each needed
    partition. Partitions of equal number, of stores with equally many partitions, are read at one host. One
    host that has everything answers alone, this one if it can; else the hosts that have the epoch share the
    partitions (`engine.cluster.shared_reading`). Hosts that are about to stop take part only where there is
    no route without them.

    Args:
        needs: The partitions that the query needs of each store that it reads; none of a store is possible.
        definitions: At least the stores of `needs`.
        reports: Of every host that is alive.
        here: The host that asks.
        order: Who should answer for a partition.
        read_point: Which epochs will do.
        now: The time, microseconds since 1970 UTC; only limits of how old an answer may be look at it.
        max_lag_seconds: How long ago the oldest commit may be that the query does not see, unless the read
            point allows more; None for no limit. Unlike the read point's own limit, it is not waited for.
        began: When the query began, at which the read point's own limit counts, in the same as `now`; None:
            just now. So a limit of 0 is met by whoever has looked at the changelog since.

    Returns:
        The route; or why there is none.
    """
    lag = None if read_point.allow_stale else max_lag_seconds
    if read_point.allow_stale:
        reports = past_reports(reports, definitions)
    staying = {host: report for host, report in reports.items() if not report.is_draining}
    if len(staying) < len(reports):
        without = _route(needs, definitions, staying, here, order, read_point, now, lag, began)
        if isinstance(without, Route):
            return without
    found = _route(needs, definitions, reports, here, order, read_point, now, lag, began)
    if isinstance(found, Route) or lag is None:
        return found
    stale = _route(needs, definitions, reports, here, order, read_point, now, None, began)
    if isinstance(stale, NoRoute):
        return found
    readings = readings_of(needs, definitions, reports, partition_sets_of(needs, definitions, reports))
    oldest = min(
        (each for each in readings if not isinstance(read_point.group_as_of(each.group), AsOfEpoch)),
        key=lambda reading: reading.complete_until(stale.epochs[reading.group]),
    )
    return NoRoute(refuse_lag(oldest, stale.epochs[oldest.group], lag, now), may_come=False)


def _route(
    needs: Mapping[StoreName, Collection[PartitionId]],
    definitions: Mapping[StoreName, StoreDefinition],
    reports: Mapping[HostName, HostReport],
    here: HostName,
    order: Order,
    read_point: ReadPoint,
    now: int,
    lag: float | None,
    began: int | None,
) -> Route | NoRoute:
    """As `route`; `lag` is a limit that the read point does not lift."""
    began = now if began is None else began
    partition_sets = partition_sets_of(needs, definitions, reports)
    readings = readings_of(needs, definitions, reports, partition_sets)
    if (
        isinstance(read_point.as_of_default, AsOfEpoch)
        and sum(reading.group not in read_point.as_of for reading in readings) > 1
    ):
        groups = " and ".join(reading.group for reading in readings)
        return NoRoute(
            InvalidInput(
                f"The statement reads the groups {groups}, which count their epochs apart: say AS OF EPOCH "
                "behind the tables' names."
            ),
            False,
        )
    is_stuck = any(
        reading.reports and all(report.is_stuck for report in reading.reports.values())
        for reading in readings
    )
    for partition_set in partition_sets:
        if missing := partition_set.missing_numbers(partition_set.held):
            return NoRoute(
                refuse_partition(partition_set, missing, readings, reports, order(partition_set.count)),
                True,
                is_stuck,
            )
    allowed: list[tuple[Epoch, ...]] = []
    for reading in readings:
        epochs = _allowed_epochs(reading, read_point, now, lag, began)
        if not epochs or not any(reading.is_covered(epoch) for epoch in epochs):
            return NoRoute(*refuse_read_point(reading, read_point, now), is_stuck, is_held=True)
        allowed.append(epochs)
    chosen = _choose(
        readings, allowed, {partition_set: frozenset(partition_set.held) for partition_set in partition_sets}
    )
    if chosen is None:
        return NoRoute(refuse_route(readings), True, is_stuck, is_held=True)
    epochs_of, hosts_of = chosen
    return Route(
        {reading.group: epoch for reading, epoch in zip(readings, epochs_of, strict=True)},
        {
            reading.group: reading.committed_at(epoch)
            for reading, epoch in zip(readings, epochs_of, strict=True)
        },
        _shares(needs, hosts_of, here, order),
        frozenset(store for partition_set in partition_sets for store in partition_set.beside),
        {
            reading.group: reading.generation(epoch)
            for reading, epoch in zip(readings, epochs_of, strict=True)
        },
        {
            reading.group: digest
            for reading, epoch in zip(readings, epochs_of, strict=True)
            if (digest := reading.digest(epoch))
        },
        min(
            (reading.complete_until(epoch) for reading, epoch in zip(readings, epochs_of, strict=True)),
            default=0,
        ),
    )


def _allowed_epochs(
    reading: GroupReading, read_point: ReadPoint, now: int, lag: float | None, began: int
) -> tuple[Epoch, ...]:
    """The epochs that the read point allows and some host has, newest first; none where a better one is
    still to come.
    """
    found = _allowed_in_time(reading, read_point, now, lag, began)
    generations = read_point.allowed_generations.get(reading.group)
    return (
        found
        if generations is None
        else tuple(epoch for epoch in found if reading.generation(epoch) in generations)
    )


def _allowed_in_time(
    reading: GroupReading, read_point: ReadPoint, now: int, lag: float | None, began: int
) -> tuple[Epoch, ...]:
    match read_point.group_as_of(reading.group):
        case AsOfEpoch(epoch, digest):
            return (epoch,) if epoch in reading.epochs and digest in ("", reading.digest(epoch)) else ()
        case AsOfTimestamp(moment):
            # What was committed later does not belong to it, so it is not behind for that.
            by = min(now, moment)
            return tuple(
                epoch
                for epoch in _epochs_as_of(reading, moment)
                if lag is None or reading.stale_seconds(epoch, by) <= lag
            )
        case _:
            limits = [
                (moment, limit)
                for moment, limit in ((began, read_point.max_staleness_seconds), (now, lag))
                if limit is not None
            ]
            oldest = read_point.min_epoch or 0
            return tuple(
                epoch
                for epoch in reading.epochs
                if epoch >= oldest
                and all(reading.stale_seconds(epoch, moment) <= limit for moment, limit in limits)
            )


def _epochs_as_of(reading: GroupReading, moment: int) -> tuple[Epoch, ...]:
    """The epochs as of a moment; none while a host is on the way to a newer one that was
    committed by then.
    """
    epochs = tuple(epoch for epoch in reading.epochs if reading.committed_at(epoch) <= moment)
    if epochs and any(
        r.unread_since is not None and r.unread_since <= moment and r.newest >= epochs[0]
        for r in reading.reports.values()
    ):
        return ()
    for index, epoch in enumerate(epochs):
        if reading.is_covered(epoch):
            return epochs[index:]
        if reading.is_covered(epoch, reading.hosts_behind(epoch)):
            return ()
    return ()


_Chosen = tuple[tuple[Epoch, ...], Mapping[PartitionSet, Hosts]]


def _choose(
    readings: Sequence[GroupReading],
    allowed: Sequence[tuple[Epoch, ...]],
    hosts: Mapping[PartitionSet, Hosts],
) -> _Chosen | None:
    """The newest epochs at which all partition sets can be read, and by which hosts; the first group's epoch
    comes first where they compete.

    A host can be behind in one group and not in another, so what one group allows depends on the others:
    every epoch is tried whose hosts are not among those of a newer one that led nowhere.
    """
    if not readings:
        return (), hosts
    reading, tried = readings[0], list[frozenset[tuple[StoreName, HostName]]]()
    for epoch in allowed[0]:
        readers = {store: reading.hosts_at(epoch, store) for store in reading.stores}
        pairs = frozenset((store, host) for store, able in readers.items() for host in able)
        if any(pairs <= earlier for earlier in tried):
            continue
        left = _hosts_that_have(hosts, reading, readers)
        found = None if left is None else _choose(readings[1:], allowed[1:], left)
        if found is not None:
            return (epoch, *found[0]), found[1]
        tried.append(pairs)
    return None


def _hosts_that_have(
    hosts: Mapping[PartitionSet, Hosts], reading: GroupReading, readers: Mapping[StoreName, Hosts]
) -> dict[PartitionSet, Hosts] | None:
    """The hosts that are left for each partition set; None where they do not have all of one."""
    left = dict(hosts)
    for partition_set in reading.partition_sets:
        left[partition_set] = left[partition_set].intersection(
            *(readers[store] for store in partition_set.read if store in readers)
        )
        if partition_set.missing_numbers(left[partition_set]):
            return None
    return left


def _shares(
    needs: Mapping[StoreName, Collection[PartitionId]],
    hosts_of: Mapping[PartitionSet, Hosts],
    here: HostName,
    order: Order,
) -> dict[HostName, dict[StoreName, tuple[PartitionId, ...]]]:
    alone = _host_of_everything(hosts_of, here, order)
    if alone is not None:
        return {alone: {store: tuple(sorted(numbers)) for store, numbers in needs.items()}}
    placed: dict[HostName, dict[StoreName, tuple[PartitionId, ...]]] = {}
    beside = {
        store: tuple(sorted(needs[store])) for partition_set in hosts_of for store in partition_set.beside
    }
    for partition_set, hosts in hosts_of.items():
        if partition_set.is_beside:
            continue
        for host, numbers in _assign_numbers(partition_set, hosts, order).items():
            stores = placed.setdefault(host, dict.fromkeys(needs, ()) | beside)
            for store in partition_set.stores:
                # A store can be in several partition sets, of different numbers.
                stores[store] = tuple(sorted((*stores[store], *numbers))) if stores[store] else numbers
    return placed


def _host_of_everything(
    hosts_of: Mapping[PartitionSet, Hosts], here: HostName, order: Order
) -> HostName | None:
    """A host that can answer for everything: this one, else the one that should answer for the first
    partition; None if there is none.
    """
    able: Hosts | None = None
    for partition_set, hosts in hosts_of.items():
        whole = frozenset(
            host for host in hosts if len(partition_set.held[host]) == len(partition_set.numbers)
        )
        able = whole if able is None else able & whole
    if able is None or here in able:
        return here
    partition_set = next(partition_set for partition_set in hosts_of if not partition_set.is_beside)
    preferred = order(partition_set.count)[min(partition_set.numbers)]
    return next((host for host in preferred if host in able), min(able, default=None))


def _assign_numbers(
    partition_set: PartitionSet, hosts: Hosts, order: Order
) -> Mapping[HostName, tuple[PartitionId, ...]]:
    """The numbers that each host reads, ascending."""
    held = {host: partition_set.held[host] for host in hosts if host in partition_set.held}
    return share_numbers(partition_set.numbers, held, order(partition_set.count))
