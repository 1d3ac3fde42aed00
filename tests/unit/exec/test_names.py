"""Names of result columns that the text gives none, and types of parameters whose places suggest none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime

import duckdb
import pyarrow as pa
import pytest

from engine.cluster.reports import HostName
from engine.errors import LimitExceeded, NotFound
from engine.service import QueryOptions, QueryService, Session
from engine.sql.bind import bind
from engine.sql.engine_dialect import EngineDialect
from engine.sql.literals import lift
from engine.sql.parse import parse
from engine.statements import column_names
from tests.support.local_cluster import memory_cluster
from tests.support.memory_source import MemorySource, memory_view
from tests.support.prepared import execute_prepared
from tests.unit.exec.conftest import DEAD, PLAYS, ROWS, SONGS, TITLES

OPTIONS = QueryOptions(memory_limit_bytes=200 << 20, threads=2)
HOSTS = [HostName(name) for name in "abc"]
NAMED_BY_DUCKDB = (
    "SELECT count(*), sum(count), max_by(song_id, count), min_by(song_id, count), avg(count + 1) FROM plays",
    "SELECT (SELECT min(t.count) FROM plays t) FROM plays",
    "SELECT (SELECT min(count) FROM plays), genre FROM plays GROUP BY ALL",
    "SELECT EXISTS (SELECT 1 FROM plays p WHERE p.song_id = 3), 1 IN (SELECT song_id FROM plays)",
    (
        "SELECT CAST(count AS TEXT), count::INT, genre IS NOT NULL, -count, count % 3, genre LIKE 'r%', NOT "
        "count > 2 FROM plays"
    ),
    (
        "SELECT CASE WHEN count > 3 THEN 'a' ELSE 'b' END, [count, 1], {'a': count}, genre[1], genre || "
        "'x' FROM plays"
    ),
    "SELECT plays.count * 2, PLAYS.Genre, upper(PLAYS.Genre) FROM plays",
    'SELECT max("Song Id"), count(DISTINCT title) FILTER (WHERE title > \'a\') FROM "My Songs"',
    "SELECT * FROM (SELECT sum(count), genre FROM plays GROUP BY genre)",
    "WITH x AS (SELECT max(count) FROM plays) SELECT * FROM x",
    "SELECT count + 1 FROM plays UNION ALL SELECT song_id FROM plays",
    "SELECT row_number() OVER (PARTITION BY genre ORDER BY count) FROM plays",
    "SELECT min(COLUMNS('(song_id|count)')) FROM plays",
    "SELECT *, count + 1 FROM plays",
    "SELECT t.*, 1 + 1 FROM main.plays AS t -- a comment",
    "FROM plays SELECT count(*)",
    "SELECT 1 + 1, 'x', current_date",
    "SELECT song_id, count FROM plays WHERE count > 2",
)


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as connection:
        connection.register("plays", ROWS.cast(PLAYS.schema))
        connection.register("My Songs", TITLES.cast(SONGS.schema))
        yield connection


def services() -> Iterator[QueryService]:
    """A host with dead rows, one without, and one among three."""
    for dead in (DEAD, None):
        service = QueryService(
            MemorySource([memory_view(PLAYS, ROWS, dead), memory_view(SONGS, TITLES)]), OPTIONS
        )
        yield service
        service.close()
    with memory_cluster(
        [PLAYS, SONGS], {"plays": ROWS, "My Songs": TITLES}, HOSTS, {"plays": DEAD}, OPTIONS
    ) as cluster:
        yield from cluster.services.values()


def names(service: QueryService, sql: str) -> tuple[list[str], list[str], list[str]]:
    """The names of a statement's columns: prepared, executed, and described."""
    with service.execute(sql) as result, service.execute(f"DESCRIBE {sql}") as described:
        return (
            service.prepare(sql).schema.names,
            result.read_all().schema.names,
            described.read_all().column(0).to_pylist(),
        )


def test_columns_are_named_as_duckdb_names_them(plain: duckdb.DuckDBPyConnection) -> None:
    for service in services():
        for sql in NAMED_BY_DUCKDB:
            expected = plain.sql(sql).columns
            assert names(service, sql) == (expected, expected, expected), sql


