"""What a host that is behind answers from its own stores, where no route is looked for."""

from __future__ import annotations

import time
from collections.abc import Collection

from engine.model.durations import MICROSECONDS_PER_SECOND
from engine.model.read_point import ReadPoint
from engine.model.schema import StoreName
from engine.scan import StoreSource


class LagLimit:
    """Keeps a host that is too far behind from answering past the routes, which know what to tell the client.
    Safe for threads.

    Args:
        source: The stores that are here.
        max_lag_seconds: How long ago the oldest commit may be that an answer lacks; None for no limit.

    Attributes:
        max_lag_seconds: The same.
    """

    def __init__(self, source: StoreSource, max_lag_seconds: float | None) -> None:
        self._source = source
        self.max_lag_seconds = max_lag_seconds

    def complete_until(self, stores: Collection[StoreName], read_point: ReadPoint) -> int | None:
        """Whether the newest epochs here are new enough. To be asked before they are pinned.

        Args:
            stores: The stores that are to be read.
            read_point: Which epochs will do.

        Returns:
            Until when they lack no commit, as `StoreSource.complete_until`; None where they are too old.
        """
        until = self._source.complete_until(stores)
        return until if self.allows(until, read_point) else None

    def allows(self, complete_until: int, read_point: ReadPoint) -> bool:
        """Whether epochs may be read.

        Args:
            complete_until: Until when they lack no commit, microseconds since 1970 UTC.
            read_point: Which epochs will do.
        """
        if self.max_lag_seconds is None or read_point.allow_stale:
            return True
        return time.time_ns() // 1000 - complete_until <= self.max_lag_seconds * MICROSECONDS_PER_SECOND
