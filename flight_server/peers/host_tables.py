"""Who holds what of each store of a deployment, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from engine.catalog.host_statuses import newest_epochs, progress
from engine.cluster.deployment import Deployment
from engine.cluster.reports import HostName, HostStatus
from engine.model.schema import Epoch, GroupName, PartitionId, StoreDefinition, StoreName

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


def replicas_table(
    deployment: Deployment,
    host_statuses: Mapping[HostName, HostStatus],
    definitions: Mapping[StoreName, StoreDefinition],
    now: int,
) -> pa.Table:
    """Who holds what of each store.

    Args:
        deployment: Says who should.
        host_statuses: What is known of each host.
        definitions: The stores.
        now: The time, microseconds since 1970 UTC.

    Returns:
        A table of `REPLICAS_SCHEMA`, a row for each store and host that holds, or should hold, something of
        it. `coming` and `leaving` count partitions that it does not hold yet, and those that it still holds.
    """
    newest = newest_epochs(host_statuses.values())
    rows = [
        row
        for _, definition in sorted(definitions.items())
        for entry in deployment.hosts
        for row in _replica_rows(deployment, entry.name, host_statuses[entry.name], definition, newest, now)
    ]
    return pa.Table.from_pylist(rows, REPLICAS_SCHEMA)


def _replica_rows(
    deployment: Deployment,
    host: HostName,
    host_status: HostStatus,
    definition: StoreDefinition,
    newest: Mapping[GroupName, Epoch],
    now: int,
) -> Iterator[dict[str, Any]]:
    assigned = set(deployment.assignment.held_partitions(host, definition))
    store = None if host_status.report is None else host_status.report.stores.get(definition.name)
    group = None if host_status.report is None else host_status.report.groups.get(definition.group)
    held: Sequence[PartitionId] = () if store is None else store.partitions
    if not assigned and not held:
        return
    yield {
        "store": definition.name,
        "store_group": definition.group,
        "host": host,
        "alive": host_status.alive,
        "partitions": list(held),
        "coming": len(assigned.difference(held)),
        "leaving": len(set(held) - assigned),
        **({} if group is None else progress(group, newest[definition.group], now)),
        **({} if store is None else {"rows": store.rows, "bytes": store.bytes}),
    }
