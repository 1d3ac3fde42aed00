"""An epoch while it is applied to a partition: rows are folded and written, and nothing of it counts yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from engine.model.schema import TOMBSTONE_COLUMN
from engine.state import keys as sort_keys
from engine.state.expiry import drop_old_rows, expire, replace_old_by_tombstones
from engine.state.formats import SegmentId
from engine.state.keys import Rows
from engine.state.partition_shape import Shape
from engine.state.segment_store import SegmentStore
from engine.state.stored_rows import StoredRows
from engine.state.version import LiveSegment, SegmentChanges

STORED_TIMES = 4
"""What is stored of the keys of a piece is read at once up to so many times the bytes of a piece."""


class PendingEpoch:
    """What an epoch makes of a partition's segments. For one thread.

    Args:
        shape: The partition's shape at the epoch.
        segments: Where new segments are written.
        before: The segments of before in that shape, tombstone segments among them.
        cutoff: The time before which rows are gone; None where there is none.
    """

    def __init__(
        self, shape: Shape, segments: SegmentStore, before: Sequence[LiveSegment], cutoff: int | None
    ) -> None:
        self._shape = shape
        self._segments = segments
        self._cutoff = cutoff
        self._kept = before
        self._added: Sequence[LiveSegment] = []
        self._tombstones: Sequence[LiveSegment] = []
        self._unwritten: dict[SegmentId, Mapping[bytes, pa.Array]] = {}

    @property
    def changes(self) -> SegmentChanges:
        """What becomes of the segments."""
        return SegmentChanges(self._kept, self._added, self._tombstones, self._unwritten)

    def expire_stored(self) -> None:
        """Make rows of before dead that are past their retention."""
        self._kept = self._expire(self._kept)

    def apply(self, batches: Iterable[pa.RecordBatch], most_bytes: int) -> None:
        """Apply all rows of the epoch, piece by piece.

        A time that a fold gives is known once all of the epoch is folded: what is past its retention by that
        goes with the last piece.

        Args:
            batches: The rows, as for `PartitionStore.apply`; a batch is asked for when it is needed.
            most_bytes: Arrow bytes of a piece of several batches.

        Raises:
            pyarrow.ArrowInvalid, pyarrow.ArrowCapacityError: A row and what is stored of its key are more
                than one Arrow array has room for.
        """
        time = self._shape.time_column
        is_first = True
        expires_later = False
        for piece, is_last in _pieces(batches, most_bytes):
            rows = _join(piece)
            is_whole = self._apply_piece(rows, most_bytes, is_whole=is_first and is_last)
            is_first = False
            expires_later = self._cutoff is not None and not is_whole and time not in ("", *rows.schema.names)
            del rows  # or it would be in memory together with the next piece
        if expires_later:
            self._added = self._expire(self._added)

    def _apply_piece(self, rows: pa.RecordBatch, most_bytes: int, *, is_whole: bool) -> bool:
        """Fold rows into what those before them have left, and write what comes of it. Where few bytes meet
        much that is stored, they are folded in halves of halves.

        Returns:
            Whether the rows are all of the epoch and were folded at once.
        """
        most_stored = STORED_TIMES * max(most_bytes, rows.nbytes)
        waiting = [rows]
        while waiting:
            part = waiting.pop()
            is_one = part.num_rows == 1
            stored = StoredRows(
                [*self._kept, *self._added, *self._tombstones],
                self._shape.context,
                None if is_one else most_stored,
            )
            try:
                folded = self._fold(part, stored, is_whole=is_whole)
            except (pa.ArrowInvalid, pa.ArrowCapacityError):
                if is_one:
                    raise
                half = part.num_rows // 2
                waiting += [part[half:], part[:half]]
                is_whole = False
                continue
            self._write(folded, stored, is_whole=is_whole)
        return is_whole

    def _write(self, rows: pa.RecordBatch, stored: StoredRows, *, is_whole: bool) -> None:
        """Write rows that are folded, in the place of those that are stored of their keys."""
        if not rows.num_rows:
            return
        context = self._shape.context
        keys, order = stored.sort(rows)
        self._keep(stored.supersede(sort_keys.take(keys, order)))
        partition_rows = sum(entry.segment.rows for entry in self._kept)
        kept = _rows_to_keep(rows, order)
        added, unwritten = self._segments.build_rows(
            context, rows, keys, kept, partition_rows, may_be_buffered=is_whole
        )
        self._added = [*self._added, *added]
        self._unwritten.update(unwritten)
        self._tombstones = [*self._tombstones, *self._segments.write_tombstones(self._shape, rows, order)]

    def _fold(self, rows: pa.RecordBatch, stored: StoredRows, *, is_whole: bool) -> pa.RecordBatch:
        """Rows as they are to be stored; without those that come too late, as far as that is known before
        the epoch is whole.
        """
        name, cutoff, fold = self._shape.time_column, self._cutoff, self._shape.fold
        has_time = name in rows.schema.names
        if cutoff is not None and has_time:
            shape = self._shape
            rows = drop_old_rows(
                rows, name, cutoff, shape.start_column, drop_tombstones=shape.tombstones_have_time
            )
        if fold is not None and rows.num_rows:
            rows = fold.fold(rows, stored)
        if cutoff is None or has_time or not is_whole:
            return rows
        return replace_old_by_tombstones(rows, name, cutoff)

    def _expire(self, segments: Sequence[LiveSegment]) -> Sequence[LiveSegment]:
        assert self._cutoff is not None
        name = self._shape.time_column
        return expire(segments, self._shape.context.schema.get_field_index(name), name, self._cutoff)

    def _keep(self, remaining: Sequence[LiveSegment]) -> None:
        """Go on with the segments, of before and new, that still have live rows.

        Args:
            remaining: These segments, of which some rows may have died.
        """
        if not (self._added or self._tombstones):
            self._kept = remaining
            return
        left = {entry.segment.id: entry for entry in remaining}
        self._kept, self._added, self._tombstones = (
            [left[entry.segment.id] for entry in entries if entry.segment.id in left]
            for entries in (self._kept, self._added, self._tombstones)
        )


def _pieces(
    batches: Iterable[pa.RecordBatch], most_bytes: int
) -> Iterator[tuple[list[pa.RecordBatch], bool]]:
    """Batches in pieces that are not larger than they may be, but for a single batch that is so by itself;
    and whether the piece is the last.
    """
    piece: list[pa.RecordBatch] = []
    room = most_bytes
    for batch in batches:
        if piece and batch.nbytes > room:
            yield piece, False
            piece, room = [], most_bytes
        piece.append(batch)
        room -= batch.nbytes
    if piece:
        yield piece, True


def _join(piece: list[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of a piece as one batch. The piece is empty afterwards: what it was made of is as large again,
    and nobody needs it any more.
    """
    rows = pa.concat_batches(piece) if len(piece) > 1 else piece[0]
    piece.clear()
    return rows


def _rows_to_keep(rows: pa.RecordBatch, order: Rows) -> Rows:
    """Those of some rows that are no tombstones."""
    if TOMBSTONE_COLUMN not in rows.schema.names:
        return order
    removed = pc.fill_null(rows.column(TOMBSTONE_COLUMN), False).to_numpy(zero_copy_only=False)
    kept: Rows = order[~removed[order]]
    return kept
