"""Merge stores: partial aggregates are folded into the row with the same key."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from engine.model.kinds import WRITTEN_COLUMN, Function, Merge, MergedColumn
from engine.model.schema import StoreDefinition
from engine.state.folds.fold import KeyGroups, StoredState
from engine.state.folds.fold_aggregates import Aggregates
from engine.state.folds.fold_columns import TOMBSTONE_FIELD, concatenate, tombstones_of
from engine.state.folds.grouping import Grouping, Mask
from engine.state.keys import Rows


class MergeFold:
    """Folds partial rows by key. A tombstone removes its key: what came before it is forgotten, what comes
    after it begins anew.

    Args:
        definition: The store.
        kind: Its kind.
    """

    def __init__(self, definition: StoreDefinition, kind: Merge) -> None:
        self._key = definition.key
        self._schema = definition.stored_schema
        written = [MergedColumn(WRITTEN_COLUMN, Function.MAX)] if WRITTEN_COLUMN in self._schema.names else []
        self._aggregates = Aggregates([*kind.columns, *written])

    def fold(self, rows: pa.RecordBatch, stored: StoredState) -> pa.RecordBatch:
        """As `Fold.fold`: a row for each key of the rows, in key order."""
        found = stored.find_keys(rows)
        removals = _Removals.from_rows(rows, found)
        names = self._aggregates.partials
        table = found.stored.read(names)
        partials = {name: concatenate(table.column(name), rows.column(name)) for name in names}
        groups = np.concatenate([found.places, found.groups])
        if removals is not None:
            kept = np.concatenate([~removals.removed[found.places], removals.kept])
            groups = groups[kept]
            partials = {name: values.filter(pa.array(kept)) for name, values in partials.items()}
        reduced = self._aggregates.reduce(partials, groups, len(found))
        return self._batch(found, reduced, removals)

    def _batch(
        self, found: KeyGroups, reduced: Mapping[str, pa.Array], removals: _Removals | None
    ) -> pa.RecordBatch:
        keys = zip(self._key, found.key_columns, strict=True)
        columns = {**dict(keys), **reduced, **self._aggregates.finish(reduced)}
        batch = pa.RecordBatch.from_arrays(
            [columns[name] for name in self._schema.names], schema=self._schema
        )
        if removals is None:
            return batch
        return batch.append_column(TOMBSTONE_FIELD, pa.array(removals.ends))


class _Removals:
    """What the tombstones among some rows remove.

    Attributes:
        removed: Which keys have a tombstone, shape (keys,).
        kept: Which rows come behind the last tombstone of their key, or have none, shape (rows,).
        ends: Which keys have nothing behind their last tombstone, shape (keys,).
    """

    def __init__(self, removed: Mask, kept: Mask, ends: Mask) -> None:
        self.removed = removed
        self.kept = kept
        self.ends = ends

    @staticmethod
    def from_rows(rows: pa.RecordBatch, found: KeyGroups) -> _Removals | None:
        """The removals; None if there is no tombstone."""
        flags = tombstones_of(rows)
        if flags is None:
            return None
        last: Rows = Grouping(found.groups, len(found)).last_rows(np.flatnonzero(flags))
        kept = np.arange(rows.num_rows) > last[found.groups]
        left = np.zeros(len(found), np.bool_)
        left[found.groups[kept]] = True
        return _Removals(last >= 0, kept, ~left)
