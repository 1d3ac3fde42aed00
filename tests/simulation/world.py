"""One run of the simulation: what happens is drawn, and after each step, and now and then within one, every
host answers right or not at all.
"""

from __future__ import annotations

import gc
import os
import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from itertools import islice, pairwise
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import TypeVar
from unittest import mock
from weakref import WeakSet

import pyarrow as pa

from engine.changelog import Changelog, Commit, SnapshotRetention
from engine.changelog.backup import back_up, finished_mark, restore
from engine.changelog.codec import decode_commit
from engine.changelog.commit import BEFORE_FIRST, Slice
from engine.changelog.layout import commit_path, data_epoch, data_path, group_path
from engine.changelog.store_drops import Removed, remove_dropped_stores
from engine.errors import Corrupt, InvalidInput, LivestateError, NotFound
from engine.model.schema import Epoch, GroupName, PartitionId, StoreDefinition
from engine.processes.right_of_way import RIGHT_OF_WAY
from engine.replica.catch_up import SECONDS_BETWEEN_DOUBTS
from engine.replica.commit_queue import LARGE_EPOCH_BYTES
from engine.replica.group import QUICK_BYTES
from engine.replica.group_views import GroupView
from engine.replica.partition_places import store_path
from engine.state.damage import DamagedError
from tests.simulation.disk import Died, DiskCopy, Life
from tests.simulation.files import Machine
from tests.simulation.host import IMPATIENT, PATIENT, STATE, STATE_IN_PAGES, SimulatedHost
from tests.simulation.jobs import Job
from tests.simulation.kinds import GROUP, HISTORY, HOUR, LATEST, OTHER_KINDS, PLAIN_HISTORY, SEEN
from tests.simulation.model import (
    AMOUNTS,
    OTHER_AMOUNTS,
    RECENT,
    STORES,
    TOTALS,
    WATCHED,
    State,
    Tables,
    shapes_at,
    view_rows,
)
from tests.simulation.objects import HeardObjects, ObjectStore, RestoredObjects, UnreliableObjects
from tests.simulation.this_thread import ForThisThread
from tests.support.large_ways import STATE_LIMITS, large_ways

HELD: Mapping[str, Sequence[PartitionId]] = {
    "a": [PartitionId(0), PartitionId(1)],
    "b": [PartitionId(0)],
    "c": [PartitionId(1), PartitionId(0)],
}
ROUNDS = 60
DAY = 24 * HOUR
SECOND = 1_000_000
STEPS_BETWEEN_MOMENTS = 40
"""Steps of processes, about, between two moments in which others do something meanwhile."""
STEPS_OF_A_RESTORE = 6
"""Likewise, where the process restores a backup, which is short."""
MOST_STATEMENTS, STATEMENTS_READ_ONE_IN = 3, 4
"""Statements that have pinned what they read, and how seldom one of them reads on."""
CHOICES_OF_STORES: Sequence[Sequence[StoreDefinition]] = [
    *([each] for each in STORES),
    [AMOUNTS],
    [AMOUNTS, TOTALS],
    [TOTALS, RECENT],
]
WIDE_FROM = 10_000_000
"""Seeds from which on worlds are wide: they have stores of all kinds and epochs of two data files; partitions
move between hosts, what disks have is damaged, and the changelog is backed up and restored.
"""
LARGE_FROM = 20_000_000
"""Seeds from which on wide worlds store what they have in the ways of large stores, too."""
WIDE_CHOICES: Sequence[Sequence[StoreDefinition]] = [
    *([each] for each in OTHER_KINDS),
    [LATEST, HISTORY],
    [AMOUNTS, LATEST],
    [LATEST, SEEN, PLAIN_HISTORY],
    [TOTALS, RECENT],
]
WIDE_ONE_IN = 3
"""Rounds of wide worlds in which what other worlds do not have happens."""
STORES_END_ONE_IN = 8
"""Rounds in which something happens to stores as such, where stores end."""
STOPS_ONE_IN = 8
"""Rounds in which a host is stopped, or loses a partition."""
WATCHED_ONE_IN = 3
"""Worlds with a store in memory beside the others."""

CREATED_LATER_ONE_IN = 3
"""Stores, where stores end, that are not there at first."""


_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class EpochGoneError(Exception):
    """An epoch was dropped before anybody has seen it."""


