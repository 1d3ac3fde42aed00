"""The snapshots of one store group as objects: parts that hosts write, what makes them count, reading, and
dropping what they replace.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping

import pyarrow as pa

from engine.changelog.amendments import Amendments
from engine.changelog.codec import DATA_HEADER_LENGTH, data_header, decode_slice, describe, encode_slices
from engine.changelog.commit import Commit, DataFile
from engine.changelog.data_files import read_slices
from engine.changelog.layout import (
    checksums_path,
    is_checksums_path,
    part_name,
    part_path,
    parts_path,
    snapshot_data_path,
    snapshot_epoch,
    snapshot_path,
    snapshots_path,
)
from engine.changelog.objects import Objects, all_paths
from engine.changelog.snapshot import (
    MIB,
    HostChecksums,
    Snapshot,
    SnapshotPart,
    StoredColumns,
    StorePartition,
    parts_covering,
)
from engine.changelog.snapshot_codec import (
    decode_checksums,
    decode_part,
    decode_snapshot,
    encode_checksums,
    encode_part,
    encode_snapshot,
)
from engine.errors import Corrupt, LimitExceeded, LivestateError
from engine.model.row_checksum import RowChecksum, checksum_rows
from engine.model.schema import TOMBSTONE_COLUMN, Epoch, GroupName, PartitionId, StoreDefinition, StoreName
from engine.model.sql_types import sql_type

FILE_BYTES = 64 * MIB
"""Rows of a snapshot are cut into files of about this size, which is also what a reader has in memory of a
partition at once.
"""

StoredRows = Iterable[tuple[StorePartition, pa.RecordBatch]]
"""Live rows in the stored schema of their store; each key of a partition once."""


def stored_columns(definition: StoreDefinition) -> StoredColumns:
    """The stored columns of a store, as a snapshot names them."""
    return {field.name: sql_type(field.type) for field in definition.stored_schema}


class Snapshots:
    """The snapshots of one store group. Safe to use from several threads and processes.

    Args:
        objects: The changelog's objects.
        group: The store group.
        amendments: The amendments of the group: of stores that were dropped nothing is read.
    """

    def __init__(self, objects: Objects, group: GroupName, amendments: Amendments) -> None:
        self.group = group
        self._objects = objects
        self._amendments = amendments
        self._known: dict[Epoch, Snapshot] = {}

    # ---- what there is

    def epochs(self) -> list[Epoch]:
        """The epochs of all snapshots, in order. One listing of a directory that has few objects."""
        found = (snapshot_epoch(self.group, path) for path in self._objects.list(snapshots_path(self.group)))
        epochs = sorted(entry[0] for entry in found if entry is not None and entry[1])
        if epochs:
            self._objects.settle(snapshot_path(self.group, epochs[-1]))
        return epochs

    def read(self, epoch: Epoch) -> Snapshot | None:
        """The snapshot at an epoch; None if there is none. What was read once is not read again.

        Raises:
            Corrupt: It is damaged, or of a format that this version does not know.
        """
        known = self._known.get(epoch)
        if known is None:
            data = self._objects.get(snapshot_path(self.group, epoch))
            if data is None:
                return None
            # Another thread, whose listing is older, may forget it at once.
            known = self._known[epoch] = decode_snapshot(self.group, epoch, data)
        return self._amendments.exclusions(known.generation).keep_partitions(known)

    def forget(self) -> None:
        """Read all snapshots again when they are needed: a changelog that was restored from an older copy may
        have another one at the same epoch.
        """
        self._known.clear()

    def readable_snapshots(self) -> list[Snapshot]:
        """All snapshots that can be read, in order of epoch. Damaged ones are left out: older ones, and the
        epochs after these, take their place.
        """
        epochs = self.epochs()
        for gone in self._known.keys() - set(epochs):
            self._known.pop(gone, None)
        found = []
        for epoch in epochs:
            with contextlib.suppress(Corrupt):
                snapshot = self.read(epoch)
                found += [] if snapshot is None else [snapshot]
        return found

    def newest_snapshot(self) -> Snapshot | None:
        """The newest snapshot that can be read; None if there is none."""
        found = self.readable_snapshots()
        return found[-1] if found else None

    def batches(
        self, snapshot: Snapshot, definition: StoreDefinition, partition: PartitionId
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a partition.

        Args:
            snapshot: The snapshot.
            definition: The store, in the shape that it has at the snapshot's generation.
            partition: Its partition.

        Yields:
            Live rows in the stored schema, a batch for each slice; each key once.

        Raises:
            Corrupt: Bytes are missing or damaged, the rows are stored in other columns than the store's, or
                all of them together, which is known behind the last, are not those whose checksum the
                snapshot has; the message names group and epoch.
            Unavailable: The changelog cannot be reached.
        """
        part = snapshot.part_of(definition.name, partition)
        if part is None:
            return
        where = f"the snapshot at {describe(self.group, snapshot.epoch)}"
        if part.stores.get(definition.name) != stored_columns(definition):
            raise Corrupt(
                f"The rows of store {definition.name} in {where} do not fit the store's definition."
            )
        found = RowChecksum()
        for file in part.files:
            wanted = [
                entry
                for entry in file.slices
                if (entry.store, entry.partition) == (definition.name, partition)
            ]
            contents = read_slices(
                self._objects, snapshot_data_path(self.group, snapshot.epoch, file.name), file, wanted, where
            )
            for entry, content in zip(wanted, contents, strict=True):
                rows = decode_slice(entry, content, definition.stored_schema, where)
                found += _checksum_of(rows)
                yield rows
        if part.checksums.get((definition.name, partition), found) != found:
            raise Corrupt(
                f"The rows of store {definition.name}, partition {partition}, in {where} are not those that "
                "the host had: their checksum differs."
            )

    # ---- making one

    def parts(self, epoch: Epoch) -> list[SnapshotPart]:
        """What hosts have written of a snapshot so far. A damaged part is left out: what it covers is to be
        written again.
        """
        found = []
        for path in self._objects.list(parts_path(self.group, epoch)):
            data = self._objects.get(path) if part_name(path) is not None else None
            if data is not None:
                with contextlib.suppress(Corrupt):
                    found.append(decode_part(self.group, epoch, data))
        return found

    def write_part(
        self,
        epoch: Epoch,
        definitions: Mapping[StoreName, StoreDefinition],
        covers: Collection[StorePartition],
        rows: StoredRows,
        generation: int = 0,
        digest: str = "",
    ) -> SnapshotPart:
        """Write all rows of some partitions. Several hosts may write the same ones: one of them is taken.

        Args:
            epoch: The epoch at which the rows are.
            definitions: The stores of the partitions, in the shapes that they have at the epoch.
            covers: The partitions.
            rows: All their live rows, each batch no larger than `FILE_BYTES` if possible.
            generation: As `Commit.generation` of the epoch.
            digest: As `Commit.digest` of the epoch.

        Returns:
            What was written. It is durable, and counts once `commit` has made a snapshot of it.

        Raises:
            LimitExceeded: The disk is full. What was written before is removed again.
            Unavailable: The changelog cannot be reached; what was written goes when a later snapshot counts.
        """
        name = secrets.token_hex(8)
        files: list[DataFile] = []
        checksums = dict.fromkeys(covers, RowChecksum())
        try:
            for tables in _file_tables(_counted_rows(rows, checksums)):
                files.append(self._write_file(epoch, f"{name}-{len(files)}.arrow", tables, generation))
        except LivestateError:
            self._delete_files(epoch, files)
            raise
        stores = {store: stored_columns(definitions[store]) for store, _ in covers}
        part = SnapshotPart(name, stores, frozenset(covers), tuple(files), generation, digest, checksums)
        path = part_path(self.group, epoch, name)
        try:
            self._objects.put(path, [encode_part(self.group, epoch, part)])
        except LimitExceeded:
            with contextlib.suppress(LivestateError):
                self._objects.delete([path])
                self._delete_files(epoch, files)
            raise
        # Where the changelog cannot be reached the part may be there, now or later: its rows stay.
        return part

    def _delete_files(self, epoch: Epoch, files: Collection[DataFile]) -> None:
        with contextlib.suppress(LivestateError):
            self._objects.delete([snapshot_data_path(self.group, epoch, file.name) for file in files])

    def write_checksums(self, epoch: Epoch, claim: HostChecksums) -> None:
        """Write what a host has, so that hosts see whether they have the same.

        Args:
            epoch: The epoch of a snapshot.
            claim: What the host has there.

        Raises:
            LimitExceeded: The disk is full.
            Unavailable: The changelog cannot be reached.
        """
        path = checksums_path(self.group, epoch, secrets.token_hex(8))
        self._objects.put(path, [encode_checksums(self.group, epoch, claim)])

    def checksums(self, epoch: Epoch, digest: str) -> list[HostChecksums]:
        """What hosts have said that they have at the epoch of a snapshot. What is damaged is left out, and so
        is what is of another history.

        Args:
            epoch: The epoch.
            digest: As `Commit.digest` of it.
        """
        found = []
        for path in self._objects.list(parts_path(self.group, epoch)):
            data = self._objects.get(path) if is_checksums_path(path) else None
            if data is not None:
                with contextlib.suppress(Corrupt):
                    claim = decode_checksums(self.group, epoch, data)
                    found += [claim] if claim.digest == digest else []
        return found

    def _write_file(
        self,
        epoch: Epoch,
        name: str,
        tables: dict[StoreName, dict[PartitionId, pa.RecordBatch]],
        generation: int,
    ) -> DataFile:
        chunks, slices = encode_slices(tables, DATA_HEADER_LENGTH)
        self._objects.put(snapshot_data_path(self.group, epoch, name), [data_header(generation), *chunks])
        return DataFile(
            epoch,
            name,
            DATA_HEADER_LENGTH + sum(part.length for part in slices),
            slices,
            generation=generation,
        )

    def commit(self, commit: Commit, wanted: Collection[StorePartition]) -> bool:
        """Make a snapshot count, if hosts have written all of it.

        Args:
            commit: The commit of its epoch.
            wanted: All partitions of the stores that had rows by then.

        Returns:
            Whether it counts now, whoever made it so. False while partitions are missing, or when a later one
            counts already.

        Raises:
            Unavailable: The changelog cannot be reached.
            LimitExceeded: The disk is full.
        """
        there = self.epochs()
        if there and there[-1] >= commit.epoch:
            return commit.epoch in there
        parts = parts_covering(
            (
                part
                for part in self.parts(commit.epoch)
                if part.generation == commit.generation and part.digest in ("", commit.digest)
            ),
            wanted,
        )
        if parts is None or not self._have_files(commit.epoch, parts):
            return False
        snapshot = Snapshot(
            self.group,
            commit.epoch,
            commit.committed_at,
            commit.written,
            commit.cutoffs,
            parts,
            commit.generation,
            commit.digest,
        )
        self._objects.create(snapshot_path(self.group, commit.epoch), [encode_snapshot(snapshot)])
        return True

    def _have_files(self, epoch: Epoch, parts: Collection[SnapshotPart]) -> bool:
        """Whether all data files of parts are there, as epochs go for them. A part that lacks one is deleted:
        what it covers is to be written again.
        """
        broken = [part for part in parts if not all(self._has_file(epoch, file) for file in part.files)]
        self._objects.delete([part_path(self.group, epoch, part.name) for part in broken])
        return not broken

    def has_files(self, snapshot: Snapshot) -> bool:
        """Whether all data files of a snapshot are there, in their sizes.

        Args:
            snapshot: The snapshot.

        Raises:
            Unavailable: The changelog cannot be reached.
        """
        return all(self._has_file(snapshot.epoch, file) for file in snapshot.files)

    def _has_file(self, epoch: Epoch, file: DataFile) -> bool:
        path = snapshot_data_path(self.group, epoch, file.name)
        return self._objects.get_ranges(path, file.size, [(0, DATA_HEADER_LENGTH)]) is not None

    def retract(self, epoch: Epoch) -> None:
        """Have a snapshot count no more, whose rows are in doubt. The epochs before it must be there still.

        Args:
            epoch: That of the snapshot.
        """
        self._objects.delete([snapshot_path(self.group, epoch)])
        self._known.pop(epoch, None)

    # ---- dropping

    def drop(self, before: Epoch) -> int:
        """Delete the snapshots before an epoch, and what hosts wrote of those that never came to count and
        never will.

        Args:
            before: The oldest snapshot that stays.

        Returns:
            How many snapshots were deleted.
        """
        newest = max(self.epochs(), default=Epoch(0))
        counting: dict[str, Epoch] = {}
        others: dict[str, Epoch] = {}
        for path in all_paths(self._objects, snapshots_path(self.group)):
            found = snapshot_epoch(self.group, path)
            if found is not None:
                (counting if found[1] else others)[path] = found[0]
        kept = {epoch for epoch in counting.values() if epoch >= before}
        dropped = [path for path, epoch in counting.items() if epoch < before]
        self._objects.delete(dropped)
        self._objects.delete([path for path, epoch in others.items() if epoch < newest and epoch not in kept])
        return len(dropped)


def _counted_rows(rows: StoredRows, checksums: dict[StorePartition, RowChecksum]) -> StoredRows:
    """Rows, which are added to the checksums of their partitions on the way."""
    for place, batch in rows:
        checksums[place] += _checksum_of(batch)
        yield place, batch


def _checksum_of(rows: pa.RecordBatch) -> RowChecksum:
    """The checksum of live rows; tombstones are none."""
    return RowChecksum() if TOMBSTONE_COLUMN in rows.schema.names else checksum_rows(rows)


def _file_tables(rows: StoredRows) -> Iterator[dict[StoreName, dict[PartitionId, pa.RecordBatch]]]:
    """Rows file by file; a partition has one slice in a file."""
    tables: dict[StoreName, dict[PartitionId, pa.RecordBatch]] = {}
    size = 0
    for (store, partition), batch in rows:
        if not batch.num_rows:
            continue
        if size and (size + batch.nbytes > FILE_BYTES or partition in tables.get(store, {})):
            yield tables
            tables, size = {}, 0
        tables.setdefault(store, {})[partition] = batch
        size += batch.nbytes
    if size:
        yield tables
