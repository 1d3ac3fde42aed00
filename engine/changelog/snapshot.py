"""What a snapshot says: all rows of a store group at one epoch, in place of the epochs up to it; and when one
is due.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from engine.changelog.commit import BEFORE_FIRST, Commit, DataFile
from engine.model.retention import MOST_APART
from engine.model.row_checksum import RowChecksum
from engine.model.schema import Epoch, GroupName, PartitionId, StoreName

MIB = 1024 * 1024
EPOCH_WEIGHT = 256 * 1024
"""Bytes that an epoch counts for beside its rows: about what an object store sends in the time of one more
request.
"""

StorePartition = tuple[StoreName, PartitionId]
RowChecksums = Mapping[StorePartition, RowChecksum]
StoredColumns = Mapping[str, str]
"""Names of a store's stored columns and their SQL types, in their order."""


@dataclass(frozen=True)
class SnapshotPart:
    """What one host wrote of a snapshot: all live rows of some partitions at its epoch.

    Attributes:
        name: Its name among the parts of the snapshot.
        stores: The stores, and the columns in which their rows are stored.
        covers: The partitions; those that no file has rows of are empty.
        files: Where the rows are.
        generation: As `Snapshot.generation`.
        digest: As `Snapshot.digest`: rows of another history of the same epoch do not belong to the snapshot.
        checksums: Of the live rows of the partitions, tombstones left out; none where an older version wrote
            it.
    """

    name: str
    stores: Mapping[StoreName, StoredColumns]
    covers: frozenset[StorePartition]
    files: tuple[DataFile, ...]
    generation: int = 0
    digest: str = ""
    checksums: RowChecksums = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class HostChecksums:
    """What a host has of some partitions at the epoch of a snapshot.

    Attributes:
        host: Its name.
        digest: As `Commit.digest` of the epoch, by which the host has come there.
        checksums: Of the live rows of the partitions, tombstones left out.
    """

    host: str
    digest: str
    checksums: RowChecksums


@dataclass(frozen=True)
class Snapshot:
    """All rows of a store group at one epoch.

    Attributes:
        group: The store group.
        epoch: The epoch.
        committed_at: When the epoch was committed, microseconds since 1970 UTC.
        written: As `Commit.written` of the epoch.
        cutoffs: As `Commit.cutoffs` of the epoch.
        parts: What hosts wrote. A partition is read from the first part that covers it; one that none covers
            is empty.
        generation: As `Commit.generation` of the epoch: its rows are in the stored schemas that the stores
            have there.
        digest: As `Commit.digest` of the epoch; empty where an older version wrote it.
    """

    group: GroupName
    epoch: Epoch
    committed_at: int
    written: int
    cutoffs: Mapping[StoreName, int]
    parts: tuple[SnapshotPart, ...]
    generation: int = 0
    digest: str = ""

    @property
    def nbytes(self) -> int:
        """Bytes of all files."""
        return sum(part.nbytes for part in self.parts)

    @property
    def files(self) -> tuple[DataFile, ...]:
        """Where the rows are."""
        return tuple(file for part in self.parts for file in part.files)

    @property
    def stores(self) -> frozenset[StoreName]:
        """Stores that it has rows of."""
        return frozenset(entry.store for file in self.files for entry in file.slices)

    @cached_property
    def _homes(self) -> Mapping[StorePartition, SnapshotPart]:
        return {place: part for part in reversed(self.parts) for place in part.covers}

    @property
    def partition_bytes(self) -> Mapping[StorePartition, int]:
        """The stored bytes of the partitions that have rows."""
        found: dict[StorePartition, int] = defaultdict(int)
        for part in self.parts:
            for file in part.files:
                for entry in file.slices:
                    if self.part_of(entry.store, entry.partition) is part:
                        found[entry.store, entry.partition] += entry.length
        return found

    def part_of(self, store: StoreName, partition: PartitionId) -> SnapshotPart | None:
        """The part that has a partition; None if it is empty."""
        return self._homes.get((store, partition))

    @property
    def checksums(self) -> RowChecksums:
        """Checksums of the live rows of partitions, as far as they are known."""
        return {
            place: part.checksums[place] for place, part in self._homes.items() if place in part.checksums
        }


def parts_covering(
    parts: Iterable[SnapshotPart], wanted: Collection[StorePartition]
) -> tuple[SnapshotPart, ...] | None:
    """Parts that together have all partitions.

    Args:
        parts: What hosts have written of a snapshot so far.
        wanted: The partitions that a snapshot must have.

    Returns:
        As few of the parts as it takes when they are taken in order of name; None if some partition is in
        none of them.
    """
    missing = set(wanted)
    chosen = []
    for part in sorted(parts, key=lambda part: part.name):
        if not missing.isdisjoint(part.covers):
            chosen.append(part)
            missing -= part.covers
    return None if missing else tuple(chosen)


