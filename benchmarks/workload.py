"""The rows that every benchmark works on: plays of songs, five columns, random but the same at each run.

Keys are numbers 0 to n-1 in disguise: scattered over all of int64, or 16 hexadecimal digits. So a benchmark's
own bookkeeping (`Expected`) is plain numpy arrays indexed by the number, and the store sees keys without any
order or density to profit from.

Numbers with a fraction are multiples of 1/256: their sums are exact in any order, and answers can be compared
with `==`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.changelog import Changelog, StoreAppender, open_appender
from engine.model.schema import StoreDefinition, define_store

Numbers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Row = tuple[Any, ...]

STORE = "plays"
KEYS = 10_000_000
"""Live rows at full scale."""
EPOCH_ROWS = 100_000
GENRES = 50
PARTITIONS = 8
BY_GENRE = f"SELECT genre, count(*), sum(listens), avg(royalty) FROM {STORE} GROUP BY genre ORDER BY genre"

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""Odd, so multiplying by it modulo 2^64 maps no two numbers to one."""
_HEX_PAIRS = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.dtype("S2"))


class KeyType(StrEnum):
    """What the key column is."""

    INT64 = "int64"
    STRING = "16-byte string"


def definition(key_type: KeyType = KeyType.INT64) -> StoreDefinition:
    """The store `plays`.

    Args:
        key_type: Its key column.

    Returns:
        Definition of five columns in eight partitions.
    """
    return define_store(STORE, schema(key_type), ["song_id"], partitions=PARTITIONS)


def schema(key_type: KeyType) -> pa.Schema:
    """Arrow schema of the rows."""
    key = pa.int64() if key_type is KeyType.INT64 else pa.string()
    return pa.schema(
        [
            ("song_id", key),
            ("genre", pa.int64()),
            ("royalty", pa.float64()),
            ("listens", pa.int64()),
            ("score", pa.float64()),
        ]
    )


def key_values(numbers: Numbers, key_type: KeyType = KeyType.INT64) -> pa.Array:
    """The keys of some numbers.

    Args:
        numbers: Any, of shape (n,).
        key_type: What they become.

    Returns:
        n keys, no two equal for different numbers.
    """
    scattered = numbers.astype(np.uint64) * _SPREAD
    if key_type is KeyType.INT64:
        return pa.array(scattered.view(np.int64))
    digits = _HEX_PAIRS[scattered.view(np.uint8)]
    offsets = np.arange(0, 16 * (len(numbers) + 1), 16, dtype=np.int32)
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(offsets), pa.py_buffer(digits.tobytes()))


@dataclass(frozen=True)
class Plays:
    """Some rows, by column.

    Attributes:
        numbers: The keys' numbers, shape (n,), as all others.
        genre: 0 to 49.
        royalty: Multiples of 1/256 from 0 to 256.
        listens: 0 to 9,999.
        score: Multiples of 1/256 from 0 to 256.
    """

    numbers: Numbers
    genre: Numbers
    royalty: Floats
    listens: Numbers
    score: Floats

    def to_arrow(self, key_type: KeyType = KeyType.INT64) -> pa.RecordBatch:
        """The rows as the store's columns."""
        return pa.record_batch(
            [key_values(self.numbers, key_type), self.genre, self.royalty, self.listens, self.score],
            schema=schema(key_type),
        )


def plays(numbers: Numbers, random: np.random.Generator) -> Plays:
    """Random rows for some keys.

    Args:
        numbers: The keys' numbers, shape (n,).
        random: Where the values come from.

    Returns:
        n rows.
    """
    rows = len(numbers)
    return Plays(
        numbers,
        random.integers(0, GENRES, rows),
        random.integers(0, 1 << 16, rows) / 256,
        random.integers(0, 10_000, rows),
        random.integers(0, 1 << 16, rows) / 256,
    )


def every_key(keys: int, rows: int = EPOCH_ROWS, seed: int = 1) -> Iterator[Plays]:
    """All keys once, in random order, some rows at a time."""
    random = np.random.default_rng(seed)
    order = random.permutation(keys).astype(np.int64)
    for start in range(0, keys, rows):
        yield plays(order[start : start + rows], random)


