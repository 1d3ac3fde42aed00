"""A changelog that was restored from an older copy, or has lost its end, whose epochs are passed by and whose
stores are dropped: hosts answer nothing from epochs that it does not have, and come to have what it has by
themselves.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from engine.changelog import Changelog, amendments, open_appender
from engine.changelog.commit import BEFORE_FIRST
from engine.changelog.layout import FORMAT_PATH, commit_path, snapshots_path
from engine.changelog.skipping import skip_epoch
from engine.changelog.store_drops import drop_store
from engine.errors import LivestateError, Unavailable
from engine.model.partitioning import partition_of
from engine.model.schema import Epoch, PartitionId
from engine.replica import catch_up, store_search
from engine.replica.follower import Follower
from engine.replica.group_setup import ASIDE
from engine.replica.partition_places import partition_path
from engine.state.cache import ColumnCache
from engine.state.partition import PartitionStore
from engine.state.state_options import StateOptions
from engine.state.state_view import StateView
from tests.support.following import GROUP, OPTIONS, contents, define, run_follower
from tests.support.seeds import seeded_random
from tests.support.waiting import wait_until

ACCOUNTS = define("accounts")
WAIT_SECONDS = 60.0
Amounts = Mapping[int, int]


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group without news looks at once whether its epoch is the changelog's still, and whether what was
    decided is.
    """
    monkeypatch.setattr(catch_up, "SECONDS_BETWEEN_DOUBTS", 0.05)
    monkeypatch.setattr(amendments, "SECONDS_BETWEEN_CHECKS", 0.05)
    monkeypatch.setattr(store_search, "SECONDS_BETWEEN_SEARCHES", 0.05)


def rows(amounts: Amounts) -> pa.Table:
    return pa.table(
        {"account": pa.array(amounts, pa.int64()), "amount": pa.array(amounts.values(), pa.int64())}
    )


@dataclass
class World:
    """A changelog with a writer, copies of it, and a host.

    Attributes:
        root: Where everything is.
        history: What the epochs of the store brought that are not passed by.
        copies: The history of each copy.
    """

    root: Path
    history: dict[Epoch, Amounts] = field(default_factory=dict)
    copies: list[dict[Epoch, Amounts]] = field(default_factory=list)
    newest: Epoch = BEFORE_FIRST
    _resources: ExitStack = field(default_factory=ExitStack)
    _follower: Follower | None = None

    @property
    def amounts(self) -> Amounts:
        """What the changelog says."""
        return {account: amount for brought in self.history.values() for account, amount in brought.items()}

    @property
    def changelog(self) -> Changelog:
        return Changelog.open(str(self.root / "changelog"))

    @property
    def follower(self) -> Follower:
        assert self._follower is not None
        return self._follower

    def append(self, amounts: Amounts) -> None:
        """One epoch, by a job that has just been started again."""
        appender = open_appender(self.changelog, [ACCOUNTS])
        self.newest = appender.append({"accounts": rows(amounts)}).epoch
        self.history[self.newest] = amounts

    def skip(self, epoch: Epoch) -> None:
        """Pass an epoch by."""
        skip_epoch(self.changelog, GROUP, epoch, "it is wrong", "ann@ops", 1, force=True)
        del self.history[epoch]

    def drop(self) -> None:
        """Drop the store, and make another one of its name."""
        drop_store(self.changelog, ACCOUNTS.name, "ann@ops", 1)
        self.history.clear()
        self.append({1: 1})

    def copy(self) -> None:
        shutil.copytree(self.root / "changelog", self.root / f"copy {len(self.copies)}")
        self.copies.append(dict(self.history))

    def take_snapshot(self) -> None:
        """Write what the newest epoch has as a snapshot."""
        changelog, key = self.changelog, pa.array(self.amounts, pa.int64())
        commit = changelog.read_commit(GROUP, self.newest)
        assert commit is not None
        placed = partition_of([key], ACCOUNTS.partitions)
        found = [
            ((ACCOUNTS.name, number), rows(self.amounts).filter(placed == number).to_batches()[0])
            for number in map(PartitionId, range(ACCOUNTS.partitions))
        ]
        places = [place for place, _ in found]
        snapshots = changelog.snapshots(GROUP)
        snapshots.write_part(
            commit.epoch, {ACCOUNTS.name: ACCOUNTS}, places, found, commit.generation, commit.digest
        )
        assert snapshots.commit(commit, places)

    def restore(self, number: int) -> None:
        """Put a copy in the place of the changelog."""
        shutil.rmtree(self.root / "changelog")
        shutil.copytree(self.root / f"copy {number}", self.root / "changelog")
        self.history = dict(self.copies[number])
        self.newest = self.changelog.newest_epoch(GROUP)

    def start(self) -> None:
        self._follower = self._resources.enter_context(
            run_follower(self.changelog, self.root / "data", OPTIONS)
        )

    def stop(self) -> None:
        self._follower = None
        self._resources.close()

    def wait(self) -> None:
        """Until the host has what the changelog has, and knows of nothing newer."""
        wait_until(lambda: read(self.follower) == (self.newest, self.amounts), WAIT_SECONDS)
        wait_until(lambda: self.follower.report()[0][GROUP].newest_known == self.newest, WAIT_SECONDS)


