"""Metadata of a query from what it read."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from engine.exec.query_result import QueryMetadata
from engine.model.durations import MICROSECONDS_PER_SECOND
from engine.model.schema import Epoch, GroupName, StoreName
from engine.scan import ScanStatistics, StoreView


class EpochRead(NamedTuple):
    """An epoch as it is compared: two commits that had the same number one after the other, as where a
    changelog was restored, are two epochs.

    Attributes:
        group: The store group.
        epoch: The epoch.
        committed_at: When it was committed, microseconds since 1970 UTC.
        digest: As `ReadableEpoch.digest`.
    """

    group: GroupName
    epoch: Epoch
    committed_at: int
    digest: str


EpochsRead = tuple[EpochRead, ...]
"""In order of the groups."""


def epochs_of(views: Mapping[StoreName, StoreView]) -> EpochsRead:
    """The epochs that views show."""
    found = {
        EpochRead(view.definition.group, view.epoch, view.committed_at, view.digest)
        for view in views.values()
    }
    return tuple(sorted(found))


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
    digests = {view.definition.group: view.digest for view in views.values() if view.digest}
    age = age_seconds(min((view.committed_at for view in views.values() if view.committed_at), default=0))
    if rows_read is not None:
        return QueryMetadata(plan, epochs, age, rows_read=rows_read, digests=digests, seconds=seconds)
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
        digests=digests,
        seconds=seconds,
    )


_LOOKUP = QueryMetadata("lookup", {}, 0.0)


def lookup_metadata(
    view: StoreView, rows: int, seconds: float, complete_until: int | None = None
) -> QueryMetadata:
    """What a lookup of one row read.

    Args:
        view: The store.
        rows: How many rows were found.
        seconds: Time that it took.
        complete_until: As that of `stale_seconds`.

    Returns:
        The metadata.
    """
    group, now = view.definition.group, time.time()
    return _LOOKUP.replace_quickly(
        epochs={group: view.epoch},
        age_seconds=age_seconds(view.committed_at, now),
        rows_read=rows,
        seconds={"total": seconds},
        digests={group: view.digest} if view.digest else {},
        stale_seconds=stale_seconds(complete_until, now),
    )


def age_seconds(committed_at: int, now: float | None = None) -> float:
    """Age of an epoch.

    Args:
        committed_at: When it was committed, microseconds since 1970 UTC; 0 for none.
        now: The time in seconds since then, where it was just asked for.

    Returns:
        Seconds; 0 for none.
    """
    if not committed_at:
        return 0.0
    return max(0.0, (time.time() if now is None else now) - committed_at / MICROSECONDS_PER_SECOND)


def stale_seconds(complete_until: int | None, now: float | None = None) -> float | None:
    """As `QueryMetadata.stale_seconds`, of what lacks no commit that was made until some time.

    Args:
        complete_until: The time, microseconds since 1970 UTC; 0 and None where there is none.
        now: As that of `age_seconds`.
    """
    return age_seconds(complete_until, now) if complete_until else None
