"""The most frequent query, one row by its key: all that its plan knows, worked out once for any number of
keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeGuard

import pyarrow as pa
from sqlglot import exp

from engine.cached_property import cached_property
from engine.model.partitioning import value_partitioner
from engine.model.schema import PartitionId, StoreDefinition, StoreName
from engine.plan.plans import Plan, RowsPlan
from engine.plan.predicates import Compare, Comparison, IsAmong, IsListed
from engine.plan.row_widths import RowWidths
from engine.plan.values import Parameter
from engine.sql.parameters import ParameterSlot


@dataclass(frozen=True)
class KeyLookup:
    """`SELECT columns FROM store WHERE key = ?`, maybe with `LIMIT 1`, or `… WHERE key IN (…)`, for a key of
    one column of integers or strings.

    Attributes:
        definition: The store.
        column_indexes: For each column of the result, its index in the store's schema.
        schema: Schema of the result.
    """

    definition: StoreDefinition
    column_indexes: tuple[int, ...]
    schema: pa.Schema

    @cached_property
    def key_type(self) -> pa.DataType:
        """Type of the key."""
        return self.definition.key_schema.field(0).type

    @cached_property
    def read_columns(self) -> tuple[str, ...]:
        """Columns of the store to read, each once."""
        names = self.definition.schema.names
        return tuple(dict.fromkeys(names[index] for index in self.column_indexes))

    @cached_property
    def read_places(self) -> tuple[int, ...]:
        """For each column of the result, its place among `read_columns`."""
        names = self.definition.schema.names
        return tuple(self.read_columns.index(names[index]) for index in self.column_indexes)

    @cached_property
    def no_row(self) -> pa.Table:
        """The result for a key that has no row."""
        return self.schema.empty_table()

    @cached_property
    def widths(self) -> RowWidths:
        """What its rows take."""
        return RowWidths(self.schema)

    @cached_property
    def definitions(self) -> Mapping[StoreName, StoreDefinition]:
        """The store by its name."""
        return {self.definition.name: self.definition}

    @cached_property
    def partition(self) -> Callable[[int | str], PartitionId]:
        """The partition of a key."""
        return value_partitioner(self.key_type, self.definition.partitions)

    @cached_property
    def is_key(self) -> Callable[[object], TypeGuard[int | str]]:
        """Whether a value is one of the key's type, as it stands."""
        if pa.types.is_string(self.key_type):
            return _is_text
        lowest = -(1 << (self.key_type.bit_width - 1)) if pa.types.is_signed_integer(self.key_type) else 0
        values = range(lowest, lowest + (1 << self.key_type.bit_width))

        def is_number(value: object) -> TypeGuard[int]:
            # `True` is no number in SQL.
            return type(value) is int and value in values

        return is_number


def _is_text(value: object) -> TypeGuard[str]:
    if not isinstance(value, str):
        return False
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False  # half of a surrogate pair, as JSON may have it, is no text


def key_lookup(plan: Plan | None, parameters: tuple[ParameterSlot, ...]) -> KeyLookup | None:
    """The lookup that a plan is.

    Args:
        plan: Any plan.
        parameters: Parameters of its statement.

    Returns:
        The lookup; None for every other plan.
    """
    # A key has one row at most.
    if not isinstance(plan, RowsPlan) or not plan.takes_first_of_predicate or len(parameters) != 1:
        return None
    predicate = plan.predicate
    is_lookup = (
        isinstance(predicate, Compare)
        and predicate.comparison is Comparison.EQUAL
        and isinstance(predicate.operand, Parameter)
        and plan.reference.definition.key == (predicate.column,)
    )
    return _lookup_of(plan) if is_lookup else None


def key_list_lookup(plan: Plan | None, where: exp.Expr | None) -> KeyLookup | None:
    """The lookup that a plan is, of rows by a list of keys.

    Args:
        plan: Any plan.
        where: The condition of its statement's WHERE.

    Returns:
        The lookup; None for every other plan, and where the statement asks for more than that its key is in
        one list.
    """
    if not isinstance(plan, RowsPlan) or not plan.takes_all_of_predicate or plan.order is not None:
        return None
    predicate = plan.predicate
    is_lookup = (
        isinstance(where, exp.In)
        and isinstance(where.this, exp.Column)
        and isinstance(predicate, IsAmong | IsListed)
        and plan.reference.definition.key == predicate.columns
    )
    return _lookup_of(plan) if is_lookup else None


def _lookup_of(plan: RowsPlan) -> KeyLookup | None:
    definition = plan.reference.definition
    arrow_type = definition.key_schema.field(0).type
    if not (pa.types.is_integer(arrow_type) or pa.types.is_string(arrow_type)):
        return None
    column_indexes = tuple(definition.schema.get_field_index(output.column) for output in plan.outputs)
    return KeyLookup(definition, column_indexes, plan.schema)
