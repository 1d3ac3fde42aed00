"""How a host follows the changelog: how often, by how many threads, and what stays readable."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from engine.model.schema import PartitionId, StoreDefinition
from engine.replica.group_setup import every_partition
from engine.replica.scrubber import ScrubOptions
from engine.replica.snapshot_options import SnapshotOptions
from engine.state.state_options import MIB, StateOptions


def usable_cores() -> int:
    """How many cores this process may use, and 2 at least: who waits for the disk needs none."""
    return max(2, len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 2)


@dataclass(frozen=True)
class FollowerOptions:
    """How a host follows the changelog.

    Attributes:
        poll_seconds: How often it looks for an epoch that it was not told of; more often for that of a group
            that had one lately, where a look waits for nothing.
        apply_threads: How many partitions are applied, or opened, side by side.
        compaction_threads: How many partitions are compacted side by side, beside that.
        groups_looked_at: How many groups the changelog is asked for at once.
        groups_built: How many groups are built at once.
        large_epochs: How many groups that can be read take an epoch at once that is large.
        retry_seconds: How long it waits after a failure before it tries the same again; longer, the more
            often it has failed.
        state: Sizes of partition state.
        held: Which partitions of a store this host holds; all by default. Asked once for each store.
        retention_seconds: How long an epoch stays readable after a newer one.
        retained_epochs: How many epochs stay readable at most.
        retained_bytes: Memory for what only epochs before the newest need, at most; an estimate.
        snapshots: When snapshots are written into the changelog, and what stays before them.
        scrubs: How what is stored is read, to find what is damaged.
    """

    poll_seconds: float = 0.05
    apply_threads: int = field(default_factory=usable_cores)
    compaction_threads: int = field(default_factory=usable_cores)
    groups_looked_at: int = 8
    groups_built: int = 4
    large_epochs: int = 2
    retry_seconds: float = 1.0
    state: StateOptions = field(default_factory=StateOptions)
    held: Callable[[StoreDefinition], Collection[PartitionId]] = every_partition
    retention_seconds: float = 10.0
    retained_epochs: int = 256
    retained_bytes: int = 128 * MIB
    snapshots: SnapshotOptions = field(default_factory=SnapshotOptions)
    scrubs: ScrubOptions = field(default_factory=ScrubOptions)
