"""What other dialects mean: that what cannot be said is refused, and what is said twice stays small."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from engine.errors import LivestateError
from engine.service import QueryService, Session
from engine.sql.dialects.families import OTHERS
from engine.sql.dialects.meanings import REWRITES
from tests.support.memory_source import MemorySource


@pytest.fixture(scope="module")
def service() -> Iterator[QueryService]:
    with closing(QueryService(MemorySource([]))) as service:
        yield service


@pytest.mark.parametrize(
    ("dialect", "statement", "words"),
    [
        ("spark", "SELECT date_format(t, 'QQQ') FROM (SELECT now() AS t)", "template of a date has 'QQQ'"),
        ("postgres", "SELECT to_char(t, 'Day') FROM (SELECT now() AS t)", "template of a date has 'ay'"),
        ("snowflake", "SELECT get(a, 1) FROM (SELECT [1, 2] AS a)", "write a\\[0\\]"),
        ("mysql", "SELECT week(DATE '2024-01-01', 1)", "mode 0"),
        ("mysql", "SELECT substring_index(a, a, 1) FROM (SELECT 'x' AS a)", "literal delimiter"),
        ("spark", "SELECT array_join(a, b) FROM (SELECT array('x') AS a, 'y' AS b)", "joined by a literal"),
        ("bigquery", "SELECT x.a FROM UNNEST([STRUCT(1 AS a)]) AS x WITH OFFSET o", "arrays of structs"),
        ("spark", "SELECT 'a' LIKE ANY ('a\\\\_', 'b')", "without backslashes"),
        ("tsql", "SELECT 1 WHERE 'cat' LIKE '[a-c]at'", "set of characters"),
        ("snowflake", "SELECT TO_CHAR(1234.5, '9,999.00')", "use format for a number"),
        ("databricks", "SELECT to_char(12.5, a) FROM (SELECT '99' AS a)", "use format for a number"),
        ("trino", "SELECT split('a,b,c', ',', 2)", "without a limit"),
        ("spark", "SELECT split('a,b,c', ',', 2)", "without a limit"),
        ("spark", "SELECT last(a, true) FROM (SELECT 1 AS a)", "IGNORE NULLS"),
        ("postgres", "SELECT regexp_matches('abc', 'b')", "gives rows"),
        ("postgres", "SELECT to_char(DATE '2024-01-08', 'WW')", "have no WW"),
        ("postgres", "SELECT to_char(DATE '2024-01-08', 'D')", "have no D"),
        ("mysql", "SELECT DATE_FORMAT(DATE '2024-01-08', '%u')", "have no %u"),
        ("mysql", "SELECT DATE_FORMAT(DATE '2024-01-08', '%X%V')", "have no %X"),
        ("mysql", "SELECT YEARWEEK(DATE '2024-01-08')", "YEARWEEK"),
        ("tsql", "SELECT DATENAME(quarter, '2024-01-08')", "use DATEPART"),
        (
            "tsql",
            "SELECT DATETRUNC(week, a) FROM (SELECT CAST('2024-01-08' AS DATE) AS a) AS t",
            "on Sundays",
        ),
        ("bigquery", "SELECT PARSE_TIMESTAMP('%Y', '2024', 'Asia/Tokyo')", "have the zone in the text"),
        ("spark", "SELECT hash(1)", "HASH has other values"),
        ("snowflake", "SELECT hash(1)", "HASH has other values"),
        ("trino", "SELECT skewness(a) FROM (SELECT 1 AS a)", "that of a population"),
        (
            "spark",
            "SELECT k FROM (SELECT 1 AS k) LATERAL VIEW OUTER explode(map(1, 2)) m AS a, b",
            "explode and posexplode alone",
        ),
    ],
)
def test_what_cannot_be_said_is_refused(
    service: QueryService, dialect: str, statement: str, words: str
) -> None:
    with pytest.raises(LivestateError, match=words):
        service.execute(statement, session=Session(dialect=dialect)).read_all()


@pytest.mark.parametrize("dialect", sorted(OTHERS))
def test_a_node_has_one_meaning_in_a_dialect(dialect: str) -> None:
    kinds = [kind for kinds, dialects, _ in REWRITES if dialect in dialects for kind in kinds]
    assert len(kinds) == len({*kinds})


@pytest.mark.parametrize(
    ("dialect", "around"),
    [
        ("spark", "substring('abc', {}, 1)"),
        ("postgres", "substr('abc', {}, 1)"),
        ("mysql", "substring({}, k)"),
        ("postgres", "sum({}) / max(k)"),
    ],
)
def test_what_is_said_twice_does_not_grow_with_each_level(
    service: QueryService, dialect: str, around: str
) -> None:
    text = "k"
    for _ in range(30):
        text = around.format(text)
    with pytest.raises(LivestateError):
        service.execute(f"SELECT {text} FROM (SELECT 1 AS k)", session=Session(dialect=dialect)).read_all()


@pytest.mark.parametrize("dialect", ["postgres", "trino", "tsql"])
def test_columns_are_called_by_what_was_written(service: QueryService, dialect: str) -> None:
    statement = "SELECT a / 2, CAST(a AS INT) FROM (SELECT 7 AS a) AS t"
    found = service.execute(statement, session=Session(dialect=dialect)).read_all()
    assert found.column_names == ["a / 2", "CAST(a AS INT)"]
