"""`livestate drain` against a host, as a user runs it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.changelog import Changelog, append_table
from engine.errors import Cancelled
from engine.model.schema import define_store
from flight_server.client.client import Client
from flight_server.host.host import HostOptions
from tests.support.started_host import start_host
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.unit.cli.conftest import SONGS, livestate

ENDLESS = "SELECT sum(hash(song_id + r.n)) AS n FROM songs, range(1000000000) r(n)"


def test_a_host_is_drained_and_taken_back(tmp_path: Path) -> None:
    store = define_store("songs", SONGS.schema, ["song_id"], partitions=2)
    append_table(Changelog.open(str(tmp_path / "changelog")), store, SONGS)
    options = HostOptions(changelog=str(tmp_path / "changelog"), data=tmp_path / "data", port=0)
    with start_host(options) as host, Client(host.uri) as client, ThreadPoolExecutor(1) as pool:
        at = ("--uri", host.uri)
        assert livestate("drain", "--status", *at).stdout == "The host takes statements; nothing runs.\n"
        asked = pool.submit(lambda: client.query(ENDLESS, call_id=b"endless").read_all())
        wait_until(lambda: host.running_queries == 1)
        busy = livestate("drain", "--timeout", "0", *at)
        assert (busy.exit_code, busy.stdout) == (1, "The host takes no new statements; one statement runs.\n")
        refused = livestate("sql", "SELECT 1", *at)
        assert refused.exit_code == 1
        assert "ask another host" in refused.stderr
        client.cancel(b"endless")
        with pytest.raises(Cancelled):
            asked.result(PATIENCE_SECONDS)
        idle = livestate("drain", *at)
        assert idle.exit_code == 0
        assert idle.stdout.endswith("nothing runs. It can be stopped.\n")
        assert livestate("drain", "--undo", *at).stdout == "The host takes statements; nothing runs.\n"
        assert livestate("sql", "SELECT 1", *at).exit_code == 0
        assert livestate("drain", "--undo", "--status", *at).exit_code == 2
