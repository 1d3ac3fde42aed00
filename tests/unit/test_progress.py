"""How far a host is while it restores a snapshot or catches up: in refusals, SHOW, reports and the log."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any, cast

import pyarrow as pa
import pytest

from engine.changelog import Changelog, open_appender
from engine.changelog.objects import Objects, open_objects
from engine.errors import Unavailable
from engine.model.read_point import ReadPoint
from engine.model.schema import Epoch
from engine.replica.follower import Follower
from engine.replica.progress_watch import ProgressWatch
from engine.replica.snapshot_options import SnapshotOptions
from engine.service import QueryService, Session
from tests.support.following import GROUP, OPTIONS, PARTITIONS, define, run_follower
from tests.support.gated import Gate
from tests.support.local_cluster import SMALL
from tests.support.waiting import PATIENCE_SECONDS, wait_until

DEBIT = define("debit")
ROWS = 4_000
COUNT = "SELECT count(*) AS n FROM debit"


class GatedSnapshot:
    """Objects that give some partitions of snapshots at once, and the others once they may."""

    def __init__(self, objects: Objects, at_once: int) -> None:
        self._objects = objects
        self._at_once = at_once
        self.go_on = Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objects, name)

    def get_ranges(self, path: str, size: int, ranges: Sequence[Any]) -> list[pa.Buffer] | None:
        if "/snapshots/" in path:
            self._at_once -= 1
            if self._at_once < 0:
                assert self.go_on.wait(PATIENCE_SECONDS)
        return self._objects.get_ranges(path, size, ranges)


def append(changelog: Changelog, accounts: range) -> Epoch:
    rows = pa.table({"account": accounts, "amount": [1] * len(accounts)}, DEBIT.schema)
    return open_appender(changelog, [DEBIT]).append({DEBIT.name: rows}).epoch


@pytest.fixture
def snapshot_epoch(changelog: Changelog, tmp_path: Path) -> Epoch:
    """The epoch of a snapshot, behind which there are epochs."""
    append(changelog, range(ROWS))
    options = replace(OPTIONS, snapshots=SnapshotOptions(after_bytes=1 << 19))
    with run_follower(changelog, tmp_path / "first", options):
        append(changelog, range(ROWS))
        wait_until(lambda: bool(changelog.snapshots(GROUP).epochs()), PATIENCE_SECONDS)
    append(changelog, range(ROWS, 2 * ROWS))
    return changelog.snapshots(GROUP).epochs()[-1]


def show(service: QueryService, what: str) -> dict[str, Any]:
    with service.execute(f"SHOW {what}") as result:
        (row,) = result.read_all().to_pylist()
    found: dict[str, Any] = row
    return found


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def log_lines(watch: ProgressWatch, clock: Clock, seconds: float, log: pytest.LogCaptureFixture) -> list[str]:
    """What is logged some seconds later."""
    log.clear()
    clock.seconds += seconds
    with log.at_level(logging.INFO, "engine.replica.progress_watch"):
        watch.look()
    return [record.getMessage() for record in log.records if record.name == "engine.replica.progress_watch"]


def test_a_host_that_restores_a_snapshot_says_how_far_it_is(
    changelog: Changelog, snapshot_epoch: Epoch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    newest = changelog.newest_epoch(GROUP)
    assert 0 < snapshot_epoch < newest
    gated = GatedSnapshot(open_objects(changelog.uri, {}), PARTITIONS // 2)
    follower = Follower(Changelog(changelog.uri, {}, cast("Objects", gated)), tmp_path / "data", OPTIONS)
    follower.start()
    service, clock = QueryService(follower, SMALL), Clock()
    watch = ProgressWatch(follower._groups, clock)
    try:
        # Half of the snapshot, which has as many rows as what follows it, is a quarter of all there is.
        wait_until(lambda: 15 <= (show(service, "HOSTS")["percent"] or 0) <= 40, PATIENCE_SECONDS)
        row = show(service, "HOSTS")
        assert (row["state"], row["epochs_behind"], row["problem"]) == ("building", newest, "")
        progress = follower.report()[0][GROUP].building
        assert progress is not None
        assert progress.snapshot == snapshot_epoch
        assert progress.bytes_left is not None
        assert 0 < progress.bytes_done < progress.bytes_left
        way = rf"it reads the snapshot of epoch {snapshot_epoch}, on its way to epoch {newest} \(\d+ %.*"
        with pytest.raises(Unavailable, match=way + r"\): try again later"):
            service.execute(COUNT, session=Session(timeout_seconds=0.1))
        assert (
            "The store is being built on this host; it reads the snapshot"
            in show(service, "STORES")["problem"]
        )
        assert log_lines(watch, clock, 0.0, caplog) == []
        (line,) = log_lines(watch, clock, 3.0, caplog)
        assert line.startswith(
            f"Group {GROUP} is being built: it reads the snapshot of epoch {snapshot_epoch}"
        )
        assert log_lines(watch, clock, 20.0, caplog) == []
        assert len(log_lines(watch, clock, 11.0, caplog)) == 1
        gated.go_on.set()
        assert follower.wait_for(GROUP, newest, PATIENCE_SECONDS)
        wait_until(lambda: show(service, "HOSTS")["state"] == "readable", PATIENCE_SECONDS)
        row = show(service, "HOSTS")
        assert (row["epochs_behind"], row["percent"], row["seconds_left"]) == (0, None, None)
        assert log_lines(watch, clock, 1.0, caplog) == [
            f"Group {GROUP} is up to date at epoch {newest}, after 35 seconds."
        ]
        assert log_lines(watch, clock, 100.0, caplog) == []
    finally:
        gated.go_on.set()
        service.close()
        follower.stop()


class GatedCommits:
    """Objects of which some commits are behind gates."""

    def __init__(self, objects: Objects, gates: Sequence[Gate]) -> None:
        self._objects = objects
        self._gates = gates

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objects, name)

    def get(self, path: str) -> pa.Buffer | None:
        found = self._objects.get(path)
        for gate in self._gates if found is not None else ():
            gate.pass_through(path)
        return found


@pytest.fixture
def gates(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Gate, Gate]]:
    """Where a host waits that has epoch 2, and that has taken some of those behind it."""
    monkeypatch.setattr("engine.replica.commit_queue.MOST_EPOCHS_TOGETHER", 2)
    first, second = Gate(GROUP, Epoch(3)), Gate(GROUP, Epoch(7))
    yield first, second
    first.open()
    second.open()


def test_a_host_that_catches_up_says_how_far_it_is(
    changelog: Changelog, gates: tuple[Gate, Gate], tmp_path: Path
) -> None:
    assert append(changelog, range(1)) == 2
    gated = cast("Objects", GatedCommits(open_objects(changelog.uri, {}), gates))
    with run_follower(Changelog(changelog.uri, {}, gated), tmp_path / "data") as follower:
        assert follower.wait_for(GROUP, Epoch(2), PATIENCE_SECONDS)
        for number in range(6):
            append(changelog, range(number * ROWS, (number + 1) * ROWS))
        newest = changelog.newest_epoch(GROUP)
        gates[0].open()
        assert gates[1].reached.wait(PATIENCE_SECONDS)
        # A lag that is as long ago as the commit of the first epoch that is missing.
        service = QueryService(follower, replace(SMALL, max_lag_seconds=0.0))
        try:
            row = show(service, "HOSTS")
            epoch = follower.report()[0][GROUP].newest
            assert (row["state"], row["epochs_behind"]) == ("behind", newest - epoch)
            # One of six that are of one size, or two.
            assert row["percent"] in range(10, 40)
            assert row["lag_seconds"] > 0
            said = (
                rf"Group {GROUP} is \d+ seconds? behind, more than the max_lag of 0 seconds: it can be read "
                rf"at epoch {epoch} of {newest}; this host: {row['percent']} %.*: try again later, or say "
                "allow_stale"
            )
            with pytest.raises(Unavailable, match=said):
                service.execute(COUNT)
            stale = Session(read_point=ReadPoint(allow_stale=True))
            with service.execute(COUNT, session=stale) as result:
                assert result.metadata.epochs == {GROUP: epoch}
                assert result.metadata.stale_seconds is not None
                assert result.metadata.stale_seconds > 0
        finally:
            service.close()
        gates[1].open()
        assert follower.wait_for(GROUP, newest, PATIENCE_SECONDS)
        wait_until(lambda: follower.report()[0][GROUP].catching_up is None, PATIENCE_SECONDS)
