"""What hosts tell each other: which partitions they can answer from, and at which epochs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NewType

from engine.model.distinct_sketch import Sketch
from engine.model.schema import Epoch, GroupName, PartitionId, StoreName

HostName = NewType("HostName", str)

LONE_HOST = HostName("this host")
"""Name of a host that belongs to no deployment."""

_BEFORE_FIRST = Epoch(0)


@dataclass(frozen=True)
class ReadableEpoch:
    """An epoch that a host still has a version of.

    Attributes:
        epoch: The epoch.
        committed_at: When it was committed, microseconds since 1970 UTC; 0 before the first.
        generation: How many amendments of the group are in effect, and so which shapes its stores have.
        digest: Digest of its commit: hosts with another one have other rows under its number. Empty where it
            is not known.
    """

    epoch: Epoch
    committed_at: int
    generation: int = 0
    digest: str = ""


@dataclass(frozen=True)
class Progress:
    """How far partitions are that a host builds and cannot read yet, or that are behind.

    Bytes are those of the changelog, about: the files of snapshots and epochs that have rows for these
    partitions.

    Attributes:
        epoch: The epoch that all of them have reached.
        target: The epoch from which on they can be read; of those that can be read already, the newest that
            is known to be committed.
        snapshot: The epoch of the snapshot that is being read; None while commits are.
        bytes_done: Bytes that were read since the host began.
        bytes_left: Bytes that are left to be read up to the target; None where that is not known.
        bytes_per_second: How many are read a second lately; None where that is not known yet.
    """

    epoch: Epoch
    target: Epoch
    snapshot: Epoch | None = None
    bytes_done: int = 0
    bytes_left: int | None = None
    bytes_per_second: float | None = None

    @property
    def epochs_behind(self) -> int:
        """How many epochs are left up to the target."""
        return max(0, self.target - self.epoch)

    @property
    def percent(self) -> int:
        """How much of the way to the target is done: by the bytes where they are known, else by the epochs;
        not 100 before the target is reached.
        """
        if self.epoch >= self.target:
            return 100
        if self.bytes_left is not None and self.bytes_done + self.bytes_left:
            return min(99, 100 * self.bytes_done // (self.bytes_done + self.bytes_left))
        return 100 * self.epoch // self.target

    @property
    def seconds_left(self) -> float | None:
        """How long it takes to the target if it goes on like that; None where that is not known."""
        if self.bytes_left is None or not self.bytes_per_second:
            return None
        return self.bytes_left / self.bytes_per_second


@dataclass(frozen=True)
class GroupReport:
    """How a store group stands on a host.

    Attributes:
        readable: Epochs that can be read, ascending; empty while the group has no version at all.
        newest_known: Newest epoch known to be committed in the changelog.
        unread_since: When the oldest known commit that cannot be read yet was committed, or the host saw
            first that it is there, if that is before: microseconds since 1970 UTC; None when there is none.
        looked_at: When the host last saw that the changelog had nothing newer than `newest_known`,
            microseconds since 1970 UTC by the host's clock; 0 for never.
        building: How far the partitions are that cannot be read yet; None where there are none.
        catching_up: How far those are that can be read, where newer commits are known; None where none is.
        problem: Why the group does not get on, in one sentence; empty when nothing is wrong.
        past: Epochs before `building`'s target that can be read by whoever allows stale answers, ascending;
            empty once an epoch can be read by everybody.

    Reports that differ only in what says nothing of what can be read are equal: when the host looked, how far
    it is, and what keeps it.
    """

    readable: tuple[ReadableEpoch, ...]
    newest_known: Epoch
    unread_since: int | None = None
    looked_at: int = field(default=0, compare=False)
    building: Progress | None = field(default=None, compare=False)
    problem: str = field(default="", compare=False)
    catching_up: Progress | None = field(default=None, compare=False)
    past: tuple[ReadableEpoch, ...] = ()

    @cached_property
    def complete_until(self) -> int:
        """Until when the newest epoch that can be read is known to lack no commit, microseconds since 1970
        UTC.
        """
        if self.unread_since is not None:
            return self.unread_since
        if self.newest_known > self.newest:
            return min(self.readable[-1].committed_at, self.looked_at) if self.readable else 0
        return self.looked_at

    @property
    def is_stuck(self) -> bool:
        """Whether the host lacks commits that there are, and something keeps it from them: what keeps it from
        merges or snapshots is a problem, too.
        """
        return bool(self.problem) and self.newest < self.newest_known

    @cached_property
    def committed(self) -> Mapping[Epoch, int]:
        """The epochs that can be read, with the time of their commit."""
        return {entry.epoch: entry.committed_at for entry in self.readable}

    @property
    def newest(self) -> Epoch:
        """The newest epoch that can be read; 0 where there is none."""
        return self.readable[-1].epoch if self.readable else _BEFORE_FIRST


@dataclass(frozen=True, eq=False)
class ColumnReport:
    """What the values of a column are like on a host, about: dead rows may count.

    Attributes:
        low: The smallest value as a number (`engine.model.column_numbers`); None where it is not known.
        high: The largest value, likewise.
        sketch: Of its values; None where it is not known.
    """

    low: float | None
    high: float | None
    sketch: Sketch | None


@dataclass(frozen=True)
class StoreReport:
    """What a host holds of a store.

    Attributes:
        partitions: Partitions that can be read, ascending.
        rows: Live rows in them.
        bytes: Arrow bytes of their segments.
        segments: How many segments they have.
        stored_rows: Rows of the segments, dead ones included.
        since: Oldest epoch at which all of these partitions can be read, as far as it is retained: a store
            joins, or a partition is rebuilt, later than others of the group.
        rebuilding: Partitions that the host holds and cannot read yet, ascending.
        columns: What columns are like, by name; None where a report does not say, as nothing is new.

    Reports that differ only in what columns are like are equal: nothing but plans depends on it.
    """

    partitions: tuple[PartitionId, ...]
    rows: int = 0
    bytes: int = 0
    segments: int = 0
    stored_rows: int = 0
    since: Epoch = _BEFORE_FIRST
    rebuilding: tuple[PartitionId, ...] = ()
    columns: Mapping[str, ColumnReport] | None = field(default=None, compare=False)

    @cached_property
    def held(self) -> frozenset[PartitionId]:
        """The partitions that can be read, as a set."""
        return frozenset(self.partitions)


@dataclass(frozen=True)
class HostReport:
    """How a host stands.

    Attributes:
        host: Its name.
        groups: Its store groups.
        stores: Its stores.
        is_draining: Whether it is about to stop: others answer in its place, where they can.
    """

    host: HostName
    groups: Mapping[GroupName, GroupReport] = field(default_factory=dict)
    stores: Mapping[StoreName, StoreReport] = field(default_factory=dict)
    is_draining: bool = False


@dataclass(frozen=True)
class HostStatus:
    """What a host knows of a host.

    Attributes:
        alive: Whether it was heard of lately.
        report: Its newest report; None if it was never heard of.
    """

    alive: bool
    report: HostReport | None
