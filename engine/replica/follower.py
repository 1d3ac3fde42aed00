"""Follows the changelog into the partition stores of a host, and hands out their state at one epoch."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from threading import Condition, Event, Lock, Thread
from typing import NamedTuple

from engine.changelog import Changelog
from engine.cluster.refusals import outlook, progress_in_words
from engine.cluster.reports import GroupReport, StoreReport
from engine.errors import NotFound, Unavailable
from engine.model.schema import Epoch, GroupName, PartitionId, StoreDefinition, StoreName
from engine.replica.data_directory import claim
from engine.replica.failures import Failures, log_failure, problem_of
from engine.replica.group import GroupState
from engine.replica.group_setup import GroupSetup, every_partition
from engine.replica.group_views import GroupView, Retention
from engine.replica.partition_keys import PartitionKey, partition_names
from engine.replica.snapshotter import SnapshotOptions, Snapshotter
from engine.scan import BuildingError, StoreStatus, StoreView
from engine.state.cache import ColumnCache
from engine.state.partition import PartitionStore
from engine.state.rocks import write_buffers
from engine.state.state_options import MIB, StateOptions
from engine.state.state_view import StateView

_log = logging.getLogger(__name__)

SECONDS_BETWEEN_DEFINITIONS = 1.0
"""How often stores without a first epoch, and space to be given back, are looked for."""


@dataclass(frozen=True)
class FollowerOptions:
    """How a host follows the changelog.

    Attributes:
        poll_seconds: How often it looks for an epoch that it was not told of.
        apply_threads: How many partitions are applied side by side.
        compaction_threads: How many partitions are compacted side by side, beside that.
        retry_seconds: How long it waits after a failure before it tries the same again; longer, the more
            often it has failed.
        state: Sizes of partition state.
        held: Which partitions of a store this host holds; all by default. Asked once for each store.
        retention_seconds: How long an epoch stays readable after a newer one.
        retained_epochs: How many epochs stay readable at most.
        retained_bytes: Memory for what only epochs before the newest need, at most; an estimate.
        snapshots: When snapshots are written into the changelog, and what stays before them.
    """

    poll_seconds: float = 0.05
    apply_threads: int = 2
    compaction_threads: int = 2
    retry_seconds: float = 1.0
    state: StateOptions = field(default_factory=StateOptions)
    held: Callable[[StoreDefinition], Collection[PartitionId]] = every_partition
    retention_seconds: float = 10.0
    retained_epochs: int = 64
    retained_bytes: int = 128 * MIB
    snapshots: SnapshotOptions = field(default_factory=SnapshotOptions)


@dataclass(frozen=True)
class _Catalog:
    """The stores that can be asked, by which names, and which group each is in; replaced as a whole when
    anything of it is another.
    """

    definitions: Mapping[StoreName, StoreDefinition]
    tables: Mapping[StoreName, StoreDefinition]
    owners: Mapping[StoreName, GroupState]
    groups: tuple[GroupState, ...]


class _Work(Enum):
    """What can fail, each by itself."""

    ROUND = "The work of the host"
    LISTENER = "Telling of changes"
    SEARCH = "The search for stores"
    OPEN = "Opening partitions"
    FOLLOW = "Following the changelog"
    REBUILD = "Rebuilding partitions"
    REFRESH = "Showing merged segments"
    EXPIRE = "Letting go of epochs"
    RELEASE = "Giving back space"
    COMPACT = "Merging segments"


class _Task(NamedTuple):
    """One thing that can fail: what fails stops nothing else.

    Attributes:
        work: What is done.
        group: With which group; None for none.
        partition: With which of its partitions; None for none.
    """

    work: _Work
    group: GroupName | None = None
    partition: PartitionKey | None = None

    def __str__(self) -> str:
        """For messages."""
        partition = "" if self.partition is None else f", partition {partition_names([self.partition])}"
        return (
            self.work.value if self.group is None else f"{self.work.value} of group {self.group}{partition}"
        )


class Follower:
    """Implements `engine.scan.StoreSource` over everything in a changelog.

    One thread moves all groups forward, in turns. Whatever one of them raises stops that group alone: it is
    named in the group's `problem`, logged, and tried again with growing pauses, while the others go on. So it
    is with what other threads do for a group.

    Args:
        changelog: What to follow.
        directory: The data directory; no other process uses it.
        options: How.
        now: Gives the time, microseconds since 1970 UTC.
    """

    def __init__(
        self,
        changelog: Changelog,
        directory: Path,
        options: FollowerOptions | None = None,
        now: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self._changelog = changelog
        self._options = options or FollowerOptions()
        self._now = now
        self._groups: dict[GroupName, GroupState] = {}
        self._catalog = _Catalog({}, {}, {}, ())
        self._switches: Mapping[StoreName, StoreName] = {}
        self._listeners: tuple[Callable[[], None], ...] = ()
        self._failures: Failures[_Task] = Failures(self._options.retry_seconds)
        self._definitions_at = 0.0
        self._has_changelog = False
        self._has_caught_up = False
        self._wake, self._stopping, self._compacted = Event(), Event(), Event()
        self._moved = Condition()
        self._appliers = ThreadPoolExecutor(self._options.apply_threads, "apply")
        self._snapshotter = Snapshotter(changelog, self._options.snapshots, now)
        self._setup = self._group_setup(directory)
        self._compactor = ThreadPoolExecutor(self._options.compaction_threads, "compact")
        self._compactions: dict[int, Future[bool]] = {}
        self._compactions_lock = Lock()
        self._thread = Thread(target=self._run, name="follow", daemon=True)

    def _group_setup(self, directory: Path) -> GroupSetup:
        options = self._options
        return GroupSetup(
            directory,
            ColumnCache(options.state.cache_bytes),
            options.state,
            write_buffers(options.state),
            options.held,
            Retention(options.retention_seconds, options.retained_epochs, options.retained_bytes),
            self._appliers,
            self._compact_soon,
            self._snapshotter.take,
            options.snapshots.after_bytes,
            self._now,
            time.monotonic,
        )

    # ---- life

    def start(self) -> None:
        """Open what the data directory holds and follow the changelog from there, in a thread of its own.

        What was applied before can be read when this returns, if it is what is newest in the changelog. Else
        it can be once the thread has come to what is newest now.

        Raises:
            LivestateError: The changelog or the data directory cannot be used. What is wrong with a single
                group is its `problem`.
        """
        self._look_for_stores()
        if not self._has_changelog:
            _log.warning(
                "There is no changelog at %s yet: nothing was ever written there. Until something is, "
                "statements are refused. "
                "Start the job that writes it, or correct the URI.",
                self._changelog.uri,
            )
        self._snapshotter.start()
        self._thread.start()

    def stop(self) -> None:
        """Stop following and close all partitions. Views that queries still hold answer from the cache alone
        from here on.
        """
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        self._snapshotter.stop()
        self._compactor.shutdown(cancel_futures=True)
        self._appliers.shutdown()
        for group in self._groups.values():
            group.close()

    def notify(self, group: GroupName | None = None) -> None:
        """Look for new epochs now.

        Args:
            group: Where one is expected; a hint, all groups are looked at. None: anything can be new, stores
                and what names mean included.
        """
        if group is None:
            self._definitions_at = float("-inf")
        self._wake.set()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have something called after what can be read here has changed; `report` then says so already.

        Args:
            listener: Called from the thread that follows the changelog: it must return at once and must not
                raise.
        """
        self._listeners = (*self._listeners, listener)

    def _run(self) -> None:
        task = _Task(_Work.ROUND)
        while not self._stopping.is_set():
            self._guard(task, self._run_round)
            self._stopping.wait(self._failures.seconds_left(task, time.monotonic()))

    def _run_round(self) -> None:
        self._wake.clear()
        if self._compacted.is_set():
            self._refresh()
        if time.monotonic() - self._definitions_at >= SECONDS_BETWEEN_DEFINITIONS:
            self._guard(_Task(_Work.SEARCH), self._look_for_stores)
        # A step each: those that can be read first, then those that can be read soonest, so that none waits
        # for the one that takes longest.
        groups = sorted(self._groups.values(), key=lambda group: group.epochs_missing)
        moved = [self._advance(group) for group in groups]
        rebuilt = [self._attempt(_Task(_Work.REBUILD, group.group), group.rebuild) for group in groups]
        expired = [self._attempt(_Task(_Work.EXPIRE, group.group), group.expire) for group in groups]
        for group in groups:
            group.note_problem(self._problem(group.group))
        self._compact_again()
        if any((*rebuilt, *expired)):
            self._notify_listeners()
        if not any((*moved, *rebuilt)):
            self._wake.wait(self._seconds_to_wait())

    def _seconds_to_wait(self) -> float:
        expiries = [group.next_expiry for group in self._groups.values()]
        soonest = min((expiry for expiry in expiries if expiry is not None), default=float("inf"))
        return max(0.0, min(self._options.poll_seconds, soonest - time.monotonic()))

    def _refresh(self) -> None:
        with self._moved:
            self._compacted.clear()
            for group in self._groups.values():
                self._guard(_Task(_Work.REFRESH, group.group), group.refresh)
        self._notify_listeners()

    def _notify_listeners(self) -> None:
        """Tell of what can be read now."""
        with self._moved:
            self._moved.notify_all()
        for listener in self._listeners:
            self._guard(_Task(_Work.LISTENER), listener)

    def _look_for_stores(self) -> None:
        identity = self._changelog.identity()
        claim(self._setup.directory, identity)
        stores, switches = self._changelog.catalog()
        by_group: dict[GroupName, list[StoreDefinition]] = {}
        for definition in stores.values():
            by_group.setdefault(definition.group, []).append(definition)
        new = []
        for name, definitions in by_group.items():
            if name not in self._groups:
                self._groups[name] = GroupState(name, self._changelog, self._setup)
            new.append(
                self._attempt(_Task(_Work.OPEN, name), partial(self._groups[name].add_stores, definitions))
            )
        for group in self._groups.values():
            self._attempt(_Task(_Work.RELEASE, group.group), group.release)
        self._switches = switches
        self._has_changelog = identity is not None
        self._renew_catalog()
        self._definitions_at = time.monotonic()
        if any(new):
            self._notify_listeners()

    def _renew_catalog(self) -> None:
        groups = tuple(self._groups.values())
        definitions = {name: definition for group in groups for name, definition in group.definitions.items()}
        switched = {
            name: definitions[store] for name, store in self._switches.items() if store in definitions
        }
        tables = definitions | switched
        if (
            definitions != self._catalog.definitions
            or tables != self._catalog.tables
            or groups != self._catalog.groups
        ):
            owners = {name: group for group in groups for name in group.definitions}
            self._catalog = _Catalog(definitions, tables if switched else definitions, owners, groups)

    def _advance(self, group: GroupState) -> bool:
        """Apply some of what is there; whether something was."""
        before = group.view
        moved = self._attempt(_Task(_Work.FOLLOW, group.group), group.step)
        view = group.view
        if view is not None and view is not before:
            # Also where the step has failed behind what it showed.
            if (
                before is None
                or before.generation != view.generation
                or not view.definitions.keys() <= self._catalog.definitions.keys()
            ):
                self._renew_catalog()
            self._notify_listeners()
        return moved

    def _attempt(self, task: _Task, action: Callable[[], bool | None]) -> bool:
        """Run something unless it failed a moment ago; whether it did anything."""
        return self._failures.is_due(task, time.monotonic()) and self._guard(task, action)

    def _guard(self, task: _Task, action: Callable[[], bool | None]) -> bool:
        """Run something that may fail, in whatever way: say so, and try it again later. Everything else goes
        on, queries at the epochs there are.
        """
        try:
            done = bool(action())
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - the top of all work for a group; a panic of RocksDB or obstore is no Exception
            self._note_failure(task, error)
            return False
        self._failures.clear(task)
        return done

    def _note_failure(self, task: _Task, error: BaseException) -> None:
        if task.work is _Work.SEARCH:
            self._definitions_at = time.monotonic()
        if self._failures.note(task, error, time.monotonic()):
            log_failure(_log, task, error)
        if task.group in self._groups and task.work is not _Work.COMPACT:
            # What fails in another thread is told with the next round.
            self._groups[task.group].note_problem(self._problem(task.group))

    def _compact_soon(self, group: GroupName, store: PartitionStore) -> None:
        with self._compactions_lock:
            running = self._compactions.get(store.context.number)
            if (running is None or running.done()) and not self._stopping.is_set():
                task = _Task(_Work.COMPACT, group, store.identity)
                self._compactions[store.context.number] = self._compactor.submit(
                    self._attempt, task, partial(self._compact, store)
                )

    def _compact_again(self) -> None:
        """Have partitions compacted where that has failed: a group without news would never do so
        by itself.
        """
        clock = time.monotonic()
        due = {
            task
            for task in self._failures.problems()
            if task.work is _Work.COMPACT and self._failures.is_due(task, clock)
        }
        for group in self._groups.values() if due else ():
            for store in group.partitions:
                if _Task(_Work.COMPACT, group.group, store.identity) in due:
                    self._compact_soon(group.group, store)

    def _compact(self, store: PartitionStore) -> None:
        while not self._stopping.is_set() and store.compact():
            self._compacted.set()
            self._wake.set()

    # ---- what queries see

    def definitions(self) -> Mapping[StoreName, StoreDefinition]:
        """All stores that can be asked now."""
        return self._catalog.definitions

    def definitions_of(self, generations: Mapping[GroupName, int]) -> Mapping[StoreName, StoreDefinition]:
        """As `StoreSource.definitions_of`."""
        catalog = self._catalog
        named = {
            name: group.definition_at(name, generations[group.group])
            for name, group in catalog.owners.items()
            if group.group in generations
        }
        return {**catalog.definitions, **named}

    def tables(self) -> Mapping[StoreName, StoreDefinition]:
        """As `StoreSource.tables`."""
        if not self._has_changelog:
            raise Unavailable(
                "The changelog that this host follows does not exist yet, as nothing was ever written to it: "
                "start the job that writes it, "
                "or correct the host's --changelog, which the host's log names."
            )
        return self._catalog.tables

    def snapshot(
        self,
        stores: Collection[StoreName],
        epochs: Mapping[GroupName, Epoch] | None = None,
        partitions: Mapping[StoreName, Collection[PartitionId]] | None = None,
        shapes: Mapping[StoreName, StoreDefinition] | None = None,
    ) -> AbstractContextManager[Mapping[StoreName, StoreView]]:
        """As `StoreSource.snapshot`. The views are immutable; holding them is what keeps their bytes."""
        views: dict[StoreName, StoreView] = {}
        groups: dict[GroupName, GroupView] = {}
        for store in stores:
            group = self._group_of(store)
            wanted = None if partitions is None else partitions.get(store)
            if wanted is not None and not wanted:
                views[store] = self._nothing_of((shapes or self._catalog.definitions)[store], group, epochs)
                continue
            view = groups.get(group.group)
            if view is None:
                view = groups[group.group] = self._view_of(
                    group, None if epochs is None else epochs.get(group.group)
                )
            views[store] = view.store(store, wanted)
        return nullcontext(views)

    def _nothing_of(
        self, store: StoreDefinition, group: GroupState, epochs: Mapping[GroupName, Epoch] | None
    ) -> StateView:
        """A store of which no partition is asked for: that can be had of any epoch."""
        epoch = (epochs or {}).get(group.group, group.epoch)
        return StateView(store, epoch, 0, {})

    def hold(self, epochs: Mapping[GroupName, Epoch], seconds: float) -> None:
        """As `StoreSource.hold`."""
        groups = {group.group: group for group in self._catalog.groups}
        for name, epoch in epochs.items():
            if name not in groups:
                raise NotFound(f"There is no store group {name}.")
            groups[name].hold(epoch, seconds)

    def report(self) -> tuple[Mapping[GroupName, GroupReport], Mapping[StoreName, StoreReport]]:
        """As `StoreSource.report`."""
        reported = [(group.group, *group.reported) for group in self._catalog.groups]
        return {name: group for name, group, _ in reported}, {
            name: store for _, _, stores in reported for name, store in stores.items()
        }

    def _group_of(self, store: StoreName) -> GroupState:
        owner = self._catalog.owners.get(store)
        if owner is None:
            raise NotFound(f"There is no store {store}.")
        return owner

    def _view_of(self, group: GroupState, epoch: Epoch | None) -> GroupView:
        view = group.view
        if view is None:
            report, _ = group.reported
            raise BuildingError(f"Group {group.group} is being built on this host{outlook(report)}")
        return view if epoch is None or epoch == view.epoch else group.view_at(epoch)

    @property
    def has_caught_up(self) -> bool:
        """Whether everything that this host is to hold could be read once: each group at what was newest in
        the changelog when it was found.

        Stays so for good: a group that falls behind later, or comes to be known later, says so for itself.
        """
        groups = list(self._groups.values())
        self._has_caught_up = self._has_caught_up or (
            self._has_changelog and all(group.has_caught_up for group in groups)
        )
        return self._has_caught_up

    def wait_for(self, group: GroupName, epoch: Epoch, timeout_seconds: float) -> bool:
        """Wait until an epoch, or a later one, can be read on all partitions that are held here.

        Returns:
            Whether it can; False after the time-out.
        """

        def is_there() -> bool:
            state = self._groups.get(group)
            return (
                state is not None
                and state.view is not None
                and state.view.epoch >= epoch
                and not state.is_rebuilding
            )

        with self._moved:
            return self._moved.wait_for(is_there, timeout_seconds)

    def wait_until_compact(self, timeout_seconds: float) -> bool:
        """Wait until compaction has caught up with the epochs that can be read when this is called, and
        queries see its work.

        Returns:
            Whether they do; False after the time-out.
        """
        deadline = time.monotonic() + timeout_seconds
        with self._compactions_lock:
            running = list(self._compactions.values())
        _, late = wait(running, timeout_seconds)
        with self._moved:
            return not late and self._moved.wait_for(
                lambda: not self._compacted.is_set(), deadline - time.monotonic()
            )

    def status(self) -> Sequence[StoreStatus]:
        """All stores, ordered by name."""
        rows = [row for group in list(self._groups.values()) for row in self._group_status(group)]
        return sorted(rows, key=lambda row: row.store)

    def _group_status(self, group: GroupState) -> Iterator[StoreStatus]:
        view = group.view
        problem = self._problem(group.group)
        newest = view.epoch if view else Epoch(0)
        lags: dict[Epoch, float] = {}
        try:
            newest = self._changelog.newest_epoch(group.group, group.epoch)
            # What is being built waits for what follows the epoch that it has come to, though nothing can be
            # read yet.
            reached = {group.epoch_of(name) if view else group.epoch for name in group.definitions}
            lags = {epoch: self._lag_seconds(group.group, epoch, newest) for epoch in reached}
        except Exception as error:  # noqa: BLE001 - of one group; what is known of it is told all the same
            problem = problem or problem_of("The changelog", error)
        report, _ = group.reported
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
                lag_seconds=lags.get(epoch if view else group.epoch, 0.0),
                rows=sum(version.live_rows for version in versions),
                stored_rows=sum(version.stored_rows for version in versions),
                bytes=sum(version.nbytes for version in versions),
                partitions=len(versions),
                segments=sum(len(version.segments) for version in versions),
                problem=problem,
                pinned_epochs=group.pinned_epochs,
            )

    def _problem(self, group: GroupName) -> str:
        """What keeps a group from getting on, the worst first; empty if nothing does."""
        problems = self._failures.problems()
        found = {
            task.work: problem
            for task, problem in problems.items()
            if task.group == group or task.work is _Work.ROUND
        }
        return next((found[work] for work in _Work if work in found), self._snapshotter.problem(group))

    def _lag_seconds(self, group: GroupName, epoch: Epoch, newest: Epoch) -> float:
        waiting = self._changelog.read_commit(group, Epoch(epoch + 1)) if newest > epoch else None
        return max(0.0, (self._now() - waiting.committed_at) / 1e6) if waiting else 0.0
