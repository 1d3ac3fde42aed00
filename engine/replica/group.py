"""One store group on a host: its partition stores, moved forward one commit at a time, all together."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence

from engine.changelog import Changelog, Commit, Exclusions, Skip, Snapshot
from engine.cluster.reports import GroupReport, StoreReport
from engine.errors import Corrupt, LivestateError, Unavailable
from engine.model.schema import Epoch, GroupName, StoreDefinition, StoreDefinitions, StoreName
from engine.replica.catch_up import CatchUpState, Source, Stage, Track
from engine.replica.changes import UnreadableRowsError
from engine.replica.cohort import Cohort
from engine.replica.figures import GroupFigures, GroupWork, MergeWork
from engine.replica.group_definitions import GroupDefinitions
from engine.replica.group_partitions import GroupPartitions
from engine.replica.group_progress import GroupProgress
from engine.replica.group_publisher import GroupPublisher
from engine.replica.group_reporter import GroupReporter
from engine.replica.group_setup import GroupSetup
from engine.replica.group_views import GroupView
from engine.replica.history import (
    DivergedError,
    applied_skip,
    check_has_epochs,
    check_same_changelog,
    check_shapes,
    diverged_error,
    diverged_partitions,
    needs_check,
    skipped_error,
)
from engine.replica.open_files import FileNeed, check_open_files
from engine.replica.partition_keys import PartitionKey
from engine.replica.readable_epochs import ReadableEpochs
from engine.replica.recovery import check_next_commit, snapshots_to_try
from engine.replica.snapshotter import Schedule
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
        has_ended: Whether all its stores were dropped; it is of no more use then.
    """

    def __init__(self, group: GroupName, changelog: Changelog, setup: GroupSetup) -> None:
        self.group = group
        self._changelog = changelog
        self._setup = setup
        self.readable = ReadableEpochs(group, setup.retention, setup.clock)
        self._definitions = GroupDefinitions(changelog, setup.held)
        self._schedule = Schedule(changelog, group, setup.snapshot_after)
        self._state = CatchUpState(doubted_at=setup.clock())
        self._partitions = GroupPartitions(group, changelog, setup, self._definitions, self._schedule.is_due)
        self._progress = GroupProgress(group, changelog, self._definitions, self._partitions, setup.clock)
        self._reporter = GroupReporter(self._definitions, self._partitions, self.readable, self._progress)
        self._publisher = GroupPublisher(
            group, changelog, setup, self._definitions, self._partitions, self.readable
        )
        self._compared_shapes: StoreDefinitions | None = None
        """What stores were when partitions were last seen to be just that."""
        self._has_diverged = False
        self._has_long_step = self._has_large_epoch = False
        self._alone_reason = ""
        self._heeded: Exclusions | None = None
        self.has_ended = False
        self._work = GroupWork()

    def figures(self, merging: MergeWork, counted: Snapshot | None) -> GroupFigures:
        """What the group has taken so far.

        Args:
            merging: What merges of its segments have taken.
            counted: A snapshot that counts; None where none is known but those that the group has seen.
        """
        seen, reached = self._schedule.newest, self._main.meter.reached
        newest = max((each for each in (seen, counted) if each), key=lambda each: each.epoch, default=None)
        unsaved = None if reached is None else max(0, reached - (newest.written if newest else 0))
        return GroupFigures(self._work, merging, unsaved, newest)

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
        return self._state.has_caught_up

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
        is_over = self._state.stage is Stage.READABLE and not self.is_rebuilding
        return "" if is_over else self._partitions.rebuild_reason

    @property
    def partitions(self) -> Sequence[PartitionStore]:
        """All open partition stores."""
        return self._partitions.opened.stores()

    @property
    def file_need(self) -> FileNeed:
        """The files that the open partitions take."""
        return self._partitions.opened.file_need

    @property
    def epoch(self) -> Epoch:
        """The epoch that all partitions have reached but those that are being rebuilt."""
        return self._main.epoch

    def definition_at(self, store: StoreName, generation: int) -> StoreDefinition:
        """As `GroupDefinitions.definition_at`."""
        return self._definitions.definition_at(store, generation)

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
        state = self._state
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
        has_diverged = self._has_diverged or self._partitions.is_damaged
        return self._has_long_step or is_unread or has_diverged or self.is_rebuilding

    @property
    def open_stores(self) -> Collection[StoreName]:
        """The stores whose partitions are open."""
        return self._definitions.open_names

    def new_stores(self, definitions: Iterable[StoreDefinition]) -> Collection[StoreDefinition]:
        """Those of some stores whose partitions are to be opened by `add_stores`."""
        return self._definitions.new_stores(definitions).values()

    def note_problem(self, problem: str) -> None:
        """Say in the report what keeps the group from getting on; empty when nothing is wrong."""
        self._reporter.note_problem(problem)

    def add_stores(
        self,
        definitions: Iterable[StoreDefinition],
        generation: int = 0,
        *,
        is_away: bool = False,
        others: FileNeed | None = None,
    ) -> bool:
        """Open the partitions of stores that are new here.

        A new store joins at the group's epoch: an epoch that brings it rows is never applied before the store
        is known. At the first call partitions can be at several epochs, as a crash, a lost directory or
        another assignment left them; `step` and `rebuild` bring them together.

        Args:
            definitions: Stores of this group; known ones are passed over.
            generation: That of a commit that is about to be applied.
            is_away: Whether the changelog cannot be asked for anything.
            others: The files that the partitions of other groups take; None for no such.

        Returns:
            Whether there were new ones, or there is something new to be read.

        Raises:
            LivestateError: The changelog cannot be reached, or a partition cannot be opened, or the system
                does not let the host open as many files; call it again with the same stores.
        """
        new = {
            name: each
            for name, each in self._definitions.new_stores(definitions).items()
            if self._has_begun(each, generation)
        }
        before = self.view
        # An earlier call may have opened partitions of stores that have ended since.
        found = self._definitions.found
        ended = {
            name: found[name]
            for name, each in new.items()
            if name in found and found[name].since != each.since
        }
        if ended:
            self._drop_stores(ended)
        if new:
            self._definitions.add(new, self._changelog.exclusions(self.group).drops)
            self.readable.clear_past()  # which does not have them
        if self.view is None:
            self._reporter.report(self._state)
        need = others or FileNeed()
        for each in self._definitions.found.values():
            need += self._partitions.opened.needs_of(each, self._definitions.held_partitions(each))
        check_open_files(need, self._setup.open_files)
        self._partitions.open(new.values())
        if new:
            opened = self._partitions.opened.partitions_of(new)
            if is_away:
                self._begin_alone(opened)
            else:
                self._place_opened(opened, new)
            self._definitions.note_open(new)
            self._publisher.is_unpublished = True
        if self.view is None:
            self._reporter.report(self._state)
        if self._publisher.is_unpublished:
            self._publish()
        return bool(new) or self.view is not before

    def _has_begun(self, definition: StoreDefinition, generation: int) -> bool:
        """Whether a store is there yet. One that takes the place of a store that was dropped begins with the
        first commit that knows of that: at earlier epochs hosts that have not heard of it have the old one.
        And whether it is there still.
        """
        if self._changelog.definition_at(definition.name, definition.generation) != definition:
            return False
        if definition.since <= max(generation, self._main.generation):
            return True
        if self._state.stage is not Stage.WAITING:
            return False
        newest = self._changelog.newest_epoch(self.group)
        commit = self._changelog.read_commit(self.group, newest) if newest else None
        return commit is not None and definition.since <= commit.generation

    def _place_opened(
        self, opened: Mapping[PartitionKey, PartitionStore], new: Mapping[StoreName, StoreDefinition]
    ) -> None:
        """Give partitions of new stores their place among the others."""
        if self._has_diverged:
            return  # the next step begins with all that are open
        if self._state.stage is not Stage.WAITING:
            definitions = {name: self.definition_at(name, self._main.generation) for name in new}
            if self._partitions.place(opened, definitions):
                self._note_late()
            return
        newest = self._newest_committed(opened)
        skip = applied_skip(self._changelog, self.group, opened.values())
        if skip is not None or needs_check(opened.values(), newest):
            check_has_epochs(self._changelog, self.group)
            error = diverged_error(self.group, newest) if skip is None else skipped_error(skip)
            self._note_divergence(error.message)
        else:
            self._begin(opened, newest)

    def _begin(self, opened: Mapping[PartitionKey, PartitionStore], newest: Epoch) -> None:
        """Begin with the first partitions, at whatever epochs they are.

        Args:
            opened: The partitions.
            newest: The newest epoch in the changelog.
        """
        self._partitions.begin(opened, newest, self._setup.reached_epoch(self.group))
        self._publisher.note_begin()
        self._state = self._state.begin(newest)
        if self.is_rebuilding:
            self._note_late()
        self._reporter.note_epoch(self._state.target)

    def _begin_alone(self, opened: Mapping[PartitionKey, PartitionStore]) -> None:
        """Begin with what is here, without the changelog.

        Args:
            opened: The partitions.

        Raises:
            Unavailable: They are not known to be all at one epoch.
        """
        reached = self._setup.reached_epoch(self.group)
        if reached is None or not reached.covers(opened.values()):
            raise Unavailable(
                f"The changelog cannot be reached, and what this host has of group {self.group} is not known "
                "to be all at one epoch: the commits between are needed."
            )
        self._partitions.begin_at(opened, reached)
        self._publisher.committed_at = reached.committed_at
        self._state = self._state.begin(reached.epoch)
        self._reporter.note_epoch(reached.epoch)
        self._alone_reason = (
            "The changelog could not be reached since this host started: what can be read is epoch "
            f"{reached.epoch}, which it had before."
        )

    @property
    def alone_reason(self) -> str:
        """What there is to say where the changelog could not be asked yet; else empty."""
        return self._alone_reason

    def _newest_committed(self, opened: Mapping[PartitionKey, PartitionStore]) -> Epoch:
        """The newest epoch in the changelog. One that has left it leads to nothing, so it is looked for from
        the beginning then.
        """
        looked_at = self._setup.now()
        known = min((store.applied for store in opened.values()), default=Epoch(0))
        is_there = known > 0 and self._changelog.holds(self.group, known)
        newest = self._changelog.newest_epoch(self.group, known if is_there else Epoch(0))
        self._reporter.note_look(looked_at, self._reporter.unread_since)
        return newest

    def _note_late(self) -> None:
        """Take note that there are partitions far behind the others, or more of them."""
        self._publisher.forget_reached()
        self._state = self._state.rebuild_late()

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
        self._drop_ended_stores()
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
        if self._state.stage is Stage.WAITING:
            return
        partitions = self._partitions.opened.stores()
        skip = applied_skip(self._changelog, self.group, partitions)
        if skip is not None:
            self._stop_answering(skipped_error(skip))
        elif known and diverged_partitions(self._changelog, self.group, partitions):
            self._stop_answering(diverged_error(self.group, max(known)))

    def _drop_ended_stores(self) -> None:
        ended = self._definitions.ended_stores()
        if ended:
            self._drop_stores(ended)
            self.has_ended = not self._definitions.found

    def _drop_stores(self, stores: Mapping[StoreName, StoreDefinition]) -> None:
        """Let go of stores that are no more, and of what the disk has of them."""
        self.readable.drop_stores(stores)
        self._partitions.remove(stores)
        if not self.is_rebuilding:
            self._state = self._state.give_up_late()
        for name, definition in stores.items():
            self._setup.delete_store(self.group, name, definition.since)
            _log.warning("Store %s is no more; what this host had of it is deleted.", name)
        self._definitions.forget(stores)
        self._reporter.report(self._state)

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
        if is_quick and self._has_diverged:
            return True
        if self._has_diverged:
            self._replace_diverged()
            return True
        try:
            return self._follow(is_quick=is_quick)
        except DivergedError as error:
            self._stop_answering(error)
            return True

    def _stop_answering(self, error: DivergedError) -> None:
        """Have nothing read before it is known what of it the changelog has.

        Raises:
            Unavailable: The changelog is gone, or has no epoch at all, so that it has nothing else either.
        """
        check_has_epochs(self._changelog, self.group)
        self._note_divergence(error.message)
        self.readable.clear()
        self._state = self._state.start_over(self._setup.clock())
        self._reporter.report(self._state)

    def _note_divergence(self, message: str) -> None:
        _log.error("%s", message)
        self._partitions.rebuild_reason = message
        self._has_diverged = True
        self._publisher.forget_reached()

    def _replace_diverged(self) -> None:
        """Put aside the partitions that have applied other commits than the changelog has, and begin again.

        Raises:
            Unavailable: Another changelog is in the place of the one that was followed.
            LivestateError: It cannot be read, or a partition cannot be put aside; the next call tries again.
        """
        check_same_changelog(self._changelog)
        self._forget_history(0)
        self._schedule.forget()
        self._drop_ended_stores()
        if self.has_ended:
            return
        definitions = self._definitions.found
        self._partitions.put_diverged_aside(self._partitions.opened.partitions_of(definitions))
        self._partitions.open(definitions.values())
        opened = self._partitions.opened.partitions_of(definitions)
        self._publisher.committed_at = None
        newest = self._newest_committed(opened)
        self._reporter.lower_newest(newest)
        self._begin(opened, newest)
        self._has_diverged, self._publisher.is_unpublished = False, True
        self._reporter.report(self._state)

    def _follow(self, *, is_quick: bool) -> bool:
        """Apply the next commits: see `step`."""
        if self._state.stage is Stage.WAITING:
            return False  # the first stores could not be opened, and are looked for again
        looked_at = self._setup.now()
        self._has_long_step = self._has_large_epoch = False
        snapshots = self._snapshots_to_try(Track.MAIN)
        if snapshots and is_quick:
            self._has_long_step = True
            return True
        snapshot = self._load_first(snapshots, Track.MAIN) if snapshots else None
        if snapshot is not None:
            self._show_reached_epoch(snapshot.committed_at)
            return True
        if self._publisher.is_unpublished:
            self._publish_late()
        commits = self._look_ahead(Track.MAIN)
        self._alone_reason = ""
        self._note_commits(commits, looked_at)
        if is_quick and self._main.nbytes_ahead > QUICK_BYTES:
            self._has_large_epoch = True
            return True
        if not commits:
            self._state = self._state.await_news(self._setup.clock())
            if self._main.epoch < self._reporter.newest_known:
                self._lower_target()
            return False
        newest = self._apply_found(Track.MAIN)
        following = self._main.following or newest
        is_behind = self._reporter.newest_known > newest.epoch
        self._reporter.unread_since = following.committed_at if is_behind else None
        self._show_reached_epoch(newest.committed_at)
        if self._main.is_even and self._schedule.is_due(newest):
            view = self._publisher.view_of_begun_stores(newest.committed_at)
            if view.stores:
                self._setup.take_snapshot(view, newest)
        return True

    def _lower_target(self) -> None:
        """Be content with what the changelog has, where it has lost its end before that was applied here."""
        commit = self._changelog.read_commit(self.group, self._main.epoch)
        if commit is None or self._main.digest not in ("", commit.digest):
            return  # what follows was dropped, or is of another history: doubts find that
        newest = self._changelog.newest_epoch(self.group, commit.epoch)
        if needs_check([*self._main.partitions.values(), *self._late.partitions.values()], newest):
            raise diverged_error(self.group, newest)  # one of them is ahead, on what the changelog has lost
        self._reporter.lower_newest(newest)
        if self._state.stage is Stage.BUILDING and newest < self._state.target:
            self._state = self._state.lower_target(newest)
            self._publisher.note_step(commit.committed_at)

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
        if self._state.stage is Stage.WAITING:
            return False
        damaged = self._partitions.note_damaged()
        if not damaged:
            return False
        self.readable.drop_partitions(damaged)
        self._reporter.report(self._state)
        try:
            self._partitions.replace_damaged()
        finally:
            if self.is_rebuilding:
                self._note_late()
        self._reporter.report(self._state)
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
            self._stop_answering(error)
            return True

    def _rebuild_late_partitions(self) -> bool:
        """Bring late partitions on: see `rebuild`."""
        late = self._late
        if not late.partitions or self._state.stage is Stage.WAITING:
            return False
        snapshots = self._snapshots_to_try(Track.LATE)
        if snapshots and self._load_first(snapshots, Track.LATE) is not None:
            self._reporter.report(self._state)
            return True
        if late.epoch > self._main.epoch:
            return False  # the snapshot was later than the others are yet
        if self._look_ahead(Track.LATE, last=self._main.epoch):
            self._measure_rest(Track.LATE)
            self._apply_found(Track.LATE)
            late.request_compaction()
            self._reporter.report(self._state)
        elif late.epoch < self._main.epoch:
            # What the others have read was dropped since.
            self._state = self._state.doubt_commits(Track.LATE)
            return False
        if self._late is not late:
            return True  # a store was found on the way, whose partitions are late as well
        if late.epoch < self._main.epoch or not (late.is_even and self._main.is_even):
            return True
        if late.digest and self._main.digest not in ("", late.digest):
            # The changelog was restored after the others had read it.
            raise diverged_error(self.group, late.epoch)
        self._partitions.join_late()
        self._publisher.is_unpublished = True
        self._state = self._state.join_late()
        self._publish()
        return True

    def _snapshots_to_try(self, track: Track) -> Sequence[Snapshot]:
        """As `recovery.snapshots_to_try`, unless it is known that commits bring the partitions on."""
        cohort, source = self._partitions.cohort(track), self._state.source(track)
        if source is Source.COMMITS:
            return ()
        is_blocked = source is Source.BLOCKED
        try:
            found = snapshots_to_try(
                self._changelog, self.group, cohort.epoch, cohort.digest, is_blocked=is_blocked
            )
        except BaseException:
            self._state = self._state.abandon_snapshot(track)
            raise
        if not found:
            self._state = self._state.follow_commits(track)
        return found

    def _load_first(self, snapshots: Sequence[Snapshot], track: Track) -> Snapshot | None:
        """Bring partitions to the first of some snapshots that can be read; None where none can, and commits
        bring them on.
        """
        cohort, found = self._partitions.cohort(track), None
        epoch = cohort.epoch
        try:
            for snapshot in snapshots:
                try:
                    self._load(snapshot, cohort, track)
                except Corrupt as error:
                    _log.warning(
                        "The snapshot at epoch %d of group %s cannot be used: %s",
                        snapshot.epoch,
                        self.group,
                        error.message,
                    )
                else:
                    found = snapshot
                    break
            else:
                check_next_commit(self._changelog, self.group, epoch)
        except BaseException:
            self._state = self._state.abandon_snapshot(track)
            raise
        if self._partitions.cohort(track) is cohort:
            self._state = self._state.follow_commits(track)
        else:
            # A store was found on the way. Its partitions are late as well, and need the snapshot, too.
            self._state = self._state.abandon_snapshot(track)
        return found

    def _load(self, snapshot: Snapshot, cohort: Cohort, track: Track) -> None:
        self._reread_amendments(snapshot.generation)
        # It may have been made after the end of a store, or be of a changelog that was restored since it was
        # followed: that is to be heard of first.
        self._changelog.generation(self.group)
        self._definitions.confirm(snapshot.stores)
        self._open_stores(snapshot.stores, snapshot.generation)
        self._state = self._state.read_snapshot(track, snapshot.epoch)
        self._measure_rest(track)
        self._reporter.report(self._state)
        cohort.load(snapshot, self._definitions.read_open_stores(snapshot.generation))
        if track is Track.MAIN:
            self._definitions.forget_shapes()

    def _look_ahead(self, track: Track, last: Epoch | None = None) -> Sequence[Commit]:
        """The commits that follow; none where nothing is new, or what follows was dropped."""
        try:
            commits = self._partitions.cohort(track).look_ahead(last)
        except Corrupt:
            self._state = self._state.block(track)
            raise
        if commits is None:
            self._state = self._state.doubt_commits(track)
            return ()
        return commits

    def _apply_found(self, track: Track) -> Commit:
        """Apply the commits that were found; the last of them that was taken."""
        cohort, is_readable = self._partitions.cohort(track), self.view is not None and track is Track.MAIN
        try:
            collected = cohort.collect(self._stores_of, is_readable=is_readable)
        except Corrupt:
            self._state = self._state.block(track)
            raise
        before, began = cohort.epoch, self._setup.clock()
        try:
            commit = cohort.apply(collected, is_readable=is_readable)
        except UnreadableRowsError:
            self._state = self._state.block(track)
            raise
        self._work.note_epochs(commit.epoch - before, self._setup.clock() - began)
        return commit

    def _stores_of(self, commit: Commit) -> StoreDefinitions:
        self._reread_amendments(commit.generation)
        self._definitions.confirm(commit.stores)
        self._open_stores(commit.stores, commit.generation)
        definitions = self._definitions.open_stores(commit.generation)
        if definitions is not self._compared_shapes:
            partitions = self._partitions.opened.partitions_of(definitions).values()
            check_shapes(self.group, partitions, definitions, commit.generation)
            self._compared_shapes = definitions
        return definitions

    def _reread_amendments(self, generation: int) -> None:
        """Read amendments again that partitions take up: they were read before a commit had done so, and the
        changelog may have been restored since.
        """
        if generation > self._main.generation:
            self._forget_history(self._main.generation)

    def _forget_history(self, beyond: int) -> None:
        """Read again what was decided of the group, and the shapes of stores beyond a generation."""
        self._changelog.forget_history(self.group)
        self._definitions.forget_shapes(beyond)

    def _open_stores(self, stores: Collection[StoreName], generation: int) -> None:
        unknown = self._definitions.unknown_stores(stores)
        if unknown:
            self.add_stores((self.definition_at(store, 0) for store in unknown), generation)

    def refresh(self) -> None:
        """Show what compaction has made of the partitions: the same rows in fewer segments. Without it a
        quiet group keeps the old ones.
        """
        if self.view is not None:
            self._publisher.is_unpublished = True
            self._publish()

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
        self._publisher.note_reached()

    def expire(self) -> bool:
        """As `ReadableEpochs.expire`."""
        has_expired = self.readable.expire()
        if has_expired:
            self._reporter.report(self._state)
        return has_expired

    def _show_reached_epoch(self, committed_at: int) -> None:
        """Take note that the partitions have come to another epoch, and show it."""
        self._publisher.note_step(committed_at)
        self._publish()
        self._main.request_compaction()
        if self.view is None:
            self._publisher.publish_past(self._state, committed_at)
            self._reporter.report(self._state)

    def _publish(self) -> None:
        """Show what the partitions have come to, if it can be read: see `GroupPublisher.publish`."""
        if not self._publisher.publish(self._state):
            return
        self._state = self._state.publish()
        self._reporter.note_epoch(self._main.epoch)
        self._reporter.report(self._state)
        self._publisher.note_reached()

    def _publish_late(self) -> None:
        """Publish what an earlier call has applied, and has failed behind."""
        try:
            self._publish()
        except Corrupt:
            # A changelog that was restored lacks the shapes that it takes. What was looked ahead at is of
            # before that, and would never lead to doubts.
            if self._state.main is Source.COMMITS:
                self._state = self._state.doubt_commits(Track.MAIN)
            raise

    def _note_commits(self, commits: Sequence[Commit], looked_at: int) -> None:
        """Report what is committed and not applied yet."""
        last = commits[-1].epoch if commits else self._main.epoch
        if last > self._reporter.newest_known:
            newest = self._changelog.newest_epoch(self.group, last) if len(commits) > 1 else last
            self._reporter.note_epoch(newest)
        self._reporter.note_look(looked_at, commits[0].committed_at if commits else None)
        if not commits:
            self._main.meter.rest()
            self._reporter.note_progress(self._progress.building_progress(self._state), None)
        elif self._reporter.newest_known == last:
            self._main.meter.aim(last, commits[-1].written)
        else:
            self._measure_rest(Track.MAIN)

    def refresh_progress(self) -> GroupReport:
        """Report how far the partitions are by now, for any thread; what is reported then."""
        return self._reporter.refresh_progress(self._state)

    def _measure_rest(self, track: Track) -> None:
        newest_known = max(self._state.target, self._reporter.newest_known)
        self._progress.measure_rest(track, self._main.epoch if track is Track.LATE else newest_known)

    def close(self) -> None:
        """Close all partitions and note their epoch."""
        self._partitions.close()
