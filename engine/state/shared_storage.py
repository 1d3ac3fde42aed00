"""Storages that several partitions share. A RocksDB takes seven open files and five syncs to be opened, so
the partitions of a store that has hundreds have one together for each few of them.

The keys of a partition begin with its number there. A write of one partition is applied whole, and all of
them reach one write-ahead log in their order: what holds of a partition's own storage holds of its part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from engine.errors import Unavailable
from engine.model.schema import PartitionId
from engine.state.rocks import Rocks, SharedOptions
from engine.state.state_options import StateOptions
from engine.state.storage import Pair, Range, Storage

_NUMBER_BYTES = 4


@dataclass(frozen=True)
class _OpenStorage:
    """A storage that is open while parts of it are.

    Attributes:
        storage: The storage.
        parts: The partitions whose parts are open.
    """

    storage: Storage
    parts: set[PartitionId] = field(default_factory=set)


class SharedStorages:
    """The storages of a host that several partitions share, each opened once. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: dict[Path, _OpenStorage] = {}

    def open_part(
        self, path: Path, partition: PartitionId, options: StateOptions, shared: SharedOptions
    ) -> StoragePart:
        """A partition's part of a storage, which is opened with the first part of it.

        Args:
            path: Its directory, made if it is not there.
            partition: The partition; no part of it is open.
            options: Sizes.
            shared: How RocksDB is opened for all partitions of the host.

        Raises:
            LivestateError: As `Rocks`.
        """
        with self._lock:
            found = self._open.get(path)
            if found is None:
                found = self._open[path] = _OpenStorage(Rocks(path, options, shared))
            found.parts.add(partition)
            return StoragePart(found.storage, partition, self, path)

    def close_part(self, path: Path, partition: PartitionId) -> None:
        """Take note that a part is closed; the storage is closed with the last part of it."""
        with self._lock:
            found = self._open[path]
            found.parts.remove(partition)
            if not found.parts:
                del self._open[path]
                found.storage.close()

    def is_first(self, path: Path, partition: PartitionId) -> bool:
        """Whether a partition is the first one of those whose parts of a storage are open."""
        with self._lock:
            found = self._open.get(path)
            return found is not None and min(found.parts, default=None) == partition


class StoragePart:
    """What one partition has of a storage that it shares; implements `engine.state.storage.Storage`.

    Args:
        storage: The storage.
        partition: The partition.
        storages: Has it closed with its last part; None where no other part of it is open.
        path: Its directory.
    """

    def __init__(
        self,
        storage: Storage,
        partition: PartitionId,
        storages: SharedStorages | None = None,
        path: Path | None = None,
    ) -> None:
        self.damage = ""
        self._storage = storage
        self._partition = partition
        self._storages = storages
        self._path = path or Path()
        self._prefix = partition.to_bytes(_NUMBER_BYTES, "big")
        self._closing = Lock()
        self._is_closed = False

    def _open_storage(self) -> Storage:
        # The others' parts are open still, so that nothing else says that this one is closed.
        if self._is_closed:
            raise Unavailable("A partition was closed on this host; ask again.")
        return self._storage

    def _range_of(self, within: Range | None) -> Range:
        if within is None:
            return self._prefix, (self._partition + 1).to_bytes(_NUMBER_BYTES, "big")
        return self._prefix + within[0], self._prefix + within[1]

    def get(self, key: bytes) -> bytes | None:
        """As `Storage.get`."""
        return self._open_storage().get(self._prefix + key)

    def get_all(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """As `Storage.get_all`."""
        return self._open_storage().get_all([self._prefix + key for key in keys])

    def write(self, pairs: Iterable[Pair], *, logged: bool = True) -> None:
        """As `Storage.write`."""
        self._open_storage().write(((self._prefix + key, value) for key, value in pairs), logged=logged)

    def write_atomically(self, pairs: Iterable[Pair], removed: Sequence[Range] = ()) -> None:
        """As `Storage.write_atomically`."""
        self._open_storage().write_atomically(
            ((self._prefix + key, value) for key, value in pairs),
            [self._range_of(each) for each in removed],
        )

    def flush(self) -> None:
        """As `Storage.flush`."""
        self._open_storage().flush()

    def reclaim(self, *, is_whole: bool = False, within: Range | None = None) -> None:
        """As `Storage.reclaim`."""
        self._open_storage().reclaim(is_whole=is_whole, within=self._range_of(within))

    def pairs(self, prefix: bytes) -> Iterator[Pair]:
        """As `Storage.pairs`."""
        for key, value in self._open_storage().pairs(self._prefix + prefix):
            yield key[_NUMBER_BYTES:], value

    def beginnings(self, length: int, within: Range | None = None) -> Sequence[bytes]:
        """As `Storage.beginnings`."""
        found = self._open_storage().beginnings(_NUMBER_BYTES + length, self._range_of(within))
        return [key[_NUMBER_BYTES:] for key in found]

    def figures(self) -> Mapping[str, int]:
        """As `Storage.figures`: those of all parts, with the first of them."""
        storage = self._open_storage()
        is_first = self._storages is None or self._storages.is_first(self._path, self._partition)
        return storage.figures() if is_first else {}

    def close(self) -> None:
        """As `Storage.close`."""
        with self._closing:
            if self._is_closed:
                return
            self._is_closed = True
        if self._storages is None:
            self._storage.close()
        else:
            self._storages.close_part(self._path, self._partition)


def partitions_within(storage: Storage) -> Sequence[PartitionId]:
    """The partitions that have anything in a storage that several share."""
    return [PartitionId(int.from_bytes(found, "big")) for found in storage.beginnings(_NUMBER_BYTES)]
