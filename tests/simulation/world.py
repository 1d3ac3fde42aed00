"""One run of the simulation: what happens is drawn, and after each step every host answers right or not at
all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from random import Random
from typing import Any
from unittest import mock

import pyarrow as pa

from engine.changelog import Changelog, Commit, SnapshotRetention, Writer
from engine.changelog.rows import partition_rows
from engine.errors import Corrupt, Fenced, LivestateError
from engine.model.schema import Epoch, GroupName, PartitionId, define_store
from engine.replica.catch_up import SECONDS_BETWEEN_DOUBTS
from engine.replica.commit_queue import LARGE_EPOCH_BYTES
from tests.simulation.disk import Life
from tests.simulation.host import IMPATIENT, PATIENT, SimulatedHost
from tests.simulation.objects import ObjectStore, UnreliableObjects
from tests.support.following import live_rows

GROUP = GroupName("g")
STORE = define_store(
    "amounts", pa.schema([("key", pa.int64()), ("amount", pa.int64())]), ["key"], partitions=2, group=GROUP
)
HELD: Mapping[str, Sequence[PartitionId]] = {
    "a": [PartitionId(0), PartitionId(1)],
    "b": [PartitionId(0)],
    "c": [PartitionId(1), PartitionId(0)],
}
KEYS = 8
ROUNDS = 60
DAY = 86_400_000_000
State = Mapping[int, int]


@dataclass
class Job:
    """A job that writes numbered batches.

    Attributes:
        name: Its query id.
        objects: The store as it gets at it.
        writer: Its term; None: it has to open one.
        batch: The number of its next batch.
        changes: What that is.
    """

    name: str
    objects: UnreliableObjects
    writer: Writer | None = None
    batch: int = 0
    changes: dict[int, int | None] = field(default_factory=dict)


class World:
    """Jobs, hosts and a store.

    Args:
        seed: Says all that happens.
    """

    def __init__(self, seed: int) -> None:
        self.draw, self._names = Random(seed), Random(-seed - 1)
        self.store = ObjectStore()
        self.counts: dict[str, int] = {}
        self._seconds = 0.0
        self._time = 1_700_000_000_000_000
        self._trouble = 0
        self._states: dict[str, State] = {"": {}}
        self._written: dict[str, tuple[str, int]] = {}
        self._befores: dict[str, str] = {}
        self._log_copies: list[dict[str, pa.Buffer]] = []
        self._disk_copies: list[tuple[SimulatedHost, dict[Any, dict[bytes, bytes]]]] = []
        self._truth().create_store(STORE)
        self.jobs = [Job(name, UnreliableObjects(self.store, self.draw, Life())) for name in ("p", "q")]
        self.hosts = [
            SimulatedHost(name, HELD, self.store, self.draw, self._clock, lambda: self._time) for name in HELD
        ]

    def _truth(self) -> Changelog:
        return Changelog("memory://", {}, self.store.objects)

    def _clock(self) -> float:
        self._seconds += SECONDS_BETWEEN_DOUBTS / 4
        return self._seconds

    # ---- what happens

    def run(self) -> None:
        """Have things happen, then peace; see that all hosts come to what the store has."""
        with ExitStack() as patches:
            large = self.draw.choice([1, LARGE_EPOCH_BYTES])
            patches.enter_context(mock.patch("engine.replica.commit_queue.LARGE_EPOCH_BYTES", large))
            patches.enter_context(mock.patch("engine.changelog.writer._wall_clock", self._wall_clock))
            patches.enter_context(mock.patch("secrets.token_hex", self._token))
            for _ in range(ROUNDS):
                self._happen()
                self._observe()
                self._check_views()
            self._trouble = 0
            self._settle()

    def _token(self, nbytes: int) -> str:
        """What is drawn at random elsewhere: names sort the same way each time a seed is run."""
        return self._names.randbytes(nbytes).hex()

    def _wall_clock(self) -> int:
        self._time += 1000
        return self._time

    def _happen(self) -> None:  # noqa: C901, PLR0912 - a case for each thing that happens
        draw = self.draw
        what = draw.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        self.counts[what] = self.counts.get(what, 0) + 1
        host, job = draw.choice(self.hosts), draw.choice(self.jobs)
        match what:
            case "append":
                for _ in range(draw.randint(1, 6)):
                    self._append(job)
            case "new term":
                job.writer = None
            case "follow":
                host.follow(self._trouble)
            case "compact":
                host.compact()
            case "snapshot":
                host.write_snapshot(self._trouble, draw.choice([PATIENT, IMPATIENT]))
            case "crash":
                host.die_within(draw.randrange(60), self._trouble)
            case "power loss":
                host.die_within(draw.randrange(60), self._trouble)
                host.disk.lose_power(draw)
            case "new disk":
                host.end()
                host.disk.contents.clear()
            case "copy of a disk":
                self._disk_copies.append((host, host.disk.copy()))
            case "older disk":
                if self._disk_copies:
                    owner, copy = draw.choice(self._disk_copies)
                    owner.end()
                    owner.disk.restore(copy)
            case "drop":
                self._truth().drop(GROUP, SnapshotRetention(kept=1, tail_seconds=0), 2**62)
            case "trouble":
                self._trouble = draw.choice([0, 0, 2, 10, 40])
            case "clock":
                self._time += draw.choice([-DAY, -1_000_000, 1_000_000, DAY])
            case "copy of the log":
                self._log_copies.append(self.store.copy())
            case "older log":
                if self._log_copies:
                    self.store.restore(draw.choice(self._log_copies))
                    for each in self.jobs:
                        each.writer = None

    def _append(self, job: Job) -> None:
        """Try to write the next batch of a job; what is not known to be written is tried again."""
        job.objects.trouble = self._trouble
        changelog = Changelog("memory://", {}, job.objects)
        if not job.changes:
            keys = self.draw.sample(range(KEYS), self.draw.randint(1, 3))
            job.changes = {key: self.draw.choice([None, self.draw.randrange(100)]) for key in keys}
        rows = pa.table(
            {
                "key": pa.array(job.changes, pa.int64()),
                "amount": pa.array(job.changes.values(), pa.int64()),
                "gone": [amount is None for amount in job.changes.values()],
            }
        )
        try:
            if job.writer is None:
                job.writer = changelog.writer(GROUP, job.name)
            placed = {STORE.name: partition_rows(STORE, rows, tombstone_column="gone")}
            if self.draw.randrange(4):
                job.writer.append(placed, query_id=job.name, batch_id=job.batch)
            else:
                file = changelog.stage(GROUP, job.writer.next_epoch, placed, task="t")
                job.writer.commit([file], query_id=job.name, batch_id=job.batch)
        except (Fenced, Corrupt):
            job.writer = None
        except LivestateError:
            if self.draw.randrange(2):
                job.writer = None
        else:
            job.batch += 1
            job.changes = {}

    # ---- what must be

    def _observe(self) -> None:
        """Take note of what has been committed: the state that each commit leads to."""
        truth = self._truth()
        unknown: list[Commit] = []
        epoch = truth.newest_epoch(GROUP)
        while epoch:
            commit = truth.read_commit(GROUP, epoch)
            assert commit is not None, f"epoch {epoch} is gone before anybody has seen it"
            if commit.digest in self._states:
                break
            unknown.append(commit)
            epoch = Epoch(epoch - 1)
        for commit in reversed(unknown):
            before = commit.before or ""
            assert before in self._states, f"epoch {commit.epoch} stands behind one that nobody has seen"
            state = dict(self._states[before])
            for table in truth.read_rows(commit, {STORE.name: STORE}).values():
                for row in table.to_pylist():
                    state.pop(row["key"], None)
                    if not row.get("__tombstone"):
                        state[row["key"]] = row["amount"]
            self._states[commit.digest] = state
            self._check_once(commit)

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

    def _check_views(self) -> None:
        for host in self.hosts:
            view = host.view
            if view is None or STORE.name not in view.stores:
                continue
            assert view.digest in self._states, f"epoch {view.epoch} is of no history"
            there = [PartitionId(number) for number in sorted(view.stores[STORE.name].versions)]
            found = live_rows(view.store(STORE.name, there)).to_pylist()
            wanted = {key: value for key, value in self._states[view.digest].items() if _place(key) in there}
            amounts = {row["key"]: row["amount"] for row in found}
            assert len(amounts) == len(found), "a key is there twice"
            assert amounts == wanted, f"epoch {view.epoch}: {amounts}, not {wanted}"

    def _settle(self) -> None:
        truth = self._truth()
        for host in self.hosts:
            host.problems.clear()
            newest = truth.newest_epoch(GROUP)
            if not newest and any("has no epoch" in problem for problem in _problems_of(host)):
                continue  # it is named, and nothing is moved for it
            for _ in range(20):
                host.follow(0)
                self._check_views()
                view = host.view
                if (
                    view is not None
                    and view.epoch == newest
                    and set(_readable_partitions(view)) == set(host.held)
                ):
                    break
            else:
                raise AssertionError(f"a host does not come to epoch {newest}: {host.problems[-3:]}")


_WEIGHTS = {
    "append": 30,
    "new term": 3,
    "follow": 25,
    "compact": 5,
    "snapshot": 15,
    "crash": 6,
    "power loss": 4,
    "new disk": 2,
    "copy of a disk": 2,
    "older disk": 2,
    "drop": 3,
    "trouble": 6,
    "clock": 2,
    "copy of the log": 2,
    "older log": 2,
}


def _problems_of(host: SimulatedHost) -> Sequence[str]:
    host.follow(0)
    return host.problems


def _place(key: int) -> PartitionId:
    rows = pa.table({"key": pa.array([key], pa.int64()), "amount": pa.array([0], pa.int64())})
    return next(iter(partition_rows(STORE, rows)))


def _readable_partitions(view: Any) -> Sequence[PartitionId]:
    return sorted(view.stores[STORE.name].versions) if STORE.name in view.stores else []
