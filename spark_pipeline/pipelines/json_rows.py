"""Rows as JSON texts, a column at a time."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc


def json_rows(table: pa.Table) -> pa.Array:
    """One JSON object for each row; a null value is written as `null`.

    Args:
        table: Columns of booleans, numbers, decimals, texts and timestamps (written in UTC, as ISO 8601).

    Returns:
        Strings, as many as there are rows.
    """
    pieces: list[pa.Array | str] = []
    for number, name in enumerate(table.column_names):
        pieces += [
            ("{" if number == 0 else ", ") + json.dumps(name) + ": ",
            _values(table.column(name).combine_chunks()),
        ]
    return pc.binary_join_element_wise(
        *[pa.scalar(piece) if isinstance(piece, str) else piece for piece in [*pieces, "}"]], ""
    )


def _values(column: pa.Array) -> pa.Array:
    if pa.types.is_string(column.type):
        coded = column.dictionary_encode()
        # As many calls as there are different texts.
        texts = pa.array([json.dumps(text) for text in coded.dictionary.to_pylist()], pa.string()).take(
            coded.indices
        )
    elif pa.types.is_timestamp(column.type):
        # Fractions of a second follow from the unit.
        texts = pc.strftime(column, '"%Y-%m-%dT%H:%M:%SZ"')
    else:
        texts = column.cast(pa.string())
    return texts.fill_null("null")
