"""What the stores of a changelog are, and what they were: definitions as they were created, and the shapes
that migrations gave them.

A store that is dropped leaves its definition behind, and the next one of its name gets another object: so
whoever finds the newest definition of a name, and the drops of its group, knows whether there is a store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from engine.changelog.amendments import Amendments, Exclusions, Migration, StoreDrop
from engine.changelog.checksummed_json import seal, unseal
from engine.changelog.decisions import Author, Decision
from engine.changelog.differences import (
    check_names_mean_the_same,
    is_as_reordered,
    new_store_definition,
    refusal,
)
from engine.changelog.layout import STORES_PATH, definition_incarnation, definition_path
from engine.changelog.objects import MAX_RACES, Objects
from engine.changelog.requests import ask_each
from engine.errors import Corrupt, NotFound, Unavailable
from engine.model.migration import Change, migrate_definition
from engine.model.schema import GroupName, StoreDefinition, StoreName


def missing_definition(store: StoreName) -> Corrupt:
    """The error for rows of a store that the changelog has no definition of."""
    return Corrupt(
        f"The changelog has rows of store {store} and no definition of it: restore the definition from a "
        "backup."
    )


class _ReadDefinition(NamedTuple):
    """A definition as it was read.

    Attributes:
        definition: The definition.
        times_forgotten: As of the amendments of its group, before it was read.
        times_checked: Likewise.
    """

    definition: StoreDefinition
    times_forgotten: int
    times_checked: int


class Definitions:
    """The definitions of a changelog's stores. Each is immutable, and read once; again when the amendments of
    its group are, as a changelog that was restored from an older copy may have another one, or none. The last
    one of a name that followed a drop is read again whenever they are checked: it may be another one behind
    the same drop. Safe to use from several threads.

    All methods raise Corrupt where an object is damaged, and Unavailable when the changelog cannot be
    reached.

    Args:
        objects: The changelog's objects.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._created: dict[str, _ReadDefinition] = {}
        self._incarnations: dict[StoreName, int] = {}
        self._groups: dict[GroupName, Amendments] = {}

    def amendments(self, group: GroupName) -> Amendments:
        """The amendments of a group."""
        return self._groups.setdefault(group, Amendments(self._objects, group))

    def first_definition(self, store: StoreName) -> StoreDefinition | None:
        """What a store was at first; None if there is no such store."""
        for incarnation, definition, drop in self._incarnations_of(store):
            if drop is None or drop.incarnation < incarnation:
                return replace(definition, since=0 if drop is None else drop.number)
        return None

    def drop_of(self, store: StoreName) -> tuple[StoreDefinition, StoreDrop] | None:
        """The last store of a name that was dropped, as it was at first, and its end; None if there is a
        store of this name, or never was.
        """
        last = None
        for incarnation, definition, drop in self._incarnations_of(store):
            if drop is None or drop.incarnation < incarnation:
                return None
            last = definition, drop
        return last

    def incarnation(self, store: StoreName) -> int:
        """How many stores of a name were dropped before the one that there is, or was last."""
        return max((incarnation for incarnation, _, _ in self._incarnations_of(store)), default=0)

    def _incarnations_of(self, store: StoreName) -> Iterator[tuple[int, StoreDefinition, StoreDrop | None]]:
        """The stores of a name from the last one on that was found: how many there were before each, and the
        last drop of the name in its group.
        """
        incarnation = self._incarnations.get(store, 0)
        if incarnation and not self._is_over(store, incarnation - 1):
            incarnation = 0  # the changelog was restored from a copy of before the last one ended
        while (definition := self._read(definition_path(store, incarnation))) is not None:
            self._incarnations[store] = incarnation
            yield incarnation, definition, self.amendments(definition.group).exclusions().drops.get(store)
            incarnation += 1

    def _is_over(self, store: StoreName, incarnation: int) -> bool:
        """Whether an earlier store of a name was dropped."""
        definition = self._read(definition_path(store, incarnation))
        if definition is None:
            return False
        drop = self.amendments(definition.group).exclusions().drops.get(store)
        return drop is not None and drop.incarnation >= incarnation

    def first_definitions(
        self, paths: Iterable[str] | None = None, faults: dict[str, Corrupt] | None = None
    ) -> list[StoreDefinition]:
        """What all stores were at first.

        Args:
            paths: A listing of all that is below `STORES_PATH`; by default one is made.
            faults: Gets what is wrong with stores whose definition is damaged, or an amendment of their
                group, by the path of the definition; they are left out. None: nothing may be.
        """
        definitions = {}
        for written in self._written_definitions(paths, faults):
            try:
                first = self.first_definition(written.name)
            except Corrupt as error:
                if faults is None:
                    raise
                faults[definition_path(written.name)] = error
            else:
                if first is not None:
                    definitions[first.name] = first
        return list(definitions.values())

    def _written_definitions(
        self, paths: Iterable[str] | None, faults: dict[str, Corrupt] | None
    ) -> list[StoreDefinition]:
        """All definitions that were ever written: those of stores that were dropped included."""
        listed = sorted(self._objects.list(STORES_PATH) if paths is None else paths)
        wanted = [path for path in listed if definition_incarnation(path) is not None]
        found: list[StoreDefinition] = []
        answers = ask_each(self._read_or_fail, wanted, self._objects.requests_at_once)
        for path, answer in zip(wanted, answers, strict=True):
            if isinstance(answer, Corrupt):
                if faults is None:
                    raise answer
                faults[path] = answer
            elif answer is not None:
                found.append(answer)
        return found

    def _read_or_fail(self, path: str) -> StoreDefinition | Corrupt | None:
        try:
            return self._read(path)
        except Corrupt as error:
            return error

    def written_groups(self, paths: Iterable[str] | None = None) -> list[GroupName]:
        """The groups that have a store, or ever had one, in order of name; what is damaged is left out."""
        return sorted({definition.group for definition in self._written_definitions(paths, {})})

    def generation(self, group: GroupName, known: int = 0) -> int:
        """The number of a group's newest amendment: see `Amendments.newest_number`."""
        return self.amendments(group).newest_number(known)

    def definition_at(self, store: StoreName, generation: int) -> StoreDefinition | None:
        """What a store is at a generation of its group; None if there is no such store."""
        shapes = self.shapes(store, generation)
        return shapes[-1] if shapes else None

    def shapes(self, store: StoreName, generation: int) -> Sequence[StoreDefinition]:
        """All that a store has been up to a generation of its group, oldest first; empty if there is no such
        store.
        """
        first = self.first_definition(store)
        if first is None:
            return ()
        return (first, *self.amendments(first.group).definitions_of(store, generation, first.since))

    def newest_definitions(
        self, paths: Iterable[str] | None = None, faults: dict[str, Corrupt] | None = None
    ) -> dict[StoreName, StoreDefinition]:
        """All stores as the newest amendments have them. One request a group.

        Args:
            paths: As in `first_definitions`.
            faults: As in `first_definitions`.
        """
        paths = list(self._objects.list(STORES_PATH) if paths is None else paths)
        with_groups = {definition.group for definition in self._written_definitions(paths, faults)}
        groups = sorted(with_groups)
        found = ask_each(self.generation, groups, self._objects.requests_at_once)
        generations = dict(zip(groups, found, strict=True))
        newest = {}
        for first in self.first_definitions(paths, faults):
            try:
                shapes = self.shapes(first.name, generations.get(first.group, 0))
                if shapes:  # else it was dropped meanwhile
                    newest[first.name] = shapes[-1]
            except Corrupt as error:
                if faults is None:
                    raise
                faults[definition_path(first.name)] = error
        return newest

    def exclusions(self, group: GroupName, generation: int = 0) -> Exclusions:
        """What of a group's epochs counts for nothing: see `Amendments.exclusions`."""
        return self.amendments(group).exclusions(generation)

    def create(self, definition: StoreDefinition, *, goes_on: bool = False) -> StoreDefinition:
        """Create a store, or find it there: see `Changelog.create_store`."""
        for _ in range(MAX_RACES):
            shapes = self._create_or_find(definition)
            if not shapes:
                continue  # it was dropped meanwhile
            # Columns of today in another order come before those of an earlier shape in this one.
            for shape in reversed(shapes):
                if shape.is_as(definition) or is_as_reordered(shape, definition):
                    if not goes_on:
                        check_names_mean_the_same(shape, shapes[-1], definition)
                    return shape
            raise refusal(shapes[-1], definition)
        raise Unavailable(f"Others keep dropping store {definition.name}: try again later.")

    def _create_or_find(self, definition: StoreDefinition) -> Sequence[StoreDefinition]:
        """The shapes of the store of a name, which is created where there is none."""
        first = self.first_definition(definition.name)
        if first is not None:
            self.generation(first.group)
            first = self.first_definition(definition.name)  # it may have been dropped
        if first is None:
            # Behind the last store of this name that was dropped, if there was any.
            dropped = self._incarnations.get(definition.name)
            path = definition_path(definition.name, 0 if dropped is None else dropped + 1)
            self._objects.create(path, [pa.py_buffer(seal(new_store_definition(definition).to_json()))])
            first = self.first_definition(definition.name)
        if first is None:
            raise Unavailable(
                f"The definition of store {definition.name} was written and cannot be read: try again later."
            )
        return self.shapes(first.name, self.generation(first.group))

    def decisions(self) -> Sequence[Decision]:
        """What was decided of all groups, as far as it was read. No request."""
        return [each for amendments in list(self._groups.values()) for each in amendments.decisions()]

    def migrate(self, store: StoreName, changes: Sequence[Change], author: Author) -> Migration:
        """Change a store: see `Changelog.migrate_store`."""
        for _ in range(MAX_RACES):
            first = self.first_definition(store)
            if first is None:
                raise NotFound(f"There is no store {store} in the changelog.")
            generation = self.generation(first.group)
            shapes = self.shapes(store, generation)
            if not shapes:
                continue  # it was dropped meanwhile
            before = shapes[-1]
            after = replace(migrate_definition(before, changes, generation + 1), since=before.since)
            if self.amendments(first.group).create(after, author):
                return Migration(after.generation, before, after)
        raise Unavailable(f"Others keep migrating stores of the group of {store}: try again later.")

    def _known(self, path: str) -> StoreDefinition | None:
        """A definition that needs not be read; None where it was not read, or is to be read again."""
        found, incarnation = self._created.get(path), definition_incarnation(path)
        if found is None:
            return None
        amendments = self.amendments(found.definition.group)
        if found.times_forgotten != amendments.times_forgotten:
            return None
        is_last = incarnation and incarnation >= self._incarnations.get(found.definition.name, 0)
        return None if is_last and found.times_checked != amendments.times_checked else found.definition

    def read_again(self, store: StoreName) -> None:
        """Read what the last store of a name was at first, though it was read: a changelog that was restored
        from an older copy may have another one, or none.
        """
        self._read(definition_path(store, self._incarnations.get(store, 0)), again=True)

    def _read(self, path: str, *, again: bool = False) -> StoreDefinition | None:
        known = None if again else self._known(path)
        if known is not None:
            return known
        # What is read before a check is not noted as if it were read behind it.
        times = {
            group: (each.times_forgotten, each.times_checked) for group, each in list(self._groups.items())
        }
        data = self._objects.get(path)
        before = self._created.get(path)
        if data is None:
            if self._created.pop(path, None) is not None and before is not None:
                self.amendments(before.definition.group).forget()
            return None
        definition = StoreDefinition.from_json(
            unseal(data.to_pybytes(), "A store definition in the changelog")
        )
        if definition_path(definition.name, definition_incarnation(path) or 0) != path:
            raise Corrupt(
                f"The definition of store {definition.name} lies where another one's should be: restore "
                "the changelog from a backup."
            )
        self._created[path] = _ReadDefinition(definition, *times.get(definition.group, (0, 0)))
        if before is not None and before.definition != definition:
            # Whoever goes by what was decided of the group looks at it again, and so at its stores.
            for group in {before.definition.group, definition.group}:
                self.amendments(group).forget()
        return definition
