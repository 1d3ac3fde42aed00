"""How the stores of a group stand on a host, for people."""

from __future__ import annotations

from collections.abc import Iterator

from engine.changelog import Changelog
from engine.cluster.progress import progress_in_words
from engine.errors import LivestateError
from engine.model.schema import Epoch, GroupName, StoreName
from engine.replica.failures import problem_of
from engine.replica.group import FollowedGroup
from engine.scan import StoreStatus


def group_status(changelog: Changelog, group: FollowedGroup, problem: str, now: int) -> Iterator[StoreStatus]:
    """The status of each store of a group.

    Args:
        changelog: Where its commits are.
        group: The group.
        problem: What keeps it from getting on; empty if nothing does.
        now: The time now, microseconds since 1970 UTC.
    """
    view = group.view
    newest = view.epoch if view else Epoch(0)
    report, _ = group.reported
    # Of what cannot be looked up, as the next commit is damaged or was lost, this is known; and of a commit
    # that says a time which is still to come.
    unread_seconds = 0.0 if report.unread_since is None else max(0.0, (now - report.unread_since) / 1e6)
    lags: dict[Epoch, float] = {}
    try:
        # Behind a commit that was lost there may be more than follows without a gap.
        newest = max(changelog.newest_epoch(group.group, group.epoch), report.newest_known)
        # What is being built waits for what follows the epoch that it has come to, though nothing can be
        # read yet.
        reached = {group.epoch_of(name) if view else group.epoch for name in group.definitions}
        found = {epoch: _lag_seconds(changelog, group.group, epoch, newest, now) for epoch in reached}
        lags = {
            epoch: max(lag, unread_seconds) if epoch < newest else lag
            for epoch, lag in found.items()
            if lag is not None
        }
    except Exception as error:  # noqa: BLE001 - of one group; what is known of it is told all the same
        problem = problem or problem_of("The changelog", error)
    skipped = _skipped_epochs(changelog, group.group)
    if report.building is not None and not problem:
        problem = f"The store is being built on this host; {progress_in_words(report.building)}."
    # Of the view, not of the group: that may have come to new stores since.
    for name in view.stores if view else group.definitions:
        epoch = group.epoch_of(name)
        versions = list(view.stores[name].versions.values()) if view else []
        yield StoreStatus(
            store=name,
            group=group.group,
            epoch=epoch,
            newest_epoch=newest,
            lag_seconds=lags.get(epoch if view else group.epoch, unread_seconds),
            rows=sum(version.live_rows for version in versions),
            stored_rows=sum(version.stored_rows for version in versions),
            bytes=sum(version.nbytes for version in versions),
            partitions=len(versions),
            segments=sum(len(version.segments) for version in versions),
            problem=problem,
            pinned_epochs=group.readable.pinned,
            skipped=skipped,
        )


def unreadable_status(name: StoreName, problem: str) -> StoreStatus:
    """The status of a name of which nobody knows what it means.

    Args:
        name: The name.
        problem: What is wrong with it.
    """
    return StoreStatus(
        store=name,
        group=GroupName(""),
        epoch=Epoch(0),
        newest_epoch=Epoch(0),
        lag_seconds=0.0,
        rows=0,
        stored_rows=0,
        bytes=0,
        partitions=0,
        segments=0,
        problem=problem,
    )


def _skipped_epochs(changelog: Changelog, group: GroupName) -> str:
    """The epochs of a group that are passed by, a sentence each; empty where there are none."""
    try:
        return " ".join(f"{skip.describe()}." for skip in changelog.skips(group))
    except LivestateError as error:
        return error.message


def _lag_seconds(
    changelog: Changelog, group: GroupName, epoch: Epoch, newest: Epoch, now: int
) -> float | None:
    """The age of the first commit behind an epoch; 0 where there is none, None where it was lost."""
    if newest <= epoch:
        return 0.0
    waiting = changelog.read_commit(group, Epoch(epoch + 1))
    return None if waiting is None else max(0.0, (now - waiting.committed_at) / 1e6)
