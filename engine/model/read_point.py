"""Which epochs a query may read: what a client, a session or the text of a statement asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from engine.model.schema import Epoch, GroupName

_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class AsOfEpoch:
    """Read exactly this epoch.

    Attributes:
        epoch: The epoch.
        digest: Digest of its commit, which tells it from an epoch of this number in another history of the
            changelog; empty for whichever there is.
    """

    epoch: Epoch
    digest: str = ""


@dataclass(frozen=True)
class AsOfTimestamp:
    """Read the newest epoch that is retained and was committed at a moment or before it.

    A host that is behind takes several epochs together and shows the last of them; such an epoch may be older
    than the moment by those it skipped.

    Attributes:
        microseconds: The moment, microseconds since 1970 UTC.
    """

    microseconds: int

    def __str__(self) -> str:
        try:
            return (_BEGIN + timedelta(microseconds=self.microseconds)).isoformat(" ")
        except OverflowError:
            return f"{self.microseconds} µs after 1970"


AsOf = AsOfEpoch | AsOfTimestamp


@dataclass(frozen=True)
class ReadPoint:
    """Which epochs a query may read. Without any limit that is, for each group, the newest that all
    partitions have which it needs.

    Attributes:
        min_epoch: Oldest epoch that will do, of every group that the query reads; it is waited for. Whoever
            wrote an epoch reads it so.
        max_staleness_seconds: How long before the query began the oldest commit may be that it does not see;
            None for no such limit. An old epoch that is still the newest is not stale.
        as_of: What to read of a group; the two limits above do not apply to it. None for the newest, whatever
            the default is.
        as_of_default: The same for all groups that `as_of` does not name. An epoch can be meant by one group
            only.
        allow_stale: Whether a host may answer that is further behind than it may be (`max_lag_seconds` of
            `engine.exec.query_options`). The two limits above hold all the same.
        allowed_generations: How many amendments of a group may be in effect, where the columns of an answer
            are told already. Clients do not ask for it.
        pinned: The epoch of a group that was chosen already when the statement was divided, whatever else
            is asked for. Clients do not ask for it, either.
    """

    min_epoch: Epoch | None = None
    max_staleness_seconds: float | None = None
    as_of: Mapping[GroupName, AsOf | None] = field(default_factory=dict)
    as_of_default: AsOf | None = None
    allow_stale: bool = False
    allowed_generations: Mapping[GroupName, range] = field(default_factory=dict)
    pinned: Mapping[GroupName, AsOfEpoch] = field(default_factory=dict)

    def group_as_of(self, group: GroupName) -> AsOf | None:
        """What to read of a group; None for the newest within the limits."""
        return self.pinned.get(group) or self.as_of.get(group, self.as_of_default)

    @property
    def is_newest(self) -> bool:
        """Whether it asks for the newest epochs without any limit."""
        return self is NEWEST or self in (NEWEST, _NEWEST_OR_STALE)


NEWEST = ReadPoint()
_NEWEST_OR_STALE = ReadPoint(allow_stale=True)
