"""The fragments that statements of this host have under way, here and on other hosts."""

from __future__ import annotations

import threading
from contextlib import ExitStack

from engine.coordinator.fragment_hosts import FragmentHosts
from engine.coordinator.fragment_runs import FragmentRuns, stopping_error
from engine.deadline import Deadline, DeadlineWatcher, Watch


class RunningFragments:
    """Begins the fragments of statements, and ends them: in time, or when the host stops. Safe for threads.

    Args:
        hosts: Where they run.
        watcher: Ends them in time.
    """

    def __init__(self, hosts: FragmentHosts, watcher: DeadlineWatcher) -> None:
        self._hosts = hosts
        self._watcher = watcher
        self._lock = threading.Lock()
        self._running: set[FragmentRuns] = set()
        self._is_closed = False

    def begin(self, deadline: Deadline, resources: ExitStack) -> FragmentRuns:
        """What one statement has under way: nothing yet.

        Args:
            deadline: When the statement must end; its fragments end then.
            resources: What is under way ends when these are closed.

        Raises:
            Unavailable: The host is stopping.
            LivestateError: The statement must end now.
        """
        deadline.check()
        runs = FragmentRuns(self._hosts, deadline)
        with self._lock:
            if self._is_closed:
                raise stopping_error()
            self._running.add(runs)
        resources.callback(self._forget, runs)
        watch: Watch = self._watcher.watch(
            deadline,
            lambda: runs.end(watch.error and runs.deadline_error(watch.error)),
            runs.lend_slot_if_late,
        )
        # What is under way ends before the watch does.
        resources.enter_context(watch)
        resources.callback(runs.end)
        return runs

    def _forget(self, runs: FragmentRuns) -> None:
        with self._lock:
            self._running.discard(runs)
        runs.forget()

    def end_all(self) -> None:
        """End what is under way with an error. Nothing begins any more."""
        with self._lock:
            self._is_closed = True
            running = list(self._running)
        for runs in running:
            runs.end(stopping_error())
