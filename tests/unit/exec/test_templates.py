"""A statement answers the same with parameters in place of its values as it does as it is written."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest

from engine.errors import InvalidInput, LivestateError, NotFound
from engine.model.schema import StoreName, define_store
from engine.service import QueryService
from engine.statements.least_recently_used import CacheLimits
from engine.statements.templates import Templates
from tests.oracle.plain_duckdb import put_literals
from tests.oracle.queries import make_query
from tests.oracle.run import dataset_of
from tests.support.memory_source import MemorySource, memory_view

QUERIES = 50
AS_WRITTEN = "\n--"
"""Behind a text: one with a comment is read as it is written."""
STORE = define_store(
    "plays",
    pa.schema(
        [
            ("song", pa.int32()),
            ("genre", pa.string()),
            ("price", pa.decimal128(6, 2)),
            ("score", pa.float64()),
            ("day", pa.date32()),
            ("moment", pa.timestamp("us")),
        ]
    ),
    ["song"],
    partitions=1,
)
TABLES = {StoreName("plays"): STORE}


def _parametrize(sql: str) -> tuple[str, list[object]] | None:
    found = Templates(CacheLimits(10)).parametrize(sql, TABLES)
    return None if found is None else (found.text, [value.as_py() for value in found.values])


@pytest.mark.parametrize(
    ("sql", "text", "values"),
    [
        ("SELECT * FROM plays WHERE song = 3", "SELECT * FROM plays WHERE song =  $1 ", [3]),
        (
            "SELECT * FROM plays WHERE song BETWEEN -5 AND -3 AND genre > 'x''y' LIMIT 5",
            "SELECT * FROM plays WHERE song BETWEEN  $1  AND  $2  AND genre >  $3  LIMIT 5",
            [-5, -3, "x'y"],
        ),
        (
            "SELECT 7, sum(score) FROM plays WHERE song IN (1, 2) GROUP BY 1 ORDER BY 1",
            "SELECT 7, sum(score) FROM plays WHERE song IN ( $1 ,  $2 ) GROUP BY 1 ORDER BY 1",
            [1, 2],
        ),
        (
            "SELECT a.song FROM plays a JOIN plays b ON a.song = b.song AND b.song > 4 WHERE a.genre = '1'",
            (
                "SELECT a.song FROM plays a JOIN plays b ON a.song = b.song AND b.song >  $1  "
                "WHERE a.genre =  $2 "
            ),
            [4, "1"],
        ),
    ],
)
def test_values_that_columns_are_compared_with_become_parameters(
    sql: str, text: str, values: list[object]
) -> None:
    assert _parametrize(sql) == (text, values)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "SELECT * FROM plays LIMIT 5",
        "SELECT substring(genre, 2) FROM plays",
        "SELECT (SELECT max(score) FROM plays WHERE song = 3) FROM plays",
        "SELECT count(*) FILTER (WHERE song = 3) FROM plays",
        "SELECT * FROM plays WHERE moment > now() - INTERVAL '1' HOUR",
        "SELECT * FROM plays WHERE day = DATE '2024-01-01'",
        "SELECT * FROM plays WHERE song + 1 = 3",
        "SELECT * FROM plays WHERE genre LIKE 'a%'",
        "SELECT song AS price FROM plays WHERE price = 3",
        "SELECT * FROM (SELECT genre AS song FROM plays) WHERE song = 'a'",
        "WITH plays AS (SELECT 'a' AS song) SELECT * FROM plays WHERE song = 'a'",
        "SELECT * FROM plays WHERE song = '3'",
        "SELECT * FROM plays WHERE genre = 3",
        "SELECT * FROM plays WHERE song = 3000000000",
        "SELECT * FROM plays WHERE price = 100000",
        "SELECT * FROM plays WHERE day = '2024-1-1'",
        "SELECT * FROM plays WHERE genre COLLATE NOCASE = 'a'",
        "EXPLAIN SELECT * FROM plays WHERE song = 3",
        "DESCRIBE SELECT * FROM plays WHERE song = 3",
        "SELECT * FROM plays WHERE song = 3 --",
        "SELECT * FROM plays WHERE nothing = 3",
        f"SELECT * FROM plays WHERE song IN ({', '.join(map(str, range(100)))})",
    ],
)
def test_all_other_literals_stay(sql: str) -> None:
    assert _parametrize(sql) is None


def test_a_literal_is_a_value_of_its_columns_type() -> None:
    types = {
        "song = 3": pa.int32(),
        "price <= 3": pa.decimal128(6, 2),
        "score <> 3": pa.float64(),
        "day >= '2024-01-31'": pa.date32(),
        "moment < '2024-01-31 12:00:00'": pa.timestamp("us"),
    }
    for condition, arrow_type in types.items():
        found = Templates(CacheLimits(10)).parametrize(f"SELECT 1 FROM plays WHERE {condition}", TABLES)
        assert found is not None
        assert [value.type for value in found.values] == [arrow_type], condition


def test_a_store_of_other_types_is_another_template() -> None:
    templates = Templates(CacheLimits(10))
    sql = "SELECT * FROM plays WHERE song = 3"
    other = define_store("plays", pa.schema([("song", pa.string())]), ["song"], partitions=1)
    assert templates.parametrize(sql, TABLES) is not None
    assert templates.parametrize(sql, {StoreName("plays"): other}) is None
    assert templates.parametrize(sql, TABLES) is not None


@pytest.fixture(scope="module", params=range(3))
def asked(request: pytest.FixtureRequest) -> Iterator[tuple[int, QueryService]]:
    seed = int(request.param) * 100 + 77_300
    dataset = dataset_of(seed, 1)
    source = MemorySource([memory_view(store.definition, store.live, store.dead) for store in dataset.stores])
    service = QueryService(source)
    try:
        yield seed, service
    finally:
        service.close()


def test_texts_answer_as_they_are_written(asked: tuple[int, QueryService]) -> None:
    """Queries of the oracle, which compares the values: here it is names, types and rows."""
    seed, service = asked
    dataset = dataset_of(seed, 1)
    compared = 0
    for number in range(QUERIES):
        query = make_query(dataset, seed, number)
        sql = put_literals(query.sql, query.parameters)
        answers = []
        for text in (sql, sql, f"{sql}{AS_WRITTEN}"):
            try:
                with service.execute(text) as result:
                    answers.append(result.read_all())
            except (LivestateError, duckdb.Error) as error:
                answers.append(str(error))
        by_template, again, written = answers
        if isinstance(written, str) or isinstance(by_template, str) or isinstance(again, str):
            assert by_template == again == written, sql
            continue
        compared += 1
        assert by_template.schema == again.schema == written.schema, sql
        assert by_template.num_rows == again.num_rows == written.num_rows, sql
    assert compared > QUERIES // 2


def test_an_error_shows_its_place_in_the_text_as_it_is_written() -> None:
    table = pa.Table.from_batches([], STORE.schema)
    service = QueryService(MemorySource([memory_view(STORE, table)]))
    try:
        for condition in ("song = 1 OR x = 2", "song = 12345 AND nothing = 4"):
            sql = f"SELECT max(song) FROM plays WHERE {condition}"
            by_template, written = _refusal(service, sql), _refusal(service, f"{sql}{AS_WRITTEN}")
            assert by_template.message == written.message
            assert by_template.position == written.position
    finally:
        service.close()


def _refusal(service: QueryService, sql: str) -> InvalidInput | NotFound:
    with pytest.raises((InvalidInput, NotFound)) as raised:
        service.execute(sql)
    assert isinstance(raised.value, InvalidInput | NotFound)
    return raised.value
