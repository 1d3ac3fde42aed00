"""Rows of a thousand columns and values of a megabyte: written, asked for, and there again after a restart
and without the disk.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow as pa
import pytest
from adbc_driver_flightsql import DatabaseOptions
from adbc_driver_manager import InternalError
from adbc_driver_manager.dbapi import Connection
from pyarrow import flight

from engine.changelog import Changelog, open_appender
from engine.model.schema import define_store
from engine.replica.follower_options import FollowerOptions
from engine.state.state_options import MIB, StateOptions
from flight_server.client.client import Client
from flight_server.host.host import Host, HostOptions
from flight_server.server.result_streams import TABLE_BYTES
from flight_server.wire.messages import new, pack
from flight_server.wire.tickets import Command
from tests.support.started_host import start_host

COLUMNS = 999
MAKE: Mapping[str, Callable[[int, int], object]] = {
    "n": lambda row, column: row * column,
    "t": lambda row, column: f"v{row * column % 97}",
    "f": lambda row, column: None if row % 3 == 0 else row / (column + 1),
    "l": lambda row, column: [row] * (column % 3),
}
KINDS = {"n": pa.int64(), "t": pa.string(), "f": pa.float64(), "l": pa.list_(pa.int64())}
NAMES = [f"{'ntfl'[column % 4]}{column}" for column in range(COLUMNS)]
WIDE = pa.schema([pa.field("id", pa.int64()), *(pa.field(name, KINDS[name[0]]) for name in NAMES)])

TEXTS = 40
LARGE = pa.schema(
    [pa.field("id", pa.int64()), ("text", pa.string()), ("bytes", pa.binary()), ("name", pa.string())]
)


def wide(first: int, after: int, factor: int = 1) -> pa.Table:
    """Rows with a value in each column that follows from its row and column."""
    columns = [[MAKE[name[0]](row * factor, int(name[1:])) for row in range(first, after)] for name in NAMES]
    return pa.table([pa.array(range(first, after)), *columns], schema=WIDE)


def large(first: int, after: int) -> pa.Table:
    """Rows with a text and bytes of a megabyte each."""
    rows = range(first, after)
    texts, raw = [chr(97 + row % 26) * MIB for row in rows], [bytes([row]) * MIB for row in rows]
    return pa.table([pa.array(rows), texts, raw, [f"n{row:03}" for row in rows]], schema=LARGE)


@contextmanager
def each_way(options: HostOptions) -> Iterator[Iterator[Host]]:
    """A host as it starts, as it starts again, and as it starts without what it had."""

    def hosts() -> Iterator[Host]:
        for is_lost in (False, False, True):
            if is_lost:
                shutil.rmtree(options.data)
            with start_host(options) as host:
                yield host

    found = hosts()
    yield found
    assert next(found, None) is None


def ask(connection: Connection, sql: str, *parameters: object) -> pa.Table:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters or None)
        return cursor.fetch_arrow_table()


def test_a_thousand_columns(tmp_path: Path) -> None:
    changelog = Changelog.open(str(tmp_path / "changelog"))
    with open_appender(changelog, [define_store("wide", WIDE, ["id"], partitions=2)]) as appender:
        appender.append({"wide": wide(0, 300)})
        for row in range(20):
            appender.append({"wide": wide(row, row + 1, factor=-1)})
    expected = pa.concat_tables([wide(0, 20, factor=-1), wide(20, 300)])
    with each_way(HostOptions(str(tmp_path / "changelog"), tmp_path / "data", port=0)) as hosts:
        for host in hosts:
            with flight_sql.connect(host.uri, autocommit=True) as connection:
                assert ask(connection, "SELECT * FROM wide").sort_by("id").equals(expected)
                assert ask(connection, "SELECT * FROM wide WHERE id = 7").equals(expected.slice(7, 1))
                few = ask(connection, "SELECT id, n996, t1, f998 FROM wide WHERE n4 < 0 ORDER BY id")
                assert few.equals(expected.slice(1, 19).select(["id", "n996", "t1", "f998"]))
                sums = ask(
                    connection,
                    "SELECT " + ", ".join(f"sum({name})" for name in NAMES if name[0] == "n") + " FROM wide",
                )
                assert sums.num_columns == 250
                assert sums[1][0].as_py() == 4 * (sum(range(20, 300)) - sum(range(20)))


def test_values_of_a_megabyte(tmp_path: Path) -> None:
    changelog = Changelog.open(str(tmp_path / "changelog"))
    with open_appender(changelog, [define_store("large", LARGE, ["id"], partitions=2)]) as appender:
        for first in range(0, TEXTS, 8):
            appender.append({"large": large(first, first + 8)})
        appender.append({"large": large(0, 2)})
    cache = 8 * MIB
    options = HostOptions(
        str(tmp_path / "changelog"),
        tmp_path / "data",
        port=0,
        follower=FollowerOptions(state=StateOptions(cache_bytes=cache)),
    )
    expected = large(0, TEXTS)
    with each_way(options) as hosts:
        for host in hosts:
            with flight_sql.connect(host.uri, autocommit=True) as connection:
                assert ask(connection, "SELECT * FROM large").sort_by("id").equals(expected)
                assert ask(connection, "SELECT * FROM large WHERE id = 31").equals(expected.slice(31, 1))
                several = ask(
                    connection,
                    "SELECT * FROM large WHERE id IN (" + ", ".join(map(str, range(30))) + ") ORDER BY id",
                )
                assert several.equals(expected.slice(0, 30))
                assert (
                    ask(connection, "SELECT text FROM large ORDER BY name DESC")["text"].to_pylist()
                    == expected["text"].to_pylist()[::-1]
                )
                text = expected["text"][3].as_py()
                for found in (
                    ask(connection, "SELECT id FROM large WHERE text = ?", text),
                    ask(connection, f"SELECT id FROM large WHERE text = '{text}'"),
                ):
                    assert sorted(found["id"].to_pylist()) == [3, 29]
                sizes = ask(connection, "SELECT sum(length(text)) + sum(octet_length(bytes)) AS n FROM large")
                assert sizes["n"].to_pylist() == [2 * TEXTS * MIB]


def test_a_row_that_is_larger_than_what_the_driver_takes_by_itself(tmp_path: Path) -> None:
    table = pa.table({"id": [1], "text": ["x" * (20 * MIB)]})
    with open_appender(
        Changelog.open(str(tmp_path / "changelog")),
        [define_store("huge", table.schema, ["id"], partitions=1)],
    ) as appender:
        appender.append({"huge": table})
    with start_host(HostOptions(str(tmp_path / "changelog"), tmp_path / "data", port=0)) as host:
        with (
            flight_sql.connect(host.uri, autocommit=True) as connection,
            pytest.raises(InternalError, match="received message larger than max"),
        ):
            ask(connection, "SELECT * FROM huge")
        more = {DatabaseOptions.WITH_MAX_MSG_SIZE.value: str(64 * MIB)}
        with flight_sql.connect(host.uri, autocommit=True, db_kwargs=more) as connection:
            assert ask(connection, "SELECT * FROM huge").equals(table)
        with Client(host.uri) as client:
            assert client.query("SELECT * FROM huge").read_all().equals(table)


def test_the_columns_of_many_stores_are_more_than_one_message(tmp_path: Path) -> None:
    names = [f"a_column_with_a_name_of_{'many' * 100}_letters_{place:03}" for place in range(500)]
    schema = pa.schema([("id", pa.int64()), *((name, pa.int64()) for name in names)])
    stores = [
        define_store(f"store_{place:02}", schema, ["id"], partitions=1, group="g") for place in range(32)
    ]
    with open_appender(Changelog.open(str(tmp_path / "changelog")), stores) as appender:
        appender.append({stores[0].name: schema.empty_table()})
    with (
        start_host(HostOptions(str(tmp_path / "changelog"), tmp_path / "data", port=0)) as host,
        flight_sql.connect(host.uri, autocommit=True) as connection,
        flight.connect(host.uri) as client,
    ):
        command = pack(new("CommandGetTables", include_schema=True))
        sizes = [chunk.data.nbytes for chunk in client.do_get(flight.Ticket(Command(command).to_bytes()))]
        assert sum(sizes) > 16 * MIB
        assert max(sizes) <= TABLE_BYTES
        (found,) = connection.adbc_get_objects(depth="columns").read_all()["catalog_db_schemas"][0].as_py()
        assert [len(table["table_columns"]) for table in found["db_schema_tables"]] == [501] * 32
