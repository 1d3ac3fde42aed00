"""A checksum of rows in any order: replicas that have applied the same commits have the same one, however
their rows lie in segments, blocks and batches.

Each row has two hashes of 64 bits, and the checksum has the sum of each over all rows, modulo 2^64, and how
many rows there are. Sums do not depend on the order, and can be put together. A value of up to eight bytes
and its hash determine each other, so that a single value that differs is always seen in both hashes of its
row; whatever else differs is missed once in some 2^64 times by each sum, whose hashes join the values of a
row in two different ways.

Hashed are the bits of values, and which of them are NULL: two NaN can differ, and so do 0.0 and -0.0. What
lies beneath a NULL does not count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.model.word_hash import Words, mix

_ROWS_AT_ONCE = 1 << 14
"""So many words stay in a processor's cache from one step to the next."""
_WORD = 8
_STEP = np.uint64(0x9E3779B97F4A7C15)
"""Odd, without a pattern: what tells the words of a text, and the columns of a row, by their place."""
_FACTOR = np.uint64(0xD6E8FEB86659FD93)
_NULL = np.uint64(0xA0761D6478BD642F)
_SUMS = 1 << 64
_TEXT = re.compile(r"([0-9]{1,19}) ([0-9a-f]{16})([0-9a-f]{16})")


@dataclass(frozen=True)
class RowChecksum:
    """What tells some rows from others. That of no rows is the default.

    Attributes:
        rows: How many there are.
        first: Sum of the first hash of each, modulo 2^64.
        second: Sum of the second one, likewise.
    """

    rows: int = 0
    first: int = 0
    second: int = 0

    def __add__(self, other: RowChecksum) -> RowChecksum:
        return RowChecksum(
            self.rows + other.rows,
            (self.first + other.first) % _SUMS,
            (self.second + other.second) % _SUMS,
        )

    def __str__(self) -> str:
        return f"{self.rows} {self.first:016x}{self.second:016x}"

    @staticmethod
    def from_text(text: str) -> RowChecksum:
        """A checksum from its text.

        Raises:
            ValueError: It is none.
        """
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError("No checksum of rows.")
        return RowChecksum(int(found[1]), int(found[2], 16), int(found[3], 16))


def checksum_rows(rows: pa.RecordBatch) -> RowChecksum:
    """The checksum of some rows.

    Args:
        rows: Rows; their columns count by their order and not by their names.
    """
    total = RowChecksum()
    for start in range(0, rows.num_rows, _ROWS_AT_ONCE):
        first, second = _row_hashes(rows.slice(start, _ROWS_AT_ONCE).columns)
        total += RowChecksum(len(first), int(first.sum()), int(second.sum()))
    return total


def _row_hashes(columns: list[pa.Array]) -> tuple[Words, Words]:
    """Both hashes of each row."""
    first = np.full(len(columns[0]), _STEP, np.uint64)
    second = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        hashes = _value_hashes(column)
        second += hashes
        second *= _FACTOR
        second ^= second >> np.uint64(32)
        hashes += first
        hashes += _STEP
        first = mix(hashes)
    return first, second


def _value_hashes(column: pa.Array) -> Words:
    """A hash of each value."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    hashes = _hashes_of_valid(column)
    if column.null_count:
        hashes[column.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return hashes


def _hashes_of_valid(column: pa.Array) -> Words:
    """A hash of each value that is not NULL, and anything for the others."""
    arrow_type = column.type
    if pa.types.is_string(arrow_type) or pa.types.is_binary(arrow_type):
        return _text_hashes(column)
    if pa.types.is_list(arrow_type):
        offsets, begin = _offsets(column)
        elements = column.values.slice(begin, int(offsets[-1]))
        return _sequence_hashes(_value_hashes(elements), np.diff(offsets))
    if pa.types.is_map(arrow_type):
        offsets, begin = _offsets(column)
        keys, items = (each.slice(begin, int(offsets[-1])) for each in (column.keys, column.items))
        return _sequence_hashes(_row_hashes([keys, items])[0], np.diff(offsets))
    if pa.types.is_struct(arrow_type):
        return _row_hashes(column.flatten())[0]
    if pa.types.is_null(arrow_type):
        return np.zeros(len(column), np.uint64)
    if pa.types.is_boolean(arrow_type):
        column = pc.cast(column, pa.uint8())
    return _fixed_hashes(column)


def _fixed_hashes(column: pa.Array) -> Words:
    width = column.type.bit_width // 8
    place, count = column.offset * width, len(column)
    data = np.frombuffer(column.buffers()[1], np.uint8, count * width, place)
    if width <= _WORD:
        return mix(data.view(f"<u{width}").astype(np.uint64))
    hashes = np.zeros(count, np.uint64)
    for word in data.view("<u8").reshape(count, -1).T:
        hashes = mix(hashes + word + _STEP)
    return hashes


def _offsets(column: pa.Array) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], int]:
    """Where values begin and the last one ends, from the first on; and where that begins."""
    offsets = np.frombuffer(column.buffers()[1], "<i4", len(column) + 1, column.offset * 4).astype(np.int64)
    begin = int(offsets[0])
    return offsets - begin, begin


def _text_hashes(column: pa.Array) -> Words:
    offsets, begin = _offsets(column)
    lengths = np.diff(offsets)
    words = (lengths + (_WORD - 1)) // _WORD
    data = np.zeros(int(offsets[-1]) + _WORD, np.uint8)
    if offsets[-1]:
        data[:-_WORD] = np.frombuffer(column.buffers()[2], np.uint8, int(offsets[-1]), begin)
    # A word begins at any byte.
    at_any_byte: Words = np.ndarray(len(data) - _WORD + 1, "<u8", data, strides=(1,))
    firsts = np.cumsum(words) - words
    places = np.arange(int(words.sum())) - np.repeat(firsts, words)
    taken = at_any_byte[np.repeat(offsets[:-1], words) + places * _WORD]
    # What lies behind the end of a text is of the next one.
    ends = (firsts + words - 1)[words > 0]
    rest = lengths[words > 0] - (words[words > 0] - 1) * _WORD
    taken[ends] &= np.uint64(0xFFFFFFFFFFFFFFFF) >> ((_WORD - rest) * 8).astype(np.uint64)
    return _sequence_hashes(taken, words) + mix(lengths.astype(np.uint64))


def _sequence_hashes(elements: Words, counts: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Words:
    """A hash of each of several sequences of words.

    Args:
        elements: The words of all sequences, one behind the other.
        counts: How many words each has.
    """
    firsts = np.cumsum(counts) - counts
    places = (np.arange(len(elements)) - np.repeat(firsts, counts)).astype(np.uint64)
    places *= _STEP
    mixed = mix(mix(elements) + places)
    sums = np.zeros(len(elements) + 1, np.uint64)
    np.cumsum(mixed, out=sums[1:])
    return mix(sums[firsts + counts] - sums[firsts] + counts.astype(np.uint64) * _STEP)
