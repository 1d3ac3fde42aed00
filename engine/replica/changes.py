"""What commits bring to partitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from engine.changelog import Changelog, Commit
from engine.errors import Corrupt
from engine.model.kinds import WRITTEN_COLUMN, is_applied_alone, time_column
from engine.model.schema import TOMBSTONE_COLUMN, PartitionId, StoreDefinition, StoreDefinitions
from engine.replica.history import check_same
from engine.replica.partition_keys import PartitionKey
from engine.state.partition import PartitionStore
from engine.state.partition_shape import Migrated


class UnreadableRowsError(Corrupt):
    """Rows of the changelog that are damaged, found while they were being applied."""


@dataclass(frozen=True)
class UnreadRows:
    """Rows of an epoch that are read while they are applied, a data file at a time.

    Attributes:
        changelog: Where they are.
        commit: The commit of the epoch.
        definition: Their store, at the commit's generation.
        partition: Their partition.
    """

    changelog: Changelog
    commit: Commit
    definition: StoreDefinition
    partition: PartitionId

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, in commit order and in one schema.

        Raises:
            UnreadableRowsError: They are damaged, or missing.
            LivestateError: They cannot be read.
        """
        found = self.changelog.read_batches(self.commit, self.definition, self.partition)
        try:
            for batch in found:
                yield add_commit_time(batch, self.definition, self.commit.committed_at)
        except Corrupt as error:
            raise UnreadableRowsError(error.message) from error


@dataclass(frozen=True)
class Changes:
    """What one or more epochs bring to a partition.

    Attributes:
        batches: Rows, in commit order.
        unread: The rows of an epoch that is too large to be in memory; `batches` is empty then.
        replaces: Whether all rows of before are removed first.
        cutoff: The time before which rows are gone, for a store with retention.
        migrated: What the store is from the first of the epochs on; None where the group was not migrated.
    """

    batches: tuple[pa.RecordBatch, ...] = ()
    unread: UnreadRows | None = None
    replaces: bool = False
    cutoff: int | None = None
    migrated: Migrated | None = None

    def add_rows(self, batches: Iterable[pa.RecordBatch]) -> Changes:
        """These changes, and rows of a later epoch."""
        return replace(self, batches=(*self.batches, *batches))

    def rows(self) -> Iterable[pa.RecordBatch] | None:
        """All rows, in commit order and in one schema; None where there are none."""
        if self.unread is not None:
            return self.unread.batches()
        if any(TOMBSTONE_COLUMN in batch.schema.names for batch in self.batches):
            return [_add_tombstone_column(batch) for batch in self.batches]
        return self.batches or None


def _add_tombstone_column(batch: pa.RecordBatch) -> pa.RecordBatch:
    if TOMBSTONE_COLUMN in batch.schema.names:
        return batch
    field = pa.field(TOMBSTONE_COLUMN, pa.bool_(), nullable=False)
    return batch.append_column(field, pa.array(np.zeros(batch.num_rows, np.bool_)))


def can_be_taken_with(commit: Commit, before: Commit, definitions: StoreDefinitions) -> bool:
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
    definitions: StoreDefinitions,
    partitions: Mapping[PartitionKey, PartitionStore],
    *,
    is_large: bool = False,
) -> Mapping[PartitionKey, Changes]:
    """Add what a commit brings to partitions that have not applied it yet.

    Args:
        changes: What the commits before it bring.
        changelog: Where its rows are.
        commit: The commit.
        definitions: All stores of the partitions and of the commit's rows, at its generation.
        partitions: The partitions.
        is_large: Whether rows are to be read when they are applied; there are no commits before it then.

    Returns:
        The changes of all, by partition.

    Raises:
        LivestateError: The rows cannot be read.
        DivergedError: A partition has applied another commit of the same epoch.
    """
    needed = {key for key, partition in partitions.items() if partition.applied < commit.epoch}
    added = dict(changes)
    for key, partition in partitions.items():
        if partition.applied == commit.epoch:
            check_same(commit, partition.digest)
        if key in needed:
            changed = _changes_without_rows(added.get(key), commit, definitions[key[0]], partition)
            if changed is not None:
                added[key] = changed
    if is_large:
        for store, number in sorted(needed & commit.places):
            unread = UnreadRows(changelog, commit, definitions[store], number)
            known = added.get((store, number), Changes(cutoff=commit.cutoffs.get(store)))
            added[store, number] = replace(known, unread=unread)
        return added
    rows = changelog.read_rows(commit, definitions, lambda store, number: (store, number) in needed)
    for key, table in rows.items():
        known = added.get(key, Changes(cutoff=commit.cutoffs.get(key[0])))
        added[key] = known.add_rows(
            add_commit_time(batch, definitions[key[0]], commit.committed_at) for batch in table.to_batches()
        )
    return added


def _changes_without_rows(
    known: Changes | None, commit: Commit, definition: StoreDefinition, partition: PartitionStore
) -> Changes | None:
    """What commits bring to a partition that are known, and what another one changes beside its rows; None
    where that is nothing.
    """
    cutoff = commit.cutoffs.get(definition.name)
    if definition.name in commit.replaced:
        known = Changes(replaces=True, cutoff=cutoff)
    elif cutoff is not None and known is None and partition.advances_cutoff(cutoff):
        known = Changes(cutoff=cutoff)
    if commit.generation != partition.generation:
        migrated = Migrated(definition, commit.generation)
        known = replace(known or Changes(cutoff=cutoff), migrated=migrated)
    return known
