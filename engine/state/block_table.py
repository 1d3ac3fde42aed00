"""Columns of a block as a table, and their values as they lie in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.scan import FOUND_COLUMN
from engine.state.cache_places import CacheKey
from engine.state.keys import Rows


class Validity(NamedTuple):
    """Arrow's bits that tell which values of a column are not null; a column without nulls has none.

    Attributes:
        bits: The bits.
        first: The number of the first value's bit.
    """

    bits: npt.NDArray[np.uint8]
    first: int

    def of_rows(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Whether the values of some rows are not null."""
        places = rows + self.first
        valid: npt.NDArray[np.bool_] = ((self.bits[places >> 3] >> (places & 7)) & 1).astype(np.bool_)
        return valid


class FixedValues(NamedTuple):
    """A column of values that take a whole number of bytes each.

    Attributes:
        values: The values.
        validity: Which of them are not null.
    """

    values: npt.NDArray[np.void]
    validity: Validity | None


class TextValues(NamedTuple):
    """A column of texts, or of any bytes.

    Attributes:
        offsets: Where each begins, and behind the last where that ends: one more than there are.
        data: The bytes of all.
        validity: Which of them are not null.
    """

    offsets: npt.NDArray[np.int32]
    data: memoryview
    validity: Validity | None


@dataclass(frozen=True)
class BlockTable:
    """Columns of one block as a table, out of which a row is cut in one step.

    Attributes:
        stored: The schema of the partition's columns; another one where the partition has another shape.
        keys: Where the cache keeps each of them.
        table: The columns, under the names of a result.
    """

    stored: pa.Schema
    keys: Sequence[CacheKey]
    table: pa.Table

    def has_schema(self, schema: pa.Schema) -> bool:
        """Whether its columns have the names, the types and the metadata of a schema."""
        return bool(self._schema.equals(schema, check_metadata=True))

    @cached_property
    def _schema(self) -> pa.Schema:
        return self.table.schema

    @cached_property
    def batch(self) -> pa.RecordBatch:
        """The same as a batch, of which a row is cut out in a third of the time."""
        return self.table.to_batches()[0]

    def fixed_values(self, place: int) -> FixedValues:
        """The values of a column of a fixed width.

        Args:
            place: Place of the column in the table.
        """
        found = self._fixed_values.get(place)
        if found is None:
            found = self._fixed_values[place] = _fixed_values(self.batch.column(place))
        return found

    def text_values(self, place: int) -> TextValues:
        """The values of a column of texts or bytes.

        Args:
            place: Place of the column in the table.
        """
        found = self._text_values.get(place)
        if found is None:
            found = self._text_values[place] = _text_values(self.batch.column(place))
        return found

    @cached_property
    def _fixed_values(self) -> dict[int, FixedValues]:
        """Those that were asked for already, by their places."""
        return {}

    @cached_property
    def _text_values(self) -> dict[int, TextValues]:
        """Likewise."""
        return {}

    @cached_property
    def found(self) -> pa.RecordBatch:
        """The same behind `FOUND_COLUMN`, true for all rows: an answer to a key is cut out of it."""
        flags = pa.repeat(pa.scalar(True), self.batch.num_rows)
        fields = [pa.field(FOUND_COLUMN, pa.bool_(), nullable=False), *self.batch.schema]
        return pa.RecordBatch.from_arrays([flags, *self.batch.columns], schema=pa.schema(fields))


def _fixed_values(column: pa.Array) -> FixedValues:
    _, data = column.buffers()
    values = np.frombuffer(data, np.dtype(f"V{column.type.byte_width}"))
    return FixedValues(values[column.offset : column.offset + len(column)], _validity(column))


def _text_values(column: pa.Array) -> TextValues:
    _, offsets, data = column.buffers()
    return TextValues(
        np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1],
        memoryview(b"" if data is None else data),
        _validity(column),
    )


def _validity(column: pa.Array) -> Validity | None:
    if not column.null_count:
        return None
    return Validity(np.frombuffer(column.buffers()[0], np.uint8), column.offset)


def has_fixed_width(arrow_type: pa.DataType) -> bool:
    """Whether values of a type take a whole number of bytes each, the same for all."""
    return bool(
        pa.types.is_integer(arrow_type)
        or pa.types.is_floating(arrow_type)
        or pa.types.is_temporal(arrow_type)
        or pa.types.is_decimal(arrow_type)
    )
