"""The epochs of one store group as objects: create, find, read, collect. No tokens are compared here;
`Writer` does that.
"""

from __future__ import annotations

import json
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from threading import Event
from typing import Any

import pyarrow as pa

from engine.changelog.checksummed_json import seal
from engine.changelog.codec import (
    DATA_HEADER_LENGTH,
    RowsByPartition,
    commit_digest,
    data_header,
    decode_commit,
    decode_slice,
    describe,
    encode_commit,
    encode_slices,
    schema_with_tombstones,
)
from engine.changelog.commit import BEFORE_FIRST, Commit, DataFile, Slice
from engine.changelog.data_files import read_slices
from engine.changelog.definitions import Definitions, missing_definition
from engine.changelog.floors import Floors
from engine.changelog.layout import (
    FORMAT_PATH,
    commit_epoch,
    commit_path,
    data_epoch,
    data_path,
    dropped_path,
    epoch_path,
    group_path,
    path_segment,
)
from engine.changelog.objects import Objects, all_paths
from engine.changelog.requests import ask_each, last_before, last_number
from engine.changelog.rows import dropped_error, fitted_tables
from engine.changelog.snapshots import Snapshots
from engine.errors import Corrupt, NotFound, Unavailable
from engine.model.migration import convert_rows
from engine.model.schema import Epoch, GroupName, PartitionId, StoreDefinition, StoreName

DROPPED_TOGETHER = 1000
"""Epochs whose commits are deleted in one request, where the store has such a one."""
DROPPED_FORMAT = 1
DROPPED = pa.py_buffer(seal(json.dumps({"format": DROPPED_FORMAT}, indent=1).encode()))
"""The object that says that epochs of a group were dropped. That it is there says all: nobody reads it."""

NO_STORES: Mapping[StoreName, StoreDefinition] = {}
Wants = Callable[[StoreName, PartitionId], bool]
_MAX_LOOKS = 3


@dataclass(frozen=True)
class Gap:
    """Commits of a store group that were lost, though later ones are there.

    Attributes:
        group: The store group.
        first: The first epoch whose commit is missing.
        following: An epoch behind it that has one.
        newest: The newest epoch that has one, unless more are missing.
    """

    group: GroupName
    first: Epoch
    following: Epoch
    newest: Epoch

    def error(self) -> Corrupt:
        """Why nobody goes on behind the gap."""
        return missing_commit(self.group, self.first)


