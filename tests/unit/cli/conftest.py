"""A host with songs in it, and a way to run commands as a user does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from engine.changelog import Changelog, append_table
from engine.model.schema import define_store
from flight_server.cli.main import main
from flight_server.client.client import Client
from flight_server.host.host import Host, HostOptions
from tests.support.waiting import wait_until

SONGS = pa.table(
    {
        "song_id": pa.array([1, 2, 3], pa.int64()),
        "title": ["Ærø", 'with "quotes", and comma', None],
        "tags": pa.array([["a", "b"], [], None], pa.list_(pa.string())),
    }
)


@pytest.fixture(scope="package")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host that serves the store `songs`, one partition, and the store `Odd "name"`, without rows."""
    directory = tmp_path_factory.mktemp("host")
    changelog = Changelog.open(str(directory / "changelog"))
    append_table(changelog, define_store("songs", SONGS.schema, ["song_id"], partitions=1), SONGS)
    odd = pa.table({"the key": pa.array([], pa.string()), "when": pa.array([], pa.timestamp("us"))})
    append_table(changelog, define_store('Odd "name"', odd.schema, ["the key"], partitions=1), odd)
    running = Host(HostOptions(changelog=str(directory / "changelog"), data=directory / "data", port=0))
    running.start()
    wait_until(running.is_ready)
    yield running
    running.stop()


@pytest.fixture
def host_uri(host: Host) -> str:
    """Where the host listens."""
    return host.uri


@pytest.fixture
def client(host_uri: str) -> Iterator[Client]:
    """A connection to the host."""
    with Client(host_uri) as connected:
        yield connected


def livestate(*arguments: str | Path, stdin: str = "") -> Result:
    """Run the command in this process; its output is not a terminal."""
    return CliRunner().invoke(
        main, [str(argument) for argument in arguments], input=stdin, prog_name="livestate"
    )
