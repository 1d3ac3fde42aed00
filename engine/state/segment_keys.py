"""Finds keys in a segment: in its whole key column where that is in memory, else in blocks or pages of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from engine.state import keys as sort_keys
from engine.state.cache import ColumnCache
from engine.state.cache_places import CacheKey
from engine.state.column_reader import ColumnReader
from engine.state.formats import KEY_FILTER, PAGE_FENCES, SegmentRecord
from engine.state.key_column import KeyColumn
from engine.state.key_filter import KeyFilter
from engine.state.keys import Keys, Needle, Rows
from engine.state.partition_context import PartitionContext
from engine.state.stored_segment import StoredSegment

MOST_SOUGHT = 8
"""So many keys are sought for each block until the key column is read as a whole: a key takes 0.2 ms to find
in pages, a block of keys 1.1 ms to read.
"""
MANY_FILTERED_KEYS = 16
"""From so many keys on a filter is asked: a few pages are read sooner."""
MOST_PAGES = 4096
"""Pages that are in memory at once on account of a search."""


class _PagePart(NamedTuple):
    """Some pages of keys.

    Attributes:
        places: Places of the keys that are looked for in them.
        pages: Numbers of the pages.
        page_of: For each of the keys, the place of its page among `pages`.
        keys: The sort keys of all of them, in ascending order.
    """

    places: Rows
    pages: Rows
    page_of: Rows
    keys: Keys


class SegmentKeys:
    """The sort keys of one segment, in ascending order.

    Args:
        record: What is known of the segment without reading blocks.
        context: The partition it belongs to, in the shape in which it is seen.
        stored: What is stored of it.
        reader: Reads its columns.

    Attributes:
        rows: How many there are.
        whole_key: Where the key column is in the cache as a whole.
    """

    def __init__(
        self, record: SegmentRecord, context: PartitionContext, stored: StoredSegment, reader: ColumnReader
    ) -> None:
        self.rows = record.rows
        self.whole_key: CacheKey = reader.whole_key
        self._record = record
        self._context = context
        self._stored = stored
        self._reader = reader
        self._first = _fences(record.first)
        self._last = _fences(record.last)
        self._sought = 0
        """How many keys were sought since the cache has last let go of the key column, or never had it."""

    @property
    def cache(self) -> ColumnCache:
        """Where decoded columns are kept, of all segments of the host."""
        return self._reader.cache

    def first_of_blocks(self, blocks: int) -> Keys:
        """The first sort key of every so manieth block, but for the very first."""
        return self._first[blocks::blocks]

    def read_between(self, start: int, stop: int) -> Keys:
        """The sort keys of some rows that follow each other, at least one; what has to be read for it stays
        out of the cache.
        """
        block_rows, parts = self._record.block_rows, []
        for block in range(start // block_rows, (stop - 1) // block_rows + 1):
            first, behind = self._record.block_span(block)
            column = self._reader.read_through(self._context.key_column, block)
            parts.append(column[max(start, first) - first : min(stop, behind) - first])
        return self._context.sort_keys(parts[0] if len(parts) == 1 else pa.concat_arrays(parts))

    def of_rows(self, rows: Rows) -> Keys:
        """The sort keys of some rows; what has to be read for it stays out of the cache.

        Args:
            rows: Row numbers in ascending order.
        """
        context = self._context
        whole: KeyColumn | None = context.cache.peek(self.whole_key)
        if whole is not None:
            return sort_keys.take(whole.keys, rows)
        length = self._record.page_rows or self._record.block_rows
        parts, places = np.unique(rows // length, return_inverse=True)
        arrays = []
        for start in range(0, len(parts), MOST_PAGES):
            numbers = parts[start : start + MOST_PAGES].tolist()
            column = (
                self._stored.key_pages(numbers)
                if self._record.page_rows
                else pa.concat_arrays(
                    [self._reader.read_through(context.key_column, block) for block in numbers]
                )
            )
            chosen = (places >= start) & (places < start + MOST_PAGES)
            inside = (places[chosen] - start) * length + rows[chosen] % length
            arrays.append(column.take(pa.array(inside)))
        if not arrays:
            arrays = [pa.array([], context.column_type(context.key_column))]
        return context.sort_keys(pa.concat_arrays(arrays))

    def position(self, needles: Keys, side: str) -> Rows:
        """Where needles belong among the segment's keys.

        Args:
            needles: Keys to look for.
            side: As in `keys.search`.

        Returns:
            A row number for each needle, 0 to `rows`.
        """
        whole = self._keys_at_hand(len(needles))
        if whole is not None:
            return sort_keys.search(whole.keys, needles, side)
        if self._record.page_rows:
            return self._position_in_pages(needles, side)
        # A row before the needle exists in the last block whose first key is before it; `left` and `right`
        # differ in what "before" means.
        blocks = np.maximum(sort_keys.search(self._first, needles, side) - 1, 0)
        positions = np.empty(len(needles), np.intp)
        for block in np.unique(blocks).tolist():
            chosen = np.flatnonzero(blocks == block)
            positions[chosen] = block * self._record.block_rows + sort_keys.search(
                self._block_keys(block), sort_keys.take(needles, chosen), side
            )
        return positions

    def span(self, low: Keys | None, high: Keys | None) -> tuple[int, int]:
        """The rows between two edges: the first, and the one behind the last.

        Args:
            low: The first key that belongs to them; None for all before `high`.
            high: The first key behind them; None for all from `low` on.
        """
        # Segments that have none of the rows are not read.
        if (low is not None and sort_keys.count_before(self._last[-1:], low)) or (
            high is not None and not sort_keys.count_before(self._first[:1], high)
        ):
            return 0, 0
        start = 0 if low is None else int(self.position(low, "left")[0])
        stop = self.rows if high is None else int(self.position(high, "left")[0])
        return start, max(start, stop)

    def between(self, start: int, stop: int) -> Keys:
        """The sort keys of some rows that follow each other, at least one. For many segments:
        `find_keys_between`.
        """
        block_rows = self._record.block_rows
        parts = []
        for block in range(start // block_rows, (stop - 1) // block_rows + 1):
            first, after = self._record.block_span(block)
            parts.append(self._block_keys(block)[max(start, first) - first : min(stop, after) - first])
        return sort_keys.concatenate(parts)

    def find(self, needles: Keys) -> tuple[Rows, Rows]:
        """The rows whose key is one of the needles.

        Args:
            needles: Sorted keys to look for, each once.

        Returns:
            Places of the needles that are found, and the row of each.
        """
        if not len(needles) or not self._overlaps(needles):
            return np.empty(0, np.intp), np.empty(0, np.intp)
        whole = self._keys_at_hand(len(needles))
        if whole is not None:
            return whole.find(needles)
        if self._record.page_rows:
            return self._find_in_pages(needles)
        blocks = np.maximum(sort_keys.search(self._first, needles, "right") - 1, 0)
        places, rows = [], []
        for block in np.unique(blocks).tolist():
            chosen = np.flatnonzero(blocks == block)
            found, inside = sort_keys.find(self._block_keys(block), sort_keys.take(needles, chosen))
            places.append(chosen[found])
            rows.append(inside + block * self._record.block_rows)
        return np.concatenate(places), np.concatenate(rows)

    def find_one(self, needle: Needle) -> int | None:
        """The row of one key; None where there is none."""
        whole = self._keys_at_hand(1)
        if whole is not None:
            return whole.find_one(needle)
        if self._record.page_rows:
            return self._find_one_in_pages(needle)
        block = sort_keys.count_up_to(self._first, needle) - 1
        if block < 0:
            return None
        if sort_keys.count_up_to(self._last[block : block + 1], needle):
            # No block has the key, unless it is the last one of this block; nothing is read to see.
            return self._record.block_span(block)[1] - 1 if self._last[block] == needle else None
        inside = sort_keys.find_one(self._block_keys(block), needle)
        return None if inside is None else block * self._record.block_rows + inside

    def _keys_at_hand(self, needles: int) -> KeyColumn | None:
        """All sort keys, when they are in memory already or when about half of the blocks would be read
        anyway, and those of all segments have room in the cache; else None. Keys that are sought one by one,
        in so many calls that to read them all would have cost less, are read as well while they have room.
        """
        cache = self._context.cache
        found: KeyColumn | None = cache.find(self.whole_key)
        if found is not None:
            return found
        if self._reader.blocks == 1 or needles * 2 >= self._reader.blocks:
            return self._reader.key_column() if cache.keeps_keys() or not self._record.page_rows else None
        self._sought += needles
        if self._sought < MOST_SOUGHT * self._reader.blocks or not cache.keeps_keys():
            return None
        self._sought = 0
        return self._reader.key_column()

    def _page_fences(self) -> Keys:
        """The first key of each page."""
        place = self.whole_key._replace(column=PAGE_FENCES)
        fences: Keys = self.cache.get(place, self._stored.page_fences)
        return fences

    def _filter(self, needles: int) -> KeyFilter | None:
        """The filter of the keys, where there is one and so many keys are worth it."""
        if self._record.filter_checksum is None or needles < MANY_FILTERED_KEYS:
            return None
        place = self.whole_key._replace(column=KEY_FILTER)
        found: KeyFilter = self.cache.get(place, self._stored.key_filter)
        return found

    def _find_one_in_pages(self, needle: Needle) -> int | None:
        """As `find_one`, of a segment with pages: to ask a filter would take longer than to read a page."""
        page = sort_keys.count_up_to(self._page_fences(), needle) - 1
        if page < 0:
            return None
        inside = sort_keys.find_one(self._page_keys((page,)), needle)
        return None if inside is None else page * self._record.page_rows + inside

    def _find_in_pages(self, needles: Keys) -> tuple[Rows, Rows]:
        """As `find`, of a segment with pages."""
        known = self._filter(len(needles))
        wanted = np.arange(len(needles)) if known is None else np.flatnonzero(known.may_hold(needles))
        numbers = sort_keys.search(self._page_fences(), sort_keys.take(needles, wanted), "right") - 1
        wanted, numbers = wanted[numbers >= 0], numbers[numbers >= 0]
        places, rows = [np.empty(0, np.intp)], [np.empty(0, np.intp)]
        for part in self._read_pages(numbers):
            chosen = wanted[part.places]
            found, inside = sort_keys.find(part.keys, sort_keys.take(needles, chosen))
            page, row = np.divmod(inside, self._record.page_rows)
            places.append(chosen[found])
            rows.append(part.pages[page] * self._record.page_rows + row)
        return np.concatenate(places), np.concatenate(rows)

    def _position_in_pages(self, needles: Keys, side: str) -> Rows:
        """As `position`, of a segment with pages."""
        numbers = np.maximum(sort_keys.search(self._page_fences(), needles, side) - 1, 0)
        positions = np.empty(len(needles), np.intp)
        for part in self._read_pages(numbers):
            inside = sort_keys.search(part.keys, sort_keys.take(needles, part.places), side)
            skipped = part.pages - np.arange(len(part.pages))
            positions[part.places] = inside + skipped[part.page_of] * self._record.page_rows
        return positions

    def _page_keys(self, pages: Sequence[int]) -> Keys:
        """The sort keys of some pages, as `KeyPages.read`."""
        return self._context.sort_keys(self._stored.key_pages(pages))

    def _read_pages(self, numbers: Rows) -> Iterator[_PagePart]:
        """Pages that are wanted, some at a time.

        Args:
            numbers: The page that each of some keys would be in.
        """
        pages, page_of = np.unique(numbers, return_inverse=True)
        for start in range(0, len(pages), MOST_PAGES):
            part = pages[start : start + MOST_PAGES]
            places = np.flatnonzero((page_of >= start) & (page_of < start + MOST_PAGES))
            keys = self._page_keys(part.tolist())
            yield _PagePart(places, part, page_of[places] - start, keys)

    def _block_keys(self, block: int) -> Keys:
        return self._context.sort_keys(self._reader.column(self._context.key_column, block))

    def _overlaps(self, needles: Keys) -> bool:
        """Whether some needle lies between the first and the last key; needles are sorted."""
        if isinstance(needles, np.ndarray):
            return bool(needles[-1] >= self._first[0] and needles[0] <= self._last[-1])
        after = sort_keys.search(self._last[-1:], needles[:1], "left")[0]
        before = sort_keys.search(self._first[:1], needles[-1:], "right")[0]
        return bool(after == 0 and before == 1)


def find_key_columns(all_keys: Sequence[SegmentKeys]) -> list[KeyColumn | None]:
    """For each segment its key column, or None where it is not in memory; one look at the cache for all.

    Args:
        all_keys: Those of segments of one store.
    """
    if not all_keys:
        return []
    return all_keys[0].cache.find_all([each.whole_key for each in all_keys])


def find_spans(all_keys: Sequence[SegmentKeys], low: Keys | None, high: Keys | None) -> list[tuple[int, int]]:
    """For each segment the rows between two edges, as `SegmentKeys.span`; one look at the cache for all.

    Args:
        all_keys: Those of segments of one store.
        low: As in `SegmentKeys.span`.
        high: As in `SegmentKeys.span`.
    """
    if not all_keys:
        return []
    edges = [edge for edge in (low, high) if edge is not None]
    needles = sort_keys.concatenate(edges) if edges else None
    spans = []
    for keys, column in zip(all_keys, find_key_columns(all_keys), strict=True):
        if column is None or needles is None:
            spans.append(keys.span(low, high))
            continue
        places = (
            column.keys.searchsorted(needles)
            if isinstance(needles, np.ndarray)
            else sort_keys.search(column.keys, needles, "left")
        ).tolist()
        start = 0 if low is None else places[0]
        stop = keys.rows if high is None else places[-1]
        spans.append((start, max(start, stop)))
    return spans


def find_keys_between(all_keys: Sequence[SegmentKeys], spans: Sequence[tuple[int, int]]) -> list[Keys]:
    """For each segment the sort keys of some rows, as `SegmentKeys.between`; one look at the cache for all.

    Args:
        all_keys: Those of segments of one store, at least one.
        spans: For each its first row, and the one behind its last.
    """
    return [
        keys.between(start, stop) if column is None else column.keys[start:stop]
        for keys, column, (start, stop) in zip(all_keys, find_key_columns(all_keys), spans, strict=True)
    ]


def _fences(first: pa.Array) -> Keys:
    return first if pa.types.is_binary(first.type) else first.to_numpy()
