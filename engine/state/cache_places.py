"""Where the cache keeps what: places of blocks, columns, segments and tables."""

from __future__ import annotations

from typing import NamedTuple

WHOLE = -1
"""Block number of the entry that holds a column's blocks joined."""
ENCODED = -2
"""Block number of the entry that holds them joined, in the layout of `engine.state.scan_encoding`."""


class CacheKey(NamedTuple):
    """What an entry is. A tuple: it is made and hashed for each column that a query reads.

    Attributes:
        partition: Number of the open partition store, from `ColumnCache.new_partition`.
        segment: Segment id within it.
        block: Block within the segment; `WHOLE` or `ENCODED` for all of its rows.
        column: Number of the column, or of the sort keys; no two columns that the store ever had share one.
    """

    partition: int
    segment: int
    block: int
    column: int


class ColumnPlace(NamedTuple):
    """Which column of which segment; the attributes are those of `CacheKey`."""

    partition: int
    segment: int
    column: int


class SegmentPlace(NamedTuple):
    """Which segment; the attributes are those of `CacheKey`."""

    partition: int
    segment: int


class TablePlace(NamedTuple):
    """Which table of a segment: one for all segments, so that it is made once for each of them.

    Attributes:
        block: As `CacheKey.block`.
        columns: Places of the columns in the store.
    """

    block: int
    columns: tuple[int, ...]


def column_place(key: CacheKey) -> ColumnPlace:
    """Of which column an entry is, in whole or in part."""
    return ColumnPlace(key.partition, key.segment, key.column)
