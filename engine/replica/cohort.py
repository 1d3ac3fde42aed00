"""Partition stores of one group that are at the same epoch, and move on through the commits together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, wait
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import pyarrow as pa

from engine.changelog import Changelog, Commit, Snapshot
from engine.errors import Corrupt
from engine.model.kinds import WRITTEN_COLUMN, is_applied_alone, time_column
from engine.model.schema import TOMBSTONE_COLUMN, Epoch, GroupName, PartitionId, StoreDefinition, StoreName
from engine.state.partition import PartitionStore
from engine.state.partition_shape import Migrated

MOST_SEGMENTS = 48
"""A partition with more segments waits for compaction before it takes the next epoch: reads stay fast however
fast epochs come.
"""
MOST_EPOCHS_TOGETHER = 64
ENOUGH_ROWS_TOGETHER = 500_000
"""Partitions that are behind take epochs together until they have this many rows."""
ENOUGH_BYTES_TOGETHER = 128 << 20
"""Or this many stored bytes of them: rows can be large, and all of these are in memory."""

PartitionKey = tuple[StoreName, PartitionId]
Definitions = Mapping[StoreName, StoreDefinition]


def stopping_point(first: Epoch, last: Epoch) -> Epoch:
    """Where to stop among epochs that could be taken together: at the one that the highest power of two
    divides.

    Hosts that are behind by different amounts skip different epochs, and a query needs one that none of them
    has skipped. An epoch is skipped only on the way to one with a higher power, so all hosts stop at the
    epochs of a power that is as high as any of them has taken epochs together.

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
        cutoff: The time before which rows are gone, for a store with retention.
        migrated: What the store is from the first of the epochs on; None where the group was not migrated.
    """

    batches: tuple[pa.RecordBatch, ...] = ()
    replaces: bool = False
    cutoff: int | None = None
    migrated: Migrated | None = None

    def then(self, batches: Iterable[pa.RecordBatch]) -> Changes:
        """These changes, and rows of a later epoch."""
        return replace(self, batches=(*self.batches, *batches))

    def rows(self) -> pa.Table | None:
        """All rows, in commit order; None where there are none."""
        if not self.batches:
            return None
        if any(TOMBSTONE_COLUMN in batch.schema.names for batch in self.batches):
            return pa.Table.from_batches([_with_tombstone_column(batch) for batch in self.batches])
        return pa.Table.from_batches(self.batches)


def _with_tombstone_column(batch: pa.RecordBatch) -> pa.RecordBatch:
    if TOMBSTONE_COLUMN in batch.schema.names:
        return batch
    field = pa.field(TOMBSTONE_COLUMN, pa.bool_(), nullable=False)
    return batch.append_column(field, pa.array(np.zeros(batch.num_rows, np.bool_)))


def _goes_with(before: Commit, commit: Commit, definitions: Definitions) -> bool:
    """Whether a commit may be taken together with those before it: rows come and go, and stores are, as if
    they were taken one by one.
    """
    if (commit.cutoffs, commit.generation) != (before.cutoffs, before.generation):
        return False
    return not any(is_applied_alone(definitions[store].behaviour) for store in commit.stores)


def written_at(batch: pa.RecordBatch, definition: StoreDefinition, committed_at: int) -> pa.RecordBatch:
    """Rows of a commit with the time of it, where their retention goes by that.

    Args:
        batch: The rows.
        definition: Their store.
        committed_at: When the commit was made, microseconds since 1970 UTC.
    """
    if time_column(definition.behaviour) != WRITTEN_COLUMN:
        return batch
    field = definition.stored_schema.field(WRITTEN_COLUMN)
    written = pa.repeat(pa.scalar(committed_at, field.type), batch.num_rows)
    return batch.add_column(len(definition.row_schema), field, written)


@dataclass(frozen=True)
class _Load:
    """How much commits bring together.

    Attributes:
        rows: Rows.
        nbytes: Their bytes in the changelog.
    """

    rows: int = 0
    nbytes: int = 0

    @property
    def is_enough(self) -> bool:
        """Whether more would gain nothing, or take too much memory."""
        return self.rows >= ENOUGH_ROWS_TOGETHER or self.nbytes >= ENOUGH_BYTES_TOGETHER

    def __add__(self, other: _Load) -> _Load:
        return _Load(self.rows + other.rows, self.nbytes + other.nbytes)


class CatchUpState(Enum):
    """How the partitions of a cohort get on."""

    COMMITS = "the commits that follow lead on"
    UNSURE = "a snapshot may be the better way, or the only one"
    BLOCKED = "the next commit cannot be used"


def never_stop(commit: Commit) -> bool:
    """No epoch is one to stop at."""
    return False


class Cohort:
    """Partition stores of a group that move on together. One thread at a time uses it.

    Args:
        group: The group.
        changelog: Where its commits are.
        workers: Runs partitions side by side.
        touched: Is told of each partition store that got rows, for compaction.
        epoch: The epoch that partitions without rows would be at.
        stops_at: Says at which epochs all partitions must stop, however many follow.
        generation: As `Commit.generation` of `epoch`.

    Attributes:
        partitions: The partition stores; those that cannot all take an epoch are at different ones for a
            while.
        epoch: The epoch that all of them have reached.
        generation: As `Commit.generation` of that epoch.
        way: How they get on.
    """

    def __init__(
        self,
        group: GroupName,
        changelog: Changelog,
        workers: Executor,
        touched: Callable[[PartitionStore], None],
        epoch: Epoch,
        stops_at: Callable[[Commit], bool] = never_stop,
        generation: int = 0,
    ) -> None:
        self.partitions: dict[PartitionKey, PartitionStore] = {}
        self.epoch = epoch
        self.generation = generation
        self._group = group
        self._changelog = changelog
        self._workers = workers
        self._touched = touched
        self._ahead: deque[Commit] = deque()
        self._stops_at = stops_at
        self._stop: Epoch | None = None
        self._has_failed = False
        self.way = CatchUpState.UNSURE

    @property
    def is_even(self) -> bool:
        """Whether no partition is ahead of the others, as some are when an epoch could not be
        applied to all.
        """
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
        found: list[Commit] = []
        load = sum((self._load(commit) for commit in self._ahead), _Load())
        stop = self._stop
        while len(self._ahead) + len(found) < MOST_EPOCHS_TOGETHER and not load.is_enough and stop is None:
            following = Epoch(self.epoch + len(self._ahead) + len(found) + 1)
            if last is not None and following > last:
                break
            try:
                commit = self._changelog.read_commit(self._group, following)
                if commit is not None and self._stops_at(commit):
                    stop = following
            except Exception as error:
                if not self._ahead and not found:
                    self._lose_way(error)
                    raise
                break  # the commits before it are fine; the next look meets this one first
            if commit is None:
                break
            found.append(commit)
            load += self._load(commit)
        before = Epoch(self.epoch + len(self._ahead))
        if found and before and not self._changelog.holds(self._group, before):
            # What was found behind an epoch that was dropped may not be what was first committed there. Epoch
            # 1 never has rows.
            self._forget()
            self.way = CatchUpState.UNSURE
            return ()
        # Not before it is known that they are the ones that were first committed: what fails until then is
        # done again as a whole.
        self._ahead += found
        self._stop = stop
        return tuple(self._ahead)

    def _lose_way(self, error: Exception) -> None:
        if isinstance(error, Corrupt):
            self.way = CatchUpState.BLOCKED

    def _forget(self) -> None:
        self._ahead.clear()
        self._stop = None

    def _load(self, commit: Commit) -> _Load:
        """What a commit has for partitions of this cohort."""
        parts = [
            part
            for file in commit.files
            for part in file.slices
            if (part.store, part.partition) in self.partitions
        ]
        return _Load(sum(part.rows for part in parts), sum(part.length for part in parts))

    def take(self, stores_of: Callable[[Commit], Definitions]) -> Commit:
        """Apply the commits that `look_ahead` found, up to a good one to stop at.

        Sorting, searching and merging cost less for many rows than for the same rows in parts, so a host that
        falls behind catches up.

        Args:
            stores_of: Gives the definitions of all stores of the partitions and of those that a commit has
                rows of, at the commit's generation.

        Returns:
            The commit that all partitions are at now.

        Raises:
            LivestateError: The next commit cannot be read or applied. The epoch stays, and the next call
                tries again, with this commit alone.
        """
        first = self._ahead[0].epoch
        # What was too much together, or stands behind other epochs, is met alone.
        stop = first if self._has_failed else stopping_point(first, self._ahead[-1].epoch)
        newest: Commit | None = None
        changes: dict[PartitionKey, Changes] = {}
        for commit in self._ahead:
            if commit.epoch > stop:
                break
            try:
                definitions = stores_of(commit)
                if newest is not None and not _goes_with(newest, commit, definitions):
                    break
                self._collect(commit, definitions, changes)
            except Exception as error:
                if newest is None:
                    self._forget()  # small epochs have their rows in the commit: it is to be read again
                    self._lose_way(error)
                    raise
                break  # the commits before it are fine; the next call meets this one first
            newest = commit
        assert newest is not None
        self._has_failed = True
        self._apply_all(newest.epoch, changes)
        self._has_failed = False
        self.generation = newest.generation
        while self._ahead and self._ahead[0].epoch <= newest.epoch:
            self._ahead.popleft()
        if self._stop is not None and self._stop <= newest.epoch:
            self._stop = None
        return newest

    def _collect(
        self, commit: Commit, definitions: Definitions, changes: dict[PartitionKey, Changes]
    ) -> None:
        """Add what a commit brings to partitions that have not applied it yet: all of it, or nothing where it
        cannot be read.
        """

        def lacks(store: StoreName, number: PartitionId) -> bool:
            partition = self.partitions.get((store, number))
            return partition is not None and partition.applied < commit.epoch

        rows = self._changelog.read_rows(commit, definitions, lacks)
        for key, store in self.partitions.items():
            if store.applied >= commit.epoch:
                continue
            cutoff = commit.cutoffs.get(key[0])
            if key[0] in commit.replaced:
                changes[key] = Changes(replaces=True, cutoff=cutoff)
            elif cutoff is not None and key not in changes and store.advances_cutoff(cutoff):
                changes[key] = Changes(cutoff=cutoff)
            if commit.generation != store.generation:
                migrated = Migrated(definitions[key[0]], commit.generation)
                changes[key] = replace(changes.get(key, Changes(cutoff=cutoff)), migrated=migrated)
        for key, table in rows.items():
            known = changes.get(key, Changes(cutoff=commit.cutoffs.get(key[0])))
            changes[key] = known.then(
                written_at(batch, definitions[key[0]], commit.committed_at) for batch in table.to_batches()
            )

    def _apply_all(self, epoch: Epoch, changes: Mapping[PartitionKey, Changes]) -> None:
        self._side_by_side(lambda key: self._apply(epoch, key, changes[key]), changes)
        for key, store in self.partitions.items():
            if key not in changes:
                store.advance(epoch)
        self.epoch = epoch

    def _side_by_side(self, work: Callable[[PartitionKey], None], keys: Iterable[PartitionKey]) -> None:
        """Do something to each of some partitions. Also where it fails for one, all are done when this ends.

        What is tried next is made for the epochs that the partitions have reached: one that still came to
        another would fold its rows twice.
        """
        begun = [self._workers.submit(work, key) for key in keys]
        wait(begun)
        for each in begun:
            each.result()

    def _apply(self, epoch: Epoch, key: PartitionKey, changes: Changes) -> None:
        store = self.partitions[key]
        if len(store.version.segments) > MOST_SEGMENTS:
            store.compact()
        store.apply(
            epoch, changes.rows(), replaces=changes.replaces, cutoff=changes.cutoff, migrated=changes.migrated
        )
        self._touched(store)

    def load(self, snapshot: Snapshot, definitions: Definitions) -> None:
        """Bring the partitions to a snapshot; those that are at its epoch or later stay as they are.

        Args:
            snapshot: A snapshot later than `epoch`.
            definitions: All stores of the partitions, at the snapshot's generation.

        Raises:
            Corrupt: Its rows cannot be read; partitions may be at different epochs now, and all can go on
                from any way.
            LivestateError: Likewise; the changelog cannot be reached, or the disk is full.
        """
        snapshots = self._changelog.snapshots(self._group)

        def restore(key: PartitionKey) -> None:
            store = self.partitions[key]
            if store.applied < snapshot.epoch:
                definition = definitions[key[0]]
                batches = snapshots.batches(snapshot, definition, key[1])
                store.restore(
                    snapshot.epoch,
                    batches,
                    snapshot.cutoffs.get(key[0]),
                    Migrated(definition, snapshot.generation),
                )
                self._touched(store)

        self._side_by_side(restore, self.partitions)
        self.epoch, self.generation = snapshot.epoch, snapshot.generation
        self._forget()

    def join(self, partitions: Mapping[PartitionKey, PartitionStore], definitions: Definitions) -> None:
        """Take in partitions that are at the cohort's epoch, or have nothing to get from the epochs up to it
        but what their store is by then.

        Args:
            partitions: The partitions.
            definitions: All stores of them, at the cohort's generation.

        Raises:
            LimitExceeded: The disk is full; none is taken in.
            Unavailable: The disk does not answer; likewise.
        """
        for key, store in partitions.items():
            if store.generation < self.generation:
                store.apply(self.epoch, None, migrated=Migrated(definitions[key[0]], self.generation))
        self.partitions.update(partitions)

    def close(self) -> None:
        """Close the partitions and note their epoch."""
        for store in self.partitions.values():
            store.close(self.epoch)


def late_partitions(partitions: Mapping[PartitionKey, PartitionStore], far: int) -> frozenset[PartitionKey]:
    """The partitions that are so far behind the others that these should not wait for them.

    Args:
        partitions: Partition stores as they were opened.
        far: How many epochs a partition may be behind the newest without being late; one at epoch 0 always is
            late, if others are not.
    """
    newest = max((store.applied for store in partitions.values()), default=Epoch(0))
    return frozenset(
        key
        for key, store in partitions.items()
        if store.applied < newest and (not store.applied or store.applied < newest - far)
    )


def names_of(partitions: Iterable[PartitionKey], most: int = 5) -> str:
    """Partitions in words."""
    names = [f"{store}/{number}" for store, number in partitions]
    return f"{', '.join(names[:most])}{' and others' if len(names) > most else ''}"
