"""The migrations of one store group as objects: numbered from 1 without gaps, each created once and never
changed or dropped.

A migration says what one store of the group becomes. It is in effect from the first commit on whose
generation is its number or a later one: the writer of the group takes up what there is with its next commit.
So all hosts change shapes at one epoch, and what was written before stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from engine.changelog.checksummed_json import seal, unseal
from engine.changelog.layout import migration_path
from engine.changelog.objects import Objects
from engine.errors import Corrupt, Unavailable
from engine.model.schema import GroupName, StoreDefinition, StoreName


@dataclass(frozen=True)
class Migration:
    """A change of a store.

    Attributes:
        number: Its number among the migrations of the store group.
        before: What the store was.
        after: What it is from the first commit on that takes the migration up.
    """

    number: int
    before: StoreDefinition
    after: StoreDefinition


class Migrations:
    """The migrations of one store group. Safe to use from several threads and processes.

    Args:
        objects: The changelog's objects.
        group: The store group.
    """

    def __init__(self, objects: Objects, group: GroupName) -> None:
        self.group = group
        self._objects = objects
        self._newest = 0
        self._shapes: dict[int, StoreDefinition] = {}

    def newest_number(self, known: int = 0) -> int:
        """The number of the newest migration there is; 0 before the first. One request where nothing is new.

        Args:
            known: A number that some migration is known to have.

        Raises:
            Unavailable: The changelog cannot be reached.
        """
        number = max(known, self._newest)
        while self._objects.exists(migration_path(self.group, number + 1)):
            number += 1
            # A commit will rely on it, and must not outlive it.
            self._objects.settle(migration_path(self.group, number))
        self._newest = max(self._newest, number)
        return number

    def read(self, number: int) -> StoreDefinition:
        """What the migration of a number makes of its store. What was read once is not read again.

        Raises:
            Corrupt: It is missing or damaged.
            Unavailable: The changelog cannot be reached.
        """
        if number not in self._shapes:
            found = self._read_shape(number)
            if found is None:
                raise Corrupt(f"{self._name(number)} is missing: restore the changelog from a backup.")
            self._shapes[number] = found
        return self._shapes[number]

    def definitions_of(self, store: StoreName, generation: int) -> list[StoreDefinition]:
        """What migrations up to a generation have made of a store, oldest first; empty if none is of it."""
        return [shape for shape in map(self.read, range(1, generation + 1)) if shape.name == store]

    def create(self, shape: StoreDefinition) -> bool:
        """Write a migration unless its number is taken.

        Args:
            shape: What its store becomes; its generation is the number.

        Returns:
            Whether the migration of this number is now what `shape` says: so also if somebody else did the
            very same.

        Raises:
            Unavailable: That is not known.
            LimitExceeded: The disk is full.
        """
        try:
            if self._objects.create(
                migration_path(self.group, shape.generation), [pa.py_buffer(seal(shape.to_json()))]
            ):
                return True
        except Unavailable:
            if self._read_shape(shape.generation) is None:
                raise
        return self.read(shape.generation) == shape

    def _read_shape(self, number: int) -> StoreDefinition | None:
        data = self._objects.get(migration_path(self.group, number))
        if data is None:
            return None
        shape = StoreDefinition.from_json(unseal(data.to_pybytes(), self._name(number)))
        if (shape.group, shape.generation) != (self.group, number):
            raise Corrupt(
                f"{self._name(number)} is that of {shape.generation} of store group {shape.group}: restore "
                "the changelog from a backup."
            )
        return shape

    def _name(self, number: int) -> str:
        return f"Migration {number} of store group {self.group}"
