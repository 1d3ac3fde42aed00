"""Writes snapshots of what a host holds, beside the threads that follow the changelog, and drops what they
make dispensable.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Lock, Thread

import pyarrow as pa

from engine.changelog import Changelog, Commit, Snapshots
from engine.changelog.snapshot import (
    HostChecksums,
    RowChecksums,
    Snapshot,
    StorePartition,
    disputed_partitions,
    droppable_before,
)
from engine.changelog.snapshots import FILE_BYTES
from engine.errors import Cancelled, LivestateError
from engine.model.row_checksum import RowChecksum, checksum_rows
from engine.model.schema import (
    TOMBSTONE_COLUMN,
    Epoch,
    GroupName,
    PartitionId,
    StoreDefinition,
    StoreName,
)
from engine.processes.scheduling import take_long_turns
from engine.replica.failures import Failures, log_failure
from engine.replica.group_views import GroupView
from engine.replica.history import is_first_behind
from engine.replica.partition_keys import partition_names
from engine.replica.snapshot_options import SnapshotOptions
from engine.replica.snapshot_schedule import DueSnapshot
from engine.state.live_rows import live_rows

_log = logging.getLogger(__name__)

LOOKS_BETWEEN_DROPS = 30
"""Epochs that stay, as hosts are away or the changelog took nothing, are looked at so much more seldom than a
snapshot that is being made.
"""
_DROPPING = "The dropping of epochs"


@dataclass(frozen=True)
class _GroupStores:
    """What is to be known of a group to drop its epochs.

    Attributes:
        group: The group.
        generation: How many amendments were in effect at a snapshot's epoch.
        definitions: Its stores there.
    """

    group: GroupName
    generation: int
    definitions: Mapping[StoreName, StoreDefinition]

    @staticmethod
    def of_view(view: GroupView) -> _GroupStores:
        """What a view says of it."""
        return _GroupStores(view.group, view.generation, view.definitions)


class SnapshotMaker:
    """Writes what a host holds into snapshots, and makes them count when all hosts have done so and have the
    same rows. For one thread.

    A host that has other rows than the others cannot tell why, but the changelog has the truth: it builds
    again what is disputed, unless more than half of the hosts have what it has. A snapshot that is disputed
    never counts, so that all epochs stay that are needed for that.

    Args:
        changelog: The changelog.
        options: When, and what stays.
        now: Gives the time, microseconds since 1970 UTC.
        stopping: Ends what is being written when it is set.

    Attributes:
        disputes: What there is to say of groups whose hosts had different rows at their last snapshot's
            epoch.
        silence: What there is to say of groups whose epochs stay because hosts have said nothing.
        differing: Partitions of groups whose rows on this host are to be built again, and why, since somebody
            last emptied this.
    """

    def __init__(
        self, changelog: Changelog, options: SnapshotOptions, now: Callable[[], int], stopping: Event
    ) -> None:
        self.disputes: dict[GroupName, str] = {}
        self.silence: dict[GroupName, str] = {}
        self.differing: dict[GroupName, Mapping[StorePartition, str]] = {}
        self._changelog = changelog
        self._options = options
        self._now = now
        self._stopping = stopping
        self._claims: dict[GroupName, tuple[Epoch, HostChecksums]] = {}
        self._undropped: dict[GroupName, _GroupStores] = {}
        """Groups of which epochs may have stayed that could have gone."""

    def advance(self, view: GroupView, commit: Commit, waited: float) -> bool:
        """Do what there is to do for a snapshot now.

        Args:
            view: What this host holds at the epoch.
            commit: The commit of the epoch.
            waited: Seconds since the snapshot was due.

        Returns:
            Whether that was all: the snapshot counts, or a later one does.

        Raises:
            LivestateError: The changelog cannot be reached or is full, or the host's state cannot be read.
                Call it again.
        """
        exclusions = self._changelog.exclusions(view.group)
        if any(exclusions.is_dropped(name, each.since) for name, each in view.definitions.items()):
            return True  # its partitions are closed
        snapshots = self._changelog.snapshots(view.group)
        epochs = snapshots.epochs()
        if any(epoch >= view.epoch for epoch in epochs):
            self.disputes.pop(view.group, None)
            if view.epoch in epochs:
                self._compare_with_snapshot(view, commit, snapshots)
            return True
        if not self._is_of_history(view, commit):
            return True  # and nothing is to be written where a changelog was moved away
        covered = frozenset[StorePartition]().union(*(part.covers for part in snapshots.parts(view.epoch)))
        mine = [
            place
            for place in _held_partitions(view)
            if place not in covered and self._is_my_turn(view, place, waited)
        ]
        written: RowChecksums = {}
        if mine:
            written = snapshots.write_part(
                view.epoch, view.definitions, mine, self._rows(view, mine), view.generation, commit.digest
            ).checksums
        self._claim(view, commit, snapshots, written)
        wanted = [
            (name, PartitionId(number))
            for name, definition in view.definitions.items()
            for number in range(definition.partitions)
        ]
        if not self._is_of_history(view, commit) or self._lacks_store(_GroupStores.of_view(view)):
            return True  # the changelog has another history by now, of which this would be no snapshot
        claims = snapshots.checksums(view.epoch, commit.digest)
        if waited < self._options.silent_seconds and self._places_with_silent_hosts(
            view.definitions, wanted, claims
        ):
            return False
        parts = [
            HostChecksums("a part of the snapshot", part.digest, part.checksums)
            for part in snapshots.parts(view.epoch)
            if part.digest == commit.digest
        ]
        disputed = disputed_partitions(claims) or disputed_partitions([*claims, *parts])
        if disputed:
            self._note_dispute(view, [*claims, *parts], disputed)
            return True
        if not snapshots.commit(commit, wanted):
            return False
        self.disputes.pop(view.group, None)
        _log.info("Group %s has a snapshot at epoch %d.", view.group, view.epoch)
        self._drop(_GroupStores.of_view(view))
        return True

    def _is_of_history(self, view: GroupView, commit: Commit) -> bool:
        """Whether the changelog has the epoch of a view, as it was applied, and is whole: while it is being
        restored epochs would go for a snapshot that the restore deletes.
        """
        if self._changelog.identity(is_fresh=True) is None:
            return False
        found = self._changelog.read_commit(view.group, view.epoch)
        return found is not None and found.digest == commit.digest

    def _lacks_store(self, known: _GroupStores) -> bool:
        """Whether the changelog has a store that a view lacked, as it had ended when that was made. The
        changelog was restored from a copy of before that: digests of epochs do not tell.
        """
        amendments = self._changelog.amendments(known.group)
        amendments.newest_number(is_fresh=True)
        drops = amendments.exclusions().drops
        for name, number in amendments.newest_ends.items():
            if name in known.definitions or (name in drops and drops[name].number == number):
                continue
            definition = self._changelog.definition_at(name, 0)
            if definition is not None and definition.since <= known.generation:
                return True
        return False

    @property
    def undropped(self) -> Collection[GroupName]:
        """The groups for which `drop_again` may have something to do."""
        return self._undropped.keys()

    def drop_again(self) -> None:
        """Drop what stayed when a snapshot came to count: hosts may have said meanwhile what they have, or
        the changelog may take again what says that epochs go.

        Raises:
            LivestateError: The changelog cannot be reached or is full. Call it again.
        """
        if self._changelog.identity(is_fresh=True) is None:
            return  # it is being restored
        for known in list(self._undropped.values()):
            if not self._lacks_store(known):
                self._drop(known)

    def _drop(self, known: _GroupStores) -> None:
        """Drop what is dispensable because of a snapshot whose rows all hosts have that hold them. Where one
        has not said so, what it has may be right, and the epochs would tell.
        """
        group = known.group
        self._undropped[group] = known
        self._changelog.generation(group)  # what was decided since must not be missed: nothing is undone
        snapshots = self._changelog.usable_snapshots(group)
        unheard = self._unheard_partitions(known, snapshots[-1]) if snapshots else []
        if unheard:
            self.silence[group] = (
                f"All epochs of group {group} stay in the changelog: of {partition_names(unheard)} not all "
                f"hosts have said which rows they have at epoch {snapshots[-1].epoch}. Start those that are "
                "down, or take them out of the deployment."
            )
        else:
            self.silence.pop(group, None)
        for snapshot in droppable_before(snapshots, self._options.retention, self._now()):
            if not self._unheard_partitions(known, snapshot) and self._changelog.can_replace_epochs(snapshot):
                dropped = self._changelog.drop_before(group, snapshot.epoch, self._stopping)
                _log.info("%d epochs of group %s were dropped.", dropped.epochs, group)
                break
        if not unheard:
            del self._undropped[group]

    def _unheard_partitions(self, known: _GroupStores, snapshot: Snapshot) -> Sequence[StorePartition]:
        """The partitions of a snapshot of which not all hosts have said that they have its rows; none where
        an older version wrote it.
        """
        checksums = snapshot.checksums
        claims = self._changelog.snapshots(known.group).checksums(snapshot.epoch, snapshot.digest)
        agreeing = [
            HostChecksums(
                claim.host,
                claim.digest,
                {place: each for place, each in claim.checksums.items() if checksums.get(place) == each},
            )
            for claim in claims
        ]
        places = [place for place in sorted(checksums) if place[0] in known.definitions]
        return self._places_with_silent_hosts(known.definitions, places, agreeing)

    def _claim(
        self, view: GroupView, commit: Commit, snapshots: Snapshots, known: RowChecksums
    ) -> HostChecksums:
        """Say once, for all hosts, what this one has at a view.

        Args:
            view: The view.
            commit: The commit of its epoch.
            snapshots: The snapshots of its group.
            known: Checksums that need not be computed.
        """
        if not self._has_claimed(view, commit):
            checksums = {
                place: known.get(place) or self._checksum(view, place) for place in _held_partitions(view)
            }
            claim = HostChecksums(self._options.host, commit.digest, checksums)
            snapshots.write_checksums(view.epoch, claim)
            self._claims[view.group] = view.epoch, claim
        return self._claims[view.group][1]

    def _has_claimed(self, view: GroupView, commit: Commit) -> bool:
        """Whether this host has said what it has at a view: epochs of other histories have its number."""
        epoch, claim = self._claims.get(view.group, (None, None))
        return claim is not None and (epoch, claim.digest) == (view.epoch, commit.digest)

    def _checksum(self, view: GroupView, place: StorePartition) -> RowChecksum:
        """The checksum of a partition's live rows."""
        total = RowChecksum()
        for _, batch in self._rows(view, [place]):
            if TOMBSTONE_COLUMN not in batch.schema.names:
                total += checksum_rows(batch)
        return total

    def _places_with_silent_hosts(
        self,
        definitions: Mapping[StoreName, StoreDefinition],
        places: Collection[StorePartition],
        claims: Collection[HostChecksums],
    ) -> Sequence[StorePartition]:
        """The partitions of which some hosts have not said yet what they have."""
        said = {(claim.host, place) for claim in claims for place in claim.checksums}
        heard = Counter(place for _, place in said)
        return [
            (name, number)
            for name, number in places
            if heard[name, number] < self._options.replicas(definitions[name], number)
        ]

    def _compare_with_snapshot(self, view: GroupView, commit: Commit, snapshots: Snapshots) -> None:
        """See that this host has the rows of a snapshot that counts already, if it has not said before what
        it has.
        """
        snapshot = snapshots.read(view.epoch)
        if self._has_claimed(view, commit) or snapshot is None or snapshot.digest != commit.digest:
            return
        claims = [
            self._claim(view, commit, snapshots, {}),
            HostChecksums("the snapshot", commit.digest, snapshot.checksums),
        ]
        disputed = disputed_partitions(claims)
        if not disputed:
            self._drop(_GroupStores.of_view(view))
            return
        self._note_dispute(view, claims, {place: snapshot.checksums[place] for place in disputed})
        earlier = [each for each in self._changelog.usable_snapshots(view.group) if each.epoch < view.epoch]
        base = earlier[-1].epoch if earlier else Epoch(0)
        # Either may be right. While the epochs are there, they tell, and nothing needs the snapshot.
        if is_first_behind(self._changelog, view.group, base):
            snapshots.retract(view.epoch)

    def _note_dispute(
        self,
        view: GroupView,
        claims: Collection[HostChecksums],
        disputed: Mapping[StorePartition, RowChecksum | None],
    ) -> None:
        """Say that hosts have different rows, and which of them this one builds again."""
        own = self._claims[view.group][1].checksums
        differing = {
            place: f"rows at epoch {view.epoch}, of which other hosts have others"
            for place, accepted in disputed.items()
            if place in own and own[place] != accepted
        }
        hosts = sorted(
            {claim.host for claim in claims if not disputed.keys().isdisjoint(claim.checksums.keys())}
        )
        names = partition_names(sorted(disputed))
        self.disputes[view.group] = (
            f"Hosts have different rows of {names} of group {view.group} at epoch {view.epoch} "
            f"({', '.join(hosts)}): what differs is built again from the changelog."
        )
        _log.error("%s", self.disputes[view.group])
        if differing:
            self.differing[view.group] = differing

    def _is_my_turn(self, view: GroupView, place: StorePartition, waited: float) -> bool:
        name, partition = place
        return (
            waited >= self._options.rank(view.definitions[name], partition) * self._options.patience_seconds
        )

    def _rows(
        self, view: GroupView, places: Collection[StorePartition]
    ) -> Iterator[tuple[StorePartition, pa.RecordBatch]]:
        for name, partition in places:
            for batch in live_rows(view.stores[name].versions[partition], FILE_BYTES):
                if self._stopping.is_set():
                    raise Cancelled(
                        "The host stops; the snapshot is left to other hosts, or to a later epoch."
                    )
                yield (name, partition), batch


