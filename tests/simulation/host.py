"""A host without threads of its own, over an unreliable store and a disk that loses what is not safe."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from threading import Event
from typing import Any
from unittest import mock

from engine.changelog import Catalog, Changelog, SnapshotRetention
from engine.changelog.snapshot import EPOCH_WEIGHT
from engine.errors import LivestateError
from engine.model.schema import Epoch, GroupName, PartitionId, StoreDefinition, StoreName
from engine.replica.catch_up import SECONDS_BETWEEN_DOUBTS
from engine.replica.group import FollowedGroup
from engine.replica.group_setup import GroupSetup
from engine.replica.group_views import EpochRetention, GroupView
from engine.replica.partition_places import store_path
from engine.replica.reached_epoch import ReachedEpoch
from engine.replica.snapshot_options import SnapshotOptions
from engine.replica.snapshot_schedule import DueSnapshot
from engine.replica.snapshotter import SnapshotMaker
from engine.state.cache import ColumnCache
from engine.state.damage import DamagedError
from engine.state.formats import SegmentId
from engine.state.partition import PartitionStore
from engine.state.rocks import shared_options
from engine.state.segment_store import Listing
from engine.state.state_options import StateOptions
from tests.simulation.disk import Died, Disk, Life, Moments, Note, SimulatedStorage
from tests.simulation.kinds import GROUP
from tests.simulation.objects import ObjectStore, UnreliableObjects

STATE = StateOptions(block_rows=4, fan_out=2, cache_bytes=1 << 20)
STATE_IN_PAGES = StateOptions(block_rows=4, fan_out=2, cache_bytes=256, paged_rows=2)
SNAPSHOT_AFTER = 4 * EPOCH_WEIGHT
STEPS, IDLE_STEPS = 12, 2
"""How many steps a host takes when it is its turn, and how many in which nothing happens."""
PATIENT, IMPATIENT = 0.0, 1000.0
ASIDE = Path("aside")
WRITES = 0.7
"""How often what is in memory is written before partitions are compacted."""


class Inline:
    """Runs what it is given at once; of `Executor` what hosts use."""

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Do it now."""
        done: Future[Any] = Future()
        try:
            done.set_result(work(*arguments))
        except Died:
            raise
        except BaseException as error:  # noqa: BLE001 - as an executor does
            done.set_exception(error)
        return done


@dataclass(frozen=True)
class SimulatedSetup(GroupSetup):
    """The setup of a host with a disk that is simulated."""

    disk: Disk = field(default_factory=Disk)
    life: Life = field(default_factory=Life)

    def open(
        self,
        definition: StoreDefinition,
        partition: PartitionId,
        definition_at: Callable[[int], StoreDefinition],
    ) -> PartitionStore:
        """See `GroupSetup.open`."""
        with (
            mock.patch("engine.state.partition.Rocks", self._open_storage),
            mock.patch("engine.state.shared_storage.Rocks", self._open_storage),
        ):
            return super().open(definition, partition, definition_at)

    def _open_storage(self, path: Path, *settings: object, **more: object) -> SimulatedStorage:
        return self.disk.open(path, self.life)

    def reached_epoch(self, group: GroupName) -> ReachedEpoch | None:
        """See `GroupSetup.reached_epoch`."""
        note = self.disk.notes.get(group)
        if note is None:
            return None
        return note.reached if note.boot == self.disk.boot else replace(note.reached, boot="another")

    def note_reached(self, group: GroupName, reached: ReachedEpoch | None) -> None:
        """See `GroupSetup.note_reached`."""
        if reached is None:
            self.disk.notes.pop(group, None)
        else:
            self.disk.notes[group] = Note(reached, self.disk.boot)

    def put_aside(self, definition: StoreDefinition, partition: PartitionId, *, is_lost: bool) -> None:
        """See `GroupSetup.put_aside`; nobody looks for what is lost."""
        path = self.directory / self.place_of(definition, partition).path
        self.disk.move(path, ASIDE / path)

    def delete_store(self, group: GroupName, store: StoreName, since: int) -> bool:
        """See `GroupSetup.delete_store`."""
        path = self.directory / store_path(group, store, since)
        found = [self.disk.delete(each, self.life) for each in (path, ASIDE / path)]
        return any(found)


