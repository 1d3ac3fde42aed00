"""SHOW HOSTS and SHOW STORES of a deployment: how hosts and stores stand, by what the hosts report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from engine.cluster.progress import progress_in_words
from engine.cluster.reports import GroupReport, HostName, HostReport, HostStatus, StoreReport
from engine.model.durations import MICROSECONDS_PER_SECOND
from engine.model.schema import Epoch, GroupName, PartitionId, StoreDefinition, StoreDefinitions
from engine.scan import StoreStatus

MOST_NUMBERS = 8
"""Partitions that a problem names."""
DRAINING = "draining"
"""State of a host that takes no more statements of clients."""
AWAY = "away"
"""State of a host that does not answer: all else is what it said last."""

HOSTS_SCHEMA = pa.schema(
    [
        pa.field("host", pa.string()),
        pa.field("uri", pa.string()),
        pa.field("alive", pa.bool_()),
        pa.field("store_group", pa.string()),
        pa.field("epoch", pa.int64()),
        pa.field("newest_epoch", pa.int64()),
        pa.field("lag_seconds", pa.float64()),
        pa.field("partitions", pa.int64()),
        pa.field("state", pa.string()),
        pa.field("epochs_behind", pa.int64()),
        pa.field("percent", pa.int64()),
        pa.field("bytes_per_second", pa.float64()),
        pa.field("seconds_left", pa.float64()),
        pa.field("problem", pa.string()),
    ]
)


def hosts_table(
    uris: Mapping[HostName, str],
    host_statuses: Mapping[HostName, HostStatus],
    definitions: StoreDefinitions,
    now: int,
) -> pa.Table:
    """The hosts, a row for each of their store groups.

    Args:
        uris: Where each host is, as far as that is known.
        host_statuses: What is known of each of them, in the order of the rows.
        definitions: The stores.
        now: The time, microseconds since 1970 UTC.

    Returns:
        A table of `HOSTS_SCHEMA`; a host that is not known to have any group has one row without a group.
        `partitions` counts what the host holds of the group's stores. `state` is `readable`, or what
        `percent` and the columns behind it are about: `behind`, where newer commits are known, to whichever
        host, than can be read; `building`, where nothing can be read yet; `rebuilding`, where some partitions
        cannot. It is `draining` of a host that is about to stop, and `away` of one that does not answer.
    """
    newest = newest_epochs(host_statuses.values())
    rows = []
    for name, host_status in host_statuses.items():
        host = {"host": name, "uri": uris.get(name), "alive": host_status.alive}
        groups = {} if host_status.report is None else host_status.report.groups
        is_draining = host_status.report is not None and host_status.report.is_draining
        state = AWAY if not host_status.alive else DRAINING if is_draining else ""
        stands = {"state": state} if state else {}
        rows += [
            {
                **host,
                "store_group": group,
                **progress(report, newest[group], now),
                "partitions": _count_partitions(host_status.report, group, definitions),
                **_build_figures(report, newest[group]),
                **stands,
                "problem": report.problem,
            }
            for group, report in sorted(groups.items())
        ] or [{**host, **stands}]
    return pa.Table.from_pylist(rows, HOSTS_SCHEMA)


def newest_epochs(host_statuses: Iterable[HostStatus]) -> Mapping[GroupName, Epoch]:
    """The newest epoch of each group that any host knows of.

    Args:
        host_statuses: What is known of the hosts.
    """
    newest: dict[GroupName, Epoch] = {}
    for host_status in host_statuses:
        for name, group in ({} if host_status.report is None else host_status.report.groups).items():
            newest[name] = max(newest.get(name, Epoch(0)), group.newest_known)
    return newest


def progress(group: GroupReport, newest: Epoch, now: int) -> dict[str, Any]:
    """How far a group is on a host: the columns `epoch`, `newest_epoch` and `lag_seconds`.

    Args:
        group: What the host reports.
        newest: The newest epoch of the group that any host knows of.
        now: The time, microseconds since 1970 UTC.
    """
    since = _lacking_since(group, newest)
    lag = 0.0 if since is None else max(0.0, (now - since) / MICROSECONDS_PER_SECOND) if since else None
    return {"epoch": group.newest, "newest_epoch": max(newest, group.newest), "lag_seconds": lag}


def _lacking_since(group: GroupReport, newest: Epoch) -> int | None:
    """Since when, at most, a host has lacked a commit that there is, microseconds since 1970 UTC; 0 where
    that is not known, None where it lacks none. A host that is gone, or cut off from the changelog, does not
    know of what others have seen: it lacks that since it looked last.
    """
    if group.unread_since is not None or group.newest >= newest:
        return group.unread_since
    return group.complete_until


def _build_figures(group: GroupReport, newest: Epoch) -> dict[str, Any]:
    """What a host builds, and how far it is: the columns `state` to `seconds_left`."""
    building = group.building or group.catching_up
    if building is None:
        behind = max(0, newest - group.newest)
        return {"state": "behind" if behind else "readable", "epochs_behind": behind}
    state = "behind" if group.building is None else "rebuilding" if group.readable else "building"
    return {
        "state": state,
        "epochs_behind": building.epochs_behind,
        "percent": building.percent,
        "bytes_per_second": building.bytes_per_second,
        "seconds_left": building.seconds_left,
    }


def _count_partitions(report: HostReport | None, group: GroupName, definitions: StoreDefinitions) -> int:
    stores = {} if report is None else report.stores
    return sum(
        len(store.partitions)
        for name, store in stores.items()
        if name in definitions and definitions[name].group == group
    )


def store_statuses(
    reports: Mapping[HostName, HostReport],
    definitions: StoreDefinitions,
    here: Sequence[StoreStatus],
    now: int,
) -> list[StoreStatus]:
    """How the stores of a deployment stand, over all hosts that answer.

    Args:
        reports: Of the hosts that answer.
        definitions: The stores.
        here: How the stores stand on this host: what it knows to be wrong with them, and which epochs are
            passed by.
        now: The time, microseconds since 1970 UTC.

    Returns:
        Each store, in order of name. Replicas count once: where only some partitions have several, their
        share is taken to be that of all. Its problem is what no host has of it, and what keeps a host.
    """
    newest = newest_epochs(HostStatus(alive=True, report=report) for report in reports.values())
    known = {each.store: each for each in here}
    statuses = [
        _status(
            definition,
            list(_holders(definition, reports)),
            newest.get(definition.group, Epoch(0)),
            _difficulty(definition, reports) or (known[name].problem if name in known else ""),
            now,
        )
        for name, definition in sorted(definitions.items())
    ]
    return [
        *(
            replace(each, skipped=known[each.store].skipped) if each.store in known else each
            for each in statuses
        ),
        *(each for each in here if not each.group and each.store not in definitions),
    ]


def _holders(
    definition: StoreDefinition, reports: Mapping[HostName, HostReport]
) -> Iterator[tuple[StoreReport, GroupReport]]:
    for report in reports.values():
        store, group = report.stores.get(definition.name), report.groups.get(definition.group)
        if store is not None and group is not None and store.partitions:
            yield store, group


def _status(
    definition: StoreDefinition,
    holders: list[tuple[StoreReport, GroupReport]],
    newest: Epoch,
    difficulty: str,
    now: int,
) -> StoreStatus:
    reached: dict[PartitionId, Epoch] = {}
    for store, group in holders:
        for number in store.partitions:
            reached[number] = max(reached.get(number, Epoch(0)), group.newest)
    copies = sum(len(store.partitions) for store, _ in holders) / max(1, len(reached))
    epoch = min(reached.values(), default=Epoch(0))
    # Whoever is at this epoch lacks the one behind it, and who knows most of that says since when.
    lacking = (_lacking_since(group, newest) for _, group in holders if group.newest == epoch < newest)
    behind = max(filter(None, lacking), default=None)
    missing = [number for number in range(definition.partitions) if number not in reached]

    def count_once(counts: Iterable[int]) -> int:
        return round(sum(counts) / max(1.0, copies))

    return StoreStatus(
        store=definition.name,
        group=definition.group,
        epoch=epoch,
        newest_epoch=max(newest, epoch),
        lag_seconds=0.0 if behind is None else max(0.0, (now - behind) / MICROSECONDS_PER_SECOND),
        rows=count_once(store.rows for store, _ in holders),
        stored_rows=count_once(store.stored_rows for store, _ in holders),
        bytes=count_once(store.bytes for store, _ in holders),
        partitions=len(reached),
        segments=count_once(store.segments for store, _ in holders),
        problem=" ".join(filter(None, (_missing_in_words(missing), difficulty))),
    )


def _missing_in_words(numbers: list[int]) -> str:
    if not numbers:
        return ""
    more = len(numbers) - MOST_NUMBERS
    shown = ", ".join(map(str, numbers[:MOST_NUMBERS])) + (f" and {more} more" if more > 0 else "")
    return f"No host that answers has partition{'' if len(numbers) == 1 else 's'} {shown}."


def _difficulty(definition: StoreDefinition, reports: Mapping[HostName, HostReport]) -> str:
    """What a host has to say of a store that it cannot read all of, or that does not get on there; empty
    where none has.
    """
    for host, report in sorted(reports.items()):
        store, group = report.stores.get(definition.name), report.groups.get(definition.group)
        if group is not None and group.problem:
            return f"Host {host}: {group.problem}"
        if store is not None and store.rebuilding and group is not None and group.building is not None:
            return f"Host {host} builds partitions; {progress_in_words(group.building)}."
    return ""
