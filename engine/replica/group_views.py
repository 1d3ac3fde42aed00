"""What can be read of a store group on a host: its newest epoch, and those before it that are retained for a
while.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from engine.cluster.refusals import epochs_in_words
from engine.cluster.reports import ReadableEpoch
from engine.errors import LimitExceeded, NotFound, Unavailable
from engine.model.schema import Epoch, GroupName, PartitionId, StoreDefinition, StoreName
from engine.scan import BuildingError
from engine.state.state_view import StateView
from engine.state.version import Version

_MISSING_SHOWN = 5
MOST_HELD = 256
"""Epochs of a group that readers may hold at once."""


@dataclass(frozen=True)
class EpochRetention:
    """How long epochs stay readable after a newer one. The newest always does.

    Attributes:
        seconds: Time after which an epoch is let go.
        versions: How many epochs there are at most, the newest included.
        bytes: Memory of delete vectors and segments that only older epochs need, at most; an estimate.
    """

    seconds: float
    versions: int
    bytes: int


@dataclass(frozen=True, eq=False)
class GroupView:
    """All stores of a group at one epoch, with the partitions that can be read here.

    Attributes:
        group: The group.
        epoch: The epoch.
        committed_at: When it was committed, microseconds since 1970 UTC; 0 before the first.
        stores: Every store of the group, as it is at the epoch.
        generation: How many amendments of the group are in effect.
        rebuilding: Partitions that are held here and come to be readable at a later epoch.
        digest: As `Commit.digest` of the epoch; empty where it is not known.
    """

    group: GroupName
    epoch: Epoch
    committed_at: int
    stores: Mapping[StoreName, StateView]
    generation: int = 0
    rebuilding: frozenset[tuple[StoreName, PartitionId]] = frozenset()
    digest: str = ""

    @cached_property
    def definitions(self) -> Mapping[StoreName, StoreDefinition]:
        """What the stores are."""
        return {name: store.definition for name, store in self.stores.items()}

    @cached_property
    def readable(self) -> ReadableEpoch:
        """The epoch, for reports."""
        return ReadableEpoch(self.epoch, self.committed_at, self.generation, self.digest)

    @cached_property
    def _whole(self) -> Mapping[StoreName, StateView]:
        return {
            name: store
            for name, store in self.stores.items()
            if len(store.versions) == store.definition.partitions
        }

    def hide_partitions(self, partitions: Collection[tuple[StoreName, PartitionId]]) -> GroupView:
        """The view without some partitions, which come to be readable later."""
        stores = {
            name: StateView(
                store.definition,
                store.epoch,
                store.committed_at,
                {
                    number: version
                    for number, version in store.versions.items()
                    if (name, number) not in partitions
                },
                digest=store.digest,
            )
            for name, store in self.stores.items()
        }
        return replace(self, stores=stores, rebuilding=self.rebuilding.union(partitions))

    def hide_stores(self, stores: Collection[StoreName]) -> GroupView:
        """The view without some stores."""
        return replace(
            self, stores={name: store for name, store in self.stores.items() if name not in stores}
        )

    def check_digest(self, digest: str) -> None:
        """See that the epoch is the one that is meant.

        Args:
            digest: As `Commit.digest` of it; empty where it is not known.

        Raises:
            Unavailable: The changelog has another history by now, or had another one before.
        """
        if digest and self.digest and digest != self.digest:
            raise Unavailable(
                f"Epoch {self.epoch} of group {self.group} on this host is not the one that is meant, but of "
                "another history of the changelog, which was restored or has lost its end: try again shortly."
            )

    def store(self, store: StoreName, partitions: Collection[PartitionId] | None) -> StateView:
        """A store, or some partitions of it.

        Args:
            store: The store.
            partitions: The partitions; None for all that there are.

        Raises:
            NotFound: The store is not in the group at this epoch.
            BuildingError: A partition comes to this host, and is not here yet; the message names it.
            Unavailable: A partition is not here; likewise.
        """
        found = self._whole.get(store)
        if found is not None and partitions is None:
            return found
        found = self.stores.get(store)
        if found is None:
            # It came later, or was dropped and made anew, and this host is not there yet.
            raise NotFound(
                f"There is no store {store} at epoch {self.epoch} of group {self.group}: read a newer epoch, "
                "or try again shortly if it was made just now."
            )
        wanted = range(found.definition.partitions) if partitions is None else partitions
        missing = [number for number in wanted if number not in found.versions]
        if missing:
            shown = ", ".join(str(number) for number in missing[:_MISSING_SHOWN])
            more = f" and {len(missing) - _MISSING_SHOWN} others" if len(missing) > _MISSING_SHOWN else ""
            what = f"Partition {shown}" if len(missing) == 1 else f"Partitions {shown}{more}"
            comes = all((store, number) in self.rebuilding for number in missing)
            raise (BuildingError if comes else Unavailable)(
                f"{what} of store {store} cannot be read on this host at epoch {self.epoch}; ask a host that "
                "holds it, or try again shortly."
            )
        return found if partitions is None else found.restrict(partitions)


def group_view(
    group: GroupName,
    epoch: Epoch,
    committed_at: int,
    definitions: Mapping[StoreName, StoreDefinition],
    generation: int,
    versions: Mapping[tuple[StoreName, PartitionId], Version],
    rebuilding: frozenset[tuple[StoreName, PartitionId]],
    digest: str = "",
) -> GroupView:
    """The view of a group whose partitions are all at one epoch.

    Args:
        group: The group.
        epoch: The epoch.
        committed_at: As `GroupView.committed_at`.
        definitions: Every store of the group, as it is at the epoch.
        generation: As `GroupView.generation`.
        versions: What the partitions look like, by store and number.
        rebuilding: As `GroupView.rebuilding`.
        digest: As `GroupView.digest`.
    """
    by_store: dict[StoreName, dict[PartitionId, Version]] = {name: {} for name in definitions}
    for (name, number), version in versions.items():
        by_store[name][number] = version
    stores = {
        name: StateView(definition, epoch, committed_at, by_store[name], digest=digest)
        for name, definition in definitions.items()
    }
    return GroupView(group, epoch, committed_at, stores, generation, rebuilding, digest)


class _Retained(NamedTuple):
    """A view that is not the newest any more.

    Attributes:
        view: The view.
        until: When it is let go, by the clock of whoever publishes.
        bytes: Memory of delete vectors and segments that the view after it does without.
    """

    view: GroupView
    until: float
    bytes: int


class RetainedViews:
    """The views of a group that can be read. One thread at a time publishes and expires them; any may read
    and hold them.

    A reader that needs an epoch for longer than it is retained holds it, for some time at once: whoever goes
    away without a word is soon forgotten. What is held does not count against the retention of the others;
    where it takes as much memory as they may, no other epochs are held.

    Args:
        group: The group.
        retention: How long views are kept.
    """

    def __init__(self, group: GroupName, retention: EpochRetention) -> None:
        self.newest: GroupView | None = None
        self.readable: tuple[ReadableEpoch, ...] = ()
        self.since: Mapping[StoreName, Epoch] = {}
        self._group = group
        self._retention = retention
        self._older: list[_Retained] = []
        self._held_until: dict[Epoch, float] = {}
        self._changing = threading.Lock()
        self._by_epoch: Mapping[Epoch, GroupView] = {}
        self._expired: WeakSet[StateView] = WeakSet()

    def view_at(self, epoch: Epoch) -> GroupView:
        """The view of an epoch.

        Raises:
            Unavailable: The epoch is not there yet, or not any more; the message names the epochs that are.
        """
        found = self._by_epoch.get(epoch)
        if found is None:
            there = epochs_in_words(self._by_epoch.keys())
            raise Unavailable(
                f"Group {self._group} cannot be read at epoch {epoch} on this host; the epochs there are: "
                f"{there}."
            )
        return found

    def publish(self, view: GroupView, clock: float) -> None:
        """Make a view the newest. One of the epoch that was the newest replaces it.

        Args:
            view: The view.
            clock: The time, in seconds that never go back.
        """
        before, older = self.newest, list(self._older)
        self.since = {
            name: self._readable_since(name, store, view.epoch) for name, store in view.stores.items()
        }
        if before is not None and before.epoch != view.epoch:
            older.append(_Retained(before, clock + self._retention.seconds, _unshared_bytes(before, view)))
        elif older:
            older[-1] = older[-1]._replace(bytes=_unshared_bytes(older[-1].view, view))
        with self._changing:
            self.newest, self._older = view, older
            self._drop_expired(clock)
            self._list_readable()

    def has(self, epoch: Epoch) -> bool:
        """Whether an epoch can be read."""
        return epoch in self._by_epoch

    def hold(self, epoch: Epoch, until: float, clock: float) -> None:
        """Keep an epoch readable for longer.

        Args:
            epoch: An epoch that can be read.
            until: Until when at least, by the clock; another hold of the epoch that lasts longer stays.
            clock: The time, in seconds that never go back.

        Raises:
            Unavailable: The epoch is not there; the message names the epochs that are.
            LimitExceeded: Too many epochs are held, or what is held takes too much memory.
        """
        with self._changing:
            self.view_at(epoch)
            held = {each: end for each, end in self._held_until.items() if end > clock}
            size = sum(retained.bytes for retained in self._older if retained.view.epoch in held)
            # Whoever holds an epoch already has begun to read it, and may go on.
            if epoch not in held and (len(held) >= MOST_HELD or size > self._retention.bytes):
                epochs = "1 epoch" if len(held) == 1 else f"{len(held)} epochs"
                raise LimitExceeded(
                    f"Readers hold {epochs} of group {self._group} with {size:,} bytes, as many as "
                    "may be: try again shortly."
                )
            self._held_until = {**held, epoch: max(until, held.get(epoch, until))}

    def _readable_since(self, name: StoreName, store: StateView, epoch: Epoch) -> Epoch:
        """The oldest epoch from which on all partitions of a store can be read."""
        before = self.newest.stores.get(name) if self.newest is not None else None
        return (
            self.since[name]
            if before is not None and before.versions.keys() >= store.versions.keys()
            else epoch
        )

    def clear(self) -> None:
        """Let go of all views: nothing can be read any more."""
        with self._changing:
            self.newest, self._older = None, []
            self.readable, self.since = (), {}
            self._held_until, self._by_epoch = {}, {}

    def drop_partitions(self, partitions: Collection[tuple[StoreName, PartitionId]]) -> None:
        """Have some partitions read at no epoch that there is: they are built again.

        Args:
            partitions: The partitions.
        """
        with self._changing:
            if self.newest is None:
                return
            self.newest = self.newest.hide_partitions(partitions)
            self._older = [
                retained._replace(view=retained.view.hide_partitions(partitions)) for retained in self._older
            ]
            self._list_readable()

    def drop_stores(self, stores: Collection[StoreName]) -> None:
        """Have some stores read at no epoch any more.

        Args:
            stores: The stores.
        """
        with self._changing:
            if self.newest is None:
                return
            self.newest = self.newest.hide_stores(stores)
            self._older = [
                retained._replace(view=retained.view.hide_stores(stores)) for retained in self._older
            ]
            self.since = {name: epoch for name, epoch in self.since.items() if name not in stores}
            self._list_readable()

    def expire(self, clock: float) -> bool:
        """Drop what is past its time; whether there was anything.

        Args:
            clock: The time, in seconds that never go back.
        """
        next_expiry = self.next_expiry
        if next_expiry is None or next_expiry > clock:
            return False
        with self._changing:
            self._drop_expired(clock)
            self._list_readable()
        return True

    @property
    def next_expiry(self) -> float | None:
        """When the next view is let go, by the clock; None when the newest is the only one."""
        held = self._held_until
        return min(
            (max(retained.until, held.get(retained.view.epoch, retained.until)) for retained in self._older),
            default=None,
        )

    def _drop_expired(self, clock: float) -> None:
        self._held_until = {epoch: until for epoch, until in self._held_until.items() if until > clock}
        loose = [retained for retained in self._older if retained.view.epoch not in self._held_until]
        size = sum(retained.bytes for retained in loose)
        gone = set()
        for place, oldest in enumerate(loose):
            if (
                oldest.until > clock
                and len(loose) - place < self._retention.versions
                and size <= self._retention.bytes
            ):
                break
            gone.add(oldest.view.epoch)
            size -= oldest.bytes
            for store in oldest.view.stores.values():
                self._expired.add(store)
        self._older = [retained for retained in self._older if retained.view.epoch not in gone]

    def _list_readable(self) -> None:
        assert self.newest is not None
        views = [*(retained.view for retained in self._older), self.newest]
        self._by_epoch = {view.epoch: view for view in views}
        self.readable = tuple(view.readable for view in views)

    @property
    def pinned_epochs(self) -> int:
        """How many epochs are past their time and still read by queries."""
        return len({view.epoch for view in list(self._expired)})


def _unshared_bytes(older: GroupView, newer: GroupView) -> int:
    """Bytes of the delete vectors and segments of a view that another one does without."""
    total = 0
    for name, store in older.stores.items():
        after = newer.stores.get(name)
        for number, version in store.versions.items():
            following = after.versions.get(number) if after is not None else None
            if following is not version:
                total += _own_bytes(version, following)
    return total


def _own_bytes(older: Version, newer: Version | None) -> int:
    shared = {id(array) for array in _vector_arrays(newer)} if newer is not None else set()
    vectors = sum(array.nbytes for array in _vector_arrays(older) if id(array) not in shared)
    # Columns of a segment that compaction has replaced stay in the cache as long as a view needs them.
    kept = {entry.segment.id for entry in newer.segments} if newer is not None else set()
    return vectors + sum(
        entry.segment.record.nbytes for entry in older.segments if entry.segment.id not in kept
    )


def _vector_arrays(version: Version) -> Iterator[npt.NDArray[np.unsignedinteger[Any]]]:
    """The memory of the delete vectors of a version."""
    return (array for entry in version.segments if entry.dead is not None for array in entry.dead.arrays)