def random_upserts(keys: int, epochs: int, rows: int = EPOCH_ROWS, seed: int = 2) -> Iterator[Plays]:
    """Rows for keys drawn at random, repeats among them, some rows at a time."""
    random = np.random.default_rng(seed)
    for _ in range(epochs):
        yield plays(random.integers(0, keys, rows), random)


class Expected:
    """What the store must contain, kept by the benchmark itself.

    Args:
        keys: How many keys there are; those that were never upserted are not in the store.
    """

    def __init__(self, keys: int) -> None:
        self.keys = keys
        self.genre = np.full(keys, -1, np.int64)
        self.royalty = np.zeros(keys)
        self.listens = np.zeros(keys, np.int64)
        self.score = np.zeros(keys)

    def upsert(self, rows: Plays) -> None:
        """Take rows over; numpy keeps the last of an index that repeats, as a store keeps the last row of a
        key.
        """
        self.genre[rows.numbers] = rows.genre
        self.royalty[rows.numbers] = rows.royalty
        self.listens[rows.numbers] = rows.listens
        self.score[rows.numbers] = rows.score

    def table(self, key_type: KeyType = KeyType.INT64) -> pa.Table:
        """All rows."""
        numbers = np.arange(self.keys)
        return pa.Table.from_batches(
            [Plays(numbers, self.genre, self.royalty, self.listens, self.score).to_arrow(key_type)]
        )

    def row(self, number: int, key_type: KeyType = KeyType.INT64) -> Row:
        """One row, as Python values."""
        (key,) = key_values(np.array([number]), key_type).to_pylist()
        return (
            key,
            int(self.genre[number]),
            float(self.royalty[number]),
            int(self.listens[number]),
            float(self.score[number]),
        )

    def by_genre(self) -> list[Row]:
        """The answer to `BY_GENRE`."""
        there = self.genre >= 0
        genre_of = self.genre[there]
        counts = np.bincount(genre_of, minlength=GENRES)
        listens = np.bincount(genre_of, self.listens[there], GENRES)
        royalty = np.bincount(genre_of, self.royalty[there], GENRES)
        return [
            (genre, int(counts[genre]), int(listens[genre]), royalty[genre] / counts[genre])
            for genre in range(GENRES)
            if counts[genre]
        ]

    def checksum(self, numbers: Numbers) -> Row:
        """Count, sum of `listens` and sum of `score` of some keys, repeats left out."""
        unique = np.unique(numbers)
        return len(unique), int(self.listens[unique].sum()), float(self.score[unique].sum())


def rows_of(table: pa.Table) -> list[Row]:
    """The rows of a small table as tuples of Python values."""
    return [tuple(row.values()) for row in table.to_pylist()]


def check(what: str, found: object, expected: object) -> None:
    """Stop the benchmark over a wrong answer: it would time something else than what it says.

    Args:
        what: What was asked, for the message.
        found: The answer.
        expected: What it should be.

    Raises:
        SystemExit: They differ.
    """
    if found != expected:
        raise SystemExit(f"{what}: wrong answer {str(found)[:500]}; expected {str(expected)[:500]}.")


def check_by_genre(found: pa.Table, expected: Expected) -> None:
    """Check the answer to `BY_GENRE`; sums come as decimals, which equal integers."""
    check(BY_GENRE, rows_of(found), expected.by_genre())


def append_all(
    appender: StoreAppender, epochs: Iterable[Plays], key_type: KeyType, note: Callable[[Plays], None]
) -> None:
    """Append rows to the changelog, an epoch for each item.

    Args:
        appender: Of `STORE`.
        epochs: The rows.
        key_type: Their key.
        note: Takes each item as well: `Expected.upsert`.
    """
    for rows in epochs:
        appender.append({STORE: rows.to_arrow(key_type)})
        note(rows)


def fill_store(
    changelog: Changelog, keys: int, key_type: KeyType = KeyType.INT64
) -> tuple[StoreAppender, Expected]:
    """Make the store, with a row for every key.

    Args:
        changelog: An empty one.
        keys: How many keys.
        key_type: Their type.

    Returns:
        What appends further epochs, and what the store contains.
    """
    expected = Expected(keys)
    appender = open_appender(changelog, [definition(key_type)])
    append_all(appender, every_key(keys), key_type, expected.upsert)
    return appender, expected
