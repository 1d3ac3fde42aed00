"""What stores are at the epochs that statements read: a store that was migrated has other columns before and
after.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from engine.model.schema import GroupName, StoreDefinition, StoreName
from engine.scan import StoreSource

Generations = Mapping[GroupName, int]
"""How many amendments of each store group are in effect."""

NO_SHAPE = -1
"""The number of the shape of a store that there is not, or another one of its name: it was dropped."""

_ShapeKey = tuple[StoreName, int, int]
"""A store, its `StoreDefinition.since`, and a generation of its group."""


class Shapes:
    """Knows which shape stores have at which generation of their groups. Safe for threads.

    Args:
        source: Knows the stores.
    """

    def __init__(self, source: StoreSource) -> None:
        self._source = source
        # What was found stays true until stores are others: the changelog may have been restored.
        self._known: tuple[Mapping[StoreName, StoreDefinition], dict[_ShapeKey, int]] = {}, {}

    def fit(self, stores: Mapping[StoreName, StoreDefinition], generations: Generations) -> bool:
        """Whether stores are what they are taken to be.

        Args:
            stores: What they are taken to be.
            generations: Those of their groups; 0 for groups that are not named.

        Raises:
            Unavailable: It is not known here, and the changelog cannot be reached.
        """
        for definition in stores.values():
            generation = generations.get(definition.group, 0)
            if definition.since > generation or (
                definition.generation != generation
                and self._shape(definition, generation) != definition.generation
            ):
                return False
        return True

    def _shape(self, definition: StoreDefinition, generation: int) -> int:
        """The number of the shape that a store has at a generation of its group; `NO_SHAPE` if there is no
        such store.
        """
        stores = self._source.definitions()
        known_of, known = self._known
        if known_of is not stores:
            known = {}
            self._known = stores, known
        key = (definition.name, definition.since, generation)
        found = known.get(key)
        if found is None:
            there = self._source.definitions_of({definition.group: generation}).get(definition.name)
            is_same = (
                there is not None and there.group == definition.group and there.since == definition.since
            )
            found = known[key] = there.generation if there is not None and is_same else NO_SHAPE
        return found

    def generations_of(
        self, stores: Mapping[StoreName, StoreDefinition], known: Generations
    ) -> Mapping[GroupName, range]:
        """At which generations stores are what they are taken to be.

        Args:
            stores: What they are taken to be.
            known: Generations up to which that is to be found out; it is taken to be so at all later ones.

        Raises:
            Unavailable: It is not known here, and the changelog cannot be reached.
        """
        found: dict[GroupName, range] = {}
        for definition in stores.values():
            others = found.get(definition.group, range(sys.maxsize))
            # Before that it is another store of its name, or has another shape.
            first = definition.amendment
            later = range(first + 1, known.get(definition.group, 0) + 1)
            end = next(
                (number for number in later if self._shape(definition, number) != definition.generation),
                sys.maxsize,
            )
            found[definition.group] = range(max(first, others.start), min(end, others.stop))
        return found