class World:
    """Jobs, hosts and a store.

    Args:
        seed: Says all that happens. Stores are dropped and created again where it is even.

    Attributes:
        counts: How often what has happened.
    """

    def __init__(self, seed: int) -> None:
        self.draw, self._names, self._moments = Random(seed), Random(-seed - 1), Random(seed + 2**40)
        # Drawn apart, so that worlds in which no store ends stay what they were.
        self._stores_draw = None if seed % 2 else Random(seed + 2**41)
        self._stops_draw = Random(seed + 2**42)
        self._wide_draw = Random(seed + 2**43) if seed >= WIDE_FROM else None
        self._large_draw = Random(seed + 2**44) if seed >= LARGE_FROM else None
        self.counts: Counter[str] = Counter()
        self._seconds = 0.0
        self._time = 1_700_000_000 * SECOND
        self._skew = 0
        self._trouble = 0
        self._states: dict[str, State] = {"": State()}
        self._written: dict[str, tuple[str, int]] = {}
        self._befores: dict[str, str] = {}
        self._tables: dict[tuple[tuple[str, tuple[Slice, ...]], ...], Tables] = {}
        self._strays: set[str] = set()
        self._checked: WeakSet[GroupView] = WeakSet()
        self._statements: list[tuple[SimulatedHost, int, GroupView]] = []
        self._log_copies: list[dict[str, pa.Buffer]] = []
        self._disk_copies: list[tuple[SimulatedHost, DiskCopy]] = []
        self._acting: object = None
        self._what = ""
        self._is_meanwhile = True
        self._is_restoring = False
        draw = self.draw
        self._machine = None if draw.randrange(4) else Machine(lambda: self._time)
        is_wide, self._held = self._wide_draw is not None, dict(HELD)
        self._backup: Changelog | None = None
        self._backup_logs = 0
        self._stores = list(draw.choice(WIDE_CHOICES if is_wide else CHOICES_OF_STORES))
        if not self._stops_draw.randrange(WATCHED_ONE_IN):
            self._stores.append(WATCHED)
        self._retention = draw.choice(
            [
                SnapshotRetention(kept=1, tail_seconds=0),
                SnapshotRetention(kept=2, tail_seconds=0),
                SnapshotRetention(kept=1, tail_seconds=3600, tail_epochs=20),
            ]
        )
        self.store = ObjectStore(self._machine, lambda: self._time, self, self.counts)
        self._jobs = [
            Job(name, self.store, draw, self.counts, self, has_more_files=is_wide) for name in ("p", "q")
        ]
        pieces = self._wide_draw.choice([1, STATE.apply_bytes]) if self._wide_draw else STATE.apply_bytes
        laid_out = STATE_IN_PAGES if self._large_draw and self._large_draw.randrange(2) else STATE
        self.hosts = [
            SimulatedHost(
                name,
                self._held,
                self.store,
                draw,
                self._clock,
                self._microseconds,
                self._retention,
                self,
                replace(laid_out, apply_bytes=pieces),
                may_be_damaged=is_wide,
            )
            for name in HELD
        ]

    def _truth(self) -> Changelog:
        return Changelog("memory://", {}, self.store.objects)

    def _heard(self, commit: Commit, remembered: Mapping[str, pa.Buffer]) -> Changelog:
        """The changelog as it is for whoever has heard of what a commit takes up, and of nothing since.

        Args:
            commit: The commit.
            remembered: As of `HeardObjects`.
        """
        return Changelog("memory://", {}, HeardObjects(self.store.objects, remembered, commit.generation))

    def _other_truths(self) -> Iterator[tuple[Changelog, Mapping[str, pa.Buffer]]]:
        """The changelog as it is for whoever has not heard of a skip yet, or not that it is in the changelog
        no more, as that was restored; and the amendments that are remembered there.
        """
        for skip in self._truth().amendments(GROUP).exclusions().skips.values():
            yield Changelog("memory://", {}, HeardObjects(self.store.objects, {}, skip.number - 1)), {}
        for amendments in self.store.lost_amendments:
            yield Changelog("memory://", {}, HeardObjects(self.store.objects, amendments)), amendments

    @contextmanager
    def _watch(self) -> Iterator[None]:
        """Look at the changelog, and do nothing to it."""
        if self._machine is None:
            yield
            return
        was_watched, self._machine.is_watched = self._machine.is_watched, True
        try:
            yield
        finally:
            self._machine.is_watched = was_watched

    # ---- clocks and chance

    def _clock(self) -> float:
        self._seconds += SECONDS_BETWEEN_DOUBTS / 4
        return self._seconds

    def _microseconds(self) -> int:
        return self._time + self._skew

    def _job_clock(self) -> int:
        self._time += 1000
        return 1000 * self._microseconds()

    def _token(self, nbytes: int) -> str:
        """What is drawn at random elsewhere: names sort the same way each time a seed is run."""
        return self._names.randbytes(nbytes).hex()

    # ---- what happens

    def run(self) -> None:
        """Have things happen, then peace; see that all hosts come to what the store has."""
        with ExitStack() as patches:
            # What an error's frames hold would go at other moments in every process, and with it the room of
            # segments on a disk that is full.
            gc.disable()
            patches.callback(gc.enable)
            if self._large_draw:
                patches.enter_context(large_ways(self._large_draw, STATE_LIMITS))
            large = self.draw.choice([1, LARGE_EPOCH_BYTES])
            patches.enter_context(mock.patch("engine.replica.commit_queue.LARGE_EPOCH_BYTES", large))
            patches.enter_context(
                mock.patch("engine.replica.group.QUICK_BYTES", self.draw.choice([1, QUICK_BYTES]))
            )
            clock = SimpleNamespace(time_ns=self._job_clock, monotonic=lambda: self._time / SECOND)
            patches.enter_context(mock.patch("engine.changelog.writer.time", ForThisThread(clock, time)))
            hosts_clock = SimpleNamespace(monotonic=self._clock)
            patches.enter_context(
                mock.patch("engine.changelog.amendments.time", ForThisThread(hosts_clock, time))
            )
            chance = ForThisThread(
                SimpleNamespace(token_hex=self._token), SimpleNamespace(token_hex=secrets.token_hex)
            )

            def token_hex(nbytes: int) -> str:
                return str(chance.token_hex(nbytes))

            patches.enter_context(mock.patch("secrets.token_hex", token_hex))
            # Nobody waits here, and nobody damages a commit: both cost a good deal.
            patches.enter_context(mock.patch.object(RIGHT_OF_WAY, "give_way", lambda: None))
            patches.enter_context(mock.patch("engine.changelog.epochs.decode_commit", _decode_commit))
            patches.enter_context(mock.patch("engine.changelog.backup.ThreadPoolExecutor", InOrder))
            if self._machine is not None:
                files = ForThisThread(self._machine.os, os)
                patches.enter_context(mock.patch("engine.changelog.local_objects.os", files))
            for store in self._stores:
                if self._stores_draw is None or self._stores_draw.randrange(CREATED_LATER_ONE_IN):
                    self._truth().create_store(store)
            for _ in range(ROUNDS):
                self._have_round()
            self._trouble, self._skew, self._is_meanwhile = 0, 0, True
            self.store.forget_late()
            if self._machine is not None:
                self._machine.life.steps = None
            self._settle()
            if self._stores_draw:
                self._begin_anew()

    def _have_round(self) -> None:
        """Have something happen, and now and then something of what is rare."""
        self._have_something_happen(self.draw, WEIGHTS)
        if self._stores_draw and not self._stores_draw.randrange(STORES_END_ONE_IN):
            self._have_something_happen(self._stores_draw, WEIGHTS_OF_STORES)
        if not self._stops_draw.randrange(STOPS_ONE_IN):
            self._have_something_happen(self._stops_draw, WEIGHTS_OF_STOPS)
        if self._wide_draw and not self._wide_draw.randrange(WIDE_ONE_IN):
            self._have_something_happen(self._wide_draw, WEIGHTS_OF_WIDE)
        self.read_commits()
        self._check_views()

    def _begin_anew(self) -> None:
        """Have all stores written again, whatever became of them; nothing is left of what was dropped."""
        self._take_strays_away()
        writer = Job("last", self.store, self.draw, self.counts, self)
        for store in self._stores:
            writer.create_store(store, 0)
        for _ in range(10):
            writer.append(0, self._microseconds())
            if not writer.acknowledged and writer.is_refused:
                # A job went on while the log was restored: nobody goes on behind its epoch.
                writer.skip(self._microseconds(), 0, behind=0)
        assert writer.acknowledged, "nothing can be written any more"
        self.read_commits()
        self._settle()
        self._check_leftovers()

    def _take_strays_away(self) -> None:
        """Take away what stands behind a gap since a backup was restored: as if it were restored once more,
        with all jobs stopped, as the error asks for. A job that went on has committed it, and could not take
        it back.
        """
        if self.counts["restored backup"]:
            with self._watch():
                strays = self._strays_behind_gap(self._truth())
                self.store.objects.delete([commit_path(GROUP, epoch) for epoch in strays])
            self.counts["stray behind a gap"] += len(strays)

    def _have_something_happen(self, draw: Random, weights: Mapping[str, int]) -> None:
        what = draw.choices(list(weights), list(weights.values()))[0]
        host, job = draw.choice(self.hosts), draw.choice(self._jobs)
        self.counts[what] += 1
        self._what = what
        self._is_meanwhile = False
        self._acting = job if what in _OF_JOBS else host
        try:
            self._do(what, host, job)
        except Died:
            assert self._machine is not None
            assert not self._machine.has_power
        finally:
            self._is_meanwhile = True
        if self._machine is not None and not self._machine.has_power:
            self._lose_power_of_log()

    def _do(self, what: str, host: SimulatedHost, job: Job) -> None:  # noqa: C901, PLR0912 - a case for each
        draw = self._wide_draw if self._wide_draw and what in WEIGHTS_OF_WIDE else self.draw
        match what:
            case "append":
                for _ in range(draw.randint(1, 6)):
                    job.append(self._trouble, self._microseconds())
            case "new term":
                job.end_term()
            case "rivals":
                for number in range(8):
                    rival = self._jobs[number % 2]
                    self._acting = rival
                    rival.append(self._trouble, self._microseconds())
                    if number % 4 < 2:
                        rival.end_term()
            case "migration":
                wide = [AMOUNTS.name, LATEST.name]
                job.migrate(draw.choice(wide) if self._wide_draw else AMOUNTS.name, self._trouble)
            case "skip":
                job.skip(self._microseconds(), self._trouble)
            case "follow":
                host.follow(self._trouble)
            case "compact":
                host.compact()
            case "snapshot":
                host.write_snapshot(self._trouble, draw.choice([PATIENT, IMPATIENT]))
            case "statement":
                self._begin_statement(host)
            case "crash":
                host.die_within(draw.randrange(60), self._trouble)
            case "power loss":
                host.die_within(draw.randrange(60), self._trouble)
                host.disk.lose_power(draw)
            case "power loss of the log":
                if self._machine is not None:
                    self._machine.life.steps = draw.randrange(200)
            case "new disk":
                host.end()
                host.disk.clear()
            case "copy of a disk":
                self._disk_copies.append((host, host.disk.copy()))
            case "older disk":
                if self._disk_copies:
                    owner, copy = draw.choice(self._disk_copies)
                    owner.end()
                    owner.disk.restore(copy)
            case "stop":
                host.stop()
            case "lost partition":
                if self._stops_draw.randrange(2):
                    host.stop()
                else:
                    host.end()
                host.disk.lose_partition(self._stops_draw)
            case "lost commit":
                self._lose_commit(self._stops_draw, host)
            case "drop":
                job.drop(self._retention, self._microseconds(), self._trouble)
            case "trouble":
                self._trouble = draw.choice([0, 0, 2, 10, 40])
            case "clock":
                self._time += draw.choice([SECOND, HOUR, DAY])
                self._skew = draw.choice([0, 0, 0, -DAY, -SECOND, SECOND, DAY])
            case "copy of the log":
                with self._watch():
                    self._log_copies.append(self.store.copy())
            case "older log":
                if self._log_copies:
                    self._restore_log(draw.choice(self._log_copies))
            case "backup":
                self._back_up(draw)
            case "restored backup":
                self._restore_backup(draw)
            case "moved partitions":
                self._move_partitions(draw, host)
            case "damage":
                host.end()
                host.disk.flip_bit(draw)
            case "scrub":
                host.scrub()
            case "full disk":
                host.disk.room = draw.choice([None, *range(9), 20, 60])
            case _:
                self._have_store_change(what, job)

    def _restore_log(self, objects: dict[str, pa.Buffer], running: Collection[Job] = ()) -> None:
        """Have the changelog be another one, and all jobs started again but those that still run."""
        if self._machine is not None:
            self._machine.life.steps = None
        self.store.restore(objects)
        if self._machine is not None:
            # docs/backup.md asks for it: names of before that a loss of power brings back are taken for
            # epochs.
            self._machine.root.sync()
        for each in self._jobs:
            if each not in running:
                each.end_term()

    def _lose_commit(self, draw: Random, host: SimulatedHost) -> None:
        """Have a commit that others follow be away while a host starts: it does not answer from before."""
        if self._machine is not None:
            return
        with self._watch():
            self.read_commits()
            self.store.forget_late()  # no writer of before comes into the gap
            truth = self._truth()
            floor = truth.floor(GROUP)
            epochs = [epoch for epoch in truth.committed_epochs(GROUP)[:-1] if epoch >= floor]
        if not epochs:
            return
        lost = draw.choice(epochs)
        path = commit_path(GROUP, lost)
        data = self.store.objects.get(path)
        assert data is not None
        host.end()
        self.store.objects.delete([path])
        self._is_meanwhile = True
        try:
            host.follow(0)
            self._check_views()
            view = host.view
            assert view is None or view.epoch >= lost, f"it answers from before epoch {lost}, which is lost"
            self.counts["host before a gap"] += view is None
        finally:
            self._is_meanwhile = False
            assert self.store.objects.create(path, [data])

    def _back_up(self, draw: Random) -> None:
        """Make a backup at the newest epoch or an earlier one, or bring one up to date, or die at it."""
        objects = UnreliableObjects(self.store, draw, Life(moments=self))
        newest = self._truth().newest_epoch(GROUP)
        epochs = {} if draw.randrange(4) else {GROUP: Epoch(draw.randrange(newest + 1))}
        if self._backup is None or not draw.randrange(4):
            self._backup, self._backup_logs = Changelog.open("memory://"), self.counts["older log"]
        steps = draw.choice([draw.randrange(60), None, None])
        source = Changelog("memory://", {}, objects)
        try:
            for _ in islice(back_up(source, self._backup, epochs, self._time), steps):
                pass
        except InvalidInput as error:
            assert self.counts["older log"] > self._backup_logs, error.message
        except LivestateError:
            self.counts["no backup"] += 1

    def _restore_backup(self, draw: Random) -> None:
        """Have the changelog be what a backup has, often one that was made just now; what is finished of one
        can be restored at any time.
        """
        if draw.randrange(2):
            self._back_up(draw)
        mark = None if self._backup is None else finished_mark(self._backup)
        if self._backup is None or mark is None or mark.epochs is None:
            return
        asked: dict[GroupName, Epoch] = {}
        if GROUP in mark.epochs and not draw.randrange(4):
            asked = {GROUP: Epoch(draw.randrange(mark.epochs[GROUP] + 1))}
        try:
            self._restore_at(self._backup, Changelog.open("memory://"), asked)
        except NotFound:
            assert asked, "a backup is not whole"
            return
        # One that is behind may be one that was fenced.
        newest = self._truth().newest_epoch(GROUP)
        running = [job for job in self._jobs if draw.randrange(2) and job.epoch == newest]
        self._restore_log({}, running)
        acknowledged = {digest for job in self._jobs for digest in job.acknowledged}
        self._is_restoring = True
        while self._is_restoring:
            # Hosts go on meanwhile, and jobs try to.
            life = Life(draw.choice([draw.randrange(60), None]), self)
            with suppress(Died):
                objects = RestoredObjects(self.store.objects, life)
                self._restore_at(self._backup, Changelog("memory://", {}, objects), asked)
                self._is_restoring = False
            self.counts["restore that died"] += self._is_restoring
        self.store.has_news = True
        self.counts["older log"] += 1
        new = {digest for job in self._jobs for digest in job.acknowledged} - acknowledged
        truth = self._truth()
        written = [truth.read_written_commit(GROUP, epoch) for epoch in truth.committed_epochs(GROUP)]
        there = self._history() | {commit.digest for commit in written if commit is not None}
        assert new <= there, "what was committed while a backup was restored is lost"

    def _restore_at(self, backup: Changelog, place: Changelog, epochs: Mapping[GroupName, Epoch]) -> None:
        for _ in restore(Changelog("memory://", {}, backup.objects), place, epochs):
            pass

    def _move_partitions(self, draw: Random, host: SimulatedHost) -> None:
        """Have a host hold others from its next start on; some host holds each."""
        host.end()
        first, second = HELD["a"]
        self._held[host.name] = draw.choice([[first], [second], [first, second], [second, first]])
        if {number for held in self._held.values() for number in held} != {first, second}:
            self._held[host.name] = [first, second]

    def _have_store_change(self, what: str, job: Job) -> None:
        """Have a store dropped, what is left of it removed, or one of this name created, or all of that."""
        assert self._stores_draw is not None
        store = self._stores_draw.choice(self._stores)
        if what in ("drop of a store", "drop and new store"):
            job.drop_store(store.name, self._microseconds(), self._trouble)
        is_removed = what == "removal" or (what == "drop of a store" and self._stores_draw.randrange(2))
        # Epochs that go while one is being passed by are not told of that: decision note 96 counts the cost.
        if is_removed and self._what != "skip":
            job.remove_dropped_stores(self._trouble)
        if what in ("new store", "drop and new store"):
            other = OTHER_AMOUNTS if store is AMOUNTS else store
            job.create_store(self._stores_draw.choice([store, other]), self._trouble)

    def come(self) -> None:
        """See `Moments.come`."""
        steps = STEPS_OF_A_RESTORE if self._is_restoring else STEPS_BETWEEN_MOMENTS
        if self._is_meanwhile or self._moments.randrange(steps):
            return
        self._is_meanwhile = True
        try:
            self._have_others_act()
        finally:
            self._is_meanwhile = False

    def _have_others_act(self) -> None:
        """Between two steps of a process another one does something, and statements read."""
        draw = self._moments
        host = draw.choice([each for each in self.hosts if each is not self._acting])
        job = draw.choice([each for each in self._jobs if each is not self._acting])
        common = ["read", "read", "append", "follow", "snapshot", "drop", "compact"]
        if self._is_restoring:
            common = ["read", "append", "follow", "follow", "snapshot", "snapshot", "compact"]
        has_more = self._stores_draw and not self._is_restoring
        what = draw.choice([*common, *WEIGHTS_OF_STORES] if has_more else common)
        self.counts[f"{what} meanwhile"] += 1
        match what:
            case "append":
                job.append(self._trouble, self._microseconds())
            case "follow":
                host.follow(self._trouble)
            case "snapshot":
                host.write_snapshot(self._trouble, draw.choice([PATIENT, IMPATIENT]))
            case "drop":
                job.drop(self._retention, self._microseconds(), self._trouble)
            case "compact":
                host.compact()
            case _ if what in WEIGHTS_OF_STORES:
                self._have_store_change(what, job)
        self.read_commits()
        self._check_views()

    def _lose_power_of_log(self) -> None:
        """Have the machine of the changelog lose its power, and everybody who had it at hand with it. All
        that was relied on is there.
        """
        assert self._machine is not None
        relied_on = {digest for job in self._jobs for digest in job.acknowledged}
        relied_on |= {view.digest for host in self.hosts for view in host.views}
        machine, self._machine.life.steps = self._machine, None
        relied_on &= self._history()
        self.counts["torn"] += machine.lose_power(self.draw)
        self.store.forget_late()
        for host in self.hosts:
            host.end()
            host.disk.lose_power(self.draw)
        for job in self._jobs:
            job.end_term()
        self.read_commits()
        lost = relied_on - self._history()
        assert not lost, f"{len(lost)} commits that were relied on are lost"

    def _history(self) -> set[str]:
        """The digests of all commits up to the newest."""
        with self._watch():
            self.read_commits()
            newest = self._truth().newest_epoch(GROUP)
            commit = self._truth().read_commit(GROUP, newest) if newest else None
        digest, found = "" if commit is None else commit.digest, set()
        while digest:
            found.add(digest)
            digest = self._befores.get(digest, "")
        return found

    # ---- what must be

    def read_commits(self) -> None:
        """Take note of what has been committed: the state that each commit leads to."""
        if self.store.has_news and not self._is_restoring:
            with self._watch():
                truth = self._truth()
                newest = truth.newest_epoch(GROUP)
                self._take_note(self._unknown_commits(truth, newest), truth, {})
                for other, remembered in self._other_truths():
                    # Whoever reads a commit that says so hears of what it lacks, and who cannot read
                    # epochs any more takes a snapshot, which is of the changelog as it is.
                    with suppress(Corrupt, NotFound, EpochGoneError):
                        commits = self._unknown_commits(other, newest, other.floor(GROUP))
                        self._take_note(commits, other, remembered)
            self.store.has_news = False

    def _unknown_commits(
        self, truth: Changelog, newest: Epoch, floor: Epoch = BEFORE_FIRST
    ) -> Sequence[Commit]:
        """The commits that lead to states that are not known, in order.

        Raises:
            EpochGoneError: One of them is not there any more, or is before the floor.
        """
        unknown: list[Commit] = []
        for epoch in range(newest, 0, -1):
            commit = truth.read_commit(GROUP, Epoch(epoch))
            if commit is None:
                raise EpochGoneError(f"epoch {epoch} is gone before anybody has seen it")
            if commit.digest in self._states:
                if unknown or not self._is_stray(truth, commit):
                    break
                # What a job of before a restore has committed says nothing of what was before.
                continue
            if epoch < floor:
                # It may be of a writer that comes too late, and takes it back.
                raise EpochGoneError(f"epoch {epoch} was dropped before anybody has seen it")
            unknown.append(commit)
            if commit.before in self._states and not self._is_stray(truth, commit):
                break  # epochs before one that is passed by may have gone
        return unknown[::-1]

    def _is_stray(self, truth: Changelog, commit: Commit) -> bool:
        """Whether a commit does not follow the one before it, which is there."""
        before = truth.read_commit(GROUP, Epoch(commit.epoch - 1)) if commit.epoch > 1 else None
        return before is not None and before.digest != commit.before

    def _has_stray(self, truth: Changelog) -> bool:
        """Whether the changelog contradicts itself."""
        commits = [truth.read_commit(GROUP, epoch) for epoch in truth.committed_epochs(GROUP)]
        return any(
            one is not None
            and other is not None
            and one.epoch + 1 == other.epoch
            and self._is_stray(truth, other)
            for one, other in pairwise(commits)
        )

    def _strays_behind_gap(self, truth: Changelog) -> Sequence[Epoch]:
        """The commits behind a gap that stand behind none of the history before it."""
        history, newest = self._history(), truth.newest_epoch(GROUP)
        strays = []
        for epoch in truth.committed_epochs(GROUP):
            commit = truth.read_commit(GROUP, epoch) if epoch > newest else None
            if commit is not None and commit.before not in history:
                strays.append(epoch)
        return strays

    def _take_note(
        self, commits: Sequence[Commit], truth: Changelog, remembered: Mapping[str, pa.Buffer]
    ) -> None:
        has_drops = self._stores_draw is not None and bool(truth.exclusions(GROUP).drops)
        for commit in commits:
            before = commit.before or ""
            if before not in self._states:
                # A job that ran on while a backup was restored has committed it behind one of before, whose
                # number is that of an epoch which is passed by: it follows nothing, and no host reads it.
                is_stray = before in self._strays or self._is_stray(truth, commit)
                assert self.counts["restored backup"] and is_stray, (
                    f"epoch {commit.epoch} stands behind one that nobody has seen"
                )
                self._strays.add(commit.digest)
                continue
            heard, applied = truth, commit
            if has_drops:
                # Who has not heard of them reads rows of stores that have ended since.
                heard = self._heard(commit, remembered)
                written = truth.read_written_commit(GROUP, commit.epoch)
                assert written is not None
                applied = heard.exclusions(GROUP).keep_rows(written)
            try:
                tables = self._read_rows(applied, heard)
            except Corrupt:
                if not has_drops:
                    raise
                # All is read before a file goes: those of this commit, which came late, went before it was
                # there, with the store that they are of. Nobody can read it who has not heard of that.
                heard, applied = truth, commit
                tables = self._read_rows(applied, heard)
            self._states[commit.digest] = self._states[before].follow(applied, heard, tables)
            self._check_once(commit)

    def _read_rows(self, commit: Commit, heard: Changelog) -> Tables:
        """The rows of a commit, which was read before if it is told anew of a history where others are passed
        by: its files may be gone, as those of stores that were dropped since.
        """
        files = tuple((file.name, file.slices) for file in commit.files if file.name)
        if self._stores_draw is None or not files:
            return heard.read_rows(commit, shapes_at(heard, commit))
        if files not in self._tables:
            self._tables[files] = heard.read_rows(commit, shapes_at(heard, commit))
        return self._tables[files]

    def _check_once(self, commit: Commit) -> None:
        """See that no batch is in a history twice."""
        self._befores[commit.digest] = commit.before or ""
        if commit.query_id is None or commit.batch_id is None:
            return
        batch = self._written[commit.digest] = commit.query_id, commit.batch_id
        before = self._befores[commit.digest]
        while before:
            assert self._written.get(before) != batch, f"batch {batch} is written twice"
            before = self._befores.get(before, "")

    def _begin_statement(self, host: SimulatedHost) -> None:
        """Have a statement read from a host for a while, whatever happens there."""
        if host.view is not None:
            self._statements = [*self._statements[-MOST_STATEMENTS + 1 :], (host, host.starts, host.view)]

    def _check_views(self) -> None:
        """See that what hosts can answer from is right, and stays so for those who have begun to read."""
        self._statements = [each for each in self._statements if each[0].starts == each[1]]
        for host in self.hosts:
            for view in host.views:
                if view not in self._checked and self._check_or_meet_damage(view, is_past=host.view is None):
                    self._checked.add(view)
        if self._statements and not self._moments.randrange(STATEMENTS_READ_ONE_IN):
            self._check_or_meet_damage(self._moments.choice(self._statements)[2])

    def _check_or_meet_damage(self, view: GroupView, *, is_past: bool = False) -> bool:
        """See that a view is right; whether it could be read."""
        try:
            self._check_view(view, is_past=is_past)
        except DamagedError:
            assert self.counts["damage"], "nothing was damaged"
            return False
        return True

    def _check_view(self, view: GroupView, *, is_past: bool = False) -> None:
        assert view.digest in self._states, f"epoch {view.epoch} is of no history"
        state = self._states[view.digest]
        # Of a store without partitions here nothing is answered but that they are built.
        for store in filter(lambda each: each.versions, view.stores.values()):
            found, wanted = view_rows(store), state.rows_of(store, is_past=is_past)
            assert found == wanted, f"{store.definition.name}, epoch {view.epoch}: {found}, not {wanted}"

    def _check_leftovers(self) -> None:
        """See that nothing is left of stores that were dropped, on disks or in files of their rows alone."""
        with self._watch():
            truth = self._truth()
            remove_dropped_stores(truth, GROUP)
            truth.collect(GROUP)
            assert remove_dropped_stores(truth, GROUP) == Removed()
            commits = [truth.read_commit(GROUP, epoch) for epoch in truth.committed_epochs(GROUP)]
            wanted = {
                data_path(GROUP, file.epoch, file.name)
                for commit in commits
                if commit is not None
                for file in commit.files
                if file.slices
            }
            # Where an older log was put back, a job may have staged an epoch that is still to come.
            newest = truth.newest_epoch(GROUP)
            listed = [path.lstrip("/") for path in self.store.objects.list(group_path(GROUP))]
            epochs = {path: data_epoch(GROUP, path) for path in listed}
            left = {
                path
                for path, epoch in epochs.items()
                if epoch is not None and (epoch <= newest or not self.counts["older log"])
            }
            left -= wanted
            assert not left, f"{sorted(left)} are of stores that were dropped"
        if self.counts["older log"]:
            return  # what hosts have of stores that the changelog does not know of any more stays
        stores = {store_path(GROUP, each.name, each.since) for each in truth.definitions().values()}
        for host in self.hosts:
            strange = {path for path in host.disk.contents if Path(*path.parts[-3:-1]) not in stores}
            assert not strange, f"a disk has {strange}, of stores that were dropped"
            self._statements.clear()
            self._checked.clear()
            gc.collect()
            orphans = host.orphans()
            assert not orphans, f"a host has stored {orphans}, which no version has"

    def _settle(self) -> None:
        truth = self._truth()
        for host in self.hosts:
            host.problems.clear()
            host.disk.room = None
            newest = truth.newest_epoch(GROUP)
            host.follow(0)
            commit = truth.read_commit(GROUP, newest)
            is_there = self._comes_to(host, commit, truth)
            if not newest and not is_there and host.problems:
                self.counts["host without a changelog"] += 1
                continue  # it is named, and nothing is moved for it
            if not is_there and self._stores_draw and self.counts["older log"]:
                # The changelog was restored to before a store was created that the host has: it cannot tell.
                self.counts["host started again"] += 1
                host.end()
                is_there = self._comes_to(host, commit, truth)
            if not is_there and self.counts["restored backup"]:
                # It was committed while a backup was restored: the group stands still, and says why.
                said = (
                    "contradicts itself"
                    if self._has_stray(truth)
                    else "missing, though later ones are there"
                    if self._strays_behind_gap(truth)
                    else ""
                )
                if said:
                    assert any(said in problem for problem in host.problems), host.problems[-3:]
                    self.counts["contradicting log"] += 1
                    continue
            assert is_there, f"a host does not come to epoch {newest}: {host.problems[-3:]}"

    def _comes_to(self, host: SimulatedHost, commit: Commit | None, truth: Changelog) -> bool:
        """Whether a host answers from a commit after a while."""
        for _ in range(20):
            self._check_views()
            if _is_settled(host, commit, truth):
                return True
            host.follow(0)
        return False


