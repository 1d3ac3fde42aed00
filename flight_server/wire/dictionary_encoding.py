"""Strings and integers that repeat travel once a batch: between hosts, columns of them are dictionaries.

Groups of an aggregate, for example, are keys that every host sends, in all combinations. The indices are as
narrow as the values of the first batch allow; a later batch that has more of them travels in pieces. The
schema of the stream says which columns are dictionaries, and of which indices, so that the reader needs no
further word. Each batch has dictionaries of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

SAMPLE_ROWS = 2048
LEAST_ROWS = 64
"""Fewer rows are not worth a message for each dictionary."""
SHARE_OF_STRINGS = 0.6
"""Strings are encoded that take less than this share of their bytes as a dictionary."""
SHARE_OF_INTEGERS = 0.3
_LEAST_INTEGER_BITS = 32
_INDEX_TYPES = ((192, pa.uint8()), (48 << 10, pa.uint16()))
"""Up to how many values in the first batch indices have a type, which leaves room for more in later ones."""


@dataclass(frozen=True)
class Repeated:
    """How the batches of one stream travel.

    Attributes:
        schema: Schema of the stream.
        indexes: Columns that are dictionaries in it.
    """

    schema: pa.Schema
    indexes: tuple[int, ...]

    @staticmethod
    def from_sample(schema: pa.Schema, first: Sequence[pa.RecordBatch]) -> Repeated:
        """Decide by the first rows.

        Args:
            schema: Schema of the batches.
            first: The first of them; may be none.
        """
        if not first or first[0].num_rows < LEAST_ROWS:
            return Repeated(schema, ())
        found = {index: _encoded_type(column) for index, column in enumerate(first[0].columns)}
        indexes = tuple(index for index, encoded in found.items() if encoded is not None)
        for index in indexes:
            schema = schema.set(index, schema.field(index).with_type(found[index]))
        return Repeated(schema, indexes)

    def pieces(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """A batch as it travels: in pieces where one of its dictionaries would have more values than its
        indices can tell apart.
        """
        if not self.indexes:
            yield batch
            return
        encoded = {index: batch.column(index).dictionary_encode() for index in self.indexes}
        if any(_is_too_long(column, self.schema.field(index).type) for index, column in encoded.items()):
            middle = batch.num_rows // 2
            yield from self.pieces(batch.slice(0, middle))
            yield from self.pieces(batch.slice(middle))
            return
        columns = [
            _with_type(encoded[index], self.schema.field(index).type) if index in encoded else column
            for index, column in enumerate(batch.columns)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _encoded_type(column: pa.Array) -> pa.DataType | None:
    """The type of a dictionary of a column's values; None where it is not worth it."""
    arrow_type = column.type
    if not (
        arrow_type == pa.string()
        or (pa.types.is_integer(arrow_type) and arrow_type.bit_width >= _LEAST_INTEGER_BITS)
    ):
        return None
    share = SHARE_OF_STRINGS if arrow_type == pa.string() else SHARE_OF_INTEGERS
    for rows in (column.slice(0, SAMPLE_ROWS), column):
        values = rows.dictionary_encode().dictionary
        index = next((found for most, found in _INDEX_TYPES if len(values) <= most), pa.int32())
        if values.nbytes + index.bit_width // 8 * len(rows) >= share * rows.nbytes:
            return None
    return pa.dictionary(index, arrow_type)


def _is_too_long(column: pa.DictionaryArray, encoded: pa.DictionaryType) -> bool:
    return bool(len(column.dictionary) > 1 << encoded.index_type.bit_width)


def _with_type(column: pa.DictionaryArray, encoded: pa.DictionaryType) -> pa.DictionaryArray:
    """A dictionary with narrower indices."""
    return pa.DictionaryArray.from_arrays(column.indices.cast(encoded.index_type), column.dictionary)


def decoded_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of the rows of a stream, without metadata."""
    return pa.schema(
        [
            field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
            for field in schema
        ]
    )


def decode(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch that travelled, as it was.

    Args:
        batch: The batch.
        schema: `decoded_schema` of the stream's.
    """
    columns = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        for column in batch.columns
    ]
    return (
        pa.RecordBatch.from_arrays(columns, schema=schema) if columns else batch.replace_schema_metadata(None)
    )
