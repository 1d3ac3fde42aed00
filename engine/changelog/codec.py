r"""The stored bytes of commits and data files.

Numbers are little-endian; a checksum is a CRC-32 (ISO 3309, as zlib computes it).

A commit:

    header    a document in a frame (`engine.changelog.frames`) with the magic "LSCOMMIT", padded to a multiple of 64 bytes
    body      the slices of an epoch that is small enough to travel inside its commit, else nothing

A data file:

    8 bytes   magic, "LSEPOCH\0"
    4 bytes   format version
    52 bytes  zero
    slices    one after another, without gaps

A slice is the rows of one partition as an encapsulated Arrow IPC record batch message (Arrow columnar format,
"Encapsulated message format") in the row schema of the store, with `TOMBSTONE_COLUMN` behind it where a row
is a tombstone. Each slice has its own checksum in the commit's index, so that a host can fetch and check only
the partitions it holds. The index is held by column (`{"stores": [0, 0], "partitions": [3, 5], "lengths":
[...], ...}`): some 25 bytes a slice, and offsets follow from the lengths.

The format version of a data file is that of a commit of its generation.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa

from engine.changelog.commit import Commit, CommittedBatch, DataFile, Slice
from engine.changelog.frames import NEWEST_FORMAT, Frame, damage_error, format_of
from engine.errors import Corrupt
from engine.model.schema import MAX_PARTITIONS, TOMBSTONE_COLUMN, Epoch, GroupName, PartitionId, StoreName

DATA_HEADER_LENGTH = 64
DIGEST_LENGTH = 32
"""Hexadecimal digits of `commit_digest`."""

_COMMIT = Frame(b"LSCOMMIT", alignment=64)
_DATA_MAGIC = b"LSEPOCH\0"
_DATA_PREFIX = struct.Struct("<8sI52x")
_DIGEST = re.compile(rf"[0-9a-f]{{{DIGEST_LENGTH}}}")
_FILE_NAME = re.compile(r"[A-Za-z0-9_%~-][A-Za-z0-9_%~.-]*")

RowsByPartition = Mapping[StoreName, Mapping[PartitionId, pa.RecordBatch]]
"""Rows by store and partition."""


def encode_slices(tables: RowsByPartition, start: int) -> tuple[list[pa.Buffer], tuple[Slice, ...]]:
    """Serialise rows, partition by partition.

    Args:
        tables: Rows, in the schema of their store, with or without `TOMBSTONE_COLUMN` behind. Batches without
            rows are left out.
        start: Where in the file the first slice begins.

    Returns:
        The bytes in pieces that belong one behind the other, and their index.
    """
    chunks: list[pa.Buffer] = []
    slices: list[Slice] = []
    offset = start
    for store, partitions in tables.items():
        for partition, batch in sorted(partitions.items()):
            if batch.num_rows == 0:
                continue
            chunk = batch.serialize()
            tombstones = batch.schema.names[-1] == TOMBSTONE_COLUMN
            slices.append(
                Slice(store, partition, offset, chunk.size, batch.num_rows, zlib.crc32(chunk), tombstones)
            )
            chunks.append(chunk)
            offset += chunk.size
    return chunks, tuple(slices)


def inline_file(epoch: Epoch, tables: RowsByPartition, generation: int) -> DataFile:
    """Rows of a generation as the file that a commit carries inside."""
    chunks, slices = encode_slices(tables, 0)
    return DataFile(
        epoch, "", sum(part.length for part in slices), slices, pa.py_buffer(b"".join(chunks)), generation
    )


def data_header(generation: int) -> pa.Buffer:
    """The first `DATA_HEADER_LENGTH` bytes of a data file with rows of a generation."""
    return pa.py_buffer(_DATA_PREFIX.pack(_DATA_MAGIC, format_of(generation)))


def check_data_header(header: pa.Buffer, generation: int, where: str) -> None:
    """Refuse a data file that this version cannot read.

    Args:
        header: Its first `DATA_HEADER_LENGTH` bytes.
        generation: The generation that its rows are of.
        where: Group and epoch, for the message.

    Raises:
        Corrupt: It is no data file, or one of another format.
    """
    if header.size != DATA_HEADER_LENGTH or header.to_pybytes()[:8] != _DATA_MAGIC:
        raise Corrupt(f"A data file of {where} does not start like one: restore the changelog from a backup.")
    _, version = _DATA_PREFIX.unpack(header.to_pybytes())
    if not 1 <= version <= NEWEST_FORMAT:
        raise Corrupt(
            f"A data file of {where} has format {version}; this version reads up to {NEWEST_FORMAT}: upgrade "
            "livestate."
        )
    if header.to_pybytes() != data_header(generation).to_pybytes():
        raise Corrupt(f"The start of a data file of {where} is damaged: restore the changelog from a backup.")


def decode_slice(part: Slice, content: pa.Buffer, schema: pa.Schema, where: str) -> pa.RecordBatch:
    """Read one slice back.

    Args:
        part: The slice.
        content: Its bytes.
        schema: Schema of the store.
        where: Group and epoch, for the message.

    Returns:
        The rows; the last column is `TOMBSTONE_COLUMN` if `part.tombstones`.

    Raises:
        Corrupt: The bytes are not those that were written, or do not fit the schema.
    """
    _check_slice(part, content, where)
    if content.address % 8:  # Arrow's kernels need aligned values, and a network buffer begins anywhere.
        content = pa.py_buffer(content.to_pybytes())
    try:
        batch = pa.ipc.read_record_batch(
            content, schema_with_tombstones(schema) if part.tombstones else schema
        )
        batch.validate(
            full=True
        )  # 6 ms for 1 M rows of 5 columns: what follows trusts offsets and text without looking
    except (pa.ArrowException, OSError) as error:
        raise Corrupt(
            f"The rows of store {part.store}, partition {part.partition}, in {where} do not fit the store's "
            "definition."
        ) from error
    if batch.num_rows != part.rows:
        raise Corrupt(
            f"Store {part.store}, partition {part.partition}, has {batch.num_rows} rows in {where} instead "
            f"of {part.rows}."
        )
    return batch


def check_slices(file: DataFile, data: pa.Buffer, where: str) -> None:
    """Refuse rows that are not those that were written.

    Args:
        file: The file that they are in.
        data: All its bytes.
        where: What it is of, for the message.

    Raises:
        Corrupt: Some bytes differ.
    """
    for part in file.slices:
        _check_slice(part, data.slice(part.offset, part.length), where)


def _check_slice(part: Slice, content: pa.Buffer, where: str) -> None:
    if content.size != part.length or zlib.crc32(content) != part.crc32:
        raise Corrupt(
            f"The rows of store {part.store}, partition {part.partition}, in {where} are damaged: restore "
            "the changelog from a backup."
        )


def schema_with_tombstones(schema: pa.Schema) -> pa.Schema:
    """A store's schema with `TOMBSTONE_COLUMN` behind it."""
    return schema.append(pa.field(TOMBSTONE_COLUMN, pa.bool_(), nullable=False))


