"""Rows by group: what all kernels of aggregates share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.state.keys import Rows

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Grouping:
    """Rows, each of one of some groups.

    Attributes:
        groups: The number of each row's group, shape (rows,). Rows of one group are in the order in which
            they are to be folded.
        count: How many groups there are, those without rows included.
    """

    groups: Rows
    count: int

    @cached_property
    def sizes(self) -> Rows:
        """How many rows each group has, shape (count,)."""
        return np.bincount(self.groups, minlength=self.count)

    @cached_property
    def filled(self) -> Mask:
        """Which groups have rows, shape (count,)."""
        filled = np.zeros(self.count, np.bool_)
        filled[self.groups] = True
        return filled

    def keep_rows(self, kept: Mask) -> Grouping:
        """The same groups with some of the rows.

        Args:
            kept: Which, shape (rows,).
        """
        return Grouping(self.groups[kept], self.count)

    def last_rows(self, rows: Rows) -> Rows:
        """The last of some rows in each group, -1 where a group has none of them.

        Args:
            rows: Row numbers in ascending order.
        """
        last = np.full(self.count, -1, np.intp)
        last[self.groups[rows]] = (
            rows  # where an index is there more than once, numpy keeps the value that comes last
        )
        return last

    def first_rows(self, rows: Rows) -> Rows:
        """The first of some rows in each group; as `last_rows`."""
        return self.last_rows(rows[::-1])


def valid_rows(values: pa.Array) -> Mask | None:
    """Which values are not null; None if all are."""
    if not values.null_count:
        return None
    valid: Mask = values.is_valid().to_numpy(zero_copy_only=False)
    return valid