WEIGHTS_OF_STOPS = {"stop": 3, "lost partition": 2, "lost commit": 2}
WEIGHTS_OF_WIDE = {
    "backup": 4,
    "restored backup": 1,
    "moved partitions": 2,
    "damage": 3,
    "scrub": 3,
    "full disk": 6,
}
WEIGHTS_OF_STORES = {"drop of a store": 3, "new store": 3, "drop and new store": 2, "removal": 1}
_OF_JOBS = frozenset(["append", "new term", "rivals", "migration", "skip", "drop", *WEIGHTS_OF_STORES])
WEIGHTS = {
    "append": 30,
    "new term": 3,
    "rivals": 1,
    "migration": 2,
    "skip": 2,
    "follow": 25,
    "compact": 5,
    "snapshot": 15,
    "statement": 4,
    "crash": 6,
    "power loss": 4,
    "power loss of the log": 3,
    "new disk": 2,
    "copy of a disk": 2,
    "older disk": 2,
    "drop": 3,
    "trouble": 6,
    "clock": 2,
    "copy of the log": 2,
    "older log": 2,
}


def _decode_commit(group: GroupName, epoch: Epoch, data: pa.Buffer) -> Commit:
    return _decode_bytes(group, epoch, data.to_pybytes())


@lru_cache(256)
def _decode_bytes(group: GroupName, epoch: Epoch, data: bytes) -> Commit:
    return decode_commit(group, epoch, pa.py_buffer(data))


class InOrder:
    """Runs what it is given one after the other; of `ThreadPoolExecutor` what backups use."""

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> InOrder:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, work: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
        """As of an executor."""
        return map(work, list(items))


def _is_settled(host: SimulatedHost, commit: Commit | None, truth: Changelog) -> bool:
    """Whether a host answers from the newest commit, and has all stores that have begun by then."""
    digest, generation = ("", 0) if commit is None else (commit.digest, commit.generation)
    stores = {each.name for each in truth.definitions().values() if each.since <= generation}
    view = host.view
    if view is None:
        return not stores
    is_newest = view.digest == digest and view.stores.keys() == stores and host.newest_known == view.epoch
    return is_newest and all(set(store.versions) == set(host.held) for store in view.stores.values())
