"""The real ADBC driver, through DB-API and pandas."""

from __future__ import annotations

import datetime as dt
import decimal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import adbc_driver_flightsql.dbapi as flight_sql
import pandas as pd
import pyarrow as pa
import pytest
from adbc_driver_manager import NotSupportedError, OperationalError, ProgrammingError
from adbc_driver_manager.dbapi import Connection

from flight_server.host.host import Host
from tests.protocol.conftest import BIG_ROWS, SONGS, TYPED, TYPED_ROWS
from tests.support.typed_rows import NOON
from tests.support.waiting import wait_until


def test_rows_come_as_tuples_arrow_and_pandas(adbc: Connection) -> None:
    with adbc.cursor() as cursor:
        cursor.execute("SELECT title, plays FROM songs ORDER BY plays DESC LIMIT 2")
        assert [column[0] for column in cursor.description or ()] == ["title", "plays"]
        assert cursor.fetchall() == [("three", 30), ("two", 20)]
        cursor.execute("SELECT * FROM songs ORDER BY song_id")
        assert cursor.fetch_arrow_table().equals(
            SONGS.cast(cursor.adbc_execute_schema("SELECT * FROM songs"))
        )
        cursor.execute("SELECT title, plays FROM songs ORDER BY song_id")
        frame = cursor.fetch_df()
        assert list(frame["title"]) == ["one", "two", "three"]
        assert frame["plays"].sum() == 60


def test_pandas_reads_sql_and_tables(adbc: Connection) -> None:
    frame = pd.read_sql("SELECT song_id, plays FROM songs ORDER BY song_id", adbc)
    assert frame.to_dict("list") == {"song_id": [1, 2, 3], "plays": [10, 20, 30]}
    assert len(pd.read_sql("SELECT * FROM songs", adbc, params=None)) == 3


def test_every_type_arrives_as_it_was_written(adbc: Connection) -> None:
    with adbc.cursor() as cursor:
        cursor.execute("SELECT * FROM typed ORDER BY id")
        table = cursor.fetch_arrow_table()
    assert table.schema.types == TYPED.types
    assert table.to_pylist() == pa.Table.from_pylist(TYPED_ROWS, TYPED).to_pylist()


PARAMETERS: list[tuple[str, Any]] = [
    ("id = ?", 1),
    ("tiny = ?", -5),
    ("single = ?", 0.5),
    ("amount = ?", decimal.Decimal("12345.678")),
    ("name = ?", "Ærø 🎵"),
    ("raw = ?", b"\x00\xff"),
    ("flag = ?", True),
    ("day = ?", NOON.date()),
    ("moment = ?", NOON),
    ("instant = ?", NOON.replace(tzinfo=dt.UTC)),
    ("id = $1 AND name = $2", (1, "Ærø 🎵")),
]


@pytest.mark.parametrize(("condition", "value"), PARAMETERS, ids=[case[0] for case in PARAMETERS])
def test_parameters_of_every_type(adbc: Connection, condition: str, value: Any) -> None:
    with adbc.cursor() as cursor:
        cursor.execute(
            f"SELECT id FROM typed WHERE {condition}", value if isinstance(value, tuple) else (value,)
        )
        assert cursor.fetchall() == [(1,)]


def test_a_parameter_that_stands_alone_has_the_type_of_its_value(adbc: Connection) -> None:
    for value in ([1, 2], ["x"], {"a": 1}, 7, 1.5, "x", True):
        with adbc.cursor() as cursor:
            cursor.execute("SELECT ? AS a, ? AS b", [value, "y"])
            assert cursor.fetchall() == [(value, "y")]


def test_a_null_parameter_equals_nothing(adbc: Connection) -> None:
    with adbc.cursor() as cursor:
        cursor.execute("SELECT id FROM typed WHERE name = ?", (None,))
        assert cursor.fetchall() == []


def test_a_list_of_no_keys_finds_nothing(adbc: Connection) -> None:
    """The driver cannot say of what an empty list is."""
    for sql in (
        "SELECT song_id FROM songs WHERE song_id = ANY(?)",
        "SELECT song_id FROM songs WHERE title = ANY(?)",
        "SELECT id FROM typed WHERE amount = ANY(?)",
        "SELECT id FROM typed WHERE instant = ANY(?)",
    ):
        for keys in ([], [None]):
            with adbc.cursor() as cursor:
                cursor.execute(sql, (keys,))
                assert cursor.fetchall() == [], sql
    with adbc.cursor() as cursor:
        cursor.execute("SELECT ? AS a, ? AS b", ([[], None, [None]], {"x": [], "y": None}))
        assert cursor.fetchall() == [([[], None, [None]], {"x": [], "y": None})]


def test_a_list_of_keys_is_joined(adbc: Connection) -> None:
    with adbc.cursor() as cursor:
        cursor.execute(
            "SELECT id, title FROM unnest(?) AS k(id) LEFT JOIN songs ON song_id = id ORDER BY id",
            ([3, 9, 1],),
        )
        assert cursor.fetchall() == [(1, "one"), (3, "three"), (9, None)]


