"""A key column of a segment in memory, with what finds keys in it."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from engine.state.keys import Keys, Needle, Rows, find, find_one
from engine.state.prefixes import FEW_NEEDLES, PrefixIndex
from engine.state.sparse_index import SparseIndex


@dataclass(frozen=True)
class KeyColumn:
    """The stored column that a segment's sort keys are read from, whole, and the sort keys themselves: one
    memory, two views.

    Attributes:
        column: The stored column.
        keys: The sort keys.
        index: Finds many of them at once; None for binary sort keys whose prefixes do not differ.
    """

    column: pa.Array
    keys: Keys
    index: SparseIndex | PrefixIndex | None

    @property
    def nbytes(self) -> int:
        """Bytes of the column, and of what the index has beside it."""
        return int(self.column.nbytes) + (self.index.nbytes if self.index else 0)

    def find_one(self, needle: Needle) -> int | None:
        """As `keys.find_one`."""
        if isinstance(self.index, SparseIndex):
            return self.index.find_one(needle)
        return find_one(self.keys, needle)

    def find(self, needles: Keys) -> tuple[Rows, Rows]:
        """As `keys.find`."""
        if isinstance(self.index, SparseIndex) or (self.index is not None and len(needles) > FEW_NEEDLES):
            return self.index.find(needles)
        return find(self.keys, needles)
