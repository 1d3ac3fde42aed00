"""Metadata of a query from what it read."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from engine.exec.query_result import QueryMetadata
from engine.model.schema import Epoch, GroupName, StoreName
from engine.scan import ScanStatistics, StoreView

MICROSECONDS = 1_000_000


EpochsRead = tuple[tuple[GroupName, Epoch, int], ...]
"""Store group, epoch, and when that was committed (microseconds since 1970 UTC), in order of the groups: two
commits that had the same number one after the other are two epochs.
"""


def epochs_of(views: Mapping[StoreName, StoreView]) -> EpochsRead:
    """The epochs that views show."""
    return tuple(sorted({(view.definition.group, view.epoch, view.committed_at) for view in views.values()}))


def metadata_of(
    plan: str,
    views: Mapping[StoreName, StoreView],
    statistics: Sequence[ScanStatistics],
    seconds: Mapping[str, float],
    rows_read: int | None = None,
) -> QueryMetadata:
    """What a query read.

    Args:
        plan: Kind of its plan.
        views: The stores it read.
        statistics: What pruning left of each of its scans.
        seconds: Time of each step.
        rows_read: Stored rows that it read, if it had no scans.

    Returns:
        The metadata.
    """
    epochs: dict[GroupName, Epoch] = {view.definition.group: view.epoch for view in views.values()}
    age = age_seconds(min((view.committed_at for view in views.values() if view.committed_at), default=0))
    if rows_read is not None:
        return QueryMetadata(plan, epochs, age, rows_read=rows_read, seconds=seconds)
    return QueryMetadata(
        plan,
        epochs,
        age,
        partitions_read=sum(each.partitions_read for each in statistics),
        partitions=sum(each.partitions for each in statistics),
        segments_read=sum(each.segments_read for each in statistics),
        segments=sum(each.segments for each in statistics),
        blocks_read=sum(each.blocks_read for each in statistics),
        blocks=sum(each.blocks for each in statistics),
        rows_read=sum(each.rows_read for each in statistics),
        rows=sum(each.rows for each in statistics),
        seconds=seconds,
    )


def lookup_metadata(view: StoreView, rows: int, seconds: float) -> QueryMetadata:
    """What a lookup of one row read.

    Args:
        view: The store.
        rows: How many rows were found.
        seconds: Time that it took.

    Returns:
        The metadata.
    """
    return QueryMetadata(
        "lookup",
        {view.definition.group: view.epoch},
        age_seconds(view.committed_at),
        rows_read=rows,
        seconds={"total": seconds},
    )


def age_seconds(committed_at: int) -> float:
    """Age of an epoch, which was committed at a number of microseconds since 1970; 0 for none."""
    return max(0.0, time.time() - committed_at / MICROSECONDS) if committed_at else 0.0
