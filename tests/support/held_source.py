"""Stores in memory for tests of several hosts: each host holds some partitions of them, and answers for no
others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa

from engine.cluster.reports import GroupReport, ReadableEpoch, StoreReport
from engine.errors import NotFound, Unavailable
from engine.model.partitioning import partition_of
from engine.model.schema import Epoch, GroupName, PartitionId, StoreDefinition, StoreName
from engine.scan import StoreStatus
from tests.support.column_reports import column_reports
from tests.support.memory_source import MemoryView, memory_view

EPOCH = Epoch(1)
COMMITTED_AT = 1_700_000_000_000_000

Rows = Mapping[PartitionId, pa.Table]
"""The rows of each partition of a store."""


def rows_by_partition(definition: StoreDefinition, rows: pa.Table) -> Rows:
    """Rows by the partitions that they are on; every partition is there."""
    rows = rows.cast(definition.schema)
    numbers = pa.array(
        partition_of([rows.column(name) for name in definition.partition_by], definition.partitions),
        pa.int32(),
    )
    return {
        PartitionId(number): rows.filter(pa.compute.equal(numbers, number))
        for number in range(definition.partitions)
    }


class HeldSource:
    """Some partitions of stores in memory, all at epoch 1: a `StoreSource`.

    Args:
        stores: Every store, with the live rows of its partitions.
        dead: Rows of partitions that were superseded or removed, by store.
        held: Which partitions are here.

    Attributes:
        switches: Names that mean another store.
    """

    def __init__(
        self,
        stores: Mapping[StoreName, tuple[StoreDefinition, Rows]],
        dead: Mapping[StoreName, Rows],
        held: Mapping[StoreName, Collection[PartitionId]],
    ) -> None:
        self._definitions = {name: definition for name, (definition, _) in stores.items()}
        self._rows = {
            name: {number: rows[number] for number in sorted(held[name])}
            for name, (_, rows) in stores.items()
        }
        self._dead = {name: {number: dead[name][number] for number in self._rows[name]} for name in dead}
        self._groups = {
            definition.group: GroupReport((ReadableEpoch(EPOCH, COMMITTED_AT),), EPOCH)
            for definition in self._definitions.values()
        }
        self._stores = {
            name: _report_of_store(self._definitions[name], rows) for name, rows in self._rows.items()
        }
        self.switches: dict[StoreName, StoreName] = {}
        self._views: dict[tuple[StoreName, tuple[PartitionId, ...]], MemoryView] = {}

    def definitions(self) -> Mapping[StoreName, StoreDefinition]:
        return self._definitions

    def definitions_of(self, generations: Mapping[GroupName, int]) -> Mapping[StoreName, StoreDefinition]:
        return self.definitions()

    def damaged_names(self) -> Mapping[StoreName, str]:
        return {}

    def tables(self) -> Mapping[StoreName, StoreDefinition]:
        definitions = self.definitions()
        return (
            {**definitions, **{name: definitions[store] for name, store in self.switches.items()}}
            if self.switches
            else definitions
        )

    @contextmanager
    def pin_views(
        self,
        stores: Collection[StoreName],
        epochs: Mapping[GroupName, Epoch] | None = None,
        partitions: Mapping[StoreName, Collection[PartitionId]] | None = None,
        shapes: Mapping[StoreName, StoreDefinition] | None = None,
        digests: Mapping[GroupName, str] | None = None,
    ) -> Iterator[Mapping[StoreName, MemoryView]]:
        views = {}
        for name in stores:
            if name not in self._definitions:
                raise NotFound(f"There is no store {name}.")
            definition = self._definitions[name]
            wanted = (epochs or {}).get(definition.group, EPOCH)
            if wanted != EPOCH:
                raise Unavailable(f"Store {name} is at epoch {EPOCH} here, not at epoch {wanted}.")
            asked = (
                range(definition.partitions)
                if partitions is None or name not in partitions
                else partitions[name]
            )
            views[name] = self._view(name, tuple(PartitionId(number) for number in sorted(asked)))
        yield views

    def hold(self, epochs: Mapping[GroupName, Epoch], seconds: float) -> None:
        """Its epoch never goes."""

    def _view(self, name: StoreName, numbers: tuple[PartitionId, ...]) -> MemoryView:
        if (name, numbers) not in self._views:
            missing = [number for number in numbers if number not in self._rows[name]]
            if missing:
                raise Unavailable(f"Partition {missing[0]} of store {name} is not held here.")
            live = [self._rows[name][number] for number in numbers]
            dead = [self._dead[name][number] for number in numbers] if name in self._dead else []
            definition = self._definitions[name]
            none = definition.schema.empty_table()
            self._views[name, numbers] = memory_view(
                definition, pa.concat_tables([none, *live]), pa.concat_tables([none, *dead])
            )
        return self._views[name, numbers]

    def report(self) -> tuple[Mapping[GroupName, GroupReport], Mapping[StoreName, StoreReport]]:
        return self._groups, self._stores

    def complete_until(self, stores: Collection[StoreName]) -> int:
        groups, _ = self.report()
        return min(group.complete_until for group in groups.values())

    def status(self) -> Sequence[StoreStatus]:
        _, stores = self.report()
        return [
            StoreStatus(
                name,
                self._definitions[name].group,
                EPOCH,
                EPOCH,
                0.0,
                report.rows,
                report.stored_rows,
                report.bytes,
                len(report.partitions),
                report.segments,
            )
            for name, report in sorted(stores.items())
        ]


def _report_of_store(definition: StoreDefinition, rows: Rows) -> StoreReport:
    there = pa.concat_tables([definition.schema.empty_table(), *rows.values()])
    return StoreReport(
        partitions=tuple(rows),
        rows=there.num_rows,
        bytes=there.nbytes,
        segments=len(rows),
        stored_rows=there.num_rows,
        columns=column_reports(there),
    )
