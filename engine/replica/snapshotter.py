"""Writes snapshots of what a host holds, beside the thread that follows the changelog, and drops what they
make dispensable.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from threading import Event, Lock, Thread

import pyarrow as pa

from engine.changelog import Changelog, Commit, SnapshotRetention
from engine.changelog.snapshot import MIB, Mark, StorePartition, is_due
from engine.changelog.snapshots import FILE_BYTES
from engine.errors import Cancelled
from engine.model.schema import GroupName, PartitionId, StoreDefinition
from engine.processes.right_of_way import lower_priority
from engine.replica.failures import Failures, log_failure
from engine.replica.group_views import GroupView
from engine.state.live_rows import live_rows

_log = logging.getLogger(__name__)


def first_rank(definition: StoreDefinition, partition: PartitionId) -> int:
    """The rank of a host that nobody shares partitions with."""
    return 0


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
        look_seconds: How often a host looks whether the others have written theirs.
        retry_seconds: How long a host waits after a failure.
        give_up_seconds: After this time a snapshot that is not complete is left to be.
    """

    after_bytes: int = 256 * MIB
    retention: SnapshotRetention = field(default_factory=SnapshotRetention)
    rank: Callable[[StoreDefinition, PartitionId], int] = first_rank
    patience_seconds: float = 30.0
    look_seconds: float = 1.0
    retry_seconds: float = 10.0
    give_up_seconds: float = 600.0


class Schedule:
    """Says at which epochs of a group snapshots are due. For one thread.

    Args:
        changelog: The changelog.
        group: The group.
        after_bytes: As `SnapshotOptions.after_bytes`.
    """

    def __init__(self, changelog: Changelog, group: GroupName, after_bytes: int) -> None:
        self._snapshots = changelog.snapshots(group)
        self._after_bytes = after_bytes
        self._mark: Mark | None = None

    def is_due(self, commit: Commit) -> bool:
        """Whether a snapshot is due at a commit's epoch. Only then, and the first time, the changelog is
        asked for newer snapshots.

        Raises:
            Unavailable: The changelog cannot be reached.
        """
        if not self._after_bytes:
            return False
        if self._mark is None:
            self._mark = Mark.from_snapshot(self._snapshots.newest_snapshot())
        if is_due(self._mark, commit, self._after_bytes):
            self._mark = Mark.from_snapshot(self._snapshots.newest_snapshot())
        return is_due(self._mark, commit, self._after_bytes)


class SnapshotMaker:
    """Writes what a host holds into snapshots, and makes them count when all hosts have done so. For one
    thread.

    Args:
        changelog: The changelog.
        options: When, and what stays.
        now: Gives the time, microseconds since 1970 UTC.
        stopping: Ends what is being written when it is set.
    """

    def __init__(
        self, changelog: Changelog, options: SnapshotOptions, now: Callable[[], int], stopping: Event
    ) -> None:
        self._changelog = changelog
        self._options = options
        self._now = now
        self._stopping = stopping

    def advance(self, view: GroupView, commit: Commit, waited: float) -> bool:
        """Do what there is to do for a snapshot now.

        Args:
            view: What this host holds at the epoch.
            commit: The commit of the epoch.
            waited: Seconds since the snapshot was due.

        Returns:
            Whether that was all: the snapshot counts, or a later one does.

        Raises:
            LivestateError: The changelog cannot be reached or is full, or the host's state cannot be read.
                Call it again.
        """
        snapshots = self._changelog.snapshots(view.group)
        if any(epoch >= view.epoch for epoch in snapshots.epochs()):
            return True
        covered = frozenset[StorePartition]().union(*(part.covers for part in snapshots.parts(view.epoch)))
        mine = [
            place
            for place in _held_partitions(view)
            if place not in covered and self._is_my_turn(view, place, waited)
        ]
        if mine:
            snapshots.write_part(
                view.epoch, view.definitions, mine, self._rows(view, mine), view.generation, commit.digest
            )
        wanted = [
            (name, PartitionId(number))
            for name, definition in view.definitions.items()
            for number in range(definition.partitions)
        ]
        newest = self._changelog.read_commit(view.group, view.epoch)
        if newest is None or newest.digest != commit.digest:
            return True  # the changelog has another history by now, of which this would be no snapshot
        if not snapshots.commit(commit, wanted):
            return False
        dropped = self._changelog.drop(view.group, self._options.retention, self._now())
        _log.info(
            "Group %s has a snapshot at epoch %d; %d epochs before were dropped.",
            view.group,
            view.epoch,
            dropped.epochs,
        )
        return True

    def _is_my_turn(self, view: GroupView, place: StorePartition, waited: float) -> bool:
        name, partition = place
        return (
            waited >= self._options.rank(view.definitions[name], partition) * self._options.patience_seconds
        )

    def _rows(
        self, view: GroupView, places: Collection[StorePartition]
    ) -> Iterator[tuple[StorePartition, pa.RecordBatch]]:
        for name, partition in places:
            for batch in live_rows(view.stores[name].versions[partition], FILE_BYTES):
                if self._stopping.is_set():
                    raise Cancelled(
                        "The host stops; the snapshot is left to other hosts, or to a later epoch."
                    )
                yield (name, partition), batch


