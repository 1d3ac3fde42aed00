"""How a group shows what its partitions have come to, and notes it for the next start of the host."""

from __future__ import annotations

from engine.changelog import Changelog
from engine.model.schema import GroupName
from engine.replica.catch_up import CatchUpState, Stage
from engine.replica.group_definitions import GroupDefinitions
from engine.replica.group_partitions import GroupPartitions
from engine.replica.group_setup import GroupSetup
from engine.replica.group_views import GroupView, group_view
from engine.replica.reached_epoch import ReachedEpoch, boot_of_machine
from engine.replica.readable_epochs import ReadableEpochs
from engine.replica.recovery import commit_time


class GroupPublisher:
    """Makes views of the partitions of a group, all at one epoch, and notes the epoch. One thread at a time
    uses it.

    Args:
        group: The group.
        changelog: Where its commits are.
        setup: What it shares with other groups.
        definitions: Its stores.
        partitions: Its partitions.
        readable: The epochs that can be read.

    Attributes:
        committed_at: When the epoch was committed that the partitions have reached; None where that is not
            known.
        is_unpublished: Whether the partitions have come to something that is not shown yet.
    """

    def __init__(
        self,
        group: GroupName,
        changelog: Changelog,
        setup: GroupSetup,
        definitions: GroupDefinitions,
        partitions: GroupPartitions,
        readable: ReadableEpochs,
    ) -> None:
        self.committed_at: int | None = None
        self.is_unpublished = False
        self._group = group
        self._changelog = changelog
        self._setup = setup
        self._definitions = definitions
        self._partitions = partitions
        self._readable = readable
        self._noted: ReachedEpoch | None = None

    def note_step(self, committed_at: int | None) -> None:
        """Take note that the partitions have come to another epoch.

        Args:
            committed_at: When it was committed; None where that is not known.
        """
        self.committed_at, self.is_unpublished = committed_at, True

    def publish(self, state: CatchUpState) -> bool:
        """Make the epoch that the partitions have come to the newest that can be read: once they are all at
        it, and it is not before the target.

        Args:
            state: The state of the group.

        Returns:
            Whether it is the newest now.

        Raises:
            DivergedError: The changelog does not come so far.
            LivestateError: It cannot be reached, or what the stores are cannot be read.
        """
        main = self._partitions.main
        if state.stage is Stage.WAITING or not main.is_even or main.epoch < state.target:
            return False
        if self.committed_at is None:
            self.committed_at = commit_time(self._changelog, self._group, main.epoch)
        if self.committed_at is None:
            return False  # the epoch has left the changelog; the next step goes on from a snapshot
        self._readable.publish(self.view_of_begun_stores(self.committed_at))
        main.request_compaction()  # before it is reported: who waits for the epoch waits for this, too
        self.is_unpublished = False
        return True

    def publish_past(self, state: CatchUpState, committed_at: int) -> None:
        """Have an epoch before the target read by whoever allows that: one that was just reached, so that it
        is known to be of the history that the changelog has.

        Args:
            state: The state of the group.
            committed_at: When the epoch was committed.
        """
        main, late = self._partitions.main, self._partitions.late
        if state.stage is Stage.BUILDING and main.is_even and not late.partitions:
            self._readable.publish_past(self._view_of_partitions(committed_at))

    def view_of_begun_stores(self, committed_at: int) -> GroupView:
        """The partitions as they are now, all at one epoch, without stores that begin with a later commit.

        Args:
            committed_at: When the epoch was committed.

        Raises:
            LivestateError: What the stores are cannot be read.
        """
        view = self._view_of_partitions(committed_at)
        later = [name for name, each in view.definitions.items() if each.since > view.generation]
        return view.hide_stores(later) if later else view

    def _view_of_partitions(self, committed_at: int) -> GroupView:
        main = self._partitions.main
        return group_view(
            self._group,
            main.epoch,
            committed_at,
            self._definitions.open_stores(main.generation),
            main.generation,
            {key: store.version for key, store in main.partitions.items()},
            frozenset(self._partitions.late.partitions),
            main.digest,
        )

    def note_reached(self) -> None:
        """Note what all partitions have reached, for the next start, once that can be read."""
        main = self._partitions.main
        if self._readable.newest is None or self.committed_at is None or self.is_unpublished:
            return
        if self._partitions.late.partitions or not main.digest or not main.is_written:
            return
        reached = ReachedEpoch(
            main.epoch, main.digest, self.committed_at, boot_of_machine(), main.fingerprint
        )
        if reached != self._noted:
            self._noted = reached
            self._setup.note_reached(self._group, reached)

    def forget_reached(self) -> None:
        """Have the next start look for itself what partitions have reached."""
        self._noted = None
        self._setup.note_reached(self._group, None)

    def note_begin(self) -> None:
        """Take note that the partitions were opened: what is reached is noted again, whatever was before."""
        self._noted = None
