"""When a host makes snapshots, and with whom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from engine.changelog import SnapshotRetention
from engine.changelog.snapshot import MIB
from engine.model.schema import PartitionId, StoreDefinition


def first_rank(definition: StoreDefinition, partition: PartitionId) -> int:
    """The rank of a host that nobody shares partitions with."""
    return 0


def one_replica(definition: StoreDefinition, partition: PartitionId) -> int:
    """How many hosts hold a partition of a host that nobody shares partitions with."""
    return 1


@dataclass(frozen=True)
class SnapshotOptions:
    """When snapshots are made, and what stays of the changelog before them. All hosts of a deployment need
    the same.

    Attributes:
        after_bytes: Bytes of changelog after which a snapshot is due, unless the last one is larger: then as
            many as that has. An epoch counts for 256 KiB beside its rows. 0: never.
        retention: What stays of the changelog.
        rank: Which one of those that hold a partition this host is, from 0; the first writes it.
        patience_seconds: How long each of them waits for the one before it.
        replicas: How many hosts hold a partition, whose rows are compared before a snapshot counts.
        host: What this host is called in messages to others.
        silent_seconds: How long a snapshot waits for hosts that do not say what they have. It counts without
            them then, but no epochs go for it.
        look_seconds: How often a host looks whether the others have written theirs.
        retry_seconds: How long a host waits after a failure.
        give_up_seconds: After this time a snapshot that is not complete is left to be.
    """

    after_bytes: int = 256 * MIB
    retention: SnapshotRetention = field(default_factory=SnapshotRetention)
    rank: Callable[[StoreDefinition, PartitionId], int] = first_rank
    patience_seconds: float = 30.0
    replicas: Callable[[StoreDefinition, PartitionId], int] = one_replica
    host: str = "this host"
    silent_seconds: float = 60.0
    look_seconds: float = 1.0
    retry_seconds: float = 10.0
    give_up_seconds: float = 600.0
