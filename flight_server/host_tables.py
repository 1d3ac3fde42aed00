"""How the hosts of a deployment stand, as tables: one of hosts and one of replicas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from engine.cluster.deployment import Deployment
from engine.cluster.reports import GroupReport, HostName, HostReport
from engine.schema import Epoch, GroupName, PartitionId, StoreDefinition, StoreName

MICROSECONDS = 1_000_000

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
    ]
)
REPLICAS_SCHEMA = pa.schema(
    [
        pa.field("store", pa.string()),
        pa.field("store_group", pa.string()),
        pa.field("host", pa.string()),
        pa.field("alive", pa.bool_()),
        pa.field("partitions", pa.list_(pa.int32())),
        pa.field("coming", pa.int64()),
        pa.field("leaving", pa.int64()),
        pa.field("epoch", pa.int64()),
        pa.field("newest_epoch", pa.int64()),
        pa.field("lag_seconds", pa.float64()),
        pa.field("rows", pa.int64()),
        pa.field("bytes", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Standing:
    """What a host knows of a host.

    Attributes:
        alive: Whether it was heard of lately.
        report: Its newest report; None if it was never heard of.
    """

    alive: bool
    report: HostReport | None


def hosts_table(
    deployment: Deployment, standings: Mapping[HostName, Standing], definitions: Mapping[StoreName, StoreDefinition], now: int
) -> pa.Table:
    """The hosts, a row for each of their store groups.

    Args:
        deployment: Names the hosts.
        standings: What is known of each of them.
        definitions: The stores.
        now: The time, microseconds since 1970 UTC.

    Returns:
        A table of `HOSTS_SCHEMA`; a host that is not known to have any group has one row without a group. `partitions` counts what
        the host holds of the group's stores.
    """
    newest = _newest(standings)
    rows = []
    for entry in deployment.hosts:
        standing = standings[entry.name]
        host = {"host": entry.name, "uri": entry.uri, "alive": standing.alive}
        groups = {} if standing.report is None else standing.report.groups
        rows += [
            {**host, "store_group": name, **_progress(group, newest[name], now), "partitions": _held(standing.report, name, definitions)}
            for name, group in sorted(groups.items())
        ] or [host]
    return pa.Table.from_pylist(rows, HOSTS_SCHEMA)


def replicas_table(
    deployment: Deployment, standings: Mapping[HostName, Standing], definitions: Mapping[StoreName, StoreDefinition], now: int
) -> pa.Table:
    """Who holds what of each store.

    Args:
        deployment: Says who should.
        standings: What is known of each host.
        definitions: The stores.
        now: The time, microseconds since 1970 UTC.

    Returns:
        A table of `REPLICAS_SCHEMA`, a row for each store and host that holds, or should hold, something of it. `coming` and `leaving` count
        partitions that it does not hold yet, and those that it still holds.
    """
    newest = _newest(standings)
    rows = [
        row
        for _, definition in sorted(definitions.items())
        for entry in deployment.hosts
        for row in _replica_rows(deployment, entry.name, standings[entry.name], definition, newest, now)
    ]
    return pa.Table.from_pylist(rows, REPLICAS_SCHEMA)


def _replica_rows(
    deployment: Deployment, host: HostName, standing: Standing, definition: StoreDefinition, newest: Mapping[GroupName, Epoch], now: int
) -> Iterator[dict[str, Any]]:
    assigned = set(deployment.assignment.held(host, definition))
    store = None if standing.report is None else standing.report.stores.get(definition.name)
    group = None if standing.report is None else standing.report.groups.get(definition.group)
    held: Sequence[PartitionId] = () if store is None else store.partitions
    if not assigned and not held:
        return
    yield {
        "store": definition.name,
        "store_group": definition.group,
        "host": host,
        "alive": standing.alive,
        "partitions": list(held),
        "coming": len(assigned.difference(held)),
        "leaving": len(set(held) - assigned),
        **({} if group is None else _progress(group, newest[definition.group], now)),
        **({} if store is None else {"rows": store.rows, "bytes": store.bytes}),
    }


def _newest(standings: Mapping[HostName, Standing]) -> Mapping[GroupName, Epoch]:
    """The newest epoch of each group that any host knows of."""
    newest: dict[GroupName, Epoch] = {}
    for standing in standings.values():
        for name, group in ({} if standing.report is None else standing.report.groups).items():
            newest[name] = max(newest.get(name, Epoch(0)), group.newest_known)
    return newest


def _progress(group: GroupReport, newest: Epoch, now: int) -> dict[str, Any]:
    epoch = group.readable[-1].epoch if group.readable else Epoch(0)
    lag = 0.0 if group.unread_since is None else max(0.0, (now - group.unread_since) / MICROSECONDS)
    return {"epoch": epoch, "newest_epoch": max(newest, epoch), "lag_seconds": lag}


def _held(report: HostReport | None, group: GroupName, definitions: Mapping[StoreName, StoreDefinition]) -> int:
    stores = {} if report is None else report.stores
    return sum(len(store.partitions) for name, store in stores.items() if name in definitions and definitions[name].group == group)
