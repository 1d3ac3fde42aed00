"""The changelog of a deployment: its stores and the epochs of their groups."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Event

import pyarrow as pa

from engine.changelog.amendments import Amendments, Exclusions, Migration, Skip, StoreDrop
from engine.changelog.catalog import Catalog, read_catalog
from engine.changelog.codec import RowsByPartition
from engine.changelog.commit import BEFORE_FIRST, Commit, DataFile
from engine.changelog.decisions import UNKNOWN_AUTHOR, Author, Decision
from engine.changelog.definitions import Definitions
from engine.changelog.epochs import NO_STORES, Epochs, Gap
from engine.changelog.history import History
from engine.changelog.identity import create_identity, read_identity
from engine.changelog.kept_catalog import CatalogObjects, KeptCatalog
from engine.changelog.layout import (
    CLOCK_PATH,
    GROUPS_PATH,
    MARKS_PATH,
    STORES_PATH,
    group_path,
    is_root_name,
)
from engine.changelog.local_objects import LocalObjects
from engine.changelog.objects import Objects, open_objects
from engine.changelog.snapshot import Snapshot, SnapshotRetention, droppable_before
from engine.changelog.snapshots import Snapshots
from engine.changelog.switches import Switch, Switches
from engine.changelog.writer import Writer, check_no_other_job
from engine.errors import Corrupt, InvalidInput, NotFound
from engine.model.migration import Change
from engine.model.schema import Epoch, GroupName, PartitionId, StoreDefinition, StoreName, check_name

ABANDONED_AFTER = 3_600_000_000
"""Microseconds. A file is written in seconds."""


@dataclass(frozen=True)
class Dropped:
    """What was deleted because newer snapshots have made it dispensable.

    Attributes:
        epochs: How many epochs.
        snapshots: How many snapshots.
    """

    epochs: int
    snapshots: int


class Changelog:
    """The durable, ordered record of every store's epochs. `Changelog.open` makes one; it can be used from
    several threads, and pickled.

    It is the truth that all hosts follow, and it is made of immutable objects only
    (`engine.changelog.layout`). A store changes by numbered migrations, which its group's commits take up:
    `Commit.generation` says how many are in effect, and so which shape each store has at an epoch.

    Attributes:
        uri: Where it is.
        objects: What it is made of.
    """

    def __init__(self, uri: str, options: Mapping[str, str], objects: Objects) -> None:
        self.uri = uri
        self._options = dict(options)
        self.objects = objects
        self._catalog_objects = CatalogObjects(objects)
        self._stores = Definitions(self._catalog_objects)
        self._switches = Switches(self._catalog_objects)
        self._groups: dict[GroupName, Epochs] = {}
        self._histories: dict[GroupName, History] = {}
        self._identity: str | None = None

    @staticmethod
    def open(uri: str, options: Mapping[str, str] | None = None) -> Changelog:
        """Open a changelog. Nothing is read or written yet; one that does not exist is empty, and the first
        write makes it.

        Args:
            uri: `file:///directory` or a plain path; `s3://bucket/prefix`, `gs://bucket/prefix`,
                `az://container/prefix`, with the standard environment variables for credentials; or
                `memory://`, which is new and empty each time and lives in this process.
            options: Settings of the object store (`endpoint`, `region`, `allow_http`, …) that come before the
                environment's.

        Returns:
            The changelog.

        Raises:
            InvalidInput: The URI or an option is not understood.
        """
        options = options or {}
        return Changelog(uri, options, open_objects(uri, options))

    def __repr__(self) -> str:
        return f"Changelog({self.uri!r})"

    def __reduce__(self) -> tuple[Callable[..., Changelog], tuple[str, dict[str, str]]]:
        if self.uri.startswith("memory:"):
            raise InvalidInput(
                "A changelog at memory:// lives in one process and cannot be sent to another: use a "
                "directory."
            )
        # Whoever opens it may work in another directory, as Spark's executors do.
        uri = self.uri
        if isinstance(self.objects, LocalObjects) and not uri.startswith("file:"):
            uri = str(self.objects.root)
        return (Changelog.open, (uri, self._options))

    def identity(self, *, is_fresh: bool = False) -> str | None:
        """What tells this changelog from any other, drawn at random by the first write; None before that.

        A host keeps it beside what it built from the changelog: under another identity that would be another
        deployment's state.

        Args:
            is_fresh: Whether to read it again, as another changelog may have taken the place of this one.

        Raises:
            Corrupt: The changelog is of another format, or the object that says so is damaged.
            Unavailable: The changelog cannot be reached.
        """
        if self._identity is not None and not is_fresh:
            return self._identity
        found = read_identity(self.objects)
        self._identity = self._identity or found
        return found

    def definitions(self) -> dict[StoreName, StoreDefinition]:
        """All stores as they are now, by name; migrations that no commit has taken up yet included.
        Definitions read once are not read again.

        Raises:
            Corrupt: A definition or a migration is damaged, or the changelog is of another format.
            Unavailable: The changelog cannot be reached.
        """
        self.identity()
        return self._stores.newest_definitions()

    def definition(self, store: StoreName) -> StoreDefinition | None:
        """What a store is now, migrations that no commit has taken up yet included; None if there is no such
        store.

        Raises:
            Corrupt: A definition or a migration is damaged.
            Unavailable: The changelog cannot be reached.
        """
        shapes = self.shapes(store)
        return shapes[-1] if shapes else None

    def shapes(self, store: StoreName) -> Sequence[StoreDefinition]:
        """All that a store has been so far, oldest first, the shape that it is to have now included; empty if
        there is no such store.

        Raises:
            Corrupt: A definition or a migration is damaged.
            Unavailable: The changelog cannot be reached.
        """
        first = self._stores.first_definition(store)
        return () if first is None else self._stores.shapes(store, self._stores.generation(first.group))

    def generation(self, group: GroupName, known: int = 0) -> int:
        """How many amendments a group has, those included that no commit has taken up yet. One
        request where nothing is new.

        Args:
            group: The store group.
            known: A number that some amendment is known to have.

        Raises:
            Unavailable: The changelog cannot be reached.
        """
        return self._stores.generation(group, known)

    def definition_at(self, store: StoreName, generation: int) -> StoreDefinition | None:
        """What a store is at a generation of its group, such as `Commit.generation`; None if there is no such
        store.

        Args:
            store: The store.
            generation: A number of amendments that there are.

        Raises:
            Corrupt: A definition or a migration is damaged or missing.
            Unavailable: The changelog cannot be reached; what was read once is not read again.
        """
        return self._stores.definition_at(store, generation)

    def read_definition_again(self, store: StoreName) -> None:
        """See whether the store of a name is still the one that was read; it may not be where the changelog
        was restored from an older copy. What was decided of its group is read again then, too.

        Args:
            store: The store.

        Raises:
            Corrupt: Its definition is damaged.
            Unavailable: The changelog cannot be reached.
        """
        self._stores.read_again(store)

    def create_store(self, definition: StoreDefinition, *, goes_on: bool = False) -> StoreDefinition:
        """Create a store, or find it there.

        A store that was migrated is what is asked for in any shape that it has had: a job goes on writing
        rows in an older one.

        Args:
            definition: What the store is to be.
            goes_on: Whether the job has written the store before: a name in an earlier shape means what it
                meant then, also where it is that of another column by now.

        Returns:
            The shape that is the one given, the newest if several are; but for the order of the columns,
            which are found by name.

        Raises:
            InvalidInput: The store is there and differs; the message shows both definitions, and the
                migration that makes the difference. Or it had these columns once, and one of the names is
                that of another column now.
            Unsupported: The object store does not honour create-only writes, so that epochs would not be safe
                on it.
            Unavailable: The changelog cannot be reached.
            LimitExceeded: The disk is full.
        """
        self._ensure_format()
        return self._stores.create(definition, goes_on=goes_on)

    def migrate_store(
        self, store: StoreName, changes: Sequence[Change], author: Author = UNKNOWN_AUTHOR
    ) -> Migration:
        """Change the columns of a store. It takes effect with the next commit of the store's group, on all
        hosts at this epoch.

        Args:
            store: The store.
            changes: What to change, in this order (`engine.model.migration`).
            author: Who decides it.

        Returns:
            What the store was, and what it is from then on.

        Raises:
            NotFound: There is no such store.
            InvalidInput: The store cannot be changed so; the message shows what it is and what was asked for.
            Unavailable: The changelog cannot be reached; the migration may have been written all the same.
            LimitExceeded: The disk is full.
        """
        return self._stores.migrate(store, changes, author)

    def switch(self, name: StoreName, store: StoreName, author: Author = UNKNOWN_AUTHOR) -> Switch:
        """Make SQL mean a store by a name from now on, or from when a host next looks; nothing changes for
        those who write.

        Args:
            name: The name: that of a store, or any other that a store could have.
            store: What it is to mean. The name itself to go back; where there is no store of that name, it
                means nothing again.
            author: Who decides it.

        Returns:
            What the name means now.

        Raises:
            InvalidInput: No store could have the name.
            NotFound: There is no such store.
            Corrupt: A newer version has written the newest switch of the name.
            Unavailable: The changelog cannot be reached.
            LimitExceeded: The disk is full.
        """
        check_name("store", name)
        is_back = store == name and self._switches.has_switch(name)
        if self._stores.first_definition(store) is None and not is_back:
            raise NotFound(f"There is no store {store}: {name} keeps its meaning.")
        return self._switches.create(name, store, author)

    def catalog(self) -> tuple[dict[StoreName, StoreDefinition], dict[StoreName, StoreName]]:
        """All stores, as `definitions` returns them, and the names by which SQL means another store than that
        of the name. One listing, and a request for each group.

        Raises:
            Corrupt: A definition or a switch is damaged, or the changelog is of another format.
            Unavailable: The changelog cannot be reached.
        """
        self.identity()
        paths = list(self._catalog_objects.list(STORES_PATH))
        return self._stores.newest_definitions(paths), self._switches.switched_names(paths)

    def kept_catalog(self) -> KeptCatalog | None:
        """What was read of the catalogue so far; None of a changelog that is not there yet. No request."""
        return None if self._identity is None else KeptCatalog(self._identity, self._catalog_objects.noted)

    def recall(self, kept: KeptCatalog) -> None:
        """Have the catalogue be what was kept of it, while the changelog is away. That it is the same
        changelog is for `identity` to say.
        """
        self._identity = kept.identity
        self._catalog_objects.recall(kept.objects)

    def note_return(self) -> None:
        """Have the catalogue read again, as the changelog can be reached."""
        self._catalog_objects.note_return()

    def readable_catalog(self) -> Catalog:
        """As `catalog`, but for what is damaged, which is named. One listing.

        Raises:
            Corrupt: The changelog is of another format.
            Unavailable: The changelog cannot be reached.
        """
        self.identity()
        return read_catalog(self._stores, self._switches, list(self._catalog_objects.list(STORES_PATH)))

    def groups(self) -> list[GroupName]:
        """The store groups that have a store, in order of name."""
        self.identity()
        return sorted({definition.group for definition in self._stores.first_definitions()})

    def written_groups(self) -> list[GroupName]:
        """The store groups that have a store, or had one, in order of name."""
        self.identity()
        return self._stores.written_groups()

    def groups_without_stores(self) -> list[str]:
        """Directories of store groups that no store ever belonged to, as their paths have their names. One
        listing of all that there is.

        Raises:
            Corrupt: A definition is damaged.
            Unavailable: The changelog cannot be reached.
        """
        known = {group_path(group) for group in self.written_groups()}
        found = {"/".join(path.split("/")[:2]) for path in self.objects.list(GROUPS_PATH)}
        return sorted(path.removeprefix(f"{GROUPS_PATH}/") for path in found - known)

    def newest_epoch(self, group: GroupName, known: Epoch = BEFORE_FIRST) -> Epoch:
        """The newest committed epoch of a group; 0 before the first.

        Args:
            group: The store group.
            known: An epoch that is known to be committed. From there one request finds that nothing is new;
                from 0, 2·log2(n) find the end.

        Raises:
            Unavailable: The changelog cannot be reached.
        """
        return self._epochs(group).newest_epoch(known)

    def newest_listed_epoch(self, group: GroupName, known: Epoch = BEFORE_FIRST) -> Epoch:
        """As `newest_epoch`; where commits behind that were lost, the newest epoch behind them. One listing
        more.

        Raises:
            Unavailable: The changelog cannot be reached.
        """
        return self._epochs(group).newest_listed_epoch(known)

    def find_gap(self, group: GroupName, newest: Epoch) -> Gap | None:
        """Where commits of a group were lost behind an epoch that seems to be the newest; None where none
        were. One listing.

        Raises:
            Unavailable: The changelog cannot be reached.
        """
        return self._epochs(group).find_gap(newest)

    def listed_behind(self, group: GroupName, epoch: Epoch) -> Epoch | None:
        """The first epoch of a group behind another one that a listing shows; None where there is none.

        Raises:
            Unavailable: The changelog cannot be reached.
        """
        return self._epochs(group).listed_behind(epoch)

    def committed_epochs(self, group: GroupName) -> list[Epoch]:
        """The epochs of a group that have a commit, in order; those that gave way to a snapshot have none.
        One listing of all that the group has.

        Raises:
            Unavailable: The changelog cannot be reached.
        """
        return self._epochs(group).committed_epochs()

    def read_commit(self, group: GroupName, epoch: Epoch) -> Commit | None:
        """The commit of an epoch as hosts apply it; None while it is not committed. One request.

        Raises:
            Corrupt: The commit is damaged or of another format; the message names group and epoch.
            Unavailable: The changelog cannot be reached.
        """
        return self._history(group).read_commit(epoch)

    def decode_commit(self, group: GroupName, epoch: Epoch, data: pa.Buffer) -> Commit:
        """The commit that `read_commit` gives, of its bytes.

        Raises:
            Corrupt: As `read_commit`.
            Unavailable: The changelog cannot be reached.
        """
        return self._history(group).decode_commit(epoch, data)

    def read_written_commit(self, group: GroupName, epoch: Epoch) -> Commit | None:
        """The commit of an epoch as it was written, or what stands in for it where it is passed by.

        Raises:
            Corrupt: As `read_commit`.
            Unavailable: The changelog cannot be reached.
        """
        return self._epochs(group).read(epoch)

    def read_following(self, group: GroupName, epoch: Epoch, most: int) -> Iterator[Commit]:
        """The commits that follow an epoch: see `History.read_following`.

        Raises:
            Corrupt: The next one is damaged or of another format; the message names group and epoch.
            Unavailable: The changelog cannot be reached.
        """
        return self._history(group).read_following(epoch, most)

    def amendments(self, group: GroupName) -> Amendments:
        """The amendments of a group."""
        return self._stores.amendments(group)

    def decisions(self) -> Sequence[Decision]:
        """Skips, drops, migrations and switches, as far as this process has heard of them: as `skips`. No
        request. They are in no particular order.
        """
        return [*self._stores.decisions(), *self._switches.decisions()]

    def exclusions(self, group: GroupName) -> Exclusions:
        """What of a group's epochs counts for nothing, as far as this process has heard: as `skips`.

        Raises:
            Corrupt: An amendment of the group is damaged.
            Unavailable: The changelog cannot be reached.
        """
        return self._stores.exclusions(group)

    def incarnation(self, store: StoreName) -> int:
        """How many stores of a name were dropped before the one that there is, or was last.

        Raises:
            Corrupt: A definition or an amendment is damaged.
            Unavailable: The changelog cannot be reached.
        """
        return self._stores.incarnation(store)

    def drop_of(self, store: StoreName) -> tuple[GroupName, StoreDrop] | None:
        """The group of the last store of a name, and its end; None if there is a store of this name, or never
        was.

        Raises:
            Corrupt: A definition or an amendment is damaged.
            Unavailable: The changelog cannot be reached.
        """
        found = self._stores.drop_of(store)
        return None if found is None else (found[0].group, found[1])

    def skips(self, group: GroupName) -> Sequence[Skip]:
        """The epochs of a group that are passed by, as far as this process has heard: it hears of it when it
        asks for stores or for the group's generation.

        Raises:
            Corrupt: An amendment of the group is damaged.
            Unavailable: The changelog cannot be reached.
        """
        return self._history(group).skips()

    def forget_history(self, group: GroupName) -> None:
        """Take the changelog for another one: one that was restored from an older copy."""
        self._history(group).forget()

    def usable_snapshots(self, group: GroupName) -> list[Snapshot]:
        """The snapshots of a group that can be read and are of the epochs as hosts apply them, in order.

        Raises:
            Unavailable: The changelog cannot be reached.
        """
        return self._history(group).usable_snapshots()

    def read_rows(
        self,
        commit: Commit,
        definitions: Mapping[StoreName, StoreDefinition],
        partitions: Callable[[StoreName, PartitionId], bool] | None = None,
    ) -> dict[tuple[StoreName, PartitionId], pa.Table]:
        """The rows of an epoch. Only the bytes of the partitions asked for are fetched, neighbours together.

        Args:
            commit: What `read_commit` returned.
            definitions: Definitions of at least the stores asked for, in the shapes that rows are to have: of
                the commit's generation or a later one.
            partitions: Says which partitions are asked for; None for all.

        Returns:
            Rows by store and partition, in commit order, in the store's row schema, a batch or more each;
            `TOMBSTONE_COLUMN` (boolean, no nulls) is the last column where a row is a tombstone. Partitions
            without rows are left out.

        Raises:
            Corrupt: A data file is missing or damaged; the message names group and epoch.
            NotFound: Rows asked for belong to a store that `definitions` lacks, or has in a shape of before
                they were written.
            Unavailable: The changelog cannot be reached.
        """
        return self._epochs(commit.group).rows(commit, definitions, partitions)

    def read_batches(
        self, commit: Commit, definition: StoreDefinition, partition: PartitionId
    ) -> Iterator[pa.RecordBatch]:
        """The rows of an epoch in one partition, of which only one data file's are in memory at a time.

        Args:
            commit: What `read_commit` returned.
            definition: The store, in the shape that rows are to have: of the commit's generation or a later
                one.
            partition: The partition.

        Yields:
            Rows in commit order, as `read_rows` returns them; all batches have `TOMBSTONE_COLUMN` where one
            has it.

        Raises:
            LivestateError: As `read_rows`.
        """
        return self._epochs(commit.group).batches(commit, definition, partition)

    def writer(
        self, group: GroupName, writer_id: str, *, take_over: bool = True, query_ids: Collection[str] = ()
    ) -> Writer:
        """Open a term of writing to a group; all older writers of it are refused from here on. See `Writer`.

        Args:
            group: The store group.
            writer_id: Who writes, for the message that an older writer gets.
            take_over: Whether to do so in a group that a job has written: a streaming query, or another that
                numbers its batches.
            query_ids: The jobs that this writer goes on with, from which it takes nothing over.

        Raises:
            InvalidInput: A job has written the group, and it is not to be taken over.
            Unsupported: The object store does not honour create-only writes.
            Unavailable: The changelog cannot be reached, or other writers keep opening terms.
            LimitExceeded: The disk is full.
        """
        self._ensure_format()
        return Writer.open(self._epochs(group), writer_id, take_over=take_over, query_ids=query_ids)

    def knows_query(self, group: GroupName, query_id: str) -> bool:
        """Whether a group has batches of a streaming query.

        Args:
            group: The store group.
            query_id: The query.

        Raises:
            Unavailable: The changelog cannot be reached.
        """
        epoch = self.newest_epoch(group)
        newest = self.read_commit(group, epoch) if epoch else None
        return newest is not None and query_id in newest.batches

    def check_no_other_job(self, group: GroupName, query_ids: Collection[str] = ()) -> None:
        """As `writer` without `take_over` does, before anything else is done.

        Args:
            group: The store group.
            query_ids: The jobs that the writer will go on with.

        Raises:
            InvalidInput: Another job has written the group.
            Unavailable: The changelog cannot be reached.
        """
        epoch = self.newest_epoch(group)
        newest = self.read_commit(group, epoch) if epoch else None
        if newest is not None:
            check_no_other_job(newest, query_ids)

    def stage(
        self,
        group: GroupName,
        epoch: Epoch,
        tables: RowsByPartition,
        *,
        task: str,
        new_stores: Mapping[StoreName, StoreDefinition] = NO_STORES,
    ) -> DataFile:
        """Write one durable data file of an epoch that is yet to be committed; only `Writer.commit` makes it
        count.

        Any number of processes may stage files of one epoch; a task that runs twice writes two files, of
        which one is to be committed.

        Args:
            group: The store group.
            epoch: The epoch to come: `Writer.next_epoch`.
            tables: Rows by store and partition, as `partition_rows` returns them, in any shape that their
                stores have had.
            task: Name of the task, a part of the file's name.
            new_stores: Stores that will be created before the file is committed.

        Returns:
            What to hand to `Writer.commit`; `encode_file` and `decode_file` carry it between processes.

        Raises:
            InvalidInput: Rows do not fit the definition of their store, or the store belongs to another
                group.
            NotFound: There is no such store.
            Unavailable: The changelog cannot be reached.
            LimitExceeded: The disk is full.
        """
        epochs = self._epochs(group)
        generation = epochs.generation(0)
        return epochs.stage(epoch, epochs.fit_tables(tables, generation, new_stores), task, generation)

    def discard(self, group: GroupName, files: Sequence[DataFile]) -> None:
        """Delete staged data files that will never be committed.

        Args:
            group: The store group.
            files: What `stage` returned.

        Raises:
            Unavailable: The changelog cannot be reached; `collect` finds them later.
        """
        self._epochs(group).discard(files)

    def collect(self, group: GroupName) -> int:
        """Delete the data files that no commit names: those of crashed, fenced or repeated tasks. Safe at any
        time, beside a writer too.

        Returns:
            How many files were deleted.

        Raises:
            Corrupt: A commit that has data files beside it is damaged; nothing is deleted.
            Unavailable: The changelog cannot be reached.
        """
        return self._epochs(group).collect()

    def collect_unfinished(self, now: int) -> int:
        """Delete what processes that died were writing, wherever that is, once it is an hour old. Safe at any
        time: whoever is still writing it is told that this did not succeed, and that only.

        Args:
            now: The time, microseconds since 1970 UTC.

        Returns:
            How many files were deleted.

        Raises:
            Unavailable: The changelog cannot be reached.
        """
        old = [
            path
            for directory in ("", STORES_PATH, GROUPS_PATH, MARKS_PATH, CLOCK_PATH)
            for path, written_at in self.objects.unfinished_objects(directory)
            if written_at < now - ABANDONED_AFTER and (directory or is_root_name(path))
        ]
        self.objects.delete(old)
        return len(old)

    def snapshots(self, group: GroupName) -> Snapshots:
        """The snapshots of a group."""
        return self._epochs(group).snapshots

    @property
    def answers_at_once(self) -> bool:
        """Whether requests wait for nothing, as those of a local directory."""
        return self.objects.requests_at_once == 1

    def is_committed(self, group: GroupName, epoch: Epoch) -> bool:
        """Whether there is a commit of an epoch: one request, for who wants to know whether to read. A loss
        of power may take it back.

        Raises:
            Unavailable: The changelog cannot be reached.
        """
        return self._epochs(group).is_committed(epoch)

    def holds(self, group: GroupName, epoch: Epoch) -> bool:
        """Whether an epoch that was committed has its commit still: see `Epochs.holds`.

        Raises:
            Unavailable: The changelog cannot be reached.
        """
        return self._epochs(group).holds(epoch)

    def floor(self, group: GroupName) -> Epoch:
        """The first epoch of a group that is not being dropped: see `Epochs.floor`.

        Raises:
            Corrupt: What says so is damaged.
            Unavailable: The changelog cannot be reached.
        """
        return self._epochs(group).floor()

    def drop(
        self, group: GroupName, retention: SnapshotRetention, now: int, stopping: Event | None = None
    ) -> Dropped:
        """Delete the epochs and snapshots that newer snapshots have made dispensable. Safe at any time,
        beside writers, hosts, and others who drop.

        Args:
            group: The store group.
            retention: What stays all the same.
            now: The time, microseconds since 1970 UTC.
            stopping: Ends it when it is set.

        Raises:
            Unavailable: The changelog cannot be reached; what is left is found again by the next call.
        """
        epochs = self._epochs(group)
        epochs.generation(0)  # what was decided since must not be missed: dropping cannot be undone
        for snapshot in droppable_before(self.usable_snapshots(group), retention, now):
            if self.can_replace_epochs(snapshot):
                return self.drop_before(group, snapshot.epoch, stopping)
        return Dropped(0, 0)

    def can_replace_epochs(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot is of the history that the changelog has, and has all its data files: where
        an older copy of the changelog was put back before a loss of power, one from before can be left, whole
        or in part.

        Args:
            snapshot: One that counts.

        Raises:
            Unavailable: The changelog cannot be reached.
        """
        try:
            commit = self.read_commit(snapshot.group, snapshot.epoch)
        except Corrupt:
            return False
        is_of_history = commit is not None and snapshot.digest in ("", commit.digest)
        return is_of_history and self.snapshots(snapshot.group).has_files(snapshot)

    def drop_before(self, group: GroupName, epoch: Epoch, stopping: Event | None = None) -> Dropped:
        """Delete the epochs and snapshots before a snapshot.

        Args:
            group: The store group.
            epoch: The epoch of a snapshot that counts, and that `can_replace_epochs`.
            stopping: Ends it when it is set.

        Raises:
            Unavailable: The changelog cannot be reached; what is left is found again by the next call.
        """
        epochs = self._epochs(group)
        # Snapshots go last: where the first epochs are gone, the snapshot that has their rows is there.
        dropped = epochs.drop(epoch, stopping)
        if stopping is not None and stopping.is_set():
            return Dropped(dropped, 0)
        return Dropped(dropped, epochs.snapshots.drop(epoch))

    def _epochs(self, group: GroupName) -> Epochs:
        found = self._groups.get(group)
        return found or self._groups.setdefault(group, Epochs(self.objects, group, self._stores))

    def _history(self, group: GroupName) -> History:
        found = self._histories.get(group)
        if found is None:
            found = History(self.objects, self._epochs(group), self._stores.amendments(group))
        return self._histories.setdefault(group, found)

    def _ensure_format(self) -> None:
        """Mark a new changelog with its format and an identity."""
        if self._identity is None:
            create_identity(self.objects)
            self.identity()
