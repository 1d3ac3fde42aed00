"""The partition stores of a group that are open on a host. What is damaged is put aside, and is there without
any rows instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import wait
from functools import partial

from engine.errors import LivestateError
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
        definition_at: Gives what a store is at a generation.
    """

    def __init__(
        self,
        group: GroupName,
        setup: GroupSetup,
        definition_at: Callable[[StoreName, int], StoreDefinition],
    ) -> None:
        self._group = group
        self._setup = setup
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
            self._setup.workers.submit(self._open, definition, number) for definition, number in partitions
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
        definition_at = partial(self._definition_at, definition.name)
        try:
            return self._setup.open(definition, number, definition_at)
        except DamagedError as error:
            self._setup.put_aside(definition, number)
            self.damage[definition.name, number] = error.what
        return self._setup.open(definition, number, definition_at)

    def close_others(self, partitions: Collection[PartitionKey]) -> None:
        """Close all partitions but some, which are closed elsewhere."""
        for key, store in self._opened.items():
            if key not in partitions:
                store.close()
