"""What a query may ask of stores: the words between planning, execution and partition state.

Execution and planning see stores through these types alone; they never meet RocksDB. Partition state
implements them and never meets SQL.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import pyarrow as pa

from engine.cluster.reports import GroupReport, StoreReport
from engine.errors import Unavailable
from engine.model.schema import Epoch, GroupName, PartitionId, StoreDefinition, StoreName

LIVE_COLUMN = "__live"
"""`uint8` column behind the columns of a scan that has dead rows: 1 where the row is live, 0 where it is
superseded or removed.

One byte a row, not a bit: DuckDB filters 12.5 M rows on it in 57 ms, on a boolean in 72 ms.
"""
SMALL_SCAN_BYTES = 1 << 20
"""Scans of so many Arrow bytes may be copied into one piece: to look where they are would take longer."""
FOUND_COLUMN = "__found"
"""Boolean column before those of rows that were looked up by key: whether the key has a row. No column of a
store begins like this.
"""


@dataclass(frozen=True)
class Interval:
    """The values of one column between two bounds. NULL is in no interval.

    Attributes:
        low: Lower bound, a non-null scalar of the column's type; None for no bound.
        high: Upper bound, likewise.
        low_open: The lower bound itself is outside.
        high_open: The upper bound itself is outside.
    """

    low: pa.Scalar | None = None
    high: pa.Scalar | None = None
    low_open: bool = False
    high_open: bool = False

    @cached_property
    def numbers(self) -> tuple[float | None, float | None] | None:
        """Both bounds as `number_of`, None for one that is not there; None for both where one has
        no number.
        """
        low, high = (None if bound is None else number_of(bound) for bound in (self.low, self.high))
        if (low is None and self.low is not None) or (high is None and self.high is not None):
            return None
        return low, high


def number_of(value: pa.Scalar) -> float | None:
    """The number that stands for a value in its column; None for a value that none stands for.

    Args:
        value: A non-null scalar.

    Returns:
        Integers and floats themselves, but for NaN, which has no order here; days or ticks since 1970 of
        dates and timestamps.
    """
    arrow_type = value.type
    if pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type):
        number: float = value.as_py()
        return None if math.isnan(number) else number
    if pa.types.is_date32(arrow_type) or pa.types.is_timestamp(arrow_type):
        ticks: int = value.value
        return ticks
    return None


@dataclass(frozen=True)
class RowFilter:
    """Which rows of a store a query can need; what it does not rule out may be needed.

    Attributes:
        points: Values for a leading part of the key, as a batch whose columns are named and typed as those
            key columns, without nulls; only rows equal to one of its rows are needed. None: no such
            condition. A batch of no rows: nothing is needed.
        intervals: Column name to the interval outside which rows are not needed; all hold together.
    """

    points: pa.RecordBatch | None = None
    intervals: Mapping[str, Interval] = field(default_factory=dict)


EVERYTHING = RowFilter()


@dataclass(frozen=True)
class KeyRange:
    """Rows that lie next to each other in the order of a store's key.

    Attributes:
        prefix: Values that the leading key columns have, of their types and not null; none for all rows.
        interval: Bounds of the key column behind them; None for none.
    """

    prefix: tuple[pa.Scalar, ...] = ()
    interval: Interval | None = None


@dataclass(frozen=True)
class ScanStatistics:
    """What pruning left of a store. Each pair counts what is read and what there is."""

    partitions_read: int
    partitions: int
    segments_read: int
    segments: int
    blocks_read: int
    blocks: int
    rows_read: int
    rows: int


class Hold(Protocol):
    """Memory that counts as taken."""

    def release(self) -> None:
        """Have it count no more. May be called again."""


class _NothingHeld:
    """What is held of no rows: `Hold`."""

    def release(self) -> None:
        """As `Hold.release`."""


NOTHING_HELD: Hold = _NothingHeld()


class Scan(Protocol):
    """Stored rows that may be needed, dead ones possibly among them, block by block. Can be iterated any
    number of times.
    """

    @property
    def schema(self) -> pa.Schema:
        """The columns asked for, in that order, then `LIVE_COLUMN` if and only if dead rows may be among the
        rows.
        """

    @property
    def statistics(self) -> ScanStatistics:
        """What pruning left."""

    @property
    def nbytes(self) -> int:
        """Arrow bytes of all batches together, an estimate good to a factor of two."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as batches of `schema`; reads what is not in the cache from disk as it goes."""

    def hold(self, *, is_copied: bool = False) -> Hold | None:
        """Have the rows count as memory that is taken, to be called before they are all in memory.

        Args:
            is_copied: Whether what is in memory already is copied.

        Returns:
            To be released when the rows are not used any more; None where statements hold too much already:
            the rows are to be read block by block then.
        """

    def to_table(self) -> pa.Table:
        """The rows as one table, all in memory, for the engine: values as it reads them soonest. A column may
        have another Arrow type than in `schema` that the engine takes for the same one: narrow decimals, a
        dictionary of strings.
        """

    def live_rows(self) -> pa.Table:
        """The live rows as one table of the columns asked for, at least one, all in memory: of a small scan,
        in one chunk a column.
        """


