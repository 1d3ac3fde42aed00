"""`livestate scrub` against a host, as a user runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.changelog import Changelog, append_table
from engine.model.schema import define_store
from engine.state.rocks import Rocks
from engine.state.state_options import StateOptions
from flight_server.cli.scrub import progress_text
from flight_server.client.client import Client
from flight_server.host.host import Host, HostOptions
from flight_server.host.serving import ServeArguments, host_options
from tests.support.started_host import start_host
from tests.support.waiting import wait_until
from tests.unit.cli.conftest import SONGS, livestate


@pytest.fixture
def options(tmp_path: Path) -> HostOptions:
    store = define_store("songs", SONGS.schema, ["song_id"], partitions=2)
    append_table(Changelog.open(str(tmp_path / "changelog")), store, SONGS)
    return HostOptions(changelog=str(tmp_path / "changelog"), data=tmp_path / "data", port=0)


def harm(host: Host) -> None:
    """Have the disk lose a block of a partition that is open."""
    store = next(
        store
        for group in host.source._groups.values()
        for store in group.partitions
        if store.version.live_rows
    )
    storage = store.context.storage
    key, _ = next(iter(storage.pairs(b"b")))
    storage.write_atomically([], [(key, key + b"\0")])


def test_a_host_without_damage(options: HostOptions) -> None:
    with start_host(options) as host:
        assert livestate("scrub", "--status", "--uri", host.uri).stdout == "No scrub has run.\n"
        found = livestate("scrub", "--uri", host.uri)
        assert found.exit_code == 0, found.output
        assert "100 %" in found.stdout
        assert "2 of 2 partitions, all that there is" in found.stdout
        assert (
            livestate("scrub", "--status", "--uri", host.uri).stdout == found.stdout.splitlines()[-1] + "\n"
        )


def test_damage_is_named_and_mended(options: HostOptions) -> None:
    with start_host(options) as host, Client(host.uri) as client:
        harm(host)
        found = livestate("scrub", "--rate", "1000", "--uri", host.uri)
        assert found.exit_code == 1
        assert "of group songs is damaged: block" in found.stdout
        assert "builds it again" in found.stdout
        wait_until(lambda: livestate("scrub", "--uri", host.uri).exit_code == 0)
        rows = client.query("SELECT count(*) AS n, sum(song_id) AS s FROM songs").read_all().to_pylist()
        assert rows == [{"n": 3, "s": 6}]


def test_what_is_not_open_is_not_read(options: HostOptions) -> None:
    with start_host(options):
        pass
    held = Rocks(options.data / "songs" / "songs" / "0", StateOptions())
    host = Host(options)
    host.start()
    try:
        found = livestate("scrub", "--uri", host.uri)
        assert found.exit_code == 1
        assert "songs/0 of group songs: it is not open" in found.stdout
        assert "(could not be read)" in found.stdout
        held.close()
        wait_until(host.is_ready)
        assert livestate("scrub", "--uri", host.uri).exit_code == 0
    finally:
        host.stop()


def test_a_scrub_is_cancelled(options: HostOptions) -> None:
    with start_host(options) as host, Client(host.uri) as client:
        assert client.scrub("begin", 0.1)["is_running"]
        assert livestate("scrub", "--cancel", "--uri", host.uri).exit_code == 0
        wait_until(lambda: not client.scrub("status")["is_running"])
        assert client.scrub("status")["is_cancelled"]
        assert "cancelled" in livestate("scrub", "--status", "--uri", host.uri).stdout
        assert livestate("scrub", "--cancel", "--status", "--uri", host.uri).exit_code == 2


def test_a_host_is_told_how_often_and_how_fast(tmp_path: Path) -> None:
    given = ServeArguments(changelog="c", data=tmp_path, scrub_every=60.0, scrub_rate=2.0)
    scrubs = host_options(given).follower.scrubs
    assert (scrubs.every_seconds, scrubs.rate_bytes) == (60.0, 2 << 20)
    scrubs = host_options(ServeArguments(changelog="c", data=tmp_path)).follower.scrubs
    assert (scrubs.every_seconds, scrubs.rate_bytes) == (0.0, 32 << 20)


def test_threads_follow_the_cores_unless_a_host_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ServeArguments(changelog="c", data=tmp_path, apply_threads=3, compaction_threads=1)
    told = host_options(given).follower
    assert (told.apply_threads, told.compaction_threads) == (3, 1)
    for cores, threads in ((1, 2), (2, 2), (48, 48)):
        monkeypatch.setattr("os.sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        found = host_options(ServeArguments(changelog="c", data=tmp_path)).follower
        assert (found.apply_threads, found.compaction_threads) == (threads, threads)


def test_progress_in_words() -> None:
    status = {
        "number": 1,
        "is_running": True,
        "is_cancelled": False,
        "bytes": 40 << 20,
        "bytes_done": 10 << 20,
        "partitions": 4_000,
        "partitions_done": 1_000,
    }
    assert progress_text(status) == "25 %: 10.0 of 40.0 MiB, 1,000 of 4,000 partitions"
    assert progress_text({**status, "bytes_done": 0, "bytes": 0}).startswith("0 %")
    assert progress_text({**status, "partitions_done": 4_000, "is_running": False}).startswith("100 %")
