"""The threads that merge segments of a host's partitions, beside those that follow the changelog."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from threading import Event, Lock

from engine.model.schema import GroupName
from engine.processes.scheduling import lower_priority
from engine.replica.figures import MergeWork
from engine.replica.group import FollowedGroup
from engine.replica.task_runner import Task, TaskRunner, Work
from engine.replica.turn_table import TurnTable
from engine.state.partition import PartitionStore

REST_SECONDS = 30.0
"""After so long without epochs a partition gives back space that it does not need: what older epochs need is
gone by then, too.
"""


class Compactor:
    """Compacts partitions, each in one thread at a time.

    Args:
        threads: How many partitions are compacted side by side.
        tasks: Runs what may fail.
        stopping: Ends compaction when it is set.
        turns: Is asked for a turn of a group that has merged segments to be shown.
    """

    def __init__(self, threads: int, tasks: TaskRunner, stopping: Event, turns: TurnTable) -> None:
        self._tasks = tasks
        self._stopping = stopping
        self._turns = turns
        self._merged: set[GroupName] = set()
        self._pool = ThreadPoolExecutor(threads, "compact", lower_priority)
        self._running: dict[int, Future[bool]] = {}
        self._active: dict[int, tuple[GroupName, PartitionStore, float]] = {}
        """Partitions that have not been looked at since they were compacted, and when that was."""
        self._lock = Lock()
        self._merges: dict[GroupName, MergeWork] = {}

    def submit(self, group: GroupName, store: PartitionStore) -> None:
        """Have a partition compacted soon, unless it is being compacted.

        Args:
            group: Its group.
            store: The partition.
        """
        with self._lock:
            running = self._running.get(store.context.number)
            self._active[store.context.number] = group, store, time.monotonic()
            if running is None or running.done():
                self._run(group, store, partial(self._compact, group, store))

    def _run(self, group: GroupName, store: PartitionStore, work: Callable[[], None]) -> None:
        if not self._stopping.is_set():
            self._running[store.context.number] = self._pool.submit(
                self._tasks.run_if_due, Task(Work.COMPACT, group, store.identity), work
            )

    def settle(self) -> None:
        """Have partitions give back space that have had nothing to do for a while."""
        if not self._active:
            return
        with self._lock:
            before = time.monotonic() - REST_SECONDS
            for number, (group, store, since) in list(self._active.items()):
                running = self._running.get(number)
                if since < before and (running is None or running.done()):
                    del self._active[number]
                    self._run(group, store, store.settle)

    def retry(self, groups: Iterable[FollowedGroup]) -> None:
        """Have partitions compacted where that has failed, and give back space where nothing is to be done: a
        group without news would never do so by itself.

        Args:
            groups: All groups.
        """
        self.settle()
        due = self._tasks.due_failures(Work.COMPACT)
        if not due:
            return
        for group in groups:
            for store in group.partitions:
                if Task(Work.COMPACT, group.group, store.identity) in due:
                    self.submit(group.group, store)

    def _compact(self, group: GroupName, store: PartitionStore) -> None:
        began = time.monotonic()
        while not self._stopping.is_set() and store.compact():
            ended = time.monotonic()
            with self._lock:
                self._merged.add(group)
                done = self._merges.get(group, MergeWork())
                self._merges[group] = MergeWork(done.merges + 1, done.seconds + ended - began)
            self._turns.request(group)
            began = ended

    def merge_work(self, group: GroupName) -> MergeWork:
        """What the merges of a group have taken so far."""
        return self._merges.get(group, MergeWork())

    @property
    def has_merged(self) -> bool:
        """Whether there are merged segments that nobody has shown."""
        return bool(self._merged)

    def take_merged(self, group: GroupName) -> bool:
        """Whether a group has merged segments that are to be shown; who asks shows them."""
        with self._lock:
            has_merged = group in self._merged
            self._merged.discard(group)
        return has_merged

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for all that is being compacted when this is called.

        Returns:
            Whether it is done; False after the time-out.
        """
        with self._lock:
            running = list(self._running.values())
        return not wait(running, timeout_seconds).not_done

    def shutdown(self) -> None:
        """End the threads."""
        self._pool.shutdown(cancel_futures=True)
