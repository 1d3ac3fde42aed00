"""Batches to epochs: the part that the streaming sink and the batch write share."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from py4j.protocol import Py4JJavaError
from pyspark import StorageLevel
from pyspark.sql import DataFrame

from engine.changelog import Changelog, Commit, DataFile, RowsByPartition, Writer
from engine.model.retention import cutoffs_of
from engine.model.schema import StoreDefinition
from spark_pipeline.interruption import is_interruption
from spark_pipeline.notify import Notifier
from spark_pipeline.outputs import OutputMode
from spark_pipeline.row_plans import RowPlan
from spark_pipeline.transfer import (
    BatchRows,
    Destination,
    PathChooser,
    Target,
    TransferPath,
    bring_to_driver,
    stage_from_executors,
)

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Batch:
    """A batch of rows to commit as one epoch.

    Attributes:
        frame: The rows; nothing of it has been computed.
        query_id: Streaming query that it is of; None for a batch write.
        batch_id: Its number in that query; given if and only if `query_id` is.
        planned_at: When Spark planned it, microseconds since 1970 UTC; given if and only if `query_id` is.
        watermark: No event before it is waited for any more, microseconds since 1970 UTC; None where nothing
            says so.
    """

    frame: DataFrame
    query_id: str | None = None
    batch_id: int | None = None
    planned_at: int | None = None
    watermark: int | None = None

    @property
    def name(self) -> str:
        """What messages call it."""
        return "the batch" if self.batch_id is None else f"batch {self.batch_id}"


@dataclass(frozen=True)
class Committer:
    """One term of writing batches to the stores of a group, each batch as one epoch.

    Attributes:
        changelog: Where to.
        writer: The term.
        plans: How rows of the stores are made.
        definitions: The stores' definitions, by name.
        chooser: Says which way a batch goes.
        notifiers: Hosts to tell of commits.
    """

    changelog: Changelog
    writer: Writer
    plans: Sequence[RowPlan]
    definitions: dict[str, StoreDefinition]
    chooser: PathChooser
    notifiers: Sequence[Notifier] = field(default=())

    def commit(self, batch: Batch) -> Commit:
        """Compute a batch and commit it. One epoch, durable on return, or an error and no epoch.

        Args:
            batch: The batch.

        Returns:
            The commit.

        Raises:
            LivestateError: As `partition_rows`, `Changelog.stage` and `Writer.commit`.
        """
        with ExitStack() as kept:
            source = batch.frame
            if len(self.plans) > 1 and batch.frame.storageLevel == StorageLevel.NONE:
                # Each plan runs an action of its own; the batch itself is computed by the first alone.
                # A frame that the user has persisted is the user's to unpersist.
                source = batch.frame.persist()
                kept.callback(source.unpersist)
            rows = [BatchRows(plan.frame(source), self._destination(plan, batch)) for plan in self.plans]
            commit = self._transfer(rows, batch)
        for notifier in self.notifiers:
            notifier.notify(commit.epoch)
        return commit

    def last_commit(self, query_id: str) -> Commit | None:
        """The commit of the last batch of a streaming query; None where there is none, or it is gone."""
        last = self.writer.last_batch(query_id)
        return None if last is None else self.changelog.read_commit(self.writer.group, last.epoch)

    def _destination(self, plan: RowPlan, batch: Batch) -> Destination:
        targets = [Target(self.definitions[output.store], output.tombstones) for output in plan.outputs]
        return Destination(self.changelog, tuple(targets), batch.name)

    def _transfer(self, rows: Sequence[BatchRows], batch: Batch) -> Commit:
        if self.chooser.choose([part.frame for part in rows]) is TransferPath.EXECUTORS:
            return self._commit(stage_from_executors(rows, self.writer.next_epoch), batch)
        try:
            written = bring_to_driver(rows, self.writer.next_epoch)
        except Py4JJavaError as error:
            if not self.chooser.may_change or is_interruption(error, batch.frame.sparkSession):
                raise
            _LOG.warning(
                "%s could not be brought to the driver; it is written from the executors instead: %s",
                batch.name,
                error.java_exception,
            )
            written = stage_from_executors(rows, self.writer.next_epoch)
        return self._commit(written, batch)

    def _commit(self, written: RowsByPartition | list[DataFile], batch: Batch) -> Commit:
        replaced = [
            self.definitions[output.store].name
            for plan in self.plans
            for output in plan.outputs
            if output.mode == OutputMode.COMPLETE
        ]
        cutoffs = cutoffs_of(self.definitions.values(), batch.watermark, time.time_ns() // 1000)
        if isinstance(written, list):
            self.chooser.note_size(sum(file.size for file in written))
            return self.writer.commit(
                written,
                query_id=batch.query_id,
                batch_id=batch.batch_id,
                planned_at=batch.planned_at,
                replaced=replaced,
                cutoffs=cutoffs,
            )
        self.chooser.note_size(sum(rows.nbytes for parts in written.values() for rows in parts.values()))
        return self.writer.append(
            written,
            query_id=batch.query_id,
            batch_id=batch.batch_id,
            planned_at=batch.planned_at,
            replaced=replaced,
            cutoffs=cutoffs,
        )
