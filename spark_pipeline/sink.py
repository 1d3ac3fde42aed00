"""The way from a streaming query to its stores: a callable for `foreachBatch`."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Unpack

from pyspark.sql import DataFrame

from engine.changelog import Changelog, Commit, CommittedBatch
from engine.errors import InvalidInput
from engine.model.schema import GroupName
from flight_server.client.connection_options import ConnectionOptions
from spark_pipeline.committer import Batch, Committer
from spark_pipeline.interruption import quiet_stop
from spark_pipeline.notify import notifiers_of
from spark_pipeline.output_modes import check_output_mode
from spark_pipeline.outputs import StoreOutput, StoreSettings, create_stores
from spark_pipeline.row_plans import plan_rows
from spark_pipeline.transfer import DEFAULT_DRIVER_BYTES, PathChooser, TransferPath
from spark_pipeline.watermark import (
    batch_planned_at,
    batch_watermark,
    has_watermark,
    is_aggregated,
    output_mode,
    running_id,
    streaming_query_id,
    uses_connect,
)

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Run:
    """One run of a streaming query.

    Attributes:
        query_id: Stays the same when the query restarts from its checkpoint.
        run_id: New at each start.
    """

    query_id: str
    run_id: str

    @staticmethod
    def from_frame(frame: DataFrame) -> _Run:
        """The run that a frame is a batch of. A local property of the thread says of which query; the run is
        the job group as well, but a job may have groups of its own.
        """
        if uses_connect(frame):
            raise InvalidInput(
                "LiveStateSink does not run with Spark Connect, which hides what a batch is planned with: "
                "start the job where its driver is, with spark-submit or a session without remote(…)."
            )
        query_id = streaming_query_id(frame)
        run_id = None if query_id is None else running_id(frame, query_id)
        if query_id is None or run_id is None:
            raise InvalidInput(
                "LiveStateSink is for foreachBatch of a streaming query; use write_store for a batch frame. "
                "A thread that foreachBatch starts has to take over its local properties: wrap what it runs "
                "in pyspark.inheritable_thread_target(batch.sparkSession)."
            )
        return _Run(query_id, run_id)


def check_repeat(
    batch_id: int, last: CommittedBatch, commit: Commit | None, run_id: str, planned_at: int
) -> None:
    """See that a batch that the changelog has is run again, and is no other one of its number. Spark runs the
    last batch of a checkpoint again, and once in a run.

    Args:
        batch_id: The batch's number, up to the last.
        last: The last batch of its query in the changelog.
        commit: The commit of that; None where it is gone.
        run_id: Of the run of the query.
        planned_at: When Spark planned the batch, microseconds since 1970 UTC.

    Raises:
        InvalidInput: It is another one: its rows would be lost.
    """
    if commit is not None and run_id in commit.writer:
        raise InvalidInput(
            f"Batch {batch_id} of store group {commit.group} was committed already in this run: call one "
            "sink once for each batch, and give it all stores of the group (stores=[StoreOutput(…), …])."
        )
    if batch_id < last.batch_id or _is_planned_anew(last, commit, planned_at):
        raise InvalidInput(
            f"Batch {batch_id} was planned anew, and the changelog has batches of this query up to "
            f"{last.batch_id}: the checkpoint is older than the changelog. Start the query with the "
            "checkpoint that belongs to it, or with a new one."
        )


def _is_planned_anew(last: CommittedBatch, commit: Commit | None, planned_at: int) -> bool:
    """Whether a batch is another one than the last of its number. Older versions did not keep when that was
    planned: there the commit tells, which is later, as far as clocks are right.
    """
    if last.planned_at is not None:
        return planned_at != last.planned_at
    return commit is not None and planned_at > commit.committed_at


def _warn_of_gap(run: _Run, last: CommittedBatch | None, batch_id: int) -> None:
    """A job may leave batches out, or begin to write here with a later one; else they are lost."""
    if last is None and batch_id > 0:
        _LOG.warning(
            "The changelog has no batch of query %s, and the next one is %d: unless it wrote elsewhere "
            "before, this is not the changelog that belongs to its checkpoint, as where a directory is not "
            "mounted, and the rows of earlier batches are missing.",
            run.query_id,
            batch_id,
        )
    if last is not None and batch_id > last.batch_id + 1:
        _LOG.warning(
            "The changelog has batches of query %s up to %d, and the next one is %d: unless those between "
            "were left out, the checkpoint is newer than the changelog, and their rows are missing.",
            run.query_id,
            last.batch_id,
            batch_id,
        )


class LiveStateSink:
    """Keeps stores up to date with a streaming query; pass it to `foreachBatch`. Each batch is one epoch.

    ```python
    plays = events.groupBy("song_id").count()
    (plays.writeStream.outputMode("update")
        .foreachBatch(LiveStateSink(
            changelog="file:///var/lib/livestate", store="plays", key=["song_id"], partitions=8))
        .option("checkpointLocation", "/var/lib/checkpoints/plays")
        .start())
    ```

    A batch is in its stores exactly once: what Spark runs again after a crash finds its commit, and nothing
    is written. A new checkpoint means a new query, whose batches are new epochs. One query writes a store
    group; starting another one, or the same elsewhere, takes the group over, and the older is refused with
    `Fenced`. A sink belongs to one query at a time, too: the last that started.

    Several stores that one query keeps up to date together are committed, and seen, together:

    ```python
    LiveStateSink(changelog=uri, group="charts", stores=[
        StoreOutput("plays", key=["song_id"]), StoreOutput("hits", key=["genre", "song_id"],
        partition_by=["genre"], query=lambda batch: batch.where("count > 100")),
    ])
    ```

    Args:
        changelog: URI of the changelog: `file:///…`, `s3://…`, `gs://…`, `az://…`.
        store: Name of the store, when there is one; `stores` otherwise.
        key: Columns that identify a row.
        group: Store group; the store's name by default, required with several stores.
        stores: The stores, when there are several or one needs a query of its own.
        path: How rows get to the changelog: "driver", "executors", or "auto", by their size.
        driver_bytes: Up to which size a batch goes through the driver when `path` is "auto", in bytes of
            Arrow data.
        notify: Flight URIs of hosts to tell of each commit, so that they need not poll: one or a sequence of
            `grpc://host:port`; or `ConnectionOptions`, where hosts want a token or have a private
            certificate.
        changelog_options: Settings of the object store, such as its `endpoint`.
        settings: All else about the store, when there is one: the attributes of `StoreOutput`.

    Raises:
        InvalidInput: Arguments contradict each other, or one is not understood.
    """

    def __init__(
        self,
        *,
        changelog: str,
        store: str | None = None,
        key: Sequence[str] = (),
        group: str | None = None,
        stores: Sequence[StoreOutput] = (),
        path: str = TransferPath.AUTO,
        driver_bytes: int = DEFAULT_DRIVER_BYTES,
        notify: str | Sequence[str] | ConnectionOptions = (),
        changelog_options: Mapping[str, str] | None = None,
        **settings: Unpack[StoreSettings],
    ) -> None:
        if (store is None) == (not stores):
            raise InvalidInput("LiveStateSink needs either a store with its key, or stores.")
        misplaced = [*(["key"] if key else []), *settings] if stores else []
        if misplaced:
            raise InvalidInput(
                f"Each of the stores says for itself what it is: give {', '.join(misplaced)} to its "
                "StoreOutput."
            )
        listed: tuple[StoreOutput, ...] = () if isinstance(stores, StoreOutput) else tuple(stores)
        if bool(listed) != bool(stores) or not all(isinstance(each, StoreOutput) for each in listed):
            raise InvalidInput("stores must be a list of StoreOutput(…): write stores=[StoreOutput(…), …].")
        self._outputs = listed if store is None else (StoreOutput(store, key, **settings),)
        self._needs_watermark = any(output.goes_by_watermark for output in self._outputs)
        names = [output.store for output in self._outputs]
        if len(set(names)) != len(names):
            raise InvalidInput(
                f"LiveStateSink writes a store twice in one commit; the stores are {', '.join(names)}."
            )
        if group is None and len(names) > 1:
            raise InvalidInput(f"The stores {', '.join(names)} are committed together: name their group.")
        self._group = GroupName(group if group is not None else names[0])
        self._changelog = Changelog.open(changelog, changelog_options)
        self._chooser = PathChooser(path, driver_bytes, unknown=TransferPath.DRIVER)
        self._notifiers = notifiers_of(notify, self._group)
        self._run: _Run | None = None
        self._former_runs: set[_Run] = set()
        self._committer: Committer | None = None

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Commit one batch. Spark calls it.

        Args:
            frame: The batch's rows.
            batch_id: The batch's number.

        Raises:
            InvalidInput: Rows, stores or arguments do not fit each other; nothing of the batch was committed.
            Fenced: Another query writes the store group now.
            Unavailable: The changelog cannot be reached. Restart the query; the batch is done again if it was
                not committed.
            LimitExceeded: The disk is full.
            Cancelled: The query was stopped meanwhile.
        """
        run = _Run.from_frame(frame)
        watermark = batch_watermark(frame, run.query_id) if self._needs_watermark else None
        planned_at = batch_planned_at(frame, run.query_id)
        batch = Batch(frame, run.query_id, batch_id, planned_at, watermark)
        with quiet_stop(frame.sparkSession, batch.name):
            committer = self._committer_for(run, frame)
            last = committer.writer.last_batch(run.query_id)
            if last is None or batch_id > last.batch_id:
                _warn_of_gap(run, last, batch_id)
                committer.commit(batch)
            else:
                commit = committer.last_commit(run.query_id)
                check_repeat(batch_id, last, commit, run.run_id, planned_at)
                # Spark wants its own state of the batch all the same, and makes it while the rows are
                # computed.
                frame.write.format("noop").mode("overwrite").save()

    def _committer_for(self, run: _Run, frame: DataFrame) -> Committer:
        if self._committer is None or run != self._run:
            if run in self._former_runs:
                # Two running queries would take the group from each other in turns, for ever.
                raise InvalidInput(
                    f"Another streaming query uses the sink of store group {self._group}: make a sink, and a "
                    "group, for each query."
                )
            self._committer = self._open(frame, run)
            self._run = run
            self._former_runs.add(run)
        return self._committer

    def _open(self, frame: DataFrame, run: _Run) -> Committer:
        """Take the group over. The stores come first: a query that does not fit them must not stop the one
        that does.
        """
        check_output_mode(
            self._outputs,
            output_mode(frame, run.query_id),
            is_aggregated=is_aggregated(frame, run.query_id),
        )
        is_known = not self._needs_watermark or has_watermark(frame, run.query_id)
        definitions = create_stores(
            self._changelog,
            self._outputs,
            frame,
            self._group,
            has_watermark=is_known,
            goes_on=self._changelog.knows_query(self._group, run.query_id),
        )
        writer = self._changelog.writer(
            self._group, f"run {run.run_id} on {socket.gethostname()}, process {os.getpid()}"
        )
        plans = plan_rows(self._outputs, frame)
        return Committer(self._changelog, writer, plans, definitions, self._chooser, self._notifiers)
