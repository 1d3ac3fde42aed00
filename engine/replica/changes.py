"""What commits bring to partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from engine.changelog import Changelog, Commit
from engine.model.kinds import WRITTEN_COLUMN, is_applied_alone, time_column
from engine.model.schema import TOMBSTONE_COLUMN, PartitionId, StoreDefinition, StoreName
from engine.replica.history import check_same
from engine.replica.partition_keys import Definitions, PartitionKey
from engine.state.partition import PartitionStore
from engine.state.partition_shape import Migrated


@dataclass(frozen=True)
class Changes:
    """What one or more epochs bring to a partition.

    Attributes:
        batches: Rows, in commit order.
        replaces: Whether all rows of before are removed first.
        cutoff: The time before which rows are gone, for a store with retention.
        migrated: What the store is from the first of the epochs on; None where the group was not migrated.
    """

    batches: tuple[pa.RecordBatch, ...] = ()
    replaces: bool = False
    cutoff: int | None = None
    migrated: Migrated | None = None

    def add_rows(self, batches: Iterable[pa.RecordBatch]) -> Changes:
        """These changes, and rows of a later epoch."""
        return replace(self, batches=(*self.batches, *batches))

    def rows(self) -> pa.Table | None:
        """All rows, in commit order; None where there are none."""
        if not self.batches:
            return None
        if any(TOMBSTONE_COLUMN in batch.schema.names for batch in self.batches):
            return pa.Table.from_batches([_add_tombstone_column(batch) for batch in self.batches])
        return pa.Table.from_batches(self.batches)


def _add_tombstone_column(batch: pa.RecordBatch) -> pa.RecordBatch:
    if TOMBSTONE_COLUMN in batch.schema.names:
        return batch
    field = pa.field(TOMBSTONE_COLUMN, pa.bool_(), nullable=False)
    return batch.append_column(field, pa.array(np.zeros(batch.num_rows, np.bool_)))


def can_be_taken_with(commit: Commit, before: Commit, definitions: Definitions) -> bool:
    """Whether a commit may be taken together with those before it: rows come and go, and stores are, as if
    they were taken one by one.

    Args:
        commit: The commit.
        before: The last one before it.
        definitions: Its stores.
    """
    if (commit.cutoffs, commit.generation) != (before.cutoffs, before.generation):
        return False
    return not any(is_applied_alone(definitions[store].behaviour) for store in commit.stores)


def add_commit_time(batch: pa.RecordBatch, definition: StoreDefinition, committed_at: int) -> pa.RecordBatch:
    """Rows of a commit with the time of it, where their retention goes by that.

    Args:
        batch: The rows.
        definition: Their store.
        committed_at: When the commit was made, microseconds since 1970 UTC.
    """
    if time_column(definition.behaviour) != WRITTEN_COLUMN:
        return batch
    field = definition.stored_schema.field(WRITTEN_COLUMN)
    written = pa.repeat(pa.scalar(committed_at, field.type), batch.num_rows)
    return batch.add_column(len(definition.row_schema), field, written)


def add_changes(
    changes: Mapping[PartitionKey, Changes],
    changelog: Changelog,
    commit: Commit,
    definitions: Definitions,
    partitions: Mapping[PartitionKey, PartitionStore],
) -> Mapping[PartitionKey, Changes]:
    """Add what a commit brings to partitions that have not applied it yet.

    Args:
        changes: What the commits before it bring.
        changelog: Where its rows are.
        commit: The commit.
        definitions: All stores of the partitions and of the commit's rows, at its generation.
        partitions: The partitions.

    Returns:
        The changes of all, by partition.

    Raises:
        LivestateError: The rows cannot be read.
        DivergedError: A partition has applied another commit of the same epoch.
    """

    def is_needed(store: StoreName, number: PartitionId) -> bool:
        partition = partitions.get((store, number))
        return partition is not None and partition.applied < commit.epoch

    rows = changelog.read_rows(commit, definitions, is_needed)
    added = dict(changes)
    for key, partition in partitions.items():
        if partition.applied >= commit.epoch:
            if partition.applied == commit.epoch:
                check_same(commit, partition.digest)
            continue
        cutoff = commit.cutoffs.get(key[0])
        if key[0] in commit.replaced:
            added[key] = Changes(replaces=True, cutoff=cutoff)
        elif cutoff is not None and key not in added and partition.advances_cutoff(cutoff):
            added[key] = Changes(cutoff=cutoff)
        if commit.generation != partition.generation:
            migrated = Migrated(definitions[key[0]], commit.generation)
            added[key] = replace(added.get(key, Changes(cutoff=cutoff)), migrated=migrated)
    for key, table in rows.items():
        known = added.get(key, Changes(cutoff=commit.cutoffs.get(key[0])))
        added[key] = known.add_rows(
            add_commit_time(batch, definitions[key[0]], commit.committed_at) for batch in table.to_batches()
        )
    return added
