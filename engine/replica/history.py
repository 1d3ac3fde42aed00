"""Whether what a host has applied are the commits of the changelog: one that was restored from an older copy
has other commits under the same numbers.

Each commit names the one before it by its digest (`engine.changelog.commit`), and each partition notes the
digest of the commit that it has reached. A digest that is not known, as an older version wrote it, is not
compared.
"""

from __future__ import annotations

from collections.abc import Collection

from engine.changelog import Changelog, Commit, Skip
from engine.changelog.codec import describe
from engine.errors import Corrupt, Unavailable
from engine.model.schema import Epoch, GroupName, StoreDefinitions
from engine.state.partition import PartitionStore


class DivergedError(Unavailable):
    """What is here was made of other commits than the changelog has."""


def check_same_changelog(changelog: Changelog) -> None:
    """See that no other changelog is in the place of the one that was followed.

    Args:
        changelog: The changelog.

    Raises:
        Unavailable: There is.
        LivestateError: That cannot be read.
    """
    if changelog.identity(is_fresh=True) != changelog.identity():
        raise replaced_error()


def replaced_error() -> Unavailable:
    """Why a changelog is not followed that is not the one that was."""
    return Unavailable(
        "Another changelog is in the place of the one that this host follows: bring that back, or start "
        "the host with another data directory."
    )


def check_has_epochs(changelog: Changelog, group: GroupName) -> None:
    """See that a changelog has any epochs of a group: else nothing is put aside for it.

    Args:
        changelog: The changelog.
        group: A store group, of which this host has some.

    Raises:
        Unavailable: It has none, or is gone itself.
    """
    if changelog.identity(is_fresh=True) is None:
        raise Unavailable(
            "The changelog is gone. What was applied before can still be read; make the changelog available "
            "to this host again."
        )
    if not changelog.newest_epoch(group):
        raise Unavailable(
            f"The changelog has no epoch of group {group}, of which this host has some: check that it is the "
            "right changelog."
        )


def check_follows(changelog: Changelog, commit: Commit, digest: str) -> None:
    """See that a commit was committed behind what is here.

    Args:
        changelog: The changelog.
        commit: A commit of it.
        digest: That of the commit before it, as far as this host knows.

    Raises:
        DivergedError: It was committed behind another one.
        Corrupt: Likewise, and the changelog has not got that one either.
        LivestateError: The commit before it cannot be read.
    """
    if not digest or commit.follows(digest):
        return
    epoch = Epoch(commit.epoch - 1)
    before = changelog.read_commit(commit.group, epoch)
    if before is not None and before.digest == digest:
        raise Corrupt(
            f"The changelog contradicts itself: {describe(commit.group, commit.epoch)} was committed behind "
            f"another epoch {epoch} than it has. Pass it by, or restore a backup."
        )
    raise diverged_error(commit.group, epoch)


def is_first_behind(changelog: Changelog, group: GroupName, epoch: Epoch) -> bool:
    """Whether what was found behind an epoch before this was asked is what was first committed there.

    Args:
        changelog: The changelog.
        group: The store group.
        epoch: An epoch that was committed, or 0.

    Raises:
        Unavailable: The changelog cannot be reached.
    """
    if changelog.holds(group, epoch):
        return True
    # Of the beginning `holds` only says whether epochs may have been dropped, and epoch 1 may be there still.
    # They are dropped in order: while epoch 2 is there, so is what was first committed as epoch 1. Without, a
    # writer has created epoch 1 anew, and ended before it took that back.
    return not epoch and changelog.holds(group, Epoch(2))


def check_same(commit: Commit, digest: str) -> None:
    """See that a commit is the one that was applied here.

    Args:
        commit: A commit of the changelog.
        digest: That of the commit of the same epoch that was applied here.

    Raises:
        DivergedError: It is another one.
    """
    if digest and commit.digest != digest:
        raise diverged_error(commit.group, commit.epoch)


def check_shapes(
    group: GroupName, partitions: Collection[PartitionStore], definitions: StoreDefinitions, generation: int
) -> None:
    """See that partitions have taken up the migrations of the changelog, and no others of the same numbers.

    Args:
        group: The store group.
        partitions: Partition stores of it.
        definitions: Its stores, as the changelog has them at a generation.
        generation: The generation.

    Raises:
        DivergedError: They have taken up others.
    """
    for store in partitions:
        definition = definitions.get(store.definition.name, store.definition)
        if store.generation == generation and store.definition != definition:
            raise diverged_error(group, store.applied)


def diverged_error(group: GroupName, epoch: Epoch) -> DivergedError:
    """Why partitions do not go on from an epoch: it is another in the changelog, or is not there."""
    return DivergedError(
        f"Epoch {epoch} of store group {group} is not the one that was applied on this host: the changelog "
        "has lost its end, or was restored from an older copy. What differs is put aside and built again."
    )


def needs_check(partitions: Collection[PartitionStore], newest: Epoch) -> bool:
    """Whether partitions, as they were opened, cannot all be of the changelog; what else there is to see is
    seen when the commits are read.

    Args:
        partitions: Partition stores of a group.
        newest: The newest epoch in the changelog.
    """
    digests: dict[Epoch, str] = {}
    return any(
        store.applied > newest
        or (store.digest and digests.setdefault(store.applied, store.digest) != store.digest)
        for store in partitions
    )


def skipped_error(skip: Skip) -> DivergedError:
    """Why partitions do not go on from an epoch that they have applied, or one behind it."""
    return DivergedError(f"{skip.describe()}. What has its rows on this host is put aside and built again.")


def applied_skip(
    changelog: Changelog, group: GroupName, partitions: Collection[PartitionStore]
) -> Skip | None:
    """An epoch that is passed by, and that partitions have applied; None where there is none.

    Args:
        changelog: The changelog.
        group: The group.
        partitions: Partition stores of it.

    Raises:
        LivestateError: The changelog cannot be read.
    """
    newest = max((store.applied for store in partitions), default=Epoch(0))
    skips = [skip for skip in changelog.skips(group) if skip.epoch <= newest]
    return skips[-1] if skips and diverged_partitions(changelog, group, partitions) else None


def diverged_partitions(
    changelog: Changelog, group: GroupName, partitions: Collection[PartitionStore]
) -> list[PartitionStore]:
    """The partitions that have applied other commits than the changelog has.

    Those whose epochs are gone, and have later ones behind them, have given way to a snapshot and are none
    of them: they are built again from that anyway.

    Args:
        changelog: The changelog.
        group: The group.
        partitions: Partition stores of it.

    Raises:
        LivestateError: The changelog cannot be read.
    """
    digests: dict[Epoch, str | None] = {}
    newest = changelog.newest_listed_epoch(group)
    found = []
    for store in partitions:
        if not store.applied:
            continue
        if store.applied not in digests:
            commit = changelog.read_commit(group, store.applied)
            digests[store.applied] = None if commit is None else commit.digest
        digest = digests[store.applied]
        if digest is None and store.applied < newest:
            continue
        if digest != store.digest:
            found.append(store)
    return found
