"""No single clock is believed: a commit of one that is wrong is refused. What would be gone for ever because
of it stays, and hosts can tell how old their answers are.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.changelog import Changelog, StoreAppender, open_appender
from engine.changelog.epochs import Epochs
from engine.changelog.writer import SECONDS_BETWEEN_CLOCK_READINGS
from engine.errors import InvalidInput
from engine.model.kinds import Behaviour, Retention
from engine.model.retention import MOST_APART, check_clock, check_cutoffs
from engine.model.schema import GroupName, StoreDefinition, StoreName, define_store
from tests.support.following import OPTIONS, live_rows, run_follower
from tests.support.waiting import PATIENCE_SECONDS

Reopen = Callable[[], Changelog]

SECOND = 1_000_000
DAY = 86_400 * SECOND
GROUP = GroupName("plays")
SCHEMA = pa.schema([("song", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
BY_COMMIT = define_store(
    "by commit", SCHEMA, ["song"], partitions=1, group=GROUP, behaviour=Behaviour(retention=Retention(DAY))
)
BY_EVENT = define_store(
    "by event",
    SCHEMA,
    ["song"],
    partitions=1,
    group=GROUP,
    behaviour=Behaviour(retention=Retention(DAY, "at")),
)
FOR_EVER = define_store("for ever", SCHEMA, ["song"], partitions=1, group=GROUP)
NOW = dt.datetime.now(dt.UTC)

times = st.integers(-(10**18), 10**18)


class Clock:
    """The clock of the machine that commits, which can be set wrong; that of the storage goes on
    as it did.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = dt.timedelta(0)
        real = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: real() + int(self.ahead.total_seconds() * 1e9))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def append(appender: StoreAppender, store: str, song: int, watermark: dt.datetime | None = None) -> None:
    appender.append({store: pa.table({"song": [song], "at": [NOW]}, SCHEMA)}, watermark=watermark)


def songs(changelog: Changelog, directory: Path, store: str) -> list[int]:
    """What a new host has of a store."""
    with run_follower(changelog, directory, OPTIONS) as follower:
        assert follower.wait_for(GROUP, changelog.newest_epoch(GROUP), PATIENCE_SECONDS)
        with follower.pin_views([StoreName(store)]) as views:
            return sorted(live_rows(views[StoreName(store)])["song"].to_pylist())


# ---- the rule


@given(times, st.integers(0, 10**15))
def test_clocks_may_be_a_little_apart(storage: int, apart: int) -> None:
    refused = (
        r"The clock of this machine says .*, and that of the changelog's storage .*: set the clock "
        r"that is wrong"
    )
    for sign in (1, -1):
        check_clock(storage + sign * min(apart, MOST_APART), storage)
        with pytest.raises(InvalidInput, match=refused):
            check_clock(storage + sign * (MOST_APART + 1 + apart), storage)


@given(times, st.integers(0, 10**15))
def test_a_cutoff_may_not_rise_beyond_the_present(storage: int, apart: int) -> None:
    store = BY_EVENT.name
    far = storage + MOST_APART + 1 + apart
    for before in ({}, {store: storage - apart}):
        check_cutoffs(before, {store: storage + MOST_APART - apart}, storage)
        with pytest.raises(
            InvalidInput,
            match=(
                r"All rows of store by event of before .* would be gone for ever, .*: begin with a new "
                r"checkpoint"
            ),
        ):
            check_cutoffs(before, {store: far}, storage)
    check_cutoffs({store: far}, {store: far}, storage)


def test_moments_are_told_plainly() -> None:
    start = 1_795_341_600 * SECOND
    with pytest.raises(
        InvalidInput,
        match=r"says 2026-11-25 08:00:00 UTC, and that of the changelog's storage 2026-11-22 08:00:00 UTC:",
    ):
        check_clock(start + 3 * DAY - 7200 * SECOND, start - 7200 * SECOND)
    with pytest.raises(
        InvalidInput, match=r"of before 900000000000000000 microseconds after 1970 UTC would be gone"
    ):
        check_cutoffs({}, {BY_EVENT.name: 9 * 10**17}, start)


class Clocks:
    """The clocks that take part, which go on and are set only by the test, microseconds."""

    def __init__(self) -> None:
        self.storage = 1_795_341_600 * SECOND
        self.ahead = 0
        self.slept = 0

    def time_ns(self) -> int:
        return (self.storage + self.ahead) * 1000

    def monotonic(self) -> float:
        return (self.storage - self.slept) / SECOND


