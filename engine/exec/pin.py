"""Which epochs and partitions of stores an execution reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from engine.scan import StoreSource, StoreView
from engine.schema import Epoch, GroupName, PartitionId, StoreName


@dataclass(frozen=True)
class Pin:
    """What to read of each store.

    Attributes:
        epochs: The epoch of each store group; None for the newest.
        partitions: The partitions of each store, ascending; None for all.
    """

    epochs: Mapping[GroupName, Epoch] | None = None
    partitions: Mapping[StoreName, tuple[PartitionId, ...]] | None = None

    def views(self, source: StoreSource, stores: Collection[StoreName]) -> AbstractContextManager[Mapping[StoreName, StoreView]]:
        """Pin stores.

        Args:
            source: Where they are.
            stores: Their names.

        Returns:
            A context that gives a view of each.

        Raises:
            NotFound: A store does not exist.
            Unavailable: An epoch or a partition cannot be read here.
        """
        if self.epochs is None and self.partitions is None:
            return source.snapshot(stores)
        return source.snapshot(stores, self.epochs, self.partitions)


ALL_NEWEST = Pin()