# ---- whether hosts agree


def disputed_partitions(claims: Iterable[HostChecksums]) -> Mapping[StorePartition, RowChecksum | None]:
    """The partitions of which hosts do not all have the same rows.

    Args:
        claims: What hosts have at one epoch of one history.

    Returns:
        For each of them what more than half of the hosts have; None where that is nothing.
    """
    counts: dict[StorePartition, Counter[RowChecksum]] = defaultdict(Counter)
    for claim in claims:
        for place, checksum in claim.checksums.items():
            counts[place][checksum] += 1
    disputed: dict[StorePartition, RowChecksum | None] = {}
    for place, found in counts.items():
        if len(found) > 1:
            ((most, votes),) = found.most_common(1)
            disputed[place] = most if 2 * votes > found.total() else None
    return disputed


# ---- when


@dataclass(frozen=True)
class Mark:
    """A place in a changelog, from which on what is written counts towards the next snapshot.

    Attributes:
        epoch: The epoch.
        written: As `Commit.written` of the epoch.
        nbytes: Bytes of the snapshot at that epoch.
    """

    epoch: Epoch = BEFORE_FIRST
    written: int = 0
    nbytes: int = 0

    @staticmethod
    def from_snapshot(snapshot: Snapshot | None) -> Mark:
        """The place of a snapshot; where the changelog begins, if there is none."""
        return Mark() if snapshot is None else Mark(snapshot.epoch, snapshot.written, snapshot.nbytes)

    def weight(self, epoch: int, written: int) -> int:
        """What it costs to read the epochs from here to another place, in bytes."""
        return written - self.written + (epoch - self.epoch) * EPOCH_WEIGHT


def is_due(mark: Mark, commit: Commit, after_bytes: int) -> bool:
    """Whether a snapshot is to be made at a commit's epoch.

    It is where the epochs since the last snapshot have come to weigh as much as that did: the changelog then
    never holds much more than the state does, and snapshots write no more than the epochs do. All hosts come
    to the same answer by themselves, because nothing but the changelog is asked. If a snapshot does not come
    about, the next try is at twice the weight: what unfinished ones leave stays bounded, too.

    Args:
        mark: Place of the newest snapshot.
        commit: The commit.
        after_bytes: Weight from which on a snapshot of a small state is worth its while.
    """
    if commit.epoch <= mark.epoch:
        return False
    step = max(after_bytes, mark.nbytes)
    after = mark.weight(commit.epoch, commit.written) // step
    before = mark.weight(commit.epoch - 1, commit.written - commit.nbytes) // step
    return after.bit_length() > before.bit_length()


@dataclass(frozen=True)
class SnapshotRetention:
    """What stays in a changelog of the epochs that snapshots have made dispensable.

    Attributes:
        kept: How many snapshots there are at least, with all epochs after the oldest of them; at least 1.
        tail_seconds: How long epochs stay at least, for hosts that are behind.
        tail_epochs: How many epochs `tail_seconds` keeps at most.
    """

    kept: int = 2
    tail_seconds: float = 600.0
    tail_epochs: int = 10_000


def snapshot_retention(kept: int | None, tail_seconds: float | None) -> SnapshotRetention:
    """What stays of a changelog before its snapshots.

    Args:
        kept: How many snapshots stay; None for the default.
        tail_seconds: Seconds for which epochs before them stay; None for the default.
    """
    default = SnapshotRetention()
    return replace(
        default,
        kept=kept or default.kept,
        tail_seconds=default.tail_seconds if tail_seconds is None else tail_seconds,
    )


def droppable_before(
    snapshots: Sequence[Snapshot], retention: SnapshotRetention, now: int
) -> Iterator[Snapshot]:
    """The snapshots before each of which everything may go, the newest first.

    A time that lies in the future by more than clocks may be apart keeps nothing: hosts that are behind read
    a snapshot then.

    Args:
        snapshots: All snapshots of a group, in order of epoch.
        retention: What stays.
        now: The time, microseconds since 1970 UTC.
    """
    for snapshot in reversed(snapshots[: len(snapshots) - retention.kept + 1]):
        age = now - snapshot.committed_at
        # No commit is said to be earlier than the one before it: all that came after one of a clock that was
        # ahead seem to lie in the future, for as long as that clock was wrong. How old they are is not known.
        is_old = max(age, 0) >= retention.tail_seconds * 1e6 or -age > MOST_APART
        if is_old or snapshots[-1].epoch - snapshot.epoch >= retention.tail_epochs:
            yield snapshot
