"""Partition stores of one group that are at the same epoch, and move on through the commits together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from threading import Event
from typing import TypeVar

import pyarrow as pa

from engine.changelog import Changelog, Commit, Snapshot
from engine.errors import Cancelled, Unavailable
from engine.model.schema import Epoch, GroupName, StoreDefinitions, StoreName
from engine.replica.build_meter import BuildMeter
from engine.replica.changes import Changes, add_changes, can_be_taken_with
from engine.replica.commit_queue import CommitQueue, is_large, never_stop, own_bytes
from engine.replica.partition_keys import PartitionKey
from engine.replica.reached_epoch import FINGERPRINTS, fingerprint_of
from engine.state.partition import PartitionStore
from engine.state.partition_shape import Migrated

MOST_SEGMENTS = 48
"""A partition with more segments waits for compaction before it takes the next epoch: reads stay fast however
fast epochs come.
"""
EPOCHS_BETWEEN_ADVANCES = 32
"""Partitions without rows are looked at this often, whether they are to note their epoch."""
_Item = TypeVar("_Item")
BUILT_TOGETHER = 2
"""Partitions of a group that are built at once, so that several groups that are built get on together."""


@dataclass(frozen=True)
class CollectedCommits:
    """What one or more commits bring, read and not applied yet.

    Attributes:
        commit: The last of the commits.
        changes: What they bring to each partition that gets anything.
        is_large: Whether rows are read while they are applied.
    """

    commit: Commit
    changes: Mapping[PartitionKey, Changes]
    is_large: bool = False


class Cohort:
    """Partition stores of a group that move on together. One thread at a time uses it.

    Args:
        group: The group.
        changelog: Where its commits are.
        workers: Runs partitions side by side.
        request_compaction: Is told of each partition store that got rows, for compaction.
        epoch: The epoch that partitions without rows would be at.
        stops_at: Says at which epochs all partitions must stop, however many follow.
        builders: Runs partitions side by side for what takes long; `workers` by default.
        large_workers: Likewise for large epochs of a group that can be read.
        stopping: Ends what takes long when it is set.
        clock: Gives the time in seconds that never go back.

    Attributes:
        meter: Counts what is read.
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
        builders: Executor | None = None,
        large_workers: Executor | None = None,
        stopping: Event | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.meter = BuildMeter(clock)
        self.partitions: dict[PartitionKey, PartitionStore] = {}
        self.epoch = epoch
        self.digest = ""
        self.generation = 0
        self._group = group
        self._changelog = changelog
        self._workers = workers
        self._request_compaction = request_compaction
        self._builders = builders or workers
        self._large_workers = large_workers or workers
        self._stopping = stopping or Event()
        self._queue = CommitQueue(group, changelog, stops_at)
        self._has_failed = False
        self._uncompacted: list[PartitionStore] = []
        """Partitions that got rows, and for which compaction was not requested since."""
        self._unwritten: set[PartitionStore] = set()
        """Partitions that have something in memory that is not written, unless a merge has written it."""
        self._has_failed_to_write = False
        # Kept, so that an epoch costs what it touches: there can be thousands of partitions.
        self._is_even = False
        self._fingerprint: int | None = None

    @property
    def is_even(self) -> bool:
        """Whether no partition is ahead of the others, as some are when an epoch could not be
        applied to all.
        """
        if not self._is_even:
            self._is_even = all(store.version.epoch <= self.epoch for store in self.partitions.values())
        return self._is_even

    @property
    def fingerprint(self) -> int:
        """As `fingerprint_of` the partitions."""
        if self._fingerprint is None:
            self._fingerprint = fingerprint_of(self.partitions.values())
        return self._fingerprint

    @property
    def is_written(self) -> bool:
        """Whether nothing of the partitions is in memory alone."""
        return not self._unwritten

    def write(self) -> None:
        """Have the partitions write what they have in memory alone.

        Raises:
            LimitExceeded: The disk is full; the next call tries again.
            Unavailable: The disk does not answer; likewise.
        """
        self._fingerprint, self._has_failed_to_write = None, True
        self._run_each(lambda store: store.write(), self._unwritten)
        self._unwritten.clear()
        self._has_failed_to_write = False

    def add(self, partitions: Mapping[PartitionKey, PartitionStore]) -> None:
        """Take in partition stores, at whatever epochs they are."""
        self.partitions.update(partitions)
        self._unwritten.update(store for store in partitions.values() if not store.is_written)
        self._is_even, self._fingerprint = False, None

    def remove(self, partitions: Iterable[PartitionKey]) -> None:
        """Let go of some partition stores, if they are here; they are closed elsewhere."""
        removed = {self.partitions.pop(key) for key in list(partitions) if key in self.partitions}
        if removed:
            self._unwritten -= removed
            self._uncompacted = [store for store in self._uncompacted if store not in removed]
            self._fingerprint = None

    @property
    def following(self) -> Commit | None:
        """The next commit, if `look_ahead` has read it already."""
        return self._queue.first

    @property
    def nbytes_ahead(self) -> int:
        """Stored bytes of the commits that `look_ahead` has read already."""
        return self._queue.nbytes(self.partitions.keys())

    def look_ahead(self, last: Epoch | None = None) -> Sequence[Commit] | None:
        """The commits that follow, as many as may be taken together; as `CommitQueue.fill`.

        Args:
            last: The last epoch to look at; None for no such.

        Raises:
            LivestateError: The very next commit cannot be read.
            DivergedError: It was committed behind another epoch than the partitions have reached.
        """
        commits = self._queue.fill(self.epoch, self.digest, self.partitions.keys(), last)
        if commits and self.meter.reached is None:
            self.meter.reached = commits[0].written - commits[0].nbytes
        return commits

    def next_commits(self, *, is_readable: bool = False) -> Sequence[Commit]:
        """The commits that `look_ahead` found and that may be taken together, at least one.

        Sorting, searching and merging cost less for many rows than for the same rows in parts, so a host that
        falls behind catches up.

        Args:
            is_readable: Whether the group can be read, so that small epochs that have just come are taken one
                by one.
        """
        # What was too much together, or stands behind other epochs, is met alone.
        return self._queue.next_commits(
            self.partitions.keys(), is_single=self._has_failed, is_readable=is_readable
        )

    def collect(
        self, commit: Commit, definitions: StoreDefinitions, before: CollectedCommits | None = None
    ) -> CollectedCommits | None:
        """Read what a commit brings. The rows of a large one are left to be read when they are applied.

        Args:
            commit: The first of `next_commits`, or the one behind `before`.
            definitions: All stores of the partitions and of those that the commit has rows of, at the
                commit's generation.
            before: What the commits before it bring.

        Returns:
            What all of them bring; None where the commit cannot be taken with those before it.

        Raises:
            LivestateError: It cannot be read.
        """
        is_alone = is_large(commit, self.partitions.keys())
        if before is not None and (
            before.is_large or is_alone or not can_be_taken_with(commit, before.commit, definitions)
        ):
            return None
        changes = add_changes(
            {} if before is None else before.changes,
            self._changelog,
            commit,
            definitions,
            self._partitions_touched(commit),
            is_large=is_alone,
        )
        return CollectedCommits(commit, changes, is_alone)

    def forget_commits(self) -> None:
        """Have the commits read again that `look_ahead` found: small epochs have their rows in them."""
        self._queue.clear()

    def _partitions_touched(self, commit: Commit) -> Mapping[PartitionKey, PartitionStore]:
        """The partitions that a commit may bring anything to, or that may have it already."""
        brings_rows_alone = (
            not commit.cutoffs and not commit.replaced and commit.generation == self.generation
        )
        if not (brings_rows_alone and self.is_even):
            return self.partitions
        return {key: self.partitions[key] for key in commit.places if key in self.partitions}

    def apply(self, collected: CollectedCommits, *, is_readable: bool = False) -> Commit:
        """Apply what commits bring.

        Args:
            collected: As `collect` gave it.
            is_readable: Whether the group can be read: what is large does not wait behind builds then.

        Returns:
            The commit that all partitions are at now.

        Raises:
            UnreadableRowsError: Rows of a large commit are damaged. The epoch stays.
            Cancelled: The host stops, and the commit is a large one.
            LivestateError: It cannot be applied. The epoch stays, and the next `collect` takes the next
                commit alone.
        """
        commit, changes = collected.commit, collected.changes
        read = 0 if self.meter.reached is None else commit.written - self.meter.reached
        self.meter.begin_step(commit.written, read, own_bytes(commit, self.partitions.keys()))
        was_even = self.is_even
        touched = [self.partitions[key] for key in changes]
        # A disk that takes nothing stops the group, before memory is full.
        is_buffered = is_readable and not collected.is_large and not self._has_failed_to_write
        if is_buffered:
            self._unwritten.update(touched)
        untouched = None if is_buffered else self.fingerprint - fingerprint_of(touched)
        self._has_failed, self._is_even, self._fingerprint = True, False, None
        try:
            if collected.is_large:
                workers = self._large_workers if is_readable else self._builders
                self._build_each(lambda key: self._build(commit, key, changes[key]), changes, workers)
            else:
                self._apply_each(commit, changes, is_buffered=is_buffered)
        except BaseException:
            self._queue.clear()  # the changelog may have other commits by now: they are to be read again
            self.request_compaction()
            raise
        if commit.epoch // EPOCHS_BETWEEN_ADVANCES > self.epoch // EPOCHS_BETWEEN_ADVANCES:
            for key, store in self.partitions.items():
                if key not in changes:
                    store.advance(commit.epoch, commit.digest)
        elif untouched is not None:
            self._fingerprint = (untouched + fingerprint_of(touched)) % FINGERPRINTS
        self.epoch, self.digest, self.generation = commit.epoch, commit.digest, commit.generation
        self._has_failed, self._is_even = False, was_even
        self._queue.drop(commit.epoch)
        self.meter.end_step()
        return commit

    def _apply_each(
        self, commit: Commit, changes: Mapping[PartitionKey, Changes], *, is_buffered: bool
    ) -> None:
        """Apply changes to each partition. Also where it fails for one, all are done when this ends: what is
        tried next is made for the epochs that the partitions have reached, and one that still came to another
        would fold its rows twice.
        """
        self._uncompacted += [self.partitions[key] for key in changes]
        self._run_each(lambda key: self._apply(commit, key, changes[key], is_buffered=is_buffered), changes)

    def _run_each(self, work: Callable[[_Item], None], items: Iterable[_Item]) -> None:
        """Do something for each item, side by side. Also where that fails, all are done when this ends."""
        begun = [self._workers.submit(work, item) for item in items]
        wait(begun)
        for each in begun:
            each.result()

    def request_compaction(self) -> None:
        """Have the partitions compacted that got rows. Once these can be read: merges would take processors
        and the interpreter from what readers wait for.
        """
        for store in self._uncompacted:
            self._request_compaction(store)
        self._uncompacted.clear()

    def _build_each(
        self, work: Callable[[PartitionKey], None], keys: Iterable[PartitionKey], workers: Executor
    ) -> None:
        """As `_apply_each` for what takes long: beside what is to be soon, and a few at once. What is not
        begun when one fails, or the host stops, is not done.
        """
        waiting, begun = list(keys), set[Future[None]]()
        failures: list[BaseException] = []
        while begun or waiting:
            while waiting and len(begun) < BUILT_TOGETHER:
                begun.add(workers.submit(work, waiting.pop(0)))
            done, begun = wait(begun, return_when=FIRST_COMPLETED)
            failures += [error for error in (each.exception() for each in done) if error is not None]
            if failures or self._stopping.is_set():
                waiting.clear()
        if failures:
            raise failures[0]
        self._check_not_stopping()

    def _check_not_stopping(self) -> None:
        if self._stopping.is_set():
            raise Cancelled("The host stops; what it was building is begun again at its next start.")

    def _batches_until_stop(
        self, batches: Iterable[pa.RecordBatch], store: StoreName, generation: int
    ) -> Iterator[pa.RecordBatch]:
        """Batches, until the host stops, or hears that they are of a store that was dropped.

        Args:
            batches: The batches.
            store: The store that they are of.
            generation: As of the commit or snapshot that has them.
        """
        for batch in batches:
            self._check_not_stopping()
            if self._changelog.exclusions(self._group).is_dropped(store, generation):
                raise Unavailable(f"Store {store} was dropped: what was being built of it is given up.")
            yield batch

    def _apply(
        self, commit: Commit, key: PartitionKey, changes: Changes, *, is_buffered: bool = False
    ) -> None:
        store = self.partitions[key]
        if len(store.version.segments) > MOST_SEGMENTS:
            store.compact()
        rows = changes.rows()
        if rows is not None and changes.unread is not None:
            rows = self.meter.count_batches(
                self._batches_until_stop(rows, key[0], commit.generation), own_bytes(commit, (key,))
            )
        store.apply(
            commit.epoch,
            rows,
            replaces=changes.replaces,
            cutoff=changes.cutoff,
            migrated=changes.migrated,
            digest=commit.digest,
            is_buffered=is_buffered,
        )

    def _build(self, commit: Commit, key: PartitionKey, changes: Changes) -> None:
        """As `_apply`, for a commit that takes long."""
        self._apply(commit, key, changes)
        self._request_compaction(self.partitions[key])

    def load(self, snapshot: Snapshot, definitions: StoreDefinitions) -> None:
        """Bring the partitions to a snapshot; those that are at its epoch or later stay as they are.

        Args:
            snapshot: A snapshot later than `epoch`.
            definitions: All stores of the partitions, at the snapshot's generation.

        Raises:
            Corrupt: Its rows cannot be read; partitions may be at different epochs now, and all can go on
                from any source.
            Cancelled: The host stops.
            LivestateError: Likewise; the changelog cannot be reached, or the disk is full.
        """
        snapshots = self._changelog.snapshots(self._group)
        self._is_even, self._fingerprint = False, None
        stored = snapshot.partition_bytes
        needed = [key for key, store in self.partitions.items() if store.applied < snapshot.epoch]
        own = sum(stored.get(key, 0) for key in needed)
        self.meter.begin_step(snapshot.written, snapshot.nbytes, own)

        def restore(key: PartitionKey) -> None:
            store = self.partitions[key]
            if store.applied < snapshot.epoch:
                definition = definitions[key[0]]
                found = self._batches_until_stop(
                    snapshots.batches(snapshot, definition, key[1]), key[0], snapshot.generation
                )
                batches = self.meter.count_batches(found, stored.get(key, 0))
                store.restore(
                    snapshot.epoch,
                    batches,
                    snapshot.cutoffs.get(key[0]),
                    Migrated(definition, snapshot.generation),
                    snapshot.digest,
                )
                self._request_compaction(store)

        self._build_each(restore, self.partitions, self._builders)
        self.epoch, self.digest, self.generation = snapshot.epoch, snapshot.digest, snapshot.generation
        self._queue.clear()
        self.meter.end_step()

    def join(self, partitions: Mapping[PartitionKey, PartitionStore], definitions: StoreDefinitions) -> None:
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
        self.add(partitions)

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
