"""Strings that repeat travel once a batch: between hosts, columns of them are dictionaries of 32-bit indices.

Groups of an aggregate, for example, are keys that every host sends, in all combinations; of TPC-H's query 16
this halves the bytes. The schema of the stream says which columns are dictionaries, so that the reader needs
no further word. Each batch has dictionaries of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

SAMPLE_ROWS = 2048
LEAST_ROWS = 64
"""Fewer rows are not worth a message for each dictionary."""
SHARE = 0.6
"""Columns are encoded whose sample takes less than this share of its bytes as a dictionary."""
_INDEX_BYTES = 4
_ENCODED = pa.dictionary(pa.int32(), pa.string())


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
        sample = first[0].slice(0, SAMPLE_ROWS) if first else None
        if sample is None or sample.num_rows < LEAST_ROWS:
            return Repeated(schema, ())
        indexes = tuple(
            index
            for index, column in enumerate(sample.columns)
            if column.type == pa.string() and _repeats(column)
        )
        for index in indexes:
            schema = schema.set(index, schema.field(index).with_type(_ENCODED))
        return Repeated(schema, indexes)

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch as it travels."""
        if not self.indexes:
            return batch
        columns = [
            column.dictionary_encode() if index in self.indexes else column
            for index, column in enumerate(batch.columns)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _repeats(column: pa.Array) -> bool:
    return bool(
        column.dictionary_encode().dictionary.nbytes + _INDEX_BYTES * len(column) < SHARE * column.nbytes
    )


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
