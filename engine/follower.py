"""Follows the changelog into the partition stores of a host, and hands out their state at one epoch."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition, Event, Lock, Thread

from engine.changelog import Changelog
from engine.data_directory import claim
from engine.errors import LivestateError, NotFound, Unavailable
from engine.group_state import GroupState, GroupView, PartitionSetup
from engine.scan import StoreStatus, StoreView
from engine.schema import Epoch, GroupName, StoreDefinition, StoreName
from engine.state.cache import ColumnCache
from engine.state.options import StateOptions
from engine.state.partition import PartitionStore
from engine.state.rocks import write_buffers

_log = logging.getLogger(__name__)

SECONDS_BETWEEN_DEFINITIONS = 1.0
"""How often stores without a first epoch, and space to be given back, are looked for."""
SECONDS_BETWEEN_COMPLAINTS = 30.0
_ENDED = "The host stopped following the changelog after an unexpected failure; its log says which: restart it."


@dataclass(frozen=True)
class FollowerOptions:
    """How a host follows the changelog.

    Attributes:
        poll_seconds: How often it looks for an epoch that it was not told of.
        apply_threads: How many partitions are applied side by side.
        compaction_threads: How many partitions are compacted side by side, beside that.
        retry_seconds: How long it waits after a failure before it tries the same epoch again.
        state: Sizes of partition state.
    """

    poll_seconds: float = 0.05
    apply_threads: int = 2
    compaction_threads: int = 2
    retry_seconds: float = 1.0
    state: StateOptions = field(default_factory=StateOptions)


@dataclass(frozen=True)
class _Catalog:
    """The stores that can be asked, and which group each is in; replaced as a whole when there are others."""

    definitions: Mapping[StoreName, StoreDefinition]
    owners: Mapping[StoreName, GroupState]


class Follower:
    """Implements `engine.scan.StoreSource` over everything in a changelog.

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
        self._setup = PartitionSetup(directory, ColumnCache(self._options.state.cache_bytes), self._options.state, write_buffers(self._options.state))
        self._groups: dict[GroupName, GroupState] = {}
        self._catalog = _Catalog({}, {})
        self._problems: dict[GroupName, str] = {}
        self._complained: dict[GroupName, float] = {}
        self._retry_at: dict[GroupName, float] = {}
        self._definitions_at = 0.0
        self._ended = False
        self._wake, self._stopping, self._compacted = Event(), Event(), Event()
        self._moved = Condition()
        self._appliers = ThreadPoolExecutor(self._options.apply_threads, "apply")
        self._compactor = ThreadPoolExecutor(self._options.compaction_threads, "compact")
        self._compactions: dict[int, Future[None]] = {}
        self._compactions_lock = Lock()
        self._thread = Thread(target=self._run, name="follow", daemon=True)

    # ---- life

    def start(self) -> None:
        """Open what the data directory holds and follow the changelog from there, in a thread of its own.

        What was applied before can be read when this returns, unless a crash or a lost directory left partitions at several epochs: those
        are brought together first, from the changelog.

        Raises:
            LivestateError: The changelog or the data directory cannot be used.
        """
        self._look_for_stores()
        self._thread.start()

    def stop(self) -> None:
        """Stop following and close all partitions. Views that queries still hold answer from the cache alone from here on."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        self._compactor.shutdown(cancel_futures=True)
        self._appliers.shutdown()
        for group in self._groups.values():
            group.close()

    def notify(self, group: GroupName | None = None) -> None:
        """Look for new epochs now.

        Args:
            group: Where one is expected; a hint, all groups are looked at.
        """
        self._wake.set()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._round()
        finally:
            self._ended = not self._stopping.is_set()

    def _round(self) -> None:
        self._wake.clear()
        if self._compacted.is_set():
            self._refresh()
        if time.monotonic() - self._definitions_at >= SECONDS_BETWEEN_DEFINITIONS:
            self._guard(None, self._look_for_stores)
        moved = [self._catch_up(group) for group in self._groups.values()]
        if not any(moved):
            self._wake.wait(self._options.poll_seconds)

    def _refresh(self) -> None:
        with self._moved:
            self._compacted.clear()
            for group in self._groups.values():
                group.refresh()
            self._moved.notify_all()

    def _look_for_stores(self) -> None:
        claim(self._setup.directory, self._changelog.identity())
        by_group: dict[GroupName, list[StoreDefinition]] = {}
        for definition in self._changelog.definitions().values():
            by_group.setdefault(definition.group, []).append(definition)
        for name, definitions in by_group.items():
            if name not in self._groups:
                self._groups[name] = GroupState(name, self._changelog, self._setup, self._appliers, self._compact_soon)
            self._groups[name].add_stores(definitions)
        for group in self._groups.values():
            for store in group.partitions:
                store.release()
        self._renew_catalog()
        self._definitions_at = time.monotonic()

    def _renew_catalog(self) -> None:
        definitions = {name: definition for group in self._groups.values() for name, definition in group.definitions.items()}
        if definitions != self._catalog.definitions:
            owners = {name: group for group in self._groups.values() for name in group.definitions}
            self._catalog = _Catalog(definitions, owners)

    def _catch_up(self, group: GroupState) -> bool:
        """Apply what is there; whether something was."""
        if time.monotonic() < self._retry_at.get(group.group, 0.0):
            return False
        moved = False
        while not self._stopping.is_set() and self._guard(group.group, group.step):
            moved = True
            if not group.definitions.keys() <= self._catalog.definitions.keys():
                self._renew_catalog()
            with self._moved:
                self._moved.notify_all()
        return moved

    def _guard(self, group: GroupName | None, action: Callable[[], bool | None]) -> bool:
        """Run something that may fail for a while: say so, now and then, and try again later. Queries go on at the epoch there is."""
        try:
            done = bool(action())
        except LivestateError as error:
            name = group or GroupName("")
            self._problems[name] = error.message
            self._retry_at[name] = time.monotonic() + self._options.retry_seconds
            self._definitions_at = time.monotonic()
            if time.monotonic() - self._complained.get(name, float("-inf")) > SECONDS_BETWEEN_COMPLAINTS:
                self._complained[name] = time.monotonic()
                _log.warning("%s is not getting on: %s", f"Group {name}" if name else "The search for stores", error.message)
            return False
        self._problems.pop(group or GroupName(""), None)
        return done

    def _compact_soon(self, store: PartitionStore) -> None:
        with self._compactions_lock:
            running = self._compactions.get(store.context.number)
            if (running is None or running.done()) and not self._stopping.is_set():
                self._compactions[store.context.number] = self._compactor.submit(self._compact, store)

    def _compact(self, store: PartitionStore) -> None:
        try:
            while not self._stopping.is_set() and store.compact():
                self._compacted.set()
                self._wake.set()
        except LivestateError as error:
            _log.warning("A partition could not be compacted: %s", error.message)

    # ---- what queries see

    def definitions(self) -> Mapping[StoreName, StoreDefinition]:
        """All stores that can be asked now."""
        return self._catalog.definitions

    @contextmanager
    def snapshot(self, stores: Collection[StoreName]) -> Iterator[Mapping[StoreName, StoreView]]:
        """As `StoreSource.snapshot`. The views are immutable; holding them is what keeps their bytes."""
        views: dict[StoreName, StoreView] = {}
        groups: dict[GroupName, GroupView] = {}
        for store in stores:
            group = self._group_of(store)
            if group.group not in groups:
                groups[group.group] = self._view_of(group)
            views[store] = groups[group.group].stores[store]
        yield views

    def _group_of(self, store: StoreName) -> GroupState:
        owner = self._catalog.owners.get(store)
        if owner is None:
            raise NotFound(f"There is no store {store}.")
        return owner

    def _view_of(self, group: GroupState) -> GroupView:
        view = group.view
        if view is None:
            raise Unavailable(f"Group {group.group} is being brought to one epoch after a restart: {group.behind()}; try again shortly.")
        return view

    def wait_for(self, group: GroupName, epoch: Epoch, timeout_seconds: float) -> bool:
        """Wait until an epoch can be read.

        Returns:
            Whether it can; False after the time-out.
        """

        def is_there() -> bool:
            state = self._groups.get(group)
            return state is not None and state.view is not None and state.view.epoch >= epoch

        with self._moved:
            return self._moved.wait_for(is_there, timeout_seconds)

    def wait_until_compact(self, timeout_seconds: float) -> bool:
        """Wait until compaction has caught up with the epochs that can be read when this is called, and queries see its work.

        Returns:
            Whether they do; False after the time-out.
        """
        deadline = time.monotonic() + timeout_seconds
        with self._compactions_lock:
            running = list(self._compactions.values())
        _, late = wait(running, timeout_seconds)
        with self._moved:
            return not late and self._moved.wait_for(lambda: not self._compacted.is_set(), deadline - time.monotonic())

    def status(self) -> Sequence[StoreStatus]:
        """All stores, ordered by name."""
        rows = [row for group in list(self._groups.values()) for row in self._group_status(group)]
        return sorted(rows, key=lambda row: row.store)

    def _group_status(self, group: GroupState) -> Iterator[StoreStatus]:
        view = group.view
        epoch = view.epoch if view else Epoch(0)
        problem = _ENDED if self._ended else self._problems.get(group.group, "")
        newest, lag_seconds = epoch, 0.0
        try:
            newest = self._changelog.newest_epoch(group.group, group.epoch)
            waiting = self._changelog.read_commit(group.group, Epoch(epoch + 1)) if newest > epoch else None
            lag_seconds = max(0.0, (self._now() - waiting.committed_at) / 1e6) if waiting else 0.0
        except LivestateError as error:
            problem = problem or error.message
        for name, definition in group.definitions.items():
            versions = list(view.stores[name].versions.values()) if view else []
            yield StoreStatus(
                store=name,
                group=group.group,
                epoch=epoch,
                newest_epoch=newest,
                lag_seconds=lag_seconds,
                rows=sum(version.live_rows for version in versions),
                stored_rows=sum(version.stored_rows for version in versions),
                bytes=sum(version.nbytes for version in versions),
                partitions=definition.partitions,
                segments=sum(len(version.segments) for version in versions),
                problem=problem,
            )
