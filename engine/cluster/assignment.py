"""Which hosts hold a partition: rendezvous hashing, a pure function of the hosts' names.

Every host gets a score for every partition, and the hosts with the highest scores hold it (Thaler and
Ravishankar, "A Name-Based Mapping Scheme for Rendezvous", 1996). A host that comes takes only what it scores
highest for, and what a host that goes had falls to the next best: nothing else moves. Scores depend on how
many partitions a store has and on the partition's number, not on the store: stores with the same number of
partitions have equal keys on one host, so that they can be joined there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from engine.cluster.reports import HostName
from engine.model.schema import PartitionId, StoreDefinition

_SCORE_BYTES = 8


def rank_hosts(partition: PartitionId, partitions: int, hosts: Collection[HostName]) -> tuple[HostName, ...]:
    """All hosts in the order in which they should hold a partition.

    Args:
        partition: Number of the partition.
        partitions: How many partitions the store has.
        hosts: Names of the hosts, each once, in any order.

    Returns:
        The hosts, best first.
    """
    slot = f"{partitions}/{partition}/"
    scores = {host: blake2b(f"{slot}{host}".encode(), digest_size=_SCORE_BYTES).digest() for host in hosts}
    # Equal scores of different names would be an accident of 64 bits; names decide, so that all hosts agree
    # even then.
    return tuple(sorted(hosts, key=lambda host: (scores[host], host), reverse=True))


def replicas(
    partition: PartitionId, partitions: int, hosts: Collection[HostName], replication: int
) -> tuple[HostName, ...]:
    """The hosts that hold a partition.

    Args:
        partition: Number of the partition.
        partitions: How many partitions the store has.
        hosts: Names of the hosts, each once, in any order.
        replication: How many hosts hold it; all of them where there are no more.

    Returns:
        The hosts, the preferred one first.
    """
    return rank_hosts(partition, partitions, hosts)[:replication]


def held_partitions(
    host: HostName, partitions: int, hosts: Collection[HostName], replication: int
) -> tuple[PartitionId, ...]:
    """The partitions that a host holds of a store.

    Args:
        host: The host.
        partitions: How many partitions the store has.
        hosts: Names of all hosts, this one among them.
        replication: How many hosts hold a partition.

    Returns:
        Their numbers, ascending.
    """
    numbers = (PartitionId(number) for number in range(partitions))
    return tuple(number for number in numbers if host in replicas(number, partitions, hosts, replication))


@dataclass(frozen=True)
class Assignment:
    """The assignment of a deployment, worked out once for each number of partitions.

    Attributes:
        hosts: Names of the hosts.
        replication: How many hosts hold a partition.
    """

    hosts: tuple[HostName, ...]
    replication: int = 1
    _orders: dict[int, Sequence[tuple[HostName, ...]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def order(self, partitions: int) -> Sequence[tuple[HostName, ...]]:
        """Who is to answer for the partitions of stores that have so many.

        Args:
            partitions: How many partitions a store has.

        Returns:
            For each partition all hosts, best first: those that hold it, then those that would hold it
            without them.
        """
        found = self._orders.get(partitions)
        if found is None:
            found = self._orders[partitions] = [
                rank_hosts(PartitionId(number), partitions, self.hosts) for number in range(partitions)
            ]
        return found

    def replicas(self, definition: StoreDefinition, partition: PartitionId) -> tuple[HostName, ...]:
        """The hosts that hold a partition of a store, the preferred one first; of a global store all hosts
        do.
        """
        return self.order(definition.partitions)[partition][: self._copies(definition)]

    def count_replicas(self, definition: StoreDefinition, partition: PartitionId) -> int:
        """How many hosts hold a partition of a store; what `SnapshotOptions.replicas` is made of."""
        return min(self._copies(definition), len(self.hosts))

    def held_partitions(self, host: HostName, definition: StoreDefinition) -> tuple[PartitionId, ...]:
        """The partitions of a store that a host holds, ascending; what `FollowerOptions.held` is made of."""
        order, copies = self.order(definition.partitions), self._copies(definition)
        return tuple(
            PartitionId(number) for number in range(definition.partitions) if host in order[number][:copies]
        )

    def _copies(self, definition: StoreDefinition) -> int:
        return len(self.hosts) if definition.behaviour.is_global else self.replication

    def rank(self, host: HostName, definition: StoreDefinition, partition: PartitionId) -> int:
        """Which one of the hosts that hold a partition a host is: 0 for the preferred one. What
        `SnapshotOptions.rank` is made of.
        """
        return self.order(definition.partitions)[partition].index(host)
