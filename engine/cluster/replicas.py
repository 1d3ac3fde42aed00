"""Who can read the same partitions at the same epochs, so that any of them can take another's place."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from engine.cluster.readable import partition_sets_of, readings_of
from engine.cluster.reports import HostName, HostReport
from engine.cluster.routing import Order
from engine.model.schema import Epoch, GroupName, PartitionId, StoreDefinition, StoreName


def readers(
    needs: Mapping[StoreName, Collection[PartitionId]],
    epochs: Mapping[GroupName, Epoch],
    definitions: Mapping[StoreName, StoreDefinition],
    reports: Mapping[HostName, HostReport],
    order: Order,
) -> tuple[HostName, ...]:
    """The hosts that can each read all of some partitions.

    Args:
        needs: The partitions of each store.
        epochs: The epoch of every store group.
        definitions: At least the stores of `needs`.
        reports: Of every host that is alive.
        order: Who should answer for a partition.

    Returns:
        The hosts: those that should answer for the first of the partitions come first, in their order, and
        the others follow by name.
    """
    partition_sets = partition_sets_of(needs, definitions, reports)
    able = set(reports)
    for partition_set in partition_sets:
        able = {host for host in able if len(partition_set.held.get(host, ())) == len(partition_set.numbers)}
    for reading in readings_of(needs, definitions, reports, partition_sets):
        for store in reading.stores:
            able &= reading.hosts_at(epochs[reading.group], store)
    # Global stores are the same everywhere: what is read beside them says who is asked first.
    spread = [partition_set for partition_set in partition_sets if not partition_set.is_beside]
    preferred = order(spread[0].count)[min(spread[0].numbers)] if spread else ()
    first = [host for host in preferred if host in able]
    return (*first, *sorted(able.difference(first)))
