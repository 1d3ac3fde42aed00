"""Jobs that write numbered batches, and take turns or take the group from each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random

from engine.changelog import Changelog, SnapshotRetention, Writer
from engine.changelog.skipping import skip_epoch
from engine.changelog.store_drops import drop_store, remove_dropped_stores
from engine.errors import Corrupt, Fenced, LivestateError, NotFound
from engine.model.retention import cutoffs_of
from engine.model.schema import Epoch, StoreDefinition, StoreName
from tests.simulation.disk import Life, Moments
from tests.simulation.kinds import GROUP, HOUR, OTHER_KINDS
from tests.simulation.model import RECENT, draw_changes, draw_migration, rows_to_write
from tests.simulation.objects import ObjectStore, UnreliableObjects

NEWEST_SKIPPED = 4
"""An epoch that is passed by is one of the newest."""
EXPIRING = [each for each in (RECENT, *OTHER_KINDS) if each.behaviour.retention is not None]


class Job:
    """A job that writes numbered batches, each again until it knows that it is there.

    Args:
        name: Its query id.
        store: The store of the changelog.
        draw: Says what it writes.
        counts: How often what became of it.
        moments: What there is between two of its steps.
        has_more_files: Whether some of its epochs have a second data file, with other rows of the same keys.

    Attributes:
        acknowledged: Digests of the commits that it knows to be there.
        is_refused: Whether it was told at last that the log is no more what it wrote.
    """

    def __init__(
        self,
        name: str,
        store: ObjectStore,
        draw: Random,
        counts: Counter[str],
        moments: Moments,
        *,
        has_more_files: bool = False,
    ) -> None:
        self.acknowledged: list[str] = []
        self.is_refused = False
        self._name = name
        self._store = store
        self._draw = draw
        self._counts = counts
        self._objects = UnreliableObjects(store, draw, Life(moments=moments))
        self._changelog: Changelog | None = None
        self._writer: Writer | None = None
        self._batch = 0
        self._has_more_files = has_more_files
        self._changes: dict[StoreName, Mapping[int, int | None]] = {}
        self._more: dict[StoreName, Mapping[int, int | None]] = {}
        self._shapes: dict[StoreName, Sequence[StoreDefinition]] = {}
        self._at = 0

    @property
    def epoch(self) -> Epoch:
        """The newest epoch that it takes to be its own; 0 where it has no term."""
        return Epoch(0) if self._writer is None else self._writer.epoch

    def end_term(self) -> None:
        """Be started again."""
        self._changelog = self._writer = None

    def append(self, trouble: int, now: int) -> None:
        """Try to write the next batch; what is not known to be written is tried again.

        Args:
            trouble: As `UnreliableObjects.trouble`.
            now: The time, microseconds since 1970 UTC.
        """
        self._objects.trouble = trouble
        self.is_refused = False
        try:
            self._write_batch(now)
        except (Fenced, Corrupt) as error:
            self.is_refused = isinstance(error, Corrupt)
            self._counts["rivalry said"] += "It was taken over" in error.message
            self._counts["fenced"] += isinstance(error, Fenced)
            self.end_term()
        except NotFound:
            # A store was dropped: who starts the job again has it write others, or a new one of this name.
            self._counts["rows of a dropped store refused"] += 1
            self.end_term()
            self._changes = {}
        except LivestateError:
            if self._draw.randrange(2):
                self.end_term()
        else:
            self._counts["batch"] += 1
            self._batch += 1
            self._changes = {}

    def _write_batch(self, now: int) -> None:
        draw = self._draw
        if self._changelog is None or self._writer is None:
            self._changelog = Changelog("memory://", {}, self._objects)
            self._writer = self._changelog.writer(GROUP, self._name)
        changelog, writer = self._changelog, self._writer
        if not self._changes:
            definitions = changelog.definitions()
            stores = sorted(definitions)
            chosen = draw.sample(stores, draw.randint(1, len(stores))) if stores else []
            self._changes = {store: draw_changes(draw) for store in chosen}
            self._shapes = {store: [definitions[store]] for store in chosen}
            self._at = now - draw.randrange(2 * HOUR)
            has_more = self._has_more_files and not draw.randrange(3)
            self._more = {store: draw_changes(draw) for store in chosen} if has_more else {}
        placed = {}
        for store, changes in self._changes.items():
            # One that was dropped is what it was, until the job is told.
            self._shapes[store] = changelog.shapes(store) or self._shapes[store]
            placed[store] = rows_to_write(draw.choice(self._shapes[store]), changes, self._at)
        replaced = [store for store in placed if not draw.randrange(20)]
        expiring = [each for each in EXPIRING if each.name in placed]
        cutoffs = (
            cutoffs_of(expiring, now - draw.randrange(HOUR), now)
            if expiring and not draw.randrange(4)
            else {}
        )
        if self._more:
            more = {
                store: rows_to_write(draw.choice(self._shapes[store]), changes, self._at - HOUR // 4)
                for store, changes in self._more.items()
            }
            files = [changelog.stage(GROUP, writer.next_epoch, each, task="t") for each in (placed, more)]
            commit = writer.commit(
                files, query_id=self._name, batch_id=self._batch, replaced=replaced, cutoffs=cutoffs
            )
            self._counts["two files"] += 1
        elif draw.randrange(4):
            commit = writer.append(
                placed, query_id=self._name, batch_id=self._batch, replaced=replaced, cutoffs=cutoffs
            )
        else:
            file = changelog.stage(GROUP, writer.next_epoch, placed, task="t")
            commit = writer.commit(
                [file], query_id=self._name, batch_id=self._batch, replaced=replaced, cutoffs=cutoffs
            )
        if commit.digest:
            self.acknowledged.append(commit.digest)

    def migrate(self, store: StoreName, trouble: int) -> None:
        """Try to change a store."""
        self._objects.trouble = trouble
        changelog = Changelog("memory://", {}, self._objects)
        try:
            shape = changelog.definition(store)
            if shape is not None:
                changelog.migrate_store(store, [draw_migration(self._draw, shape)])
        except LivestateError:
            self._counts["failed migration"] += 1

    def skip(self, now: int, trouble: int, behind: int | None = None) -> None:
        """Try to have an epoch passed by, though it could be applied, and has been by some.

        Args:
            now: As for `append`.
            trouble: Likewise.
            behind: How many epochs come behind it; drawn if not given.
        """
        self._objects.trouble = trouble
        changelog = Changelog("memory://", {}, self._objects)
        try:
            newest = changelog.newest_epoch(GROUP)
            epoch = Epoch(newest - (self._draw.randrange(NEWEST_SKIPPED) if behind is None else behind))
            skip_epoch(changelog, GROUP, epoch, "It was drawn.", self._name, now, force=True)
        except LivestateError:
            self._counts["failed skip"] += 1
        else:
            self._counts["skipped epoch"] += 1

    def create_store(self, definition: StoreDefinition, trouble: int) -> None:
        """Try to create a store, which may be there, or may have been dropped."""
        self._objects.trouble = trouble
        try:
            Changelog("memory://", {}, self._objects).create_store(definition)
        except LivestateError:
            self._counts["failed new store"] += 1

    def drop_store(self, store: StoreName, now: int, trouble: int) -> None:
        """Try to drop a store."""
        self._objects.trouble = trouble
        try:
            drop_store(Changelog("memory://", {}, self._objects), store, self._name, now)
        except LivestateError:
            self._counts["failed drop of a store"] += 1
        else:
            self._counts["dropped store"] += 1

    def remove_dropped_stores(self, trouble: int) -> None:
        """Try to remove what dropped stores have left."""
        self._objects.trouble = trouble
        try:
            removed = remove_dropped_stores(Changelog("memory://", {}, self._objects), GROUP)
        except LivestateError:
            self._counts["failed removal"] += 1
        else:
            self._counts["removed file"] += removed.files

    def drop(self, retention: SnapshotRetention, now: int, trouble: int) -> None:
        """Try to drop what snapshots have made dispensable."""
        self._objects.trouble = trouble
        try:
            Changelog("memory://", {}, self._objects).drop(GROUP, retention, now)
        except LivestateError:
            self._counts["failed drop"] += 1
