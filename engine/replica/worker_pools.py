"""The threads of a host that open partitions, apply epochs and build."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from engine.processes.scheduling import lower_priority, take_long_turns
from engine.replica.follower_options import FollowerOptions

OPEN_THREADS = 8


class WorkerPools:
    """Pools of threads that work on partitions side by side. Nobody who opens waits for those who build, and
    no build for one that is stuck.

    Args:
        options: How many threads there are.

    Attributes:
        appliers: Apply small epochs.
        builders: Build partitions, which can take minutes.
        large_workers: Apply large epochs of groups that can be read.
        openers: Open partitions.
    """

    def __init__(self, options: FollowerOptions) -> None:
        self.appliers = ThreadPoolExecutor(options.apply_threads, "apply", take_long_turns)
        threads = max(options.apply_threads, options.groups_built)
        self.builders = ThreadPoolExecutor(threads, "build", lower_priority)
        self.large_workers = ThreadPoolExecutor(options.large_epochs, "large epoch", lower_priority)
        # Who opens waits for the disk, more than for a processor.
        self.openers = ThreadPoolExecutor(max(OPEN_THREADS, options.apply_threads), "open")

    def shutdown(self) -> None:
        """End all threads, once they have done what they were given."""
        for pool in (self.appliers, self.builders, self.large_workers, self.openers):
            pool.shutdown()