class SimulatedHost:
    """A host.

    Args:
        name: What it is called.
        held: The partitions that it holds.
        store: The object store.
        draw: Says what happens to it.
        clock: Gives the time in seconds that never go back.
        now: Gives the time, microseconds since 1970 UTC.
        retention: Which snapshots it keeps.
        moments: What there is between two of its steps.
        options: How it keeps partitions.
        may_be_damaged: Whether it looks for what statements, merges and scrubs have found damaged.

    Attributes:
        name: What it is called.
        disk: Its disk.
        problems: What it could not do, as the errors say.
        starts: How often it was started.
    """

    def __init__(
        self,
        name: str,
        held: Mapping[str, Sequence[PartitionId]],
        store: ObjectStore,
        draw: Random,
        clock: Callable[[], float],
        now: Callable[[], int],
        retention: SnapshotRetention,
        moments: Moments,
        options: StateOptions = STATE,
        *,
        may_be_damaged: bool = False,
    ) -> None:
        self.disk = Disk()
        self.problems: list[str] = []
        self.name = name
        self._held = held
        self._draw = draw
        self._clock, self._now = clock, now
        self._retention, self._moments = retention, moments
        self._store = store
        self._options, self._may_be_damaged = options, may_be_damaged
        self.starts = 0
        self._state: FollowedGroup | None = None
        self._start()

    def _start(self) -> None:
        self.starts += 1
        self._life = Life(moments=self._moments)
        self._objects = UnreliableObjects(self._store, self._draw, self._life)
        self._changelog = Changelog("memory://", {}, self._objects)
        self._due: DueSnapshot | None = None
        self._has_stores = False
        self._unopened: Collection[StoreDefinition] = ()
        self._setup = SimulatedSetup(
            directory=Path(self.name),
            cache=ColumnCache(self._options.cache_bytes),
            options=self._options,
            shared_options=shared_options(self._options),
            held=lambda definition: self._held[self.name],
            retention=EpochRetention(seconds=3 * SECONDS_BETWEEN_DOUBTS, versions=3, bytes=1 << 20),
            workers=Inline(),  # type: ignore[arg-type]  # what is used of an executor
            request_compaction=lambda group, partition: None,
            snapshot_after=SNAPSHOT_AFTER,
            now=self._now,
            clock=self._clock,
            disk=self.disk,
            life=self._life,
        )
        options = SnapshotOptions(
            SNAPSHOT_AFTER,
            self._retention,
            rank=self._rank,
            replicas=self._replicas,
            host=self.name,
            patience_seconds=IMPATIENT / 2,
            silent_seconds=IMPATIENT / 2,
        )
        self._maker = SnapshotMaker(self._changelog, options, self._now, Event())

    def _rank(self, definition: StoreDefinition, partition: PartitionId) -> int:
        return [name for name in sorted(self._held) if partition in self._held[name]].index(self.name)

    def _replicas(self, definition: StoreDefinition, partition: PartitionId) -> int:
        return sum(partition in held for held in self._held.values())

    def _open_group(self) -> FollowedGroup | None:
        """The group with all its stores; None while it has none."""
        if self._state is None:
            self._state = FollowedGroup(GROUP, self._changelog, self._setup)
        if not self._has_stores:
            if self._may_be_damaged and self._changelog.identity(is_fresh=True) is None:
                return None  # as `StoreSearch`: nothing is looked for where a changelog was moved away
            # First, as in each turn of `Follower`: what an earlier call has taken up may have ended since.
            self._state.heed_amendments()
            if self._state.has_ended:
                return self._state
            definitions = self._changelog.definitions()
            if not definitions:
                return None
            self._state.add_stores(definitions.values())
            self._has_stores = True
        return self._state

    def _open_stores(self, state: FollowedGroup) -> None:
        """Open what is new of the group. Where that fails all else goes on, as in `Follower`."""
        if self._unopened:
            try:
                state.add_stores(self._unopened)
            except LivestateError as error:
                self.problems.append(error.message)
            else:
                self._unopened = ()

    def _end_group(self) -> None:
        """Let go of a group whose last store was dropped, as `Follower` does."""
        if self._state is not None:
            self._state.close()
        self._state, self._has_stores, self._unopened = None, False, ()

    @property
    def view(self) -> GroupView | None:
        """What it answers from."""
        return None if self._state is None else self._state.view

    @property
    def views(self) -> Sequence[GroupView]:
        """All that it can answer from, also where stale answers are allowed."""
        if self._state is None:
            return ()
        report, _ = self._state.reported
        return [self._state.readable.view_at(each.epoch) for each in (*report.readable, *report.past)]

    @property
    def newest_known(self) -> Epoch:
        """The newest epoch that it takes to be committed."""
        return Epoch(0) if self._state is None else self._state.reported[0].newest_known

    @property
    def held(self) -> Sequence[PartitionId]:
        """The partitions that it holds."""
        return self._held[self.name]

    def follow(self, trouble: int) -> bool:
        """Take some steps; whether any moved it.

        Args:
            trouble: As `UnreliableObjects.trouble`.
        """
        self._objects.trouble = trouble
        self._hear()
        moved, idle = False, 0
        for _ in range(STEPS):
            has_moved = False
            try:
                state = self._open_group()
                if state is None:
                    break
                state.heed_amendments()
                if state.has_ended:
                    self._end_group()
                    continue
                self._open_stores(state)
                is_quick = not state.is_long
                has_moved = state.step(is_quick=is_quick)
                self._due = state.take_due_snapshot() or self._due
                if not (is_quick and state.is_long):
                    has_moved |= bool(state.rebuild())
                state.expire()
            except LivestateError as error:
                self.problems.append(error.message)
            self._look_for_damage()
            moved, idle = moved or has_moved, 0 if has_moved else idle + 1
            if idle > IDLE_STEPS:
                break
        return moved

    def _look_for_damage(self) -> None:
        """Have built again what was found damaged, whatever else has failed, as `Follower` does."""
        if self._may_be_damaged and self._state is not None:
            try:
                self._state.release()
                self._state.rebuild()
            except LivestateError as error:
                self.problems.append(error.message)

    def _hear(self) -> None:
        """Ask what was decided of the group, as a host does once a second."""
        try:
            if self._may_be_damaged and self._changelog.identity(is_fresh=True) is None:
                return
            self._take_catalog(self._changelog.readable_catalog())
        except LivestateError as error:
            self.problems.append(error.message)

    def _take_catalog(self, catalog: Catalog) -> None:
        """Take note of new stores, and delete what the disk has of dropped ones, as `Follower` does."""
        state = self._state
        for drop in catalog.drops.get(GROUP, ()):
            if state is None or not state.holds_store(drop.store, drop.since):
                self._setup.delete_store(GROUP, drop.store, drop.since)
        if state is not None and self._has_stores:
            self._unopened = state.new_stores(catalog.stores.values())

    def compact(self) -> None:
        """Write what is in memory, most of the time, and merge what is to be merged."""
        if self._state is not None and self._draw.random() < WRITES:
            with suppress(LivestateError):
                self._state.write()
        for partition in () if self._state is None else self._state.partitions:
            with suppress(LivestateError):
                partition.compact()

    def orphans(self) -> Collection[tuple[StoreName, PartitionId, SegmentId]]:
        """Segments that are stored, and are of no version that can still be read, if nobody reads any more
        and no snapshot is due.
        """
        self._due = None
        found: set[tuple[StoreName, PartitionId, SegmentId]] = set()
        read = {
            (name, number, entry.segment.id)
            for view in self.views
            for name, store in view.stores.items()
            for number, version in store.versions.items()
            for entry in version.all_segments
        }
        if self._state is not None:
            # Until then what is stored of them is what is in the place of what is in memory.
            self._state.write()
        for partition in () if self._state is None else self._state.partitions:
            partition.release()
            manifest = partition._manifest
            counting = {entry.segment.id for entry in partition.version.all_segments}
            stored = {segment for _, segment in Listing.from_storage(partition.context.storage).entries}
            place = StoreName(manifest.store), PartitionId(manifest.partition)
            found |= {(*place, segment) for segment in stored - counting}
        return found - read

    def scrub(self) -> None:
        """Read all that is stored, as `Scrubber` does."""
        for partition in () if self._state is None else self._state.partitions:
            try:
                partition.check_records()
                for entry in partition.version.all_segments:
                    for block in range(entry.segment.blocks):
                        entry.segment.stored.check_block(block)
            except DamagedError as error:
                partition.note_damage(error.what)
            except LivestateError as error:
                self.problems.append(error.message)

    def write_snapshot(self, trouble: int, waited: float) -> None:
        """Go on with the snapshot that is due, if one is."""
        self._objects.trouble = trouble
        if self._due is not None:
            try:
                if self._maker.advance(*self._due, waited):
                    self._due = None
            except LivestateError as error:
                self.problems.append(error.message)
        differing = self._maker.differing.pop(GROUP, {})
        assert not differing, f"{self.name} has other rows than other hosts: {differing}"

    def die_within(self, steps: int, trouble: int) -> None:
        """Go on as ever, and be gone after some writes and requests."""
        self._life.steps = steps
        with suppress(Died):
            self.follow(trouble)
            self.compact()
            self.write_snapshot(trouble, IMPATIENT)
        self.end()

    def stop(self) -> None:
        """Be stopped in order, and start again with the next step."""
        if self._state is not None:
            with suppress(LivestateError):
                self._state.close()
        self.end()

    def end(self) -> None:
        """Be gone without a word, and start again with the next step."""
        self._state = None
        self._start()
