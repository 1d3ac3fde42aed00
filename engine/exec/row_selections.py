"""Rows of one store that pass tests, in the order of its key or in any, by Arrow's kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from engine.exec.kernels import live_batches, passing_rows, read_selected
from engine.plan.plans import KeyOrder
from engine.plan.wanted_rows import RowSelection
from engine.scan import LIVE_COLUMN, KeyRange, Scan, ScanStatistics, StoreView

MOST_ROWS = 1 << 17
"""With more rows to read the engine, which uses all cores, makes up for the 2 ms that it takes to begin."""


@dataclass(frozen=True)
class SelectedRows:
    """Rows that were selected.

    Attributes:
        rows: At least the rows that are needed, if there are as many; the columns of the selection.
        scan: What was read; None where rows were read along the key.
        rows_read: How many live rows were read there.
    """

    rows: pa.Table
    scan: Scan | None = None
    rows_read: int | None = None

    @property
    def statistics(self) -> Sequence[ScanStatistics]:
        """What pruning left of the scan."""
        return () if self.scan is None else (self.scan.statistics,)


def select_rows(
    view: StoreView, selection: RowSelection, order: KeyOrder | None, needed: int | None
) -> SelectedRows | None:
    """The rows of a selection.

    Args:
        view: The store.
        selection: Which rows.
        order: Their order; None for any.
        needed: How many of them; None for all.

    Returns:
        The rows; None where the engine does it better.
    """
    if order is not None and selection.key_range is not None:
        return _rows_of_range(view, selection, order, selection.key_range, needed)
    scan = view.scan(selection.columns or view.definition.key[:1], selection.wanted)
    if selection.wanted.points is not None:
        # What is looked up is there already.
        rows = passing_rows(scan.live_rows(), selection.test)
        return SelectedRows(rows if order is None else _sort(rows, order), scan)
    if order is not None:
        return None
    is_small = scan.statistics.rows_read <= MOST_ROWS
    if needed is None:
        return SelectedRows(passing_rows(scan.live_rows(), selection.test), scan) if is_small else None
    found = read_selected(live_batches(scan), selection.test, needed, None if is_small else MOST_ROWS)
    if found is None:
        return None
    schema = pa.schema([field for field in scan.schema if field.name != LIVE_COLUMN])
    return SelectedRows(pa.Table.from_batches(found.parts, schema).combine_chunks(), scan)


def can_select(view: StoreView, selection: RowSelection, order: KeyOrder | None, *, is_bounded: bool) -> bool:
    """Whether `select_rows` most likely gives rows; what the tests leave of them is not known before.

    Args:
        view: The store.
        selection: Which rows.
        order: Their order; None for any.
        is_bounded: Whether only some of them are needed.
    """
    if selection.wanted.points is not None:
        return True
    if order is not None and selection.key_range is None:
        return False
    return is_bounded or view.scan((), selection.wanted).statistics.rows_read <= MOST_ROWS


def _rows_of_range(
    view: StoreView, selection: RowSelection, order: KeyOrder, key_range: KeyRange, needed: int | None
) -> SelectedRows | None:
    """Rows along the key, read no further than needed."""
    ordered = view.sorted_rows(selection.columns, key_range)
    is_small = ordered.stored_rows <= MOST_ROWS
    if not is_small and (needed is None or needed > MOST_ROWS):
        return None
    stretches = ordered.stretches(needed, descending=order.descending)
    found = read_selected(stretches, selection.test, needed, None if is_small else MOST_ROWS)
    if found is None:
        return None
    parts = found.parts or [ordered.schema.empty_table()]
    rows = parts[0] if len(parts) == 1 else pa.concat_tables(parts).combine_chunks()
    return SelectedRows(rows, rows_read=found.rows_read)


def _sort(rows: pa.Table, order: KeyOrder) -> pa.Table:
    """Rows in the order of key columns: they have neither NULL nor NaN, and Arrow compares texts by their
    bytes, as the engine does.
    """
    direction = "descending" if order.descending else "ascending"
    return rows.sort_by([(column, direction) for column in order.columns])
