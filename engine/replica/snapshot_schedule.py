"""At which epochs of a group snapshots are due."""

from __future__ import annotations

from typing import NamedTuple

from engine.changelog import Changelog, Commit
from engine.changelog.snapshot import Mark, Snapshot, is_due
from engine.model.schema import GroupName
from engine.replica.group_views import GroupView


class DueSnapshot(NamedTuple):
    """A snapshot that is to be made.

    Attributes:
        view: What this host holds at the epoch; it is kept until the snapshot is made.
        commit: The commit of the epoch.
    """

    view: GroupView
    commit: Commit


class SnapshotSchedule:
    """Says at which epochs of a group snapshots are due. For one thread.

    Args:
        changelog: The changelog.
        group: The group.
        after_bytes: As `SnapshotOptions.after_bytes`.

    Attributes:
        newest: The newest snapshot that counts, when the changelog was last asked; None where there is none.
    """

    def __init__(self, changelog: Changelog, group: GroupName, after_bytes: int) -> None:
        self._snapshots = changelog.snapshots(group)
        self._after_bytes = after_bytes
        self._mark: Mark | None = None
        self.newest: Snapshot | None = None

    def is_due(self, commit: Commit) -> bool:
        """Whether a snapshot is due at a commit's epoch, or counts already. Only then, and the first time,
        the changelog is asked for newer snapshots.

        Raises:
            Unavailable: The changelog cannot be reached.
        """
        if not self._after_bytes:
            return False
        mark = self._mark or self._look()
        if is_due(mark, commit, self._after_bytes):
            mark = self._look()
        # A host that comes to the epoch of a snapshot later than others compares what it has there.
        return commit.epoch == mark.epoch or is_due(mark, commit, self._after_bytes)

    def forget(self) -> None:
        """Ask the changelog for its newest snapshot again: it may have another history."""
        self._mark, self.newest = None, None

    def _look(self) -> Mark:
        """Ask the changelog for its newest snapshot."""
        self.newest = self._snapshots.newest_snapshot()
        self._mark = Mark.from_snapshot(self.newest)
        return self._mark
