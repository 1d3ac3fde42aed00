"""What the stores of a changelog are, and what they were: definitions as they were created, and the shapes
that migrations gave them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from engine.changelog.checksummed_json import seal, unseal
from engine.changelog.differences import is_as_reordered, new_store_definition, refusal
from engine.changelog.layout import STORES_PATH, definition_path, is_definition
from engine.changelog.migrations import Migration, Migrations
from engine.changelog.objects import Objects
from engine.errors import Corrupt, NotFound, Unavailable
from engine.model.migration import Change, migrate_definition
from engine.model.schema import GroupName, StoreDefinition, StoreName

_MAX_RACES = 100


def missing_definition(store: StoreName) -> Corrupt:
    """The error for rows of a store that the changelog has no definition of."""
    return Corrupt(
        f"The changelog has rows of store {store} and no definition of it: restore the definition from a "
        "backup."
    )


class Definitions:
    """The definitions of a changelog's stores. Each is immutable, and read once. Safe to use from several
    threads.

    All methods raise Corrupt where an object is damaged, and Unavailable when the changelog cannot be
    reached.

    Args:
        objects: The changelog's objects.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._created: dict[str, StoreDefinition] = {}
        self._groups: dict[GroupName, Migrations] = {}

    def first_definition(self, store: StoreName) -> StoreDefinition | None:
        """What a store was at first; None if there is no such store."""
        return self._read(definition_path(store))

    def first_definitions(self, paths: Iterable[str] | None = None) -> list[StoreDefinition]:
        """What all stores were at first.

        Args:
            paths: A listing of all that is below `STORES_PATH`; by default one is made.
        """
        found = [
            self._read(path)
            for path in sorted(self._objects.list(STORES_PATH) if paths is None else paths)
            if is_definition(path)
        ]
        return [definition for definition in found if definition is not None]

    def generation(self, group: GroupName, known: int = 0) -> int:
        """The number of a group's newest migration: see `Migrations.newest_number`."""
        return self._migrations(group).newest_number(known)

    def definition_at(self, store: StoreName, generation: int) -> StoreDefinition | None:
        """What a store is at a generation of its group; None if there is no such store."""
        shapes = self.shapes(store, generation)
        return shapes[-1] if shapes else None

    def shapes(self, store: StoreName, generation: int) -> Sequence[StoreDefinition]:
        """All that a store has been up to a generation of its group, oldest first; empty if there is no such
        store.
        """
        first = self.first_definition(store)
        return (
            () if first is None else (first, *self._migrations(first.group).definitions_of(store, generation))
        )

    def newest_definitions(self, paths: Iterable[str] | None = None) -> dict[StoreName, StoreDefinition]:
        """All stores as the newest migrations have them. One request a group.

        Args:
            paths: As in `all_created`.
        """
        created = self.first_definitions(paths)
        generations = {group: self.generation(group) for group in {first.group for first in created}}
        return {first.name: self.shapes(first.name, generations[first.group])[-1] for first in created}

    def create(self, definition: StoreDefinition) -> StoreDefinition:
        """Create a store, or find it there: see `Changelog.create_store`."""
        self._objects.create(
            definition_path(definition.name), [pa.py_buffer(seal(new_store_definition(definition).to_json()))]
        )
        first = self.first_definition(definition.name)
        if first is None:
            raise Unavailable(
                f"The definition of store {definition.name} was written and cannot be read: try again later."
            )
        shapes = self.shapes(first.name, self.generation(first.group))
        found = [shape for shape in shapes if shape.is_as(definition)] or [
            shape for shape in shapes if is_as_reordered(shape, definition)
        ]
        if not found:
            raise refusal(shapes[-1], definition)
        return found[-1]

    def migrate(self, store: StoreName, changes: Sequence[Change]) -> Migration:
        """Change a store: see `Changelog.migrate_store`."""
        for _ in range(_MAX_RACES):
            first = self.first_definition(store)
            if first is None:
                raise NotFound(f"There is no store {store} in the changelog.")
            generation = self.generation(first.group)
            before = self.shapes(store, generation)[-1]
            after = migrate_definition(before, changes, generation + 1)
            if self._migrations(first.group).create(after):
                return Migration(after.generation, before, after)
        raise Unavailable(f"Others keep migrating stores of the group of {store}: try again later.")

    def _migrations(self, group: GroupName) -> Migrations:
        return self._groups.setdefault(group, Migrations(self._objects, group))

    def _read(self, path: str) -> StoreDefinition | None:
        if path not in self._created:
            data = self._objects.get(path)
            if data is None:
                return None
            definition = StoreDefinition.from_json(
                unseal(data.to_pybytes(), "A store definition in the changelog")
            )
            if definition_path(definition.name) != path:
                raise Corrupt(
                    f"The definition of store {definition.name} lies where another one's should be: restore "
                    "the changelog from a backup."
                )
            self._created[path] = definition
        return self._created[path]
