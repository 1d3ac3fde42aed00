"""Session stores: fragments of a key that lie no further apart than the gap become one session."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.model.kinds import WRITTEN_COLUMN, Function, MergedColumn, Session
from engine.model.schema import StoreDefinition
from engine.state import keys as sort_keys
from engine.state.folds.fold import FoundRows, StoredState
from engine.state.folds.fold_aggregates import Aggregates
from engine.state.folds.fold_columns import TOMBSTONE_FIELD, concatenate, tombstones_of
from engine.state.folds.grouping import Mask, valid_rows
from engine.state.folds.order_numbers import raw_numbers, to_array
from engine.state.folds.timelines import Joined, SessionFragments, Times, join
from engine.state.keys import KeyCodec, Rows


class SessionFold:
    """Joins fragments to sessions. Fragments at exactly the gap apart are one session, as they are for
    Spark's `session_window`.

    A tombstone removes the sessions of its key that have a moment in common with the time from its start to
    its end; without an end, those that hold its start. An end that is missing or before the start is taken
    for the start: nothing that a job wrote must stop a partition.

    Args:
        definition: The store.
        kind: Its kind.
    """

    def __init__(self, definition: StoreDefinition, kind: Session) -> None:
        self._kind = kind
        self._schema = definition.stored_schema
        self._prefix = [name for name in definition.key if name != kind.start]
        self._leading = definition.key[: definition.key.index(kind.start)]
        self._codec = KeyCodec([definition.schema.field(name).type for name in self._prefix])
        times = [MergedColumn(kind.start, Function.MIN), MergedColumn(kind.end, Function.MAX)]
        if WRITTEN_COLUMN in self._schema.names:
            times.append(MergedColumn(WRITTEN_COLUMN, Function.MAX))
        self._aggregates = Aggregates([*times, *kind.columns])

    def fold(self, rows: pa.RecordBatch, stored: StoredState) -> pa.RecordBatch:
        """As `Fold.fold`: rows for sessions that are new or changed, tombstones for those that are not there
        any more.
        """
        found = stored.find_prefixes(rows.select(self._leading))
        names = [*self._prefix, self._kind.start, self._kind.end]
        table = found.read(names)
        by_start: Rows = pc.sort_indices(table.column(self._kind.start)).to_numpy().astype(np.intp)
        table = table.take(pa.array(by_start))
        columns = {name: concatenate(table.column(name), rows.column(name)) for name in names}
        fragments = SessionFragments(
            sort_keys.groups_of(self._codec.encode([columns[name] for name in self._prefix]))[1],
            raw_numbers(columns[self._kind.start]),
            self._ends(columns),
            len(found),
            _later_rows(len(found), tombstones_of(rows)),
        )
        joined = join(fragments, self._kind.gap_microseconds)
        return self._batch(columns, joined, self._fold_rows(rows, found, by_start, joined))

    def _ends(self, columns: Mapping[str, pa.Array]) -> Times:
        """The end of each fragment, not before its start."""
        column, starts = columns[self._kind.end], raw_numbers(columns[self._kind.start])
        ends, valid = raw_numbers(column), valid_rows(column)
        if valid is not None:
            ends = np.where(valid, ends, starts)
        return np.maximum(ends, starts)

    def _batch(
        self, columns: Mapping[str, pa.Array], joined: Joined, sessions: dict[str, pa.Array]
    ) -> pa.RecordBatch:
        """The rows to be stored.

        Args:
            columns: Key and end of each fragment.
            joined: What becomes of them.
            sessions: The columns of the sessions but for the rest of their key.
        """
        sessions |= {name: columns[name].take(pa.array(joined.some_fragment)) for name in self._prefix}
        if not len(joined.replaced):
            return pa.RecordBatch.from_arrays(
                [sessions[name] for name in self._schema.names], schema=self._schema
            )
        keys = {
            name: columns[name].take(pa.array(joined.replaced)) for name in (*self._prefix, self._kind.start)
        }
        gone = {
            field.name: keys.get(field.name, pa.nulls(len(joined.replaced), field.type))
            for field in self._schema
        }
        arrays = [pa.concat_arrays([gone[name], sessions[name]]) for name in self._schema.names]
        flags = pa.array(np.arange(len(arrays[0])) < len(joined.replaced))
        return pa.RecordBatch.from_arrays([*arrays, flags], schema=self._schema.append(TOMBSTONE_FIELD))

    def _fold_rows(
        self, rows: pa.RecordBatch, found: FoundRows, by_start: Rows, joined: Joined
    ) -> dict[str, pa.Array]:
        """The columns of the sessions but for the rest of their key, finished ones among them. Of the stored
        sessions only those are read that become part of them.

        Args:
            rows: The rows of the epoch.
            found: The stored sessions of their keys.
            by_start: The numbers of these in order of their start.
            joined: What becomes of the fragments.
        """
        items = np.concatenate([step.items for step in joined.steps])
        read = np.unique(by_start[items[items < len(found)]])
        results = sum(step.count for step in joined.steps)
        # Where each item is among the columns that are read; those of the others are never asked for.
        place_of = np.concatenate(
            [np.searchsorted(read, by_start), len(read) + np.arange(rows.num_rows + results)]
        )
        names = self._aggregates.partials
        table = found.read(names, read)
        columns = {name: concatenate(table.column(name), rows.column(name)) for name in names}
        columns[self._kind.end] = to_array(self._ends(columns), columns[self._kind.end].type, None)
        chunks = {name: [column] for name, column in columns.items()}
        for step in joined.steps:
            items = pa.array(place_of[step.items])
            taken = {
                name: pa.chunked_array(parts).take(items).combine_chunks() for name, parts in chunks.items()
            }
            for name, result in self._aggregates.reduce(taken, step.groups, step.count).items():
                chunks[name].append(result)
        partials = {
            name: pa.chunked_array(parts).take(pa.array(place_of[joined.sessions])).combine_chunks()
            for name, parts in chunks.items()
        }
        return partials | self._aggregates.finish(partials)


def _later_rows(stored: int, removals: Mask | None) -> Mask | None:
    """Flags of an epoch's rows as flags of all fragments."""
    return None if removals is None else np.concatenate([np.zeros(stored, np.bool_), removals])
