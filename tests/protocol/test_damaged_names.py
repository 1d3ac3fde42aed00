"""Statements that name a store of which the changelog is damaged: it is there, and cannot be read now."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, append_table
from engine.changelog.layout import definition_path, switch_path
from engine.errors import NotFound, Unavailable
from engine.model.schema import StoreName, define_store
from flight_server.client.client import Client
from flight_server.host.host import HostOptions
from tests.support.started_host import start_host
from tests.support.waiting import wait_until

ROWS = pa.table({"id": pa.array(range(10), pa.int64()), "n": pa.array(range(10), pa.int64())})


def is_answered(client: Client, name: str) -> bool:
    """Whether a statement on a name is; one that a host has just heard of may not be there yet."""
    try:
        found = client.query(f"SELECT count(*) AS n FROM {name}").read_all()
    except (NotFound, Unavailable):
        return False
    return bool(found.to_pylist() == [{"n": 10}])


def test_what_is_damaged_is_unavailable_and_what_is_not_there_not_found(tmp_path: Path) -> None:
    changelog = str(tmp_path / "changelog")
    for name in ("plays", "Songs"):
        append_table(Changelog.open(changelog), define_store(name, ROWS.schema, ["id"], partitions=2), ROWS)
    Changelog.open(changelog).switch(StoreName("charts"), StoreName("plays"))
    damaged = [definition_path(StoreName("Songs")), switch_path(StoreName("charts"), 1)]
    files = {Path(changelog, *path.split("/")): b"" for path in damaged}
    for file in files:
        files[file] = file.read_bytes()
        file.write_bytes(b"{}")
    with (
        start_host(HostOptions(changelog, tmp_path / "data", port=0)) as host,
        Client(host.uri) as client,
    ):
        for sql in ("SELECT * FROM songs", "SELECT n FROM plays JOIN Songs USING (id)", "EXPLAIN FROM Songs"):
            with pytest.raises(Unavailable, match=r"^Store Songs cannot be read: "):
                client.query(sql).read_all()
        with pytest.raises(Unavailable, match=r"^Store Songs cannot be read: "):
            client.keys("songs")
        with pytest.raises(Unavailable, match="charts"):
            client.query("SELECT count(*) FROM charts").read_all()
        with pytest.raises(NotFound, match=r"^There is no store song\."):
            client.query("SELECT * FROM song").read_all()
        assert client.query("SELECT count(*) AS n FROM plays").read_all().to_pylist() == [{"n": 10}]
        for file, content in files.items():
            file.write_bytes(content)
        wait_until(lambda: all(is_answered(client, name) for name in ("songs", "charts")))
