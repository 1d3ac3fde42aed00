"""What a streaming query plans its batches with: the watermark, and when it planned them; what it declares,
and which run of it does so.

Spark fixes both before it runs a batch, and keeps them in the metadata of the batch's offsets
(`batchWatermarkMs`, `batchTimestampMs`): a batch that is run again has what it had. A frame in `foreachBatch`
does not lead there, but the query's id does: all sessions of a driver share a map of the queries that run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

_QUERY_ID = "sql.streaming.queryId"


def uses_connect(frame: DataFrame) -> bool:
    """Whether a frame is one of Spark Connect, which does not tell what it is planned with.

    Args:
        frame: Any frame.
    """
    return not hasattr(frame, "_jdf")


def streaming_query_id(frame: DataFrame) -> str | None:
    """The id of the streaming query whose `foreachBatch` runs in this thread: a local property of the thread.
    None where there is none, and with Spark Connect.

    Args:
        frame: Any frame.
    """
    if uses_connect(frame):
        return None
    found: str | None = frame.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    return found


def batch_watermark(frame: DataFrame, query_id: str) -> int | None:
    """The watermark of the batch that is being run.

    Args:
        frame: The batch's frame, in `foreachBatch`.
        query_id: Its streaming query.

    Returns:
        No event before it is waited for, microseconds since 1970 UTC. None while the query has seen no event,
        and of a query without one.
    """
    milliseconds = int(_offset_metadata(frame, query_id).batchWatermarkMs())
    return milliseconds * 1000 if milliseconds > 0 else None


def batch_planned_at(frame: DataFrame, query_id: str) -> int:
    """When the batch was planned that is being run, microseconds since 1970 UTC.

    Args:
        frame: The batch's frame, in `foreachBatch`.
        query_id: Its streaming query.
    """
    return int(_offset_metadata(frame, query_id).batchTimestampMs()) * 1000


def has_watermark(frame: DataFrame, query_id: str) -> bool:
    """Whether a streaming query declares a watermark.

    Args:
        frame: A batch's frame, in `foreachBatch`.
        query_id: The query.
    """
    return _declares_watermark(_running_query(frame, query_id).logicalPlan())


def output_mode(frame: DataFrame, query_id: str) -> str:
    """The output mode of a streaming query, as Spark names it: Append, Update or Complete.

    Args:
        frame: A batch's frame, in `foreachBatch`.
        query_id: The query.
    """
    return str(_running_query(frame, query_id).outputMode().toString())


def is_aggregated(frame: DataFrame, query_id: str) -> bool:
    """Whether a streaming query aggregates its events, so that Spark has the totals.

    Args:
        frame: A batch's frame, in `foreachBatch`.
        query_id: The query.
    """
    return _aggregates_stream(_running_query(frame, query_id).logicalPlan())


def running_id(frame: DataFrame, query_id: str) -> str | None:
    """The id of the run of a streaming query, new at each start; None where the query does not run.

    Args:
        frame: A batch's frame, in `foreachBatch`.
        query_id: The query.
    """
    query = _running_query(frame, query_id)
    return None if query is None else str(query.runId().toString())


def _offset_metadata(frame: DataFrame, query_id: str) -> Any:
    return _running_query(frame, query_id).getLatestExecutionContext().offsetSeqMetadata()


def _running_query(frame: DataFrame, query_id: str) -> Any:
    """Spark's own object of a query, which PySpark has no public way to from a batch."""
    machine: Any = frame.sparkSession._jvm  # noqa: SLF001
    uuid = machine.java.util.UUID.fromString(query_id)
    return frame.sparkSession._jsparkSession.sharedState().activeStreamingQueries().get(uuid)  # noqa: SLF001


def _declares_watermark(plan: Any) -> bool:
    if plan.nodeName() in ("EventTimeWatermark", "UpdateEventTimeWatermarkColumn"):
        return True
    return any(_declares_watermark(child) for child in _children(plan))


def _aggregates_stream(plan: Any) -> bool:
    """A table that is joined may be aggregated, too, which says nothing of the stream."""
    if not plan.isStreaming():
        return False
    return plan.nodeName() == "Aggregate" or any(_aggregates_stream(child) for child in _children(plan))


def _children(plan: Any) -> Iterator[Any]:
    children = plan.children()
    return (children.apply(number) for number in range(children.size()))
