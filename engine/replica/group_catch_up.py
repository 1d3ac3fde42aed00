"""How a group comes to epochs on a host: its partitions are opened, led on from snapshots and commits, and
shown once they can be read.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from engine.changelog import Changelog, Commit, Snapshot
from engine.errors import Corrupt, LivestateError, Unavailable
from engine.model.schema import Epoch, GroupName, StoreDefinition, StoreDefinitions, StoreName
from engine.replica.catch_up import CatchUpState, Source, Stage, Track
from engine.replica.changes import UnreadableRowsError
from engine.replica.cohort import Cohort, CollectedCommits
from engine.replica.figures import GroupWork
from engine.replica.group_definitions import GroupDefinitions
from engine.replica.group_partitions import GroupPartitions
from engine.replica.group_progress import GroupProgress
from engine.replica.group_publisher import GroupPublisher
from engine.replica.group_reporter import GroupReporter
from engine.replica.group_setup import GroupSetup
from engine.replica.history import (
    DivergedError,
    applied_skip,
    check_has_epochs,
    check_same_changelog,
    check_shapes,
    diverged_error,
    needs_check,
    skipped_error,
)
from engine.replica.open_files import FileNeed, check_open_files
from engine.replica.partition_keys import PartitionKey
from engine.replica.readable_epochs import ReadableEpochs
from engine.replica.recovery import check_next_commit, snapshots_to_try
from engine.replica.snapshot_schedule import SnapshotSchedule
from engine.state.partition import PartitionStore

_log = logging.getLogger(__name__)


class GroupCatchUp:
    """Makes the transitions of a group's `CatchUpState`, and does what belongs to each. `FollowedGroup` says
    when. One thread at a time uses it.

    Args:
        group: The group.
        changelog: Where its commits are.
        setup: What it shares with other groups.

    Attributes:
        readable: The epochs that can be read.
        definitions: The stores of the group.
        schedule: When snapshots of it are due.
        partitions: Its partitions.
        reporter: What it has to say to other hosts.
        publisher: Shows what the partitions have come to.
        state: How far it is.
        work: What that has taken.
        has_diverged: Whether partitions have applied other commits than the changelog has: nothing can be
            read before `replace_diverged`.
        has_ended: Whether all its stores were dropped.
        is_doubted: Whether to compare the epochs with those of the changelog soon; any thread says so.
        alone_reason: What there is to say where the changelog could not be asked yet; else empty.
    """

    def __init__(self, group: GroupName, changelog: Changelog, setup: GroupSetup) -> None:
        self._group = group
        self._changelog = changelog
        self._setup = setup
        self.readable = ReadableEpochs(group, setup.retention, setup.clock)
        self.definitions = GroupDefinitions(changelog, setup.held)
        self.schedule = SnapshotSchedule(changelog, group, setup.snapshot_after)
        self.partitions = GroupPartitions(group, changelog, setup, self.definitions, self.schedule.is_due)
        self._progress = GroupProgress(group, changelog, self.definitions, self.partitions, setup.clock)
        self.reporter = GroupReporter(self.definitions, self.partitions, self.readable, self._progress)
        self.publisher = GroupPublisher(
            group, changelog, setup, self.definitions, self.partitions, self.readable
        )
        self.state = CatchUpState(doubted_at=setup.clock())
        self.work = GroupWork()
        self.has_diverged = False
        self.has_ended = False
        self.is_doubted = False
        self.alone_reason = ""
        self._compared_shapes: StoreDefinitions | None = None
        """What stores were when partitions were last seen to be just that."""

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
            for name, each in self.definitions.new_stores(definitions).items()
            if self._has_begun(each, generation)
        }
        before = self.readable.newest
        # An earlier call may have opened partitions of stores that have ended since.
        found = self.definitions.found
        ended = {
            name: found[name]
            for name, each in new.items()
            if name in found and found[name].since != each.since
        }
        if ended:
            self._drop_stores(ended)
        if new:
            self.definitions.add(new, self._changelog.exclusions(self._group).drops)
            self.readable.clear_past()  # which does not have them
        if self.readable.newest is None:
            self.reporter.report(self.state)
        need = others or FileNeed()
        for each in self.definitions.found.values():
            need += self.partitions.opened.needs_of(each, self.definitions.held_partitions(each))
        check_open_files(need, self._setup.open_files)
        self.partitions.open(new.values())
        if new:
            opened = self.partitions.opened.partitions_of(new)
            if is_away:
                self._begin_alone(opened)
            else:
                self._place_opened(opened, new)
            self.definitions.note_open(new)
            self.publisher.is_unpublished = True
        if self.readable.newest is None:
            self.reporter.report(self.state)
        if self.publisher.is_unpublished:
            self._publish()
        return bool(new) or self.readable.newest is not before

    def _has_begun(self, definition: StoreDefinition, generation: int) -> bool:
        """Whether a store is there yet. One that takes the place of a store that was dropped begins with the
        first commit that knows of that: at earlier epochs hosts that have not heard of it have the old one.
        And whether it is there still.
        """
        if self._changelog.definition_at(definition.name, definition.generation) != definition:
            return False
        if definition.since <= max(generation, self.partitions.main.generation):
            return True
        if self.state.stage is not Stage.WAITING:
            return False
        newest = self._changelog.newest_listed_epoch(self._group)
        commit = self._changelog.read_commit(self._group, newest) if newest else None
        return commit is not None and definition.since <= commit.generation

    def _place_opened(
        self, opened: Mapping[PartitionKey, PartitionStore], new: Mapping[StoreName, StoreDefinition]
    ) -> None:
        """Give partitions of new stores their place among the others."""
        if self.has_diverged:
            return  # the next step begins with all that are open
        if self.state.stage is not Stage.WAITING:
            definitions = {
                name: self.definitions.definition_at(name, self.partitions.main.generation) for name in new
            }
            if self.partitions.place(opened, definitions):
                self.note_late()
            return
        newest = self._newest_committed(opened)
        skip = applied_skip(self._changelog, self._group, opened.values())
        if skip is not None or needs_check(opened.values(), newest):
            check_has_epochs(self._changelog, self._group)
            error = diverged_error(self._group, newest) if skip is None else skipped_error(skip)
            self._note_divergence(error.message)
        else:
            self._begin(opened, newest)

    def _begin(self, opened: Mapping[PartitionKey, PartitionStore], newest: Epoch) -> None:
        """Begin with the first partitions, at whatever epochs they are.

        Args:
            opened: The partitions.
            newest: The newest epoch in the changelog.
        """
        self.partitions.begin(opened, newest, self._setup.reached_epoch(self._group))
        self.publisher.note_begin()
        self.state = self.state.begin(newest)
        if self.partitions.late.partitions:
            self.note_late()
        self.reporter.note_epoch(self.state.target, self._setup.now())

    def _begin_alone(self, opened: Mapping[PartitionKey, PartitionStore]) -> None:
        """Begin with what is here, without the changelog.

        Args:
            opened: The partitions.

        Raises:
            Unavailable: They are not known to be all at one epoch.
        """
        reached = self._setup.reached_epoch(self._group)
        if reached is None or not reached.covers(opened.values()):
            raise Unavailable(
                f"The changelog cannot be reached, and what this host has of group {self._group} is not "
                "known to be all at one epoch: the commits between are needed."
            )
        self.partitions.begin_at(opened, reached)
        self.publisher.committed_at = reached.committed_at
        self.state = self.state.begin(reached.epoch)
        self.reporter.note_epoch(reached.epoch, self._setup.now())
        self.alone_reason = (
            "The changelog could not be reached since this host started: what can be read is epoch "
            f"{reached.epoch}, which it had before."
        )

    def _newest_committed(self, opened: Mapping[PartitionKey, PartitionStore]) -> Epoch:
        """The newest epoch in the changelog, also where commits before it were lost: what is older is not to
        be taken for the newest. One that has left it leads to nothing, so it is looked for from the beginning
        then.
        """
        looked_at = self._setup.now()
        known = min((store.applied for store in opened.values()), default=Epoch(0))
        is_there = known > 0 and self._changelog.holds(self._group, known)
        newest = self._changelog.newest_listed_epoch(self._group, known if is_there else Epoch(0))
        self.reporter.note_look(looked_at, self.reporter.unread_since)
        return newest

    def note_late(self) -> None:
        """Take note that there are partitions far behind the others, or more of them."""
        self.publisher.forget_reached()
        self.state = self.state.rebuild_late()

    def drop_ended_stores(self) -> None:
        """Let go of the stores that were dropped from the changelog, as far as this host has heard.

        Raises:
            LivestateError: That cannot be read, or a store cannot be deleted; call it again.
        """
        ended = self.definitions.ended_stores()
        if ended:
            self._drop_stores(ended)
            self.has_ended = not self.definitions.found

    def _drop_stores(self, stores: Mapping[StoreName, StoreDefinition]) -> None:
        """Let go of stores that are no more, and of what the disk has of them."""
        self.readable.drop_stores(stores)
        self.partitions.remove(stores)
        if not self.partitions.late.partitions:
            self.state = self.state.give_up_late()
        for name, definition in stores.items():
            self._setup.delete_store(self._group, name, definition.since)
            _log.warning("Store %s is no more; what this host had of it is deleted.", name)
        self.definitions.forget(stores)
        self.reporter.report(self.state)

    def stop_answering(self, error: DivergedError) -> None:
        """Have nothing read before it is known what of it the changelog has.

        Raises:
            Unavailable: The changelog is gone, or has no epoch at all, so that it has nothing else either.
        """
        check_has_epochs(self._changelog, self._group)
        skip = None
        with suppress(LivestateError):
            # One that was decided a moment ago may be found by what it makes of the epochs.
            skip = applied_skip(self._changelog, self._group, self.partitions.opened.stores())
        self._note_divergence(error.message if skip is None else skipped_error(skip).message)
        self.readable.clear()
        self.state = self.state.start_over(self._setup.clock())
        self.reporter.report(self.state)

    def _note_divergence(self, message: str) -> None:
        _log.error("%s", message)
        self.partitions.rebuild_reason = message
        self.has_diverged = True
        self.publisher.forget_reached()

    def replace_diverged(self) -> None:
        """Put aside the partitions that have applied other commits than the changelog has, and begin again.

        Raises:
            Unavailable: Another changelog is in the place of the one that was followed.
            LivestateError: It cannot be read, or a partition cannot be put aside; the next call tries again.
        """
        check_same_changelog(self._changelog)
        self._forget_history(0)
        self.schedule.forget()
        self.drop_ended_stores()
        if self.has_ended:
            return
        definitions = self.definitions.found
        self.partitions.put_diverged_aside(self.partitions.opened.partitions_of(definitions))
        self.partitions.open(definitions.values())
        opened = self.partitions.opened.partitions_of(definitions)
        self.publisher.committed_at = None
        newest = self._newest_committed(opened)
        self.reporter.lower_newest(newest)
        self._begin(opened, newest)
        self.has_diverged, self.publisher.is_unpublished = False, True
        self.reporter.report(self.state)

    def lower_target(self) -> None:
        """Be content with what the changelog has, where it has lost its end before that was applied here."""
        commit = self._changelog.read_commit(self._group, self.partitions.main.epoch)
        if commit is None or self.partitions.main.digest not in ("", commit.digest):
            return  # what follows was dropped, or is of another history: doubts find that
        newest = self._changelog.newest_epoch(self._group, commit.epoch)
        if needs_check(
            [*self.partitions.main.partitions.values(), *self.partitions.late.partitions.values()], newest
        ):
            raise diverged_error(self._group, newest)  # one of them is ahead, on what the changelog has lost
        self.reporter.lower_newest(newest)
        if self.state.stage is Stage.BUILDING and newest < self.state.target:
            self.state = self.state.lower_target(newest)
            self.publisher.note_step(commit.committed_at)

    def snapshots_to_try(self, track: Track) -> Sequence[Snapshot]:
        """As `recovery.snapshots_to_try`, unless it is known that commits bring the partitions on."""
        cohort, source = self.partitions.cohort(track), self.state.source(track)
        if source is Source.COMMITS:
            return ()
        is_blocked = source is Source.BLOCKED
        try:
            found = snapshots_to_try(
                self._changelog, self._group, cohort.epoch, cohort.digest, is_blocked=is_blocked
            )
        except BaseException:
            self.state = self.state.abandon_snapshot(track)
            raise
        if not found:
            self.state = self.state.follow_commits(track)
        return found

    def load_first(self, snapshots: Sequence[Snapshot], track: Track) -> Snapshot | None:
        """Bring partitions to the first of some snapshots that can be read; None where none can, and commits
        bring them on.
        """
        cohort, found = self.partitions.cohort(track), None
        epoch = cohort.epoch
        try:
            for snapshot in snapshots:
                try:
                    self._load(snapshot, cohort, track)
                except Corrupt as error:
                    _log.warning(
                        "The snapshot at epoch %d of group %s cannot be used: %s",
                        snapshot.epoch,
                        self._group,
                        error.message,
                    )
                else:
                    found = snapshot
                    break
            else:
                check_next_commit(self._changelog, self._group, epoch)
        except BaseException:
            self.state = self.state.abandon_snapshot(track)
            raise
        if self.partitions.cohort(track) is cohort:
            self.state = self.state.follow_commits(track)
        else:
            # A store was found on the way. Its partitions are late as well, and need the snapshot, too.
            self.state = self.state.abandon_snapshot(track)
        return found

    def _load(self, snapshot: Snapshot, cohort: Cohort, track: Track) -> None:
        self._reread_amendments(snapshot.generation)
        # It may have been made after the end of a store, or be of a changelog that was restored since it was
        # followed: that is to be heard of first.
        self._changelog.generation(self._group)
        self.definitions.confirm(snapshot.stores)
        self._open_stores(snapshot.stores, snapshot.generation)
        self.state = self.state.read_snapshot(track, snapshot.epoch)
        self.measure_rest(track)
        self.reporter.report(self.state)
        cohort.load(snapshot, self.definitions.read_open_stores(snapshot.generation))
        if track is Track.MAIN:
            self.definitions.forget_shapes()

    def look_ahead(self, track: Track, last: Epoch | None = None) -> Sequence[Commit]:
        """The commits that follow; none where nothing is new, or what follows was dropped."""
        try:
            commits = self.partitions.cohort(track).look_ahead(last)
        except Corrupt:
            self.state = self.state.block(track)
            if track is Track.MAIN:
                self._note_damaged_commit()
            raise
        if commits is None:
            self.state = self.state.doubt_commits(track)
            return ()
        return commits

    def _note_damaged_commit(self) -> None:
        """Report that commits are missing here though the next one cannot be read: it was not there at the
        last look.
        """
        seen_at, epoch = self._setup.now(), self.partitions.main.epoch
        newest = following = Epoch(epoch + 1)
        with suppress(LivestateError):
            newest = max(following, self._changelog.newest_listed_epoch(self._group, epoch))
        self.reporter.note_epoch(newest, seen_at)
        looked_at = self.reporter.reported[0].looked_at
        committed_at = looked_at or self.publisher.committed_at or seen_at
        self.reporter.note_look(looked_at, self.reporter.time_of_unread(following, committed_at))

    def apply_found(self, track: Track) -> Commit:
        """Apply the commits that were found; the last of them that was taken."""
        cohort, is_readable = (
            self.partitions.cohort(track),
            self.readable.newest is not None and track is Track.MAIN,
        )
        try:
            collected = self._collect(cohort, is_readable=is_readable)
        except Corrupt:
            self.state = self.state.block(track)
            raise
        before, began = cohort.epoch, self._setup.clock()
        try:
            commit = cohort.apply(collected, is_readable=is_readable)
        except UnreadableRowsError:
            self.state = self.state.block(track)
            raise
        self.work.note_epochs(commit.epoch - before, self._setup.clock() - began)
        return commit

    def _collect(self, cohort: Cohort, *, is_readable: bool) -> CollectedCommits:
        """What the commits bring that were found, up to a good one to stop at."""
        collected: CollectedCommits | None = None
        for commit in cohort.next_commits(is_readable=is_readable):
            try:
                following = cohort.collect(commit, self._confirm_stores(commit), collected)
            except Exception:
                if collected is None:
                    cohort.forget_commits()
                    raise
                break  # the commits before it are fine; the next call meets this one first
            if following is None:
                break
            collected = following
        assert collected is not None
        return collected

    def _confirm_stores(self, commit: Commit) -> StoreDefinitions:
        """All stores of the group at a commit, those open that it has rows of."""
        self._reread_amendments(commit.generation)
        self.definitions.confirm(commit.stores)
        self._open_stores(commit.stores, commit.generation)
        definitions = self.definitions.open_stores(commit.generation)
        if definitions is not self._compared_shapes:
            partitions = self.partitions.opened.partitions_of(definitions).values()
            check_shapes(self._group, partitions, definitions, commit.generation)
            self._compared_shapes = definitions
        return definitions

    def _reread_amendments(self, generation: int) -> None:
        """Read amendments again that partitions take up: they were read before a commit had done so, and the
        changelog may have been restored since.
        """
        if generation > self.partitions.main.generation:
            self._forget_history(self.partitions.main.generation)

    def _forget_history(self, beyond: int) -> None:
        """Read again what was decided of the group, and the shapes of stores beyond a generation."""
        self._changelog.forget_history(self._group)
        self.definitions.forget_shapes(beyond)

    def _open_stores(self, stores: Collection[StoreName], generation: int) -> None:
        unknown = self.definitions.unknown_stores(stores)
        if unknown:
            self.add_stores((self.definitions.definition_at(store, 0) for store in unknown), generation)

    def note_commits(self, commits: Sequence[Commit], looked_at: int) -> None:
        """Report what is committed and not applied yet.

        Args:
            commits: What `look_ahead` has found.
            looked_at: When that began, as `GroupReport.looked_at`.
        """
        self.alone_reason = ""
        last = commits[-1].epoch if commits else self.partitions.main.epoch
        if last > self.reporter.newest_known:
            newest = self._changelog.newest_epoch(self._group, last) if len(commits) > 1 else last
            self.reporter.note_epoch(newest, looked_at)
        since = commits[0].committed_at if commits else None
        if since is None and self.partitions.main.epoch < self.reporter.newest_known:
            since = self.publisher.committed_at  # what an earlier look has found is of after that
        self.reporter.note_look(looked_at, self._unread_since(since))
        if not commits:
            self.partitions.main.meter.rest()
            self.reporter.note_progress(self._progress.building_progress(self.state), None)
        elif self.reporter.newest_known == last:
            self.partitions.main.meter.aim(last, commits[-1].written)
        else:
            self.measure_rest(Track.MAIN)

    def _unread_since(self, committed_at: int | None) -> int | None:
        """Since when the next epoch can be missing, by what commits say; None where there is none."""
        following = Epoch(self.partitions.main.epoch + 1)
        return None if committed_at is None else self.reporter.time_of_unread(following, committed_at)

    def check_for_loss(self, looked_at: int) -> None:
        """See, where nothing follows, that no commit was lost that others follow: now and then, and while
        later epochs are known.

        Args:
            looked_at: As for `note_commits`.

        Raises:
            Corrupt: One was.
            Unavailable: The changelog cannot be reached.
        """
        is_doubted = self.state.is_in_doubt(self._setup.clock(), is_doubted=self.is_doubted)
        if is_doubted or self.partitions.main.epoch < self.reporter.newest_known:
            self._check_for_gap(Track.MAIN, looked_at)

    def check_for_late_loss(self) -> None:
        """See, where late partitions are not at the others' epoch and nothing follows, that no commit was
        lost.

        Raises:
            Corrupt: One was.
            Unavailable: The changelog cannot be reached.
        """
        self._check_for_gap(Track.LATE, None)

    def _check_for_gap(self, track: Track, looked_at: int | None) -> None:
        gap = self._changelog.find_gap(self._group, self.partitions.cohort(track).epoch)
        if gap is None:
            return
        self.state = self.state.block(track)
        if looked_at is not None:
            self.alone_reason = ""
            # The lost commit is of after that; the one behind it may be of much later.
            committed_at = self.publisher.committed_at
            if committed_at is None:
                following = self._changelog.read_commit(self._group, gap.following)
                committed_at = None if following is None else following.committed_at
            self.reporter.note_epoch(gap.newest, looked_at)
            self.reporter.note_look(looked_at, self._unread_since(committed_at))
        raise gap.error()

    def await_news(self) -> None:
        """Take note that nothing follows."""
        is_doubted, self.is_doubted = self.is_doubted, False
        self.state = self.state.await_news(self._setup.clock(), is_doubted=is_doubted)

    def doubt_commits(self, track: Track) -> None:
        """Take note that what follows was dropped, or may be."""
        self.state = self.state.doubt_commits(track)

    def join_late(self) -> None:
        """Have the late partitions, which have caught up, move on with the others, and be read.

        Raises:
            LivestateError: As `GroupPartitions.join_late`.
        """
        self.partitions.join_late()
        self.publisher.is_unpublished = True
        self.state = self.state.join_late()
        self._publish()

    def measure_rest(self, track: Track) -> None:
        """Find out how many bytes there are up to where partitions are to come: see `GroupProgress`."""
        newest_known = max(self.state.target, self.reporter.newest_known)
        self._progress.measure_rest(
            track, self.partitions.main.epoch if track is Track.LATE else newest_known
        )

    def show_epoch(self, committed_at: int) -> None:
        """Take note that the partitions have come to another epoch, and show it."""
        self.publisher.note_step(committed_at)
        self._publish()
        self.partitions.main.request_compaction()
        if self.readable.newest is None:
            self.publisher.publish_past(self.state, committed_at)
            self.reporter.report(self.state)

    def _publish(self) -> None:
        """Show what the partitions have come to, if it can be read: see `GroupPublisher.publish`."""
        if not self.publisher.publish(self.state):
            return
        self.state = self.state.publish()
        self.reporter.note_epoch(self.partitions.main.epoch, self._setup.now())
        self.reporter.report(self.state)
        self.publisher.note_reached()

    def publish_unpublished(self) -> None:
        """Publish what an earlier call has applied, and has failed behind."""
        if not self.publisher.is_unpublished:
            return
        try:
            self._publish()
        except Corrupt:
            # A changelog that was restored lacks the shapes that it takes. What was looked ahead at is of
            # before that, and would never lead to doubts.
            if self.state.main is Source.COMMITS:
                self.state = self.state.doubt_commits(Track.MAIN)
            raise

    def refresh(self) -> None:
        """Show what compaction has made of the partitions: the same rows in fewer segments. Without it a
        quiet group keeps the old ones.
        """
        if self.readable.newest is not None:
            self.publisher.is_unpublished = True
            self._publish()
