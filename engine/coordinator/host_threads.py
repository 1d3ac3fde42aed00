"""Threads that wait for hosts, so many for each: who waits for a slow host waits for it alone."""

from __future__ import annotations

import threading
from concurrent.futures import Executor, ThreadPoolExecutor

from engine.cluster.reports import HostName


class HostThreads:
    """Threads by host; a thread is started when it is needed. Safe for threads.

    With threads in common, statements that wait for one host would take all of them, and statements that do
    not need that host could not run.

    Args:
        threads: How many wait for one host at once, for all statements together; what is more waits for one
            of them.
    """

    def __init__(self, threads: int) -> None:
        self._size = threads
        self._lock = threading.Lock()
        self._executors: dict[HostName, ThreadPoolExecutor] = {}
        self._is_closed = False

    def executor(self, host: HostName) -> Executor:
        """The threads that wait for a host.

        Raises:
            RuntimeError: They take nothing any more.
        """
        with self._lock:
            found = self._executors.get(host)
            if found is None:
                if self._is_closed:
                    raise RuntimeError("The threads are closed.")
                found = self._executors[host] = ThreadPoolExecutor(self._size, f"livestate-fragments-{host}")
            return found

    def close(self) -> None:
        """Wait for what runs; what was not begun is cancelled, and nothing more is taken."""
        with self._lock:
            self._is_closed = True
            executors = list(self._executors.values())
        for executor in executors:
            executor.shutdown(wait=False, cancel_futures=True)
        for executor in executors:
            executor.shutdown()
