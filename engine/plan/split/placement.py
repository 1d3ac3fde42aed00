"""Where rows are: how the rows of a relation are spread over hosts.

A relation is the rows that some part of a statement gives: a store, a join, a subquery. While a fragment
runs, every host works out a relation from what it holds. The relation is

- `Spread` if the hosts' rows together are the relation's rows, each exactly as often as one host with
  everything would have it;
- `Everywhere` if each host has all of its rows.

A key of a spread relation says more: rows whose key columns are equal and not NULL are on one host, the host
of that partition of a store with the key's layout. Two relations with keys of one layout can therefore meet
on equal keys without any row going elsewhere.

The key of a store with one partition has no columns: any two rows agree in it, and so do any two of two such
stores. All of them are on one host. Other hosts that run the same fragment have no row of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from engine.model.schema import StoreDefinition
from engine.plan.logical.equalities import Equalities
from engine.plan.logical.trees import column_text, location_text


@dataclass(frozen=True)
class Layout:
    """How values are placed on partitions; equal layouts place equal values alike.

    Attributes:
        partitions: How many partitions there are.
        types: Arrow types of the values that are hashed, in order; none where there is one partition.
    """

    partitions: int
    types: tuple[pa.DataType, ...]


@dataclass(frozen=True)
class Key:
    """Columns whose values tell the host.

    Attributes:
        layout: How they do.
        columns: For each type of the layout, texts of the expressions that have the value, in every row
            alike.
        has_nulls: Whether they may be NULL, in rows that are then anywhere.
    """

    layout: Layout
    columns: tuple[frozenset[str], ...]
    has_nulls: bool = False

    @property
    def is_of_all_rows(self) -> bool:
        """Whether all rows are on one host."""
        return not self.columns

    def is_in(self, texts: Collection[str]) -> bool:
        """Whether rows that agree in some expressions agree in this key, and are on one host therefore."""
        return not self.has_nulls and all(not names.isdisjoint(texts) for names in self.columns)


def are_connected(first: Key, second: Key, equalities: Equalities) -> bool:
    """Whether two keys have one layout and are equal, place by place."""
    return first.layout == second.layout and all(
        any(equalities.are_equal(one, other) for one in mine for other in theirs)
        for mine, theirs in zip(first.columns, second.columns, strict=True)
    )


@dataclass(frozen=True)
class Spread:
    """Every row is on one host.

    Attributes:
        keys: What is known of which.
    """

    keys: tuple[Key, ...] = ()

    def has_key_in(self, texts: Collection[str]) -> bool:
        """Whether rows that agree in some expressions are on one host."""
        return any(key.is_in(texts) for key in self.keys)


@dataclass(frozen=True)
class Everywhere:
    """Every host has every row."""


Placement = Spread | Everywhere


@dataclass(frozen=True)
class Relation:
    """What is known of a relation.

    Attributes:
        placement: Where its rows are; None where no rule says that hosts can work it out each on its own.
        types: Arrow types of columns whose values are a store's, by text in a FROM clause and by name in a
            query's outputs.
    """

    placement: Placement | None
    types: Mapping[str, pa.DataType] = field(default_factory=dict)


def store_relation(definition: StoreDefinition, alias: str) -> Relation:
    """A store under an alias: spread by the columns of its partitions, which are never NULL, as key columns
    are not; or global, and everywhere.
    """
    types = {column_text(alias, each.name): each.type for each in definition.schema}
    if definition.behaviour.is_global:
        return Relation(Everywhere(), types)
    if definition.partitions == 1:
        return Relation(Spread((Key(Layout(1, ()), ()),)), types)
    layout = Layout(
        definition.partitions, tuple(definition.schema.field(name).type for name in definition.partition_by)
    )
    return Relation(
        Spread(
            (Key(layout, tuple(frozenset({column_text(alias, name)}) for name in definition.partition_by)),)
        ),
        types,
    )


def relation_under_alias(relation: Relation, alias: str) -> Relation:
    """A query's relation as a table of a FROM clause: outputs become columns behind the alias."""
    types = {column_text(alias, name): arrow_type for name, arrow_type in relation.types.items()}
    placement = relation.placement
    if not isinstance(placement, Spread):
        return Relation(placement, types)
    keys = [
        replace(
            key, columns=tuple(frozenset(column_text(alias, name) for name in names) for names in key.columns)
        )
        for key in placement.keys
    ]
    return Relation(Spread(tuple(keys)), types)


def projected_placement(placement: Placement, outputs: Sequence[exp.Expr]) -> Placement:
    """The placement of a query's rows from that of the rows that its outputs are computed from.

    Args:
        placement: The placement before.
        outputs: The outputs, with aliases.

    Returns:
        The placement with those keys whose columns are outputs, by names of outputs.
    """
    if isinstance(placement, Everywhere):
        return placement
    names = [
        (location_text(output.this), output.alias) for output in outputs if isinstance(output, exp.Alias)
    ]
    keys = []
    for key in placement.keys:
        columns = tuple(frozenset(name for value, name in names if value in known) for known in key.columns)
        if all(columns):
            keys.append(replace(key, columns=columns))
    # Of a join both sides have a key, which may be one and the same in the outputs.
    return Spread(tuple(dict.fromkeys(keys)))
