"""A host without threads of its own, over an unreliable store and a disk that loses what is not safe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Event
from typing import Any
from unittest import mock

from engine.changelog import Changelog, Commit, SnapshotRetention
from engine.changelog.snapshot import EPOCH_WEIGHT
from engine.errors import LivestateError
from engine.model.schema import GroupName, PartitionId, StoreDefinition
from engine.replica.group import GroupState
from engine.replica.group_setup import GroupSetup
from engine.replica.group_views import GroupView, Retention
from engine.replica.snapshotter import SnapshotMaker, SnapshotOptions
from engine.state.cache import ColumnCache
from engine.state.partition import PartitionStore
from engine.state.rocks import write_buffers
from engine.state.state_options import StateOptions
from tests.simulation.disk import Died, Disk, Life
from tests.simulation.objects import ObjectStore, UnreliableObjects

STATE = StateOptions(block_rows=4, fan_out=2, cache_bytes=1 << 20)
SNAPSHOT_AFTER = 4 * EPOCH_WEIGHT
STEPS = 12
"""How many steps a host takes when it is its turn."""
PATIENT, IMPATIENT = 0.0, 1000.0


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
        with mock.patch(
            "engine.state.partition.Rocks", lambda path, *settings, **more: self.disk.open(path, self.life)
        ):
            return super().open(definition, partition, definition_at)

    def put_aside(self, definition: StoreDefinition, partition: PartitionId) -> None:
        """See `GroupSetup.put_aside`."""
        path = self.directory / definition.group / definition.name / str(partition)
        self.disk.move(path, Path("aside") / path)


class SimulatedHost:
    """A host.

    Args:
        name: What it is called.
        held: The partitions that it holds.
        store: The object store.
        draw: Says what happens to it.
        clock: Gives the time in seconds that never go back.
        now: Gives the time, microseconds since 1970 UTC.

    Attributes:
        disk: Its disk.
        problems: What it could not do, as the errors say.
    """

    def __init__(
        self,
        name: str,
        held: Mapping[str, Sequence[PartitionId]],
        store: ObjectStore,
        draw: Random,
        clock: Callable[[], float],
        now: Callable[[], int],
    ) -> None:
        self.disk = Disk()
        self.problems: list[str] = []
        self._name = name
        self._held = held
        self._draw = draw
        self._clock, self._now = clock, now
        self._store = store
        self._state: GroupState | None = None
        self._start()

    def _start(self) -> None:
        self._life = Life()
        self._objects = UnreliableObjects(self._store, self._draw, self._life)
        self._changelog = Changelog("memory://", {}, self._objects)
        self._due: dict[GroupName, tuple[GroupView, Commit]] = {}
        self._has_stores = False
        options = SnapshotOptions(
            SNAPSHOT_AFTER,
            SnapshotRetention(kept=1, tail_seconds=0),
            rank=self._rank,
            replicas=self._replicas,
            host=self._name,
            patience_seconds=IMPATIENT / 2,
            silent_seconds=IMPATIENT / 2,
        )
        self._maker = SnapshotMaker(self._changelog, options, self._now, Event())

    def _rank(self, definition: StoreDefinition, partition: PartitionId) -> int:
        return [name for name in sorted(self._held) if partition in self._held[name]].index(self._name)

    def _replicas(self, definition: StoreDefinition, partition: PartitionId) -> int:
        return sum(partition in held for held in self._held.values())

    def _open_group(self) -> GroupState:
        if self._state is None:
            setup = SimulatedSetup(
                directory=Path(self._name),
                cache=ColumnCache(STATE.cache_bytes),
                options=STATE,
                buffers=write_buffers(STATE),
                held=lambda definition: self._held[self._name],
                retention=Retention(seconds=0.0, versions=2, bytes=1 << 20),
                workers=Inline(),  # type: ignore[arg-type]  # what is used of an executor
                request_compaction=lambda group, partition: None,
                snapshot=lambda view, commit: self._due.__setitem__(view.group, (view, commit)),
                snapshot_after=SNAPSHOT_AFTER,
                now=self._now,
                clock=self._clock,
                disk=self.disk,
                life=self._life,
            )
            self._state = GroupState(GroupName("g"), self._changelog, setup)
        if not self._has_stores:
            self._state.add_stores(self._changelog.definitions().values())
            self._has_stores = True
        return self._state

    @property
    def view(self) -> GroupView | None:
        """What it answers from."""
        return None if self._state is None else self._state.view

    @property
    def held(self) -> Sequence[PartitionId]:
        """The partitions that it holds."""
        return self._held[self._name]

    def follow(self, trouble: int) -> bool:
        """Take some steps; whether any moved it.

        Args:
            trouble: As `UnreliableObjects.trouble`.
        """
        self._objects.trouble = trouble
        moved = False
        for _ in range(STEPS):
            try:
                state = self._open_group()
                moved |= any((state.step(), bool(state.rebuild())))
                state.expire()
            except LivestateError as error:
                self.problems.append(error.message)
        return moved

    def compact(self) -> None:
        """Merge what is to be merged."""
        for partition in () if self._state is None else self._state.partitions:
            with suppress(LivestateError):
                partition.compact()

    def write_snapshot(self, trouble: int, waited: float) -> None:
        """Go on with the snapshot that is due, if one is."""
        self._objects.trouble = trouble
        for view, commit in list(self._due.values()):
            try:
                if self._maker.advance(view, commit, waited):
                    del self._due[view.group]
            except LivestateError as error:
                self.problems.append(error.message)
        if self._state is not None:
            differing = self._maker.differing.pop(self._state.group, {})
            if differing:
                self.problems.append(f"{self._name} differs: {differing}")
            with suppress(LivestateError):
                self._state.add_damage(differing)

    def die_within(self, steps: int, trouble: int) -> None:
        """Go on as ever, and be gone after some writes and requests."""
        self._life.steps = steps
        with suppress(Died):
            self.follow(trouble)
            self.compact()
            self.write_snapshot(trouble, IMPATIENT)
        self.end()

    def end(self) -> None:
        """Be gone without a word, and start again with the next step."""
        self._state = None
        self._start()
