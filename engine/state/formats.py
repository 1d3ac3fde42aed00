"""What a partition's RocksDB holds, format 6. All numbers are big-endian in keys and little-endian in values.

    M                                       manifest: JSON {"format", "store", "partition", "columns", "epoch", "next_segment", "segments",
                                            "cutoff", "graves", "generation", "digest", "live_rows"}
    s segment:8                             segment: Arrow IPC stream of one batch, a row a block (see `segment_record`)
    b segment:8 column:2 block:4            block: Arrow IPC message of a batch of one column; 0xFFFF is the sort keys, others have
                                            the numbers that they have through all shapes of the store
                                            (`engine.model.columns`). The key column of a segment whose metadata has
                                            `page_rows` is in pages, numbered as blocks are (`engine.state.key_pages`);
                                            block 0 of 0xFFFC has the first key of each page. 0xFFFD is the filter of a
                                            segment whose metadata has `filter`, its checksum, in pieces
                                            (`engine.state.key_filter`)
    d segment:8 number:8                    some dead rows: uint32 each. The number is an epoch where an older version
                                            wrote it
    D segment:8                             dead rows that no `d` entry has: a bit for each row of the segment

In a RocksDB that several partitions share, in a directory `shared-N`, the number of the partition stands before
each key: 4 bytes, big-endian.

The metadata of a segment may have `sketches`: those of large segments do, but not where an older version wrote
them.

Format 1 knew no migrations: its manifests are of generation 0, and its segments name the columns of their
statistics as the store was created. Format 2 knew no digests: its manifests have an empty one. Format 3 did
not count live rows. Format 4 knew no pages and no filters. In format 5 each page ended with
a CRC-32.

Values end with "LSCHECKS" and the CRC-32 (ISO 3309, 4 bytes) of what is before; the manifest has that of its
other fields as its last one, "crc32". Older versions wrote none, and read on without a look at it. A full page
of keys of a fixed width ends with "LSWORDS1" and the sum of its words (8 bytes, `sums_of_words`) in place of it:
an epoch reads thousands of them. RocksDB's own checksums find what the disk has changed, these also what was
changed on the way to it.

The manifest is the last thing written, together with the `s` and `d` entries that it needs; a segment that it
does not name is garbage of a crash.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NewType, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.errors import Corrupt
from engine.model.distinct_sketch import Sketch, sketch_of_text, sketch_text
from engine.model.schema import Epoch
from engine.state.damage import damage_error
from engine.state.delete_vector import Bits, DeadRows
from engine.state.statistics import ColumnStatistics

SegmentId = NewType("SegmentId", int)
_Decoded = TypeVar("_Decoded")

STATE_FORMAT = 6
_NAMED_FORMAT = 1
_READABLE_FORMATS = range(_NAMED_FORMAT, STATE_FORMAT + 1)
_STORED_NAMES = {"tombstone_segments": "graves"}
"""What the stored form calls attributes of a manifest that it does not call by their name."""
KEY_COLUMN = 0xFFFF
LIVE_FLAGS = 0xFFFE
"""In place of a column's number: which rows are live. Nothing is stored by it."""
KEY_FILTER = 0xFFFD
"""In place of a column's number: the filter of the keys."""
PAGE_FENCES = 0xFFFC
"""In place of a column's number: the first key of each page of keys."""
BESIDE_COLUMNS = (LIVE_FLAGS, KEY_FILTER, PAGE_FENCES)
"""What the cache may have of a segment beside its columns, whole."""
MANIFEST = b"M"
DEAD_RUN_MARK = b"d"
SEGMENT_MARKS = (b"s", b"b", DEAD_RUN_MARK, b"D")
"""How the keys of what is stored of a segment begin."""
LEAST_COPIED_BYTES = 32 << 10
"""Smaller blocks stay where the storage has put them."""
_END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
"""Of an Arrow IPC stream: what a writer of one batch takes most of its time for is that it can take more."""
_CHECKSUM = struct.Struct("<8sI")
_CHECKSUM_MAGIC = b"LSCHECKS"
_SUM = struct.Struct("<8sQ")
SUM_MAGIC = b"LSWORDS1"
"""What stands before a sum of words."""
_SUM_MARK = int.from_bytes(SUM_MAGIC, "little")
_MANIFEST_CHECKSUM = re.compile(rb', "crc32": ([0-9]+)\}\Z')
_UNKNOWN = (
    f"A {{what}} has state format {{found!r}}; this version reads up to format {STATE_FORMAT}: "
    "upgrade livestate, or delete the data directory."
)


