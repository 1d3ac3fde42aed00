"""What statements are computed with: the engine, memory for gathered rows, threads. All threads are here:
services of restricted principals come and go, and would leave their own behind.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.coordinator.epoch_lease import LEASE_THREADS
from engine.coordinator.gather_memory import MemoryPool
from engine.coordinator.host_threads import HostThreads
from engine.deadline import DeadlineWatcher
from engine.duckdb.constants import ConstantFolder
from engine.duckdb.engine import Engine
from engine.duckdb.spill import SpillDirectory
from engine.exec.query_options import QueryOptions


@dataclass(frozen=True)
class Resources:
    """What all statements of a host share.

    Attributes:
        engine: The engine.
        folder: Computes expressions that read no rows.
        memory: What gathered rows may take.
        key_answers: What answers to keys may take.
        threads: Wait for hosts.
        lease_threads: Ask hosts to keep epochs.
        watcher: Ends in time what statements have under way on hosts.
    """

    engine: Engine
    folder: ConstantFolder
    memory: MemoryPool
    key_answers: MemoryPool
    threads: HostThreads
    lease_threads: HostThreads
    watcher: DeadlineWatcher

    def close(self) -> None:
        """Stop. Nothing may be computed any more; whatever ran on this host has ended when this returns."""
        self.threads.close()
        self.lease_threads.close()
        self.watcher.close()
        self.engine.close()
        self.folder.close()


def open_resources(options: QueryOptions) -> Resources:
    """What there is by some options.

    Args:
        options: Limits.
    """
    spill = _spill_directory(options)
    return Resources(
        Engine(options.memory_limit_bytes, options.threads, spill),
        ConstantFolder(),
        MemoryPool(options.gathered_bytes, options.all_gathered_bytes, spill),
        MemoryPool(options.key_answer_bytes, options.key_answer_bytes),
        HostThreads(options.peer_threads),
        HostThreads(LEASE_THREADS),
        DeadlineWatcher(),
    )


def _spill_directory(options: QueryOptions) -> SpillDirectory | None:
    if options.spill_directory is None or not options.spill_limit_bytes:
        return None
    return SpillDirectory(options.spill_directory, options.spill_limit_bytes)