def test_a_prepared_statement_runs_again_with_other_values(adbc: Connection) -> None:
    with adbc.cursor() as cursor:
        for song, title in ((1, "one"), (2, "two"), (99, None), (3, "three")):
            cursor.execute("SELECT title FROM songs WHERE song_id = ?", (song,))
            assert cursor.fetchall() == ([(title,)] if title else [])
        cursor.adbc_prepare("SELECT title FROM songs WHERE song_id = ? OR title = ?")
        assert len(cursor.adbc_prepare("SELECT title FROM songs WHERE song_id = ? OR title = ?") or ()) == 2


def test_parameters_that_do_not_fit_are_refused(adbc: Connection) -> None:
    sql = "SELECT title FROM songs WHERE song_id = ?"

    def ask(parameters: Any) -> list[tuple[Any, ...]]:
        with adbc.cursor() as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetchall()

    for parameters in (("not a number",), (1, 2), ([1],), None):
        with pytest.raises(ProgrammingError, match=r"INVALID_ARGUMENT.*arameter"):
            ask(parameters)
    with pytest.raises(ProgrammingError, match="one row"):
        ask(pa.table({"0": [1, 2]}))
    assert ask((1,)) == [("one",)]


def test_no_row_of_parameters_does_not_mean_those_of_before(adbc: Connection) -> None:
    sql = "SELECT title FROM songs WHERE song_id = ?"
    empty = pa.table({"0": pa.array([], pa.int64())})
    with adbc.cursor() as cursor:
        cursor.execute(sql, (1,))
        assert cursor.fetchall() == [("one",)]
        # A record batch without rows is another matter: the driver does not send it.
        for parameters in (empty, pa.RecordBatchReader.from_batches(empty.schema, [])):
            with pytest.raises(ProgrammingError, match=r"no row of parameters. Bind one row"):
                cursor.execute(sql, parameters)
        cursor.execute(sql, (2,))
        assert cursor.fetchall() == [("two",)]
        # A batch without columns has no values to bind.
        cursor.execute("SELECT 1", pa.table({}))
        assert cursor.fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("DELETE FROM songs WHERE song_id = ?", "statements only read"),
        ("INSERT INTO songs VALUES (?, 'four', 4)", "statements only read"),
        ("UPDATE songs SET plays = ?", "statements only read"),
        ("SELECT 1; SELECT ?", "One statement"),
        ("SELECT * FROM songs TABLESAMPLE bernoulli(?)", "sampling"),
        ("SELECT CAST(? AS BIT)", "BIT"),
    ],
)
def test_what_is_refused_with_parameters_is_told(adbc: Connection, sql: str, message: str) -> None:
    with adbc.cursor() as cursor, pytest.raises(ProgrammingError, match=message):
        cursor.execute(sql, (5,))


def test_writing_is_refused(adbc: Connection) -> None:
    with adbc.cursor() as cursor, pytest.raises(NotSupportedError, match=r"with execute,.* read-only"):
        cursor.executemany("SELECT ?", [(1,), (2,)])
    with adbc.cursor() as cursor, pytest.raises(NotSupportedError, match="read-only"):
        cursor.adbc_ingest("songs", SONGS, mode="append")
    with adbc.cursor() as cursor, pytest.raises(NotSupportedError):
        cursor.execute("DELETE FROM songs")
    with adbc.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM songs")
        assert cursor.fetchone() == (3,)


@pytest.mark.parametrize(
    "sql", ["SELECT FROM WHERE", "SELECT 1 +", "", "SELECT nothing FROM songs", "SELECT * FROM nowhere"]
)
def test_sql_that_cannot_run_is_a_programming_error_without_traceback(adbc: Connection, sql: str) -> None:
    with adbc.cursor() as cursor:
        with pytest.raises(ProgrammingError) as caught:
            cursor.execute(sql)
        assert "Traceback" not in str(caught.value)
        assert ".py" not in str(caught.value)
        cursor.execute("SELECT 1 AS one")
        assert cursor.fetchone() == (1,)


def test_objects_tables_and_their_schemas(adbc: Connection) -> None:
    (catalog,) = adbc.adbc_get_objects().read_all().to_pylist()
    assert catalog["catalog_name"] == "livestate"
    (schema,) = catalog["catalog_db_schemas"]
    tables = {table["table_name"]: table for table in schema["db_schema_tables"]}
    assert set(tables) >= {"songs", "typed", "big", "Odd 100%_name"}
    assert [column["column_name"] for column in tables["songs"]["table_columns"]] == [
        "song_id",
        "title",
        "plays",
    ]
    assert adbc.adbc_get_table_schema("typed").equals(TYPED)
    assert adbc.adbc_get_table_types() == ["TABLE"]
    assert adbc.adbc_get_info()["vendor_name"] == "livestate"
    assert (adbc.adbc_current_catalog, adbc.adbc_current_db_schema) == ("livestate", "main")
    with pytest.raises(ProgrammingError, match="NOT_FOUND"):
        adbc.adbc_get_table_schema("nowhere")