HOURS = st.integers(-200, 200)
CLOCK_STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 30)),
    st.tuples(st.just("append"), st.integers(0, 30)),
    st.tuples(st.just("set the clock"), HOURS | st.just(0)),
    st.tuples(st.just("sleep"), st.integers(0, 200)),
    st.tuples(st.just("new writer"), st.just(0)),
)


@settings(max_examples=150)
@given(st.lists(CLOCK_STEPS, max_size=20))
@example([("append", 1), ("set the clock", 72), ("append", 0)])
@example([("set the clock", -72), ("append", 0), ("set the clock", 0), ("append", 0)])
@example(
    [
        ("append", 0),
        ("set the clock", -200),
        ("sleep", 170),
        ("new writer", 0),
        ("append", 0),
        ("set the clock", 0),
        ("append", 0),
    ]
)
@example([("append", 0), ("sleep", 100), ("append", 0), ("append", 1)])
def test_whatever_the_clock_of_a_writer_says_no_row_goes_before_its_time(
    steps: list[tuple[str, int]],
) -> None:
    """Rows and cutoffs as their commits have them, against when they were written by the clock of the
    storage.
    """
    clocks, changelog = Clocks(), Changelog.open("memory://")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Epochs, "storage_time", lambda _: clocks.storage)
        patched.setattr(time, "time_ns", clocks.time_ns)
        patched.setattr(time, "monotonic", clocks.monotonic)
        appender = open_appender(changelog, [BY_COMMIT])
        rows: list[tuple[int, int]] = []
        for what, number in steps:
            if what == "set the clock":
                clocks.ahead = number * 3600 * SECOND
                continue
            clocks.storage += number * 3600 * SECOND
            if what == "sleep":
                clocks.slept += number * 3600 * SECOND
            try:
                if what == "new writer":
                    appender = open_appender(changelog, [BY_COMMIT])
                if what == "append":
                    commit = appender.append({"by commit": pa.table({"song": [1], "at": [NOW]}, SCHEMA)})
                    rows.append((clocks.storage, commit.committed_at))
                    cutoff = commit.cutoffs[BY_COMMIT.name]
                    assert all(
                        stamp >= cutoff or clocks.storage - written >= DAY - 2 * MOST_APART
                        for written, stamp in rows
                    )
                    assert not clocks.ahead, "a clock that is hours off was believed"
            except InvalidInput:
                assert clocks.ahead, "a clock that is right was not believed"


# ---- on every kind of storage


def test_the_storage_tells_the_time_and_keeps_nothing(reopen: Reopen) -> None:
    changelog = reopen()
    writer = open_appender(changelog, [FOR_EVER])
    kept = sorted(changelog.objects.list("clock"))
    before, storage_now, after = (
        time.time_ns() // 1000,
        changelog.objects.current_time(),
        time.time_ns() // 1000,
    )
    assert before - SECOND <= storage_now <= after + SECOND
    assert sorted(changelog.objects.list("clock")) == kept == []
    append(writer, "for ever", 1)


@pytest.mark.parametrize("days", [3, -3])
def test_a_commit_of_a_clock_that_is_wrong_is_refused(
    reopen: Reopen, clock: Clock, tmp_path: Path, days: int
) -> None:
    changelog = reopen()
    appender = open_appender(changelog, [BY_COMMIT])
    append(appender, "by commit", 1)
    clock.ahead = dt.timedelta(days=days)
    for _ in range(2):
        with pytest.raises(
            InvalidInput, match=r"The clock of this machine says .*, and that of the changelog's storage"
        ):
            append(appender, "by commit", 2)
    with pytest.raises(InvalidInput, match="The clock of this machine says"):
        open_appender(changelog, [BY_COMMIT])
    assert changelog.newest_epoch(GROUP) == appender.epoch == 2
    clock.ahead = dt.timedelta(minutes=2)
    append(appender, "by commit", 3)
    clock.ahead = dt.timedelta(minutes=-2)
    append(open_appender(changelog, [BY_COMMIT]), "by commit", 4)
    assert songs(changelog, tmp_path / "data", "by commit") == [1, 3, 4]


@pytest.mark.parametrize("days", [3, -3])
def test_the_first_commit_of_a_clock_that_is_wrong_is_refused(
    reopen: Reopen, clock: Clock, days: int
) -> None:
    clock.ahead = dt.timedelta(days=days)
    for store in (BY_COMMIT, FOR_EVER):
        with pytest.raises(InvalidInput, match="The clock of this machine says"):
            open_appender(reopen(), [store])
    assert reopen().newest_epoch(GROUP) == 0


