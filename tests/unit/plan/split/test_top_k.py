"""ORDER BY and LIMIT over hosts."""

from __future__ import annotations

import pytest
from sqlglot import exp

from engine.plan.split.rules.top_k import top_k
from engine.sql.engine_dialect import EngineDialect
from tests.unit.plan.split.random_rows import COLUMNS, check_many
from tests.unit.plan.split.spread import PART, Spread

ORDERED = [
    "SELECT i, v FROM t ORDER BY i, v, x LIMIT 3 OFFSET 2",
    "SELECT i, v FROM t ORDER BY i DESC NULLS FIRST, v COLLATE NOCASE, v LIMIT 5",
    'SELECT x AS q FROM t ORDER BY "q" DESC LIMIT 4',
    "SELECT x + 1 AS q, d FROM t ORDER BY x + 1, d LIMIT 4",
    "SELECT g AS q FROM t ORDER BY -b::HUGEINT, g LIMIT 1 + 2",
    "SELECT h AS q FROM t WHERE p ORDER BY length(v) DESC, ts NULLS FIRST, h LIMIT 7",
    "SELECT d AS a FROM t ORDER BY d",
    "SELECT d AS a FROM t ORDER BY d OFFSET 2",
    "SELECT 1 AS a FROM t LIMIT 3 OFFSET 1",
    "SELECT 1 AS a FROM t LIMIT 9223372036854775807 OFFSET 1",
    "SELECT d AS a, 'k' AS c FROM t WHERE p ORDER BY d LIMIT NULL OFFSET 1",
    "SELECT d AS a FROM t ORDER BY d LIMIT (2) OFFSET (1 + 1)",
    "SELECT d AS a FROM t ORDER BY d LIMIT 2 OFFSET NULL",
    "SELECT d AS a FROM t ORDER BY d LIMIT 0",
    "SELECT l AS a, {'k': v} AS s FROM t ORDER BY l DESC, {'k': v} LIMIT 4",
]

NOT_SPLIT = [
    "SELECT i FROM t",
    "SELECT i FROM t LIMIT 10 PERCENT",
    "SELECT i FROM t ORDER BY i LIMIT 3 WITH TIES",
    "SELECT i FROM t LIMIT (SELECT 3)",
    "SELECT i FROM t ORDER BY random() LIMIT 1",
    "SELECT now() FROM t LIMIT 1",
    "SELECT i FROM t ORDER BY 1 LIMIT 1",
    "SELECT sum(i) FROM t LIMIT 1",
    "SELECT row_number() OVER () FROM t LIMIT 1",
    "SELECT i FROM t ORDER BY rank() OVER (ORDER BY i) LIMIT 1",
    "SELECT DISTINCT i FROM t LIMIT 1",
    "SELECT v COLLATE NOCASE AS v FROM t ORDER BY v LIMIT 1",
    "SELECT v FROM t ORDER BY lower(v COLLATE NOCASE) LIMIT 1",
    'SELECT i AS a, d AS a FROM t ORDER BY "a" LIMIT 1',
    "SELECT (SELECT 1) FROM t LIMIT 1",
    "SELECT unnest(l) FROM t LIMIT 1",
    "SELECT * FROM t LIMIT 1",
]


@pytest.mark.parametrize("sql", ORDERED)
def test_the_first_rows(sql: str) -> None:
    check_many(sql, top_k, ordered=True)


@pytest.mark.parametrize("sql", NOT_SPLIT)
def test_what_is_not_split(sql: str) -> None:
    assert top_k(Spread(COLUMNS, [], 1, 0).select(sql), PART) is None


@pytest.mark.parametrize(
    ("clauses", "limit"),
    [
        ("ORDER BY i LIMIT 3 OFFSET 4", "7"),
        ("ORDER BY i LIMIT 3", "3"),
        ("LIMIT $1", "$1"),
        ("LIMIT $1 OFFSET $2", "LEAST(CAST($1 AS INT128) + CAST($2 AS INT128), 9223372036854775807)"),
        ("LIMIT 9223372036854775807 OFFSET 1", None),
        ("ORDER BY i OFFSET 4", None),
    ],
)
def test_how_many_rows_hosts_send(clauses: str, limit: str | None) -> None:
    split = top_k(Spread(COLUMNS, [], 1, 0).select(f"SELECT i FROM t {clauses}"), PART)
    assert split is not None
    found = split.partial.args.get("limit")
    assert (found.expression.sql(dialect=EngineDialect) if isinstance(found, exp.Limit) else None) == limit
    assert ("order" in split.partial.args and split.partial.args["order"] is not None) == (
        limit is not None and "ORDER" in clauses
    )
    assert all(
        split.merge.args.get(clause) is not None
        for clause in ("limit", "offset", "order")
        if clause[:5].upper() in clauses
    )
