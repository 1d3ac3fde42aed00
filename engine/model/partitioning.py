"""Key → partition: the one function that the sink, the router and the planner share.

A row's partition is Spark's `pmod(hash(partition_by columns), partitions)`, so that users can reproduce it in
Spark SQL and a frame that Spark has partitioned alike needs no second shuffle. Spark's `hash` is
Murmur3_x86_32 (Austin Appleby's, as in Guava) with seed 42, chained over the columns: the hash so far is the
seed of the next column, and a null leaves it as it is. It differs from the published algorithm in one thing:
the tail of a string, its last one to three bytes, is mixed byte by byte, each as a signed integer
(`Murmur3_x86_32.hashUnsafeBytes` in Spark's sources). Writers and readers must agree on it for ever, so
`tests/unit/test_partitioning.py` freezes values that real Spark returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import InvalidInput
from engine.model.schema import PartitionId, StoreDefinition

_Words = npt.NDArray[np.uint32]
_Hasher = Callable[[int, int, _Words], None]
"""Folds the rows from one number up to another of a column into their hashes, in place."""

_SEED = 42
_C1 = 0xCC9E2D51
_C2 = 0x1B873593
_C3 = 0xE6546B64
_F1 = 0x85EBCA6B
_F2 = 0xC2B2AE35
_MASK = 0xFFFFFFFF

_CHUNK_ROWS = 1 << 15
"""Rows hashed together: few enough that all scratch arrays stay in the processor's cache, which halves the
time.
"""

_SCALAR_ROWS = 16
"""Up to here plain Python integers are faster than numpy, whose calls cost a microsecond each."""

_FEW_LONG_STRINGS = 8
"""When fewer strings of a chunk than this have a word left, they are hashed one by one: the chain over one
string's words is sequential.
"""

_INT_TYPES = frozenset({pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.date32()})
"""Types that Spark hashes as one 32-bit integer; the unsigned ones are the next wider signed type
in Spark.
"""

_LONG_TYPES = frozenset({pa.int64(), pa.uint32(), pa.uint64(), pa.timestamp("us"), pa.timestamp("us", "UTC")})
"""Types that Spark hashes as one 64-bit integer; `uint64`, which Spark lacks, by its bit pattern."""

_LONG_DIGITS = 18
"""Decimals of up to this precision Spark hashes as a 64-bit integer, the unscaled value; longer ones as its
bytes.
"""

_BYTES_TYPES = frozenset({pa.string(), pa.binary()})


def partition_of(keys: Sequence[pa.Array | pa.ChunkedArray], partitions: int) -> npt.NDArray[np.int32]:
    """The partition of each row: Spark's `pmod(hash(keys…), partitions)`.

    Args:
        keys: The partition_by columns, in order, equally long, of canonical types; at least one.
        partitions: How many partitions there are, at least 1.

    Returns:
        One number from 0 to `partitions - 1` for each row, int32.

    Raises:
        InvalidInput: A column's type cannot place rows: floating point and nested types.
    """
    columns = [_hash_input(key) for key in keys]
    if len(columns[0]) <= _SCALAR_ROWS:
        return np.array([h % partitions for h in _scalar_hashes(columns)], dtype=np.int32)
    return _remainder(_vector_hashes(columns).view(np.int32), partitions)


def value_partitioner(arrow_type: pa.DataType, partitions: int) -> Callable[[Any], PartitionId]:
    """`partition_of` for one value after the other of a column of integers or strings.

    Args:
        arrow_type: An integer type or `string`.
        partitions: How many partitions there are.

    Returns:
        A function that takes an `int` within the range of the type, or a `str`.
    """
    value_hash = (
        _text_hash
        if pa.types.is_string(arrow_type)
        else _long_hash
        if arrow_type in _LONG_TYPES
        else _int_hash
    )

    def partition(value: Any) -> PartitionId:
        found = value_hash(value, _SEED)
        return PartitionId((found - (1 << 32) if found >> 31 else found) % partitions)

    return partition


def partitions_of(
    definition: StoreDefinition, points: pa.RecordBatch | None
) -> frozenset[PartitionId] | None:
    """The partitions that rows with one of some leading key values can be on.

    Args:
        definition: The store.
        points: Values for a leading part of the key, without nulls, columns named and typed as the key's;
            None for no such condition.

    Returns:
        The partitions, none of them for no points; None when any partition can hold such rows, because the
        points lack a partition_by column.
    """
    if points is None or any(name not in points.schema.names for name in definition.partition_by):
        return None
    placed = partition_of([points.column(name) for name in definition.partition_by], definition.partitions)
    return frozenset(PartitionId(number) for number in set(placed.tolist()))


def _hash_input(key: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One array, with what Spark hashes in place of decimals."""
    column = key.combine_chunks() if isinstance(key, pa.ChunkedArray) else key
    if not pa.types.is_decimal128(column.type):
        return column
    return _unscaled_longs(column) if column.type.precision <= _LONG_DIGITS else _unscaled_bytes(column)


