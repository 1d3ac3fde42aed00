"""The state of one store group on a host: its partition stores, moved forward one commit at a time, all
together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor, wait
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from engine.changelog import Changelog, Commit, Snapshot
from engine.changelog.definitions import missing_definition
from engine.changelog.layout import path_segment
from engine.cluster.reports import GroupReport, Progress, StoreReport
from engine.errors import LivestateError, Unavailable
from engine.model.schema import Epoch, GroupName, PartitionId, StoreDefinition, StoreName
from engine.replica.cohort import CatchUpState, Cohort, PartitionKey, late_partitions, never_stop
from engine.replica.recovery import restore
from engine.replica.snapshotter import Schedule
from engine.replica.views import GroupView, RetainedViews, Retention
from engine.state.cache import ColumnCache
from engine.state.options import StateOptions
from engine.state.partition import PartitionStore
from engine.state.rocks import WriteBuffers
from engine.state.version import Version
from engine.state.view import StateView

FAR_BEHIND = 512
"""Epochs that a partition may be behind the others and still hold them up after a restart. Without rows it
notes its epoch more often than that.
"""

SECONDS_BETWEEN_DOUBTS = 10.0
"""A group without news looks this often whether it is so far behind that its epoch has left the changelog."""


def every_partition(definition: StoreDefinition) -> Collection[PartitionId]:
    """All partitions of a store."""
    return [PartitionId(number) for number in range(definition.partitions)]


@dataclass(frozen=True)
class GroupSetup:
    """What the groups of a host share.

    Attributes:
        directory: The data directory.
        cache: Decoded columns.
        options: Sizes.
        buffers: Bound of all RocksDB memtables.
        held: Which partitions of a store this host holds.
        retention: How long epochs stay readable.
        workers: Runs partitions side by side.
        touched: Is told of each partition store of a group that got rows, for compaction.
        snapshot: Is given what can be read at each epoch at which a snapshot is due.
        snapshot_after: As `SnapshotOptions.after_bytes`.
        now: Gives the time, microseconds since 1970 UTC.
        clock: Gives the time in seconds that never go back.
    """

    directory: Path
    cache: ColumnCache
    options: StateOptions
    buffers: WriteBuffers
    held: Callable[[StoreDefinition], Collection[PartitionId]]
    retention: Retention
    workers: Executor
    touched: Callable[[GroupName, PartitionStore], None]
    snapshot: Callable[[GroupView, Commit], None]
    snapshot_after: int
    now: Callable[[], int]
    clock: Callable[[], float]

    def open(
        self,
        definition: StoreDefinition,
        partition: PartitionId,
        definition_at: Callable[[int], StoreDefinition],
    ) -> PartitionStore:
        """Open one partition; its directory is made if it is not there.

        Args:
            definition: The store, in any of its shapes.
            partition: Its partition.
            definition_at: Gives the shape of a generation.
        """
        path = (
            self.directory / path_segment(definition.group) / path_segment(definition.name) / str(partition)
        )
        return PartitionStore(
            definition, partition, path, self.cache, self.options, self.buffers, definition_at
        )


class GroupState:
    """The partition stores of a group that this host holds. One thread at a time moves it forward; `view`,
    `at` and `reported` are for any.

    Nothing can be read before the partitions have come to the epoch that was newest in the changelog when
    this began, its target: a host that is built anew, or was away for long, would answer from the past as if
    it were the present. The target does not move, so a group that never stands still is there in the end.
    From then on the newest epoch that is here can be read, however far behind it falls: who cannot do with
    that says so (`max_staleness`).

    Partitions that are far behind the others, because they were lost or came to this host later, are rebuilt
    beside them: the others go on, and take them in when they have caught up. Each of the two is right by
    itself: the others are read at the group's epoch, which is at the target or behind it, and those that are
    rebuilt are in no view at all before they are at the same epoch. So nothing old is ever read because of
    them, and to hold the others back would take away what can be answered rightly.

    What fails, fails as a whole: whatever a method raises, the epochs that can be read stay as they are, and
    the next call goes on from what the partitions have reached.

    Args:
        group: The group.
        changelog: Where its commits are.
        setup: What it shares with other groups.

    Attributes:
        group: The group.
        reported: What can be read here, for the reports of hosts.
        has_caught_up: Whether all partitions that are held here could be read once, at the target or behind
            it.
    """

    def __init__(self, group: GroupName, changelog: Changelog, setup: GroupSetup) -> None:
        self.group = group
        self.reported: tuple[GroupReport, Mapping[StoreName, StoreReport]] = (GroupReport((), Epoch(0)), {})
        self.has_caught_up = False
        self._changelog = changelog
        self._setup = setup
        self._views = RetainedViews(group, setup.retention)
        self._found: dict[StoreName, StoreDefinition] = {}
        """The stores that the changelog has, those included whose partitions could not be opened yet."""
        self._held: dict[StoreName, Collection[PartitionId]] = {}
        self._definitions: dict[StoreName, StoreDefinition] = {}
        """The stores that are open, each as it was when it was found."""
        self._shapes: dict[int, Mapping[StoreName, StoreDefinition]] = {}
        """The same stores as they are at a generation."""
        self._opened: dict[PartitionKey, PartitionStore] = {}
        self._schedule = Schedule(changelog, group, setup.snapshot_after)
        self._main = self._cohort(Epoch(0), self._schedule.is_due)
        self._late = self._cohort(Epoch(0))
        self._target = Epoch(0)
        self._committed_at: int | None = None
        """When the epoch was committed that the partitions have reached; None where that is not known."""
        self._is_unpublished = False
        self._loading: Epoch | None = None
        self._problem = ""
        self._doubted_at = setup.clock()
        self._newest_known = Epoch(0)
        self._unread_since: int | None = None
        self._looked_at = 0

    def _cohort(self, epoch: Epoch, stops_at: Callable[[Commit], bool] = never_stop) -> Cohort:
        return Cohort(
            self.group,
            self._changelog,
            self._setup.workers,
            partial(self._setup.touched, self.group),
            epoch,
            stops_at,
        )

    # ---- what can be read

    @property
    def view(self) -> GroupView | None:
        """The newest epoch that can be read; None while the partitions have not come to the target."""
        return self._views.newest

    def at(self, epoch: Epoch) -> GroupView:
        """The view of an epoch.

        Raises:
            Unavailable: It cannot be read; the message names the epochs that can.
        """
        return self._views.at(epoch)

    def hold(self, epoch: Epoch, seconds: float) -> None:
        """Keep an epoch readable for some time, as `RetainedViews.hold`."""
        clock = self._setup.clock()
        self._views.hold(epoch, clock + seconds, clock)

    @property
    def definitions(self) -> Mapping[StoreName, StoreDefinition]:
        """The stores that can be asked, or that could if there were a view."""
        view = self.view
        return dict(self._found) if view is None else view.definitions

    @property
    def partitions(self) -> Iterable[PartitionStore]:
        """All open partition stores."""
        return list(self._opened.values())

    @property
    def epoch(self) -> Epoch:
        """The epoch that all partitions have reached but those that are being rebuilt."""
        return self._main.epoch

    @property
    def pinned_epochs(self) -> int:
        """How many epochs are past their retention and still read by queries."""
        return self._views.pinned_epochs

    @property
    def generation(self) -> int:
        """As `GroupView.generation` of the newest epoch that can be read."""
        view = self.view
        return 0 if view is None else view.generation

    def definition_at(self, store: StoreName, generation: int) -> StoreDefinition:
        """What a store of the group is at a generation; also at one that is not here yet.

        Raises:
            Corrupt: Its definition or a migration is damaged or missing.
            Unavailable: The changelog cannot be reached.
        """
        found = self._changelog.definition_at(store, generation)
        if found is None:
            raise missing_definition(store)
        return found

    def epoch_of(self, store: StoreName) -> Epoch:
        """The newest epoch of a store that can be read with all partitions that are held here."""
        view, late = self.view, self._late
        if view is None:
            return Epoch(0)
        return (
            min(view.epoch, late.epoch) if any(name == store for name, _ in late.partitions) else view.epoch
        )

    @property
    def is_rebuilding(self) -> bool:
        """Whether partitions are far behind the others."""
        return bool(self._late.partitions)

    @property
    def epochs_missing(self) -> int:
        """How many epochs the partitions still need before they can be read."""
        return 0 if self.view is not None else max(1, self._target - self._main.epoch)

    def tell_problem(self, problem: str) -> None:
        """Say in the report what keeps the group from getting on.

        Args:
            problem: A sentence; empty when nothing is wrong.
        """
        if problem != self._problem:
            self._problem = problem
            group, stores = self.reported
            self.reported = (replace(group, problem=problem), stores)

    def _progress(self) -> Progress | None:
        """How far the partitions are that cannot be read yet."""
        if self.view is None:
            return Progress(self._main.epoch, self._target, self._loading) if self._definitions else None
        return Progress(self._late.epoch, self._main.epoch, self._loading) if self._late.partitions else None

    def _report(self) -> None:
        view = self.view
        group = GroupReport(
            self._views.readable,
            self._newest_known,
            self._unread_since,
            self._looked_at,
            self._progress(),
            self._problem,
        )
        if view is None:
            stores = {
                name: StoreReport((), rebuilding=tuple(sorted(self._held_of(store))))
                for name, store in self._found.items()
            }
        else:
            late = sorted(self._late.partitions)
            stores = {
                name: _store_report(store, self._views.since[name], late)
                for name, store in view.stores.items()
            }
        self.reported = (group, stores)

    def _held_of(self, definition: StoreDefinition) -> Collection[PartitionId]:
        """The partitions of a store that this host holds."""
        if definition.name not in self._held:
            self._held[definition.name] = self._setup.held(definition)
        return self._held[definition.name]

    # ---- stores

    def add_stores(self, definitions: Iterable[StoreDefinition]) -> bool:
        """Open the partitions of stores that are new here.

        A new store joins at the group's epoch: an epoch that brings it rows is never applied before the store
        is known. At the first call partitions can be at several epochs, as a crash, a lost directory or
        another assignment left them; `step` and `rebuild` bring them together.

        Args:
            definitions: Stores of this group; known ones are passed over.

        Returns:
            Whether there were new ones, or there is something new to be read.

        Raises:
            LivestateError: The changelog cannot be reached, or a partition cannot be opened; call it again
                with the same stores.
        """
        new = {
            definition.name: definition
            for definition in definitions
            if definition.name not in self._definitions
        }
        before = self.view
        self._found.update(new)
        if self.view is None:
            self._report()
        self._open_all(
            [(definition, number) for definition in new.values() for number in self._held_of(definition)]
        )
        if new:
            opened = {key: store for key, store in self._opened.items() if key[0] in new}
            if not self._definitions:
                self._begin(opened)
            elif self._main.partitions or not self._main.epoch:
                self._main.join(
                    opened, {name: self.definition_at(name, self._main.generation) for name in new}
                )
            elif opened:
                # Nothing was read up to this epoch, as no partition was here that it could have had rows for.
                self._rebuild_later(opened)
            self._definitions.update(new)
            self._shapes.clear()
            self._is_unpublished = True
        if self.view is None:
            self._report()
        if self._is_unpublished:
            self._publish()
        return bool(new) or self.view is not before

    def _open_all(self, partitions: Iterable[tuple[StoreDefinition, PartitionId]]) -> None:
        """Open partitions side by side. Also where one cannot be opened none is half open when this ends: the
        next try opens the rest.
        """
        opening = [
            self._setup.workers.submit(self._open_partition, definition, number)
            for definition, number in partitions
        ]
        wait(opening)
        for each in opening:
            each.result()

    def _open_partition(self, definition: StoreDefinition, number: PartitionId) -> None:
        # A partition that is open already is left of a try in which another one could not be opened.
        if (definition.name, number) not in self._opened:
            try:
                store = self._setup.open(definition, number, partial(self.definition_at, definition.name))
            except LivestateError as error:
                raise type(error)(
                    f"Partition {number} of store {definition.name} cannot be opened: {error.message}"
                ) from error
            self._opened[definition.name, number] = store
            if not store.is_in_shape:
                self._setup.touched(self.group, store)

    def _begin(self, opened: Mapping[PartitionKey, PartitionStore]) -> None:
        late = late_partitions(opened, FAR_BEHIND)
        self._main = self._at_the_last_of(
            {key: store for key, store in opened.items() if key not in late}, self._schedule.is_due
        )
        if not self._main.partitions:
            self._main.epoch = epoch = self._changelog.newest_epoch(self.group)
            commit = self._changelog.read_commit(self.group, epoch) if epoch else None
            self._main.generation = commit.generation if commit else 0
        if late:
            self._rebuild_later({key: opened[key] for key in late})
        self._target = self._newest_committed()
        self._newest_known = max(self._newest_known, self._target)

    def _newest_committed(self) -> Epoch:
        """The newest epoch in the changelog. One that has left it leads to nothing, so it is looked for from
        the beginning then.
        """
        known = self._main.epoch
        is_there = known > 0 and self._changelog.holds(self.group, known)
        return self._changelog.newest_epoch(self.group, known if is_there else Epoch(0))

    def _rebuild_later(self, partitions: Mapping[PartitionKey, PartitionStore]) -> None:
        self._late = self._at_the_last_of({**self._late.partitions, **partitions})

    def _at_the_last_of(
        self,
        partitions: Mapping[PartitionKey, PartitionStore],
        stops_at: Callable[[Commit], bool] = never_stop,
    ) -> Cohort:
        """A cohort of partitions that are at several epochs: it begins at the first of these, and the others
        wait for it.
        """
        cohort = self._cohort(
            min((store.applied for store in partitions.values()), default=Epoch(0)), stops_at
        )
        cohort.generation = min((store.generation for store in partitions.values()), default=0)
        cohort.partitions.update(partitions)
        return cohort

    # ---- moving on

    def step(self) -> bool:
        """Apply the next commits, if there are any.

        Returns:
            Whether there were any; the group then is that many epochs further, on all partitions at once.

        Raises:
            LivestateError: The next commit cannot be read or applied. Nothing of it is visible, and the next
                call tries again.
        """
        if not self._definitions:
            return False  # the first stores could not be opened, and are looked for again
        if self._is_unpublished:
            self._publish()  # an earlier call has failed behind what it applied
        looked_at = self._setup.now()
        snapshot = self._restore_snapshot(self._main)
        if snapshot is not None:
            self._come_to(snapshot.committed_at)
            return True
        commits = self._main.look_ahead()
        self._note(commits, looked_at)
        if not commits:
            self._doubt()
            return False
        newest = self._main.take(self._stores_of)
        following = self._main.following or newest
        self._unread_since = following.committed_at if self._newest_known > newest.epoch else None
        self._come_to(newest.committed_at)
        if self._main.is_even and self._schedule.is_due(newest):
            self._setup.snapshot(self._view_of_partitions(newest.committed_at), newest)
        return True

    def _come_to(self, committed_at: int) -> None:
        """Take note that the partitions have come to another epoch, and show it."""
        self._committed_at, self._is_unpublished = committed_at, True
        self._publish()
        if self.view is None:
            self._report()

    def _restore_snapshot(self, cohort: Cohort) -> Snapshot | None:
        """Bring partitions to a snapshot, if they cannot go on from the commits, or should not; None if they
        can.
        """
        if cohort.way is CatchUpState.COMMITS:
            return None

        def load(snapshot: Snapshot) -> None:
            self._know(snapshot.stores)
            self._loading = snapshot.epoch
            self._report()
            cohort.load(snapshot, self._stores_at(snapshot.generation))

        is_blocked, cohort.way = cohort.way is CatchUpState.BLOCKED, CatchUpState.UNSURE
        try:
            found = restore(self._changelog, self.group, cohort.epoch, is_blocked=is_blocked, load=load)
        finally:
            self._loading = None
        cohort.way = CatchUpState.COMMITS
        return found

    def _doubt(self) -> None:
        """Where nothing new is found for long: it may be because what follows was dropped long ago."""
        clock = self._setup.clock()
        if clock - self._doubted_at >= SECONDS_BETWEEN_DOUBTS:
            self._doubted_at = clock
            self._main.way = CatchUpState.UNSURE

    def _note(self, commits: Sequence[Commit], looked_at: int) -> None:
        """Keep for the report what is committed and not applied yet."""
        last = commits[-1].epoch if commits else self._main.epoch
        if last > self._newest_known:
            self._newest_known = self._changelog.newest_epoch(self.group, last) if len(commits) > 1 else last
        self._unread_since = commits[0].committed_at if commits else None
        self._looked_at = looked_at
        group, stores = self.reported
        noted = replace(
            group, newest_known=self._newest_known, unread_since=self._unread_since, looked_at=looked_at
        )
        self.reported = (noted, stores)

    def _stores_of(self, commit: Commit) -> Mapping[StoreName, StoreDefinition]:
        self._know(commit.stores)
        return self._stores_at(commit.generation)

    def _stores_at(self, generation: int) -> Mapping[StoreName, StoreDefinition]:
        if generation not in self._shapes:
            self._shapes[generation] = {
                name: self.definition_at(name, generation) for name in self._definitions
            }
        return self._shapes[generation]

    def _know(self, stores: Collection[StoreName]) -> None:
        unknown = set(stores) - set(self._definitions)
        if unknown:
            self.add_stores(self.definition_at(store, 0) for store in sorted(unknown))

    def rebuild(self) -> bool:
        """Bring the partitions that are far behind nearer to the others; those that have caught up can be
        read from then on.

        Returns:
            Whether something was done.

        Raises:
            LivestateError: A commit cannot be read or applied; the next call tries again.
        """
        late = self._late
        if not late.partitions:
            return False
        if self._restore_snapshot(late) is not None:
            self._report()
            return True
        if late.epoch > self._main.epoch:
            return False  # the snapshot was later than the others are yet
        if late.look_ahead(last=self._main.epoch):
            late.take(self._stores_of)
            self._report()
        elif late.epoch < self._main.epoch:
            late.way = CatchUpState.UNSURE  # what the others have read was dropped since
            return False
        if late.epoch < self._main.epoch or not (late.is_even and self._main.is_even):
            return True
        self._main.join(late.partitions, self._stores_at(self._main.generation))
        self._late, self._is_unpublished = self._cohort(Epoch(0)), True
        self._publish()
        return True

    def refresh(self) -> None:
        """Show what compaction has made of the partitions: the same rows in fewer segments. Without it a
        quiet group keeps the old ones.
        """
        if self.view is not None:
            self._is_unpublished = True
            self._publish()

    def release(self) -> None:
        """Give back the space of segments that nobody refers to any more."""
        for store in self.partitions:
            store.release()

    def expire(self) -> bool:
        """Let go of epochs that are past their retention; whether there were any."""
        expired = self._views.expire(self._setup.clock())
        if expired:
            self._report()
        return expired

    @property
    def next_expiry(self) -> float | None:
        """When the next epoch is past its retention, by the clock; None when only the newest is kept."""
        return self._views.next_expiry

    def _publish(self) -> None:
        """Make the epoch that the partitions have come to the newest that can be read: once they are all at
        it, and it is not before the target.
        """
        if not self._main.is_even or self._main.epoch < self._target:
            return
        if self._committed_at is None:
            self._committed_at = self._commit_time(self._main.epoch)
        if self._committed_at is None:
            return  # the epoch has left the changelog; the next step goes on from a snapshot
        self._views.publish(self._view_of_partitions(self._committed_at), self._setup.clock())
        self._is_unpublished = False
        self._newest_known = max(self._newest_known, self._main.epoch)
        self.has_caught_up = self.has_caught_up or not self._late.partitions
        self._report()

    def _commit_time(self, epoch: Epoch) -> int | None:
        """When an epoch was committed; None where it has left the changelog."""
        commit = self._changelog.read_commit(self.group, epoch) if epoch else None
        if commit is None and any(later > epoch for later in self._changelog.snapshots(self.group).epochs()):
            return None
        if commit is None and epoch:
            raise Unavailable(
                f"Group {self.group} is at epoch {epoch} here, and the changelog has no such epoch: check "
                "that it is the right changelog."
            )
        return commit.committed_at if commit else 0

    def _view_of_partitions(self, committed_at: int) -> GroupView:
        """The partitions as they are now, all at one epoch."""
        epoch, generation = self._main.epoch, self._main.generation
        definitions = self._stores_at(generation)
        versions: dict[StoreName, dict[PartitionId, Version]] = {name: {} for name in definitions}
        for (name, number), store in self._main.partitions.items():
            versions[name][number] = store.version
        views = {
            name: StateView(definition, epoch, committed_at, versions[name])
            for name, definition in definitions.items()
        }
        return GroupView(self.group, epoch, committed_at, views, generation, frozenset(self._late.partitions))

    def close(self) -> None:
        """Close all partitions and note their epoch."""
        self._main.close()
        self._late.close()
        for key, store in self._opened.items():
            if key not in self._main.partitions and key not in self._late.partitions:
                store.close()


def _store_report(store: StateView, since: Epoch, late: Collection[PartitionKey]) -> StoreReport:
    versions = store.versions.values()
    return StoreReport(
        partitions=tuple(sorted(store.versions)),
        rows=sum(version.live_rows for version in versions),
        bytes=sum(version.nbytes for version in versions),
        segments=sum(len(version.segments) for version in versions),
        stored_rows=sum(version.stored_rows for version in versions),
        since=since,
        rebuilding=tuple(number for name, number in late if name == store.definition.name),
    )
