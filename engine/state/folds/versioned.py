"""Versioned stores: a row holds from its time on, until that of the next row of its key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from engine.model.kinds import WRITTEN_COLUMN, Versioned
from engine.model.schema import StoreDefinition
from engine.state import keys as sort_keys
from engine.state.folds.fold import FoundRows, StoredState
from engine.state.folds.fold_columns import concatenate, tombstones_of
from engine.state.folds.grouping import Mask, valid_rows
from engine.state.folds.order_numbers import Numbers, raw_numbers, to_array
from engine.state.keys import KeyCodec, Rows


class VersionedFold:
    """Puts versions where they belong in the history of their key. Only the version before a new one changes:
    its `valid_to`.

    A tombstone is a version that never holds: it ends the one before it, and is there so that a version which
    comes later, and held earlier, ends there too. Its `valid_to` is its `valid_from`; its other columns are
    NULL.

    Args:
        definition: The store.
        kind: Its kind.
    """

    def __init__(self, definition: StoreDefinition, kind: Versioned) -> None:
        self._kind = kind
        self._schema = definition.stored_schema
        self._key = definition.key
        self._prefix = [name for name in definition.key if name != kind.valid_from]
        self._leading = definition.key[: definition.key.index(kind.valid_from)]
        self._codec = KeyCodec([definition.schema.field(name).type for name in self._prefix])

    def fold(self, rows: pa.RecordBatch, stored: StoredState) -> pa.RecordBatch:
        """As `Fold.fold`: the new versions, and those whose `valid_to` changes."""
        found = stored.find_prefixes(rows.select(self._leading))
        valid_to = self._schema.field(self._kind.valid_to)
        table = found.read([*self._key, valid_to.name])
        columns = {name: concatenate(table.column(name), rows.column(name)) for name in self._key}
        ended = concatenate(table.column(valid_to.name), pa.nulls(rows.num_rows, valid_to.type))
        starts = raw_numbers(columns[self._kind.valid_from])
        keys = sort_keys.groups_of(self._codec.encode([columns[name] for name in self._prefix]))[1]
        history = _history(keys, starts)
        is_stored = history < len(found)
        stops, holds_now = _stops(keys[history], starts[history])
        never_holds = _find_void_versions(ended, starts, tombstones_of(rows))[history]
        stops[never_holds] = starts[history][never_holds]
        holds_now &= ~never_holds
        changed = ~is_stored | _differ(ended.take(pa.array(history)), stops, holds_now)
        versions = history[changed]
        arrays = {name: column.take(pa.array(versions)) for name, column in columns.items()}
        arrays[valid_to.name] = to_array(stops[changed], ended.type, holds_now[changed])
        arrays |= self._read_values(rows, found, versions, never_holds[changed])
        return pa.RecordBatch.from_arrays([arrays[name] for name in self._schema.names], schema=self._schema)

    def _read_values(
        self, rows: pa.RecordBatch, found: FoundRows, versions: Rows, never_hold: Mask
    ) -> dict[str, pa.Array]:
        """The columns beside key and times. Of a history, which may be long, only the versions that change
        are read.

        Args:
            rows: The rows of the epoch.
            found: The stored versions of their keys.
            versions: Numbers of versions, the stored ones first.
            never_hold: Which of them never hold, and so have no values.
        """
        is_stored = versions < len(found)
        read = np.sort(versions[is_stored])
        places = versions - len(found) + len(read)
        places[is_stored] = np.searchsorted(read, versions[is_stored])
        names = [name for name in self._schema.names if name not in (*self._key, self._kind.valid_to)]
        table = found.read(names, read)
        taken, values = pa.array(places), pa.array(places, mask=never_hold)
        return {
            name: concatenate(table.column(name), rows.column(name)).take(
                taken if name == WRITTEN_COLUMN else values
            )
            for name in names
        }


def _history(keys: Rows, starts: Numbers) -> Rows:
    """Rows by key, then by time; of rows with one time the last one alone."""
    order: Rows = np.lexsort((starts, keys))
    is_last = np.ones(len(order), np.bool_)
    is_last[:-1] = (np.diff(keys[order]) != 0) | (starts[order][1:] != starts[order][:-1])
    return order[is_last]


def _stops(keys: Rows, starts: Numbers) -> tuple[Numbers, Mask]:
    """When each version is followed by another one, and which are not; rows are in order."""
    stops, is_newest = starts.copy(), np.ones(len(keys), np.bool_)
    stops[:-1] = starts[1:]
    is_newest[:-1] = keys[1:] != keys[:-1]
    return stops, is_newest


def _find_void_versions(ended: pa.Array, starts: Numbers, removals: Mask | None) -> Mask:
    """Which versions never hold: the stored ones that end where they start, and tombstones.

    Args:
        ended: The stored `valid_to`, then NULL for each row of the epoch.
        starts: Every one's `valid_from`.
        removals: Which rows of the epoch are tombstones.
    """
    never: Mask = raw_numbers(ended) == starts
    valid = valid_rows(ended)
    if valid is not None:
        never &= valid
    if removals is not None:
        never[len(never) - len(removals) :] |= removals
    return never


def _differ(ended: pa.Array, stops: Numbers, holds_now: Mask) -> Mask:
    """Where a stored `valid_to` is not what it is to be."""
    valid = valid_rows(ended)
    held = np.zeros(len(stops), np.bool_) if valid is None else ~valid
    changed: Mask = (held != holds_now) | (~held & (raw_numbers(ended) != stops))
    return changed
