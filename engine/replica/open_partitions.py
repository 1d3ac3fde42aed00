"""The partition stores of a group that are open on a host. What is damaged is put aside, and is there without
any rows instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import wait
from functools import partial

from engine.changelog import Changelog
from engine.errors import Corrupt, LivestateError
from engine.model.schema import GroupName, PartitionId, StoreDefinition, StoreName
from engine.replica.group_setup import GroupSetup
from engine.replica.partition_keys import PartitionKey
from engine.state.damage import DamagedError
from engine.state.partition import PartitionStore


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

    def open_all(self, partitions: Iterable[tuple[StoreDefinition, PartitionId]]) -> None:
        """Open partitions side by side. Also where one cannot be opened none is half open when this ends: the
        next try opens the rest.

        Args:
            partitions: Stores, in any of their shapes, and partitions of them.

        Raises:
            LivestateError: A partition cannot be opened; the message names it.
        """
        opening = [
            self._setup.open_workers.submit(self._open, definition, number)
            for definition, number in partitions
        ]
        wait(opening)
        for each in opening:
            each.result()

    def reopen_empty(self, definition: StoreDefinition, number: PartitionId) -> None:
        """Put aside what an open partition has, and open it without any rows.

        Args:
            definition: Its store, in any of its shapes.
            number: Its number.

        Raises:
            LivestateError: It cannot be put aside or opened; it is open as it was, or is not there any more.
        """
        self._opened[definition.name, number].abandon()
        self._setup.put_aside(definition, number)
        del self._opened[definition.name, number]
        self._open(definition, number)

    def forget(self, stores: Collection[StoreName]) -> None:
        """Close the partitions of some stores, of which nothing is of any use any more.

        Args:
            stores: The stores.
        """
        for key in [key for key in self._opened if key[0] in stores]:
            self._opened.pop(key).abandon()

    def _open(self, definition: StoreDefinition, number: PartitionId) -> None:
        # A partition that is open already is left of a try in which another one could not be opened.
        if (definition.name, number) not in self._opened:
            try:
                store = self._open_or_put_aside(definition, number)
            except LivestateError as error:
                raise type(error)(
                    f"Partition {number} of store {definition.name} cannot be opened: {error.message}"
                ) from error
            self._opened[definition.name, number] = store
            if not store.is_in_shape:
                self._setup.request_compaction(self._group, store)

    def _open_or_put_aside(self, definition: StoreDefinition, number: PartitionId) -> PartitionStore:
        """A partition as the disk has it, or without any rows where that is damaged."""
        definition_at = partial(self._shape, definition.name)
        try:
            return self._setup.open(definition, number, definition_at)
        except DamagedError as error:
            self._setup.put_aside(definition, number)
            self.damage[definition.name, number] = error.what
        return self._setup.open(definition, number, definition_at)

    def _shape(self, store: StoreName, generation: int) -> StoreDefinition:
        """What a store is at the generation of a partition.

        Raises:
            DamagedError: No commit of the changelog has come so far: it was restored from an older copy.
            LivestateError: As the function that gives shapes.
        """
        try:
            return self._definition_at(store, generation)
        except Corrupt:
            newest = self._changelog.newest_epoch(self._group)
            commit = self._changelog.read_commit(self._group, newest) if newest else None
            if commit is None or commit.generation >= generation:
                raise
            raise DamagedError(
                f"Migration {generation} of store group {self._group} is not in the changelog any more, "
                "which was restored from an older copy.",
                "a shape that the changelog does not have any more",
            ) from None

    def close_others(self, partitions: Collection[PartitionKey]) -> None:
        """Close all partitions but some, which are closed elsewhere."""
        for key, store in self._opened.items():
            if key not in partitions:
                store.close()
