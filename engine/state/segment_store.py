"""What is stored of a partition's segments: their blocks, their records, and which of their rows are dead."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.model.schema import TOMBSTONE_COLUMN, Epoch
from engine.processes.right_of_way import RIGHT_OF_WAY
from engine.state import keys as sort_keys
from engine.state.damage import damage_error
from engine.state.formats import (
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
from engine.state.partition_shape import Shape
from engine.state.segment import PartitionContext, Segment, cache_keys
from engine.state.segment_builder import SegmentBuilder, build_segment
from engine.state.segment_merge import Merge
from engine.state.state_options import MIB, StateOptions
from engine.state.storage import Pair, Range, Storage
from engine.state.version import Live, LiveSegment

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
        self, storage: Storage, context: PartitionContext, options: StateOptions, next_segment: SegmentId
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
        self._deltas: dict[SegmentId, int] = {}
        self._unreclaimed = 0

    def open(self, identity: SegmentId, created: Mapping[str, int]) -> LiveSegment:
        """A segment that counts.

        Args:
            identity: Its id.
            created: Column name to number, as the store was created.

        Raises:
            Corrupt: It is missing or damaged.
        """
        record = self._read_record(identity, created)
        segment = self._track(Segment(identity, record, self._context))
        live, self._deltas[identity] = self._read_live(identity, record.rows)
        if live is None:
            return LiveSegment(segment, None, segment.rows)
        return LiveSegment(segment, live, int(np.count_nonzero(live)))

    def count_live(self, identity: SegmentId, created: Mapping[str, int]) -> int:
        """How many rows of a segment that counts are live by what is stored of it.

        Args:
            identity: Its id.
            created: As for `open`.

        Raises:
            DamagedError: It is missing or damaged.
        """
        record = self._read_record(identity, created)
        live, _ = self._read_live(identity, record.rows)
        return record.rows if live is None else int(np.count_nonzero(live))

    def _read_record(self, identity: SegmentId, created: Mapping[str, int]) -> SegmentRecord:
        data = self._storage.get(segment_key(identity))
        if data is None:
            raise damage_error("list of segments")
        return SegmentRecord.from_bytes(data, created)

    def _read_live(self, identity: SegmentId, rows: int) -> tuple[Live | None, int]:
        """The stored delete vector of a segment, None where it has none; and how many deltas it has."""
        folded = self._storage.get(dead_rows_key(identity))
        deltas = [decode_rows(value) for _, value in self._storage.pairs(dead_delta_range(identity)[0])]
        if folded is None and not deltas:
            return None, 0
        live = np.ones(rows, np.uint8) if folded is None else decode_live(folded, rows)
        for dead in deltas:
            if len(dead) and dead.max() >= rows:
                raise damage_error("delete vector")
            live[dead] = 0
        return live, len(deltas)

    def drop_orphans(self, known: Collection[SegmentId]) -> None:
        """Remove what a crash left of segments that never came to count.

        Args:
            known: Those that count.
        """
        garbage: list[Range] = []
        for mark in (b"s", b"b", b"d", b"D"):
            found = self._storage.first_key_from(mark)
            while found is not None and found.startswith(mark):
                segment = SegmentId(int.from_bytes(found[1:9], "big"))
                if segment not in known:
                    garbage.append((mark + found[1:9], mark + (segment + 1).to_bytes(8, "big")))
                    self.next_segment = SegmentId(max(self.next_segment, segment + 1))
                found = self._storage.first_key_from(mark + (segment + 1).to_bytes(8, "big"))
        if garbage:
            self._storage.write_atomically((), garbage)

    def _track(self, segment: Segment) -> Segment:
        """Note the segment as retired once no version refers to it. The finalizer does no more: it may run
        inside anybody's lock.
        """
        record = segment.record
        retired = _Retired(segment.id, record.nbytes, segment.blocks, record.column_bytes.keys())
        weakref.finalize(segment, self._retired.append, retired).atexit = False
        return segment

    def allocate(self) -> SegmentId:
        """An id for a new segment."""
        identity = self.next_segment
        self.next_segment = SegmentId(identity + 1)
        return identity

    def write_rows(
        self, context: PartitionContext, rows: pa.RecordBatch, keys: Keys, order: Rows, *, is_logged: bool
    ) -> list[LiveSegment]:
        """Write rows as a new segment.

        Args:
            context: The partition.
            rows: A batch whose first columns are those of the stored schema.
            keys: Sort key of each row of the batch.
            order: The rows to keep, in key order.
            is_logged: Whether through the write-ahead log; else the segment is flushed.

        Returns:
            The segment; none where no row is to be kept.
        """
        if not len(order):
            return []
        widest = max(column.nbytes for column in rows.columns)
        builder = SegmentBuilder(
            self.allocate(), len(order), widest * len(order) // rows.num_rows, context, self._options
        )
        pairs = build_segment(builder, context, rows, keys, order)
        return [self._write(builder, pairs, is_logged=is_logged)]

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

    def write_merge(self, merge: Merge, identity: SegmentId) -> LiveSegment:
        """Write a merged segment; for any thread.

        Args:
            merge: The merge.
            identity: Of the new segment, as `allocate` gave it.
        """
        builder = merge.builder(identity, self._options)
        return self._write(builder, merge.build(builder), is_logged=merge.nbytes < UNLOGGED_BYTES)

    def _write(self, builder: SegmentBuilder, pairs: Iterable[Pair], *, is_logged: bool) -> LiveSegment:
        self._storage.write(map(_give_way_after, pairs), logged=is_logged)
        segment = self._track(builder.finish())
        if not is_logged:
            self._storage.flush()
        return LiveSegment(segment, None, segment.rows)

    def encode_dead_rows(
        self, entry: LiveSegment, epoch: Epoch, rows: Rows
    ) -> tuple[Sequence[Pair], Sequence[Range]]:
        """The stored form of rows that have died: the smaller of a delta and a whole delete vector. Many
        deltas are folded into one.

        Args:
            entry: The segment, after they have died.
            epoch: At which epoch.
            rows: The rows.

        Returns:
            What to write, and what to remove with it.
        """
        identity, count = entry.segment.id, self._deltas.get(entry.segment.id, 0)
        if count < DELTAS_PER_SEGMENT and len(rows) * 32 <= entry.segment.rows:
            self._deltas[identity] = count + 1
            return [(dead_delta_key(identity, epoch), encode_rows(rows))], ()
        assert entry.live is not None
        self._deltas[identity] = 0
        return [(dead_rows_key(identity), encode_live(entry.live))], [dead_delta_range(identity)]

    def note_columns(self, context: PartitionContext) -> None:
        """Take note of the columns of another shape: the cache can have them from now on."""
        self._numbers |= context.stored_numbers

    @property
    def has_retired(self) -> bool:
        """Whether something is stored of segments that no version refers to any more."""
        return bool(self._retired)

    def commit(self, pairs: Iterable[Pair] = (), removed: Iterable[Range] = ()) -> None:
        """Write atomically, and remove with it what is stored of segments that are noted as retired. They
        stay noted where that fails.

        Args:
            pairs: What to write.
            removed: What to remove beside them.
        """
        # By index, not by iteration: finalizers of other threads may add behind these at any time.
        retired = [self._retired[index] for index in range(len(self._retired))]
        ranges = [entry for each in retired for entry in segment_ranges(each.segment)]
        self._storage.write_atomically(pairs, [*ranges, *removed])
        for each in retired:
            self._retired.popleft()
            numbers = self._numbers.union(each.columns)
            self._context.cache.drop(cache_keys(self._context.number, each.segment, each.blocks, numbers))
            self._unreclaimed += each.nbytes
            self._deltas.pop(each.segment, None)

    def reclaim(self, nbytes: int) -> None:
        """Give back the space of segments that have gone, if that is worth it.

        Args:
            nbytes: Arrow bytes of those that are left.
        """
        if self._unreclaimed > max(RECLAIM_BYTES, RECLAIM_TIMES * nbytes):
            self._unreclaimed = 0
            self._storage.reclaim()


def _give_way_after(pair: Pair) -> Pair:
    """A pair, once calls have had the interpreter that waited while it was made."""
    RIGHT_OF_WAY.give_way()
    return pair