def segment_key(segment: SegmentId) -> bytes:
    """RocksDB key of a segment's record."""
    return b"s" + segment.to_bytes(8, "big")


def block_key(segment: SegmentId, column: int, block: int) -> bytes:
    """RocksDB key of one column, by its number, of one block."""
    return b"b" + segment.to_bytes(8, "big") + column.to_bytes(2, "big") + block.to_bytes(4, "big")


def segment_of_block(key: bytes) -> SegmentId:
    """The segment that a block is of, by its RocksDB key."""
    return SegmentId(int.from_bytes(key[1:9], "big"))


def segments_of_blocks(keys: Iterable[bytes]) -> set[SegmentId]:
    """The segments that some blocks are of, by their RocksDB keys."""
    return {SegmentId(int.from_bytes(segment, "big")) for segment in {key[1:9] for key in keys}}


def dead_run_key(segment: SegmentId, number: int) -> bytes:
    """RocksDB key of some of the dead rows of a segment, by their numbers."""
    return b"d" + segment.to_bytes(8, "big") + number.to_bytes(8, "big")


def dead_bits_key(segment: SegmentId) -> bytes:
    """RocksDB key of the dead rows of a segment that are stored as bits."""
    return b"D" + segment.to_bytes(8, "big")


def dead_run_range(segment: SegmentId) -> tuple[bytes, bytes]:
    """All dead rows of a segment that are stored by their numbers."""
    return b"d" + segment.to_bytes(8, "big"), b"d" + (segment + 1).to_bytes(8, "big")


def segment_ranges(segment: SegmentId) -> list[tuple[bytes, bytes]]:
    """Everything that is stored of a segment."""
    low, high = segment.to_bytes(8, "big"), (segment + 1).to_bytes(8, "big")
    return [(mark + low, mark + high) for mark in SEGMENT_MARKS]


