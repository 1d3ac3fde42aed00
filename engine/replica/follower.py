"""Follows the changelog into the partition stores of a host, and hands out their state at one epoch."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Condition, Event, Lock, Thread

from engine.changelog import Catalog, Changelog, Decision, StoreDrop
from engine.cluster.reports import GroupReport, StoreReport
from engine.errors import LivestateError, Unavailable
from engine.model.schema import Epoch, GroupName, PartitionId, StoreDefinition, StoreName
from engine.replica.compactor import Compactor
from engine.replica.data_directory import NotKeptError
from engine.replica.figures import ReplicaFigures
from engine.replica.follower_options import FollowerOptions
from engine.replica.group import FollowedGroup
from engine.replica.group_setup import GroupSetup
from engine.replica.group_views import EpochRetention
from engine.replica.news_watch import NewsWatch
from engine.replica.open_files import FileNeed, raise_open_files_limit
from engine.replica.progress_watch import ProgressWatch
from engine.replica.scrubber import Scrubber, ScrubStatus
from engine.replica.snapshotter import Snapshotter
from engine.replica.store_catalog import StoreCatalog
from engine.replica.store_search import StoreSearch
from engine.replica.store_status import group_status, unreadable_status
from engine.replica.task_runner import Task, TaskRunner, Work
from engine.replica.turn_table import TurnTable
from engine.replica.turns import Lane, Turn
from engine.replica.worker_pools import WorkerPools
from engine.scan import StoreStatus, StoreView
from engine.state.cache import ColumnCache
from engine.state.rocks import shared_options

_log = logging.getLogger(__name__)

SECONDS_BETWEEN_RELEASES = 1.0
"""How often a group gives space back, and writes what small epochs have left in memory."""
QUICK_PARTITIONS = 64
"""Partitions that are opened at once by a thread that other groups wait for."""


class Follower:
    """Implements `engine.scan.StoreSource` over everything in a changelog.

    Groups are moved forward in turns (`engine.replica.turns`), by a few threads, of which each asks the
    changelog for one group while the others go on. What can take minutes has threads of its own. Whatever a
    group raises stops that group alone: it is named in the group's `problem`, logged, and tried again with
    growing pauses. So it is with what other threads do for a group.

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
        self._groups: dict[GroupName, FollowedGroup] = {}
        self._unopened: dict[GroupName, Collection[StoreDefinition]] = {}
        """Stores whose partitions are to be opened with the next turn of their group."""
        self._released_at: dict[GroupName, float] = {}
        self._catalog = StoreCatalog({}, {}, {}, ())
        self._switches: Mapping[StoreName, StoreName] = {}
        self._damaged: Mapping[StoreName, str] = {}
        self._damaged_names: Collection[StoreName] = frozenset()
        self._deleted: dict[GroupName, int] = {}
        self._listeners: tuple[Callable[[], None], ...] = ()
        self._has_caught_up = False
        self._stopping = Event()
        self._search = StoreSearch(changelog, directory, self._stopping)
        self._moved = Condition()
        self._renewing, self._telling = Lock(), Lock()
        self._tasks = TaskRunner(self._options.retry_seconds)
        self._turns = TurnTable()
        self._pools = WorkerPools(self._options)
        self._snapshotter = Snapshotter(changelog, self._options.snapshots, now)
        self._compactor = Compactor(
            self._options.compaction_threads, self._tasks, self._stopping, self._turns
        )
        self._scrubber = Scrubber(self._options.scrubs)
        self._setup = self._group_setup(directory)
        self._watch = ProgressWatch(self._groups)
        self._news = NewsWatch(changelog, self._turns, self._options.poll_seconds)
        self._threads = [
            Thread(target=self._run_searches, name="search", daemon=True),
            *self._lane_threads(Lane.QUICK, self._options.groups_looked_at, "follow"),
            *self._lane_threads(Lane.LARGE, self._options.large_epochs, "take large epoch"),
            *self._lane_threads(Lane.LONG, self._options.groups_built, "build group"),
        ]

    def _lane_threads(self, lane: Lane, count: int, name: str) -> Sequence[Thread]:
        return [
            Thread(target=self._run_turns, args=[lane], name=f"{name} {number}", daemon=True)
            for number in range(1, count + 1)
        ]

    def _group_setup(self, directory: Path) -> GroupSetup:
        options = self._options
        return GroupSetup(
            directory=directory,
            cache=ColumnCache(options.state.cache_bytes),
            options=options.state,
            shared_options=shared_options(options.state),
            held=options.held,
            retention=EpochRetention(
                options.retention_seconds, options.retained_epochs, options.retained_bytes
            ),
            workers=self._pools.appliers,
            request_compaction=self._compactor.submit,
            snapshot_after=options.snapshots.after_bytes,
            now=self._now,
            clock=time.monotonic,
            builders=self._pools.builders,
            large_workers=self._pools.large_workers,
            openers=self._pools.openers,
            stopping=self._stopping,
            open_files=raise_open_files_limit(),
        )

    def start(self) -> None:
        """Open what the data directory holds and follow the changelog from there, in threads of its own.

        What was applied before can be read when this returns, if it is what is newest in the changelog. Else
        it can be once the threads have come to what is newest now.

        Raises:
            LivestateError: The changelog or the data directory cannot be used. What is wrong with a single
                group is its `problem`.
        """
        try:
            self._look_for_stores()
        except NotKeptError as error:
            # The changelog has said what is newest: nothing from before that is shown.
            _log.warning("%s", error.message)
        except Unavailable as error:
            kept = self._search.recall()
            if kept is None:
                raise
            self._take_catalog(kept)
            _log.warning("%s The host serves what it has, and looks for the changelog again.", error.message)
        if not self._search.has_changelog:
            _log.warning(
                "There is no changelog at %s yet: nothing was ever written there. Until something is, "
                "statements are refused. "
                "Start the job that writes it, or correct the URI.",
                self._changelog.uri,
            )
        self._open_groups()
        self._snapshotter.start()
        self._watch.start()
        self._news.start()
        for thread in self._threads:
            thread.start()

    def _open_groups(self) -> None:
        """Open the partitions of all groups that were found, several groups at once."""
        with ThreadPoolExecutor(self._options.groups_built, "open group") as pool:
            list(pool.map(self._open_stores, self._groups.values()))
        for group in self._groups.values():
            self._turns.add(self._next_turn(group, 0.0))
        self._renew_catalog()
        self._notify_listeners()

    def stop(self) -> None:
        """Stop following and close all partitions. What is being built is given up, and begun again at the
        next start. Views that queries still hold answer from the cache alone from here on.
        """
        self._stopping.set()
        self._search.request()
        self._turns.close()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        self._news.stop()
        self._watch.stop()
        self._snapshotter.stop()
        self._scrubber.stop()
        self._compactor.shutdown()
        self._pools.shutdown()
        for group in self._groups.values():
            group.close()

    def notify(self, group: GroupName | None = None) -> None:
        """Look for new epochs now.

        Args:
            group: Where one is expected: it is looked at first, and all others, too. One that is not known
                here is looked for. None: anything can be new, stores and what names mean included.
        """
        if group not in self._groups:
            self._search.request()
        self._turns.request_all(group)

    def scrub(self, rate_bytes: float | None = None) -> ScrubStatus:
        """Begin to read all that is stored here, unless that is being done. What is damaged is put aside and
        built again.

        Args:
            rate_bytes: Arrow bytes a second at most; None for the host's option.

        Returns:
            How far it is.
        """
        groups = list(self._groups.values())
        return self._scrubber.begin(
            {group.group: list(group.partitions) for group in groups},
            rate_bytes,
            {each.group: each.unopened_partitions(self._unopened.get(each.group, ())) for each in groups},
        )

    def cancel_scrub(self) -> ScrubStatus:
        """End the scrub that runs, if any does; how far it is."""
        return self._scrubber.cancel()

    @property
    def scrub_status(self) -> ScrubStatus:
        """How far the scrub is that runs, or how the last one went."""
        return self._scrubber.status

    @property
    def file_need(self) -> FileNeed:
        """The files that the open partitions take."""
        return sum((group.file_need for group in list(self._groups.values())), FileNeed())

    def figures(self) -> ReplicaFigures:
        """What the groups have taken so far, and take now. Asks neither the changelog nor the disk."""
        groups = list(self._groups.values())
        cache, rocksdb = self._setup.cache, Counter[str]()
        for store in (store for group in groups for store in group.partitions):
            # One that is being closed has nothing to say any more.
            with suppress(LivestateError):
                rocksdb.update(store.storage_figures())
        return ReplicaFigures(
            {
                each.group: each.figures(
                    self._compactor.merge_work(each.group), self._snapshotter.counted_snapshot(each.group)
                )
                for each in groups
            },
            cache.nbytes,
            cache.capacity,
            cache.hits,
            cache.misses,
            rocksdb,
            len(self._damaged),
        )

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Have something called after what can be read here has changed; `report` then says so already.

        Args:
            listener: Called from threads that follow the changelog, one at a time: it must return at once and
                must not raise.
        """
        self._listeners = (*self._listeners, listener)

    def _run_turns(self, lane: Lane) -> None:
        """Move groups on, one after the other, until the host stops."""
        while (name := self._turns.take(lane)) is not None:
            task, group = Task(Work.TURN, name), self._groups.get(name)
            if group is None:
                self._turns.remove(name)
            elif not self._tasks.run(task, partial(self._take_turn, group, lane)):
                self._turns.give_back(Turn(name, time.monotonic() + self._tasks.seconds_left(task)), lane)

    def _take_turn(self, group: FollowedGroup, lane: Lane) -> bool:
        """Do what there is to do for a group now, and give its turn back."""
        self._heed_amendments(group)
        if group.has_ended:
            self._turns.remove(group.group)
            return True
        has_more = self._move_on(group, lane)
        turn = self._next_turn(group, 0.0 if has_more else self._seconds_to_wait(group))
        self._turns.give_back(turn, lane)
        return True

    def _next_turn(self, group: FollowedGroup, pause: float) -> Turn:
        """The turn of a group after a pause in seconds."""
        due_at = time.monotonic() + pause
        if group.is_to_be_built or self._opens_long(group):
            lane = Lane.LONG
        else:
            lane = Lane.LARGE if group.is_long else Lane.QUICK
        return Turn(group.group, due_at, lane, epochs_missing=group.epochs_missing)

    def _opens_long(self, group: FollowedGroup) -> bool:
        """Whether so many partitions are to be opened that others are not to wait for that."""
        unopened = self._unopened.get(group.group, ())
        return sum(definition.partitions for definition in unopened) > QUICK_PARTITIONS

    def _move_on(self, group: FollowedGroup, lane: Lane) -> bool:
        """Do a step of each thing that there is to do for a group; whether there is more."""
        is_quick = lane is Lane.QUICK
        is_opened = not (is_quick and self._opens_long(group)) and self._open_stores(group)
        shown = [is_opened, self._refresh(group)]
        moved = self._advance(group, is_quick=is_quick)
        group.add_damage(self._snapshotter.take_differing(group.group))
        # Else the next turn is one that may take long.
        is_rebuilt = (lane is Lane.LONG or not group.is_long) and self._attempt(
            Work.REBUILD, group, group.rebuild
        )
        shown += [is_rebuilt, self._attempt(Work.EXPIRE, group, group.expire)]
        if time.monotonic() - self._released_at.get(group.group, 0.0) >= SECONDS_BETWEEN_RELEASES:
            self._released_at[group.group] = time.monotonic()
            self._attempt(Work.WRITE, group, group.write)
            self._attempt(Work.RELEASE, group, group.release)
        group.note_problem(self._problem(group))
        self._compactor.retry([group])
        if any(shown):
            self._notify_listeners()
        return moved or is_rebuilt

    def _seconds_to_wait(self, group: FollowedGroup) -> float:
        """How long nothing is to be done for a group, if nobody tells of anything."""
        expiry = group.readable.next_expiry
        soonest = float("inf") if expiry is None else expiry - time.monotonic()
        return max(0.0, min(self._options.poll_seconds, soonest))

    def _open_stores(self, group: FollowedGroup) -> bool:
        """Open what is new of a group; whether anything can be read that could not be before."""
        definitions = self._unopened.get(group.group)
        if definitions is None:
            return False
        task = Task(Work.OPEN, group.group)
        is_shown = self._attempt(Work.OPEN, group, partial(self._add_stores, group, definitions))
        if not self._tasks.is_failing(task) and self._unopened[group.group] is definitions:
            del self._unopened[group.group]
        group.note_problem(self._problem(group))
        if is_shown:
            self._renew_catalog()
        return is_shown

    def _add_stores(self, group: FollowedGroup, definitions: Collection[StoreDefinition]) -> bool:
        """Open what is new of a group: see `FollowedGroup.add_stores`."""
        others = [each.file_need for each in list(self._groups.values()) if each is not group]
        return group.add_stores(definitions, is_away=self._search.is_away, others=sum(others, FileNeed()))

    def _refresh(self, group: FollowedGroup) -> bool:
        """Show what was compacted, and what could not be shown before: a group without news has nothing
        merged again.
        """
        task = Task(Work.REFRESH, group.group)
        with self._moved:  # who waits for what was merged waits for this
            has_merged = self._compactor.take_merged(group.group)
            if not has_merged and task not in self._tasks.due_failures(Work.REFRESH):
                return False
            self._tasks.run(task, group.refresh)
        self._note_failure(task, group)
        return True

    def _notify_listeners(self) -> None:
        """Tell of what can be read now."""
        with self._moved:
            self._moved.notify_all()
        with self._telling:
            for listener in self._listeners:
                self._tasks.run(Task(Work.LISTENER), listener)

    def _run_searches(self) -> None:
        """Look for stores now and then, and at once if one is announced, unless that has just failed."""
        task = Task(Work.SEARCH)
        while not self._stopping.is_set():
            self._search.wait(is_failing=self._tasks.is_failing(task))
            if not self._stopping.is_set():
                self._tasks.run(task, self._look_for_stores)
                if self._scrubber.is_due:
                    self.scrub()

    def _look_for_stores(self) -> None:
        """Have what is new in the changelog opened by the turns of its groups."""
        try:
            with self._search.look() as catalog:
                self._take_catalog(catalog)
        finally:
            if self._search.is_replaced:
                for group in list(self._groups.values()):
                    group.doubt()

    def _take_catalog(self, catalog: Catalog) -> None:
        """Have what is new opened by the turns of its groups."""
        self._note_damage(catalog)
        for group in list(self._groups.values()):
            if group.is_amended:
                self._tasks.forget_failures(group.group)
                self._turns.request(group.group)
        for name, drops in catalog.drops.items():
            self._delete_dropped(name, drops)
        by_group: dict[GroupName, list[StoreDefinition]] = {}
        for definition in catalog.stores.values():
            by_group.setdefault(definition.group, []).append(definition)
        for name, of_group in by_group.items():
            if name not in self._groups:
                self._groups[name] = FollowedGroup(name, self._changelog, self._setup)
            group = self._groups[name]
            new = group.new_stores(of_group)
            if new:
                self._unopened[name] = new
            if not self._turns.has(name):
                self._turns.add(self._next_turn(group, 0.0))
            elif new:
                self._turns.request(name)
        self._switches = catalog.switches
        self._renew_catalog()

    def _heed_amendments(self, group: FollowedGroup) -> None:
        """Have a group heed what was decided of it; one that has no store any more is gone."""
        if not self._attempt(Work.AMEND, group, group.heed_amendments):
            return
        if group.has_ended:
            group.close()
            del self._groups[group.group]
        self._renew_catalog()
        self._notify_listeners()

    def _delete_dropped(self, group: GroupName, drops: Sequence[StoreDrop]) -> None:
        """Delete what the disk has of stores that were dropped while this host was away."""
        if self._deleted.get(group) == len(drops):
            return
        held = self._groups.get(group)
        closed = [drop for drop in drops if held is None or not held.holds_store(drop.store, drop.since)]
        task = Task(Work.RELEASE, group)
        if self._tasks.run_if_due(task, partial(self._delete_stores, group, closed)):
            self._deleted[group] = len(closed)

    def _delete_stores(self, group: GroupName, drops: Sequence[StoreDrop]) -> bool:
        for drop in drops:
            if self._setup.delete_store(group, drop.store, drop.since):
                _log.warning("Store %s %s; what this host had of it is deleted.", drop.store, drop.describe())
        return True

    def _note_damage(self, catalog: Catalog) -> None:
        """Say what of the stores cannot be read, once."""
        damaged = {**catalog.damaged_stores, **catalog.damaged_names}
        for sentence in set(damaged.values()) - set(self._damaged.values()):
            _log.error("%s", sentence)
        self._damaged, self._damaged_names = damaged, frozenset(catalog.damaged_names)

    def _renew_catalog(self) -> None:
        with self._renewing:
            self._catalog = self._catalog.renew(
                list(self._groups.values()), self._switches, self._damaged_names
            )

    def _advance(self, group: FollowedGroup, *, is_quick: bool) -> bool:
        """Apply some of what is there; whether something was."""
        before = group.view
        moved = self._attempt(Work.FOLLOW, group, partial(group.step, is_quick=is_quick))
        due = group.take_due_snapshot()
        if due is not None:
            self._snapshotter.take(due)
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
            self._news.expect(group.group, Epoch(view.epoch + 1))
        return moved

    def _attempt(self, work: Work, group: FollowedGroup, action: Callable[[], bool | None]) -> bool:
        """Do something for a group unless it failed a moment ago; whether it did anything."""
        task = Task(work, group.group)
        result = self._tasks.run_if_due(task, action)
        self._note_failure(task, group)
        return result

    def _note_failure(self, task: Task, group: FollowedGroup) -> None:
        """Have a group report what has failed. What fails in another thread is reported with the next
        round.
        """
        if self._tasks.is_failing(task):
            group.note_problem(self._problem(group))

    def _problem(self, group: FollowedGroup) -> str:
        """What keeps a group from getting on, the worst first; empty if nothing does."""
        return (
            group.alone_reason
            or self._tasks.problem(group.group)
            or group.rebuild_reason
            or self._snapshotter.problem(group.group)
            # What keeps the host from new stores and names keeps no group from its epochs.
            or ("" if group.epochs_missing else self._tasks.problem(None))
        )

    def definitions(self) -> Mapping[StoreName, StoreDefinition]:
        """All stores that can be asked now."""
        return self._catalog.definitions

    def definitions_of(self, generations: Mapping[GroupName, int]) -> Mapping[StoreName, StoreDefinition]:
        """As `StoreSource.definitions_of`."""
        return self._catalog.definitions_of(generations)

    def tables(self) -> Mapping[StoreName, StoreDefinition]:
        """As `StoreSource.tables`."""
        if not self._search.has_changelog:
            raise Unavailable(
                "The changelog that this host follows does not exist yet, as nothing was ever written to it: "
                "start the job that writes it, "
                "or correct the host's --changelog, which the host's log names."
            )
        return self._catalog.tables

    def damaged_names(self) -> Mapping[StoreName, str]:
        """As `StoreSource.damaged_names`."""
        return self._damaged

    def pin_views(
        self,
        stores: Collection[StoreName],
        epochs: Mapping[GroupName, Epoch] | None = None,
        partitions: Mapping[StoreName, Collection[PartitionId]] | None = None,
        shapes: Mapping[StoreName, StoreDefinition] | None = None,
        digests: Mapping[GroupName, str] | None = None,
    ) -> AbstractContextManager[Mapping[StoreName, StoreView]]:
        """As `StoreSource.pin_views`."""
        return nullcontext(self._catalog.views(stores, epochs, partitions, shapes, digests))

    def hold(self, epochs: Mapping[GroupName, Epoch], seconds: float) -> None:
        """As `StoreSource.hold`."""
        self._catalog.hold(epochs, seconds)

    def report(self) -> tuple[Mapping[GroupName, GroupReport], Mapping[StoreName, StoreReport]]:
        """As `StoreSource.report`."""
        return self._catalog.report()

    def decisions(self) -> Sequence[Decision]:
        """What operators decided of the changelog, as far as this host has heard. No request."""
        return self._changelog.decisions()

    def complete_until(self, stores: Collection[StoreName]) -> int:
        """As `StoreSource.complete_until`."""
        return self._catalog.complete_until(stores)

    @property
    def has_caught_up(self) -> bool:
        """Whether everything that this host is to hold could be read once: each group at what was newest in
        the changelog when it was found.

        Stays so for good: a group that falls behind later, or comes to be known later, says so for itself.
        """
        groups = list(self._groups.values())
        self._has_caught_up = self._has_caught_up or (
            self._search.has_changelog and all(group.has_caught_up for group in groups)
        )
        return self._has_caught_up

    def wait_for(self, group: GroupName, epoch: Epoch, timeout_seconds: float) -> bool:
        """Wait until an epoch, or a later one, can be read on all partitions that are held here.

        Returns:
            Whether it can; False after the time-out.
        """

        def is_there() -> bool:
            state = self._groups.get(group)
            if state is None or state.view is None or state.is_rebuilding:
                return False
            group_report, store_reports = state.reported  # comes last: after the partitions and the view
            is_whole = not any(store.rebuilding for store in store_reports.values())
            return min(state.view.epoch, group_report.newest) >= epoch and is_whole

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
                lambda: not self._compactor.has_merged, deadline - time.monotonic()
            )

    def status(self) -> Sequence[StoreStatus]:
        """All stores, ordered by name."""
        rows = [
            row
            for group in list(self._groups.values())
            for row in group_status(self._changelog, group, self._problem(group), self._now())
        ]
        for name, sentence in self._damaged.items():
            there = [place for place, row in enumerate(rows) if row.store == name]
            rows += [] if there else [unreadable_status(name, sentence)]
            for place in there:
                rows[place] = replace(rows[place], problem=rows[place].problem or sentence)
        return sorted(rows, key=lambda row: row.store)
