"""What the store groups of a host share."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from engine.changelog import Commit
from engine.changelog.layout import path_segment
from engine.errors import Unavailable
from engine.model.schema import GroupName, PartitionId, StoreDefinition
from engine.replica.group_views import GroupView, Retention
from engine.state.cache import ColumnCache
from engine.state.partition import PartitionStore
from engine.state.rocks import WriteBuffers
from engine.state.state_options import StateOptions

ASIDE = ".aside"
"""Directory in the data directory of partitions that were put aside; no group has such a path."""


def every_partition(definition: StoreDefinition) -> Collection[PartitionId]:
    """All partitions of a store."""
    return [PartitionId(number) for number in range(definition.partitions)]


@dataclass(frozen=True)
class GroupSetup:
    """What the groups of a host share.

    Attributes:
        directory: The data directory.
        cache: Decoded columns.
        options: Sizes.
        buffers: Bound of all RocksDB memtables.
        held: Which partitions of a store this host holds.
        retention: How long epochs stay readable.
        workers: Runs partitions side by side.
        request_compaction: Is told of each partition store of a group that got rows, for compaction.
        snapshot: Is given what can be read at each epoch at which a snapshot is due.
        snapshot_after: As `SnapshotOptions.after_bytes`.
        now: Gives the time, microseconds since 1970 UTC.
        clock: Gives the time in seconds that never go back.
    """

    directory: Path
    cache: ColumnCache
    options: StateOptions
    buffers: WriteBuffers
    held: Callable[[StoreDefinition], Collection[PartitionId]]
    retention: Retention
    workers: Executor
    request_compaction: Callable[[GroupName, PartitionStore], None]
    snapshot: Callable[[GroupView, Commit], None]
    snapshot_after: int
    now: Callable[[], int]
    clock: Callable[[], float]

    def open(
        self,
        definition: StoreDefinition,
        partition: PartitionId,
        definition_at: Callable[[int], StoreDefinition],
    ) -> PartitionStore:
        """Open one partition; its directory is made if it is not there.

        Args:
            definition: The store, in any of its shapes.
            partition: Its partition.
            definition_at: Gives the shape of a generation.
        """
        path = self.directory / partition_path(definition, partition)
        return PartitionStore(
            definition, partition, path, self.cache, self.options, self.buffers, definition_at
        )

    def put_aside(self, definition: StoreDefinition, partition: PartitionId) -> None:
        """Move what the disk has of a partition that is not open to where nothing looks for it. What was put
        aside of it before is deleted.

        Args:
            definition: The store, in any of its shapes.
            partition: Its partition.

        Raises:
            Unavailable: The disk does not answer.
        """
        path = partition_path(definition, partition)
        aside = self.directory / ASIDE / path
        try:
            if (self.directory / path).exists():
                shutil.rmtree(aside, ignore_errors=True)
                aside.parent.mkdir(parents=True, exist_ok=True)
                (self.directory / path).rename(aside)
        except OSError as error:
            raise Unavailable(
                f"Partition {partition} of store {definition.name} cannot be put aside on the disk "
                f"({error.strerror})."
            ) from error


def partition_path(definition: StoreDefinition, partition: PartitionId) -> Path:
    """Where a partition is in the data directory."""
    return Path(path_segment(definition.group), path_segment(definition.name), str(partition))