@pytest.mark.parametrize(
    ("sql", "dialect", "expected"),
    [
        (
            "SELECT (SELECT min(t.count) FROM plays t) FROM plays",
            "spark",
            ["(SELECT MIN(t.count) FROM plays AS t)"],
        ),
        (
            (
                "SELECT (SELECT min(p.count) FROM plays p), * FROM (PIVOT plays ON genre USING sum(count) "
                "GROUP BY song_id)"
            ),
            "duckdb",
            ["(SELECT MIN(p.count) FROM plays AS p)", "song_id", "pop", "rock"],
        ),
        ("SELECT max(count) FROM livestate.main.plays", "duckdb", ["max(count)"]),
    ],
)
def test_no_name_of_a_scan_is_seen_where_duckdb_has_no_name_to_give(
    sql: str, dialect: str, expected: list[str]
) -> None:
    session = Session(dialect=dialect)
    for service in services():
        with service.execute(sql, session=session) as result:
            assert result.read_all().schema.names == expected
        assert service.prepare(sql, session).schema.names == expected


def test_a_long_list_in_a_name_is_that_of_the_text(plain: duckdb.DuckDBPyConnection) -> None:
    for service in services():
        for first in (1, 2):
            listed = ", ".join(map(str, range(first, first + 100)))
            sql = f"SELECT song_id IN ({listed}) FROM plays WHERE count IN ({listed})"
            assert names(service, sql)[:2] == (plain.sql(sql).columns,) * 2
            assert service.prepare(
                f"SELECT count(*) FROM plays WHERE count + 1 IN ({listed})"
            ).schema.names == ["count_star()"]


def test_parameters_are_named_as_they_are_written() -> None:
    for service in services():
        given = pa.record_batch({"1": pa.array([2], pa.int64())})
        for sql in ("SELECT count + $1 FROM plays", "SELECT count + ? FROM plays"):
            with service.execute(sql, given) as result:
                assert result.read_all().schema.names == service.prepare(sql).schema.names == ["(count + $1)"]
        with service.execute("SELECT count + $n FROM plays", given.rename_columns(["n"])) as result:
            assert (
                result.read_all().schema.names
                == service.prepare("SELECT count + $n FROM plays").schema.names
                == ["(count + $n)"]
            )


MOMENT = datetime(2024, 5, 17, 12)  # noqa: DTZ001 - a TIMESTAMP has no zone


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("SELECT quantile_cont(count, ?) FROM plays", pa.scalar(0.5)),
        ("SELECT quantile_disc(count, $1) FROM plays", pa.scalar(0.5)),
        ("SELECT extract(year FROM ?), count(*) FROM plays", pa.scalar(MOMENT)),
        ("SELECT date_trunc('month', ?) FROM plays", pa.scalar(MOMENT)),
        ("SELECT ? AT TIME ZONE 'Europe/Berlin'", pa.scalar(MOMENT)),
        ("SELECT * FROM unnest(?)", pa.scalar([1, 2])),
        ("SELECT list_sort($1)", pa.scalar([2, 1])),
    ],
)
def test_a_parameter_that_must_be_of_some_type_is_named_as_it_is_written(
    sql: str, value: pa.Scalar, plain: duckdb.DuckDBPyConnection
) -> None:
    given = pa.record_batch([pa.array([value.as_py()], value.type)], ["1"])
    expected = plain.sql(sql, params=[value.as_py()]).columns
    for service in services():
        with service.execute(sql, given) as result:
            assert result.read_all().schema.names == expected
        assert service.prepare(sql).schema.names == expected


def test_stores_that_are_told_apart_by_case_alone() -> None:
    other = type(PLAYS)(**{**vars(PLAYS), "name": "Plays"})
    service = QueryService(MemorySource([memory_view(PLAYS, ROWS, DEAD), memory_view(other, ROWS)]), OPTIONS)
    sql = 'SELECT (SELECT max(count) FROM "plays"), (SELECT count(*) FROM "Plays")'
    with service.execute(sql) as result:
        assert not any("scan" in name for name in result.schema.names)
        assert list(result.read_all().to_pylist()[0].values()) == [10, 20]
    service.close()


