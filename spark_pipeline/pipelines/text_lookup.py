"""What a small table says of a number, without a join."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

_MOST_BYTES = 1 << 17
"""Spark writes them into the text of each batch's plan: 100,000 take no time that can be told, and a million
take a second.
"""
_MOST_TEXTS = 127
"""Codes are ASCII characters to Spark, which turns one into a number."""


def text_lookup(number: Column, numbers: pa.ChunkedArray, texts: pa.ChunkedArray) -> Column | None:
    """The text that belongs to a number, of few texts that many numbers share.

    A stream that is joined with a table broadcasts the table anew in each batch, which is most of the time of
    a small one. This is an expression: a list of the texts, and a byte for each number from the first to the
    last, which says which of them it has.

    Args:
        number: An integer column.
        numbers: The numbers.
        texts: The text of each.

    Returns:
        The text; NULL of other numbers. None where bytes cannot say it: a number or text is null, a number is
        there twice, the numbers are far apart, or there are no or many texts.
    """
    encoded = texts.combine_chunks().dictionary_encode()
    if not 1 <= len(encoded.dictionary) <= _MOST_TEXTS or texts.null_count or numbers.null_count:
        return None
    bounds = pc.min_max(numbers).as_py()
    first, last = bounds["min"], bounds["max"]
    if last - first >= _MOST_BYTES or pc.count_distinct(numbers).as_py() < len(numbers):
        return None
    codes = np.zeros(last - first + 1, np.uint8)
    codes[numbers.to_numpy() - first] = encoded.indices.to_numpy() + 1
    byte = F.substring(F.lit(codes.tobytes()), (number - first + 1).cast("int"), 1)
    # A number that has none has a byte of 0.
    choices = F.array(F.lit(None), *(F.lit(text) for text in encoded.dictionary.to_pylist()))
    return F.when(number.between(first, last), F.get(choices, F.ascii(byte.cast("string"))))