@dataclass(frozen=True)
class Manifest:
    """What a partition consists of at one epoch.

    Attributes:
        store: The store's name.
        partition: The partition's number.
        columns: Column name to SQL type, as in the store's shape at the generation.
        epoch: Newest epoch that is applied.
        next_segment: The id that the next segment gets.
        segments: The segments that count.
        cutoff: The time before which rows are gone, microseconds since 1970 UTC; None where there is none
            (yet).
        tombstone_segments: The segments that count and have tombstones (`engine.state.version`); "graves" in
            the stored form.
        generation: How many amendments of the store group are in effect.
        digest: As `Commit.digest` of the epoch; empty where that is not known.
        live_rows: How many rows are live in each of the segments, behind them in the tombstone segments; None
            where an older version wrote it. A delete vector that has lost or gained an entry differs from it.
    """

    store: str
    partition: int
    columns: Mapping[str, str]
    epoch: Epoch
    next_segment: SegmentId
    segments: tuple[SegmentId, ...]
    cutoff: int | None = None
    tombstone_segments: tuple[SegmentId, ...] = ()
    generation: int = 0
    digest: str = ""
    live_rows: tuple[int, ...] | None = None

    def to_bytes(self) -> bytes:
        """The stored form."""
        document = {_STORED_NAMES.get(name, name): value for name, value in self.__dict__.items()}
        data = json.dumps({"format": STATE_FORMAT, **document}).encode()
        return data.removesuffix(b"}") + f', "crc32": {zlib.crc32(data)}}}'.encode()

    @staticmethod
    def from_bytes(data: bytes) -> Manifest:
        """Read the stored form.

        Raises:
            Corrupt: It is none, or of a format that this version does not know.
        """
        try:
            document: dict[str, Any] = json.loads(data)
            found = document.pop("format")
            if found not in _READABLE_FORMATS:
                raise Corrupt(_UNKNOWN.format(what="partition", found=found))
            if document.pop("crc32", None) is not None:
                _check_manifest(data)
            tombstone_segments = tuple(document.pop("graves", ()))
            segments = tuple(document.pop("segments"))
            counts = document.pop("live_rows", None)
            return Manifest(
                **document,
                segments=segments,
                tombstone_segments=tombstone_segments,
                live_rows=None if counts is None else tuple(counts),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise damage_error("manifest") from error


def _check_manifest(data: bytes) -> None:
    found = _MANIFEST_CHECKSUM.search(data)
    if found is None or zlib.crc32(data[: found.start()] + b"}") != int(found[1]):
        raise damage_error("manifest")


@dataclass(frozen=True)
class SegmentRecord:
    """What is known of a segment without reading its blocks.

    Attributes:
        rows: Rows, dead ones included.
        block_rows: Rows of every block but the last.
        column_bytes: Number of each stored column, or of the sort keys, to its Arrow bytes.
        first: Sort key of the first row of each block.
        last: Sort key of the last row of each block.
        statistics: Number of a stored column to its statistics.
        sketches: Number of a stored column to the sketch of its values, dead ones included; only where one
            was made.
        page_rows: Rows of a page of the key column; 0 where it is stored in blocks, as the others are.
        filter_checksum: As `KeyFilter.checksum` of the keys; None where there is no filter.
    """

    rows: int
    block_rows: int
    column_bytes: Mapping[int, int]
    first: pa.Array
    last: pa.Array
    statistics: Mapping[int, ColumnStatistics]
    sketches: Mapping[int, Sketch] = field(default_factory=dict)
    page_rows: int = 0
    filter_checksum: int | None = None

    @property
    def nbytes(self) -> int:
        """Arrow bytes of all columns."""
        return sum(self.column_bytes.values())

    def block_span(self, block: int) -> tuple[int, int]:
        """First row of a block, and the one behind its last."""
        start = block * self.block_rows
        return start, min(start + self.block_rows, self.rows)

    def to_bytes(self) -> bytes:
        """The stored form: columns `first` and `last`, and `low`, `high`, `known` for each column with
        statistics.
        """
        columns: dict[str, pa.Array] = {"first": self.first, "last": self.last}
        for number, entry in self.statistics.items():
            columns |= {
                f"low {number}": entry.low,
                f"high {number}": entry.high,
                f"known {number}": pa.array(entry.known),
            }
        numbers: dict[str, object] = {
            "format": STATE_FORMAT,
            "rows": self.rows,
            "block_rows": self.block_rows,
        }
        numbers |= {"column_bytes": list(self.column_bytes.items()), "statistics": list(self.statistics)}
        if self.sketches:
            numbers["sketches"] = [(number, sketch_text(each)) for number, each in self.sketches.items()]
        if self.page_rows:
            numbers["page_rows"] = self.page_rows
        if self.filter_checksum is not None:
            numbers["filter"] = self.filter_checksum
        batch = pa.RecordBatch.from_arrays(
            list(columns.values()), list(columns), metadata={"segment": json.dumps(numbers)}
        )
        return add_checksum(b"".join([batch.schema.serialize(), batch.serialize(), _END_OF_STREAM]))

    @staticmethod
    def from_bytes(data: bytes, created: Mapping[str, int]) -> SegmentRecord:
        """Read the stored form. What a checksum has proven to be what was written is decoded when it is first
        asked for, as far as that takes long: of many segments nobody asks for most.

        Args:
            data: What `to_bytes` wrote, now or in format 1.
            created: Column name to number, as the store was created.

        Raises:
            Corrupt: It is none, or of a format that this version does not know.
        """
        value = remove_checksum(data, "segment record")
        try:
            batch = pa.ipc.open_stream(value).read_next_batch()
            batch.validate(full=True)
            numbers = json.loads(batch.schema.metadata[b"segment"])
            if numbers["format"] not in _READABLE_FORMATS:
                raise Corrupt(_UNKNOWN.format(what="segment", found=numbers["format"]))
            number_of = (
                created
                if numbers["format"] == _NAMED_FORMAT
                else {number: number for number in numbers["statistics"]}
            )
            marks = {number_of[mark]: mark for mark in numbers["statistics"]}
            for name in (name for mark in marks.values() for name in _bound_names(mark)):
                batch.schema.field(name)
            statistics: Mapping[int, ColumnStatistics] = _StoredStatistics(batch, marks)
            sketches: Mapping[int, Sketch] = _StoredSketches(dict(numbers.get("sketches", ())))
            if len(value) == len(data):  # it is of an older version, and has no checksum
                statistics, sketches = dict(statistics), dict(sketches)
            return SegmentRecord(
                numbers["rows"],
                numbers["block_rows"],
                dict(numbers["column_bytes"]),
                batch["first"],
                batch["last"],
                statistics,
                sketches,
                numbers.get("page_rows", 0),
                numbers.get("filter"),
            )
        except (pa.ArrowException, OSError, StopIteration, ValueError, KeyError, TypeError) as error:
            raise damage_error("segment record") from error


def _bound_names(mark: object) -> tuple[str, str, str]:
    return f"low {mark}", f"high {mark}", f"known {mark}"


class _DecodedLater(Mapping[int, _Decoded]):
    """What is stored for columns, by number, and decoded when it is first asked for. For any thread: those
    that ask at once decode the same.

    Args:
        stored: What is stored for each.
    """

    def __init__(self, stored: Mapping[int, Any]) -> None:
        self._stored = stored
        self._decoded: dict[int, _Decoded] = {}

    def __getitem__(self, number: int) -> _Decoded:
        found = self._decoded.get(number)
        if found is None:
            found = self._decoded.setdefault(number, self._decode(self._stored[number]))
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    @abstractmethod
    def _decode(self, stored: Any) -> _Decoded:
        """One of them."""


class _StoredStatistics(_DecodedLater[ColumnStatistics]):
    """Statistics of columns.

    Args:
        batch: The record of a segment.
        marks: What their names end with there.
    """

    def __init__(self, batch: pa.RecordBatch, marks: Mapping[int, object]) -> None:
        super().__init__(marks)
        self._batch = batch

    def _decode(self, stored: object) -> ColumnStatistics:
        low, high, known = (self._batch[name] for name in _bound_names(stored))
        return ColumnStatistics(low, high, known.to_numpy(zero_copy_only=False))


class _StoredSketches(_DecodedLater[Sketch]):
    """Sketches of columns, from their texts."""

    def _decode(self, stored: str) -> Sketch:
        try:
            return sketch_of_text(stored)
        except ValueError as error:
            raise damage_error("segment record") from error


def add_checksum(data: pa.Buffer | bytes) -> bytes:
    """A value with its checksum behind."""
    return b"".join([data, _CHECKSUM.pack(_CHECKSUM_MAGIC, zlib.crc32(data))])


def remove_checksum(data: bytes, what: str, *, is_optional: bool = True) -> memoryview:
    """A value without its checksum, where it has one.

    Args:
        data: What `add_checksum` made, or an older version wrote.
        what: What it is, in a word or two.
        is_optional: Whether older versions wrote it without.

    Raises:
        DamagedError: It is not what was written.
    """
    value = memoryview(data)
    if data[-_CHECKSUM.size : -4] != _CHECKSUM_MAGIC:
        if not is_optional:
            raise damage_error(what)
        return value
    value = value[: -_CHECKSUM.size]
    if zlib.crc32(value) != int.from_bytes(data[-4:], "little"):
        raise damage_error(what)
    return value


def add_checksums(data: memoryview, length: int) -> Iterator[bytes]:
    """Values of one length that follow each other, each with a checksum behind: the sum of its words, or what
    `add_checksum` makes where the length is no multiple of eight.

    Args:
        data: The values; the last may be shorter, and then has the checksum of `add_checksum`.
        length: Bytes of a value.
    """
    behind = 0
    if not length % 8:
        values = len(data) // length
        behind = values * length
        summed = np.empty((values, length + _SUM.size), np.uint8)
        summed[:, :length] = np.frombuffer(data[:behind], np.uint8).reshape(values, length)
        words = summed.view("<u8")
        words[:, -2], words[:, -1] = _SUM_MARK, sums_of_words(summed[:, :length].view("<u4"))
        whole, size = summed.tobytes(), summed.shape[1]
        yield from (whole[start : start + size] for start in range(0, len(whole), size))
    for start in range(behind, len(data), length):
        yield add_checksum(data[start : start + length])


def remove_checksums(data: bytes, length: int, what: str) -> npt.NDArray[np.uint8]:
    """Values of one length without their checksums, which all of them have; those of format 5 each a CRC-32.

    Args:
        data: The values with their checksums, one after the other.
        length: Bytes of a value.
        what: As in `remove_checksum`.

    Returns:
        The bytes of each value, within `data`.

    Raises:
        DamagedError: One is not what was written.
    """
    is_summed = not length % 8 and data[length : length + len(SUM_MAGIC)] == SUM_MAGIC
    size = length + (_SUM.size if is_summed else _CHECKSUM.size)
    if len(data) % size:
        raise damage_error(what)
    stored = np.frombuffer(data, np.uint8).reshape(-1, size)
    if is_summed:
        words, sums = stored.view("<u8"), sums_of_words(stored[:, :length].view("<u4"))
        is_right = (words[:, -2] == _SUM_MARK) & (words[:, -1] == sums)
    else:
        checksums = np.frombuffer(data, [("value", f"V{length}"), ("magic", "S8"), ("crc32", "<u4")])
        found = np.array([zlib.crc32(value) for value in stored[:, :length]], np.uint32)
        is_right = (checksums["magic"] == _CHECKSUM_MAGIC) & (checksums["crc32"] == found)
    if not is_right.all():
        raise damage_error(what)
    return stored[:, :length]


def sums_of_words(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint64]:
    """For each row of words of 32 bits their sum, each times an odd number of its place, modulo 2^64: the
    multilinear hash of Lemire and Kaser, "Strongly universal string hashing is fast" (2014). So each change of
    one word changes the sum.
    """
    sums: npt.NDArray[np.uint64] = np.einsum("ij,j->i", words, _multipliers(words.shape[1]))
    return sums


@cache
def _multipliers(count: int) -> npt.NDArray[np.uint64]:
    """The first numbers of the generator SplitMix64, begun with 0, each made odd.

    Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
    """
    mixed = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    numbers: npt.NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(31)) | np.uint64(1)
    return numbers


