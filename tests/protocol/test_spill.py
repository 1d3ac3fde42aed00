"""A host's spill directory, and statements that need it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import adbc_driver_flightsql.dbapi as flight_sql
import numpy as np
import pyarrow as pa
import pytest

from engine.changelog import Changelog, append_table
from engine.errors import LimitExceeded
from engine.model.schema import define_store
from engine.service import QueryOptions
from flight_server.client.client import Client
from flight_server.host.host import Host, HostOptions
from tests.support.started_host import start_host

NUMBERS = pa.table({"id": np.arange(2_000_000)})
SORTED = "SELECT id, md5(id::VARCHAR) AS m FROM numbers ORDER BY m"


@pytest.fixture
def options(tmp_path: Path) -> HostOptions:
    definition = define_store("numbers", NUMBERS.schema, ["id"], partitions=2)
    append_table(Changelog.open(str(tmp_path / "changelog")), definition, NUMBERS)
    return HostOptions(
        changelog=str(tmp_path / "changelog"),
        data=tmp_path / "data",
        port=0,
        queries=QueryOptions(memory_limit_bytes=80 << 20, threads=2),
    )


def test_a_host_spills_below_its_data_directory(options: HostOptions) -> None:
    spill = options.data / "spill"
    spill.mkdir(parents=True)
    (spill / "left").write_text("by a process that was killed")
    host = Host(options)
    host.start()
    try:
        host.wait_until_ready(60)
        assert not (spill / "left").exists()
        with Client(host.uri, timeout_seconds=60) as client:
            assert client.query(SORTED).read_all().num_rows == NUMBERS.num_rows
    finally:
        host.stop()
    assert not spill.exists()


def test_a_store_group_that_is_called_like_the_directory_is_not_deleted(tmp_path: Path) -> None:
    """Each start and each stop of a host deletes what is spilled."""
    table = pa.table({"id": [1, 2]})
    definition = define_store("spill", table.schema, ["id"], partitions=1)
    append_table(Changelog.open(str(tmp_path / "changelog")), definition, table)
    options = HostOptions(changelog=str(tmp_path / "changelog"), data=tmp_path / "data", port=0)
    stored: list[Path] = []
    for _ in range(2):
        with start_host(options) as host, Client(host.uri, timeout_seconds=60) as client:
            assert client.query("SELECT count(*) AS n FROM spill").read_all()["n"].to_pylist() == [2]
            assert all(path.exists() for path in stored)
        stored = list(options.data.rglob("CURRENT"))
        assert stored


def test_without_spilling_the_limit_is_an_error(options: HostOptions) -> None:
    host = Host(replace(options, queries=replace(options.queries, spill_limit_bytes=0)))
    host.start()
    try:
        host.wait_until_ready(60)
        assert not (options.data / "spill").exists()
        with (
            Client(host.uri, timeout_seconds=60) as client,
            pytest.raises(LimitExceeded, match=r"memory_limit_bytes.*spill_limit_bytes"),
        ):
            client.query(SORTED).read_all()
    finally:
        host.stop()


def test_drivers_prepare_parameters_that_only_the_engine_can_type(options: HostOptions) -> None:
    sql = (
        "SELECT id FROM (SELECT id, [id, 2] AS k FROM numbers) d WHERE k[1] BETWEEN ? AND ? AND length(k) "
        "+ ? > 3 AND k = ?"
    )
    host = Host(options)
    host.start()
    try:
        host.wait_until_ready(60)
        with flight_sql.connect(host.uri, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(sql, (5, 10, 2, [7, 2]))
            assert cursor.fetchall() == [(7,)]
            cursor.execute("SELECT count(*), max(id) FROM numbers WHERE id < ?", (10,))
            assert [column[0] for column in cursor.description or ()] == ["count_star()", "max(id)"]
    finally:
        host.stop()