class SortedRows(Protocol):
    """The live rows of a key range in the order of the key. Can be read any number of times."""

    @property
    def schema(self) -> pa.Schema:
        """The columns asked for, in that order."""

    @property
    def stored_rows(self) -> int:
        """How many rows are stored in the range, dead ones included."""

    def stretches(self, wanted: int | None, *, descending: bool = False) -> Iterator[pa.Table]:
        """The rows, a stretch at a time; what was not asked for is not read.

        Args:
            wanted: How many rows are needed, most likely; None for all in one stretch.
            descending: Whether to begin at the greatest key.

        Yields:
            Rows in order, behind those of the stretches before. The first stretches have about as many as are
            wanted, later ones more and more; one may have none.
        """


@dataclass(frozen=True)
class KeyedRows:
    """Rows that were looked up by key.

    Attributes:
        rows: The rows, each once, in no particular order.
        places: For each key, the place of its row among them; NULL for a key that has none.
    """

    rows: pa.RecordBatch
    places: pa.Array


class StoreView(Protocol):
    """One store at one epoch, or some partitions of it: immutable, however long it is kept."""

    @property
    def definition(self) -> StoreDefinition:
        """What the store is."""

    @property
    def epoch(self) -> Epoch:
        """The epoch that this view shows; 0 before the first."""

    @property
    def committed_at(self) -> int:
        """When that epoch was committed, microseconds since 1970 UTC; 0 before the first."""

    @property
    def digest(self) -> str:
        """As `ReadableEpoch.digest` of that epoch."""

    @property
    def live_rows(self) -> int:
        """Exact number of rows."""

    def scan(self, columns: Sequence[str], wanted: RowFilter = EVERYTHING) -> Scan:
        """Rows that may be needed: a superset of the wanted ones.

        Args:
            columns: Names of columns of the store, without repeats; may be empty (then batches have only a
                row count, and `LIVE_COLUMN`).
            wanted: What rows can matter.
        """

    def lookup(self, columns: Sequence[str], points: pa.RecordBatch) -> pa.Table:
        """The live rows whose leading key columns equal a row of `points`: exactly those, each once.

        Args:
            columns: Names of columns of the store, without repeats.
            points: As `RowFilter.points`; rows may repeat and need no order.

        Returns:
            A table of `columns`, rows in no particular order.
        """

    def sorted_rows(self, columns: Sequence[str], key_range: KeyRange) -> SortedRows:
        """The live rows of a range in the order of the key.

        Args:
            columns: Names of columns of the store, without repeats; at least one.
            key_range: The range.
        """

    def row(self, key: int | str, places: Sequence[int], schema: pa.Schema) -> pa.Table | None:
        """The live row of one key, in a store whose key is one column of integers or strings: `lookup` for
        the most frequent query.

        Args:
            key: A value of the key column's type, within its range.
            places: Places of columns in the store's schema, at least one; may repeat.
            schema: Names for these columns, and their types.

        Returns:
            One row of `schema`; None where there is none.
        """

    def found_row(self, key: int | str, places: Sequence[int], schema: pa.Schema) -> pa.RecordBatch | None:
        """As `row`, behind a column `FOUND_COLUMN` that is true.

        Args:
            key: As that of `row`.
            places: As those of `row`.
            schema: As that of `row`, without `FOUND_COLUMN`.
        """

    def keyed_rows(self, keys: pa.RecordBatch, places: Sequence[int], schema: pa.Schema) -> KeyedRows:
        """The live rows of whole keys, and which key has which.

        Args:
            keys: As `RowFilter.points`, with all columns of the key; at least one row.
            places: As those of `row`.
            schema: As that of `row`.
        """


class BuildingError(Unavailable):
    """What is asked for is being built here from the changelog: it comes by itself, and can be waited for."""


