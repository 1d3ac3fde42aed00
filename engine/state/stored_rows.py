"""The live rows of a partition as a fold sees them: found by key once, for reading what is stored and for
superseding it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from engine.state import keys as sort_keys
from engine.state.folds.fold import FoundRows, KeyGroups
from engine.state.keys import Keys, Rows
from engine.state.partition_context import PartitionContext
from engine.state.picked_rows import Pick, gather
from engine.state.version import LiveSegment, Located, find_live_ranges, locate, mark_dead


@dataclass(frozen=True, eq=False)
class _Known:
    """Keys that have been looked up."""

    keys: Keys
    columns: Sequence[pa.Array]
    located: Sequence[Located]


class _PickedRows:
    """Implements `engine.state.folds.FoundRows`; arguments as for `StoredRows`."""

    def __init__(self, picks: Sequence[Pick], context: PartitionContext, most_bytes: int | None) -> None:
        self._picks = picks
        self._context = context
        self._most_bytes = most_bytes
        self._stops = np.cumsum([0, *(len(pick.rows) for pick in picks)])

    def __len__(self) -> int:
        return int(self._stops[-1])

    def read(self, columns: Sequence[str], rows: Rows | None = None) -> pa.Table:
        """As `FoundRows.read`."""
        picks = self._picks if rows is None else self._pick(rows)
        places = [self._context.schema.get_field_index(name) for name in columns]
        if self._most_bytes is not None:
            nbytes = sum(self._estimate_bytes(pick, places) for pick in picks)
            if nbytes > self._most_bytes:
                raise pa.ArrowCapacityError(
                    f"Some {nbytes:,.0f} bytes are stored of the keys of some rows, and {self._most_bytes:,} "
                    "are read at once."
                )
        return gather(picks, places, pa.schema([self._context.schema.field(place) for place in places]))

    def _pick(self, rows: Rows) -> Sequence[Pick]:
        """Some of the rows, by their numbers in ascending order."""
        bounds = np.searchsorted(rows, self._stops)
        return [
            Pick(pick.segment, pick.rows[rows[start:stop] - first])
            for pick, first, (start, stop) in zip(self._picks, self._stops, pairwise(bounds), strict=False)
            if start < stop
        ]

    def _estimate_bytes(self, pick: Pick, columns: Sequence[int]) -> float:
        """Arrow bytes of columns of picked rows, as if all rows of a segment were of one size."""
        record, numbers = pick.segment.record, self._context.numbers
        nbytes = sum(record.column_bytes.get(numbers[column], 0) for column in columns)
        return nbytes * len(pick.rows) / record.rows


class StoredRows:
    """Implements `engine.state.folds.StoredState` over the segments of a version. For one thread.

    Args:
        segments: The segments.
        context: Their partition.
        most_bytes: Arrow bytes of rows that are read at once, as far as the means of their segments tell;
            None for any number.
    """

    def __init__(
        self, segments: Sequence[LiveSegment], context: PartitionContext, most_bytes: int | None
    ) -> None:
        self._segments = segments
        self._context = context
        self._most_bytes = most_bytes
        self._known: _Known | None = None

    def find_keys(self, rows: pa.RecordBatch) -> KeyGroups:
        """As `StoredState.find_keys`."""
        columns = [rows.column(self._context.schema.field(place).name) for place in self._context.key]
        encoded = self._context.codec.encode(columns)
        some_row, groups = sort_keys.groups_of(encoded)
        keys = sort_keys.take(encoded, some_row)
        located = locate(self._segments, keys)
        known = self._known = _Known(keys, [column.take(pa.array(some_row)) for column in columns], located)
        picks = [Pick(found.entry.segment, found.rows) for found in located if len(found.rows)]
        stored = _PickedRows(picks, self._context, self._most_bytes)
        return KeyGroups(keys, groups, known.columns, _places(located, len(keys)), stored)

    def find_prefixes(self, prefixes: pa.RecordBatch) -> FoundRows:
        """As `StoredState.find_prefixes`."""
        low, high, is_whole = self._context.codec.ranges(prefixes.columns)
        found = find_live_ranges(self._segments, low, high, "right" if is_whole else "left")
        picks = [Pick(entry.segment, rows) for entry, rows in found]
        return _PickedRows(picks, self._context, self._most_bytes)

    def sort(self, rows: pa.RecordBatch) -> tuple[Keys, Rows]:
        """The sort keys of rows that are to be applied, and their order.

        Args:
            rows: Rows in the stored schema.

        Returns:
            The sort key of each row, and the last row of each key in key order. What `find_keys` has encoded
            and sorted is not done again.
        """
        columns = [rows.column(place) for place in self._context.key]
        known = self._known
        if known is not None and all(
            column.equals(other) for column, other in zip(columns, known.columns, strict=True)
        ):
            return known.keys, np.arange(rows.num_rows)
        keys = self._context.codec.encode(columns)
        return keys, sort_keys.order_of_last(keys)

    def supersede(self, keys: Keys) -> list[LiveSegment]:
        """Make the rows of some keys dead, as `version.supersede`; what `find_keys` has found is not searched
        again.

        Args:
            keys: Sorted keys, each once.
        """
        known = self._known
        if known is not None and sort_keys.are_same(keys, known.keys):
            return mark_dead(known.located)
        return mark_dead(locate(self._segments, keys))


def _places(located: Sequence[Located], keys: int) -> Rows:
    """The numbers of the keys that are found, in the order of what is found; a search goes on with the keys
    that those before it did not find.
    """
    left = np.arange(keys)
    places = []
    for found in located:
        places.append(left[found.places])
        if len(found.places):
            left = np.delete(left, found.places)
    return np.concatenate(places) if places else np.empty(0, np.intp)
