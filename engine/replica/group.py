"""One store group on a host: its partition stores, moved forward one commit at a time, all together."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence

from engine.changelog import Changelog, Exclusions, Skip, Snapshot
from engine.cluster.reports import GroupReport, StoreReport
from engine.errors import LivestateError
from engine.model.schema import Epoch, GroupName, StoreDefinition, StoreName
from engine.replica.catch_up import Stage, Track
from engine.replica.cohort import Cohort
from engine.replica.figures import GroupFigures, MergeWork
from engine.replica.group_catch_up import GroupCatchUp
from engine.replica.group_setup import GroupSetup
from engine.replica.group_views import GroupView
from engine.replica.history import (
    DivergedError,
    applied_skip,
    diverged_error,
    diverged_partitions,
    skipped_error,
)
from engine.replica.open_files import FileNeed
from engine.replica.partition_keys import PartitionKey
from engine.replica.snapshot_schedule import DueSnapshot
from engine.state.partition import PartitionStore

_log = logging.getLogger(__name__)

QUICK_BYTES = 32 << 20
"""Stored bytes of epochs that are taken at once by a thread that other groups wait for."""


class FollowedGroup:
    """The partition stores of a group that this host holds. One thread at a time moves it forward; `view`,
    `view_at` and `reported` are for any.

    Nothing can be read before the partitions have come to the epoch that was newest in the changelog when
    this began, its target: a host that is built anew, or was away for long, would answer from the past as if
    it were the present. The target does not move on, so a group that never stands still is there in the end.
    From then on the newest epoch that is here can be read, however far behind it falls: who cannot do with
    that says so (`max_staleness`).

    Partitions that are far behind the others are rebuilt beside them (`GroupPartitions`). Each of the two is
    right by itself: the others are read at the group's epoch, which is at the target or behind it, and those
    that are rebuilt are in no view at all before they are at the same epoch. So nothing old is ever read
    because of them, and to hold the others back would take away what can be answered rightly.

    What fails, fails as a whole: whatever a method raises, the epochs that can be read stay as they are, and
    the next call goes on from what the partitions have reached.

    Args:
        group: The group.
        changelog: Where its commits are.
        setup: What it shares with other groups.

    Attributes:
        group: The group.
        readable: The epochs that can be read.
    """

    def __init__(self, group: GroupName, changelog: Changelog, setup: GroupSetup) -> None:
        self.group = group
        self._changelog = changelog
        self._setup = setup
        self._catch_up = catch_up = GroupCatchUp(group, changelog, setup)
        self.readable = catch_up.readable
        self._definitions = catch_up.definitions
        self._partitions = catch_up.partitions
        self._reporter = catch_up.reporter
        self._has_long_step = self._has_large_epoch = False
        self._heeded: Exclusions | None = None
        self._due_snapshot: DueSnapshot | None = None

    def figures(self, merging: MergeWork, counted: Snapshot | None) -> GroupFigures:
        """What the group has taken so far.

        Args:
            merging: What merges of its segments have taken.
            counted: A snapshot that counts; None where none is known but those that the group has seen.
        """
        seen, reached = self._catch_up.schedule.newest, self._main.meter.reached
        newest = max((each for each in (seen, counted) if each), key=lambda each: each.epoch, default=None)
        unsaved = None if reached is None else max(0, reached - (newest.written if newest else 0))
        return GroupFigures(self._catch_up.work, merging, unsaved, newest)

    @property
    def _main(self) -> Cohort:
        return self._partitions.main

    @property
    def _late(self) -> Cohort:
        return self._partitions.late

    @property
    def view(self) -> GroupView | None:
        """The newest epoch that can be read; None while the partitions have not come to the target."""
        return self.readable.newest

    @property
    def reported(self) -> tuple[GroupReport, Mapping[StoreName, StoreReport]]:
        """What can be read here, for the reports of hosts."""
        return self._reporter.reported

    def holds_store(self, store: StoreName, since: int) -> bool:
        """Whether a store is here, dropped or not; `since` is as `StoreDefinition.since`."""
        found = self._definitions.found.get(store)
        return found is not None and found.since == since

    @property
    def is_amended(self) -> bool:
        """Whether something was decided of the group that `heed_amendments` has not heeded yet."""
        try:
            return self._changelog.exclusions(self.group) is not self._heeded
        except LivestateError:
            return True

    @property
    def times_forgotten(self) -> int:
        """How often what was decided of the group was forgotten: it may be of another history."""
        return self._changelog.amendments(self.group).times_forgotten

    @property
    def has_caught_up(self) -> bool:
        """Whether all partitions that are held here could be read once, at the target or behind it."""
        return self._catch_up.state.has_caught_up

    @property
    def definitions(self) -> Mapping[StoreName, StoreDefinition]:
        """The stores that can be asked, or that could if there were a view."""
        view = self.view
        return dict(self._definitions.found) if view is None else view.definitions

    @property
    def rebuild_reason(self) -> str:
        """Why partitions are built again that this host had before, in one sentence; empty where there are
        none.
        """
        is_over = self._catch_up.state.stage is Stage.READABLE and not self.is_rebuilding
        return "" if is_over else self._partitions.rebuild_reason

    @property
    def partitions(self) -> Sequence[PartitionStore]:
        """All open partition stores."""
        return self._partitions.opened.stores()

    def unopened_partitions(self, new: Iterable[StoreDefinition]) -> Collection[PartitionKey]:
        """The partitions that this host holds of the group's stores, and of new ones, and that are not open.
        For any thread.
        """
        stores = {**self._definitions.found, **{each.name: each for each in new}}
        held = {
            (name, number)
            for name, definition in stores.items()
            for number in self._definitions.held_partitions(definition)
        }
        return held.difference(store.identity for store in self.partitions)

    @property
    def file_need(self) -> FileNeed:
        """The files that the open partitions take."""
        return self._partitions.opened.file_need

    @property
    def epoch(self) -> Epoch:
        """The epoch that all partitions have reached but those that are being rebuilt."""
        return self._main.epoch

    def find_definition(self, store: StoreName, generation: int) -> StoreDefinition | None:
        """What a store is at a generation, as `GroupDefinitions.find_definition`."""
        return self._definitions.find_definition(self.group, store, generation)

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
    def has_ended(self) -> bool:
        """Whether all its stores were dropped; it is of no more use then."""
        return self._catch_up.has_ended

    @property
    def epochs_missing(self) -> int:
        """How many epochs the partitions still need before they can be read."""
        state = self._catch_up.state
        return 0 if state.stage is Stage.READABLE else max(1, state.target - self._main.epoch)

    @property
    def is_long(self) -> bool:
        """Whether what is next can take minutes, so that it is not to be done by a thread that others wait
        for.
        """
        return self._has_large_epoch or self.is_to_be_built

    @property
    def is_to_be_built(self) -> bool:
        """Whether that is to build something, or an epoch of a group that cannot be read yet, rather than a
        large epoch that readers wait for.
        """
        is_unread = self._has_large_epoch and self.view is None
        has_diverged = self._catch_up.has_diverged or self._partitions.is_damaged
        return self._has_long_step or is_unread or has_diverged or self.is_rebuilding

    @property
    def open_stores(self) -> Collection[StoreName]:
        """The stores whose partitions are open."""
        return self._definitions.open_names

    def new_stores(self, definitions: Iterable[StoreDefinition]) -> Collection[StoreDefinition]:
        """Those of some stores whose partitions are to be opened by `add_stores`."""
        return self._definitions.new_stores(definitions).values()

    def doubt(self) -> None:
        """Have the epochs compared with those of the changelog soon, which seems to be another one. For any
        thread.
        """
        self._catch_up.is_doubted = True

    def note_problem(self, problem: str) -> None:
        """Say in the report what keeps the group from getting on; empty when nothing is wrong."""
        self._reporter.note_problem(problem)

    @property
    def alone_reason(self) -> str:
        """What there is to say where the changelog could not be asked yet; else empty."""
        return self._catch_up.alone_reason

    def add_stores(
        self,
        definitions: Iterable[StoreDefinition],
        generation: int = 0,
        *,
        is_away: bool = False,
        others: FileNeed | None = None,
    ) -> bool:
        """As `GroupCatchUp.add_stores`."""
        return self._catch_up.add_stores(definitions, generation, is_away=is_away, others=others)

    def heed_amendments(self) -> bool:
        """Heed what was decided of the group since the last call, as far as this host has heard: which of its
        stores were dropped, and which epochs are passed by.

        Where an epoch is passed by that was applied here, nothing can be read any more, and `step` builds
        again what has its rows.

        Returns:
            Whether anything was decided.

        Raises:
            LivestateError: What was decided cannot be read, or a store cannot be deleted; call it again.
        """
        exclusions = self._changelog.exclusions(self.group)
        if exclusions is self._heeded:
            return False
        self._catch_up.drop_ended_stores()
        known = self._heeded.skips if self._heeded is not None else {}
        for epoch, skip in exclusions.skips.items():
            if epoch not in known:
                _log.warning("%s", skip.describe())
        if exclusions.skips != known:
            self._heed_skips(known)
        has_news = self._heeded is not None
        self._heeded = exclusions
        return has_news

    def _heed_skips(self, known: Mapping[Epoch, Skip]) -> None:
        """Have nothing answered where other epochs are passed by than those that partitions have applied.

        Args:
            known: The skips that were heeded until now.
        """
        if self._catch_up.state.stage is Stage.WAITING:
            return
        partitions = self._partitions.opened.stores()
        skip = applied_skip(self._changelog, self.group, partitions)
        if skip is not None:
            self._catch_up.stop_answering(skipped_error(skip))
        elif known and diverged_partitions(self._changelog, self.group, partitions):
            self._catch_up.stop_answering(diverged_error(self.group, max(known)))

    def step(self, *, is_quick: bool = False) -> bool:
        """Apply the next commits, if there are any.

        Where the changelog has other commits than were applied here, nothing can be read any more, and the
        next call builds again what differs.

        Args:
            is_quick: Whether nothing is done that takes long; `is_long` says whether there is.

        Returns:
            Whether there were any; the group then is that many epochs further, on all partitions at once.
            Also where they take long, and nothing was done.

        Raises:
            LivestateError: The next commit cannot be read or applied. Nothing of it is visible, and the next
                call tries again.
        """
        if is_quick and self._catch_up.has_diverged:
            return True
        if self._catch_up.has_diverged:
            self._catch_up.replace_diverged()
            return True
        try:
            return self._follow(is_quick=is_quick)
        except DivergedError as error:
            self._catch_up.stop_answering(error)
            return True

    def _follow(self, *, is_quick: bool) -> bool:
        """Apply the next commits: see `step`."""
        if self._catch_up.state.stage is Stage.WAITING:
            return False  # the first stores could not be opened, and are looked for again
        looked_at = self._setup.now()
        self._has_long_step = self._has_large_epoch = False
        snapshots = self._catch_up.snapshots_to_try(Track.MAIN)
        if snapshots and is_quick:
            self._has_long_step = True
            return True
        snapshot = self._catch_up.load_first(snapshots, Track.MAIN) if snapshots else None
        if snapshot is not None:
            self._catch_up.show_epoch(snapshot.committed_at)
            return True
        self._catch_up.publish_unpublished()
        commits = self._catch_up.look_ahead(Track.MAIN)
        if not commits:
            self._catch_up.check_for_loss(looked_at)
        self._catch_up.note_commits(commits, looked_at)
        if is_quick and self._main.nbytes_ahead > QUICK_BYTES:
            self._has_large_epoch = True
            return True
        if not commits:
            self._catch_up.await_news()
            if self._main.epoch < self._reporter.newest_known:
                self._catch_up.lower_target()
            return False
        newest = self._catch_up.apply_found(Track.MAIN)
        following = self._main.following or newest
        is_behind = self._reporter.newest_known > newest.epoch
        self._reporter.unread_since = (
            self._reporter.time_of_unread(following.epoch, following.committed_at) if is_behind else None
        )
        self._catch_up.show_epoch(newest.committed_at)
        if self._main.is_even and self._catch_up.schedule.is_due(newest):
            view = self._catch_up.publisher.view_of_begun_stores(newest.committed_at)
            if view.stores:
                self._due_snapshot = DueSnapshot(view, newest)
        return True

    def take_due_snapshot(self) -> DueSnapshot | None:
        """The snapshot that has come due since the last call, the newest one; None where none has."""
        due, self._due_snapshot = self._due_snapshot, None
        return due

    def add_damage(self, damage: Mapping[PartitionKey, str]) -> None:
        """Have partitions built again with the next call of `rebuild`.

        Args:
            damage: What is damaged of each.
        """
        self._partitions.add_damage(damage)

    def _replace_damaged(self) -> bool:
        """Put aside what is damaged, and begin to build it again; whether there was anything.

        Raises:
            LivestateError: A partition cannot be put aside; the next call tries again.
        """
        if self._catch_up.state.stage is Stage.WAITING:
            return False
        damaged = self._partitions.note_damaged()
        if not damaged:
            return False
        self.readable.drop_partitions(damaged)
        self._reporter.report(self._catch_up.state)
        try:
            self._partitions.replace_damaged()
        finally:
            if self.is_rebuilding:
                self._catch_up.note_late()
        self._reporter.report(self._catch_up.state)
        return True

    def rebuild(self) -> bool:
        """Bring the partitions that are far behind nearer to the others; those that have caught up can be
        read from then on. What is damaged is put aside before.

        Returns:
            Whether something was done.

        Raises:
            LivestateError: A commit cannot be read or applied; the next call tries again.
        """
        try:
            return self._replace_damaged() or self._rebuild_late_partitions()
        except DivergedError as error:
            self._catch_up.stop_answering(error)
            return True

    def _rebuild_late_partitions(self) -> bool:
        """Bring late partitions on: see `rebuild`."""
        late = self._late
        if not late.partitions or self._catch_up.state.stage is Stage.WAITING:
            return False
        snapshots = self._catch_up.snapshots_to_try(Track.LATE)
        if snapshots and self._catch_up.load_first(snapshots, Track.LATE) is not None:
            self._reporter.report(self._catch_up.state)
            return True
        if late.epoch > self._main.epoch:
            return False  # the snapshot was later than the others are yet
        if self._catch_up.look_ahead(Track.LATE, last=self._main.epoch):
            self._catch_up.measure_rest(Track.LATE)
            self._catch_up.apply_found(Track.LATE)
            late.request_compaction()
            self._reporter.report(self._catch_up.state)
        elif late.epoch < self._main.epoch:
            self._catch_up.check_for_late_loss()
            # What the others have read was dropped since.
            self._catch_up.doubt_commits(Track.LATE)
            return False
        if self._late is not late:
            return True  # a store was found on the way, whose partitions are late as well
        if late.epoch < self._main.epoch or not (late.is_even and self._main.is_even):
            return True
        if late.digest and self._main.digest not in ("", late.digest):
            # The changelog was restored after the others had read it.
            raise diverged_error(self.group, late.epoch)
        self._catch_up.join_late()
        return True

    def refresh(self) -> None:
        """As `GroupCatchUp.refresh`."""
        self._catch_up.refresh()

    def release(self) -> None:
        """Give back the space of segments that nobody refers to any more, and have partitions built again
        that statements, merges or scrubs have found damaged.
        """
        self.add_damage({store.identity: store.damage for store in self.partitions if store.damage})
        for store in self.partitions:
            store.release()

    def write(self) -> None:
        """Write what small epochs have left in memory, and note for the next start that it is there.

        Raises:
            LimitExceeded: The disk is full; the next call tries again.
            Unavailable: The disk does not answer; likewise.
        """
        if self._main.is_written:
            return
        self._main.write()
        self._catch_up.publisher.note_reached()

    def expire(self) -> bool:
        """As `ReadableEpochs.expire`."""
        has_expired = self.readable.expire()
        if has_expired:
            self._reporter.report(self._catch_up.state)
        return has_expired

    def refresh_progress(self) -> GroupReport:
        """Report how far the partitions are by now, for any thread; what is reported then."""
        return self._reporter.refresh_progress(self._catch_up.state)

    def close(self) -> None:
        """Close all partitions and note their epoch."""
        self._partitions.close()
