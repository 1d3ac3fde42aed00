"""Reports of hosts in few words, for tests of routing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from engine.cluster.reports import GroupReport, HostName, HostReport, ReadableEpoch, StoreReport
from engine.model.kinds import Behaviour
from engine.model.schema import Epoch, GroupName, PartitionId, StoreDefinition, StoreName, define_store

SECOND = 1_000_000


def store(name: str, group: str, partitions: int, *, is_global: bool = False) -> StoreDefinition:
    return define_store(
        name,
        pa.schema([("k", pa.int64())]),
        ["k"],
        partitions=partitions,
        group=group,
        behaviour=Behaviour(is_global=is_global),
    )


def committed_at(epoch: int) -> int:
    """Epochs of tests are a second apart."""
    return epoch * SECOND


def group_report(
    epochs: Iterable[int],
    newest_known: int | None = None,
    unread_since: int | None = None,
    looked_at: int = 0,
    digest: str = "",
) -> GroupReport:
    readable = tuple(
        ReadableEpoch(Epoch(epoch), committed_at(epoch), digest=digest and f"{digest}{epoch}")
        for epoch in sorted(epochs)
    )
    newest = readable[-1].epoch if readable else Epoch(0)
    return GroupReport(
        readable, newest if newest_known is None else Epoch(newest_known), unread_since, looked_at
    )


def host_report(
    host: str,
    groups: Mapping[Any, GroupReport],
    held: Mapping[Any, Iterable[int]],
    since: Mapping[Any, int] | None = None,
    rebuilding: Mapping[Any, Iterable[int]] | None = None,
) -> HostReport:
    stores = {}
    for name, numbers in held.items():
        late = tuple(PartitionId(number) for number in (rebuilding or {}).get(name, ()))
        stores[StoreName(name)] = StoreReport(
            tuple(PartitionId(number) for number in sorted(numbers)),
            since=Epoch((since or {}).get(name, 0)),
            rebuilding=late,
        )
    return HostReport(HostName(host), {GroupName(name): report for name, report in groups.items()}, stores)
