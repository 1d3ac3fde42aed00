"""A host with rows, as every protocol test talks to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow as pa
import pytest
from adbc_driver_manager.dbapi import Connection
from pyarrow import flight

from engine.changelog import Changelog, append_table
from engine.model.schema import define_store
from flight_server.host.host import Host, HostOptions
from tests.support.certificate import Certificate, make_certificate
from tests.support.typed_rows import FIELDS, VALUES

BIG_ROWS = 200_000
TYPED_ROWS = [
    {**VALUES, "id": 1, "tiny": -5, "unsigned": 2**63 + 1, "single": 0.5, "point": {"x": 1, "y": None}},
    {"id": 2},
]
TYPED = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("tiny", pa.int8()),
        ("unsigned", pa.uint64()),
        ("single", pa.float32()),
        *FIELDS,
        ("point", pa.struct([("x", pa.int64()), ("y", pa.string())])),
    ]
)
SONGS = pa.table({"song_id": [1, 2, 3], "title": ["one", "two", "three"], "plays": [10, 20, 30]})


def fill(changelog: Changelog) -> None:
    """Three stores: `songs`, `typed` with a column of each type, and `big` of some 20 MB; and one whose name
    needs quotes.
    """
    append_table(changelog, define_store("songs", SONGS.schema, ["song_id"], partitions=4), SONGS)
    append_table(
        changelog, define_store("typed", TYPED, ["id"], partitions=2), pa.Table.from_pylist(TYPED_ROWS, TYPED)
    )
    numbers = pa.array(range(BIG_ROWS), pa.int64())
    big = pa.table(
        {
            "id": numbers,
            "twin": numbers,
            "text": numbers.cast(pa.string()).cast(pa.binary()),
            "pad": ["x" * 64] * BIG_ROWS,
        }
    )
    append_table(changelog, define_store("big", big.schema, ["id"], partitions=2), big)
    odd = pa.table({"a key": ["k"], 'va"lue': [1]})
    append_table(changelog, define_store("Odd 100%_name", odd.schema, ["a key"], partitions=1), odd)


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host that has caught up with `fill`."""
    directory: Path = tmp_path_factory.mktemp("protocol")
    fill(Changelog.open(str(directory / "changelog")))
    host = Host(HostOptions(changelog=str(directory / "changelog"), data=directory / "data", port=0))
    host.start()
    host.wait_until_ready(timeout_seconds=60)
    yield host
    assert host.stop()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """A certificate of this machine that nobody else has signed."""
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def uri(host: Host) -> str:
    """Where the host listens."""
    return host.uri


@pytest.fixture
def adbc(uri: str) -> Iterator[Connection]:
    """A connection of the real ADBC driver."""
    with flight_sql.connect(uri, autocommit=True) as connection:
        yield connection


@pytest.fixture
def plain(uri: str) -> Iterator[flight.FlightClient]:
    """A plain Flight client."""
    with flight.connect(uri) as client:
        yield client
