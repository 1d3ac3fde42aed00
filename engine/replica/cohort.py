"""Partition stores of one group that are at the same epoch, and move on through the commits together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, wait
from dataclasses import dataclass

from engine.changelog import Changelog, Commit, Snapshot
from engine.model.schema import Epoch, GroupName
from engine.replica.changes import Changes, add_changes, can_be_taken_with
from engine.replica.commit_queue import CommitQueue, is_large, never_stop
from engine.replica.partition_keys import Definitions, PartitionKey
from engine.state.partition import PartitionStore
from engine.state.partition_shape import Migrated

MOST_SEGMENTS = 48
"""A partition with more segments waits for compaction before it takes the next epoch: reads stay fast however
fast epochs come.
"""


@dataclass(frozen=True)
class CollectedCommits:
    """What one or more commits bring, read and not applied yet.

    Attributes:
        commit: The last of the commits.
        changes: What they bring to each partition that gets anything.
    """

    commit: Commit
    changes: Mapping[PartitionKey, Changes]


class Cohort:
    """Partition stores of a group that move on together. One thread at a time uses it.

    Args:
        group: The group.
        changelog: Where its commits are.
        workers: Runs partitions side by side.
        request_compaction: Is told of each partition store that got rows, for compaction.
        epoch: The epoch that partitions without rows would be at.
        stops_at: Says at which epochs all partitions must stop, however many follow.

    Attributes:
        partitions: The partition stores; those that cannot all take an epoch are at different ones for a
            while.
        epoch: The epoch that all of them have reached.
        digest: As `Commit.digest` of that epoch; empty where it is not known.
        generation: As `Commit.generation` of that epoch.
    """

    def __init__(
        self,
        group: GroupName,
        changelog: Changelog,
        workers: Executor,
        request_compaction: Callable[[PartitionStore], None],
        epoch: Epoch,
        stops_at: Callable[[Commit], bool] = never_stop,
    ) -> None:
        self.partitions: dict[PartitionKey, PartitionStore] = {}
        self.epoch = epoch
        self.digest = ""
        self.generation = 0
        self._group = group
        self._changelog = changelog
        self._workers = workers
        self._request_compaction = request_compaction
        self._queue = CommitQueue(group, changelog, stops_at)
        self._has_failed = False

    @property
    def is_even(self) -> bool:
        """Whether no partition is ahead of the others, as some are when an epoch could not be
        applied to all.
        """
        return all(store.version.epoch <= self.epoch for store in self.partitions.values())

    @property
    def following(self) -> Commit | None:
        """The next commit, if `look_ahead` has read it already."""
        return self._queue.first

    def look_ahead(self, last: Epoch | None = None) -> Sequence[Commit] | None:
        """The commits that follow, as many as may be taken together; as `CommitQueue.fill`.

        Args:
            last: The last epoch to look at; None for no such.

        Raises:
            LivestateError: The very next commit cannot be read.
            DivergedError: It was committed behind another epoch than the partitions have reached.
        """
        return self._queue.fill(self.epoch, self.digest, self.partitions.keys(), last)

    def collect(self, stores_of: Callable[[Commit], Definitions]) -> CollectedCommits:
        """Read what the commits bring that `look_ahead` found, up to a good one to stop at.

        Sorting, searching and merging cost less for many rows than for the same rows in parts, so a host that
        falls behind catches up. The rows of a large commit are left to be read when they are applied.

        Args:
            stores_of: Gives the definitions of all stores of the partitions and of those that a commit has
                rows of, at the commit's generation.

        Raises:
            LivestateError: The very next commit cannot be read; the next call tries again.
        """
        newest: Commit | None = None
        changes: Mapping[PartitionKey, Changes] = {}
        # What was too much together, or stands behind other epochs, is met alone.
        for commit in self._queue.next_commits(is_single=self._has_failed):
            is_alone = is_large(commit, self.partitions.keys())
            try:
                definitions = stores_of(commit)
                if newest is not None and (is_alone or not can_be_taken_with(commit, newest, definitions)):
                    break
                changes = add_changes(
                    changes, self._changelog, commit, definitions, self.partitions, is_large=is_alone
                )
            except Exception:
                if newest is None:
                    self._queue.clear()  # small epochs have their rows in the commit: it is to be read again
                    raise
                break  # the commits before it are fine; the next call meets this one first
            newest = commit
            if is_alone:
                break
        assert newest is not None
        return CollectedCommits(newest, changes)

    def apply(self, collected: CollectedCommits) -> Commit:
        """Apply what commits bring.

        Args:
            collected: As `collect` gave it.

        Returns:
            The commit that all partitions are at now.

        Raises:
            UnreadableRowsError: Rows of a large commit are damaged. The epoch stays.
            LivestateError: It cannot be applied. The epoch stays, and the next `collect` takes the next
                commit alone.
        """
        commit, changes = collected.commit, collected.changes
        self._has_failed = True
        self._run_for_each(lambda key: self._apply(commit, key, changes[key]), changes)
        for key, store in self.partitions.items():
            if key not in changes:
                store.advance(commit.epoch, commit.digest)
        self.epoch, self.digest, self.generation = commit.epoch, commit.digest, commit.generation
        self._has_failed = False
        self._queue.drop(commit.epoch)
        return commit

    def _run_for_each(self, work: Callable[[PartitionKey], None], keys: Iterable[PartitionKey]) -> None:
        """Do something to each of some partitions. Also where it fails for one, all are done when this ends.

        What is tried next is made for the epochs that the partitions have reached: one that still came to
        another would fold its rows twice.
        """
        begun = [self._workers.submit(work, key) for key in keys]
        wait(begun)
        for each in begun:
            each.result()

    def _apply(self, commit: Commit, key: PartitionKey, changes: Changes) -> None:
        store = self.partitions[key]
        if len(store.version.segments) > MOST_SEGMENTS:
            store.compact()
        store.apply(
            commit.epoch,
            changes.rows(),
            replaces=changes.replaces,
            cutoff=changes.cutoff,
            migrated=changes.migrated,
            digest=commit.digest,
        )
        self._request_compaction(store)

    def load(self, snapshot: Snapshot, definitions: Definitions) -> None:
        """Bring the partitions to a snapshot; those that are at its epoch or later stay as they are.

        Args:
            snapshot: A snapshot later than `epoch`.
            definitions: All stores of the partitions, at the snapshot's generation.

        Raises:
            Corrupt: Its rows cannot be read; partitions may be at different epochs now, and all can go on
                from any source.
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
                    snapshot.digest,
                )
                self._request_compaction(store)

        self._run_for_each(restore, self.partitions)
        self.epoch, self.digest, self.generation = snapshot.epoch, snapshot.digest, snapshot.generation
        self._queue.clear()

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
                migrated = Migrated(definitions[key[0]], self.generation)
                store.apply(self.epoch, None, migrated=migrated, digest=self.digest)
        self.partitions.update(partitions)

    def close(self) -> None:
        """Close the partitions and note their epoch."""
        for store in self.partitions.values():
            store.close(self.epoch, self.digest)


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
