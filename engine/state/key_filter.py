"""Which keys a segment may have: a Bloom filter of one 64-bit word a key, in which four bits are set.

A key that is there is always found; of those that are not, some 4 % pass at a byte a row. A look takes two
calls of numpy however many keys there are, and one word of memory for each.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.model.partitioning import partition_of
from engine.state.damage import damage_error
from engine.state.keys import Keys

ROWS_PER_WORD = 8
PIECE_BYTES = 512 * 1024
"""A filter is stored in pieces of this size: rocksdict holds the GIL while it copies a value."""
_HASHES = 0x7FFFFFFF
_SEED = pa.scalar(0x5EED, pa.int32())
_CHUNK_KEYS = 1 << 14

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class KeyFilter:
    """A filter.

    Attributes:
        words: Its bits.
    """

    words: Words

    @staticmethod
    def make_empty(rows: int) -> KeyFilter:
        """A filter without keys that has room for so many."""
        return KeyFilter(np.zeros(rows // ROWS_PER_WORD + 1, np.uint64))

    @property
    def nbytes(self) -> int:
        """Its bytes."""
        return self.words.nbytes

    def add(self, keys: Keys) -> None:
        """Put keys in; for whoever makes the filter."""
        for start in range(0, len(keys), _CHUNK_KEYS):
            places, bits = self._look(keys[start : start + _CHUNK_KEYS])
            np.bitwise_or.at(self.words, places, bits)

    def may_hold(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Which keys can have been put in; False only for those that have not."""
        places, bits = self._look(keys)
        found: npt.NDArray[np.bool_] = self.words[places] & bits == bits
        return found

    def _look(self, keys: Keys) -> tuple[npt.NDArray[np.intp], Words]:
        """For each key its word, and its bits of it."""
        hashes = _hashes_of(keys)
        places = ((hashes >> np.uint64(32)) * np.uint64(len(self.words))) >> np.uint64(32)
        bits = np.zeros(len(hashes), np.uint64)
        for shift in (0, 6, 12, 18):
            bits |= np.uint64(1) << (hashes >> np.uint64(shift) & np.uint64(63))
        return places.astype(np.intp), bits

    @property
    def checksum(self) -> int:
        """A checksum of the bits: a bit that is lost would leave a superseded row where it is."""
        return zlib.crc32(self.words.astype("<u8", copy=False).data)

    def encode(self) -> Iterator[bytes]:
        """The stored form, piece by piece."""
        data = self.words.astype("<u8", copy=False).tobytes()
        for start in range(0, len(data), PIECE_BYTES):
            yield data[start : start + PIECE_BYTES]


def pieces_of(rows: int) -> int:
    """In how many pieces the filter of so many rows is stored."""
    return -(-8 * (rows // ROWS_PER_WORD + 1) // PIECE_BYTES)


def decode_filter(pieces: Sequence[bytes | None], rows: int, checksum: int) -> KeyFilter:
    """Read a filter.

    Args:
        pieces: Its stored form.
        rows: Rows of its segment.
        checksum: As `KeyFilter.checksum`.

    Raises:
        DamagedError: It is damaged or not whole.
    """
    data = b"".join(piece for piece in pieces if piece is not None)
    if len(data) != 8 * (rows // ROWS_PER_WORD + 1):
        raise damage_error("key filter")
    found = KeyFilter(np.frombuffer(data, "<u8"))
    if found.checksum != checksum:
        raise damage_error("key filter")
    return found


def _hashes_of(keys: Keys) -> Words:
    """64 bits of each key; of binary ones 31 that count."""
    if isinstance(keys, np.ndarray):
        numbers = keys.astype(np.int64 if keys.dtype.kind == "i" else np.uint64).view(np.uint64)
    else:
        # The hash that places rows, from another beginning: keys of one partition are alike in it.
        placed = partition_of([pa.repeat(_SEED, len(keys)), keys], _HASHES)
        numbers = placed.astype(np.uint64)
    return _mix(numbers)


def _mix(numbers: Words) -> Words:
    """The finish of splitmix64: each bit of a result depends on all bits of the number."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed
