"""Which partitions of its stores a statement can need, once its parameters are known.

A partition may be left out only if no row of it can matter. Points for all partition_by columns place the
rows that can (`engine.model.partitioning`); a short interval of integers or dates is as good as its values.
What is not known keeps every partition. References to one store share its partitions, so that each partition
is read on one host however often the statement names the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, reduce

import numpy as np
import pyarrow as pa

from engine.model.partitioning import partitions_of
from engine.model.schema import PartitionId, StoreDefinition, StoreName
from engine.plan.predicates import Predicate
from engine.plan.values import Arguments
from engine.plan.wanted_rows import wanted_rows
from engine.scan import Interval, RowFilter
from engine.sql.bind import StoreReference

Partitions = Mapping[StoreName, tuple[PartitionId, ...]]
"""Partitions of stores, ascending."""

Kept = Mapping[str, frozenset[PartitionId]]
"""By scan, the partitions that a reference can need."""

MOST_ENUMERATED = 1024
"""Combinations of values that are placed one by one; more of them leave hardly a partition out."""


def kept_partitions(
    references: Sequence[StoreReference], predicates: Sequence[Predicate], arguments: Arguments
) -> Kept:
    """The partitions that each reference of a statement can need.

    Args:
        references: Where it reads stores.
        predicates: For each reference, what holds for every row that can matter.
        arguments: What the statement is used with.

    Returns:
        By the reference's scan, a superset of the partitions with rows that matter; none where no row can.
    """
    kept = {}
    for reference, predicate in zip(references, predicates, strict=True):
        found = _partitions_of(reference.definition, wanted_rows(predicate, reference, arguments))
        kept[reference.scan] = all_partitions(reference.definition) if found is None else found
    return kept


def unite_partitions(references: Sequence[StoreReference], kept: Kept) -> Partitions:
    """The partitions that some references need together.

    Args:
        references: The references.
        kept: What `kept_partitions` found for them.

    Returns:
        For every store that they read, its partitions.
    """
    found: dict[StoreName, frozenset[PartitionId]] = {}
    for reference in references:
        name = reference.definition.name
        found[name] = found.get(name, frozenset()) | kept[reference.scan]
    return {name: tuple(sorted(numbers)) for name, numbers in found.items()}


def all_partitions(definition: StoreDefinition) -> frozenset[PartitionId]:
    """Every partition of a store."""
    return _numbers(definition.partitions)


@cache
def _numbers(count: int) -> frozenset[PartitionId]:
    return frozenset(PartitionId(number) for number in range(count))


def _partitions_of(definition: StoreDefinition, needed: RowFilter) -> frozenset[PartitionId] | None:
    """The partitions of the rows that can matter; None where any can hold some."""
    if definition.partitions == 1:
        return None
    if needed.points is not None and not needed.points.num_rows:
        return frozenset()
    return partitions_of(definition, _points(definition, needed))


def _points(definition: StoreDefinition, needed: RowFilter) -> pa.RecordBatch | None:
    """Values for all partition_by columns: those of the points, and of short intervals for columns that the
    points lack.
    """
    sets: list[pa.RecordBatch] = [] if needed.points is None else [needed.points]
    for name in definition.partition_by:
        if needed.points is not None and name in needed.points.schema.names:
            continue
        values = _interval_values(needed.intervals.get(name), definition.schema.field(name).type)
        if values is None:
            return None
        sets.append(pa.record_batch([values], [name]))
    if len(sets) == 1:
        return sets[0]
    size = 1
    for each in sets:
        size *= each.num_rows
    return reduce(_product, sets) if size <= MOST_ENUMERATED else None


def _interval_values(interval: Interval | None, arrow_type: pa.DataType) -> pa.Array | None:
    """All values of a short interval; None where it is long, open at an end, or not of integers or dates."""
    if (
        interval is None
        or interval.low is None
        or interval.high is None
        or not (pa.types.is_integer(arrow_type) or pa.types.is_date32(arrow_type))
    ):
        return None
    low, high = _number(interval.low) + interval.low_open, _number(interval.high) - interval.high_open
    if high - low >= MOST_ENUMERATED:
        return None
    numbers = list(range(low, high + 1))
    return (
        pa.array(numbers, pa.int32()).cast(arrow_type)
        if pa.types.is_date32(arrow_type)
        else pa.array(numbers, arrow_type)
    )


def _number(value: pa.Scalar) -> int:
    """An integer, or the days of a date since 1970."""
    # Days may be beyond the years that Python knows.
    return int(value.value if pa.types.is_date32(value.type) else value.as_py())


def _product(left: pa.RecordBatch, right: pa.RecordBatch) -> pa.RecordBatch:
    """Every row of one batch beside every row of the other."""
    lefts = left.take(pa.array(np.repeat(np.arange(left.num_rows), right.num_rows)))
    rights = right.take(pa.array(np.tile(np.arange(right.num_rows), left.num_rows)))
    return pa.RecordBatch.from_arrays(
        [*lefts.columns, *rights.columns], names=[*left.schema.names, *right.schema.names]
    )
