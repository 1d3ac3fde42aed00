"""Folds: how the rows of an epoch and the rows that a partition has become the rows that it will have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from engine.state.keys import Keys, Rows


@dataclass(frozen=True, eq=False)
class KeyGroups:
    """The rows of an epoch by key, with the live rows of the same keys. Keys are numbered 0, 1, 2 … in key
    order.

    Attributes:
        keys: The distinct keys as sort keys, in order.
        groups: The number of each row's key, shape (rows,); the rows are as they came, in commit order.
        key_columns: The key columns of the distinct keys.
        places: The numbers of the keys that have a live row, each once, in no particular order.
        gather: Reads columns of these live rows.
    """

    keys: Keys
    groups: Rows
    key_columns: Sequence[pa.Array]
    places: Rows
    gather: Callable[[Sequence[str]], pa.Table]

    def __len__(self) -> int:
        return len(self.keys)

    def stored_columns(self, columns: Sequence[str]) -> pa.Table:
        """Columns of the live rows.

        Args:
            columns: Names of columns of the stored schema.

        Returns:
            As many rows as `places`; the key of row i is number `places[i]`.
        """
        return self.gather(columns)


class StoredState(Protocol):
    """The live rows of a partition before the epoch that is folded."""

    def find_keys(self, rows: pa.RecordBatch) -> KeyGroups:
        """Find the live rows that have the keys of some rows, for folds that look at each key alone.

        Args:
            rows: At least one row with the key columns among its columns, no null in them.
        """

    def find_prefixes(self, prefixes: pa.RecordBatch) -> pa.Table:
        """All live rows whose leading key columns have given values.

        Args:
            prefixes: The first one or more key columns alone, in key order; a row may be there more than
                once.

        Returns:
            The rows in the stored schema, each once, in an order that means nothing.
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
        """
