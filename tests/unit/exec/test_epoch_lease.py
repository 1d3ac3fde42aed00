"""Statements that begin something late: their epochs are kept for that, whatever lands meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, StoreAppender, append_table, open_appender
from engine.cluster.assignment import Assignment
from engine.cluster.fragments import FragmentRequest, FragmentRows
from engine.cluster.reports import HostName
from engine.coordinator import epoch_lease
from engine.coordinator.deployment_hosts import DeploymentHosts
from engine.errors import Unavailable
from engine.model.schema import Epoch, GroupName, define_store
from engine.replica.follower_options import FollowerOptions
from engine.service import QueryService
from tests.support.local_cluster import SMALL, Cluster, DirectPeers, following_cluster, host_names
from tests.support.waiting import PATIENCE_SECONDS

HOSTS = host_names(2)
ROWS = 30_000
PLAYS = define_store(
    "plays",
    pa.schema([("song", pa.int64()), ("genre", pa.int64()), ("count", pa.int64())]),
    ["song"],
    partitions=8,
)
GENRES = define_store(
    "genres", pa.schema([("genre", pa.int64()), ("weight", pa.int64())]), ["genre"], partitions=8
)
LATER_FRAGMENT = (
    "SELECT g.weight, sum(p.count) AS n FROM genres g JOIN plays p ON p.genre = g.genre GROUP BY g.weight"
)
"""The rows of `genres` go to all hosts, before any of them begins with `plays`."""


def plays(count: int) -> pa.Table:
    return pa.table(
        {
            "song": pa.array(range(ROWS), pa.int64()),
            "genre": pa.array([song % 10 for song in range(ROWS)], pa.int64()),
            "count": pa.array([count] * ROWS, pa.int64()),
        }
    )


class _SlowPeers(DirectPeers):
    """Peers at which newer epochs land before a fragment without inputs begins.

    Attributes:
        is_kept: Whether that waits until the epochs are kept everywhere.
    """

    def __init__(self, cluster: Cluster, here: HostName, appender: StoreAppender, *, is_kept: bool) -> None:
        super().__init__(cluster, here)
        self.is_kept = is_kept
        self._appender = appender
        self._count = 2
        self._kept: set[tuple[HostName, GroupName]] = set()
        self._changed = threading.Condition()

    def hold(self, host: HostName, epochs: Mapping[GroupName, Epoch], seconds: float) -> None:
        super().hold(host, epochs, seconds)
        self.note_kept(host, epochs)

    def note_kept(self, host: HostName, epochs: Mapping[GroupName, Epoch]) -> None:
        with self._changed:
            self._kept |= {(host, group) for group in epochs}
            self._changed.notify_all()

    def run(
        self, host: HostName, request: FragmentRequest, cancelled: Callable[[], bool] | None = None
    ) -> FragmentRows:
        if not request.inputs:
            if self.is_kept:
                everywhere = {(each, PLAYS.group) for each in HOSTS}
                with self._changed:
                    assert self._changed.wait_for(lambda: self._kept >= everywhere, PATIENCE_SECONDS)
            self._count += 1
            self._appender.append({PLAYS.name: plays(self._count)})
            self._cluster.wait_for({PLAYS.group: self._appender.epoch}, PATIENCE_SECONDS)
        return super().run(host, request, cancelled)


@contextmanager
def slow_service(
    directory: Path, monkeypatch: pytest.MonkeyPatch, *, is_kept: bool
) -> Iterator[QueryService]:
    """A service whose peer is slow. Of a group there is the newest epoch alone, but for what is kept."""
    monkeypatch.setattr(epoch_lease, "LEASE_AFTER_SECONDS", 0.0 if is_kept else 1e6)
    changelog = Changelog.open(str(directory / "changelog"))
    genres = pa.table({"genre": pa.array(range(10), pa.int64()), "weight": pa.array([1] * 10, pa.int64())})
    append_table(changelog, GENRES, genres)
    appender = open_appender(changelog, [PLAYS])
    appender.append({PLAYS.name: plays(2)})
    with following_cluster(changelog, directory, HOSTS, FollowerOptions(retained_epochs=1)) as cluster:
        newest = {group: changelog.newest_epoch(group) for group in (PLAYS.group, GENRES.group)}
        cluster.wait_for(newest, PATIENCE_SECONDS)
        peers = _SlowPeers(cluster, HOSTS[0], appender, is_kept=is_kept)
        source = cluster.sources[HOSTS[0]]
        hold = source.hold

        def hold_and_note(epochs: Mapping[GroupName, Epoch], seconds: float) -> None:
            hold(epochs, seconds)
            peers.note_kept(HOSTS[0], epochs)

        monkeypatch.setattr(source, "hold", hold_and_note)
        service = QueryService(source, SMALL, DeploymentHosts(peers, HOSTS[0], Assignment(HOSTS).order))
        try:
            yield service
        finally:
            service.close()


def test_epochs_are_kept_for_a_fragment_that_begins_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with slow_service(tmp_path, monkeypatch, is_kept=True) as service:
        with service.execute(f"EXPLAIN {LATER_FRAGMENT}") as lines:
            assert "broadcast" in str(lines.read_all().to_pylist())
        with service.execute(LATER_FRAGMENT) as result:
            assert result.read_all().to_pylist() == [{"weight": 1, "n": 2 * ROWS}]
        assert service.figures().retries == 0


def test_who_has_tried_often_enough_says_why_it_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        slow_service(tmp_path, monkeypatch, is_kept=False) as service,
        pytest.raises(Unavailable, match=r"The last one said: Group plays cannot be read at epoch \d+ .*\.$"),
    ):
        service.execute(LATER_FRAGMENT)
