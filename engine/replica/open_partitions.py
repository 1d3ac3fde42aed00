"""The partition stores of a group that are open on a host. What is damaged is put aside, and is there without
any rows instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import wait
from contextlib import suppress
from functools import partial

from engine.changelog import Changelog
from engine.errors import Corrupt, LivestateError
from engine.model.schema import GroupName, PartitionId, StoreDefinition, StoreName
from engine.replica.group_setup import GroupSetup
from engine.replica.open_files import FileNeed, file_need
from engine.replica.partition_keys import PartitionKey
from engine.replica.partition_places import Place
from engine.state.damage import DamagedError
from engine.state.partition import PartitionStore


class _LostShapeError(DamagedError):
    """A partition is in a shape of epochs that the changelog has lost."""


class OpenPartitions:
    """Opens the partitions of a group, each once. One thread at a time opens; any may list them.

    Attributes:
        damage: What was damaged of partitions that were put aside since somebody last emptied this.

    Args:
        group: The group.
        setup: What it shares with other groups.
        changelog: Where its commits are.
        definition_at: Gives what a store is at a generation.
    """

    def __init__(
        self,
        group: GroupName,
        setup: GroupSetup,
        changelog: Changelog,
        definition_at: Callable[[StoreName, int], StoreDefinition],
    ) -> None:
        self._group = group
        self._setup = setup
        self._changelog = changelog
        self._definition_at = definition_at
        self._opened: dict[PartitionKey, PartitionStore] = {}
        self._places: dict[PartitionKey, Place] = {}
        """Where the partitions are that were to be opened."""
        self.damage: dict[PartitionKey, str] = {}

    def stores(self) -> Sequence[PartitionStore]:
        """All open partition stores."""
        return list(self._opened.values())

    def partitions_of(self, stores: Collection[StoreName]) -> Mapping[PartitionKey, PartitionStore]:
        """The open partitions of some stores."""
        return {key: store for key, store in self._opened.items() if key[0] in stores}

    def partitions_of_keys(self, keys: Collection[PartitionKey]) -> Mapping[PartitionKey, PartitionStore]:
        """Some open partitions."""
        return {key: self._opened[key] for key in keys}

    @property
    def file_need(self) -> FileNeed:
        """The files that the open partitions take."""
        return file_need([self._places[key] for key in list(self._opened)])

    def needs_of(self, definition: StoreDefinition, partitions: Iterable[PartitionId]) -> FileNeed:
        """The files that some partitions of a store take, or would take."""
        return file_need(self._setup.place_of(definition, number) for number in partitions)

    def open_all(self, partitions: Iterable[tuple[StoreDefinition, PartitionId]]) -> None:
        """Open partitions side by side; those that share a place one after the other. Also where one cannot
        be opened none is half open when this ends: the next try opens the rest.

        Args:
            partitions: Stores, in any of their shapes, and partitions of them.

        Raises:
            LivestateError: A partition cannot be opened; the message names it.
        """
        by_place: dict[Place, tuple[StoreDefinition, list[PartitionId]]] = {}
        for definition, number in partitions:
            place = self._places[definition.name, number] = self._setup.place_of(definition, number)
            by_place.setdefault(place, (definition, []))[1].append(number)
        opening = [self._setup.open_workers.submit(self._open_together, *each) for each in by_place.values()]
        wait(opening)
        for each in opening:
            each.result()

    def neighbours(self, key: PartitionKey) -> Sequence[PartitionKey]:
        """The partitions that are where one of them is, itself among them: what is damaged of one is put
        aside with all of them.
        """
        place = self._places.get(key)
        if place is None or not place.is_shared:
            return [key]
        return [each for each, found in self._places.items() if found == place]

    def with_neighbours(self, damage: Mapping[PartitionKey, str]) -> Mapping[PartitionKey, str]:
        """What is damaged of each partition, and of those that share its place.

        Args:
            damage: What is damaged of some partitions.
        """
        by_place = {self._places[key]: what for key, what in damage.items() if key in self._places}
        return {key: by_place[place] for key, place in self._places.items() if place in by_place}

    def reopen_empty(
        self, definition: StoreDefinition, number: PartitionId, *, is_lost: bool
    ) -> Sequence[PartitionKey]:
        """Put aside what an open partition has, and open it without any rows; likewise all that share its
        place.

        Args:
            definition: Its store, in any of its shapes.
            number: Its number.
            is_lost: As for `GroupSetup.put_aside`.

        Returns:
            Those that were opened.

        Raises:
            LivestateError: It cannot be put aside or opened; the next call tries again.
        """
        keys = self.neighbours((definition.name, number))
        # Where one is not open, an earlier call has put them aside, and failed then.
        if all(key in self._opened for key in keys):
            self._put_aside(definition, keys, is_lost=is_lost)
        self._open_each(definition, keys)
        return keys

    def forget(self, stores: Collection[StoreName]) -> None:
        """Close the partitions of some stores, of which nothing is of any use any more.

        Args:
            stores: The stores.
        """
        for key in [key for key in self._opened if key[0] in stores]:
            self._opened.pop(key).abandon()
        for key in [key for key in self._places if key[0] in stores]:
            del self._places[key]

    def _open_together(self, definition: StoreDefinition, numbers: Sequence[PartitionId]) -> None:
        """Open partitions that are in one place, as the disk has them, or without any rows where one of them
        is damaged.
        """
        keys = [(definition.name, number) for number in numbers]
        try:
            self._open_each(definition, keys)
        except DamagedError as error:
            self._put_aside(definition, keys, is_lost=isinstance(error, _LostShapeError))
            self.damage.update(dict.fromkeys(keys, error.what))
        else:
            return
        self._open_each(definition, keys)

    def _open_each(self, definition: StoreDefinition, keys: Iterable[PartitionKey]) -> None:
        for key in keys:
            # A partition that is open already is left of a try in which another one could not be opened.
            if key not in self._opened:
                try:
                    store = self._setup.open(definition, key[1], partial(self._shape, definition.name))
                except LivestateError as error:
                    message = (
                        f"Partition {key[1]} of store {definition.name} cannot be opened: {error.message}"
                    )
                    if isinstance(error, DamagedError):
                        raise type(error)(message, error.what) from error
                    raise type(error)(message) from error
                self._opened[key] = store
                if not store.is_in_shape:
                    self._setup.request_compaction(self._group, store)

    def _put_aside(self, definition: StoreDefinition, keys: Sequence[PartitionKey], *, is_lost: bool) -> None:
        """Close all partitions of a place that are open, and put aside what the disk has of them."""
        opened = [key for key in keys if key in self._opened]
        for key in opened:
            if is_lost:
                # What is in memory alone is nowhere else.
                with suppress(LivestateError):
                    self._opened[key].write()
            self._opened[key].abandon()
        self._setup.put_aside(definition, keys[0][1], is_lost=is_lost)
        for key in opened:
            del self._opened[key]

    def _shape(self, store: StoreName, generation: int) -> StoreDefinition:
        """What a store is at the generation of a partition.

        Raises:
            _LostShapeError: No commit of the changelog has come so far: it was restored from an older copy.
            LivestateError: As the function that gives shapes.
        """
        try:
            return self._definition_at(store, generation)
        except Corrupt:
            newest = self._changelog.newest_listed_epoch(self._group)
            commit = self._changelog.read_commit(self._group, newest) if newest else None
            if commit is None or commit.generation >= generation:
                raise
            raise _LostShapeError(
                f"Migration {generation} of store group {self._group} is not in the changelog any more, "
                "which was restored from an older copy.",
                "a shape that the changelog does not have any more",
            ) from None

    def close_others(self, partitions: Collection[PartitionKey]) -> None:
        """Close all partitions but some, which are closed elsewhere."""
        for key, store in self._opened.items():
            if key not in partitions:
                store.close()
