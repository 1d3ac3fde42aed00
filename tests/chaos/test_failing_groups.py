"""Whatever a step of one group's way raises, at the start or later, the other groups go on, and so does this
one when it is over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event, get_ident
from typing import Any

import pyarrow as pa
import pytest

from engine.changelog import Changelog, SnapshotRetention, StoreAppender, open_appender
from engine.changelog.epochs import Epochs
from engine.changelog.layout import commit_path
from engine.changelog.snapshot import EPOCH_WEIGHT
from engine.changelog.snapshots import Snapshots
from engine.errors import LivestateError
from engine.model.schema import Epoch, GroupName, StoreDefinition, StoreName, define_store
from engine.replica.cohort import Cohort
from engine.replica.follower import Follower
from engine.replica.group import FollowedGroup
from engine.replica.group_setup import GroupSetup
from engine.replica.group_views import RetainedViews
from engine.replica.snapshot_options import SnapshotOptions
from engine.replica.snapshot_schedule import SnapshotSchedule
from engine.replica.snapshotter import SnapshotMaker
from engine.state.partition import PartitionStore
from tests.support.failing import FAILURES
from tests.support.following import OPTIONS, contents, run_follower
from tests.support.waiting import PATIENCE_SECONDS, wait_until

SCHEMA = pa.schema([("account", pa.int64()), ("amount", pa.int64())])
FAILING, SOUND = GroupName("a failing one"), GroupName("sound")
"""The failing one comes first in every order."""
STORES = {
    name: define_store(f"store of {name}", SCHEMA, ["account"], partitions=2, group=name)
    for name in (FAILING, SOUND)
}
SNAPSHOTS = SnapshotOptions(
    6 * EPOCH_WEIGHT, SnapshotRetention(kept=1, tail_seconds=0), look_seconds=0.01, retry_seconds=0.05
)
FOLLOWING = replace(OPTIONS, snapshots=SNAPSHOTS)
SECRET = "/a/path"


def group_of_partition(store: PartitionStore, *_: object) -> str:
    return next(group for group, definition in STORES.items() if definition.name == store.identity[0])


def group_of_setup(_: GroupSetup, definition: StoreDefinition, *__: object) -> str:
    return definition.group


STEPS: dict[str, tuple[type, str, Callable[..., object]]] = {
    "read a commit": (Epochs, "read", lambda epochs, *_: epochs.group),
    "read rows": (Epochs, "rows", lambda epochs, *_: epochs.group),
    "see that an epoch is there": (Epochs, "holds", lambda epochs, *_: epochs.group),
    "find the newest epoch": (Epochs, "newest_epoch", lambda epochs, *_: epochs.group),
    "list snapshots": (Snapshots, "epochs", lambda snapshots, *_: snapshots.group),
    "open a partition": (GroupSetup, "open", group_of_setup),
    "take a step": (FollowedGroup, "step", lambda group, *_: group.group),
    "rebuild": (FollowedGroup, "rebuild", lambda group, *_: group.group),
    "let epochs go": (FollowedGroup, "expire", lambda group, *_: group.group),
    "give space back": (FollowedGroup, "release", lambda group, *_: group.group),
    "show merged segments": (FollowedGroup, "refresh", lambda group, *_: group.group),
    "look ahead": (Cohort, "look_ahead", lambda cohort, *_: cohort._group),
    "read epochs": (Cohort, "collect", lambda cohort, *_: cohort._group),
    "take epochs": (Cohort, "apply", lambda cohort, *_: cohort._group),
    "load a snapshot": (Cohort, "load", lambda cohort, *_: cohort._group),
    "apply an epoch": (PartitionStore, "apply", group_of_partition),
    "restore a partition": (PartitionStore, "restore", group_of_partition),
    "merge segments": (PartitionStore, "compact", group_of_partition),
    "show an epoch": (RetainedViews, "publish", lambda views, *_: views._group),
    "see whether a snapshot is due": (SnapshotSchedule, "is_due", lambda _, commit: commit.group),
    "write a snapshot": (SnapshotMaker, "advance", lambda _, view, *__: view.group),
}
"""Methods, and how the group is told that a call is for."""


@pytest.fixture
def changelog(tmp_path: Path) -> Changelog:
    return Changelog.open(str(tmp_path / "changelog"))


class World:
    """Two groups, their writers, and what they must contain."""

    def __init__(self, changelog: Changelog) -> None:
        self.appenders: dict[GroupName, StoreAppender] = {
            name: open_appender(changelog, [store]) for name, store in STORES.items()
        }
        self.rows: dict[int, int] = {}
        self.writers: set[int] = set()
        self._next = 0

    def append(self, count: int = 8) -> None:
        """Epochs of all groups; later ones write over earlier ones."""
        self.writers.add(get_ident())
        for _ in range(count):
            accounts = [self._next % 5, self._next % 7]
            self._next += 1
            self.rows |= dict.fromkeys(accounts, self._next)
            for name, appender in self.appenders.items():
                appender.append(
                    {STORES[name].name: pa.table({"account": accounts, "amount": [self._next] * 2}, SCHEMA)}
                )
        self.writers.clear()

    def newest(self, group: GroupName) -> Epoch:
        return self.appenders[group].epoch

    def check(self, follower: Follower, group: GroupName) -> None:
        assert follower.wait_for(group, self.newest(group), PATIENCE_SECONDS), f"{group} does not get on"
        store = STORES[group].name
        with follower.pin_views([store]) as views:
            assert contents(views[store]) == self.rows


def problem(follower: Follower, group: GroupName) -> str:
    return next(row.problem for row in follower.status() if row.group == group)


@pytest.mark.parametrize(
    ("step", "failure"),
    [(step, FAILURES[place % len(FAILURES)]) for place, step in enumerate(STEPS)],
    ids=list(STEPS),
)
def test_a_failing_group_stops_itself_alone(
    changelog: Changelog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    step: str,
    failure: Callable[[], BaseException],
) -> None:
    # What fails is tried again at once, however often it has failed.
    monkeypatch.setattr("engine.replica.failures.pause_seconds", lambda failures, first, longest: first)
    # However long the test takes, what fails in the same way again is logged once.
    monkeypatch.setattr("engine.replica.failures.SECONDS_BETWEEN_COMPLAINTS", float("inf"))
    world, failing, words = World(changelog), Event(), words_of(failure())
    world.append()
    with run_follower(changelog, tmp_path / "first", FOLLOWING):
        # A snapshot of all groups, from which the host begins whose first steps fail.
        wait_until(lambda: all(changelog.snapshots(group).epochs() for group in STORES))
    world.append(2)
    owner, name, group_of = STEPS[step]
    method: Callable[..., Any] = getattr(owner, name)

    def fail_sometimes(*args: Any, **kwargs: Any) -> Any:
        if failing.is_set() and get_ident() not in world.writers and group_of(*args) == FAILING:
            raise failure()
        return method(*args, **kwargs)

    monkeypatch.setattr(owner, name, fail_sometimes)
    failing.set()
    is_start_affected = name not in ("compact", "refresh", "advance", "expire", "release", "rebuild")
    with caplog.at_level(logging.WARNING), run_follower(changelog, tmp_path / "data", FOLLOWING) as follower:
        world.check(follower, SOUND)
        if is_start_affected:
            wait_until(lambda: words in problem(follower, FAILING))
            assert not follower.has_caught_up
            assert {str(row.group) for row in follower.status()} == set(STORES)
        failing.clear()
        world.check(follower, FAILING)
        wait_until(lambda: follower.has_caught_up)
        failing.set()
        world.append()
        world.check(follower, SOUND)
        if name not in ("load", "restore", "open"):  # steps of the beginning
            world.append(FOLLOWING.state.fan_out)
            wait_until(lambda: words in problem(follower, FAILING))
            check_told(follower, caplog, failure())
        failing.clear()
        world.append()
        for group in STORES:
            world.check(follower, group)
            wait_until(lambda group=group: not problem(follower, group))  # type: ignore[misc] # mypy gives lambdas with defaults no type


def words_of(error: BaseException) -> str:
    """What a group's problem says of an error."""
    return error.message if isinstance(error, LivestateError) else type(error).__name__


