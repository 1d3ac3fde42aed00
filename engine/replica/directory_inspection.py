"""Reads the data directory of a host that is stopped, partition by partition, and says what is wrong with
each. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from engine.changelog import Changelog, Inspected
from engine.errors import Corrupt, InvalidInput, LivestateError, NotFound
from engine.model.schema import Epoch, GroupName, PartitionId, StoreDefinition
from engine.replica.data_directory import kept_catalog, owner_of
from engine.replica.partition_keys import partition_names
from engine.replica.partition_places import Place, place_of
from engine.state.cache import ColumnCache
from engine.state.partition import PartitionStore
from engine.state.rocks import Rocks
from engine.state.shared_storage import StoragePart, partitions_within
from engine.state.state_options import MIB, StateOptions


class DirectoryInspection:
    """Reads a data directory. For one thread.

    Args:
        directory: The data directory.
        changelog: The changelog that its host follows, which says what the stores are.

    Raises:
        NotFound: There is no such changelog.
        InvalidInput: The directory belongs to another changelog.
        LivestateError: The changelog cannot be reached or read, or the directory's mark is damaged.
    """

    def __init__(self, directory: Path, changelog: Changelog) -> None:
        identity = changelog.identity(is_fresh=True)
        if identity is None:
            raise NotFound(
                f"There is no changelog at {changelog.uri}: say with --changelog URI which one the host "
                "follows."
            )
        if owner_of(directory) != identity:
            raise InvalidInput(
                "The data directory belongs to another changelog: say with --changelog to which."
            )
        self._directory = directory
        self._changelog = changelog
        self._digests: dict[tuple[GroupName, Epoch], str] = {}
        places = [
            (definition, PartitionId(number), place_of(directory, definition, PartitionId(number)))
            for definition in changelog.readable_catalog().stores.values()
            for number in range(definition.partitions)
        ]
        there = {place: self._partitions_within(place) for _, _, place in places}
        self._partitions = [
            (definition, number, place)
            for definition, number, place in places
            if (within := there[place]) is None or number in within
        ]

    def __len__(self) -> int:
        """How many partitions there are to be read."""
        return len(self._partitions)

    def read(self) -> Iterator[Inspected]:
        """All partitions that the directory has, and what is kept of the catalogue where that is damaged.

        Raises:
            Unavailable: The changelog cannot be reached.
        """
        try:
            kept_catalog(self._directory)
        except Corrupt as error:
            yield Inspected("The file catalog.json", 0, (error.message,))
        for definition, number, place in self._partitions:
            yield self._read_partition(definition, number, place)

    def _partitions_within(self, place: Place) -> Collection[PartitionId] | None:
        """The partitions that are in a place; None for all that may be."""
        path = self._directory / place.path
        if not path.is_dir():
            return ()
        if not place.is_shared:
            return None
        try:
            with closing(Rocks(path, StateOptions(), is_read_only=True)) as rocks:
                return partitions_within(rocks)
        except LivestateError:
            return None  # each of them says what is wrong when it is read

    def _read_partition(self, definition: StoreDefinition, number: PartitionId, place: Place) -> Inspected:
        name, nbytes = f"Partition {partition_names([(definition.name, number)])}", 0
        path = self._directory / place.path
        try:
            storage = (
                StoragePart(Rocks(path, StateOptions(), is_read_only=True), number)
                if place.is_shared
                else None
            )
            store = PartitionStore(
                definition,
                number,
                path,
                ColumnCache(MIB),
                StateOptions(),
                definition_at=partial(self._definition_at, definition),
                is_read_only=True,
                storage=storage,
            )
            try:
                store.check_records()
                for entry in store.version.all_segments:
                    for block in range(entry.segment.blocks):
                        nbytes += entry.segment.stored.check_block(block)
                faults = self._history_faults(definition.group, store)
            finally:
                store.abandon()
        except LivestateError as error:
            return Inspected(name, nbytes, (error.message,))
        return Inspected(name, nbytes, faults)

    def _definition_at(self, definition: StoreDefinition, generation: int) -> StoreDefinition:
        found = self._changelog.definition_at(definition.name, generation)
        return definition if found is None else found

    def _history_faults(self, group: GroupName, store: PartitionStore) -> tuple[str, ...]:
        """Whether a partition has applied the commits that the changelog has."""
        if not store.applied or not store.digest:
            return ()
        key = group, store.applied
        if key not in self._digests:
            self._digests[key] = self._digest(*key)
        if self._digests[key] in ("", store.digest):
            return ()
        other = f"it has applied another epoch {store.applied} than the changelog has, of before a restore"
        return (f"{other}: its host builds it again, or never reads it where it holds it no more.",)

    def _digest(self, group: GroupName, epoch: Epoch) -> str:
        """The digest of an epoch; empty where it has given way to a snapshot, or is damaged."""
        try:
            commit = self._changelog.read_commit(group, epoch)
        except Corrupt:
            return ""
        if commit is not None:
            return commit.digest
        return "" if any(epoch <= later for later in self._changelog.snapshots(group).epochs()) else "none"
