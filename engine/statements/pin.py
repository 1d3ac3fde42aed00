"""Which epochs and partitions of stores an execution reads."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from engine.errors import Unavailable
from engine.model.schema import Epoch, GroupName, PartitionId, StoreDefinition, StoreName
from engine.scan import StoreSource, StoreView

Views = Mapping[StoreName, StoreView]


class MigratedError(Unavailable):
    """A store has other columns at the epoch that is read than a statement was bound with: it must be bound
    anew.

    Attributes:
        generations: How many amendments are in effect at that epoch, at the least, of each group that is
            read.
    """

    def __init__(self, message: str, generations: Mapping[GroupName, int]) -> None:
        super().__init__(message)
        self.generations = generations


@dataclass(frozen=True)
class Pin:
    """What to read of each store.

    Attributes:
        epochs: The epoch of each store group; None for the newest.
        partitions: The partitions of each store, ascending; None for all.
        digests: As `ReadableEpoch.digest` of the epochs, where they are known.
    """

    epochs: Mapping[GroupName, Epoch] | None = None
    partitions: Mapping[StoreName, tuple[PartitionId, ...]] | None = None
    digests: Mapping[GroupName, str] | None = None

    def views(
        self, source: StoreSource, stores: Mapping[StoreName, StoreDefinition]
    ) -> AbstractContextManager[Views]:
        """Pin stores. Whoever reads the views sees to it that they are what he takes them to be:
        `check_shapes`.

        Args:
            source: Where they are.
            stores: What is read, as it is taken to be.

        Returns:
            A context that gives a view of each.

        Raises:
            NotFound: A store does not exist.
            Unavailable: An epoch or a partition cannot be read here.
        """
        if self.epochs is None and self.partitions is None:
            return source.pin_views(stores)
        return source.pin_views(stores, self.epochs, self.partitions, stores, self.digests)


ALL_NEWEST = Pin()


def check_shapes(views: Views, stores: Mapping[StoreName, StoreDefinition]) -> None:
    """See that stores are what a statement was bound with: a plan of other columns would read wrong ones.

    Args:
        views: The stores at the epochs that are read.
        stores: What the statement was bound with.

    Raises:
        MigratedError: One is not.
    """
    for name, definition in stores.items():
        if not views[name].definition.has_shape_of(definition):
            generations: dict[GroupName, int] = {}
            for view in views.values():
                group = view.definition.group
                generations[group] = max(view.definition.amendment, generations.get(group, 0))
            raise MigratedError(
                f"Store {name} has other columns at epoch {views[name].epoch} here: try again.", generations
            )
