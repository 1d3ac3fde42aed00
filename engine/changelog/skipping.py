"""Passing an epoch by that can never be applied: what is refused, and what stands in for the epoch."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from engine.changelog.amendments import Skip, content_digest
from engine.changelog.changelog import Changelog
from engine.changelog.codec import decode_commit, describe
from engine.changelog.commit import Commit
from engine.changelog.inspection import row_faults
from engine.changelog.layout import commit_path
from engine.changelog.objects import MAX_RACES
from engine.errors import Corrupt, InvalidInput, NotFound, Unavailable
from engine.model.schema import Epoch, GroupName


def skip_epoch(
    changelog: Changelog, group: GroupName, epoch: Epoch, reason: str, who: str, now: int, *, force: bool
) -> Skip:
    """Pass an epoch by: from now on its rows count for nothing, on all hosts and for ever.

    Args:
        changelog: The changelog.
        group: The store group.
        epoch: The epoch.
        reason: Why, for whoever asks later.
        who: Who says so.
        now: The time, microseconds since 1970 UTC.
        force: Whether to do so though hosts could apply it, or have.

    Returns:
        What was recorded.

    Raises:
        NotFound: There is no such group or epoch.
        InvalidInput: The epoch is passed by already, or a snapshot has its rows; or it can be read, and is
            not to be passed by all the same; or there is no reason.
        Corrupt: Neither the epoch nor its neighbours can be read, so that nothing can stand in for it.
        Unavailable: The changelog cannot be reached.
    """
    if not reason.strip() or not reason.isprintable():
        raise InvalidInput("Say why the epoch is passed by, in one line: it is shown for ever.")
    groups = changelog.written_groups()
    if group not in groups:
        known = ", ".join(groups) or "none"
        raise NotFound(f"There is no store group {group}; there are {known}.")
    amendments = changelog.amendments(group)
    for _ in range(MAX_RACES):
        number = amendments.newest_number() + 1
        _check_unskipped(changelog, group, epoch)
        data = _commit_bytes(changelog, group, epoch)
        if not force:
            fault = epoch_fault(changelog, group, epoch)
            if not fault:
                raise InvalidInput(
                    f"{_name(group, epoch)} can be read, and nothing is known to keep hosts from it: "
                    "give the address of a host that says it cannot, with --uri, or pass it by all the same "
                    "with --force; hosts that have its rows build their partitions again then."
                )
        stand_in = _stand_in(changelog, group, epoch, data)
        skip = Skip(number, reason.strip(), who, now, stand_in.digest, content_digest(data), stand_in)
        if amendments.create(skip):
            recorded = amendments.read(number)
            assert isinstance(recorded, Skip)
            return recorded
    raise Unavailable(f"Others keep amending store group {group}: try again later.")


def epoch_fault(changelog: Changelog, group: GroupName, epoch: Epoch) -> str:
    """What keeps an epoch from being read; empty where nothing does.

    Raises:
        Unavailable: The changelog cannot be reached.
    """
    try:
        commit = changelog.read_commit(group, epoch)
    except Corrupt as error:
        return error.message
    if commit is None:
        return f"{_name(group, epoch)} is missing."
    try:
        before = changelog.read_commit(group, Epoch(epoch - 1)) if epoch > 1 else None
    except Corrupt:
        before = None  # that one is to be passed by
    if before is not None and not commit.follows(before.digest):
        return f"{_name(group, epoch)} was committed behind another epoch {epoch - 1} than the changelog has."
    return next(iter(row_faults(changelog, commit)), "")


def _check_unskipped(changelog: Changelog, group: GroupName, epoch: Epoch) -> None:
    """Refuse an epoch that is passed by already, or of which hosts have made a snapshot."""
    known = next((skip for skip in changelog.skips(group) if skip.epoch == epoch), None)
    if known is not None:
        raise InvalidInput(f"{_name(group, epoch)} is passed by already, by {known.who}: {known.reason}")
    # Lists may lag behind what was written; the floor is asked for by name.
    newest = max([*changelog.snapshots(group).epochs(), changelog.floor(group)])
    if newest >= epoch:
        raise InvalidInput(
            f"{_name(group, epoch)} is in the snapshot at epoch {newest:,}, and what was before is dropped: "
            "it cannot be passed by any more. Restore a backup of an earlier epoch instead."
        )


def _commit_bytes(changelog: Changelog, group: GroupName, epoch: Epoch) -> pa.Buffer:
    """The stored commit of an epoch."""
    data = changelog.objects.get(commit_path(group, epoch))
    if data is None:
        newest = max(changelog.committed_epochs(group), default=Epoch(0))
        if epoch < newest:
            raise NotFound(
                f"{_name(group, epoch)} is missing, though later ones are there: restore the changelog "
                "from a backup."
            )
        raise NotFound(f"There is no {describe(group, epoch)}; the newest is {newest:,}.")
    return data


def _stand_in(changelog: Changelog, group: GroupName, epoch: Epoch, data: pa.Buffer) -> Commit:
    """The commit that takes the place of one: all that it says but its rows, as far as that can be known."""
    previous = _neighbour(changelog, group, Epoch(epoch - 1)) if epoch > 1 else None
    following = _neighbour(changelog, group, Epoch(epoch + 1))
    try:
        stated = decode_commit(group, epoch, data)
    except Corrupt as error:
        if previous is None and following is None and epoch > 1:
            raise Corrupt(
                f"{error.message} Neither the epoch before nor the one behind it can be read, so "
                "nothing can take its place."
            ) from error
        return _commit_between(group, epoch, previous, following)
    if previous is not None and not stated.follows(previous.digest):
        # What it says, of batches as well, is of another history.
        return _commit_between(group, epoch, previous, following, stated.token)
    return replace(stated, nonce="", query_id=None, batch_id=None, replaced=(), files=())


def _commit_between(
    group: GroupName, epoch: Epoch, previous: Commit | None, following: Commit | None, token: int = 0
) -> Commit:
    """A commit without rows.

    Args:
        group: Its group.
        epoch: Its epoch.
        previous: The commit before it.
        following: The one behind it.
        token: A token that writers have that must not go on.
    """
    near = previous or following
    # It may have been the first of a new term: a writer of that must not meet its own token again.
    behind = max(token, previous.token if previous is not None else 0) + 1
    return Commit(
        group=group,
        epoch=epoch,
        token=following.token if following is not None else behind,
        writer=near.writer if near is not None else "livestate skip",
        nonce="",
        query_id=None,
        batch_id=None,
        committed_at=near.committed_at if near is not None else 0,
        batches=near.batches if near is not None else {},
        cutoffs=near.cutoffs if near is not None else {},
        written=_written_before(following) if following is not None else near.written if near else 0,
        generation=near.generation if near is not None else 0,
        before=previous.digest if previous is not None else None,
        digest=following.before or "" if following is not None else "",
    )


def _written_before(following: Commit) -> int:
    return following.written - following.nbytes


def _neighbour(changelog: Changelog, group: GroupName, epoch: Epoch) -> Commit | None:
    """A commit as it was written, or what stands in for it; None where it is not there, or damaged."""
    try:
        return changelog.read_written_commit(group, epoch)
    except Corrupt:
        return None


def _name(group: GroupName, epoch: Epoch) -> str:
    return f"Epoch {epoch:,} of store group {group}"
