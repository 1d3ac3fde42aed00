"""What is stored of a partition's segments: their blocks, their records, and which of their rows are dead."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from engine.model.schema import TOMBSTONE_COLUMN
from engine.state import keys as sort_keys
from engine.state.buffered_storage import BufferedStorage
from engine.state.column_reader import cache_keys
from engine.state.damage import damage_error
from engine.state.delete_vector import DeadRun, DeleteVector, delete_vector
from engine.state.formats import (
    DEAD_RUN_MARK,
    SEGMENT_MARKS,
    SegmentId,
    SegmentRecord,
    dead_bits_key,
    dead_run_key,
    dead_run_range,
    decode_bits,
    decode_rows,
    encode_bits,
    encode_rows,
    segment_key,
    segment_ranges,
)
from engine.state.keys import Keys, Rows
from engine.state.partition_context import PartitionContext
from engine.state.partition_shape import Shape
from engine.state.segment import Segment
from engine.state.segment_builder import SegmentBuilder, block_rows_of, build_buffered_segment, build_segment
from engine.state.segment_merge import Merge
from engine.state.state_options import KIB, MIB, StateOptions
from engine.state.storage import Pair, Range, Storage
from engine.state.version import LiveSegment

RECLAIM_BYTES, RECLAIM_TIMES = 8 * MIB, 4
"""Space is given back when segments have gone that were this large together, and this many times as large as
what is left.
"""
GARBAGE_SHARE = 0.25
"""While a host rests, what is left is written anew where this part of it, or more, has gone."""
UNLOGGED_BYTES = 4 * MIB
"""Merges, and segments of a snapshot, from this size on bypass the write-ahead log and are flushed instead:
half the bytes written.
"""
BUFFERED_BYTES = 128 * KIB
"""Segments up to this size are written together with what makes them count, in one write, and may stay in
memory until then.
"""
_BEGINNING = 9
"""Bytes of a key of something of a segment: its mark, and the segment."""
SKETCHED_SHARE = 16
"""Segments with less than this part of the partition's rows have no sketches: to make them takes a fifth of
the time of a small epoch, and when so many have come that they matter, they are merged.
"""


@dataclass(frozen=True)
class _Retired:
    """A segment that no version refers to any more."""

    segment: SegmentId
    nbytes: int
    key_bytes: int
    blocks: int
    columns: Collection[int]


@dataclass(frozen=True)
class Listing:
    """What is stored of which segments.

    Attributes:
        entries: The mark of each kind of key, with each segment that has such keys.
    """

    entries: Sequence[tuple[bytes, SegmentId]]

    @staticmethod
    def from_storage(storage: Storage) -> Listing:
        """What a storage has."""
        found = [key for key in storage.beginnings(_BEGINNING) if key[:1] in SEGMENT_MARKS]
        return Listing([(key[:1], SegmentId(int.from_bytes(key[1:], "big"))) for key in found])

    @cached_property
    def with_runs(self) -> Collection[SegmentId]:
        """The segments that have dead rows by their numbers."""
        return {segment for mark, segment in self.entries if mark == DEAD_RUN_MARK}


class SegmentStore:
    """The stored segments of a partition. A segment is written before it counts; what is stored of it goes
    once no version refers to it. One thread at a time uses it; `write_merge`, `has_retired` and `reclaim` are
    for any.

    Args:
        storage: Where the bytes are.
        context: The partition, in the shape in which it is opened.
        options: Sizes.
        next_segment: The id that the next segment gets.
    """

    def __init__(
        self,
        storage: BufferedStorage,
        context: PartitionContext,
        options: StateOptions,
        next_segment: SegmentId,
    ) -> None:
        self.next_segment = next_segment
        self._storage = storage
        self._context = context
        self._options = options
        self._numbers = context.stored_numbers
        """The columns that there were since the partition was opened, and so those that the cache
        can have.
        """
        self._retired: deque[_Retired] = deque()
        self._unreclaimed = 0
        self._key_bytes = 0

    def open_all(
        self, identities: Sequence[SegmentId], created: Mapping[str, int], listing: Listing
    ) -> list[LiveSegment]:
        """Segments that count, read together.

        Args:
            identities: Their ids.
            created: Column name to number, as the store was created.
            listing: What is stored of which segments.

        Raises:
            Corrupt: One is missing or damaged.
        """
        keys = [segment_key(each) for each in identities]
        keys += [dead_bits_key(each) for each in identities]
        found = self._storage.get_all(keys) if keys else []
        opened = []
        for place, identity in enumerate(identities):
            record, bits = _decode_record(found[place], created), found[len(identities) + place]
            runs = self._read_runs(identity, record.rows) if identity in listing.with_runs else ()
            segment = self._track(Segment(identity, record, self._context))
            opened.append(LiveSegment(segment, _dead_rows(record.rows, bits, runs)))
        return opened

    def count_live(self, identity: SegmentId, created: Mapping[str, int]) -> int:
        """How many rows of a segment that counts are live by what is stored of it.

        Args:
            identity: Its id.
            created: As for `open`.

        Raises:
            DamagedError: It is missing or damaged.
        """
        record = self._read_record(identity, created)
        dead = self._read_dead(identity, record.rows)
        return record.rows if dead is None else record.rows - dead.dead_rows

    def _read_record(self, identity: SegmentId, created: Mapping[str, int]) -> SegmentRecord:
        return _decode_record(self._storage.get(segment_key(identity)), created)

    def _read_dead(self, identity: SegmentId, rows: int) -> DeleteVector | None:
        """The stored delete vector of a segment; None where it has none."""
        return _dead_rows(rows, self._storage.get(dead_bits_key(identity)), self._read_runs(identity, rows))

    def _read_runs(self, identity: SegmentId, rows: int) -> Sequence[DeadRun]:
        return [
            DeadRun(int.from_bytes(key[9:17], "big"), decode_rows(value, rows))
            for key, value in self._storage.pairs(dead_run_range(identity)[0])
        ]

    def drop_orphans(self, known: Collection[SegmentId], listing: Listing) -> None:
        """Remove what a crash left of segments that never came to count.

        Args:
            known: Those that count.
            listing: What is stored of which segments.
        """
        garbage: list[Range] = []
        for mark, segment in listing.entries:
            if segment not in known:
                low, high = segment.to_bytes(8, "big"), (segment + 1).to_bytes(8, "big")
                garbage.append((mark + low, mark + high))
                self.next_segment = SegmentId(max(self.next_segment, segment + 1))
        if garbage:
            self._storage.write_atomically((), garbage)

    def _track(self, segment: Segment) -> Segment:
        """Note the segment as retired once no version refers to it. The finalizer does no more: it may run
        inside anybody's lock.
        """
        record = segment.record
        key_bytes = segment.reader.key_bytes
        self._count_keys(key_bytes)
        retired = _Retired(segment.id, record.nbytes, key_bytes, segment.blocks, record.column_bytes.keys())
        weakref.finalize(segment.stored, self._retired.append, retired).atexit = False
        return segment

    def _count_keys(self, nbytes: int) -> None:
        """Take note of key columns that there are, or are no more."""
        self._key_bytes += nbytes
        self._context.cache.count_keys(nbytes)

    def close(self) -> None:
        """Take note that the segments need no room in the cache any more."""
        self._count_keys(-self._key_bytes)

    def allocate(self) -> SegmentId:
        """An id for a new segment."""
        identity = self.next_segment
        self.next_segment = SegmentId(identity + 1)
        return identity

    def build_rows(
        self,
        context: PartitionContext,
        rows: pa.RecordBatch,
        keys: Keys,
        order: Rows,
        partition_rows: int,
        *,
        may_be_buffered: bool,
    ) -> tuple[list[LiveSegment], Mapping[SegmentId, Mapping[bytes, pa.Array]]]:
        """Make rows a new segment.

        Args:
            context: The partition.
            rows: A batch whose first columns are those of the stored schema.
            keys: Sort key of each row of the batch.
            order: The rows to keep, in key order.
            partition_rows: How many rows the partition has.
            may_be_buffered: Whether the blocks of a small segment are left to be written with what makes it
                count, or never.

        Returns:
            The segment, none where no row is to be kept; and its blocks by key, if it is not written.
        """
        if not len(order):
            return [], {}
        is_sketched = len(order) * SKETCHED_SHARE >= partition_rows
        nbytes = rows.nbytes
        block_rows = block_rows_of(len(order), nbytes, self._options)
        if (
            not may_be_buffered
            or nbytes > BUFFERED_BYTES
            or len(order) > block_rows
            or len(order) >= self._options.paged_rows
        ):
            written = self.write_rows(context, rows, keys, order, is_logged=True, is_sketched=is_sketched)
            return written, {}
        identity = self.allocate()
        segment, blocks = build_buffered_segment(
            identity, context, rows, keys, order, block_rows, is_sketched=is_sketched
        )
        return [LiveSegment(self._track(segment))], {identity: blocks}

    def write_rows(
        self,
        context: PartitionContext,
        rows: pa.RecordBatch,
        keys: Keys,
        order: Rows,
        *,
        is_logged: bool,
        is_sketched: bool = True,
    ) -> list[LiveSegment]:
        """Write rows as a new segment.

        Args:
            context: The partition.
            rows: A batch whose first columns are those of the stored schema.
            keys: Sort key of each row of the batch.
            order: The rows to keep, in key order.
            is_logged: Whether through the write-ahead log; else the segment is flushed.
            is_sketched: Whether it gets sketches.

        Returns:
            The segment; none where no row is to be kept.
        """
        if not len(order):
            return []
        builder = self._builder(context, rows, len(order), is_sketched=is_sketched)
        pairs = build_segment(builder, context, rows, keys, order)
        return [self._write(builder, pairs, is_logged=is_logged)]

    def _builder(
        self, context: PartitionContext, rows: pa.RecordBatch, kept: int, *, is_sketched: bool
    ) -> SegmentBuilder:
        """A builder for a new segment of so many rows of a batch."""
        widest = max(column.nbytes for column in rows.columns) * kept // rows.num_rows
        return SegmentBuilder(self.allocate(), kept, widest, context, self._options, is_sketched=is_sketched)

    def write_tombstones(self, shape: Shape, rows: pa.RecordBatch, order: Rows) -> list[LiveSegment]:
        """Keep what keys were removed with, for stores that go by an order column.

        Args:
            shape: The partition's shape.
            rows: Rows that come.
            order: Those to look at, in key order.

        Returns:
            A tombstone segment; none where there is nothing to keep. Columns that are not needed are null.
        """
        if not shape.order_column or TOMBSTONE_COLUMN not in rows.schema.names:
            return []
        schema, key = shape.context.schema, shape.context.key
        is_kept = pc.and_(rows.column(TOMBSTONE_COLUMN), rows.column(shape.order_column).is_valid()).to_numpy(
            zero_copy_only=False
        )
        chosen = rows.take(pa.array(order[is_kept[order]]))
        if not len(chosen):
            return []
        needed = {*(schema.names[place] for place in key), shape.order_column, shape.time_column}
        columns = [
            chosen.column(field.name) if field.name in needed else pa.nulls(len(chosen), field.type)
            for field in schema
        ]
        keys = shape.context.codec.encode([columns[place] for place in key])
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        return self.write_rows(shape.context, batch, keys, sort_keys.order(keys), is_logged=True)

    def write_merge(self, merge: Merge, identity: SegmentId, partition_rows: int) -> LiveSegment:
        """Write a merged segment; for any thread.

        Args:
            merge: The merge.
            identity: Of the new segment, as `allocate` gave it.
            partition_rows: How many rows the partition has.
        """
        is_sketched = merge.rows * SKETCHED_SHARE >= partition_rows
        builder = merge.builder(identity, self._options, is_sketched=is_sketched)
        return self._write(builder, merge.build(builder), is_logged=merge.nbytes < UNLOGGED_BYTES)

    def _write(self, builder: SegmentBuilder, pairs: Iterable[Pair], *, is_logged: bool) -> LiveSegment:
        try:
            self._storage.write(pairs, logged=is_logged)
            if not is_logged:
                self._storage.flush()
        except BaseException:
            # What was written of it, as until the disk was full, goes as that of a segment that has gone.
            columns = self._context.stored_numbers
            self._retired.append(_Retired(builder.identity, builder.nbytes, 0, builder.blocks, columns))
            raise
        return LiveSegment(self._track(builder.finish()))

    def note_columns(self, context: PartitionContext) -> None:
        """Take note of the columns of another shape: the cache can have them from now on."""
        self._numbers |= context.stored_numbers

    @property
    def has_retired(self) -> bool:
        """Whether something is stored of segments that no version refers to any more."""
        return bool(self._retired)

    def remove_retired(self, needed: Collection[SegmentId]) -> None:
        """Remove what is stored of segments that are noted as retired. They stay noted where that fails.

        Args:
            needed: Segments that stay, as the stored manifest names them still.
        """
        # By index, not by iteration: finalizers of other threads may add behind these at any time.
        retired = [self._retired[index] for index in range(len(self._retired))]
        gone = [each for each in retired if each.segment not in needed]
        stored = [each for each in gone if not self._storage.has(each.segment)]
        if stored:
            ranges = [entry for each in stored for entry in segment_ranges(each.segment)]
            self._storage.write_atomically((), ranges)
        self._unreclaimed += sum(each.nbytes for each in stored)
        self._storage.release(each.segment for each in gone)
        for each in retired:
            self._retired.popleft()
            if each.segment in needed:
                self._retired.append(each)
                continue
            numbers = self._numbers.union(each.columns)
            self._context.cache.drop(cache_keys(self._context.number, each.segment, each.blocks, numbers))
            self._count_keys(-each.key_bytes)

    def reclaim(self, nbytes: int) -> None:
        """Give back the space of segments that have gone, if that is worth it.

        Args:
            nbytes: Arrow bytes of those that are left.
        """
        if self._unreclaimed > max(RECLAIM_BYTES, RECLAIM_TIMES * nbytes):
            self._unreclaimed = 0
            self._storage.reclaim()

    def has_garbage(self, nbytes: int) -> bool:
        """Whether segments have gone that took more space than is worth being left, while nothing else is to
        be done.

        Args:
            nbytes: As for `reclaim`.
        """
        return self._unreclaimed > max(RECLAIM_BYTES, nbytes * GARBAGE_SHARE)

    def settle(self) -> None:
        """Give back all space that segments took which have gone."""
        self._unreclaimed = 0
        self._storage.reclaim(is_whole=True)


def _decode_record(data: bytes | None, created: Mapping[str, int]) -> SegmentRecord:
    if data is None:
        raise damage_error("list of segments")
    return SegmentRecord.from_bytes(data, created)


def _dead_rows(rows: int, bits: bytes | None, runs: Sequence[DeadRun]) -> DeleteVector | None:
    return delete_vector(rows, None if bits is None else decode_bits(bits, rows), runs)


def encode_dead_rows(
    segment: SegmentId, before: DeleteVector | None, now: DeleteVector
) -> tuple[Sequence[Pair], Sequence[Range]]:
    """The stored form of rows that have died.

    Args:
        segment: The segment.
        before: Its delete vector as it is stored; None where none is.
        now: As it is to be stored.

    Returns:
        What to write, and what to remove before.
    """
    known = () if before is None else before.runs
    if now.bits is not (None if before is None else before.bits):
        assert now.bits is not None
        pairs = [(dead_bits_key(segment), encode_bits(now.bits))]
        removed = [dead_run_range(segment)] if known else []
        known = ()
    else:
        pairs = []
        kept = sum(run is other for run, other in zip(known, now.runs, strict=False))
        known, gone = known[:kept], known[kept:]
        removed = (
            [(dead_run_key(segment, gone[0].number), dead_run_key(segment, gone[-1].number + 1))]
            if gone
            else []
        )
    pairs += [(dead_run_key(segment, run.number), encode_rows(run.rows)) for run in now.runs[len(known) :]]
    return pairs, removed