def _held_partitions(view: GroupView) -> Collection[StorePartition]:
    """The partitions that a host holds at a view, in an order in which those of a store are neighbours."""
    return [
        (name, partition)
        for name, store in sorted(view.stores.items())
        for partition in sorted(store.versions)
    ]


@dataclass
class _Task:
    """A snapshot that is to be made.

    Attributes:
        view: What the host holds at its epoch.
        commit: The commit of the epoch.
        since: When it was asked for, by the monotonic clock.
        next_look: When there is something to do next.
    """

    view: GroupView
    commit: Commit
    since: float
    next_look: float

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"The snapshot of group {self.view.group}"


class Snapshotter:
    """The thread that writes a host's part of snapshots, beside the one that follows the changelog.

    Args:
        changelog: The changelog.
        options: When, and what stays.
        now: Gives the time, microseconds since 1970 UTC.
    """

    def __init__(self, changelog: Changelog, options: SnapshotOptions, now: Callable[[], int]) -> None:
        self._options = options
        self._tasks: dict[GroupName, _Task] = {}
        self._lock = Lock()
        self._wake, self._stopping = Event(), Event()
        self._maker = SnapshotMaker(changelog, options, now, self._stopping)
        self._failures: Failures[str] = Failures(options.retry_seconds)
        self._thread = Thread(target=self._run, name="snapshot", daemon=True)

    def problem(self, group: GroupName) -> str:
        """Why a group's snapshot does not get on, in one sentence; empty where nothing is wrong, or none is
        due.
        """
        with self._lock:
            task = self._tasks.get(group)
        return "" if task is None else self._failures.problem(task.name)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; what it has begun to write is removed."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def take(self, view: GroupView, commit: Commit) -> None:
        """Have a snapshot made. An older one of the group that is not complete yet is left to the other
        hosts.

        Args:
            view: What this host holds at the epoch; it is kept until the snapshot is made.
            commit: The commit of the epoch.
        """
        clock = time.monotonic()
        with self._lock:
            self._tasks[view.group] = _Task(view, commit, clock, clock)
        self._wake.set()

    def _run(self) -> None:
        lower_priority()
        while not self._stopping.is_set():
            self._wake.wait(self._seconds_to_wait())
            self._wake.clear()
            self._run_round()
        with self._lock:
            self._tasks.clear()

    def _run_round(self) -> None:
        for task in self._due_tasks():
            if self._is_done(task):
                self._failures.clear(task.name)
                with self._lock:
                    if self._tasks.get(task.view.group) is task:
                        del self._tasks[task.view.group]

    def _seconds_to_wait(self) -> float | None:
        with self._lock:
            looks = [task.next_look for task in self._tasks.values()]
        return max(0.0, min(looks) - time.monotonic()) if looks else None

    def _due_tasks(self) -> Collection[_Task]:
        clock = time.monotonic()
        with self._lock:
            return [task for task in self._tasks.values() if task.next_look <= clock]

    def _is_done(self, task: _Task) -> bool:
        """Do what there is to do now; whether that was all, or took too long. Whatever fails, fails for this
        group alone.
        """
        waited, pause = time.monotonic() - task.since, self._options.look_seconds
        try:
            if self._maker.advance(task.view, task.commit, waited):
                return True
            self._failures.clear(task.name)
        except BaseException as error:  # noqa: BLE001 - the top of all work for a snapshot; a panic of obstore is no Exception
            pause = self._note_failure(task, error)
        task.next_look = time.monotonic() + pause
        return waited > self._options.give_up_seconds

    def _note_failure(self, task: _Task, error: BaseException) -> float:
        """Say what has failed; seconds until it is tried again."""
        clock = time.monotonic()
        if self._failures.note(task.name, error, clock) and not self._stopping.is_set():
            log_failure(_log, f"{task.name} at epoch {task.view.epoch}", error)
        return self._failures.seconds_left(task.name, clock)
