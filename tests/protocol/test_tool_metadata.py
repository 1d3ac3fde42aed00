"""What drivers tell tools of a result's columns, and SET of a session's options, with the real drivers."""

from __future__ import annotations

from collections.abc import Mapping

import adbc_driver_flightsql.dbapi as flight_sql
import adbc_driver_manager
import pyarrow as pa
import pytest
from adbc_driver_manager.dbapi import Connection
from pyarrow import flight

from flight_server.host.host import Host
from flight_server.wire.messages import new, pack

COOKIES = {"adbc.flight.sql.rpc.with_cookie_middleware": "true"}


def facts(field: pa.Field) -> Mapping[str, str]:
    return {
        name.decode().removeprefix("ARROW:FLIGHT:SQL:"): value.decode()
        for name, value in field.metadata.items()
    }


def told_schema(client: flight.FlightClient, sql: str) -> pa.Schema:
    descriptor = flight.FlightDescriptor.for_command(pack(new("CommandStatementQuery", query=sql)))
    info = client.get_flight_info(descriptor)
    assert info.schema.equals(client.get_schema(descriptor).schema, check_metadata=True)
    assert client.do_get(info.endpoints[0].ticket).read_all().schema.equals(info.schema)
    return info.schema


def test_columns_of_a_result_say_of_which_table_they_are(plain: flight.FlightClient) -> None:
    for _ in range(2):  # the second time the statement is kept
        schema = told_schema(
            plain,
            "WITH x AS (SELECT id, amount AS price, name FROM typed WHERE id > 0) "
            "SELECT x.id, x.price, y.title, x.price + 1 AS more, x.name || 'z' AS text "
            "FROM x JOIN (SELECT * FROM songs) AS y ON y.song_id = x.id",
        )
        tables = [facts(field).get("TABLE_NAME") for field in schema]
        assert tables == ["typed", "typed", "songs", None, None]
        price = facts(schema.field("price"))
        assert (price["PRECISION"], price["SCALE"], price["TYPE_NAME"]) == ("12", "3", "DECIMAL(12,3)")
        assert (price["CATALOG_NAME"], price["DB_SCHEMA_NAME"]) == ("livestate", "main")
        assert facts(schema.field("id"))["PRECISION"] == "19"
        assert facts(schema.field("text"))["TYPE_NAME"] == "VARCHAR"


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("SELECT title FROM songs WHERE song_id = 2", ["songs"]),
        ("SELECT * FROM songs", ["songs"] * 3),
        ("SELECT count(*), max(title) FROM songs", [None, None]),
        ("SELECT song_id FROM songs UNION ALL SELECT id FROM typed", [None]),
        ("SELECT (SELECT max(title) FROM songs), id FROM typed", [None, "typed"]),
        ("SELECT a.title, b.title FROM songs a, songs b", ["songs", "songs"]),
        ("SELECT * FROM songs, songs SEMI JOIN songs ON true, songs SEMI JOIN songs ON true", [None] * 3),
        ("SHOW TABLES", [None]),
        ("SELECT 1, TIME '12:00:00' AS t", [None, None]),
        ("PIVOT songs ON song_id USING sum(plays) GROUP BY title", [None] * 4),
    ],
)
def test_what_is_computed_is_of_no_table(
    plain: flight.FlightClient, sql: str, tables: list[str | None]
) -> None:
    assert [facts(field).get("TABLE_NAME") for field in told_schema(plain, sql)] == tables


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("TIME '12:00:00'", "TIME"),
        ("TIME_NS '12:00:00'", "TIME_NS"),
        ("INTERVAL 1 DAY", "INTERVAL"),
        ("TIMESTAMP_NS '2020-01-01'", "TIMESTAMP_NS"),
        ("'2020-01-01 00:00:00+00'::TIMESTAMPTZ_NS", "TIMESTAMPTZ_NS"),
        ("[TIME '12:00:00']", "TIME[]"),
        ("MAP {'a': INTERVAL 1 DAY}", "MAP(VARCHAR, INTERVAL)"),
        ("{'a': [INTERVAL 1 DAY], 'b': 1.5}", 'STRUCT("a" INTERVAL[], "b" DECIMAL(2,1))'),
    ],
)
def test_types_that_no_store_has_are_called_as_duckdb_calls_them(
    plain: flight.FlightClient, sql: str, name: str
) -> None:
    assert facts(told_schema(plain, f"SELECT {sql} AS x").field(0))["TYPE_NAME"] == name
    described = plain.do_get(flight.Ticket(f"DESCRIBE SELECT {sql} AS x".encode())).read_all()
    assert described["column_type"].to_pylist() == [name]


def test_adbc_gets_them_too(adbc: Connection) -> None:
    with adbc.cursor() as cursor:
        schema = cursor.adbc_execute_schema("SELECT song_id, plays * 2 AS twice FROM songs")
    assert facts(schema.field(0))["TABLE_NAME"] == "songs"
    assert "TABLE_NAME" not in facts(schema.field(1))


def test_set_changes_an_option_of_a_session_that_has_a_cookie(host: Host) -> None:
    with (
        flight_sql.connect(host.uri, db_kwargs=COOKIES, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SET dialect = 'spark'")
        assert cursor.fetchall() == []
        cursor.execute('SELECT title FROM songs WHERE title = "two"')
        assert cursor.fetchall() == [("two",)]
        cursor.execute("SET min_epoch TO 1; ")
        cursor.execute("RESET dialect")
        with pytest.raises(adbc_driver_manager.ProgrammingError, match="There is no column two"):
            cursor.execute('SELECT title FROM songs WHERE title = "two"')
        for sql, message in (
            ("SET nothing = 1", "There is no session option 'nothing'"),
            ("SET timeout = 'soon'", "must be a number of seconds"),
            ("SET schema = 'other'", "only the schema main"),
            ("SET timeout", "Write SET name = value"),
        ):
            with pytest.raises(adbc_driver_manager.ProgrammingError, match=message):
                cursor.execute(sql)
        cursor.execute("SET schema = 'main'")


def test_set_is_refused_where_it_would_have_no_effect(adbc: Connection) -> None:
    with adbc.cursor() as cursor:
        with pytest.raises(adbc_driver_manager.ProgrammingError, match="this client keeps no cookies"):
            cursor.execute("SET timeout = 5")
            cursor.fetchall()
        cursor.execute("RESET timeout")
        assert cursor.fetchall() == []
