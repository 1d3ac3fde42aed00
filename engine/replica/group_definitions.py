"""What the stores of a group are, from one migration to the next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from engine.changelog import Changelog, Exclusions, StoreDrop
from engine.changelog.definitions import missing_definition
from engine.errors import Unavailable
from engine.model.schema import GroupName, PartitionId, StoreDefinition, StoreDefinitions, StoreName


class GroupDefinitions:
    """The stores of a group on a host. One thread at a time adds stores; any may ask what a store is.

    Args:
        changelog: Where the definitions are.
        held: Gives the partitions of a store that this host holds; asked once for each store.

    Attributes:
        found: The stores that the changelog has, those included whose partitions could not be opened yet.
    """

    def __init__(
        self, changelog: Changelog, held: Callable[[StoreDefinition], Collection[PartitionId]]
    ) -> None:
        self.found: dict[StoreName, StoreDefinition] = {}
        self._changelog = changelog
        self._ask_held = held
        self._held: dict[StoreName, Collection[PartitionId]] = {}
        self._first: dict[StoreName, StoreDefinition | None] = {}
        """What the stores that are here were at first."""
        self._drops: dict[StoreName, StoreDrop | None] = {}
        """The end of the last store of a name, which the one that is here has followed."""
        self._others: Collection[StoreName] = ()
        """Those that the changelog, as it was restored, has others of behind the same end, or none."""
        self._compared: Exclusions | None = None
        """What had been decided of the group when that was seen: it is others when anything else may be."""
        self._replaced: set[tuple[StoreName, int]] = set()
        """All that ever were, by name and `StoreDefinition.since`."""
        self._confirmed: set[StoreName] = set()
        """Stores that have rows here, or have been seen to be those of the changelog before they got some."""
        self._open: dict[StoreName, None] = {}
        self._by_generation: dict[int, StoreDefinitions] = {}

    def held_partitions(self, definition: StoreDefinition) -> Collection[PartitionId]:
        """The partitions of a store that this host holds."""
        if definition.name not in self._held:
            self._held[definition.name] = self._ask_held(definition)
        return self._held[definition.name]

    @property
    def open_names(self) -> Collection[StoreName]:
        """The stores that are open."""
        return list(self._open)

    def new_stores(self, definitions: Iterable[StoreDefinition]) -> Mapping[StoreName, StoreDefinition]:
        """Those of some stores that are not open yet."""
        return {each.name: each for each in definitions if each.name not in self._open}

    def unknown_stores(self, stores: Collection[StoreName]) -> Collection[StoreName]:
        """Those of some stores that are not open yet, by name in order."""
        return sorted(set(stores) - self._open.keys())

    def note_open(self, stores: Collection[StoreName]) -> None:
        """Take note that the partitions of some stores are open."""
        self._open.update(dict.fromkeys(stores))
        self._by_generation.clear()

    def add(
        self, definitions: Mapping[StoreName, StoreDefinition], drops: Mapping[StoreName, StoreDrop]
    ) -> None:
        """Take note of stores that the changelog has.

        Args:
            definitions: The stores.
            drops: The last ends of stores of their names.

        Raises:
            LivestateError: What they were at first cannot be read.
        """
        self._first.update({name: self._changelog.definition_at(name, 0) for name in definitions})
        self._compared = None
        self._drops.update({name: drops.get(name) for name in definitions})
        self.found.update(definitions)

    def is_back(self, store: StoreName) -> bool:
        """Whether a store that is here had ended, as far as this host had heard before, or was another one:
        the changelog was restored from a copy of before that. Epochs up to the group's may have rows of it.
        """
        group, since = self.found[store].group, self.found[store].since
        return (
            since < self._changelog.amendments(group).newest_ends.get(store, 0)
            or (store, since) in self._replaced
        )

    def ended_stores(self) -> Mapping[StoreName, StoreDefinition]:
        """The stores that are here and were dropped from the changelog; or are in its place, where the
        changelog was restored from a copy of before that.

        Raises:
            LivestateError: What was decided of the group cannot be read.
        """
        if not self.found:
            return {}
        (group,) = {definition.group for definition in self.found.values()}
        exclusions = self._changelog.exclusions(group)
        drops = exclusions.drops
        if exclusions is not self._compared:
            self._others = [name for name in self.found if self._is_another(name)]
            self._replaced.update((name, self.found[name].since) for name in self._others)
            self._compared = exclusions
        # Their numbers may be the same in a changelog that was restored. A definition can be older than the
        # drop that was heard of with it.
        return {
            name: definition
            for name, definition in self.found.items()
            if self._drops.get(name) != (drop := drops.get(name))
            or definition.since != (drop.number if drop else 0)
            or name in self._others
        }

    def _is_another(self, store: StoreName) -> bool:
        """Whether the changelog has no such store as is here any more, or another one behind the same end."""
        first = self._first.get(store)
        return first is not None and self._changelog.definition_at(store, 0) != first

    def check_none_ended(self) -> None:
        """See that no store was dropped that is here still, as far as this host has heard.

        Raises:
            Unavailable: One was.
            LivestateError: As `ended_stores`.
        """
        ended = self.ended_stores()
        if ended:
            names = ", ".join(sorted(ended))
            raise Unavailable(f"The host lets go of stores that were dropped before it goes on: {names}.")

    def confirm(self, stores: Collection[StoreName]) -> None:
        """See that the changelog has no others in the place of stores that are to get rows, and that none has
        ended. Of a store that has rows already the digests of commits tell that; before that a changelog can
        be restored from a copy that does not have it, and have another one under its name.

        Args:
            stores: Those that are to get rows.

        Raises:
            Unavailable: There is another one; or as `check_none_ended`.
            LivestateError: That cannot be read.
        """
        for name in stores:
            if name not in self._confirmed:
                self._changelog.read_definition_again(name)
        self.check_none_ended()
        self._confirmed.update(stores)

    def forget(self, stores: Collection[StoreName]) -> None:
        """Take note that some stores are not here any more."""
        self._others = [name for name in self._others if name not in stores]
        self._confirmed.difference_update(stores)
        for name in stores:
            self.found.pop(name, None)
            self._held.pop(name, None)
            self._first.pop(name, None)
            self._drops.pop(name, None)
            self._open.pop(name, None)
        self._by_generation.clear()

    def definition_at(self, store: StoreName, generation: int) -> StoreDefinition:
        """What a store is at a generation; also at one that is not here yet.

        Raises:
            Corrupt: Its definition or a migration is damaged or missing.
            Unavailable: The changelog cannot be reached; or as `check_none_ended`.
        """
        found = self._changelog.definition_at(store, generation)
        if found is None:
            self.check_none_ended()
            raise missing_definition(store)
        return found

    def find_definition(self, group: GroupName, store: StoreName, generation: int) -> StoreDefinition | None:
        """As `definition_at`, from any thread; None of a store that was dropped."""
        found = self._changelog.definition_at(store, generation)
        if found is None and store not in self._changelog.exclusions(group).drops:
            raise missing_definition(store)
        return found

    def forget_shapes(self, beyond: int = -1) -> None:
        """Ask again what stores are beyond a generation, or at all."""
        for generation in [generation for generation in self._by_generation if generation > beyond]:
            del self._by_generation[generation]

    def open_stores(self, generation: int) -> StoreDefinitions:
        """All open stores as they are at a generation.

        Raises:
            LivestateError: As `definition_at` and `check_none_ended`.
        """
        if generation not in self._by_generation:
            self._by_generation[generation] = self.read_open_stores(generation)
        return self._by_generation[generation]

    def read_open_stores(self, generation: int) -> StoreDefinitions:
        """As `open_stores`; also where a changelog that was restored has other migrations by now."""
        self.check_none_ended()
        shapes = {name: self.definition_at(name, generation) for name in self._open}
        self.check_none_ended()  # else they may be those of others of these names
        return shapes