def test_names_follow_a_store_that_is_defined_anew() -> None:
    source = MemorySource([memory_view(PLAYS, ROWS)])
    service = QueryService(source, OPTIONS)
    assert service.prepare("SELECT *, 1 + 1 FROM plays").schema.names == [
        "song_id",
        "genre",
        "count",
        "(1 + 1)",
    ]
    columns = pa.table({"song_id": [1], "listeners": [2]})
    fewer = type(PLAYS)(
        **{**vars(PLAYS), "schema": pa.schema([PLAYS.schema.field(0), pa.field("listeners", pa.int64())])}
    )
    source.views[fewer.name] = memory_view(fewer, columns)
    assert service.prepare("SELECT *, 1 + 1 FROM plays").schema.names == ["song_id", "listeners", "(1 + 1)"]
    service.close()


def test_a_parameter_next_to_a_derived_column_is_typed_by_the_engine() -> None:
    derived = "SELECT song_id, TIMESTAMP '1970-01-01' + to_days(song_id::INT) AS k FROM plays"
    sql = f"SELECT d.song_id FROM ({derived}) d WHERE d.k BETWEEN $1 AND TIMESTAMP '1970-01-05'"
    for service in services():
        prepared = service.prepare(sql)
        assert prepared.schema == pa.schema([pa.field("song_id", pa.int64())])
        assert len(prepared.parameters) == 1
        given = pa.record_batch({"1": pa.array([2 * 86_400_000_000], pa.timestamp("us"))})
        with execute_prepared(service, prepared, given) as result:
            assert sorted(result.read_all().column(0).to_pylist()) == [2, 3, 4]


def test_a_parameter_that_stands_alone_is_text() -> None:
    service = QueryService(MemorySource([memory_view(PLAYS, ROWS)]), OPTIONS)
    assert service.prepare("SELECT $1 AS x").schema == pa.schema([pa.field("x", pa.string())])
    service.close()


PARAMETER_TYPES = [
    *(pa.bool_(), pa.int8(), pa.uint64(), pa.float32(), pa.float64(), pa.decimal128(18, 4), pa.string()),
    *(pa.binary(), pa.date32(), pa.time64("us"), pa.timestamp("us"), pa.timestamp("us", "UTC")),
    *(pa.timestamp("ms"), pa.timestamp("ns", "UTC"), pa.list_(pa.int64())),
]


@pytest.mark.parametrize("arrow_type", PARAMETER_TYPES, ids=str)
def test_a_sample_of_every_type_can_be_made(arrow_type: pa.DataType) -> None:
    """It stands for a parameter where the engine does not bind a text with NULLs."""
    sample = column_names.sample_value(arrow_type)
    assert pa.scalar(sample, arrow_type).is_valid


def test_names_within_each_other_grow_with_their_text_alone() -> None:
    """Each level had the name of the one within it twice: 23 of them took 4 GB."""
    for inner in ("count + 0 FROM plays", "count + 0"):
        nested = f"(SELECT {inner})"
        for _ in range(15):
            nested = f"abs((SELECT abs({nested})))"
        sql = f"SELECT {nested} FROM plays"
        bound = bind(parse(lift(sql, "duckdb"), "duckdb"), (), {PLAYS.name: PLAYS})
        assert bound.tree is not None
        assert len(bound.tree.sql(dialect=EngineDialect)) < 20 * len(sql)


def test_names_within_each_other_are_bounded_together() -> None:
    nested = "(SELECT count + 0 FROM plays)"
    for _ in range(18):
        nested = f"abs((SELECT concat({nested}, '{'x' * 20_000}')))"
    with pytest.raises(LimitExceeded, match="name them with AS"):
        bind(parse(lift(f"SELECT {nested}", "duckdb"), "duckdb"), (), {PLAYS.name: PLAYS})


@pytest.mark.parametrize(
    "sql",
    [
        'SELECT "__live" FROM plays',
        "SELECT count(*) FROM plays WHERE __LIVE = 0",
        "SELECT count(*), sum(p.__live) FROM plays p",
        "SELECT 1 FROM plays p, plays q WHERE p.__live < q.__live",
    ],
)
def test_what_a_scan_has_besides_its_columns_is_no_column(sql: str) -> None:
    with closing(QueryService(MemorySource([memory_view(PLAYS, ROWS, DEAD)]), OPTIONS)) as service:
        with pytest.raises(NotFound, match=r"(?i)there is no column __live"):
            service.execute(sql)
        with service.execute("SELECT count(*) AS __live FROM plays") as result:
            assert pa.Table.from_batches(list(result)).to_pydict() == {"__live": [ROWS.num_rows]}
