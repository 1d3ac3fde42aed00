"""How partitions get on when the commits that follow their epoch are gone, damaged, or more than a snapshot:
from a snapshot.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from engine.changelog import Changelog, Snapshot
from engine.changelog.epochs import missing_commit
from engine.changelog.snapshot import EPOCH_WEIGHT, Mark
from engine.errors import Corrupt, LivestateError, Unavailable
from engine.model.schema import Epoch, GroupName, StoreName
from engine.replica.history import check_same, diverged_error, is_first_behind

FEW_EPOCHS = 64
"""So few epochs are read rather than a snapshot, however small that is: what was applied here already stays
as it is.
"""


def snapshots_to_try(
    changelog: Changelog, group: GroupName, epoch: Epoch, digest: str, *, is_blocked: bool
) -> Sequence[Snapshot]:
    """The snapshots to go on from, if that is the better way or the only one.

    Args:
        changelog: The changelog.
        group: The store group.
        epoch: The epoch that its partitions have reached.
        digest: As `Commit.digest` of that epoch; empty where it is not known.
        is_blocked: Whether the commits that follow cannot be read.

    Returns:
        The snapshots, the newest first; none where the commits are the way to go on.

    Raises:
        Corrupt: The commits that follow are gone, and there is no snapshot; or that of this epoch was lost.
        DivergedError: The changelog has another commit of this epoch, or does not come so far.
        LivestateError: The changelog cannot be reached.
    """
    snapshots = changelog.snapshots(group)
    if all(other <= epoch for other in snapshots.epochs()):
        if epoch:
            _check_epoch(changelog, group, epoch, digest)
        return ()
    snapshots.forget()
    later = [snapshot for snapshot in reversed(changelog.usable_snapshots(group)) if snapshot.epoch > epoch]
    if not (is_blocked or _is_better(changelog, group, epoch, later)):
        return ()
    if not later:
        check_next_commit(changelog, group, epoch)
    return later


def check_next_commit(changelog: Changelog, group: GroupName, epoch: Epoch) -> None:
    """See that the commits behind an epoch are there, where no snapshot can be read.

    Args:
        changelog: The changelog.
        group: The store group.
        epoch: The epoch that its partitions have reached.

    Raises:
        Corrupt: They are gone.
        LivestateError: The changelog cannot be reached.
    """
    if not _is_next_there(changelog, group, epoch):
        gap = changelog.find_gap(group, epoch)
        if gap is not None:
            raise gap.error()
        raise Corrupt(
            f"Store group {group} cannot be brought beyond epoch {epoch}: the epochs behind it have given "
            "way to snapshots, and no snapshot can be read any more; restore the changelog from a backup."
        )


def stores_with_rows(
    changelog: Changelog, group: GroupName, stores: Collection[StoreName], epoch: Epoch, read_to: Epoch
) -> Collection[StoreName]:
    """Those of some stores of which there may be rows in the epochs up to one.

    Args:
        changelog: The changelog.
        group: The store group.
        stores: The stores.
        epoch: The epoch.
        read_to: Commits behind this epoch, up to the other one, are known to have no rows of them.

    Raises:
        Unavailable: The changelog cannot be reached.
    """
    if not (epoch and stores):
        return ()
    before = [snapshot for snapshot in changelog.usable_snapshots(group) if snapshot.epoch <= epoch]
    first = before[-1].epoch if before else 0
    found = set(stores) & before[-1].stores if before else set()
    if read_to - first > FEW_EPOCHS:
        return stores
    try:
        for number in range(first + 1, read_to + 1):
            commit = changelog.read_commit(group, Epoch(number))
            if commit is None:
                return stores
            found.update(commit.stores & set(stores))
    except Corrupt:
        return stores
    return found


def _is_better(changelog: Changelog, group: GroupName, epoch: Epoch, later: Sequence[Snapshot]) -> bool:
    """Whether the newest snapshot is less to read than the commits up to it, or these are not there."""
    if not epoch:
        return True
    try:
        here = changelog.read_commit(group, epoch)
    except Corrupt:
        return True
    # Below the floor what follows may be gone already, though the epoch itself is still there.
    if here is None or not later or not changelog.holds(group, epoch):
        return True
    newest = later[0]
    return (
        Mark(epoch, here.written).weight(newest.epoch, newest.written)
        > newest.nbytes + FEW_EPOCHS * EPOCH_WEIGHT
    )


def _is_next_there(changelog: Changelog, group: GroupName, epoch: Epoch) -> bool:
    try:
        following = changelog.read_commit(group, Epoch(epoch + 1))
    except Corrupt:
        return True  # whoever reads it says what is wrong with it
    return following is not None and is_first_behind(changelog, group, epoch)


def commit_time(changelog: Changelog, group: GroupName, epoch: Epoch) -> int | None:
    """When an epoch was committed, microseconds since 1970 UTC; 0 before the first.

    Args:
        changelog: The changelog.
        group: The store group.
        epoch: An epoch that partitions have reached.

    Returns:
        The time; None where the epoch has left the changelog.

    Raises:
        DivergedError: The changelog does not come so far.
        Corrupt: It comes further, and this epoch was lost.
        Unavailable: The changelog cannot be reached.
    """
    commit = changelog.read_commit(group, epoch) if epoch else None
    if commit is None and any(later > epoch for later in changelog.snapshots(group).epochs()):
        return None
    if commit is None and epoch:
        raise _loss_error(changelog, group, epoch)
    return commit.committed_at if commit else 0


def _check_epoch(changelog: Changelog, group: GroupName, epoch: Epoch, digest: str) -> None:
    """See that the commit of an epoch that was applied here is the one that the changelog has, if that can be
    read.
    """
    try:
        commit = changelog.read_commit(group, epoch)
    except Corrupt:
        return  # it was applied when it could be read, and those that follow name it
    if commit is None:
        raise _loss_error(changelog, group, epoch)
    check_same(commit, digest)


def _loss_error(changelog: Changelog, group: GroupName, epoch: Epoch) -> LivestateError:
    """Why partitions do not go on from an epoch that the changelog has not got, and no later snapshot."""
    if changelog.floor(group) > epoch:
        return Unavailable(
            f"Epoch {epoch} of store group {group}, which this host has reached, was dropped, and the "
            "snapshot that has its rows is not listed yet: the host tries again."
        )
    if changelog.listed_behind(group, epoch) is not None:
        return missing_commit(group, epoch)
    return diverged_error(group, epoch)
