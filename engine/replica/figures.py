"""What a host's copy has taken so far, and takes now: figures for whoever watches it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.changelog import Snapshot
from engine.model.schema import GroupName


@dataclass
class GroupWork:
    """What the epochs of a group have taken since the host started. One thread at a time adds to it.

    Attributes:
        epochs: How many were applied.
        seconds: How long that took, rows read from the changelog not included where they came before.
    """

    epochs: int = 0
    seconds: float = 0.0

    def note_epochs(self, epochs: int, seconds: float) -> None:
        """Take note of epochs that were applied together."""
        self.epochs += epochs
        self.seconds += seconds


@dataclass(frozen=True)
class MergeWork:
    """What the merges of a group's segments have taken since the host started.

    Attributes:
        merges: How many there were.
        seconds: How long they took together.
    """

    merges: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class GroupFigures:
    """The figures of a group.

    Attributes:
        work: What its epochs have taken.
        merging: What merges of its segments have taken.
        unsaved_bytes: Bytes of the changelog's epochs since the newest snapshot that this host knows of, as
            far as it has applied them; None where it is not known.
        snapshot: That snapshot; None where there is none.
    """

    work: GroupWork
    merging: MergeWork
    unsaved_bytes: int | None
    snapshot: Snapshot | None


@dataclass(frozen=True)
class ReplicaFigures:
    """The figures of all that a host holds.

    Attributes:
        groups: Those of its groups.
        cache_bytes: What decoded columns take.
        cache_limit_bytes: What they may take.
        cache_hits: How often one was asked for that was there.
        cache_misses: How often one was not.
        rocksdb: Sums over all partitions of RocksDB's own properties, by name.
        unreadable: How many stores and names of SQL are damaged in the changelog, so that they mean nothing.
    """

    groups: Mapping[GroupName, GroupFigures] = field(default_factory=dict)
    cache_bytes: int = 0
    cache_limit_bytes: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    rocksdb: Mapping[str, int] = field(default_factory=dict)
    unreadable: int = 0
