"""Stores that keep the latest row of a key by an order column, whatever order rows come in."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.model.kinds import KeyValue
from engine.model.schema import TOMBSTONE_COLUMN, StoreDefinition
from engine.state.folds.choices import last_largest
from engine.state.folds.fold import KeyGroups, StoredState
from engine.state.folds.fold_columns import concatenate
from engine.state.folds.grouping import Grouping, Mask
from engine.state.keys import Rows


class LatestFold:
    """Keeps of each key the row with the largest value of the order column, of equal ones the last.

    A tombstone has a place in this order, too, and the partition keeps it: a row that is older than the
    tombstone and comes later does not bring the key back. NULL is smaller than all values; a tombstone
    without a value removes its key whatever there is, and is not kept.

    Args:
        definition: The store.
        kind: Its kind, with an order column.
    """

    def __init__(self, definition: StoreDefinition, kind: KeyValue) -> None:
        self._schema = definition.stored_schema
        self._order_by = kind.order_by

    def fold(self, rows: pa.RecordBatch, stored: StoredState) -> pa.RecordBatch:
        """As `Fold.fold`: at most a row for each key of the rows, in key order; none where the stored one
        stays.
        """
        found = stored.find_keys(rows)
        order = concatenate(found.stored.read([self._order_by]).column(0), rows.column(self._order_by))
        groups = np.concatenate([found.places, found.groups])
        forgotten = self._dropped_rows(rows, found)
        kept: Rows = (
            np.arange(len(groups))
            if forgotten is None
            else np.flatnonzero(_is_behind(groups, forgotten, len(found.places)))
        )
        grouping = Grouping(groups[kept], len(found))
        largest = last_largest(order.take(pa.array(kept)), grouping)
        without_order = largest < 0
        if without_order.any():
            largest[without_order] = grouping.last_rows(np.arange(len(kept)))[without_order]
        # Where nothing is left of a key, the tombstone itself is what is to be applied.
        chosen = np.full(len(found), -1) if forgotten is None else forgotten.copy()
        has_row = largest >= 0
        chosen[has_row] = kept[largest[has_row]] - len(found.places)
        return rows.take(pa.array(chosen[chosen >= 0]))

    def _dropped_rows(self, rows: pa.RecordBatch, found: KeyGroups) -> Rows | None:
        """The last tombstone of each key that has no value of the order column, -1 for keys without; None if
        there is none at all.
        """
        if TOMBSTONE_COLUMN not in rows.schema.names:
            return None
        flags = pc.and_not(
            pc.fill_null(rows.column(TOMBSTONE_COLUMN), False), rows.column(self._order_by).is_valid()
        )
        places = np.flatnonzero(flags.to_numpy(zero_copy_only=False))
        return Grouping(found.groups, len(found)).last_rows(places) if len(places) else None


def _is_behind(groups: Rows, forgotten: Rows, stored: int) -> Mask:
    """Which rows, the stored ones first, come behind the tombstone that forgets what was before."""
    behind: Mask = np.arange(len(groups)) - stored > forgotten[groups]
    behind[:stored] = forgotten[groups[:stored]] < 0
    return behind
