"""What a partition's RocksDB holds, format 4. All numbers are big-endian in keys and little-endian in values.

    M                                       manifest: JSON {"format", "store", "partition", "columns", "epoch", "next_segment", "segments",
                                            "cutoff", "graves", "generation", "digest", "live_rows"}
    s segment:8                             segment: Arrow IPC stream of one batch, a row a block (see `segment_record`)
    b segment:8 column:2 block:4            block: Arrow IPC message of a batch of one column; 0xFFFF is the sort keys, others have
                                            the numbers that they have through all shapes of the store
                                            (`engine.model.columns`)
    d segment:8 epoch:8                     rows that an epoch made dead: uint32 each
    D segment:8                             all rows dead so far: a bit each, which replaces the `d` entries before it

The metadata of a segment may have `sketches`: those of large segments do, but not where an older version wrote
them.

Format 1 knew no migrations: its manifests are of generation 0, and its segments name the columns of their
statistics as the store was created. Format 2 knew no digests: its manifests have an empty one. Format 3 did
not count live rows.

The manifest is the last thing written, together with the `s` and `d` entries that it needs; a segment that it
does not name is garbage of a crash.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NewType

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.errors import Corrupt
from engine.model.distinct_sketch import Sketch, sketch_of_text, sketch_text
from engine.model.schema import Epoch
from engine.state.damage import damage_error
from engine.state.statistics import ColumnStatistics

SegmentId = NewType("SegmentId", int)

STATE_FORMAT = 4
_NAMED_FORMAT = 1
_READABLE_FORMATS = range(_NAMED_FORMAT, STATE_FORMAT + 1)
_STORED_NAMES = {"tombstone_segments": "graves"}
"""What the stored form calls attributes of a manifest that it does not call by their name."""
KEY_COLUMN = 0xFFFF
MANIFEST = b"M"
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


def dead_delta_key(segment: SegmentId, epoch: Epoch) -> bytes:
    """RocksDB key of the rows that one epoch made dead in a segment."""
    return b"d" + segment.to_bytes(8, "big") + epoch.to_bytes(8, "big")


def dead_rows_key(segment: SegmentId) -> bytes:
    """RocksDB key of all rows dead in a segment."""
    return b"D" + segment.to_bytes(8, "big")


def dead_delta_range(segment: SegmentId) -> tuple[bytes, bytes]:
    """All deltas of dead rows of a segment."""
    return b"d" + segment.to_bytes(8, "big"), b"d" + (segment + 1).to_bytes(8, "big")


def segment_ranges(segment: SegmentId) -> list[tuple[bytes, bytes]]:
    """Everything that is stored of a segment."""
    low, high = segment.to_bytes(8, "big"), (segment + 1).to_bytes(8, "big")
    return [(mark + low, mark + high) for mark in (b"s", b"b", b"d", b"D")]


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
        generation: How many migrations of the store group are in effect.
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
        return json.dumps({"format": STATE_FORMAT, **document}).encode()

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
    """

    rows: int
    block_rows: int
    column_bytes: Mapping[int, int]
    first: pa.Array
    last: pa.Array
    statistics: Mapping[int, ColumnStatistics]
    sketches: Mapping[int, Sketch] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Arrow bytes of all columns."""
        return sum(self.column_bytes.values())

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
        batch = pa.RecordBatch.from_arrays(list(columns.values()), list(columns)).replace_schema_metadata(
            {"segment": json.dumps(numbers)}
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return bytes(sink.getvalue())

    @staticmethod
    def from_bytes(data: bytes, created: Mapping[str, int]) -> SegmentRecord:
        """Read the stored form.

        Args:
            data: What `to_bytes` wrote, now or in format 1.
            created: Column name to number, as the store was created.

        Raises:
            Corrupt: It is none, or of a format that this version does not know.
        """
        try:
            batch = pa.ipc.open_stream(data).read_next_batch()
            numbers = json.loads(batch.schema.metadata[b"segment"])
            if numbers["format"] not in _READABLE_FORMATS:
                raise Corrupt(_UNKNOWN.format(what="segment", found=numbers["format"]))
            number_of = (
                created
                if numbers["format"] == _NAMED_FORMAT
                else {number: number for number in numbers["statistics"]}
            )
            statistics = {number_of[mark]: _statistics(batch, mark) for mark in numbers["statistics"]}
            return SegmentRecord(
                numbers["rows"],
                numbers["block_rows"],
                dict(numbers["column_bytes"]),
                batch["first"],
                batch["last"],
                statistics,
                {number: sketch_of_text(text) for number, text in numbers.get("sketches", ())},
            )
        except (pa.ArrowException, OSError, StopIteration, ValueError, KeyError, TypeError) as error:
            raise damage_error("segment record") from error


def _statistics(batch: pa.RecordBatch, mark: object) -> ColumnStatistics:
    return ColumnStatistics(
        batch[f"low {mark}"], batch[f"high {mark}"], batch[f"known {mark}"].to_numpy(zero_copy_only=False)
    )


def encode_block(column: pa.Array) -> bytes:
    """The stored form of one column of one block."""
    return bytes(pa.RecordBatch.from_arrays([column], ["column"]).serialize())


def decode_block(data: bytes, arrow_type: pa.DataType, rows: int) -> pa.Array:
    """Read one column of one block; the array points into `data`.

    Raises:
        Corrupt: The bytes are no block of that type with that many rows.
    """
    try:
        column = pa.ipc.read_record_batch(pa.py_buffer(data), pa.schema([("column", arrow_type)])).column(0)
    except (pa.ArrowException, OSError, EOFError) as error:
        raise damage_error("block") from error
    if len(column) != rows:
        raise damage_error("block")
    return column


def encode_rows(rows: npt.NDArray[np.intp]) -> bytes:
    """The stored form of row numbers."""
    return rows.astype("<u4").tobytes()


def decode_rows(data: bytes) -> npt.NDArray[np.uint32]:
    """Read row numbers.

    Raises:
        Corrupt: The bytes are none.
    """
    if len(data) % 4:
        raise damage_error("delete vector")
    return np.frombuffer(data, "<u4")


def encode_live(live: npt.NDArray[np.uint8]) -> bytes:
    """The stored form of a delete vector: a bit a row, 1 where the row is dead."""
    return np.packbits(live == 0, bitorder="little").tobytes()


def decode_live(data: bytes, rows: int) -> npt.NDArray[np.uint8]:
    """Read a delete vector: 1 where a row is live.

    Raises:
        Corrupt: The bytes are not one of so many rows.
    """
    if len(data) != (rows + 7) // 8:
        raise damage_error("delete vector")
    return 1 - np.unpackbits(np.frombuffer(data, np.uint8), count=rows, bitorder="little")
