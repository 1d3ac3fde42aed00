"""How many values of a column differ: the smallest of their hashes, which can be put together.

Of hashes that are spread evenly, the k-th smallest tells how many there are (Bar-Yossef and others, "Counting
distinct elements in a data stream", 2002). Two sketches together are the smallest hashes of both, so that
segments, partitions and hosts add up to one column without counting a value twice. With 64 hashes an estimate
is off by about an eighth; up to 63 values it is exact.

Of long strings only some bytes are hashed: the estimate may be too low, and nothing but a plan depends on it.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.model.word_hash import FIRST_FACTOR, SECOND_FACTOR, Words, mix

Sketch = npt.NDArray[np.uint32]
"""Hashes, ascending, each once; as many as `SKETCH_HASHES` stand for more."""
SKETCH_HASHES = 64
_HASHES = 1 << 32
_WORD = 8
_TAKEN = 8
"""How many times as many hashes are looked at as are wanted, and as had too few that differ."""
_CHUNK_VALUES = 1 << 14
"""Values are hashed so many at a time: the steps between stay in the processor's cache."""
_FEW_INTEGERS = 1024
"""Integers that lie within so many are reduced to those that differ: where few hashes differ, all of them
are sorted.
"""
NO_HASHES: Sketch = np.empty(0, np.uint32)


def has_sketch(arrow_type: pa.DataType) -> bool:
    """Whether columns of a type can have a sketch."""
    return _is_text(arrow_type) or _fixed_type(arrow_type) is not None


def sketch_of(column: pa.Array, known: Sketch = NO_HASHES) -> Sketch:
    """The sketch of some values, and of those that another one stands for.

    Args:
        column: Of a type that has sketches; NULLs are left out.
        known: The other one; it tells which hashes are too large to count.
    """
    values = column.drop_null() if column.null_count else column
    if not len(values):
        return known
    if _is_text(values.type):
        return _add_words(known, _text_words(values))
    numbers = _numbers(values)
    for start in range(0, len(numbers), _CHUNK_VALUES):
        some = _leave_out_repeats(numbers[start : start + _CHUNK_VALUES])
        known = _add_words(known, _number_words(some))
    return known


def unite_sketches(sketches: Sequence[Sketch]) -> Sketch:
    """The sketch of all values that some sketches stand for."""
    return _distinct(np.concatenate(sketches))[:SKETCH_HASHES].copy() if sketches else NO_HASHES


def sketch_text(sketch: Sketch) -> str:
    """A sketch as text, at most 344 characters."""
    return b64encode(sketch.astype("<u4").tobytes()).decode()


def sketch_of_text(text: str) -> Sketch:
    """A sketch from its text.

    Raises:
        ValueError: It is none.
    """
    found = np.frombuffer(b64decode(text, validate=True), "<u4").astype(np.uint32)
    if len(found) > SKETCH_HASHES or not (found[:-1] < found[1:]).all():
        raise ValueError("No sketch.")
    return found


def distinct_values(sketch: Sketch) -> int:
    """About how many values a sketch stands for."""
    if len(sketch) < SKETCH_HASHES:
        return len(sketch)
    return round((SKETCH_HASHES - 1) * _HASHES / (int(sketch[-1]) + 1))


def _add_words(known: Sketch, words: Words) -> Sketch:
    """A sketch, and the hashes that words begin with."""
    # To sort all of many takes most of the time. Values that come again have equal hashes.
    limit = _HASHES // len(words) * _TAKEN * SKETCH_HASHES
    if len(known) == SKETCH_HASHES:
        limit = int(known[-1])
    while True:
        few = words[words < np.uint64(limit << 32)] if limit < _HASHES // _TAKEN else words
        united = _distinct(np.concatenate([known, (few >> np.uint64(32)).astype(np.uint32)]))
        if len(united) >= SKETCH_HASHES or few is words:
            return united[:SKETCH_HASHES].copy()  # a slice would keep all that were sorted
        limit *= _TAKEN


def _distinct(hashes: Sketch) -> Sketch:
    """As `numpy.unique`, in a third of its time."""
    ordered = np.sort(hashes)
    is_first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


def _is_text(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow_type) or pa.types.is_binary(arrow_type))


def _fixed_type(arrow_type: pa.DataType) -> np.dtype[Any] | None:
    """How the values of a type lie in memory; None for types without a sketch."""
    if pa.types.is_floating(arrow_type):
        return np.dtype(f"f{arrow_type.bit_width // 8}")
    if pa.types.is_decimal128(arrow_type):
        return np.dtype((np.uint64, 2))
    if pa.types.is_primitive(arrow_type) and arrow_type.bit_width in {8, 16, 32, 64}:
        return np.dtype(
            f"{'u' if pa.types.is_unsigned_integer(arrow_type) else 'i'}{arrow_type.bit_width // 8}"
        )
    return None


def _numbers(column: pa.Array) -> npt.NDArray[Any]:
    """The values of a column."""
    dtype = _fixed_type(column.type)
    assert dtype is not None
    values: npt.NDArray[Any] = np.frombuffer(column.buffers()[1], dtype)
    return values[column.offset : column.offset + len(column)]


def _leave_out_repeats(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Integers that lie close together, each once; others as they are."""
    if values.ndim > 1 or values.dtype.kind == "f":
        return values
    low, high = values.min(), values.max()
    if int(high) - int(low) >= min(_FEW_INTEGERS, len(values)):
        return values
    # What is too large for this type wraps, and wraps back.
    base = low.astype(np.int64)
    different: npt.NDArray[Any] = np.flatnonzero(np.bincount(values.astype(np.int64) - base)) + base
    return different.astype(values.dtype)


def _number_words(values: npt.NDArray[Any]) -> Words:
    """A hash of each number: equal numbers of two widths have the same, as columns grow wider."""
    if values.ndim > 1:
        return mix(mix(values[:, 0]) ^ values[:, 1])
    if values.dtype.kind == "f":
        return mix((values.astype(np.float64, copy=False) + 0.0).view(np.uint64))
    return mix(values.astype(np.uint64 if values.dtype.kind == "u" else np.int64, copy=False).view(np.uint64))


def _text_words(column: pa.Array) -> Words:
    """A hash of each string: of its length, and of its first, its last and its middle bytes."""
    _, ends, data = column.buffers()
    offsets = np.frombuffer(ends, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    padded = np.zeros(offsets[-1] - offsets[0] + _WORD, np.uint8)
    if data is not None:
        padded[:-_WORD] = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    words: Words = np.ndarray(len(padded) - _WORD + 1, "<u8", padded, strides=(1,))
    starts, lengths = offsets[:-1] - offsets[0], np.diff(offsets)
    rest = np.maximum(lengths - _WORD, 0)
    beyond = (np.maximum(_WORD - lengths, 0) * _WORD).astype(np.uint64)
    mixed = (words[starts] << beyond) * FIRST_FACTOR + lengths.astype(np.uint64)
    if rest.any():
        mixed ^= mix(words[starts + rest] << beyond)
    if (rest > _WORD).any():
        mixed += np.where(rest > _WORD, words[starts + (rest >> 1)], np.uint64(0)) * SECOND_FACTOR
    return mix(mixed)
