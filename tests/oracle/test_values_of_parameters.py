"""Parameters whose values, and not their types alone, say what a function gives: on any number of hosts it is
what plain DuckDB gives for the values as literals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from engine.service import QueryService
from tests.oracle.comparison import difference
from tests.oracle.kinds import Trust
from tests.oracle.plain_duckdb import PlainDuckDB
from tests.oracle.systems import cluster_in
from tests.oracle.written import written_dataset

STATEMENTS = (
    ("SELECT k, tags[$1], usr[$1], to_json(tags)[$1] FROM plays", "2"),
    ("SELECT tags[-$1] AS t, count(*), max(usr[$1 + 1]) FROM plays GROUP BY t", "1"),
    ("SELECT [10, 20, 30][$1], MAP {1: 'a', 2: 'b'}[$1]", "CAST(1 AS BIGINT)"),
    ("SELECT k, s[$1] FROM plays", "'x'"),
    ("SELECT s[$1] AS f, count(*), max(struct_extract(s, $1)) FROM plays GROUP BY f", "'y'"),
    ("SELECT k, date_part($1, day) FROM plays", "'year'"),
    ("SELECT k, date_part($1, day) FROM plays", "'epoch'"),
    ("SELECT max(date_part($1, day)), count(*) FROM plays", "'month'"),
    ("SELECT k, date_part($1, day) FROM plays", "['year', 'month']"),
    ("SELECT k, round(price, $1) FROM plays WHERE round(price, $1) > 100", "1"),
    ("SELECT k, trunc(price, $1) FROM plays", "0"),
    ("SELECT usr, quantile_cont(k, $1), quantile_disc(n, $1) FROM plays GROUP BY usr", "0.5"),
    ("SELECT percentile_cont($1) WITHIN GROUP (ORDER BY k) FROM plays", "0.25"),
    ("SELECT quantile_cont(k, $1) FROM plays", "[0.1, 0.5]"),
    ("SELECT id, list_aggregate(l, $1) FROM nums", "'avg'"),
    ("SELECT k, regexp_matches(usr, 'U1', $1) FROM plays", "'i'"),
    ("SELECT k, regexp_extract(usr, '(u)(.)', $1) FROM plays", "['a', 'b']"),
    ("SELECT k, json_extract_string(to_json(s), $1) FROM plays", "'$.*'"),
    ("SELECT k, json_transform(to_json(s), $1) FROM plays", '\'{"x": "BIGINT"}\''),
    ("SELECT COLUMNS($1) FROM plays", "['k', 'usr']"),
)


@pytest.fixture(scope="module")
def plain() -> PlainDuckDB:
    return PlainDuckDB(written_dataset(1).live)


@pytest.fixture(scope="module", params=[1, 3], ids=lambda hosts: f"{hosts} hosts")
def services(request: pytest.FixtureRequest) -> Iterator[Sequence[QueryService]]:
    with cluster_in(replace(written_dataset(1), hosts=request.param)) as cluster:
        yield tuple(cluster.services.values())


@pytest.fixture
def service(services: Sequence[QueryService]) -> QueryService:
    return services[0]


def check(found: pa.Table, expected: pa.Table) -> None:
    """Columns are named by the text, which has another value in it."""
    expected = expected.rename_columns(found.column_names)
    assert found.schema.types == expected.schema.types
    assert difference(expected, found, [Trust.EQUAL] * expected.num_columns, ()) is None


@pytest.mark.parametrize(("sql", "literal"), STATEMENTS)
def test_a_value_decides_what_a_call_gives(
    service: QueryService, plain: PlainDuckDB, sql: str, literal: str
) -> None:
    expected = plain.answer(sql, (literal,))
    values = plain.row_of_literals((literal,))
    assert values is not None
    for _ in range(2):
        with service.execute(sql, values) as result:
            check(result.read_all(), expected)
    assert service.prepare(sql, given=lambda: values).schema.types == expected.schema.types


def test_the_next_value_makes_another_type(service: QueryService, plain: PlainDuckDB) -> None:
    sql = "SELECT k, date_part($1, day) FROM plays"
    for literal in ("'epoch'", "'year'", "'epoch'", "'day'"):
        with service.execute(sql, plain.row_of_literals((literal,))) as result:
            check(result.read_all(), plain.answer(sql, (literal,)))


def test_a_host_that_has_all_of_it_runs_the_statement(
    services: Sequence[QueryService], plain: PlainDuckDB
) -> None:
    for literal in ("'year'", "['year', 'month']", "'epoch'"):
        for k in (7, 8, 9):
            sql = f"SELECT date_part($1, day) FROM plays WHERE k = {k}"
            for service in services:
                with service.execute(sql, plain.row_of_literals((literal,))) as result:
                    check(result.read_all(), plain.answer(sql, (literal,)))


def test_what_is_prepared_needs_no_values(service: QueryService) -> None:
    for sql, _ in STATEMENTS:
        # The argument of this one is a name, and any that one could try would be a guess.
        if "list_aggregate" not in sql:
            assert len(service.prepare(sql).parameters) == 1, sql