def complaints(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What the log says of what failed."""
    texts = "is not getting on", "nobody expected"
    return [record for record in caplog.records.copy() if any(text in record.getMessage() for text in texts)]


def check_told(follower: Follower, caplog: pytest.LogCaptureFixture, error: BaseException) -> None:
    """See that the failing group says what is wrong, to clients without and to the log with all that there
    is, and no other does.
    """
    assert problem(follower, SOUND) == ""
    assert SECRET not in problem(follower, FAILING)
    # The status tells of a failure a moment before the log does.
    wait_until(lambda: bool(complaints(caplog)))
    records = complaints(caplog)
    assert all(FAILING in record.getMessage() for record in records)
    if isinstance(error, LivestateError):
        assert not any(record.exc_info for record in records)
    else:
        assert all(record.exc_info and type(record.exc_info[1]) is type(error) for record in records)
    # Each kind of work says it once, though it is tried again and again.
    assert len({record.getMessage() for record in records}) == len(records)


def test_who_is_told_of_changes_and_fails_stops_nobody(
    changelog: Changelog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise RuntimeError("a defect")

    world, change_was_told = World(changelog), Event()
    with run_follower(changelog, tmp_path / "data") as follower:
        follower.add_listener(fail)
        follower.add_listener(change_was_told.set)
        world.append()
        for group in STORES:
            world.check(follower, group)
        assert change_was_told.wait(PATIENCE_SECONDS)
    assert caplog.text.count("Telling of changes") == 1


def test_a_turn_that_fails_as_a_whole_is_taken_again(
    changelog: Changelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world, failed = World(changelog), Event()

    def fail(*_: object) -> float:
        monkeypatch.undo()
        failed.set()
        raise RuntimeError("a defect")

    with run_follower(changelog, tmp_path / "data") as follower:
        monkeypatch.setattr(Follower, "_seconds_to_wait", fail)
        assert failed.wait(PATIENCE_SECONDS)
        world.append()
        for group in STORES:
            world.check(follower, group)
    assert caplog.text.count("The turn of group") == 1


def test_what_waits_behind_damage_is_old_and_has_no_time_left(changelog: Changelog, tmp_path: Path) -> None:
    """Nobody is told that all is there, or soon will be."""
    world = World(changelog)
    world.append(1)
    commit = tmp_path / "changelog" / commit_path(FAILING, world.newest(FAILING))
    commit.write_bytes(commit.read_bytes()[:-20])
    with run_follower(changelog, tmp_path / "data", FOLLOWING) as follower:
        world.check(follower, SOUND)
        wait_until(lambda: "is damaged" in follower.report()[0][FAILING].problem)
        wait_until(lambda: follower.report()[0][FAILING].unread_since is not None)
        statuses = {status.group: status for status in follower.status()}
        report = follower.report()[0][FAILING]
    assert statuses[FAILING].lag_seconds > 0.0
    assert statuses[SOUND].lag_seconds == 0.0
    assert report.building is not None
    assert (report.building.bytes_per_second, report.building.seconds_left) == (None, None)


def test_a_search_for_stores_that_fails_is_told_by_all_that_are_there(
    changelog: Changelog, tmp_path: Path
) -> None:
    """A store that is new, or a name that was switched, is not heard of; nothing else would say why."""
    world, catalog = World(changelog), tmp_path / "data" / "catalog.json"
    world.append()
    with run_follower(changelog, tmp_path / "data") as follower:
        for group in STORES:
            world.check(follower, group)
        catalog.unlink()
        catalog.mkdir()
        changelog.create_store(replace(STORES[SOUND], name=StoreName("new")))
        for group in STORES:
            wait_until(lambda group=group: "keep the catalogue" in problem(follower, group))  # type: ignore[misc] # as above
            wait_until(lambda group=group: "keep the catalogue" in follower.report()[0][group].problem)  # type: ignore[misc] # as above
        world.append()
        for group in STORES:
            world.check(follower, group)
        catalog.rmdir()
        for group in STORES:
            wait_until(lambda group=group: not problem(follower, group))  # type: ignore[misc] # as above