def encode_block(column: pa.Array) -> bytes:
    """The stored form of one column of one block."""
    return add_checksum(pa.RecordBatch.from_arrays([column], ["column"]).serialize())


def decode_block(data: bytes, arrow_type: pa.DataType, rows: int) -> pa.Array:
    """Read one column of one block; the array points into a copy of `data`, or into `data` if it is small.

    Raises:
        Corrupt: The bytes are no block of that type with that many rows.
    """
    value = copy_to_pool(remove_checksum(data, "block"))
    try:
        column = pa.ipc.read_record_batch(value, pa.schema([("column", arrow_type)])).column(0)
        column.validate()
    except (pa.ArrowException, OSError, EOFError) as error:
        raise damage_error("block") from error
    if len(column) != rows:
        raise damage_error("block")
    return column


def copy_to_pool(value: bytes | memoryview) -> pa.Buffer:
    """Bytes of a block in memory of Arrow's pool, if there are many. Such blocks stay for as long as the cache
    keeps them. In the C library's heap, where `bytes` are, what comes and goes between them would leave holes:
    those of a host that reads all of a store four times its cache take several times the cache.

    Args:
        value: The bytes; few are referred to and not copied.
    """
    if len(value) < LEAST_COPIED_BYTES:
        return pa.py_buffer(value)
    copied = pa.allocate_buffer(len(value))
    memoryview(copied).cast("B")[:] = value
    return copied


def encode_rows(rows: DeadRows) -> bytes:
    """The stored form of row numbers."""
    return add_checksum(rows.astype("<u4").tobytes())


def decode_rows(data: bytes, rows: int) -> DeadRows:
    """Read row numbers, in ascending order.

    Raises:
        Corrupt: The bytes are none of a segment of so many rows.
    """
    value = remove_checksum(data, "delete vector")
    if len(value) % 4:
        raise damage_error("delete vector")
    numbers: DeadRows = np.sort(np.frombuffer(value, "<u4"), kind="stable")
    if len(numbers) and numbers[-1] >= rows:
        raise damage_error("delete vector")
    return numbers


def encode_bits(bits: Bits) -> bytes:
    """The stored form of a bit a row."""
    return add_checksum(bits.tobytes())


def decode_bits(data: bytes, rows: int) -> Bits:
    """Read a bit a row.

    Raises:
        Corrupt: The bytes are not those of so many rows.
    """
    value = remove_checksum(data, "delete vector")
    if len(value) != (rows + 7) // 8 or (rows & 7 and value[-1] >> (rows & 7)):
        raise damage_error("delete vector")
    return np.frombuffer(value, np.uint8)
