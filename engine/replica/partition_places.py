"""Where the partitions of stores are in a data directory. Those of a store with hundreds share a RocksDB with
some others of it, so that a host may have thousands.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.changelog.layout import path_segment
from engine.model.schema import GroupName, PartitionId, StoreDefinition, StoreName
from engine.replica.data_directory import HOST_NAMES

SHARED_FROM = 256
"""From so many partitions on those of a store share RocksDBs. Who writes to different ones waits for nobody,
so there are still enough of them for all processors.
"""
PARTITIONS_TOGETHER = 16
"""How many of them share one. What is damaged of it is built again with all of them."""


@dataclass(frozen=True)
class Place:
    """Where a partition is.

    Attributes:
        path: A directory, within the data directory.
        is_shared: Whether other partitions are there as well.
    """

    path: Path
    is_shared: bool = False


def place_of(directory: Path, definition: StoreDefinition, partition: PartitionId) -> Place:
    """Where a partition is, or is to be.

    An older version gave each partition a directory of its own, and one that has it keeps it.

    Args:
        directory: The data directory.
        definition: The store, in any of its shapes.
        partition: Its partition.
    """
    own = partition_path(definition, partition)
    if definition.partitions < SHARED_FROM or definition.behaviour.in_memory or (directory / own).exists():
        return Place(own)
    # Partitions are applied in their order, side by side, and neighbours wait for each other in one RocksDB.
    number = partition % (definition.partitions // PARTITIONS_TOGETHER)
    return Place(own.with_name(f"shared-{number}"), is_shared=True)


def partition_path(definition: StoreDefinition, partition: PartitionId) -> Path:
    """Where a partition is in the data directory that has a RocksDB of its own."""
    return store_path(definition.group, definition.name, definition.since) / str(partition)


def store_path(group: GroupName, store: StoreName, since: int) -> Path:
    """Where the partitions of a store are in the data directory: never where those of a dropped one of its
    name were.

    Args:
        group: Its group.
        store: Its name.
        since: As `StoreDefinition.since` of it.
    """
    directory = path_segment(group)
    if directory in HOST_NAMES:
        directory = f"%{ord(directory[0]):02X}{directory[1:]}"
    return Path(directory, path_segment(store) + (f"@{since}" if since else ""))
