"""Follows the changelog into the partition stores of a host, and hands out their state at one epoch."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Condition, Event, Thread

from engine.changelog import Changelog
from engine.cluster.reports import GroupReport, StoreReport
from engine.errors import Unavailable
from engine.model.schema import Epoch, GroupName, PartitionId, StoreDefinition, StoreName
from engine.replica.compactor import Compactor
from engine.replica.data_directory import claim
from engine.replica.group import GroupState
from engine.replica.group_setup import GroupSetup, every_partition
from engine.replica.group_views import Retention
from engine.replica.scrubber import Scrubber, ScrubOptions, ScrubStatus
from engine.replica.snapshotter import SnapshotOptions, Snapshotter
from engine.replica.store_catalog import StoreCatalog
from engine.replica.store_status import group_status
from engine.replica.task_runner import Task, TaskRunner, Work
from engine.scan import StoreStatus, StoreView
from engine.state.cache import ColumnCache
from engine.state.rocks import write_buffers
from engine.state.state_options import MIB, StateOptions

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
        scrubs: How what is stored is read, to find what is damaged.
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
    scrubs: ScrubOptions = field(default_factory=ScrubOptions)


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
        self._catalog = StoreCatalog({}, {}, {}, ())
        self._switches: Mapping[StoreName, StoreName] = {}
        self._listeners: tuple[Callable[[], None], ...] = ()
        self._definitions_at = 0.0
        self._has_changelog = False
        self._has_caught_up = False
        # Set when stores are to be looked for with the next round, however short ago that was.
        self._is_search_due = Event()
        self._wake, self._stopping = Event(), Event()
        self._moved = Condition()
        self._tasks = TaskRunner(self._options.retry_seconds)
        self._appliers = ThreadPoolExecutor(self._options.apply_threads, "apply")
        self._snapshotter = Snapshotter(changelog, self._options.snapshots, now)
        self._compactor = Compactor(self._options.compaction_threads, self._tasks, self._stopping, self._wake)
        self._scrubber = Scrubber(self._options.scrubs)
        self._setup = self._group_setup(directory)
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
            self._compactor.submit,
            self._snapshotter.take,
            options.snapshots.after_bytes,
            self._now,
            time.monotonic,
        )

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
        self._scrubber.stop()
        self._compactor.shutdown()
        self._appliers.shutdown()
        for group in self._groups.values():
            group.close()

    def notify(self, group: GroupName | None = None) -> None:
        """Look for new epochs now.

        Args:
            group: Where one is expected; a hint, all groups are looked at. One that is not known here is
                looked for. None: anything can be new, stores and what names mean included.
        """
        if group not in self._groups:
            self._is_search_due.set()
        self._wake.set()

    def scrub(self, rate_bytes: float | None = None) -> ScrubStatus:
        """Begin to read all that is stored here, unless that is being done. What is damaged is put aside and
        built again.

        Args:
            rate_bytes: Arrow bytes a second at most; None for the host's option.

        Returns:
            How far it is.
        """
        groups = list(self._groups.values())
        return self._scrubber.begin({group.group: list(group.partitions) for group in groups}, rate_bytes)

    def cancel_scrub(self) -> ScrubStatus:
        """End the scrub that runs, if any does; how far it is."""
        return self._scrubber.cancel()

    @property
    def scrub_status(self) -> ScrubStatus:
        """How far the scrub is that runs, or how the last one went."""
        return self._scrubber.status

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Have something called after what can be read here has changed; `report` then says so already.

        Args:
            listener: Called from the thread that follows the changelog: it must return at once and must not
                raise.
        """
        self._listeners = (*self._listeners, listener)

    def _run(self) -> None:
        task = Task(Work.ROUND)
        while not self._stopping.is_set():
            self._tasks.run(task, self._run_round)
            self._stopping.wait(self._tasks.seconds_left(task))

    def _run_round(self) -> None:
        self._wake.clear()
        if self._compactor.has_merged.is_set() or self._tasks.due_failures(Work.REFRESH):
            self._refresh()
        if self._is_time_to_search():
            self._tasks.run(Task(Work.SEARCH), self._look_for_stores)
        # A step each: those that can be read first, then those that can be read soonest, so that none waits
        # for the one that takes longest.
        groups = sorted(self._groups.values(), key=lambda group: group.epochs_missing)
        moved = [self._advance(group) for group in groups]
        for group in groups:
            group.add_damage(self._snapshotter.take_differing(group.group))
            group.add_damage(self._scrubber.take_damage(group.group))
        if self._scrubber.is_due:
            self.scrub()
        rebuilt = [self._attempt(Work.REBUILD, group, group.rebuild) for group in groups]
        expired = [self._attempt(Work.EXPIRE, group, group.expire) for group in groups]
        for group in groups:
            group.note_problem(self._problem(group))
        self._compactor.retry(self._groups.values())
        if any((*rebuilt, *expired)):
            self._notify_listeners()
        if not any((*moved, *rebuilt)):
            self._wake.wait(self._seconds_to_wait())

    def _is_time_to_search(self) -> bool:
        """Whether stores are to be looked for: now and then, and at once if one is announced, unless that
        has just failed.
        """
        if self._is_search_due.is_set() and not self._tasks.is_failing(Task(Work.SEARCH)):
            return True
        return time.monotonic() - self._definitions_at >= SECONDS_BETWEEN_DEFINITIONS

    def _seconds_to_wait(self) -> float:
        expiries = [group.next_expiry for group in self._groups.values()]
        soonest = min((expiry for expiry in expiries if expiry is not None), default=float("inf"))
        if self._is_search_due.is_set():
            soonest = min(soonest, self._definitions_at + SECONDS_BETWEEN_DEFINITIONS)
        return max(0.0, min(self._options.poll_seconds, soonest - time.monotonic()))

    def _refresh(self) -> None:
        """Show what was compacted, and what could not be shown before: a group without news has nothing
        merged again.
        """
        with self._moved:
            self._compactor.has_merged.clear()
            for group in self._groups.values():
                task = Task(Work.REFRESH, group.group)
                self._tasks.run(task, group.refresh)
                self._note_failure(task, group)
        self._notify_listeners()

    def _notify_listeners(self) -> None:
        """Tell of what can be read now."""
        with self._moved:
            self._moved.notify_all()
        for listener in self._listeners:
            self._tasks.run(Task(Work.LISTENER), listener)

    def _look_for_stores(self) -> None:
        # Before the look: what is announced meanwhile may have come behind it, and makes another one due.
        self._is_search_due.clear()
        try:
            has_opened = self._open_new_stores()
        except BaseException:
            self._is_search_due.set()
            raise
        finally:
            self._definitions_at = time.monotonic()
        if has_opened:
            self._notify_listeners()

    def _open_new_stores(self) -> bool:
        """Open what is new in the changelog; whether anything can be read that could not be before."""
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
            group = self._groups[name]
            new.append(self._attempt(Work.OPEN, group, partial(group.add_stores, definitions)))
        for group in self._groups.values():
            self._attempt(Work.RELEASE, group, group.release)
            group.note_problem(self._problem(group))
        self._switches = switches
        self._has_changelog = identity is not None
        self._renew_catalog()
        return any(new)

    def _renew_catalog(self) -> None:
        self._catalog = self._catalog.renew(self._groups.values(), self._switches)

    def _advance(self, group: GroupState) -> bool:
        """Apply some of what is there; whether something was."""
        before = group.view
        moved = self._attempt(Work.FOLLOW, group, group.step)
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

    def _attempt(self, work: Work, group: GroupState, action: Callable[[], bool | None]) -> bool:
        """Do something for a group unless it failed a moment ago; whether it did anything."""
        task = Task(work, group.group)
        result = self._tasks.run_if_due(task, action)
        self._note_failure(task, group)
        return result

    def _note_failure(self, task: Task, group: GroupState) -> None:
        """Have a group report what has failed. What fails in another thread is reported with the next
        round.
        """
        if self._tasks.is_failing(task):
            group.note_problem(self._problem(group))

    def _problem(self, group: GroupState) -> str:
        """What keeps a group from getting on, the worst first; empty if nothing does."""
        return (
            self._tasks.problem(group.group) or group.rebuild_reason or self._snapshotter.problem(group.group)
        )

    def definitions(self) -> Mapping[StoreName, StoreDefinition]:
        """All stores that can be asked now."""
        return self._catalog.definitions

    def definitions_of(self, generations: Mapping[GroupName, int]) -> Mapping[StoreName, StoreDefinition]:
        """As `StoreSource.definitions_of`."""
        return self._catalog.definitions_of(generations)

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
        digests: Mapping[GroupName, str] | None = None,
    ) -> AbstractContextManager[Mapping[StoreName, StoreView]]:
        """As `StoreSource.snapshot`."""
        return nullcontext(self._catalog.views(stores, epochs, partitions, shapes, digests))

    def hold(self, epochs: Mapping[GroupName, Epoch], seconds: float) -> None:
        """As `StoreSource.hold`."""
        self._catalog.hold(epochs, seconds)

    def report(self) -> tuple[Mapping[GroupName, GroupReport], Mapping[StoreName, StoreReport]]:
        """As `StoreSource.report`."""
        return self._catalog.report()

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
        is_compact = self._compactor.wait(timeout_seconds)
        with self._moved:
            return is_compact and self._moved.wait_for(
                lambda: not self._compactor.has_merged.is_set(), deadline - time.monotonic()
            )

    def status(self) -> Sequence[StoreStatus]:
        """All stores, ordered by name."""
        rows = [
            row
            for group in list(self._groups.values())
            for row in group_status(self._changelog, group, self._problem(group), self._now())
        ]
        return sorted(rows, key=lambda row: row.store)
