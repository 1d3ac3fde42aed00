"""The threads that merge segments of a host's partitions, beside the one that follows the changelog."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from threading import Event, Lock

from engine.model.schema import GroupName
from engine.processes.right_of_way import lower_priority
from engine.replica.group import GroupState
from engine.replica.task_runner import Task, TaskRunner, Work
from engine.state.partition import PartitionStore


class Compactor:
    """Compacts partitions, each in one thread at a time.

    Args:
        threads: How many partitions are compacted side by side.
        tasks: Runs what may fail.
        stopping: Ends compaction when it is set.
        wake: Is set when there are merged segments to be shown.

    Attributes:
        has_merged: Set when there are; whoever shows them clears it.
    """

    def __init__(self, threads: int, tasks: TaskRunner, stopping: Event, wake: Event) -> None:
        self.has_merged = Event()
        self._tasks = tasks
        self._stopping = stopping
        self._wake = wake
        self._pool = ThreadPoolExecutor(threads, "compact", lower_priority)
        self._running: dict[int, Future[bool]] = {}
        self._lock = Lock()

    def submit(self, group: GroupName, store: PartitionStore) -> None:
        """Have a partition compacted soon, unless it is being compacted.

        Args:
            group: Its group.
            store: The partition.
        """
        with self._lock:
            running = self._running.get(store.context.number)
            if (running is None or running.done()) and not self._stopping.is_set():
                self._running[store.context.number] = self._pool.submit(
                    self._tasks.run_if_due,
                    Task(Work.COMPACT, group, store.identity),
                    partial(self._compact, store),
                )

    def retry(self, groups: Iterable[GroupState]) -> None:
        """Have partitions compacted where that has failed: a group without news would never do so
        by itself.

        Args:
            groups: All groups.
        """
        due = self._tasks.due_failures(Work.COMPACT)
        if not due:
            return
        for group in groups:
            for store in group.partitions:
                if Task(Work.COMPACT, group.group, store.identity) in due:
                    self.submit(group.group, store)

    def _compact(self, store: PartitionStore) -> None:
        while not self._stopping.is_set() and store.compact():
            self.has_merged.set()
            self._wake.set()

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
