"""What tools ask before anything else, answered with the columns of the DuckDB that is installed here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing

import duckdb
import pyarrow as pa
import pytest

from engine.errors import InvalidInput, LimitExceeded, LivestateError, NotFound, Unsupported
from engine.model.kinds import Behaviour, Versioned
from engine.model.schema import StoreName, define_store
from engine.model.version import own_version
from engine.service import QueryService, Session
from engine.sql.catalog_tables import TABLES
from tests.support.local_cluster import host_names, memory_cluster
from tests.support.memory_source import MemorySource, memory_view

COLUMNS = {
    "id": ("BIGINT", pa.int64()),
    "tiny": ("TINYINT", pa.int8()),
    "large": ("UBIGINT", pa.uint64()),
    "share": ("FLOAT", pa.float32()),
    "ratio": ("DOUBLE", pa.float64()),
    "amount": ("DECIMAL(12,3)", pa.decimal128(12, 3)),
    "title": ("VARCHAR", pa.string()),
    "flag": ("BOOLEAN", pa.bool_()),
    "day": ("DATE", pa.date32()),
    "at": ("TIMESTAMP WITH TIME ZONE", pa.timestamp("us", "UTC")),
    "tags": ("VARCHAR[]", pa.list_(pa.string())),
}
SCHEMA = pa.schema([pa.field(name, kind, nullable=name != "id") for name, (_, kind) in COLUMNS.items()])
SONGS = define_store("songs", SCHEMA, ["id"], partitions=2)
PRICES = define_store(
    "prices",
    pa.schema([("symbol", pa.string()), ("at", pa.timestamp("us")), ("price", pa.int64())]),
    ["symbol"],
    partitions=1,
    behaviour=Behaviour(Versioned("at")),
)
OWN = {"catalog_name", "table_catalog", "constraint_catalog", "schema_owner", "is_insertable_into"}
"""Columns whose values are livestate's own."""


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with a table like the store."""
    columns = ", ".join(f'"{name}" {kind}' for name, (kind, _) in COLUMNS.items())
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE TABLE songs ({columns}, PRIMARY KEY (id))")
        yield connection


@pytest.fixture(scope="module", params=[1, 2], ids=["one host", "two hosts"])
def service(request: pytest.FixtureRequest) -> Iterator[QueryService]:
    rows = pa.Table.from_pylist([{"id": key, "title": f"title {key}"} for key in range(4)], SCHEMA)
    with memory_cluster([SONGS], {"songs": rows}, host_names(request.param)) as cluster:
        yield cluster.services[cluster.hosts[0]]


def answer(service: QueryService, sql: str, user: str = "anybody") -> pa.Table:
    with service.execute(sql, session=Session(user=user)) as result:
        table = result.read_all()
    assert service.prepare(sql).schema == table.schema
    return table


@pytest.mark.parametrize("dialect", ["bigquery", "mysql", "postgres", "snowflake", "spark", "trino", "tsql"])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT table_name FROM information_schema.tables WHERE table_name = 'songs'",
        "SELECT t.table_name FROM livestate.information_schema.tables AS t",
        "SELECT tables.table_name FROM INFORMATION_SCHEMA.tables",
        "SELECT information_schema.tables.table_name FROM system.information_schema.tables",
    ],
)
def test_other_dialects_read_the_catalog(service: QueryService, dialect: str, sql: str) -> None:
    with service.execute(sql, session=Session(dialect=dialect)) as result:
        assert result.read_all().to_pydict() == {"table_name": ["songs"]}


@pytest.mark.parametrize(
    "sql",
    [
        *(f"SELECT * FROM information_schema.{name}" for name in TABLES),
        "SHOW DATABASES",
        "SHOW SCHEMAS",
        "SHOW ALL TABLES",
        "SHOW TABLES FROM main",
        "SHOW",
        "DESCRIBE",
        "SELECT version()",
        "SELECT current_schema(), current_schema, current_database(), current_catalog()",
        "SELECT current_user, user, session_user, current_role, current_user() || 'x'",
        (
            "SELECT table_name, count(*) FROM information_schema.tables JOIN information_schema.columns "
            "USING (table_schema, table_name) WHERE table_schema = 'main' GROUP BY ALL"
        ),
    ],
)
def test_columns_are_those_of_duckdb(
    service: QueryService, plain: duckdb.DuckDBPyConnection, sql: str
) -> None:
    for _ in range(2):  # the second time the statement is kept
        assert answer(service, sql).schema == plain.sql(sql).to_arrow_table().schema


@pytest.mark.parametrize("sql", ["USE main", "USE livestate", 'USE livestate."main";'])
def test_use_of_what_is_used_changes_nothing(service: QueryService, sql: str) -> None:
    table = answer(service, sql)
    assert table.schema == pa.schema([("Success", pa.bool_())])
    assert table.num_rows == 0


@pytest.mark.parametrize("end", [" ;", " -- c", "\n/* c */ ; -- d\n", "--", "/**/"])
@pytest.mark.parametrize(
    "sql",
    [
        *("SHOW TABLES", "SHOW TABLES FROM main", "SHOW ALL TABLES", "SHOW", "DESCRIBE", "SHOW songs"),
        *("SHOW COLUMNS FROM main.songs", "DESCRIBE songs", "USE main", "EXPLAIN SELECT 1"),
    ],
)
def test_a_comment_may_stand_at_the_end(service: QueryService, sql: str, end: str) -> None:
    assert answer(service, sql + end) == answer(service, sql)


@pytest.mark.parametrize("name", ["tables", "columns", "key_column_usage"])
def test_rows_are_those_of_duckdb(service: QueryService, plain: duckdb.DuckDBPyConnection, name: str) -> None:
    sql = f"SELECT * FROM information_schema.{name} WHERE table_schema = 'main'"

    def comparable_rows(table: pa.Table) -> list[Mapping[str, object]]:
        return [
            {column: value for column, value in row.items() if column not in OWN} for row in table.to_pylist()
        ]

    assert comparable_rows(answer(service, sql)) == comparable_rows(plain.sql(sql).to_arrow_table())


def test_values_are_livestates_own(service: QueryService) -> None:
    sql = "SELECT version() AS v, current_database() AS d, current_schema AS s, current_user AS u"
    assert answer(service, sql, "ann").to_pylist() == [
        {"v": f"livestate {own_version()}", "d": "livestate", "s": "main", "u": "ann"}
    ]
    assert answer(service, sql, "bob")["u"].to_pylist() == ["bob"]
    assert answer(service, "SHOW SCHEMAS").to_pylist() == [
        {"database_name": "livestate", "schema_name": "main", "current": True}
    ]


def test_they_stand_wherever_tables_and_values_do(service: QueryService) -> None:
    stores = "(SELECT count(*) FROM information_schema.tables)"
    found = answer(
        service,
        f"SELECT id, {stores} AS n, current_user AS u FROM songs "
        "WHERE user = 'ann' AND 'title' IN (SELECT column_name FROM information_schema.columns) "
        "ORDER BY current_schema, id LIMIT 2",
        "ann",
    )
    assert found.to_pylist() == [{"id": 0, "n": 1, "u": "ann"}, {"id": 1, "n": 1, "u": "ann"}]
    assert answer(service, "SELECT id FROM songs WHERE user = 'ann'").num_rows == 0
    assert answer(service, "SELECT max(current_user) AS u, count(*) AS n FROM songs GROUP BY user")[
        "n"
    ].to_pylist() == [4]
    qualified = "SELECT information_schema.tables.table_name FROM information_schema.tables"
    assert answer(service, qualified)["table_name"].to_pylist() == ["songs"]
    own = 'WITH "tables" AS (SELECT 1 AS x) SELECT x FROM "tables", information_schema.schemata'
    assert answer(service, own).num_rows == 2
    for catalog in ("livestate", "system"):
        sql = f"SELECT table_name FROM {catalog}.information_schema.tables"
        assert answer(service, sql).num_rows == 1


@pytest.mark.parametrize("sql", ["SHOW COLUMNS FROM songs", "show columns in SONGS", "SHOW songs"])
def test_columns_of_a_store_are_shown_as_described(service: QueryService, sql: str) -> None:
    assert answer(service, sql) == answer(service, "DESCRIBE songs")


def test_tables_of_the_catalog_are_described(service: QueryService) -> None:
    found = answer(service, "DESCRIBE information_schema.schemata")
    assert found["column_name"].to_pylist() == TABLES["schemata"].schema.names
    assert answer(service, "SHOW TABLES FROM information_schema")["name"].to_pylist() == sorted(TABLES)
    assert answer(service, "SUMMARIZE information_schema.tables").num_rows == 13


@pytest.mark.parametrize(
    ("sql", "kind", "message"),
    [
        ("SELECT * FROM information_schema.nothing", NotFound, "information_schema has schemata, tables,"),
        ("SELECT * FROM other.information_schema.tables", NotFound, "There is no table other.inf"),
        ("DESCRIBE information_schema.nothing", NotFound, "There is no table"),
        ("SHOW nothing", NotFound, "There is no store nothing"),
        ("SHOW TABLES FROM nothing", NotFound, "There is no schema nothing"),
        ("SHOW SCHEMAS FROM main", InvalidInput, "SHOW SCHEMAS takes no name"),
        ("SHOW TABLES LIKE 's%'", Unsupported, "without LIKE, WHERE or LIMIT"),
        ("SHOW HOSTS LIMIT 3", Unsupported, "without LIKE, WHERE or LIMIT"),
        ("SHOW CREATE TABLE songs", Unsupported, "SHOW is followed by TABLES"),
        ("SHOW TABLES; SELECT 1", Unsupported, "SHOW is followed by TABLES"),
        ("USE nothing", NotFound, "There is no schema nothing to use"),
        ("EXPLAIN EXPLAIN SELECT 1", Unsupported, "EXPLAIN EXPLAIN is not supported: EXPLAIN a query"),
        ("EXPLAIN (FORMAT JSON) SHOW TABLES", Unsupported, "EXPLAIN SHOW is not supported"),
        ("SELECT * FROM ?", InvalidInput, "A parameter stands for a value, and not for a table"),
        ("DESCRIBE $name", InvalidInput, "A parameter stands for a value, and not for a table"),
        ("SELECT current_schema(1)", InvalidInput, "is not allowed"),
        (f"SELECT {', '.join(['user'] * 101)}", LimitExceeded, "more than 100 times"),
        ("SELECT * FROM pg_catalog.pg_class", NotFound, "There is no schema pg_catalog"),
    ],
)
def test_what_is_not_there_is_named(
    service: QueryService, sql: str, kind: type[LivestateError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        answer(service, sql)


def test_histories_and_switched_names_are_tables_and_answers_follow_them() -> None:
    source = MemorySource(
        [memory_view(PRICES, PRICES.schema.empty_table()), memory_view(SONGS, SCHEMA.empty_table())]
    )
    sql = "SELECT table_schema, table_name FROM information_schema.tables ORDER BY ALL"
    with closing(QueryService(source)) as service:
        before = [tuple(row.values()) for row in answer(service, sql).to_pylist()]
        assert before == [("history", "prices"), ("main", "prices"), ("main", "songs")]
        assert answer(service, "SHOW SCHEMAS")["schema_name"].to_pylist() == ["history", "main"]
        assert answer(service, "SHOW TABLES FROM history")["name"].to_pylist() == ["prices"]
        for _ in range(3):  # an answer that is asked for again is kept, unless it has no epoch
            assert answer(service, sql).num_rows == 3
        source.switches = {StoreName("quotes"): PRICES.name}
        assert answer(service, sql).num_rows == 5