def read(follower: Follower) -> tuple[Epoch, Amounts] | None:
    """What a host answers; None where it does not."""
    try:
        with follower.pin_views([ACCOUNTS.name]) as views:
            view = views[ACCOUNTS.name]
            return view.epoch, contents(view)
    except LivestateError:
        return None


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.append(dict.fromkeys(range(40), 0))
    made.start()
    yield made
    made.stop()


@pytest.mark.parametrize("is_running", [True, False], ids=["running", "started again"])
@pytest.mark.parametrize("epochs", [0, 1, 3, 8], ids="{} epochs after it".format)
def test_a_host_comes_to_what_a_restored_changelog_has(world: World, is_running: bool, epochs: int) -> None:
    world.copy()
    for number in range(3):
        world.append({number: 7, 100 + number: 7})
    world.wait()
    if not is_running:
        world.stop()
    world.restore(0)
    for number in range(epochs):
        world.append({number + 1: 9, 200 + number: 9})
    if not is_running:
        world.start()
    world.wait()
    assert any((world.root / "data" / ASIDE).rglob("CURRENT"))
    assert (world.root / "data" / ASIDE).exists()
    wait_until(lambda: not world.follower.report()[0][GROUP].problem)


@pytest.mark.parametrize("has_data", [True, False], ids=["its data", "a fresh disk"])
def test_a_snapshot_of_what_a_restored_changelog_has_lost_is_not_read(world: World, has_data: bool) -> None:
    """As where a copy is put back file by file, and somebody else does so with another one."""
    world.wait()
    world.copy()
    for number in range(3):
        world.append({number: 7, 100 + number: 7})
    world.take_snapshot()
    world.stop()
    snapshots = world.root / "changelog" / snapshots_path(GROUP)
    kept = shutil.copytree(snapshots, world.root / "kept")
    world.restore(0)
    for number in range(8):
        world.append({number + 1: 9, 200 + number: 9})
    shutil.copytree(kept, snapshots, dirs_exist_ok=True)
    if not has_data:
        shutil.rmtree(world.root / "data")
    world.start()
    world.wait()


def test_partitions_that_are_the_same_in_both_are_kept(world: World) -> None:
    world.wait()
    world.copy()
    world.append({1: 7})
    world.wait()
    world.restore(0)
    world.append({1: 8})
    world.wait()
    put_aside = {path.parent.name for path in (world.root / "data" / ASIDE).rglob("CURRENT")}
    assert len(put_aside) == 1


def test_rows_of_lost_epochs_stay_whatever_is_put_aside_later(world: World) -> None:
    """They are nowhere else."""
    world.copy()
    for lost in (1, 2):
        world.append(dict.fromkeys(range(40), 7 * lost))
        world.wait()
        world.restore(0)
        world.wait()
    for partition in world.follower._groups[GROUP].partitions:
        partition.note_damage("block")
    world.append({1: 1})
    aside = world.root / "data" / ASIDE
    stored = aside / partition_path(ACCOUNTS, PartitionId(0))
    wait_until((stored / "CURRENT").exists, WAIT_SECONDS)
    world.wait()
    cache = ColumnCache(1 << 20)
    for lost in (1, 2):
        found: dict[int, int] = {}
        for path in stored.parent.glob(f"*-lost-{lost}"):
            number = PartitionId(int(path.name.split("-")[0]))
            with closing(PartitionStore(ACCOUNTS, number, path, cache, StateOptions())) as store:
                found |= contents(StateView(ACCOUNTS, store.applied, 0, {number: store.version}))
        assert found == dict.fromkeys(range(40), 7 * lost)


