"""The end of a store: recorded in the changelog first, and then its objects are removed, which can be done
again and again.

From the record on there is no such store. Epochs are never changed: of those that other stores share, what
readers see has the dropped store's rows no more, and data files that have nothing else are deleted. A group
whose last store is dropped gets a snapshot that has nothing, so that all its epochs but the newest go; its
numbers go on from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from engine.changelog.amendments import StoreDrop
from engine.changelog.changelog import Changelog
from engine.changelog.codec import decode_commit
from engine.changelog.commit import DataFile
from engine.changelog.layout import commit_path, data_path, snapshot_data_path, snapshot_path
from engine.changelog.objects import MAX_RACES
from engine.changelog.requests import ask_each
from engine.changelog.snapshot_codec import decode_snapshot
from engine.errors import Corrupt, InvalidInput, NotFound, Unavailable
from engine.model.schema import Epoch, GroupName, StoreDefinition, StoreName

_EPOCHS_OF_A_LAG = 256
"""So many epochs at the most are committed while an object store's lists do not show a store yet."""


@dataclass(frozen=True)
class Removed:
    """What was deleted.

    Attributes:
        epochs: Epochs.
        snapshots: Snapshots.
        files: Data files.
        nbytes: Bytes of these.
    """

    epochs: int = 0
    snapshots: int = 0
    files: int = 0
    nbytes: int = 0


def droppable_store(changelog: Changelog, store: StoreName) -> StoreDefinition:
    """The store that a name is of, if it may be dropped.

    Raises:
        NotFound: There is no such store.
        InvalidInput: SQL reads it by another name.
        Corrupt: What stores are is damaged.
        Unavailable: The changelog cannot be reached.
    """
    catalog = changelog.readable_catalog()
    definition = catalog.stores.get(store)
    if store in catalog.damaged_stores:
        raise Corrupt(f"{catalog.damaged_stores[store]} It cannot be dropped before it can be read.")
    if definition is None:
        raise NotFound(
            f"There is no store {store} in the changelog: check the name, and the changelog's URI."
        )
    names = sorted(name for name, meant in catalog.switches.items() if meant == store)
    if names:
        raise InvalidInput(
            f"SQL reads store {store} by the name {', '.join(names)}: switch that to another store first, or "
            f"back with `livestate switch {names[0]} {names[0]}`."
        )
    return definition


def drop_store(changelog: Changelog, store: StoreName, who: str, now: int) -> StoreDrop:
    """End a store. What there is of it is removed by `remove_dropped_stores` afterwards.

    Args:
        changelog: The changelog.
        store: The store.
        who: Who says so.
        now: The time, microseconds since 1970 UTC.

    Returns:
        What was recorded, by this call or by another one at the same time.

    Raises:
        LivestateError: As `droppable_store`.
        LimitExceeded: The disk is full.
    """
    first = droppable_store(changelog, store)
    amendments = changelog.amendments(first.group)
    incarnation = changelog.incarnation(store)
    for _ in range(MAX_RACES):
        number = amendments.newest_number() + 1
        known = amendments.exclusions().drops.get(store)
        if known is not None and known.incarnation >= incarnation:
            return known
        drop = StoreDrop(number, store, incarnation, first.since, who, now)
        if amendments.create(drop):
            return drop
    raise Unavailable(f"Others keep amending store group {first.group}: try again later.")


def remove_dropped_stores(changelog: Changelog, group: GroupName) -> Removed:
    """Delete what dropped stores have left in a group. Safe at any time, beside writers and hosts; what a
    call that died has left is removed by the next one.

    Args:
        changelog: The changelog.
        group: The store group.

    Raises:
        Corrupt: A commit is damaged, without which it is not known what is to be kept.
        Unavailable: The changelog cannot be reached.
    """
    amendments = changelog.amendments(group)
    amendments.newest_number()
    if not amendments.exclusions().drops:
        return Removed()
    removed = Removed()
    if group not in changelog.groups():
        removed = _remove_epochs(changelog, group)
    paths = dict(_needless_files(changelog, group))
    there = {path: nbytes for path, nbytes in paths.items() if changelog.objects.exists(path)}
    changelog.objects.delete(list(there))
    return replace(removed, files=len(there), nbytes=sum(there.values()))


def _remove_epochs(changelog: Changelog, group: GroupName) -> Removed:
    """Delete all epochs but the newest of a group that has no store, behind a snapshot without rows; nothing
    where one of the newest has rows that count, as a list that lags shows no store that is just created.
    """
    epoch = changelog.newest_epoch(group)
    commit = changelog.read_commit(group, epoch) if epoch else None
    if commit is None or _have_rows(changelog, group, epoch):
        return Removed()
    if not changelog.snapshots(group).commit(commit, []):
        return Removed()
    dropped = changelog.drop_before(group, epoch)
    return Removed(dropped.epochs, dropped.snapshots)


def _have_rows(changelog: Changelog, group: GroupName, last: Epoch) -> bool:
    """Whether one of the epochs up to the last has rows of a store that was not dropped."""

    def has_rows(epoch: Epoch) -> bool:
        try:
            commit = changelog.read_commit(group, epoch)
        except Corrupt:
            return False  # nobody reads it any more
        return commit is not None and any(file.slices for file in commit.files)

    first = max(1, changelog.floor(group), last - _EPOCHS_OF_A_LAG)
    epochs = [Epoch(number) for number in range(first, last + 1)]
    return any(ask_each(has_rows, epochs, changelog.objects.requests_at_once))


def _needless_files(changelog: Changelog, group: GroupName) -> Iterator[tuple[str, int]]:
    """The data files of epochs and snapshots that have nothing but rows of dropped stores, and the sizes."""
    exclusions = changelog.amendments(group).exclusions()
    for epoch in changelog.committed_epochs(group):
        data = changelog.objects.get(commit_path(group, epoch))
        if data is None:
            continue
        with suppress(Corrupt):  # it keeps what it has: nobody knows what that is
            commit = decode_commit(group, epoch, data)
            for file in _emptied_files(commit.files, exclusions.keep_rows(commit).files):
                yield data_path(group, file.epoch, file.name), file.size
    snapshots = changelog.snapshots(group)
    for epoch in snapshots.epochs():
        data = changelog.objects.get(snapshot_path(group, epoch))
        if data is None:
            continue
        with suppress(Corrupt):
            snapshot = decode_snapshot(group, epoch, data)
            for file in _emptied_files(snapshot.files, exclusions.keep_partitions(snapshot).files):
                yield snapshot_data_path(group, epoch, file.name), file.size


def _emptied_files(before: tuple[DataFile, ...], after: tuple[DataFile, ...]) -> Iterator[DataFile]:
    """The files that had rows, and of which nothing is read any more."""
    for old, new in zip(before, after, strict=True):
        if old.name and old.slices and not new.slices:
            yield old
