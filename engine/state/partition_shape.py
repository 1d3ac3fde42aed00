"""Shapes: what a partition's rows are from one migration of its store on to the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from engine.model.kinds import Session, Versioned, order_column, time_column
from engine.model.schema import StoreDefinition, time_in_key
from engine.model.sql_types import sql_type
from engine.state.cache import ColumnCache
from engine.state.folds import Fold, fold_of
from engine.state.keys import KeyCodec
from engine.state.partition_context import PartitionContext
from engine.state.storage import Storage
from engine.state.version import LiveSegment


class Migrated(NamedTuple):
    """What a store is from an epoch on.

    Attributes:
        definition: The store; the one of before where the migration is of another store of the group.
        generation: How many amendments of the store group are in effect.
    """

    definition: StoreDefinition
    generation: int


@dataclass(frozen=True, eq=False)
class Shape:
    """How a partition sees, folds and expires rows.

    Attributes:
        definition: What its store is.
        generation: How many amendments of the store group are in effect.
        context: In which segments are seen, and new ones are stored.
    """

    definition: StoreDefinition
    generation: int
    context: PartitionContext

    @staticmethod
    def open(migrated: Migrated, storage: Storage, cache: ColumnCache) -> Shape:
        """The shape of a partition that is being opened.

        Args:
            migrated: What its store is.
            storage: Where its blocks are.
            cache: Decoded columns of all partitions of the host.
        """
        return Shape(*migrated, _context(cache.new_partition(), migrated.definition, storage, cache))

    def migrate(self, migrated: Migrated | None) -> Shape:
        """The shape after a migration; this one if there was none."""
        if migrated is None:
            return self
        if migrated.definition == self.definition:
            return replace(self, generation=migrated.generation)
        return Shape(
            *migrated,
            _context(self.context.number, migrated.definition, self.context.storage, self.context.cache),
        )

    def reshape(self, segments: Iterable[LiveSegment]) -> tuple[LiveSegment, ...]:
        """Segments in this shape, whichever they were seen in before."""
        return tuple(entry.reshape(self.context) for entry in segments)

    @cached_property
    def fold(self) -> Fold | None:
        """As `folds.fold_of`."""
        return fold_of(self.definition)

    @cached_property
    def time_column(self) -> str:
        """As `kinds.time_column`."""
        return time_column(self.definition.behaviour)

    @cached_property
    def start_column(self) -> str:
        """The column whose time counts where that of `time_column` is missing or before it, as the fold takes
        it; empty where there is none.
        """
        kind = self.definition.behaviour.kind
        return kind.start if isinstance(kind, Session) and self.time_column == kind.end else ""

    @cached_property
    def tombstones_have_time(self) -> bool:
        """Whether tombstones are rows that stay, and go by their time as all others."""
        kind = self.definition.behaviour.kind
        return isinstance(kind, Versioned) and self.time_column == kind.valid_from

    @cached_property
    def order_column(self) -> str:
        """As `kinds.order_column`."""
        return order_column(self.definition.behaviour)

    @cached_property
    def key_time(self) -> str:
        """As `schema.time_in_key`."""
        return time_in_key(self.definition)

    @cached_property
    def columns(self) -> Mapping[str, str]:
        """Name of each stored column to its SQL type."""
        return {field.name: sql_type(field.type) for field in self.definition.stored_schema}


def _context(
    number: int, definition: StoreDefinition, storage: Storage, cache: ColumnCache
) -> PartitionContext:
    codec = KeyCodec([field.type for field in definition.key_schema])
    key = tuple(definition.stored_schema.get_field_index(name) for name in definition.key)
    return PartitionContext(number, definition.stored_schema, definition.columns, key, codec, storage, cache)
