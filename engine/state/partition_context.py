"""What all segments of an open partition share: its shape, its storage and the cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from engine.model.columns import Column
from engine.state.cache import ColumnCache
from engine.state.formats import KEY_COLUMN
from engine.state.key_column import KeyColumn
from engine.state.keys import KeyCodec, Keys
from engine.state.prefixes import PrefixIndex
from engine.state.sparse_index import SparseIndex
from engine.state.storage import Storage

_INDEX_BYTES = 8
"""Bytes a row beside binary keys that find many of them at once."""


@dataclass(frozen=True, eq=False)
class PartitionContext:
    """What all segments of an open partition share as long as it has one shape.

    Attributes:
        number: Number of the open partition store, unique in its cache.
        schema: Stored schema of the store.
        columns: Its columns.
        key: Places of the key columns in the schema, in key order.
        codec: Makes their sort keys.
        storage: Where blocks are stored.
        cache: Where decoded columns are kept.
    """

    number: int
    schema: pa.Schema
    columns: Sequence[Column]
    key: tuple[int, ...]
    codec: KeyCodec
    storage: Storage
    cache: ColumnCache

    @cached_property
    def key_column(self) -> int:
        """Place of the stored column that sort keys are read from; `KEY_COLUMN` where they are stored beside
        the columns.
        """
        return KEY_COLUMN if self.codec.is_stored else self.key[0]

    @cached_property
    def stored_columns(self) -> Sequence[int]:
        """Places of all that a segment stores in this shape, `KEY_COLUMN` among them where it does."""
        places = range(len(self.columns))
        return [*places, KEY_COLUMN] if self.codec.is_stored else places

    @cached_property
    def numbers(self) -> Mapping[int, int]:
        """Place of a stored column to its number."""
        return {KEY_COLUMN: KEY_COLUMN, **{place: column.number for place, column in enumerate(self.columns)}}

    @cached_property
    def stored_numbers(self) -> frozenset[int]:
        """The numbers of all that a segment stores in this shape."""
        return frozenset(self.numbers[column] for column in self.stored_columns)

    @cached_property
    def numbers_by_name(self) -> Mapping[str, int]:
        """Name of a stored column to its number."""
        return {name: column.number for name, column in zip(self.schema.names, self.columns, strict=True)}

    @cached_property
    def _types(self) -> Mapping[int, pa.DataType]:
        return {KEY_COLUMN: pa.binary(), **dict(enumerate(self.schema.types))}

    def column_type(self, column: int) -> pa.DataType:
        """Arrow type of a stored column."""
        return self._types[column]

    def sort_keys(self, key_column: pa.Array) -> Keys:
        """Sort keys from the stored column `key_column`."""
        return key_column if self.codec.is_stored else self.codec.encode([key_column])

    def key_column_of(self, column: pa.Array) -> KeyColumn:
        """A whole key column with its sort keys."""
        keys = self.sort_keys(column)
        return KeyColumn(
            column,
            keys,
            SparseIndex.from_numbers(keys) if isinstance(keys, np.ndarray) else PrefixIndex.from_keys(keys),
        )

    def key_bytes(self, nbytes: int, rows: int) -> int:
        """Bytes that a key column takes in the cache as a whole, an estimate.

        Args:
            nbytes: Arrow bytes of the column.
            rows: Its rows.
        """
        return nbytes + _INDEX_BYTES * rows if self.codec.is_binary else nbytes
