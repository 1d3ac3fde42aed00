"""Which epochs of a store group can be read on a host: by anybody, and by whoever takes one of the past."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from engine.cluster.reports import ReadableEpoch
from engine.model.schema import Epoch, GroupName, PartitionId, StoreName
from engine.replica.group_views import EpochRetention, GroupView, RetainedViews


class ReadableEpochs:
    """The views of a group from its target on; and while there are none of these, views of epochs before it,
    which nobody is given who does not ask for them. One thread at a time changes them; any may read and hold
    them.

    Args:
        group: The group.
        retention: How long views are kept.
        clock: Gives the time in seconds that never go back.
    """

    def __init__(self, group: GroupName, retention: EpochRetention, clock: Callable[[], float]) -> None:
        self._views = RetainedViews(group, retention)
        self._past_views = RetainedViews(group, retention)
        self._clock = clock

    @property
    def newest(self) -> GroupView | None:
        """The newest epoch; None while the target is not reached."""
        return self._views.newest

    @property
    def listed(self) -> tuple[ReadableEpoch, ...]:
        """The epochs that anybody may read, for reports."""
        return self._views.readable

    @property
    def listed_past(self) -> tuple[ReadableEpoch, ...]:
        """The epochs before the target, likewise."""
        return self._past_views.readable

    @property
    def since(self) -> Mapping[StoreName, Epoch]:
        """The oldest epoch from which on all partitions of each store can be read."""
        return self._views.since

    @property
    def pinned(self) -> int:
        """How many epochs are past their retention and still read by queries."""
        return self._views.pinned_epochs

    def has_past(self, epoch: Epoch) -> bool:
        """Whether an epoch before the target can be read."""
        return self._past_views.has(epoch)

    def view_at(self, epoch: Epoch) -> GroupView:
        """The view of an epoch, of the past or not.

        Raises:
            Unavailable: It cannot be read; the message names the epochs that can.
        """
        return self._views_with(epoch).view_at(epoch)

    def hold(self, epoch: Epoch, seconds: float) -> None:
        """Keep an epoch readable for some time, as `RetainedViews.hold`."""
        clock = self._clock()
        self._views_with(epoch).hold(epoch, clock + seconds, clock)

    def _views_with(self, epoch: Epoch) -> RetainedViews:
        return self._past_views if self.has_past(epoch) else self._views

    def publish(self, view: GroupView) -> None:
        """Make a view the newest, which it is from the target on; none of the past is needed any more."""
        self._views.publish(view, self._clock())
        self._past_views.clear()

    def publish_past(self, view: GroupView) -> None:
        """Make a view the newest of those before the target."""
        self._past_views.publish(view, self._clock())

    def clear(self) -> None:
        """Have nothing read any more."""
        self._views.clear()
        self._past_views.clear()

    def clear_past(self) -> None:
        """Have nothing read before the target any more."""
        self._past_views.clear()

    def drop_partitions(self, partitions: Collection[tuple[StoreName, PartitionId]]) -> None:
        """Have some partitions read at no epoch that there is: they are built again."""
        self._views.drop_partitions(partitions)
        self._past_views.clear()

    def drop_stores(self, stores: Collection[StoreName]) -> None:
        """Have some stores read at no epoch any more."""
        self._views.drop_stores(stores)

    def expire(self) -> bool:
        """Drop views of epochs that are past their retention; whether there were any."""
        clock = self._clock()
        has_expired, has_past_expired = self._views.expire(clock), self._past_views.expire(clock)
        return has_expired or has_past_expired

    @property
    def next_expiry(self) -> float | None:
        """When the next epoch is past its retention, by the clock; None when only the newest is kept."""
        expiries = (views.next_expiry for views in (self._views, self._past_views))
        return min((expiry for expiry in expiries if expiry is not None), default=None)
