"""What the store groups of a host share."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection
from concurrent.futures import Executor
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Event

from engine.changelog.layout import path_segment
from engine.errors import Unavailable
from engine.model.schema import GroupName, PartitionId, StoreDefinition, StoreName
from engine.replica.group_views import EpochRetention
from engine.replica.partition_places import Place, place_of, store_path
from engine.replica.reached_epoch import (
    ReachedEpoch,
    forget_reached_epoch,
    read_reached_epoch,
    write_reached_epoch,
)
from engine.state.cache import ColumnCache
from engine.state.partition import PartitionStore
from engine.state.rocks import SharedOptions
from engine.state.shared_storage import SharedStorages
from engine.state.state_options import StateOptions

ASIDE = ".aside"
"""Directory in the data directory of partitions that were put aside; no group has such a path."""
REACHED = ".reached"
"""Directory in the data directory of notes of the epochs that groups have reached; likewise."""


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
        shared_options: How RocksDB is opened for all partitions.
        held: Which partitions of a store this host holds.
        retention: How long epochs stay readable.
        workers: Runs partitions side by side.
        request_compaction: Is told of each partition store of a group that got rows, for compaction.
        snapshot_after: As `SnapshotOptions.after_bytes`.
        now: Gives the time, microseconds since 1970 UTC.
        clock: Gives the time in seconds that never go back.
        builders: Runs partitions side by side that are built, which can take minutes; None for the same as
            `workers`.
        large_workers: Runs partitions side by side of large epochs of groups that can be read; likewise.
        openers: Opens partitions side by side; likewise.
        stopping: Ends what is being built when it is set.
        open_files: How many files the system lets the host have open; negative for no limit.
        storages: Those that several partitions share.
    """

    directory: Path
    cache: ColumnCache
    options: StateOptions
    shared_options: SharedOptions
    held: Callable[[StoreDefinition], Collection[PartitionId]]
    retention: EpochRetention
    workers: Executor
    request_compaction: Callable[[GroupName, PartitionStore], None]
    snapshot_after: int
    now: Callable[[], int]
    clock: Callable[[], float]
    builders: Executor | None = None
    large_workers: Executor | None = None
    openers: Executor | None = None
    stopping: Event = field(default_factory=Event)
    open_files: int = -1
    storages: SharedStorages = field(default_factory=SharedStorages)

    @property
    def build_workers(self) -> Executor:
        """As `builders`."""
        return self.builders or self.workers

    @property
    def open_workers(self) -> Executor:
        """As `openers`."""
        return self.openers or self.workers

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
        place, storage = self.place_of(definition, partition), None
        path = self.directory / place.path
        if place.is_shared:
            storage = self.storages.open_part(path, partition, self.options, self.shared_options)
        return PartitionStore(
            definition,
            partition,
            path,
            self.cache,
            self.options,
            self.shared_options,
            definition_at,
            storage=storage,
        )

    def place_of(self, definition: StoreDefinition, partition: PartitionId) -> Place:
        """As `partition_places.place_of`."""
        return place_of(self.directory, definition, partition)

    def reached_epoch(self, group: GroupName) -> ReachedEpoch | None:
        """The epoch that all partitions of a group have reached, if that was noted."""
        return read_reached_epoch(self._reached_path(group))

    def note_reached(self, group: GroupName, reached: ReachedEpoch | None) -> None:
        """Note the epoch that all partitions of a group have reached; None that they have not reached one."""
        if reached is None:
            forget_reached_epoch(self._reached_path(group))
        else:
            write_reached_epoch(self._reached_path(group), reached)

    def _reached_path(self, group: GroupName) -> Path:
        return self.directory / REACHED / f"{path_segment(group)}.json"

    def put_aside(self, definition: StoreDefinition, partition: PartitionId, *, is_lost: bool) -> None:
        """Move what the disk has of a partition that is not open, nor any that shares its place, to where
        nothing looks for it.

        Args:
            definition: The store, in any of its shapes.
            partition: Its partition.
            is_lost: Whether it has rows of epochs that the changelog has lost: then it stays for ever, each
                time under a name of its own. What is damaged takes the place of what was so before.

        Raises:
            Unavailable: The disk does not answer.
        """
        place = self.place_of(definition, partition)
        path, aside = self.directory / place.path, self.directory / ASIDE / place.path
        if is_lost:
            names = (aside.with_name(f"{aside.name}-lost-{number}") for number in count(1))
            aside = next(each for each in names if not each.exists())
        try:
            if path.exists():
                shutil.rmtree(aside, ignore_errors=True)
                aside.parent.mkdir(parents=True, exist_ok=True)
                path.rename(aside)
                if self.place_of(definition, partition) != place:
                    path.mkdir()  # it stays where it is: those that share another place are open there
        except OSError as error:
            raise Unavailable(
                f"Partition {partition} of store {definition.name} cannot be put aside on the disk "
                f"({error.strerror})."
            ) from error

    def delete_store(self, group: GroupName, store: StoreName, since: int) -> bool:
        """Delete what the disk has of a store that was dropped, none of whose partitions is open.

        Args:
            group: Its group.
            store: Its name.
            since: As `StoreDefinition.since` of it.

        Returns:
            Whether there was anything.

        Raises:
            Unavailable: The disk does not answer.
        """
        path = store_path(group, store, since)
        found = [root / path for root in (self.directory, self.directory / ASIDE) if (root / path).exists()]
        for each in found:
            try:
                shutil.rmtree(each)
            except OSError as error:
                raise Unavailable(
                    f"What the disk has of store {store}, which was dropped, cannot be deleted "
                    f"({error.strerror})."
                ) from error
        return bool(found)
