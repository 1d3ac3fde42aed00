"""Partition stores of one group that are at the same epoch, and move on through the commits together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from engine.changelog import Changelog, Commit
from engine.errors import LivestateError
from engine.schema import TOMBSTONE_COLUMN, Epoch, GroupName, PartitionId, StoreDefinition, StoreName
from engine.state.partition import PartitionStore

MOST_SEGMENTS = 48
"""A partition with more segments waits for compaction before it takes the next epoch: reads stay fast however fast epochs come."""
MOST_EPOCHS_TOGETHER = 64
ENOUGH_ROWS_TOGETHER = 500_000
"""Partitions that are behind take epochs together until they have this many rows."""

PartitionKey = tuple[StoreName, PartitionId]
Definitions = Mapping[StoreName, StoreDefinition]


def stopping_point(first: Epoch, last: Epoch) -> Epoch:
    """Where to stop among epochs that could be taken together: at the one that the highest power of two divides.

    Hosts that are behind by different amounts skip different epochs, and a query needs one that none of them has skipped. An epoch is skipped only
    on the way to one with a higher power, so all hosts stop at the epochs of a power that is as high as any of them has taken epochs together.

    Args:
        first: The next epoch, at least 1.
        last: The last one within reach.

    Returns:
        An epoch from `first` to `last`. Of more epochs with the same `first` it is never an earlier one.
    """
    stop = int(last)
    while (higher := stop & (stop - 1)) >= first:
        stop = higher
    return Epoch(stop)


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


class Cohort:
    """Partition stores of a group that move on together. One thread at a time uses it.

    Args:
        group: The group.
        changelog: Where its commits are.
        workers: Runs partitions side by side.
        touched: Is told of each partition store that got rows, for compaction.
        epoch: The epoch that partitions without rows would be at.

    Attributes:
        partitions: The partition stores; those that cannot all take an epoch are at different ones for a while.
        epoch: The epoch that all of them have reached.
    """

    def __init__(self, group: GroupName, changelog: Changelog, workers: Executor, touched: Callable[[PartitionStore], None], epoch: Epoch) -> None:
        self.partitions: dict[PartitionKey, PartitionStore] = {}
        self.epoch = epoch
        self._group = group
        self._changelog = changelog
        self._workers = workers
        self._touched = touched
        self._ahead: deque[Commit] = deque()

    @property
    def is_even(self) -> bool:
        """Whether no partition is ahead of the others, as some are when an epoch could not be applied to all."""
        return all(store.version.epoch <= self.epoch for store in self.partitions.values())

    @property
    def following(self) -> Commit | None:
        """The next commit, if `look_ahead` has read it already."""
        return self._ahead[0] if self._ahead else None

    def look_ahead(self, last: Epoch | None = None) -> Sequence[Commit]:
        """The commits that follow, as many as may be taken together.

        Args:
            last: The last epoch to look at; None for no such.

        Returns:
            The commits in order, without gaps; none where nothing is new.

        Raises:
            LivestateError: The very next commit cannot be read.
        """
        rows = sum(self._rows(commit) for commit in self._ahead)
        while len(self._ahead) < MOST_EPOCHS_TOGETHER and rows < ENOUGH_ROWS_TOGETHER:
            following = Epoch(self.epoch + len(self._ahead) + 1)
            if last is not None and following > last:
                break
            try:
                commit = self._changelog.read_commit(self._group, following)
            except LivestateError:
                if not self._ahead:
                    raise
                break  # the commits before it are fine; the next look meets this one first
            if commit is None:
                break
            self._ahead.append(commit)
            rows += self._rows(commit)
        return tuple(self._ahead)

    def _rows(self, commit: Commit) -> int:
        """Rows of a commit for partitions of this cohort."""
        return sum(part.rows for file in commit.files for part in file.slices if (part.store, part.partition) in self.partitions)

    def take(self, stores_of: Callable[[Commit], Definitions]) -> Commit:
        """Apply the commits that `look_ahead` found, up to a good one to stop at.

        Sorting, searching and merging cost less for many rows than for the same rows in parts, so a host that falls behind catches up.

        Args:
            stores_of: Gives the definitions of all stores that a commit has rows of.

        Returns:
            The commit that all partitions are at now.

        Raises:
            LivestateError: The next commit cannot be read or applied. The epoch stays, and the next call tries again.
        """
        stop = stopping_point(self._ahead[0].epoch, self._ahead[-1].epoch)
        newest: Commit | None = None
        changes: dict[PartitionKey, Changes] = {}
        for commit in self._ahead:
            if commit.epoch > stop:
                break
            try:
                self._collect(commit, stores_of(commit), changes)
            except LivestateError:
                if newest is None:
                    self._ahead.clear()  # small epochs have their rows in the commit: it is to be read again
                    raise
                break  # the commits before it are fine; the next call meets this one first
            newest = commit
        assert newest is not None
        self._apply_all(newest.epoch, changes)
        while self._ahead and self._ahead[0].epoch <= newest.epoch:
            self._ahead.popleft()
        return newest

    def _collect(self, commit: Commit, definitions: Definitions, changes: dict[PartitionKey, Changes]) -> None:
        """Add what a commit brings to partitions that have not applied it yet: all of it, or nothing where it cannot be read."""

        def lacks(store: StoreName, number: PartitionId) -> bool:
            partition = self.partitions.get((store, number))
            return partition is not None and partition.applied < commit.epoch

        rows = self._changelog.read_rows(commit, definitions, lacks)
        for key, store in self.partitions.items():
            if key[0] in commit.replaced and store.applied < commit.epoch:
                changes[key] = Changes((), replaces=True)
        for key, batch in rows.items():
            changes[key] = changes.get(key, Changes((), replaces=False)).then(batch)

    def _apply_all(self, epoch: Epoch, changes: Mapping[PartitionKey, Changes]) -> None:
        list(self._workers.map(lambda key: self._apply(epoch, key, changes[key]), changes))
        for key, store in self.partitions.items():
            if key not in changes:
                store.advance(epoch)
        self.epoch = epoch

    def _apply(self, epoch: Epoch, key: PartitionKey, changes: Changes) -> None:
        store = self.partitions[key]
        if len(store.version.segments) > MOST_SEGMENTS:
            store.compact()
        store.apply(epoch, changes.rows(), replaces=changes.replaces)
        self._touched(store)

    def join(self, partitions: Mapping[PartitionKey, PartitionStore]) -> None:
        """Take in partitions that are at the cohort's epoch, or have nothing to get from the epochs up to it."""
        self.partitions.update(partitions)

    def close(self) -> None:
        """Close the partitions and note their epoch."""
        for store in self.partitions.values():
            store.close(self.epoch)


def late_partitions(partitions: Mapping[PartitionKey, PartitionStore], far: int) -> frozenset[PartitionKey]:
    """The partitions that are so far behind the others that these should not wait for them.

    Args:
        partitions: Partition stores as they were opened.
        far: How many epochs a partition may be behind the newest without being late; one at epoch 0 always is late, if others are not.
    """
    newest = max((store.applied for store in partitions.values()), default=Epoch(0))
    return frozenset(key for key, store in partitions.items() if store.applied < newest and (not store.applied or store.applied < newest - far))


def names_of(partitions: Iterable[PartitionKey], most: int = 5) -> str:
    """Partitions in words."""
    names = [f"{store}/{number}" for store, number in partitions]
    return f"{', '.join(names[:most])}{' and others' if len(names) > most else ''}"
