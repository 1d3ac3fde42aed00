"""The changelog of a deployment: its stores and the epochs of their groups."""

from __future__ import annotations

import json
import re
import secrets
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from engine.changelog.codec import Tables
from engine.changelog.commit import BEFORE_FIRST, Commit, DataFile
from engine.changelog.epochs import Epochs
from engine.changelog.layout import FORMAT_PATH, LAYOUT_FORMAT, STORES_PATH, definition_path, is_definition
from engine.changelog.objects import Objects, open_objects
from engine.changelog.rows import check_tables
from engine.changelog.snapshot import SnapshotRetention, oldest_kept
from engine.changelog.snapshots import Snapshots
from engine.changelog.writer import Writer
from engine.errors import Corrupt, InvalidInput, Unavailable, Unsupported
from engine.schema import Epoch, GroupName, PartitionId, StoreDefinition, StoreName

_CHECKSUM = re.compile(rb',\n "crc32": ([0-9]+)\n\}\Z')


@dataclass(frozen=True)
class Dropped:
    """What was deleted because newer snapshots have made it dispensable.

    Attributes:
        epochs: How many epochs.
        snapshots: How many snapshots.
    """

    epochs: int
    snapshots: int


class Changelog:
    """The durable, ordered record of every store's epochs. `Changelog.open` makes one; it can be used from several threads, and pickled.

    It is the truth that all hosts follow, and it is made of immutable objects only (`engine.changelog.layout`). A definition,
    once written, never changes.
    """

    def __init__(self, uri: str, options: Mapping[str, str], objects: Objects) -> None:
        self.uri = uri
        self._options = dict(options)
        self._objects = objects
        self._definitions: dict[str, StoreDefinition] = {}
        self._groups: dict[GroupName, Epochs] = {}
        self._identity: str | None = None

    @staticmethod
    def open(uri: str, options: Mapping[str, str] | None = None) -> Changelog:
        """Open a changelog. Nothing is read or written yet; one that does not exist is empty, and the first write makes it.

        Args:
            uri: `file:///directory` or a plain path; `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`, with the
                standard environment variables for credentials; or `memory://`, which is new and empty each time and lives in this process.
            options: Settings of the object store (`endpoint`, `region`, `allow_http`, …) that come before the environment's.

        Returns:
            The changelog.

        Raises:
            InvalidInput: The URI or an option is not understood.
        """
        options = options or {}
        return Changelog(uri, options, open_objects(uri, options))

    def __repr__(self) -> str:
        return f"Changelog({self.uri!r})"

    def __reduce__(self) -> tuple[Callable[..., Changelog], tuple[str, dict[str, str]]]:
        if self.uri.startswith("memory:"):
            raise InvalidInput("A changelog at memory:// lives in one process and cannot be sent to another: use a directory.")
        return (Changelog.open, (self.uri, self._options))

    def identity(self) -> str | None:
        """What tells this changelog from any other, drawn at random by the first write; None before that.

        A host keeps it beside what it built from the changelog: under another identity that would be another deployment's state.

        Raises:
            Corrupt: The changelog is of another format, or the object that says so is damaged.
            Unavailable: The changelog cannot be reached.
        """
        if self._identity is None:
            data = self._objects.get(FORMAT_PATH)
            self._identity = None if data is None else _identity_of(data.to_pybytes())
        return self._identity

    def definitions(self) -> dict[StoreName, StoreDefinition]:
        """All stores, by name. Definitions read once are not read again.

        Raises:
            Corrupt: A definition is damaged, or the changelog is of another format.
            Unavailable: The changelog cannot be reached.
        """
        self.identity()
        found = [self._read_definition(path) for path in sorted(self._objects.list(STORES_PATH)) if is_definition(path)]
        return {definition.name: definition for definition in found if definition is not None}

    def definition(self, store: StoreName) -> StoreDefinition | None:
        """What a store is; None if there is no such store.

        Raises:
            Corrupt: The definition is damaged.
            Unavailable: The changelog cannot be reached.
        """
        return self._read_definition(definition_path(store))

    def create_store(self, definition: StoreDefinition) -> StoreDefinition:
        """Create a store, or find the very same one there.

        Args:
            definition: What the store is to be.

        Returns:
            The definition that is stored now; equal to the one given.

        Raises:
            InvalidInput: The store is there and differs; the message shows both definitions.
            Unsupported: The object store does not honour create-only writes, so that epochs would not be safe on it.
            Unavailable: The changelog cannot be reached.
            LimitExceeded: The disk is full.
        """
        self._ensure_format()
        path = definition_path(definition.name)
        self._objects.create(path, [pa.py_buffer(_with_checksum(definition.to_json()))])
        there = self.definition(definition.name)
        if there is None:
            raise Unavailable(f"The definition of store {definition.name} was written and cannot be read: try again later.")
        if there != definition:
            raise InvalidInput(
                f"Store {definition.name} exists and differs. It is: {there.describe()}. Asked for: {definition.describe()}. "
                "Use the definition that is there, or another name."
            )
        return there

    def groups(self) -> list[GroupName]:
        """The store groups that have a store, in order of name."""
        return sorted({definition.group for definition in self.definitions().values()})

    def newest_epoch(self, group: GroupName, known: Epoch = BEFORE_FIRST) -> Epoch:
        """The newest committed epoch of a group; 0 before the first.

        Args:
            group: The store group.
            known: An epoch that is known to be committed. From there one request finds that nothing is new; from 0, 2·log2(n) find the end.

        Raises:
            Unavailable: The changelog cannot be reached.
        """
        return self._epochs(group).newest(known)

    def read_commit(self, group: GroupName, epoch: Epoch) -> Commit | None:
        """The commit of an epoch; None while it is not committed. One request.

        Raises:
            Corrupt: The commit is damaged or of another format; the message names group and epoch.
            Unavailable: The changelog cannot be reached.
        """
        return self._epochs(group).read(epoch)

    def read_rows(
        self,
        commit: Commit,
        definitions: Mapping[StoreName, StoreDefinition],
        partitions: Callable[[StoreName, PartitionId], bool] | None = None,
    ) -> dict[tuple[StoreName, PartitionId], pa.RecordBatch]:
        """The rows of an epoch. Only the bytes of the partitions asked for are fetched, neighbours together.

        Args:
            commit: What `read_commit` returned.
            definitions: Definitions of at least the stores asked for.
            partitions: Says which partitions are asked for; None for all.

        Returns:
            Rows by store and partition, in commit order, in the store's schema; `TOMBSTONE_COLUMN` (boolean, no nulls) is the last column
            where a row is a tombstone. Partitions without rows are left out.

        Raises:
            Corrupt: A data file is missing or damaged; the message names group and epoch.
            NotFound: Rows asked for belong to a store that `definitions` lacks.
            Unavailable: The changelog cannot be reached.
        """
        return self._epochs(commit.group).rows(commit, definitions, partitions)

    def writer(self, group: GroupName, writer_id: str) -> Writer:
        """Open a term of writing to a group; all older writers of it are refused from here on. See `Writer`.

        Args:
            group: The store group.
            writer_id: Who writes, for the message that an older writer gets.

        Raises:
            Unsupported: The object store does not honour create-only writes.
            Unavailable: The changelog cannot be reached, or other writers keep opening terms.
            LimitExceeded: The disk is full.
        """
        self._ensure_format()
        return Writer.open(self._epochs(group), writer_id, lambda tables: check_tables(group, tables, self.definition))

    def stage(self, group: GroupName, epoch: Epoch, tables: Tables, *, task: str) -> DataFile:
        """Write one durable data file of an epoch that is yet to be committed; only `Writer.commit` makes it count.

        Any number of processes may stage files of one epoch; a task that runs twice writes two files, of which one is to be committed.

        Args:
            group: The store group.
            epoch: The epoch to come: `Writer.next_epoch`.
            tables: Rows by store and partition, as `partition_rows` returns them.
            task: Name of the task, a part of the file's name.

        Returns:
            What to hand to `Writer.commit`; `encode_file` and `decode_file` carry it between processes.

        Raises:
            InvalidInput: Rows do not fit the definition of their store, or the store belongs to another group.
            NotFound: There is no such store.
            Unavailable: The changelog cannot be reached.
            LimitExceeded: The disk is full.
        """
        check_tables(group, tables, self.definition)
        return self._epochs(group).stage(epoch, tables, task)

    def collect(self, group: GroupName) -> int:
        """Delete the data files that no commit names: those of crashed, fenced or repeated tasks. Safe at any time, beside a writer too.

        Returns:
            How many files were deleted.

        Raises:
            Corrupt: A commit that has data files beside it is damaged; nothing is deleted.
            Unavailable: The changelog cannot be reached.
        """
        return self._epochs(group).collect()

    def snapshots(self, group: GroupName) -> Snapshots:
        """The snapshots of a group."""
        return self._epochs(group).snapshots

    def holds(self, group: GroupName, epoch: Epoch) -> bool:
        """Whether an epoch that was committed has its commit still: see `Epochs.holds`.

        Raises:
            Unavailable: The changelog cannot be reached.
        """
        return self._epochs(group).holds(epoch)

    def drop(self, group: GroupName, retention: SnapshotRetention, now: int) -> Dropped:
        """Delete the epochs and snapshots that newer snapshots have made dispensable. Safe at any time, beside writers, hosts, and others who drop.

        Args:
            group: The store group.
            retention: What stays all the same.
            now: The time, microseconds since 1970 UTC.

        Raises:
            Unavailable: The changelog cannot be reached; what is left is found again by the next call.
        """
        epochs = self._epochs(group)
        oldest = oldest_kept(epochs.snapshots.all(), retention, now)
        if oldest is None:
            return Dropped(0, 0)
        # Snapshots go last: where the first epochs are gone, the snapshot that has their rows is there.
        return Dropped(epochs.drop(oldest.epoch), epochs.snapshots.drop(oldest.epoch))

    def _epochs(self, group: GroupName) -> Epochs:
        return self._groups.setdefault(group, Epochs(self._objects, group))

    def _read_definition(self, path: str) -> StoreDefinition | None:
        if path not in self._definitions:
            data = self._objects.get(path)
            if data is None:
                return None
            document = _without_checksum(data.to_pybytes())
            if document is None:
                raise Corrupt("A store definition in the changelog is damaged: restore it from a backup.")
            definition = StoreDefinition.from_json(document)
            if definition_path(definition.name) != path:
                raise Corrupt(f"The definition of store {definition.name} lies where another one's should be: restore the changelog from a backup.")
            self._definitions[path] = definition
        return self._definitions[path]

    def _ensure_format(self) -> None:
        """Mark a new changelog, and use the occasion to see that a create-only write is refused where something is."""
        if self._identity is not None:
            return
        document = json.dumps({"format": LAYOUT_FORMAT, "identity": secrets.token_hex(16)}, indent=1)
        marker = [pa.py_buffer(_with_checksum(document.encode()))]
        if self._objects.create(FORMAT_PATH, marker) and self._objects.create(FORMAT_PATH, marker):
            raise Unsupported("This object store ignores the condition of create-only writes, which epochs rely on: use another one.")
        self.identity()


def _identity_of(data: bytes) -> str:
    damaged = "The FORMAT object of the changelog is damaged: restore it from a backup."
    try:
        document = json.loads(data)
        version, identity = document["format"], document["identity"]
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(damaged) from error
    if version != LAYOUT_FORMAT:
        raise Corrupt(f"The changelog has format {version!r}; this version reads format {LAYOUT_FORMAT}: upgrade livestate.")
    if _without_checksum(data) is None:
        raise Corrupt(damaged)
    return str(identity)


def _with_checksum(document: bytes) -> bytes:
    """A JSON object with the CRC-32 of its bytes as one more field: a person still reads it, and no flipped letter renames a column."""
    return document.removesuffix(b"}").rstrip() + f',\n "crc32": {zlib.crc32(document)}\n}}'.encode()


def _without_checksum(data: bytes) -> bytes | None:
    """What `_with_checksum` was given; None if it is not that any more."""
    found = _CHECKSUM.search(data)
    document = data[: found.start()] + b"\n}" if found else b""
    return document if found and zlib.crc32(document) == int(found[1]) else None