@dataclass(frozen=True)
class StoreStatus:
    """How a store stands on this host.

    Attributes:
        store: Name.
        group: Store group.
        epoch: Newest epoch that can be read.
        newest_epoch: Newest epoch known to be committed in the changelog.
        lag_seconds: Age of the oldest known commit that cannot be read yet; 0 when there is none.
        rows: Live rows.
        stored_rows: Rows in segments, dead ones included.
        bytes: Arrow bytes of the segments.
        partitions: Partitions that can be read here.
        segments: Segments over all partitions.
        problem: Why the store does not get on, in one sentence; empty when nothing is wrong.
        pinned_epochs: Epochs that are past their retention and that queries still read.
        skipped: The epochs of the store group that are passed by, a sentence each; empty where there are
            none.
    """

    store: StoreName
    group: GroupName
    epoch: Epoch
    newest_epoch: Epoch
    lag_seconds: float
    rows: int
    stored_rows: int
    bytes: int
    partitions: int
    segments: int
    problem: str = ""
    pinned_epochs: int = 0
    skipped: str = ""


class StoreSource(Protocol):
    """Where a query gets its stores."""

    def definitions(self) -> Mapping[StoreName, StoreDefinition]:
        """All stores that can be asked now, as they are at the newest epoch that can be read. Another mapping
        whenever they may have been others at any epoch.
        """

    def definitions_of(self, generations: Mapping[GroupName, int]) -> Mapping[StoreName, StoreDefinition]:
        """All stores that can be asked now, some of them as they are at other epochs; without those that were
        dropped since.

        Args:
            generations: How many amendments are in effect (`ReadableEpoch.generation`), by store group; the
                newest for groups that are not named.

        Raises:
            Unavailable: A definition is not known here, and the changelog cannot be reached.
            Corrupt: A definition or a migration is damaged or missing.
        """

    def tables(self) -> Mapping[StoreName, StoreDefinition]:
        """What SQL's names of stores mean now: the stores of these names, unless a name was switched to
        another store.

        It never changes: a statement whose names are looked up in one of these means the same stores from its
        beginning to its end.

        Raises:
            Unavailable: There is nothing that could have stores; the message says what is missing.
        """

    def damaged_names(self) -> Mapping[StoreName, str]:
        """Names of stores that the changelog has and that mean nothing, as what says so is damaged; each with
        a sentence on it.
        """

    def pin_views(
        self,
        stores: Collection[StoreName],
        epochs: Mapping[GroupName, Epoch] | None = None,
        partitions: Mapping[StoreName, Collection[PartitionId]] | None = None,
        shapes: Mapping[StoreName, StoreDefinition] | None = None,
        digests: Mapping[GroupName, str] | None = None,
    ) -> AbstractContextManager[Mapping[StoreName, StoreView]]:
        """Pin one epoch of each named store; stores of one group share it. Views stay valid until the context
        ends.

        Args:
            stores: The stores.
            epochs: The epoch of each store group that is read; None for the newest of all.
            partitions: Which partitions of a store, and to the view of it there are no others. All for stores
                that are not named.
            shapes: What the stores are of which no partition is read; as they are at the newest epoch by
                default. All others are what they are at their epoch.
            digests: As `ReadableEpoch.digest` of the epochs, where they are known.

        Raises:
            NotFound: A store does not exist (any more), or not at that epoch.
            BuildingError: A store is being built here, and cannot be read yet.
            Unavailable: A store has partitions that cannot be read here now, or an epoch is not there yet or
                not retained any more, or has other rows than that of the given digest, or a store is in a
                group of which no epoch is given; the message names them, and what is there.
        """

    def hold(self, epochs: Mapping[GroupName, Epoch], seconds: float) -> None:
        """Keep epochs readable here for longer than they are retained. Without another hold they are let go
        then.

        Args:
            epochs: The epoch of each store group.
            seconds: For how long from now.

        Raises:
            NotFound: There is no such group.
            Unavailable: An epoch is not there yet, or not any more; the message names it, and those that are.
            LimitExceeded: Readers hold too many epochs of a group.
        """

    def report(self) -> tuple[Mapping[GroupName, GroupReport], Mapping[StoreName, StoreReport]]:
        """What can be read here, by group and by store. Cheap: asked for with every query."""

    def complete_until(self, stores: Collection[StoreName]) -> int:
        """Until when the newest epochs that can be read here are known to lack no commit, microseconds since
        1970 UTC. Those that are pinned later are as new or newer.

        Args:
            stores: The stores that are to be read.

        Returns:
            The time of the worst of their groups; 0 where nothing is known.
        """

    def status(self) -> Sequence[StoreStatus]:
        """All stores, ordered by name."""
