"""Folds: how the rows of an epoch and the rows that a partition has become the rows that it will have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from engine.state.keys import Keys, Rows


class FoundRows(Protocol):
    """Live rows that were found, each once, in an order that means nothing."""

    def __len__(self) -> int:
        """How many there are."""

    def read(self, columns: Sequence[str], rows: Rows | None = None) -> pa.Table:
        """Columns of the rows.

        Args:
            columns: Names of columns of the stored schema.
            rows: The numbers of some of the rows in ascending order; None for all.

        Returns:
            The rows in the order of their numbers, in any number of chunks.

        Raises:
            pyarrow.ArrowCapacityError: They are more than may be in memory at once: fewer rows of the epoch
                are to be folded at a time.
        """


@dataclass(frozen=True, eq=False)
class KeyGroups:
    """The rows of an epoch by key, with the live rows of the same keys. Keys are numbered 0, 1, 2 … in key
    order.

    Attributes:
        keys: The distinct keys as sort keys, in order.
        groups: The number of each row's key, shape (rows,); the rows are as they came, in commit order.
        key_columns: The key columns of the distinct keys.
        places: The numbers of the keys that have a live row, each once, in no particular order.
        stored: These live rows; the key of row i is number `places[i]`.
    """

    keys: Keys
    groups: Rows
    key_columns: Sequence[pa.Array]
    places: Rows
    stored: FoundRows

    def __len__(self) -> int:
        return len(self.keys)


class StoredState(Protocol):
    """The live rows of a partition before the epoch that is folded."""

    def find_keys(self, rows: pa.RecordBatch) -> KeyGroups:
        """Find the live rows that have the keys of some rows, for folds that look at each key alone.

        Args:
            rows: At least one row with the key columns among its columns, no null in them.
        """

    def find_prefixes(self, prefixes: pa.RecordBatch) -> FoundRows:
        """Find all live rows whose leading key columns have given values.

        Args:
            prefixes: The first one or more key columns alone, in key order; a row may be there more than
                once.
        """


class Fold(Protocol):
    """Makes rows to be stored of the rows of an epoch.

    A fold is deterministic: the same commits give the same rows on every replica, whether their epochs are
    folded one by one or several together, rows concatenated in commit order. A large epoch comes in pieces,
    each of which finds what those before it have left.
    """

    def fold(self, rows: pa.RecordBatch, stored: StoredState) -> pa.RecordBatch:
        """Fold the rows of an epoch, or of a piece of one.

        Args:
            rows: At least one row in the row schema, in commit order, with `TOMBSTONE_COLUMN` behind where a
                row is a tombstone, and `WRITTEN_COLUMN` where retention goes by the time of the commit.
            stored: What the partition has.

        Returns:
            Upserts and tombstones in the stored schema, with `TOMBSTONE_COLUMN` behind where a row is a
            tombstone; possibly none. They are applied as a key-value store applies them: the last row of a
            key wins. Cheapest are the keys of one `find_keys`, each once and in its order.

        Raises:
            pyarrow.ArrowInvalid, pyarrow.ArrowCapacityError: The rows, or those that are stored of their
                keys, are more than one Arrow array has room for: fewer rows are to be folded at a time.
        """