def test_objects_can_be_narrowed(adbc: Connection) -> None:
    def names(**filters: Any) -> list[str]:
        found = adbc.adbc_get_objects(depth="tables", **filters).read_all().to_pylist()
        return [
            table["table_name"]
            for catalog in found
            for schema in catalog["catalog_db_schemas"]
            for table in schema["db_schema_tables"] or ()
        ]

    assert names(table_name_filter="song_") == ["songs"]
    assert names(table_name_filter="s%", db_schema_filter="ma%") == ["songs"]
    assert names(table_types_filter=["VIEW"]) == []
    assert names(db_schema_filter="other") == []
    assert names(table_name_filter="Odd 100\\%\\_%") == ["Odd 100%_name"]


def test_names_may_be_qualified(adbc: Connection) -> None:
    with adbc.cursor() as cursor:
        for name in ("main.songs", "livestate.main.songs", '"livestate"."main"."songs"'):
            cursor.execute(f"SELECT count(*) FROM {name}")
            assert cursor.fetchone() == (3,)


def test_a_large_result_comes_in_batches_below_8_mib(adbc: Connection) -> None:
    with adbc.cursor() as cursor:
        cursor.execute("SELECT * FROM big")
        reader = cursor.fetch_record_batch()
        batches = list(reader)
    assert sum(batch.num_rows for batch in batches) == BIG_ROWS
    assert len(batches) > 1
    assert max(batch.nbytes for batch in batches) <= 8 << 20
    assert pa.compute.sum(pa.Table.from_batches(batches)["id"]).as_py() == BIG_ROWS * (BIG_ROWS - 1) // 2


def test_a_result_left_half_read_costs_the_host_nothing(adbc: Connection, host: Host) -> None:
    for _ in range(3):
        with adbc.cursor() as cursor:
            cursor.execute("SELECT * FROM big")
            assert cursor.fetchone() is not None
    wait_until(lambda: host.running_queries == 0)
    with adbc.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM big")
        assert cursor.fetchone() == (BIG_ROWS,)


def test_eight_threads_with_connections_of_their_own(uri: str) -> None:
    def ask(thread: int) -> list[tuple[int, list[tuple[Any, ...]]]]:
        answers = []
        with flight_sql.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
            for turn in range(20):
                key = thread * 1000 + turn
                cursor.execute("SELECT id, twin FROM big WHERE id = ?", (key,))
                answers.append((key, cursor.fetchall()))
        return [answer for answer in answers if answer[1] != [(answer[0], answer[0])]]

    with ThreadPoolExecutor(8) as pool:
        assert [wrong for wrong in pool.map(ask, range(8)) if wrong] == []


def test_cancel_interrupts_a_running_query(adbc: Connection, host: Host) -> None:
    with adbc.cursor() as cursor, ThreadPoolExecutor(1) as pool:
        cursor.execute("SELECT count(*) FROM big a, big b, big c WHERE a.id + b.id + c.id = -1")
        running = pool.submit(cursor.fetchall)
        wait_until(lambda: host.running_queries == 1)
        cursor.adbc_cancel()
        with pytest.raises(OperationalError):
            running.result(timeout=60)
        wait_until(lambda: host.running_queries == 0)
    with adbc.cursor() as cursor:
        cursor.execute("SELECT 1 AS one")
        assert cursor.fetchone() == (1,)


def test_a_call_timeout_ends_the_query(uri: str, host: Host) -> None:
    options = {"adbc.flight.sql.rpc.timeout_seconds.fetch": "0.5"}
    with (
        flight_sql.connect(uri, conn_kwargs=options, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        with pytest.raises(OperationalError):
            cursor.execute("SELECT count(*) FROM big a, big b, big c WHERE a.id + b.id + c.id = -1")
            cursor.fetchall()
        wait_until(lambda: host.running_queries == 0)


def test_a_user_and_password_are_taken_by_an_open_host(uri: str) -> None:
    with (
        flight_sql.connect(
            uri, db_kwargs={"username": "me", "password": "any"}, autocommit=True
        ) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT count(*) FROM songs")
        assert cursor.fetchone() == (3,)


def test_an_sql_text_of_10_mb_runs(adbc: Connection) -> None:
    with adbc.cursor() as cursor:
        cursor.execute("SELECT length('" + "x" * (10 << 20) + "') AS characters")
        assert cursor.fetchone() == (10 << 20,)


def test_a_broken_sql_text_of_10_mb_has_a_short_error(adbc: Connection) -> None:
    with adbc.cursor() as cursor:
        with pytest.raises((ProgrammingError, OperationalError)) as caught:
            cursor.execute("SELECT FROM FROM " + "x" * (10 << 20))
        assert len(str(caught.value)) < 3000
        cursor.execute("SELECT 1 AS one")
        assert cursor.fetchone() == (1,)
