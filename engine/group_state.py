"""The state of one store group on a host: its partition stores, moved forward one commit at a time, all together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from rocksdict import WriteBufferManager

from engine.changelog import Changelog, Commit
from engine.changelog.layout import path_segment
from engine.errors import Corrupt, LivestateError, Unavailable
from engine.schema import TOMBSTONE_COLUMN, Epoch, GroupName, PartitionId, StoreDefinition, StoreName
from engine.state.cache import ColumnCache
from engine.state.options import StateOptions
from engine.state.partition import PartitionStore
from engine.state.view import StateView

MOST_SEGMENTS = 48
"""A partition with more segments waits for compaction before it takes the next epoch: reads stay fast however fast epochs come."""


MOST_EPOCHS_TOGETHER = 64
ENOUGH_ROWS_TOGETHER = 500_000
"""A group that is behind takes epochs together until they have this many rows."""

PartitionKey = tuple[StoreName, PartitionId]


@dataclass(frozen=True)
class Changes:
    """What one or more epochs bring to a partition.

    Attributes:
        batches: Rows, in commit order.
        replaces: Whether all rows of before are removed first.
    """

    batches: tuple[pa.RecordBatch, ...]
    replaces: bool

    def then(self, batch: pa.RecordBatch) -> Changes:
        """These changes, and rows of a later epoch."""
        return Changes((*self.batches, batch), self.replaces)

    def rows(self) -> pa.RecordBatch | None:
        """All rows, in commit order; None where there are none."""
        if len(self.batches) < 2:
            return self.batches[0] if self.batches else None
        if any(TOMBSTONE_COLUMN in batch.schema.names for batch in self.batches):
            return pa.concat_batches([_with_tombstones(batch) for batch in self.batches])
        return pa.concat_batches(self.batches)


def _with_tombstones(batch: pa.RecordBatch) -> pa.RecordBatch:
    if TOMBSTONE_COLUMN in batch.schema.names:
        return batch
    field = pa.field(TOMBSTONE_COLUMN, pa.bool_(), nullable=False)
    return batch.append_column(field, pa.array(np.zeros(batch.num_rows, np.bool_)))


@dataclass(frozen=True)
class PartitionSetup:
    """What opening a partition store takes, the same for all of a host.

    Attributes:
        directory: The data directory.
        cache: Decoded columns.
        options: Sizes.
        buffers: Bound of all RocksDB memtables.
    """

    directory: Path
    cache: ColumnCache
    options: StateOptions
    buffers: WriteBufferManager

    def open(self, definition: StoreDefinition, partition: PartitionId) -> PartitionStore:
        """Open one partition; its directory is made if it is not there."""
        path = self.directory / path_segment(definition.group) / path_segment(definition.name) / str(partition)
        return PartitionStore(definition, partition, path, self.cache, self.options, self.buffers)


@dataclass(frozen=True, eq=False)
class GroupView:
    """All stores of a group at one epoch.

    Attributes:
        epoch: The epoch.
        committed_at: When it was committed, microseconds since 1970 UTC; 0 before the first.
        stores: Every store of the group.
    """

    epoch: Epoch
    committed_at: int
    stores: Mapping[StoreName, StateView]

    @cached_property
    def definitions(self) -> Mapping[StoreName, StoreDefinition]:
        """What the stores are."""
        return {name: store.definition for name, store in self.stores.items()}


class GroupState:
    """The partition stores of a group. One thread at a time moves it forward; `view` may be read by any.

    Args:
        group: The group.
        changelog: Where its commits are.
        setup: How partition stores are opened.
        workers: Runs partitions side by side.
        touched: Is told of each partition store that got rows, for compaction.
    """

    def __init__(
        self,
        group: GroupName,
        changelog: Changelog,
        setup: PartitionSetup,
        workers: Executor,
        touched: Callable[[PartitionStore], None],
    ) -> None:
        self.group = group
        self.view: GroupView | None = None
        self._changelog = changelog
        self._setup = setup
        self._workers = workers
        self._touched = touched
        self._definitions: dict[StoreName, StoreDefinition] = {}
        self._partitions: dict[PartitionKey, PartitionStore] = {}
        self._epoch = Epoch(0)

    @property
    def partitions(self) -> Iterable[PartitionStore]:
        """All open partition stores."""
        return list(self._partitions.values())

    @property
    def definitions(self) -> Mapping[StoreName, StoreDefinition]:
        """The stores that can be asked, or that could if there were a view."""
        view = self.view
        return dict(self._definitions) if view is None else view.definitions

    def add_stores(self, definitions: Iterable[StoreDefinition]) -> None:
        """Open the partitions of stores that are new here.

        A new store joins at the group's epoch: an epoch that brings it rows is never applied before the store is known. At the
        first call partitions can be at several epochs, as a crash or a lost directory left them; `step` brings them together.

        Args:
            definitions: Stores of this group; known ones are passed over.
        """
        new = [definition for definition in definitions if definition.name not in self._definitions]
        for definition in new:
            list(self._workers.map(lambda number, store=definition: self._open(store, PartitionId(number)), range(definition.partitions)))
            self._definitions[definition.name] = definition
        if new and self.view is None:
            epochs = [store.applied for store in self._partitions.values()]
            self._epoch = min(epochs)
            if min(epochs) == max(epochs):
                self._publish()
        elif new:
            self._publish()

    def _open(self, definition: StoreDefinition, number: PartitionId) -> None:
        # A partition that is open already is left of a try in which another one could not be opened.
        if (definition.name, number) not in self._partitions:
            self._partitions[definition.name, number] = self._setup.open(definition, number)

    @property
    def epoch(self) -> Epoch:
        """The epoch that all partitions have reached."""
        return self._epoch

    def step(self) -> bool:
        """Apply the next commits, if there are any.

        A group that is behind takes several epochs at once and shows the last of them: sorting, searching and merging cost less for many
        rows than for the same rows in parts, so a host that falls behind catches up.

        Returns:
            Whether there were any; the group then is that many epochs further, on all partitions at once.

        Raises:
            LivestateError: The next commit cannot be read or applied. Nothing of it is visible, and the next call tries again.
        """
        newest, changes = self._next_changes()
        if newest is None:
            return False
        list(self._workers.map(lambda key: self._apply(newest.epoch, key, changes[key]), changes))
        for key, store in self._partitions.items():
            if key not in changes:
                store.advance(newest.epoch)
        self._epoch = newest.epoch
        if self._is_even():
            self._publish(newest)
        return True

    def _next_changes(self) -> tuple[Commit | None, Mapping[PartitionKey, Changes]]:
        """What the next commits bring together, and the newest of them; None where there is none."""
        newest: Commit | None = None
        changes: dict[PartitionKey, Changes] = {}
        rows = 0
        for epoch in range(self._epoch + 1, self._epoch + 1 + MOST_EPOCHS_TOGETHER):
            try:
                commit = self._changelog.read_commit(self.group, Epoch(epoch))
                if commit is None:
                    break
                self._collect(commit, changes)
            except LivestateError:
                if newest is None:
                    raise
                break  # the commits before it are fine; the next step meets this one first
            newest, rows = commit, rows + commit.rows
            if rows >= ENOUGH_ROWS_TOGETHER:
                break
        return newest, changes

    def _collect(self, commit: Commit, changes: dict[PartitionKey, Changes]) -> None:
        """Add what a commit brings to partitions that have not applied it yet: all of it, or nothing where it cannot be read."""
        unknown = commit.stores - set(self._definitions)
        if unknown:
            self.add_stores(_definition(self._changelog, store) for store in sorted(unknown))
        rows = self._changelog.read_rows(commit, self._definitions, lambda store, number: self._partitions[store, number].applied < commit.epoch)
        for key, store in self._partitions.items():
            if key[0] in commit.replaced and store.applied < commit.epoch:
                changes[key] = Changes((), replaces=True)
        for key, batch in rows.items():
            changes[key] = changes.get(key, Changes((), replaces=False)).then(batch)

    def _apply(self, epoch: Epoch, key: PartitionKey, changes: Changes) -> None:
        store = self._partitions[key]
        if len(store.version.segments) > MOST_SEGMENTS:
            store.compact()
        store.apply(epoch, changes.rows(), replaces=changes.replaces)
        self._touched(store)

    def _publish(self, commit: Commit | None = None) -> None:
        if commit is None:
            commit = self._changelog.read_commit(self.group, self._epoch) if self._epoch else None
            if commit is None and self._epoch:
                raise Unavailable(
                    f"Group {self.group} is at epoch {self._epoch} here, and the changelog has no such epoch: check that it is the right changelog."
                )
        self._show(commit.committed_at if commit else 0)

    def refresh(self) -> None:
        """Show what compaction has made of the partitions: the same rows in fewer segments. Without it a quiet group keeps the old ones."""
        if self.view is not None and self._is_even():
            self._show(self.view.committed_at)

    def _is_even(self) -> bool:
        """Whether no partition is ahead of the group, as some are when an epoch could not be applied to all."""
        return all(store.version.epoch <= self._epoch for store in self._partitions.values())

    def _show(self, committed_at: int) -> None:
        views = {name: self._view(definition, committed_at) for name, definition in self._definitions.items()}
        self.view = GroupView(self._epoch, committed_at, views)

    def _view(self, definition: StoreDefinition, committed_at: int) -> StateView:
        numbers = [PartitionId(number) for number in range(definition.partitions)]
        versions = {number: self._partitions[definition.name, number].version for number in numbers}
        return StateView(definition, self._epoch, committed_at, versions)

    def behind(self) -> str:
        """Which partitions a group without a view still waits for, in words."""
        newest = max((store.applied for store in self._partitions.values()), default=Epoch(0))
        late = [f"{name}/{number}" for (name, number), store in self._partitions.items() if store.applied < newest]
        return f"{', '.join(late[:5])}{' and others' if len(late) > 5 else ''} on the way from epoch {self._epoch} to {newest}"

    def close(self) -> None:
        """Close all partitions and note their epoch."""
        for store in self._partitions.values():
            store.close(self._epoch)


def _definition(changelog: Changelog, store: StoreName) -> StoreDefinition:
    definition = changelog.definition(store)
    if definition is None:
        raise Corrupt(f"The changelog has rows of store {store} and no definition of it: restore the definition from a backup.")
    return definition
