"""The stores that can be asked on a host, and what queries get of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from engine.cluster.progress import outlook
from engine.cluster.reports import GroupReport, StoreReport
from engine.errors import NotFound, Unavailable
from engine.model.schema import Epoch, GroupName, PartitionId, StoreDefinitions, StoreName
from engine.replica.group import FollowedGroup
from engine.replica.group_views import GroupView
from engine.scan import BuildingError, StoreView
from engine.state.state_view import StateView


@dataclass(frozen=True)
class StoreCatalog:
    """The stores that can be asked, by which names, and which group each is in; replaced as a whole when
    anything of it is another. Its methods are for any thread.

    Attributes:
        definitions: The stores.
        tables: What names of SQL mean: the stores of these names, unless they were switched.
        owners: The group of each store.
        groups: All groups, those included of which nothing can be read yet.
        histories: How often the history of each group was forgotten: with the same stores now, they may have
            been others before.
    """

    definitions: StoreDefinitions
    tables: StoreDefinitions
    owners: Mapping[StoreName, FollowedGroup]
    groups: tuple[FollowedGroup, ...]
    histories: tuple[int, ...] = ()

    def renew(
        self,
        groups: Collection[FollowedGroup],
        switches: Mapping[StoreName, StoreName],
        damaged_names: Collection[StoreName] = (),
    ) -> StoreCatalog:
        """The catalog as it is now; this one if nothing is another.

        Args:
            groups: All groups.
            switches: Names of SQL that mean another store.
            damaged_names: Names of SQL of which nobody knows what they mean: they mean nothing.
        """
        all_groups = tuple(groups)
        definitions = {
            name: definition for group in all_groups for name, definition in group.definitions.items()
        }
        switched = {name: definitions[store] for name, store in switches.items() if store in definitions}
        tables = {
            name: store for name, store in (definitions | switched).items() if name not in damaged_names
        }
        owners = {name: group for group in all_groups for name in group.definitions}
        histories = tuple(group.times_forgotten for group in all_groups)
        found = StoreCatalog(
            definitions, tables if tables != definitions else definitions, owners, all_groups, histories
        )
        return self if found == self else found

    def definitions_of(self, generations: Mapping[GroupName, int]) -> StoreDefinitions:
        """As `StoreSource.definitions_of`."""
        found = dict(self.definitions)
        for name, group in self.owners.items():
            if group.group in generations:
                definition = group.find_definition(name, generations[group.group])
                if definition is None:
                    found.pop(name, None)
                else:
                    found[name] = definition
        return found

    def views(
        self,
        stores: Collection[StoreName],
        epochs: Mapping[GroupName, Epoch] | None,
        partitions: Mapping[StoreName, Collection[PartitionId]] | None,
        shapes: StoreDefinitions | None,
        digests: Mapping[GroupName, str] | None,
    ) -> Mapping[StoreName, StoreView]:
        """As `StoreSource.pin_views`. The views are immutable; holding them is what keeps their bytes."""
        views: dict[StoreName, StoreView] = {}
        groups: dict[GroupName, GroupView] = {}
        for store in stores:
            group = self._owner(store)
            wanted = None if partitions is None else partitions.get(store)
            epoch = None if epochs is None else epochs.get(group.group)
            if wanted is not None and not wanted:
                # No partition is asked for: that can be had of any epoch.
                definition = (shapes or self.definitions)[store]
                views[store] = StateView(definition, group.epoch if epoch is None else epoch, 0, {})
                continue
            if epochs is not None and epoch is None:
                raise Unavailable(
                    f"Store {store} was made anew in store group {group.group} after the statement was "
                    "planned: try again."
                )
            view = groups.get(group.group)
            if view is None:
                view = groups[group.group] = _view_at(group, epoch)
                if digests:
                    view.check_digest(digests.get(group.group, ""))
            views[store] = view.store(store, wanted)
        return views

    def hold(self, epochs: Mapping[GroupName, Epoch], seconds: float) -> None:
        """As `StoreSource.hold`."""
        groups = {group.group: group for group in self.groups}
        for name, epoch in epochs.items():
            if name not in groups:
                raise NotFound(f"There is no store group {name}.")
            groups[name].readable.hold(epoch, seconds)

    def report(self) -> tuple[Mapping[GroupName, GroupReport], Mapping[StoreName, StoreReport]]:
        """As `StoreSource.report`."""
        reported = [(group.group, *group.reported) for group in self.groups]
        return {name: group for name, group, _ in reported}, {
            name: store for _, _, stores in reported for name, store in stores.items()
        }

    def complete_until(self, stores: Collection[StoreName]) -> int:
        """As `StoreSource.complete_until`."""
        # Each lookup asks: a generator, and `min` over it, take three times as long.
        until: int | None = None
        for store in stores:
            group = self.owners.get(store)
            if group is not None:
                found = group.reported[0].complete_until
                until = found if until is None or found < until else until
        return until or 0

    def _owner(self, store: StoreName) -> FollowedGroup:
        owner = self.owners.get(store)
        if owner is None:
            raise NotFound(f"There is no store {store}.")
        return owner


def _view_at(group: FollowedGroup, epoch: Epoch | None) -> GroupView:
    """The view of a group at an epoch; the newest for None."""
    view = group.view
    if view is None and epoch is not None and group.readable.has_past(epoch):
        return group.readable.view_at(epoch)
    if view is None:
        report, _ = group.reported
        raise BuildingError(f"Group {group.group} is being built on this host{outlook(report)}")
    return view if epoch is None or epoch == view.epoch else group.readable.view_at(epoch)
