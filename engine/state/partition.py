"""A partition store: applies epochs to one partition, keeps it compact, and survives crashes at
whole epochs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock

import numpy as np
import pyarrow as pa

from engine.errors import Corrupt, LivestateError
from engine.model.schema import TOMBSTONE_COLUMN, Epoch, PartitionId, StoreDefinition, StoreName
from engine.processes.right_of_way import RIGHT_OF_WAY
from engine.state import keys as sort_keys
from engine.state.buffered_storage import BufferedStorage
from engine.state.cache import ColumnCache
from engine.state.compaction import segments_to_merge
from engine.state.damage import DamagedError, damage_error
from engine.state.delete_vector import DeleteVector
from engine.state.formats import MANIFEST, Manifest, SegmentId, dead_run_range, segment_key
from engine.state.memory_storage import MemoryStorage
from engine.state.partition_context import PartitionContext
from engine.state.partition_shape import Migrated, Shape
from engine.state.pending_epoch import PendingEpoch
from engine.state.rocks import Rocks, SharedOptions
from engine.state.segment_merge import Merge, replace_inputs
from engine.state.segment_store import (
    BUFFERED_BYTES,
    UNLOGGED_BYTES,
    Listing,
    SegmentStore,
    encode_dead_rows,
)
from engine.state.state_options import StateOptions
from engine.state.storage import Pair, Storage
from engine.state.version import LiveSegment, SegmentChanges, Version

_log = logging.getLogger(__name__)

EPOCHS_BETWEEN_NOTES = 256
"""An untouched partition notes its epoch this often, so that a restart reads no more of the changelog than
that.
"""


class PartitionStore:
    """One partition of a store, open for reading and for applying epochs.

    `version` may be read by any thread at any time. `apply` and `advance` are called by one thread at a time;
    `compact` may run beside them, and waits for another one.

    Args:
        definition: The store, in any of its shapes.
        partition: Which partition of it.
        path: Directory of its RocksDB, which no other process has open. A store in memory leaves it alone.
        cache: Decoded columns of all partitions of the host.
        options: Sizes.
        shared: How RocksDB is opened for all partitions of the host.
        definition_at: Gives what the store is at a generation of its group; None where it was never migrated.
        is_read_only: Whether it is only read, and its directory stays as it is.
        storage: Where its bytes are, if not in a RocksDB of its own.

    Raises:
        DamagedError: What is on the disk is damaged.
        Corrupt: It belongs to another store, or to a newer version.
        LimitExceeded: The disk is full.
        Unavailable: The disk does not answer.
    """

    def __init__(
        self,
        definition: StoreDefinition,
        partition: PartitionId,
        path: Path,
        cache: ColumnCache,
        options: StateOptions,
        shared: SharedOptions | None = None,
        definition_at: Callable[[int], StoreDefinition] | None = None,
        *,
        is_read_only: bool = False,
        storage: Storage | None = None,
    ) -> None:
        self._options = options
        self._is_read_only = is_read_only
        self._storage = BufferedStorage(
            storage
            if storage is not None
            else MemoryStorage()
            if definition.behaviour.in_memory
            else Rocks(path, options, shared, is_read_only=is_read_only)
        )
        self._lock, self._merging = Lock(), Lock()
        self._is_closed = self._has_failed_write = False
        try:
            self._open(definition.name, partition, cache, definition_at or (lambda generation: definition))
        except BaseException:
            # Whatever it is: a RocksDB that stays open cannot be opened again, and so not be tried again.
            with suppress(LivestateError):
                self._storage.close()
            raise

    def _open(
        self,
        store: StoreName,
        partition: PartitionId,
        cache: ColumnCache,
        definition_at: Callable[[int], StoreDefinition],
    ) -> None:
        data = self._storage.get(MANIFEST)
        known = None if data is None else Manifest.from_bytes(data)
        generation = 0 if known is None else known.generation
        definition = definition_at(generation)
        self._shape = shape = Shape.open(Migrated(definition, generation), self._storage, cache)
        manifest = known or Manifest(store, partition, shape.columns, Epoch(0), SegmentId(1), ())
        if (manifest.store, manifest.partition) != (store, partition):
            raise Corrupt(
                f"The data directory holds partition {manifest.partition} of store {manifest.store} where "
                f"partition {partition} of store {store} should be; delete the partition's directory and the "
                "host rebuilds it from the changelog."
            )
        if manifest.columns != shape.columns:
            raise DamagedError(
                f"The data directory holds partition {partition} of store {store} in another shape than the "
                "changelog has, which may have been restored from an older copy.",
                "another shape than the changelog has",
            )
        created = definition_at(0) if generation else definition
        self._created = numbers = {
            name: column.number
            for name, column in zip(created.stored_schema.names, created.columns, strict=True)
        }
        self._segments = SegmentStore(self._storage, shape.context, self._options, manifest.next_segment)
        listing = Listing.from_storage(self._storage)
        opened = self._segments.open_all((*manifest.segments, *manifest.tombstone_segments), numbers, listing)
        rows = len(manifest.segments)
        self.version = Version(manifest.epoch, tuple(opened[:rows]), tuple(opened[rows:]))
        live_rows = _count_live_rows(self.version)
        if manifest.live_rows not in (None, live_rows):
            raise damage_error("delete vector")
        self._manifest = self._written = replace(manifest, live_rows=live_rows)
        self._written_dead = _delete_vectors(self.version)
        if not self._is_read_only:
            self._segments.drop_orphans({*manifest.segments, *manifest.tombstone_segments}, listing)

    @property
    def context(self) -> PartitionContext:
        """In which segments are seen and stored now."""
        return self._shape.context

    @property
    def identity(self) -> tuple[StoreName, PartitionId]:
        """Which partition this is, of which store."""
        return StoreName(self._manifest.store), PartitionId(self._manifest.partition)

    def storage_figures(self) -> Mapping[str, int]:
        """As `Storage.figures`.

        Raises:
            Unavailable: The partition was closed, or the disk does not answer.
        """
        return self._storage.figures()

    @property
    def damage(self) -> str:
        """What of the partition a statement, a merge or a scrub has found damaged, in a word or two; empty
        where none has.
        """
        return self._storage.damage

    def note_damage(self, what: str) -> None:
        """Take note of damage.

        Args:
            what: What is damaged, in a word or two.
        """
        self._storage.damage = what

    @property
    def generation(self) -> int:
        """How many amendments of the store group are in effect."""
        return self._shape.generation

    @property
    def definition(self) -> StoreDefinition:
        """What its store is with these amendments."""
        return self._shape.definition

    @property
    def is_in_shape(self) -> bool:
        """Whether all segments are stored as they are seen; else `compact` has something to do."""
        return all(entry.segment.is_in_shape for entry in self.version.all_segments)

    @property
    def applied(self) -> Epoch:
        """Newest epoch that is applied."""
        return self._manifest.epoch

    @property
    def written_epoch(self) -> Epoch:
        """Newest epoch that is applied and noted on the disk: a crash leaves the partition at it."""
        return self._written.epoch

    @property
    def is_written(self) -> bool:
        """Whether nothing of what was applied is in memory alone."""
        return self._written is self._manifest

    @property
    def digest(self) -> str:
        """As `Commit.digest` of the epoch `applied`; empty where that is not known."""
        return self._manifest.digest

    def apply(
        self,
        epoch: Epoch,
        rows: pa.RecordBatch | Iterable[pa.RecordBatch] | None,
        *,
        replaces: bool = False,
        cutoff: int | None = None,
        migrated: Migrated | None = None,
        digest: str = "",
        is_buffered: bool = False,
    ) -> Version:
        """Apply what an epoch brings to this partition.

        Args:
            epoch: The epoch; one that is applied already changes nothing.
            rows: Upserts in the store's row schema, in commit order, and tombstones where the column
                `__tombstone` is true. The store's kind says how they are folded; of a key-value store the
                last row of a key wins. None where the epoch has no rows for this partition. Many batches
                are applied in pieces of several (`StateOptions.apply_bytes`), each asked for when its turn
                comes; what comes of them becomes visible, and durable, as one.
            replaces: Whether all rows of before are removed first.
            cutoff: The time before which rows are gone, microseconds since 1970 UTC, for a store with
                retention; older rows do not come in any more.
            migrated: What the store is from this epoch on, its rows included; None where the group was not
                migrated.
            digest: As `Commit.digest` of the epoch.
            is_buffered: Whether what comes of a few rows may stay in memory until `write`, or a merge, writes
                it: a crash before that takes the partition back to an earlier epoch.

        Returns:
            The new version, which `version` is from now on.

        Raises:
            LimitExceeded: The disk is full; the partition stays at the epoch it had.
            Unavailable: The disk does not answer; likewise.
        """
        with self._lock:
            if epoch <= self.version.epoch or epoch <= self.applied:
                return self.version
            shape = self._shape.migrate(migrated)
            known_cutoff, cutoff = self._manifest.cutoff, self._later_cutoff(shape, cutoff)
            before = () if replaces else shape.reshape(self.version.all_segments)
            pending = PendingEpoch(shape, self._segments, before, cutoff)
            if cutoff != known_cutoff:
                pending.expire_stored()
            if rows is not None:
                batches = [rows] if isinstance(rows, pa.RecordBatch) else rows
                pending.apply(batches, self._options.apply_bytes)
            changes = pending.changes
            # Else the segment that it became is written already.
            is_buffered = is_buffered and len(changes.added) == len(changes.unwritten) and migrated is None
            return self._install(shape, epoch, changes, cutoff, digest, is_buffered=is_buffered)

    def advances_cutoff(self, cutoff: int) -> bool:
        """Whether a cutoff is later than the one that the partition knows."""
        return self._manifest.cutoff is None or cutoff > self._manifest.cutoff

    def _later_cutoff(self, shape: Shape, cutoff: int | None) -> int | None:
        """The later of a cutoff and the one that the partition knows. Known once its epoch is installed: one
        that fails comes again.
        """
        if shape.time_column and cutoff is not None and self.advances_cutoff(cutoff):
            return cutoff
        return self._manifest.cutoff

    def restore(
        self,
        epoch: Epoch,
        batches: Iterable[pa.RecordBatch],
        cutoff: int | None = None,
        migrated: Migrated | None = None,
        digest: str = "",
    ) -> Version:
        """Put rows as they are stored in the place of all that the partition has. Each batch becomes a
        segment.

        Args:
            epoch: The epoch at which these are the rows; one that is applied already changes nothing.
            batches: Rows in the stored schema; each key once in all of them together. Those that are
                tombstones become tombstone segments.
            cutoff: The time before which rows are gone at that epoch, as for `apply`.
            migrated: What the store is at that epoch, and in whose shape the rows are; None where that is
                what it is here.
            digest: As `Commit.digest` of the epoch.

        Returns:
            The new version, which `version` is from now on.

        Raises:
            LimitExceeded: The disk is full; the partition stays at the epoch it had.
            LivestateError: The batches cannot be read, or the disk does not answer; likewise.
        """
        with self._lock:
            if epoch <= self.version.epoch or epoch <= self.applied:
                return self.version
            shape = self._shape.migrate(migrated)
            added: list[LiveSegment] = []
            tombstones: list[LiveSegment] = []
            for rows in batches:
                if TOMBSTONE_COLUMN in rows.schema.names:
                    tombstones += self._segments.write_tombstones(shape, rows, np.arange(rows.num_rows))
                    continue
                keys = shape.context.codec.encode([rows.column(place) for place in shape.context.key])
                order, is_logged = sort_keys.order(keys), rows.nbytes < UNLOGGED_BYTES
                added += self._segments.write_rows(shape.context, rows, keys, order, is_logged=is_logged)
            changes = SegmentChanges((), added, tombstones)
            # Not the later of two: what is here may be of another history than the snapshot.
            return self._install(shape, epoch, changes, cutoff if shape.time_column else None, digest)

    def advance(self, epoch: Epoch, digest: str = "") -> None:
        """Note, now and then, that the partition has no rows in the epochs up to this one.

        Args:
            epoch: Newest epoch that has been looked at.
            digest: As `Commit.digest` of the epoch.
        """
        with self._lock:
            if epoch >= self.applied + EPOCHS_BETWEEN_NOTES:
                self._note_epoch(epoch, digest)

    def _note_epoch(self, epoch: Epoch, digest: str) -> None:
        manifest = replace(self._manifest, epoch=epoch, digest=digest)
        self._write(manifest, self.version)
        self._manifest = manifest

    def write(self) -> None:
        """Write what epochs have left in memory.

        Raises:
            LimitExceeded: The disk is full; it stays in memory.
            Unavailable: The disk does not answer; likewise.
        """
        with self._lock:
            if not (self._is_closed or self.is_written):
                self._write(self._manifest, self.version)

    def _install(
        self,
        shape: Shape,
        epoch: Epoch,
        changes: SegmentChanges,
        cutoff: int | None,
        digest: str,
        *,
        is_buffered: bool = False,
    ) -> Version:
        """Make segments count, in one atomic write together with all that is buffered, and only then visible.

        Args:
            shape: The shape in which they all are seen.
            epoch: The epoch that the partition has come to.
            changes: What becomes of the segments.
            cutoff: The time before which rows are gone; None where there is none.
            digest: As `Commit.digest` of the epoch.
            is_buffered: Whether nothing is written yet.
        """
        RIGHT_OF_WAY.give_way()
        version = self.version.change(epoch, changes)
        manifest = replace(
            self._manifest,
            columns=shape.columns,
            generation=shape.generation,
            epoch=max(epoch, self._manifest.epoch),
            next_segment=self._segments.next_segment,
            segments=tuple(entry.segment.id for entry in version.segments),
            tombstone_segments=tuple(entry.segment.id for entry in version.tombstone_segments),
            cutoff=cutoff,
            digest=digest if epoch >= self.applied else self.digest,
        )
        for segment, blocks in changes.unwritten.items():
            self._storage.add(segment, blocks)
        if not is_buffered:
            try:
                self._write(manifest, version)
            except BaseException:
                self._storage.release(changes.unwritten)
                raise
        if shape is not self._shape:
            self._segments.note_columns(shape.context)
        self._manifest, self._shape, self.version = manifest, shape, version
        return version

    def _write(self, manifest: Manifest, version: Version) -> None:
        """Write, in one atomic write, what makes a version of what is stored.

        Args:
            manifest: Of the version.
            version: The version.
        """
        known = {*self._written.segments, *self._written.tombstone_segments}
        new = [entry.segment for entry in version.all_segments if entry.segment.id not in known]
        identities = [segment.id for segment in new]
        pairs: list[Pair] = [*self._storage.encode_buffered(identities)]
        if sum(len(block) for _, block in pairs) > BUFFERED_BYTES:
            # In small calls, as nobody gets the interpreter during one. Nothing names these blocks yet.
            self._storage.write(pairs)
            self._storage.release(identities)
            pairs = []
        pairs += [(segment_key(segment.id), segment.record.to_bytes()) for segment in new]
        # A write that failed may have come to the disk all the same, with runs that there are no more.
        removed = (
            [dead_run_range(entry.segment.id) for entry in version.all_segments]
            if self._has_failed_write
            else []
        )
        written_dead = {} if self._has_failed_write else self._written_dead
        for entry in version.all_segments:
            before = written_dead.get(entry.segment.id)
            if entry.dead is not None and entry.dead is not before:
                written, replaced = encode_dead_rows(entry.segment.id, before, entry.dead)
                pairs += written
                removed += replaced
        data = replace(manifest, live_rows=_count_live_rows(version)).to_bytes()
        self._has_failed_write = True
        self._storage.write_atomically([*pairs, (MANIFEST, data)], removed)
        self._has_failed_write = False
        self._written, self._written_dead = manifest, _delete_vectors(version)
        self._storage.release(identities)

    def compact(self) -> bool:
        """Merge some segments, if that is worth it, or rewrite one that is stored in an older shape; readers
        and `apply` go on meanwhile.

        Returns:
            Whether something was merged; call again until not.

        Raises:
            LimitExceeded: The disk is full; the partition stays as it was.
            Unavailable: The disk does not answer; likewise.
        """
        with self._merging:
            if self._is_closed:
                return False
            chosen = segments_to_merge(self.version, self._shape.key_time, self._options)
            if chosen:
                self._merge(chosen)
        self.release()
        self._segments.reclaim(self.version.nbytes)
        return bool(chosen)

    def has_garbage(self) -> bool:
        """Whether more space is taken by what has gone than is worth being left at rest."""
        return self._segments.has_garbage(self.version.nbytes)

    def settle(self) -> None:
        """Give back all space on the disk that is not needed, if that is worth it; for when nothing else is
        to be done. Readers and `apply` go on meanwhile.

        Raises:
            LimitExceeded: The disk is full; the partition stays as it was.
            Unavailable: The disk does not answer; likewise.
        """
        with self._merging:
            if not self._is_closed:
                self.release()
                if self.has_garbage():
                    self._segments.settle()

    def compact_fully(self) -> None:
        """Merge all segments into one without dead rows."""
        with self._merging:
            self._merge([entry.segment.id for entry in self.version.segments])
            self._merge([entry.segment.id for entry in self.version.tombstone_segments])
        self.release()

    def _merge(self, chosen: Sequence[SegmentId]) -> None:
        """Merge segments. The merged one is written without the lock, and seen in the shape that there is
        afterwards.
        """
        with self._lock:
            context = self.context
            inputs = [entry for entry in self.version.all_segments if entry.segment.id in chosen]
            if not inputs:
                return
            identity, rows = self._segments.allocate(), self.version.stored_rows
        merge = Merge(inputs, context)
        merged = self._segments.write_merge(merge, identity, rows)
        merge.join_columns(merged.segment)
        with self._lock:
            changes = replace_inputs(self.version, inputs, merged.reshape(self.context))
            self._install(self._shape, self.version.epoch, changes, self._manifest.cutoff, self.digest)
        merge.warm(merged.segment)

    def check_records(self) -> None:
        """See that manifest, segment records and delete vectors are stored as they are known here.

        Raises:
            DamagedError: They are not.
            Unavailable: The partition is closed, or the disk does not answer.
        """
        with self._lock:
            # What is in memory alone is no damage.
            if not (self._is_closed or self.is_written):
                self._write(self._manifest, self.version)
            data = self._storage.get(MANIFEST)
            if data is None and not self.version.all_segments:
                return  # nothing was ever written
            if data is None or Manifest.from_bytes(data).segments != self._written.segments:
                raise damage_error("manifest")
            for entry in self.version.all_segments:
                if self._segments.count_live(entry.segment.id, self._created) != entry.live_rows:
                    raise damage_error("delete vector")

    def release(self) -> None:
        """Remove the bytes of segments that no version refers to any more. Not with an epoch: readers wait
        for that.
        """
        if self._segments.has_retired:
            with self._lock:
                written = self._written
                self._segments.remove_retired({*written.segments, *written.tombstone_segments})

    def close(self, epoch: Epoch | None = None, digest: str = "") -> None:
        """Close the partition.

        Args:
            epoch: Newest epoch that has been looked at, if known; it is noted.
            digest: As `Commit.digest` of the epoch.
        """
        with self._lock:
            # What a full or damaged disk does not take, the changelog has.
            with suppress(LivestateError):
                if epoch is not None and epoch > self.applied:
                    self._note_epoch(epoch, digest)
                elif not (self._is_closed or self.is_written):
                    self._write(self._manifest, self.version)
            self._close_storage()

    def abandon(self) -> None:
        """Close the partition once it is not being compacted, and note nothing: what it has is of no use any
        more.
        """
        with self._merging, self._lock:
            self._close_storage()

    def _close_storage(self) -> None:
        if not self._is_closed:
            self._segments.close()
        self._is_closed = True
        try:
            self._storage.close()
        except LivestateError as error:
            # All that was written is there, or is found damaged at the next open.
            name, number = self.identity
            _log.warning("Partition %d of store %s was not closed in order: %s", number, name, error.message)


def _delete_vectors(version: Version) -> Mapping[SegmentId, DeleteVector]:
    """The delete vector of each segment that has one."""
    return {entry.segment.id: entry.dead for entry in version.all_segments if entry.dead is not None}


def _count_live_rows(version: Version) -> tuple[int, ...]:
    """The live rows of each segment, as a manifest has them."""
    return tuple(entry.live_rows for entry in version.all_segments)
