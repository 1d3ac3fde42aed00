"""What a commit says: the identity of an epoch, and where its rows are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from engine.model.schema import Epoch, GroupName, PartitionId, StoreName

BEFORE_FIRST = Epoch(0)
"""The newest epoch of a group that has none."""


@dataclass(frozen=True, slots=True)
class Slice:
    """The rows of one partition in one data file: contiguous bytes that can be fetched alone.

    Attributes:
        store: The store.
        partition: The partition, from 0.
        offset: First byte, from the start of the file.
        length: Bytes.
        rows: Rows, at least 1.
        crc32: Checksum of the bytes.
        tombstones: Whether the rows carry `TOMBSTONE_COLUMN`.
    """

    store: StoreName
    partition: PartitionId
    offset: int
    length: int
    rows: int
    crc32: int
    tombstones: bool


@dataclass(frozen=True)
class DataFile:
    """Rows of one epoch, written by one task. It counts only once a commit names it. Can be pickled, and sent
    as JSON (`engine.changelog.codec`).

    Attributes:
        epoch: The epoch for which it was written.
        name: Its name among the data files of the epoch; empty when the rows are inside the commit itself.
        size: Bytes.
        slices: What is in it, in the order of the bytes.
        content: The bytes, when they are inside the commit.
        generation: Of the store group; the rows of each store are in the shape that it has there.
    """

    epoch: Epoch
    name: str
    size: int
    slices: tuple[Slice, ...]
    content: pa.Buffer | None = field(default=None, repr=False, compare=False)
    generation: int = 0


@dataclass(frozen=True)
class CommittedBatch:
    """The last batch of a streaming query that is in the changelog.

    Attributes:
        batch_id: Its number.
        epoch: The epoch that it became.
        planned_at: When its source planned it, microseconds since 1970 UTC, by a clock of that; None where
            that says nothing, or an older version wrote it.
    """

    batch_id: int
    epoch: Epoch
    planned_at: int | None = None


@dataclass(frozen=True)
class Commit:
    """One epoch of a store group.

    Attributes:
        group: The store group.
        epoch: Its number, from 1, without gaps.
        token: Fencing token of the writer's term; never falls from one epoch to the next.
        writer: Who wrote it, for people.
        nonce: Drawn at random for each attempt, so that a writer recognises its own.
        query_id: Streaming query that the epoch is a batch of; None when it is none.
        batch_id: Number of that batch; None when `query_id` is.
        committed_at: When, in microseconds since 1970 UTC; never falls from one epoch to the next.
        replaced: Stores whose rows in this epoch are all they have: what they had before is gone.
        batches: Query id to its last committed batch, this one included, the one that committed last at the
            end; as many queries as `engine.changelog.writer.MAX_QUERIES`.
        files: Where the rows are; later files win over earlier ones.
        cutoffs: Stores with retention to the time before which their rows are gone, from before the rows of
            this epoch on; microseconds since 1970 UTC, never falling.
        written: Bytes of the files of all epochs up to this one.
        generation: How many of the group's migrations are in effect, this epoch's rows included; never falls
            from one epoch to the next.
        before: Digest of the commit of the epoch before; None of epoch 1, and where an older version wrote
            it.
        digest: What tells this commit, and through `before` all those before it, from any other of the same
            epoch: `codec.commit_digest` of its stored form. Empty until it is stored.
    """

    group: GroupName
    epoch: Epoch
    token: int
    writer: str
    nonce: str
    query_id: str | None
    batch_id: int | None
    committed_at: int
    replaced: tuple[StoreName, ...] = ()
    batches: Mapping[str, CommittedBatch] = field(default_factory=dict)
    files: tuple[DataFile, ...] = ()
    cutoffs: Mapping[StoreName, int] = field(default_factory=dict)
    written: int = 0
    generation: int = 0
    before: str | None = None
    digest: str = field(default="", compare=False)

    @property
    def nbytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def rows(self) -> int:
        """Rows in all files, superseded ones and tombstones included."""
        return sum(part.rows for file in self.files for part in file.slices)

    @property
    def places(self) -> frozenset[tuple[StoreName, PartitionId]]:
        """Partitions of stores that the epoch has rows for."""
        return frozenset((part.store, part.partition) for file in self.files for part in file.slices)

    @property
    def stores(self) -> frozenset[StoreName]:
        """Stores that the epoch has rows for or replaces."""
        return frozenset(store for store, _ in self.places) | frozenset(self.replaced)

    def follows(self, digest: str) -> bool:
        """Whether it was committed behind a commit, as far as it says.

        Args:
            digest: Of the commit of the epoch before.
        """
        return self.before in (None, digest)
