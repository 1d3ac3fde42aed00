"""Which merges can read rows as they come."""

from __future__ import annotations

import pytest
import sqlglot

from engine.plan.split.streamed_merges import is_read_once
from engine.sql.engine_dialect import EngineDialect


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a, sum(b) FROM __part_0 GROUP BY a",
        "SELECT * FROM __part_0 AS t ORDER BY a LIMIT 3",
        "SELECT DISTINCT a FROM (SELECT a FROM __part_0 WHERE b > 1)",
        "SELECT sum(a) OVER (PARTITION BY b) FROM __part_0",
        "SELECT (SELECT 1), a FROM __part_0",
    ],
)
def test_one_table_that_is_read_once(sql: str) -> None:
    assert is_read_once(sqlglot.parse_one(sql, dialect=EngineDialect), "__part_0")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM __part_0 AS a, __part_0 AS b",
        "SELECT * FROM __part_0 JOIN __part_1 USING (a)",
        "SELECT * FROM __part_0 WHERE a IN (SELECT a FROM __list_0)",
        "SELECT * FROM __part_0, range(3)",
        "SELECT * FROM __part_0 JOIN (VALUES (1)) AS v(a) USING (a)",
        "WITH c AS (SELECT * FROM __part_0) SELECT * FROM c UNION ALL SELECT * FROM c",
        "SELECT * FROM __part_0 UNION SELECT * FROM __part_0",
        "SELECT * FROM __part_0, LATERAL (SELECT a + 1)",
        "PIVOT __part_0 ON a USING sum(b)",
        "SUMMARIZE __part_0",
        "SELECT * FROM __part_1",
        "SELECT 1",
    ],
)
def test_all_else_waits_for_its_tables(sql: str) -> None:
    assert not is_read_once(sqlglot.parse_one(sql, dialect=EngineDialect), "__part_0")