def _held_partitions(view: GroupView) -> Collection[StorePartition]:
    """The partitions that a host holds at a view, in an order in which those of a store are neighbours."""
    return [
        (name, partition)
        for name, store in sorted(view.stores.items())
        for partition in sorted(store.versions)
    ]


@dataclass
class _Task:
    """A snapshot that is to be made.

    Attributes:
        view: What the host holds at its epoch.
        commit: The commit of the epoch.
        since: When it was asked for, by the monotonic clock.
        next_look: When there is something to do next.
    """

    view: GroupView
    commit: Commit
    since: float
    next_look: float

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"The snapshot of group {self.view.group}"


class Snapshotter:
    """The thread that writes a host's part of snapshots, beside those that follow the changelog.

    Args:
        changelog: The changelog.
        options: When, and what stays.
        now: Gives the time, microseconds since 1970 UTC.
    """

    def __init__(self, changelog: Changelog, options: SnapshotOptions, now: Callable[[], int]) -> None:
        self._changelog = changelog
        self._options = options
        self._tasks: dict[GroupName, _Task] = {}
        self._lock = Lock()
        self._wake, self._stopping = Event(), Event()
        self._maker = SnapshotMaker(changelog, options, now, self._stopping)
        self._failures: Failures[str] = Failures(options.retry_seconds)
        self._counted: dict[GroupName, Snapshot] = {}
        self._next_drop = 0.0
        self._thread = Thread(target=self._run, name="snapshot", daemon=True)

    def problem(self, group: GroupName) -> str:
        """Why a group's snapshot does not get on, in one sentence; empty where nothing is wrong, or none is
        due.
        """
        with self._lock:
            task = self._tasks.get(group)
        failing = "" if task is None else self._failures.problem(task.name)
        if group in self._maker.undropped:
            failing = failing or self._failures.problem(_DROPPING)
        return failing or self._maker.disputes.get(group, "") or self._maker.silence.get(group, "")

    def counted_snapshot(self, group: GroupName) -> Snapshot | None:
        """The newest snapshot of a group that counted when this host was done with one; None before."""
        return self._counted.get(group)

    def take_differing(self, group: GroupName) -> Mapping[StorePartition, str]:
        """The partitions of a group that are to be built again, as other hosts have other rows of them, and
        why; each is given once.
        """
        return self._maker.differing.pop(group, {})

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; what it has begun to write is removed."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def take(self, due: DueSnapshot) -> None:
        """Have a snapshot made. An older one of the group that is not complete yet is left to the other
        hosts.

        Args:
            due: Which.
        """
        clock = time.monotonic()
        with self._lock:
            self._tasks[due.view.group] = _Task(*due, clock, clock)
        self._wake.set()

    def _run(self) -> None:
        take_long_turns()
        while not self._stopping.is_set():
            self._wake.wait(self._seconds_to_wait())
            self._wake.clear()
            self._run_round()
            if self._maker.undropped and self._next_drop <= time.monotonic():
                self._drop_again()
        with self._lock:
            self._tasks.clear()

    def _drop_again(self) -> None:
        """Drop epochs that have stayed until now. Whatever fails is tried again."""
        try:
            self._maker.drop_again()
            self._failures.clear(_DROPPING)
        except BaseException as error:  # noqa: BLE001 - as for a snapshot
            if self._failures.note(_DROPPING, error, time.monotonic()) and not self._stopping.is_set():
                log_failure(_log, _DROPPING, error)
        self._next_drop = time.monotonic() + LOOKS_BETWEEN_DROPS * self._options.look_seconds

    def _run_round(self) -> None:
        for task in self._due_tasks():
            if self._is_done(task):
                self._failures.clear(task.name)
                with self._lock:
                    if self._tasks.get(task.view.group) is task:
                        del self._tasks[task.view.group]

    def _seconds_to_wait(self) -> float | None:
        with self._lock:
            looks = [task.next_look for task in self._tasks.values()]
        if self._maker.undropped:
            looks.append(self._next_drop)
        return max(0.0, min(looks) - time.monotonic()) if looks else None

    def _due_tasks(self) -> Collection[_Task]:
        clock = time.monotonic()
        with self._lock:
            return [task for task in self._tasks.values() if task.next_look <= clock]

    def _is_done(self, task: _Task) -> bool:
        """Do what there is to do now; whether that was all, or took too long. Whatever fails, fails for this
        group alone.
        """
        waited, pause = time.monotonic() - task.since, self._options.look_seconds
        try:
            if self._maker.advance(task.view, task.commit, waited):
                self._note_counted(task.view.group)
                return True
            self._failures.clear(task.name)
        except BaseException as error:  # noqa: BLE001 - the top of all work for a snapshot; a panic of obstore is no Exception
            pause = self._note_failure(task, error)
        task.next_look = time.monotonic() + pause
        return waited > self._options.give_up_seconds

    def _note_counted(self, group: GroupName) -> None:
        """Take note of the newest snapshot of a group, for whoever watches the host."""
        with suppress(LivestateError):
            newest = self._changelog.snapshots(group).newest_snapshot()
            if newest is not None:
                self._counted[group] = newest

    def _note_failure(self, task: _Task, error: BaseException) -> float:
        """Say what has failed; seconds until it is tried again."""
        clock = time.monotonic()
        if self._failures.note(task.name, error, clock) and not self._stopping.is_set():
            log_failure(_log, f"{task.name} at epoch {task.view.epoch}", error)
        return self._failures.seconds_left(task.name, clock)
