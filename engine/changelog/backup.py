"""Backups: a changelog at one epoch of each store group, copied to another place and back.

A backup is laid out as a changelog is (`engine.changelog.layout`): for each group the newest snapshot that is
not after the epoch, the epochs from there on, and what the stores are. Numbered marks beside it say of which
changelog it is, and to which epochs it is whole. A copy writes a mark that names no epochs before anything
else, and one that names them when all objects are there; only then what this mark does not need is deleted.
So a backup that is brought up to date can be restored at any moment, and a copy that died is taken up by the
next one. A place to which a backup is restored has a mark until the changelog can be seen; the last one says
that it is whole, so that nothing of it is deleted any more.

On the way every row is checked against the checksums of its commit or snapshot, and every commit against the
digest of the one before it.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from engine.changelog.amendments import Skip, StoreDrop, Void, encode_amendment
from engine.changelog.chain import Link, read_chain
from engine.changelog.changelog import Changelog
from engine.changelog.checksummed_json import seal, unseal
from engine.changelog.codec import check_slices, describe
from engine.changelog.commit import BEFORE_FIRST, Commit, DataFile
from engine.changelog.data_files import check_file
from engine.changelog.epochs import DROPPED
from engine.changelog.first_loads import groups_without_stores
from engine.changelog.layout import (
    DATA_DIRECTORY_MARKER,
    FORMAT_PATH,
    GROUPS_PATH,
    MARKS_PATH,
    STORES_PATH,
    amendment_path,
    commit_epoch,
    commit_path,
    data_path,
    dropped_path,
    group_path,
    is_root_name,
    is_snapshot_piece,
    mark_number,
    mark_path,
    snapshot_data_path,
    snapshot_path,
)
from engine.changelog.local_objects import LocalObjects
from engine.changelog.objects import Objects, all_paths
from engine.changelog.snapshot import Snapshot
from engine.errors import Corrupt, InvalidInput, NotFound, Unavailable
from engine.model.schema import Epoch, GroupName, StoreDefinition

MARK_FORMAT = 1
_REQUESTS = 8
"""Requests at once: an object store takes some 20 ms for each, however small."""
_MAX_ATTEMPTS = 5
"""How often a group is copied whose epochs or stores are dropped meanwhile."""
_OF_FILE_SYSTEM = "lost+found"
"""The root of some file systems has it from the beginning."""


@dataclass(frozen=True)
class Progress:
    """How far the copy of a store group has come.

    Attributes:
        group: The store group.
        epoch: The epoch at which it will be.
        nbytes: Bytes of rows that are there.
        total: About how many there will be.
    """

    group: GroupName
    epoch: Epoch
    nbytes: int
    total: int


@dataclass(frozen=True)
class Mark:
    """What a backup says of itself.

    Attributes:
        identity: Of which changelog it is: `Changelog.identity`.
        epochs: To which epoch of each store group it is whole; None while the first copy is under way.
        finished_at: When it was, microseconds since 1970 UTC; 0 while `epochs` is None.
        restored: At which epochs a changelog is that was made here of a backup; None where none is whole.
    """

    identity: str
    epochs: Mapping[GroupName, Epoch] | None = None
    finished_at: int = 0
    restored: Mapping[GroupName, Epoch] | None = None


def back_up(
    changelog: Changelog, backup: Changelog, epochs: Mapping[GroupName, Epoch], now: int
) -> Iterator[Progress]:
    """Make a backup, or bring one up to date: what is there already is not copied again.

    Args:
        changelog: The changelog. Jobs may write it and hosts may follow it meanwhile.
        backup: Where the backup goes: an empty place, or an earlier backup of this changelog.
        epochs: At which epochs store groups are to be; those not named are at their newest.
        now: The time, microseconds since 1970 UTC.

    Yields:
        How far it has come. The backup is whole when all has been yielded.

    Raises:
        NotFound: There is no such changelog or group, or an epoch that was asked for is not in it.
        InvalidInput: Something else is where the backup is to go, or a backup of another history of this
            changelog; or that place is within the changelog's.
        Corrupt: Something in the changelog is damaged; the message names it.
        Unavailable: One of the two places cannot be reached.
        LimitExceeded: The disk is full.
    """
    identity = changelog.identity(is_fresh=True)
    if identity is None:
        raise NotFound(f"There is no changelog at {changelog.uri}: check its URI.")
    groups = changelog.written_groups()
    _check_groups(epochs, groups)
    _check_apart(changelog, backup)
    marks = _Marks(backup.objects)
    _check_definitions(changelog)
    _prepare_place(backup, marks, identity)
    _check_history(changelog, backup, epochs)
    with ThreadPoolExecutor(_REQUESTS, "livestate-backup") as pool:
        copy = _Copy(changelog, backup.objects, pool)
        reached = {}
        for group in groups:
            reached[group] = yield from copy.copy_group(group, epochs.get(group))
        copy.copy_stores()
        copy.write_last_commits()
        copy.copy_object(FORMAT_PATH)
    marks.write(Mark(identity, reached, now))
    copy.delete_others()


def restore(backup: Changelog, changelog: Changelog, epochs: Mapping[GroupName, Epoch]) -> Iterator[Progress]:
    """Make a changelog of a backup.

    Args:
        backup: The backup.
        changelog: Where the changelog goes: an empty place, or one where a restore of this backup died.
        epochs: At which epochs store groups are to be, where that is not the one of the backup.

    Yields:
        How far it has come. There is a changelog when all has been yielded, and none before.

    Raises:
        NotFound: There is no finished backup or no such group, or an epoch that was asked for is not in it.
        InvalidInput: Something else is where the changelog is to go, or that place is within the backup's.
        Corrupt: Something in the backup is damaged; the message names it.
        Unavailable: One of the two places cannot be reached.
        LimitExceeded: The disk is full.
    """
    mark = finished_mark(backup)
    if mark is None or mark.epochs is None:
        raise NotFound(f"There is no finished backup at {backup.uri}: check its URI, or make one.")
    _check_groups(epochs, mark.epochs)
    _check_apart(backup, changelog)
    for group, epoch in epochs.items():
        if epoch > mark.epochs[group]:
            raise NotFound(
                f"The backup has store group {group} up to epoch {mark.epochs[group]:,}: ask for that or an "
                "earlier one."
            )
    wanted, marks = {**mark.epochs, **epochs}, _Marks(changelog.objects)
    if changelog.objects.exists(FORMAT_PATH):
        found = marks.newest_mark()
        if found is None or (found.identity, found.restored) != (mark.identity, wanted):
            raise InvalidInput(_taken_place(changelog))
        marks.delete()  # all that was left to be done
        return
    earlier = _prepare_place(changelog, marks, mark.identity)
    with ThreadPoolExecutor(_REQUESTS, "livestate-restore") as pool:
        copy = _Copy(backup, changelog.objects, pool)
        for group, epoch in wanted.items():
            yield from copy.copy_group(group, epoch)
        copy.copy_stores()
        # Behind the objects that are written after this mark others may write, and no copy may take that for
        # what it left.
        if earlier is None or earlier.restored != wanted:
            # What a copy that died left goes before anybody can take it for epochs of this changelog.
            copy.delete_others()
            marks.write(Mark(mark.identity, restored=wanted))
        copy.write_last_commits()
        copy.copy_object(FORMAT_PATH)
        marks.delete()


def finished_mark(backup: Changelog) -> Mark | None:
    """What a backup says of itself; None if there is none, or none is finished.

    Raises:
        Corrupt: The mark is damaged, or of another format.
        Unavailable: The backup cannot be reached.
    """
    newest = _Marks(backup.objects).newest_mark()
    return None if newest is None or newest.epochs is None else newest


def _prepare_place(place: Changelog, marks: _Marks, identity: str) -> Mark | None:
    """Mark an empty place as one where a copy of a changelog is being made; refuse one that has anything but
    such a copy.

    Returns:
        How far an earlier copy came; None where there was none.
    """
    mark = marks.newest_mark()
    if mark is None:
        _check_no_others(place)
        if not _is_empty(place.objects):
            raise InvalidInput(_taken_place(place))
        marks.write(Mark(identity))
        if not _is_empty(place.objects):  # a job has begun a changelog there before it could see the mark
            marks.delete()
            raise InvalidInput(_taken_place(place))
    elif mark.restored is not None and place.objects.exists(FORMAT_PATH):
        raise InvalidInput(_taken_place(place))
    elif mark.identity != identity:
        raise InvalidInput(
            f"{place.uri} has a copy of another changelog: choose a place of its own; nothing was written "
            "there."
        )
    return mark


def _check_apart(source: Changelog, target: Changelog) -> None:
    """Refuse a copy within what it is a copy of, or around it: whoever removes the one loses the other."""
    for outer, inner in ((source, target), (target, source)):
        if _root(inner).startswith(f"{_root(outer)}/"):
            raise InvalidInput(
                f"{inner.uri} lies within {outer.uri}: choose a place of its own; nothing was written there."
            )


def _root(place: Changelog) -> str:
    """Where a changelog is, the same for all names of a directory."""
    objects = place.objects
    return str(objects.root.resolve()) if isinstance(objects, LocalObjects) else place.uri.rstrip("/")


def _check_no_others(place: Changelog) -> None:
    """Refuse a directory that has what no copy of a changelog has: it is a host's, or somebody else's."""
    objects = place.objects
    if not isinstance(objects, LocalObjects):
        return
    names = objects.root_names()
    if DATA_DIRECTORY_MARKER in names:
        raise InvalidInput(
            f"{place.uri} is the data directory of a host: choose an empty place; nothing was written there."
        )
    others = [name for name in names if not is_root_name(name) and name != _OF_FILE_SYSTEM]
    others += [path for path in objects.list(MARKS_PATH) if not mark_number(path)]
    if others:
        raise InvalidInput(
            f"{place.uri} has {others[0]}, which is of no changelog: choose an empty place; nothing was "
            "written there."
        )


def _is_empty(place: Objects) -> bool:
    """Whether a place has nothing that counts. Hosts may have begun a snapshot where a changelog was just
    moved away.
    """
    if place.exists(FORMAT_PATH) or next(place.list(STORES_PATH), None) is not None:
        return False
    return all(is_snapshot_piece(path) for path in place.list(GROUPS_PATH))


def _check_definitions(changelog: Changelog) -> None:
    """Refuse a changelog with a group of which nothing says what its stores are: it would be left out."""
    lost = next((directory for directory, load in groups_without_stores(changelog) if load is None), None)
    if lost is not None:
        raise Corrupt(
            f"Store group {lost} of the changelog has epochs, and the definitions of its stores are missing "
            "or damaged: restore the changelog from a backup."
        )


def _check_history(changelog: Changelog, backup: Changelog, asked: Collection[GroupName]) -> None:
    """Refuse a place with a backup of another history of a changelog that was restored since: its epochs
    would be replaced one by one, and until the last of them neither history could be restored. And one with
    epochs that the changelog has lost: they would be deleted where they are there still, unless it is asked
    for earlier ones.
    """
    mark = finished_mark(backup)
    groups = changelog.written_groups()
    for group, epoch in (mark.epochs or {}).items() if mark is not None else ():
        newest = changelog.newest_epoch(group)
        if group not in groups or (newest < epoch and group not in asked):
            has = f"ends at epoch {newest:,}" if group in groups else "has nothing of it any more"
            raise Corrupt(
                f"{backup.uri} has store group {group} up to epoch {epoch:,}, and the changelog {has}: make "
                "the changelog available or restore it, or choose another place; nothing was written there."
            )
        try:
            other = _differing_epoch(changelog, backup, group, Epoch(min(epoch, newest)))
        except Corrupt:
            continue  # a backup is made again where the earlier one is damaged
        if other is not None:
            raise InvalidInput(
                f"{backup.uri} has a backup of another history of store group {group}: epoch {other:,} is "
                "another one there. Choose another place; nothing was written there."
            )


def _differing_epoch(changelog: Changelog, backup: Changelog, group: GroupName, last: Epoch) -> Epoch | None:
    """An epoch that is another one in a backup than in the changelog; None where all up to the last of both
    are the same, but for those that were passed by since: they will be so in the backup, too.
    """
    skips, copied = ({skip.mark: skip.epoch for skip in place.skips(group)} for place in (changelog, backup))
    unknown = next((epoch for mark, epoch in copied.items() if mark not in skips), None)
    if unknown is not None:
        return unknown
    passed_by = set(skips.values())
    common = next((Epoch(each) for each in range(last, BEFORE_FIRST, -1) if each not in passed_by), last)
    here, there = (place.read_written_commit(group, common) for place in (changelog, backup))
    return common if here is not None and there is not None and here.digest != there.digest else None


def _taken_place(place: Changelog) -> str:
    return f"{place.uri} has a changelog or a backup: choose an empty place; nothing was written there."


def _check_groups(asked: Collection[GroupName], there: Collection[GroupName]) -> None:
    unknown = sorted(set(asked) - set(there))
    if unknown:
        raise NotFound(
            f"There is no store group {', '.join(unknown)}; there are {', '.join(sorted(there)) or 'none'}."
        )


class _PlacedObjects:
    """What a copy has put where it goes, or has found there.

    Args:
        source: The changelog.
        target: Where the copy goes.

    Attributes:
        paths: All that it has a use for there.
    """

    def __init__(self, source: Objects, target: Objects) -> None:
        self.paths: set[str] = set()
        self._source = source
        self._target = target

    def copy_object(self, path: str) -> None:
        """Copy an object as it is."""
        data = self._source.get(path)
        if data is None:
            raise NotFound(f"The object {path} of the changelog is missing.")
        self.write(path, data)

    def copy_file(self, path: str, file: DataFile, where: str) -> None:
        """Copy a data file unless it is there: names are drawn at random, and objects are written whole."""
        self.paths.add(path)
        if self._target.exists(path):
            return
        data = self._source.get(path)
        if data is None:
            raise NotFound(f"A data file of {where} is missing.")
        check_file(file, data, where)
        self._target.create(path, [data])

    def write(self, path: str, data: pa.Buffer) -> None:
        """Write an object, in place of one that an earlier copy may have left."""
        self.paths.add(path)
        if self._target.create(path, [data]):
            return
        found = self._target.get(path)
        if found is None or not found.equals(data):
            self._target.delete([path])
            self._target.create(path, [data])


class _Copy:
    """One copy of a changelog.

    Args:
        source: The changelog.
        target: Where it goes.
        pool: Threads for requests.
    """

    def __init__(self, source: Changelog, target: Objects, pool: ThreadPoolExecutor) -> None:
        self._source = source
        self._target = target
        self._pool = pool
        self._objects = _PlacedObjects(source.objects, target)
        self._last_commits: list[tuple[str, pa.Buffer]] = []

    def copy_group(self, group: GroupName, epoch: Epoch | None) -> Generator[Progress, None, Epoch]:
        """Copy a store group.

        Args:
            group: The store group.
            epoch: The epoch at which it is to be; None is the newest.

        Yields:
            How far it has come.

        Returns:
            The epoch at which it is.
        """
        for _ in range(_MAX_ATTEMPTS):
            end = self._newest_epoch(group) if epoch is None else epoch
            attempt = _GroupCopy(self._source, self._target, self._pool, group)
            if end == BEFORE_FIRST:
                attempt.copy_amendments(end, 0)
                self._keep(attempt)
                return end
            exclusions = self._source.exclusions(group)
            snapshot, newest = self._start_and_end(group, end)
            try:
                yield from attempt.copy_between(snapshot, newest)
            except NotFound as error:
                self._source.generation(group)
                has_heard = self._source.exclusions(group) is not exclusions
                # Epochs are dropped in order: behind one that is there still, nothing is missing by rights,
                # unless it was of a store that has ended meanwhile.
                if not has_heard and self._source.holds(group, _first_epoch(snapshot)):
                    raise Corrupt(f"{error.message} Restore the changelog from a backup.") from error
            else:
                self._keep(attempt)
                return end
        raise Unavailable(
            f"Epochs or stores of store group {group} are dropped faster than they can be copied: keep "
            "epochs longer, with --snapshot-tail of livestate serve, and try again."
        )

    def _keep(self, attempt: _GroupCopy) -> None:
        """Have what one attempt has placed stay. What others have placed goes, as nothing leads to it."""
        self._objects.paths |= attempt.objects.paths
        if attempt.last_commit is not None:
            self._last_commits.append(attempt.last_commit)

    def _newest_epoch(self, group: GroupName) -> Epoch:
        """The newest epoch by a listing: one behind a commit that was lost counts, and the loss is found."""
        paths = self._source.objects.list(group_path(group))
        return max((commit_epoch(group, path) for path in paths), default=BEFORE_FIRST)

    def _start_and_end(self, group: GroupName, end: Epoch) -> tuple[Snapshot | None, Commit]:
        """The snapshot behind which epochs are copied, None for the beginning, and the commit of the last."""
        snapshots = self._source.usable_snapshots(group)
        newest = self._source.read_commit(group, end)
        snapshot = next((found for found in reversed(snapshots) if found.epoch <= end), None)
        if newest is not None and (snapshot is not None or self._source.holds(group, Epoch(1))):
            return snapshot, newest
        oldest = snapshots[0].epoch if snapshots else 1
        raise NotFound(
            f"There is no {describe(group, end)}, or not any more: ask for one from {oldest:,} to "
            f"{self._newest_epoch(group):,}."
        )

    def write_last_commits(self) -> None:
        """Write the last commit of each group. A job that still runs can commit behind it from then on, as if
        the changelog had never been away: nothing is deleted any more.
        """
        for path, data in self._last_commits:
            self._objects.write(path, data)

    def copy_stores(self) -> None:
        """Copy what the stores are, and which store a name means."""
        self._source.catalog()  # It refuses what is damaged.
        list(self._pool.map(self.copy_object, self._source.objects.list(STORES_PATH)))

    def copy_object(self, path: str) -> None:
        """Copy an object as it is."""
        self._objects.copy_object(path)

    def delete_others(self) -> None:
        """Delete what earlier copies have written and this one has no use for."""
        there = (
            path for directory in (STORES_PATH, GROUPS_PATH) for path in all_paths(self._target, directory)
        )
        self._target.delete([path for path in there if path not in self._objects.paths])


class _GroupCopy:
    """One attempt to copy a store group: epochs may be dropped below it, and then none of it counts.

    Args:
        source: The changelog.
        target: Where it goes.
        pool: Threads for requests.
        group: The store group.

    Attributes:
        objects: What it has put there.
        last_commit: The path and the bytes of the last commit, which is still to be written; None before
            it was read.
    """

    def __init__(
        self, source: Changelog, target: Objects, pool: ThreadPoolExecutor, group: GroupName
    ) -> None:
        self.objects = _PlacedObjects(source.objects, target)
        self.last_commit: tuple[str, pa.Buffer] | None = None
        self._source = source
        self._pool = pool
        self._group = group

    def copy_between(self, snapshot: Snapshot | None, newest: Commit) -> Iterator[Progress]:
        """Copy a snapshot and the epochs from there on.

        Args:
            snapshot: The snapshot; None for all epochs.
            newest: The last commit.

        Yields:
            How far it has come.
        """
        group, first = self._group, _first_epoch(snapshot)
        total = newest.written + (0 if snapshot is None else snapshot.nbytes - snapshot.written)
        progress = Progress(group, newest.epoch, 0, total)
        yield progress
        self.copy_amendments(newest.epoch, newest.generation)
        if snapshot is not None:
            self.objects.write(dropped_path(group), DROPPED)
            where = f"the snapshot at {describe(group, snapshot.epoch)}"
            self._check_defined(snapshot.files, snapshot.generation, where)
            for nbytes in self._pool.map(partial(self._copy_snapshot_file, snapshot), snapshot.files):
                progress = replace(progress, nbytes=progress.nbytes + nbytes)
                yield progress
            self.objects.copy_object(snapshot_path(group, snapshot.epoch))
        expected = "" if snapshot is None else snapshot.digest
        epochs = [Epoch(epoch) for epoch in range(first, newest.epoch + 1)]
        for links in read_chain(self._source, group, epochs, self._pool):
            for link in links:
                digest = "" if link.commit is None or link.epoch != first else link.commit.digest
                if link.is_torn or (digest and expected and digest != expected):
                    raise Corrupt(
                        f"The commit of {describe(group, link.epoch)} does not follow what is before it: "
                        "restore the changelog from a backup."
                    )
            for nbytes in self._pool.map(partial(self._copy_epoch, newest.epoch), links):
                progress = replace(progress, nbytes=progress.nbytes + nbytes)
            yield progress

    def copy_amendments(self, end: Epoch, generation: int) -> None:
        """Copy what the commits have taken up, and what else counts for epochs up to the last: a skip of a
        later one would pass by whatever is committed there behind the copy, and a later migration would have
        the first commit take it up.

        Args:
            end: The last epoch.
            generation: As `Commit.generation` of it.
        """
        group = self._group
        amendments = self._source.amendments(group)
        last = amendments.newest_number(generation)
        found = {number: amendments.read(number) for number in range(1, last + 1)}
        counting = [
            number
            for number, each in found.items()
            if number <= generation
            or isinstance(each, StoreDrop)
            or (isinstance(each, Skip) and each.epoch <= end)
        ]
        for number in range(1, max(counting, default=0) + 1):
            path, each = amendment_path(group, number), found[number]
            is_later = (isinstance(each, Skip) and each.epoch > end) or (
                isinstance(each, StoreDefinition) and number > generation
            )
            if is_later:
                void = seal(encode_amendment(group, Void(number)))
                self.objects.write(path, pa.py_buffer(void))
            else:
                self.objects.copy_object(path)

    def _copy_snapshot_file(self, snapshot: Snapshot, file: DataFile) -> int:
        if not file.slices:
            return 0  # all of it is of stores that were dropped
        path = snapshot_data_path(snapshot.group, snapshot.epoch, file.name)
        self.objects.copy_file(path, file, f"the snapshot at {describe(snapshot.group, snapshot.epoch)}")
        return file.size

    def _copy_epoch(self, last: Epoch, link: Link) -> int:
        """Copy an epoch; the bytes of its files. The last commit is only kept, to be written later."""
        group = self._group
        where = describe(group, link.epoch)
        if link.data is None:
            raise NotFound(f"The commit of {where} is missing.")
        if link.commit is None:
            raise Corrupt(link.damage)
        self._check_defined(link.commit.files, link.commit.generation, where)
        for file in link.commit.files:
            if not file.slices:
                continue  # all of it is of stores that were dropped
            if file.content is None:
                self.objects.copy_file(data_path(group, file.epoch, file.name), file, where)
            else:
                check_slices(file, file.content, where)
        path = commit_path(group, link.epoch)
        if link.epoch == last:
            self.objects.paths.add(path)
            self.last_commit = path, link.data
        else:
            self.objects.write(path, link.data)
        return link.commit.nbytes

    def _check_defined(self, files: Collection[DataFile], generation: int, where: str) -> None:
        """See that nothing has rows of a store whose definition was lost."""
        for store in {part.store for file in files for part in file.slices}:
            if self._source.definition_at(store, generation) is None:
                raise NotFound(f"The definition of store {store}, of which {where} has rows, is missing.")


def _first_epoch(snapshot: Snapshot | None) -> Epoch:
    """The first epoch that is read where a group begins with a snapshot, or with nothing."""
    return Epoch(1) if snapshot is None else snapshot.epoch


class _Marks:
    """The marks of a copy: numbered from 1, the newest counts.

    Args:
        objects: The objects of the copy.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def newest_mark(self) -> Mark | None:
        """The newest mark; None if there is none.

        Raises:
            Corrupt: It is damaged, or of another format.
        """
        number = max(self._numbers(), default=0)
        data = self._objects.get(mark_path(number)) if number else None
        return None if data is None else _mark_of(data.to_pybytes())

    def write(self, mark: Mark) -> None:
        """Write a mark that counts from here on, and delete those before it."""
        numbers = self._numbers()
        path = mark_path(max(numbers, default=0) + 1)
        document = {
            "format": MARK_FORMAT,
            "identity": mark.identity,
            "epochs": mark.epochs,
            "finished_at": mark.finished_at,
            "restored": mark.restored,
            # Tells this mark from one that another copy writes at the same time.
            "nonce": secrets.token_hex(8),
        }
        data = pa.py_buffer(seal(json.dumps(document, indent=1).encode()))
        if not self._objects.create(path, [data]) and not self._has(path, data):
            raise Unavailable("Somebody else is writing the same copy: let one of you finish.")
        self._objects.delete([mark_path(number) for number in numbers])

    def _has(self, path: str, data: pa.Buffer) -> bool:
        """Whether a mark is there that was written all the same. A request whose answer was lost is sent
        again, and answered that there is an object.
        """
        found = self._objects.get(path)
        return found is not None and found.equals(data)

    def delete(self) -> None:
        """Delete all marks."""
        self._objects.delete([mark_path(number) for number in self._numbers()])

    def _numbers(self) -> list[int]:
        return [number for number in map(mark_number, self._objects.list(MARKS_PATH)) if number]


def _mark_of(data: bytes) -> Mark:
    try:
        document = unseal(data, "The mark of the backup")
    except Corrupt as error:
        raise Corrupt(
            "The mark of the backup, backup/<number>.json, is damaged: bring it back from the object store's "
            "versions, or make the backup again in another place."
        ) from error
    try:
        fields = json.loads(document)
        version = fields["format"]
        if version == MARK_FORMAT:
            epochs, restored = _epochs_of(fields["epochs"]), _epochs_of(fields.get("restored"))
            return Mark(str(fields["identity"]), epochs, int(fields["finished_at"]), restored)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Corrupt(
            "The mark of the backup lacks a field: make the backup again in another place."
        ) from error
    raise Corrupt(
        f"The backup has format {version!r}; this version reads format {MARK_FORMAT}: upgrade livestate."
    )


def _epochs_of(found: Mapping[str, int] | None) -> Mapping[GroupName, Epoch] | None:
    return None if found is None else {GroupName(group): Epoch(int(epoch)) for group, epoch in found.items()}