class Epochs:
    """The epochs of one store group. Safe to use from several threads.

    Args:
        objects: The changelog's objects.
        group: The store group.
        stores: The changelog's definitions.
    """

    def __init__(self, objects: Objects, group: GroupName, stores: Definitions) -> None:
        self.group = group
        self.snapshots = Snapshots(objects, group, stores.amendments(group))
        self._objects = objects
        self._floors = Floors(objects, group)
        self._stores = stores
        self._settled = Epoch(0)

    def newest_epoch(self, known: Epoch = BEFORE_FIRST) -> Epoch:
        """The newest committed epoch.

        Epochs before a snapshot may be gone, so who knows of none begins at the newest snapshot. A list may
        lack that one: what was found is the newest if it is still there behind it that nothing was.

        Args:
            known: An epoch that is known to be committed.

        Returns:
            The newest epoch; `known` when there is no newer one.

        Raises:
            Unavailable: The objects that would tell are not listed, or cannot be reached.
        """
        if known:
            return self._last_epoch_from(known)
        for _ in range(_MAX_LOOKS):
            newest = self._last_epoch_from(max(self.snapshots.epochs(), default=BEFORE_FIRST))
            if self.holds(newest):
                return newest
        raise Unavailable(
            f"The newest epoch of store group {self.group} cannot be told: older ones were dropped, and the "
            "snapshot that has their rows is not listed, or what follows it was lost. Try again later; "
            "`livestate verify` says what is missing."
        )

    def _last_epoch_from(self, known: Epoch) -> Epoch:
        """The end of the epochs that begin at a known one.

        They have no gaps, so existence tests find it: steps that double, then halves, or several at once. One
        test when nothing is new, 2·log2(n) for n new ones, one after the other.
        """
        newest = Epoch(last_number(self.is_committed, known, self._objects.requests_at_once))
        self._settle(newest)
        return newest

    def find_gap(self, newest: Epoch) -> Gap | None:
        """Where commits were lost behind an epoch, so that it only seems to be the newest. One listing.

        Args:
            newest: What `newest_epoch` has found.

        Returns:
            The gap; None where no commit is listed behind the epoch, or the next one is there.

        Raises:
            Unavailable: The changelog cannot be reached.
        """
        following = self.listed_behind(newest)
        if following is None or self.is_committed(newest + 1):
            return None
        if not (self.is_whole() and self.holds(newest)):
            return None  # it is being restored, or what follows was dropped
        return Gap(self.group, Epoch(newest + 1), following, self._last_epoch_from(following))

    def listed_behind(self, epoch: Epoch) -> Epoch | None:
        """The first epoch behind another one that a listing shows; None where there is none. Mostly that is
        one request: commits and the data files of epochs are listed before all else.
        """
        paths = self._objects.list(group_path(self.group), commit_path(self.group, epoch))
        epochs = (commit_epoch(self.group, path) for path in takewhile(self._is_of_epoch, paths))
        found = next((each for each in epochs if each > epoch), None)
        # A list may show what is not there any more.
        return found if found is not None and self.is_committed(found) else None

    def _is_of_epoch(self, path: str) -> bool:
        return bool(commit_epoch(self.group, path)) or data_epoch(self.group, path) is not None

    def newest_listed_epoch(self, known: Epoch = BEFORE_FIRST) -> Epoch:
        """As `newest_epoch`; where commits behind that were lost, the newest epoch behind them. One listing
        more.
        """
        newest = self.newest_epoch(known)
        gap = self.find_gap(newest)
        return newest if gap is None else gap.newest

    def committed_epochs(self) -> list[Epoch]:
        """The epochs that have a commit, in order: one listing of all that the group has."""
        found = (commit_epoch(self.group, path) for path in self._objects.list(group_path(self.group)))
        return sorted(epoch for epoch in found if epoch)

    def is_committed(self, epoch: int) -> bool:
        """Whether there is a commit of an epoch; a loss of power may take it back."""
        return self._objects.exists(commit_path(self.group, Epoch(epoch)))

    def _is_gone(self, epoch: int) -> bool:
        return not self.is_committed(epoch)

    def is_whole(self) -> bool:
        """Whether the changelog is there: the object that says so comes last where one is restored."""
        return self._objects.exists(FORMAT_PATH)

    def holds(self, epoch: Epoch) -> bool:
        """Whether an epoch has its commit still.

        Commits below the floor are dropped in any order, and never the newest. So while this one is there and
        not below the floor no later one was dropped, and what was found or created behind it before this was
        asked is what was first committed there.

        Args:
            epoch: An epoch that was committed once. 0 stands for the beginning: before epoch 1 is dropped an
                object says so, and where an older version dropped it, there was a snapshot at a later one.
        """
        if not epoch:
            return max(self.snapshots.epochs(), default=BEFORE_FIRST) <= 1 and not self._objects.exists(
                dropped_path(self.group)
            )
        requests: list[Callable[[], Any]] = [
            partial(self.is_committed, epoch),
            *(partial(self._objects.get, path) for path in self._floors.paths_to_read()),
        ]
        is_there, *floors = ask_each(lambda request: request(), requests, self._objects.requests_at_once)
        return is_there and self._floors.newest_by(floors) <= epoch

    def _settle(self, epoch: Epoch) -> None:
        if epoch > self._settled:
            self._objects.settle(commit_path(self.group, epoch))
            self._settled = max(self._settled, epoch)

    def read(self, epoch: Epoch) -> Commit | None:
        """The commit of an epoch as it was written, or what stands in for it where it is passed by; None
        while there is none.

        Raises:
            Corrupt: It is damaged, or of a format that this version does not know.
        """
        data = self._objects.get(commit_path(self.group, epoch))
        if data is None:
            return None
        self._settle(epoch)
        return self.decode(epoch, data)

    def decode(self, epoch: Epoch, data: pa.Buffer) -> Commit:
        """The commit that `read` gives, of its bytes."""
        skip = self._stores.exclusions(self.group).skips.get(epoch)
        return skip.stand_in if skip and skip.matches(data) else decode_commit(self.group, epoch, data)

    def create(self, commit: Commit) -> Commit | None:
        """Write a commit unless its epoch has one.

        A network may lose the answer to a write that took place, and a retry of it then meets its own work.
        So a write that did not plainly succeed is read back: the nonce tells whose it is. An epoch that was
        committed by another one and has been dropped since would be free again: what is created there is
        taken back.

        Returns:
            The commit as it is stored, if the epoch is now what `commit` says; None if it is another.

        Raises:
            Unavailable: That is not known. Only the next create of this epoch tells.
            LimitExceeded: The disk is full; nothing was written.
        """
        stored = self._create(commit)
        if stored is None or self._is_first(commit.epoch):
            return stored
        self._objects.delete([commit_path(self.group, commit.epoch)])
        return None

    def _is_first(self, epoch: Epoch) -> bool:
        """Whether no epoch of a number was dropped before the one that was created just now.

        The one before it may be gone all the same: a snapshot of the new one may count already, and all
        before that is dropped. The floor was raised to the new one first then, and not beyond it.
        """
        return self.holds(Epoch(epoch - 1)) or self.floor() == epoch

    def _create(self, commit: Commit) -> Commit | None:
        path, pieces = commit_path(self.group, commit.epoch), encode_commit(commit)
        try:
            won = self._objects.create(path, pieces)
        except Unavailable:
            found = self.read(commit.epoch)
            if found is None:
                raise
            return found if found.nonce == commit.nonce else None
        if won:
            return replace(commit, digest=commit_digest(pieces[0]))
        found = self.read(commit.epoch)
        return found if found is not None and found.nonce == commit.nonce else None

    def storage_time(self) -> int:
        """The time by the clock of the changelog's storage, microseconds since 1970 UTC."""
        return self._objects.current_time()

    def generation(self, known: int) -> int:
        """The generation of a commit that is created now: how many amendments there are, from a number of
        them that is known.
        """
        return self._stores.generation(self.group, known)

    def forget_amendments(self) -> None:
        """Read the group's amendments again: the changelog may have been restored from an older copy."""
        self._stores.amendments(self.group).forget()

    def kept_cutoffs(self, commit: Commit) -> Mapping[StoreName, int]:
        """The cutoffs of a commit that hold for those behind it: a store that was dropped leaves none to the
        next one of its name.
        """
        return self._stores.exclusions(self.group).keep_rows(commit).cutoffs

    def fit_tables(
        self,
        tables: RowsByPartition,
        generation: int,
        new_stores: Mapping[StoreName, StoreDefinition] = NO_STORES,
    ) -> RowsByPartition:
        """Rows in the shapes that their stores have at a generation: see `rows.fitted_tables`.

        Args:
            tables: The rows.
            generation: The generation.
            new_stores: Stores that are to be created before the rows are committed.
        """
        return fitted_tables(
            self.group,
            tables,
            lambda store: (
                self._stores.shapes(store, generation)
                or [new_stores[name] for name in [store] if name in new_stores]
            ),
            self._stores.drop_of,
        )

    def check_stores(self, files: Iterable[DataFile]) -> None:
        """See that the stores of staged rows were not dropped since.

        Raises:
            NotFound: One was.
        """
        exclusions = self._stores.exclusions(self.group)
        for file in files:
            for part in file.slices:
                if exclusions.is_dropped(part.store, file.generation):
                    raise dropped_error(exclusions.drops[part.store])

    def check_not_made_anew(self, stores: Iterable[StoreName], generation: int) -> None:
        """See that no store has taken the place of one that a writer knows, whose rows it would get.

        Args:
            stores: The stores that are written.
            generation: How many amendments there were when the writer began.

        Raises:
            NotFound: One was dropped since, and made anew.
        """
        drops = self._stores.exclusions(self.group).drops
        for store in stores:
            first = self._stores.first_definition(store) if store in drops else None
            if first is not None and first.since > generation:
                raise dropped_error(drops[store])

    def stage(self, epoch: Epoch, tables: RowsByPartition, task: str, generation: int) -> DataFile:
        """Write a data file of an epoch that is not committed yet, under a name of its own, of rows of a
        generation.
        """
        chunks, slices = encode_slices(tables, DATA_HEADER_LENGTH)
        name = f"{path_segment(task)}-{secrets.token_hex(6)}.arrow"
        self._objects.put(data_path(self.group, epoch, name), [data_header(generation), *chunks])
        return DataFile(
            epoch,
            name,
            DATA_HEADER_LENGTH + sum(part.length for part in slices),
            slices,
            generation=generation,
        )

    def rows(
        self, commit: Commit, definitions: Mapping[StoreName, StoreDefinition], wants: Wants | None
    ) -> dict[tuple[StoreName, PartitionId], pa.Table]:
        """The rows of a commit by store and partition: see `Changelog.read_rows`."""
        found: dict[tuple[StoreName, PartitionId], list[pa.RecordBatch]] = defaultdict(list)
        wanted = [
            (file, [part for part in file.slices if wants is None or wants(part.store, part.partition)])
            for file in commit.files
        ]
        where = describe(self.group, commit.epoch)
        contents = ask_each(lambda each: self._contents(*each, where), wanted, self._objects.requests_at_once)
        for (file, parts), content in zip(wanted, contents, strict=True):
            for part, rows in self._decode_slices(commit, file, parts, content, definitions):
                found[part.store, part.partition].append(rows)
        return {place: _slices_table(batches) for place, batches in found.items()}

    def batches(
        self, commit: Commit, definition: StoreDefinition, partition: PartitionId
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a commit in one partition: see `Changelog.read_batches`."""
        wanted = [
            (
                file,
                [
                    part
                    for part in file.slices
                    if (part.store, part.partition) == (definition.name, partition)
                ],
            )
            for file in commit.files
        ]
        has_tombstones = any(part.tombstones for _, parts in wanted for part in parts)
        for file, parts in wanted:
            content = self._contents(file, parts, describe(self.group, commit.epoch))
            for part, rows in self._decode_slices(
                commit, file, parts, content, {definition.name: definition}
            ):
                yield _add_empty_tombstone_column(rows) if has_tombstones and not part.tombstones else rows

    def _decode_slices(
        self,
        commit: Commit,
        file: DataFile,
        wanted: Sequence[Slice],
        contents: Sequence[pa.Buffer],
        definitions: Mapping[StoreName, StoreDefinition],
    ) -> Iterator[tuple[Slice, pa.RecordBatch]]:
        """Some slices of a file of a commit, in the shapes that definitions give their stores."""
        where = describe(self.group, commit.epoch)
        shapes: dict[StoreName, StoreDefinition] = {}
        for part, content in zip(wanted, contents, strict=True):
            if part.store not in definitions:
                raise NotFound(
                    f"The changelog has rows of store {part.store} in {where}, but no definition of it "
                    "was given: read the definitions again."
                )
            if part.store not in shapes:
                shapes[part.store] = self._shape(part.store, file.generation)
            shape, definition = shapes[part.store], definitions[part.store]
            if shape.generation > definition.generation:
                raise NotFound(
                    f"Store {part.store} was migrated before {where}, and its former definition was "
                    "given: read the definitions again."
                )
            yield part, convert_rows(decode_slice(part, content, shape.row_schema, where), shape, definition)

    def _shape(self, store: StoreName, generation: int) -> StoreDefinition:
        """What a store is at a generation."""
        found = self._stores.definition_at(store, generation)
        if found is None:
            raise missing_definition(store)
        return found

    def _contents(self, file: DataFile, wanted: Sequence[Slice], where: str) -> list[pa.Buffer]:
        if file.content is not None:
            return [file.content.slice(part.offset, part.length) for part in wanted]
        return read_slices(self._objects, data_path(self.group, file.epoch, file.name), file, wanted, where)

    def discard(self, files: Iterable[DataFile]) -> None:
        """Delete data files that were staged and will not be committed."""
        self._objects.delete([data_path(self.group, file.epoch, file.name) for file in files])

    def collect(self) -> int:
        """Delete data files that no commit names: see `Changelog.collect`."""
        return self._delete_unnamed(list(all_paths(self._objects, group_path(self.group))))

    def drop(self, before: Epoch, stopping: Event | None = None) -> int:
        """Delete the epochs before another one, many at once, and their files before their commits: a crash
        leaves nothing that is not found again.

        Args:
            before: The first epoch that stays; a snapshot has all rows of those before it.
            stopping: Ends it when it is set; the next call goes on.

        Returns:
            How many epochs were deleted.
        """
        first = last_before(self._is_gone, 0, before, self._objects.requests_at_once) + 1
        if first == before:
            return 0
        self.note_drops()
        self._floors.raise_to(before)
        # A crash may have left some of those that were deleted together with the ones before the first.
        start = max(1, first - DROPPED_TOGETHER)
        files: dict[Epoch, list[str]] = defaultdict(list)
        for path in all_paths(self._objects, group_path(self.group)):
            epoch = data_epoch(self.group, path)
            if epoch is not None and epoch < before:
                files[epoch].append(path)
        for low in range(start, before, DROPPED_TOGETHER):
            if stopping is not None and stopping.is_set():
                return max(0, low - first)
            together = range(low, min(low + DROPPED_TOGETHER, before))
            # Also of epochs that were dropped before, and were written for when that was done already.
            old = [path for epoch in [*files] if epoch < together.stop for path in files.pop(epoch)]
            if old:
                self._objects.delete(old)
            self._objects.delete([commit_path(self.group, Epoch(epoch)) for epoch in together])
        return before - first

    def floor(self) -> Epoch:
        """The first epoch that is not being dropped, nor was; 0 where none was.

        Raises:
            Corrupt: What says so is damaged.
            Unavailable: The changelog cannot be reached.
        """
        return self._floors.newest()

    def note_drops(self) -> None:
        """Say that the group does not begin with epoch 1 any more, before that is so. A list of snapshots
        would say it too, but may be one of before.
        """
        path = dropped_path(self.group)
        if not self._objects.create(path, [DROPPED]):
            self._objects.settle(path)

    def collect_of(self, epochs: Iterable[Epoch]) -> int:
        """Delete what `collect` would, but only of some epochs, without a look at the others."""
        return self._delete_unnamed(
            [path for epoch in epochs for path in all_paths(self._objects, epoch_path(self.group, epoch))]
        )

    def _delete_unnamed(self, paths: Sequence[str]) -> int:
        staged: dict[Epoch, list[str]] = defaultdict(list)
        for path in paths:
            epoch = data_epoch(self.group, path)
            if epoch is not None:
                staged[epoch].append(path)
        garbage = [path for epoch, found in staged.items() for path in self._garbage_files(epoch, found)]
        self._objects.delete(garbage)
        return len(garbage)

    def _garbage_files(self, epoch: Epoch, paths: Sequence[str]) -> list[str]:
        """Those of an epoch's files that can never count. While it is to come, a living writer may still name
        each of them.
        """
        commit = self.read(epoch)
        if commit is None:
            return list(paths) if epoch < max(self.snapshots.epochs(), default=BEFORE_FIRST) else []
        named = {data_path(self.group, file.epoch, file.name) for file in commit.files}
        return [path for path in paths if path not in named]


def missing_commit(group: GroupName, epoch: Epoch) -> Corrupt:
    """Why nobody goes on at an epoch whose commit was lost, unlike those of later ones."""
    return Corrupt(
        f"The commit of {describe(group, epoch)} is missing, though later ones are there: restore the "
        "changelog from a backup."
    )


def _slices_table(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Slices of one partition as one table, with a tombstone column if one of them has it. One batch could
    not have more than 2 GiB of text.
    """
    schema = max((batch.schema for batch in batches), key=len)
    return pa.Table.from_batches(
        [
            batch if len(batch.schema) == len(schema) else _add_empty_tombstone_column(batch)
            for batch in batches
        ],
        schema,
    )


def _add_empty_tombstone_column(batch: pa.RecordBatch) -> pa.RecordBatch:
    none = pa.repeat(pa.scalar(False, pa.bool_()), batch.num_rows)
    return pa.RecordBatch.from_arrays([*batch.columns, none], schema=schema_with_tombstones(batch.schema))
