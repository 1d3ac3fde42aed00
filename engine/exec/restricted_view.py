"""A store of which somebody sees some columns and rows only: whatever reads it gets no others to see.

Rows are filtered here, before any expression of a statement meets them: an engine may evaluate a user's
condition first, and the text of an error can tell a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from engine.cached_property import cached_property
from engine.exec.kernels import count_passing, passing_batches, passing_rows, row_mask, row_passes
from engine.model.schema import Epoch, StoreDefinition
from engine.plan.row_tests import EVERY_ROW, RowTest, columns_of
from engine.scan import (
    EVERYTHING,
    FOUND_COLUMN,
    Hold,
    KeyedRows,
    KeyRange,
    RowFilter,
    Scan,
    ScanStatistics,
    SortedRows,
    StoreView,
)

MOST_PROJECTIONS = 1000


@dataclass(frozen=True, eq=False)
class Projection:
    """What is read to look up rows of some columns.

    Attributes:
        asked: The columns, under the names that were asked for.
        places: Their places in the whole store, then those of columns that are only tested.
        schema: `asked` with those; `asked` itself where there are none.
        tested: Where among `places` the columns are that are tested.
        tested_schema: These, under their names in the store.
    """

    asked: pa.Schema
    places: Sequence[int]
    schema: pa.Schema
    tested: Sequence[int]
    tested_schema: pa.Schema

    @cached_property
    def tested_places(self) -> Sequence[tuple[str, int]]:
        """Names and places of the columns that are tested."""
        return tuple(zip(self.tested_schema.names, self.tested, strict=True))


Projections = dict[tuple[tuple[int, ...], int], Projection]


@dataclass(frozen=True, eq=False)
class RestrictedView:
    """Implements `engine.scan.StoreView` over another view.

    Attributes:
        whole: The view of all rows and columns.
        definition: The store with the columns that are seen.
        test: Rows that pass are seen; it may test hidden columns.
        projections: Those that were found out, kept from view to view.
    """

    whole: StoreView
    definition: StoreDefinition
    test: RowTest
    projections: Projections

    @property
    def epoch(self) -> Epoch:
        """As `StoreView.epoch`."""
        return self.whole.epoch

    @property
    def committed_at(self) -> int:
        """As `StoreView.committed_at`."""
        return self.whole.committed_at

    @property
    def digest(self) -> str:
        """As `StoreView.digest`."""
        return self.whole.digest

    @cached_property
    def live_rows(self) -> int:
        """Exact number of rows that are seen."""
        if self.test == EVERY_ROW:
            return self.whole.live_rows
        return count_passing(self.whole.scan(self._read_columns(())), self.test)

    @cached_property
    def _tested(self) -> tuple[str, ...]:
        return tuple(sorted(columns_of(self.test)))

    def _read_columns(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Columns with those that are tested; at least one, since rows without columns cannot be filtered."""
        return tuple(dict.fromkeys((*columns, *self._tested))) or self.definition.key[:1]

    def scan(self, columns: Sequence[str], wanted: RowFilter = EVERYTHING) -> Scan:
        """As `StoreView.scan`: live rows alone, as dead ones may be of rows that nobody was to see."""
        return RestrictedScan(self.whole.scan(self._read_columns(columns), wanted), tuple(columns), self.test)

    def lookup(self, columns: Sequence[str], points: pa.RecordBatch) -> pa.Table:
        """As `StoreView.lookup`."""
        rows = self.whole.lookup(self._read_columns(columns), points)
        return passing_rows(rows, self.test).select(list(columns))

    def sorted_rows(self, columns: Sequence[str], key_range: KeyRange) -> SortedRows:
        """As `StoreView.sorted_rows`."""
        rows = self.whole.sorted_rows(self._read_columns(columns), key_range)
        return RestrictedSortedRows(rows, tuple(columns), self.test)

    def row(self, key: int | str, places: Sequence[int], schema: pa.Schema) -> pa.Table | None:
        """As `StoreView.row`."""
        projection = self._projection(places, schema)
        found = self.whole.row(key, projection.places, projection.schema)
        if found is None or self.test == EVERY_ROW:
            return found
        tested = {name: _one_chunk(found.column(place)) for name, place in projection.tested_places}
        if not row_passes(tested, self.test):
            return None
        if projection.schema is schema:
            return found
        return pa.Table.from_arrays(found.columns[: len(places)], schema=schema)

    def found_row(self, key: int | str, places: Sequence[int], schema: pa.Schema) -> pa.RecordBatch | None:
        """As `StoreView.found_row`."""
        found = self.row(key, places, schema)
        if found is None:
            return None
        columns = [pa.array([True]), *map(_one_chunk, found.columns)]
        return pa.RecordBatch.from_arrays(
            columns, schema=pa.schema([pa.field(FOUND_COLUMN, pa.bool_(), nullable=False), *schema])
        )

    def keyed_rows(self, keys: pa.RecordBatch, places: Sequence[int], schema: pa.Schema) -> KeyedRows:
        """As `StoreView.keyed_rows`."""
        projection = self._projection(places, schema)
        found = self.whole.keyed_rows(keys, projection.places, projection.schema)
        if self.test == EVERY_ROW:
            return found
        columns = found.rows.columns
        shown = pa.RecordBatch.from_arrays(columns[: len(places)], schema=schema)
        if not shown.num_rows:
            return KeyedRows(shown, found.places)
        tested = [columns[place] for place in projection.tested]
        passes = row_mask(pa.RecordBatch.from_arrays(tested, schema=projection.tested_schema), self.test)
        # Where each row that passes is among those that do.
        moved = pa.array(np.cumsum(passes) - 1, pa.int64(), mask=~passes)
        return KeyedRows(shown.filter(pa.array(passes)), moved.take(found.places))

    def _projection(self, places: Sequence[int], schema: pa.Schema) -> Projection:
        """What is read for some columns of the store as it is seen.

        Args:
            places: Their places.
            schema: Names for them: a user's, which may be those of other columns that are tested.
        """
        key = tuple(places), id(schema)
        known = self.projections.get(key)
        if known is not None and known.asked is schema:
            return known
        stored = self.whole.definition.schema
        read = [stored.get_field_index(self.definition.schema.field(place).name) for place in places]
        tested = [stored.get_field_index(name) for name in self._tested]
        added = [place for place in tested if place not in read]
        read += added
        found = Projection(
            schema,
            read,
            pa.schema([*schema, *map(stored.field, added)]) if added else schema,
            [read.index(place) for place in tested],
            pa.schema(map(stored.field, tested)),
        )
        if len(self.projections) >= MOST_PROJECTIONS:
            self.projections.clear()
        self.projections[key] = found
        return found


