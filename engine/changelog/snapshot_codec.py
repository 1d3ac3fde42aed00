"""The stored bytes of snapshots: of what makes one count, and of the parts that hosts write. Their data files
are those of epochs.

Each is one document in a frame (`engine.changelog.frames`) with the magic "LSSNAPSH" or "LSSNPART"; what
hosts say of their rows has "LSSNSUMS". What makes a snapshot count repeats the documents of its parts, so
that a reader needs one request to know where every row is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from engine.changelog.codec import describe, file_document, file_of, generation_document, generation_of
from engine.changelog.frames import Frame, damage_error
from engine.changelog.snapshot import HostChecksums, Snapshot, SnapshotPart
from engine.errors import Corrupt
from engine.model.row_checksum import RowChecksum
from engine.model.schema import Epoch, GroupName, PartitionId, StoreName

_SNAPSHOT = Frame(b"LSSNAPSH")
_PART = Frame(b"LSSNPART")
_CHECKSUMS = Frame(b"LSSNSUMS")


def encode_snapshot(snapshot: Snapshot) -> pa.Buffer:
    """The stored form of a snapshot."""
    document = {
        "group": snapshot.group,
        "epoch": snapshot.epoch,
        "committed_at": snapshot.committed_at,
        "written": snapshot.written,
        "cutoffs": dict(snapshot.cutoffs),
        "parts": [_part_document(part) for part in snapshot.parts],
        **generation_document(snapshot.generation),
        "digest": snapshot.digest,
    }
    return pa.py_buffer(_SNAPSHOT.encode(document))


def decode_snapshot(group: GroupName, epoch: Epoch, data: pa.Buffer) -> Snapshot:
    """Read a stored snapshot.

    Args:
        group: The store group that it was stored under.
        epoch: The epoch that it was stored under.
        data: All its bytes.

    Raises:
        Corrupt: The bytes are not a snapshot of that group and epoch, are damaged, or are of another format.
    """
    what = f"The snapshot at {describe(group, epoch)}"
    document = _decode_rows(_SNAPSHOT, data, what)
    try:
        generation = generation_of(document)
        parts = tuple(_part_of(part, generation) for part in document["parts"])
        snapshot = Snapshot(
            group=document["group"],
            epoch=document["epoch"],
            committed_at=document["committed_at"],
            written=document["written"],
            cutoffs={store: int(cutoff) for store, cutoff in document["cutoffs"].items()},
            parts=parts,
            generation=generation,
            digest=str(document.get("digest", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise damage_error(what) from error
    if (snapshot.group, snapshot.epoch) != (group, epoch):
        raise Corrupt(
            f"{what} is that of {describe(snapshot.group, snapshot.epoch)}: restore the changelog from a "
            "backup."
        )
    return snapshot


def encode_part(group: GroupName, epoch: Epoch, part: SnapshotPart) -> pa.Buffer:
    """The stored form of a part."""
    return pa.py_buffer(_PART.encode({"group": group, "epoch": epoch, **_part_document(part)}))


def decode_part(group: GroupName, epoch: Epoch, data: pa.Buffer) -> SnapshotPart:
    """Read a stored part.

    Args:
        group: The store group that it was stored under.
        epoch: The epoch that it was stored under.
        data: All its bytes.

    Raises:
        Corrupt: The bytes are not a part of a snapshot of that group and epoch, are damaged, or are of
            another format.
    """
    what = f"A part of the snapshot at {describe(group, epoch)}"
    document = _decode_rows(_PART, data, what)
    try:
        if (document["group"], document["epoch"]) != (group, epoch):
            raise Corrupt(f"{what} is of another one: restore the changelog from a backup.")
        return _part_of(document, generation_of(document))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise damage_error(what) from error


def encode_checksums(group: GroupName, epoch: Epoch, claim: HostChecksums) -> pa.Buffer:
    """The stored form of what a host has."""
    document = {
        "group": group,
        "epoch": epoch,
        "host": claim.host,
        "digest": claim.digest,
        "checksums": [[*place, str(checksum)] for place, checksum in sorted(claim.checksums.items())],
    }
    return pa.py_buffer(_CHECKSUMS.encode(document))


def decode_checksums(group: GroupName, epoch: Epoch, data: pa.Buffer) -> HostChecksums:
    """Read what a host has.

    Args:
        group: The store group that it was stored under.
        epoch: The epoch that it was stored under.
        data: All its bytes.

    Raises:
        Corrupt: The bytes are none of that group and epoch, are damaged, or are of another format.
    """
    what = f"The checksums of a host at {describe(group, epoch)}"
    document = _decode_rows(_CHECKSUMS, data, what)
    try:
        if (document["group"], document["epoch"]) != (group, epoch):
            raise damage_error(what)
        return HostChecksums(
            str(document["host"]),
            str(document["digest"]),
            {
                (StoreName(store), PartitionId(number)): RowChecksum.from_text(text)
                for store, number, text in document["checksums"]
            },
        )
    except (ValueError, KeyError, TypeError) as error:
        raise damage_error(what) from error


def _part_document(part: SnapshotPart) -> dict[str, Any]:
    covers: dict[StoreName, list[PartitionId]] = defaultdict(list)
    for store, partition in sorted(part.covers):
        covers[store].append(partition)
    return {
        "name": part.name,
        "stores": [
            {
                "name": store,
                "columns": [{"name": name, "type": type_name} for name, type_name in columns.items()],
                "partitions": covers[store],
                **_checksums_document(part, store, covers[store]),
            }
            for store, columns in part.stores.items()
        ],
        "files": [file_document(file) for file in part.files],
        **generation_document(part.generation),
        "digest": part.digest,
    }


def _checksums_document(
    part: SnapshotPart, store: StoreName, partitions: Sequence[PartitionId]
) -> Mapping[str, Any]:
    """The checksums of a store, in the order of its partitions; nothing where they are not known."""
    if not part.checksums:
        return {}
    return {"checksums": [str(part.checksums[store, partition]) for partition in partitions]}


def _part_of(document: Mapping[str, Any], generation: int) -> SnapshotPart:
    stores = document["stores"]
    files = tuple(file_of(file) for file in document["files"])
    if generation_of(document) != generation or any(
        not file.name or file.generation != generation for file in files
    ):
        raise ValueError("file")
    return SnapshotPart(
        name=document["name"],
        stores={
            store["name"]: {column["name"]: column["type"] for column in store["columns"]} for store in stores
        },
        covers=frozenset((store["name"], partition) for store in stores for partition in store["partitions"]),
        files=files,
        generation=generation,
        digest=str(document.get("digest", "")),
        checksums={
            (store["name"], partition): RowChecksum.from_text(text)
            for store in stores
            if "checksums" in store
            for partition, text in zip(store["partitions"], store["checksums"], strict=True)
        },
    )


def _decode_rows(frame: Frame, data: pa.Buffer, what: str) -> Mapping[str, Any]:
    document, rest = frame.decode(data, what)
    if rest.size:
        raise damage_error(what)
    return document
