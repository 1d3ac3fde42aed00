"""What loads of new stores have written so far, or had when they died: files in a group that has no store,
as the store is created when all rows are there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from urllib.parse import unquote

from engine.changelog.changelog import ABANDONED_AFTER, Changelog
from engine.changelog.commit import BEFORE_FIRST
from engine.changelog.layout import GROUPS_PATH, MARKS_PATH, data_epoch, group_path
from engine.errors import Corrupt
from engine.model.quantities import quantity
from engine.model.schema import GroupName


@dataclass(frozen=True)
class FirstLoad:
    """What there is of a load of a new store, which goes on or came to nothing.

    Attributes:
        group: The store group.
        files: The data files, none of which an epoch names. Not of a backup, or of one that is being
            restored: there files come before the stores that they belong to.
        written_at: When it last wrote anything, microseconds since 1970 UTC.
    """

    group: GroupName
    files: tuple[str, ...]
    written_at: int

    def describe(self) -> str:
        """What it has left, as messages say it."""
        return (
            f"Store group {self.group} has no store, and {quantity(len(self.files), 'data file')} of a load: "
            "if that has died, `livestate collect` deletes them, an hour later."
        )


def groups_without_stores(changelog: Changelog) -> Iterator[tuple[str, FirstLoad | None]]:
    """Directories of store groups that no store belongs to, as their paths have their names, and what a first
    load has written there; None where rows count: the definitions of their stores were lost.

    Args:
        changelog: The changelog.

    Raises:
        Corrupt: A definition is damaged.
        Unavailable: The changelog cannot be reached.
    """
    is_copy = next(changelog.objects.list(MARKS_PATH), None) is not None
    for directory in changelog.groups_without_stores():
        load = _first_load(changelog, directory)
        yield directory, replace(load, files=()) if load is not None and is_copy else load


def unfinished_first_loads(changelog: Changelog) -> dict[GroupName, FirstLoad]:
    """First loads that have data files, by group.

    Args:
        changelog: The changelog.

    Raises:
        LivestateError: As `groups_without_stores`.
    """
    if changelog.identity() is None:
        return {}
    loads = (load for _, load in groups_without_stores(changelog) if load is not None and load.files)
    return {load.group: load for load in loads}


def collect_first_load(changelog: Changelog, load: FirstLoad, now: int) -> int:
    """Delete the data files of a first load that has written nothing for an hour. Safe at any time: a load
    that goes on all the same is refused by a new term first, so that it can commit none of them.

    Args:
        changelog: The changelog.
        load: The load.
        now: The time, microseconds since 1970 UTC.

    Returns:
        How many files were deleted.

    Raises:
        Unavailable: The changelog cannot be reached.
        LimitExceeded: The disk is full.
    """
    if load.written_at >= now - ABANDONED_AFTER:
        return 0
    changelog.writer(load.group, "livestate collect")
    changelog.collect(load.group)
    left = set(changelog.objects.list(group_path(load.group)))
    return sum(path not in left for path in load.files)


def _first_load(changelog: Changelog, directory: str) -> FirstLoad | None:
    """What is in a group's directory; None if it has more than epochs without rows, and files that no epoch
    names.
    """
    group = GroupName(unquote(directory))
    if group_path(group) != f"{GROUPS_PATH}/{directory}":
        return None  # of which group it is cannot be told
    try:
        commits = [changelog.read_commit(group, epoch) for epoch in changelog.committed_epochs(group)]
        had_rows = changelog.floor(group) > BEFORE_FIRST or changelog.snapshots(group).epochs()
    except Corrupt:
        return None
    if had_rows or any(commit is None or commit.files or commit.generation for commit in commits):
        return None
    times = dict(changelog.objects.dated_objects(group_path(group)))
    files = tuple(path for path in times if data_epoch(group, path) is not None)
    return FirstLoad(group, files, max(times.values(), default=0))