Whole = TypeVar("Whole", Scan, SortedRows)


@dataclass(frozen=True, eq=False)
class _Restricted(Generic[Whole]):
    """What is seen of rows.

    Attributes:
        whole: Have the columns that are read, then those that are tested.
        columns: Columns that are seen.
        test: Rows that pass are seen.
    """

    whole: Whole
    columns: tuple[str, ...]
    test: RowTest

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns that are seen; there are no dead rows."""
        return pa.schema([self.whole.schema.field(name) for name in self.columns])


class RestrictedScan(_Restricted[Scan]):
    """Implements `engine.scan.Scan` over another scan: live rows that are seen."""

    @property
    def statistics(self) -> ScanStatistics:
        """As `Scan.statistics`, of all rows."""
        return self.whole.statistics

    @property
    def nbytes(self) -> int:
        """As `Scan.nbytes`, of all rows."""
        return self.whole.nbytes

    def hold(self, *, is_copied: bool = False) -> Hold | None:
        """As `Scan.hold`: the rows that pass are copies in any case."""
        return self.whole.hold(is_copied=True)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """As `Scan.batches`."""
        return passing_batches(self.whole, self.columns, self.test)

    def to_table(self) -> pa.Table:
        """As `Scan.to_table`."""
        batches = list(self.batches())
        return pa.Table.from_batches(batches) if batches else self.schema.empty_table()

    def live_rows(self) -> pa.Table:
        """As `Scan.live_rows`."""
        return passing_rows(self.whole.live_rows(), self.test).select(list(self.columns)).combine_chunks()


class RestrictedSortedRows(_Restricted[SortedRows]):
    """Implements `engine.scan.SortedRows` over others."""

    @property
    def stored_rows(self) -> int:
        """As `SortedRows.stored_rows`, of all rows."""
        return self.whole.stored_rows

    def stretches(self, wanted: int | None, *, descending: bool = False) -> Iterator[pa.Table]:
        """As `SortedRows.stretches`."""
        for stretch in self.whole.stretches(wanted, descending=descending):
            yield passing_rows(stretch, self.test).select(list(self.columns))


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
