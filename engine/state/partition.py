"""A partition store: applies epochs to one partition, keeps it compact, and survives crashes at
whole epochs.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import Corrupt
from engine.model.schema import TOMBSTONE_COLUMN, Epoch, PartitionId, StoreDefinition, StoreName
from engine.state import keys as sort_keys
from engine.state.cache import ColumnCache
from engine.state.compaction import SegmentSize, choose, span_of
from engine.state.expiry import drop_old_rows, expire, replace_old_by_tombstones
from engine.state.formats import (
    MANIFEST,
    Manifest,
    SegmentId,
    SegmentRecord,
    dead_delta_key,
    dead_delta_range,
    dead_rows_key,
    decode_live,
    decode_rows,
    encode_live,
    encode_rows,
    segment_key,
    segment_ranges,
)
from engine.state.keys import Keys, Rows
from engine.state.memory_storage import Memory
from engine.state.partition_shape import Migrated, Shape
from engine.state.rocks import Rocks, WriteBuffers
from engine.state.segment import PartitionContext, Segment, SegmentBuilder, cache_keys
from engine.state.segment_merge import Merge, segment_of_rows
from engine.state.state_options import MIB, StateOptions
from engine.state.storage import Pair, Range, Storage
from engine.state.stored_rows import StoredRows
from engine.state.version import LiveSegment, Version, supersede

EPOCHS_BETWEEN_NOTES = 256
"""An untouched partition notes its epoch this often, so that a restart reads no more of the changelog than
that.
"""
DELTAS_PER_SEGMENT = 64
"""Deltas of dead rows that a segment gathers before they are folded into one delete vector."""
RECLAIM_BYTES, RECLAIM_TIMES = 8 * MIB, 4
"""Space is given back when segments have gone that were this large together, and this many times as large as
what is left.
"""
UNLOGGED_BYTES = 4 * MIB
"""Merges, and segments of a snapshot, from this size on bypass the write-ahead log and are flushed instead:
half the bytes written.
"""


@dataclass(frozen=True)
class _Retired:
    """A segment that no version refers to any more."""

    segment: SegmentId
    nbytes: int
    blocks: int
    columns: Collection[int]


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
        buffers: Bound of all RocksDB memtables of the host.
        definition_at: Gives what the store is at a generation of its group; None where it was never migrated.

    Raises:
        Corrupt: What is on the disk is damaged, or belongs to another store.
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
        buffers: WriteBuffers | None = None,
        definition_at: Callable[[int], StoreDefinition] | None = None,
    ) -> None:
        self._options = options
        self._storage: Storage = Memory() if definition.behaviour.in_memory else Rocks(path, options, buffers)
        self._retired: deque[_Retired] = deque()
        self._deltas: dict[SegmentId, int] = {}
        self._unreclaimed = 0
        self._lock, self._merging = Lock(), Lock()
        try:
            self._open(definition.name, partition, cache, definition_at or (lambda generation: definition))
            self._drop_orphans()
        except BaseException:
            # Whatever it is: a RocksDB that stays open cannot be opened again, and so not be tried again.
            self._storage.close()
            raise

    # ---- opening

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
        self._shape = Shape.open(Migrated(definition_at(generation), generation), self._storage, cache)
        self._numbers = self.context.stored_numbers
        """The columns that there were since the partition was opened, and so those that the cache
        can have.
        """
        self._manifest = known or Manifest(store, partition, self._shape.columns, Epoch(0), SegmentId(1), ())
        if (self._manifest.store, self._manifest.partition, self._manifest.columns) != (
            store,
            partition,
            self._shape.columns,
        ):
            raise Corrupt(
                f"The data directory holds partition {self._manifest.partition} of store "
                f"{self._manifest.store} in another shape than partition "
                f"{partition} of store {store} has; delete the partition's directory and the host rebuilds "
                "it from the changelog."
            )
        created = definition_at(0)
        numbers = {
            name: column.number
            for name, column in zip(created.stored_schema.names, created.columns, strict=True)
        }
        self._next_segment = self._manifest.next_segment
        segments, tombstones = (
            [self._open_segment(each, numbers) for each in ids]
            for ids in (self._manifest.segments, self._manifest.tombstone_segments)
        )
        self.version = Version(self._manifest.epoch, tuple(segments), tuple(tombstones))

    def _open_segment(self, identity: SegmentId, created: Mapping[str, int]) -> LiveSegment:
        data = self._storage.get(segment_key(identity))
        if data is None:
            raise Corrupt(
                "A segment of a partition is missing; delete the partition's directory and the host rebuilds "
                "it from the changelog."
            )
        segment = self._track(Segment(identity, SegmentRecord.from_bytes(data, created), self.context))
        folded = self._storage.get(dead_rows_key(identity))
        deltas = [decode_rows(value) for _, value in self._storage.pairs(dead_delta_range(identity)[0])]
        self._deltas[identity] = len(deltas)
        if folded is None and not deltas:
            return LiveSegment(segment, None, segment.rows)
        live = np.ones(segment.rows, np.uint8) if folded is None else decode_live(folded, segment.rows)
        for rows in deltas:
            live[rows] = 0
        return LiveSegment(segment, live, int(np.count_nonzero(live)))

    def _drop_orphans(self) -> None:
        """Remove what a crash left of segments that never came to count."""
        known = {*self._manifest.segments, *self._manifest.tombstone_segments}
        garbage: list[Range] = []
        for mark in (b"s", b"b", b"d", b"D"):
            found = self._storage.first_key_from(mark)
            while found is not None and found.startswith(mark):
                segment = SegmentId(int.from_bytes(found[1:9], "big"))
                if segment not in known:
                    garbage.append((mark + found[1:9], mark + (segment + 1).to_bytes(8, "big")))
                    self._next_segment = SegmentId(max(self._next_segment, segment + 1))
                found = self._storage.first_key_from(mark + (segment + 1).to_bytes(8, "big"))
        if garbage:
            self._storage.write_atomically((), garbage)

    def _track(self, segment: Segment) -> Segment:
        """Let the segment's bytes go once no version refers to it. The finalizer only notes it: it may run
        inside anybody's lock.
        """
        record = segment.record
        retired = _Retired(segment.id, record.nbytes, segment.blocks, record.column_bytes.keys())
        weakref.finalize(segment, self._retired.append, retired).atexit = False
        return segment

    @property
    def context(self) -> PartitionContext:
        """In which segments are seen and stored now."""
        return self._shape.context

    @property
    def identity(self) -> tuple[StoreName, PartitionId]:
        """Which partition this is, of which store."""
        return StoreName(self._manifest.store), PartitionId(self._manifest.partition)

    @property
    def generation(self) -> int:
        """How many migrations of the store group are in effect."""
        return self._shape.generation

    @property
    def is_in_shape(self) -> bool:
        """Whether all segments are stored as they are seen; else `compact` has something to do."""
        return all(entry.segment.is_in_shape for entry in self.version.all_segments)

    # ---- applying epochs

    @property
    def applied(self) -> Epoch:
        """Newest epoch that is applied and noted on the disk."""
        return self._manifest.epoch

    def apply(
        self,
        epoch: Epoch,
        rows: pa.RecordBatch | pa.Table | None,
        *,
        replaces: bool = False,
        cutoff: int | None = None,
        migrated: Migrated | None = None,
    ) -> Version:
        """Apply what an epoch brings to this partition.

        Args:
            epoch: The epoch; one that is applied already changes nothing.
            rows: Upserts in the store's row schema, in commit order, and tombstones where the column
                `__tombstone` is true. The store's kind says how they are folded; of a key-value store the
                last row of a key wins. None where the epoch has no rows for this partition. A table is cut
                into pieces between its batches where it is large (`StateOptions.apply_bytes`); what comes of
                them becomes visible, and durable, as one.
            replaces: Whether all rows of before are removed first.
            cutoff: The time before which rows are gone, microseconds since 1970 UTC, for a store with
                retention; older rows do not come in any more.
            migrated: What the store is from this epoch on, its rows included; None where the group was not
                migrated.

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
            before, expired = self._expire(
                shape, () if replaces else shape.reshape(self.version.all_segments), cutoff
            )
            cutoff = self._later_cutoff(shape, cutoff)
            state = _Unfinished(before, expired)
            pieces = () if rows is None else _pieces(rows, self._options.apply_bytes)
            is_whole = len(pieces) == 1
            for piece in pieces:
                batch = pa.concat_batches(piece) if len(piece) > 1 else piece[0]
                self._apply_piece(shape, state, batch, cutoff, is_whole=is_whole)
            if (
                rows is not None
                and not is_whole
                and cutoff is not None
                and shape.time_column
                and shape.time_column not in rows.schema.names
            ):
                state.expire(shape, cutoff)
            return self._install(shape, epoch, state.old, state.died, state.added, state.tombstones, cutoff)

    def _apply_piece(
        self, shape: Shape, state: _Unfinished, rows: pa.RecordBatch, cutoff: int | None, *, is_whole: bool
    ) -> None:
        """Fold rows of an epoch into what those before them have left, and write what comes of it.

        A time that a fold gives is known once all of the epoch is folded: what is past its retention by that
        goes at the end, with the last piece.
        """
        stored = StoredRows(state.all, shape.context)
        rows = _fold_rows(shape, rows, stored, cutoff, is_whole=is_whole)
        if not rows.num_rows:
            return
        keys, order = stored.sort(rows)
        state.mark_dead(*stored.supersede(sort_keys.take(keys, order)))
        state.added += self._write_rows(shape, rows, keys, _live_rows(rows, order))
        state.tombstones += self._write_tombstones(shape, rows, order)

    def advances_cutoff(self, cutoff: int) -> bool:
        """Whether a cutoff is later than the one that the partition knows."""
        return self._manifest.cutoff is None or cutoff > self._manifest.cutoff

    def _expire(
        self, shape: Shape, segments: Sequence[LiveSegment], cutoff: int | None
    ) -> tuple[Sequence[LiveSegment], Mapping[SegmentId, Rows]]:
        """Let go of rows that are past their retention."""
        name = shape.time_column
        if not name or cutoff is None or not self.advances_cutoff(cutoff):
            return segments, {}
        return expire(segments, shape.context.schema.get_field_index(name), name, cutoff)

    def _later_cutoff(self, shape: Shape, cutoff: int | None) -> int | None:
        """The later of a cutoff and the one that the partition knows. Known once its epoch is installed: one
        that fails comes again.
        """
        return (
            cutoff
            if shape.time_column and cutoff is not None and self.advances_cutoff(cutoff)
            else self._manifest.cutoff
        )

    def restore(
        self,
        epoch: Epoch,
        batches: Iterable[pa.RecordBatch],
        cutoff: int | None = None,
        migrated: Migrated | None = None,
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
                    tombstones += self._write_tombstones(shape, rows, np.arange(rows.num_rows))
                    continue
                keys = shape.context.codec.encode([rows.column(place) for place in shape.context.key])
                is_large = rows.nbytes >= UNLOGGED_BYTES
                added += self._write_rows(shape, rows, keys, sort_keys.order(keys), logged=not is_large)
                if is_large:
                    self._storage.flush()
            return self._install(shape, epoch, [], {}, added, tombstones, self._later_cutoff(shape, cutoff))

    def advance(self, epoch: Epoch) -> None:
        """Note, now and then, that the partition has no rows in the epochs up to this one.

        Args:
            epoch: Newest epoch that has been looked at.
        """
        with self._lock:
            if epoch >= self.applied + EPOCHS_BETWEEN_NOTES:
                self._note(epoch)

    def _note(self, epoch: Epoch) -> None:
        self._manifest = replace(self._manifest, epoch=epoch)
        self._storage.write_atomically([(MANIFEST, self._manifest.to_bytes())])

    def _write_rows(
        self, shape: Shape, rows: pa.RecordBatch, keys: Keys, order: Rows, *, logged: bool = True
    ) -> list[LiveSegment]:
        if not len(order):
            return []
        widest = max(column.nbytes for column in rows.columns)
        builder = SegmentBuilder(
            self._allocate(), len(order), widest * len(order) // rows.num_rows, shape.context, self._options
        )
        self._storage.write(segment_of_rows(builder, shape.context, rows, keys, order), logged=logged)
        return [LiveSegment(self._track(builder.finish()), None, len(order))]

    def _write_tombstones(self, shape: Shape, rows: pa.RecordBatch, order: Rows) -> list[LiveSegment]:
        """Keep in mind what keys were removed with, for stores that go by an order column; the columns that
        this does not take are null.
        """
        if not shape.order_column or TOMBSTONE_COLUMN not in rows.schema.names:
            return []
        schema, key = shape.context.schema, shape.context.key
        is_kept = pc.and_(rows.column(TOMBSTONE_COLUMN), rows.column(shape.order_column).is_valid()).to_numpy(
            zero_copy_only=False
        )
        chosen = rows.take(pa.array(order[is_kept[order]]))
        kept = {*(schema.names[place] for place in key), shape.order_column, shape.time_column}
        columns = [
            chosen.column(field.name) if field.name in kept else pa.nulls(len(chosen), field.type)
            for field in schema
        ]
        keys = shape.context.codec.encode([columns[place] for place in key])
        return (
            self._write_rows(
                shape, pa.RecordBatch.from_arrays(columns, schema=schema), keys, sort_keys.order(keys)
            )
            if len(chosen)
            else []
        )

    def _allocate(self) -> SegmentId:
        identity = self._next_segment
        self._next_segment = SegmentId(identity + 1)
        return identity

    def _install(
        self,
        shape: Shape,
        epoch: Epoch,
        segments: Sequence[LiveSegment],
        died: Mapping[SegmentId, Rows],
        added: Sequence[LiveSegment],
        tombstones: Sequence[LiveSegment] = (),
        cutoff: int | None = None,
    ) -> Version:
        """Make segments whose blocks are written count, in one atomic write, and only then visible.

        Args:
            shape: The shape in which they all are seen.
            epoch: The epoch that the partition has come to.
            segments: Those of before that still count, those tombstone segments among them.
            died: Rows that have died in them, and in new ones.
            added: New ones that have rows.
            tombstones: New ones that have tombstones.
            cutoff: The time before which rows are gone; None where it is what it was.
        """
        known_tombstones = self._manifest.tombstone_segments
        old = (
            tuple(entry for entry in segments if entry.segment.id in known_tombstones)
            if known_tombstones
            else ()
        )
        rows = (
            tuple(entry for entry in segments if entry.segment.id not in known_tombstones)
            if known_tombstones
            else tuple(segments)
        )
        version = Version(epoch, (*rows, *added), (*old, *tombstones))
        manifest = replace(
            self._manifest,
            columns=shape.columns,
            generation=shape.generation,
            epoch=max(epoch, self._manifest.epoch),
            next_segment=self._next_segment,
            segments=tuple(entry.segment.id for entry in version.segments),
            tombstone_segments=tuple(entry.segment.id for entry in version.tombstone_segments),
            cutoff=self._manifest.cutoff if cutoff is None else cutoff,
        )
        pairs: list[Pair] = [
            (segment_key(entry.segment.id), entry.segment.record.to_bytes())
            for entry in (*added, *tombstones)
        ]
        removed: list[Range] = []
        for entry in version.all_segments:
            if entry.segment.id in died:
                pairs += self._dead_rows(entry, epoch, died[entry.segment.id], removed)
        self._write_and_let_go([*pairs, (MANIFEST, manifest.to_bytes())], removed)
        if shape is not self._shape:
            self._numbers |= shape.context.stored_numbers
        self._manifest, self._shape, self.version = manifest, shape, version
        return version

    def _dead_rows(self, entry: LiveSegment, epoch: Epoch, rows: Rows, removed: list[Range]) -> list[Pair]:
        """The smaller of a delta and a whole delete vector; many deltas are folded into one."""
        identity, count = entry.segment.id, self._deltas.get(entry.segment.id, 0)
        if count < DELTAS_PER_SEGMENT and len(rows) * 32 <= entry.segment.rows:
            self._deltas[identity] = count + 1
            return [(dead_delta_key(identity, epoch), encode_rows(rows))]
        assert entry.live is not None
        self._deltas[identity] = 0
        removed.append(dead_delta_range(identity))
        return [(dead_rows_key(identity), encode_live(entry.live))]

    # ---- compaction

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
            chosen = (
                choose(self._sizes(self.version.segments), self._options)
                or choose(self._sizes(self.version.tombstone_segments), self._options)
                or self._out_of_shape()
            )
            if chosen:
                self._merge(chosen)
        self.release()
        if self._unreclaimed > max(RECLAIM_BYTES, RECLAIM_TIMES * self.version.nbytes):
            self._unreclaimed = 0
            self._storage.reclaim()
        return bool(chosen)

    def _sizes(self, segments: Iterable[LiveSegment]) -> Sequence[SegmentSize]:
        time = self._shape.key_time
        sizes = []
        for entry in segments:
            statistics = entry.segment.statistics_of(time) if time else None
            span = None if statistics is None else span_of(statistics)
            sizes.append(
                SegmentSize(
                    entry.segment.id, entry.segment.rows, entry.live_rows, entry.segment.record.nbytes, span
                )
            )
        return sizes

    def _out_of_shape(self) -> Sequence[SegmentId]:
        """A segment that is not stored as it is seen: a rewrite makes reads cheaper, and lets go of dropped
        columns.
        """
        return next(
            ((entry.segment.id,) for entry in self.version.all_segments if not entry.segment.is_in_shape), ()
        )

    def compact_fully(self) -> None:
        """Merge all segments into one without dead rows."""
        with self._merging:
            self._merge(tuple(entry.segment.id for entry in self.version.segments))
            self._merge(tuple(entry.segment.id for entry in self.version.tombstone_segments))
        self.release()

    def _merge(self, chosen: Sequence[SegmentId]) -> None:
        with self._lock:
            context = self.context
            inputs = [entry for entry in self.version.all_segments if entry.segment.id in chosen]
            if not inputs:
                return
            identity = self._allocate()
        merge = Merge(inputs, context)
        builder = merge.builder(identity, self._options)
        is_large = sum(entry.segment.record.nbytes for entry in inputs) >= UNLOGGED_BYTES
        self._storage.write(merge.build(builder), logged=not is_large)
        if is_large:
            self._storage.flush()
        self._replace(inputs, LiveSegment(self._track(builder.finish()), None, merge.rows))

    def _replace(self, inputs: Sequence[LiveSegment], merged: LiveSegment) -> None:
        """Install a merged segment; what died in its inputs while it was written dies in it too, and it is
        seen in the shape that there is then.
        """
        with self._lock:
            merged = merged.reshape(self.context)
            now = {entry.segment.id: entry for entry in self.version.all_segments}
            late = [_died_since(entry, now.get(entry.segment.id)) for entry in inputs]
            keys = sort_keys.concatenate(late)
            added, died = supersede([merged], sort_keys.take(keys, sort_keys.order(keys)))
            replaced = {entry.segment.id for entry in inputs}
            rest = [entry for entry in self.version.all_segments if entry.segment.id not in replaced]
            if replaced.isdisjoint(self._manifest.tombstone_segments):
                self._install(self._shape, self.version.epoch, rest, died, added)
            else:
                self._install(self._shape, self.version.epoch, rest, died, [], added)

    # ---- letting go

    def release(self) -> None:
        """Remove the bytes of segments that no version refers to any more."""
        if self._retired:
            with self._lock:
                self._write_and_let_go()

    def _write_and_let_go(self, pairs: Iterable[Pair] = (), removed: Iterable[Range] = ()) -> None:
        """Write atomically, and remove with it what is stored of segments that are noted as retired. They
        stay noted where that fails.
        """
        # By place, not by iteration: finalizers of other threads may add behind these at any time.
        retired = [self._retired[place] for place in range(len(self._retired))]
        ranges = [entry for each in retired for entry in segment_ranges(each.segment)]
        self._storage.write_atomically(pairs, [*ranges, *removed])
        for each in retired:
            self._retired.popleft()
            self.context.cache.drop(
                cache_keys(self.context.number, each.segment, each.blocks, self._numbers.union(each.columns))
            )
            self._unreclaimed += each.nbytes
            self._deltas.pop(each.segment, None)

    def close(self, epoch: Epoch | None = None) -> None:
        """Close the partition.

        Args:
            epoch: Newest epoch that has been looked at, if known; it is noted.
        """
        with self._lock:
            if epoch is not None and epoch > self.applied:
                self._note(epoch)
            self._storage.close()


class _Unfinished:
    """A partition while an epoch is applied to it.

    Args:
        old: The segments of before, those tombstone segments among them.
        died: Rows that have died in them.

    Attributes:
        old: Those that still have live rows.
        added: New segments with rows, likewise.
        tombstones: New segments with tombstones, likewise.
        died: Rows that have died in any of them.
    """

    def __init__(self, old: Sequence[LiveSegment], died: Mapping[SegmentId, Rows]) -> None:
        self.old = old
        self.added: list[LiveSegment] = []
        self.tombstones: list[LiveSegment] = []
        self.died = died

    @property
    def all(self) -> Sequence[LiveSegment]:
        """All segments that rows can be in."""
        return [*self.old, *self.added, *self.tombstones] if self.added or self.tombstones else self.old

    def mark_dead(self, remaining: Sequence[LiveSegment], died: Mapping[SegmentId, Rows]) -> None:
        """Take note of rows that have died.

        Args:
            remaining: The segments of `all` that still have live rows.
            died: The rows, of those of them that have changed.
        """
        self.died = _all_died(self.died, died)
        if not (self.added or self.tombstones):
            self.old = remaining
            return
        left = {entry.segment.id: entry for entry in remaining}
        self.old, self.added, self.tombstones = (
            [left[entry.segment.id] for entry in entries if entry.segment.id in left]
            for entries in (self.old, self.added, self.tombstones)
        )

    def expire(self, shape: Shape, cutoff: int) -> None:
        """Let go of rows of the epoch itself that are past their retention."""
        name = shape.time_column
        added, died = expire(self.added, shape.context.schema.get_field_index(name), name, cutoff)
        self.mark_dead([*self.old, *added, *self.tombstones], died)


def _pieces(rows: pa.RecordBatch | pa.Table, most_bytes: int) -> Sequence[Sequence[pa.RecordBatch]]:
    """Rows in pieces that are not larger than they may be, but for a single batch that is so by itself.

    Args:
        rows: The rows.
        most_bytes: Arrow bytes of a piece of several batches.

    Returns:
        The batches of each piece, at least one.
    """
    if isinstance(rows, pa.RecordBatch):
        return [[rows]]
    pieces: list[list[pa.RecordBatch]] = []
    room = -1
    for batch in rows.to_batches():
        room -= batch.nbytes
        if room < 0:
            pieces.append([])
            room = most_bytes - batch.nbytes
        pieces[-1].append(batch)
    return pieces


def _fold_rows(
    shape: Shape, rows: pa.RecordBatch, stored: StoredRows, cutoff: int | None, *, is_whole: bool
) -> pa.RecordBatch:
    """Rows as they are to be stored; without those that come too late, as far as that is known before the
    epoch is whole.
    """
    name = shape.time_column
    is_told = name in rows.schema.names
    if cutoff is not None and is_told:
        rows = drop_old_rows(rows, name, cutoff)
    if shape.fold is not None and rows.num_rows:
        rows = shape.fold.fold(rows, stored)
    return (
        rows if cutoff is None or is_told or not is_whole else replace_old_by_tombstones(rows, name, cutoff)
    )


def _all_died(some: Mapping[SegmentId, Rows], others: Mapping[SegmentId, Rows]) -> Mapping[SegmentId, Rows]:
    """Rows that died for either of two reasons."""
    return {
        **some,
        **{
            segment: np.concatenate([some[segment], rows]) if segment in some else rows
            for segment, rows in others.items()
        },
    }


def _live_rows(rows: pa.RecordBatch, order: Rows) -> Rows:
    if TOMBSTONE_COLUMN not in rows.schema.names:
        return order
    removed = pc.fill_null(rows.column(TOMBSTONE_COLUMN), False).to_numpy(zero_copy_only=False)
    kept: Rows = order[~removed[order]]
    return kept


def _died_since(then: LiveSegment, now: LiveSegment | None) -> Keys:
    """Sort keys of the rows that were live then and are not now; a segment that is gone has none that are
    live.
    """
    alive_then = np.ones(then.segment.rows, np.uint8) if then.live is None else then.live
    if now is None:
        rows = np.flatnonzero(alive_then)
    elif now.live is None:
        rows = np.empty(0, np.intp)
    else:
        rows = np.flatnonzero(alive_then > now.live)
    return sort_keys.take(then.segment.keys(), rows)