def _unscaled_longs(column: pa.Array) -> pa.Array:
    """Unscaled values of decimals that fit 64 bits."""
    halves = np.frombuffer(column.buffers()[1], np.int64).reshape(-1, 2)[
        column.offset : column.offset + len(column)
    ]
    mask = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    return pa.array(halves[:, 0].copy(), pa.int64(), mask=mask)


def _unscaled_bytes(column: pa.Array) -> pa.Array:
    """Unscaled values as Java's `BigInteger.toByteArray` gives them: two's complement, big-endian, as few
    bytes as hold the sign.
    """
    raw = np.frombuffer(column.buffers()[1], np.uint8).reshape(-1, 16)[
        column.offset : column.offset + len(column), ::-1
    ]
    sign = np.where(raw[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
    # A leading byte goes when it repeats the sign and the next byte begins with it too.
    spare = (raw[:, :-1] == sign) & ((raw[:, 1:] ^ sign) < 0x80)
    lengths = 16 - np.logical_and.accumulate(spare, axis=1).sum(axis=1)
    kept = np.arange(16) >= 16 - lengths[:, None]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    validity = pc.is_valid(column).buffers()[1] if column.null_count else None
    return pa.Array.from_buffers(
        pa.binary(), len(column), [validity, pa.py_buffer(offsets), pa.py_buffer(raw[kept])]
    )


def _remainder(hashes: npt.NDArray[np.int32], partitions: int) -> npt.NDArray[np.int32]:
    """`hashes` modulo `partitions`, never negative: by floor division, which numpy vectorises for a scalar
    divisor, as it does not the remainder.
    """
    quotient = np.floor_divide(hashes, np.int32(partitions))
    np.multiply(quotient, np.int32(partitions), out=quotient)
    return np.subtract(hashes, quotient, out=quotient)


def _cannot_place(arrow_type: pa.DataType) -> InvalidInput:
    return InvalidInput(
        f"Values of the Arrow type {arrow_type} cannot place rows in partitions; use integers, decimals, "
        "strings, binary, booleans, dates or timestamps."
    )


# Few rows: plain Python integers.


def _scalar_hashes(columns: Sequence[pa.Array]) -> Iterator[int]:
    """Signed 32-bit hashes of the rows."""
    hashes = [_SEED] * len(columns[0])
    for column in columns:
        arrow_type = column.type
        if arrow_type in _LONG_TYPES:
            hashes = [
                h if v is None else _long_hash(v, h) for v, h in zip(_integers(column), hashes, strict=True)
            ]
        elif arrow_type in _INT_TYPES:
            hashes = [
                h if v is None else _int_hash(v, h) for v, h in zip(_integers(column), hashes, strict=True)
            ]
        elif arrow_type in _BYTES_TYPES:
            values = [value.as_buffer() for value in column]
            hashes = [
                h if v is None else _bytes_hash(v.to_pybytes(), h)
                for v, h in zip(values, hashes, strict=True)
            ]
        else:
            raise _cannot_place(arrow_type)
    return (h - (1 << 32) if h >> 31 else h for h in hashes)


def _integers(column: pa.Array) -> list[int | None]:
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        return [value.value for value in column]
    values: list[int | None] = column.to_pylist()
    return values


def _int_hash(value: int, seed: int) -> int:
    return _finish(_mix(value & _MASK, seed), 4)


def _long_hash(value: int, seed: int) -> int:
    return _finish(_mix(value >> 32 & _MASK, _mix(value & _MASK, seed)), 8)


def _text_hash(value: str, seed: int) -> int:
    return _bytes_hash(value.encode(), seed)


def _bytes_hash(value: bytes, seed: int) -> int:
    aligned = len(value) & ~3
    for word in memoryview(value)[:aligned].cast("I"):
        seed = _mix(word, seed)
    for byte in value[aligned:]:
        seed = _mix(byte if byte < 128 else byte | 0xFFFFFF00, seed)
    return _finish(seed, len(value))


def _mix(word: int, h: int) -> int:
    k = word * _C1 & _MASK
    k = (k << 15 | k >> 17) * _C2 & _MASK
    h ^= k
    h = (h << 13 | h >> 19) & _MASK
    return h * 5 + _C3 & _MASK


def _finish(h: int, length: int) -> int:
    h ^= length
    h ^= h >> 16
    h = h * _F1 & _MASK
    h ^= h >> 13
    h = h * _F2 & _MASK
    return h ^ h >> 16


# Many rows: numpy, chunk by chunk. Arithmetic on uint32 arrays wraps around, as Java's does on int.


def _vector_hashes(columns: Sequence[pa.Array]) -> _Words:
    hashes = np.full(len(columns[0]), _SEED, dtype=np.uint32)
    hashers = [_hasher(column) for column in columns]
    for start in range(0, len(hashes), _CHUNK_ROWS):
        stop = min(start + _CHUNK_ROWS, len(hashes))
        for fold in hashers:
            fold(start, stop, hashes[start:stop])
    return hashes


def _hasher(column: pa.Array) -> _Hasher:
    if column.type in _INT_TYPES:
        fold = _int_hasher(_fixed_width(column))
    elif column.type in _LONG_TYPES:
        fold = _long_hasher(_fixed_width(column))
    elif column.type in _BYTES_TYPES:
        fold = _bytes_hasher(column)
    else:
        raise _cannot_place(column.type)
    return _skipping_nulls(fold, column) if column.null_count else fold


def _skipping_nulls(fold: _Hasher, column: pa.Array) -> _Hasher:
    null = column.is_null().to_numpy(zero_copy_only=False)

    def skip(start: int, stop: int, hashes: _Words) -> None:
        before = hashes.copy()
        fold(start, stop, hashes)
        np.copyto(hashes, before, where=null[start:stop])

    return skip


def _fixed_width(column: pa.Array) -> npt.NDArray[np.generic]:
    """The values of a column of integers, booleans, dates or timestamps, without a copy where they have bytes
    of their own; any value where null.
    """
    arrow_type = column.type
    if pa.types.is_boolean(arrow_type):
        column, arrow_type = column.cast(pa.uint8()), pa.uint8()
    dtype = (
        np.dtype(f"i{arrow_type.byte_width}")
        if pa.types.is_temporal(arrow_type)
        else np.dtype(arrow_type.to_pandas_dtype())
    )
    values: npt.NDArray[np.generic] = np.frombuffer(column.buffers()[1], dtype=dtype)
    return values[column.offset : column.offset + len(column)]


def _int_hasher(values: npt.NDArray[np.generic]) -> _Hasher:
    def fold(start: int, stop: int, hashes: _Words) -> None:
        words = values[start:stop].astype(np.int32).view(np.uint32)
        scratch = np.empty_like(words)
        _mix_hashes(words, hashes, scratch)
        _finish_hashes(hashes, np.uint32(4), scratch)

    return fold


def _long_hasher(values: npt.NDArray[np.generic]) -> _Hasher:
    halves = values.astype(np.uint64, copy=False).view("<u4").reshape(-1, 2)

    def fold(start: int, stop: int, hashes: _Words) -> None:
        scratch = np.empty(stop - start, dtype=np.uint32)
        for half in (0, 1):
            _mix_hashes(halves[start:stop, half].copy(), hashes, scratch)
        _finish_hashes(hashes, np.uint32(8), scratch)

    return fold


def _bytes_hasher(column: pa.Array) -> _Hasher:
    _, offset_buffer, data_buffer = column.buffers()
    ends = np.frombuffer(offset_buffer, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    data = (
        np.frombuffer(data_buffer, dtype=np.uint8) if data_buffer is not None else np.empty(0, dtype=np.uint8)
    )
    # A window on each byte: element i holds the four bytes from i on, wherever they are aligned.
    windows: _Words = (
        np.ndarray((max(len(data) - 3, 0),), dtype="<u4", buffer=data, strides=(1,))
        if len(data) > 3
        else np.empty(0, np.uint32)
    )

    def fold(start: int, stop: int, hashes: _Words) -> None:
        begins = ends[start:stop].astype(np.intp)
        lengths = ends[start + 1 : stop + 1] - ends[start:stop]
        # Longest first, so that the rows that have a word at some position are always the first ones.
        order = np.argsort(-(lengths >> 2), kind="stable")
        begins, lengths, sorted_hashes = begins[order], lengths[order], hashes[order]
        by_hand = _mix_words(windows, begins, lengths, sorted_hashes)
        _mix_tails(data, begins[by_hand:], lengths[by_hand:], sorted_hashes[by_hand:])
        _finish_hashes(sorted_hashes, lengths.view(np.uint32), np.empty_like(sorted_hashes))
        for row in range(by_hand):
            value = data[begins[row] : begins[row] + lengths[row]].tobytes()
            sorted_hashes[row] = _bytes_hash(value, int(hashes[order[row]]))
        hashes[order] = sorted_hashes

    return fold


def _mix_words(
    windows: _Words, begins: npt.NDArray[np.intp], lengths: npt.NDArray[np.int32], hashes: _Words
) -> int:
    """Fold the whole words of strings sorted by falling number of words, one word position of all strings at
    a time.

    Returns:
        How many strings, the first ones, are left for hashing one by one, because too few of that length are
        there for numpy.
    """
    counts = -(lengths >> 2)
    scratch = np.empty_like(hashes)
    for position in range(-int(counts[0])):
        active = int(np.searchsorted(counts, -position, side="left"))
        if active < _FEW_LONG_STRINGS:
            return active
        words = windows[begins[:active] + 4 * position]
        _mix_hashes(words, hashes[:active], scratch[:active])
    return 0


def _mix_tails(
    data: npt.NDArray[np.uint8], begins: npt.NDArray[np.intp], lengths: npt.NDArray[np.int32], hashes: _Words
) -> None:
    """Fold the last one to three bytes of strings, each as a signed integer."""
    for position in range(3):
        rows = np.flatnonzero((lengths & 3) > position)
        tail = data[begins[rows] + (lengths[rows] & ~3) + position].view(np.int8)
        some = hashes[rows]
        _mix_hashes(tail.astype(np.int32).view(np.uint32), some, np.empty_like(some))
        hashes[rows] = some


def _mix_hashes(words: _Words, hashes: _Words, scratch: _Words) -> None:
    """Fold one word a row into the hashes, in place; `words` and `scratch` are overwritten."""
    np.multiply(words, np.uint32(_C1), out=words)
    _rotate(words, 15, scratch)
    np.multiply(words, np.uint32(_C2), out=words)
    np.bitwise_xor(hashes, words, out=hashes)
    _rotate(hashes, 13, scratch)
    np.multiply(hashes, np.uint32(5), out=hashes)
    np.add(hashes, np.uint32(_C3), out=hashes)


def _rotate(values: _Words, bits: int, scratch: _Words) -> None:
    np.right_shift(values, np.uint32(32 - bits), out=scratch)
    np.left_shift(values, np.uint32(bits), out=values)
    np.bitwise_or(values, scratch, out=values)


def _finish_hashes(hashes: _Words, lengths: _Words | np.uint32, scratch: _Words) -> None:
    np.bitwise_xor(hashes, lengths, out=hashes)
    for shift, factor in ((16, _F1), (13, _F2)):
        np.right_shift(hashes, np.uint32(shift), out=scratch)
        np.bitwise_xor(hashes, scratch, out=hashes)
        np.multiply(hashes, np.uint32(factor), out=hashes)
    np.right_shift(hashes, np.uint32(16), out=scratch)
    np.bitwise_xor(hashes, scratch, out=hashes)
