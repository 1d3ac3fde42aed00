"""Batch writes, for back-fills and for tables that no stream keeps up to date."""

from __future__ import annotations

import datetime as dt
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Unpack

from pyspark.sql import DataFrame

from engine.changelog import Changelog
from engine.errors import InvalidInput
from engine.model.kinds import Merge, Session
from engine.model.retention import microseconds_of_moment
from engine.model.schema import Epoch, GroupName
from flight_server.client.connection_options import ConnectionOptions
from spark_pipeline.committer import Batch, Committer
from spark_pipeline.notify import notifiers_of
from spark_pipeline.outputs import StoreOutput, StoreSettings, create_stores
from spark_pipeline.row_plans import plan_rows
from spark_pipeline.transfer import DEFAULT_DRIVER_BYTES, PathChooser, TransferPath
from spark_pipeline.watermark import streaming_query_id

_NOTIFY_SECONDS = 3.0


def write_store(
    frame: DataFrame,
    *,
    changelog: str,
    store: str,
    key: Sequence[str],
    watermark: dt.datetime | None = None,
    group: str | None = None,
    path: str = TransferPath.AUTO,
    driver_bytes: int = DEFAULT_DRIVER_BYTES,
    take_over: bool = False,
    notify: str | Sequence[str] | ConnectionOptions = (),
    changelog_options: Mapping[str, str] | None = None,
    **settings: Unpack[StoreSettings],
) -> Epoch:
    """Write a batch frame to a store, as one epoch.

    Give tables that are only loaded a group of their own, which is the default. What comes into a store that
    merges is merged with what is there: a frame that is written twice counts twice.

    Args:
        frame: The rows.
        changelog: As for `LiveStateSink`.
        store: Name of the store.
        key: Columns that identify a row.
        watermark: No event before it is waited for any more, with a time zone: rows that are past their
            retention by then go. None: rows that go by the time of an event stay, until a streaming query
            with a watermark writes the store.
        group: Store group; the store's name by default.
        path: "driver", "executors" or "auto"; a frame whose size Spark cannot tell beforehand goes from the
            executors.
        driver_bytes: Up to which size a frame goes through the driver when `path` is "auto".
        take_over: Whether to write a store group that a streaming query has written. It is refused from then
            on, and goes on when it is started again.
        notify: Hosts to tell of the commit, as for `LiveStateSink`.
        changelog_options: Settings of the object store.
        settings: All else about the store: the attributes of `StoreOutput`.

    Returns:
        The epoch that the rows are.

    Raises:
        InvalidInput: Rows, store or arguments do not fit each other, or a streaming query has written the
            group and it is not to be taken over; nothing was committed.
        Fenced: Another writer took the group over meanwhile.
        Unavailable: The changelog cannot be reached.
        LimitExceeded: The disk is full.
    """
    if frame.isStreaming:
        raise InvalidInput(
            "write_store is for a batch frame, and this one is a stream: write it with "
            "foreachBatch(LiveStateSink(…))."
        )
    if not isinstance(take_over, bool):
        raise InvalidInput(f"take_over must be True or False, and not {take_over!r}.")
    output = StoreOutput(store, key, **settings)
    if isinstance(output.kind, Merge | Session) and streaming_query_id(frame) is not None:
        raise InvalidInput(
            f"Store {store} merges what comes, and a batch that Spark runs again would count twice: within "
            "foreachBatch write it with LiveStateSink, which writes a batch once."
        )
    if watermark is not None and not output.goes_by_watermark:
        raise InvalidInput(
            f"The watermark would have no effect: store {store} lets no rows go by the time of an event. "
            "Leave it out, or give the store a retention by such a time."
        )
    passed = None if watermark is None else microseconds_of_moment(watermark)
    name = GroupName(group if group is not None else store)
    chooser = PathChooser(path, driver_bytes, unknown=TransferPath.EXECUTORS)
    notifiers = notifiers_of(notify, name)
    opened = Changelog.open(changelog, changelog_options)
    if not take_over:
        # Before a store is left behind in a group that is another's.
        opened.check_no_other_job(name)
    definitions = create_stores(opened, [output], frame, name)
    writer = opened.writer(
        name, f"batch write on {socket.gethostname()}, process {os.getpid()}", take_over=take_over
    )
    plans = plan_rows([output], frame)
    commit = Committer(opened, writer, plans, definitions, chooser, notifiers).commit(
        Batch(frame, watermark=passed)
    )
    for notifier in notifiers:
        # A script may end right after its write, and the notifiers' threads with it.
        notifier.wait(_NOTIFY_SECONDS)
    return commit.epoch