def test_a_host_that_was_behind_what_was_lost_is_not_behind_any_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.wait()
    world.copy()

    def fail(*_: object, **__: object) -> None:
        raise Unavailable("The disk does not answer.")

    with monkeypatch.context() as patched:
        patched.setattr(PartitionStore, "apply", fail)
        world.append({1: 7})
        world.append({1: 8})
        wait_until(lambda: world.follower.report()[0][GROUP].newest_known == world.newest, WAIT_SECONDS)
        world.restore(0)
    world.wait()


def test_a_host_without_its_changelog_answers_what_it_has(world: World) -> None:
    world.wait()
    before = read(world.follower)
    (world.root / "changelog").rename(world.root / "elsewhere")
    wait_until(lambda: "changelog is gone" in world.follower.report()[0][GROUP].problem)
    assert read(world.follower) == before
    (world.root / "elsewhere").rename(world.root / "changelog")
    world.append({1: 1})
    world.wait()
    assert not (world.root / "data" / ASIDE).exists()


def test_a_host_does_not_answer_from_a_changelog_in_the_place_of_another(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sees that by itself, and not only when it looks whether its epochs are still there."""
    world.wait()
    monkeypatch.setattr("engine.replica.catch_up.SECONDS_BETWEEN_DOUBTS", float("inf"))
    shutil.rmtree(world.root / "changelog")
    world.append({1: 1})
    assert (world.root / "changelog" / FORMAT_PATH).exists()
    wait_until(lambda: "Another changelog" in world.follower.report()[0][GROUP].problem)
    wait_until(lambda: read(world.follower) is None)
    assert not (world.root / "data" / ASIDE).exists()


def test_what_is_read_grows_old_once_the_changelog_is_gone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A place without a changelog has no new epochs, which says nothing of those that there are."""
    world.wait()
    monkeypatch.setattr("engine.replica.catch_up.SECONDS_BETWEEN_DOUBTS", float("inf"))
    (world.root / "changelog").rename(world.root / "elsewhere")
    (world.root / "changelog").mkdir()
    wait_until(lambda: "changelog is gone" in world.follower.report()[0][GROUP].problem)
    before = world.follower.report()[0][GROUP].complete_until
    with pytest.raises(AssertionError):
        wait_until(lambda: world.follower.report()[0][GROUP].complete_until > before, 2)
    (world.root / "changelog").rmdir()
    (world.root / "elsewhere").rename(world.root / "changelog")
    wait_until(lambda: world.follower.report()[0][GROUP].complete_until > before)
    wait_until(lambda: not world.follower.report()[0][GROUP].problem)


def test_a_changelog_that_contradicts_itself_is_named(world: World) -> None:
    world.copy()
    world.append({1: 1})
    world.wait()
    world.restore(0)
    world.append({1: 2})
    world.append({1: 3})
    world.wait()
    stale = Changelog.open(str(world.root / "copy 0"))
    appender = open_appender(stale, [ACCOUNTS])
    epoch = world.newest
    while epoch <= world.newest:
        epoch = appender.append({"accounts": rows({2: 2})}).epoch
    path = commit_path(GROUP, epoch)
    shutil.copy(world.root / "copy 0" / path, world.root / "changelog" / path)
    before = read(world.follower)
    wait_until(lambda: "contradicts itself" in world.follower.report()[0][GROUP].problem)
    assert read(world.follower) == before


@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_restored_a_host_has_what_the_changelog_has(world: World, seed: int) -> None:
    random: Random = seeded_random(f"restored changelogs {seed}")
    for _ in range(25):
        step = random.choice(
            ["append"] * 5 + ["copy", "restore", "restart", "wait", "compact", "skip", "skip", "drop"]
        )
        if step == "append":
            world.append({random.randrange(60): random.randrange(100) for _ in range(random.randint(0, 3))})
        elif step == "copy":
            world.copy()
        elif step == "restore" and world.copies:
            world.restore(random.randrange(len(world.copies)))
        elif step == "skip" and world.history:
            world.skip(random.choice(list(world.history)))
        elif step == "drop" and random.random() < 0.5:
            world.drop()
        elif step == "restart":
            world.stop()
            world.start()
        elif step == "wait":
            world.wait()
        elif step == "compact":
            world.follower.wait_until_compact(WAIT_SECONDS)
    world.wait()