def is_file_name(name: str) -> bool:
    """Whether a text may name a data file."""
    return bool(_FILE_NAME.fullmatch(name))


def encode_file(file: DataFile) -> bytes:
    """A staged data file as JSON, to travel from the process that wrote it to the one that commits it."""
    return json.dumps(file_document(file), separators=(",", ":")).encode()


def decode_file(data: bytes) -> DataFile:
    """Read what `encode_file` wrote.

    Raises:
        Corrupt: It is something else.
    """
    try:
        return file_of(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Corrupt("What names a staged data file of the changelog is damaged: stage it again.") from error


def encode_commit(commit: Commit) -> list[pa.Buffer]:
    """The stored form of a commit.

    Args:
        commit: The commit; the file that it carries inside, if any, has an empty name and comes alone.

    Returns:
        The bytes, in pieces that belong one behind the other.
    """
    inline = [file for file in commit.files if file.content is not None]
    document = {
        "group": commit.group,
        "epoch": commit.epoch,
        "token": commit.token,
        "writer": commit.writer,
        "nonce": commit.nonce,
        "query_id": commit.query_id,
        "batch_id": commit.batch_id,
        "committed_at": commit.committed_at,
        "replaced": list(commit.replaced),
        "cutoffs": dict(commit.cutoffs),
        "written": commit.written,
        **batches_document(commit.batches),
        "files": [file_document(file) for file in commit.files],
        **generation_document(commit.generation),
        **({} if commit.before is None else {"before": commit.before}),
    }
    return [pa.py_buffer(_COMMIT.encode(document)), *(file.content for file in inline)]


def commit_digest(header: pa.Buffer) -> str:
    """What tells a commit from any other: the first 128 bits of the SHA-256 of its header, as hexadecimal
    digits. The header has a nonce, the checksums of all rows, and the digest of the commit before.

    Args:
        header: The header of a stored commit: the first piece of `encode_commit`.
    """
    return hashlib.sha256(header).hexdigest()[:DIGEST_LENGTH]


def decode_commit(group: GroupName, epoch: Epoch, data: pa.Buffer) -> Commit:
    """Read a stored commit.

    Args:
        group: The store group that it was stored under.
        epoch: The epoch that it was stored under.
        data: All its bytes.

    Returns:
        The commit; slices inside it are not checked yet (`decode_slice` does).

    Raises:
        Corrupt: The bytes are not a commit of that group and epoch, are damaged, or are of another format.
    """
    what = f"The commit of {describe(group, epoch)}"
    document, body = _COMMIT.decode(data, what)
    try:
        commit = _commit_of(document, body, commit_digest(data.slice(0, data.size - body.size)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise damage_error(what) from error
    if (commit.group, commit.epoch) != (group, epoch):
        raise Corrupt(
            f"{what} is that of {describe(commit.group, commit.epoch)}: restore the changelog from a backup."
        )
    return commit


def describe(group: GroupName, epoch: Epoch) -> str:
    """Group and epoch, as messages name them."""
    return f"epoch {epoch} of store group {group}"


def _commit_of(document: Mapping[str, Any], body: pa.Buffer, digest: str) -> Commit:
    files = [file_of(entry) for entry in document["files"]]
    inline = [file for file in files if not file.name]
    generation = generation_of(document)
    if len(inline) > 1 or body.size != sum(file.size for file in inline):
        raise ValueError("files")
    if any(file.epoch != document["epoch"] or file.generation > generation for file in files):
        raise ValueError("files")
    return Commit(
        group=document["group"],
        epoch=document["epoch"],
        token=document["token"],
        writer=document["writer"],
        nonce=document["nonce"],
        query_id=document["query_id"],
        batch_id=document["batch_id"],
        committed_at=document["committed_at"],
        replaced=tuple(document["replaced"]),
        cutoffs={store: int(cutoff) for store, cutoff in document.get("cutoffs", {}).items()},
        written=document.get("written", 0),
        batches=batches_of(document),
        files=tuple(file if file.name else dataclasses.replace(file, content=body) for file in files),
        generation=generation,
        before=_before_of(document),
        digest=digest,
    )


def _before_of(document: Mapping[str, Any]) -> str | None:
    before = document.get("before")
    if before is not None and not (isinstance(before, str) and _DIGEST.fullmatch(before)):
        raise ValueError("before")
    return before


def batches_document(batches: Mapping[str, CommittedBatch]) -> dict[str, Any]:
    """The last batches of queries as a part of a document for JSON. When they were planned stands beside them,
    and not in their pairs: older versions overlook it there.
    """
    planned = {query: batch.planned_at for query, batch in batches.items() if batch.planned_at is not None}
    return {
        "batches": {query: [batch.batch_id, batch.epoch] for query, batch in batches.items()},
        **({"planned": planned} if planned else {}),
    }


def batches_of(document: Mapping[str, Any]) -> dict[str, CommittedBatch]:
    """Read what `batches_document` made.

    Raises:
        ValueError: It is something else; KeyError, TypeError and AttributeError likewise.
    """
    planned = {query: int(at) for query, at in document.get("planned", {}).items()}
    return {
        query: CommittedBatch(batch_id, epoch, planned.get(query))
        for query, (batch_id, epoch) in document["batches"].items()
    }


def file_document(file: DataFile) -> dict[str, Any]:
    """A data file as a document for JSON; what is inside a commit stays out."""
    stores = sorted({part.store for part in file.slices})
    numbers = {store: number for number, store in enumerate(stores)}
    return {
        "epoch": file.epoch,
        "name": file.name,
        "size": file.size,
        "names": stores,
        "stores": [numbers[part.store] for part in file.slices],
        "partitions": [part.partition for part in file.slices],
        "lengths": [part.length for part in file.slices],
        "rows": [part.rows for part in file.slices],
        "crc32": [part.crc32 for part in file.slices],
        "tombstones": [number for number, part in enumerate(file.slices) if part.tombstones],
        **generation_document(file.generation),
    }


def file_of(document: Mapping[str, Any]) -> DataFile:
    """Read what `file_document` made.

    Raises:
        ValueError: It is something else; KeyError, TypeError and AttributeError likewise.
    """
    name = document["name"]
    start = DATA_HEADER_LENGTH if name else 0
    slices = tuple(_slices_of(document, start))
    size = start + sum(part.length for part in slices)
    if (name and not is_file_name(name)) or size != document["size"]:
        raise ValueError("file")
    return DataFile(Epoch(document["epoch"]), name, size, slices, generation=generation_of(document))


def generation_document(generation: int) -> dict[str, int]:
    """What a document says of its generation: nothing as long as nothing was migrated."""
    return {"generation": generation} if generation else {}


def generation_of(document: Mapping[str, Any]) -> int:
    """Read what `generation_document` made.

    Raises:
        ValueError: It is no generation; TypeError likewise.
    """
    generation = document.get("generation", 0)
    if isinstance(generation, bool) or not isinstance(generation, int) or generation < 0:
        raise ValueError("generation")
    return generation


def _slices_of(document: Mapping[str, Any], start: int) -> Iterable[Slice]:
    names: Sequence[StoreName] = document["names"]
    tombstones = frozenset(document["tombstones"])
    offsets = accumulate(document["lengths"], initial=start)
    columns = (
        document["stores"],
        document["partitions"],
        document["lengths"],
        document["rows"],
        document["crc32"],
    )
    for number, (offset, (store, partition, length, rows, checksum)) in enumerate(
        zip(offsets, zip(*columns, strict=True), strict=False)
    ):
        if not (0 <= store < len(names) and 0 <= partition < MAX_PARTITIONS and length > 0 and rows > 0):
            raise ValueError("slice")
        yield Slice(names[store], partition, offset, length, rows, checksum, number in tombstones)
