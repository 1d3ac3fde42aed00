"""Why a query has no route, in words: which partition, on which host, which epoch is wanted and which is
there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from engine.cluster.progress import figures_in_words, outlook, time_in_words
from engine.cluster.readable import GroupReading, Hosts, PartitionSet
from engine.cluster.reports import LONE_HOST, GroupReport, HostName, HostReport
from engine.errors import InvalidInput, LivestateError, NotFound, Unavailable
from engine.model.read_point import AsOf, AsOfEpoch, AsOfTimestamp, ReadPoint
from engine.model.schema import Epoch, PartitionId, StoreName

_EPOCHS_SHOWN = 8


def epochs_in_words(epochs: Collection[Epoch]) -> str:
    """Epochs for an error: a range where there are no gaps, else the newest few.

    Args:
        epochs: Any epochs.
    """
    ascending = sorted(epochs)
    if not ascending:
        return "none"
    if len(ascending) == 1:
        return str(ascending[0])
    if ascending[-1] - ascending[0] == len(ascending) - 1:
        return f"{ascending[0]} to {ascending[-1]}"
    shown = ", ".join(str(epoch) for epoch in ascending[-_EPOCHS_SHOWN:])
    return shown if len(ascending) <= _EPOCHS_SHOWN else f"{ascending[0]}, …, {shown}"


def refuse_partition(
    partition_set: PartitionSet,
    missing: Collection[PartitionId],
    readings: Sequence[GroupReading],
    reports: Mapping[HostName, HostReport],
    order: Sequence[tuple[HostName, ...]],
) -> Unavailable:
    """The refusal of a query that needs a partition which no host has.

    Args:
        partition_set: What the partition belongs to.
        missing: The numbers of it that no host has together with all that is read beside them; at least one.
        readings: The groups that are read.
        reports: Of every host that is alive.
        order: Each partition's hosts, best first.
    """
    numbers = sorted(missing)
    there = {
        store: {
            number
            for report in reports.values()
            if store in report.stores
            for number in report.stores[store].held
        }
        for store in partition_set.stores
    }
    lacking, number = next(
        (
            (store, number)
            for number in numbers
            for store in partition_set.stores
            if number not in there[store]
        ),
        (None, numbers[0]),
    )
    if lacking is None:
        return Unavailable(
            f"Partition {number} of the stores {' and '.join(partition_set.read)} is on no host together: "
            "try again shortly."
        )
    wanted = next(
        f"epoch {reading.newest_known} of group {reading.group}"
        for reading in readings
        if lacking in reading.stores
    )
    rebuilt_by = [
        host
        for host, report in reports.items()
        if lacking in report.stores and number in report.stores[lacking].rebuilding
    ]
    if rebuilt_by:
        host = rebuilt_by[0]
        far = next(
            (
                outlook(reading.reports[host])
                for reading in readings
                if lacking in reading.stores and host in reading.reports
            ),
            ".",
        )
        return Unavailable(
            f"Partition {number} of store {lacking} is being rebuilt on {_host_in_words(host)}, on its way "
            f"to {wanted}{far}"
        )
    best = next(iter(order[number]), None)
    if best is None:
        return Unavailable(
            f"Partition {number} of store {lacking} is on no host that is alive; {wanted} is needed: start "
            "the hosts that hold it."
        )
    stands = "does not hold it (yet)" if best in reports else "is not alive"
    return Unavailable(
        f"Partition {number} of store {lacking} is on no host that is alive: host {best} {stands}, and "
        f"{wanted} is needed."
    )


class _Gap(NamedTuple):
    """A partition that no host has at an epoch, and the host that has it and is furthest."""

    store: StoreName
    number: PartitionId
    host: HostName
    report: GroupReport


def _gap(reading: GroupReading, epoch: Epoch, others: Hosts = frozenset()) -> _Gap | None:
    """The first partition that is needed and that no host has at an epoch; `others` count as if
    they had it.
    """
    for partition_set in reading.partition_sets:
        stores = [store for store in partition_set.read if store in reading.stores]
        able = frozenset.intersection(*(reading.hosts_at(epoch, store) | others for store in stores))
        for number in sorted(partition_set.missing_numbers(able)):
            holders = [
                host
                for host, held in partition_set.held.items()
                if number in held and host in reading.reports
            ]
            host = max(holders, key=lambda holder: reading.reports[holder].newest, default=None)
            if host is not None:
                return _Gap(stores[0], number, host, reading.reports[host])
    return None


def _host_in_words(host: HostName) -> str:
    return host if host == LONE_HOST else f"host {host}"


def _lag_in_words(gap: _Gap, wanted: Epoch) -> str:
    problem = gap.report.problem.rstrip(".")
    why = f", where its group does not get on ({problem})" if gap.report.is_stuck else ""
    return (
        f"Partition {gap.number} of store {gap.store} is at epoch {gap.report.newest} on "
        f"{_host_in_words(gap.host)}{why}, and epoch {wanted} is wanted"
    )


def refuse_route(readings: Sequence[GroupReading]) -> Unavailable:
    """The refusal of a query whose groups can each be read, but whose hosts are behind in different ones."""
    groups = " and ".join(reading.group for reading in readings)
    gaps = ((_gap(reading, reading.epochs[0]), reading.epochs[0]) for reading in readings)
    lags = "".join(f"; {_lag_in_words(gap, wanted)}" for gap, wanted in gaps if gap is not None)
    return Unavailable(
        f"The groups {groups} have no epochs that the hosts of their partitions can read together{lags}: try "
        "again shortly."
    )


def refuse_read_point(reading: GroupReading, read_point: ReadPoint, now: int) -> tuple[LivestateError, bool]:
    """The refusal of a query for whose read point a group has no epoch.

    Args:
        reading: The group.
        read_point: Which epochs it may read.
        now: The time, microseconds since 1970 UTC.

    Returns:
        The error, and whether a newer report can change it.
    """
    if not reading.epochs:
        return Unavailable(
            f"No host that is alive can read group {reading.group} yet: try again shortly."
        ), True
    generations = read_point.allowed_generations.get(reading.group)
    if (
        generations is not None
        and (refused := _refuse_other_columns(reading, generations, read_point.group_as_of(reading.group)))
        is not None
    ):
        return refused
    match read_point.group_as_of(reading.group):
        case AsOfEpoch(epoch, digest):
            if epoch in reading.epochs and digest not in ("", reading.digest(epoch)):
                return _refuse_history(reading, epoch), False
            return _refuse_epoch(reading, epoch)
        case AsOfTimestamp() as moment:
            return _refuse_moment(reading, moment)
        case _:
            return _refuse_staleness(reading, read_point, now), True


def _refuse_other_columns(
    reading: GroupReading, wanted: range, as_of: AsOf | None
) -> tuple[LivestateError, bool] | None:
    """The refusal of a statement whose columns are told, and those of the epoch that it asks for, or of the
    newest that can be read, are others.

    None where they are not.
    """
    if (
        isinstance(as_of, AsOfEpoch)
        and as_of.epoch in reading.epochs
        and reading.generation(as_of.epoch) not in wanted
    ):
        return InvalidInput(
            f"The statement was prepared with other columns than it has at epoch {as_of.epoch}: prepare it "
            "again."
        ), False
    newest = next((epoch for epoch in reading.epochs if reading.is_covered(epoch)), reading.epochs[0])
    generation = reading.generation(newest)
    stores = (
        f"store {reading.stores[0]}"
        if len(reading.stores) == 1
        else f"one of the stores {', '.join(reading.stores)}"
    )
    if generation >= wanted.stop:
        return InvalidInput(
            f"The statement was prepared before {stores} was migrated or made anew: prepare it again."
        ), False
    if generation < wanted.start:
        return Unavailable(
            f"Group {reading.group} can be read at epoch {newest}, and the statement's columns are those "
            f"that {stores} has since: try again shortly."
        ), True
    return None


def _refuse_history(reading: GroupReading, epoch: Epoch) -> NotFound:
    return NotFound(
        f"Epoch {epoch} of group {reading.group} is not the one that is meant, but of another history of the "
        "changelog, which was restored or has lost its end: read the newest epoch instead."
    )


def _refuse_epoch(reading: GroupReading, epoch: Epoch) -> tuple[LivestateError, bool]:
    if epoch > reading.newest_known:
        return NotFound(
            f"Epoch {epoch} of group {reading.group} is not known to be committed; the newest known one is "
            f"{reading.newest_known}. If it was committed just now, ask again shortly, or ask for min_epoch, "
            "which waits."
        ), False
    gone = _gap(reading, epoch, reading.hosts_behind(epoch))
    if gone is not None:
        return NotFound(
            f"Epoch {epoch} of group {reading.group} is not retained: partition {gone.number} of store "
            f"{gone.store} can be read "
            f"on {_host_in_words(gone.host)} at epochs {epochs_in_words(gone.report.committed)}."
        ), False
    gap = _gap(reading, epoch)
    if gap is not None:
        return Unavailable(f"{_lag_in_words(gap, epoch)}: try again shortly."), True
    return NotFound(
        f"Epoch {epoch} of group {reading.group} is not retained; what can be read is "
        f"{epochs_in_words(reading.epochs)}."
    ), False


def _refuse_moment(reading: GroupReading, moment: AsOfTimestamp) -> tuple[LivestateError, bool]:
    epochs = [epoch for epoch in reading.epochs if reading.committed_at(epoch) <= moment.microseconds]
    if not epochs:
        oldest = AsOfTimestamp(reading.committed_at(reading.epochs[-1]))
        return NotFound(
            f"No epoch of group {reading.group} is retained as of {moment}: the oldest, "
            f"{reading.epochs[-1]}, is of {oldest}."
        ), False
    for host, report in reading.reports.items():
        if (
            report.unread_since is not None
            and report.unread_since <= moment.microseconds
            and report.newest >= epochs[0]
        ):
            return Unavailable(
                f"Host {host} is at epoch {report.newest} of group {reading.group}, and epoch "
                f"{report.newest + 1} was committed by {moment}: "
                "try again shortly."
            ), True
    for epoch in epochs:
        gap = _gap(reading, epoch)
        if gap is not None and reading.is_covered(epoch, reading.hosts_behind(epoch)):
            return Unavailable(f"{_lag_in_words(gap, epoch)}: try again shortly."), True
    return NotFound(
        f"No epoch of group {reading.group} as of {moment} is retained on all hosts that have its partitions."
    ), False


def _refuse_staleness(reading: GroupReading, read_point: ReadPoint, now: int) -> Unavailable:
    covered = next((epoch for epoch in reading.epochs if reading.is_covered(epoch)), None)
    wanted = read_point.min_epoch or reading.epochs[0]
    if covered is None or covered < wanted:
        gap = _gap(reading, wanted)
        if gap is not None:
            return Unavailable(f"{_lag_in_words(gap, wanted)}: try again shortly.")
    if covered is not None and covered >= wanted:
        stale, limit = reading.stale_seconds(covered, now), read_point.max_staleness_seconds or 0.0
        return Unavailable(
            f"Group {reading.group} can be read at epoch {covered}, and may lack commits of the last "
            f"{stale:.3g} seconds; max_staleness is {limit:g}."
        )
    there = "none" if covered is None else str(covered)
    return Unavailable(
        f"Epoch {wanted} of group {reading.group} is wanted, and the newest that can be read is {there}: try "
        "again shortly."
    )


def refuse_lag(reading: GroupReading, epoch: Epoch, max_lag_seconds: float, now: int) -> Unavailable:
    """The refusal of a query that could only be answered from further behind than a host may.

    Args:
        reading: The group.
        epoch: The newest epoch of it that could be read.
        max_lag_seconds: How far behind a host may be that answers.
        now: The time, microseconds since 1970 UTC.
    """
    stale, behind = time_in_words(reading.stale_seconds(epoch, now)), reading.newest_known - epoch
    host, report = max(reading.reports.items(), key=lambda item: (item[1].newest, item[0]))
    group, limit = reading.group, f"the max_lag of {max_lag_seconds:g} seconds"
    if behind > 0:
        progress = report.catching_up
        figures = "" if progress is None else f"; {_host_in_words(host)}: {figures_in_words(progress)}"
        said = (
            f"Group {group} is {stale} behind, more than {limit}: it can be read at epoch {epoch} of "
            f"{reading.newest_known}{figures}"
        )
    else:
        said = (
            f"Group {group} can be read at epoch {epoch}, and whether there is a newer one was last seen "
            f"{stale} ago, more than {limit}"
        )
    if report.problem:
        stays = f"{said}, and does not get on: {report.problem} Say allow_stale to read what there is."
        return Unavailable(stays)
    return Unavailable(f"{said}: try again later, or say allow_stale to read what there is.")