def test_an_event_of_the_future_takes_nothing_with_it(reopen: Reopen, tmp_path: Path) -> None:
    changelog = reopen()
    appender = open_appender(changelog, [BY_EVENT])
    append(appender, "by event", 1, NOW)
    for watermark in (dt.datetime(2999, 1, 1, tzinfo=dt.UTC), NOW + dt.timedelta(days=1, hours=2)):
        with pytest.raises(
            InvalidInput,
            match=r"All rows of store by event of before .*, and the clock of the changelog's storage says",
        ):
            append(appender, "by event", 2, watermark)
    # Ahead by less than the retention: rows go early, and not all of them.
    append(appender, "by event", 3, NOW + dt.timedelta(hours=5))
    append(appender, "by event", 4)
    assert songs(changelog, tmp_path / "data", "by event") == [1, 3, 4]


@pytest.mark.parametrize("days", [1, -1])
def test_a_clock_that_is_wrong_is_refused_without_retention_too(
    local: Changelog, clock: Clock, tmp_path: Path, days: int
) -> None:
    """The times of commits never fall: all behind this one would be of tomorrow."""
    appender = open_appender(local, [FOR_EVER])
    append(appender, "for ever", 1)
    clock.ahead = dt.timedelta(days=days)
    with pytest.raises(InvalidInput, match="The clock of this machine says"):
        append(appender, "for ever", 2)
    with pytest.raises(InvalidInput, match="The clock of this machine says"):
        open_appender(local, [FOR_EVER])
    clock.ahead = dt.timedelta(minutes=2)
    append(appender, "for ever", 3)
    assert songs(local, tmp_path / "data", "for ever") == [1, 3]


def test_a_job_goes_on_behind_a_commit_of_tomorrow(
    local: Changelog, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older version has made it; it cannot be taken back."""
    clock.ahead = dt.timedelta(days=1)
    with monkeypatch.context() as patched:
        patched.setattr("engine.changelog.writer.check_clock", lambda *_: None)
        tomorrow = open_appender(local, [FOR_EVER]).append({}).committed_at
    clock.ahead = dt.timedelta(0)
    appender = open_appender(local, [FOR_EVER])
    assert appender.append({}).committed_at == tomorrow


def test_cutoffs_of_before_are_not_judged(local: Changelog, clock: Clock) -> None:
    """They cannot be taken back, and the job goes on."""
    appender = open_appender(local, [BY_COMMIT])
    writer = appender._writer
    far = time.time_ns() // 1000 + 30 * DAY
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("engine.changelog.writer.check_cutoffs", lambda *_: None)
        writer.append({}, cutoffs={BY_COMMIT.name: far})
    append(appender, "by commit", 1)
    append(open_appender(local, [BY_COMMIT]), "by commit", 2)
    commit = local.read_commit(GROUP, local.newest_epoch(GROUP))
    assert commit is not None
    assert commit.cutoffs == {BY_COMMIT.name: far}


def test_a_job_that_comes_back_after_a_week_goes_on(
    local: Changelog, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last commit is a week old, the clock of the storage went on, and the monotonic clock stood still
    while the machine slept.
    """
    appender = open_appender(local, [BY_COMMIT])
    append(appender, "by commit", 1)
    clock.ahead = dt.timedelta(days=7)
    monkeypatch.setattr(Epochs, "storage_time", lambda _: time.time_ns() // 1000)
    append(appender, "by commit", 2)
    append(open_appender(local, [BY_COMMIT]), "by commit", 3)


@pytest.mark.parametrize("store", [BY_COMMIT, FOR_EVER], ids=lambda store: store.name)
def test_the_storage_is_seldom_asked_for_the_time(
    local: Changelog, clock: Clock, monkeypatch: pytest.MonkeyPatch, store: StoreDefinition
) -> None:
    asked, storage_now = [], Epochs.storage_time

    def count(epochs: Epochs) -> int:
        asked.append(1)
        return storage_now(epochs)

    monkeypatch.setattr(Epochs, "storage_time", count)
    appender = open_appender(local, [store])
    for song in range(20):
        append(appender, store.name, song)
    assert len(asked) == 1
    monotonic = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + SECONDS_BETWEEN_CLOCK_READINGS)
    append(appender, store.name, 20)
    assert len(asked) == 2
