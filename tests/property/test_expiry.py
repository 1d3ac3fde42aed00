"""Retention: whatever epochs are applied one by one or together, and wherever a host stops, the same rows are
gone.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from engine.changelog import Changelog, StoreAppender, open_appender
from engine.model.kinds import Behaviour, Retention
from engine.model.retention import STEPS, advance_cutoffs, cutoffs_of
from engine.model.schema import Epoch, GroupName, StoreDefinition, define_store
from tests.support.following import OPTIONS, live_rows, run_follower
from tests.support.partitions import new_partition, view_of

GROUP = GroupName("group")
KEPT = STEPS
"""Microseconds: a cutoff then moves by one."""
START = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
COLUMNS = pa.schema([("k", pa.int64()), ("seen", pa.timestamp("us", "UTC")), ("n", pa.int64())])
BY_EVENT = define_store(
    "by event",
    COLUMNS,
    ["k"],
    partitions=1,
    group=GROUP,
    behaviour=Behaviour(retention=Retention(KEPT, "seen")),
)
FOR_EVER = define_store("for ever", COLUMNS, ["k"], partitions=1, group=GROUP)


@dataclass(frozen=True)
class Commit:
    """An epoch of the store: rows as (key, time or None, is a tombstone), and how far the watermark is."""

    rows: tuple[tuple[int, int | None, bool], ...]
    watermark: int | None
    replaces: bool
    is_followed: bool


times = st.one_of(st.none(), st.integers(0, 200))
rows = st.lists(st.tuples(st.integers(0, 6), times, st.booleans()), max_size=5).map(tuple)
commits = st.builds(
    Commit,
    rows,
    st.one_of(st.none(), st.integers(0, 250)),
    st.sampled_from([False] * 5 + [True]),
    st.sampled_from([True, False, False]),
)


def moment(time: int | None) -> dt.datetime | None:
    return None if time is None else START + dt.timedelta(microseconds=time)


def commit_to(appender: StoreAppender, commit: Commit, number: int) -> Epoch:
    table = pa.table(
        {
            "k": pa.array([key for key, _, _ in commit.rows], pa.int64()),
            "seen": pa.array([time for _, time, _ in commit.rows], pa.int64()).cast(
                pa.timestamp("us", "UTC")
            ),
            "n": pa.array([number] * len(commit.rows), pa.int64()),
            "gone": pa.array([gone for _, _, gone in commit.rows], pa.bool_()),
        }
    )
    tables: dict[str, pa.Table] = {BY_EVENT.name: table, FOR_EVER.name: table}
    replaced = [BY_EVENT.name] if commit.replaces else []
    return appender.append(
        tables, tombstone_column="gone", replaced=replaced, watermark=moment(commit.watermark)
    ).epoch


def expected_state(
    state: dict[int, tuple[int | None, int]], cutoff: int | None, commit: Commit, number: int
) -> dict[int, tuple[int | None, int]]:
    """What a dict would do."""

    def is_old(time: int | None) -> bool:
        return cutoff is not None and time is not None and time < cutoff

    found = {} if commit.replaces else {key: row for key, row in state.items() if not is_old(row[0])}
    for key, time, gone in commit.rows:
        if gone:
            found.pop(key, None)
        elif not is_old(time):
            found[key] = (time, number)
    return found


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(commits, min_size=1, max_size=8))
@example(
    [
        Commit(((1, 100, False),), None, False, False),
        Commit((), 120, False, False),
        Commit(((1, 1, False),), None, False, True),
    ]
)
@example(
    [
        Commit(((1, 100, False), (2, 10, False)), None, False, True),
        Commit(((2, None, True),), 150, False, False),
        Commit((), 200, False, True),
    ]
)
def test_the_same_rows_are_gone_however_epochs_are_taken(plan: list[Commit]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        changelog = Changelog.open(str(Path(directory) / "changelog"))
        expected: dict[int, tuple[int | None, int]] = {}
        cutoff: int | None = None
        with open_appender(changelog, [BY_EVENT, FOR_EVER]) as appender:
            for number, commit in enumerate(plan):
                epoch = commit_to(appender, commit, number)
                if commit.watermark is not None:
                    cutoff = max(
                        commit.watermark - KEPT, commit.watermark - KEPT if cutoff is None else cutoff
                    )
                expected = expected_state(expected, cutoff, commit, number)
                if commit.is_followed or number == len(plan) - 1:
                    assert read_state(changelog, Path(directory) / "data", BY_EVENT, epoch) == expected
        # Another host takes all of them together.
        assert read_state(changelog, Path(directory) / "other", BY_EVENT, epoch) == expected


def read_state(
    changelog: Changelog, directory: Path, store: StoreDefinition, epoch: Epoch
) -> dict[int, tuple[int | None, int]]:
    with run_follower(changelog, directory, OPTIONS) as follower:
        assert follower.wait_for(GROUP, epoch, 60.0)
        with follower.pin_views([store.name]) as views:
            table = live_rows(views[store.name])
    seen = table["seen"].cast(pa.int64()).to_pylist()
    return {
        key: (time, n)
        for key, time, n in zip(table["k"].to_pylist(), seen, table["n"].to_pylist(), strict=True)
    }


def test_rows_go_by_their_commit(tmp_path: Path) -> None:
    store = define_store(
        "plain",
        pa.schema([("k", pa.int64())]),
        ["k"],
        partitions=1,
        group=GROUP,
        behaviour=Behaviour(retention=Retention(KEPT)),
    )
    changelog = Changelog.open(str(tmp_path / "changelog"))
    with open_appender(changelog, [store]) as appender:
        appender.append({"plain": pa.table({"k": [1, 2]})})
        kept = appender.append({"plain": pa.table({"k": [2, 3]})})
        with run_follower(changelog, tmp_path / "before", OPTIONS) as follower:
            assert follower.wait_for(GROUP, kept.epoch, 60.0)
            with follower.pin_views([store.name]) as views:
                assert live_rows(views[store.name]).num_rows in (2, 3)
        # The clock that counts is that of the commits: a millisecond later everything before is past its
        # retention.
        later = changelog.writer(GROUP, "later").append({}, cutoffs={store.name: kept.committed_at})
        with run_follower(changelog, tmp_path / "after", OPTIONS) as follower:
            assert follower.wait_for(GROUP, later.epoch, 60.0)
            with follower.pin_views([store.name]) as views:
                assert sorted(live_rows(views[store.name])["k"].to_pylist()) == [2, 3]
                assert views[store.name].definition.schema.names == ["k"]


@given(st.integers(-(10**15), 10**15), st.integers(1, 10**13))
def test_a_cutoff_is_at_most_a_step_early(watermark: int, kept: int) -> None:
    store = define_store("s", COLUMNS, ["k"], behaviour=Behaviour(retention=Retention(kept, "seen")))
    (cutoff,) = cutoffs_of([store], watermark, 0).values()
    assert watermark - kept - max(kept // STEPS, 1) < cutoff <= watermark - kept


def test_cutoffs_rise_only() -> None:
    name = BY_EVENT.name
    assert advance_cutoffs({}, {name: -5}) == {name: -5}
    assert advance_cutoffs({name: 7}, {name: 5}) == {name: 7}
    assert advance_cutoffs({name: 7}, {name: 9}) == {name: 9}
    assert cutoffs_of([BY_EVENT, FOR_EVER], None, 10**9) == {}


def test_a_restored_partition_has_the_cutoff_of_its_snapshot() -> None:
    """What the partition had may be of another history, whose cutoff was later."""

    def batch(key: int, seen: int) -> pa.RecordBatch:
        return pa.record_batch({"k": [key], "seen": [moment(seen)], "n": [0]}, BY_EVENT.row_schema)

    with new_partition(BY_EVENT) as store:
        store.apply(Epoch(7), batch(1, 5000), cutoff=4000, digest="other")
        store.restore(Epoch(32), [batch(2, 2000)], cutoff=1000, digest="right")
        store.apply(Epoch(33), batch(3, 3000), cutoff=1000, digest="right, too")
        assert sorted(live_rows(view_of(store, BY_EVENT))["k"].to_pylist()) == [2, 3]
        store.apply(Epoch(34), batch(4, 9000), cutoff=2500)
        assert sorted(live_rows(view_of(store, BY_EVENT))["k"].to_pylist()) == [3, 4]


def test_a_watermark_without_a_zone_is_refused(tmp_path: Path) -> None:
    with (
        open_appender(Changelog.open(str(tmp_path)), [FOR_EVER]) as appender,
        pytest.raises(Exception, match="needs a time zone"),
    ):
        appender.append({}, watermark=dt.datetime(2026, 1, 1))  # noqa: DTZ001 - what is refused
